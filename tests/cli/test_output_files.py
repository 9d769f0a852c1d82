"""What an option names for output never replaces an input, nor a file of another kind."""

import json
import os
import shutil
import socket
from pathlib import Path

import pytest

from tests.support.build import make_wheel
from wheelfix.cli.app import run
from wheelfix.pipelines.graft_lock import lock_text, read_lock

OF_CHECK = (
    "full",
    "json",
    "jsonl",
    "sarif",
    "gitlab",
    "junit",
    "html",
    "markdown",
    "concise",
    "github",
)


@pytest.fixture
def wheel(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("GITHUB_STEP_SUMMARY", raising=False)
    return make_wheel(tmp_path, "demo", files={"demo/__init__.py": "", "demo/x.so": b"\x7fELF"})


def outputs(file: str) -> list[list[str]]:
    """Every option that names a file."""
    return [
        *(["check", "--output-format", form, "-o", file] for form in OF_CHECK),
        *(["check", "--report", f"{form}={file}"] for form in OF_CHECK if form != "jsonl"),
        ["check", "--statistics", "-o", file],
        ["check", "--write-baseline", "--baseline", file],
        *(
            ["explain", "--output-format", form, "-o", file]
            for form in ("text", "html", "json", "dot")
        ),
        *(["diff", "--output-format", form, "-o", file] for form in ("text", "json", "markdown")),
        *(["trace", "--output-format", form, "-o", file] for form in ("text", "json")),
    ]


def call(words: list[str], wheel: Path) -> int:
    match words[0]:
        case "trace":
            return run([*words, "--", "true"])
        case "diff":
            other = wheel.parent / "old" / wheel.name
            other.parent.mkdir(exist_ok=True)
            shutil.copy(wheel, other)
            return run([*words, str(other), str(wheel)])
        case _:
            return run([*words, str(wheel)])


@pytest.mark.parametrize("way", ["itself", "link", "hard link", "another wheel"])
def test_no_wheel_is_replaced(way: str, wheel: Path) -> None:
    before, file = wheel.read_bytes(), wheel
    if way != "itself":
        file = wheel.with_name("named")
    if way == "link":
        file.symlink_to(wheel)
    elif way == "hard link":
        os.link(wheel, file)
    elif way == "another wheel":
        shutil.copy(wheel, file)
    for words in outputs(str(file)):
        assert call(words, wheel) == 2, words
        assert wheel.read_bytes() == before, words
        assert file.read_bytes() == before, words


OTHERS = {
    "package.json": '{"name": "mine"}',
    "pyproject.toml": "[project]\nname = 'mine'\n",
    "binary": "\0\1",
    "page.xml": "<mine/>",
    "list.json": "[1]",
}


@pytest.mark.parametrize("name", OTHERS)
def test_a_file_of_another_kind_is_not_replaced(
    name: str, wheel: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = Path(name)
    may = {"page.xml": ("junit", "html"), "list.json": ("gitlab",)}.get(name, ())
    for words in outputs(name):
        if any(form in " ".join(words) for form in may):
            continue
        file.write_text(OTHERS[name])
        assert call(words, wheel) == 2, words
        assert file.read_text() == OTHERS[name], words
        assert "hint: " in capsys.readouterr().err


def test_notes_are_replaced_by_no_baseline_and_no_report_for_programs(wheel: Path) -> None:
    file = Path("notes.txt")
    for words in outputs(file.name):
        file.write_text("mine")
        if {"--baseline", "json", "jsonl", "sarif", "html"}.intersection(words):
            assert call(words, wheel) == 2, words
            assert file.read_text() == "mine"


def test_a_report_replaces_the_report_before_it(wheel: Path) -> None:
    for number, given in enumerate(outputs("FILE")):
        words = [word.replace("FILE", f"report{number}") for word in given]
        Path(f"report{number}").touch()
        first = call(words, wheel)
        assert call(words, wheel) == first != 2, words
        assert Path(f"report{number}").stat().st_size


@pytest.mark.each_run("fifo", "folder")
@pytest.mark.parametrize("kind", ["fifo", "socket", "folder"])
def test_what_nothing_reads_is_refused_at_once(
    kind: str, wheel: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A pipe without a reader would hold the command until the limit of time."""
    place = wheel.parent / "out"
    with socket.socket(socket.AF_UNIX) as one:
        if kind == "fifo":
            os.mkfifo(place)
        elif kind == "socket":
            one.bind(place.name)
        else:
            place.mkdir()
        for words in outputs(place.name):
            assert call(words, wheel) == 2, words
            assert "cannot write `out`" in capsys.readouterr().err


@pytest.mark.each_run("/dev/kmsg")
@pytest.mark.parametrize("device", ["/dev/kmsg", "/dev/random", "/dev/net/tun"])
def test_a_device_that_acts_on_what_it_gets_is_refused(
    device: str, wheel: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """What is written to /dev/kmsg is in the log of the kernel."""
    if not Path(device).is_char_device():
        pytest.skip(f"there is no {device} here")
    for words in outputs(device):
        assert call(words, wheel) == 2, words
        assert "it was not changed" in capsys.readouterr().err
    for words in outputs("/dev/null"):
        assert call(words, wheel) < 2, words


def test_a_pipe_with_a_reader_gets_the_report(wheel: Path) -> None:
    os.mkfifo("out")
    reader = os.open("out", os.O_RDONLY | os.O_NONBLOCK)
    assert run(["check", "--output-format", "json", "-o", "out", str(wheel)]) < 2
    with os.fdopen(reader, "rb") as stream:
        assert json.loads(stream.read())["version"]


def test_what_is_read_is_no_output(wheel: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["check", "--write-baseline", "--baseline", "base.json", str(wheel)]) == 0
    kept = Path("base.json").read_bytes()
    assert run(["check", "--baseline", "base.json", "--report", "json=base.json", str(wheel)]) == 2
    assert "is what is read" in capsys.readouterr().err
    assert Path("base.json").read_bytes() == kept


def test_init_follows_no_link(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("wheelfix.toml").symlink_to(tmp_path / "elsewhere")
    assert run(["init"]) == 2
    assert not Path("elsewhere").exists()


@pytest.mark.parametrize("name", ["lib\U0001f600.so.1", "lib\x7f.so", 'lib\u2028\x01"\\.so', "é"])
def test_a_lock_is_read_back_as_it_was_written(name: str, tmp_path: Path) -> None:
    table = {"wheel": "demo", "platform": "linux_x86_64", "name": name, "needed-by": [name]}
    file = tmp_path / "wheelfix.lock"
    file.write_text(lock_text([table]), "utf-8")
    assert read_lock(file) == (table,)
    assert json.dumps(table)
