"""Completion in real shells, by typer's protocol (`_WHEELFIX_COMPLETE`)."""

import os
import pty
import select
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.all_rules import all_rules
from tests.support.fork_server import warm_path
from tests.support.waiting import HANGS
from wheelfix.loader import targets
from wheelfix.loader.install_schemes import scheme_names
from wheelfix.providers.well_known import well_known_folders

ENVIRONMENT = {
    "PATH": warm_path(f"{Path(sys.executable).parent}:/usr/bin:/bin"),
    "TERM": "dumb",
    "HOME": "/nonexistent",
}
SOURCE = (
    "source <(_WHEELFIX_COMPLETE=source_bash wheelfix) && complete -p wheelfix >/dev/null || exit 9"
)


def completed(*words: str) -> list[str]:
    """Return what bash would offer in place of the last of `words`, as it divides them."""
    listed = " ".join(f"'{word}'" for word in words)
    script = f"""{SOURCE}
        COMP_WORDS=({listed}) COMP_CWORD={len(words) - 1}
        _wheelfix_completion wheelfix
        printf '%s\\n' "${{COMPREPLY[@]}}"
    """
    done = subprocess.run(
        ["bash", "-c", script], env=ENVIRONMENT, capture_output=True, text=True, check=True
    )
    assert done.stderr == ""
    return done.stdout.split()


def typed(line: str, shown: str) -> str:
    """Type `line` in an interactive bash, and return the screen once `shown` is on it."""
    ours, theirs = pty.openpty()
    shell = subprocess.Popen(
        ["bash", "--norc", "--noprofile", "-i"],
        stdin=theirs, stdout=theirs, stderr=theirs, env=ENVIRONMENT, start_new_session=True,
    )  # fmt: skip
    os.close(theirs)
    try:
        os.write(ours, f"{SOURCE}; echo rea''dy\n".encode())
        read_until(ours, "ready\r\n")
        os.write(ours, line.encode())
        return read_until(ours, shown)
    finally:
        shell.kill()
        shell.wait()
        os.close(ours)


def read_until(descriptor: int, text: str) -> str:
    seen = ""
    while text not in seen:
        ready, _, _ = select.select([descriptor], [], [], HANGS)
        assert ready, seen
        seen += os.read(descriptor, 4096).decode()
    return seen


def test_commands_options_and_choices() -> None:
    assert completed("wheelfix", "exp") == ["explain"]
    assert completed("wheelfix", "check", "--fail-o") == ["--fail-on", "--fail-on-unknown"]
    assert completed("wheelfix", "repair", "--data-libraries", "m") == ["move"]


@pytest.mark.parametrize(
    "words",
    [("rule",), ("check", "--select"), ("repair", "--ignore"), ("check", "--extend-select")],
)
def test_rules(words: tuple[str, ...]) -> None:
    rules = all_rules()
    codes = [rule.code for rule in rules if rule.code.startswith("WF80")]
    assert sorted(completed("wheelfix", *words, "WF80")) == sorted(codes)
    assert completed("wheelfix", *words, "unprovided-l") == ["unprovided-library"]
    assert len(completed("wheelfix", *words, "")) >= 2 * len(rules)


def test_elements_of_a_list() -> None:
    assert completed("wheelfix", "check", "--ignore", "WF101,WF805") == ["WF101,WF805"]
    assert completed("wheelfix", "check", "--target", "musl,con") == ["musl,conda"]


@pytest.mark.parametrize("command", ["check", "explain", "show", "why"])
def test_targets(command: str) -> None:
    known = set(completed("wheelfix", command, "--target", ""))
    assert known == set(targets.names())


@pytest.mark.parametrize("command", ["explain", "verify"])
def test_schemes(command: str) -> None:
    assert completed("wheelfix", command, "--scheme", "") == list(scheme_names())


@pytest.mark.parametrize("command", ["repair", "check", "explain", "verify"])
def test_providers(command: str) -> None:
    known = sorted(name for name in well_known_folders() if name.startswith("nvidia-cu"))
    assert sorted(completed("wheelfix", command, "--provider", "nvidia-cu")) == known


def test_words_that_bash_divides() -> None:
    """bash divides at `:` and `=`, and replaces only what follows (COMP_WORDBREAKS)."""
    releases = [name.partition(":")[2] for name in targets.names() if "debian:" in name]
    assert completed("wheelfix", "check", "--target", "debian", ":") == releases
    assert completed("wheelfix", "check", "--target", "debian", ":", "1") == releases
    assert completed("wheelfix", "check", "--target", "=", "alm") == completed(
        "wheelfix", "check", "--target", "alm"
    )
    assert completed("wheelfix", "check", "--fail-on", "=", "ne") == ["never"]
    assert completed("wheelfix", "check", "--target", "musl,debian", ":", "11") == ["11"]


def test_the_line_is_completed_in_an_interactive_bash() -> None:
    assert "wheelfix rule unreachable-library " in typed(
        "wheelfix rule unreach\t", "unreachable-library "
    )
    assert "--target debian:11 " in typed("wheelfix check --target debian:11\t", "debian:11 ")
    screen = typed("wheelfix check --target=debi\t\t\t", "13-slim")
    assert "debi\aan:1\a" in screen  # bash rings where several values begin alike


def test_files_are_completed_where_there_are_no_values(tmp_path: Path) -> None:
    (tmp_path / "demo-1.0-py3-none-any.whl").touch()
    line = f"wheelfix check {tmp_path}/de\t"
    assert "demo-1.0" in typed(line, "py3-none-any.whl ")


@pytest.mark.parametrize("shell", ["zsh", "fish"])
def test_the_scripts_of_other_shells(shell: str) -> None:
    """The protocol of typer, and the syntax of the script where the shell is installed."""
    run = subprocess.run(
        ["wheelfix"],
        env={**ENVIRONMENT, "_WHEELFIX_COMPLETE": f"source_{shell}"},
        capture_output=True, text=True, check=True,
    )  # fmt: skip
    assert "wheelfix" in run.stdout
    arguments = {"_TYPER_COMPLETE_ARGS": "wheelfix check --target alpine:3.2"}
    more = {"_TYPER_COMPLETE_FISH_ACTION": "get-args"}
    offered = subprocess.run(
        ["wheelfix"],
        env={**ENVIRONMENT, **arguments, **more, "_WHEELFIX_COMPLETE": f"complete_{shell}"},
        capture_output=True, text=True, check=True,
    )  # fmt: skip
    assert "alpine" in offered.stdout
    assert "debian" not in offered.stdout
    if shutil.which(shell):
        subprocess.run([shell, "-n", "-c", run.stdout], check=True)
