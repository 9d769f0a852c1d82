"""Tables of settings, as they stand in a file or are made from flags, turned into `Settings`.

The keys are the fields of `Settings` in kebab-case. Every layer (file, environment, flags) is a
table of these keys, so that a value is judged in one place wherever it comes from.
"""

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from difflib import get_close_matches
from enum import StrEnum
from pathlib import Path
from typing import Any, cast, get_type_hints

from wheelfix.errors import SettingsError
from wheelfix.rules.findings import Severity
from wheelfix.rules.rule import AnyRule
from wheelfix.settings import SCHEMES, Provider, Requirement, Settings, Size, name_of

ADDING = frozenset({"extend-select", "ignore", "per-file-ignores", "severity", "provider"})
"""The keys whose values add to those of the layer below; all others replace them."""

FIELDS = {name.replace("_", "-"): name for name in Settings.__annotations__}
"""Key of the table -> field of `Settings`."""
_SEVERITIES = tuple(severity.label for severity in Severity)
RUN_WIDE = frozenset({"jobs", "timeout", "fail-on", "baseline"})
"""The keys that concern all wheels of a run together, so that no override may have them."""
LEAST = {"zip-level": -1, "jobs": 1, "timeout": 0, "max-growth": 0}
MOST = {"zip-level": 9}


def settings_from(table: Mapping[str, object], base: Settings, source: str) -> Settings:
    """Return `base` changed by `table`; `source` says in messages where the table is from.

    Raises `SettingsError` for a key or a value that does not exist.
    """
    kinds = get_type_hints(Settings)
    changes: dict[str, Any] = {}
    for key, given in table.items():
        if key not in FIELDS:
            raise SettingsError(
                f"{source}: there is no setting `{key}`", hint=suggestion(key, FIELDS)
            )
        name = FIELDS[key]
        value = _value(kinds[name], key, given, f"{source}: `{key}`")
        changes[name] = _added(getattr(base, name), value) if key in ADDING else value
    return replace(base, **changes)


def check_selectors(settings: Settings, rules: Iterable[AnyRule], source: str) -> None:
    """Raise `SettingsError` for a selector of `settings` that no rule answers to."""
    known = tuple(rules)
    per_file = (each for listed in settings.per_file_ignores.values() for each in listed)
    chosen = (*settings.select, *settings.extend_select)
    for selector in (*chosen, *settings.ignore, *per_file, *settings.severity):
        if not any(rule.matches(selector) for rule in known):
            words = [word for rule in known for word in (rule.code, rule.name)]
            raise SettingsError(
                f"{source}: no rule has the code, prefix or name `{selector}`",
                hint=suggestion(selector, words) or "`wheelfix rule --all` lists the rules",
            )


def suggestion(word: str, known: Iterable[str]) -> str | None:
    """Return a hint with what may have been meant by `word`, if anything comes near."""
    spelled = {name.lower(): name for name in known}
    near = get_close_matches(word.lower().replace("_", "-"), spelled, n=3)
    return (
        "did you mean " + " or ".join(f"`{spelled[name]}`" for name in near) + "?" if near else None
    )


# --- Values ---------------------------------------------------------------------------------------


def _value(  # noqa: C901, PLR0911 - one return for each kind
    kind: object, key: str, given: object, where: str
) -> object:
    if kind is bool:
        if not isinstance(given, bool):
            raise SettingsError(f"{where} is {_shown(given)}; it must be true or false")
        return given
    if kind is int:
        return _number(key, given, where)
    if kind is Size:
        return _size(given, where)
    if isinstance(kind, type) and issubclass(kind, StrEnum):
        return _choice(kind, given, where)
    if kind == tuple[str, ...]:
        return _strings(given, where)
    if kind == tuple[Requirement, ...]:
        return _requirements(given, where)
    if kind == tuple[Provider, ...]:
        return _providers(given, where)
    if key == "severity":
        return _severities(given, where)
    if kind == Mapping[str, str]:
        return _reasons(given, where)
    if kind == Mapping[str, tuple[str, ...]]:
        return _per_file(given, where)
    text = _text(given, where)
    return Path(text) if kind is Path else text


