"""SONAMEs and DT_NEEDED: what each rule reports, and what the loader does."""

from pathlib import Path
from typing import Any

import pytest

from tests.support.build import extension, make_wheel, shared_object
from tests.support.naming import (
    SUFFIX,
    TAG,
    differing,
    installed,
    opening,
    repaired,
    run,
    severities,
)
from tests.support.providers import asked
from tests.support.values import elf, findings, wheel
from wheelfix import check
from wheelfix.cli.app import run as cli
from wheelfix.elf.reader import read_elf
from wheelfix.python_sources.source_facts import LookupPlace
from wheelfix.rules import sonames
from wheelfix.rules.context import Stage
from wheelfix.rules.findings import Severity
from wheelfix.settings import Settings
from wheelfix.wheel.edits import RenameNeeded
from wheelfix.wheel.reader import open_wheel


def test_dependents_of_a_soname_get_the_file_name_in_dt_needed() -> None:
    [found] = findings(sonames.soname_differs, differing(), Stage.BEFORE)
    assert found.severity is Severity.ERROR
    assert found.fix is not None
    assert found.fix.edits == (RenameNeeded(member="pkg/m.so", old="libin.so.2", new="libin.so"),)


def test_a_library_for_another_processor_is_no_second_library() -> None:
    objects = {
        "pkg/m.so": elf("libin.so.2"),
        "pkg/libin.so.2": elf(soname="libin.so.2"),
        "pkg/glibc-hwcaps/x86-64-v3/libin.so.2": elf(soname="libin.so.2", constructors=True),
    }
    assert findings(sonames.duplicate_soname, wheel(objects)) == ()
    objects["pkg/other/libin.so.2"] = elf(soname="libin.so.2", constructors=True)
    assert severities(sonames.duplicate_soname, wheel(objects)) == [Severity.WARNING]


@pytest.mark.parametrize(
    "objects",
    [
        {"pkg/m.so": elf("libin.so.2"), "pkg/libin.so.2": elf(soname="libin.so.2")},
        {"pkg/m.so": elf("libin.so"), "pkg/libin.so": elf(soname="libin.so.2")},
        {"pkg/m.so": elf(), "pkg/libin.so": elf(soname="libin.so.2")},
        {"pkg/m.so": elf("libz.so.1"), "pkg/zlib.so": elf(soname="libz.so.1")},
        {"pkg/m.so": elf("libin.so.2"), "pkg/libin.so": elf(soname="libin.so.2", bits=32)},
    ],
)
def test_names_that_agree_or_are_not_needed_are_right(objects: Any) -> None:
    assert findings(sonames.soname_differs, wheel(objects)) == ()


def test_a_library_that_code_preloads_by_path_is_a_warning() -> None:
    found = opening("libin.so", LookupPlace.SOURCE)
    subject = wheel(differing().elfs, "pkg/__init__.py", openings={"pkg/__init__.py": (found,)})
    assert severities(sonames.soname_differs, subject) == [Severity.WARNING]


def test_a_library_that_a_requirement_may_load_before_is_a_warning() -> None:
    """As torchvision finds libcudart, which torch has loaded before."""
    objects = {
        "pkg/m.so": elf("libtorch.so", "libcudart.so.13"),
        "pkg.libs/libcudart.3eda8113.so.13": elf(soname="libcudart.so.13"),
    }
    for requires, severity in (("torch", Severity.WARNING), ("six", Severity.ERROR)):
        subject = wheel(objects, metadata=asked(requires))
        (found,) = findings(sonames.soname_differs, subject, Stage.BEFORE)
        assert found.severity is severity
        assert (found.fix is None) == (severity is Severity.WARNING), "it would be loaded twice"
    subject = wheel(objects, metadata=asked("torch"))
    (found,) = findings(sonames.soname_differs, subject, Stage.BEFORE)
    assert (found.hint or "").startswith("leave it out of the wheel, if ")
    own = {"pkg/m.so": elf("libtorch.so", "libq.so"), "pkg/libq.so.1": elf(soname="libq.so")}
    (found,) = findings(sonames.soname_differs, wheel(own, metadata=asked("torch")), Stage.BEFORE)
    assert found.hint == "build the wheel with the file under its SONAME", "torch lacks it"
    objects["pkg/image.so"] = elf("libtorch.so", "libcudart.3eda8113.so.13")
    (found,) = findings(sonames.soname_differs, wheel(objects, metadata=asked("torch")))
    assert 'as it was built, with `exclude = ["*libcudart.so*"]` in [tool.wheelfix], if ' in (
        found.hint or ""
    )


