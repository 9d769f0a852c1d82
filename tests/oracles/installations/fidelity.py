"""Compare the model of the loader with the real loader, on random installations.

    python -m tests.oracles.installations.fidelity -n 3000 [--libc glibc|musl] [--first SEED]

With `--from-disk` the files are read as for `--site`. Exits with 1 if anything differs.
"""

import argparse
import shutil
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path

from tests.oracles.installations.compare import compare_steps, outcome
from tests.oracles.installations.dice import random_case
from tests.oracles.installations.observe import observe
from tests.oracles.installations.predict import predict, read_from_disk
from tests.oracles.installations.programs import programs_for
from wheelfix.elf.model import Libc


def main() -> int:
    """Compare as many installations as asked for."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("-n", type=int, default=1000, help="number of installations")
    parser.add_argument("--first", type=int, default=0, help="the first seed")
    parser.add_argument("--libc", choices=[Libc.GLIBC, Libc.MUSL], default=Libc.GLIBC)
    parser.add_argument("--from-disk", action="store_true", help="read the files as for --site")
    options = parser.parse_args()
    seeds = range(options.first, options.first + options.n)
    return compare(Libc(options.libc), seeds, from_disk=options.from_disk)


def compare(libc: Libc, seeds: range, *, from_disk: bool) -> int:
    """Compare random installations, and print the figures; return the exit code."""
    began = time.monotonic()
    counts = Counter[str]()
    with tempfile.TemporaryDirectory(prefix="wheelfix-fidelity-") as folder:
        programs = programs_for(libc, Path(folder))
        if isinstance(programs, str):
            print(programs, file=sys.stderr)
            return 2
        for seed in seeds:
            root = Path(folder, "case")
            root.mkdir()
            case = random_case(seed, root, libc, programs)
            if from_disk:
                case = read_from_disk(case)
            predicted = predict(case)
            wrong = compare_steps(case, observe(case), predicted)
            for line in wrong:
                print(f"seed {seed}: {line}", flush=True)
            counts["differences"] += bool(wrong)
            for step in predicted:
                counts[outcome(step)] += 1
                counts["symbols bound"] += len(step.binding.bound) if step.binding else 0
            shutil.rmtree(root)
    said = ", ".join(f"{count} {name}" for name, count in sorted(counts.items()))
    print(f"{libc}: {len(seeds)} installations: {said}, {time.monotonic() - began:.0f} s")
    return int(counts["differences"] > 0)


if __name__ == "__main__":
    sys.exit(main())
