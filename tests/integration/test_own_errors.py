"""Every configuration, baseline, target, provider and option: an error of ours, never a crash."""

import json
import os
import random
import resource
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any, cast

import pytest

from tests.support.build import make_wheel, shared_object
from wheelfix.cli.app import run
from wheelfix.settings import SETTING_FIELDS, SettingField

_DEEP = 20_000
_NUMBERS = (0, 1, -1, 7, 10**11, 10**30, 2**63, True, 1.5)
_TEXTS = ("", "a", "\0", "*", "[", "/", "..", "a=b", "WF1", "ALL", "é\u202e", "\ud800", "1.5 MB",
          "9" * 400, "libx.so=*", "a" * 300, "/" + "a/" * 3000, "demo>=1", "nvidia-cublas-cu12",
          "dir", "file", "wheel.whl", "self", "a b", "%s{}", "debian:11", "x==1.*", '"x', "safe",
          "auto", "error", "WF101=error", "*:WF101", "a:b:c", "~", "${HOME}")  # fmt: skip


def value(dice: random.Random, depth: int = 0) -> Any:
    kind = dice.randrange(8)
    if kind < 4 or depth > 2:
        return dice.choice(_TEXTS)
    if kind < 6:
        return dice.choice(_NUMBERS)
    if kind == 6:
        return [value(dice, depth + 1) for _ in range(dice.randrange(4))]
    keys = (
        "library",
        "symbols",
        "requirement",
        "libraries",
        "directory",
        "scheme",
        "WF101",
        "select",
    )
    return {dice.choice(keys): value(dice, depth + 1) for _ in range(dice.randrange(4))}


def toml(given: Any) -> str:
    if isinstance(given, dict):
        table = cast("dict[str, object]", given)
        inside = ", ".join(f"{json.dumps(key)} = {toml(item)}" for key, item in table.items())
        return f"{{ {inside} }}"
    if isinstance(given, list):
        return f"[{', '.join(map(toml, cast('list[object]', given)))}]"
    return json.dumps(given).replace("\\ud800", "\\u0041")


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("wheel")
    library = shared_object(folder / "core.so", "int core(void) { return 1; }")
    return make_wheel(
        folder, tag=f"py3-none-linux_{os.uname().machine}", files={"p/core.so": library}
    )


@pytest.fixture
def here(tmp_path: Path, wheel: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "100")
    (tmp_path / "dir").mkdir()
    (tmp_path / "file").write_text("text")
    shutil.copy(wheel, tmp_path)
    return tmp_path


def is_ours(capsys: pytest.CaptureFixture[str], *arguments: str) -> str:
    """Assert that a run ends as it should; return what it said."""
    code = run(arguments)
    said = "".join(capsys.readouterr())
    assert code in {0, 1, 2}, arguments
    assert "internal error" not in said, (arguments, said)
    assert "Traceback" not in said, (arguments, said)
    return said


