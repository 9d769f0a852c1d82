"""What changed between two releases of a wheel, and which changes break users and dependents.

Names are compared without versions of the distribution and without the hashes of grafts. A library
is public if other distributions can link to it: it is not grafted, and no extension module.
"""

import posixpath
from collections.abc import Iterable, Iterator, Mapping
from enum import StrEnum
from itertools import chain, product
from types import MappingProxyType
from typing import Self

from packaging.utils import canonicalize_name

from wheelfix.elf.constants import STT_COMMON, STT_OBJECT, STT_TLS
from wheelfix.elf.demangle import demangle
from wheelfix.elf.exports import OF_LINKER, SymbolDefinitions
from wheelfix.elf.model import Definition, Elf, Libc
from wheelfix.elf.object_file_names import stem_of
from wheelfix.grouping import flatten, values_by_key
from wheelfix.loader.glibc_moves import oldest_glibc
from wheelfix.loader.install_schemes import allows_any, interpreters, site_path
from wheelfix.named_tuple import NamedTuple
from wheelfix.rules.findings import Severity
from wheelfix.rules.size import NOTABLE
from wheelfix.settings import Settings
from wheelfix.text import are, count, in_units, join_some
from wheelfix.wheel.grafted_name import original_name
from wheelfix.wheel.model import Wheel, WheelName
from wheelfix.wheel.platform_tags import may_coexist, oldest_promised, parse_platform_tag
from wheelfix.wheel.stable_names import stable_name


class ChangeKind(StrEnum):
    """What a change is about; its value names it on the command line and in JSON.

    An error is what makes an import fail that worked: of a dependent, or of the wheel on a promised
    machine. A warning takes something from users; they see it when they install.
    """

    severity: Severity

    def __new__(cls, value: str, severity: Severity = Severity.NOTE) -> Self:
        """Make a kind of changes of this severity."""
        kind = str.__new__(cls, value)
        kind._value_ = value
        kind.severity = severity
        return kind

    REMOVED_LIBRARY = "removed-library", Severity.ERROR
    CHANGED_SONAME = "changed-soname", Severity.ERROR
    REMOVED_EXPORT = "removed-export", Severity.ERROR
    RAISED_FLOOR = "raised-floor", Severity.ERROR
    RAISED_TAG = "raised-tag", Severity.WARNING
    LOST_TAG = "lost-tag", Severity.WARNING
    LOST_PYTHON = "lost-python", Severity.WARNING
    LOST_MODULE = "lost-module", Severity.WARNING
    LOST_EXTRA = "lost-extra", Severity.WARNING
    LOST_WHEEL = "lost-wheel", Severity.WARNING
    MOVED_LIBRARY = "moved-library", Severity.WARNING
    LEFT_OUT = "left-out", Severity.WARNING
    GROWN = "grown", Severity.WARNING
    TAG = "tag"
    PYTHON = "python"
    REQUIREMENT = "requirement"
    SIZE = "size"
    FILES = "files"
    BUNDLED = "bundled"
    NEEDED = "needed"
    SONAME = "soname"
    SEARCH_PATH = "search-path"
    VERSION = "version"
    SYMBOL = "symbol"
    ADDED_EXPORT = "added-export"


_OF_SYMBOLS = {ChangeKind.REMOVED_EXPORT, ChangeKind.ADDED_EXPORT, ChangeKind.SYMBOL}


class ReleaseChange(NamedTuple):
    """One difference between two releases."""

    kind: ChangeKind
    message: str
    """What differs and what it means: lower case, no full stop, literals in backticks."""
    members: tuple[str, ...] = ()
    """The files that differ: their names in the new wheel, or in the old one if they are gone."""
    items: tuple[str, ...] = ()
    """The symbols, files or lines that were added (`+`), removed (`-`) or changed."""
    harmless: bool = False
    """Whether another change of the same library makes up for it."""

    @property
    def severity(self) -> Severity:
        """How severe the change is."""
        return Severity.NOTE if self.harmless else self.kind.severity


class Brought(NamedTuple):
    """A library that another distribution installs."""

    distribution: str
    place: str
    """Its path below site-packages, or that of its scheme."""
    exports: Mapping[str, SymbolDefinitions]


