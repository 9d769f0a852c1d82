"""The output of `wheelfix verify`: results as text and as JSON."""

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from typing import Any

from wheelfix.host.verify_values import AttemptKind, Check, Result, Status, Verified
from wheelfix.reports.check_content import FEW
from wheelfix.reports.printable import Colour, paint, printable
from wheelfix.text import counted

LINES = 8
"""Last lines of a failed check's output that are shown."""
_KINDS = {AttemptKind.LOAD: "object", AttemptKind.IMPORT: "module", AttemptKind.RUN: "program"}


_COLOURS = {Result.OK: Colour.GREEN, Result.INCOMPLETE: Colour.YELLOW, Result.FAILED: Colour.RED}


def text(result: Verified, *, strict: bool, verbose: bool, colour: bool) -> str:
    """Return the result for one wheel in one environment; failures in full."""
    outcome = result.result(strict=strict)
    word = paint(outcome, _COLOURS[outcome], on=colour)
    lines = [
        f"{printable(result.wheel)}: {word} ({result.scheme}, {printable(result.interpreter)})"
    ]
    lines += [f"  {line}" for line in _counts(result.checks)]
    lines += [f"  not installed: {printable(member)}" for member in result.lost]
    if outcome is Result.INCOMPLETE:
        lines.append(f"  {'no module was imported' if result.checks else 'nothing to verify'}")
    alone = [check for check in result.checks if check.status is Status.DEPENDENT]
    for check in result.checks:
        if check in alone[FEW:] and not verbose:
            continue
        if check.failed:
            lines += _failure(check, colour=colour)
        elif check.status is Status.NEEDS and not verbose:
            continue
        elif check.status is not Status.OK or (verbose and check.message):
            lines += _mild(check)
        elif verbose:
            lines.append(f"  {check.kind} {printable(check.what)}: ok")
    if len(alone) > FEW and not verbose:
        lines.append(f"  and {counted(len(alone) - FEW, 'such library')} more, which -v shows")
    needed = Counter(check.message for check in result.checks if check.status is Status.NEEDS)
    for name, number in needed.items():
        verb = "needs" if number == 1 else "need"
        lines.append(f"  {counted(number, 'module')} {verb} `{printable(name)}`: try --deps")
    return "\n".join(lines)


def as_json(results: Sequence[Verified], *, strict: bool) -> dict[str, Any]:
    """Return the results as JSON types; `version` changes when the meaning of a key does."""
    return {
        "version": 1,
        "results": [
            {**asdict(found), "failed": found.failed, "result": found.result(strict=strict)}
            for found in results
        ],
    }


def _counts(checks: Sequence[Check]) -> Iterator[str]:
    for kind, noun in _KINDS.items():
        some = [check for check in checks if check.kind is kind]
        states = Counter(check.status for check in some if check.status is not Status.OK)
        rest = "".join(f", {number:,} {status}" for status, number in states.items())
        if some:
            good = sum(check.status is Status.OK for check in some)
            yield f"{kind:6} {counted(len(some), noun)}: {good:,} ok{rest}"


def _failure(check: Check, *, colour: bool) -> Iterator[str]:
    yield (
        paint(f"error[{check.status}]", Colour.RED, on=colour)
        + f": {check.kind} `{printable(check.member)}`"
    )
    yield f"  {printable(check.message)}"
    yield from (f"  = note: {printable(line)}" for line in check.explanation)
    yield from (f"  | {printable(line)}" for line in check.tail.strip().splitlines()[-LINES:])


def _mild(check: Check) -> Iterator[str]:
    """Yield one line for a problem that is not the wheel's fault."""
    first = check.message.strip().splitlines()[:1]
    yield f"  {check.kind} {printable(check.what)}: {check.status}: {printable(''.join(first))}"
