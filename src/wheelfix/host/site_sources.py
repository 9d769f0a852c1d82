"""Python sources of an installed environment, and the variables that its files set."""

import json
import os
import posixpath
import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from itertools import chain
from pathlib import Path
from typing import cast

from wheelfix.analysis.installed_symbols import Variable
from wheelfix.analysis.world import World
from wheelfix.budget import Budget
from wheelfix.host.cached_facts import EnvironmentCache
from wheelfix.host.machine_files import MAX_TEXT, folders_below, read_regular
from wheelfix.host.prefixes import is_conda, is_venv, prefixes_around
from wheelfix.loader.install_schemes import SITE_FOLDERS
from wheelfix.wheel.python_opens import visit_source
from wheelfix.wheel.python_parsing import STEPS_PER_WHEEL
from wheelfix.wheel.python_searched_folders import MAX_SOURCE

SiteSources = Mapping[str, Mapping[str, bytes]]
"""Site-packages folder -> sources below it, by their paths in it."""
_SETS = re.compile(
    rb"environ\[[\"'][A-Z_]*(?:PATH|DIR|DATA|LIB|HOME|ROOT|PREFIX)[A-Z_]*[\"']\] *\+?=(?!=)"
)
_IN_SHELL = re.compile(
    rb"""^[ \t]*(?:export[ \t]+)?LD_LIBRARY_PATH=["']?([^"'\s;]+)""", re.MULTILINE
)
_PREFIX = re.compile(r"\$\{?(?:CONDA_PREFIX|VIRTUAL_ENV)\b\}?")
_VARIABLE = "LD_LIBRARY_PATH"
_BEFORE = re.compile(r"\$\{?LD_LIBRARY_PATH(?::\+:?\$\{?LD_LIBRARY_PATH\}?:?)?\}?")
"""What it was before, also as `${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}`."""


def read_sources(world: World, objects: EnvironmentCache) -> SiteSources:
    """Return the sources that set variables of the process or mention RTLD_GLOBAL."""
    folders = sorted({path.removesuffix(member) for path, member in world.members.items()})
    return {
        folder: dict(telling_sources(folder, "", b"telling", _is_telling, objects))
        for folder in folders
        if posixpath.basename(folder.rstrip("/")) in SITE_FOLDERS
    }


def _is_telling(source: bytes) -> bool:
    return b"RTLD_GLOBAL" in source or (b"environ[" in source and bool(_SETS.search(source)))


def telling_sources(
    folder: str,
    below: str,
    question: bytes,
    tells: Callable[[bytes], bool],
    objects: EnvironmentCache,
) -> Iterator[tuple[str, bytes]]:
    """Yield the Python sources in `below` that `tells` is true of, with paths from `folder`.

    The answers are kept in `objects`, by the question.
    """
    for place, names in sorted(folders_below(f"{folder}{below}".rstrip("/"))):
        sources = sorted(name for name in names if name.endswith(".py"))
        facts = objects.facts_of_files(place, sources)
        known = cast("tuple[str, ...] | None", facts.get(question))
        told: list[str] = []
        for name in sources if known is None else known:
            with suppress(OSError):
                data = read_regular(f"{place}/{name}", MAX_SOURCE)
                if tells(data):
                    told.append(name)
                    yield f"{place}/{name}".removeprefix(folder), data
        facts[question] = tuple(told)


def read_variables(world: World, sources: SiteSources) -> Iterator[Variable]:
    """Yield the variables with directories that files of an environment set.

    Those are Python sources when they are imported, `.pth` files, the scripts that activate the
    environment, and its settings in conda.
    """
    for folder, some in sources.items():
        budget = Budget("the Python sources", STEPS_PER_WHEEL)
        setting = {path: data for path, data in some.items() if _SETS.search(data)}
        for path, data in chain(setting.items(), _path_files(folder)):
            for line, name, directories in visit_source(data, path, {}, budget).assignments:
                if directories:
                    places = tuple(
                        os.path.normpath(posixpath.join(folder, place)) for place in directories
                    )
                    yield Variable(name, places, f"{folder}{path}", line, before_start=False)
    for prefix in prefixes_around(Path(world.where)):
        if is_venv(prefix) or is_conda(prefix):
            yield from _of_activation(prefix)
            return


def _path_files(folder: str) -> Iterator[tuple[str, bytes]]:
    """Yield the lines of `.pth` files that Python runs, as sources."""
    with suppress(OSError):
        for path in sorted(Path(folder).glob("*.pth")):
            with suppress(OSError):
                data = read_regular(path, MAX_TEXT)
                lines = (line if line.startswith(b"import") else b"" for line in data.splitlines())
                source = b"\n".join(lines)
                if _SETS.search(source):
                    yield path.name, source


def _of_activation(prefix: Path) -> Iterator[Variable]:
    """Yield LD_LIBRARY_PATH as a shell has it in which the environment is active."""
    for path in (prefix / "bin/activate", *sorted(prefix.glob("etc/conda/activate.d/*.sh"))):
        with suppress(OSError):
            data = read_regular(path, MAX_TEXT)
            for found in _IN_SHELL.finditer(data):
                line = data.count(b"\n", 0, found.start(1)) + 1
                yield from _in_shell(prefix, path, line, os.fsdecode(found[1]))
    path = prefix / "conda-meta/state"
    with suppress(OSError, ValueError, AttributeError):
        state = cast("dict[str, dict[str, str]]", json.loads(read_regular(path, MAX_TEXT)))
        value = state.get("env_vars", {}).get(_VARIABLE)
        if isinstance(value, str):
            yield from _in_shell(prefix, path, 1, value)


def _in_shell(prefix: Path, path: Path, line: int, value: str) -> Iterator[Variable]:
    elements = _PREFIX.sub(lambda _: str(prefix), _BEFORE.sub(":", value)).split(":")
    known = tuple(one for one in elements if one.startswith("/") and "$" not in one)
    if known:
        yield Variable(_VARIABLE, known, str(path), line, before_start=True)
