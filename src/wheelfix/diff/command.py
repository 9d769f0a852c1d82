"""`wheelfix diff`: what changed between two releases."""

import os
import shlex
from collections.abc import Sequence
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from wheelfix.cli import options
from wheelfix.cli.installation_options import say_unknown
from wheelfix.cli.options import Call
from wheelfix.cli.output_files import Kind, write_file
from wheelfix.cli.wheel_paths import say_closed, wheels_below
from wheelfix.cli.wheel_time_limit import time_limit
from wheelfix.diff import report as reports
from wheelfix.diff.changes import ChangeKind
from wheelfix.diff.report import Judged
from wheelfix.diff.wheels_of_releases import Comparison, compare_wheels, comparison_of_one, pairs
from wheelfix.errors import BadWheelError, ExitCode, SettingsError, WheelfixError
from wheelfix.frozen import frozen
from wheelfix.grouping import flatten
from wheelfix.reports.check_content import lowest_failing
from wheelfix.reports.printable import fit, printable
from wheelfix.rules.findings import Severity
from wheelfix.settings import Group, Option
from wheelfix.system.paths import is_folder
from wheelfix.text import join_some, operand
from wheelfix.wheel.model import WheelName
from wheelfix.wheel.required_file import require_file


class DiffFormat(StrEnum):
    """How the differences are written."""

    TEXT = "text"
    MARKDOWN = "markdown"
    JSON = "json"


_Paths = Annotated[
    list[Path],
    typer.Argument(
        metavar="OLD NEW",
        help="The wheel of the earlier release and the one to compare with it, or two directories.",
    ),
]


@frozen
class _Options:
    """The options that are not settings."""

    accept: list[ChangeKind] = Option(
        "A kind of change that is intended, such as removed-export: it no longer counts; "
        "repeatable.",
        group=Group.FAILURE,
        metavar="CHANGE",
    ).default([])
    output_format: DiffFormat = Option(
        "text, markdown (for a comment on a pull request) or json.",
        group=Group.OUTPUT,
        metavar="FORMAT",
    ).default(DiffFormat.TEXT)
    output: Path | None = options.OUTPUT.default(None)


@options.with_options
def diff(call: Call, paths: _Paths, request: _Options) -> None:
    """Show what changed between two releases of a wheel.

    Tags, Pythons, requirements, sizes, files, bundled libraries, dynamic entries and symbols. It is
    an error if a library that others can link to is gone, has another SONAME or lacks exports, and
    if objects need a newer glibc than the tag promises. Of two directories, wheels for the same
    Python and platform are compared. With `--deps`, `--site` or `--with`, a library that a
    requirement of the later release brings is not lost: its place and its exports are compared.
    """
    settings, terminal = call.read_configuration().settings, call.terminal
    say_closed((path for path in paths if is_folder(path)), terminal)
    sides = [_wheels(path) for path in _two(paths)]
    errors: list[WheelfixError] = list(filter(None, map(_name_error, flatten(sides))))
    for error in errors:
        terminal.fail(error)
    named = [[wheel for wheel in side if not _name_error(wheel)] for side in sides]
    comparisons: list[Comparison] = []
    both = pairs(*named) if all(named) else ()
    for old, other in both:
        if old is None or other is None:
            comparisons.append(comparison_of_one(old, other))
            continue
        terminal.show_progress(f"comparing {printable(other.name)}")
        try:
            with time_limit(settings.timeout, other.name):
                comparison = compare_wheels(old, other, settings, both, os.environ)
            say_unknown(comparison.neighbors, terminal)
            comparisons.append(comparison)
        except WheelfixError as error:
            terminal.fail(error)
            errors.append(error)
    if not comparisons:
        raise typer.Exit(ExitCode.ERROR)
    judged = Judged(comparisons, request.accept)
    if request.output_format is DiffFormat.JSON:
        text = reports.as_json(judged)
    elif request.output_format is DiffFormat.MARKDOWN:
        text = reports.markdown(judged)
    else:
        color = request.output is None and terminal.colors_results
        style = terminal.result_style._replace(color=color)
        text = fit(reports.text(judged, style), verbose=style.verbose)
    if request.output is not None:
        is_json = request.output_format is DiffFormat.JSON
        write_file(request.output, text, Kind.REPORT if is_json else Kind.TEXT)
    else:
        terminal.result(text)
    if errors:
        raise typer.Exit(ExitCode.ERROR)
    limit = lowest_failing(settings.fail_on)
    fails = limit is not None and any(judged.number(s) for s in Severity if s >= limit)
    raise typer.Exit(ExitCode.FINDINGS if fails else ExitCode.OK)


def _two(paths: Sequence[Path]) -> tuple[Path, Path]:
    """Return the two sides. Raises `SettingsError` for another number of paths."""
    if len(paths) == 2:
        return paths[0], paths[1]
    first, last = (path.parent if path.suffix == ".whl" else path for path in (paths[0], paths[-1]))
    command = shlex.join(["wheelfix", "diff", operand(first), operand(last)])
    raise SettingsError(
        f"`diff` takes two wheels or directories, not {len(paths)}: {join_some(paths, 3)}",
        hint=f"compare their directories: `{command}`"
        if first != last
        else "name the earlier release, then the later one",
    )


def _wheels(path: Path) -> list[Path]:
    """Return the wheels of one side. Raises `SettingsError` if there are none."""
    if is_folder(path):
        return wheels_below(path)
    require_file(path)
    return [path]


def _name_error(wheel: Path) -> WheelfixError | None:
    """Return the error for a name that is not the file name of a wheel."""
    try:
        WheelName.parse(wheel.name)
    except BadWheelError as error:
        return error
    return None