class Side(NamedTuple):
    """One of the two wheels, with what is read for the comparison alone."""

    wheel: Wheel
    exports: Mapping[str, Mapping[str, SymbolDefinitions]]
    """The definitions of its public libraries, by member and symbol."""
    packages: Mapping[str, str]
    """The package and version that each grafted library is from, by member, as the SBOM says."""
    release: tuple[WheelName, ...] = ()
    """The wheels of its release, as far as they are known."""
    brought: Mapping[str, Brought] = MappingProxyType({})
    """Public libraries of the old wheel that a requirement of this one brings, by member."""


def counterpart(wheel: WheelName, others: Iterable[WheelName]) -> WheelName | None:
    """Return the name in `others` for the same distribution, Python and platform.

    Failing that, the first one that some Python and machine accept as well as `wheel`.
    """
    own = canonicalize_name(wheel.distribution)
    same = [other for other in others if canonicalize_name(other.distribution) == own]
    alike = [other for other in same if _key(other) == _key(wheel)]
    exact = sorted(alike, key=lambda other: other.platforms != wheel.platforms)
    tags = set(product(wheel.pythons, wheel.abis, _systems(wheel)))
    tagged = [o for o in same if not tags.isdisjoint(product(o.pythons, o.abis, _systems(o)))]
    usable = (o for o in same if _share_a_machine(wheel, o) and _share_a_python(wheel, o))
    return next(chain(exact, tagged, usable), None)


def _key(wheel: WheelName) -> tuple[tuple[str, ...], tuple[str, ...], frozenset[str]]:
    return wheel.pythons, wheel.abis, _systems(wheel)


def _systems(wheel: WheelName) -> frozenset[str]:
    return frozenset(map(_system, wheel.platforms))


def _system(platform: str) -> str:
    """Return a platform tag without the version of the C library: `manylinux x86_64`."""
    tag = parse_platform_tag(platform)
    return f"{tag.family} {tag.arch}" if tag.has_objects else platform


def _share_a_machine(name: WheelName, other: WheelName) -> bool:
    return any(may_coexist(*tags) for tags in product(name.platforms, other.platforms))


def _share_a_python(name: WheelName, other: WheelName) -> bool:
    return not set(interpreters(name)).isdisjoint(interpreters(other))


def public_libraries(wheel: Wheel, settings: Settings) -> tuple[str, ...]:
    """Return the shared libraries to which other distributions can link."""
    return tuple(
        member
        for member, elf in wheel.elfs.items()
        if elf.dynamic
        and not (elf.is_executable or elf.module_hooks or settings.is_vendored(member, wheel))
        and original_name(_name(member, elf)) == _name(member, elf)
        and ".so" in _name(member, elf)
        and (elf.soname or posixpath.basename(member).startswith("lib"))
    )


def _name(member: str, elf: Elf) -> str:
    """Return the name by which dependents need a library."""
    return elf.soname or posixpath.basename(member)


def compare(old: Side, new: Side, settings: Settings) -> tuple[ReleaseChange, ...]:
    """Return what changed from `old` to `new`, the most severe changes first."""
    changes = (
        *_libraries(old, new),
        *_floor(old.wheel, new.wheel),
        *_tags(old, new),
        *_pythons(old, new),
        *_requirements(old.wheel, new.wheel),
        *_sizes(old.wheel, new.wheel, settings.max_growth),
        *_files(old.wheel, new.wheel),
        *_bundled_changes(old, new, settings),
        *_objects(old.wheel, new.wheel),
    )
    return tuple(_spell(sorted(changes, key=lambda change: -change.severity)))


_SPELLED = 500_000
"""Characters of mangled names that are spelled as in C++: a second of work."""


def _spell(changes: Iterable[ReleaseChange]) -> Iterator[ReleaseChange]:
    """Yield the changes with the names of their symbols demangled, the last of very many aside."""
    left = _SPELLED
    for change in changes:
        if change.kind not in _OF_SYMBOLS:
            yield change
            continue
        items: list[str] = []
        for item in change.items:
            sign, (symbol, at, version) = item[:1], item[1:].partition("@")
            left -= len(symbol)
            items.append(sign + (demangle(symbol) if left >= 0 else symbol) + at + version)
        yield change._replace(items=tuple(items))


# --- What others link to --------------------------------------------------------------------------


