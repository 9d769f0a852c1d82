"""Configuration files, and the layers of settings of a run.

A file, its overrides for some wheels, the environment and the flags are a layer each: a table of
settings. The layer above wins. The settings depend on the wheel, because an override applies to
the wheels that it names.
"""

import os
import tomllib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from fnmatch import fnmatchcase
from pathlib import Path
from typing import NamedTuple, cast

from wheelfix.cli.config.values import FIELDS, settings_from, suggestion
from wheelfix.errors import SettingsError
from wheelfix.rules.rule import AnyRule
from wheelfix.settings import Settings

DEFAULT = "default"
"""The origin of a setting that no layer sets."""


class Layer(NamedTuple):
    """One table of settings."""

    source: str
    """Its name in messages: a file, `the environment`, `the command line`."""
    table: Mapping[str, object]
    wheels: tuple[str, ...] | None = None
    """Globs for the file names that an override applies to; None for all wheels."""

    def applies_to(self, wheel: str | None) -> bool:
        """Whether the layer applies to the wheel of this file name."""
        if self.wheels is None:
            return True
        return wheel is not None and any(fnmatchcase(wheel, glob) for glob in self.wheels)


@dataclass(frozen=True, kw_only=True)
class Configuration:
    """All layers of a run, the lowest first."""

    layers: tuple[Layer, ...] = ()
    file: Path | None = None
    """The configuration file that was read."""
    ignored: Path | None = None
    """A configuration file that was not read, because it belongs to another user."""

    def over(self, layers: Iterable[Layer]) -> "Configuration":
        """Return the configuration with `layers` on top."""
        return replace(self, layers=(*self.layers, *layers))

    @property
    def settings(self) -> Settings:
        """The settings of the run as a whole."""
        return self.settings_for(None)

    def settings_for(self, wheel: str | None) -> Settings:
        """Return the settings for the wheel of this file name. Raises `SettingsError`."""
        settings = Settings()
        for layer in self.layers:
            if layer.applies_to(wheel):
                settings = settings_from(layer.table, settings, layer.source)
        return settings

    def origins(self, wheel: str | None) -> dict[str, tuple[str, ...]]:
        """Return for each field of `Settings` the layers that set it."""
        layers = [layer for layer in self.layers if layer.applies_to(wheel)]
        return {
            field.name: tuple(layer.source for layer in layers if key in layer.table) or (DEFAULT,)
            for key, field in FIELDS.items()
        }

    def check(self, rules: Sequence[AnyRule]) -> "Configuration":
        """Return the configuration, once each layer is known to be valid by itself.

        Raises `SettingsError` for a key, a value or a selector that does not exist.
        """
        for layer in self.layers:
            settings = settings_from(layer.table, Settings(), layer.source)
            check_selectors(settings, rules, layer.source)
        return self


def check_selectors(settings: Settings, rules: Sequence[AnyRule], source: str) -> None:
    """Raise `SettingsError` for a selector of `settings` that matches no rule."""
    per_file = (name for names in settings.per_file_ignores.values() for name in names)
    chosen = (*settings.select, *settings.extend_select)
    for selector in (*chosen, *settings.ignore, *per_file, *settings.severity):
        if not any(rule.matches(selector) for rule in rules):
            words = [word for rule in rules for word in (rule.code, rule.name)]
            raise SettingsError(
                f"{source}: no rule has the code, prefix or name `{selector}`",
                hint=suggestion(selector, words) or "`wheelfix rule --all` lists the rules",
            )


def read_configuration(start: Path, explicit: Path | None) -> Configuration:
    """Return the layers of the file `explicit`, or of the one found from `start` upwards.

    `wheel-dir` and `baseline` are relative to the file's directory. Raises `SettingsError`.
    """
    path = explicit or find_file(start)
    if path is None:
        return Configuration()
    if explicit is None and not _owners(path) <= _trusted(start):
        return Configuration(ignored=path)
    table = read_table(path)
    if table is None:
        if explicit is None:
            return Configuration()
        raise SettingsError(f"`{path}` has no table [tool.wheelfix]")
    elsewhere = path.parent if path.parent.resolve() != start.resolve() else None
    own = {key: value for key, value in table.items() if key != "overrides"}
    layers = [Layer(str(path), own), *_overrides(table.get("overrides", ()), str(path))]
    return Configuration(
        layers=tuple(layer._replace(table=_relocated(layer.table, elsewhere)) for layer in layers),
        file=path,
    )


