"""Libraries that a wheel lacks, and that what it requires may bring.

Whether they are there is not known before the requirements are.
"""

import posixpath
import re
from collections.abc import Callable, Collection, Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import field
from functools import cache, cached_property, lru_cache, partial
from typing import TYPE_CHECKING

from packaging.utils import canonicalize_name

from wheelfix.analysis.import_order import names_in_code
from wheelfix.analysis.never_bundled import reason_not_to_bundle
from wheelfix.elf.model import Elf, starts_at_origin
from wheelfix.elf.object_file_names import stem_of
from wheelfix.frozen import frozen
from wheelfix.loader.install_schemes import Layout, layouts, site_path
from wheelfix.loader.loading import entry_directory
from wheelfix.loader.platform_libraries import may_come_from_platform
from wheelfix.named_tuple import NamedTuple
from wheelfix.providers.model import Provided, requires_dist_of
from wheelfix.providers.provider_uses import provider_of
from wheelfix.providers.requirements_between_wheels import (
    Part,
    all_requirements,
    requirements_of_extras,
)
from wheelfix.providers.well_known import (
    CUDA_BUILD,
    brings,
    well_known_folders,
)
from wheelfix.python_sources.global_imports import opens_for_all
from wheelfix.python_sources.imported_modules import loads_libraries_of, namings
from wheelfix.settings import Settings, matches_any
from wheelfix.system.lazy_patterns import lazy_pattern
from wheelfix.wheel.grafted_name import remove_hash
from wheelfix.wheel.model import Wheel
from wheelfix.wheel.names_in_code import CodeNames

if TYPE_CHECKING:
    from packaging.requirements import Requirement

_WORD = lazy_pattern(r"[a-z0-9]+")
_MOST = 100
"""Requirements that are tried for each library: a wheel that uses others has a few."""
_LIBRARY_FOLDERS = ("lib", "lib64")
"""The folders of a prefix with libraries (GNU Coding Standards, "Directory Variables")."""
_NO_NAMES = frozenset({"lib", "libs", "py", "python"})


@frozen
class LeftToRequirements:
    """What a wheel leaves to requirements that were not looked into."""

    requirements: tuple[str, ...] = ()
    """The names of these requirements, as METADATA spells them."""
    required: tuple[str, ...] = ()
    """The same, with what else METADATA says (PEP 508)."""
    of_extras: frozenset[str] = frozenset()
    """The names of what only an extra requires. It brings a library only if their names agree."""
    libraries: Mapping[str, str] = field(default_factory=dict[str, str])
    """DT_NEEDED entry -> the requirement that probably brings it; empty if none stands out."""
    expected: frozenset[str] = frozenset()
    """Those that the requirement is known to have, or to which a search path leads by its name."""
    unreached: Mapping[str, str] = field(default_factory=dict[str, str])
    """Library -> the requirement that is known to have it, where no search path leads there, and
    no source names the module of the requirement."""
    entries: frozenset[tuple[str, str]] = frozenset()
    """Members with the entries of their search paths that lead to where the libraries may be."""
    opened: Mapping[str, str] = field(default_factory=dict[str, str])
    """Top-level package -> the requirement whose module its sources open with RTLD_GLOBAL."""

    def that_may_bring(self, libraries: Collection[str]) -> list[str]:
        """Return the names of those that may bring one of `libraries`, by what is known of them."""
        both = zip(self.requirements, self.required, strict=True)
        return [r for r, text in both if any(brings(text, at) is not False for at in libraries)]


