"""The settings of pip that a fetch obeys: where the index is, and which versions are allowed.

pip reads them from variables and files. Others, such as `requirement` or `no-binary`, would make
it fetch or build more than was asked for, so they do not reach it.
"""

import ast
import os
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from functools import lru_cache, partial
from operator import attrgetter
from pathlib import Path
from stat import S_ISREG

from wheelfix.errors import SettingsError
from wheelfix.grouping import flatten
from wheelfix.host.machine_files import MAX_TEXT, read_regular
from wheelfix.system.lazy_patterns import lazy_pattern
from wheelfix.system.subprocesses import run
from wheelfix.wheel.requirements import read_requirement

_OF_INDEX = frozenset({"index-url", "pypi-url", "extra-index-url", "no-index", "find-links"})
_OBEYED = frozenset(
    {
        *_OF_INDEX,
        *("cert", "client-cert", "trusted-host", "proxy", "timeout", "default-timeout", "retries"),
        *("cache-dir", "no-cache-dir", "pre", "uploaded-prior-to", "use-feature", "use-deprecated"),
        *("constraint", "keyring-provider"),
    }
)
"""The long options."""
_LINE = lazy_pattern(r"(?P<section>[^\s=]+)\.(?P<option>[\w-]+)=(?P<value>['\"].*)")
"""A line of `pip config list`."""
_WORD, _WHOLE = r"\S+", r"(?s).+"
_PLACES = {
    **dict.fromkeys(("PIP_FIND_LINKS", "PIP_CONSTRAINT", "PIP_BUILD_CONSTRAINT"), _WORD),
    **dict.fromkeys(("PIP_REQUIREMENT", "UV_CONSTRAINT", "UV_BUILD_CONSTRAINT"), _WORD),
    **dict.fromkeys(("UV_OVERRIDE", "UV_EXCLUDE", "UV_EXTRA_INDEX_URL"), _WORD),
    **dict.fromkeys(("PIP_CONFIG_FILE", "UV_CONFIG_FILE", "PIP_CERT", "PIP_CLIENT_CERT"), _WHOLE),
    **dict.fromkeys(("PIP_CACHE_DIR", "UV_CACHE_DIR", "PIP_LOG", "UV_INDEX_URL", "NETRC"), _WHOLE),
    "UV_FIND_LINKS": "[^,]+",
    "UV_INDEX": r"(?<![^\s=])(?![\w.-]+=)\S+",
    "UV_DEFAULT_INDEX": r"(?<![^=])(?![\w.-]+=).+",
}
"""The variables of the installers that name places, and the pattern of one: uv takes `name=INDEX`,
and no `~`."""
_FILE = lazy_pattern(r"\Afile:(//)?")


@lru_cache(4)
def _listed(
    pip: tuple[str, ...], environ: tuple[tuple[str, str], ...], command: str
) -> dict[str, str]:
    """Return the settings that a command of pip obeys, by option; a variable comes last."""
    # In the root: uv, which may run pip, obeys the configuration of the folder it is started in.
    printed = run([*pip, "config", "list"], env=dict(environ), timeout=60, cwd=Path("/")).stdout
    lines = printed.splitlines()
    settings = [match for line in lines if (match := _LINE.fullmatch(line))]
    return {
        match["option"]: str(ast.literal_eval(match["value"]))
        for section in ("global", command, ":env:")
        for match in settings
        if match["section"] == section and match["option"] in _OBEYED
    }


def names_index(pip: Sequence[str], environ: Mapping[str, str]) -> bool:
    """Return whether pip's settings say where to look. Raises `ToolError` if pip fails."""
    return not _OF_INDEX.isdisjoint(_listed(tuple(pip), tuple(sorted(environ.items())), "install"))


def settings_of_pip(pip: Sequence[str], environ: Mapping[str, str]) -> dict[str, str]:
    """Return pip's settings by option, with what they name on this machine.

    The constraints are lines of requirements, without files and URLs, and each folder of
    `find-links` is absolute. Raises `ToolError` if pip fails, `SettingsError` for constraints that
    cannot be read, or that lead elsewhere.
    """
    given = tuple(sorted(from_here(with_absolute_path(environ)).items()))
    settings = dict(_listed(tuple(pip), given, "download"))
    files = settings.pop("constraint", "").split()
    if files:
        settings["constraint"] = "\n".join(flatten(map(_constraints, files)))
    if "find-links" in settings:
        absolute = partial(_absolute, environ.get("HOME", "~"))
        settings["find-links"] = re.sub(_WORD, absolute, settings["find-links"])
    return settings


