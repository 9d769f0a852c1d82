"""Repair random wheels by auditwheel and by wheelfix, install them, and load what was published.

    python -m tests.oracles.repaired_wheels.compare -n 2000 [--uses] [--options] [--first SEED]

Exits with 1 if a wheel that works after auditwheel does not work after wheelfix.
"""

import argparse
import random
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
    parser.add_argument("--options", action="store_true", help="repair with random options")
    options = parser.parse_args()
    began = time.monotonic()
    counts = Counter[str]()
    seeds = range(options.first, options.first + options.n)
    with tempfile.TemporaryDirectory(prefix="wheelfix-repaired-") as temporary:
        folder = options.keep or Path(temporary)
        folder.mkdir(parents=True, exist_ok=True)
        reader = compile_reader(folder)
        one = partial(
            used if options.uses else seen,
            folder=folder,
            reader=reader,
            keep=bool(options.keep),
            chosen=options.options,
        )
        with ProcessPoolExecutor(options.jobs) as pool:
            for seed, judgment in zip(seeds, pool.map(one, seeds), strict=True):
                for line in judgment.wrong:
                    words = " ".join(random_options(seed) if options.options else ())
                    print(f"seed {seed} {words}: {line}", flush=True)
                counts["wheels that differ"] += bool(judgment.wrong)
                counts.update(judgment.facts)
    for name, count in sorted(counts.items()):
        print(f"{count:7,} {name}")
    print(f"{options.n:,} wheels, {time.monotonic() - began:.0f} s")
    return 1 if counts["wheels that differ"] else 0


HARMLESS = (
    ("--strip=debug",),
    ("--strip=all",),
    ("--prune-needed=off",),
    ("--data-libraries=search",),
    ("--search-path-tag=rpath",),
    ("--search-path-tag=runpath",),
    ("--sacrificial-entry=keep",),
    ("--sacrificial-entry=remove",),
    ("--lib-sdir=.vendored",),
    ("--lib-sdir=/libs",),
    ("--zip-compression-level=9",),
    ("--normalize",),
    ("--licenses=off",),
    ("--zip-codec=zlib",),
    ("--only-plat",),
    ("--no-update-tags",),
)
"""Options that must not change what works."""


def random_options(seed: int) -> list[str]:
    """Choose one to four options, of each setting one."""
    chance = random.Random(f"options {seed}")  # noqa: S311 - of tests
    chosen = chance.sample(HARMLESS, chance.randint(1, 4))
    by_name = {words[0].partition("=")[0]: words for words in chosen}
    return [word for words in by_name.values() for word in words]


def seen(
    seed: int, *, folder: Path, reader: Path, keep: bool = False, chosen: bool = False
) -> Judgment:
    """Judge the project of `seed`, in a folder of its own."""
    options = random_options(seed) if chosen else []
    if keep:
        own = folder / str(seed)
        own.mkdir()
        return judge(random_project(seed), Bench(folder=own, reader=reader), options)
    with tempfile.TemporaryDirectory(dir=folder) as name:
        return judge(random_project(seed), Bench(folder=Path(name), reader=reader), options)


def used(
    seed: int,
    *,
    folder: Path,
    reader: Path | None = None,
    keep: bool = False,
    chosen: bool = False,
) -> Judgment:
    """Judge the uses of `seed`, in a folder of their own."""
    del reader
    options = random_options(seed) if chosen else []
    if keep:
        own = folder / str(seed)
        own.mkdir()
        return judge_uses(random_uses(seed, own), own, options)
    with tempfile.TemporaryDirectory(dir=folder) as name:
        return judge_uses(random_uses(seed, Path(name)), Path(name), options)


if __name__ == "__main__":
    sys.exit(main())
