"""Libraries that Python code opens: what each rule reports, and what Python does."""

import zipfile
from pathlib import Path
from typing import Any

import pytest

from tests.support.build import extension, make_wheel, shared_object
from tests.support.naming import SUFFIX, TAG, installed, opening, read, repaired, run, severities
from tests.support.values import elf, findings, wheel
from wheelfix.cli.app import run as main
from wheelfix.pipelines.repair_result import Status
from wheelfix.python_sources.source_facts import LookupPlace, PythonOpening
from wheelfix.rules import opened_and_missing
from wheelfix.rules.findings import Severity
from wheelfix.wheel.model import Wheel


def opening_wheel(*found: PythonOpening, objects: Any = None, **fields: Any) -> Wheel:
    objects = objects or {"pkg/lib/libx.so": elf(soname="libx.so")}
    return wheel(objects, "pkg/__init__.py", openings={"pkg/__init__.py": found}, **fields)


@pytest.mark.parametrize(
    ("found", "expected"),
    [
        (opening("lib/libx.so", LookupPlace.SOURCE), []),
        (opening("libx.so", LookupPlace.SOURCE), [Severity.ERROR]),
        (opening("libx.so", LookupPlace.SOURCE, on_import=False), [Severity.WARNING]),
        (opening("libx.so", LookupPlace.SOURCE, sure=False), [Severity.NOTE]),
        (opening("x.dll", LookupPlace.SOURCE), []),
        (opening("../other/libx.so", LookupPlace.SOURCE), []),
        (opening("lib/libx", LookupPlace.SOURCE, suffixes=(".so",)), []),
        (opening("libx", LookupPlace.SOURCE, suffixes=(".so",)), [Severity.ERROR]),
        (opening("libx.so"), [Severity.ERROR]),
        (opening("libc.so.6"), []),
        (opening("libcuda.so.1"), []),
        (opening("x", LookupPlace.FIND), [Severity.WARNING]),
        (opening("x", LookupPlace.FIND, sure=False), [Severity.NOTE]),
        (opening("m", LookupPlace.FIND), []),
        (opening("/opt/libx.so", LookupPlace.ABSOLUTE), []),
        (opening("./libx.so", LookupPlace.ABSOLUTE), [Severity.ERROR]),
        (opening("lib/libother.so", LookupPlace.ABSOLUTE), []),
        (opening("../../../libother.so", LookupPlace.SOURCE), [Severity.WARNING]),
        (opening("../../../libother.so", LookupPlace.SOURCE, sure=False), [Severity.NOTE]),
    ],
)
def test_what_is_opened_is_looked_for_where_it_will_be(
    found: PythonOpening, expected: list[Severity]
) -> None:
    assert severities(opened_and_missing.opened_library_missing, opening_wheel(found)) == expected


def test_code_that_tries_several_places_may_find_the_library_in_any() -> None:
    there = opening("lib/libx.so", LookupPlace.SOURCE, sure=False)
    beside = opening("libx.so", LookupPlace.SOURCE, sure=False)
    rule = opened_and_missing.opened_library_missing
    assert severities(rule, opening_wheel(beside, there)) == []
    assert severities(rule, opening_wheel(beside._replace(sure=True), there)) == [Severity.ERROR]
    other = opening("liby.so", LookupPlace.SOURCE, sure=False)
    assert severities(rule, opening_wheel(other, there)) == [Severity.NOTE]


def test_a_bare_name_is_known_once_something_has_loaded_the_library() -> None:
    objects = {"pkg/libx.so": elf(soname="libx.so"), "pkg/m.so": elf("libx.so")}
    subject = opening_wheel(opening("libx.so"), objects=objects)
    assert severities(opened_and_missing.opened_library_missing, subject) == [Severity.NOTE]
    preloaded = opening_wheel(
        opening("libx.so", LookupPlace.SOURCE), opening("libx.so"), objects=objects
    )
    assert severities(opened_and_missing.opened_library_missing, preloaded) == []


def test_python_fails_to_open_what_is_reported(tmp_path: Path) -> None:
    library = shared_object(tmp_path / "libwfx.so", soname="libwfx.so")
    source = "import ctypes, os\nctypes.CDLL(os.path.join(os.path.dirname(__file__), '{}'))\n"
    for place, expected in (("libwfx.so", [Severity.ERROR]), ("lib/libwfx.so", [])):
        path = make_wheel(
            tmp_path / f"opens-{place.replace('/', '-')}",
            tag="py3-none-linux_x86_64",
            files={"pkg/lib/libwfx.so": library, "pkg/__init__.py": source.format(place)},
        )
        assert severities(opened_and_missing.opened_library_missing, read(path)) == expected
        done = run(installed(path, path.parent / "site"), "import pkg")
        assert bool(done.returncode) == bool(expected)