def folders_of(settings: Mapping[str, str]) -> Iterator[tuple[str, int, int, int]]:
    """Yield names, sizes, mtimes and ctimes of the wheels in folders of `find-links`.

    Raises `SettingsError` for a FIFO or a device there: pip would wait for it.
    """
    for place in settings.get("find-links", "").split():
        with suppress(OSError), os.scandir(_FILE.sub("", place)) as entries:
            for entry in sorted(entries, key=attrgetter("path")):
                if entry.name.endswith(".whl"):
                    with suppress(OSError):  # a link to nothing
                        status = entry.stat()
                        if not S_ISREG(status.st_mode) and not entry.is_dir():
                            raise SettingsError(
                                f"`{entry.path}` of pip's find-links is not a regular file",
                                hint="remove it: pip would wait for it",
                            )
                        yield entry.path, status.st_size, status.st_mtime_ns, status.st_ctime_ns


def variables(
    settings: Mapping[str, str], environ: Mapping[str, str], folder: Path
) -> dict[str, str]:
    """Return the environment variables of a pip that obeys only `settings`.

    Its temporary files, and the file of the constraints, are in `folder`.
    """
    given = dict(settings)
    if "constraint" in given:
        file = folder / "constraints.txt"
        file.write_text(given["constraint"], encoding="utf-8")
        given["constraint"] = str(file)
    kept = {name: value for name, value in environ.items() if not name.startswith("PIP_")}
    return {
        **from_here(with_absolute_path(kept)),
        **{f"PIP_{option.upper().replace('-', '_')}": value for option, value in given.items()},
        "PIP_CONFIG_FILE": os.devnull,  # no file of pip is read
        "PIP_DISABLE_PIP_VERSION_CHECK": "1",
        "TMPDIR": str(folder),
    }


def is_set(variable: str, environ: Mapping[str, str]) -> bool:
    """Return whether a variable of a yes-or-no option says yes (`strtobool` of pip)."""
    return environ.get(variable, "").lower() not in {"", "0", "false", "no", "off", "n", "f"}


def with_absolute_path(environ: Mapping[str, str]) -> dict[str, str]:
    """Return `environ` without the relative folders of PATH: pip runs `rustc` and `lsb_release`."""
    folders = (folder for folder in environ.get("PATH", "").split(":") if folder.startswith("/"))
    return {**environ, **({"PATH": ":".join(folders)} if "PATH" in environ else {})}


def from_here(environ: Mapping[str, str]) -> dict[str, str]:
    """Return `environ` with the places that installers would look for in this directory."""
    named = dict(environ)
    for name in _PLACES.keys() & environ.keys():
        home = "~" if name.startswith("UV_") else environ.get("HOME", "~")
        named[name] = re.sub(_PLACES[name], partial(_absolute, home), environ[name])
    return named


def _absolute(home: str, named: re.Match[str]) -> str:
    """Return a place, absolute; a URL has a scheme."""
    place = re.sub(r"\A~(?=/)", lambda _: home, named[0])
    return place if ":" in place.partition("/")[0] else str(Path(place).absolute())


def _constraints(file: str) -> Iterator[str]:
    """Yield the constraints in a file of pip. One by URL would be fetched and built."""
    try:
        text = read_regular(file, MAX_TEXT).decode("utf-8", "replace").replace("\\\n", " ")
    except OSError as error:
        raise SettingsError(
            f"pip's constraints `{file}` cannot be read: {error.strerror}",
            hint="name a file of this machine in PIP_CONSTRAINT",
        ) from error
    for line in text.splitlines():
        stated = re.sub(r"(^|\s)#.*|\s--hash\S*", "", line).strip()
        if not stated:
            continue
        try:
            is_url = read_requirement(stated).url is not None
        except ValueError:
            is_url = True
        if is_url:
            raise SettingsError(
                f"pip's constraints `{file}`: `{stated}` is not a name with versions",
                hint="write name==version, or leave the line out: nothing is built for a judgement",
            )
        yield stated
