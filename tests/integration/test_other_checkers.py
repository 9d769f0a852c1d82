"""A wheel with six defects that every other checker misses."""

import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from tests.support.build import extension, make_wheel, shared_object
from wheelfix import check
from wheelfix.settings import Settings

DEFECTS = {
    "undefined-symbol": "demo/_core.abi3.so",
    "executable-stack": "demo/_core.abi3.so",
    "unused-needed": "demo/_core.abi3.so",
    "absolute-entry": "demo/_core.abi3.so",
    "record-mismatch": "demo/__init__.py",
    "tags-differ": "demo-1.0.dist-info/WHEEL",
}
CHECKERS = {
    "check-wheel-contents": ["check-wheel-contents"],
    "twine": ["twine", "check", "--strict"],
    "abi3audit": ["abi3audit", "--strict"],
    "auditwheel": ["auditwheel", "show"],
    "pydistcheck": ["pydistcheck"],
}
METADATA = "Summary: six defects\nDescription-Content-Type: text/plain\n\nSix defects.\n"


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("six")
    unused = shared_object(folder / "build" / "libunused.so", "int unused(void) { return 1; }")
    module = extension(
        folder / "_core.abi3.so",
        "_core",
        calls=["not_there"],
        needed=[unused],
        runpath=str(unused.parent),
        flags=["-Wl,-z,execstack", "-Wl,--no-as-needed", "-Wl,--unresolved-symbols=ignore-all"],
    )
    made = make_wheel(
        folder / "made",
        tag="cp310-abi3-manylinux_2_17_x86_64",
        files={"demo/__init__.py": "", "demo/_core.abi3.so": module, "demo/libunused.so": unused},
        metadata=METADATA,
    )
    return with_false_record(made, folder / "demo-1.0-cp311-abi3-manylinux_2_17_x86_64.whl")


def with_false_record(wheel: Path, target: Path) -> Path:
    """Copy a wheel to another name, with a source that is not the one of its RECORD."""
    with zipfile.ZipFile(wheel) as source, zipfile.ZipFile(target, "w") as copy:
        for entry in source.infolist():
            content = source.read(entry)
            copy.writestr(entry, b"x = 1\n" if entry.filename == "demo/__init__.py" else content)
    return target


@pytest.mark.parametrize(("rule", "member"), DEFECTS.items())
def test_each_of_the_six_defects_is_reported(wheel: Path, rule: str, member: str) -> None:
    found = {(each.name, each.member) for each in check(wheel, Settings()).findings}
    assert (rule, member) in found


@pytest.mark.each_run("auditwheel", "check-wheel-contents")
@pytest.mark.parametrize("checker", CHECKERS)
def test_other_checkers_do_not_report_them(wheel: Path, checker: str) -> None:
    name, *arguments = CHECKERS[checker]
    command = Path(sys.executable).parent / name
    if not command.exists():
        pytest.skip(f"{checker} is not installed")
    done = subprocess.run(
        [command, *arguments, wheel], capture_output=True, text=True, check=False, timeout=300
    )
    said = (done.stdout + done.stderr).lower()
    assert "traceback" not in said
    assert "not_there" not in said, "the missing symbol"
    assert "stack" not in said, "the executable stack"
    assert "record" not in said, "the false RECORD"
    assert "cp310" not in said, "the tag in WHEEL"
    assert done.returncode == 0 or checker == "pydistcheck", "which sees debug symbols everywhere"
