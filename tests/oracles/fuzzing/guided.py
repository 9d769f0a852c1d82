"""What `fuzz.py --atheris` runs: one target, guided by which lines of wheelfix a case reaches.

    python -m tests.oracles.fuzzing.guided TARGET SECONDS

Needs atheris (`pip install atheris`: Python 3.11 to 3.13 on x86-64). The cases begin with those of
fixtures/fuzz and some of `fuzz.py`; each next one is damaged as there or by libFuzzer.
"""

import os
import random
import resource
import sys
import tempfile
from importlib import import_module
from pathlib import Path
from typing import Any

atheris: Any = import_module("atheris")  # it ships no types, and is installed by who wants it

with atheris.instrument_imports(include=["wheelfix"]):
    from tests.oracles.fuzzing import damage, fuzz, judge, targets

    for name in targets.TARGETS:  # what is imported at the first call is instrumented, too
        fuzz.run(name, 0, 3)

# ruff: noqa: S311 -- dice need no secrecy

SEEDS = 300
MEMORY = 1 << 30
"""Bytes for everything: the fuzzer keeps what it has tried."""


def main(target: str, seconds: int) -> None:
    """Run until the time is over, or a case goes wrong; then exit."""
    folder = Path(tempfile.mkdtemp(prefix="wheelfix-guided-"))
    seeds = [*judge.corpus(target), *(judge.case(target, number) for number in range(SEEDS))]
    for number, data in enumerate(seeds):
        (folder / str(number)).write_bytes(data)
    resource.setrlimit(resource.RLIMIT_DATA, (MEMORY, MEMORY))

    def attempt(data: bytes) -> None:
        try:
            judge.tried(target, data)
        except judge.CaseError as error:
            print(f"{error}; the input is in {fuzz.kept(target, error.data)}", flush=True)
            os._exit(1)

    def mutate(data: bytes, most: int, seed: int) -> bytes:
        dice = random.Random(seed)
        if dice.random() < 0.1:
            return judge.case(target, SEEDS + dice.randrange(1 << 30))[:most]
        if data and dice.random() < 0.4:
            return damage.damaged(data, dice)[:most]
        return bytes(atheris.Mutate(data, most))

    largest = max(map(len, seeds)) * 2
    options = [
        f"-max_total_time={seconds}",
        f"-max_len={largest}",
        "-rss_limit_mb=0",
        "-verbosity=0",
    ]
    atheris.Setup(
        [sys.argv[0], *options, "-print_final_stats=1", str(folder)],
        attempt,
        custom_mutator=mutate,
    )
    atheris.Fuzz()


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]))
