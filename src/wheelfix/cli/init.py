"""`wheelfix init`."""

from pathlib import Path
from typing import Annotated

import typer

from wheelfix.cli import options
from wheelfix.cli.config.describe import commented
from wheelfix.cli.config.files import read_table
from wheelfix.errors import OutputError, SettingsError


def init(
    stdout: Annotated[
        bool, typer.Option("--stdout", help="Print the table, and write no file.")
    ] = False,
) -> None:
    """Write a table with every setting, its text and its default, to the project's file.

    It is appended to the pyproject.toml here; where there is none, to a new wheelfix.toml.
    """
    project = Path("pyproject.toml")
    file = project if project.exists() else Path("wheelfix.toml")
    if stdout:
        typer.echo(f"[tool.wheelfix]\n{commented(options.DOCS, 'tool.wheelfix.')}", nl=False)
        return
    if file == project:
        there = read_table(project) is not None
        text = f"\n[tool.wheelfix]\n{commented(options.DOCS, 'tool.wheelfix.')}"
    else:
        there = file.exists()
        text = commented(options.DOCS)
    if there:
        raise SettingsError(
            f"`{file}` has settings already; they are left alone",
            hint="`wheelfix init --stdout` prints what could be added",
        )
    try:
        with file.open("a", encoding="utf-8") as stream:
            stream.write(text)
    except OSError as error:
        raise OutputError(f"cannot write `{file}`: {error.strerror}") from error
    typer.echo(str(file))
