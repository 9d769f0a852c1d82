"""Figures of runs, and ratios of them, as Markdown tables."""

import statistics
from collections.abc import Mapping, Sequence

from benchmark.measure import OURS, Run, Runs

UNITS = {"wall": "s", "cpu": "CPU", "peak": "peak MB", "size": "size"}


def figure(runs: Sequence[Run], name: str, *, least: bool) -> float:
    """Return the median or the least of one figure over the runs."""
    return (min if least else statistics.median)(float(getattr(run, name)) for run in runs)


def cells(runs: Runs, *, least: bool) -> dict[str, str]:
    """Lay out what the tools have spent: seconds and memory of each, and the ratios to ours."""
    row: dict[str, str] = {}
    for name, unit in UNITS.items():
        values = {
            tool: figure(each, name, least=least) if each else None for tool, each in runs.items()
        }
        if name in {"wall", "peak"}:
            row |= {f"{tool} {unit}": shown(value) for tool, value in values.items()}
        ours = values[OURS]
        for tool, value in values.items():
            if tool != OURS and name != "peak" and ours:
                row[f"{unit} / {tool}"] = f"{ours / value:.3f}" if value else "-"
    return row


def shown(value: float | None) -> str:
    """Format a figure; a dash for a tool that failed."""
    return "-" if value is None else f"{value:.3g}" if value < 1000 else f"{value:.0f}"


def table(rows: Sequence[Mapping[str, str]]) -> str:
    """Lay out the rows as a Markdown table that reads well as it is."""
    columns = list(dict.fromkeys(column for row in rows for column in row))
    lines = [columns, *([row.get(column, "") for column in columns] for row in rows)]
    widths = [max(len(line[index]) for line in lines) for index in range(len(columns))]
    lines.insert(1, ["-" * width for width in widths])
    return "\n".join(
        f"| {' | '.join(cell.rjust(width) for cell, width in zip(line, widths, strict=True))} |"
        for line in lines
    )
