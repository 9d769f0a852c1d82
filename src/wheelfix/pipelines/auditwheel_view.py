"""The small wheel that auditwheel is shown in place of the real one.

auditwheel judges a wheel as it is zipped, wheelfix as it is installed. The view is laid out so
that nothing of the zip's layout can mislead it:

- Each object stands in a folder of its own: no `*.data`, no `purelib`, no relative search paths.
- A name in DT_NEEDED that the wheel itself ships is left out, so that it is never grafted. One
  more object, the anchor, needs all those names and finds them in the folder `own…`: auditwheel
  then still follows what they need, and still knows which libraries are needed by name.
- A search path keeps its absolute entries, where the build left the libraries to graft, and those
  of the objects that load it; `own…` comes first, so that a library of the host that needs one
  of the wheel's finds that one.
- What says the same is shown once: extensions are all called `m`, with a hook of that name. Of
  objects that search alike for the same, only the first does: each time, auditwheel would read the
  libraries of the host again. What it answers the first is what the others get.
- The versions that objects need auditwheel puts together, so the first has those of all.
"""

import posixpath
from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from fnmatch import fnmatchcase
from typing import NamedTuple

from wheelfix.elf.model import Abi, Elf, ElfType, Libc, VersionNeed
from wheelfix.elf.stub import build_stub
from wheelfix.loader.platform_libraries import COMPILER_LIBRARIES
from wheelfix.settings import Settings
from wheelfix.wheel.model import Wheel

# Names by which auditwheel tells the C library, and one that it removes wherever it stands: they
# stay in view even where the wheel ships such a file (auditwheel's lddtree.py, `ldd`).
C_LIBRARIES = ("libc.so.6", "ld-linux", "ld64.so.", "libc.musl-", "ld-musl-")
_LIBPYTHON = "libpython"
_HOOKS = ("PyInit_", "init", "_cffi_pypyinit_")

_Needs = tuple[str | None, tuple[str, ...], tuple[str, ...]]
"""What is searched for and where: the folder, DT_NEEDED entries, absolute search path entries."""


class Judged(NamedTuple):
    """What auditwheel looks at by name in each object by itself."""

    symbols: Container[str]
    """Undefined symbols."""
    libraries: Container[str]
    """DT_NEEDED entries: the libraries of which some symbols must not be used."""
    platform: Container[str]
    """Libraries that every glibc platform gives, so that it is all one where they stand here."""


class View(NamedTuple):
    """The files of the wheel that auditwheel is shown, and what they stand for."""

    filename: str
    members: Mapping[str, bytes]
    """By name in the view."""
    names: Mapping[str, tuple[str, ...]]
    """Object in the view -> the members that it stands for; an anchor stands for none."""
    askers: Mapping[str, tuple[str, ...]]
    """Object in the view -> the members for whose DT_NEEDED entries it asks."""
    excluded: frozenset[str]
    """Names in DT_NEEDED that are left out because an exclude pattern matches them."""
    platform: Mapping[str, bytes]
    """Objects that do for some libraries of this machine, by name."""


class _Group(NamedTuple):
    """The objects of one class, byte order and machine: those that can load each other."""

    folder: str
    """Where the shipped libraries stand."""
    elfs: Mapping[str, Elf]
    shipped: Mapping[str, str]
    """Name in DT_NEEDED -> the member that has it as file name or SONAME."""
    entries: Mapping[str, tuple[str, ...]]
    """Member -> absolute search path entries: its own, then those of the objects that load it."""

    @property
    def libcs(self) -> frozenset[Libc | None]:
        """The C libraries that the objects ask for: of two, auditwheel takes that of the first."""
        return frozenset(elf.libc for elf in self.elfs.values()) - {None}

    def searches(self, name: str, judged: Judged) -> bool:
        """Return whether it matters where `name` stands on this machine."""
        if name.startswith(C_LIBRARIES):
            return False
        return Libc.GLIBC not in self.libcs or name not in judged.platform

    @property
    def verneed(self) -> tuple[VersionNeed, ...]:
        """The versions that any of the objects needs: auditwheel puts them together."""
        versions: dict[str, dict[str, None]] = {}
        for elf in self.elfs.values():
            for need in elf.verneed:
                versions.setdefault(need.file, {}).update(dict.fromkeys(need.versions))
        return tuple(
            VersionNeed(file=file, versions=tuple(found)) for file, found in versions.items()
        )


class _Shown(NamedTuple):
    """One object, as it is going to be shown."""

    member: str
    folder: str | None
    """None for a folder of its own."""
    name: str
    content: bytes
    asker: str
    """The first member that needs the same and searches alike: it asks for all of them."""


