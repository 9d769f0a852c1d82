"""The output of `wheelfix doctor`: what goes wrong where installed distributions meet."""

from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

from wheelfix.analysis import import_orders
from wheelfix.analysis.installed_modules import InstalledModules
from wheelfix.grouping import grouped
from wheelfix.reports.printable import Color, Style, hint_lines, paint, printable
from wheelfix.rules.findings import Finding, Severity
from wheelfix.text import FEW, count, join_some

_MOST = 5
"""The number of findings that the text shows without -v."""
_COLORS = {Severity.ERROR: Color.RED, Severity.WARNING: Color.YELLOW, Severity.NOTE: Color.BLUE}


class Served(NamedTuple):
    """Objects of one distribution that get another copy than alone, as a report names them."""

    distribution: str
    files: Sequence[str]
    usual: str


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


class Diagnosis(NamedTuple):
    """What was read of an environment, and found in it."""

    environment: str
    """As the user names it."""
    distributions: int
    objects: int
    modules: int
    findings: Sequence[Finding]
    """The worst come first."""
    orders: Sequence[Order] = ()
    """Those that were asked for."""


def order(modules: InstalledModules, judged: import_orders.Order) -> Order:
    """Return an order with the names of files and distributions."""
    label, owner = modules.world.label, modules.distribution

    def copy(found: import_orders.Copy) -> Copy:
        served = grouped(found.served, lambda one: (owner(one.path), one.usual))
        return Copy(
            soname=found.soname,
            file=label(found.path),
            distribution=owner(found.path),
            module=modules.modules[found.first],
            others=[label(path) for path in found.others],
            served=[
                Served(distribution, [label(one.path) for one in some], label(usual))
                for (distribution, usual), some in served.items()
            ],
        )

    return Order(
        imports=judged.names,
        copies=[copy(found) for found in judged.copies],
        failing=[modules.modules[path] for path in judged.failing],
    )


def text(diagnosis: Diagnosis, style: Style) -> str:
    """Return the verdict, and the worst findings; all of them, with their notes, if verbose."""
    lines = [_verdict(diagnosis, style)]
    findings = [
        found for found in diagnosis.findings if style.verbose or found.severity > Severity.NOTE
    ]
    shown = findings if style.verbose else findings[:_MOST]
    for finding in shown:
        lines += ["", *_finding(finding, style)]
    if len(shown) < len(findings):
        lines += ["", f"and {count(len(findings) - len(shown), 'more finding')} (-v)"]
    for asked in diagnosis.orders if style.verbose or len(diagnosis.orders) == 1 else ():
        lines += ["", *_order(asked, style)]
    return "\n".join(lines)


def _verdict(diagnosis: Diagnosis, style: Style) -> str:
    numbers = Counter(finding.severity for finding in diagnosis.findings)
    found = [count(numbers[severity], severity.label) for severity in _COLORS if numbers[severity]]
    read = (
        f"{count(diagnosis.distributions, 'distribution')}, {count(diagnosis.objects, 'object')}, "
        f"{count(diagnosis.modules, 'extension module')}"
    )
    name = paint(printable(diagnosis.environment), Color.BOLD, on=style.color)
    more = " (-v)" if numbers[Severity.NOTE] and not style.verbose else ""
    orders = diagnosis.orders
    if failing := sum(bool(asked.failing) for asked in orders):
        read += f"; {failing:,} of {count(len(orders), 'order')} of imports fail"
    elif len(orders) > 1:
        read += f"; {count(len(orders), 'order')} of imports work"
    return f"{name}: {', '.join(found) or 'no findings'}{more}; {read}"


def _order(asked: Order, style: Style) -> Iterator[str]:
    """Yield which copies serve others; all copies if verbose."""
    fails = f" ({join_some(asked.failing, FEW)} fails)" if asked.failing else ""
    names = paint(printable(", ".join(asked.imports)), Color.BOLD, on=style.color)
    yield f"import {names}{printable(fails)}"
    shown = [copy for copy in asked.copies if style.verbose or copy.served]
    if not shown:
        yield "  each object gets the libraries that it gets alone"
    for copy in shown:
        of = f" of {copy.distribution}" if copy.distribution else ""
        yield printable(f"  {copy.soname}: `{copy.file}`{of} comes first, by `{copy.module}`")
        for served in copy.served:
            of = f" of {served.distribution}" if served.distribution else ""
            yield printable(
                f"    it serves {join_some(served.files, FEW)}{of}, which alone gets "
                f"`{served.usual}`"
            )


def _finding(finding: Finding, style: Style) -> Iterator[str]:
    label = paint(finding.severity.label, _COLORS[finding.severity], on=style.color)
    yield f"{label}[{finding.code}]: {printable(finding.message)}"
    yield from (f"  {printable(note)}" for note in finding.notes)
    yield from (f"  {line}" for line in hint_lines(finding.hint, style))


def value(diagnosis: Diagnosis) -> dict[str, Any]:
    """Return the diagnosis as JSON types; `version` changes when the meaning of a key does."""
    return {
        "version": 1,
        "environment": diagnosis.environment,
        "distributions": diagnosis.distributions,
        "objects": diagnosis.objects,
        "modules": diagnosis.modules,
        "findings": [
            {
                "code": finding.code,
                "name": finding.name,
                "severity": finding.severity.label,
                "message": finding.message,
                "file": finding.member,
                "notes": list(finding.notes),
                "hint": finding.hint,
            }
            for finding in diagnosis.findings
        ],
        "orders": [
            {
                "imports": list(asked.imports),
                "fails": list(asked.failing),
                "copies": [
                    {
                        **copy._asdict(),
                        "others": list(copy.others),
                        "served": [
                            {**served._asdict(), "files": list(served.files)}
                            for served in copy.served
                        ],
                    }
                    for copy in asked.copies
                ],
            }
            for asked in diagnosis.orders
        ],
    }
