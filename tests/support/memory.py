"""The peak memory of a run of wheelfix."""

import os
import subprocess
import sys
from pathlib import Path

LIMIT = 128 * 1000 * 1000
"""Bytes."""


# A process begins with its parent's peak memory (exec_mmap in Linux's fs/exec.c), so that a small
# one stands between this one and what is measured.
LAUNCH = """
import os, sys
child = os.posix_spawn(sys.argv[1], sys.argv[1:], os.environ)
status, usage = os.wait4(child, 0)[1:]
print(usage.ru_maxrss * 1024, os.waitstatus_to_exitcode(status))
"""


def peak(*arguments: str | Path, **environ: str | Path) -> tuple[int, int]:
    """Run wheelfix; return the bytes of its largest process, and its exit code."""
    command = [sys.executable, "-m", "wheelfix", *map(str, arguments)]
    said = subprocess.run(
        [sys.executable, "-I", "-S", "-c", LAUNCH, *command],
        env={**os.environ, **{key: str(value) for key, value in environ.items()}},
        capture_output=True,
        text=True,
        check=True,
    )
    size, code = said.stdout.split()[-2:]
    return int(size), int(code)