def build_view(wheel: Wheel, settings: Settings, *, judged: Judged | None = None) -> View:
    """Return the view of `wheel` under the exclude patterns of `settings`.

    `judged` is what auditwheel looks at by name in each object: symbols, and the libraries that
    they may come from. The rest is left out where it changes nothing; None keeps all.
    """
    excluded = _excluded(wheel.elfs.values(), settings.exclude)
    members: dict[str, bytes] = {}
    names: dict[str, tuple[str, ...]] = {}
    askers: dict[str, tuple[str, ...]] = {}
    places: dict[tuple[str, bytes], str] = {}
    asking: dict[str, str] = {}
    groups = _groups(wheel.elfs, excluded)
    objects = [shown for group in groups for shown in _shown(group, excluded, judged)]
    for shown in objects:
        key = (shown.name, shown.content)
        place = places.get(key)
        if place is None:
            folder = shown.folder or f"e{len(places):05}"
            place = places[key] = f"{folder}/{shown.name}"
            members[place] = shown.content
        names[place] = (*names.get(place, ()), shown.member)
        asks = asking.setdefault(shown.asker, place)
        askers[asks] = (*askers.get(asks, ()), shown.member)
    for group in groups:
        if group.shipped:
            place = f"anchor-{group.folder}/anchor"
            members[place] = _anchor(group)
            names[place] = askers[place] = ()
    return View(
        filename=str(wheel.name),
        members={**members, **_metadata(wheel, members)},
        names=names,
        askers=askers,
        excluded=excluded,
        platform=_stand_ins(groups, settings, judged),
    )


def _excluded(elfs: Iterable[Elf], patterns: Iterable[str]) -> frozenset[str]:
    """Return the names in DT_NEEDED that a pattern matches, as auditwheel matches them."""
    patterns = tuple(patterns)
    names = {name for elf in elfs for name in elf.needed} if patterns else set[str]()
    return frozenset(
        name
        for name in names
        if not name.startswith(C_LIBRARIES)
        and any(fnmatchcase(name, pattern) for pattern in patterns)
    )


def _groups(elfs: Mapping[str, Elf], excluded: Container[str]) -> list[_Group]:
    by_abi: dict[Abi, dict[str, Elf]] = {}
    for member, elf in elfs.items():
        if not member.endswith(".py"):  # auditwheel never opens these
            by_abi.setdefault(elf.abi, {})[member] = elf
    groups: list[_Group] = []
    for number, found in enumerate(by_abi.values()):
        # It wants to see an object of a known C library before an extension of none.
        ordered = dict(sorted(found.items(), key=lambda item: item[1].libc is None))
        shipped = _shipped(ordered, excluded)
        entries = _search_entries(ordered, shipped)
        groups.append(_Group(folder=f"own{number}", elfs=ordered, shipped=shipped, entries=entries))
    return groups


def _shipped(elfs: Mapping[str, Elf], excluded: Container[str]) -> dict[str, str]:
    """Return which names in DT_NEEDED are those of a member; a file name goes before a SONAME."""
    providers: dict[str, str] = {}
    for member in elfs:
        providers.setdefault(posixpath.basename(member), member)
    for member, elf in elfs.items():
        if elf.soname:
            providers.setdefault(elf.soname, member)
    return {
        name: providers[name]
        for name in dict.fromkeys(name for elf in elfs.values() for name in elf.needed)
        if name in providers
        and name not in excluded
        and not name.startswith((*C_LIBRARIES, _LIBPYTHON))
        and "/" not in name
    }


def _search_entries(
    elfs: Mapping[str, Elf], shipped: Mapping[str, str]
) -> dict[str, tuple[str, ...]]:
    """Collect absolute entries: a library is also searched for where those that load it search."""
    found = {
        member: {entry: None for entry in elf.entries if entry.startswith("/")}
        for member, elf in elfs.items()
    }
    pending = [member for member, entries in found.items() if entries]
    while pending:
        member = pending.pop()
        for name in elfs[member].needed:
            library = shipped.get(name)
            if library is not None and not found[member].keys() <= found[library].keys():
                found[library] |= found[member]
                pending.append(library)
    return {member: tuple(entries) for member, entries in found.items()}


