"""Names from a wheel are escaped in all output: for terminals, GitHub's runner and parsers.

One wheel has hostile text in every field, and is the argument of every command.
"""

import csv
import io
import json
import os
import re
import shlex
import subprocess
import sys
import zipfile
from collections.abc import Sequence
from html.parser import HTMLParser
from itertools import chain
from pathlib import Path
from xml.etree import ElementTree as ET

import pytest

from tests.support.build import make_wheel, shared_object
from tests.support.forged import forged
from tests.support.fork_server import warm_program
from tests.support.forked import forked
from wheelfix.cli.app import run
from wheelfix.cli.console import Terminal

HOSTILE = (
    "\x1b[2J\x1b]0;title\x07\x9b31m",
    "\n::set-output name=a::b\n",
    "\r\n::add-mask::e\n##[add-mask]e\n",
    "::stop-commands::x",
    "##[group]x",
    "%0A::error::x",
    "\u202egnp.so\u2066",
    "<script>alert(1)</script><!--",
    "]]><x/>&lt;",
    "`|| a | b |\n# title\n[x](javascript:x)",
    '"},{"a":"b\\',
    "\x00after",
    "\ud800",
    'end\n</details>\nclick A "javascript:x"\n}',
)
UNSEEN = (
    "\x1b[2J",
    "\u202egnp",
    "\u2028.so",
    "\u2066x",
    "\u0378x",
    "a\n::error::x",
    "\x9b31m",
    "\ue000",
)
"""Control, format, unassigned, private and separator characters: members have none in names."""
IN_A_FILE_NAME = [
    *(re.sub(r"[^ -~]|\\", "", text) for text in HOSTILE),
    " --help ",
    "\xa0\u3000x",
    "'; $(x) \"x' onload='alert(1)",
]
"""What wheels may still have in names of members: markup, quotes, commands, odd spaces."""
STEERING = re.compile(
    "[\0-\x08\x0b-\x1f\x7f-\x9f\u0378\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ue000]"
)
UNSAFE = "do not install it"
OURS = ("::error ", "::warning ", "::notice ")


ESCAPED = ("1b[2J", "202egnp", "2028.so", "2066x", "0378x", "9b31m", "e000")
"""How outputs show `UNSEEN`, after the backslash and `x` or `u00`."""


