"""What a repair grafts is found, whatever rules are selected, ignored, or set to which severity."""

import os
import subprocess
import zipfile
from collections.abc import Generator, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path, PurePath
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.support.all_rules import all_rules
from tests.support.build import executable, extension, make_wheel, shared_object
from tests.support.environment import ENVIRON
from tests.support.fork_server import warm_program
from tests.support.naming import SUFFIX, TAG
from tests.support.repairing import repair as repair_alone
from tests.support.trees import SIMULATED, spread
from wheelfix.host.verify import verify
from wheelfix.host.verify_values import Options
from wheelfix.pipelines.ask_auditwheel import Auditwheel
from wheelfix.pipelines.output_claims import Outputs
from wheelfix.pipelines.repair import RepairTask, repair
from wheelfix.pipelines.repair_result import Outcome, Status
from wheelfix.rules import bundled_not_found
from wheelfix.settings import DataLibraries, SearchPathTag, Settings, StripLevel


class Bench(NamedTuple):
    """Wheels to repair."""

    sdk: Path
    """The libraries of the build machine."""
    wheels: Sequence[Path]
    auditwheel: Auditwheel

    def repair(self, wheel: Path, to: Path, asked: Mapping[str, Any]) -> Outcome:
        settings = Settings(wheel_dir=to, **asked)
        task = RepairTask(wheel=wheel, settings=settings, folder=wheel.parent)
        return repair(task, self.auditwheel, Outputs([wheel], wheel.parent))


@pytest.fixture(scope="module")
def bench(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Bench]:
    sdk = tmp_path_factory.mktemp("sdk")
    wheels = build_wheels(sdk, tmp_path_factory.mktemp("wheels"))
    with Auditwheel(ENVIRON) as auditwheel:
        yield Bench(sdk, wheels, auditwheel)


def build_wheels(sdk: Path, folder: Path) -> Sequence[Path]:
    """Build wheels that need libraries of `sdk`."""
    inner = shared_object(
        sdk / "private" / "libinner.so.1", "int inner(void) { return 2; }", soname="libinner.so.1"
    )
    outer = shared_object(
        sdk / "lib" / "libouter.so.1",
        "int inner(void); int outer(void) { return inner() + 40; }",
        soname="libouter.so.1",
        needed=[inner],
        runpath=str(inner.parent),
    )
    lib = str(outer.parent)
    core = extension(sdk / "_core.so", "_core", needed=[outer], calls=["outer"], rpath=lib)
    blocked = extension(sdk / "_b.so", "_b", needed=[outer], calls=["outer"], runpath=lib)
    middle = shared_object(
        sdk / "libmiddle.so",
        "int outer(void); int middle(void) { return outer(); }",
        soname="libmiddle.so",
        needed=[outer],
        rpath=lib,
    )
    over = extension(
        sdk / "_over.so", "_over", needed=[middle], calls=["middle"], rpath="$ORIGIN/lib"
    )
    tool = executable(
        sdk / "tool",
        "int outer(void); int main(void) { return outer() - 42; }",
        needed=[outer],
        rpath=lib,
    )
    leading = extension(
        sdk / "_leading.so",
        "_leading",
        needed=[outer],
        calls=["outer"],
        rpath=f"$ORIGIN/../demo.libs:{lib}",
    )
    start: dict[str, Path | str] = {"demo/__init__.py": ""}
    contents = {
        "plain": {"demo/_core.so": core, "demo/sub/_b.so": blocked},
        "middle": {"demo/_over.so": over, "demo/lib/libmiddle.so": middle},
        "spread": {
            "demo/_core.so": core,
            "demo-1.0.data/data/share/demo/_core.so": core,
            "demo-1.0.data/scripts/demo-tool": tool,
        },
        "data": {"demo-1.0.data/data/share/demo/_b.so": blocked},
        "platlib": {"demo-1.0.data/platlib/demo/_core.so": core},
        "leading": {"demo/_leading.so": leading},
    }
    return [
        make_wheel(folder / name, tag=TAG, files={**start, **files})
        for name, files in contents.items()
    ]


