"""Wheels whose names are tested, unpacked and imported."""

import os
import subprocess
import sys
import sysconfig
import zipfile
from pathlib import Path
from typing import Any

from tests.support import repairing
from tests.support.values import elf, findings, wheel
from wheelfix.pipelines.repair_result import Outcome
from wheelfix.python_sources.source_facts import LookupPlace, PythonOpening
from wheelfix.rules.findings import Severity
from wheelfix.rules.rule import Rule
from wheelfix.settings import Settings
from wheelfix.wheel.model import Wheel
from wheelfix.wheel.reader import open_wheel

SUFFIX = sysconfig.get_config_var("EXT_SUFFIX")
MINOR = sys.version_info.minor
PYTHON = f"cp3{MINOR}"
TAG = f"{PYTHON}-{PYTHON}-linux_x86_64"


def opening(name: str, where: LookupPlace = LookupPlace.SEARCH, **fields: Any) -> PythonOpening:
    values: dict[str, Any] = {"line": 3, "function": "ctypes.CDLL", "sure": True, "on_import": True}
    return PythonOpening(name=name, where=where, **(values | fields))


def severities(rule: Rule, subject: Wheel, **settings: Any) -> list[Severity]:
    return [finding.severity for finding in findings(rule, subject, **settings)]


def installed(path: Path, directory: Path) -> Path:
    """Unzip a wheel, as an installer does with files of site-packages."""
    with zipfile.ZipFile(path) as archive:
        archive.extractall(directory)
    return directory


def run(directory: Path, code: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", code], cwd=directory, capture_output=True, text=True, check=False
    )


def read(path: Path) -> Wheel:
    with open_wheel(path) as archive:
        return archive.wheel


def differing() -> Wheel:
    return wheel(
        {"pkg/m.so": elf("libin.so.2"), "pkg/libin.so": elf(soname="libin.so.2")}, "pkg/__init__.py"
    )


def repaired(path: Path, directory: Path, **settings: Any) -> Outcome:
    asked = Settings(wheel_dir=directory / "out", **settings)
    return repairing.repair(path, asked, os.environ)
