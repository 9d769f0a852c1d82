"""The libraries around a wheel: found on this machine as the loader would find them.

They serve to see what a library defines. Nothing of them is run, and a library that is missing
here is no error: what cannot be looked into is not judged.
"""

import mmap
import os
import zipfile
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from glob import glob
from pathlib import Path
from shutil import copyfileobj
from typing import Self
from zipfile import ZipFile

from wheelfix.analysis.providers import folder_of
from wheelfix.analysis.unused_needed import Pruning
from wheelfix.elf.exports import lazy_exports
from wheelfix.elf.model import Elf, Exports, Libc
from wheelfix.elf.reader import dynamic_strings, read_elf
from wheelfix.errors import BadElfError, SettingsError
from wheelfix.loader.as_needed import Library
from wheelfix.loader.glibc import expand
from wheelfix.settings import Settings
from wheelfix.system.tmpdir import unnamed_file
from wheelfix.wheel.edits import AddMember, CopyOf, Edit, HostFile, MoveMember
from wheelfix.wheel.reader import Archive
from wheelfix.wheel.sniff import Strings

_DEFAULT = {64: ("/lib64", "/usr/lib64", "/lib", "/usr/lib"), 32: ("/lib", "/usr/lib")}
_MUSL = ("/lib", "/usr/local/lib", "/usr/lib")
_INCLUDES = 8  # ld.so.conf files that include each other

_Offer = tuple[str, Callable[[], memoryview | None]]
"""A library that was handed over: a path for it, and what reads it."""


_Sources = tuple[tuple[str, str | Path], ...]
_Judged = list[tuple[Mapping[str, Elf], Pruning]]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Memory:
    """What was read so far; shared by the views of one run."""

    exports: dict[str, Exports] = field(default_factory=dict[str, Exports])
    found: dict[tuple[object, ...], Library | None] = field(
        default_factory=dict[tuple[object, ...], Library | None]
    )
    seen: dict[tuple[object, ...], Library] = field(
        default_factory=dict[tuple[object, ...], Library]
    )
    mentions: dict[str, tuple[str, ...]] = field(default_factory=dict[str, tuple[str, ...]])
    judged: dict[_Sources, _Judged] = field(default_factory=dict[_Sources, _Judged])
    handed: dict[str, list[_Offer]] = field(default_factory=dict[str, list[_Offer]])
    opened: dict[str, Library | None] = field(default_factory=dict[str, Library | None])
    """What was handed over, by path: some of it is large, and to be inflated."""