_NAMED = [selector for rule in all_rules() for selector in (rule.code, rule.name)]
_SELECTORS = st.sampled_from(
    ["ALL", "WF", "WF1", "WF2", "WF3", "WF4", "WF5", "WF8", *_NAMED]
) | st.sampled_from(["WF101", "WF103", "WF104", "WF111", "WF114", "WF118", "WF121"])
_ASKED = st.fixed_dictionaries(
    {},
    optional={
        "select": st.lists(_SELECTORS, max_size=4).map(tuple),
        "ignore": st.dictionaries(_SELECTORS, st.just(""), max_size=4),
        "severity": st.dictionaries(_SELECTORS, st.sampled_from(["note", "warning"]), max_size=3),
        "per_file_ignores": st.dictionaries(
            st.sampled_from(["*", "demo/*", "demo.libs/*", "*.data/*", "*.so*"]),
            st.lists(_SELECTORS, min_size=1, max_size=3).map(tuple),
            max_size=2,
        ),
        "unfixable": st.dictionaries(
            st.sampled_from(["*", "demo/*", "*.so*"]),
            st.lists(_SELECTORS, min_size=1, max_size=3).map(tuple),
            max_size=2,
        ),
        "data_libraries": st.sampled_from(DataLibraries),
        "search_path_tag": st.sampled_from(SearchPathTag),
        "keep_names": st.sampled_from([("libinner.so*",), ("libouter.so*",), ("*",)]),
        "strip": st.sampled_from(StripLevel),
    },
)


def unloadable(wheel: Path, sdk: Path) -> dict[str, str]:
    """Install `wheel` in two ways, without `sdk`; return the objects that do not load, and why."""
    found: dict[str, str] = {}
    with hidden(sdk):
        for name in ("debian", "lib64"):
            with TemporaryDirectory() as root:
                loaded = spread(wheel, SIMULATED[name], Path(root)).load_all()
            assert loaded
            found |= {str(path): outcome.said for path, outcome in loaded.items() if not outcome.ok}
    return found


@contextmanager
def hidden(folder: Path) -> Generator[None]:
    away = folder.rename(folder.with_name("away"))
    yield
    away.rename(folder)


