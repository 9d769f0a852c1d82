"""A new environment for a wheel: with what it requires, and with others beside it."""

import os
from collections.abc import Generator, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

from wheelfix.errors import SettingsError
from wheelfix.grouping import flatten
from wheelfix.host.fresh_environments import install, make
from wheelfix.host.neighbors import named_wheels, refuse_other_text
from wheelfix.host.required_wheels import fetch
from wheelfix.host.verify import usable_pythons
from wheelfix.host.verify_values import Options
from wheelfix.named_tuple import NamedTuple
from wheelfix.providers.model import Provided
from wheelfix.providers.requirements_between_wheels import Part, applicable_requirements
from wheelfix.system.paths import is_named_folder
from wheelfix.system.tempfiles import scratch
from wheelfix.wheel.model import Wheel, WheelName
from wheelfix.wheel.reader import open_wheel
from wheelfix.wheel.required_file import no_wheel_error, require_file
from wheelfix.wheel.requirements import each_version, name_of


class Made(NamedTuple):
    """An environment that was made for a wheel."""

    folder: Path
    unknown: tuple[Provided, ...] = ()
    """What is required, and has no wheel."""
    size: int = 0
    """Bytes of the wheels in it."""


@contextmanager
def environment_with(
    path: Path, others: Sequence[str], folder: Path, environ: Mapping[str, str]
) -> Generator[Made]:
    """Yield a new virtual environment, which is removed at the end.

    The wheel at `path` is installed in it, `others` (wheels, folders of wheels, requirements), and
    what all of them require, of which wheels are fetched to the cache. Relative
    paths start in `folder`; `environ` is that of the user. Raises `SettingsError` for a text that
    names nothing, `ToolError` for what cannot be installed.
    """
    require_file(path)
    own = _distribution(path)
    files = [file for file in _files(others) if _distribution(file) != own]
    wheel = _read(path)
    requirements = _requirements([wheel, *map(_read, files)])
    requirements += (_one_version(text) for text in others if not _is_file(text))
    given = {own, *map(_distribution, files)}
    fetched = fetch(requirements, wheel.name, environ, given, distributions_of(path, others))
    beside = [folder / file for file in (*files, *fetched.wheels)]
    size = sum(file.stat().st_size for file in (folder / path, *beside))
    python, *_ = usable_pythons(wheel, Options(), environ)
    with scratch() as own_folder:
        place = make("venv", python, Path(os.path.realpath(own_folder)), environ)
        install(folder / path, wheel, place, beside=beside)
        yield Made(place.root, fetched.unknown, size)


def distributions_of(path: Path, others: Sequence[str]) -> list[str]:
    """Return the names of the distributions that the wheel at `path` and `others` are."""
    texts = (name_of(text) for text in others if not _is_file(text))
    return list(dict.fromkeys((*map(_distribution, (path, *_files(others))), *texts)))


def _read(path: Path) -> Wheel:
    with open_wheel(path) as archive:
        return archive.wheel


def _distribution(path: Path) -> str:
    return name_of(WheelName.parse(path.name).distribution)


def _requirements(wheels: Sequence[Wheel]) -> list[str]:
    parts = (Part(wheel.name, wheel.metadata.requires_dist) for wheel in wheels)
    return [str(requirement) for requirement in flatten(map(applicable_requirements, parts))]


def _one_version(text: str) -> str:
    first, *others = each_version(text)
    refuse_other_text(first)
    if others:
        raise SettingsError(
            f"`--with {text}` lists versions, and an environment has one of them",
            hint=f"choose one: `--with {first}`",
        )
    return first


def _is_file(text: str) -> bool:
    return text.endswith(".whl") or is_named_folder(text)


def _files(others: Sequence[str]) -> Iterator[Path]:
    """Yield the wheels that `others` name.

    Raises `SettingsError` for a file that is not there, and for a folder without a wheel.
    """
    for text in filter(_is_file, others):
        wheels = named_wheels(text)
        if not wheels:
            raise no_wheel_error(text)
        for path in wheels:
            require_file(path)
            yield path