@dataclass(frozen=True, kw_only=True)
class HostLibraries:
    """What the members of a wheel and the libraries of this machine define, read when asked."""

    archive: Archive
    settings: Settings
    environ: Mapping[str, str]
    sources: Mapping[str, str | Path] = field(default_factory=dict[str, str | Path])
    """Members that edits have brought: the member of the archive, or the file, that they are."""
    _memory: _Memory = field(default_factory=_Memory)

    def including(self, edits: Iterable[Edit]) -> "HostLibraries":
        """Return the same for the wheel that `edits`, in their order, make of this one."""
        sources = dict(self.sources)
        for edit in edits:
            match edit:
                case MoveMember():
                    sources[edit.new] = sources.get(edit.member, edit.member)
                case AddMember(source=HostFile(path=path)):
                    sources[edit.member] = Path(path)
                case AddMember(source=CopyOf(member=member)):
                    sources[edit.member] = sources.get(member, member)
                case _:
                    pass
        return replace(self, sources=sources)

    @property
    def judged(self) -> _Judged:
        """What was judged in this run, with the same members at hand."""
        return self._memory.judged.setdefault(tuple(self.sources.items()), [])

    # --- Members

    def reader(self, member: str) -> Callable[[], Exports] | None:
        """Return what reads the exports of `member`, None if its bytes are not at hand."""
        source = self.sources.get(member, member)
        if isinstance(source, str) and source not in self.archive.entries:
            return None
        return lambda: self._exports(source)

    def _exports(self, source: str | Path) -> Exports:
        key = str(source)
        known = self._memory.exports.get(key)
        if known is None:
            known = self._memory.exports[key] = _read_exports(partial(self._tables, source), key)
        return known

    def _tables(self, source: str | Path) -> memoryview:
        return self.archive.tables(source) if isinstance(source, str) else _mapped(source)

    def mentions(self, names: Collection[str]) -> Mapping[str, tuple[str, ...]]:
        """Return for each library name the members whose code has it as a string of its own.

        DT_NEEDED and SONAME entries do not count, so `.dynstr` is passed over.
        """
        known = self._memory.mentions
        wanted = [name for name in names if name not in known]
        if wanted:
            found: dict[str, list[str]] = {name: [] for name in wanted}
            for member in self.archive.wheel.members:
                for name in self._strings(member.name, wanted):
                    found[name].append(member.name)
            known.update((name, tuple(members)) for name, members in found.items())
        return {name: known[name] for name in names}

    def _strings(self, member: str, names: Iterable[str]) -> Iterator[str]:
        elf = self.archive.wheel.elfs.get(member)
        if elf is None and not member.endswith(".py"):
            return
        known = self.archive.contents[member].what.library_names
        for name in names:
            text = name.encode()
            simple = known is not None and b".so" in text and b"/" not in text
            if text in known if known is not None and simple else self._has_string(member, text):
                yield name

    def _has_string(self, member: str, text: bytes) -> bool:
        """Look through a member again, for names that are not like others."""
        strings = Strings(text)
        for piece in self.archive.inflated(member):
            strings.feed(piece)
        strings.finish()
        skipped = range(0)
        if member in self.archive.wheel.elfs:
            skipped = dynamic_strings(self.archive.tables(member), member)
        return any(found == text and at not in skipped for at, found in strings.found)

    # --- This machine

    def host(self, name: str, user: Elf) -> Library | None:
        """Find the library that a loader on this machine, or who was handed over, has for `name`.

        Only a library of the class and machine of `user` counts.
        """
        kind = user.abi
        own = () if user.entries == () else tuple(e for e in user.entries if e.startswith("/"))
        key = (name, *kind, own, user.runpath is None)
        if key not in self._memory.found:
            found = (library for library in self._candidates(name, user, own) if library)
            library = next((each for each in found if each.elf.abi == kind), None)
            self._memory.found[key] = library
            if library is not None:
                self._memory.seen.setdefault((name, *kind), library)
        # A path of the build machine may have led to it before the repair took that away.
        return self._memory.found[key] or self._memory.seen.get((name, *kind))

    def _candidates(self, name: str, user: Elf, own: tuple[str, ...]) -> Iterator[Library | None]:
        if "/" in name:
            yield self._file(name) if name.startswith("/") else None
            return
        for offer in self._handed.get(name, ()):
            yield self._opened(offer)
        for directory in self._directories(user, own):
            yield self._file(f"{directory}/{name}")

    def handed(self, name: str, user: Elf, place: str, folder: str | None) -> Library | None:
        """Find the library `name` in `place`, a wheel or a directory that was handed over.

        Of several, the one in `folder` of an install scheme is taken. Only a library of the class
        and machine of `user` counts.
        """
        offers = [each for each in self._handed.get(name, ()) if each[0].startswith(f"{place}/")]
        offers.sort(key=lambda offer: folder_of(offer[0], place) != folder)
        found = (self._opened(offer) for offer in offers)
        return next((each for each in found if each and each.elf.abi == user.abi), None)

    def preferring(self, places: Iterable[str]) -> Self:
        """Return the same with `places` before all else that was handed over."""
        paths = tuple(dict.fromkeys((*places, *self.settings.library_path)))
        known = self._memory
        memory = _Memory(exports=known.exports, mentions=known.mentions, opened=known.opened)
        settings = replace(self.settings, library_path=paths)
        return replace(self, settings=settings, _memory=memory)

    def _opened(self, offer: _Offer) -> Library | None:
        path, read = offer
        if path not in self._memory.opened:
            data = read()
            self._memory.opened[path] = None if data is None else self._library(path, data)
        return self._memory.opened[path]

    def _directories(self, user: Elf, own: tuple[str, ...]) -> Iterator[str]:
        lib = "lib64" if user.bits == 64 else "lib"
        mine = [d for d in (expand(entry, None, lib=lib) for entry in own) if d]
        if user.runpath is None:
            yield from mine
        for key in ("AUDITWHEEL_LD_LIBRARY_PATH", "LD_LIBRARY_PATH"):
            for entry in self.environ.get(key, "").split(":"):
                if entry:
                    yield os.path.join(self.environ.get("PWD", ""), entry)  # noqa: PTH118 - text
        if user.runpath is not None:
            yield from mine
        if self.settings.ldpaths is not None:
            yield from (entry for entry in self.settings.ldpaths.split(":") if entry)
        elif user.libc is Libc.MUSL:
            yield from _MUSL
        else:
            yield from self._configured
            yield from _DEFAULT[user.bits]

    @cached_property
    def _configured(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(_configured("/etc/ld.so.conf", _INCLUDES)))

    @property
    def _handed(self) -> Mapping[str, list[_Offer]]:
        """File name -> the libraries of that name that were handed over."""
        handed = self._memory.handed
        if not handed and self.settings.library_path:
            for entry in self.settings.library_path:
                path = Path(self.environ.get("PWD", "")) / entry
                for offer in _offered(path):
                    handed.setdefault(offer[0].rpartition("/")[2], []).append(offer)
        return handed

    def _file(self, path: str) -> Library | None:
        if not os.path.isfile(path):  # noqa: PTH113 - thousands of times
            return None
        data = _opened(Path(path))
        return None if data is None else self._library(path, data)

    def _library(self, path: str, data: memoryview) -> Library | None:
        try:
            elf = read_elf(data, path)
        except BadElfError:
            return None
        if not elf.dynamic:
            return None

        def read() -> Exports:
            known = self._memory.exports.get(path)
            if known is None:
                known = self._memory.exports[path] = _read_exports(lambda: data, path)
            return known

        return Library(path=path, elf=elf, read=read)


