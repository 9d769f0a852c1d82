"""Wheels of what a wheel requires, by name and version from the index, kept in a cache.

Nothing is built, and no URL of METADATA is followed: both would execute code of strangers. pip
is asked for single wheels, `--no-deps`: it builds what a requirement names by URL, whatever
`--only-binary` says. So the requirements are followed here.
"""

import sys
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import product
from pathlib import Path
from typing import TYPE_CHECKING

from packaging.tags import sys_tags

from wheelfix.errors import OutputError, ToolError
from wheelfix.grouping import flatten
from wheelfix.host.find_installers import own_pip
from wheelfix.host.pip_settings import folders_of, is_set, settings_of_pip, variables
from wheelfix.host.wheel_cache import (
    FETCHED,
    find_answer,
    keep_answer,
    keep_wheels,
    make_cache,
)
from wheelfix.loader.install_schemes import (
    STABLE_ABIS,
    interpreters,
    interpreters_of,
    is_free_threaded,
    python_version,
)
from wheelfix.named_tuple import NamedTuple
from wheelfix.providers.model import NO_INDEX, Provided
from wheelfix.providers.requirements_between_wheels import Part, each_requirement
from wheelfix.system.lazy_patterns import lazy_pattern
from wheelfix.system.subprocesses import run
from wheelfix.system.tempfiles import scratch
from wheelfix.text import count
from wheelfix.wheel.metadata_reader import read_unverified
from wheelfix.wheel.model import WheelName
from wheelfix.wheel.platform_tags import LEGACY, Family, parse_platform_tag
from wheelfix.wheel.requirements import name_of, read_requirement

if TYPE_CHECKING:
    from packaging.requirements import Requirement

WITHOUT_INDEX = "`--with` takes the path of a wheel, or of a folder with wheels, that no index has"
_TIMEOUT = 3600
"""Seconds: the wheels of CUDA are gigabytes."""
_NEWEST_GLIBC = 41
"""The minor version of glibc on the machine for which wheels of another machine are chosen."""
_MOST_TRIES = 1000
"""Questions to the index after which no other versions are tried."""
_MOST_LACKING = 20
"""Distributions without a wheel, after which no others are asked for: each takes a second."""
_NOT_ASKED = f"not asked for: {count(_MOST_LACKING, 'other')} have no wheel"
_BY_VERSION = lazy_pattern(r"[A-Za-z0-9._-]+(?:[<>=!~,][A-Za-z0-9.*+!_<>=~,-]*)?")
"""A name with versions. pip takes a text with a slash for a path, also after `===`."""
_SILENCE = lazy_pattern(r"Retry\(total=0,.{0,99} connection broken by '(\w+)")
"""What pip says when it gives up an index, with the error; of a name without files it says less."""
_WITHOUT_WHEEL = lazy_pattern(r"No matching distribution found for (\S+)")


class Fetched(NamedTuple):
    """What was fetched, and what of the requirements is not known."""

    wheels: tuple[Path, ...] = ()
    unknown: tuple[Provided, ...] = ()
    """What has no wheel on the index, each with the reason."""


def fetch(
    requirements: Sequence[str],
    dependent: WheelName,
    environ: Mapping[str, str],
    given: Collection[str] = (),
    named: Collection[str] = (),
) -> Fetched:
    """Return the wheels of `requirements`, and of what these require, to install with `dependent`.

    They are for this Python and machine if `dependent` can be installed here. `given` are the
    normalized names of distributions that are not fetched. `environ` is that of the user, with the
    settings of pip. Only an answer with wheels for all is kept: what has none may get one. Raises
    `OutputError` if the cache cannot be written, `SettingsError` if it has no place, or pip's
    settings name URLs, `ToolError` if pip does not run, or the user has `named` what has no wheel.
    """
    if not requirements:
        return Fetched()
    pip, options, python = own_pip(), _options(dependent), _python(dependent)
    settings = settings_of_pip(pip, environ)
    files = list(folders_of(settings))
    asked = (sorted(requirements), sorted(given), options, python)
    question = repr((asked, sorted(settings.items()), files))
    try:
        cache = make_cache(environ)
        answer = find_answer(cache, question)
        if answer is not None:
            return Fetched(answer)
        with scratch(FETCHED, parent=cache) as temporary:
            index = _Index([*pip, *options], variables(settings, environ, temporary), temporary)
            resolved = _resolve(requirements, _for_python(dependent, python), given, index)
            wheels = keep_wheels(cache, resolved.wheels)
            for unknown in resolved.unknown:
                if unknown.name in named:
                    raise ToolError(unknown.unknown_text, hint=unknown.build_advice)
            if not resolved.unknown:
                keep_answer(cache, question, wheels)
            return Fetched(wheels, resolved.unknown)
    except OSError as error:
        raise OutputError(
            f"cannot write to the cache `{error.filename or error}`: {error.strerror}",
            hint="set XDG_CACHE_HOME to a folder in which only you can write",
        ) from error


