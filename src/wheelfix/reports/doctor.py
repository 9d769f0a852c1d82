"""The output of `wheelfix doctor`: what goes wrong where installed distributions meet."""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict
from types import MappingProxyType
from typing import Any

from wheelfix.environments import import_orders
from wheelfix.environments.comparison import Compared, LoadDifference
from wheelfix.environments.modules import InstalledModules
from wheelfix.grouping import grouped
from wheelfix.host.neighbors import Unmet
from wheelfix.named_tuple import NamedTuple
from wheelfix.reports.check_content import COLOR_OF
from wheelfix.reports.printable import Color, Style, hint_lines, paint, printable
from wheelfix.rules.findings import Finding, Severity
from wheelfix.rules.predictions import Outcome, Prediction, Proof
from wheelfix.text import FEW, count, first_of, join_plain, join_some

_MOST = 5
"""The number of findings that the text shows without -v, unless there are more errors."""


class Served(NamedTuple):
    """Objects of one distribution that get another copy than alone, as a report names them."""

    distribution: str
    files: Sequence[str]
    usual: str
    proof: Proof | None


class Copy(NamedTuple):
    """A library of a SONAME that several files have, as a report names it."""

    soname: str
    file: str
    distribution: str
    module: str
    """The module that loads it first."""
    others: Sequence[str]
    served: Sequence[Served]


class Order(NamedTuple):
    """An order of imports, as a report names it."""

    imports: Sequence[str]
    copies: Sequence[Copy]
    failing: Sequence[str]
    """The modules that fail in it."""
    proof: Proof | None
    """Whether it works or fails as predicted."""


class Diagnosis(NamedTuple):
    """What was read of an environment, and found in it."""

    environment: str
    """As the user names it."""
    distributions: int
    objects: int
    modules: int
    not_judged: int
    """The objects that were not judged."""
    opens_unknown: Sequence[str]
    """The modules that open libraries by names that are not known, when they are imported."""
    not_read: Sequence[str]
    """What Python finds beside the environment, in words."""
    not_met: Sequence[Unmet]
    """Who requires what, and what is installed of it."""
    findings: Sequence[Finding]
    """The worst come first."""
    orders: Sequence[Order] = ()
    """Those that were asked for."""
    proofs: Mapping[Prediction, Proof] = MappingProxyType({})
    """What was seen, if it was asked for."""


def order(
    modules: InstalledModules, judged: import_orders.Order, proofs: Mapping[Prediction, Proof]
) -> Order:
    """Return an order with the names of files and distributions."""
    label, owner = modules.world.label, modules.distribution

    def copy(given: import_orders.Copy) -> Copy:
        served = grouped(given.served, lambda user: (owner(user.path), user.usual))
        return Copy(
            soname=given.soname,
            file=label(given.path),
            distribution=owner(given.path),
            module=modules.modules[given.first],
            others=[label(path) for path in given.others],
            served=[
                Served(
                    distribution,
                    [label(user.path) for user in users],
                    label(usual),
                    _joined(proofs[p] for user in users if (p := user.prediction) and p in proofs),
                )
                for (distribution, usual), users in served.items()
            ],
        )

    return Order(
        imports=judged.names,
        copies=[copy(each) for each in judged.copies],
        failing=[modules.modules[path] for path in judged.failing],
        proof=proofs.get(judged.prediction),
    )


def _joined(proofs: Iterable[Proof]) -> Proof | None:
    """Return what was seen of several predictions: the first that was not seen, or that was."""
    places = [Outcome.NOT_SEEN, Outcome.SEEN, Outcome.NOT_TRIED]
    return min(proofs, key=lambda proof: places.index(proof.outcome), default=None)


