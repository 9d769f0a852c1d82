"""The view of a wheel: a small wheel that auditwheel analyses in place of the real one.

auditwheel judges a wheel as it is zipped, wheelfix as it is installed. In the view, auditwheel
finds the libraries that the loader finds once the wheel is installed:

- Each object stands in a folder of its own, without `*.data`, `purelib` and relative search paths.
- DT_NEEDED names that the wheel itself ships are left out, so that they are never grafted. One
  more object, the anchor, needs all these names and finds them in the folder `own…`: auditwheel
  still follows what they need, and still knows which libraries are needed by name.
- A search path keeps its tag, and its absolute entries, where the build left the libraries to
  graft, and those of the objects that load it. `own…` comes first, so that a library of the host
  that needs one of the wheel's finds that one.
- Objects with the same content are shown once: extensions are all called `m`, with a hook of that
  name. Of shipped libraries with the same content, all are there for a library of the host that
  needs one, but RECORD and the anchor name only the first.
- Of objects that search alike for the same libraries, only the first needs them: auditwheel
  reads the libraries of the host for each object that does. Its answer holds for the others.
- An object has the usual loader of its C library.
- musl has the name that Alpine gives it, the only one that auditwheel knows: an object that was
  linked elsewhere needs `libc.so`, or another name for which musl's loader takes itself.
- auditwheel puts together the symbol versions that objects need, so the first has those of all.
"""

import posixpath
import re
from collections.abc import Callable, Container, Iterable, Iterator, Mapping, Sequence
from operator import attrgetter
from typing import NamedTuple

from wheelfix.analysis.lddtree_search import (
    C_LIBRARIES,
    excluded_names,
    members_by_name,
    search_entries,
)
from wheelfix.analysis.policies import (
    Policy,
    blacklisted_libraries,
    hook_prefix,
    platform_libraries,
    symbol_filter,
)
from wheelfix.analysis.policy_analysis import auditwheel_opens
from wheelfix.elf.model import Elf, Libc, PathTag, VersionNeed, libc_of, shared_object
from wheelfix.elf.stub_for_auditwheel import build_stub
from wheelfix.grouping import grouped
from wheelfix.loader.machine_names import musl_soname, usual_loader
from wheelfix.loader.musl_search import is_musl_itself
from wheelfix.wheel.model import RecordRow, Wheel
from wheelfix.wheel.record import format_record

_OWN, _SINGLE = "own", "e"
"""What the folders in the view begin with, before a number: of shipped libraries, and of one
object."""
_PLACE = re.compile(rf"(?:{_OWN}|{_SINGLE})\d+/[^\s,'\"]*[^\s,'\".]")
"""The place of an object in a text of auditwheel."""
_Needs = tuple[str | None, tuple[str, ...], PathTag | None, tuple[str, ...]]
"""A search: its folder, DT_NEEDED entries, and absolute search path entries with their tag."""


class _Inspected(NamedTuple):
    """The names that auditwheel inspects in each object."""

    symbols: Callable[[str], bool]
    """Whether it inspects an undefined symbol."""
    libraries: Container[str]
    """DT_NEEDED entries: libraries with symbols that no wheel may use."""
    platform: Container[str]
    """Libraries that every glibc platform provides, wherever this machine has them."""


class View(NamedTuple):
    """The files of the view, and the members that they represent."""

    filename: str
    members: Mapping[str, bytes]
    """By name in the view."""
    names: Mapping[str, tuple[str, ...]]
    """Object in the view -> the members that it represents; an anchor represents none."""
    represented: Mapping[str, tuple[str, ...]]
    """Object in the view -> the members whose libraries it searches for."""
    excluded: frozenset[str]
    """Names in DT_NEEDED that are left out because an exclude pattern matches them."""

    def name_members(self, text: str) -> str:
        """Return a text of auditwheel with members for places in the view."""
        return _PLACE.sub(lambda match: ", ".join(self.names.get(match[0], (match[0],))), text)


