"""Compare doctor's bindings with those of the real loader, in random environments.

    python -m tests.oracles.environments.fidelity -n 1000 [--first SEED]

Each environment is installed, read as `wheelfix doctor` reads it, and loaded in two orders. Exits
with 1 if anything differs.
"""

import argparse
import shutil
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from random import Random

from tests.oracles.environments.compare import logged, open_in_turn, predicted
from tests.oracles.environments.random_environment import random_order, write_environment
from tests.oracles.installations.programs import build_programs
from wheelfix.host.installed_environment import read_modules

LOADER = Path("/lib64/ld-linux-x86-64.so.2")


def main() -> int:
    """Compare as many environments as asked for."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("-n", type=int, default=1000, help="number of environments")
    parser.add_argument("--first", type=int, default=0, help="the first seed")
    options = parser.parse_args()
    counts = Counter[str]()
    with tempfile.TemporaryDirectory(prefix="wheelfix-environments-") as folder:
        program = a_program(Path(folder))
        for seed in range(options.first, options.first + options.n):
            for line in differences(seed, Path(folder, "case"), program, counts):
                counts["differences"] += 1
                print(f"seed {seed}: {line}", flush=True)
            shutil.rmtree(Path(folder, "case"))
    print(", ".join(f"{number:,} {name}" for name, number in sorted(counts.items())))
    return int(counts["differences"] > 0)


def a_program(folder: Path) -> Path:
    """Compile the program that opens files in turn, for the loader of this machine."""
    (folder / "programs").mkdir()
    return build_programs(folder / "programs", "gcc", LOADER)[0][0]


def differences(seed: int, folder: Path, program: Path, counts: Counter[str]) -> Iterator[str]:
    """Yield where the log of the loader is not as predicted."""
    dice = Random(seed)  # noqa: S311 - random cases, repeatable by their seeds
    modules = write_environment(folder / "venv", program, dice)
    environment = read_modules(folder / "venv")
    counts["environments"] += 1
    for imports in (random_order(modules, dice), random_order(modules, dice)):
        out, log = open_in_turn(folder / "venv/bin/python3", imports)
        if "fail" in out or out.count("open\n") != len(imports):
            yield f"{imports}: {out}{log[-300:]}"
            continue
        want, seen = predicted(environment, imports), logged(log, environment.world.members)
        counts["bindings"] += len(seen)
        counts["to other distributions"] += sum(
            environment.distribution(edge.user) != environment.distribution(edge.provider)
            for edge in seen
        )
        if want != seen:
            yield f"{imports}: predicted {want - seen}, bound {seen - want}"


if __name__ == "__main__":
    sys.exit(main())