@pytest.mark.parametrize(
    ("change", "fails"),
    [("", True), ("os.chdir(here)\n", False), ("with contextlib.chdir(here): ", False)],
)
def test_a_path_from_the_current_directory_is_found_there_alone(
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    change: str,
    *,
    fails: bool,
) -> None:
    """check, doctor and explain say so."""
    source = "import contextlib, ctypes, os\nhere = os.path.dirname(__file__)\n"
    library = shared_object(tmp_path / "libwfx.so", soname="libwfx.so")
    source += f"{change}ctypes.CDLL('./libwfx.so')\n"
    files: dict[str, str | Path] = {"pkg/libwfx.so": library, "pkg/__init__.py": source}
    path = make_wheel(tmp_path / "dist", tag="py3-none-linux_x86_64", files=files)
    site = installed(path, tmp_path / "site")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    assert bool(run(site, "import pkg").returncode) is fails
    commands = (["check", "--select", "WF317", path], ["doctor", site], ["explain", "--site", site])
    assert [main([*map(str, words)]) for words in commands] == [int(fails)] * 3
    assert capsys.readouterr().out.count("./libwfx.so") >= 3 * fails


BY_NAME = "ctypes.CDLL('libwford.so')\n"


@pytest.mark.parametrize(
    ("source", "severity"),
    [
        (f"import ctypes\n{BY_NAME}from . import _core\n", Severity.ERROR),
        (f"import ctypes\nfrom . import _core\n{BY_NAME}", Severity.NOTE),
        (f"import ctypes\nfrom demo import _core\n{BY_NAME}", Severity.NOTE),
        (f"import ctypes\ntry:\n    import demo._core\nfinally:\n    {BY_NAME}", Severity.NOTE),
        (
            f"import ctypes, importlib as i\ni.import_module('._core', 'demo')\n{BY_NAME}",
            Severity.NOTE,
        ),
        (f"import ctypes\ndef f():\n    {BY_NAME}from . import _core\nf()\n", Severity.NOTE),
    ],
)
def test_a_bare_name_before_the_import_that_loads_the_library(
    tmp_path: Path, source: str, severity: Severity
) -> None:
    library = shared_object(
        tmp_path / "libwford.so", "int f(void) { return 1; }", soname="libwford.so"
    )
    core = extension(
        tmp_path / "_core.so", "_core", needed=[library], calls=["f"], runpath="$ORIGIN"
    )
    path = make_wheel(
        tmp_path / "dist",
        tag="py3-none-linux_x86_64",
        files={"demo/_core.so": core, "demo/libwford.so": library, "demo/__init__.py": source},
    )
    assert severities(opened_and_missing.opened_library_missing, read(path)) == [severity]
    done = run(installed(path, tmp_path / "site"), "import demo")
    assert bool(done.returncode) == (severity is Severity.ERROR)


def test_a_renaming_graft_is_reported_before_and_after() -> None:
    user = {"pkg/m.so": elf("libfoo.so.1")}
    before = opening_wheel(opening("libfoo.so.1"), objects=user)
    assert severities(opened_and_missing.opened_library_renamed, before) == [Severity.WARNING]
    assert (
        severities(opened_and_missing.opened_library_renamed, before, keep_names=("libfoo.so*",))
        == []
    )
    assert (
        severities(opened_and_missing.opened_library_renamed, before, exclude=("libfoo.so.1",))
        == []
    )
    new = "libfoo-1a2b3c4d.so.1"
    objects = {"pkg/m.so": elf(new), f"pkg.libs/{new}": elf(soname=new)}
    after = opening_wheel(opening("libfoo.so.1"), objects=objects)
    assert severities(opened_and_missing.opened_library_renamed, after) == [Severity.ERROR]


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


def test_a_driver_is_not_grafted_and_so_not_renamed() -> None:
    objects = {"pkg/m.so": elf("libcuda.so.1", "libwfx.so.1")}
    driver = opening_wheel(opening("libcuda.so.1"), objects=objects)
    assert severities(opened_and_missing.opened_library_renamed, driver) == []
    assert severities(opened_and_missing.opened_library_renamed, driver, graft_drivers=True) != []
    other = opening_wheel(opening("libwfx.so.1"), objects=objects)
    assert severities(opened_and_missing.opened_library_renamed, other) == [Severity.WARNING]


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


