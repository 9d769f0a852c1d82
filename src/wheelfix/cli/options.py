"""The options of the command line, and the settings that they make.

The flags of settings are derived from the fields of `Settings`, the other options of a command from
those of its dataclass. A setting that was not given is None, so that the value of the configuration
file applies.
"""

import inspect
import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import Field, fields, is_dataclass, replace
from difflib import get_close_matches
from enum import StrEnum
from functools import wraps
from pathlib import Path
from typing import Annotated, Any, cast

import typer

from wheelfix.cli import option_completion
from wheelfix.cli.config.configuration import (
    ENVIRONMENT,
    FLAGS,
    Configuration,
    Layer,
    read_configuration,
)
from wheelfix.cli.config.values import FIELDS, kind_of
from wheelfix.cli.console import Color, Quiet, Terminal, Verbose
from wheelfix.cli.help import HelpAll
from wheelfix.cli.wheel_paths import say_closed
from wheelfix.errors import SettingsError
from wheelfix.grouping import flatten
from wheelfix.host.sysroot import HERE, Sysroot
from wheelfix.named_tuple import NamedTuple
from wheelfix.reports.printable import printable
from wheelfix.settings import OPTION, SETTING_FIELDS, Group, Option, SettingField, Size
from wheelfix.system.paths import is_folder
from wheelfix.text import in_units

Command = Callable[..., None]


def with_options(command: Command) -> Command:
    """Return `command` with options in the place of some of its parameters.

    A dataclass stands for the options that are its fields; `Call` for `--config`, `-v`, `-q` and
    the flag of each setting that the command has. Each command also has `--color` and `--help-all`.
    """
    signature = inspect.signature(command)
    parameters: list[inspect.Parameter] = []
    dataclasses: dict[str, type[Any]] = {}
    settings = [f for f in SETTING_FIELDS if command.__name__ in f.setting.commands]
    has_call = "call" in signature.parameters
    for parameter in signature.parameters.values():
        kind = parameter.annotation
        if kind is Call:
            parameters += _CALL
        elif isinstance(kind, type) and is_dataclass(kind):
            dataclasses[parameter.name] = kind
            parameters += map(_own_option, fields(kind))
        else:
            parameters.append(parameter.replace(kind=inspect.Parameter.KEYWORD_ONLY))
    parameters += map(_setting_option, settings if has_call else ())
    parameters += (_parameter("color", None, Color), _parameter("help_all", False, HelpAll))

    @wraps(command)
    def run(*, color: None = None, help_all: bool = False, **values: Any) -> None:  # noqa: ANN401 - of any option
        del color, help_all  # their callbacks have read them
        for name, kind in dataclasses.items():
            values[name] = kind(**{field.name: values.pop(field.name) for field in fields(kind)})
        if has_call:
            given = {field.name: values.pop(field.name) for field in settings}
            own = {parameter.name: values.pop(parameter.name) for parameter in _CALL}
            values["call"] = Call(**own, given=given)
        command(**values)

    run.__dict__["__signature__"] = signature.replace(parameters=parameters)  # what typer reads
    return run


def _own_option(field: Field[Any]) -> inspect.Parameter:
    option: Option = field.metadata[OPTION]
    flag = option.flag or f"--{field.name.replace('_', '-')}"
    made = typer.Option(
        *filter(None, (option.short, flag)),
        help=option.help,
        metavar=option.metavar,
        min=option.least,
        max=option.most,
        readable=option.short != OUTPUT.short,  # that is written
        autocompletion=option_completion.OF_OPTIONS.get(field.name),
        rich_help_panel=option.group,
    )
    default = field.default_factory() if callable(field.default_factory) else None
    return _parameter(field.name, default, Annotated[field.type, made])


def _setting_option(field: SettingField) -> inspect.Parameter:
    setting = field.setting
    facts = [f"default: {_default_text(field.default)}"]
    facts += [f"or {setting.variable}"] if setting.variable else []
    made = typer.Option(
        *field.flags,
        help=f"{setting.help}  [{'; '.join(facts)}]",
        metavar=setting.metavar,
        envvar=list(field.variables),
        show_envvar=False,  # the epilog says how they are named
        show_default=False,
        min=setting.least,
        max=setting.most,
        autocompletion=option_completion.OF_OPTIONS.get(field.name),
        rich_help_panel=setting.group,
    )
    return _parameter(field.name, None, Annotated[kind_of(field).flag | None, made])


def _default_text(default: object) -> str:
    """Return the default of a setting as the help shows it."""
    match default:
        case bool():
            return "on" if default else "off"
        case Size():
            return in_units(default) if default else "no limit"
        case str() | int() | Path() if str(default):
            return str(default)
        case tuple():
            return ", ".join(map(str, cast("tuple[object, ...]", default))) or "none"
        case _:
            return "none"


def _parameter(name: str, default: object, annotation: object) -> inspect.Parameter:
    keyword = inspect.Parameter.KEYWORD_ONLY
    return inspect.Parameter(name, keyword, default=default, annotation=annotation)


_SEARCHED = ("lib*", "usr/lib*", "usr/local/lib*", "etc/ld.so.conf.d")
"""What is read of a system; others have folders that are closed to all but root."""


