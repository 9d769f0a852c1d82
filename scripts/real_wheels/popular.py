"""Popular wheels as published: what `wheelfix check` says of them must be right, and short."""

import json
import subprocess
from collections.abc import Sequence
from pathlib import Path

from real_wheels.listed import Outcome, Popular
from real_wheels.programs import ProgramError, environment, fetch

FEW_LINES = 3
"""The report of a wheel that has nothing wrong is one line; more than these are noise."""


def check_popular(item: Popular, program: Sequence[str], tools: Path, cache: Path) -> Outcome:
    """Check a wheel; an error or a warning whose rule is not in `item.judged` is a problem."""
    wheel, judged = fetch(item.requirement, tools, cache), item.judged
    shown = report(program, wheel, "full")
    [checked] = json.loads(report(program, wheel, "json"))["wheels"]
    serious = [finding for finding in checked["findings"] if finding["severity"] != "note"]
    codes = dict.fromkeys(finding["code"] for finding in serious)
    return Outcome(
        name=item.requirement,
        cells={
            "wheel": item.requirement,
            "lines": str(len(shown.splitlines())),
            "errors": str(sum(finding["severity"] == "error" for finding in serious)),
            "warnings": str(sum(finding["severity"] == "warning" for finding in serious)),
            "true": "; ".join(f"{code}: {judged[code]}" for code in codes if code in judged),
        },
        problems=tuple(
            f"{finding['code']} {finding['message']}"
            for finding in serious
            if finding["code"] not in judged
        ),
    )


def report(program: Sequence[str], wheel: Path, form: str) -> str:
    """Return the report of `check` in the format `form`, with the default options otherwise."""
    done = subprocess.run(
        [*program, "check", "--output-format", form, wheel.name],
        cwd=wheel.parent,
        env=environment(),
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode > 1:
        raise ProgramError(f"{wheel.name}: {done.stderr}")
    return done.stdout


def noisy(outcomes: Sequence[Outcome]) -> str:
    """Return how many wheels have findings, and how many more than a few lines."""
    found = sum(outcome.cells.get("lines", "1") != "1" for outcome in outcomes)
    long = sum(int(outcome.cells.get("lines", "0")) > FEW_LINES for outcome in outcomes)
    return f"{found} of {len(outcomes)} wheels have findings, {long} more than {FEW_LINES} lines"
