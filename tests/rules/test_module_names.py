"""Names: a wheel that triggers each rule, one that does not, and what Python says of them."""

import os
import subprocess
import sys
import sysconfig
import zipfile
from pathlib import Path
from typing import Any

import pytest

from tests.support.build import executable, extension, make_wheel, shared_object
from tests.support.values import elf, findings, wheel
from wheelfix.elf.model import Machine, Undefined
from wheelfix.pipelines import repair as repairing
from wheelfix.pipelines.repair_result import Outcome, Status
from wheelfix.rules import module_names as names
from wheelfix.rules import python_openings, sonames
from wheelfix.rules.context import Context, Stage
from wheelfix.rules.engine import attribute_to_stage, broken
from wheelfix.rules.findings import Finding, Severity
from wheelfix.rules.registry import CHECKPOINT_RULES
from wheelfix.rules.rule import Rule
from wheelfix.settings import Settings
from wheelfix.wheel.edits import RenameNeeded
from wheelfix.wheel.model import Opening, Wheel, Where
from wheelfix.wheel.reader import open_wheel

SUFFIX = sysconfig.get_config_var("EXT_SUFFIX")
MINOR = sys.version_info.minor
PYTHON = f"cp3{MINOR}"
TAG = f"{PYTHON}-{PYTHON}-linux_x86_64"
LIST_NEW = Undefined(name="PyList_New", version=None, file=None, type=2, weak=False)


def module(hook: str | None, **fields: Any) -> Any:
    return elf(module_hooks=(hook,) if hook else (), undefined=(LIST_NEW,), **fields)


def opening(name: str, where: Where = Where.SEARCH, **fields: Any) -> Opening:
    values: dict[str, Any] = {"line": 3, "function": "ctypes.CDLL", "sure": True, "on_import": True}
    return Opening(name=name, where=where, **(values | fields))


def severities(rule: Rule, subject: Wheel, **settings: Any) -> list[Severity]:
    return [finding.severity for finding in findings(rule, subject, **settings)]


def installed(path: Path, directory: Path) -> Path:
    """Unzip a wheel, as an installer does with files of site-packages."""
    with zipfile.ZipFile(path) as archive:
        archive.extractall(directory)
    return directory


def run(directory: Path, code: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", code], cwd=directory, capture_output=True, text=True, check=False
    )


def read(path: Path) -> Wheel:
    with open_wheel(path) as archive:
        return archive.wheel


# --- WF311: module hooks --------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("file", "hook"),
    [
        ("foo.cpython-311-x86_64-linux-gnu.so", "PyInit_foo"),
        ("pkg/foo.abi3.so", "PyInit_foo"),
        ("foo.so", "PyInit_foo"),
        ("foo.cpython-311-x86_64-linux-gnu.so", "PyModExport_foo"),
        ("größe.cpython-311-x86_64-linux-gnu.so", "PyInitU_gre_6ka8i"),
        ("pkg/libshared.abi3.so", None),
        ("pkg.libs/foo-1a2b3c4d.so", "PyInit_bar"),
        ("pkg/plugin.so", None),
    ],
)
def test_a_module_with_its_own_hook_or_none_to_be_had_is_right(file: str, hook: str | None) -> None:
    assert severities(names.module_hook, wheel({file: module(hook)})) == []


def test_python_looks_up_a_name_beyond_ascii_in_punycode(tmp_path: Path) -> None:
    hook = "-DPyInit_x=PyInitU_gre_6ka8i"
    path = make_wheel(
        tmp_path, tag=TAG, files={f"größe{SUFFIX}": extension(tmp_path / "x.so", "x", flags=[hook])}
    )
    assert severities(names.module_hook, read(path)) == []
    code = "import größe; print(größe.value())"
    assert run(installed(path, tmp_path / "site"), code).stdout == "42\n"


@pytest.mark.parametrize(
    ("file", "hook", "severity"),
    [
        ("foo.cpython-311-x86_64-linux-gnu.so", "PyInit_bar", Severity.ERROR),
        ("foo.abi3.so", None, Severity.ERROR),
        ("foo.so", "PyInit_bar", Severity.WARNING),
    ],
)
def test_a_module_without_its_hook_is_reported(
    file: str, hook: str | None, severity: Severity
) -> None:
    assert severities(names.module_hook, wheel({file: module(hook)})) == [severity]


def test_python_cannot_import_a_module_without_its_hook(tmp_path: Path) -> None:
    built = extension(tmp_path / "x.so", "bar")
    path = make_wheel(tmp_path, tag=TAG, files={f"foo{SUFFIX}": built})
    [found] = findings(names.module_hook, read(path))
    assert found.entry == "PyInit_foo"
    assert "PyInit_foo" in run(installed(path, tmp_path / "site"), "import foo").stderr