def _number(key: str, given: object, where: str) -> int:
    least, most = LEAST[key], MOST.get(key)
    number = given if isinstance(given, int) and not isinstance(given, bool) else None
    if number is not None and number >= least and (most is None or number <= most):
        return number
    bounds = f"{least} to {most}" if most is not None else f"{least} or more"
    raise SettingsError(f"{where} is {_shown(given)}; it must be a number, {bounds}")


_UNITS = {"": 1, "B": 1, "KIB": 2**10, "MIB": 2**20, "GIB": 2**30} | {
    "KB": 10**3, "MB": 10**6, "GB": 10**9, "K": 10**3, "M": 10**6, "G": 10**9,
}  # fmt: skip


def _size(given: object, where: str) -> Size:
    """Return bytes from a number of them, or from a text such as `1.5 MB` or `48MiB`."""
    text = str(given).strip() if isinstance(given, int | str) and given is not True else ""
    match = re.fullmatch(r"(\d{1,18}(?:\.\d{1,18})?)\s*([A-Za-z]*)", text, re.ASCII)
    unit = _UNITS.get(match[2].upper()) if match else None
    if match is None or unit is None:
        raise SettingsError(
            f"{where} is {_shown(given)}; it must be a size", hint="such as `50MB` or `48MiB`"
        )
    return Size(round(float(match[1]) * unit) if "." in match[1] else int(match[1]) * unit)


def _choice(kind: type[StrEnum], given: object, where: str) -> StrEnum:
    choices = [choice.value for choice in kind]
    if not isinstance(given, str) or given not in choices:
        listed = ", ".join(f"`{choice}`" for choice in choices)
        hint = suggestion(given, choices) if isinstance(given, str) else None
        raise SettingsError(f"{where} is {_shown(given)}; it must be one of {listed}", hint=hint)
    return kind(given)


def _text(given: object, where: str) -> str:
    if not isinstance(given, str) or not given.strip() or "\0" in given:
        raise SettingsError(f"{where} is {_shown(given)}; it must be a string that is not empty")
    return given


def _strings(given: object, where: str) -> tuple[str, ...]:
    if not isinstance(given, list | tuple):
        raise SettingsError(f"{where} is {_shown(given)}; it must be a list of strings")
    items = cast("list[object]", given)
    return tuple(_text(item, f"{where}, item {n}") for n, item in enumerate(items, start=1))


def _requirements(given: object, where: str) -> tuple[Requirement, ...]:
    """Return what `[[tool.wheelfix.require]]` demands, or texts such as `libx.so=x_*,y_*`."""
    return tuple(_requirement(*item) for item in _items(given, where))


def _items(given: object, where: str) -> Iterator[tuple[object, str]]:
    """Yield the tables of a list, and how to name them."""
    if not isinstance(given, list | tuple):
        raise SettingsError(f"{where} is {_shown(given)}; it must be a list of tables")
    for n, item in enumerate(cast("list[object]", given), start=1):
        yield item, f"{where}, item {n}"


def _requirement(given: object, where: str) -> Requirement:
    if isinstance(given, str):
        library, _, symbols = given.partition("=")
        given = {"library": library, "symbols": [each for each in symbols.split(",") if each]}
    if not isinstance(given, Mapping):
        raise SettingsError(f"{where} is {_shown(given)}; it must be a table")
    table = cast("Mapping[str, object]", given)
    for key in table:
        if key not in {"library", "symbols"}:
            hint = suggestion(key, ("library", "symbols"))
            raise SettingsError(f"{where}: there is no key `{key}`", hint=hint)
    if "library" not in table:
        raise SettingsError(f"{where} has no `library`", hint='such as library = "libx.so*"')
    return Requirement(
        library=_text(table["library"], f"{where}, `library`"),
        symbols=_strings(table.get("symbols", ()), f"{where}, `symbols`"),
    )


def _providers(given: object, where: str) -> tuple[Provider, ...]:
    """Return what `[[tool.wheelfix.provider]]` says, or texts that are yet to be looked up."""
    return tuple(_provider(*item) for item in _items(given, where))


