"""auditwheel: what to graft under which name, the tags, and the verdict on the result.

It runs as a program, in a private folder, on a view of the wheel (see `auditwheel_view`). Instead
of patchelf it finds a recorder in PATH, which writes down what it is asked for and puts the grafted
libraries aside, unpatched: what auditwheel decided comes back as values. There is nothing else in
that PATH: it cannot ask package managers for its SBOM, two program starts a library, and wheelfix
writes a better one (see `wheelfix.pipelines.sbom`).
"""

import json
import os
import re
import shlex
import shutil
import sys
import tempfile
import zipfile
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from fnmatch import fnmatchcase
from importlib import metadata
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple

from wheelfix.analysis.policy_reasons import (
    Policy,
    explain,
    judge,
    judged_libraries,
    judged_symbols,
    near_misses,
    platform_libraries,
)
from wheelfix.analysis.verdict import Verdict
from wheelfix.elf.reader import read_elf
from wheelfix.errors import BadElfError, BadWheelError, SettingsError, ToolError
from wheelfix.host.policy_tables import INSTALL_HINT, known_policies
from wheelfix.pipelines.auditwheel_view import C_LIBRARIES, Judged, View, build_view
from wheelfix.pipelines.standby import Standby
from wheelfix.settings import Settings
from wheelfix.system.subprocesses import Completed
from wheelfix.wheel.dist_info import read_metadata
from wheelfix.wheel.model import Wheel, WheelName
from wheelfix.wheel.platform_tags import strictest

MINIMUM = (6, 8)
"""6.8 queues its patchelf calls, one a file, after its last look at the files."""

_RECORDER = """\
#!/bin/sh
# Stands in for patchelf: writes down each call, and keeps grafted files as they were copied.
PATH=@PATH@
here=${0%/*}
case $1 in
--version) echo 'patchelf 0.19.3' ;;
--print-rpath) ;;
*)
    printf '%s\\0' "$#" "$@" >>"$here/calls" || exit 1
    if [ "$1" = --set-soname ]; then
        for file; do :; done
        mv "$file" "$here/grafted-$2" && : >"$file"
    fi
    ;;
esac
"""
_ARITY = {
    "--set-soname": 1,
    "--remove-needed": 1,
    "--replace-needed": 2,
    "--set-rpath": 1,
    "--force-rpath": 0,
    "--remove-rpath": 0,
}


class GraftedLibrary(NamedTuple):
    """A library of this machine that belongs into the wheel."""

    member: str
    """Its name in the wheel: `pkg.libs/libfoo-1a2b3c4d.so.1`."""
    path: Path
    """A private file with the host's bytes, unpatched."""
    source: Path
    """Where it was found on this machine; only its name if auditwheel does not say."""
    mode: int
    """`st_mode` of the host's file, with write permission for its owner."""
    soname: str
    """The SONAME it is to get."""
    original: str
    """The name in DT_NEEDED by which it was asked for."""
    renames: tuple[tuple[str, str], ...] = ()
    """Its own DT_NEEDED entries that are to change, old and new."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Graft:
    """What auditwheel decided, in terms of the real wheel."""

    libraries: tuple[GraftedLibrary, ...] = ()
    """Sorted by member."""
    renames: Mapping[str, tuple[tuple[str, str], ...]] = field(
        default_factory=dict[str, tuple[tuple[str, str], ...]]
    )
    """Member -> DT_NEEDED entries, old and new; only entries that the member has."""
    dropped: Mapping[str, tuple[str, ...]] = field(default_factory=dict[str, tuple[str, ...]])
    """Member -> DT_NEEDED entries that no policy allows at all: libpython."""
    platforms: tuple[str, ...] = ()
    """The platform tags of the new file name, empty if they stay."""
    tags: tuple[str, ...] = ()
    """The `Tag:` lines of WHEEL, as they are to be."""
    root_is_purelib: bool = False
    """`Root-Is-Purelib` of WHEEL, as it is to be."""
    excluded: frozenset[str] = frozenset()
    """Names, and paths of this machine, that an exclude pattern kept out."""
    messages: tuple[str, ...] = ()
    """What auditwheel said that its user should know, in terms of the real wheel."""
    near: tuple[str, ...] = ()
    """The better tags that a few symbols of the wheel's own objects forbid."""

    @property
    def verdict(self) -> Verdict | None:
        """The verdict on the retagged wheel, where the graft says it: nothing came in or went.

        auditwheel chose the tags by the objects that it saw; they need no library besides those
        that the tags promise.
        """
        best = strictest(self.platforms)
        if best is None or self.libraries or self.dropped:
            return None
        return Verdict(overall=best, external={}, reasons=(), near=self.near)