def _libraries(old: Side, new: Side) -> Iterator[ReleaseChange]:
    """Yield changes of the public libraries of `old`."""
    copies = values_by_key(_likely_copies(new))
    stems = values_by_key((_stem(member), member) for member in new.exports)
    for (folder, name), member in _by_place(old).items():
        candidates = copies.get((folder, name)) or copies.get((None, name)) or ()
        same = next(iter(candidates), None)
        if same is None and member in new.brought:
            yield from _brought(old, member, new.brought[member])
            continue
        successor = same or next(iter(stems.get(_stem(member), ())), None)
        if successor is None:
            message = f"`{member}` is gone: what is linked with `{name}` does not load"
            yield ReleaseChange(ChangeKind.REMOVED_LIBRARY, message, (member,))
            continue
        if same is None:
            now = _name(successor, new.wheel.elfs[successor])
            means = "what is linked with the old one does not load"
            message = f"`{successor}` has the SONAME `{now}`, not `{name}`: {means}"
            yield ReleaseChange(ChangeKind.CHANGED_SONAME, message, (successor,))
        elif posixpath.dirname(stable_name(same)) != folder:
            message = (
                f"`{member}` moved to `{same}`: search paths of dependents lead to its old place"
            )
            yield ReleaseChange(ChangeKind.MOVED_LIBRARY, message, (same,))
        if successor in new.exports:
            offered = new.exports[successor]
            yield from _exports(old.exports[member], offered, successor, rebuilt=same is None)


def _brought(old: Side, member: str, now: Brought) -> Iterator[ReleaseChange]:
    """Yield how a public library of `old` differs from the one that a requirement brings."""
    if site_path(member, old.wheel) == now.place:
        message = f"`{member}` is gone: {now.distribution}, which is required, installs it"
        yield ReleaseChange(ChangeKind.REMOVED_LIBRARY, message, (member,), harmless=True)
    else:
        message = (
            f"`{member}` moved to `{now.place}` of {now.distribution}: search paths of dependents "
            "lead to its old place"
        )
        yield ReleaseChange(ChangeKind.MOVED_LIBRARY, message, (member,))
    yield from _exports(old.exports[member], now.exports, member, rebuilt=False)


def _by_place(side: Side) -> dict[tuple[str, str], str]:
    """Return the public libraries by folder and the name that dependents need.

    Of several copies in a folder, it is the one so called.
    """
    members: dict[tuple[str, str], str] = {}
    for member in side.exports:
        name = _name(member, side.wheel.elfs[member])
        place = (posixpath.dirname(stable_name(member)), name)
        if place not in members or posixpath.basename(member) == name:
            members[place] = member
    return members


def _likely_copies(side: Side) -> Iterator[tuple[tuple[str | None, str], str]]:
    """Yield the objects of `side` by folder and name, and by name alone (None), best ones first.

    Of several, a dependent finds a public one, and one that is called as it needs it.
    """

    def unlikely(pair: tuple[str, str]) -> tuple[bool, bool]:
        name, member = pair
        return member not in side.exports, posixpath.basename(member) != name

    named = [(_name(member, elf), member) for member, elf in side.wheel.elfs.items()]
    for name, member in sorted(named, key=unlikely):
        yield (posixpath.dirname(stable_name(member)), name), member
        yield (None, name), member


def _exports(
    old: Mapping[str, SymbolDefinitions],
    new: Mapping[str, SymbolDefinitions],
    member: str,
    *,
    rebuilt: bool,
) -> Iterator[ReleaseChange]:
    """Yield the exports that were removed and added; dependents may have to be `rebuilt` anyway."""
    versioned = any(definition.version for definition in chain.from_iterable(new.values()))
    gone = [
        _describe_symbol(symbol, definition.version)
        for symbol, definitions in old.items()
        for definition in definitions
        if _counts(symbol, definition)
        and not _is_served(definition, new.get(symbol, ()), versioned=versioned)
    ]
    added = [
        _describe_symbol(symbol, definitions[0].version)
        for symbol, definitions in new.items()
        if symbol not in old and _counts(symbol, definitions[0])
    ]
    if gone:
        means = "" if rebuilt else ": what uses them fails with `undefined symbol`"
        message = f"`{member}` lacks {count(len(gone), 'export')} of the old release{means}"
        items = tuple(f"-{symbol}" for symbol in gone)
        yield ReleaseChange(ChangeKind.REMOVED_EXPORT, message, (member,), items, harmless=rebuilt)
    if added:
        message = f"`{member}` has {count(len(added), 'new export')}"
        yield ReleaseChange(
            ChangeKind.ADDED_EXPORT, message, (member,), tuple(f"+{s}" for s in added)
        )


