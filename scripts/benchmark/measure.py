"""Commands measured in turns: wall seconds, CPU seconds, peak memory."""

import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from benchmark.cases import MEGABYTE
from real_wheels.programs import ProgramError
from real_wheels.programs import environment as user_environment

OURS = "wheelfix"
OTHERS = ("auditwheel", "repairwheel")
"""How the names of other projects' tools begin."""
FLOOR = "floor"
"""Not a tool: benchmark/floor.py."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """What one run cost."""

    wall: float
    """Seconds."""
    cpu: float
    """Seconds, user and system, of the process tree."""
    peak: float
    """MB, resident, of the largest process of the tree."""
    code: int
    """The exit code."""
    size: int = 0
    """Bytes of the wheel that was written."""


Commands = Mapping[str, Callable[[Path], Sequence[str]]]
"""Tool -> the command that is measured, given an empty folder to write to."""


Runs = Mapping[str, Sequence[Run] | None]
"""Tool -> its runs; None for a tool that failed."""


def environment(libraries: Path | None = None) -> dict[str, str]:
    """Give the environment of what is measured: bytecode is cached, as it is for users."""
    found = user_environment()
    found.pop("PYTHONDONTWRITEBYTECODE", None)
    return found | ({"AUDITWHEEL_LD_LIBRARY_PATH": str(libraries)} if libraries else {})


def measure(
    command: Callable[[Path], Sequence[str]], libraries: Path | None, codes: set[int]
) -> Run:
    """Run a command once. Raises `ProgramError` for an exit code that is not among `codes`."""
    with tempfile.TemporaryDirectory(prefix="bench-") as folder:
        out = Path(folder, "out")
        out.mkdir()
        words, log = command(out), Path(folder, "log")
        run = spend(words, environment(libraries), log)
        if run.code not in codes:
            said = (log.read_text().strip().splitlines() or ["nothing"])[-1]
            raise ProgramError(f"`{' '.join(words)}`: exit code {run.code}: {said}")
        return replace(run, size=sum(path.stat().st_size for path in out.glob("*.whl")))


def compare(
    commands: Commands,
    count: int,
    libraries: Path | None = None,
    codes: Iterable[int] = (0,),
    others: int = 1,
) -> Runs:
    """Measure the commands in turns, `count` times each, after one run to warm up.

    The tools of other projects run `others` times, and none to warm up.
    A tool other than wheelfix that fails is left out from then on; wheelfix must not.
    """
    runs: dict[str, list[Run] | None] = {tool: [] for tool in commands}
    for turn in range(count + 1):
        for tool, command in commands.items():
            is_left_out = tool.startswith(OTHERS) and turn not in range(1, others + 1)
            if (results := runs[tool]) is None or is_left_out:
                continue
            try:
                result = measure(command, libraries, set(codes))
            except ProgramError as error:
                if tool == OURS:
                    raise
                print(error, file=sys.stderr)
                runs[tool] = None
                continue
            if turn:
                results.append(result)
    return runs


# Starts the command and waits. A process begins with its parent's peak memory (exec_mmap in Linux's
# fs/exec.c), so the parent is this small one, which imports as little as can be.
LAUNCH = """
import os, sys, time
log, *command = sys.argv[1:]
file = os.open(log, os.O_WRONLY | os.O_CREAT)
actions = [(os.POSIX_SPAWN_DUP2, file, 1), (os.POSIX_SPAWN_DUP2, file, 2)]
start = time.perf_counter()
child = os.posix_spawn(command[0], command, os.environ, file_actions=actions)
status, usage = os.wait4(child, 0)[1:]
wall = time.perf_counter() - start
print(wall, usage.ru_utime + usage.ru_stime, usage.ru_maxrss, os.waitstatus_to_exitcode(status))
"""


def spend(command: Sequence[str], environment: Mapping[str, str], log: Path) -> Run:
    """Run a command to its end.

    It runs in the folder of `log`, where no pyproject.toml configures it.
    """
    launcher = [sys.executable, "-I", "-S", "-c", LAUNCH, str(log), *command]
    said = subprocess.check_output(launcher, cwd=log.parent, env=environment, text=True)
    wall, cpu, kibibytes, code = said.split()
    peak = int(kibibytes) * 1024 / MEGABYTE
    return Run(wall=float(wall), cpu=float(cpu), peak=peak, code=int(code))