NAME = "libwfboth.so.1"
IF_THERE = f"""
import ctypes, os
path = os.path.join(os.path.dirname(__file__), "{NAME}")
if os.path.exists(path):
    ctypes.CDLL(path)
"""


@pytest.mark.parametrize(
    ("files", "member", "is_opened"),
    [
        ({"pkg/c.json": f'{{"lib": "{NAME}"}}'}, "pkg/c.json", True),
        ({"pkg/c.cfg": f"{NAME}\n"}, "pkg/c.cfg", True),
        ({"pkg/c.txt": NAME}, "pkg/c.txt", True),
        ({"pkg/k.py": f"class K:\n    name = '{NAME}'\n"}, "pkg/k.py", True),
        ({"pkg/c.json": f'{{"lib": "not-{NAME}"}}'}, None, False),
        ({"pkg/c.bin": NAME}, None, False),
        ({"pkg/c.txt": f"it needs {NAME}\n"}, None, False),
        ({"pkg/c.ini": f"; {NAME}\n# {NAME}\n"}, None, False),
        ({"pkg/LICENSES.txt": f"Files: libs/{NAME}\n"}, None, False),
        ({"pkg/c.ini": f"[lib]\nname = {NAME}\r\n"}, "pkg/c.ini", True),
        ({"pkg/c.yaml": f"libs:\n  - {NAME}  # the library\n"}, "pkg/c.yaml", True),
        ({"pkg/c.xml": f"<lib>{NAME}</lib>"}, "pkg/c.xml", True),
        ({"pkg/c.csv": f"1,{NAME},x"}, "pkg/c.csv", True),
        ({"pkg/run.sh": f"LD_PRELOAD={NAME} exec run\n"}, "pkg/run.sh", True),
        ({"pkg/o.py": IF_THERE}, None, False),
        ({"pkg/notices.json": f'{{"lib": "{NAME}"}}'}, "pkg/notices.json", True),
        ({"pkg/c.cfg": f"libs = libc.so.6;{NAME}\n"}, "pkg/c.cfg", True),
        ({"pkg/c.cfg": f"#{NAME}\n"}, None, False),
        ({"pkg/vcpkg.spdx.json": f'{{"fileName": "{NAME}"}}'}, None, False),
        ({"pkg/bom.cdx.json": f'{{"name": "{NAME}"}}'}, None, False),
    ],
)
def test_a_file_with_a_name_that_the_graft_changes_is_told(
    two_ways: Path, files: dict[str, str], member: str | None, *, is_opened: bool, tmp_path: Path
) -> None:
    """Code may read it: whether it does is not known."""
    with zipfile.ZipFile(two_ways) as archive:
        module = archive.read(f"pkg/m{SUFFIX}")
    content: dict[str, bytes | str | Path] = {f"pkg/m{SUFFIX}": module, "pkg/__init__.py": ""}
    built = make_wheel(tmp_path, tag=TAG, files={**content, **files})
    outcome = repaired(built, tmp_path)
    assert outcome.output is not None
    found = [f for f in outcome.remaining if f.code == "WF318"]
    assert [(f.severity, f.member) for f in found] == [(Severity.WARNING, member)] * is_opened
    kept = repaired(built, tmp_path / "kept", keep_names=(NAME,))
    assert not [f for f in kept.remaining if f.code == "WF318"]


def test_an_object_that_opens_by_a_name_what_the_graft_renames_is_told(tmp_path: Path) -> None:
    library = shared_object(tmp_path / f"host/{NAME}", "int count(void) { return 7; }", soname=NAME)
    source = (
        "#include <dlfcn.h>\nint count(void);\n"
        f'int ask(void) {{ return dlopen("{NAME}", RTLD_NOW | RTLD_NOLOAD) ? count() : -1; }}'
    )
    module = shared_object(
        tmp_path / "libuser.so", source, needed=[library], rpath=str(library.parent)
    )
    built = make_wheel(tmp_path, tag=TAG, files={"pkg/libuser.so": module, "pkg/__init__.py": ""})
    asking = "import ctypes, pkg; print(ctypes.CDLL(pkg.__path__[0] + '/libuser.so').ask())"
    for place, names, answer in (("a", (), "-1\n"), ("b", (NAME,), "7\n")):
        outcome = repaired(built, tmp_path / place, keep_names=names)
        assert outcome.output is not None
        assert run(installed(outcome.output, tmp_path / f"site-{place}"), asking).stdout == answer
        told = [f.member for f in outcome.remaining if f.code == "WF318"]
        assert told == ["pkg/libuser.so"] * (not names)