class _Group(NamedTuple):
    """The objects of one class, byte order and machine: those that can load each other."""

    folder: str
    """The folder of the shipped libraries in the view."""
    elfs: Mapping[str, Elf]
    shipped: Mapping[str, str]
    """Name in DT_NEEDED -> the member that has it as file name or SONAME."""
    entries: Mapping[str, tuple[str, ...]]
    """Member -> absolute search path entries: its own, then those of the objects that load it."""
    libcs: frozenset[Libc]
    """The C libraries that the objects need: of two, auditwheel takes that of the first."""

    def searches(self, name: str, inspected: _Inspected) -> bool:
        """Return whether it matters where this machine has the library `name`."""
        if name.startswith(C_LIBRARIES):
            return False
        return Libc.GLIBC not in self.libcs or name not in inspected.platform

    def verneed(self) -> tuple[VersionNeed, ...]:
        """Return the versions that any of the objects needs: auditwheel puts them together."""
        needs = (need for elf in self.elfs.values() for need in elf.verneed)
        return tuple(
            VersionNeed(file, tuple(dict.fromkeys(v for need in same for v in need.versions)))
            for file, same in grouped(needs, attrgetter("file")).items()
        )


class _ViewObject(NamedTuple):
    """One object, as it stands in the view."""

    member: str
    folder: str | None
    """None for a folder of its own."""
    name: str
    content: bytes
    representative: str
    """The first member that searches alike for the same libraries: it searches for all."""


def build_view(wheel: Wheel, exclude: Iterable[str], policies: Sequence[Policy]) -> View:
    """Return the view of `wheel` without the DT_NEEDED entries that a pattern of `exclude` matches.

    Of symbols and libraries, only those that auditwheel inspects under `policies` are shown where
    the rest changes nothing.
    """
    inspected = _Inspected(
        symbol_filter(policies), blacklisted_libraries(policies), platform_libraries(policies)
    )
    excluded = excluded_names(wheel.elfs.values(), exclude)
    members: dict[str, bytes] = {}
    names: dict[str, tuple[str, ...]] = {}
    represented: dict[str, tuple[str, ...]] = {}
    places: dict[tuple[str, bytes], str] = {}
    searching: dict[str, str] = {}
    groups = _groups(wheel.elfs, excluded)
    objects = [shown for group in groups for shown in _view_objects(group, excluded, inspected)]
    outside = {shown.name for shown in objects if shown.folder is None}
    for shown in objects:
        key = (shown.name if shown.name in outside else "", shown.content)
        place = f"{shown.folder or f'{_SINGLE}{len(places):05}'}/{shown.name}"
        if shown.folder is not None:
            members[place] = shown.content
        place = places.setdefault(key, place)
        members[place] = shown.content
        names[place] = (*names.get(place, ()), shown.member)
        searches = searching.setdefault(shown.representative, place)
        represented[searches] = (*represented.get(searches, ()), shown.member)
    for group in groups:
        if group.shipped:
            place = f"anchor-{group.folder}/anchor"
            members[place] = _anchor(
                group, [name for name in group.shipped if f"{group.folder}/{name}" in names]
            )
            names[place] = represented[place] = ()
    # By RECORD auditwheel finds the objects.
    record = format_record(RecordRow(place, "", None) for place in names)
    return View(
        filename=f"view-1-py3-none-{'.'.join(map(_plain, wheel.name.platforms))}.whl",
        members={**members, wheel.dist_info.record: record},
        names=names,
        represented=represented,
        excluded=excluded,
    )


def _plain(platform: str) -> str:
    """Return a platform tag without what `packaging` refuses; auditwheel reads nothing else."""
    return re.sub(r"\W", "_", platform, flags=re.ASCII)


def _groups(elfs: Mapping[str, Elf], excluded: Container[str]) -> list[_Group]:
    opened = [
        (member, _with_usual_musl(elf)) for member, elf in elfs.items() if auditwheel_opens(member)
    ]
    by_abi = grouped(opened, lambda item: item[1].abi)
    groups: list[_Group] = []
    for number, found in enumerate(by_abi.values()):
        # auditwheel fails if an extension without a known C library comes before all others.
        ordered = dict(sorted(found, key=lambda item: item[1].libc is None))
        shipped = _members_by_name(ordered, excluded)
        entries = search_entries(ordered, shipped)
        libcs = frozenset(elf.libc for elf in ordered.values() if elf.libc is not None)
        groups.append(_Group(f"{_OWN}{number}", ordered, shipped, entries, libcs))
    return groups


