"""Published wheels: they must come through a repair unharmed."""

import re
import tempfile
from collections.abc import Sequence
from pathlib import Path

from real_wheels.archives import (
    difference,
    digest,
    entries,
    megabytes,
    name_problems,
    record_problems,
    removed_members,
    zip_problems,
)
from real_wheels.installed import load_before_and_after, load_problems
from real_wheels.listed import Outcome, Published
from real_wheels.programs import Repair, dry_run, fetch, repair


def check_published(item: Published, program: Sequence[str], tools: Path, cache: Path) -> Outcome:
    """Repair a published wheel and prove that it came to no harm."""
    wheel = fetch(item.requirement, tools, cache)
    cells = {"wheel": item.requirement, "MB": megabytes(wheel)}
    with tempfile.TemporaryDirectory(prefix="corpus-") as folder:
        plan = dry_run(program, wheel, Path(folder, "nothing"), *item.options)
        done = repair(program, wheel, Path(folder, "once"), *item.options)
        if done.wheel is None:
            problems = [f"exit code {done.code}: {done.last_words}"]
            return Outcome(name=item.requirement, cells=cells, problems=tuple(problems))
        problems, changed = zip_problems(wheel, done.wheel, plan)
        problems += name_problems(wheel, done.wheel)
        problems += record_problems(done.wheel, tools)
        again = repair(program, done.wheel, Path(folder, "twice"), *item.options)
        problems += second_problems(done.wheel, again)
        before, after, error = load_before_and_after(wheel, done.wheel, item, tools)
    problems += load_problems(before, after, removed_members(plan))
    problems += [f"use failed: {error}"] if error else []
    loads = [sum(not text for text in results.values()) for results in (before, after)]
    return Outcome(
        name=item.requirement,
        cells=cells
        | {
            "changed": str(len(changed)),
            "rules": " ".join(sorted(set(re.findall(r"\bWF\d{3}\b", plan)))),
            "ELF": str(len(before)),
            "loaded before": str(loads[0]),
            "after": str(loads[1]),
            "s": f"{done.seconds:.2f}",
        },
        problems=tuple(problems),
        details={
            "changed": sorted(changed),
            "plan": plan.splitlines(),
            "seconds": round(done.seconds, 3),
            "failed before": {name: text for name, text in before.items() if text},
            "failed after": {name: text for name, text in after.items() if text},
        },
    )


def second_problems(once_repaired: Path, again: Repair) -> list[str]:
    """Complain if a second repair fails or changes a byte of the file."""
    if again.wheel is None:
        return [f"second repair: exit code {again.code}: {again.last_words}"]
    if again.wheel.name != once_repaired.name:
        return [f"second repair: it is called {again.wheel.name} now"]
    if digest(again.wheel) == digest(once_repaired):
        return []
    changed = sorted(difference(entries(once_repaired), entries(again.wheel)))
    return [f"second repair: it changed {', '.join(changed) or 'only the zip itself'}"]