def left_to_requirements(
    wheel: Wheel, settings: Settings, providers: Sequence[Provided], code: CodeNames | None
) -> LeftToRequirements:
    """Return what `wheel` leaves to its requirements, without those that `providers` show.

    A version that METADATA excludes shows nothing of one that it allows. Without `code`, any source
    may load the libraries of a requirement.
    """
    part = Part(wheel.name, wheel.metadata.requires_dist)
    beside = requires_dist_of(p for p in providers if p.version not in p.refused)
    known = {**beside, part.distribution: part.requires_dist}
    required = [indirect.requirement for indirect in all_requirements(part, known).values()]
    unknown = [r for r in required if canonicalize_name(r.name) not in known]
    direct = {r.name for r in required}
    extras = {r.name: r for r in requirements_of_extras(part) if r.name not in direct}
    optional = sorted(name for name in extras if canonicalize_name(name) not in known)
    missing = list(_missing(wheel, providers)) if unknown or optional else []
    layout = next(iter(layouts(wheel)), None) if missing else None
    own = _own_folders(wheel, layout) if layout else frozenset[str]()
    tried = [*unknown, *map(extras.__getitem__, optional)][:_MOST]
    names, of_extras = [requirement.name for requirement in tried], frozenset(optional)
    judge = _Judge(
        wheel=wheel,
        settings=settings,
        code=code,
        tried={str(requirement): requirement.name for requirement in tried},
        unknown=unknown[:_MOST],
        of_extras=of_extras,
        shown=[r.name for r in required if canonicalize_name(r.name) in known],
        loading=[*_loading(wheel, names, code)] if missing else [],
    )
    libraries: dict[str, str] = {}
    expected: set[str] = set()
    unreached: dict[str, str] = {}
    folders: set[str] = set()
    leading: dict[str, Collection[str]] = {}
    for member, elf, library in missing:
        if layout and member not in leading:
            leading[member] = dict(_outward_entries(elf, member, layout, own)).values()
        outward = leading.get(member, ())
        found = judge.bringer(elf, library, outward, libraries.get(library, ""))
        if found.is_unreached:
            unreached[library] = found.name
        if found.is_left:
            libraries[library] = found.name
            folders.update(outward)
        expected.update([library] if found.is_sure else [])
    entries = (
        (member, entry)
        for member, elf in (wheel.elfs.items() if folders else ())
        for entry, folder in (_outward_entries(elf, member, layout, own) if layout else ())
        if folder in folders
    )
    return LeftToRequirements(
        requirements=tuple(requirement.name for requirement in unknown),
        required=tuple(map(str, unknown)),
        of_extras=of_extras,
        libraries=libraries,
        expected=frozenset(expected),
        unreached=unreached,
        entries=frozenset(entries),
        opened=dict(opened_for_all(wheel, names, code)),
    )


class _Bringer(NamedTuple):
    """The requirement that probably brings a library; no name if none stands out."""

    name: str = ""
    is_left: bool = False
    is_sure: bool = False
    is_unreached: bool = False
    """Whether neither a search path nor a source leads to the library that it is known to have."""


@frozen(eq=False)
class _Judge:
    """Which requirement brings a library, by what is known of their names and files."""

    wheel: Wheel
    settings: Settings
    code: CodeNames | None
    tried: Mapping[str, str]
    """Requirement -> its name."""
    unknown: Sequence["Requirement"]
    of_extras: frozenset[str]
    shown: Sequence[str]
    """The names of the requirements whose files are known."""
    loading: Sequence[str]
    """The names of those that sources call to load their libraries."""

    def bringer(self, elf: Elf, library: str, folders: Collection[str], before: str) -> _Bringer:
        """Return what brings a library to an object whose search path leads to `folders`.

        `before` is what brings it to another object.
        """
        able, known, named = self._may_bring(library)
        is_led = bool(known) and _leads_to(library, known, folders)
        is_unreached = bool(known) and not is_led and not self._may_import(known, library)
        is_excluded = not is_unreached and matches_any(library, self.settings.exclude)
        if not able or is_excluded or (library in self._sonames and not is_led):
            return _Bringer()  # a repair leads to the copy of that SONAME
        sure = known or _companion(self.wheel, elf, self.unknown)
        alike = self._most_alike(able, library, *folders)
        sure = sure or (self._most_alike(able, *folders) and alike)
        grafts = self.settings.graft_folder(self.wheel.name.distribution)
        if remove_hash(library) and (not sure or grafts in folders):
            # A repair of this wheel made the name: no other wheel has it.
            return _Bringer(known, is_unreached=is_unreached)
        likely = sure or before or self._most_alike(able, library)
        likely = likely or next((name for name in self.loading if name in able), "")
        is_left = bool(likely) or (bool(folders) and not self.of_extras.issuperset(able))
        return _Bringer(likely or named, is_left, bool(sure), is_unreached)

    @cached_property
    def _sonames(self) -> frozenset[str | None]:
        return frozenset(elf.soname for elf in self.wheel.elfs.values())

    @cached_property
    def _may_import(self) -> Callable[[str, str], bool]:
        """Whether a source may import a requirement: it may read all sources."""
        return cache(partial(_may_import, self.code))

    @cached_property
    def _may_bring(self) -> Callable[[str], tuple[tuple[str, ...], str, str]]:
        """Library -> those that may have it, that which is known to, and that with such an extra.

        As `cuda-toolkit[cudart]`.
        """

        @cache
        def judged(library: str) -> tuple[tuple[str, ...], str, str]:
            answers = {name: brings(text, library) for text, name in self.tried.items()}
            able = tuple(name for name, answer in answers.items() if answer is not False)
            alike = (r.name for r in self.unknown if not _stems(library).isdisjoint(r.extras))
            named = next(filter(able.__contains__, alike), "")
            return able, next((name for name in able if answers[name]), ""), named

        return judged

    @cached_property
    def _most_alike(self) -> Callable[..., str]:
        @cache
        def alike(names: tuple[str, ...], *places: str) -> str:
            return _most_alike(names, places, self.shown)

        return alike