def _shown(group: _Group, excluded: Container[str], judged: Judged | None) -> Iterator[_Shown]:
    """Yield the objects of `group`, those first that others find in its folder."""
    order = (*group.shipped.values(), *group.elfs)
    speaker = next((member for member in order if group.elfs[member].libc), None)
    asked: dict[_Needs, str] = {}

    def show(member: str, folder: str | None, name: str, hook: str | None) -> _Shown:
        elf = group.elfs[member]
        needed = tuple(n for n in elf.needed if n not in group.shipped and n not in excluded)
        asker = member
        if judged is not None and len(group.libcs) == 1:
            versions = group.verneed if not asked else ()
            elf = replace(_judged(elf, judged), verneed=versions)
            searched = tuple(each for each in needed if group.searches(each, judged))
            asker = asked.setdefault((folder, searched, group.entries[member]), member)
            needed = tuple(
                each
                for each in needed
                if (asker == member and each in searched)
                or (speaker == member and each.startswith(C_LIBRARIES))
                or (elf.undefined and each in judged.libraries)
            )
        content = build_stub(
            replace(elf, verneed=tuple(sorted(elf.verneed, key=lambda need: need.file))),
            needed=needed,
            search_path=_search_path(group, group.entries[member]),
            hook=hook,
        )
        return _Shown(member=member, folder=folder, name=name, content=content, asker=asker)

    for name, member in group.shipped.items():
        yield show(member, group.folder, name, None)
    for member, elf in group.elfs.items():
        base = posixpath.basename(member)
        hook = _hook(base, elf)
        if hook is None and group.shipped.get(base) == member:
            continue
        _, dot, suffix = base.partition(".")
        # Needed by name or not: that is what auditwheel asks of a library's own name.
        name = base if hook is None and base in group.shipped else f"m{dot}{suffix}"
        yield show(member, None, name, hook)


def _judged(elf: Elf, judged: Judged) -> Elf:
    symbols = tuple(symbol for symbol in elf.undefined if symbol.name in judged.symbols)
    return replace(elf, undefined=symbols)


def _hook(base: str, elf: Elf) -> str | None:
    """Return the hook that makes `elf` an extension for auditwheel, spelt for a module `m`."""
    stem = base.partition(".")[0]
    hooks = (prefix for hook in elf.module_hooks for prefix in _HOOKS if hook == prefix + stem)
    return next((f"{prefix}m" for prefix in hooks), None)


def _search_path(group: _Group, entries: Iterable[str]) -> str | None:
    own = (f"$ORIGIN/../{group.folder}",) if group.shipped else ()
    return ":".join((*own, *entries)) or None


def _anchor(group: _Group) -> bytes:
    """Build the object that needs what is shipped, and the C library that one of its users has."""
    needed = (name for elf in group.elfs.values() for name in elf.needed)
    libc = next((name for name in needed if name.startswith(C_LIBRARIES)), None)
    return build_stub(
        _blank(group),
        needed=[*((libc,) if libc else ()), *group.shipped],
        search_path=_search_path(group, ()),
    )


def _blank(group: _Group) -> Elf:
    """Return an object of the group's kind that says nothing."""
    some = next(iter(group.elfs.values()))
    return Elf(
        bits=some.bits,
        little_endian=some.little_endian,
        machine=some.machine,
        osabi=some.osabi,
        flags=some.flags,
        type=ElfType.DYN,
    )


def _stand_ins(
    groups: Sequence[_Group], settings: Settings, judged: Judged | None
) -> dict[str, bytes]:
    """Build what auditwheel may find in place of libraries that every glibc platform gives.

    It looks for them only to leave them where they are, and reads all their hash tables: for a
    small wheel a third of its work. None where an exclude pattern may be for a path of theirs.
    """
    for_paths = any(pattern.startswith(("/", "*", "?", "[")) for pattern in settings.exclude)
    if judged is None or for_paths or [group.libcs for group in groups] != [{Libc.GLIBC}]:
        return {}
    blank = _blank(groups[0])
    return {
        name: build_stub(blank, needed=(), soname=name)
        for name in COMPILER_LIBRARIES
        if name in judged.platform
    }


def _metadata(wheel: Wheel, objects: Iterable[str]) -> dict[str, bytes]:
    """Write WHEEL, whose tags auditwheel edits, and RECORD, by which it finds the objects."""
    tags = "".join(f"Tag: {tag}\n" for tag in wheel.tags)
    purelib = str(wheel.root_is_purelib).lower()
    text = {
        "METADATA": "Metadata-Version: 2.1\n"
        f"Name: {wheel.name.distribution}\nVersion: {wheel.name.version}\n",
        "WHEEL": f"Wheel-Version: 1.0\nRoot-Is-Purelib: {purelib}\n{tags}",
        "RECORD": "".join(f"{name},,\n" for name in objects),
    }
    return {f"{wheel.dist_info}/{name}": content.encode() for name, content in text.items()}
