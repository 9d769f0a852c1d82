"""Wheels of what a wheel requires, as an installer resolves and fetches them, kept in a cache.

Below the cache's folder are the wheels, and for each question a list of those that answer it. What
is listed there is not fetched again.
"""

import hashlib
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path

from packaging.tags import sys_tags

from wheelfix.errors import OutputError, SettingsError, ToolError
from wheelfix.host.find_installers import any_pip
from wheelfix.host.machine_files import (
    MAX_LIBRARY,
    MAX_TEXT,
    read_trusted,
    trusted_file,
    trusted_path,
)
from wheelfix.loader.install_schemes import (
    STABLE_ABIS,
    interpreters,
    interpreters_of,
    is_free_threaded,
    python_version,
)
from wheelfix.system.subprocesses import run
from wheelfix.system.tempfiles import scratch, write_whole
from wheelfix.text import FEW, join_some
from wheelfix.wheel.model import WheelName
from wheelfix.wheel.platform_tags import LEGACY, Family, parse_platform_tag

WITHOUT_INDEX = "`--with` takes the path of a wheel, or of a folder with wheels, that no index has"
_TIMEOUT = 3600
"""Seconds: the wheels of CUDA are gigabytes."""
_NEWEST_GLIBC = 41
"""The minor version of glibc on the machine for which wheels of another machine are chosen."""


def fetch(
    requirements: Sequence[str], dependent: WheelName, environ: Mapping[str, str]
) -> tuple[Path, ...]:
    """Return the wheels of `requirements`, and of what these require, to install with `dependent`.

    pip resolves them, for this Python and machine if `dependent` can be installed here; then it
    also builds what has no wheel, as an installation would. `environ` is that of the user, with
    the settings of pip. Raises `ToolError` if pip fails, `OutputError` if the cache cannot be
    written, `SettingsError` if it has no place.
    """
    if not requirements:
        return ()
    cache = cache_folder(environ)
    wheels = cache / "wheels"
    command = _command(dependent)
    question = repr((sorted(requirements), command[-1], _python(dependent)))
    answer = cache / "resolved" / f"{hashlib.sha256(question.encode()).hexdigest()[:32]}.txt"
    with suppress(OSError):
        names = read_trusted(answer, MAX_TEXT).decode().splitlines()
        return tuple(trusted_file(wheels / name, MAX_LIBRARY, within=wheels) for name in names)
    try:
        for folder in (wheels, answer.parent):
            folder.mkdir(parents=True, exist_ok=True)
            trusted_path(folder)
        with scratch("fetch-", parent=cache) as temporary:
            target = ["-w" if "wheel" in command else "-d", str(temporary)]
            given = {**environ, "PIP_DISABLE_PIP_VERSION_CHECK": "1"}
            run([*command, *target, *requirements], env=given, timeout=_TIMEOUT)
            names = sorted(path.name for path in temporary.glob("*.whl"))
            for name in names:
                (temporary / name).replace(wheels / name)
    except ToolError as error:
        raise ToolError(
            f"{join_some(requirements, FEW)} cannot be fetched for `{dependent}`: "
            f"{_reason(error.message)}",
            hint=WITHOUT_INDEX,
        ) from error
    except OSError as error:
        raise OutputError(
            f"cannot write to the cache `{error.filename or cache}`: {error.strerror}",
            hint="set XDG_CACHE_HOME to a folder in which only you can write",
        ) from error
    write_whole(answer, "\n".join(names).encode())
    return tuple(wheels / name for name in names)


def cache_folder(environ: Mapping[str, str]) -> Path:
    """Return wheelfix's folder below XDG_CACHE_HOME (XDG Base Directory Specification)."""
    base = environ.get("XDG_CACHE_HOME", "")
    home = environ.get("HOME", "")
    if base.startswith("/"):
        return Path(base) / "wheelfix"
    if not home.startswith("/"):
        raise SettingsError("there is no place for a cache", hint="set XDG_CACHE_HOME")
    return Path(home) / ".cache" / "wheelfix"


def _reason(message: str) -> str:
    """Return the last line of pip about an error, without its prefix."""
    errors = [line for line in message.splitlines() if "ERROR: " in line]
    return errors[-1].partition("ERROR: ")[2] if errors else message


def _python(dependent: WheelName) -> str:
    """Return the Python to resolve for: this one, or else the newest that the tags allow."""
    here = f"python{sys.version_info.major}.{sys.version_info.minor}"
    allowed = interpreters(dependent)
    return here if here in allowed else allowed[-1]


def _command(dependent: WheelName) -> list[str]:
    """Return the command that fetches wheels for `dependent`; its last word names the machine."""
    pip = [*any_pip(), "--quiet", "--no-input"]
    triples = {
        (python, abi, platform)
        for python in dependent.pythons
        for abi in dependent.abis
        for platform in dependent.platforms
    }
    if any((tag.interpreter, tag.abi, tag.platform) in triples for tag in sys_tags()):
        return [*pip, "wheel", "--progress-bar=off"]
    python = _python(dependent)
    version = python_version(python)
    tag = f"cp{version.replace('.', '')}"
    own = f"{tag}t" if is_free_threaded(python) else tag
    stable = (abi for abi in sorted(STABLE_ABIS) if python in interpreters_of(tag, abi))
    return [
        *pip,
        "download",
        "--only-binary=:all:",
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
