"""Configuration files, and the layers of settings of a run.

A file, its overrides for some wheels, the environment and the flags are a layer each: a table of
settings. The layer above wins. The settings depend on the wheel, because an override applies to
the wheels that it names.
"""

import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from fnmatch import fnmatchcase
from functools import cached_property, partial, reduce
from pathlib import Path
from stat import S_ISREG
from typing import TypeVar, cast

import wheelfix
from wheelfix.cli.config.toml_lines import Place, line_of, line_of_error
from wheelfix.cli.config.values import FIELDS, rule_suggestion, settings_from
from wheelfix.errors import SettingsError
from wheelfix.frozen import frozen
from wheelfix.grouping import flatten
from wheelfix.host.machine_files import MAX_SETTINGS, read_regular
from wheelfix.host.setting_paths import below
from wheelfix.loader.targets import refuse_unknown
from wheelfix.named_tuple import NamedTuple
from wheelfix.rules.stated_rules import EVERY, stated_rules
from wheelfix.settings import Settings
from wheelfix.system import deferred
from wheelfix.system.paths import is_file, is_there
from wheelfix.system.toml_parsing import parse_toml

ENVIRONMENT = "the environment"
FLAGS = "the command line"
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
    folder: Path | None = None
    """The folder of its relative paths; None for the current directory."""

    def over(self, base: Settings) -> Settings:
        """Return `base` changed by this layer. Raises `SettingsError`."""
        for key in self.table:
            base = self._parse(key, partial(settings_from, base=base, source=self.source))
        if self.folder is None:
            return base
        return below(self.folder, base, [FIELDS[key] for key in self.table])

    def check(self) -> None:
        """Raise `SettingsError` for a key, a value, a selector or a target that does not exist."""

        def check(table: Mapping[str, object]) -> None:
            settings = settings_from(table, Settings(), self.source)
            check_selectors(settings, self.source)
            for name in settings.target:
                refuse_unknown(name)

        for key in self.table:
            self._parse(key, check)

    def _parse(self, key: str, parse: Callable[[Mapping[str, object]], _T]) -> _T:
        """Parse what stands at `key`; an error names the line of the part that is wrong."""
        given = self.table[key]
        try:
            return parse({key: given})
        except SettingsError as error:
            if self.document is None:
                problem = error.message.removeprefix(f"{self.source}: ")
                problem = problem.removeprefix(f"`{key}`: ")
                raise SettingsError(
                    f"{_name(self.source, key)}: {problem}", hint=error.hint
                ) from error
            wrong = (part for part in _parts(given) if _fails(parse, {key: part[1]}))
            at, part = next(wrong, (None, None))
            inside = () if at is None else (at, *_named_key(part, error.message))
            place = (*self.place, key, *inside)
            problem = error.message.removeprefix(f"{self.document.path}: ")
            raise self.document.error(problem, place, error.hint) from error

    def applies_to(self, wheel: str | None) -> bool:
        """Whether the layer applies to the wheel of this file name."""
        if self.wheels is None:
            return True
        return wheel is not None and any(fnmatchcase(wheel, glob) for glob in self.wheels)


def _name(source: str, key: str) -> str:
    """Return the flag or the variable that the user gave for the setting `key`."""
    field = FIELDS[key]
    if source == FLAGS:
        return field.long_flags[0]
    return field.variables[0] if source == ENVIRONMENT else source


