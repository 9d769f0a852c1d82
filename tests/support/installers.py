"""Wheels with wrong files or metadata, and their installation by pip and uv."""

import subprocess
import sys
from pathlib import Path

from wheelfix.rules import installed_files as contents
from wheelfix.rules import leftovers, metadata
from wheelfix.rules.context import Context
from wheelfix.rules.findings import Finding
from wheelfix.rules.registry import rules_in
from wheelfix.rules.rule import Rule
from wheelfix.rules.run_rules import run_rules
from wheelfix.settings import Settings
from wheelfix.wheel.reader import open_wheel

PURE = "py3-none-any"


def found(path: Path) -> dict[str, Finding]:
    """What the archive and metadata rules say of a built wheel, one finding a rule."""
    with open_wheel(path) as archive:
        context = Context(wheel=archive.wheel, settings=Settings())
        rules = rules_in(Rule, metadata, contents, leftovers)
        return {finding.code: finding for finding in run_rules(context, rules)}


def pip(*arguments: str | Path) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "pip", "--disable-pip-version-check", *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, check=False)


def install(path: Path, target: Path) -> subprocess.CompletedProcess[str]:
    return pip("install", "--no-deps", "--no-index", "--target", target, path)