class Call(NamedTuple):
    """What the command line gives to a command besides its own arguments and options."""

    context: typer.Context
    config: Path | None
    """The configuration file that it names."""
    verbose: int
    quiet: bool
    given: Mapping[str, object]
    """Setting -> its value, by a flag or an environment variable; None if there is neither."""

    @property
    def terminal(self) -> Terminal:
        """Where the command writes."""
        return Terminal(verbosity=-1 if self.quiet else self.verbose)

    def read_configuration(self) -> Configuration:
        """Read the configuration file, announce it, and lay over it what is `given`.

        Raises `SettingsError`.
        """
        folder = current_folder()
        configuration = read_configuration(folder, self.config)
        announce(configuration, self.terminal)
        configuration = replace(configuration.over(layers(self.context, self.given)), folder=folder)
        settings = configuration.settings
        named = (*settings.neighbors, *(provider.source for provider in settings.provider))
        folders = (
            *settings.library_path,
            *(path for path in named if is_folder(path)),
            *filter(None, [settings.site]),
        )
        system = Sysroot(os.path.realpath(settings.sysroot)) if settings.sysroot else HERE
        searched = flatten(map(Path(system.folder).glob, _SEARCHED)) if system.folder else ()
        say_closed((*folders, *map(system.follow, map(str, searched))), self.terminal)
        return configuration

    def is_flag(self, name: str) -> bool:
        """Return whether a flag, and no environment variable, gave the setting `name`."""
        return bool(self.given[name]) and not by_environment(self.context, name)


def announce(configuration: Configuration, terminal: Terminal) -> None:
    """Say which configuration file is used, if verbose, and which one is not trusted."""
    if (file := configuration.ignored) is not None:
        terminal.say(
            f"note: `{printable(str(file))}` is not read: it belongs to another user, uid "
            f"{file.lstat().st_uid}; if you trust it, pass it with --config"
        )
    for name, meant in misspelt_variables(os.environ):
        end = f"did you mean {meant}?" if meant else "no setting has that name"
        label = "warning" if meant else "note"
        terminal.say(f"{label}: `{printable(name)}` is not read: {end}")
    if configuration.shadowed is not None:
        beside = printable(f"`{configuration.shadowed}`")
        terminal.say(f"note: [tool.wheelfix] of {beside} is not read: wheelfix.toml is beside it")
    if terminal.verbosity > 0:
        file = configuration.file
        shown = printable(f"`{file.absolute()}`") if file else "none was found"
        terminal.say(f"configuration file: {shown}")


def misspelt_variables(environ: Iterable[str]) -> Iterator[tuple[str, str]]:
    """Yield the variables that are of no setting, each with one that is nearly the same."""
    known = {"WHEELFIX_CONFIG", *flatten(field.variables for field in SETTING_FIELDS)}
    for name in environ:
        if name.startswith("WHEELFIX_") and name not in known:
            own = {each.removeprefix("WHEELFIX_"): each for each in known}
            near = get_close_matches(name.removeprefix("WHEELFIX_"), own, n=1, cutoff=_NEAR)
            yield name, own[near[0]] if near else ""


_NEAR = 0.8
"""How alike they are (`difflib`); less may be variables of the user."""


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
        for source, table in ((ENVIRONMENT, environment), (FLAGS, flags))
        if table
    ]


def words_for_repair(call: Call, configuration: Configuration) -> tuple[str, ...]:
    """Return the flags of the command line on which the repair of a wheel depends, too."""
    words: list[str] = []
    if call.config is not None and not by_environment(call.context, "config"):
        words += ["--config", str(call.config)]
    for layer in configuration.layers:
        for key, value in layer.table.items() if layer.source == FLAGS else ():
            field = FIELDS[key]
            flag, off = field.long_flags
            if "repair" not in field.setting.commands or field.setting.is_run_wide:
                continue
            if isinstance(value, bool):
                words.append(flag if value else off)
            else:
                values = cast("list[object]", value) if isinstance(value, list) else [value]
                words += list(flatten((flag, str(item)) for item in values))
    return tuple(words)


def by_environment(context: typer.Context, name: str) -> bool:
    """Return whether an environment variable, and no flag, gave the parameter `name`."""
    source = context.get_parameter_source(name)
    return source is not None and source.name == "ENVIRONMENT"


def _table_value(field: SettingField, value: object) -> object:
    """Return `value` as it would stand in the configuration file."""
    if isinstance(value, Path):
        return os.fspath(value)
    if separator := field.setting.separator:
        texts = cast("Sequence[str]", value)
        return [part.strip() for part in flatten(text.split(separator) for text in texts)]
    return value


class TextOrJson(StrEnum):
    """How a report is written."""

    TEXT = "text"
    JSON = "json"


OUTPUT_FORMAT = Option("text or json.", group=Group.OUTPUT)
OUTPUT = Option("Write the report to this file.", group=Group.OUTPUT, short="-o", metavar="FILE")
Config = Annotated[
    Path | None,
    typer.Option(
        metavar="FILE",
        envvar="WHEELFIX_CONFIG",
        help="Read this file instead of the nearest wheelfix.toml or pyproject.toml.",
    ),
]
_CALL = (
    _parameter("context", inspect.Parameter.empty, typer.Context),
    _parameter("config", None, Config),
    _parameter("verbose", 0, Verbose),
    _parameter("quiet", False, Quiet),
)