def test_a_library_that_no_requirement_has_is_found_by_its_file_name() -> None:
    """The other package of CUDA is known not to have it."""
    objects = {
        "pkg/m.so": elf("libcudnn.so.9", "libtbb.so.12"),
        "pkg.libs/libtbb-3eda8113.so.12": elf(soname="libtbb.so.12"),
    }
    for requires, is_fixed in (("nvidia-cudnn-cu12", True), ("unknown", False)):
        every = asked("nvidia-cudnn-cu12", requires)
        (found,) = findings(sonames.soname_differs, wheel(objects, metadata=every), Stage.BEFORE)
        assert (found.fix is not None) is is_fixed


def test_the_repaired_wheel_finds_the_library(tmp_path: Path) -> None:
    library = shared_object(
        tmp_path / "libin.so", "int in(void) { return 7; }", soname="libin.so.2"
    )
    built = extension(tmp_path / "m.so", "m", needed=[library], calls=["in"])
    files: dict[str, bytes | str | Path] = {
        f"pkg/m{SUFFIX}": built,
        "pkg/libin.so": library,
        "pkg/__init__.py": "",
    }
    path = make_wheel(tmp_path, tag=TAG, files=files)
    code = "from pkg.m import value; print(value())"
    before = run(installed(path, tmp_path / "before"), code)
    assert "libin.so.2: cannot open shared object file" in before.stderr
    outcome = repaired(path, tmp_path)
    assert outcome.output is not None, outcome
    assert run(installed(outcome.output, tmp_path / "after"), code).stdout == "7\n"


def test_two_different_libraries_of_one_soname_are_reported() -> None:
    one, other = elf(soname="libc1.so"), elf(soname="libc1.so", constructors=True)
    user = elf("libc1.so")
    subject = wheel({"pkg/m.so": user, "pkg/a/libc1.so": one, "pkg/b/libc1.so": other})
    [found] = findings(sonames.duplicate_soname, subject)
    assert found.member == "pkg/b/libc1.so"
    same = wheel({"pkg/m.so": user, "pkg/a/libc1.so": one, "pkg/b/libc1.so": one})
    assert findings(sonames.duplicate_soname, same) == ()
    unasked = wheel({"pkg/a/libc1.so": one, "pkg/b/libc1.so": other})
    assert findings(sonames.duplicate_soname, unasked) == ()


@pytest.mark.parametrize("name", ["libz.so.1", "libssl.so.3", "libstdc++.so.6", "libpng16.so.16"])
def test_a_common_name_is_reported_and_a_private_one_is_not(name: str) -> None:
    assert severities(sonames.common_soname, wheel({f"pkg/{name}": elf(soname=name)})) == [
        Severity.WARNING
    ]
    for names in ({"include": (name,)}, {"keep_names": ("lib*",)}):
        subject = wheel({f"pkg/{name}": elf(soname=name)})
        assert severities(sonames.common_soname, subject, **names) == []
    stem, _, rest = name.partition(".")
    private = f"{stem}-1a2b3c4d.{rest}"
    assert (
        severities(sonames.common_soname, wheel({f"p.libs/{private}": elf(soname=private)})) == []
    )


@pytest.mark.parametrize(("requires", "is_told"), [("nvidia-cuda-runtime", True), ("numpy", False)])
def test_a_copy_of_what_a_requirement_has_is_reported(requires: str, *, is_told: bool) -> None:
    objects = {"demo.libs/libcudart.so.13": elf(soname="libcudart.so.13")}
    subject = wheel(objects, metadata=asked(f"{requires}>=1"))
    hits = findings(sonames.common_soname, subject)
    assert [f"METADATA requires {requires}" in (hit.hint or "") for hit in hits] == [True] * is_told


def test_the_first_copy_in_a_process_is_used_by_all(tmp_path: Path) -> None:
    """What WF315 and WF314 warn of, shown with the loader."""
    for number in (1, 2):
        library = shared_object(
            tmp_path / f"{number}/libz9.so.1",
            f"int which(void) {{ return {number}; }}",
            soname="libz9.so.1",
        )
        shared_object(
            tmp_path / f"user{number}.so",
            "int which(void); int ask(void) { return which(); }",
            needed=[library],
            rpath=str(library.parent),
        )
    code = "import ctypes; print([ctypes.CDLL(f'./user{n}.so').ask() for n in (1, 2)])"
    assert run(tmp_path, code).stdout == "[1, 1]\n"
    content = {path: read_elf(path.read_bytes(), path.name) for path in tmp_path.rglob("*.so*")}
    read = {f"pkg/{path.relative_to(tmp_path)}": elf for path, elf in content.items()}
    assert severities(sonames.duplicate_soname, wheel(read)) == [Severity.WARNING]
    first = read["pkg/1/libz9.so.1"]
    assert severities(sonames.duplicate_soname, wheel({**read, "pkg/2/libz9.so.1": first})) == []


