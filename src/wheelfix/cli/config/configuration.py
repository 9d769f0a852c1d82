"""Configuration files, and the layers of settings of a run.

A file, its overrides for some wheels, the environment and the flags are a layer each: a table of
settings. The layer above wins. The settings depend on the wheel, because an override applies to
the wheels that it names.
"""

import os
import tomllib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from fnmatch import fnmatchcase
from functools import partial
from pathlib import Path
from typing import NamedTuple, TypeVar, cast

from packaging.specifiers import SpecifierSet

import wheelfix
from wheelfix.cli.config.toml_lines import Place, line_of, line_of_error
from wheelfix.cli.config.values import FIELDS, settings_from, suggestion
from wheelfix.errors import SettingsError
from wheelfix.rules.rule import AnyRule
from wheelfix.settings import AUTO, Settings

DEFAULT = "default"
"""The origin of a setting that no layer sets."""
_T = TypeVar("_T")


class Document(NamedTuple):
    """A configuration file."""

    path: Path
    text: str
    place: Place
    """Where wheelfix's table is."""
    table: Mapping[str, object]

    def error(self, problem: str, place: Place = (), hint: str | None = None) -> SettingsError:
        """Return the error that `problem` exists at `place` in wheelfix's table."""
        line = line_of(self.text, (*self.place, *place))
        return SettingsError(f"{self.path}:{line}: {problem}", hint=hint)


class Layer(NamedTuple):
    """One table of settings."""

    source: str
    """Its name in messages: a file, `the environment`, `the command line`."""
    table: Mapping[str, object]
    wheels: tuple[str, ...] | None = None
    """Globs for the file names that an override applies to; None for all wheels."""
    document: Document | None = None
    """The file that it is in."""
    place: Place = ()
    """Where it is in the file's table."""

    def over(self, base: Settings) -> Settings:
        """Return `base` changed by this layer. Raises `SettingsError`."""
        for key in self.table:
            base = self._parsed(key, partial(settings_from, base=base, source=self.source))
        return base

    def check(self, rules: Sequence[AnyRule]) -> None:
        """Raise `SettingsError` for a key, a value or a selector that does not exist."""

        def check(table: Mapping[str, object]) -> None:
            check_selectors(settings_from(table, Settings(), self.source), rules, self.source)

        for key in self.table:
            self._parsed(key, check)

    def _parsed(self, key: str, parse: Callable[[Mapping[str, object]], _T]) -> _T:
        """Parse what stands at `key`; an error names the line of the part that is wrong."""
        given = self.table[key]
        try:
            return parse({key: given})
        except SettingsError as error:
            if self.document is None:
                raise
            wrong = (at for at, part in _parts(given) if _fails(parse, {key: part}))
            place = (*self.place, key, *([at] if (at := next(wrong, None)) is not None else ()))
            problem = error.message.removeprefix(f"{self.document.path}: ")
            raise self.document.error(problem, place, error.hint) from error

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
                settings = layer.over(settings)
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
            layer.check(rules)
        return self


def _parts(given: object) -> Iterator[tuple[str | int, object]]:
    """Yield the items of a list or a table, each alone in one of the same kind, and its place."""
    if isinstance(given, list):
        items = cast("list[object]", given)
        yield from ((number, [item]) for number, item in enumerate(items))
    elif isinstance(given, Mapping):
        table = cast("Mapping[str, object]", given)
        yield from ((key, {key: value}) for key, value in table.items())