@frozen
class Configuration:
    """All layers of a run, the lowest first."""

    layers: tuple[Layer, ...] = ()
    file: Path | None = None
    """The configuration file that was read."""
    ignored: Path | None = None
    """A configuration file that was not read, because it belongs to another user."""
    shadowed: Path | None = None
    """The `pyproject.toml` beside the file whose table was not read."""
    folder: Path | None = None
    """Where relative paths of what is read start; None leaves them as they were written."""

    def over(self, layers: Iterable[Layer]) -> "Configuration":
        """Return the configuration with `layers` on top."""
        return replace(self, layers=(*self.layers, *layers))

    def for_command(self, command: str) -> "Configuration":
        """Return the configuration that another command has with the same flags, if it has them."""

        def of_command(layer: Layer) -> Layer:
            if layer.source not in {FLAGS, ENVIRONMENT}:
                return layer
            table = layer.table.items()
            own = {key: value for key, value in table if command in FIELDS[key].setting.commands}
            return layer._replace(table=own)

        return replace(self, layers=tuple(map(of_command, self.layers)))

    @cached_property
    def settings(self) -> Settings:
        """The settings of the run as a whole."""
        return self._over(layer for layer in self.layers if layer.wheels is None)

    def settings_for(self, wheel: str | None) -> Settings:
        """Return the settings for the wheel of this file name. Raises `SettingsError`."""
        layers = [layer for layer in self.layers if layer.applies_to(wheel)]
        return self._over(layers) if any(layer.wheels for layer in layers) else self.settings

    def _over(self, layers: Iterable[Layer]) -> Settings:
        settings = reduce(lambda settings, layer: layer.over(settings), layers, Settings())
        return settings if self.folder is None else below(self.folder, settings)

    def origins(self, wheel: str | None) -> dict[str, tuple[str, ...]]:
        """Return for each field of `Settings` the layers that set it."""
        layers = [layer for layer in self.layers if layer.applies_to(wheel)]
        return {
            field.name: tuple(layer.source for layer in layers if key in layer.table) or (DEFAULT,)
            for key, field in FIELDS.items()
        }

    def check(self) -> "Configuration":
        """Return the configuration, once each layer is known to be valid by itself.

        Raises `SettingsError` for a key, a value or a selector that does not exist.
        """
        for layer in self.layers:
            layer.check()
        return self


def _parts(value: object) -> Iterator[tuple[str | int, object]]:
    """Yield the items of a list or a table, each alone in one of the same kind, and its place."""
    if isinstance(value, list):
        items = cast("list[object]", value)
        yield from ((number, [item]) for number, item in enumerate(items))
    elif isinstance(value, Mapping):
        table = cast("Mapping[str, object]", value)
        yield from ((key, {key: value}) for key, value in table.items())


def _named_key(items: object, message: str) -> Sequence[str]:
    """Return the key that an error names, of a list whose only item is a table; else nothing."""
    item = cast("list[object]", items)[0] if isinstance(items, list) else None
    keys = map(str, cast("Mapping[str, object]", item)) if isinstance(item, Mapping) else ()
    return [key for key in keys if f"`{key}`" in message][:1]


def _fails(parse: Callable[[Mapping[str, object]], object], table: Mapping[str, object]) -> bool:
    try:
        parse(table)
    except SettingsError:
        return True
    return False


def check_selectors(settings: Settings, source: str) -> None:
    """Raise `SettingsError` for a selector of `settings` that matches no rule."""
    of_files = (*settings.per_file_ignores.values(), *settings.unfixable.values())
    per_file = flatten(of_files)
    for selector in (*settings.selectors, *settings.ignore, *per_file, *settings.severity):
        if selector != EVERY and not any(rule.matches(selector) for rule in stated_rules()):
            raise SettingsError(
                f"{source}: no rule has the code, prefix or name `{selector}`",
                hint=rule_suggestion(selector, stated_rules()),
            )


def read_configuration(start: Path, explicit: Path | None) -> Configuration:
    """Return the layers of the file `explicit`, or of the one found from `start` upwards.

    Paths are relative to the file's directory (`settings.Paths`). Raises `SettingsError`.
    """
    path = explicit or find_file(start)
    if path is None:
        return Configuration()
    if explicit is None and not _owners(path) <= _trusted_users(start):
        return Configuration(ignored=path)
    document = read_document(path)
    if document is None:
        if explicit is None:
            return Configuration()
        raise SettingsError(f"`{path}` has no table [tool.wheelfix]")
    _require_version(document)
    _require_own_files(document)
    elsewhere = start / path.parent if path.parent.resolve() != start.resolve() else None
    own = {key: value for key, value in document.table.items() if key != "overrides"}
    layers = [Layer(str(path), own, document=document), *_overrides(document)]
    layers = [layer._replace(folder=elsewhere) for layer in layers]
    shadowed = None if explicit else _shadowed_by(path)
    return Configuration(layers=tuple(layers), file=path, shadowed=shadowed)


def _shadowed_by(path: Path) -> Path | None:
    """Return the `pyproject.toml` beside a `wheelfix.toml` if it has the table, too."""
    beside = path.with_name("pyproject.toml")
    with suppress(SettingsError):
        if beside != path and is_file(beside) and read_document(beside) is not None:
            return beside
    return None