def test_a_kept_name_serves_both_dependents_with_one_copy(two_ways: Path, tmp_path: Path) -> None:
    outcome = repaired(two_ways, tmp_path, keep_names=("libwfboth.so.*",))
    assert outcome.output is not None, outcome
    assert outcome.after is not None
    assert "demo.libs/libwfboth.so.1" in outcome.after.elfs
    [sbom] = [
        step for step in outcome.edits if step.title == "list the grafted libraries in the SBOM"
    ]
    assert "libwfboth.so.1" in str(sbom.edit)
    done = run(installed(outcome.output, tmp_path / "site"), CODE)
    assert done.stdout == "1 2\n", done.stderr


def noting(name: str, priority: str) -> Any:
    note = f'[{{"soname": ["{name}"], "priority": "{priority}"}}]'
    return elf(dlopen_notes=(note,), runpath="$ORIGIN")


def test_a_noted_library_is_looked_for_by_the_objects_own_search_path() -> None:
    for folder, expected in (("pkg", []), ("pkg/lib", [Severity.ERROR])):
        objects = {"pkg/m.so": noting("libx.so", "required"), f"{folder}/libx.so": elf()}
        assert severities(opened_and_missing.noted_library_missing, wheel(objects)) == expected
    renamed = {"pkg/m.so": noting("libx.so.1", "suggested"), "p.libs/libx-1a2b3c4d.so.1": elf()}
    assert severities(opened_and_missing.noted_library_missing, wheel(renamed)) == [
        Severity.WARNING
    ]
    foreign = wheel({"pkg/m.so": noting("libsystemd.so.0", "required")})
    assert severities(opened_and_missing.noted_library_missing, foreign) == []


@pytest.mark.parametrize("note", ["", "{", "{}", "[1]", '[{"soname": 1}]'])
def test_a_note_that_is_not_as_specified_says_nothing(note: str) -> None:
    subject = wheel({"pkg/m.so": elf(dlopen_notes=(note,)), "pkg/libx.so": elf()})
    assert severities(opened_and_missing.noted_library_missing, subject) == []


def test_the_note_is_read_from_the_object(tmp_path: Path) -> None:
    note = r"""
    __asm__(".section .note.dlopen, \"a\", %note\n .balign 4\n .long 4, 2f - 1f, 0x407c0c0a\n"
            " .asciz \"FDO\"\n1: .asciz \"[{\\\"soname\\\": [\\\"libq.so.1\\\"]}]\"\n2: .balign 4\n"
            " .previous");
    """
    path = make_wheel(tmp_path, files={"pkg/x.so": shared_object(tmp_path / "x.so", note)})
    assert read(path).elfs["pkg/x.so"].dlopen_notes == ('[{"soname": ["libq.so.1"]}]',)


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
def test_sources_that_are_too_complex_are_reported(sources: dict[str, str], tmp_path: Path) -> None:
    library = shared_object(tmp_path / "libx.so")
    files: dict[str, Any] = {"pkg/libx.so": library, "pkg/__init__.py": OPENS, **sources}
    subject = read(make_wheel(tmp_path, files=files))
    [found] = findings(opened_and_missing.openings_not_judged, subject)
    assert found.severity is Severity.NOTE
    assert found.member in sources
    assert set(subject.unfollowed) <= set(sources)
    assert "not evaluated completely" in found.message
    assert "may have been missed" in found.message
    assert f"`{found.member}`" in found.notes[0]


def test_sources_that_are_evaluated_or_open_nothing_are_not_reported(tmp_path: Path) -> None:
    files: dict[str, Any] = {
        "pkg/libx.so": shared_object(tmp_path / "libx.so"),
        "pkg/__init__.py": OPENS,
        "pkg/data.py": "x = 0\n" * 200_000,
        "pkg/tokens.py": f"x = [{'0,' * 60_000}]\n",
        "pkg/old.py": "print 'ctypes.CDLL'\n",
    }
    subject = read(make_wheel(tmp_path, files=files))
    assert subject.openings.keys() == {"pkg/__init__.py"}
    assert severities(opened_and_missing.openings_not_judged, subject) == []