@dataclass(slots=True)
class _Index:
    """Asks pip for single wheels. Mutable."""

    pip: Sequence[str]
    environ: Mapping[str, str]
    folder: Path
    known: dict[frozenset[str], Path | str] = field(
        default_factory=dict[frozenset[str], Path | str]
    )
    """By the requirements on a distribution: its wheel, or what pip says against it."""
    silence: str = ""
    """How the index was found not to answer; then only folders of `find-links` are asked."""
    lacking: set[str] = field(default_factory=set[str])
    """The distributions for which the index has no wheel."""

    def ask(self, several: Collection[frozenset[str]]) -> None:
        """Learn the wheels for several sets of requirements, each on one distribution.

        A question takes a second, so that all are in one; the one that has no wheel is left out of
        the next.
        """
        for texts in several:
            self.known.update((texts, reason) for text in texts if (reason := _refusal(text)))
        while new := [texts for texts in several if texts not in self.known]:
            given_up = "" if "PIP_FIND_LINKS" in self.environ else self.silence
            if given_up := given_up or _NOT_ASKED * (len(self.lacking) >= _MOST_LACKING):
                self.known.update(dict.fromkeys(new, given_up))
                return
            try:
                self.known.update(self._fetched(new))
            except ToolError as error:
                self._learn(new, error.message)

    def _learn(self, asked: Sequence[frozenset[str]], message: str) -> None:
        """Learn from an error of pip which of `asked` has no wheel; else each is asked alone."""
        silence = _SILENCE.search(message)
        if silence and not self.silence:
            self.silence = f"the index does not answer ({silence[1]})"
            self.pip = [*self.pip, "--no-index"]
            return
        named = {name_of(line[1]) for line in _WITHOUT_WHEEL.finditer(message)}
        lacking = [texts for texts in asked if name_of(min(texts)) in named]
        if lacking or len(asked) == 1:
            self.lacking.update(name_of(min(texts)) for texts in lacking or asked)
            self.known |= dict.fromkeys(lacking or asked, self.silence or self._reason(message))
        else:
            for texts in asked:
                self.ask([texts])

    def _reason(self, message: str) -> str:
        asks = not is_set("PIP_NO_INDEX", self.environ) or "PIP_FIND_LINKS" in self.environ
        return _reason(message) + ("" if asks else f", {NO_INDEX}")

    def _fetched(self, asked: Sequence[frozenset[str]]) -> dict[frozenset[str], Path | str]:
        place = self.folder / f"wheels-{len(self.known)}"
        words = ["--no-deps", "--only-binary=:all:", "-d", str(place)]
        call = [*self.pip, *words, *sorted(flatten(asked))]
        # In a folder of our own, where no requirement is the name of a file.
        run(call, env=self.environ, timeout=_TIMEOUT, cwd=self.folder)
        paths = {name_of(path.name.partition("-")[0]): path for path in place.glob("*.whl")}
        return {texts: paths.get(name_of(min(texts)), "pip fetched no wheel") for texts in asked}


class _Settled(NamedTuple):
    """The wheels for all that is required, and what has none."""

    wheels: tuple[Path, ...]
    unknown: tuple[Provided, ...]
    conflicts: tuple[Path, ...]
    """Of what excludes other requirements, the wheel that requires it."""


def _resolve(
    requirements: Sequence[str], dependent: WheelName, given: Collection[str], index: _Index
) -> _Settled:
    """Return the wheels of all that is required, directly or not.

    Where requirements of two distributions exclude each other, an older version of the last is
    tried.
    """
    root = Part(dependent, tuple(requirements))
    refused: dict[str, set[str]] = {}
    first = settled = _settle(root, given, refused, index)
    while settled.conflicts and len(index.known) <= _MOST_TRIES:
        name = WheelName.parse(settled.conflicts[0].name)
        own = name_of(name.distribution)
        refused.setdefault(own, set()).add(f"{own}!={name.version}")
        settled = _settle(root, given, refused, index)
    is_in_vain = settled.conflicts or any(unknown.name in refused for unknown in settled.unknown)
    return first if is_in_vain else settled


def _settle(
    root: Part, given: Collection[str], refused: Mapping[str, Collection[str]], index: _Index
) -> _Settled:
    """Fetch until nothing more is required. Requirements are only added, so that it ends."""
    wanted: dict[str, set[str]] = {}
    chosen: dict[str, Path] = {}
    before: dict[str, frozenset[str]] = {}
    while True:
        requires = {name: read_unverified(p).metadata.requires_dist for name, p in chosen.items()}
        for name, indirect in each_requirement(root, requires):
            if name not in given:
                texts = wanted.setdefault(name, set(refused.get(name, ())))
                texts.add(_text_of(indirect.requirement))
        asked = {name: frozenset(texts) for name, texts in sorted(wanted.items())}
        index.ask(asked.values())
        answers = {name: index.known[wanted] for name, wanted in asked.items()}
        if asked == before:
            break
        chosen = {name: wheel for name, wheel in answers.items() if isinstance(wheel, Path)}
        before = asked
    unknown = {name: reason for name, reason in answers.items() if isinstance(reason, str)}
    return _Settled(
        wheels=tuple(chosen.values()),
        unknown=tuple(
            Provided(requirement=_joined(asked[name]), unknown=reason)
            for name, reason in unknown.items()
        ),
        conflicts=tuple(
            chosen[requiring]
            for name, reason in unknown.items()
            if len(asked[name]) > 1 and "versions: none" not in reason
            for requiring in reversed(requires)
            if name in map(name_of, requires[requiring])
        ),
    )


def _text_of(requirement: "Requirement") -> str:
    """Return a requirement without marker and extras, whose wheels an index can have."""
    url = f" @ {requirement.url}" if requirement.url else ""
    return f"{requirement.name}{requirement.specifier}{url}"


def _refusal(text: str) -> str:
    """Return why the index is not asked for a requirement; empty if it is."""
    if "@" in text:  # it would be fetched from where a stranger says, and built
        return "URLs are not followed, and nothing is built"
    return "" if _BY_VERSION.fullmatch(text) else "it is not a name with versions"


def _joined(texts: Collection[str]) -> str:
    """Return one requirement for several on one distribution; one by URL stands for all."""
    first, *_ = sorted(texts, key=lambda text: "@" not in text)
    if "@" in first:
        return first
    specifiers = (str(read_requirement(text).specifier) for text in sorted(texts))
    return read_requirement(first).name + ",".join(filter(None, specifiers))


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
    triples = set(product(dependent.pythons, dependent.abis, dependent.platforms))
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