class _Call(NamedTuple):
    """One recorded call of patchelf."""

    place: str
    """The file, relative to the view's root."""
    soname: str | None
    renames: Mapping[str, str]
    removed: tuple[str, ...]
    sets_path: bool
    """False only for a library that was found twice under one name, and forgotten over it."""


def graft(
    wheel: Wheel,
    settings: Settings,
    workdir: Path,
    standby: Standby,
    meanwhile: Callable[[bool], object] | None = None,
) -> Graft:
    """Ask auditwheel what to graft into `wheel`; everything it writes stays in `workdir`.

    `meanwhile` is called while auditwheel works, where that has anything to do, with whether it may
    graft a library. So is its version read.

    Of the user's environment PATH, LD_LIBRARY_PATH and AUDITWHEEL_LD_LIBRARY_PATH
    count, the latter relative to its PWD.

    Raises `BadWheelError` if no policy that was asked for allows the wheel, `SettingsError` for a
    platform that is not possible, `ToolError` if a library is missing or auditwheel is.
    """
    if not wheel.elfs:
        return Graft(tags=wheel.tags, root_is_purelib=wheel.root_is_purelib)

    def beside() -> None:
        _require_version()
        if meanwhile is not None:
            meanwhile(grafts)

    policies = known_policies()
    judged = looked_at(policies)
    view = build_view(wheel, settings, judged=judged)
    folder = _prepare(workdir, view)
    env = _environment(folder, standby.environ)
    searched = _searched(settings, env)
    env["PATH"] = _write_recorder(folder, env.get("PATH", os.defpath))
    env |= _write_platform(folder, view, env)
    arguments = ["-w", str(folder / "out"), "-z", "0", "--plat", settings.plat]
    arguments += ["-L", settings.lib_sdir, "--patcher", "patchelf"]
    arguments += [word for pattern in settings.exclude for word in ("--exclude", pattern)]
    arguments += ["--only-plat"] if settings.only_plat else []
    arguments += [] if settings.update_tags else ["--no-update-tags"]
    if settings.ldpaths is not None:
        arguments += ["--ldpaths", settings.ldpaths]
    words = _words("repair", arguments, folder, view, settings)
    grafts = _may_graft(wheel, view, judged)
    last = not (settings.verdict and grafts)
    try:
        completed = standby.run(words, cwd=folder, env=env, last=last, meanwhile=beside)
    except ToolError as error:
        raise explain(error, wheel, settings, policies, searched) from error
    calls = list(_read_calls(folder))
    graft = _graft(wheel, view, folder, calls, completed)
    best = strictest(graft.platforms)
    return replace(graft, near=near_misses(wheel, best, policies)) if best else graft


def verdict(wheel: Wheel, settings: Settings, workdir: Path, standby: Standby) -> Verdict:
    """Ask auditwheel which platform tag the objects of `wheel` allow; it writes in `workdir` only.

    Exclude patterns count. Apart from those for paths, the libraries of this machine do not:
    the answer is the same on any.

    Raises as `graft` does.
    """
    _require_version()
    policies = known_policies()
    found = _show(wheel, settings, workdir, standby, policies)
    if settings.exclude and found["external_libs"]:
        # A pattern may also match where this machine has the library (auditwheel's `ldd`).
        located = _show(wheel, settings, workdir, standby, policies, search=True)
        names = _excluded_by_path(located["external_libs"], settings.exclude)
        if names:
            without = replace(settings, exclude=(*settings.exclude, *names))
            found = _show(wheel, without, workdir, standby, policies)
    return judge(wheel, found, settings, policies)


def _show(  # noqa: PLR0913 - the parts of one call
    wheel: Wheel,
    settings: Settings,
    workdir: Path,
    standby: Standby,
    policies: Sequence[Policy],
    *,
    search: bool = False,
) -> dict[str, Any]:
    """Run `auditwheel show --json`; with `search`, external libraries are looked for."""
    view = build_view(wheel, settings, judged=looked_at(policies))
    folder = _prepare(workdir, view)
    arguments = ["--json"]
    env = _environment(folder, standby.environ)
    if not search:
        # What an external library needs in its turn makes no difference to the tag: that it is
        # external is reason enough.
        arguments += ["--ldpaths", ""]
        env["AUDITWHEEL_LD_LIBRARY_PATH"] = ""
    elif settings.ldpaths is not None:
        arguments += ["--ldpaths", settings.ldpaths]
    try:
        words = _words("show", arguments, folder, view, settings)
        completed = standby.run(words, cwd=folder, env=env)
    except ToolError as error:
        raise explain(error, wheel, settings, policies) from error
    return _parse_json(completed.stdout)