def _counts(symbol: str, definition: Definition) -> bool:
    """Return whether dependents can rely on a definition.

    Inline functions of C++ and their static variables are defined in each object that uses them
    (Itanium C++ ABI, "Vague Linkage").
    """
    is_vague = (definition.weak or definition.unique) and symbol.startswith("_Z")
    names_a_version = symbol == definition.version  # the linker defines one for each
    return not (is_vague or names_a_version or symbol in OF_LINKER)


def _is_served(old: Definition, offered: SymbolDefinitions, *, versioned: bool) -> bool:
    """Return whether what was linked to `old` binds to one of `offered`.

    A library without any versions serves a versioned reference (glibc, `do_lookup_x`).
    """
    alike = [definition for definition in offered if _storage(definition) == _storage(old)]
    if old.version is None or not versioned:
        return bool(alike)
    return any(definition.version == old.version for definition in alike)


def _storage(definition: Definition) -> int:
    """Return the kind of memory behind a symbol: code, data, or data of a thread."""
    return {STT_OBJECT: STT_OBJECT, STT_COMMON: STT_OBJECT, STT_TLS: STT_TLS}.get(
        definition.type, 0
    )


def _describe_symbol(symbol: str, version: str | None) -> str:
    return symbol + (f"@{version}" if version else "")


# --- Where it can be installed --------------------------------------------------------------------


def _floor(old: Wheel, new: Wheel) -> Iterator[ReleaseChange]:
    """Yield a higher version of glibc: an error unless a tag of `new` promises it."""
    before, after = _newest_glibc(old), _newest_glibc(new)
    if not after or not before or after[0] == before[0]:
        return
    least, now = (".".join(map(str, oldest[0])) for oldest in (before, after))
    message = f"the objects need glibc {now} instead of {least}"
    promised = oldest_promised(Libc.GLIBC, new.name.platforms)
    if after[0] < before[0]:
        yield ReleaseChange(ChangeKind.VERSION, message, (after[1],))
    elif promised is not None and after[0] <= promised:
        tag = ".".join(map(str, promised))
        yield ReleaseChange(ChangeKind.VERSION, f"{message}; the tag promises {tag}", (after[1],))
    else:
        is_same = old.name.platforms == new.name.platforms
        tag = "the tag is the same, so" if is_same else "the tag does not say so, and"
        means = f"{tag} pip installs it where it does not load"
        yield ReleaseChange(ChangeKind.RAISED_FLOOR, f"{message}; {means}", (after[1],))


def _newest_glibc(wheel: Wheel) -> tuple[tuple[int, ...], str] | None:
    """Return the newest version of glibc that an object needs, and the object."""
    needs = ((oldest_glibc([elf]), member) for member, elf in wheel.elfs.items())
    return max((need for need in needs if need[0]), default=None)


def _tags(old: Side, new: Side) -> Iterator[ReleaseChange]:
    before, after = old.wheel.name, new.wheel.name
    if before.platforms == after.platforms:
        return
    beside = [name for name in new.release if _share_a_python(before, name)]
    now = set(flatten(name.platforms for name in (after, *beside)))
    names = f"`{'.'.join(before.platforms)}` -> `{'.'.join(after.platforms)}`"
    lost: list[str] = []
    raised: list[str] = []
    for system, tags in values_by_key((_system(tag), tag) for tag in before.platforms).items():
        least = min(parse_platform_tag(tag).version for tag in tags)
        accepted = [since for tag in now if (since := _oldest_system(tags[0], tag)) is not None]
        if not accepted:
            lost.append(system)
        elif min(accepted) > least:
            libc = parse_platform_tag(tags[0]).libc or "the system"
            raised.append(f"{libc} {'.'.join(map(str, least))}")
    if lost:
        message = f"{names}: nothing for {join_some(lost)} any more"
        yield ReleaseChange(ChangeKind.LOST_TAG, message)
    for system in raised:
        yield ReleaseChange(
            ChangeKind.RAISED_TAG, f"{names}: pip no longer installs it with {system}"
        )
    if not lost and not raised:
        yield ReleaseChange(ChangeKind.TAG, names)


