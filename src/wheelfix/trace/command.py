"""`wheelfix trace`: the files that a command loads."""

import os
import sys
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, TextIO

import typer

from wheelfix.cli import options
from wheelfix.cli.console import Terminal, Verbose, wants_color
from wheelfix.cli.options import TextOrJson
from wheelfix.cli.output_files import Kind, open_file
from wheelfix.frozen import frozen
from wheelfix.reports.printable import Style, fit, json_text
from wheelfix.settings import Group, Option
from wheelfix.trace import report as reports
from wheelfix.trace import run as tracing
from wheelfix.trace.reading import keep_bindings

_Command = Annotated[list[str], typer.Argument(metavar="-- COMMAND...", help="The command to run.")]


@frozen
class _Options:
    """The options that are not settings."""

    symbol: list[str] = Option(
        "Show where symbols like tvm* were bound, mangled or demangled; repeatable.",
        group=Group.OUTPUT,
        metavar="GLOB",
    ).default([])
    output: Path | None = options.OUTPUT.default(None)
    output_format: TextOrJson = options.OUTPUT_FORMAT.default(TextOrJson.TEXT)


@options.with_options
def trace(command: _Command, request: _Options, verbose: Verbose = 0) -> None:
    """Run a command, and report the files it loads.

    The report says where each file was found, and why. It follows on stderr; streams, signals and
    exit code of the command are not changed. Needs glibc, whose loader keeps one descriptor open
    in each process; a daemon may close it.
    """
    with _report(request.output, request.output_format) as stream:
        try:
            seen = tracing.trace(command, os.environ, symbols=tuple(request.symbol))
        except tracing.CommandError as error:
            Terminal(verbosity=0).fail(error)
            raise typer.Exit(error.code) from error
        seen = keep_bindings(seen, request.symbol)
        if request.output_format is TextOrJson.JSON:
            report = json_text(reports.as_json(seen), indent=1)
        else:
            style = Style(color=wants_color(stream), verbose=verbose > 0)
            report = fit(reports.text(seen, style), verbose=style.verbose)
        try:
            stream.write(report + "\n")
            stream.flush()
        except BrokenPipeError:
            pass  # the reader is gone; the command has run, and its exit code counts
    raise typer.Exit(seen.exit_code)


@contextmanager
def _report(output: Path | None, form: TextOrJson) -> Generator[TextIO]:
    """Open the file of the report before the command runs, so that errors come first."""
    if output is None:
        yield sys.stderr
        return
    kind = Kind.REPORT if form is TextOrJson.JSON else Kind.TEXT
    with open_file(output, kind) as stream:
        yield stream
