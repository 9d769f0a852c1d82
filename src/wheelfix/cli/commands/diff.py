"""`wheelfix diff`: what changed between two releases."""

from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from wheelfix.cli import options
from wheelfix.cli.console import Quiet, Terminal, Verbose, write_file
from wheelfix.errors import ExitCode, SettingsError
from wheelfix.pipelines.compare_releases import Comparison, Pairs, compare_wheels, pairs, unpaired
from wheelfix.reports import diff as reports
from wheelfix.reports.check_content import lowest_failing
from wheelfix.reports.diff import Judged
from wheelfix.rules.findings import Severity
from wheelfix.rules.release_comparison import ChangeKind
from wheelfix.settings import Group


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
    both = _paired(old, new)
    terminal = Terminal(verbosity=-1 if quiet else verbose)
    found: list[Comparison] = []
    for one, other in both:
        if one is None or other is None:
            found.append(unpaired(one, other))
        else:
            terminal.show_progress(f"comparing {other.name}")
            found.append(compare_wheels(one, other, settings, both))
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
    limit = lowest_failing(settings.fail_on)
    fails = limit is not None and any(judged.number(s) for s in Severity if s >= limit)
    raise typer.Exit(ExitCode.FINDINGS if fails else ExitCode.OK)


def _paired(old: Path, new: Path) -> Pairs:
    """Return the wheels to compare. Raises `SettingsError` if there are none."""
    sides: list[list[Path]] = []
    for path in (old, new):
        if path.is_dir():
            sides.append(options.wheels_below(path))
        else:
            options.require_file(path)
            sides.append([path])
        if not sides[-1]:
            raise SettingsError(f"there is no wheel in `{path}`", hint="build one, or name a file")
    found = pairs(*sides)
    return found if old.is_dir() or new.is_dir() else ((old, new),)
