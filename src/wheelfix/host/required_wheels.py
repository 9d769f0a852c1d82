"""Wheels of what a wheel requires, by name and version from the index, kept in a cache.

Nothing is built, and no URL of METADATA is followed: both would execute code of strangers. pip
is asked for single wheels, `--no-deps`: it builds what a requirement names by URL, whatever
`--only-binary` says. So the requirements are followed here.
"""

import re
import shlex
import sys
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from packaging.requirements import Requirement
from packaging.tags import sys_tags

from wheelfix.errors import OutputError, ToolError
from wheelfix.host.find_installers import own_pip
from wheelfix.host.pip_settings import folders_of, settings_of_pip, variables
from wheelfix.host.wheel_cache import FETCHED, find_answer, keep_answer, make_cache
from wheelfix.loader.install_schemes import (
    STABLE_ABIS,
    interpreters,
    interpreters_of,
    is_free_threaded,
    python_version,
)
from wheelfix.providers.requirements_between_wheels import Part, each_requirement
from wheelfix.system.subprocesses import run
from wheelfix.system.tempfiles import scratch
from wheelfix.text import join_some
from wheelfix.wheel.model import WheelName
from wheelfix.wheel.platform_tags import LEGACY, Family, parse_platform_tag
from wheelfix.wheel.requirements import name_of
from wheelfix.wheel.unverified_reader import read_unverified

WITHOUT_INDEX = "`--with` takes the path of a wheel, or of a folder with wheels, that no index has"
_TIMEOUT = 3600
"""Seconds: the wheels of CUDA are gigabytes."""
_NEWEST_GLIBC = 41
"""The minor version of glibc on the machine for which wheels of another machine are chosen."""
_MOST_TRIES = 1000
"""Questions to the index after which no other versions are tried."""
_BY_VERSION = re.compile(r"[A-Za-z0-9._-]+(?:(?:[<>=!~]=?|,)[A-Za-z0-9.*+!_-]*)*")
"""A name with versions. pip takes a text with a slash for a path, also after `===`."""


def fetch(
    requirements: Sequence[str],
    dependent: WheelName,
    environ: Mapping[str, str],
    given: Collection[str] = (),
) -> tuple[Path, ...]:
    """Return the wheels of `requirements`, and of what these require, to install with `dependent`.

    They are for this Python and machine if `dependent` can be installed here. `given` are the
    normalized names of distributions that are not fetched. `environ` is that of the user, with the
    settings of pip. Raises `ToolError` for what has no wheel on the index, `OutputError` if the
    cache cannot be written, `SettingsError` if it has no place, or pip's settings name URLs.
    """
    if not requirements:
        return ()
    pip, options, python = own_pip(), _options(dependent), _python(dependent)
    settings = settings_of_pip(pip, environ)
    files = list(folders_of(settings))
    asked = (sorted(requirements), sorted(given), options, python)
    question = repr((asked, sorted(settings.items()), files))
    try:
        cache = make_cache(environ)
        answer = find_answer(cache, question)
        if answer is None:
            with scratch(FETCHED, parent=cache) as temporary:
                index = _Index([*pip, *options], variables(settings, environ, temporary), temporary)
                wheels = _resolve(requirements, _for_python(dependent, python), given, index)
                answer = keep_answer(cache, question, wheels)
    except ToolError as error:
        raise ToolError(
            f"`{dependent}`: {error.message}", hint=error.hint or WITHOUT_INDEX
        ) from error
    except OSError as error:
        raise OutputError(
            f"cannot write to the cache `{error.filename or error}`: {error.strerror}",
            hint="set XDG_CACHE_HOME to a folder in which only you can write",
        ) from error
    return answer


@dataclass(frozen=True, slots=True)
class _Index:
    """Asks pip for single wheels."""

    pip: Sequence[str]
    environ: Mapping[str, str]
    folder: Path
    known: dict[frozenset[str], Path | str] = field(
        default_factory=dict[frozenset[str], Path | str]
    )
    """By the requirements on a distribution: its wheel, or what pip says against it."""

    def ask(self, several: Iterable[frozenset[str]]) -> None:
        """Learn the wheels for several sets of requirements, each on one distribution.

        Of those that have no wheel, the first is learned: each question takes a second.
        """
        new = [one for one in several if one not in self.known]
        if not new:
            return
        place = self.folder / f"wheels-{len(self.known)}"
        words = ["--no-deps", "--only-binary=:all:", "-d", str(place)]
        call = [*self.pip, *words, *sorted(text for one in new for text in one)]
        try:
            # In a folder of our own, where no requirement is the name of a file.
            run(call, env=self.environ, timeout=_TIMEOUT, cwd=self.folder)
        except ToolError as error:
            if len(new) == 1:
                self.known[new[0]] = _reason(error.message)
            else:
                for one in new:
                    self.ask([one])
                    if isinstance(self.known[one], str):  # it ends the resolution
                        break
            return
        found = {name_of(path.name.partition("-")[0]): path for path in place.glob("*.whl")}
        self.known.update(
            (one, found.get(name_of(min(one)), "pip fetched no wheel")) for one in new
        )


