"""A plug-in of pytest for auditwheel's tests: `auditwheel repair` runs another program.

Tests that run the program find it by PATH. Those that call `main_repair.execute` in their own
process get one that runs it and logs what it prints.
"""

import json
import logging
import os
import subprocess
import sys
from argparse import Namespace
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest

from auditwheel_suite.containers import Machine, docker

TOOLS, BUILDER, IMAGE = "CASES_TOOLS", "CASES_BUILDER", "CASES_IMAGE"
RESULTS, PROGRAM = "CASES_RESULTS", "CASES_PROGRAM"
"""Environment variables: the two folders of `Machine`, and the image that stands for this one."""


def pytest_configure() -> None:
    """Put local processes in place of docker, and the program in place of the function."""
    machine = Machine(tools=Path(os.environ[TOOLS]), builder=Path(os.environ[BUILDER]))
    sys.modules["docker"] = docker(machine)
    if os.environ[PROGRAM] != "auditwheel":
        import_module("auditwheel.main_repair").__dict__["execute"] = execute


def execute(args: Namespace, parser: Any) -> int:  # noqa: ANN401 - a Mock in some tests
    """Do what `auditwheel.main_repair.execute` does by running the program."""
    options = {
        "-z": args.ZIP_COMPRESSION_LEVEL,
        "--plat": args.PLAT,
        "-L": args.LIB_SDIR,
        "-w": args.WHEEL_DIR,
        "--ldpaths": args.LDPATHS,
        "--patcher": args.PATCHER,
    }
    flags = {
        "--no-update-tags": not args.UPDATE_TAGS,
        "--strip": args.STRIP,
        "--only-plat": args.ONLY_PLAT,
        "--disable-isa-ext-check": args.DISABLE_ISA_EXT_CHECK,
        "--allow-pure-python-wheel": getattr(args, "ALLOW_PURE_PY_WHEEL", False),
    }
    words = ["auditwheel", "repair"]
    words += [f"{name}{'=' * (name[1] == '-')}{x}" for name, x in options.items() if x is not None]
    words += [name for name, is_given in flags.items() if is_given]
    words += [f"--exclude={pattern}" for pattern in args.EXCLUDE]
    words += map(str, args.WHEEL_FILE)
    done = subprocess.run(words, stderr=subprocess.PIPE, text=True, check=False)
    sys.stderr.write(done.stderr)
    for line in done.stderr.splitlines():
        logging.getLogger("auditwheel").warning(line)
    if done.returncode == 2:  # as argparse
        raise SystemExit(2)
    del parser
    return done.returncode


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Leave out the images that are not this machine."""
    image = f"{os.environ[IMAGE]}-patchelf"
    items[:] = [item for item in items if "linux.py::Test" not in item.nodeid or image in item.name]


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    """Note how a test ended."""
    if report.when == "call" or report.outcome != "passed":
        with Path(os.environ[RESULTS]).open("a", encoding="utf-8") as file:
            file.write(json.dumps([report.nodeid, report.outcome]) + "\n")