def _missing(wheel: Wheel, providers: Sequence[Provided]) -> Iterator[tuple[str, Elf, str]]:
    """Yield each object with a DT_NEEDED entry that nothing known serves."""
    shipped, libc = wheel.object_names, wheel.libc
    for member, elf in wheel.elfs.items():
        for name in dict.fromkeys(elf.needed):
            if (
                name
                and "/" not in name
                and name not in shipped
                and not may_come_from_platform(name, libc)
                and not reason_not_to_bundle(name)
                and provider_of(name, providers) is None
            ):
                yield member, elf, name


def _outward_entries(
    elf: Elf, member: str, layout: Layout, own: Container[str]
) -> Iterator[tuple[str, str]]:
    """Yield the entries of a search path that lead to folders that the wheel has not as its `own`.

    Each comes with its folder, relative to site-packages or to the environment.
    """
    origin = layout.paths.get(member, "").rpartition("/")[0]
    scheme = layout.scheme
    bases = [f"{base}/" for base in (scheme.platlib, scheme.purelib, scheme.root)]
    for entry in elf.entries if origin else ():
        folder = entry_directory(entry, origin)
        base = next((base for base in bases if folder.startswith(base)), None)
        if base and folder not in own and starts_at_origin(entry):
            yield entry, folder.removeprefix(base)


def _own_folders(wheel: Wheel, layout: Layout) -> frozenset[str]:
    """Return the folders that no other wheel fills: those with files, and those above.

    The `lib` of a prefix is not one of them: libraries of several wheels are in that of the
    environment, and in `cmeel.prefix/lib`. A prefix is a folder in site-packages with `lib`, in
    which there is nothing of Python, nor in a folder above it: a package has its folder for itself.
    """
    scheme = layout.scheme
    sites = (scheme.platlib, scheme.purelib)
    filled = {path.rpartition("/")[0] for path in layout.paths.values()}
    above = {folder for folder in layout.directories if scheme.platlib.startswith(folder)}
    modules = (member for member, elf in wheel.elfs.items() if elf.is_module)
    names = (member.name for member in wheel.members)
    python = (*modules, *(name for name in names if name.endswith((".py", "/py.typed"))))
    packages = {posixpath.dirname(site_path(member, wheel) or "") for member in python}
    shared = {f"{scheme.root}/{name}" for name in _LIBRARY_FOLDERS}
    for folder in filled:
        prefix, _, name = folder.rpartition("/")
        site = next((site for site in sites if prefix.startswith(f"{site}/")), None)
        if site and name in _LIBRARY_FOLDERS:
            parts = prefix.removeprefix(f"{site}/").split("/")
            if packages.isdisjoint("/".join(parts[:end]) for end in range(1, len(parts) + 1)):
                shared.add(folder)
    return frozenset(filled | above) - shared


def _leads_to(library: str, requirement: str, folders: Collection[str]) -> bool:
    """Return whether `folders`, those of a search path, have the library of a requirement."""
    known = well_known_folders().get(canonicalize_name(requirement), ())
    return any(folder.directory in folders for folder in known if folder.has(library))