def text_of(number: int) -> str:
    return HOSTILE[number % len(HOSTILE)].replace("\0", "").replace("\ud800", "\ufffd")


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A wheel with all hostile texts."""
    folder = tmp_path_factory.mktemp("hostile")
    objects = {
        f"demo/{n}{name.replace('/', '-')}.so": forged(
            needed=[text_of(n), text_of(n + 1), f"lib{text_of(n + 2)}.so.1"],
            runpath=f"$ORIGIN/{text_of(n + 3)}:/tmp/{text_of(n + 4)}:::x",
            soname=text_of(n + 5),
            versions=[f"GLIBC_{text_of(n + 6)}", text_of(n + 7)],
        )
        for n, name in enumerate((*IN_A_FILE_NAME, "plain", "::error::x"))
    }
    objects["demo/unseen.so"] = forged(
        needed=[f"lib{text}.so.1" for text in UNSEEN],
        runpath=":".join(f"$ORIGIN/{text}:/opt/{text}" for text in UNSEEN),
        soname="".join(UNSEEN),
        versions=[f"GLIBC_{text}" for text in UNSEEN],
    )
    real = shared_object(
        folder / "real.so", soname="::add-mask::x", runpath="$ORIGIN/##[group]:/tmp/\x1b[2J"
    )
    source = "import ctypes, os\nhere = os.path.dirname(__file__)\n" + "".join(
        f"ctypes.CDLL(os.path.join(here, {each!a}))\nctypes.CDLL({each!a})\n" for each in HOSTILE
    )
    info = "demo-1.0.dist-info"
    files: dict[str, bytes | str | Path] = {
        **objects,
        "demo/real.so": real,
        "demo/::stop-commands::x/y.so": real,
        "demo/__init__.py": source,
        "demo-1.0.data/scripts/::error::run": f"#!/bin/{HOSTILE[0]}{HOSTILE[8]}\n",
        f"{info}/entry_points.txt": "[console_scripts]\n" + "\n".join(map(ascii, HOSTILE)),
        f"{info}/sboms/x.cdx.json": ascii(HOSTILE[1]),
    }
    values = [each.translate({10: " ", 13: " "}).replace("\ud800", "?") for each in HOSTILE]
    metadata = "".join(
        f"Requires-Dist: {each}\nLicense-File: {each}\nRequires-Python: {each}\nX{n}: {each}\n"
        for n, each in enumerate(values)
    )
    return make_wheel(
        folder / "::warning::x", tag=f"py3-none-linux_{os.uname().machine}", files=files,
        metadata=metadata, wheel_lines="".join(f"Tag: py3-none-{each}\n" for each in values),
    )  # fmt: skip


def said(
    *arguments: str | Path, cwd: Path, code: Sequence[int] = (0, 1), refused: bool = False
) -> tuple[str, str]:
    """Run wheelfix and return its output, which must be harmless for terminals and runners."""
    environ = {name: value for name, value in os.environ.items() if name != "GITHUB_STEP_SUMMARY"}
    done = forked(run, arguments, env={**environ, "NO_COLOR": "1"}, cwd=cwd)
    texts = done.stdout, done.stderr
    assert done.returncode in code, texts[1]
    assert "internal error" not in texts[1]
    assert refused or UNSAFE not in texts[1], texts[1]
    for text in texts:
        assert_harmless(text, annotates="github" in arguments)
    return texts


def reports(
    *arguments: str | Path, cwd: Path, code: Sequence[int] = (0, 1), refused: bool = False
) -> dict[str, str]:
    """Run `check` once, and return its report in each form, and `notes`; all must be harmless."""
    options = [word for form in FORMS[1:] for word in ("--report", f"{form}={form}")]
    shown, notes = said("check", "-v", *arguments, *options, cwd=cwd, code=code, refused=refused)
    found = {FORMS[0]: shown} | {form: (cwd / form).read_text("utf-8") for form in FORMS[1:]}
    for form, text in found.items():
        assert_harmless(text, annotates=form == "github")
    return found | {"notes": notes}


def assert_harmless(text: str, *, annotates: bool = False) -> None:
    found = STEERING.search(text)
    assert found is None, text[max(0, found.start() - 200) : found.end() + 50]
    assert "##[" not in text
    for line in text.splitlines():
        if line.lstrip().startswith("::"):
            assert annotates, line
            assert line.startswith(OURS), line


FORMS = ("full concise json jsonl sarif github gitlab junit markdown html").split()


def test_check(wheel: Path, tmp_path: Path) -> None:
    found = reports(wheel, cwd=tmp_path)
    for form in FORMS:
        # GitHub shows ten annotations of each level, which have the other hostile texts.
        for each in ESCAPED[:2] if form == "github" else ESCAPED:
            assert each in found[form], form
    for form in ("json", "sarif", "gitlab"):
        json.loads(found[form])
    for line in found["jsonl"].splitlines():
        json.loads(line)
    ET.fromstring(found["junit"])  # noqa: S314 - wheelfix wrote it
    from markdown_it import MarkdownIt

    page = MarkdownIt("commonmark").enable("table").render(found["markdown"])
    assert 'href="javascript:' not in page
    assert "<h1>title" not in page
    assert "<script>alert" not in page
    assert "<script>alert" not in found["html"]


# --- Names that a real linker accepts -------------------------------------------------------------

SYMBOLS = (
    "\x1b[2J",
    "::error::x",
    "##[group]x",
    "<script>alert(1)</script>",
    "]]><x/>",
    "\udcff\udcfe",
    "`|x|`",
    "%0A::error::x",
    "\u202egnp",
    "\u2028x",
    "\u2066x",
    "\u0378x",
    "' onload='alert(1)",
    "_ZN3foo9\x1b[2J::[]E3barEv",
    "_ZN12::error::xyz3barEv",
)
MEMBERS = (
    "u##",
    "a##.so",
    "[a.so",
    "' onload=alert(1) x='.so",
    "javascript:x.so",
    "file:##[x].so",
    "\xa0`<b>`.so",
)
"""Names that would become a command together with the text printed after them."""


def quoted(symbol: str) -> str:
    """Write a symbol as the GNU assembler reads it."""
    return f'"{symbol}"'


def linked_wheel(folder: Path, symbols: Sequence[str], members: Sequence[str]) -> Path:
    """Build objects with these symbols and names that depend on each other."""

    def linked(name: str, assembly: str, soname: str, *more: str) -> Path:
        (folder / "x.s").write_text(f".text\n{assembly}", "utf-8", "surrogateescape")
        link = ["gcc", "-shared", "-nostdlib", "-o", name, "x.s", f"-Wl,-soname,{soname}"]
        link += ["-Wl,--no-as-needed,--allow-shlib-undefined", *more]
        subprocess.run(link, cwd=folder, check=True)
        return folder / name

    folder.mkdir(parents=True)
    hostile = "none" not in symbols
    library = linked("lib.so", ".globl fine\nfine: ret\n", "libx.so.1")
    calls = "".join(f"call {quoted(each)}@PLT\n" for each in ("fine", *symbols))
    rpath = "-Wl,-rpath,::error::x" if hostile else "-Wl,-rpath,::none::x"
    unseen = UNSEEN if hostile else [f"none{n}" for n, _ in enumerate(UNSEEN)]
    odd = forged(
        needed=[f"lib{text}.so.1" for text in unseen],
        runpath=":".join(f"/opt/{text.replace(':', '')}" for text in unseen),
        soname="".join(unseen),
        versions=[f"GLIBC_{text}" for text in unseen],
    )
    user = linked("user.so", f".globl user\nuser: {calls}", members[0], "lib.so", rpath)
    labels = "".join(f".globl {quoted(s)}\n{quoted(s)}: ret\n" for s in dict.fromkeys(symbols))
    other = linked("other.so", labels, members[2], "user.so")
    files: dict[str, bytes | str | Path] = {"demo/__init__.py": "", "demo/libx.so.1": library}
    files["demo/odd.so"] = odd
    files |= {f"demo/{name}": other if n % 2 else user for n, name in enumerate(members)}
    metadata = "Summary: \x1b[2J\nX: ##[group]\n::error:: x\nRequires-Python: ##[x]\n"
    return make_wheel(
        folder,
        tag=f"py3-none-linux_{os.uname().machine}",
        files=files,
        metadata=metadata if hostile else "X: x\n",
    )


@pytest.fixture(scope="module")
def linked(tmp_path_factory: pytest.TempPathFactory) -> Path:
    if os.uname().machine != "x86_64":
        pytest.skip("the assembly is x86-64's")
    return linked_wheel(tmp_path_factory.mktemp("linked") / "x", SYMBOLS, MEMBERS)


def test_check_of_a_linked_wheel(linked: Path, tmp_path: Path) -> None:
    found = reports("--target", "debian:12", linked, cwd=tmp_path)
    for form in FORMS:
        assert any(part in found[form] for part in ("javascript", "u##", "alert")), form
        # An annotation names three of the objects and of the reasons, the other forms all.
        shown = ESCAPED[:3] if form == "github" else ESCAPED
        assert [each for each in ESCAPED if each in found[form]] == [*shown], form


@pytest.mark.parametrize(
    "words",
    [
        ("diff", "-v", "{wheel}"),
        ("diff", "--output-format=json", "{wheel}"),
        ("repair", "-v", "-w", "out"),
        ("repair", "--dry-run", "-v", "-w", "out"),
        ("repair", "-w", "out", "--provider", "{wheel}"),
        ("explain",),
        ("explain", "--output-format", "mermaid"),
        ("explain", "--output-format", "dot"),
        ("explain", "-v"),
        ("explain", "--output-format=json"),
        ("explain", "--with", "{wheel}"),
        ("verify", "-v"),
        ("verify", "--output-format=json"),
        ("check", "--provider", "{wheel}"),
        ("check", "--library-path", "{wheel}"),
    ],
    ids=" ".join,
)
def test_other_commands_on_a_linked_wheel(
    words: tuple[str, ...], linked: Path, tmp_path: Path
) -> None:
    options = [word.format(wheel=linked) for word in words]
    text, notes = said(*options, linked, cwd=tmp_path, code=(0, 1, 2))
    assert text + notes


class Shape(HTMLParser):
    """Which elements a page has, with which attributes."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.found: set[tuple[str, tuple[str, ...]]] = set()
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.found.add((tag, tuple(sorted(name for name, _ in attrs))))