# --- WF312: suffixes ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("files", "tag", "expected"),
    [
        (["m.cpython-311-x86_64-linux-gnu.so"], "cp311-cp311", []),
        (["m.abi3.so"], "cp39-abi3", []),
        (["m.so"], "cp311-cp311", []),
        (["m.cpython-313t-x86_64-linux-gnu.so"], "cp313-cp313t", []),
        (["m.pypy310-pp73-x86_64-linux-gnu.so"], "pp310-pypy310_pp73", []),
        (["m.cpython-310-x86_64-linux-gnu.so"], "cp311-cp311", [Severity.ERROR]),
        (["m.cpython-313-x86_64-linux-gnu.so"], "cp313-cp313t", [Severity.ERROR]),
        (["m.abi3.so"], "cp313-cp313t", [Severity.ERROR]),
        (["m.cpython-311-x86_64-linux-gnu.so"], "cp311-abi3", [Severity.WARNING]),
        (
            ["m.cpython-310-x86_64-linux-gnu.so", "m.cpython-311-x86_64-linux-gnu.so"],
            "cp311-cp311",
            [Severity.WARNING],
        ),
        (
            ["m.cpython-310-x86_64-linux-gnu.so", "m.cpython-311-x86_64-linux-gnu.so"],
            "cp310.cp311-cp310.cp311",
            [],
        ),
    ],
)
def test_a_suffix_must_be_one_that_the_wheels_pythons_import(
    files: list[str], tag: str, expected: list[Severity]
) -> None:
    objects = {file: module("PyInit_m") for file in files}
    subject = wheel(objects, name=f"demo-1.0-{tag}-linux_x86_64.whl")
    assert severities(names.module_never_imported, subject) == expected


def test_a_source_of_the_same_name_serves_the_other_pythons() -> None:
    objects = {"m.cpython-311-x86_64-linux-gnu.so": module("PyInit_m")}
    subject = wheel(objects, "m.py", name="demo-1.0-py3-none-linux_x86_64.whl")
    assert severities(names.module_never_imported, subject) == []


def test_a_suffix_for_another_machine_is_never_imported() -> None:
    name = "m.cpython-311-x86_64-linux-gnu.so"
    assert severities(
        names.module_never_imported, wheel({name: module("PyInit_m", machine=Machine.AARCH64)})
    ) == [Severity.ERROR]


def test_python_does_not_see_a_module_of_another_version(tmp_path: Path) -> None:
    other = f"old.cpython-3{MINOR - 1}-x86_64-linux-gnu.so"
    path = make_wheel(tmp_path, tag=TAG, files={other: extension(tmp_path / "x.so", "old")})
    assert severities(names.module_never_imported, read(path)) == [Severity.ERROR]
    assert "ModuleNotFoundError" in run(installed(path, tmp_path / "site"), "import old").stderr


# --- WF313 and WF314: SONAMEs ---------------------------------------------------------------------


def differing() -> Wheel:
    return wheel(
        {"pkg/m.so": elf("libin.so.2"), "pkg/libin.so": elf(soname="libin.so.2")}, "pkg/__init__.py"
    )


def test_a_library_that_is_needed_by_another_name_than_its_files_is_led_to() -> None:
    [found] = findings(sonames.soname_differs, differing(), Stage.BEFORE)
    assert found.severity is Severity.ERROR
    assert found.fix is not None
    assert found.fix.edits == (RenameNeeded(member="pkg/m.so", old="libin.so.2", new="libin.so"),)


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
def test_names_that_agree_or_that_nobody_asks_for_are_right(objects: Any) -> None:
    assert findings(sonames.soname_differs, wheel(objects)) == ()


def test_a_library_that_code_preloads_by_path_is_only_a_warning() -> None:
    found = opening("libin.so", Where.SOURCE)
    subject = wheel(differing().elfs, "pkg/__init__.py", openings={"pkg/__init__.py": (found,)})
    assert severities(sonames.soname_differs, subject) == [Severity.WARNING]


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


def repaired(path: Path, directory: Path, **settings: Any) -> Outcome:
    asked = Settings(wheel_dir=directory / "out", **settings)
    return repairing.repair(path, asked, os.environ)