@pytest.mark.parametrize(
    ("member", "is_told"), [("demo/a.pyc", True), ("demo/__pycache__/a.cpython-311.pyc", False)]
)
def test_bytecode_without_its_source_is_not_looked_at(member: str, *, is_told: bool) -> None:
    subject = wheel({}, "demo/__init__.py", member)
    found = findings(opened_and_missing.openings_not_judged, subject)
    assert [finding.member for finding in found] == [member] * is_told


def test_a_repair_still_reports_sources_that_are_too_complex(
    two_ways: Path, tmp_path: Path
) -> None:
    with zipfile.ZipFile(two_ways) as old:
        kept = {n: old.read(n) for n in old.namelist() if ".dist-info/" not in n}
    given_up = "\n".join((f"x = [{'0,' * 60_000}]", OPENS))
    path = make_wheel(tmp_path, tag=TAG, files={**kept, "demo/tokens.py": given_up})
    outcome = repaired(path, tmp_path / "out")
    assert outcome.after is not None, outcome
    assert outcome.after.unfollowed == ("demo/tokens.py",)
    assert "WF320" in {finding.code for finding in outcome.remaining}


FROM_PREFIX = 'CDLL(os.path.join(sys.prefix, "lib", "libx.so"))'


@pytest.mark.parametrize(
    ("requires", "code", "breaks"),
    [
        ("", FROM_PREFIX, True),
        ("numpy", FROM_PREFIX, True),
        ("", FROM_PREFIX.replace("lib", "demo", 1), True),
        ("", f"def later():\n    {FROM_PREFIX}", True),
        ("", 'CDLL(os.path.dirname(__file__) + "/../../../../lib/libx.so")', True),
        ("", f"try:\n    {FROM_PREFIX}\nexcept OSError:\n    pass", False),
    ],
)
def test_a_data_file_that_a_repair_moves_is_not_opened_from_its_place(
    requires: str, code: str, tmp_path: Path, capsys: pytest.CaptureFixture[str], *, breaks: bool
) -> None:
    """Whatever a requirement may have there, and whenever it is opened."""
    host = shared_object(tmp_path / "host" / "libdep.so.1", "int dep(void) { return 1; }")
    library = shared_object(
        tmp_path / "libx.so",
        "int dep(void); int one(void) { return dep(); }",
        soname="libx.so",
        needed=[host],
        runpath=str(host.parent),
    )
    code = f"import os, sys\nfrom ctypes import CDLL\n{code}\n"
    folder = "demo" if '"demo"' in code else "lib"
    files: dict[str, bytes | str | Path] = {"demo/__init__.py": code}
    files[f"demo-1.0.data/data/{folder}/libx.so"] = library
    metadata = f"Requires-Dist: {requires}\n" if requires else ""
    subject = make_wheel(tmp_path / "dist", tag=TAG, files=files, metadata=metadata)
    command = ["repair", "-w", str(tmp_path / "out")]
    moved = main([*command, "--data-libraries=move", str(subject)])
    assert moved == breaks
    assert ("error[WF317]" in capsys.readouterr().err) is breaks
    assert main([*command, str(subject)]) == 0
    assert "error[WF317]" not in capsys.readouterr().err


@pytest.mark.parametrize("copies", [True, False])
def test_a_source_may_copy_a_file_below_sys_prefix_before_it_opens_it(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], *, copies: bool
) -> None:
    """A warning: what else of the environment may put it there is not read."""
    library = shared_object(tmp_path / "libwfp.so", soname="libwfp.so")
    source = "import ctypes, os, shutil, sys\nthere = os.path.join(sys.prefix, 'libwfp.so')\n"
    source += "shutil.copy(os.path.join(os.path.dirname(__file__), 'libwfp.so'), there)\n" * copies
    files: dict[str, str | Path] = {"pkg/libwfp.so": library}
    files["pkg/__init__.py"] = f"{source}ctypes.CDLL(there)\n"
    path = make_wheel(tmp_path / "dist", tag="py3-none-linux_x86_64", files=files)
    site, prefix = installed(path, tmp_path / "site"), tmp_path / "prefix"
    prefix.mkdir()
    done = run(site, f"import sys; sys.prefix = {str(prefix)!r}; import pkg")
    assert bool(done.returncode) is not copies
    assert main(["check", "--select", "WF317", str(path)]) == 0
    assert (
        "warning[WF317] opened-library-missing: "
        f'`ctypes.CDLL(f"{{sys.prefix}}/libwfp.so")` in line {3 + copies} leads out of '
        "site-packages, but not to the wheel's `pkg/libwfp.so`"
    ) in capsys.readouterr().out