class _NoWheelError(ToolError):
    """No wheel was found for the requirements on one distribution."""

    def __init__(self, texts: Collection[str], reason: str, requiring: Sequence[Path] = ()) -> None:
        """Say why, and how to go on; `requiring` are the wheels that have those requirements."""
        command = shlex.join(["pip", "wheel", "-w", "wheels", *sorted(texts)])
        super().__init__(
            f"{join_some(sorted(texts))} is not known: {reason}",
            hint=f"`{command}` may build it and so execute its code; then add `--with wheels`",
        )
        is_conflict = len(texts) > 1 and "versions: none" not in reason
        self.requiring = requiring if is_conflict else ()


def _resolve(
    requirements: Sequence[str], dependent: WheelName, given: Collection[str], index: _Index
) -> list[Path]:
    """Return the wheels of all that is required, directly or not.

    Where requirements of two distributions exclude each other, an older version of the last is
    tried. Raises `ToolError` for what has no wheel.
    """
    root = Part(dependent, tuple(requirements))
    refused: dict[str, set[str]] = {}
    first: ToolError | None = None
    while True:
        try:
            return _settle(root, given, refused, index)
        except _NoWheelError as error:
            first = first or error
            if not error.requiring or len(index.known) > _MOST_TRIES:
                raise first from None
            name = WheelName.parse(error.requiring[-1].name)
            own = name_of(name.distribution)
            refused.setdefault(own, set()).add(f"{own}!={name.version}")


def _settle(
    root: Part, given: Collection[str], refused: Mapping[str, Collection[str]], index: _Index
) -> list[Path]:
    """Fetch until nothing more is required. Requirements are only added, so that it ends."""
    wanted: dict[str, set[str]] = {}
    chosen: dict[str, Path] = {}
    before: dict[str, frozenset[str]] = {}
    while True:
        requires = {name: read_unverified(p).metadata.requires_dist for name, p in chosen.items()}
        for name, one in each_requirement(root, requires):
            if name not in given:
                texts = wanted.setdefault(name, set(refused.get(name, ())))
                texts.add(_by_version(one.requirement))
        asked = {name: frozenset(texts) for name, texts in sorted(wanted.items())}
        if asked == before:
            return [chosen[name] for name in asked]
        index.ask(asked.values())
        for name, some in asked.items():
            found = index.known[some]
            if isinstance(found, str):
                named = (p for p, its in requires.items() if name in map(name_of, its))
                raise _NoWheelError(some, found, [chosen[one] for one in named])
            chosen[name] = found
        before = asked


def _by_version(requirement: Requirement) -> str:
    """Return a requirement without marker and extras, whose wheels an index can have.

    Raises `ToolError` for a URL: it would be fetched from where a stranger says, and built.
    """
    text = f"{requirement.name}{requirement.specifier}"
    if requirement.url:
        raise _NoWheelError([f"{requirement.name} @ {requirement.url}"], "URLs are not followed")
    if not _BY_VERSION.fullmatch(text):
        raise _NoWheelError([text], "it is not a name with versions")
    return text


def _reason(message: str) -> str:
    """Return what pip says about an error: the line with versions, or else the last."""
    lines = message.splitlines()
    errors = [line.partition("ERROR: ")[2] for line in lines if "ERROR: " in line]
    errors = [line for line in errors if line != "Exception:"]
    return next((line for line in errors if "from versions:" in line), "") or next(
        reversed(errors),
        lines[-1],  # of a traceback, such as about the name of a file
    )


def _for_python(dependent: WheelName, python: str) -> WheelName:
    """Return the name of a wheel for one Python of `dependent`, for which markers are evaluated."""
    tag = f"cp{python_version(python).replace('.', '')}"
    return dependent._replace(distribution="any", pythons=(tag,), abis=("none",))


def _python(dependent: WheelName) -> str:
    """Return the Python to resolve for: this one, or else the newest that the tags allow."""
    here = f"python{sys.version_info.major}.{sys.version_info.minor}"
    allowed = interpreters(dependent)
    return here if here in allowed else allowed[-1]


def _options(dependent: WheelName) -> list[str]:
    """Return the command and options of pip that fetch wheels for `dependent`."""
    words = ["--quiet", "--no-input", "download", "--progress-bar=off"]
    triples = {
        (python, abi, platform)
        for python in dependent.pythons
        for abi in dependent.abis
        for platform in dependent.platforms
    }
    if any((tag.interpreter, tag.abi, tag.platform) in triples for tag in sys_tags()):
        return words
    python = _python(dependent)
    version = python_version(python)
    tag = f"cp{version.replace('.', '')}"
    own = f"{tag}t" if is_free_threaded(python) else tag
    stable = (abi for abi in sorted(STABLE_ABIS) if python in interpreters_of(tag, abi))
    return [
        *words,
        f"--python-version={version}",
        "--implementation=cp",
        *(f"--abi={name}" for name in (own, *stable, "none")),
        *(f"--platform={platform}" for platform in _platforms(dependent)),
    ]


def _platforms(dependent: WheelName) -> Iterator[str]:
    """Yield the platform tags that a machine of `dependent` takes, the best first."""
    for tag in dependent.platforms:
        parsed = parse_platform_tag(tag)
        if parsed.family is Family.MANYLINUX:
            for minor in range(_NEWEST_GLIBC, 4, -1):
                yield f"manylinux_2_{minor}_{parsed.arch}"
                yield from (
                    f"{name}_{parsed.arch}" for name, v in LEGACY.items() if v == (2, minor)
                )
        elif parsed.family is Family.MUSLLINUX:
            yield from (f"musllinux_1_{minor}_{parsed.arch}" for minor in (2, 1, 0))
        yield f"linux_{parsed.arch}"
