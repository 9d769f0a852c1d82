"""auditwheel's analysis of a wheel, computed from its policy tables: no process is started.

It applies the rules of auditwheel's `wheel_abi.py`, `policy/__init__.py` and `lddtree.py` to the
wheel as it is installed: an object that needs a library of the wheel has it, since the WF1xx rules
judge search paths. A repair asks auditwheel about what it wrote, and publishes nothing if the tags
differ. tests/analysis/test_policy_verdict.py and scripts/verdicts.py hold both equal, and
tests/pipelines/test_auditwheel_decisions.py the grafts.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from functools import cache, partial
from itertools import chain, count, starmap, takewhile
from operator import not_
from pathlib import Path
from posixpath import basename
from typing import TypeVar

from wheelfix.analysis.auditwheel_answer import Analysis, PolicyFindings
from wheelfix.analysis.lddtree_search import (
    SearchPath,
    excluded_names,
    members_by_name,
    search_entries,
)
from wheelfix.analysis.policies import (
    Policy,
    hook_prefix,
    lacks,
    needed_versions,
    needs_fpectl,
    needs_narrow_unicode,
    policy_of,
)
from wheelfix.analysis.policy_reasons import checks_isa, isa_level
from wheelfix.elf.model import Elf, Libc, Machine, PathTag, libc_of
from wheelfix.grouping import flatten
from wheelfix.loader.as_needed import Library
from wheelfix.loader.machine_names import X86_64_LEVELS, musl_soname
from wheelfix.loader.musl_search import RESERVED
from wheelfix.loader.platform_libraries import is_glibc_loader
from wheelfix.named_tuple import NamedTuple
from wheelfix.settings import Settings, matches_any
from wheelfix.system.lazy_patterns import lazy_pattern
from wheelfix.wheel.model import Wheel
from wheelfix.wheel.platform_tags import ARCHITECTURES, FAMILIES, Family, parse_platform_tag

_BASELINES = {abi: arch for arch, abi in ARCHITECTURES.items() if arch != "armv6l"}
_POLICY_ARCHITECTURES = {
    **{arch: arch for arch in _BASELINES.values()},
    **{name.replace("-", "_"): "x86_64" for name in X86_64_LEVELS},
    "arm64_v8a": "aarch64",
    "x86": "i686",
}
"""Architecture of a platform tag -> that of its policies."""
_T = TypeVar("_T")
_EF_ARM_EABIMASK, _EF_ARM_EABI_VER5, _EF_ARM_ABI_FLOAT_HARD = 0xFF000000, 0x05000000, 0x400
_MUSL_FILES = ("-linux-musl.so", "-arm-linux-musleabihf.so")
_GLIBC_FILE = lazy_pattern(r"cpython-3(?:1[1-9]|[2-9]\d)[^.-]*-")
_GLIBC_SUFFIXES = ("-linux-gnu.so", "-linux-gnueabihf.so")
_MUSL_OWN = frozenset(f"lib{name}.so" for name in RESERVED)


class _Subject(NamedTuple):
    """The objects that are checked, by the checks that apply to them."""

    family: Family
    libc_of_none: bool
    """Whether nothing says so, and the family is assumed."""
    tags: tuple[str, ...]
    """The platform tags of the wheel."""
    arch: str
    elfs: Mapping[str, Elf]
    """The objects for the architecture and C library of the wheel: their symbol versions count."""
    extensions: Mapping[str, Elf]
    tops: Mapping[str, Elf]
    """The load roots: extensions, and objects that no other object needs by file name."""
    needed: Mapping[str, tuple[str, ...]]
    """Member -> its DT_NEEDED entries, except those that an exclude pattern matches."""


class ThisMachine(NamedTuple):
    """The libraries of this machine, each with its path without links."""

    find: Callable[[str, Elf, str, SearchPath], tuple[Library, Path] | None]
    """Find a library to graft as `lddtree_search.Host` does."""
    outside: Callable[[str], Mapping[str, tuple[Library, Path]]]
    """What a member finds outside of the wheel, though the wheel has one of that name."""


def analyze(
    wheel: Wheel,
    settings: Settings,
    policies: Sequence[Policy],
    exclude: Sequence[str],
    machine: ThisMachine | None = None,
) -> Analysis | None:
    """Return what auditwheel finds in the installed wheel; None if no object or policy counts.

    Patterns of `exclude` count for names and for the paths that `machine` finds. Without it, no
    library may be grafted.
    """
    subject = _subject_of(wheel, tuple(exclude), settings.plat if machine else "")
    if subject is None:
        return None
    ladder = _ladder_of(subject, policies)
    if not ladder:
        return None
    search = _Search(subject, machine, exclude)
    allowed = [frozenset(_allowed_libraries(subject, policy)) for policy in ladder]
    outside = {member: search.of(member, allowed) for member in subject.elfs}
    answers = {id(answer): answer for answer in outside.values()}  # most objects share theirs
    external = [
        {name: library for answer in answers.values() for name, library in answer[rung].items()}
        for rung in range(len(ladder))
    ]
    grafts = [[lib.elf for lib in chosen.values() if lib is not None] for chosen in external]
    blacklisted = _blacklisted_symbols(subject, ladder)
    checked = _limits(subject, ladder, blacklisted, grafts, isa=checks_isa(wheel, settings))
    most = _most_grafts(settings.plat, ladder, external) if machine else 0
    overall = max(*checked, _first_met(len(names) <= most for names in external))
    tags = _tags(subject.arch, ladder)
    by_tag = {
        key: {tag: _paths(names) for (tag, _), names in zip(tags, [*answer, {}], strict=True)}
        for key, answer in answers.items()
    }
    return Analysis(
        policies=tuple(
            PolicyFindings(tag, aliases, _paths(names), lacking)
            for (tag, aliases), names, lacking in zip(
                tags[::-1], [{}, *external[::-1]], [{}, *blacklisted[::-1]], strict=True
            )
        ),
        overall=tags[overall][0],
        **{name: tags[rung][0] for name, rung in checked._asdict().items()},
        external={member: by_tag[id(answer)] for member, answer in outside.items()},
        excluded=excluded_names(wheel.elfs.values(), exclude) | search.excluded,
        libc_of_none=subject.libc_of_none,
        untrusted=(),
        searched=(),
    )


def _most_grafts(
    plat: str, ladder: Sequence[Policy], external: Sequence[Mapping[str, object]]
) -> int:
    """Return how many libraries may be grafted: a better tag is not worth more of them."""
    asked = [
        len(names)
        for policy, names in zip(ladder, external, strict=True)
        if plat in {"auto", policy.name} or plat.startswith(f"{policy.name}_")  # not by an alias
    ]
    return min(asked, default=0)


def _tags(arch: str, ladder: Sequence[Policy]) -> list[tuple[str, tuple[str, ...]]]:
    """Return the tag of each policy with its aliases, and last the one that promises nothing."""
    aliases = (tuple(f"{alias}_{arch}" for alias in policy.aliases) for policy in ladder)
    names = (f"{policy.name}_{policy.spelled(arch)}" for policy in ladder)
    return [*zip(names, aliases, strict=True), (f"linux_{arch}", ())]


class _Found(NamedTuple):
    """A library of this machine that would be grafted."""

    elf: Elf
    place: str
    """Where it was found."""
    path: Path
    """Without links."""
    needed: tuple[str, ...]
    """Its DT_NEEDED entries, except those that an exclude pattern matches."""


_Names = dict[str, _Found | None]
"""Name in DT_NEEDED -> the library; None for one that this machine lacks."""


def _paths(names: _Names) -> dict[str, Path | None]:
    return {name: None if library is None else library.path for name, library in names.items()}


class _Search:
    """The search for libraries to graft. Mutable: it keeps what was found, and excluded."""

    def __init__(
        self, subject: _Subject, machine: ThisMachine | None, exclude: Sequence[str]
    ) -> None:
        self.excluded: set[str] = set()
        self._exclude = exclude
        self._subject = subject
        self._machine = machine
        self._shipped = members_by_name(subject.elfs)
        self._entries = search_entries(subject.elfs, self._shipped)
        self._found: dict[object, _Found | None] = {}
        self._walked: dict[object, list[_Names]] = {}

    def of(self, member: str, allowed: Iterable[frozenset[str]]) -> list[_Names]:
        """Return for each policy, which allows these libraries, those to graft for `member`."""
        elf, entries = self._subject.elfs[member], self._entries[member]
        apart: dict[str, _Found] = {}
        if self._machine is not None:
            outside = self._machine.outside(member).items()
            apart = {name: self._located(*library) for name, library in outside}
        shipped = self._shipped.keys() - apart.keys()
        needed = tuple(name for name in self._subject.needed[member] if name not in shipped)
        places = tuple(library.place for library in apart.values())
        key = needed, elf.abi, elf.libc, elf.path_tag, entries, places
        if key not in self._walked:
            walk = partial(self._walk, elf, needed, entries, apart)
            self._walked[key] = [walk(names) for names in allowed]
        return self._walked[key]

    def _walk(
        self,
        elf: Elf,
        needed: Sequence[str],
        entries: tuple[str, ...],
        apart: Mapping[str, _Found],
        allowed: frozenset[str],
    ) -> _Names:
        asked = [name for name in needed if name not in allowed]
        shipped = self._shipped.keys() - apart.keys()
        names: _Names = {}
        own, late = SearchPath(rpath=entries), elf.path_tag is PathTag.RUNPATH
        further = SearchPath(runpath=entries) if late else own
        waiting = [(name, elf, "") for name in reversed(asked)]
        while waiting:
            name, dependent, path = waiting.pop()
            if name in names or name in allowed or name in shipped or is_glibc_loader(name):
                continue
            root = further if path else own
            library = apart.get(name) or self._find(name, dependent, path, root)
            if library is not None and matches_any(str(library.path), self._exclude):
                self.excluded |= {name, str(library.path)}
                continue
            names[name] = library
            if library is not None:
                elf, place = library.elf, library.place
                waiting += [(inner, elf, place) for inner in reversed(library.needed)]
        return names

    def _find(self, name: str, dependent: Elf, path: str, root: SearchPath) -> _Found | None:
        key = name, dependent.abi, dependent.search_path, path, root
        if key not in self._found:
            library = self._machine and self._machine.find(name, dependent, path, root)
            self._found[key] = library and self._located(*library)
        return self._found[key]

    def _located(self, library: Library, path: Path) -> _Found:
        excluded = excluded_names([library.elf], self._exclude)
        self.excluded |= excluded
        return _Found(
            elf=library.elf,
            place=library.path,
            path=path,
            needed=tuple(name for name in library.elf.needed if name not in excluded),
        )


class _Limits(NamedTuple):
    """The index of the oldest policy that each check of auditwheel allows, under its names."""

    symbols: int
    ucs2: int
    pyfpe: int
    blacklist: int
    machine: int


def _limits(
    subject: _Subject,
    ladder: Sequence[Policy],
    blacklisted: Iterable[Mapping[str, object]],
    grafts: Sequence[Sequence[Elf]],
    *,
    isa: bool,
) -> _Limits:
    """Return what the checks allow, the external libraries aside.

    `grafts` are the libraries that each policy of `ladder` would have grafted; `isa` says whether
    the instruction set is checked.
    """
    worst = len(ladder)
    versions = _versions_of(subject.elfs.values())
    oldest = cache(partial(_oldest_for, ladder=ladder, arch=subject.arch))  # most graft the same
    with_grafts = (oldest(versions | _versions_of(graft)) for graft in grafts)
    checked = chain(subject.tops.values(), *grafts)
    return _Limits(
        symbols=min(map(max, count(), with_grafts), default=0),
        ucs2=worst * any(starmap(needs_narrow_unicode, subject.extensions.items())),
        pyfpe=worst * any(starmap(needs_fpectl, subject.extensions.items())),
        blacklist=_first_met(not names for names in blacklisted),
        machine=worst * (isa and any(map(isa_level, checked))),
    )


def _versions_of(elfs: Iterable[Elf]) -> frozenset[str]:
    """Return the symbol versions of `elfs` that auditwheel looks at."""
    return frozenset(version for _, version in flatten(map(needed_versions, elfs)))


def _oldest_for(versions: frozenset[str], ladder: Iterable[Policy], arch: str) -> int:
    """Return the index of the oldest policy with all of the symbol versions."""
    return _first_met(
        not any(lacks(policy, version, arch) for version in versions) for policy in ladder
    )


def _first_met(met: Iterable[bool]) -> int:
    """Return the index of the first True, the length if there is none."""
    return sum(1 for _ in takewhile(not_, met))


def auditwheel_opens(member: str) -> bool:
    """Return whether auditwheel looks if a file is ELF (elfutils.py, `elf_file_filter`)."""
    return not member.endswith(".py")


def _subject_of(wheel: Wheel, exclude: tuple[str, ...], plat: str = "") -> _Subject | None:
    """Return the objects of `wheel` that count; None if none does.

    The C library is that of the tags, else that of the platform `plat`, else of the first object.
    """
    machines = {
        member: machine
        for member, elf in wheel.elfs.items()
        if auditwheel_opens(member) and (machine := _baseline(elf))
    }
    tags = [parse_platform_tag(tag) for tag in wheel.name.platforms]
    named_arch = _only(set(map(_named_architecture, wheel.name.platforms)))
    arch = named_arch or next(iter(machines.values()), None)
    known = {member: wheel.elfs[member] for member, own in machines.items() if own == arch}
    libcs = {member: libc_of_object(member, elf) for member, elf in known.items()}
    families = {member: FAMILIES[libc] if libc else None for member, libc in libcs.items()}
    if arch is None or not known:
        return None
    named = (family for family in families.values() if family is not None)
    promised = {tag.family for tag in tags if tag.libc is not None}
    asked = parse_platform_tag(plat)
    promised = promised if len(promised) == 1 or asked.libc is None else {asked.family}
    known_family = _only(promised) or next(named, None)
    family = known_family or Family.MANYLINUX
    elfs = {member: elf for member, elf in known.items() if families[member] in {None, family}}
    if not elfs:
        return None
    names = set(flatten(elf.needed for elf in elfs.values()))
    counting = {name for name in names if name and not matches_any(name, exclude)}
    needed = {
        member: tuple(name for name in elf.needed if name in counting)
        for member, elf in elfs.items()
    }
    extensions = {member: elf for member, elf in elfs.items() if hook_prefix(member, elf)}
    all_needed = set(flatten(needed.values()))
    return _Subject(
        family=family,
        libc_of_none=known_family is None,
        tags=wheel.name.platforms,
        arch=arch,
        elfs=elfs,
        extensions=extensions,
        tops={
            member: elf
            for member, elf in elfs.items()
            if member in extensions or basename(member) not in all_needed
        },
        needed=needed,
    )


def _named_architecture(platform: str) -> str | None:
    """Return the architecture with which a tag ends, as auditwheel reads it (wheeltools.py)."""
    names = (name for name in _POLICY_ARCHITECTURES if platform.endswith(f"_{name}"))
    return _POLICY_ARCHITECTURES.get(next(names, ""))


def _baseline(elf: Elf) -> str | None:
    """Return the architecture of an object; on ARM only hard-float EABI 5 has tags."""
    hard_float = elf.flags & _EF_ARM_EABIMASK == _EF_ARM_EABI_VER5 and bool(
        elf.flags & _EF_ARM_ABI_FLOAT_HARD
    )
    if elf.machine == Machine.ARM and not hard_float:
        return None
    return _BASELINES.get(elf.abi)


def _only(values: set[_T]) -> _T | None:
    return next(iter(values)) if len(values) == 1 else None


def libc_of_object(member: str, elf: Elf) -> Libc | None:
    """Return the C library for which an object was built, if that is known.

    It is known by the interpreter, by DT_NEEDED, or by the file name. Before Python 3.11, names of
    extensions for musl had `-linux-gnu` too.
    """
    if elf.interpreter is not None and not elf.for_bionic:
        return Libc.MUSL if libc_of(basename(elf.interpreter)) is Libc.MUSL else Libc.GLIBC
    if elf.libc is not None:
        return elf.libc
    if member.endswith(_MUSL_FILES):
        return Libc.MUSL
    stem, _, _ = basename(member).rpartition("-linux-gnu")
    is_glibc = member.endswith(_GLIBC_SUFFIXES) and _GLIBC_FILE.search(stem)
    return Libc.GLIBC if is_glibc else None


def has_policies(wheel: Wheel, policies: Sequence[Policy], exclude: Sequence[str]) -> bool:
    """Return whether any platform but `linux` is for the objects; True if no object counts."""
    subject = _subject_of(wheel, tuple(exclude))
    return subject is None or bool(_ladder_of(subject, policies))


def _ladder_of(subject: _Subject, policies: Sequence[Policy]) -> list[Policy]:
    """Return the policies for this family and architecture, that of the oldest platform first.

    For musl, auditwheel uses one: the version of this machine, or the newest on a machine without
    musl; for Android, that of the wheel's own tag, which never changes.
    """
    if subject.family is Family.ANDROID:
        policy, arch = policy_of(subject.tags[0], policies), subject.arch
        own = policy and arch in policy.symbol_versions and f"{policy.name}_{policy.spelled(arch)}"
        return [policy] if policy is not None and own == subject.tags[0].lower() else []
    fitting = sorted(
        (
            policy
            for policy in policies
            if policy.name.startswith(subject.family) and subject.arch in policy.symbol_versions
        ),
        key=lambda policy: -policy.priority,
    )
    return fitting[-1:] if subject.family is Family.MUSLLINUX else fitting


def _allowed_libraries(subject: _Subject, policy: Policy) -> AbstractSet[str]:
    """Return the libraries that `policy` lets the wheel expect of the machine."""
    allowed = {_musl_soname(name, subject) for name in policy.whitelist}
    return allowed | _MUSL_OWN if subject.family is Family.MUSLLINUX else allowed


def _musl_soname(name: str, subject: _Subject) -> str:
    """Return the SONAME of musl's libc for its file name, which auditwheel's table has."""
    if subject.family is not Family.MUSLLINUX or name != "libc.so":
        return name
    return musl_soname(ARCHITECTURES[subject.arch])


def _blacklisted_symbols(subject: _Subject, ladder: Sequence[Policy]) -> list[dict[str, list[str]]]:
    """Return for each policy, by library, the private symbols that the dependents use."""
    used = _private_symbols(subject, ladder)
    return [_private_in(policy, used) for policy in ladder]


def _private_symbols(subject: _Subject, ladder: Iterable[Policy]) -> dict[str, set[str]]:
    """Return the symbols that the dependents of each library with private symbols use.

    Those that no policy of `ladder` lists as private are left out.
    """
    listed: dict[str, set[str]] = {}
    for policy in ladder:
        for library, names in policy.blacklist.items():
            listed.setdefault(library, set()).update(names)
    private: dict[str, set[str]] = {}
    for member, elf in subject.tops.items():
        if libraries := listed.keys() & set(subject.needed[member]):
            used = {symbol.name for symbol in elf.undefined if not symbol.weak} | {"*"}
            for library in libraries:
                private.setdefault(library, set()).update(used & listed[library])
    return private


def _private_in(policy: Policy, used: Mapping[str, set[str]]) -> dict[str, list[str]]:
    """Return the private symbols among those that are `used`, by library."""
    private = {
        library: used[library].intersection(names)
        for library, names in policy.blacklist.items()
        if library in used
    }
    return {library: sorted(names) for library, names in sorted(private.items()) if names}
