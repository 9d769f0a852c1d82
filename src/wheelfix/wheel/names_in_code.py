"""What the objects and Python sources of a wheel name: libraries, modules, and words.

Each question costs a reading of what can answer it, once.
"""

import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from contextlib import suppress
from functools import cached_property
from pathlib import Path
from posixpath import dirname

from wheelfix.elf.object_file_names import OF_MODULES
from wheelfix.elf.reader import dynamic_strings
from wheelfix.errors import WheelfixError
from wheelfix.grouping import flatten, values_by_key
from wheelfix.python_sources.imported_modules import (
    failing_imports,
    imported_names,
    module_name,
    names_of_file_imports,
)
from wheelfix.python_sources.opening_calls import may_open
from wheelfix.python_sources.searched_places import MAX_SOURCE
from wheelfix.system.lazy_patterns import lazy_pattern
from wheelfix.wheel.metadata_reader import open_unverified
from wheelfix.wheel.read_contents import between_strings, is_data_text
from wheelfix.wheel.reader import Archive, below_site
from wheelfix.wheel.strings_in_files import Strings, strings_among
from wheelfix.wheel.zip_reader import ZipReader

_WORD = lazy_pattern(rb"[\w\x80-\xff]+")
_IMPORTED = lazy_pattern(
    rb"(?:^|[;:])[ \t]*(?:import[ \t]+([\w\x80-\xff][^\n;#]*)|from[ \t]+([\w\x80-\xff]+))",
    re.MULTILINE,
)
_WORD_OF_CODE = lazy_pattern(
    rb"(?<![\w\x80-\xff])(?<!path\([\"'])(?<!DLL\([\"'])[\w\x80-\xff]++"
    rb"(?!\.[{%%]|%b|\.so\b)" % OF_MODULES.encode()
)
"""A word that is not the name of a file: `_core.abi3.so`, `_core.{suffix}`, `a_path("_core")`."""
_NAMING = lazy_pattern(
    rb"(?:^|[;:])[ \t]*(?:from[ \t]+[\w.]+[ \t]+import[ \t]*\([^)]*"
    rb"|(?:from|import)\b(?:\\\n|[^\n])*)"
    rb"|[\"'][\w.]+[\"']",
    re.MULTILINE,
)
"""Statements that import, and texts that may be the name of a module."""
_FEW_TEXTS = 8
"""So many are searched for one by one."""
_MOST_PARSED = 1 << 21
"""Bytes of Python sources of a small wheel; as many more as a larger one has."""


