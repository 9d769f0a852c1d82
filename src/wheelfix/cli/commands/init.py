"""`wheelfix init`: a table with every setting and its default."""

from dataclasses import dataclass
from pathlib import Path

import typer

from wheelfix.cli import options
from wheelfix.cli.config.configuration import read_document
from wheelfix.cli.config.settings_text import commented_settings
from wheelfix.errors import OutputError, SettingsError
from wheelfix.settings import Group, Option


@dataclass(frozen=True, slots=True, kw_only=True)
class _Options:
    """The options."""

    stdout: bool = Option("Print the table, and write no file.", group=Group.OUTPUT).default(False)


@options.with_options
def init(request: _Options) -> None:
    """Create a configuration file with every setting, as comments.

    It is appended to pyproject.toml in this directory; without one, a new wheelfix.toml is made.
    """
    project = Path("pyproject.toml")
    file = project if project.exists() else Path("wheelfix.toml")
    section = f"[tool.wheelfix]\n{commented_settings('tool.wheelfix.')}"
    if request.stdout:
        typer.echo(section, nl=False)
        return
    is_taken = read_document(project) is not None if file == project else file.exists()
    if is_taken:
        raise SettingsError(
            f"`{file}` already has settings; it was not changed",
            hint="`wheelfix init --stdout` prints what could be added",
        )
    try:
        with file.open("a", encoding="utf-8") as stream:
            stream.write(f"\n{section}" if file == project else commented_settings())
    except OSError as error:
        raise OutputError(f"cannot write `{file}`: {error.strerror}") from error
    typer.echo(str(file))
