"""Where settings come from: a file, its overrides for some wheels, the environment, flags.

Each is a layer, a table of keys; the layers above win. What holds depends on the wheel, because
an override names the wheels that it is for.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from fnmatch import fnmatchcase
from functools import cached_property
from pathlib import Path
from typing import NamedTuple, cast

from wheelfix.cli.config.values import FIELDS, RUN_WIDE, check_selectors, settings_from
from wheelfix.errors import SettingsError
from wheelfix.rules.rule import AnyRule
from wheelfix.settings import Settings

DEFAULT = "default"
"""The origin of what nobody has set."""


class Layer(NamedTuple):
    """One table of settings."""

    source: str
    """For people: a file, `--plat`, `WHEELFIX_PLAT`."""
    table: Mapping[str, object]
    wheels: tuple[str, ...] | None = None
    """The file names that an override is for, as globs; None for all."""

    def is_for(self, wheel: str | None) -> bool:
        """Whether the layer holds for the wheel of this file name."""
        if self.wheels is None:
            return True
        return wheel is not None and any(fnmatchcase(wheel, glob) for glob in self.wheels)


@dataclass(frozen=True, kw_only=True)
class Configuration:
    """All layers of a run, the lowest first."""

    layers: tuple[Layer, ...] = ()

    def over(self, layers: Iterable[Layer]) -> "Configuration":
        """Return the configuration with more layers on top."""
        return Configuration(layers=(*self.layers, *layers))

    @cached_property
    def settings(self) -> Settings:
        """What holds for the run as a whole."""
        return self.settings_for(None)

    def settings_for(self, wheel: str | None) -> Settings:
        """Return what holds for the wheel of this file name. Raises `SettingsError`."""
        settings = Settings()
        for layer in self.layers:
            if layer.is_for(wheel):
                settings = settings_from(layer.table, settings, layer.source)
        return settings

    def origins(self, wheel: str | None) -> dict[str, tuple[str, ...]]:
        """Return for each field of `Settings` the layers that say something of it."""
        found: dict[str, tuple[str, ...]] = dict.fromkeys(FIELDS.values(), ())
        for layer in self.layers:
            for key in layer.table if layer.is_for(wheel) else ():
                found[FIELDS[key]] = (*found[FIELDS[key]], layer.source)
        return {name: sources or (DEFAULT,) for name, sources in found.items()}

    def check(self, rules: Iterable[AnyRule]) -> "Configuration":
        """Judge every layer by itself, also those that are for other wheels.

        Raises `SettingsError` for a key, a value or a selector that does not exist.
        """
        known = tuple(rules)
        for layer in self.layers:
            check_selectors(
                settings_from(layer.table, Settings(), layer.source), known, layer.source
            )
        return self


# --- Files ----------------------------------------------------------------------------------------


def configured(start: Path, explicit: Path | None) -> Configuration:
    """Return the layers of the file `explicit`, or else of the one found from `start` upwards.

    `wheel-dir` and `baseline` count from the file's directory. Raises `SettingsError`.
    """
    path = explicit or find(start)
    if path is None:
        return Configuration()
    table = read_table(path)
    if table is None:
        if explicit is None:
            return Configuration()
        raise SettingsError(f"`{path}` has no table [tool.wheelfix]")
    elsewhere = path.parent if path.parent.resolve() != start.resolve() else None
    own = {key: value for key, value in table.items() if key != "overrides"}
    layers = [Layer(source=str(path), table=_placed(own, elsewhere))]
    layers += [
        Layer(source=each.source, table=_placed(each.table, elsewhere), wheels=each.wheels)
        for each in _overrides(table.get("overrides", ()), str(path))
    ]
    return Configuration(layers=tuple(layers))


def _placed(table: Mapping[str, object], directory: Path | None) -> Mapping[str, object]:
    """Let relative paths count from `directory`."""
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
        if not texts or not all(isinstance(each, str) and each for each in texts):
            raise SettingsError(
                f"{where} has no `select` that names wheels",
                hint='such as select = "*musllinux*"; rules are chosen by extend-select and ignore',
            )
        for key in RUN_WIDE & table.keys():
            raise SettingsError(
                f"{where}: `{key}` concerns all wheels of a run", hint="set it above the overrides"
            )
        yield Layer(source=where, table=table, wheels=tuple(cast("list[str]", texts)))


def find(start: Path) -> Path | None:
    """Return the file that configures a run in `start`: the nearest one, up to the project's root.

    `wheelfix.toml` wins over `pyproject.toml` beside it; a directory with `pyproject.toml` or
    `.git` is a project's root.
    """
    for directory in (start, *start.parents):
        own, project = directory / "wheelfix.toml", directory / "pyproject.toml"
        if own.is_file():
            return own
        if project.is_file():
            return project
        if (directory / ".git").exists():
            return None
    return None


def read_table(path: Path) -> Mapping[str, object] | None:
    """Return wheelfix's table in `path`, None if a `pyproject.toml` has none.

    Raises `SettingsError` for a file that cannot be read, or is no TOML.
    """
    try:
        text = path.read_text(encoding="utf-8")
        if path.name == "pyproject.toml" and "wheelfix" not in text:
            return None
        import tomllib

        document: dict[str, object] = tomllib.loads(text)
    except OSError as error:
        raise SettingsError(f"cannot read `{path}`: {error.strerror}") from error
    except ValueError as error:  # no TOML, or no UTF-8
        raise SettingsError(f"`{path}` is not TOML: {error}") from error
    if path.name != "pyproject.toml":
        return document
    tool = document.get("tool", {})
    table = cast("dict[str, object]", tool).get("wheelfix") if isinstance(tool, dict) else tool
    if table is not None and not isinstance(table, dict):
        raise SettingsError(f"`{path}`: [tool.wheelfix] must be a table")
    return cast("Mapping[str, object] | None", table)