def _provider(given: object, where: str) -> Provider:
    if isinstance(given, str):
        return Provider(source=_text(given, where))
    if not isinstance(given, Mapping):
        raise SettingsError(f"{where} is {_shown(given)}; it must be a table")
    table = cast("Mapping[str, object]", given)
    keys = ("requirement", "libraries", "directory", "scheme")
    for key in table:
        if key not in keys:
            raise SettingsError(f"{where}: there is no key `{key}`", hint=suggestion(key, keys))
    requirement = _text(table.get("requirement", ""), f"{where}, `requirement`")
    if not name_of(requirement):
        raise SettingsError(
            f"{where}: `{requirement}` is no requirement", hint="such as nvidia-cublas-cu12>=12.4"
        )
    scheme = table.get("scheme", SCHEMES[0])
    if scheme not in SCHEMES:
        raise SettingsError(f"{where}: `scheme` must be one of {', '.join(SCHEMES)}")
    if ("libraries" in table) != ("directory" in table):
        raise SettingsError(
            f"{where} must have both `libraries` and `directory`, or neither",
            hint="without them, both are looked up by the name of the requirement",
        )
    libraries = _strings(table.get("libraries", ()), f"{where}, `libraries`")
    return Provider(
        requirement=requirement,
        libraries=libraries,
        directory=_folder(table["directory"], f"{where}, `directory`") if libraries else None,
        scheme=str(scheme),
    )


def _folder(given: object, where: str) -> str:
    """Return a folder relative to site-packages."""
    folder = _text(given, where).rstrip("/")
    if folder.startswith("/") or not {".", "..", ""}.isdisjoint(folder.split("/")):
        raise SettingsError(f"{where} is `{folder}`; it must be relative to site-packages")
    return folder


def _reasons(given: object, where: str) -> dict[str, str]:
    """Return selector -> reason, from a table of them or from a list without reasons."""
    if not isinstance(given, Mapping):
        return dict.fromkeys(_strings(given, where), "")
    reasons: dict[str, str] = {}
    for selector, reason in cast("Mapping[str, object]", given).items():
        if not isinstance(reason, str):
            raise SettingsError(
                f"{where}: the reason for `{selector}` is {_shown(reason)}; it must be a string"
            )
        reasons[_text(selector, where)] = reason
    return reasons


def _pairs(given: object, where: str, separator: str) -> Mapping[str, object]:
    """Return a table as it is, or what texts such as `WF113=error` say, split at `separator`."""
    if isinstance(given, Mapping):
        return cast("Mapping[str, object]", given)
    pairs: dict[str, object] = {}
    for text in _strings(given, where):
        name, found, value = text.rpartition(separator)
        if not found or not name or not value:
            raise SettingsError(f"{where}: `{text}` has no `{separator}` between two words")
        pairs[name] = value
    return pairs


def _severities(given: object, where: str) -> dict[str, str]:
    severities: dict[str, str] = {}
    for selector, value in _pairs(given, where, "=").items():
        if not isinstance(value, str) or value not in _SEVERITIES:
            listed = ", ".join(f"`{each}`" for each in _SEVERITIES)
            raise SettingsError(f"{where}: `{selector}` is {_shown(value)}; it must be {listed}")
        severities[_text(selector, where)] = value
    return severities


def _per_file(given: object, where: str) -> dict[str, tuple[str, ...]]:
    ignores: dict[str, tuple[str, ...]] = {}
    for glob, rules in _pairs(given, where, ":").items():
        listed = rules.split(",") if isinstance(rules, str) else rules
        ignores[_text(glob, where)] = tuple(
            selector.strip() for selector in _strings(listed, f"{where}: `{glob}`")
        )
    return ignores


def _added(below: object, value: object) -> object:
    if isinstance(below, tuple):
        return (*cast("tuple[str, ...]", below), *cast("tuple[str, ...]", value))
    return {**cast("Mapping[str, object]", below), **cast("Mapping[str, object]", value)}


def _shown(given: object) -> str:
    if isinstance(given, bool):
        return f"`{str(given).lower()}`"
    if isinstance(given, Mapping):
        return "a table"
    return f"`{given}`" if isinstance(given, int | float | str) else "a list"