@pytest.mark.parametrize("seed", range(2))
def test_random_tables(
    seed: int, here: Path, wheel: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    dice = random.Random(seed)  # noqa: S311 - a test
    keys = [field.key for field in SETTING_FIELDS] + ["overrides", "unknown"]
    for _ in range(30):
        chosen = {dice.choice(keys): value(dice) for _ in range(dice.choice((1, 1, 2)))}
        table = "".join(f"{key} = {toml(item)}\n" for key, item in chosen.items())
        (here / "wheelfix.toml").write_text(table, encoding="utf-8", errors="replace")
        for command in ("settings", dice.choice(("check", "explain"))):
            wheels = [] if command == "settings" else [str(wheel)]
            is_ours(capsys, command, *wheels)


@pytest.mark.parametrize("seed", range(2))
def test_random_options(
    seed: int, here: Path, wheel: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    dice = random.Random(seed)  # noqa: S311 - a test
    names = ["baseline", "target", "provider", "library-path", "config", "report", "output-file",
             "timeout", "jobs", "output-format", "site", "scheme", "with", "env",
             *(field.key for field in SETTING_FIELDS)]  # fmt: skip
    for _ in range(30):
        options: list[str] = []
        for name in dice.sample(names, dice.choice((1, 1, 2))):
            given = dice.choice((*_TEXTS, *map(str, _NUMBERS))).replace("\0", "")
            if (name, given) == ("site", "/"):
                continue  # takes as long as this machine has files
            options += [f"--{name}={given}".encode("utf-8", "replace").decode()]
        command = dice.choice(("check", "check", "explain"))
        is_ours(capsys, command, *options, str(wheel))
    assert here.exists()


NUMBERS = [field for field in SETTING_FIELDS if field.type is int or "size" in field.key]


@pytest.mark.parametrize("field", NUMBERS, ids=lambda field: field.key)
def test_numbers_beyond_what_a_machine_takes(
    field: SettingField, here: Path, wheel: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (here / "out").mkdir()
    for number in (0, -1, 10**11, 10**30, 2**63):
        (here / "wheelfix.toml").write_text(f"{field.key} = {number}\n", encoding="utf-8")
        is_ours(capsys, "check", str(wheel), str(here / wheel.name))
    is_ours(capsys, "repair", str(wheel), "-w", str(here / "out"))


DOCUMENTS = ("[" * _DEEP, '{"a":' * _DEEP, "[1]", "null", '"x"', "{}", "1e999", "\0", "\udcff",
             '{"version": 1, "findings": [1]}', '{"version": 1, "findings": [{"a": []}]}',
             '{"version": 1, "findings": [{"distribution": [], "code": {}, "member": 1}]}',
             "a = " + "[" * _DEEP, "a" + ".a" * _DEEP + " = 1", "= 1", "")  # fmt: skip


@pytest.mark.each_run("[0-4]")
@pytest.mark.parametrize("text", DOCUMENTS, ids=range(len(DOCUMENTS)))
def test_odd_documents(
    text: str, here: Path, wheel: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for name in ("odd.toml", "odd.json", "odd.whl", "baseline"):
        (here / name).write_bytes(text.encode("utf-8", "surrogateescape"))
    is_ours(capsys, "check", "--config", "odd.toml", str(wheel))
    is_ours(capsys, "check", "--baseline", "baseline", str(wheel))
    is_ours(capsys, "check", "--provider", "odd.whl", str(wheel))


@pytest.fixture
def gone(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """A current directory that was removed."""
    before = Path.cwd()
    folder = tempfile.mkdtemp()
    monkeypatch.chdir(folder)
    Path(folder).rmdir()
    yield
    os.chdir(before)


@pytest.mark.usefixtures("gone")
@pytest.mark.parametrize(
    "command", ["check", "repair", "explain", "settings", "init", "verify", "rule"]
)
def test_a_current_directory_that_was_removed(
    command: str, wheel: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    said = is_ours(
        capsys, command, *([str(wheel)] if command not in {"settings", "init", "rule"} else [])
    )
    assert "No such file or directory" in said or command == "rule"


LIMITS = {"files": (resource.RLIMIT_NOFILE, 8), "memory": (resource.RLIMIT_AS, 90 << 20)}


@pytest.mark.each_run("check-files", "repair-memory")
@pytest.mark.parametrize("limit", LIMITS)
@pytest.mark.parametrize("command", ["check", "repair"])
def test_limits_of_the_system_are_no_findings(
    limit: str, command: str, wheel: Path, tmp_path: Path
) -> None:
    """Exit code 1 means findings.

    The limit of time ends what CPython does not: its `Thread.start` waits for ever for a thread
    that gets no memory before it says that it runs.
    """
    kind, most = LIMITS[limit]
    options = ["--timeout", "30", *(["-w", str(tmp_path)] if command == "repair" else [])]
    done = subprocess.run(
        [sys.executable, "-m", "wheelfix", command, *options, str(wheel)],
        preexec_fn=lambda: resource.setrlimit(kind, (most, most)),
        capture_output=True,
        text=True,
        check=False,
    )
    assert "internal error" not in done.stderr
    assert done.returncode == 2 or "Traceback" not in done.stderr