@pytest.mark.parametrize("words", [("check", "--output-format"), ("explain", "--output-format")])
def test_names_add_no_html_elements_or_attributes(
    words: tuple[str, ...], linked: Path, tmp_path: Path
) -> None:
    """A page on hostile names has the elements of one on harmless names."""
    harmless = linked_wheel(
        tmp_path / "x", ["none"] * len(SYMBOLS), [f"m{n}.so" for n, _ in enumerate(MEMBERS)]
    )
    pages = [said(*words, "html", each, cwd=tmp_path)[0] for each in (harmless, linked)]
    usual, found = (Shape(page).found for page in pages)
    assert usual
    assert found <= usual | {("br", ())}


def test_a_baseline_may_hold_any_name(linked: Path, wheel: Path, tmp_path: Path) -> None:
    file = tmp_path / "base.json"
    for each in (linked, wheel):
        said("check", "--write-baseline", "--baseline", file, each, cwd=tmp_path, code=(0,))
        assert file.read_bytes().isascii()
        said("check", "--baseline", file, each, cwd=tmp_path, code=(0,))


@pytest.mark.large
def test_a_baseline_and_a_configuration_may_name_what_no_member_is_named(
    wheel: Path, tmp_path: Path
) -> None:
    base, file = tmp_path / "base.json", tmp_path / "wheelfix.toml"
    row = dict.fromkeys(("distribution", "code", "member", "entry"), "".join(UNSEEN))
    for more, code in (({}, 1), ({each: each for each in UNSEEN}, 2)):
        base.write_text(json.dumps({"version": 1, "findings": [row | more]}))
        _, notes = said("check", "-v", "--baseline", base, wheel, cwd=tmp_path, code=(code,))
        assert "invalid row" in notes or not more
    names = json.dumps(UNSEEN)
    harmless = f"exclude = {names}\nkeep-entries = {names}\nkeep-names = {names}\n"
    file.write_text(harmless)
    said("check", "-v", wheel, cwd=tmp_path)
    each = json.dumps("\n".join(UNSEEN))
    for bad in (f"{each} = 1", f"select = [{each}]", f"severity = {{{each} = {each}}}"):
        file.write_text(f"{harmless}{bad}\n")
        _, notes = said("check", "-v", wheel, cwd=tmp_path, code=(2,))
        assert "error: " in notes
        for text in set(ESCAPED) - {"2028.so"}:  # a line separator is written as a line break
            assert text in notes, notes