@settings(max_examples=5, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(asked=_ASKED, number=st.integers(0, 5))
def test_every_published_wheel_finds_what_was_grafted(
    bench: Bench, asked: dict[str, Any], number: int
) -> None:
    with TemporaryDirectory() as folder:
        outcome = bench.repair(bench.wheels[number], Path(folder), asked)
        assert outcome.error is None, outcome.error
        if outcome.output is not None:
            assert unloadable(outcome.output, bench.sdk) == {}


_SILENT: Mapping[str, Mapping[str, Any]] = {
    "select": {"select": ("WF111",)},
    "nothing": {"select": ()},
    "ignore": {"ignore": {"WF101": "", "WF103": "", "WF104": ""}},
    "severity": {"severity": {"ALL": "note"}},
    "per-file": {"per_file_ignores": {"*": ("ALL",)}},
    "unfixable": {"unfixable": {"*": ("ALL",)}, "ignore": {"ALL": ""}},
    "ignore-all": {"ignore": {"ALL": ""}},
}


@pytest.mark.each_run("select-0", "unfixable-5", "ignore-all-1")
@pytest.mark.parametrize("number", range(6))
@pytest.mark.parametrize("asked", _SILENT)
def test_the_graft_has_its_own_search_paths(
    asked: str, number: int, bench: Bench, tmp_path: Path
) -> None:
    outcome = bench.repair(bench.wheels[number], tmp_path, _SILENT[asked])
    assert outcome.status is Status.REPAIRED, (outcome.error, outcome.remaining)
    assert outcome.output is not None
    assert unloadable(outcome.output, bench.sdk) == {}


def test_a_grafted_library_that_is_not_found_is_not_published(
    bench: Bench, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    def no_fix(*_: object) -> None:
        """Fix nothing."""

    monkeypatch.setattr(bundled_not_found, "_fix", no_fix)
    outcome = bench.repair(
        bench.wheels[0], tmp_path, {"ignore": {"ALL": ""}, "severity": {"ALL": "note"}}
    )
    assert outcome.status is Status.REJECTED
    assert {(found.code, found.member) for found in outcome.remaining} >= {
        ("graft", "demo/_core.so"),
        ("graft", "demo/sub/_b.so"),
    }
    assert not list(tmp_path.iterdir())


@pytest.mark.each_run("ignore-all-0")
@pytest.mark.parametrize("number", range(6))
@pytest.mark.parametrize("silent", ["ignore-all", "nothing", "per-file"])
def test_what_is_not_reported_is_fixed_all_the_same(
    silent: str, number: int, bench: Bench, tmp_path: Path
) -> None:
    """No rule decides about a byte of the wheel by being ignored."""
    reported = bench.repair(bench.wheels[number], tmp_path / "reported", {})
    silenced = bench.repair(bench.wheels[number], tmp_path / "silenced", _SILENT[silent])
    assert reported.output is not None
    assert silenced.output is not None
    assert silenced.output.read_bytes() == reported.output.read_bytes()
    assert {step.code for step in reported.edits} > {"graft"}


# --- data-libraries = "colocate" ------------------------------------------------------------------


@pytest.mark.each_run("both-built")
@pytest.mark.parametrize("by_auditwheel", [False, True], ids=["built", "repaired"])
@pytest.mark.parametrize(
    ("number", "folders"),
    [(0, {"demo.libs"}), (2, {"demo.libs", "demo.data-libs"}), (3, {"demo.data-libs"})],
    ids=["package", "both", "data"],
)
def test_colocate_leaves_no_copy_that_no_object_loads(
    number: int,
    folders: set[str],
    by_auditwheel: bool,  # noqa: FBT001 - a parameter of the test
    bench: Bench,
    tmp_path: Path,
) -> None:
    wheel = bench.wheels[number]
    if by_auditwheel:
        command: list[str | Path] = [warm_program("auditwheel"), "repair"]
        command += ["-w", tmp_path / "theirs", wheel]
        subprocess.run(command, env=ENVIRON, check=True, capture_output=True)
        (wheel,) = (tmp_path / "theirs").iterdir()
    outcome = bench.repair(wheel, tmp_path / "out", {})
    output = outcome.output
    assert output is not None
    assert outcome.after is not None
    assert {library.member for library in outcome.grafted} <= outcome.after.elfs.keys()
    with zipfile.ZipFile(output) as archive:
        libraries = {PurePath(name) for name in archive.namelist() if "/lib" in name}
    # What auditwheel has grafted was in the wheel, and stays: something may open it by its name.
    there = {"demo.libs"} if by_auditwheel else set[str]()
    assert {path.parent.name for path in libraries} == folders | there
    assert unloadable(output, bench.sdk) == {}


def test_what_a_data_file_alone_needs_is_grafted_beside_it_though_a_module_needs_the_file(
    tmp_path: Path,
) -> None:
    """The file finds it by its own search path, whatever has loaded the file."""
    host = tmp_path / "host"
    far = shared_object(host / "libfar.so.1", "int far_(void) { return 1; }")
    data = shared_object(
        tmp_path / "libdata.so",
        "int far_(void); int data(void) { return far_(); }",
        soname="libdata.so",
        needed=[far],
        runpath=str(host),
    )
    module = extension(
        tmp_path / "_c.so", "_c", needed=[data], calls=["data"], runpath="$ORIGIN/../../../../lib"
    )
    files: dict[str, bytes | str | Path] = {
        "demo/__init__.py": "",
        f"demo/_c{SUFFIX}": module,
        "demo-1.0.data/data/lib/libdata.so": data,
    }
    wheel = make_wheel(tmp_path / "dist", tag=TAG, files=files)
    outcome = repair_alone(wheel, Settings(wheel_dir=tmp_path / "out"), os.environ)
    assert outcome.after is not None
    assert outcome.output is not None
    (graft,) = (path for path in outcome.after.elfs if "libfar" in path)
    assert graft.startswith("demo-1.0.data/data/demo.data-libs/")
    (verified,) = verify(outcome.output, Options(timeout=60), os.environ)
    assert not [check for check in verified.checks if check.failed]