def text(diagnosis: Diagnosis, style: Style) -> str:
    """Return the verdict, and the worst findings; all of them, with their notes, if verbose.

    What --prove has seen is shown, too.
    """
    not_met = [printable(str(unmet)) for unmet in diagnosis.not_met]
    not_met = not_met if style.verbose else first_of(not_met, FEW, ": -v")
    lines = [_verdict(diagnosis, style), *(f"  {line}" for line in not_met)]
    seen = {p for p, proof in diagnosis.proofs.items() if proof.outcome is Outcome.SEEN}
    findings = [
        listed
        for listed in diagnosis.findings
        if style.verbose or listed.severity > Severity.NOTE or listed.prediction in seen
    ]
    errors = sum(finding.severity is Severity.ERROR for finding in findings)
    shown = findings if style.verbose else findings[: max(_MOST, errors)]
    for finding in shown:
        proof = diagnosis.proofs.get(finding.prediction) if finding.prediction else None
        lines += ["", *_finding(finding, proof, style)]
    if len(shown) < len(findings):
        lines += ["", f"and {count(len(findings) - len(shown), 'more finding')} (-v)"]
    for asked in diagnosis.orders if style.verbose or len(diagnosis.orders) == 1 else ():
        lines += ["", *_order(asked, style)]
    return "\n".join(lines)


def _verdict(diagnosis: Diagnosis, style: Style) -> str:
    numbers = Counter(finding.severity for finding in diagnosis.findings)
    parts = [count(numbers[severity], severity.label) for severity in COLOR_OF if numbers[severity]]
    installed, objects = diagnosis.distributions, diagnosis.objects
    read = count(installed, "distribution") if installed else "no distribution is installed there"
    read = read if installed or objects else f"nothing was looked at: {read}"
    modules = f", {count(objects, 'object')}, {count(diagnosis.modules, 'extension module')}"
    read += modules * bool(installed or objects)
    name = paint(printable(diagnosis.environment), Color.BOLD, on=style.color)
    more = " (-v)" if numbers[Severity.NOTE] and not style.verbose else ""
    if len(diagnosis.orders) > 1:
        failing = sum(bool(asked.failing) for asked in diagnosis.orders)
        fails = any(finding.severity is Severity.ERROR for finding in diagnosis.findings)
        read += f"; {count(len(diagnosis.orders), 'order')} of imports"
        read += f", {failing or 'none'} fail{'s' * (failing == 1)}" if failing or not fails else ""
    if diagnosis.not_judged:
        read += (
            f"; {count(diagnosis.not_judged, 'object')} not judged, which no import is seen to "
            "open: a library is not found"
        )
    if diagnosis.opens_unknown:
        modules = join_some(diagnosis.opens_unknown, FEW)
        read += f"; libraries are opened by names that are not known in {printable(modules)}"
    if diagnosis.not_read:
        read += f"; not read: {join_plain(map(printable, diagnosis.not_read), FEW)}"
    outcomes = Counter(proof.outcome for proof in diagnosis.proofs.values())
    if outcomes:
        seen = (f"{outcomes[outcome]:,} {outcome}" for outcome in Outcome if outcomes[outcome])
        read += f"; predictions: {', '.join(seen)}"
    return f"{name}: {', '.join(parts) or 'no findings'}{more}; {read}"


def _order(asked: Order, style: Style) -> Iterator[str]:
    """Yield which copies serve others; all copies if verbose."""
    verb = "fails" if len(asked.failing) == 1 else "fail"
    fails = f" ({join_some(asked.failing, FEW)} {verb})" if asked.failing else ""
    names = paint(printable(", ".join(asked.imports)), Color.BOLD, on=style.color)
    yield f"import {names}{printable(fails)}"
    if asked.proof is not None:
        yield f"  proof: {_proof(asked.proof)}"
    shown = [copy for copy in asked.copies if style.verbose or copy.served]
    if not shown and not asked.failing:
        yield "  no copy of a library takes the place of another one"
    for copy in shown:
        of = f" of {copy.distribution}" if copy.distribution else ""
        yield printable(f"  {copy.soname}: `{copy.file}`{of} comes first, by `{copy.module}`")
        for served in copy.served:
            of = f" of {served.distribution}" if served.distribution else ""
            yield printable(
                f"    it serves {join_some(served.files, FEW)}{of}, which alone gets "
                f"`{served.usual}`{f' ({_proof(served.proof)})' if served.proof else ''}"
            )


