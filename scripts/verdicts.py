"""Compare our own verdict with what `auditwheel show` says, which a repair asks in the end.

    python scripts/verdicts.py WHEEL_OR_FOLDER...

Prints a Markdown table with both tags and both times, and exits with 1 where the verdicts differ.
"""

import argparse
import os
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

from wheelfix.analysis.policy_verdict import Verdict, policy_verdict, verdict_from
from wheelfix.errors import WheelfixError
from wheelfix.host.policy_tables import read_policies
from wheelfix.pipelines.ask_auditwheel import Auditwheel, ask
from wheelfix.settings import Settings
from wheelfix.wheel.model import Wheel
from wheelfix.wheel.reader import open_wheel


def compare(wheel: Wheel) -> tuple[str, bool]:
    """Return the row of a wheel, and whether both verdicts are the same."""
    start = time.perf_counter()
    ours = policy_verdict(wheel, Settings(), read_policies())
    judged = time.perf_counter()
    theirs = _asked(wheel)
    asked = time.perf_counter()
    same = ours == theirs
    return (
        f"| {wheel.name} | {len(wheel.elfs)} | {_tag(theirs)} | {_tag(ours)} "
        f"| {asked - judged:.2f} | {judged - start:.3f} | {'' if same else 'differs'} |"
    ), same


def _asked(wheel: Wheel) -> Verdict | None:
    with tempfile.TemporaryDirectory() as workdir, Auditwheel(os.environ) as auditwheel:
        try:
            judgement = ask(auditwheel, wheel, Settings(), (), Path(workdir))
        except WheelfixError:  # no object counts
            return None
    return verdict_from(wheel, judgement, Settings(), read_policies())


def _tag(verdict: Verdict | None) -> str:
    return "none" if verdict is None else verdict.overall


def _wheels(paths: list[Path]) -> Iterator[Wheel]:
    for path in paths:
        for file in sorted(path.rglob("*.whl")) or [path]:
            with open_wheel(file) as archive:
                if archive.wheel.elfs:
                    yield archive.wheel


def main() -> int:
    """Compare each wheel; 1 if a verdict differs."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("wheels", nargs="+", type=Path, metavar="WHEEL_OR_FOLDER")
    print("| wheel | objects | auditwheel | wheelfix | asked, s | computed, s | |")
    print("|---|---:|---|---|---:|---:|---|")
    differs = False
    for wheel in _wheels(parser.parse_args().wheels):
        row, same = compare(wheel)
        print(row)
        differs |= not same
    return int(differs)


if __name__ == "__main__":
    sys.exit(main())