def _oldest_system(old: str, new: str) -> tuple[int, ...] | None:
    """Return the oldest version of the system of the tag `old` that accepts the tag `new`.

    Empty if each version does, None if none does. Other systems than Linux count as one.
    """
    was, now = parse_platform_tag(old), parse_platform_tag(new)
    if new == "any":
        return ()
    if old == "any":
        return None
    if (was.family, was.arch) == (now.family, now.arch):
        return now.version
    return () if may_coexist(old, new) else None


def _pythons(old: Side, new: Side) -> Iterator[ReleaseChange]:
    before, after = _allowed_pythons(old, *old.release), _allowed_pythons(new, *new.release)
    lost = [python for python in _allowed_pythons(old) if python not in after]
    gained = [python for python in _allowed_pythons(new) if python not in before]
    if lost:
        yield ReleaseChange(
            ChangeKind.LOST_PYTHON, f"pip no longer installs it for {join_some(lost)}"
        )
    if gained:
        yield ReleaseChange(ChangeKind.PYTHON, f"pip also installs it for {join_some(gained)}")


def _allowed_pythons(side: Side, *release: WheelName) -> tuple[str, ...]:
    """Return the Pythons that the tags and Requires-Python allow, for some machine of the wheel.

    `release` are the wheels that may take over there.
    """
    wheel = side.wheel
    required = wheel.metadata.requires_python or ""
    names = (wheel.name, *(name for name in release if _share_a_machine(name, wheel.name)))
    pythons = dict.fromkeys(flatten(map(interpreters, names)))
    return tuple(python for python in pythons if allows_any(required, [python]))


def _requirements(old: Wheel, new: Wheel) -> Iterator[ReleaseChange]:
    keys = {"requires-dist": "Requires-Dist", "requires-python": "Requires-Python"}
    for key, title in keys.items():
        lines = _difference(_values(old, key), _values(new, key))
        if lines:
            yield ReleaseChange(
                ChangeKind.REQUIREMENT, f"`{title}` of METADATA", items=tuple(lines)
            )
    kept = {canonicalize_name(extra) for extra in _values(new, "provides-extra")}
    gone = [e for e in _values(old, "provides-extra") if canonicalize_name(e) not in kept]
    if gone:
        yield ReleaseChange(
            ChangeKind.LOST_EXTRA, f"extra {join_some(gone)} {are(gone)} gone: pip only warns"
        )


def _values(wheel: Wheel, key: str) -> list[str]:
    return [value for name, value in wheel.metadata.fields if name == key]


def _difference(old: Iterable[str], new: Iterable[str]) -> list[str]:
    before, after = dict.fromkeys(old), dict.fromkeys(new)
    gone = [f"-{line}" for line in before if line not in after]
    return [*gone, *(f"+{line}" for line in after if line not in before)]


# --- What it contains -----------------------------------------------------------------------------


def _sizes(old: Wheel, new: Wheel, max_growth: int) -> Iterator[ReleaseChange]:
    installed = [sum(member.size for member in wheel.members) for wheel in (old, new)]
    more = new.zip_size - old.zip_size
    if more == 0 and installed[0] == installed[1]:
        return
    ratio = more / old.zip_size if old.zip_size else 0
    share = f" ({ratio:+.0%})" if abs(ratio) > 0.005 else ""
    message = (
        f"{in_units(old.zip_size)} -> {in_units(new.zip_size)}{share}, "
        f"installed {in_units(installed[0])} -> {in_units(installed[1])}"
    )
    before, now = _packed_sizes(old), _packed_sizes(new)
    growth = {name: size - before.get(name, 0) for name, size in now.items()}
    largest = sorted(growth, key=lambda name: -growth[name])[:5]
    grown = more >= NOTABLE and more * 100 > old.zip_size * max_growth
    kind = ChangeKind.GROWN if grown else ChangeKind.SIZE
    if grown:
        message += f", more than {max_growth} % (`max-growth`)"
    items = tuple(
        f"+{in_units(growth[name])} {name}{'' if name in before else ' (new)'}"
        for name in largest
        if growth[name] >= NOTABLE
    )
    yield ReleaseChange(kind, message, items=items)


def _packed_sizes(wheel: Wheel) -> dict[str, int]:
    """Return the compressed sizes, by stable name."""
    sizes: dict[str, int] = {}
    for member in wheel.members:
        name = _object_name(wheel, member.name)
        sizes[name] = sizes.get(name, 0) + member.compressed_size
    return sizes