def _finding(finding: Finding, proof: Proof | None, style: Style) -> Iterator[str]:
    label = paint(finding.severity.label, COLOR_OF[finding.severity], on=style.color)
    yield f"{label}[{finding.code}]: {printable(finding.message)}"
    yield from (f"  {printable(note)}" for note in finding.notes)
    if proof is not None:
        yield f"  proof: {_proof(proof)}"
    yield from (f"  {line}" for line in hint_lines(finding.hint, style))


def _proof(proof: Proof) -> str:
    return printable(f"{proof.outcome}: {proof.text}" if proof.text else proof.outcome)


def _proof_value(proof: Proof | None) -> dict[str, str] | None:
    return {"outcome": proof.outcome, "text": proof.text} if proof else None


def value(diagnosis: Diagnosis) -> dict[str, Any]:
    """Return the diagnosis as JSON types; `version` changes when the meaning of a key does."""
    facts = diagnosis._asdict()
    del facts["proofs"]  # each finding has its own
    return {
        "version": 1,
        **facts,
        "not_met": [asdict(unmet) for unmet in diagnosis.not_met],
        "findings": [
            {
                "code": finding.code,
                "name": finding.name,
                "severity": finding.severity.label,
                "message": finding.message,
                "file": finding.member,
                "notes": list(finding.notes),
                "hint": finding.hint,
                "imports": list(finding.prediction.imports) if finding.prediction else [],
                "proof": _proof_value(
                    diagnosis.proofs.get(finding.prediction) if finding.prediction else None
                ),
            }
            for finding in diagnosis.findings
        ],
        "orders": [
            {
                "imports": list(asked.imports),
                "fails": list(asked.failing),
                "proof": _proof_value(asked.proof),
                "copies": [
                    {
                        **copy._asdict(),
                        "served": [
                            {**served._asdict(), "proof": _proof_value(served.proof)}
                            for served in copy.served
                        ],
                    }
                    for copy in asked.copies
                ],
            }
            for asked in diagnosis.orders
        ],
    }


# --- Another environment --------------------------------------------------------------------------


def difference_text(compared: Compared, difference: LoadDifference | None, style: Style) -> str:
    """Return the first difference between two environments, and its cause."""
    names = paint(printable(" and ".join(compared.names)), Color.BOLD, on=style.color)
    modules = count(len(compared.twins), "module")
    if difference is None:
        failing = len(compared.failing[0])
        same = f"{modules} of both load the same libraries"
        same = same if compared.twins else "no module is in both"
        parts = [f"{names}: {same}", *([f"{failing:,} of them fail in both"] if failing else [])]
        for name, left in zip(compared.names, compared.not_read, strict=True):
            if left:
                parts.append(printable(f"not read of {name}: {join_plain(left, FEW)}"))
        return "; ".join(parts)
    more = f"; {count(difference.others, 'more difference')}" if difference.others else ""
    is_file = "/" in difference.module
    what = f"what opens `{difference.module}`" if is_file else f"`import {difference.module}`"
    does = "loads other libraries" if difference.name else "differs"
    does = f"fails in {difference.fails}" if difference.fails else does
    lines = [f"{names}: {printable(what)} {does}{more}"]
    if difference.name:
        lines.append(printable(f"  `{difference.requester}` needs `{difference.name}`:"))
    for name, side in zip(compared.names, difference.sides, strict=True):
        of = f" of {side.distribution}" if side.distribution else ""
        file = f"`{side.file}`{of}, {side.how}" if side.file else side.how
        lines.append(printable(f"    {name}: {file}"))
    lines += [printable(f"  {difference.cause}")] if difference.cause else []
    return "\n".join(lines)


def difference_value(compared: Compared, difference: LoadDifference | None) -> dict[str, Any]:
    """Return the difference as JSON types; `version` changes when the meaning of a key does."""
    return {
        "version": 1,
        "environments": list(compared.names),
        "modules": len(compared.twins),
        "not_read": list(map(list, compared.not_read)),
        "difference": difference
        and {
            **difference._asdict(),
            "fails": bool(difference.fails),
            "sides": [
                {"file": side.file, "distribution": side.distribution, "how": side.how}
                for side in difference.sides
            ],
        },
    }
