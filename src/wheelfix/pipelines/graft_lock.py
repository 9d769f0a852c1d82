"""The lock of what is grafted: `wheelfix.lock`, TOML 1.0.

A table `[[graft]]` is one library in the wheels of one distribution with the same platform tags.
Whoever keeps the file may remove keys of a table: what is not there is not compared.
"""

import json
import shlex
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, cast

from wheelfix.errors import LockError, SettingsError
from wheelfix.host.machine_files import MAX_SETTINGS, read_regular
from wheelfix.loader.python_api import MODULE_SUFFIX
from wheelfix.pipelines.graft import GraftedLibrary
from wheelfix.system.toml_parsing import parse_toml
from wheelfix.text import in_units, operand
from wheelfix.wheel.model import WheelName
from wheelfix.wheel.stable_names import stable_name

LOCK_FILE = "wheelfix.lock"
WRITE_LOCK = "wheelfix repair --write-lock"
_HEADER = """\
# What `repair` grafts; `repair --locked` grafts nothing else. `repair --write-lock` writes it.
# A key that is removed is not compared.
"""
_KEY = ("wheel", "platform", "name")
_KINDS: Mapping[str, type] = {
    **dict.fromkeys((*_KEY, "soname", "package", "version", "sha256"), str),
    "size": int,
    "needed-by": list,
}
_ANEW = "delete it; the same repair with `--write-lock` writes it anew"
Table = Mapping[str, Any]
"""A table `[[graft]]`."""


def tables_of(name: WheelName, grafted: Iterable[GraftedLibrary]) -> list[Table]:
    """Return the tables of what a repair grafts into the wheel `name`, as it is written."""
    return [
        {
            "wheel": name.distribution,
            "platform": ".".join(name.platforms),
            "name": _in_utf8(library.original),
            "soname": _in_utf8(library.host.elf.soname or ""),
            "package": library.package.name if library.package else "",
            "version": library.package.version if library.package else "",
            "sha256": library.host.sha256,
            "size": library.host.size,
            "needed-by": sorted({_plain(member) for member in library.dependents}),
        }
        for library in grafted
    ]


def _plain(member: str) -> str:
    return _in_utf8(MODULE_SUFFIX.sub("", stable_name(member)))


def _in_utf8(name: str) -> str:
    """Return a name with an escape for each byte that is not UTF-8, which TOML must be."""
    return name.encode("utf-8", "backslashreplace").decode("utf-8")


def joined(lock: Iterable[Table], new: Iterable[Table]) -> tuple[Table, ...]:
    """Return `lock` with `new` in place of the tables of the same wheels; equal names once.

    The wheels of several Pythons have one table for each library, which has all that need it.
    """
    made: dict[tuple[str, ...], dict[str, Any]] = {}
    for table in new:
        known = made.setdefault(_key(table), {**table})
        known["needed-by"] = sorted({*known["needed-by"], *table["needed-by"]})
    written = {key[:2] for key in made}
    kept = [table for table in lock if _key(table)[:2] not in written]
    return tuple(sorted([*kept, *made.values()], key=_key))


def lock_text(lock: Iterable[Table]) -> str:
    """Return the content of the file."""
    tables = ("".join(f"{key} = {_value(table[key])}\n" for key in table) for table in lock)
    return "\n".join([_HEADER, *(f"[[graft]]\n{table}" for table in tables)])


def _value(value: object) -> str:
    """Return a value as TOML has it: unlike JSON, without halves of characters, and without DEL."""
    return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007F")


def read_lock(path: Path) -> tuple[Table, ...]:
    """Return the tables of the file at `path`, none if it is missing. Raises `SettingsError`."""
    try:
        document = parse_toml(read_regular(path, MAX_SETTINGS))
    except FileNotFoundError:
        return ()
    except (OSError, ValueError, RecursionError) as error:
        reason = getattr(error, "strerror", None) or error
        raise SettingsError(f"`{path}` cannot be read: {reason}", hint=_ANEW) from error
    tables = document.pop("graft", [])
    is_list = isinstance(tables, list) and all(map(_is_table, cast("list[object]", tables)))
    if document or not is_list:
        raise SettingsError(
            f"`{path}` is not a lock, which has [[graft]] alone, each with `wheel`, `platform`, "
            "`name`, and no other keys than "
            + ", ".join(f"`{key}`" for key in _KINDS if key not in _KEY),
            hint=_ANEW,
        )
    grafts = tuple(cast("list[Table]", tables))
    if len({_key(table) for table in grafts}) < len(grafts):
        raise SettingsError(f"`{path}` has two tables for one library of a wheel", hint=_ANEW)
    return grafts


def _is_table(value: object) -> bool:
    if not isinstance(value, dict):
        return False
    table = cast("Table", value)
    return (
        table.keys() >= {*_KEY}
        and all(isinstance(each, _KINDS.get(key, ())) for key, each in table.items())
        and all(isinstance(each, str) for each in table.get("needed-by", ()))
    )


def _key(table: Table) -> tuple[str, ...]:
    return tuple(str(table[key]) for key in _KEY)


def refuse_other_grafts(
    lock: Sequence[Table], name: WheelName, grafted: Iterable[GraftedLibrary], wheel: Path
) -> None:
    """Raise `LockError` if what is grafted differs from the lock.

    `name` is that of the wheel to be written, `wheel` the path of the wheel that was read.
    """
    made = tables_of(name, grafted)
    platform = ".".join(name.platforms)
    locked = [t for t in lock if (t["wheel"], t["platform"]) == (name.distribution, platform)]
    differences = list(_differences(locked, made))
    if differences:
        raise LockError(
            f"the grafts of `{name}` differ from `{LOCK_FILE}`"
            if lock
            else f"`{LOCK_FILE}` is absent or empty, and `locked` allows only what it lists",
            *differences,
            hint=f"to lock what is grafted now: `{WRITE_LOCK} {shlex.quote(operand(wheel))}`",
        )


def _differences(locked: Iterable[Table], made: Iterable[Table]) -> Iterator[str]:
    """Yield each difference in words."""
    before = {table["name"]: table for table in locked}
    now = {table["name"]: table for table in made}
    for name, table in now.items():
        if name not in before:
            owner = f" of {table['package']} {table['version']}" if table["package"] else ""
            yield f"`{name}` ({in_units(table['size'])}{owner}) is not in it"
            continue
        for key, value in before[name].items():
            if key == "needed-by":
                others = ", ".join(f"`{each}`" for each in table[key] if each not in value)
                if others:
                    yield f"`{name}` is needed by {others}, too"
            elif value != table.get(key, ""):
                yield f"`{name}` has {key} `{table.get(key, '')}`, not `{value}`"
    for name in before.keys() - now.keys():
        yield f"`{name}` is not grafted any more"
