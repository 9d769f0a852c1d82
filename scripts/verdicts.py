"""Compare the verdict of `wheelfix check` with that of `auditwheel show`.

    python scripts/verdicts.py WHEEL_OR_FOLDER...

Prints a Markdown table with both tags and both times, and exits with 1 where the tags differ.
`auditwheel show` runs as a user runs it, with all libraries of this machine. A wheel that it cannot
judge counts as no difference, and is listed with the end of its error message. Libraries that only
an external library needs depend on this machine, and are not compared.
"""

import argparse
import json
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from wheelfix.analysis.policies import Policy
from wheelfix.analysis.policy_reasons import Judgement
from wheelfix.analysis.policy_verdict import judge_zip
from wheelfix.analysis.zip_search import ZipSearch
from wheelfix.budget import Budget
from wheelfix.host.policy_tables import read_policies
from wheelfix.wheel.reader import open_wheel

_COMPARED = ("overall_tag", "pyfpe", "ucs2", "unsupported_isa")


@dataclass(frozen=True, slots=True, kw_only=True)
class Comparison:
    """Both verdicts on one wheel."""

    wheel: str
    ours: Mapping[str, Any]
    theirs: Mapping[str, Any]
    """With `error` if auditwheel has no verdict."""
    objects: int
    seconds: tuple[float, float, float]
    """For auditwheel's verdict, for opening the wheel, and for our verdict on it."""

    @property
    def differences(self) -> list[str]:
        """The keys in which the two differ, and external libraries that only wheelfix finds."""
        if "error" in self.theirs:
            return []
        found = [key for key in _COMPARED if self.ours.get(key) != self.theirs.get(key)]
        ours = set(self.ours.get("external_libs", ()))
        return found + sorted(ours - set(self.theirs.get("external_libs", ())))


def compare(path: Path, policies: Sequence[Policy]) -> Comparison:
    """Get both verdicts on the wheel at `path`."""
    start = time.perf_counter()
    with open_wheel(path) as archive:
        wheel = archive.wheel
    opened = time.perf_counter()
    ours = _as_json(judge_zip(wheel, policies, ZipSearch(wheel, Budget.of_files())))
    judged = time.perf_counter()
    theirs = show(path)
    shown = time.perf_counter()
    return Comparison(
        wheel=path.name,
        ours=ours,
        theirs=theirs,
        objects=len(wheel.elfs),
        seconds=(shown - judged, opened - start, judged - opened),
    )


def _as_json(found: Judgement | None) -> dict[str, Any]:
    if found is None:
        return {"overall_tag": "none"}
    return {
        "overall_tag": found.overall,
        "pyfpe": found.fpectl,
        "ucs2": found.narrow_unicode,
        "unsupported_isa": found.unsupported_isa,
        "external_libs": {name for short in found.upgrades.values() for name in short.libraries},
    }


def show(path: Path) -> dict[str, Any]:
    """Return the output of `auditwheel show --json`."""
    command = [sys.executable, "-m", "auditwheel", "show", "--json", str(path)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    try:
        found: dict[str, Any] = json.loads(done.stdout)
    except ValueError:
        return {"error": (done.stderr.strip().splitlines() or ["nothing"])[-1]}
    return found


def rows(comparisons: Sequence[Comparison]) -> Iterator[str]:
    """Yield the lines of the table."""
    yield "| wheel | objects | auditwheel | wheelfix | s | opened, s | judged, ms | |"
    yield "|---|---:|---|---|---:|---:|---:|---|"
    for pair in comparisons:
        theirs = pair.theirs.get("overall_tag", "none")
        remark = pair.theirs.get("error") or ", ".join(pair.differences)
        show_s, open_s, judge_s = pair.seconds
        yield (
            f"| {pair.wheel} | {pair.objects} | {theirs} | {pair.ours['overall_tag']} "
            f"| {show_s:.2f} | {open_s:.2f} | {judge_s * 1000:.1f} | {remark} |"
        )


def main() -> int:
    """Compare each wheel; 1 if a verdict differs."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("wheels", nargs="+", type=Path, metavar="WHEEL_OR_FOLDER")
    given: list[Path] = parser.parse_args().wheels
    paths = [wheel for path in given for wheel in (sorted(path.rglob("*.whl")) or [path])]
    policies = read_policies()
    compared = [pair for path in paths if (pair := compare(path, policies)).objects]
    print("\n".join(rows(compared)))
    return int(any(pair.differences for pair in compared))


if __name__ == "__main__":
    sys.exit(main())
