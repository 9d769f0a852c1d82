"""Several wheels in one run."""

import os
import sys
from pathlib import Path

import wheelfix
from tests.support.build import extension, make_wheel, shared_object
from tests.support.environment import ENVIRON
from wheelfix.pipelines.repair_many import repair_many
from wheelfix.settings import PruneNeeded, Settings

PYTHON = f"cp3{sys.version_info.minor}"
TAG = f"{PYTHON}-{PYTHON}-linux_{os.uname().machine}"


def a_wheel(folder: Path) -> Path:
    module = extension(folder / "build" / "_m.so", "_m")
    files: dict[str, bytes | str | Path] = {"pkg/__init__.py": b"", "pkg/_m.so": module}
    return make_wheel(folder / "dist", "pkg", "1.0", TAG, files)


def test_no_wheel_of_the_run_is_replaced_by_the_output_of_another(tmp_path: Path) -> None:
    linux = a_wheel(tmp_path)
    alone = wheelfix.repair(linux, Settings(wheel_dir=tmp_path / "out"), environ=ENVIRON)
    assert alone.output is not None
    other = linux.with_name(alone.output.name)
    other.write_bytes(linux.read_bytes())
    before = other.read_bytes()
    outcomes = wheelfix.repair_all(
        [linux, other], Settings(wheel_dir=tmp_path / "dist"), environ=ENVIRON
    )
    assert other.read_bytes() == before
    assert outcomes[0].output is None
    assert "is an input of this run" in str(outcomes[0].error)


def test_a_shared_exclude_is_unmatched_if_no_wheel_of_the_run_has_its_library(
    tmp_path: Path,
) -> None:
    """It is said once, with the last wheel; a name that is near is said with its own wheel."""
    library = shared_object(tmp_path / "libleft.so.1", soname="libleft.so.1")
    needing = shared_object(tmp_path / "libuser.so", needed=[library])
    wheels = [
        make_wheel(tmp_path / "dist", name, "1.0", TAG, {f"{name}/libuser.so": of})
        for name, of in (("alone", library), ("needing", needing), ("last", library))
    ]

    def unmatched(*patterns: str) -> list[list[str | None]]:
        settings = Settings(
            wheel_dir=tmp_path / "out", exclude=patterns, prune_needed=PruneNeeded.OFF
        )
        environ = {**ENVIRON, "LD_LIBRARY_PATH": str(tmp_path)}
        outcomes = repair_many(wheels, lambda _: settings, environ, tmp_path)
        return [[f.entry for f in o.remaining if f.code == "WF802"] for o in outcomes]

    assert unmatched("libleft.so.*", "libnone.so*") == [[], [], ["libnone.so*"]]
    assert unmatched("libleft.so") == [[], ["libleft.so"], ["libleft.so"]]
    # A wheel without objects, which is refused, is not taken for one where the pattern matches.
    wheels.insert(0, make_wheel(tmp_path / "dist", "pure", "1.0", "py3-none-any", {"pure.py": ""}))
    assert unmatched("libnone.so*") == [[], [], [], ["libnone.so*"]]
