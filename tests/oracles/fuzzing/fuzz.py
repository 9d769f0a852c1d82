"""Feed wheelfix broken input: only its own errors may come out, soon, and in little memory.

Each case starts from something sound, a wheel or an ELF object or a text, or from a case of
fixtures/fuzz, and damages it: bits, runs of bytes, numbers that lie, pieces cut, doubled or
swapped. A case is identified by its target and number, so that it can be run again alone.

    python -m tests.oracles.fuzzing.fuzz                     # some of every target
    python -m tests.oracles.fuzzing.fuzz zip elf -n 1000000  # much of two
    python -m tests.oracles.fuzzing.fuzz edit --first 4711 -n 1

`--collect` keeps the smallest case of each way to be refused; `--atheris 300` tries cases for so
many seconds, guided by the lines reached.

Exits with 1 at the first case that crashes, takes more than 2 seconds of the processor, asks for
more than 256 MiB, or makes the editor write what readelf then rejects; the case is kept in a file,
as small as it can be made.
"""

import argparse
import re
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path

from tests.oracles.fuzzing.commands import REACHED
from tests.oracles.fuzzing.judge import CORPUS, MEMORY, CaseError, case, tried
from tests.oracles.fuzzing.targets import TARGETS

CASES = 2_000
"""Of each target, unless asked for more."""

# --- Judgement ------------------------------------------------------------------------------------


def run(target: str, first: int, cases: int) -> None:
    """Run `cases` cases of `target`; raises `CaseError` for one that goes wrong."""
    for number in range(first, first + cases):
        try:
            tried(target, case(target, number))
        except CaseError as error:
            error.add_note(f"case {number} of {target}")
            raise


# --- The corpus -----------------------------------------------------------------------------------


def minimised(target: str, data: bytes) -> bytes:
    """Return what is left of `data` when no piece can go without it ending otherwise."""
    ending = _ending(target, data)
    size = len(data) // 2
    while size:
        at = 0
        while at < len(data):
            shorter = data[:at] + data[at + size :]
            if _ending(target, shorter) == ending:
                data = shorter
            else:
                at += size
        size //= 2
    return data


def _ending(target: str, data: bytes) -> str:
    """Name the way in which a case ends, without what is different in each."""
    try:
        message = tried(target, data)
    except CaseError as error:
        message = str(error)
    plain = re.sub(r"`[^`]*`|b?'[^']*'|[^a-zA-Z ]", "", message).split()
    return "-".join(plain[:9]).lower() or "fine"


def collect(target: str, first: int, cases: int) -> None:
    """Keep the smallest case of each way to end that the corpus does not have."""
    (CORPUS / target).mkdir(parents=True, exist_ok=True)
    known = {path.name for path in (CORPUS / target).iterdir()}
    for number in range(first, first + cases):
        data = case(target, number)
        ending = _ending(target, data)
        if ending not in known and ending != "fine":
            known.add(ending)
            small = minimised(target, data)
            (CORPUS / target / ending).write_bytes(small)
            print(f"{target}: {ending}, {len(small)} bytes", flush=True)


def kept(target: str, data: bytes) -> Path:
    """Keep a case that went wrong, as small as it can be made."""
    file = Path(tempfile.gettempdir()) / f"wheelfix-fuzz-{target}"
    file.write_bytes(minimised(target, data))
    return file


def _guided(target: str, seconds: int) -> None:
    """Let atheris choose the cases, in a process whose imports it sees."""
    if find_spec("atheris") is None:
        raise SystemExit("--atheris needs the package `atheris`: pip install atheris")
    print(f"{target}: {seconds} s with atheris", flush=True)
    command = [sys.executable, "-m", "tests.oracles.fuzzing.guided", target, str(seconds)]
    subprocess.run(command, check=True)


def main(argv: Sequence[str] | None = None) -> int:
    """Run the targets that were asked for, and say what they took."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("targets", nargs="*", choices=[*TARGETS, []], default=[])
    parser.add_argument("-n", type=int, default=CASES, help="cases of each target")
    parser.add_argument("--first", type=int, default=0, help="the number of the first case")
    parser.add_argument("--collect", action="store_true", help="keep each new way to be refused")
    parser.add_argument("--atheris", type=int, metavar="SECONDS", help="guided by coverage")
    asked = parser.parse_args(argv)
    if not asked.atheris:
        resource.setrlimit(resource.RLIMIT_DATA, (MEMORY, MEMORY))
    for target in asked.targets or TARGETS:
        start = time.monotonic()
        if asked.atheris:
            _guided(target, asked.atheris)
            continue
        if asked.collect:
            collect(target, asked.first, asked.n)
            continue
        try:
            run(target, asked.first, asked.n)
        except CaseError as error:
            file = kept(target, error.data)
            print(f"{target}: {' '.join(error.__notes__)}: {error}; the input is in {file}")
            raise
        for ending, times in sorted(REACHED.items()):
            print(f"    {ending}: {times:,}")
        REACHED.clear()
        seconds = time.monotonic() - start
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss >> 10
        print(f"{target:9}{asked.n:>10,} cases  {seconds:8.1f} s  peak {peak} MiB", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
