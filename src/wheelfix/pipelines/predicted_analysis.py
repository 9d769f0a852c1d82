"""auditwheel's analysis of a wheel, computed from its policy tables: no process is started.

The plan of `check` uses it in place of auditwheel's own. It follows `analyze_wheel_abi` of
auditwheel's wheel_abi.py for `repair`, on the wheel as it is installed; a test holds both equal.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import NamedTuple

from wheelfix.analysis.graft_candidates import SearchPath, excluded_names, search_entries
from wheelfix.analysis.policies import Policy
from wheelfix.analysis.policy_reasons import checks_isa
from wheelfix.analysis.policy_verdict import (
    LIBPYTHON,
    Subject,
    Verdict,
    allowed_libraries,
    blacklisted_symbols,
    first_met,
    ladder_of,
    limits,
    members_by_name,
    policy_verdict,
    subject_of,
)
from wheelfix.elf.model import Elf, PathTag
from wheelfix.host.library_search import HostLibraries
from wheelfix.host.policy_tables import read_policies
from wheelfix.loader.as_needed import Library
from wheelfix.loader.platform_libraries import is_glibc_loader
from wheelfix.pipelines.auditwheel_answer import Analysis, PolicyFindings
from wheelfix.pipelines.graft import HostLibrary, read_library
from wheelfix.pipelines.repair_refusals import no_object_error
from wheelfix.rules.context import Memory
from wheelfix.settings import Settings, matches_any
from wheelfix.wheel.model import Wheel


@dataclass(frozen=True, slots=True)
class PredictedAuditwheel:
    """auditwheel's decisions on what `libraries` of this machine it would find."""

    libraries: HostLibraries
    memory: Memory

    def analyze(self, wheel: Wheel, settings: Settings, exclude: Sequence[str]) -> Analysis:
        """Predict the analysis. Raises `NonPlatformWheelError` if no object counts."""
        key = wheel.name, tuple(exclude), wheel.elfs
        make = partial(predict, wheel, settings, exclude, self.libraries)
        return self.memory.recall("analysis", key, make)

    def verdict(self, wheel: Wheel, settings: Settings, exclude: Sequence[str]) -> Verdict | None:
        """Compute the verdict from the policy tables."""
        judged = {
            member: elf._replace(rpath=None, runpath=None, segments=())
            for member, elf in wheel.elfs.items()
        }
        key = wheel.name, exclude, judged
        judge = partial(policy_verdict, wheel, settings, read_policies(), exclude)
        return self.memory.recall("verdict", key, judge)

    def library(self, source: Path) -> HostLibrary:
        """Read the library where it is."""
        return self.memory.recall(f"library {source}", None, partial(read_library, source, None))


def predict(
    wheel: Wheel, settings: Settings, exclude: Sequence[str], libraries: HostLibraries
) -> Analysis:
    """Return the analysis of `wheel`; patterns of `exclude` count for names and for paths.

    Raises `NonPlatformWheelError` if no object of the wheel counts.
    """
    subject = subject_of(wheel, tuple(exclude))
    if subject is None:
        raise no_object_error(wheel, settings.plat)
    ladder = ladder_of(subject, read_policies())
    search = _Search(subject, libraries, exclude)
    allowed = [frozenset(allowed_libraries(subject, policy)) for policy in ladder]
    found = {member: search.of(member, allowed) for member in subject.elfs}
    external = [
        {name: library for some in found.values() for name, library in some[rung].items()}
        for rung in range(len(ladder))
    ]
    grafts = [[one.elf for one in some.values() if one is not None] for some in external]
    blacklisted = blacklisted_symbols(subject, ladder)
    checked = limits(subject, ladder, blacklisted, grafts, isa=checks_isa(wheel, settings))
    most = _most_grafts(settings.plat, ladder, external)
    overall = max(*checked, first_met(len(names) <= most for names in external))
    tags = _tags(subject.arch, ladder)
    return Analysis(
        policies=tuple(
            PolicyFindings(tag, aliases, _paths(names), lacking)
            for (tag, aliases), names, lacking in zip(
                tags[::-1], [{}, *external[::-1]], [{}, *blacklisted[::-1]], strict=True
            )
        ),
        **{name: tags[rung][0] for name, rung in checked._asdict().items()},
        overall=tags[overall][0],
        external={
            member: {tag: _paths(names) for (tag, _), names in zip(tags, [*some, {}], strict=True)}
            for member, some in found.items()
        },
        libpython=frozenset(
            name for names in external for name in names if LIBPYTHON.fullmatch(name)
        ),
        excluded=excluded_names(wheel.elfs.values(), exclude) | search.excluded,
        warnings=(),
        untrusted=(),
        searched=libraries.searched,
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
    names = (f"{policy.name}_{arch}" for policy in ladder)
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
    return {name: None if found is None else found.path for name, found in names.items()}


class _Search:
    """The search for libraries to graft. Mutable: it keeps what was found, and excluded."""

    def __init__(self, subject: Subject, libraries: HostLibraries, exclude: Sequence[str]) -> None:
        self.excluded: set[str] = set()
        self._exclude = exclude
        self._subject = subject
        self._libraries = libraries
        self._shipped = members_by_name(subject)
        self._entries = search_entries(subject.elfs, self._shipped)
        self._found: dict[object, _Found | None] = {}
        self._walked: dict[object, list[_Names]] = {}

    def of(self, member: str, allowed: Iterable[frozenset[str]]) -> list[_Names]:
        """Return for each policy, which allows these libraries, those to graft for `member`."""
        elf, entries = self._subject.elfs[member], self._entries[member]
        needed = tuple(name for name in self._subject.needed[member] if name not in self._shipped)
        key = needed, elf.abi, elf.libc, elf.path_tag, entries
        if key not in self._walked:
            self._walked[key] = [self._walk(elf, needed, entries, names) for names in allowed]
        return self._walked[key]

    def _walk(
        self, elf: Elf, needed: Sequence[str], entries: tuple[str, ...], allowed: frozenset[str]
    ) -> _Names:
        asked = [name for name in needed if name not in allowed]
        names: _Names = {}
        own, late = SearchPath(rpath=entries), elf.path_tag is PathTag.RUNPATH
        further = SearchPath(runpath=entries) if late else own
        waiting = [(name, elf, "") for name in reversed(asked)]
        while waiting:
            name, dependent, path = waiting.pop()
            if name in names or name in allowed or name in self._shipped or is_glibc_loader(name):
                continue
            if LIBPYTHON.fullmatch(name):
                names[name] = None
                continue
            found = self._find(name, dependent, path, further if path else own)
            if found is not None and matches_any(str(found.path), self._exclude):
                self.excluded.add(str(found.path))
                continue
            names[name] = found
            if found is not None:
                waiting += [(inner, found.elf, found.place) for inner in reversed(found.needed)]
        return names

    def _find(self, name: str, dependent: Elf, path: str, root: SearchPath) -> _Found | None:
        key = name, dependent.abi, dependent.search_path, path, root
        if key not in self._found:
            library = self._libraries.graftable(name, dependent, path, root)
            self._found[key] = None if library is None else self._located(library)
        return self._found[key]

    def _located(self, library: Library) -> _Found:
        excluded = excluded_names([library.elf], self._exclude)
        self.excluded |= excluded
        return _Found(
            elf=library.elf,
            place=library.path,
            path=Path(library.path).resolve(),
            needed=tuple(name for name in library.elf.needed if name not in excluded),
        )