def looked_at(policies: Sequence[Policy]) -> Judged | None:
    """Return what auditwheel looks at by name; None if its policies are not known."""
    symbols = judged_symbols(policies)
    if symbols is None:
        return None
    libraries, platform = judged_libraries(policies), platform_libraries(policies)
    return Judged(symbols=symbols, libraries=libraries, platform=platform)


def _parse_json(text: str) -> dict[str, Any]:
    """Read the output of `auditwheel show --json`, schema version 1."""
    try:
        found = json.loads(text)
        if found["version"] == 1 and isinstance(found["overall_tag"], str):
            return {"external_libs": {}, **found}
    except (ValueError, KeyError, TypeError):
        pass
    raise ToolError(
        f"`auditwheel show --json` said something unexpected: {text[:500]!r}", hint=INSTALL_HINT
    )


def _excluded_by_path(external: Mapping[str, str | None], patterns: Iterable[str]) -> list[str]:
    return [
        name
        for name, path in external.items()
        if path and any(fnmatchcase(path, pattern) for pattern in patterns)
    ]


# --- Running it ---------------------------------------------------------------------------------


def _require_version() -> None:
    version = version_by_name()
    if version is None:
        try:
            version = metadata.version("auditwheel")
        except metadata.PackageNotFoundError:
            raise ToolError("auditwheel is not installed", hint=INSTALL_HINT) from None
    if tuple(map(int, re.findall(r"\d+", version)[:2])) < MINIMUM:
        raise ToolError(
            f"auditwheel {version} is too old: wheelfix needs 6.8 or newer", hint=INSTALL_HINT
        )


def version_by_name() -> str | None:
    """Return auditwheel's version, by the name of the folder that says it is installed.

    So is it called where files lie in folders ("Recording installed projects", by PyPA).
    """
    for place in sys.path:
        with suppress(OSError):
            for name in os.listdir(place or os.curdir):  # noqa: PTH208 (a tenth of the time)
                if name.startswith("auditwheel-") and name.endswith(".dist-info"):
                    return name.removeprefix("auditwheel-").removesuffix(".dist-info")
    return None


def _prepare(workdir: Path, view: View) -> Path:
    """Create a folder in `workdir` with the view in it, and return its real path.

    All else comes into the same: to remove a folder may take as long as auditwheel needs for one
    object.
    """
    workdir.mkdir(parents=True, exist_ok=True)
    folder = Path(tempfile.mkdtemp(prefix="auditwheel-", dir=workdir)).resolve()
    with zipfile.ZipFile(folder / view.filename, "w", zipfile.ZIP_STORED) as archive:
        for name, content in view.members.items():
            entry = zipfile.ZipInfo(name)
            entry.external_attr = 0o100644 << 16
            archive.writestr(entry, content)
    return folder


def _write_recorder(folder: Path, path: str) -> str:
    """Write the recorder, and return the PATH in which it is found as `patchelf`.

    It is the only program there. Itself it finds `mv` where most systems have it, or in `path`.
    """
    recorder = folder / "patchelf"
    # A relative folder would be one of the wheel's.
    folders = [*os.defpath.split(os.pathsep), *path.split(os.pathsep)]
    own = os.pathsep.join(folder for folder in folders if folder.startswith("/"))
    recorder.write_text(_RECORDER.replace("@PATH@", shlex.quote(own)))
    recorder.chmod(0o755)
    if shutil.which("patchelf", path=str(folder)) is None:
        raise ToolError(
            f"no program can be run in `{folder.parent}`: is it mounted with noexec?",
            hint="set TMPDIR to a directory where programs can be run",
        )
    return str(folder)


def _write_platform(folder: Path, view: View, env: Mapping[str, str]) -> dict[str, str]:
    """Write what the view has for the platform's libraries, and return how it is found first."""
    for name, content in view.platform.items():
        (folder / name).write_bytes(content)
    variable = "AUDITWHEEL_LD_LIBRARY_PATH"
    return {variable: ":".join(filter(None, (str(folder), env.get(variable))))}


