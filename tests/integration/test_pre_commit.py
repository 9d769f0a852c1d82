"""The pre-commit hooks, run by pre-commit itself."""

import os
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.build import make_wheel

pytest.importorskip("pre_commit", reason="pre-commit is not installed")

ROOT = Path(__file__).parents[2]
GIT = ("git", "-c", "user.name=Tester", "-c", "user.email=tester@example.org")


def pre_commit(folder: Path, *arguments: str, home: Path) -> subprocess.CompletedProcess[str]:
    """Run pre-commit in the repository `folder`; it installs hooks in `home`."""
    inherited = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    return subprocess.run(
        [sys.executable, "-m", "pre_commit", *arguments],
        cwd=folder,
        env={**inherited, "PRE_COMMIT_HOME": str(home)},
        capture_output=True,
        text=True,
        check=False,
    )


def test_the_hook_manifest_is_valid(tmp_path: Path) -> None:
    done = pre_commit(
        tmp_path, "validate-manifest", str(ROOT / ".pre-commit-hooks.yaml"), home=tmp_path
    )
    assert done.returncode == 0, done.stdout


@pytest.mark.parametrize(
    ("folders", "runs"), [([], False), (["dist"], False), (["dist/a-1.0-py3-none-any.whl"], True)]
)
def test_the_hook_before_a_push_needs_a_wheel(
    tmp_path: Path, folders: list[str], runs: object
) -> None:
    for folder in folders:
        (tmp_path / folder).mkdir(parents=True)
    text = (ROOT / ".pre-commit-hooks.yaml").read_text(encoding="utf-8")
    entry = text.partition("id: wheelfix-check-dist")[2].partition("entry: ")[2].partition("\n")[0]
    program = tmp_path / "wheelfix"
    program.write_text('#!/bin/sh\necho "$@"\n', encoding="ascii")
    program.chmod(0o755)
    done = subprocess.run(
        [*shlex.split(entry), "--fail-on", "warning", "-q"],
        cwd=tmp_path,
        env={**os.environ, "PATH": f"{tmp_path}:{os.environ['PATH']}"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout == ("check --fail-on warning -q dist\n" if runs else "")


@pytest.mark.large
def test_the_hook_checks_the_wheels_of_a_commit(tmp_path: Path) -> None:
    if not (ROOT / ".git").exists():
        pytest.skip("pre-commit takes hooks from a git repository only")
    folder = tmp_path / "project"
    wheel = make_wheel(folder / "dist", tag="py3-none-any", files={"one.py": b""})
    torn = folder / "dist" / "torn-1.0-py3-none-any.whl"
    torn.write_bytes(b"PK")
    for command in (("init", "-q"), ("add", "."), ("commit", "-q", "-m", "wheels")):
        subprocess.run([*GIT, *command], cwd=folder, check=True)
    home = tmp_path / "home"

    def hook(name: str, *files: Path) -> subprocess.CompletedProcess[str]:
        given = ["--files", *(str(file.relative_to(folder)) for file in files)] if files else []
        return pre_commit(folder, "try-repo", str(ROOT), name, "--verbose", *given, home=home)

    passed = hook("wheelfix-check", wheel)
    assert passed.returncode == 0, passed.stdout
    assert ": ok, " in passed.stdout
    failed = hook("wheelfix-check-dist")
    assert failed.returncode == 1
    assert torn.name in failed.stdout