def _stem(member: str) -> str:
    """Return the name of a library without hash and version: `libssl` for `libssl-1a.so.3`."""
    return stem_of(original_name(posixpath.basename(member)))


def _files(old: Wheel, new: Wheel) -> Iterator[ReleaseChange]:
    """Yield the files that came and went, bundled libraries aside."""
    before, after = (  # versions of libraries do not count
        {_object_name(wheel, m.name): m.name for m in wheel.members} for wheel in (old, new)
    )
    gone = [before[name] for name in before if name not in after]
    came = [after[name] for name in after if name not in before]
    if gone or came:
        message = f"{count(len(came), 'new file')}, {len(gone):,} gone"
        items = (*(f"-{name}" for name in gone), *(f"+{name}" for name in came))
        yield ReleaseChange(ChangeKind.FILES, message, items=items)
    modules = tuple(name for name in gone if name in old.elfs and old.elfs[name].module_hooks)
    if modules:
        message = f"{count(len(modules), 'extension module')} gone: {join_some(modules, 3)}"
        yield ReleaseChange(ChangeKind.LOST_MODULE, message, modules)


def _object_name(wheel: Wheel, member: str) -> str:
    stable = stable_name(member)
    return stem_of(stable) + ".so" if member in wheel.elfs and ".so" in stable else stable


def _bundled_changes(old: Side, new: Side, settings: Settings) -> Iterator[ReleaseChange]:
    before, after = (_grafts(side, settings) for side in (old, new))
    items = [f"-{before[name]}" for name in before if name not in after]
    items += [f"+{after[name]}" for name in after if name not in before]
    items += [
        f"{before[name]} -> {after[name]}"
        for name in before
        if name in after and before[name] != after[name]
    ]
    if items:
        number = count(len(items), "difference")
        yield ReleaseChange(ChangeKind.BUNDLED, number, items=tuple(items))
    had, has = (
        {original_name(posixpath.basename(member)) for member in side.wheel.elfs}
        for side in (old, new)
    )
    if left_out := sorted(had & new.wheel.needed - has):
        message = f"{join_some(left_out)} {are(left_out)} needed, and no longer in the wheel"
        yield ReleaseChange(ChangeKind.LEFT_OUT, message)


def _grafts(side: Side, settings: Settings) -> dict[str, str]:
    """Return name and package of each bundled library, by its name without a version."""
    wheel = side.wheel
    return {
        _object_name(wheel, member): original_name(posixpath.basename(member))
        + (f" ({side.packages[member]})" if member in side.packages else "")
        for member in wheel.elfs
        if settings.is_vendored(member, wheel)
    }


def _objects(old: Wheel, new: Wheel) -> Iterator[ReleaseChange]:
    """Yield the changes of objects that both have; the same change of several is one."""
    before = {_object_name(old, member): elf for member, elf in old.elfs.items()}
    changes = (
        ((kind, message, tuple(items)), member)
        for member, elf in new.elfs.items()
        if (known := before.get(_object_name(new, member))) is not None
        for kind, message, items in _of_object(known, elf)
    )
    for (kind, message, items), members in values_by_key(changes).items():
        yield ReleaseChange(kind, message, tuple(members), items)


def _properties(elf: Elf) -> Iterator[tuple[ChangeKind, str, list[str]]]:
    """Yield what is compared of an object: the kind of a change, its title, and the lines."""
    needed = [original_name(name) for name in elf.needed]
    yield ChangeKind.NEEDED, "DT_NEEDED", needed
    yield ChangeKind.SONAME, "DT_SONAME", [original_name(elf.soname)] if elf.soname else []
    entries = [f"{elf.path_tag} {entry}" for entry in elf.entries]
    yield ChangeKind.SEARCH_PATH, "entries", entries
    versions = [f"{v} of {original_name(need.file)}" for need in elf.verneed for v in need.versions]
    yield ChangeKind.VERSION, "versions that are needed", versions
    symbols = [_describe_symbol(s.name, s.version) for s in elf.undefined if not s.weak]
    yield ChangeKind.SYMBOL, "symbols that are needed", symbols


def _of_object(old: Elf, new: Elf) -> Iterator[tuple[ChangeKind, str, list[str]]]:
    for (kind, title, before), (*_, after) in zip(_properties(old), _properties(new), strict=True):
        if lines := _difference(before, after):
            yield kind, title, lines