def test_the_step_summary_of_github(linked: Path, wheel: Path, tmp_path: Path) -> None:
    summary = tmp_path / "summary"
    for each in (linked, wheel):
        subprocess.run(
            [warm_program(), "check", "--fail-on", "never", "-q", str(each)],
            env={**os.environ, "GITHUB_STEP_SUMMARY": str(summary)},
            stdout=subprocess.DEVNULL,
            check=True,
        )
    assert_harmless(summary.read_text("utf-8"))


def test_two_wheels_with_the_same_name(linked: Path, wheel: Path, tmp_path: Path) -> None:
    """As before and after a repair; their contents differ completely."""
    text, _ = said("check", wheel, linked, cwd=tmp_path, code=(1,))
    assert str(wheel.parent.name).removeprefix("::") in text


def test_an_installed_environment(linked: Path, tmp_path: Path) -> None:
    """Installed files can have names that a zip cannot."""
    site = tmp_path / "venv/lib/python3.11/site-packages"
    with zipfile.ZipFile(linked) as archive:
        content = archive.read("demo/[a.so")
        archive.extractall(site)
    (tmp_path / "venv/pyvenv.cfg").write_text("home = /usr/bin\n")
    names = ["a\n::error::x.so", "\x1b[2J.so", "##[group].so", "b\u202e.so", "\udcff.so"]
    rows = io.StringIO()
    for name in names:
        (site / "demo" / name).write_bytes(content)
        csv.writer(rows).writerow([f"demo/{name}", "", ""])
    record = site / "demo-1.0.dist-info/RECORD"
    record.write_text(record.read_text() + rows.getvalue(), "utf-8", "surrogateescape")
    odd = site / "::error::x\n-1.0.dist-info"
    odd.mkdir()
    (odd / "METADATA").write_text("Name: \x1b[2J\nVersion: ::error::\n")
    venv = tmp_path / "venv"
    for form in ("text", "mermaid", "dot", "json", "html"):
        words = "explain", "--output-format", form, "--site", venv
        assert said(*words, cwd=tmp_path, code=(0, 1))[0]
    for name in names:
        for more in ((), ("--output-format=json",), ("-v",)):
            said("explain", "--site", venv, f"demo/{name}", *more, cwd=tmp_path, code=(0, 1, 2))


