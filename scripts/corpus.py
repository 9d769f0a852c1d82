"""Hold `wheelfix repair` to real wheels.

    python scripts/corpus.py sdists      # built here against Debian, compared with auditwheel
    python scripts/corpus.py published   # as published: they must come through unharmed
    python scripts/corpus.py popular     # the most downloaded ones: what `check` says of them

All print a Markdown table and exit with 1 on any difference that is not allowed. The wheels are
listed in corpus.toml. wheelfix and auditwheel are run as programs, as a user runs them; only the
standard library is imported, so that no code under test judges itself.
"""

import argparse
import json
import sys
from collections.abc import Callable, Sequence
from dataclasses import asdict
from pathlib import Path

from real_wheels.listed import Item, Outcome, read_corpus
from real_wheels.popular import check_popular, noisy
from real_wheels.programs import (
    DEFAULT_CACHE,
    ProgramError,
    find_program,
    tools_python,
)
from real_wheels.published import check_published
from real_wheels.sdists import check_sdist


def markdown(outcomes: Sequence[Outcome]) -> str:
    """Lay the outcomes out as a table, with the problems below it."""
    columns = list(dict.fromkeys(column for outcome in outcomes for column in outcome.cells))
    rows = [columns, ["---"] * len(columns)]
    rows += [[outcome.cells.get(column, "") for column in columns] for outcome in outcomes]
    verdicts = ["verdict", "---", *("FAILED" if outcome.problems else "ok" for outcome in outcomes)]
    lines = [
        f"| {' | '.join(row)} | {verdict} |" for row, verdict in zip(rows, verdicts, strict=True)
    ]
    failures = [
        f"- {outcome.name}: {problem}" for outcome in outcomes for problem in outcome.problems
    ]
    return "\n".join([*lines, "", *failures])


def examine(
    items: Sequence[Item], check: Callable[[Item], Outcome], *, keep_going: bool
) -> list[Outcome]:
    """Check one item after the other, until one fails, unless `--keep-going`."""
    outcomes: list[Outcome] = []
    for item in items:
        try:
            outcome = check(item)
        except ProgramError as error:
            cells = {"wheel": item.requirement}
            outcome = Outcome(name=item.requirement, cells=cells, problems=(str(error),))
        outcomes.append(outcome)
        print(f"{outcome.name}: {len(outcome.problems)} problems", file=sys.stderr, flush=True)
        if outcome.problems and not keep_going:
            break
    return outcomes


def parse_arguments() -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("part", choices=["sdists", "published", "popular"])
    parser.add_argument("--only", action="append", default=[], help="name of a project; repeatable")
    parser.add_argument(
        "--keep-going", action="store_true", help="do not stop at the first failure"
    )
    parser.add_argument("--cache", type=Path, default=DEFAULT_CACHE, help="default: %(default)s")
    parser.add_argument("--json", type=Path, help="also write everything that was found here")
    parser.add_argument("--wheelfix", default="wheelfix", help="command; default: %(default)s")
    parser.add_argument(
        "--tools", default="auditwheel,wheelfix", help="for sdists; default: %(default)s"
    )
    return parser.parse_args()


def main() -> int:
    """Run one part of the corpus; 1 if anything is not as it must be."""
    options = parse_arguments()
    corpus = read_corpus()
    cache = options.cache.resolve()
    tools = tools_python(cache, corpus.installer)
    wanted = {name.lower() for name in options.only}

    def chosen(requirement: str) -> bool:
        return not wanted or requirement.partition("==")[0].lower() in wanted

    if options.part == "sdists":
        commands = {"auditwheel": "auditwheel", "wheelfix": options.wheelfix}
        programs = {name: find_program(commands[name]) for name in options.tools.split(",")}
        outcomes = examine(
            [item for item in corpus.sdists if chosen(item.requirement)],
            lambda item: check_sdist(item, programs, tools, cache),
            keep_going=options.keep_going,
        )
    elif options.part == "popular":
        program = find_program(options.wheelfix)
        outcomes = examine(
            [item for item in corpus.popular if chosen(item.requirement)],
            lambda item: check_popular(item, program, tools, cache),
            keep_going=options.keep_going,
        )
        print(noisy(outcomes), file=sys.stderr)
    else:
        program = find_program(options.wheelfix)
        outcomes = examine(
            [item for item in corpus.published if chosen(item.requirement)],
            lambda item: check_published(item, program, tools, cache),
            keep_going=options.keep_going,
        )
    print(markdown(outcomes))
    if options.json:
        options.json.write_text(json.dumps([asdict(outcome) for outcome in outcomes], indent=1))
    return int(not outcomes or any(outcome.problems for outcome in outcomes))


if __name__ == "__main__":
    try:
        sys.exit(main())
    except ProgramError as failure:
        sys.exit(f"error: {failure}")
