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

from wheelfix.cli.config.layers import Configuration, Layer, read_configuration
from wheelfix.cli.config.values import kind_of
from wheelfix.errors import SettingsError
from wheelfix.settings import SETTING_FIELDS, SettingField, Size

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
    variables = [f"WHEELFIX_{field.name.upper()}", setting.variable]
    is_shown = isinstance(field.default, str | Path | int) and not isinstance(
        field.default, bool | Size
    )
    option = typer.Option(
        *_flags(field),
        help=setting.help,
        metavar=setting.metavar,
        envvar=[variable for variable in variables if variable],
        show_default=str(field.default) if is_shown else False,
        min=setting.least,
        max=setting.most,
    )
    return inspect.Parameter(
        field.name,
        inspect.Parameter.KEYWORD_ONLY,
        default=None,
        annotation=Annotated[kind_of(field).flag | None, option],
    )


def _flags(field: SettingField) -> list[str]:
    """Return the flags of a setting, the short one first; a boolean has one for each value."""
    setting = field.setting
    flag = setting.flag or f"--{field.key}"
    if field.type is bool:
        flag += f"/{setting.off_flag or f'--no-{field.key}'}"
    return [*([setting.short] if setting.short else []), flag]


def configuration_of(
    context: typer.Context, given: Mapping[str, object], config: Path | None
) -> Configuration:
    """Lay the flags and environment variables `given` over the configuration file.

    Raises `SettingsError`.
    """
    return read_configuration(Path.cwd(), config).over(layers(context, given))


def layers(context: typer.Context, given: Mapping[str, object]) -> list[Layer]:
    """Return what was `given` by environment variables, and above it what by flags."""
    environment: dict[str, object] = {}
    flags: dict[str, object] = {}
    for field in SETTING_FIELDS:
        value = given.get(field.name)
        if value is None or value in ([], ()):
            continue
        source = context.get_parameter_source(field.name)
        by_environment = source is not None and source.name == "ENVIRONMENT"
        table = environment if by_environment else flags
        table[field.key] = _table_value(field, value)
    return [
        Layer(source=source, table=table)
        for source, table in (("the environment", environment), ("the command line", flags))
        if table
    ]


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


OutputFormat = Annotated[TextOrJson, typer.Option(help="text or json.", show_default=True)]
Output = Annotated[
    Path | None,
    typer.Option("--output", "-o", metavar="FILE", help="Write the report to this file."),
]
With = Annotated[
    list[Path] | None,
    typer.Option(
        "--with",
        metavar="WHEEL",
        help="Another wheel in the same environment, such as a provider; repeatable.",
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
    if not path.is_file():
        raise SettingsError(f"`{path}` is not a file")
