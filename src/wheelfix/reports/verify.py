"""The output of `wheelfix verify`: results as text and as JSON."""

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict
from typing import Any

from wheelfix.grouping import flatten, grouped, values_by_key
from wheelfix.host.verify_values import (
    UNTRIED,
    AttemptKind,
    Check,
    CheckStatus,
    Verified,
    VerifyResult,
)
from wheelfix.reports.printable import PLAIN, Color, Style, paint, printable
from wheelfix.reports.run_totals import WheelResult
from wheelfix.text import FEW, by_number, count, first_of, join_plain, join_some, quote

LINES = 8
"""Last lines of a failed check's output that are shown."""
_NOUNS = frozenset(
    {CheckStatus.MISSING, CheckStatus.UNDEFINED, CheckStatus.VERSION, CheckStatus.EXITED}
)
"""The results that are counted as things; their messages name what is lacking."""
_KINDS = {
    AttemptKind.INSTALL: ("installed", "wheel"),
    AttemptKind.LOAD: ("loaded", "object"),
    AttemptKind.IMPORT: ("imported", "module"),
    AttemptKind.RESOLVE: ("resolved", "entry point"),
    AttemptKind.RUN: ("ran", "program"),
}


_UNDECLARED = (
    "no distribution that is installed has it: the wheel lacks it, or must require one that has it"
)
_COLORS = {VerifyResult.OK: Color.GREEN, VerifyResult.NOT_TRIED: Color.YELLOW}


def text(
    result: Verified, *, strict: bool, allow_untried: bool = False, style: Style = PLAIN
) -> str:
    """Return the result for one wheel in one environment; failures in full."""
    outcome = result.result(strict=strict)
    word = paint(outcome, _COLORS.get(outcome, Color.RED), on=style.color)
    where = result.interpreter + (f" in {result.image}" if result.image else "")
    is_acceptable = outcome not in {VerifyResult.OK, VerifyResult.FAILED}
    way = "; `--allow-untried` accepts that" * (is_acceptable and not allow_untried)
    if outcome is VerifyResult.OK and result.untried:
        word += f", but {len(result.untried):,} of {len(result.checks):,} not tried"
    if outcome is VerifyResult.OK and result.lost:
        word += f", but {count(len(result.lost), 'object')} not installed"
    lines = [f"{printable(result.wheel)}: {word} ({result.scheme}, {printable(where)}){way}"]
    lines += [f"  {line}" for line in counts(result.checks)]
    lines += [f"  not installed: {printable(member)}" for member in result.lost]
    if not result.checks:
        lines.append("  nothing to verify")
    not_met = [printable(str(unmet)) for unmet in result.not_met]
    not_met = not_met if style.verbose else first_of(not_met, FEW, ": -v")
    lines += (f"  {line}" for line in not_met)
    lines += _not_tried(result)
    if result.of_machine:
        names = join_some(map(printable, result.of_machine), FEW)
        lines.append(f"  used of this machine: {names}, which no tag promises on another")
    mild = (c for c in result.checks if not c.failed and c.status not in {*UNTRIED, CheckStatus.OK})
    for same in grouped(mild, lambda check: check.status).values():
        alike = [*map(_mild, same)]
        lines += alike if style.verbose else first_of(alike, FEW, ": -v")
    blocks = ["\n".join(_failure(same, style)) for same in _same_failures(result.checks)]
    lines += blocks if style.verbose else first_of(blocks, FEW, ": -v")
    if style.verbose:
        fine = (check for check in result.checks if check.status is CheckStatus.OK)
        lines += (f"{_subject(check)}: ok" for check in fine)
    return "\n".join(lines)


def run_result(results: Sequence[Verified], *, strict: bool) -> WheelResult:
    """Return how a wheel ended in the worst of its environments, for the totals of a run."""
    order = list(VerifyResult)
    worst = max(results, key=lambda result: order.index(result.result(strict=strict)))
    outcome = worst.result(strict=strict)
    bad = [check for check in worst.checks if check.failed] or list(worst.untried)
    if outcome is not VerifyResult.OK and not bad:
        bad = [check for check in worst.checks if check.status is not CheckStatus.OK]
    needs = f", needs {bad[0].message}" if bad and bad[0].status in UNTRIED else ""
    first = next((f"{check.kind} {quote(_file(check))}: {check.status}" for check in bad), "")
    return WheelResult(worst.wheel, outcome, first + needs)


