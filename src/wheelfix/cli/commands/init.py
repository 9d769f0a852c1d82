"""`wheelfix init`: a table with every setting and its default."""

import os
from errno import EEXIST
from pathlib import Path

import typer

from wheelfix.cli import options
from wheelfix.cli.config.configuration import file_in, read_document
from wheelfix.cli.config.settings_text import commented_settings
from wheelfix.errors import OutputError, SettingsError
from wheelfix.frozen import frozen
from wheelfix.settings import Group, Option


@frozen
class _Options:
    """The options."""

    stdout: bool = Option("Print the table, and write no file.", group=Group.OUTPUT).default(False)


@options.with_options
def init(request: _Options) -> None:
    """Create a configuration file with every setting, as comments.

    It is appended to pyproject.toml in this directory; without one, a new wheelfix.toml is made. A
    wheelfix.toml is not changed; with one, pyproject.toml is not read.
    """
    present = file_in(Path())
    file = present or Path("wheelfix.toml")
    is_project = file.name == "pyproject.toml"
    table = f"[tool.wheelfix]\n{commented_settings('tool.wheelfix.')}"
    text = table if is_project else commented_settings()
    if request.stdout:
        typer.echo(text, nl=False)
        return
    if present and (not is_project or read_document(present) is not None):
        raise SettingsError(
            f"`{file}` already has settings; it was not changed",
            hint="`wheelfix init --stdout` prints what could be added",
        )
    try:
        # A name that is there, such as a link or a FIFO, is not a configuration that may be made.
        if not is_project and os.path.lexists(file):
            raise FileExistsError(EEXIST, os.strerror(EEXIST))
        with file.open("a", encoding="utf-8") as stream:
            stream.write(f"\n{text}" if is_project else text)
    except OSError as error:
        raise OutputError(f"cannot write `{file}`: {error.strerror}") from error
    typer.echo(str(file))