def _fails(parse: Callable[[Mapping[str, object]], object], table: Mapping[str, object]) -> bool:
    try:
        parse(table)
    except SettingsError:
        return True
    return False


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

    Paths are relative to the file's directory (`_PATHS`); a `provider` is one if there is such a
    file or directory, and otherwise the name of a distribution; an item of `include` is one if it
    has a slash. Raises `SettingsError`.
    """
    path = explicit or find_file(start)
    if path is None:
        return Configuration()
    if explicit is None and not _owners(path) <= _trusted(start):
        return Configuration(ignored=path)
    document = read_document(path)
    if document is None:
        if explicit is None:
            return Configuration()
        raise SettingsError(f"`{path}` has no table [tool.wheelfix]")
    _require_version(document)
    elsewhere = path.parent if path.parent.resolve() != start.resolve() else None
    own = {key: value for key, value in document.table.items() if key != "overrides"}
    layers = [Layer(str(path), own, document=document), *_overrides(document)]
    return Configuration(
        layers=tuple(layer._replace(table=_relocated(layer.table, elsewhere)) for layer in layers),
        file=path,
    )


_REQUIRED_VERSION = "required-version"


def _require_version(document: Document) -> None:
    """Raise `SettingsError` if the file is for other versions of wheelfix.

    This comes before all other settings, which such a version may not know.
    """
    given = {_REQUIRED_VERSION: document.table.get(_REQUIRED_VERSION)}
    if given[_REQUIRED_VERSION] is None:
        return
    wanted = Layer(str(document.path), given, document=document).over(Settings()).required_version
    if wanted is not None and not SpecifierSet(wanted).contains(wheelfix.__version__, True):
        raise document.error(
            f"wheelfix {wheelfix.__version__} is running, and `{_REQUIRED_VERSION}` is `{wanted}`",
            (_REQUIRED_VERSION,),
            f"install another version: pip install 'wheelfix{wanted}'",
        )


def _relocated(table: Mapping[str, object], directory: Path | None) -> Mapping[str, object]:
    """Return `table` with relative paths below `directory`."""
    if directory is None:
        return table

    def moved(given: object, move: Callable[[str, Path], str]) -> object:
        if isinstance(given, str):
            return move(given, directory) if given.strip() else given
        if isinstance(given, list):
            return [moved(item, move) for item in cast("list[object]", given)]
        return given

    def with_files(part: object) -> object:
        if not isinstance(part, Mapping):
            return part
        own = cast("Mapping[str, object]", part)
        return {**own, _FILES: moved(own[_FILES], _below)} if _FILES in own else own

    found = {key: moved(table[key], move) for key, move in _PATHS.items() if key in table}
    if isinstance(parts := table.get("component"), list):
        found["component"] = [with_files(part) for part in cast("list[object]", parts)]
    return {**table, **found}


def _below(path: str, directory: Path) -> str:
    return str(directory / path)


def _all_below(paths: str, directory: Path) -> str:
    return ":".join(path and _below(path, directory) for path in paths.split(":"))


def _below_if_path(text: str, directory: Path) -> str:
    return _below(text, directory) if "/" in text else text


def _below_if_there(text: str, directory: Path) -> str:
    path = _below(text, directory)
    # Path.exists raises for a text that is too long for a path.
    return path if text != AUTO and os.path.exists(path) else text  # noqa: PTH110


_PATHS: Mapping[str, Callable[[str, Path], str]] = {
    "wheel-dir": _below,
    "baseline": _below,
    "debug-symbols": _below,
    "sbom-include": _below,
    "library-path": _below,
    "ldpaths": _all_below,
    "include": _below_if_path,
    "provider": _below_if_there,
}
"""The settings with paths, and how a text of each becomes one below the file's directory."""
_FILES = "license-files"


def _overrides(document: Document) -> Iterable[Layer]:
    """Yield `[[tool.wheelfix.overrides]]`: tables with a `select` for wheels, as cibuildwheel's."""
    given = document.table.get("overrides", ())
    if not isinstance(given, list | tuple):
        raise document.error("`overrides` must be a list of tables", ("overrides",))
    for number, override in enumerate(cast("list[object]", given), start=1):
        name, place = f"override {number}", ("overrides", number - 1)
        if not isinstance(override, Mapping):
            raise document.error(f"{name} must be a table", place)
        table = dict(cast("Mapping[str, object]", override))
        globs = table.pop("select", None)
        wheels = globs.split() if isinstance(globs, str) else globs
        texts = cast("list[object]", wheels) if isinstance(wheels, list) else []
        if not texts or not all(isinstance(glob, str) and glob for glob in texts):
            raise document.error(
                f"{name} has no `select` that names wheels",
                place,
                'such as select = "*musllinux*"; rules are chosen by extend-select and ignore',
            )
        for key in table:
            if key in FIELDS and FIELDS[key].setting.is_run_wide:
                raise document.error(
                    f"{name}: `{key}` concerns all wheels of a run",
                    (*place, key),
                    "set it above the overrides",
                )
        yield Layer(
            source=f"{document.path}: {name}",
            table=table,
            wheels=tuple(cast("list[str]", texts)),
            document=document,
            place=place,
        )


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


def read_document(path: Path) -> Document | None:
    """Return `path` with wheelfix's table, None if a `pyproject.toml` has none.

    Raises `SettingsError` for a file that cannot be read, or is not TOML.
    """
    is_own = path.name != "pyproject.toml"
    data = b""
    try:
        data = path.read_bytes()
        if not is_own and b"wheelfix" not in data:
            return None
        text = data.decode("utf-8").replace("\r\n", "\n")
        document: dict[str, object] = tomllib.loads(text)
    except OSError as error:
        raise SettingsError(f"cannot read `{path}`: {error.strerror}") from error
    except ValueError as error:  # not TOML, or not UTF-8
        line = line_of_error(data, error)
        raise SettingsError(f"{path}:{line}: the file is not TOML: {error}") from error
    except RecursionError as error:
        raise SettingsError(f"`{path}` is not TOML: it is nested too deeply") from error
    if is_own:
        whole = Document(path, text, (), document)
        if "tool" in document:
            raise whole.error(
                "[tool.wheelfix] belongs into pyproject.toml",
                ("tool",),
                "remove the table header: the settings stand at the top level of this file",
            )
        return whole
    tool = document.get("tool", {})
    if not isinstance(tool, dict):
        raise Document(path, text, (), {}).error("[tool] must be a table", ("tool",))
    table = cast("dict[str, object]", tool).get("wheelfix", None)
    if table is None:
        return None
    found = Document(path, text, ("tool", "wheelfix"), cast("dict[str, object]", table))
    if not isinstance(table, dict):
        raise found.error("[tool.wheelfix] must be a table")
    return found
