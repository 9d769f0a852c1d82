"""Wheels with wrong files or metadata, and their installation by pip and uv."""

import subprocess
import sys
from collections.abc import Mapping
from contextlib import suppress
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import Any

from uv import find_uv_bin

from tests.support.forked import forked
from wheelfix.rules import files_as_installed as contents
from wheelfix.rules import leftovers, metadata
from wheelfix.rules.context import Context
from wheelfix.rules.findings import Finding
from wheelfix.rules.registry import rules_in
from wheelfix.rules.rule import Rule
from wheelfix.rules.run_rules import run_rules
from wheelfix.settings import Settings
from wheelfix.wheel.reader import open_wheel

PURE = "py3-none-any"
UV = [find_uv_bin()]
_OF_PIP = (
    "commands.install",
    "metadata.importlib",
    "operations.install.wheel",
    "resolution.resolvelib.resolver",
)


def found(path: Path) -> dict[str, Finding]:
    """What the archive and metadata rules say of a built wheel, one finding a rule."""
    with open_wheel(path) as archive:
        context = Context(wheel=archive.wheel, settings=Settings())
        rules = rules_in(Rule, metadata, contents, leftovers)
        return {finding.code: finding for finding in run_rules(context, rules)}


def pip(
    *arguments: str | Path, env: Mapping[str, str] | None = None
) -> subprocess.CompletedProcess[str]:
    return forked(_warm_pip(), ["--disable-pip-version-check", *arguments], env=env)


@cache
def _warm_pip() -> Any:
    """Return pip's `main`, of which each fork has what takes two thirds of an installation.

    That are its modules, the certificates, and what it tells an index about this machine, for which
    it starts `lsb_release` and `rustc`. Another pip may do without one of them: then it is slower.
    """
    with suppress(ImportError, AttributeError):
        for name in _OF_PIP:
            import_module(f"pip._internal.{name}")
        command: Any = import_module("pip._internal.cli.index_command")
        command._create_truststore_ssl_context()
        session: Any = import_module("pip._internal.network.session")
        session.user_agent = cache(session.user_agent)
        session.user_agent()
    return import_module("pip._internal.cli.main").main


def install(path: Path, target: Path) -> subprocess.CompletedProcess[str]:
    """Install by pip, without dependencies, for `PYTHONPATH`."""
    return pip("install", "--no-deps", "--no-index", "--target", target, path)


def uv_install(path: Path, target: Path) -> subprocess.CompletedProcess[str]:
    command = [*UV, "pip", "install", "--no-index", "--no-deps"]
    command += ["--python", sys.executable, "--target", str(target), str(path)]
    return subprocess.run(command, capture_output=True, text=True, check=False)
