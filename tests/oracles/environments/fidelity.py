"""Compare doctor's bindings with those of the real loader, in random environments.

    python -m tests.oracles.environments.fidelity -n 1000 [--first SEED]

Each environment is installed, read as `wheelfix doctor` reads it, and loaded in two orders. Exits
with 1 if anything differs.
"""

import argparse
import os
import shutil
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from random import Random

from tests.oracles.environments.compare import compared, logged, open_in_turn, predicted
from tests.oracles.environments.random_environment import Import, random_order, write_environment
from tests.oracles.installations.programs import build_programs
from wheelfix.environments.import_orders import in_order
from wheelfix.environments.modules import InstalledModules
from wheelfix.environments.read_environment import read_modules
from wheelfix.environments.tls_shortages import shortages

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
    packages = write_environment(folder / "venv", program, dice)
    environment = read_modules(folder / "venv")
    counts["environments"] += 1
    for names, imports in (random_order(packages, dice), random_order(packages, dice)):
        expected = [os.path.realpath(path) for name in names for path in packages[name]]
        if list(in_order(environment, names).order) != expected:
            yield f"{names}: opened is {in_order(environment, names).order}, not {expected}"
        out, log = open_in_turn(folder / "venv/bin/python3", imports)
        failing = _failing(environment, imports)
        twice = Counter(each.path for each in imports)
        if any(twice[path] > 1 for path in failing):
            continue  # the second attempt is not modeled
        seen_failing = [line.partition(" ")[0] for line in out.splitlines() if line != "start"]
        counts["failures"] += len(failing)
        if seen_failing != ["fail" if each.path in failing else "open" for each in imports]:
            yield f"{imports}: predicted to fail: {failing}: {out}{log[-300:]}"
        if failing or "fail" in seen_failing:
            continue
        want = compared(predicted(environment, imports), environment)
        seen = compared(logged(log, environment.world.members), environment)
        counts["bindings"] += len(seen)
        counts["to other distributions"] += sum(
            environment.distribution(edge.user) != environment.distribution(edge.provider)
            for edge in seen
        )
        if want != seen:
            yield f"{imports}: predicted {want - seen}, bound {seen - want}"


def _failing(environment: InstalledModules, imports: Sequence[Import]) -> set[Path]:
    """Return the modules that find no room for their static TLS."""
    paths = {os.path.realpath(each.path): each.path for each in imports}
    found = shortages(replace(environment, order=tuple(paths)))
    return {paths[short.module] for short in found}


if __name__ == "__main__":
    sys.exit(main())
