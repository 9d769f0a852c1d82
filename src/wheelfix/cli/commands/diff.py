"""`wheelfix diff`: what changed between two releases."""

from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from wheelfix.cli import options
from wheelfix.cli.console import Quiet, Terminal, Verbose, write_file
from wheelfix.errors import BadWheelError, ExitCode, SettingsError, WheelfixError
from wheelfix.pipelines.compare_releases import Comparison, compare_wheels, pairs, unpaired
from wheelfix.reports import diff as reports
from wheelfix.reports.check_content import lowest_failing
from wheelfix.reports.diff import Judged
from wheelfix.reports.printable import printable
from wheelfix.rules.findings import Severity
from wheelfix.rules.release_comparison import ChangeKind
from wheelfix.settings import Group
from wheelfix.wheel.model import WheelName


class DiffFormat(StrEnum):
    """How the differences are written."""

    TEXT = "text"
    MARKDOWN = "markdown"
    JSON = "json"


_Old = Annotated[
    Path, typer.Argument(metavar="OLD", help="The wheel of the earlier release, or a directory.")
]
_New = Annotated[
    Path,
    typer.Argument(metavar="NEW", help="The wheel to compare with it, or a directory of wheels."),
]
_Accept = Annotated[
    list[ChangeKind] | None,
    typer.Option(
        metavar="CHANGE",
        help="A kind of change that is intended, such as removed-export: it no longer counts; "
        "repeatable.",
        rich_help_panel=Group.FAILURE,
    ),
]
_OutputFormat = Annotated[
    DiffFormat,
    typer.Option(
        metavar="FORMAT",
        help="text, markdown (for a comment on a pull request) or json.",
        show_default=True,
        rich_help_panel=Group.OUTPUT,
    ),
]


@options.with_settings
def diff(
    context: typer.Context,
    old: _Old,
    new: _New,
    accept: _Accept = None,
    output_format: _OutputFormat = DiffFormat.TEXT,
    output: options.Output = None,
    config: options.Config = None,
    verbose: Verbose = 0,
    quiet: Quiet = False,
    **given: object,
) -> None:
    """Show what changed between two releases of a wheel.

    Tags, Pythons, requirements, sizes, files, bundled libraries, dynamic entries and symbols. It is
    an error if a library that others can link to is gone, has another SONAME or lacks exports, and
    if objects need a newer glibc than the tag promises. Of two directories, wheels for the same
    Python and platform are compared.
    """
    configuration = options.configuration_of(context, given, config)
    settings = configuration.settings
    terminal = Terminal(verbosity=-1 if quiet else verbose)
    sides = [_wheels(path) for path in (old, new)]
    errors: list[WheelfixError] = [e for side in sides for e in map(_misnamed, side) if e]
    for error in errors:
        terminal.fail(error)
    named = [[wheel for wheel in side if not _misnamed(wheel)] for side in sides]
    found: list[Comparison] = []
    both = pairs(*named) if all(named) else ()
    for one, other in both:
        if one is None or other is None:
            found.append(unpaired(one, other))
            continue
        terminal.show_progress(f"comparing {printable(other.name)}")
        try:
            found.append(compare_wheels(one, other, settings, both))
        except WheelfixError as error:
            terminal.fail(error)
            errors.append(error)
    if not found:
        raise typer.Exit(ExitCode.ERROR)
    judged = Judged(found, accept or ())
    colour = output is None and terminal.colours_results
    if output_format is DiffFormat.JSON:
        text = reports.as_json(judged)
    elif output_format is DiffFormat.MARKDOWN:
        text = reports.markdown(judged)
    else:
        text = reports.text(judged, verbose=verbose > 0, colour=colour)
    if output is not None:
        write_file(output, text)
    else:
        terminal.result(text)
    if errors:
        raise typer.Exit(ExitCode.ERROR)
    limit = lowest_failing(settings.fail_on)
    fails = limit is not None and any(judged.number(s) for s in Severity if s >= limit)
    raise typer.Exit(ExitCode.FINDINGS if fails else ExitCode.OK)


def _wheels(path: Path) -> list[Path]:
    """Return the wheels of one side. Raises `SettingsError` if there are none."""
    if not path.is_dir():
        options.require_file(path)
        return [path]
    if not (found := options.wheels_below(path)):
        raise SettingsError(f"there is no wheel in `{path}`", hint="build one, or name a file")
    return found


def _misnamed(wheel: Path) -> WheelfixError | None:
    """Return the error of a file name that is no wheel's."""
    try:
        WheelName.parse(wheel.name)
    except BadWheelError as error:
        return error
    return None
