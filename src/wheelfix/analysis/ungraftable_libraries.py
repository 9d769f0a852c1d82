"""Libraries that a repair cannot graft: not found, not trusted, or of another C library."""

import shlex
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from glob import escape
from itertools import product
from types import MappingProxyType

from wheelfix.analysis.never_bundled import reason_to_leave_out
from wheelfix.analysis.pattern_suggestions import common_patterns
from wheelfix.elf.model import Libc
from wheelfix.errors import ToolError
from wheelfix.grouping import flatten, grouped, values_by_key
from wheelfix.loader.loader_demands import demands_of
from wheelfix.named_tuple import NamedTuple
from wheelfix.providers.model import Provided
from wheelfix.providers.provider_uses import other_versions
from wheelfix.providers.well_known import (
    OF_SOME,
    brings,
    by_extra,
    is_optional,
    lacking_notes,
    options_of,
    way_of_build,
    well_known_provider,
    well_known_providers_of,
)
from wheelfix.text import FEW, are, first_of, join_some, pasteable, quote, them
from wheelfix.wheel.grafted_name import remove_hash
from wheelfix.wheel.model import Wheel
from wheelfix.wheel.requirements import name_of


class LibraryPlace(NamedTuple):
    """A folder that has a library, and in which nothing was looked for."""

    folder: str
    why: str
    """How the folder is known, such as whose RUNPATH names it."""


class UntrustedLibrary(NamedTuple):
    """A file of this machine that is not grafted, as another user could change it."""

    name: str
    """The DT_NEEDED entry."""
    reason: str
    """Why, as a sentence that names the file."""
    remedy: str
    """A command after which no other user can."""

    @property
    def advice(self) -> str:
        """Why it is not grafted, and what to do to have it grafted."""
        return f"{self.reason}; to use it: {self.remedy}"


def other_libc_error(name: str, libc: Libc, wheel: Wheel) -> ToolError:
    """Return the error for the C library `name`, which what is to be grafted needs."""
    return ToolError(
        f"{quote(name)} is the C library {libc}, which is never grafted: it is needed "
        f"{_needed_by(wheel, name)}, which was built for it",
        hint="use libraries that were built for the C library of the wheel",
    )


class Beside(NamedTuple):
    """What is known of the wheels that are installed beside one."""

    providers: Sequence[Provided] = ()
    """What was found of them."""
    unreached: Mapping[str, str] = MappingProxyType({})
    """Library -> the requirement that has it, where a repair must write a search path."""


class MissingLibraries(NamedTuple):
    """Libraries to graft that are not found, and what is known of them."""

    names: Sequence[str]
    """Their DT_NEEDED entries."""
    wheel: Wheel
    searched: Sequence[str]
    """The directories that were searched besides the system's and the objects' own."""
    untrusted: Iterable[UntrustedLibrary]
    """Files that were passed over."""
    places: Mapping[str, LibraryPlace]
    """Library -> a directory that has it, and was not searched."""
    beside: Beside
    sysroot: str | None = None
    """The folder that was searched in place of this machine."""
    needing: Mapping[str, Sequence[str]] = MappingProxyType({})
    """Library -> what is to be grafted, and alone needs it."""
    required: Sequence[str] = ()
    """What METADATA requires, and was not looked at."""


class UnlocatedLibrary(NamedTuple):
    """A library to graft that is not found."""

    name: str
    """Its DT_NEEDED entry."""
    users: Sequence[str]
    """The members that need it, or the libraries to graft that alone do."""
    advice: str
    """What to do about it alone."""


class UnlocatedLibrariesError(ToolError):
    """Libraries to graft are not found."""

    libraries: Sequence[UnlocatedLibrary] = ()


def unlocated_libraries_error(missing: MissingLibraries) -> UnlocatedLibrariesError:
    """Return the error for libraries that are not found; it names the dependents of each."""
    libraries, wheel = missing.names, missing.wheel
    paths = (elf.entries for elf in wheel.elfs.values() if {*libraries}.intersection(elf.needed))
    folders = [*map(quote, (*dict.fromkeys(flatten(paths)), *missing.searched))]
    by = {name: f" (needed by {join_some(each)})" for name, each in missing.needing.items()}
    named = ", ".join(first_of([quote(name) + by.get(name, "") for name in libraries], FEW))
    needs = [f"{quote(n)} is needed {_needed_by(wheel, n)}" for n in libraries if n not in by]
    lines = [
        f"{named} {are(libraries)} neither in the wheel nor {_searched_at(missing)}",
        *first_of(needs, FEW),
        *([f"also searched: {', '.join(folders)}"] if folders else []),
    ]
    passed_over = [each for each in missing.untrusted if each.name in libraries]
    remedies = dict.fromkeys(each.remedy for each in passed_over)
    hint = " && ".join(remedies) or "\n".join(_where_to_look(missing, libraries))
    error = UnlocatedLibrariesError(*lines, *(o.reason for o in passed_over), hint=hint)
    # What requirements may bring is said once, of all.
    alone = missing._replace(required=()) if len(libraries) > 1 else missing
    of_extras = {name: by_extra(name, wheel) for name in libraries[1:] and libraries}
    ways = {name: "\n".join(_where_to_look(alone, [name])) for name in libraries}
    ways |= {name: f"an extra brings it: {way}" for name, way in of_extras.items() if way}
    of_name = values_by_key((each.name, each.advice) for each in passed_over)
    ways |= {name: "\n".join(advice) for name, advice in of_name.items()}
    users = {name: _users(wheel, name) or missing.needing.get(name, ()) for name in libraries}
    error.libraries = [UnlocatedLibrary(name, users[name], ways[name]) for name in libraries]
    return error


