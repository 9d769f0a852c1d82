"""Compare our implementation of `--as-needed` with the linkers, on random link graphs.

A graph is a few libraries with strong, weak, versioned and hidden definitions, some of them
underlinked, and an object that refers to some of these. The DT_NEEDED entries that
`as_needed.decide` keeps of the object linked with `--no-as-needed` must be those that the linker
writes with `--as-needed`. GNU ld keeps an entry for an underlinked library's sake; gold and lld do
not.

A repair then drops what is unused of all objects of the graph, and the loader must bind every
symbol to the same file as before, also weak references and an object's own symbols.

Last, the object is pruned in place and read again: its DT_VERNEED and undefined symbols must be
those of the relinked object, and the loader must bind every symbol of both to the same file. Two
differences are allowed: a weak reference whose first definer is dropped loses its version, though a
later definer may have one (the loader finds it all the same); and in a program GNU ld resolves to
null some weak references that the pruned one still leaves to the loader.

    python -m tests.oracles.link_graphs.linkers -n 2000 [--linker bfd|gold|lld] [--first SEED]
"""

import argparse
import shutil
import sys
import tempfile
import time
from pathlib import Path

from tests.oracles.link_graphs.compare import difference, rebinding
from tests.oracles.link_graphs.linking import Bench
from tests.oracles.link_graphs.loading import load
from wheelfix.elf.reader import read_elf

LINKERS = {"bfd": "ld.bfd", "gold": "ld.gold", "lld": "ld.lld"}


def main() -> int:
    """Compare many graphs, and say how many differ."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("-n", type=int, default=2000, help="number of graphs")
    parser.add_argument("--first", type=int, default=0, help="the first seed")
    parser.add_argument("--linker", choices=LINKERS, default="bfd")
    options = parser.parse_args()
    linker = LINKERS[options.linker]
    if shutil.which(linker) is None:
        print(f"{linker} is not installed", file=sys.stderr)
        return 2
    started = time.monotonic()
    differing = loading = bound = 0
    with tempfile.TemporaryDirectory() as folder:
        bench = Bench(folder=Path(folder), linker=linker)
        for seed in range(options.first, options.first + options.n):
            if (found := difference(seed, bench)) is not None:
                differing += 1
                print(found)
            if linker == LINKERS["bfd"] and (found := _rebinding(seed)) is not None:
                differing += 1
                print(found)
            made = Path(folder, "pruned.so")
            loaded = load(made, read_elf(made.read_bytes(), made.name))
            loading += loaded.complete
            bound += len(loaded.bindings)
    seconds = time.monotonic() - started
    print(f"{linker}: {options.n} graphs, {differing} differ, {seconds:.0f} s")
    print(f"{loading} of the pruned objects load with everything bound, {bound} bindings")
    return 1 if differing else 0


def _rebinding(seed: int) -> str | None:
    """Prune the graph of `seed` as a repair does, in a folder of its own."""
    with tempfile.TemporaryDirectory() as folder:
        return rebinding(seed, Bench(folder=Path(folder)))


if __name__ == "__main__":
    sys.exit(main())
