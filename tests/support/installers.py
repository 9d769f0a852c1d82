"""Wheels with wrong files or metadata, and their installation by pip and uv."""

import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

from uv import find_uv_bin

from tests.support.forked import forked
from tests.support.warm_pip import warm_pip
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


def found(path: Path) -> dict[str, Finding]:
    """What the archive and metadata rules say of a built wheel, one finding a rule."""
    with open_wheel(path) as archive:
        context = Context(wheel=archive.wheel, settings=Settings())
        rules = rules_in(Rule, metadata, contents, leftovers)
        return {finding.code: finding for finding in run_rules(context, rules)}


def pip(
    *arguments: str | Path, env: Mapping[str, str] | None = None
) -> subprocess.CompletedProcess[str]:
    return forked(warm_pip(), ["--disable-pip-version-check", *arguments], env=env)


def install(path: Path, target: Path) -> subprocess.CompletedProcess[str]:
    """Install by pip, without dependencies, for `PYTHONPATH`."""
    return pip("install", "--no-deps", "--no-index", "--target", target, path)


def uv_install(path: Path, target: Path) -> subprocess.CompletedProcess[str]:
    command = [*UV, "pip", "install", "--no-index", "--no-deps"]
    command += ["--python", sys.executable, "--target", str(target), str(path)]
    return subprocess.run(command, capture_output=True, text=True, check=False)