def _searched_at(missing: MissingLibraries) -> str:
    if not demands_of(missing.wheel.libc).on_builders:
        return "in a folder that was named"
    if missing.sysroot is not None:
        return f"among the libraries of {quote(missing.sysroot)}"
    return "among this machine's libraries"


def _where_to_look(missing: MissingLibraries, asked: Sequence[str]) -> Iterator[str]:
    """Yield the options with which those `asked` for are found, or left to others."""
    places, providers = missing.places, missing.beside.providers
    pairs = () if all(map(remove_hash, asked)) else product(missing.required, asked)
    if unknown := dict.fromkeys(name_of(r) for r, n in pairs if brings(r, n) is not False):
        what = f"for what {join_some(unknown, FEW)} may bring"
        yield f"`wheelfix repair --deps` looks {what}, or `--with FILE.whl` in its wheel; or,"
    for place, names in grouped(filter(places.get, asked), places.__getitem__).items():
        command = _command(names, missing)
        option = f"{command}--library-path {shlex.quote(place.folder)}`"
        yield f"{join_some(names)} {are(names)} in {place.why}: {option}"
    others = {name: other_release(name, providers) for name in asked}
    yield from first_of([*dict.fromkeys(filter(None, others.values()))], FEW)
    left = [name for name in asked if name not in places and not others[name]]
    for command, names in grouped(left, lambda name: by_extra(name, missing.wheel)).items():
        yield from [f"an extra brings {join_some(names, FEW)}: {command}; or,"] * bool(command)
    if left:
        given = {provider.name for provider in providers if provider.setting is not None}
        options = dict.fromkeys(_leave_options(left, missing, given))
        if grafts := [name for name in left if remove_hash(name)]:
            graft = f"{join_some(grafts, FEW)} {are(grafts)} of an earlier repair"
            yield f"{graft}: repair the wheel as it was built; or,"
        of_build = filter(None, (way_of_build(name, missing.wheel) for name in left))
        yield from (f"{way}; or," for way in of_build)
        owners = {name: well_known_provider(name, missing.wheel) for name in left}
        rare = [n for n, to in owners.items() if to and is_optional(n, to, missing.wheel)]
        reasons = [*filter(None, map(reason_to_leave_out, left))]
        graft = f"{_command(left, missing)}--library-path FOLDER`, if FOLDER has {them(left)}"
        command = _command([] if rare else left, missing)
        has = f"if another wheel or the user's machine has {them(left)}"
        leave = f"{has}: {command}{' '.join(options)}`"
        # What belongs to the machine is left to it first.
        first, last = (leave, graft) if len(reasons) == len(left) else (graft, leave)
        yield f"{first}; or,"
        yield last
        notes = [*flatten(lacking_notes(name, missing.wheel) for name in left), *reasons]
        yield from (f"({note})" for note in dict.fromkeys(notes))
        if rare:
            wheels = join_some(dict.fromkeys(owners[name] for name in rare), FEW)
            yield f"(METADATA must require {wheels} first, {OF_SOME})"


def _command(names: Sequence[str], missing: MissingLibraries) -> str:
    """Return how the command begins that finds `names`, or leaves them: whole if they are all."""
    return "`wheelfix repair " if names == [*missing.names] else "a repair with `"


def other_release(library: str, providers: Iterable[Provided]) -> str:
    """Return what to do about a provider with another version of `library`; empty without one."""
    known = well_known_providers_of(library)
    for provider, name in other_versions(library, providers):
        other = "a release that has" if not known or provider.name in known else f"{known[0]}, with"
        way = f"require {other} {quote(library)}, or build against this one"
        return f"{provider.release} has {quote(name)}: {way}"
    return ""


def _leave_options(
    libraries: Sequence[str], missing: MissingLibraries, given: Collection[str]
) -> Iterator[str]:
    """Yield the options with which a repair leaves `libraries` to others."""
    wheel = missing.wheel
    known = {library: well_known_provider(library, wheel) for library in libraries}
    providers = {library: to for library, to in known.items() if to and to not in given}
    of_none = [library for library in libraries if library not in providers]
    yield from filter(None, [options_of({**missing.beside.unreached, **providers}, wheel)])
    patterns = [pasteable(escape(name)) for name in of_none]
    if len(of_none) > FEW:
        patterns = common_patterns(of_none, wheel.needed.difference(of_none))
    yield from (f"--exclude {shlex.quote(pattern)}" for pattern in patterns)


def _users(wheel: Wheel, library: str) -> list[str]:
    return [member for member, elf in wheel.elfs.items() if library in elf.needed]


def _needed_by(wheel: Wheel, library: str) -> str:
    users = _users(wheel, library)
    return f"by {join_some(users)}" if users else "by a library that is to be grafted"