def _environment(folder: Path, environ: Mapping[str, str]) -> dict[str, str]:
    """Return `environ` without auditwheel's own defaults, with absolute library paths."""
    env = {key: value for key, value in environ.items() if not key.startswith("AUDITWHEEL_")}
    for key in ("AUDITWHEEL_LD_LIBRARY_PATH", "LD_LIBRARY_PATH"):
        if environ.get(key):
            env[key] = _absolute(key, environ[key], environ.get("PWD", ""))
    return env | {
        "TMPDIR": str(folder),
        "COLUMNS": "1000",  # argparse wraps what is read here
    }


def _absolute(key: str, paths: str, cwd: str) -> str:
    """Make relative entries absolute; an empty one is the current directory (ld.so(8))."""
    entries = [entry for entry in paths.split(":") if "$ORIGIN" not in entry]
    if key.startswith("AUDITWHEEL") and len(entries) != paths.count(":") + 1:
        raise SettingsError(
            f"`{key}={paths}` has an entry with `$ORIGIN`, and there is no object it could mean",
            hint="write absolute paths, or paths relative to the current directory",
        )
    absolute = (os.path.join(cwd, entry).rstrip("/") for entry in entries)  # noqa: PTH118 - text
    return ":".join(entry for entry in absolute if entry.startswith("/"))


def _searched(settings: Settings, env: Mapping[str, str]) -> tuple[str, ...]:
    """Return the directories in which auditwheel was asked to look for external libraries."""
    variables = ("AUDITWHEEL_LD_LIBRARY_PATH", "LD_LIBRARY_PATH")
    paths = (settings.ldpaths or "", *(env.get(name, "") for name in variables))
    return tuple(dict.fromkeys(entry for path in paths for entry in path.split(":") if entry))


def _words(
    command: str, arguments: Iterable[str], folder: Path, view: View, settings: Settings
) -> tuple[str, ...]:
    options = [] if settings.isa_ext_check else ["--disable-isa-ext-check"]
    return (command, *arguments, *options, str(folder / view.filename))


def _may_graft(wheel: Wheel, view: View, judged: Judged | None) -> bool:
    """Whether a library may have to be grafted: then auditwheel is asked again, for its verdict."""
    given = {member.rpartition("/")[2] for member in wheel.elfs} | view.excluded
    given |= {elf.soname for elf in wheel.elfs.values() if elf.soname}
    needed = {name for elf in wheel.elfs.values() for name in elf.needed} - given
    return judged is None or any(
        name not in judged.platform and not name.startswith(C_LIBRARIES) for name in needed
    )


# --- Reading what it decided --------------------------------------------------------------------


def _read_calls(folder: Path) -> Iterator[_Call]:
    """Read the recorder's log: for each call the number of arguments and they themselves."""
    log = folder / "calls"
    words = iter(os.fsdecode(log.read_bytes()).split("\0")[:-1] if log.exists() else ())
    for count in words:
        yield _call(list(islice(words, int(count))), folder)


def _call(arguments: list[str], temporary: Path) -> _Call:
    *options, path = arguments
    found: dict[str, list[list[str]]] = {option: [] for option in _ARITY}
    words = iter(options)
    for option in words:
        if option not in found:
            raise ToolError(
                f"auditwheel called patchelf with `{option}`, which wheelfix does not know",
                hint="pip install --upgrade wheelfix",
            )
        found[option].append(list(islice(words, _ARITY[option])))
    return _Call(
        # The first part is the name of auditwheel's own temporary folder.
        place=Path(*Path(path).relative_to(temporary).parts[1:]).as_posix(),
        soname=found["--set-soname"][0][0] if found["--set-soname"] else None,
        renames={pair[0]: pair[1] for pair in found["--replace-needed"]},
        removed=tuple(name for (name,) in found["--remove-needed"]),
        sets_path=bool(found["--set-rpath"] or found["--remove-rpath"]),
    )


def _graft(
    wheel: Wheel, view: View, folder: Path, calls: Iterable[_Call], completed: Completed
) -> Graft:
    asked = {call.place: call for call in calls if call.soname is None}
    said = completed.stderr
    libraries = sorted(
        (_library(call, folder, asked.values(), said) for call in calls if call.soname is not None),
        key=lambda library: library.member,
    )
    renames: dict[str, dict[str, str]] = {}
    dropped: dict[str, dict[str, None]] = {}
    for place, call in asked.items():
        for member in view.askers[place]:
            needed = wheel.elfs[member].needed
            found = {old: call.renames[old] for old in needed if old in call.renames}
            gone = {name: None for name in needed if name in call.removed}
            if found:
                renames.setdefault(member, {}).update(found)
            if gone:
                dropped.setdefault(member, {}).update(gone)
    output = _read_output(wheel, folder)
    result = replace(
        output,
        libraries=tuple(libraries),
        renames={member: tuple(found.items()) for member, found in renames.items()},
        dropped={member: tuple(gone) for member, gone in dropped.items()},
        excluded=view.excluded | set(re.findall(r"(?m):Excluding (.+)$", said)),
        messages=tuple(_messages(said, view)),
    )
    return _without_shipped(result, wheel)


