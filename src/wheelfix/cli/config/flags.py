"""Settings given as flags and environment variables."""

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import cast

import typer

from wheelfix.cli.config.files import Configuration, Layer, read_configuration
from wheelfix.settings import SETTING_FIELDS, SettingField


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
