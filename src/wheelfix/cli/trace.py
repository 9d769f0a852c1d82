"""`wheelfix trace`."""

import os
import sys
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Annotated, TextIO

import typer

from wheelfix.cli.verbosity import Verbose
from wheelfix.errors import SettingsError
from wheelfix.host import trace as tracing
from wheelfix.host.trace_model import Installed, Trace, with_differences
from wheelfix.host.trace_reading import find_installed, with_matching_bindings
from wheelfix.reports import trace as reports
from wheelfix.wheel.reader import open_wheel


def trace(
    context: typer.Context,
    command: Annotated[
        list[str],
        typer.Argument(metavar="-- COMMAND...", help="The command to run.", show_default=False),
    ],
    wheels: Annotated[
        list[Path] | None,
        typer.Option(
            "--wheel",
            metavar="WHEEL",
            help="Hold what is loaded against what this wheel should give; repeatable.",
        ),
    ] = None,
    symbols: Annotated[
        list[str] | None,
        typer.Option(
            "--symbol",
            metavar="GLOB",
            help="Tell where symbols like tvm* were bound, plain or demangled; repeatable.",
        ),
    ] = None,
    output: Annotated[
        Path | None, typer.Option("--output", "-o", metavar="FILE", help="Write the report here.")
    ] = None,
    json: Annotated[bool, typer.Option("--json", help="Write the report as JSON.")] = False,
    verbose: Verbose = 0,
) -> None:
    """Run a command, and tell which files it really loads, from where, and why.

    Its streams, signals and exit code are its own; the report follows on stderr. Needs glibc.
    The loader keeps one descriptor open in each process, which a daemon may close.
    """
    for wheel in wheels or ():
        if not wheel.is_file():
            raise SettingsError(f"`{wheel}` is not a file")
    with _report(output) as stream:
        try:
            seen = tracing.trace(command, os.environ, symbols=tuple(symbols or ()))
        except tracing.CommandError as error:
            from wheelfix.cli.console import Terminal

            Terminal(verbosity=0).fail(error)
            raise typer.Exit(error.code) from error
        seen = _judged(with_matching_bindings(seen, symbols or ()), wheels or ())
        if json:
            from wheelfix.reports.terminal_text import json_text

            report = json_text(reports.as_json(seen), indent=1)
        else:
            from wheelfix.cli.console import wants_colour

            loud = verbose + int(context.obj or 0) > 0
            report = reports.text(seen, verbose=loud, colour=wants_colour(stream))
        try:
            stream.write(report + "\n")
            stream.flush()
        except BrokenPipeError:
            pass  # nobody reads the report; the command has run, and its exit code counts
    raise typer.Exit(seen.exit_code)


@contextmanager
def _report(output: Path | None) -> Generator[TextIO]:
    """Open the report's file before the command runs, so that nothing runs in vain."""
    if output is None:
        yield sys.stderr
        return
    try:
        stream = output.open("w", encoding="utf-8", errors="backslashreplace")
    except OSError as error:
        raise SettingsError(f"`{output}` cannot be written: {error.strerror}") from error
    with stream:
        yield stream


def _judged(seen: Trace, wheels: list[Path] | tuple[()]) -> Trace:
    """Hold the trace against each wheel that is found installed."""
    for path in wheels:
        with open_wheel(path) as archive:
            wheel = archive.wheel
        files = find_installed(tuple(wheel.elfs), wheel.dist_info, seen)
        if not files:
            note = f"{path.name}: no installed copy was found near what the command has loaded"
            seen = replace(seen, notes=(*seen.notes, note))
            continue
        stale = [
            m.name
            for m in wheel.members
            if m.name in files and _differs(files[m.name].path, m.size)
        ]
        if stale:
            note = f"{path.name}: installed is another build of it: {stale[0]} has another size"
            seen = replace(seen, notes=(*seen.notes, note))
        seen = with_differences(seen, [Installed(wheel=wheel, files=files)])
    return seen


def _differs(path: str, size: int) -> bool:
    return Path(path).stat().st_size != size
