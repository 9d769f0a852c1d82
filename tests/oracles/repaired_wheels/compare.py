"""Repair random wheels by auditwheel and by wheelfix, install them, and load what was published.

    python -m tests.oracles.repaired_wheels.compare -n 2000 [--uses] [--first SEED] [--jobs N]

Exits with 1 if a wheel that works after auditwheel does not work after wheelfix.
"""

import argparse
import sys
import tempfile
import time
from collections import Counter
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from pathlib import Path

from tests.oracles.repaired_wheels.judging import Judgment, judge, judge_uses
from tests.oracles.repaired_wheels.making import Bench, compile_reader
from tests.oracles.repaired_wheels.projects import random_project
from tests.oracles.repaired_wheels.uses import random_uses


def main() -> int:
    """Compare as many wheels as asked for."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("-n", type=int, default=2000, help="number of wheels")
    parser.add_argument("--first", type=int, default=0, help="the first seed")
    parser.add_argument("--jobs", type=int, default=1, help="how many at a time")
    parser.add_argument("--keep", type=Path, help="where to keep what was built, to look at")
    parser.add_argument("--uses", action="store_true", help="wheels of uses without a reference")
    options = parser.parse_args()
    began = time.monotonic()
    counts = Counter[str]()
    seeds = range(options.first, options.first + options.n)
    with tempfile.TemporaryDirectory(prefix="wheelfix-repaired-") as temporary:
        folder = options.keep or Path(temporary)
        folder.mkdir(parents=True, exist_ok=True)
        reader = compile_reader(folder)
        one = partial(
            used if options.uses else seen, folder=folder, reader=reader, keep=bool(options.keep)
        )
        with ProcessPoolExecutor(options.jobs) as pool:
            for seed, judgment in zip(seeds, pool.map(one, seeds), strict=True):
                for line in judgment.wrong:
                    print(f"seed {seed}: {line}", flush=True)
                counts["wheels that differ"] += bool(judgment.wrong)
                counts.update(judgment.facts)
    for name, count in sorted(counts.items()):
        print(f"{count:7,} {name}")
    print(f"{options.n:,} wheels, {time.monotonic() - began:.0f} s")
    return 1 if counts["wheels that differ"] else 0


def seen(seed: int, *, folder: Path, reader: Path, keep: bool = False) -> Judgment:
    """Judge the project of `seed`, in a folder of its own."""
    if keep:
        own = folder / str(seed)
        own.mkdir()
        return judge(random_project(seed), Bench(folder=own, reader=reader))
    with tempfile.TemporaryDirectory(dir=folder) as name:
        return judge(random_project(seed), Bench(folder=Path(name), reader=reader))


def used(seed: int, *, folder: Path, reader: Path | None = None, keep: bool = False) -> Judgment:
    """Judge the uses of `seed`, in a folder of their own."""
    del reader
    if keep:
        own = folder / str(seed)
        own.mkdir()
        return judge_uses(random_uses(seed, own), own)
    with tempfile.TemporaryDirectory(dir=folder) as name:
        return judge_uses(random_uses(seed, Path(name)), Path(name))


if __name__ == "__main__":
    sys.exit(main())