def _without_shipped(graft: Graft, wheel: Wheel) -> Graft:
    """Leave out what the wheel ships, and what was grafted for the sake of that alone.

    A library that is to be grafted finds those at its home, where it has a DT_RUNPATH: the view's
    folder of shipped libraries is inherited by DT_RPATH.
    """
    shipped = {member.rpartition("/")[2] for member, elf in wheel.elfs.items() if elf.dynamic}
    asked = {new for pairs in graft.renames.values() for _, new in pairs}
    inner = {pair for library in graft.libraries for pair in library.renames}
    again = {new for old, new in inner if old in shipped} - asked
    if not again:
        return graft
    libraries = {
        library.soname: library._replace(
            renames=tuple(pair for pair in library.renames if pair[1] not in again)
        )
        for library in graft.libraries
    }
    reached: set[str] = set()
    waiting = asked & libraries.keys()
    while waiting:
        reached |= waiting
        needed = {new for soname in waiting for _, new in libraries[soname].renames}
        waiting = needed & libraries.keys() - reached
    kept = tuple(library for soname, library in libraries.items() if soname in reached)
    return replace(graft, libraries=kept)


def _library(call: _Call, folder: Path, asked: Iterable[_Call], said: str) -> GraftedLibrary:
    """Turn the call for a grafted library into what is to be done with it.

    auditwheel keeps one new name for each old one. Where two objects find different libraries
    under one name, the names that its asker got are the right ones for what it needs itself.
    """
    soname = call.soname or ""
    path = folder / f"grafted-{soname}"
    askers = [dict(asker.renames) for asker in asked if soname in asker.renames.values()]
    names = {**call.renames, **(askers[0] if askers else {})}
    needed: Iterable[str] = call.renames
    if not call.sets_path:
        try:
            needed = read_elf(path.read_bytes(), soname).needed
        except BadElfError as error:
            raise ToolError(
                f"auditwheel grafts what is no shared object: {error}", hint=INSTALL_HINT
            ) from error
    originals = (old for asker in askers for old, new in asker.items() if new == soname)
    original = next(originals, soname)
    source = re.search(rf"(?m):Grafting: (.+) -> {re.escape(call.place)}$", said)
    return GraftedLibrary(
        member=call.place,
        path=path,
        source=Path(source[1] if source else original),
        mode=path.stat().st_mode,
        soname=soname,
        original=original,
        renames=tuple((old, names[old]) for old in needed if old in names),
    )


def _read_output(wheel: Wheel, folder: Path) -> Graft:
    """Read the tags from the wheel that auditwheel wrote."""
    outputs = list((folder / "out").glob("*.whl"))
    if len(outputs) != 1:
        raise ToolError(
            f"auditwheel wrote {len(outputs)} wheels in place of one", hint=INSTALL_HINT
        )
    try:
        platforms = WheelName.parse(outputs[0].name).platforms
        with zipfile.ZipFile(outputs[0]) as archive:
            text = archive.read(f"{wheel.dist_info}/WHEEL").decode("utf-8", "surrogateescape")
        said = read_metadata(text)
    except (zipfile.BadZipFile, KeyError, BadWheelError) as error:
        raise ToolError(
            f"auditwheel wrote `{outputs[0].name}`, which is no wheel of this one: {error}",
            hint=INSTALL_HINT,
        ) from error
    return Graft(
        platforms=platforms if platforms != wheel.name.platforms else (),
        tags=said.tags,
        root_is_purelib=said.root_is_purelib,
    )


def _messages(stderr: str, view: View) -> Iterator[str]:
    """Yield the warnings, and the advice on a better tag, with members for places in the view."""
    for line in dict.fromkeys(stderr.splitlines()):
        level, _, rest = line.partition(":")
        text = rest.partition(":")[2]
        if level != "WARNING" and "higher priority tag" not in text:
            continue
        if text.startswith("ignoring: ") or " not found in " in text:
            continue  # these have no folder, and name nothing that exists
        yield _PLACE.sub(lambda match: ", ".join(view.names.get(match[0], (match[0],))), text)


_PLACE = re.compile(r"(?:own\d+|e\d{5})/[^\s,'\"]*[^\s,'\".]")
