"""What wheelfix asks Pythons for, without the start of one each time.

What a Python of this machine says of itself is asked once in each process. wheelfix's own pip, and
the Python that makes virtual environments, are forks of a program that has imported what they need.
"""

import os
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from typing import Any

from tests.support.fork_server import warm_program
from tests.support.warm_venv import BASE
from wheelfix.host import pythons
from wheelfix.system import subprocesses

_PYTHONS: Any = pythons
_SUBPROCESSES: Any = subprocesses
_FORKED: dict[tuple[str, ...], str] = {
    (sys.executable, "-I", "-m", "pip"): "tests.support.warm_pip",
    (BASE, "-I", "-m", "venv"): "tests.support.warm_venv",
}


class _Subprocess:
    """The module `subprocess`; what it starts may be a fork."""

    def __getattr__(self, name: str) -> Any:
        return getattr(subprocess, name)

    def Popen(self, argv: Sequence[str], *, env: Mapping[str, str] | None, **options: Any) -> Any:  # noqa: N802 - as in the module
        program = _FORKED.get(tuple(argv[:4]))
        # Python's variables are nothing to an isolated one, but to what it starts.
        if program is not None and not any(name.startswith("PYTHON") for name in env or os.environ):
            argv = [warm_program(program), *argv[4:]]
        return subprocess.Popen(argv, env=env, **options)


def keep_pythons() -> None:
    """Keep them from now on, but for those in the temporary folder, which tests make."""
    _SUBPROCESSES.subprocess = _Subprocess()
    of_tests, run = tempfile.gettempdir(), _PYTHONS.run
    known: dict[tuple[object, ...], Any] = {}

    def run_once(argv: Sequence[str], **options: Any) -> Any:
        path = argv[0]
        if not path.startswith("/") or path.startswith(of_tests):
            return run(argv, **options)
        info = os.stat(path)  # noqa: PTH116 - as in `kept_machine_objects`
        key = (*argv, info.st_dev, info.st_ino, info.st_mtime_ns)
        if key not in known:
            known[key] = run(argv, **options)
        return known[key]

    _PYTHONS.run = run_once
