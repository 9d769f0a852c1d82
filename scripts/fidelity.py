"""Compare the model of the loader with the real loader, on published wheels.

    python scripts/fidelity.py --cache DIR             # the wheels that corpus.py has fetched
    python scripts/fidelity.py --cache DIR --fetch     # all wheels of corpus.toml
    python scripts/fidelity.py x.whl y.whl             # only these
    python scripts/fidelity.py --bindings --cache DIR  # bindings of symbols as well
    python scripts/fidelity.py --python PATH --cache DIR

Each wheel is installed into a virtual environment. Then every ELF object is opened in a process
of its own under LD_DEBUG, programs are only loaded and not run, and the model is asked the same.
Compared are the files that were opened, in order; the candidates that exist, in order; and whether
the load fails, with the name in the loader's message. What an object's constructors open is left
out. With `--bindings` all symbols are bound at load time, and compared are also the file that each
versioned symbol was bound to, and the undefined symbols in the messages.

Exit code 1 if anything differs. Random installations are
compared by `tests/oracles/installations`.
"""

import argparse
import json
import os
import sys
import time
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))  # for the oracles of the tests

from real_wheels.listed import read_corpus
from real_wheels.programs import fetch as fetch_wheel
from real_wheels.programs import tools_python
from wheel_loads.compare import compare
from wheel_loads.model import Comparison
from wheelfix.errors import WheelfixError
from wheelfix.host.pythons import interpreter

MAX_SHOWN = 20


def main() -> int:
    """Compare, print a table and the differences, and return the exit code."""
    options = parse_arguments()
    wheels = list(options.wheels)
    if options.fetch:
        fetch(options.cache)
    if options.cache is not None:
        wheels += sorted((options.cache / "published").glob("*/*.whl"))
    found: list[Comparison] = []
    skipped: list[str] = []
    began = time.monotonic()
    for wheel in wheels:
        try:
            python = interpreter(options.python, os.environ)
            some = compare(wheel, python, symbols=options.bindings)
        except WheelfixError as error:
            skipped.append(f"{wheel.name}: {error.message.splitlines()[0]}")
            continue
        found += some
        wrong = [each for each in some if each.differs]
        bound = f", {sum(len(e.real.bound) for e in some)} bindings" if options.bindings else ""
        said = f"{len(some)} objects{bound}, {len(wrong)} differences"
        print(f"{wheel.name}: {said}", flush=True)
        for each in wrong:
            print(explanation(each), flush=True)
    for line in skipped:
        print(f"skipped: {line}")
    print(tally(found, len(wheels) - len(skipped), time.monotonic() - began))
    if options.json:
        options.json.write_text(
            json.dumps([asdict(each) for each in found], indent=1, default=sorted)
        )
    return int(not found or any(each.differs for each in found))


def parse_arguments() -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("wheels", nargs="*", type=Path)
    parser.add_argument("--cache", type=Path, help="folder of scripts/corpus.py")
    parser.add_argument("--python", default=sys.executable, help="default: %(default)s")
    parser.add_argument(
        "--fetch", action="store_true", help="first fetch the wheels of corpus.toml"
    )
    parser.add_argument(
        "--bindings", action="store_true", help="compare bindings of symbols as well"
    )
    parser.add_argument("--json", type=Path, help="also write all results to this file")
    options = parser.parse_args()
    if options.fetch and options.cache is None:
        parser.error("--fetch needs --cache")
    return options


def fetch(cache: Path) -> None:
    """Download the published and the loaded wheels of corpus.toml, each once."""
    wanted = read_corpus()
    tools = tools_python(cache, wanted.installer)
    for requirement in (*(each.requirement for each in wanted.published), *wanted.loaded):
        fetch_wheel(requirement, tools, cache)


def tally(found: Sequence[Comparison], wheels: int, seconds: float) -> str:
    """Return the figures."""
    failing = sum(each.real.blamed is not None for each in found)
    return (
        f"{wheels} wheels, {len(found)} objects, {sum(len(e.real.opened) for e in found)} files "
        f"opened, {sum(len(each.real.bound) for each in found)} symbols bound, "
        f"{failing} failures and {sum(e.symbols for e in found)} for symbols, "
        f"{sum(each.differs for each in found)} differences, {seconds:.0f} s"
    )


def explanation(each: Comparison) -> str:
    """Return one difference in full."""
    lines = [f"  {each.member}: {each.message}"]
    for name in ("opened", "tried", "blamed"):
        real, model = getattr(each.real, name), getattr(each.model, name)
        if real != model:
            lines += [f"    {name}: real  {real}", f"    {name}: model {model}"]
    if each.real.unbound != each.model.unbound:
        lines += [
            f"    unbound: real  {each.real.unbound}",
            f"    unbound: model {each.model.unbound}",
        ]
    for who, some in (
        ("real ", each.real.bound - each.model.bound),
        ("model", each.model.bound - each.real.bound),
    ):
        lines += [f"    bound: {who} {edge}" for edge in sorted(some, key=str)[:MAX_SHOWN]]
    return "\n".join(lines)


if __name__ == "__main__":
    sys.exit(main())