def _relocated(table: Mapping[str, object], directory: Path | None) -> Mapping[str, object]:
    """Return `table` with relative paths below `directory`."""
    if directory is None:
        return table
    relative = {key: table[key] for key in ("wheel-dir", "baseline") if key in table}
    return {**table, **{k: str(directory / v) for k, v in relative.items() if isinstance(v, str)}}


def _overrides(given: object, source: str) -> Iterable[Layer]:
    """Yield `[[tool.wheelfix.overrides]]`: tables with a `select` for wheels, as cibuildwheel's."""
    if not isinstance(given, list | tuple):
        raise SettingsError(f"{source}: `overrides` must be a list of tables")
    for number, override in enumerate(cast("list[object]", given), start=1):
        where = f"{source}: override {number}"
        if not isinstance(override, Mapping):
            raise SettingsError(f"{where} must be a table")
        table = dict(cast("Mapping[str, object]", override))
        globs = table.pop("select", None)
        wheels = globs.split() if isinstance(globs, str) else globs
        texts = cast("list[object]", wheels) if isinstance(wheels, list) else []
        if not texts or not all(isinstance(glob, str) and glob for glob in texts):
            raise SettingsError(
                f"{where} has no `select` that names wheels",
                hint='such as select = "*musllinux*"; rules are chosen by extend-select and ignore',
            )
        for key in table:
            if key in FIELDS and FIELDS[key].setting.is_run_wide:
                raise SettingsError(
                    f"{where}: `{key}` concerns all wheels of a run",
                    hint="set it above the overrides",
                )
        yield Layer(source=where, table=table, wheels=tuple(cast("list[str]", texts)))


def find_file(start: Path) -> Path | None:
    """Return the nearest configuration file from `start` up to the root of the project.

    `wheelfix.toml` wins over `pyproject.toml` beside it; a directory with `pyproject.toml` or
    `.git` is a project's root. The search ends with the user's home directory, and at directories
    of another file system or user.
    """
    device, trusted = start.stat().st_dev, _trusted(start)
    home = Path(os.path.expanduser("~"))  # noqa: PTH111 - Path.home() raises without a home
    for directory in (start, *start.parents):
        status = directory.stat()
        if status.st_dev != device or status.st_uid not in trusted:
            return None
        own, project = directory / "wheelfix.toml", directory / "pyproject.toml"
        if own.is_file():
            return own
        if project.is_file():
            return project
        if directory == home or (directory / ".git").exists():
            return None
    return None


def _trusted(start: Path) -> set[int]:
    """Return the users whose configuration counts: root, this one, the owner of `start`."""
    return {0, os.geteuid(), start.stat().st_uid}


def _owners(file: Path) -> set[int]:
    """Return the owner of a file, and that of the link that leads to it."""
    return {file.lstat().st_uid, file.stat().st_uid}


def read_table(path: Path) -> Mapping[str, object] | None:
    """Return wheelfix's table in `path`, None if a `pyproject.toml` has none.

    Raises `SettingsError` for a file that cannot be read, or is not TOML.
    """
    try:
        text = path.read_text(encoding="utf-8")
        if path.name == "pyproject.toml" and "wheelfix" not in text:
            return None
        document: dict[str, object] = tomllib.loads(text)
    except OSError as error:
        raise SettingsError(f"cannot read `{path}`: {error.strerror}") from error
    except (ValueError, RecursionError) as error:  # not TOML, not UTF-8, or nested too deeply
        raise SettingsError(f"`{path}` is not TOML: {error}") from error
    if path.name != "pyproject.toml":
        if "tool" in document:
            raise SettingsError(
                f"`{path}`: [tool.wheelfix] belongs into pyproject.toml",
                hint="remove the table header: the settings stand at the top level of this file",
            )
        return document
    tool = document.get("tool", {})
    table = cast("dict[str, object]", tool).get("wheelfix") if isinstance(tool, dict) else tool
    if table is not None and not isinstance(table, dict):
        raise SettingsError(f"`{path}`: [tool.wheelfix] must be a table")
    return cast("Mapping[str, object] | None", table)
