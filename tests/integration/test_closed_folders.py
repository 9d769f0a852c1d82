"""What this user may not read is said, never left out in silence."""

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.support.build import make_wheel, shared_object
from tests.support.forked import forked
from wheelfix.cli.app import run

SITE = "lib/python3.11/site-packages"


@pytest.fixture
def as_user(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., str]:
    """Run a command as a user to whom permissions apply; root becomes one in a fork."""
    monkeypatch.chdir(tmp_path)  # where root has cloned, others may not read
    for folder in (tmp_path, *tmp_path.parents):
        if os.geteuid() == 0 and not folder.stat().st_mode & 0o001:
            folder.chmod(folder.stat().st_mode | 0o011)

    def main(words: list[str]) -> int:
        if os.geteuid() == 0:
            os.seteuid(65534)
        return run(words)

    def said(*words: str | Path) -> str:
        run([str(word) for word in words])  # imports what perhaps only root may read
        done = forked(main, words, env={**os.environ, "XDG_CACHE_HOME": str(tmp_path / "none")})
        return done.stdout + done.stderr

    return said


def test_folders_of_options_that_cannot_be_read_are_named(
    tmp_path: Path, as_user: Callable[..., str]
) -> None:
    library = shared_object(tmp_path / "x.so", "int f(void) { return 1; }")
    wheel = make_wheel(tmp_path / "dist", files={"demo/x.so": library})
    closed = [tmp_path / "libs" / "closed", tmp_path / "env" / SITE / "closed"]
    for folder in closed:
        folder.mkdir(parents=True)
        folder.chmod(0)
    options = ["--library-path", tmp_path / "libs", "--site", tmp_path / "env"]
    said = as_user("check", *options, wheel)
    names = ", ".join(f"`{folder}`" for folder in sorted(closed))
    assert f"note: you may not read {names}: what is there is left out\n" in said
    assert said.count("you may not read") == 1
    assert "you may not read" not in as_user("check", wheel)


@pytest.mark.parametrize(
    ("command", "option", "place"),
    [
        *((command, "", "closed") for command in ("check", "show", "diff", "explain", "why")),
        ("repair --dry-run", "", "closed"),
        ("check", "--with", "closed"),
        ("check", "--provider", "closed"),
        ("check", "--sysroot", "usr/lib/closed"),
        ("explain", "--sysroot", "lib64"),
    ],
)
def test_closed_folders_below_what_is_named_are_named(
    command: str, option: str, place: str, tmp_path: Path, as_user: Callable[..., str]
) -> None:
    library = shared_object(tmp_path / "named" / "libx.so", "int f(void) { return 1; }")
    folder = library.parent
    wheel = make_wheel(folder if not option else tmp_path, files={"demo/x.so": library})
    closed = folder / place
    closed.mkdir(parents=True)
    words = [*command.split(), *([option, folder, wheel] if option else [folder])]
    words += [folder] if command == "diff" else ["libx.so"] if command == "why" else []
    assert "you may not read" not in as_user(*words)
    closed.chmod(0)
    said = as_user(*words)
    assert said.count(f"note: you may not read `{closed}`: what is there is left out\n") == 1


def test_an_absolute_link_of_a_sysroot_leads_below_it(
    tmp_path: Path, as_user: Callable[..., str]
) -> None:
    library = shared_object(tmp_path / "libx.so", "int f(void) { return 1; }")
    wheel = make_wheel(tmp_path, files={"demo/x.so": library})
    closed = tmp_path / "system" / "opt" / "closed"
    closed.mkdir(parents=True)
    closed.chmod(0)
    (tmp_path / "system" / "lib64").symlink_to("/opt")
    said = as_user("check", "--sysroot", tmp_path / "system", wheel)
    assert f"note: you may not read `{closed}`: what is there is left out\n" in said


def test_a_folder_of_an_environment_that_cannot_be_read_is_named(
    tmp_path: Path, as_user: Callable[..., str]
) -> None:
    package = tmp_path / "env" / SITE / "demo"
    package.mkdir(parents=True)
    (tmp_path / "env" / "pyvenv.cfg").write_text("home = /usr/bin\n")
    shared_object(package / "x.so", "int f(void) { return 1; }")
    closed = package.parent / "closed"
    closed.mkdir()
    assert "may not read" not in as_user("doctor", tmp_path / "env")
    closed.chmod(0)
    said = as_user("doctor", tmp_path / "env")
    assert f"; not read: {closed}, which you may not read\n" in said