class CodeNames:
    """The names in the code of one wheel. Remembers what was asked; mutable."""

    def __init__(self, archive: Archive) -> None:
        """Answer for the wheel of `archive`, as read."""
        self._archive = archive
        self._mentions: dict[str, tuple[str, ...]] = {}
        self._importers: dict[str, Mapping[str, Sequence[str]]] = {}
        self._opening: dict[tuple[str, object], bool] = {}

    def mentions(self, names: Collection[str]) -> Mapping[str, tuple[str, ...]]:
        """Return for each library name the members with it as a string of their code.

        DT_NEEDED and DT_SONAME do not count: `.dynstr` is skipped.
        """
        known = self._mentions
        new = {_encode(name) for name in names if name not in known}
        listed = {text for text in new if b".so" in text and b"/" not in text}
        naming = self._naming if listed else dict[bytes, Sequence[str]]()
        unlisted = self._unlisted if listed else ()
        scanned = self._scanned(new - listed, self._code) | self._scanned(listed, unlisted)
        for text in new:
            known[_decode(text)] = (*naming.get(text, ()), *scanned.get(text, ()))
        return {name: known[name] for name in names}

    def importers(self, module: str) -> Sequence[str]:
        """Return the Python sources that import the top-level `module`, at any place."""
        return self._importers_in(self._archive).get(module, ())

    def imports(self, wheel: str, module: str) -> bool:
        """Return whether a source of another wheel may import the top-level `module`.

        The sources of an installed distribution, which has no `wheel`, are not read: it may.
        """
        if not wheel:
            return True
        if wheel not in self._importers:
            with suppress(WheelfixError), open_unverified(Path(wheel)) as archive:
                return module in self._importers_in(archive, wheel)
        return module in self._importers.get(wheel, ())

    def opens(self, wheel: str, how: Callable[[bytes], object] = bool) -> bool:
        """Return whether a Python source of another wheel may open libraries, as asked.

        The sources of an installed distribution, which has no `wheel`, are not read: they may, as
        those of a wheel that cannot be read.
        """
        if not wheel:
            return True
        if (wheel, how) not in self._opening:
            self._opening[wheel, how] = True
            with suppress(WheelfixError), open_unverified(Path(wheel)) as archive:
                opening = (source for _, source in _sources(archive) if may_open(source))
                self._opening[wheel, how] = any(map(how, opening))
        return self._opening[wheel, how]

    @property
    def opens_libraries(self) -> bool:
        """Whether a Python source of the wheel may open libraries."""
        contents = self._archive.contents.values()
        return any(content.source or content.is_dropped_source for content in contents)

    @cached_property
    def taking_modules(self) -> Sequence[bytes]:
        """The sources that have the file of a module, to open or hand on."""
        contents = self._archive.contents.items()
        return [self.read(name) for name, content in contents if content.takes_a_module]

    @property
    def has_sources(self) -> bool:
        """Whether the wheel has Python sources."""
        return any(name.endswith(".py") for name in self._archive.entries)

    def sources_that(self, test: Callable[[bytes], object]) -> Iterable[str]:
        """Yield the Python sources of the wheel that pass a test."""
        return (name for name, source in _sources(self._archive) if test(source))

    def scripts_that(self, test: Callable[[bytes], object]) -> Iterator[str]:
        """Yield the scripts and texts of the wheel, of any language, that pass a test."""
        wheel, folder = self._archive.wheel, f"{self._archive.wheel.data_dir}/scripts/"
        for name, size, _, mode in wheel.members:
            is_run = name.startswith(folder) or mode & 0o111 or is_data_text(name)
            if is_run and name not in wheel.elfs and size <= MAX_SOURCE and test(self.read(name)):
                yield name

    def read(self, source: str) -> bytes:
        """Return a source of the wheel; nothing if it is not there, or too large to be read."""
        entry = self._archive.entries.get(source)
        return self._archive.read(source) if entry and entry.size <= MAX_SOURCE else b""

    def has_opening(self, test: Callable[[bytes], bool]) -> bool:
        """Return whether a Python source that may open libraries passes a test."""
        return any(test(source) for _, source in self.opening_sources())

    def opening_sources(self) -> Iterator[tuple[str, bytes]]:
        """Yield the sources that may open libraries: few were too large to be kept."""
        archive = self._archive
        for name, content in archive.contents.items():
            if content.source:
                yield name, content.source
            elif content.is_dropped_source and archive.entries[name].size <= MAX_SOURCE:
                yield name, archive.read(name)

    @cached_property
    def naming(self) -> Mapping[str, Sequence[str]]:
        """Word -> the sources that have it in an import, or in a text of one word."""
        return values_by_key(
            (_decode(word), source)
            for source, text in _sources(self._archive)
            for word in {*flatten(map(_WORD.findall, _NAMING.findall(text)))}
        )

    @cached_property
    def file_imports(self) -> frozenset[str]:
        """The names under which sources import modules from files; empty for one not known."""
        imports = (names_of_file_imports(source) for _, source in _sources(self._archive))
        return frozenset[str]().union(*imports)

    def is_named(self, module: str) -> bool:
        """Return whether a Python source has the name of a module, but in that of a file."""
        return _encode(module) in self._named

    def may_import(self, member: str) -> bool:
        """Return whether a source imports a module by a statement, or none can open it otherwise.

        A source that opens libraries may have it by its name, or by any that it builds.
        """
        is_named = _stem(member) in self._mentioned
        return self.is_imported(member) or not (is_named or self.opens_libraries)

    def is_imported(self, member: str) -> bool:
        """Return whether a source imports the module `member`, or one in it, by a statement."""
        name, stem = self._module(member), _stem(member)
        sources = self.naming.get(_decode(stem), ()) if stem in self._mentioned else ()
        packages = ((source, self._module(f"{dirname(source)}/__init__.py")) for source in sources)
        return any(
            f"{imported}.".startswith(f"{name}.")
            for source, package in packages
            for imported in imported_names(self.read(source), package)
        )

    def _module(self, member: str) -> str:
        """Return the dotted name that a member has once it is installed."""
        place = below_site(member.lstrip("/"), self._archive.wheel.data_dir)
        return module_name(place or "")

    def is_only_tried(self, module: str) -> bool:
        """Return whether Python sources import a module, and only in a `try` that may fail."""
        return self._tried.get(module, False)

    @cached_property
    def _naming(self) -> Mapping[bytes, Sequence[str]]:
        """Library name -> the members that have it."""
        contents = self._archive.contents
        pairs = ((name, m) for m in self._code for name in contents[m].library_names or ())
        return values_by_key(pairs)

    @cached_property
    def _unlisted(self) -> Sequence[str]:
        """The members with too many names to list."""
        contents = self._archive.contents
        return [member for member in self._code if contents[member].library_names is None]

    @property
    def _code(self) -> Iterator[str]:
        """The objects and Python sources of the wheel, and the files that these may read."""
        elfs = self._archive.wheel.elfs
        names = (member.name for member in self._archive.wheel.members)
        return (n for n in names if n in elfs or n.endswith(".py") or is_data_text(n))

    def _scanned(self, texts: AbstractSet[bytes], members: Iterable[str]) -> dict[bytes, list[str]]:
        """Return for each of `texts` those of `members` with it as a string."""
        members_by_text: dict[bytes, list[str]] = {}
        for member in members if texts else ():
            for text in self._strings_among(member, texts):
                members_by_text.setdefault(text, []).append(member)
        return members_by_text

    def _strings_among(self, member: str, texts: AbstractSet[bytes]) -> AbstractSet[bytes]:
        if len(texts) <= _FEW_TEXTS:
            return self._few_among(member, texts)
        size = self._archive.entries[member].size
        self._archive.budget.spend(size >> 4, "the strings", member)
        strings = list(strings_among(self._archive.inflate(member), texts, between_strings(member)))
        skipped = self._skipped(member) if strings else range(0)
        return {text for text, at in strings if at not in skipped}

    def _few_among(self, member: str, texts: AbstractSet[bytes]) -> AbstractSet[bytes]:
        sought = {text: Strings(text, between_strings(member)) for text in texts}
        for piece in self._archive.inflate(member):
            for strings in sought.values():
                strings.feed(piece)
        for strings in sought.values():
            strings.finish()
        skipped = self._skipped(member) if any(s.found for s in sought.values()) else range(0)
        return {
            text
            for text, strings in sought.items()
            if any(string == text and at not in skipped for at, string in strings.found)
        }

    def _skipped(self, member: str) -> range:
        """Return where the dynamic strings of `member` are, if it is an object."""
        archive = self._archive
        is_elf = member in archive.wheel.elfs
        buffer = archive.buffer
        return dynamic_strings(buffer(member), member, archive.budget) if is_elf else range(0)

    def _importers_in(self, archive: ZipReader, wheel: str = "") -> Mapping[str, Sequence[str]]:
        """Return the sources of an archive by the top-level modules that they import."""
        if wheel not in self._importers:
            self._importers[wheel] = values_by_key(
                (_decode(module), source)
                for source, text in _sources(archive)
                for module in {*_imported(text)}
            )
        return self._importers[wheel]

    @cached_property
    def _modules(self) -> frozenset[bytes]:
        """The names of the objects of the wheel as modules, without packages."""
        return frozenset(map(_stem, self._archive.wheel.elfs))

    @cached_property
    def _mentioned(self) -> frozenset[bytes]:
        """Those of the modules whose names sources have, at any place."""
        left = set(self._modules)
        for _, source in _sources(self._archive) if left else ():
            left.difference_update(_WORD.findall(source))
        return self._modules - left

    @cached_property
    def _named(self) -> frozenset[bytes]:
        """Those of the modules that sources name."""
        undecided = set(self._modules)
        for _, source in _sources(self._archive):
            if not undecided:
                break
            if not undecided.isdisjoint(_WORD.findall(source)):
                undecided.difference_update(_WORD_OF_CODE.findall(source))
        return self._modules - undecided

    @cached_property
    def _tried(self) -> Mapping[str, bool]:
        """Return for each imported extension module whether all imports of it may fail.

        Nothing if the sources that name one are more than can be parsed in reasonable time.
        """
        undecided, may_fail_in = set(self._modules), dict[str, bool]()
        left = _MOST_PARSED + self._archive.size
        for _, source in _sources(self._archive):
            named = undecided.intersection(_WORD.findall(source))
            if not named:
                continue
            left -= len(source)
            if left < 0:
                return {}
            imports = failing_imports(source)
            if imports is None:
                imports = dict.fromkeys((_decode(name) for name in named), False)
            for name, may_fail in imports.items():
                may_fail_in[name] = may_fail_in.get(name, True) and may_fail
            undecided -= {name for name in named if not may_fail_in.get(_decode(name), True)}
        return may_fail_in


def _sources(archive: ZipReader) -> Iterator[tuple[str, bytes]]:
    """Yield the names and texts of the Python sources that a person may have written."""
    for name, entry in archive.entries.items():
        if name.endswith(".py") and entry.size <= MAX_SOURCE:
            yield name, archive.read(name)


def _imported(source: bytes) -> Iterator[bytes]:
    """Yield the top-level modules that statements of a source import, or lines that look alike."""
    for names, origin in _IMPORTED.findall(source):
        words = (_WORD.match(name.strip()) for name in names.split(b","))
        yield from filter(None, (origin, *(word[0] for word in words if word)))


def _stem(member: str) -> bytes:
    """Return the last part of the name of a module."""
    return _encode(module_name(member).rpartition(".")[2])


def _encode(name: str) -> bytes:
    """Return the bytes of a name, which need not be UTF-8: a SONAME is any bytes but NUL (gABI)."""
    return name.encode("utf-8", "surrogateescape")


def _decode(name: bytes) -> str:
    return name.decode("utf-8", "surrogateescape")
