"""The options of the command line, and the settings that they make.

The flags of settings are derived from the fields of `Settings`. A setting that was not given is
None, so that the value of the configuration file applies.
"""

import inspect
import os
from collections.abc import Callable, Mapping, Sequence
from enum import StrEnum
from pathlib import Path
from typing import Annotated, cast

import typer

from wheelfix.cli import completion
from wheelfix.cli.config.configuration import Configuration, Layer, read_configuration
from wheelfix.cli.config.values import kind_of
from wheelfix.cli.console import Terminal
from wheelfix.errors import SettingsError
from wheelfix.reports.printable import printable
from wheelfix.settings import SETTING_FIELDS, Group, SettingField, Size

Command = Callable[..., None]


def with_settings(command: Command) -> Command:
    """Replace the `**given` of a command by the flag of each setting that it has."""
    signature = inspect.signature(command)
    own = list(signature.parameters.values())[:-1]
    flags = [_parameter(f) for f in SETTING_FIELDS if command.__name__ in f.setting.commands]
    given = [parameter.replace(kind=inspect.Parameter.KEYWORD_ONLY) for parameter in (*own, *flags)]
    command.__dict__["__signature__"] = signature.replace(parameters=given)  # what typer reads
    return command


def _parameter(field: SettingField) -> inspect.Parameter:
    setting = field.setting
    is_shown = isinstance(field.default, str | Path | int) and not isinstance(
        field.default, bool | Size
    )
    facts = [f"default: {field.default}"] if is_shown else []
    facts += [f"or {setting.variable}"] if setting.variable else []
    option = typer.Option(
        *field.flags,
        help=setting.help + (f" [{'; '.join(facts)}]" if facts else ""),
        metavar=setting.metavar,
        envvar=list(field.variables),
        show_envvar=False,  # the epilog says how they are named
        show_default=False,
        min=setting.least,
        max=setting.most,
        autocompletion=completion.OF_SETTINGS.get(field.name),
        rich_help_panel=setting.group,
    )
    return inspect.Parameter(
        field.name,
        inspect.Parameter.KEYWORD_ONLY,
        default=None,
        annotation=Annotated[kind_of(field).flag | None, option],
    )


def configuration_of(
    context: typer.Context, given: Mapping[str, object], config: Path | None
) -> Configuration:
    """Lay the flags and environment variables `given` over the configuration file.

    Raises `SettingsError`.
    """
    found = read_configuration(current_folder(), config)
    quiet = context.params.get("quiet", False)
    announce(found, Terminal(verbosity=-1 if quiet else context.params.get("verbose", 0)))
    return found.over(layers(context, given))


def announce(configuration: Configuration, terminal: Terminal) -> None:
    """Say which configuration file is used, if verbose, and which one is not trusted."""
    if (file := configuration.ignored) is not None:
        terminal.say(
            f"note: `{printable(str(file))}` is not read: it belongs to another user, uid "
            f"{file.lstat().st_uid}; if you trust it, pass it with --config"
        )
    if terminal.verbosity > 0:
        file = configuration.file
        shown = printable(f"`{file.absolute()}`") if file else "none was found"
        terminal.say(f"configuration file: {shown}")


def current_folder() -> Path:
    """Return the current directory. Raises `SettingsError` if it was removed."""
    try:
        return Path.cwd()
    except OSError as error:
        raise SettingsError(
            f"the current directory cannot be read: {error.strerror}",
            hint="it may have been removed: change to another one",
        ) from error


def layers(context: typer.Context, given: Mapping[str, object]) -> list[Layer]:
    """Return what was `given` by environment variables, and above it what by flags."""
    environment: dict[str, object] = {}
    flags: dict[str, object] = {}
    for field in SETTING_FIELDS:
        value = given.get(field.name)
        if value is None or value in ([], ()):
            continue
        table = environment if by_environment(context, field.name) else flags
        table[field.key] = _table_value(field, value)
    return [
        Layer(source=source, table=table)
        for source, table in (("the environment", environment), ("the command line", flags))
        if table
    ]


def by_environment(context: typer.Context, name: str) -> bool:
    """Return whether an environment variable, and no flag, gave the parameter `name`."""
    source = context.get_parameter_source(name)
    return source is not None and source.name == "ENVIRONMENT"


def _table_value(field: SettingField, value: object) -> object:
    """Return `value` as it would stand in the configuration file."""
    if isinstance(value, Path):
        return os.fspath(value)
    if field.setting.has_commas:
        texts = cast("Sequence[str]", value)
        return [part.strip() for text in texts for part in text.split(",")]
    return value


class TextOrJson(StrEnum):
    """How a report is written."""

    TEXT = "text"
    JSON = "json"


OutputFormat = Annotated[
    TextOrJson,
    typer.Option(help="text or json.", show_default=True, rich_help_panel=Group.OUTPUT),
]
Output = Annotated[
    Path | None,
    typer.Option(
        "--output",
        "-o",
        metavar="FILE",
        help="Write the report to this file.",
        rich_help_panel=Group.OUTPUT,
    ),
]
With = Annotated[
    list[Path] | None,
    typer.Option(
        "--with",
        metavar="WHEEL",
        help="Another wheel in the same environment, such as a provider; repeatable.",
        rich_help_panel=Group.PROVIDERS,
    ),
]
Wheels = Annotated[list[Path], typer.Argument(metavar="WHEEL...", help="The wheels.")]
Config = Annotated[
    Path | None,
    typer.Option(
        metavar="FILE",
        envvar="WHEELFIX_CONFIG",
        help="Read this file instead of the nearest wheelfix.toml or pyproject.toml.",
    ),
]


def require_file(path: Path) -> None:
    """Raise `SettingsError` if `path` is not a file."""
    if path.is_dir():
        raise SettingsError(f"`{path}` is a directory", hint=f"name a wheel in it: {path}/*.whl")
    if not path.is_file():
        problem = "is not a file" if path.exists() else "cannot be read: No such file"
        raise SettingsError(f"`{path}` {problem}")


def wheels_below(folder: Path) -> list[Path]:
    """Return what is named like a wheel, but not the directories of unpacked ones."""
    return sorted(path for path in folder.rglob("*.whl") if not path.is_dir())
