"""`wheelfix trace`: the files that a command loads."""

import os
import sys
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Annotated, TextIO

import typer

from wheelfix.cli import options
from wheelfix.cli.console import Terminal, Verbose, wants_colour
from wheelfix.cli.options import TextOrJson, require_file
from wheelfix.errors import SettingsError
from wheelfix.host import trace as tracing
from wheelfix.host.trace_reading import find_installed, with_matching_bindings
from wheelfix.host.trace_values import Trace, with_differences
from wheelfix.reports import trace as reports
from wheelfix.reports.printable import json_text
from wheelfix.settings import Group
from wheelfix.wheel.model import Wheel
from wheelfix.wheel.reader import open_wheel

_Command = Annotated[list[str], typer.Argument(metavar="-- COMMAND...", help="The command to run.")]
_Wheels = Annotated[
    list[Path] | None,
    typer.Option(
        "--wheel",
        metavar="WHEEL",
        help="Compare the loaded files with those that this wheel should load; repeatable.",
        rich_help_panel=Group.WHEELS,
    ),
]
_Symbols = Annotated[
    list[str] | None,
    typer.Option(
        "--symbol",
        metavar="GLOB",
        help="Show where symbols like tvm* were bound, mangled or demangled; repeatable.",
        rich_help_panel=Group.OUTPUT,
    ),
]


def trace(
    command: _Command,
    wheels: _Wheels = None,
    symbols: _Symbols = None,
    output: options.Output = None,
    output_format: options.OutputFormat = TextOrJson.TEXT,
    verbose: Verbose = 0,
) -> None:
    """Run a command, and report the files it loads.

    The report says where each file was found, and why. It follows on stderr; streams, signals and
    exit code of the command are not changed. Needs glibc, whose loader keeps one descriptor open
    in each process; a daemon may close it.
    """
    known = [_read(path) for path in wheels or ()]  # errors come before the command runs
    with _report(output) as stream:
        try:
            seen = tracing.trace(command, os.environ, symbols=tuple(symbols or ()))
        except tracing.CommandError as error:
            Terminal(verbosity=0).fail(error)
            raise typer.Exit(error.code) from error
        seen = _compared(with_matching_bindings(seen, symbols or ()), known)
        if output_format is TextOrJson.JSON:
            report = json_text(reports.as_json(seen), indent=1)
        else:
            report = reports.text(seen, verbose=verbose > 0, colour=wants_colour(stream))
        try:
            stream.write(report + "\n")
            stream.flush()
        except BrokenPipeError:
            pass  # the reader is gone; the command has run, and its exit code counts
    raise typer.Exit(seen.exit_code)


@contextmanager
def _report(output: Path | None) -> Generator[TextIO]:
    """Open the file of the report before the command runs, so that errors come first."""
    if output is None:
        yield sys.stderr
        return
    try:
        stream = output.open("w", encoding="utf-8", errors="backslashreplace")
    except OSError as error:
        raise SettingsError(f"cannot write `{output}`: {error.strerror}") from error
    with stream:
        yield stream


def _read(path: Path) -> Wheel:
    """Return what a wheel file holds."""
    require_file(path)
    with open_wheel(path) as archive:
        return archive.wheel


def _compared(seen: Trace, wheels: Sequence[Wheel]) -> Trace:
    """Compare the trace with each wheel that is found installed."""
    notes: list[str] = []
    for wheel in wheels:
        files = find_installed(tuple(wheel.elfs), wheel.dist_info, seen)
        sizes = {name: Path(file.path).stat().st_size for name, file in files.items()}
        stale = [m.name for m in wheel.members if sizes.get(m.name, m.size) != m.size]
        if not files:
            notes.append(f"{wheel.name}: no installed copy was found near the loaded files")
        elif stale:
            notes.append(f"{wheel.name}: another build is installed: {stale[0]} has another size")
        seen = with_differences(seen, wheel, files)
    return replace(seen, notes=(*seen.notes, *notes))
