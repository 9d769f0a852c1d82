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
- What says the same is shown once: extensions are all called `m`, with a hook of that name.
"""

import posixpath
from collections.abc import Container, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from fnmatch import fnmatchcase

from wheelfix.elf import Elf, ElfType
from wheelfix.settings import Settings
from wheelfix.skeleton import skeleton
from wheelfix.wheel import Wheel

# Names by which auditwheel tells the C library, and one that it removes wherever it stands: they
# stay in view even where the wheel ships such a file (auditwheel's lddtree.py, `ldd`).
_LIBC = ("libc.so.6", "ld-linux", "ld64.so.", "libc.musl-", "ld-musl-")
_LIBPYTHON = "libpython"
_HOOKS = ("PyInit_", "init", "_cffi_pypyinit_")

_Abi = tuple[int, bool, int]


@dataclass(frozen=True, slots=True, kw_only=True)
class View:
    """The files of the wheel that auditwheel is shown, and what they stand for."""

    filename: str
    members: Mapping[str, bytes]
    """By name in the view."""
    names: Mapping[str, tuple[str, ...]]
    """Object in the view -> the members that it stands for; an anchor stands for none."""
    excluded: frozenset[str]
    """Names in DT_NEEDED that are left out because an exclude pattern matches them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Group:
    """The objects of one class, byte order and machine: those that can load each other."""

    folder: str
    """Where the shipped libraries stand."""
    elfs: Mapping[str, Elf]
    shipped: Mapping[str, str]
    """Name in DT_NEEDED -> the member that has it as file name or SONAME."""
    entries: Mapping[str, tuple[str, ...]]
    """Member -> absolute search path entries: its own, then those of the objects that load it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Shown:
    """One object, as it is going to be shown."""

    member: str
    folder: str | None
    """None for a folder of its own."""
    name: str
    content: bytes


def build_view(
    wheel: Wheel, settings: Settings, *, judged_symbols: Container[str] | None = None
) -> View:
    """Return the view of `wheel` under the exclude patterns of `settings`.

    `judged_symbols` are the undefined symbols that auditwheel looks at by name; all others are
    left out. None keeps all.
    """
    excluded = _excluded(wheel.elfs.values(), settings.exclude)
    members: dict[str, bytes] = {}
    names: dict[str, tuple[str, ...]] = {}
    places: dict[tuple[str, bytes], str] = {}
    groups = _groups(wheel.elfs, excluded)
    objects = [shown for group in groups for shown in _shown(group, excluded, judged_symbols)]
    for shown in objects:
        key = (shown.name, shown.content)
        place = places.get(key)
        if place is None:
            folder = shown.folder or f"e{len(places):05}"
            place = places[key] = f"{folder}/{shown.name}"
            members[place] = shown.content
        names[place] = (*names.get(place, ()), shown.member)
    for group in groups:
        if group.shipped:
            place = f"anchor-{group.folder}/anchor"
            members[place] = _anchor(group)
            names[place] = ()
    return View(
        filename=str(wheel.name),
        members={**members, **_metadata(wheel, members)},
        names=names,
        excluded=excluded,
    )


def _excluded(elfs: Iterable[Elf], patterns: Iterable[str]) -> frozenset[str]:
    """Return the names in DT_NEEDED that a pattern matches, as auditwheel matches them."""
    patterns = tuple(patterns)
    names = {name for elf in elfs for name in elf.needed} if patterns else set[str]()
    return frozenset(
        name
        for name in names
        if not name.startswith(_LIBC) and any(fnmatchcase(name, pattern) for pattern in patterns)
    )


def _groups(elfs: Mapping[str, Elf], excluded: Container[str]) -> list[_Group]:
    by_abi: dict[_Abi, dict[str, Elf]] = {}
    for member, elf in elfs.items():
        if not member.endswith(".py"):  # auditwheel never opens these
            by_abi.setdefault((elf.bits, elf.little_endian, elf.machine), {})[member] = elf
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
        and not name.startswith((*_LIBC, _LIBPYTHON))
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


def _shown(
    group: _Group, excluded: Container[str], judged_symbols: Container[str] | None
) -> Iterator[_Shown]:
    """Yield the objects of `group`, those first that others find in its folder."""
    for name, member in group.shipped.items():
        content = _content(group, member, None, excluded, judged_symbols)
        yield _Shown(member=member, folder=group.folder, name=name, content=content)
    for member, elf in group.elfs.items():
        base = posixpath.basename(member)
        hook = _hook(base, elf)
        if hook is None and group.shipped.get(base) == member:
            continue
        _, dot, suffix = base.partition(".")
        # Needed by name or not: that is what auditwheel asks of a library's own name.
        name = base if hook is None and base in group.shipped else f"m{dot}{suffix}"
        content = _content(group, member, hook, excluded, judged_symbols)
        yield _Shown(member=member, folder=None, name=name, content=content)


def _hook(base: str, elf: Elf) -> str | None:
    """Return the hook that makes `elf` an extension for auditwheel, spelt for a module `m`."""
    stem = base.partition(".")[0]
    hooks = (prefix for hook in elf.module_hooks for prefix in _HOOKS if hook == prefix + stem)
    return next((f"{prefix}m" for prefix in hooks), None)


def _content(
    group: _Group,
    member: str,
    hook: str | None,
    excluded: Container[str],
    judged_symbols: Container[str] | None,
) -> bytes:
    elf = group.elfs[member]
    if judged_symbols is not None:
        judged = tuple(symbol for symbol in elf.undefined if symbol.name in judged_symbols)
        elf = replace(elf, undefined=judged)
    elf = replace(elf, verneed=tuple(sorted(elf.verneed, key=lambda need: need.file)))
    return skeleton(
        elf,
        needed=[n for n in elf.needed if n not in group.shipped and n not in excluded],
        search_path=_search_path(group, group.entries[member]),
        hook=hook,
    )


def _search_path(group: _Group, entries: Iterable[str]) -> str | None:
    own = (f"$ORIGIN/../{group.folder}",) if group.shipped else ()
    return ":".join((*own, *entries)) or None


def _anchor(group: _Group) -> bytes:
    """Build the object that needs what is shipped, and the C library that one of its users has."""
    needed = (name for elf in group.elfs.values() for name in elf.needed)
    libc = next((name for name in needed if name.startswith(_LIBC)), None)
    some = next(iter(group.elfs.values()))
    blank = Elf(
        bits=some.bits,
        little_endian=some.little_endian,
        machine=some.machine,
        osabi=some.osabi,
        flags=some.flags,
        type=ElfType.DYN,
    )
    return skeleton(
        blank,
        needed=[*((libc,) if libc else ()), *group.shipped],
        search_path=_search_path(group, ()),
    )


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