def test_two_different_libraries_of_one_soname_are_reported() -> None:
    one, other = elf(soname="libc1.so"), elf(soname="libc1.so", init_array=3)
    user = elf("libc1.so")
    subject = wheel({"pkg/m.so": user, "pkg/a/libc1.so": one, "pkg/b/libc1.so": other})
    [found] = findings(sonames.duplicate_soname, subject)
    assert found.member == "pkg/b/libc1.so"
    same = wheel({"pkg/m.so": user, "pkg/a/libc1.so": one, "pkg/b/libc1.so": one})
    assert findings(sonames.duplicate_soname, same) == ()
    unasked = wheel({"pkg/a/libc1.so": one, "pkg/b/libc1.so": other})
    assert findings(sonames.duplicate_soname, unasked) == ()


# --- WF315 and WF316: common names ----------------------------------------------------------------


@pytest.mark.parametrize("name", ["libz.so.1", "libssl.so.3", "libstdc++.so.6", "libpng16.so.16"])
def test_a_common_name_is_reported_and_a_private_one_is_not(name: str) -> None:
    assert severities(sonames.common_soname, wheel({f"pkg/{name}": elf(soname=name)})) == [
        Severity.WARNING
    ]
    stem, _, rest = name.partition(".")
    private = f"{stem}-1a2b3c4d.{rest}"
    assert (
        severities(sonames.common_soname, wheel({f"p.libs/{private}": elf(soname=private)})) == []
    )


def test_the_first_copy_in_a_process_serves_everybody(tmp_path: Path) -> None:
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