def test_modules_of_any_name_that_open_what_is_not_known(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """And libraries of names that no file can have."""
    site = tmp_path / "env/lib/python3.11/site-packages"
    (site / "demo").mkdir(parents=True)
    (tmp_path / "env/pyvenv.cfg").write_text("home = /usr/bin\n")
    shared_object(site / "demo/_core.so")
    opens = "import ctypes, os\nctypes.CDLL(os.environ['X'])\n"
    (site / "\x1b[31m\udcff.py").write_text(opens)
    (site / "demo/__init__.py").write_text(f"import ctypes\nctypes.CDLL('{'x' * 300}.so')\n")
    assert run(["doctor", str(tmp_path / "env")]) < 2
    said = capsys.readouterr().out
    assert "by names that are not known in `\\x1b[31m\\udcff`" in said
    assert "\x1b" not in said


def test_a_traceback_is_escaped(capsys: pytest.CaptureFixture[str]) -> None:
    """With -v, Python's traceback is shown, which may quote the wheel."""
    Terminal(verbosity=1).trace(ValueError("\n::error::\x1b[2J##[group]\u202e"))
    said = capsys.readouterr().err
    assert "ValueError" in said
    assert_harmless(said)


# --- Every command on the hostile wheel -----------------------------------------------------------


@pytest.mark.parametrize("options", [(), ("--dry-run",), ("-v",), ("-q",)])
def test_repair(wheel: Path, tmp_path: Path, options: tuple[str, ...]) -> None:
    _, notes = said("repair", *options, "-w", tmp_path / "out", wheel, cwd=tmp_path, code=(0, 1, 2))
    assert notes


def test_repair_of_a_repairable_hostile_wheel(tmp_path: Path) -> None:
    """The plan and the summary quote hostile names."""
    files: dict[str, bytes | str | Path] = {
        "demo/::add-mask::x/y.so": shared_object(
            tmp_path / "y.so", soname="##[group]\x1b[2J\n::error::x",
            runpath="/opt/\x1b]0;x\x07:$ORIGIN/\n::error::x",
        )
    }  # fmt: skip
    good = make_wheel(tmp_path, tag=f"py3-none-linux_{os.uname().machine}", files=files)
    for options in ((), ("--dry-run",), ("-v",)):
        text, notes = said("repair", *options, "-w", "out", good, cwd=tmp_path)
        assert "add-mask" in text + notes or not options


@pytest.mark.parametrize("form", ["text", "markdown", "json"])
def test_diff(wheel: Path, tmp_path: Path, form: str) -> None:
    """All of the hostile wheel is new."""
    plain = make_wheel(tmp_path, tag="py3-none-any").rename(tmp_path / wheel.name)
    text, _ = said("diff", "-v", "--output-format", form, plain, wheel, cwd=tmp_path)
    assert "add-mask" in text
    if form == "json":
        json.loads(text)
    if form == "markdown":
        from markdown_it import MarkdownIt

        page = MarkdownIt("commonmark").enable("table").render(text)
        assert 'href="javascript:' not in page
        assert "<script>alert" not in page


@pytest.mark.parametrize("form", ["text", "mermaid", "dot", "json", "html"])
def test_explain_in_each_format(wheel: Path, tmp_path: Path, form: str) -> None:
    text, _ = said("explain", "-v", "--output-format", form, wheel, cwd=tmp_path, code=(0, 1))
    for each in ESCAPED:
        assert each in text
    if form == "json":
        json.loads(text)
    if form == "html":
        assert "<script>alert" not in text


@pytest.mark.parametrize(
    "more", [(), ("demo/real.so",), ("demo/::stop-commands::x/y.so",), ("--output-format=json",)]
)
def test_explain(wheel: Path, tmp_path: Path, more: tuple[str, ...]) -> None:
    text, _ = said("explain", wheel, *more, cwd=tmp_path, code=(0, 1, 2))
    if "--output-format=json" in more:
        json.loads(text)


def test_verify_and_trace(wheel: Path, tmp_path: Path) -> None:
    """`verify` prints output of the wheel's programs, `trace` paths of loaded files."""
    text, _ = said("verify", "--output-format=json", wheel, cwd=tmp_path, code=(0, 1, 2))
    if text:
        json.loads(text)
    said("verify", "-v", wheel, cwd=tmp_path, code=(0, 1, 2))
    library = shared_object(tmp_path / "::error::x" / "##[group]\x1b[2J.so", soname="\x1b[31m")
    code = f"import ctypes; ctypes.CDLL({str(library)!r})"
    for options in ((), ("--output-format=json",), ("-v",)):
        said("trace", *options, "--", sys.executable, "-c", code, cwd=tmp_path, code=(0, 1, 2))


def refused_wheels(folder: Path) -> list[Path]:
    """Write a wheel with a member for each of `UNSEEN`."""
    library = forged(soname="libx.so")
    return [
        make_wheel(folder / str(n), files={f"demo/{text}.so": library})
        for n, text in enumerate(UNSEEN)
    ]


def assert_refused(written: str) -> None:
    for text in UNSEEN:
        name = "".join(c if c.isprintable() else ascii(c)[1:-1] for c in text)
        assert f"`demo/{name}.so` has a control character" in written


@pytest.mark.parametrize(
    "words",
    [("repair", "-v", "-w", "out"), ("explain", "-v"), ("verify", "-v")],
    ids=" ".join,
)
def test_a_member_name_with_unseen_characters_is_refused_and_escaped(
    words: tuple[str, ...], tmp_path: Path
) -> None:
    runs = (
        said(*words, wheel, cwd=tmp_path, code=(2,), refused=True)
        for wheel in refused_wheels(tmp_path)
    )
    assert_refused("".join(chain.from_iterable(runs)))


def test_a_refused_member_name_is_escaped_in_each_form_of_the_report(tmp_path: Path) -> None:
    wheels = refused_wheels(tmp_path)
    found = reports(*wheels, cwd=tmp_path, code=(2,), refused=True)
    assert_refused(found["notes"])
    assert_refused(found["jsonl"].replace("\\\\", "\\"))  # JSON doubles each backslash


FILE_NAMES = (
    "\x1b[2J-1.0-py3-none-any.whl",
    "a\n::error::x-1.0-py3-none-any.whl",
    "::add-mask::x-1-py3-none-any.whl",
    "##[group]-1.0-py3-none-any.whl",
    "\u202ea-1.0-py3-none-any.whl",
    "no wheel\x1b[2J",
)


@pytest.mark.each_run("check-*", "*::add-mask*")
@pytest.mark.parametrize("name", FILE_NAMES)
@pytest.mark.parametrize("command", ["check", "repair", "explain", "verify"])
def test_a_hostile_file_name(tmp_path: Path, command: str, name: str) -> None:
    (tmp_path / name).write_bytes(b"PK")
    said(command, name, cwd=tmp_path, code=(2,))
    (tmp_path / name).unlink()
    said(command, name, cwd=tmp_path, code=(2,))


@pytest.mark.large
@pytest.mark.parametrize("end", ["\n", "\r", "\x85", "\u2028", "`\n  "], ids=ascii)
def test_a_name_that_ends_a_line_does_not_end_that_of_an_error(end: str, tmp_path: Path) -> None:
    library = shared_object(tmp_path / "x.so")
    wheel = make_wheel(tmp_path, files={"demo/x.so": library})

    def lines(name: str) -> list[int]:
        there = tmp_path / f"demo-1.0-{name}-py3-none-linux_x86_64.whl"
        there.write_bytes(wheel.read_bytes())
        (tmp_path / f"{name}.toml").write_text("nope = 1", encoding="utf-8")
        path = tmp_path / name
        return [
            said(*words, cwd=tmp_path, code=[0, 1, 2, 127])[1].count("\n")
            for words in (
                *((command, path) for command in "check repair show explain doctor verify".split()),
                *((command, there) for command in ("explain", "show")),
                *((command, wheel, name) for command in ("why", "explain")),
                *(
                    ("check", option, path, wheel)
                    for option in ("--site", "--library-path", "--sysroot", "--config", "--with")
                ),
                *(
                    ("check", option, name, wheel)
                    for option in ("--ignore", "--provider", "--target", "--severity", "--report")
                ),
                ("check", "--config", f"{path}.toml", wheel),
                ("check", "-o", path / "x", wheel),
                ("repair", "-w", f"{path}.toml", wheel),
                ("rule", name),
                ("trace", path),
            )
        ]

    assert lines(f"a{end}b") == lines("ab")


@pytest.mark.parametrize("odd", ["\u2028", "\udcff", "\x07", "'\n"], ids=ascii)
def test_the_exclude_that_is_offered_for_an_odd_name_is_for_that_name(
    odd: str, tmp_path: Path
) -> None:
    gone = shared_object(tmp_path / "gone.so", soname=f"lib{odd}x.so")
    user = shared_object(tmp_path / "x.so", needed=[gone])
    wheel = make_wheel(tmp_path, files={"demo/x.so": user})
    _, error = said("repair", "--dry-run", wheel, cwd=tmp_path, code=(2,))
    command = error.partition(" --exclude ")[2].partition("`")[0]
    offered = command.removesuffix(f" {wheel}")
    assert offered
    said("repair", "--dry-run", wheel, "--exclude", *shlex.split(offered), cwd=tmp_path, code=(0,))
    (tmp_path / "libs").mkdir()
    (tmp_path / "libs" / f"lib{odd}x.so").write_bytes(gone.read_bytes())
    found = ("--library-path", tmp_path / "libs")
    answer, _ = said("why", *found, wheel, f"lib{odd}x.so", cwd=tmp_path, code=(0, 1))
    assert f"--exclude {offered}" in answer