_REQUIRED_VERSION = "required-version"


def _require_version(document: Document) -> None:
    """Raise `SettingsError` if the file is for other versions of wheelfix.

    This comes before all other settings, which such a version may not know.
    """
    given = {_REQUIRED_VERSION: document.table.get(_REQUIRED_VERSION)}
    if given[_REQUIRED_VERSION] is None:
        return
    version = Layer(str(document.path), given, document=document).over(Settings()).required_version
    if version is not None and not deferred.specifiers.SpecifierSet(version).contains(
        wheelfix.__version__, True
    ):
        raise document.error(
            f"wheelfix {wheelfix.__version__} is running, and `{_REQUIRED_VERSION}` is `{version}`",
            (_REQUIRED_VERSION,),
            f"install another version: pip install 'wheelfix{version}'",
        )


_FILES = "license-files"


def _require_own_files(document: Document) -> None:
    """Raise `SettingsError` for `license-files` that are not regular files beside the document.

    A repair copies them into the wheel, and a checkout may be of people who are not trusted with
    the other files of this machine.
    """
    overrides = document.table.get("overrides")
    tables: list[tuple[tuple[str | int, ...], object]] = [((), document.table)]
    tables += [(("overrides", n), table) for n, table in enumerate(_list(overrides))]
    for place, table in tables:
        for number, part in enumerate(_list(_table(table).get("component"))):
            files = _table(part).get(_FILES)
            for text in [files, *_list(files)]:
                if isinstance(text, str) and (fault := _fault(text, document.path.parent)):
                    raise document.error(
                        f"`{_FILES}` has `{text}`, {fault}",
                        (*place, "component", number, _FILES),
                        "copy the text into the project: a repair puts it into the wheel",
                    )


def _list(given: object) -> list[object]:
    return cast("list[object]", given) if isinstance(given, list) else []


def _table(given: object) -> Mapping[str, object]:
    return cast("Mapping[str, object]", given) if isinstance(given, Mapping) else {}


def _fault(text: str, folder: Path) -> str | None:
    """Return why the file `text` must not be copied; None if it may be, or is missing."""
    path = folder / text
    try:
        if not Path(os.path.realpath(path)).is_relative_to(os.path.realpath(folder)):
            return "which leads out of the folder of this file"
        return None if S_ISREG(path.stat().st_mode) else "which is not a regular file"
    except (OSError, ValueError):
        return None


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

    A directory with `pyproject.toml` or `.git` is a project's root. The search ends with the user's
    home directory, and at directories of another file system or user.
    """
    device, trusted = start.stat().st_dev, _trusted_users(start)
    home = Path(os.path.expanduser("~"))  # noqa: PTH111 - Path.home() raises without a home
    for directory in (start, *start.parents):
        status = directory.stat()
        if status.st_dev != device or status.st_uid not in trusted:
            return None
        if (file := file_in(directory)) is not None:
            return file
        if directory == home or is_there(directory / ".git"):
            return None
    return None


def file_in(directory: Path) -> Path | None:
    """Return the configuration file in `directory`; `wheelfix.toml` wins over `pyproject.toml`."""
    files = (directory / name for name in ("wheelfix.toml", "pyproject.toml"))
    return next((file for file in files if is_file(file)), None)


def _trusted_users(start: Path) -> set[int]:
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
        data = read_regular(path, MAX_SETTINGS)
        if not is_own and b"wheelfix" not in data:
            return None
        document = parse_toml(data)
        text = data.decode("utf-8").replace("\r\n", "\n")
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
                "[tool.wheelfix] belongs in pyproject.toml",
                ("tool",),
                "leave `tool.wheelfix` out of the headers: here `[[tool.wheelfix.symbols]]` is "
                "`[[symbols]]`, and `[tool.wheelfix]` is not written",
            )
        return whole
    tool = document.get("tool", {})
    if not isinstance(tool, dict):
        raise Document(path, text, (), {}).error("[tool] must be a table", ("tool",))
    table = cast("dict[str, object]", tool).get("wheelfix", None)
    if table is None:
        return None
    read = Document(path, text, ("tool", "wheelfix"), cast("dict[str, object]", table))
    if not isinstance(table, dict):
        raise read.error("[tool.wheelfix] must be a table")
    return read