def _may_import(code: CodeNames | None, requirement: str, library: str) -> bool:
    """Return whether a source names the module of a requirement, or the wheel has no source.

    Who imports it first has its libraries loaded. Some load a library by its name alone, such as
    `load_nvidia_dynamic_lib("cublas")`.
    """
    if code is None or not code.has_sources:
        return True
    name = canonicalize_name(requirement)
    folders = (folder.directory or "" for folder in well_known_folders().get(name, ()))
    packages = {folder.partition("/")[0] for folder in folders} - {*_LIBRARY_FOLDERS, ""}
    module = CUDA_BUILD.sub("", name).replace("-", "_").removeprefix("nvidia_")
    word = re.compile(rf"\b(?:{'|'.join([module, *packages])})\b".encode())
    in_code = names_in_code([stem_of(library)])
    return any(code.sources_that(lambda s: word.search(s) or in_code.search(s)))


def _companion(wheel: Wheel, elf: Elf, unknown: Iterable["Requirement"]) -> str:
    """Return the requirement that is released with the wheel, and may fill the same folders.

    It is pinned to the version of the wheel, and its first word begins as the wheel's, such as
    `daal` of `daal4py`.
    """
    if not any(starts_at_origin(entry) for entry in elf.entries):
        return ""
    own = "".join(_words(wheel.name.distribution)[:1])
    return next(
        (
            requirement.name
            for requirement in unknown
            if str(requirement.specifier) == f"=={wheel.name.version}"
            and _begin_alike(own, "".join(_words(requirement.name)[:1]))
        ),
        "",
    )


def _begin_alike(first: str, second: str) -> bool:
    return first.startswith(second) or second.startswith(first)


def _most_alike(names: Collection[str], places: Iterable[str], shown: Iterable[str]) -> str:
    """Return the requirement whose name has most words of a library and its folders.

    It is one of `names`; if one of `shown`, whose files are known, has more of them, it is none. Of
    equals it is that with more words of the first place.
    """
    words = [_stems(place) for place in places]
    there = frozenset[str]().union(*words)
    alike = {name: len(there.intersection(_names(name))) for name in (*names, *shown)}

    def rank(name: str) -> tuple[int, int, int]:
        return alike[name], len(words[0].intersection(_names(name))), -len(_names(name))

    best = max(alike, key=rank, default="") if words else ""
    return best if best in names and alike[best] else ""


@lru_cache(1 << 12)
def _stems(place: str) -> frozenset[str]:
    """Return the words of a library or a folder, also without `lib` before them."""
    words = set(_words(place)) - _NO_NAMES
    return frozenset({*words, *(word.removeprefix("lib") for word in words)})


@lru_cache(1 << 12)
def _names(requirement: str) -> frozenset[str]:
    """Return the words of a requirement, also without the `lib` of `eckitlib`."""
    words = _words(requirement)
    return frozenset({*words, *(word.removesuffix("lib") for word in words)} - _NO_NAMES - {""})


def _words(text: str) -> list[str]:
    return _WORD.findall(text.lower())


def _loading(wheel: Wheel, names: Iterable[str], code: CodeNames | None) -> Iterator[str]:
    """Yield the distributions of `names` whose `load_library` a source calls."""
    by_module = _by_module(names)
    for source in _sources(wheel, code).values():
        for module in loads_libraries_of(source):
            yield from filter(None, [by_module.get(canonicalize_name(module))])


def _by_module(names: Iterable[str]) -> dict[str, str]:
    """Return the distributions by the module that each probably has: librmm of librmm-cu12."""
    return {CUDA_BUILD.sub("", canonicalize_name(name)): name for name in names}


def _sources(wheel: Wheel, code: CodeNames | None) -> Mapping[str, bytes]:
    """Return the sources that may load or open something, and others."""
    return {**wheel.sources, **dict(code.opening_sources() if code else ())}


def opened_for_all(
    wheel: Wheel, names: Iterable[str], code: CodeNames | None
) -> Iterator[tuple[str, str]]:
    """Yield each top-level package with the distributions of `names` that it opens for all."""
    by_module = _by_module(names)
    for member, source in _sources(wheel, code).items():
        path = site_path(member, wheel) or ""
        package = path.rpartition("/")[0].replace("/", ".")
        for naming in namings(source, package) if opens_for_all(source) else ():
            distribution = by_module.get(canonicalize_name(naming.name.partition(".")[0]))
            if distribution is not None:
                yield path.partition("/")[0], distribution