@pytest.mark.parametrize(
    ("name", "severity"),
    [
        ("libgomp-1a2b3c4d.so.1.0.0", Severity.INFO),
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


# --- WF317: opened by name ------------------------------------------------------------------------


def opening_wheel(*found: Opening, objects: Any = None, **fields: Any) -> Wheel:
    objects = objects or {"pkg/lib/libx.so": elf(soname="libx.so")}
    return wheel(objects, "pkg/__init__.py", openings={"pkg/__init__.py": found}, **fields)


@pytest.mark.parametrize(
    ("found", "expected"),
    [
        (opening("lib/libx.so", Where.SOURCE), []),
        (opening("libx.so", Where.SOURCE), [Severity.ERROR]),
        (opening("libx.so", Where.SOURCE, on_import=False), [Severity.WARNING]),
        (opening("libx.so", Where.SOURCE, sure=False), [Severity.INFO]),
        (opening("x.dll", Where.SOURCE), []),
        (opening("../other/libx.so", Where.SOURCE), []),
        (opening("lib/libx", Where.SOURCE, suffixes=(".so",)), []),
        (opening("libx", Where.SOURCE, suffixes=(".so",)), [Severity.ERROR]),
        (opening("libx.so"), [Severity.ERROR]),
        (opening("libc.so.6"), []),
        (opening("libcuda.so.1"), []),
        (opening("x", Where.FIND), [Severity.WARNING]),
        (opening("m", Where.FIND), []),
        (opening("/opt/libx.so", Where.ABSOLUTE), []),
    ],
)
def test_what_is_opened_is_looked_for_where_it_will_be(
    found: Opening, expected: list[Severity]
) -> None:
    assert severities(python_openings.opened_library_missing, opening_wheel(found)) == expected


def test_a_bare_name_is_known_once_something_has_loaded_the_library() -> None:
    objects = {"pkg/libx.so": elf(soname="libx.so"), "pkg/m.so": elf("libx.so")}
    subject = opening_wheel(opening("libx.so"), objects=objects)
    assert severities(python_openings.opened_library_missing, subject) == [Severity.INFO]
    preloaded = opening_wheel(opening("libx.so", Where.SOURCE), opening("libx.so"), objects=objects)
    assert severities(python_openings.opened_library_missing, preloaded) == []


def test_python_fails_to_open_what_is_reported(tmp_path: Path) -> None:
    library = shared_object(tmp_path / "libwfx.so", soname="libwfx.so")
    source = "import ctypes, os\nctypes.CDLL(os.path.join(os.path.dirname(__file__), '{}'))\n"
    for place, expected in (("libwfx.so", [Severity.ERROR]), ("lib/libwfx.so", [])):
        path = make_wheel(
            tmp_path / f"opens-{place.replace('/', '-')}",
            tag="py3-none-linux_x86_64",
            files={"pkg/lib/libwfx.so": library, "pkg/__init__.py": source.format(place)},
        )
        assert severities(python_openings.opened_library_missing, read(path)) == expected
        done = run(installed(path, path.parent / "site"), "import pkg")
        assert bool(done.returncode) == bool(expected)


# --- WF318: renamed under its user ----------------------------------------------------------------


def test_a_graft_is_told_of_before_and_after_it_renames() -> None:
    user = {"pkg/m.so": elf("libfoo.so.1")}
    before = opening_wheel(opening("libfoo.so.1"), objects=user)
    assert severities(python_openings.renamed_under_its_user, before) == [Severity.WARNING]
    assert (
        severities(python_openings.renamed_under_its_user, before, keep_names=("libfoo.so*",)) == []
    )
    assert (
        severities(python_openings.renamed_under_its_user, before, exclude=("libfoo.so.1",)) == []
    )
    new = "libfoo-1a2b3c4d.so.1"
    objects = {"pkg/m.so": elf(new), f"pkg.libs/{new}": elf(soname=new)}
    after = opening_wheel(opening("libfoo.so.1"), objects=objects)
    assert severities(python_openings.renamed_under_its_user, after) == [Severity.ERROR]


@pytest.fixture(scope="module")
def two_ways(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A package that uses one library by DT_NEEDED and by name."""
    folder = tmp_path_factory.mktemp("two_ways")
    library = shared_object(
        folder / "host/libwfboth.so.1",
        "static int n; int count(void) { return ++n; }",
        soname="libwfboth.so.1",
    )
    built = extension(
        folder / "m.so", "m", needed=[library], calls=["count"], rpath=str(library.parent)
    )
    source = "from pkg.m import value\nimport ctypes\nlib = ctypes.CDLL('libwfboth.so.1')\n"
    return make_wheel(folder, tag=TAG, files={f"pkg/m{SUFFIX}": built, "pkg/__init__.py": source})


CODE = "import pkg; print(pkg.value(), pkg.lib.count())"


def test_a_rename_that_breaks_code_is_refused_and_the_stage_named(
    two_ways: Path, tmp_path: Path
) -> None:
    outcome = repaired(two_ways, tmp_path)
    assert outcome.status is Status.REJECTED
    [found] = [f for f in outcome.remaining if f.code == "WF318"]
    assert "broken by this repair's stage: graft" in found.notes
    ignoring = repaired(two_ways, tmp_path, ignore={"WF318": "to see what happens"})
    assert ignoring.output is not None
    done = run(installed(ignoring.output, tmp_path / "site"), CODE)
    assert "libwfboth.so.1: cannot open shared object file" in done.stderr


def test_a_name_that_is_kept_serves_both_users_with_one_copy(
    two_ways: Path, tmp_path: Path
) -> None:
    outcome = repaired(two_ways, tmp_path, keep_names=("libwfboth.so.*",))
    assert outcome.output is not None, outcome
    assert outcome.after is not None
    assert "demo.libs/libwfboth.so.1" in outcome.after.elfs
    [sbom] = [step for step in outcome.edits if step.title == "list what is grafted"]
    assert "libwfboth.so.1" in str(sbom.edit)
    done = run(installed(outcome.output, tmp_path / "site"), CODE)
    assert done.stdout == "1 2\n", done.stderr


# --- WF319: .note.dlopen --------------------------------------------------------------------------


def noting(name: str, priority: str) -> Any:
    note = f'[{{"soname": ["{name}"], "priority": "{priority}"}}]'
    return elf(dlopen_notes=(note,), runpath="$ORIGIN")


def test_a_noted_library_is_looked_for_by_the_objects_own_search_path() -> None:
    for folder, expected in (("pkg", []), ("pkg/lib", [Severity.ERROR])):
        objects = {"pkg/m.so": noting("libx.so", "required"), f"{folder}/libx.so": elf()}
        assert severities(python_openings.noted_library_missing, wheel(objects)) == expected
    renamed = {"pkg/m.so": noting("libx.so.1", "suggested"), "p.libs/libx-1a2b3c4d.so.1": elf()}
    assert severities(python_openings.noted_library_missing, wheel(renamed)) == [Severity.WARNING]
    foreign = wheel({"pkg/m.so": noting("libsystemd.so.0", "required")})
    assert severities(python_openings.noted_library_missing, foreign) == []


@pytest.mark.parametrize("note", ["", "{", "{}", "[1]", '[{"soname": 1}]'])
def test_a_note_that_is_not_as_specified_says_nothing(note: str) -> None:
    subject = wheel({"pkg/m.so": elf(dlopen_notes=(note,)), "pkg/libx.so": elf()})
    assert severities(python_openings.noted_library_missing, subject) == []


def test_the_note_is_read_from_the_object(tmp_path: Path) -> None:
    note = r"""
    __asm__(".section .note.dlopen, \"a\", %note\n .balign 4\n .long 4, 2f - 1f, 0x407c0c0a\n"
            " .asciz \"FDO\"\n1: .asciz \"[{\\\"soname\\\": [\\\"libq.so.1\\\"]}]\"\n2: .balign 4\n"
            " .previous");
    """
    path = make_wheel(tmp_path, files={"pkg/x.so": shared_object(tmp_path / "x.so", note)})
    assert read(path).elfs["pkg/x.so"].dlopen_notes == ('[{"soname": ["libq.so.1"]}]',)


# --- WF320: what was too much to read -------------------------------------------------------------

OPENS = "import ctypes\nctypes.CDLL('libc.so.6')\n"
INVOLVED = "import ctypes\n" + "".join(
    f"def f{n}(x): return {' + '.join(f'f{i}(x)' for i in range(9))}\n" for n in range(9)
)
TOO_MUCH: dict[str, dict[str, str]] = {
    "too long": {"pkg/a.py": "x = 0\n" * 200_000 + OPENS},
    "too many tokens": {"pkg/a.py": f"x = [{'0,' * 60_000}]\n{OPENS}"},
    "too involved": {"pkg/a.py": f"{INVOLVED}ctypes.CDLL(f1(1))\n"},
    "too many large ones": {f"pkg/a{n:02}.py": f"{OPENS}#{'x' * 300_000}" for n in range(66)},
    "a word that is cut in two": {"pkg/a.py": f"#{'x' * (2**20 - 4)}\n{OPENS[15:]}"},
}


@pytest.mark.parametrize("sources", TOO_MUCH.values(), ids=TOO_MUCH)
def test_sources_that_are_given_up_are_told(sources: dict[str, str], tmp_path: Path) -> None:
    library = shared_object(tmp_path / "libx.so")
    files: dict[str, Any] = {"pkg/libx.so": library, "pkg/__init__.py": OPENS, **sources}
    subject = read(make_wheel(tmp_path, files=files))
    [found] = findings(python_openings.openings_not_judged, subject)
    assert found.severity is Severity.INFO
    assert found.member in sources
    assert set(subject.unfollowed) <= set(sources)
    assert "not evaluated completely" in found.message
    assert "may have been missed" in found.message
    assert f"`{found.member}`" in found.notes[0]


def test_sources_that_are_followed_or_open_nothing_are_not_told(tmp_path: Path) -> None:
    files: dict[str, Any] = {
        "pkg/libx.so": shared_object(tmp_path / "libx.so"),
        "pkg/__init__.py": OPENS,
        "pkg/data.py": "x = 0\n" * 200_000,
        "pkg/tokens.py": f"x = [{'0,' * 60_000}]\n",
        "pkg/old.py": "print 'ctypes.CDLL'\n",
    }
    subject = read(make_wheel(tmp_path, files=files))
    assert subject.openings.keys() == {"pkg/__init__.py"}
    assert severities(python_openings.openings_not_judged, subject) == []


def test_a_repair_does_not_forget_what_was_given_up(two_ways: Path, tmp_path: Path) -> None:
    with zipfile.ZipFile(two_ways) as old:
        kept = {n: old.read(n) for n in old.namelist() if ".dist-info/" not in n}
    given_up = "\n".join((f"x = [{'0,' * 60_000}]", OPENS))
    path = make_wheel(tmp_path, tag=TAG, files={**kept, "demo/tokens.py": given_up})
    outcome = repaired(path, tmp_path / "out")
    assert outcome.after is not None, outcome
    assert outcome.after.unfollowed == ("demo/tokens.py",)
    assert "WF320" in {finding.code for finding in outcome.remaining}


# --- Checkpoints ----------------------------------------------------------------------------------


def test_a_finding_is_blamed_on_the_stage_that_brought_it() -> None:
    found = Finding(
        code="WF313", name="x", severity=Severity.ERROR, message="", member="a.so", entry="b"
    )
    assert attribute_to_stage(found, {("WF313", "a.so", "b"): "graft"}).notes == (
        "broken by this repair's stage: graft",
    )
    assert attribute_to_stage(found, {("WF313", "a.so", "c"): "graft"}) == found


def test_only_errors_count_as_broken_names() -> None:
    subject = differing()
    assert broken(Context(wheel=subject, settings=Settings()), CHECKPOINT_RULES) == {
        ("WF313", "pkg/libin.so", "libin.so.2"),
    }
    sound = wheel({"pkg/libz.so.1": elf(soname="libz.so.1")})
    assert broken(Context(wheel=sound, settings=Settings()), CHECKPOINT_RULES) == frozenset()


def test_a_program_is_no_module(tmp_path: Path) -> None:
    path = make_wheel(tmp_path, files={"pkg/tool.so": executable(tmp_path / "tool")})
    assert severities(names.module_hook, read(path)) == []