def _with_usual_musl(elf: Elf) -> Elf:
    if elf.libc is not Libc.MUSL:
        return elf
    name = musl_soname(elf.abi)
    needed = dict.fromkeys(name if is_musl_itself(needed) else needed for needed in elf.needed)
    return elf._replace(needed=tuple(needed))


def _members_by_name(elfs: Mapping[str, Elf], excluded: Container[str]) -> dict[str, str]:
    """Return DT_NEEDED name -> the member of that name; a file name goes before a SONAME."""
    providers = members_by_name(elfs)
    return {
        name: providers[name]
        for name in dict.fromkeys(name for elf in elfs.values() for name in elf.needed)
        if name in providers
        and name not in excluded
        and not name.startswith(C_LIBRARIES)
        and "/" not in name
    }


def _view_objects(
    group: _Group, excluded: Container[str], inspected: _Inspected
) -> Iterator[_ViewObject]:
    """Yield the objects of `group`, those in its folder first."""
    order = (*group.shipped.values(), *group.elfs)
    libc_dependent = next((member for member in order if group.elfs[member].libc), None)
    known: dict[_Needs, str] = {}

    def show(member: str, folder: str | None, name: str, hook: str | None) -> _ViewObject:
        elf = group.elfs[member]
        needed = tuple(n for n in elf.needed if n and n not in group.shipped and n not in excluded)
        representative = member
        symbols = tuple(symbol for symbol in elf.undefined if inspected.symbols(symbol.name))
        elf = elf._replace(undefined=symbols, interpreter=_usual_loader(elf))
        if len(group.libcs) == 1:
            elf = elf._replace(verneed=() if known else group.verneed())
            searched = tuple(n for n in needed if group.searches(n, inspected))
            search = folder, searched, elf.path_tag, group.entries[member]
            representative = known.setdefault(search, member)
            needed = tuple(
                n
                for n in needed
                if (representative == member and n in searched)
                or (libc_dependent == member and n.startswith(C_LIBRARIES))
                or (symbols and n in inspected.libraries)
            )
        content = build_stub(
            elf._replace(verneed=tuple(sorted(elf.verneed, key=lambda need: need.file))),
            needed=needed,
            search_path=_search_path(group, group.entries[member]),
            hook=hook,
        )
        return _ViewObject(member, folder, name, content, representative)

    for name, member in group.shipped.items():
        yield show(member, group.folder, name, None)
    for member, elf in group.elfs.items():
        base = posixpath.basename(member)
        hook = hook_prefix(base, elf)
        if hook is None and group.shipped.get(base) == member:
            continue
        _, dot, suffix = base.partition(".")
        # auditwheel looks at a library's own name to see whether it is needed by name.
        name = base if hook is None and base in group.shipped else f"m{dot}{suffix}"
        yield show(member, None, name, hook and f"{hook}m")


def _search_path(group: _Group, entries: Iterable[str]) -> str | None:
    own = (f"$ORIGIN/../{group.folder}",) if group.shipped else ()
    return ":".join((*own, *entries)) or None


def _usual_loader(elf: Elf) -> str | None:
    """Return the usual path of the loader of `elf`; None without a loader.

    auditwheel takes any path in PT_INTERP for that of a library, and opens it.
    """
    if elf.interpreter is None:
        return None
    return usual_loader(elf.abi, libc_of(posixpath.basename(elf.interpreter)))


def _anchor(group: _Group, libraries: Iterable[str]) -> bytes:
    """Build the object that needs `libraries`, and the C library of a dependent."""
    needed = (name for elf in group.elfs.values() for name in elf.needed)
    libc = next((name for name in needed if name.startswith(C_LIBRARIES)), None)
    some = next(iter(group.elfs.values()))
    blank = shared_object(some.abi, osabi=some.osabi, flags=some.flags)
    return build_stub(
        blank,
        needed=[*((libc,) if libc else ()), *libraries],
        search_path=_search_path(group, ()),
    )