@dataclass(frozen=True, kw_only=True)
class HandedLibraries(HostLibraries):
    """The same with nothing of this machine but what `--library-path` hands over.

    What is found then does not depend on where it is looked for.
    """

    def _directories(self, user: Elf, own: tuple[str, ...]) -> Iterator[str]:
        del user, own
        return iter(())


def _mapped(path: Path) -> memoryview:
    with path.open("rb") as file:
        return memoryview(mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ))


def _opened(path: Path) -> memoryview | None:
    with suppress(OSError, ValueError):  # a link to nowhere; an empty file
        return _mapped(path)
    return None


def _inflated(archive: ZipFile, member: str) -> memoryview:
    """Map a member of a wheel, by way of a file without a name: CUDA's libraries are large."""
    with archive.open(member) as source, unnamed_file() as file:
        copyfileobj(source, file, 1 << 20)
        file.flush()
        return memoryview(mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ))


def _read_exports(reopen: Callable[[], memoryview], name: str) -> Exports:
    try:
        return lazy_exports(reopen, name)
    except BadElfError:
        return Exports()


def _configured(path: str, depth: int) -> Iterator[str]:
    """Yield the directories of ld.so.conf (ldconfig(8)), with what it includes."""
    with suppress(OSError):
        for line in Path(path).read_text(encoding="utf-8", errors="replace").splitlines():
            words = line.partition("#")[0].replace(",", " ").split()
            if words[:1] == ["include"] and depth:
                for pattern in words[1:]:
                    for each in sorted(glob(str(Path(path).parent / pattern))):  # noqa: PTH207 - as glob(3)
                        yield from _configured(each, depth - 1)
            else:
                yield from (word for word in words if word.startswith("/"))


def _offered(path: Path) -> Iterator[_Offer]:
    """Yield the libraries in a directory or in a wheel."""
    if path.is_dir():
        for each in sorted(path.rglob("*.so*")):
            yield str(each), partial(_opened, each)
        return
    try:
        if path.exists() and not path.is_file():
            raise OSError("it is neither a directory nor a file")  # noqa: TRY301 - told below
        archive = zipfile.ZipFile(path)
    except (OSError, ValueError, RuntimeError, zipfile.BadZipFile) as error:
        raise SettingsError(
            f"`{path}` holds no libraries: {getattr(error, 'strerror', None) or error}",
            hint="`library-path` takes directories and wheels",
        ) from error
    for member in archive.namelist():
        if ".so" in member:
            yield f"{path}/{member}", partial(_inflated, archive, member)