def _not_tried(result: Verified) -> Iterator[str]:
    """Yield what could not be tried, a line for each distribution or module that is needed."""
    told = set[str]()
    for name, same in grouped(result.untried, lambda check: check.message).items():
        members = {check.member for check in same}
        verb = by_number(members, "needs", "need")
        yield f"  not tried: {count(len(members), 'file')} {verb} {printable(name)}"
        notes = {*flatten(check.explanation for check in same)} - told
        yield from (f"  {printable(note)}" for note in sorted(notes))
        told |= notes
        if any(check.is_undeclared for check in same):
            yield f"  {_UNDECLARED}"
    if result.not_met or any(check.status is CheckStatus.NEEDS for check in result.untried):
        is_required = result.not_met or any(check.is_required for check in result.untried)
        deps = "`--deps` asks the index, " * bool(is_required)
        yield f"  {deps}`--with` takes a wheel or a requirement: the distribution that has it"


def _same_failures(checks: Iterable[Check]) -> Iterable[Sequence[Check]]:
    """Return the failed checks; those of one file, or that lack the same, belong together."""

    def key(check: Check) -> tuple[str, ...]:
        return (check.status, check.message, "" if check.status in _NOUNS else check.member)

    return grouped((check for check in checks if check.failed), key).values()


def as_json(results: Sequence[Verified], *, strict: bool) -> dict[str, Any]:
    """Return the results as JSON types; `version` changes when the meaning of a key does."""
    return {
        "version": 1,
        "results": [
            {**asdict(result), "failed": outcome is VerifyResult.FAILED, "result": outcome}
            for result in results
            for outcome in (result.result(strict=strict),)
        ],
    }


def counts(checks: Sequence[Check]) -> Iterator[str]:
    """Yield a line for each kind of attempt: how many were made, and how they ended."""
    for kind, (verb, noun) in _KINDS.items():
        alike = [check for check in checks if check.kind is kind]
        states = Counter(check.status for check in alike if check.status is not CheckStatus.OK)
        rest = "".join(
            f", {count(number, status) if status in _NOUNS else f'{number:,} {status}'}"
            for status, number in states.items()
        )
        if alike:
            good = sum(check.status is CheckStatus.OK for check in alike)
            yield f"{verb} {good:,} of {count(len(alike), noun)}{rest.replace(',', ':', 1)}"


def _failure(same: Sequence[Check], style: Style) -> Iterator[str]:
    first = next((check for check in same if check.explanation), same[0])
    by_subject = values_by_key((quote(_file(check)), check.kind) for check in same)
    attempts = (f"{' and '.join(kinds)} {name}" for name, kinds in by_subject.items())
    what = printable(join_plain(attempts, len(same) if style.verbose else FEW))
    yield paint(f"error[{first.status}]", Color.RED, on=style.color) + f": {what}"
    yield f"  {printable(first.message)}"
    shown = same if style.verbose else [one for one in same if one.member == first.member]
    notes = dict.fromkeys(flatten(check.explanation for check in shown))
    yield from (f"  = note: {printable(line)}" for line in notes)
    printed = (line for line in same[-1].tail.splitlines() if line.strip() not in first.message)
    yield from (f"  | {printable(line)}" for line in [*printed][-LINES:])


def _mild(check: Check) -> str:
    """Return one line for a problem that is not the wheel's fault."""
    first = "".join(check.message.strip().splitlines()[:1])
    status = "" if first.startswith(check.status) else check.status
    printed = check.tail.strip().rpartition("\n")[2].strip()
    why = printable(printed) * first.startswith("SystemExit")
    return ": ".join(filter(None, (_subject(check), status, printable(first), why)))


def _subject(check: Check) -> str:
    what = check.what if check.kind is AttemptKind.IMPORT else _file(check)
    return f"  {check.kind} {printable(what)}"


def _file(check: Check) -> str:
    """Return the member that was tried; of an entry point, its line."""
    return check.what if check.kind is AttemptKind.RESOLVE else check.member