@pytest.mark.parametrize(
    ("name", "severity"),
    [
        ("libgomp-1a2b3c4d.so.1.0.0", Severity.NOTE),
        ("libstdc++.so.6", Severity.WARNING),
        ("libgcc_s-1a2b3c4d.so.1", Severity.WARNING),
    ],
)
def test_a_second_runtime_is_reported(name: str, severity: Severity) -> None:
    assert severities(sonames.second_runtime, wheel({f"p.libs/{name}": elf(soname=name)})) == [
        severity
    ]


def test_other_libraries_are_no_runtimes() -> None:
    subject = wheel({"p.libs/libgomphotherium.so": elf(), "p.libs/libfoo-1a2b3c4d.so.1": elf()})
    assert severities(sonames.second_runtime, subject) == []


@pytest.mark.parametrize("needs_it", [True, False])
def test_what_a_requirement_that_is_read_loads_first_is_not_renamed(
    tmp_path: Path, *, needs_it: bool
) -> None:
    """The process would have two: the plug-in's, and that of what `core` requires in turn."""
    shared = shared_object(
        tmp_path / "libx9.so.13", "int x9(void) { return 1; }", soname="libx9.so.13"
    )
    core = shared_object(
        tmp_path / "libcore9.so",
        "int x9(void); int core9(void) { return x9(); }"
        if needs_it
        else "int core9(void) { return 1; }",
        soname="libcore9.so",
        needed=[shared] if needs_it else [],
    )
    module = extension(
        tmp_path / "m.so",
        "m",
        needed=[core, shared],
        calls=["core9", "x9"],
        rpath="$ORIGIN/../core",
    )
    lender = make_wheel(
        tmp_path, "core", tag=TAG, files={"core/__init__.py": "", "core/libcore9.so": core}
    )
    wheel_ = make_wheel(
        tmp_path,
        "plug",
        tag=TAG,
        files={
            f"plug/m{SUFFIX}": module,
            "plug.libs/libx9-faf08d9a.so.13": shared,
            "plug/__init__.py": "",
        },
        metadata="Requires-Dist: core==1.0\n",
    )
    settings = Settings(select=("WF313",), neighbors=(str(lender),))
    [finding] = check(wheel_, settings).findings
    assert finding.severity is (Severity.WARNING if needs_it else Severity.ERROR)
    assert (finding.fix is None) is needs_it


def test_an_unused_library_of_a_requirement_does_not_keep_the_names_apart(tmp_path: Path) -> None:
    """A repair drops it (WF201), and nothing loads the SONAME before then."""
    torch = shared_object(tmp_path / "lib" / "libtorch.so", soname="libtorch.so")
    source = "int q9(void) { return 1; }"
    own = shared_object(tmp_path / "lib" / "libq9.so", source, soname="libq9.so")
    module = extension(tmp_path / "m.so", "m", needed=[own, torch], calls=["q9"])
    files: dict[str, bytes | str | Path] = {
        "demo/__init__.py": "",
        f"demo/m{SUFFIX}": module,
        "demo/libq9.so.1.2": own,
    }
    wheel = make_wheel(tmp_path, tag=TAG, files=files, metadata="Requires-Dist: torch\n")
    options = ["--library-path", str(tmp_path / "lib"), "-w", str(tmp_path / "out")]
    assert cli(["repair", *options, str(wheel)]) == 0
    (made,) = (tmp_path / "out").iterdir()
    assert run(installed(made, tmp_path / "site"), "import demo.m").returncode == 0


def test_a_provider_known_by_its_name_may_load_that_soname_before(tmp_path: Path) -> None:
    """torchvision: a repair with `--provider torch` would make it load a second libcudart."""
    own = shared_object(
        tmp_path / "own.so", "int who(void) { return 2; }", soname="libcudart.so.13"
    )
    c10 = shared_object(tmp_path / "libc10.so", "int c10(void) { return 0; }", soname="libc10.so")
    module = extension(tmp_path / "_c.so", "_c", needed=[own, c10], calls=["who", "c10"])
    files: dict[str, bytes | str | Path] = {
        "demo/__init__.py": "import torch\nfrom . import _c\n",
        f"demo/_c{SUFFIX}": module,
        "demo.libs/libcudart.faf0.so.13": own,
    }
    metadata = "Requires-Dist: torch\n"
    wheel = make_wheel(tmp_path, tag=TAG, files=files, metadata=metadata)
    for options in ([], ["--provider", "torch"]):
        assert cli(["repair", "-w", str(tmp_path / "out"), *options, str(wheel)]) == 0
        (made,) = (tmp_path / "out").iterdir()
        with open_wheel(made) as archive:
            assert "libcudart.so.13" in archive.wheel.elfs[f"demo/_c{SUFFIX}"].needed
        made.unlink()
