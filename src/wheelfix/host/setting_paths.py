"""Relative paths in settings, which are below the folder of their file or of the run."""

import os
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

from wheelfix.providers.well_known import well_known_folders
from wheelfix.settings import (
    AUTO,
    SETTING_FIELDS,
    Component,
    PathList,
    Paths,
    ProviderSetting,
    SettingField,
    Settings,
)
from wheelfix.system.paths import is_folder, is_named_folder, is_there
from wheelfix.wheel.requirements import name_of

INPUTS = tuple(field for field in SETTING_FIELDS if field.setting.paths not in {None, Paths.OUTPUT})
"""The settings with paths of what is read."""


def below(folder: Path, settings: Settings, fields: Iterable[SettingField] = INPUTS) -> Settings:
    """Return `settings` with the relative paths of `fields` below `folder`."""
    located = {
        field.name: _below(getattr(settings, field.name), field.setting.paths, folder)
        for field in fields
        if field.setting.paths is not None
    }
    return replace(settings, **located)


def _below(value: Any, paths: Paths, folder: Path) -> Any:  # noqa: ANN401 - of any field
    match value:
        case str() if value.strip() and not _is_name(value, paths, folder):
            return _text_below(value, paths, folder)
        case Path():
            return folder / value
        case tuple():
            items = cast("tuple[object, ...]", value)
            return tuple(_below(item, paths, folder) for item in items)
        case ProviderSetting() if value.source:
            return replace(value, source=_text_below(value.source, paths, folder))
        case Component():
            return replace(value, license_files=_below(value.license_files, Paths.INPUT, folder))
        case _:
            return value


def _is_name(text: str, paths: Paths | None, folder: Path) -> bool:
    """Return whether a text is a requirement beside a folder of that name."""
    is_there_too = paths is Paths.EXISTING and is_folder(folder / text)
    return is_there_too and not is_named_folder(text, folder)


def _text_below(text: str, paths: Paths, folder: Path) -> str:
    path = os.path.join(folder, text)  # noqa: PTH118 - Path drops the `./` of a name in a folder
    match paths:
        case Paths.WITH_SLASH:
            return path if "/" in text else text
        case Paths.LIST:
            return PathList(":".join(str(folder / entry) for entry in PathList(text).folders))
        case Paths.EXISTING:
            # A folder that is called like a well-known distribution is named with `./`: the source
            # folder of a project may be. Path.exists raises for a text too long for a path.
            is_known = "/" not in text and name_of(text) in well_known_folders()
            is_name = text == AUTO or is_known
            return path if not is_name and is_there(path) else text
        case _:
            return str(folder / text)
