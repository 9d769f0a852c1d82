"""Make the bytes that the plan predicted, and prove that they are what it predicted."""

import mmap
import os
import tempfile
import zlib
from collections.abc import Callable, Generator, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import cached_property
from importlib import import_module
from pathlib import Path
from typing import Any, assert_never

from wheelfix.elf.compare import differences
from wheelfix.elf.editor import edit_in_place
from wheelfix.elf.image import Image
from wheelfix.elf.model import Elf
from wheelfix.elf.shrink import Cut, removable_ranges, restore, write_shrunken
from wheelfix.errors import BadWheelError, SettingsError, VerificationError
from wheelfix.pipelines.patchelf import Patchelf, find_patchelf
from wheelfix.pipelines.strip import strip
from wheelfix.settings import ZipCodec
from wheelfix.system.heap import trim
from wheelfix.system.mmap_io import pieces
from wheelfix.wheel.deflate import ZLIB, Codec
from wheelfix.wheel.edited_file import Changes, Made, compared, fixed
from wheelfix.wheel.edits import AddMember, CopyOf, Edit, HostFile, MoveMember, Strip, Text
from wheelfix.wheel.inflate import LIBRARY, ahead
from wheelfix.wheel.members import HUGE, Whole, buffered
from wheelfix.wheel.model import Wheel
from wheelfix.wheel.reader import Archive
from wheelfix.wheel.splice import Part, Tracked
from wheelfix.wheel.zip_format import DEFLATED

_Content = bytes | memoryview | Path | Made
_THREADS = 2
_SPLICED = 2**20
"""Bytes; what is smaller is deflated as soon as it is spliced."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Applied:
    """The new content of a wheel, ready to be packed."""

    content: Mapping[str, bytes | Path | Made]
    """Member -> its new bytes; members that only keep theirs are absent."""
    moved: Mapping[str, str]
    """Member -> the member of the input whose bytes it has, where the names differ."""
    ways: Mapping[str, str] = field(default_factory=dict[str, str])
    """Member -> how its object was edited: "in place", or "patchelf" where it needed room."""


def apply(
    archive: Archive,
    after: Wheel,
    edits: Iterable[Edit],
    workdir: Path,
    *,
    splices: bool = True,
) -> Applied:
    """Carry out `edits`, which make `after` of the archive's wheel; files go to `workdir`.

    With `splices`, it is found out how much of the compressed form of a large object can stay.

    Raises `VerificationError` where an edited object is not what `after` predicts, `ToolError`
    where patchelf or strip fail.
    """
    listed = tuple(edits)
    added = {edit.member: edit for edit in listed if isinstance(edit, AddMember)}
    # What is copied was stripped and patched: to strip it once more would break it.
    copies = {member for member, edit in added.items() if isinstance(edit.source, CopyOf)}
    work = _Work(
        archive=archive,
        after=after,
        workdir=workdir,
        added=added,
        stripped=frozenset(edit.member for edit in listed if isinstance(edit, Strip)) - copies,
        origins=_origins(listed),
        splices=splices,
    )
    work.edit_all()
    content: dict[str, bytes | Path | Made] = {}
    moved = {new: old for new, old in work.origins.items() if new != old}
    for member in after.members:
        made = work.content(member.name)
        if isinstance(made, memoryview):
            moved[member.name] = work.origin(member.name)
        elif made is not None:
            content[member.name] = made
    content |= {
        member: source
        for member, source in after.sources.items()
        if archive.wheel.sources.get(work.origin(member)) != source
    }
    return Applied(
        content=content,
        moved={new: old for new, old in moved.items() if new not in content},
        ways={m.name: work.ways[m.name] for m in after.members if m.name in work.ways},
    )


def _origins(edits: Iterable[Edit]) -> dict[str, str]:
    """Return new name -> the name in the archive, for every member that was moved."""
    origins: dict[str, str] = {}
    for edit in edits:
        if isinstance(edit, MoveMember):
            origins[edit.new] = origins.pop(edit.member, edit.member)
    return origins


@dataclass(frozen=True, kw_only=True)
class _Work:
    archive: Archive
    after: Wheel
    workdir: Path
    added: Mapping[str, AddMember]
    stripped: frozenset[str]
    origins: Mapping[str, str]
    splices: bool
    ways: dict[str, str] = field(default_factory=dict[str, str])
    """Member -> "in place" or "patchelf", for every object that was edited so far."""
    _done: dict[str, _Content | None] = field(default_factory=dict[str, _Content | None])

    def origin(self, member: str) -> str:
        """Return the member of the archive that `member` is, or is a copy of."""
        edit = self.added.get(member)
        if edit is not None and isinstance(edit.source, CopyOf):
            return self.origin(edit.source.member)
        return self.origins.get(member, member)

    def content(self, member: str) -> _Content | None:
        """Return the new bytes of `member`, None if it keeps those of the archive."""
        if member not in self._done:
            self._done[member] = self._make(member)
        return self._done[member]

    def edit_all(self) -> None:
        """Edit all objects, two at a time, large ones first: most of it is not interpreted.

        A copy waits for what it is a copy of, so it is made after all others.
        """
        members = [m for m in self.after.elfs if self._is_edited(m) and not self._is_copy(m)]
        members.sort(key=self._size, reverse=True)
        for origin in self.archive.wholes.keys() - {self.origins.get(m, m) for m in members}:
            del self.archive.wholes[origin]  # nobody edits it
        with ThreadPoolExecutor(_THREADS) as pool:
            try:
                for member, made in zip(members, pool.map(self._make, members), strict=True):
                    self._done[member] = made
            except BaseException:
                pool.shutdown(wait=False, cancel_futures=True)
                raise

    def _size(self, member: str) -> int:
        edit = self.added.get(member)
        return edit.size if edit else self.archive.entries[self.origins.get(member, member)].size

    def _is_copy(self, member: str) -> bool:
        edit = self.added.get(member)
        return edit is not None and isinstance(edit.source, CopyOf)

    def _is_edited(self, member: str) -> bool:
        before, wanted = self._says(member), self.after.elfs.get(member)
        return before is not None and wanted is not None and before != wanted

    def _make(self, member: str) -> _Content | None:
        before, wanted = self._says(member), self.after.elfs.get(member)
        if before is None or wanted is None or before == wanted:
            return self._source(member) if member in self.added else None
        whole = self._whole(member)
        with _mapped(whole.data if whole else self._source(member)) as original:
            path = self._copy(original)
            self._edit(path, member, before, wanted)
            trim(len(original))
            with ThreadPoolExecutor(1) as beside:
                comparing = beside.submit(compared, path, original if whole else None)
                with _mapped(path) as written:
                    _prove(member, original, written, wanted)
                    # All else was proved to be as wanted, which is in memory already.
                    elf = replace(wanted, segments=Image.parse(written, member).segments)
                made, changes = comparing.result()
            trim(len(original))
            made = made._replace(elf=elf)
            if whole is None or not self.splices:
                return made
            origin = self.origins.get(member, member)
            return made._replace(origin=origin, parts=self._mended(origin, whole, path, changes))

    def _whole(self, member: str) -> Whole | None:
        """Return a large member of the archive, None for what is anything else."""
        origin = self.origins.get(member, member)
        entry = self.archive.entries.get(origin)
        if member in self.added or entry is None:
            return None
        if entry.method != DEFLATED or entry.size < _SPLICED:
            return None
        if kept := self.archive.wholes.pop(origin, None):
            return kept
        tracked = Tracked(entry.compressed_size)
        pieces = self.archive.inflated(origin, mark=tracked.mark)
        return Whole(buffered(pieces if entry.size < HUGE else ahead(pieces), entry.size), tracked)

    def _mended(
        self, origin: str, whole: Whole, path: Path, changes: Changes
    ) -> tuple[Part, ...] | None:
        try:
            return fixed(self.archive.stored(origin), whole, path, changes)
        except (zlib.error, LIBRARY.error) as error:  # it was inflated before
            raise BadWheelError(
                f"`{origin}` changed while the wheel was read: {error}", hint="run it again"
            ) from None

    def _says(self, member: str) -> Elf | None:
        """Return what the bytes that `member` starts from say."""
        edit = self.added.get(member)
        if edit is None:
            return self.archive.wheel.elfs.get(self.origins.get(member, member))
        if isinstance(edit.source, CopyOf):
            return self.after.elfs.get(edit.source.member)
        return edit.elf

    def _source(self, member: str) -> _Content:
        """Return the bytes that `member` starts from."""
        edit = self.added.get(member)
        if edit is None:
            return self.archive.buffer(self.origins.get(member, member))
        match edit.source:
            case HostFile():
                return Path(edit.source.path)
            case Text():
                return edit.source.content
            case CopyOf():
                made = self.content(edit.source.member)
                if isinstance(made, Made):  # its parts are of another name's stream
                    return made._replace(parts=None)
                return made if made is not None else self._source(edit.source.member)
            case _:
                assert_never(edit.source)

    def _copy(self, original: memoryview) -> Path:
        descriptor, name = tempfile.mkstemp(dir=self.workdir)
        with os.fdopen(descriptor, "wb") as file:
            file.writelines(pieces(original))
        return Path(name)

    def _edit(self, path: Path, member: str, before: Elf, wanted: Elf) -> None:
        """Strip first: stripping a patched file breaks it (pypa/auditwheel 716)."""
        if member in self.stripped:
            strip(path)
            before = Strip(member=member).apply(before)
        if before == wanted:
            return
        with path.open("r+b") as file, mmap.mmap(file.fileno(), 0) as data:
            now = edit_in_place(data, before, wanted, member)
        if now != wanted:
            self._patch(path, member, now, wanted)
        self.ways[member] = "in place" if now == wanted else "patchelf"

    def _patch(self, path: Path, member: str, now: Elf, wanted: Elf) -> None:
        """Let patchelf edit the file, a large one without what would fill the memory."""
        with _mapped(path) as whole:
            left_out = removable_ranges(whole, member)
            abridged = self._abridged(whole, left_out) if left_out else None
        self._patchelf.patch(abridged or path, now, wanted)
        if abridged is None:
            return
        with path.open("r+b") as file, _mapped(abridged) as patched:
            restore(patched, left_out, file)
        abridged.unlink()

    def _abridged(self, whole: memoryview, left_out: Sequence[Cut]) -> Path:
        descriptor, name = tempfile.mkstemp(dir=self.workdir)
        with os.fdopen(descriptor, "wb") as file:
            write_shrunken(whole, left_out, file)
        return Path(name)

    @cached_property
    def _patchelf(self) -> Patchelf:
        return find_patchelf()


@contextmanager
def _mapped(source: _Content) -> Generator[memoryview]:
    if isinstance(source, Made):
        source = source.path
    if not isinstance(source, Path):
        yield memoryview(source)
        return
    if not source.stat().st_size:  # which mmap refuses
        yield memoryview(b"")
        return
    with (
        source.open("rb") as file,
        mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as mapping,
        memoryview(mapping) as data,
    ):
        yield data


def _prove(member: str, original: memoryview, written: memoryview, wanted: Elf) -> None:
    found = differences(original, written, wanted, member)
    if found:
        raise VerificationError(
            f"`{member}`: the edited file is not what was planned: {'; '.join(found)}",
            hint="nothing was published; please report this file",
        )


def codec_of(choice: ZipCodec) -> Codec:
    """Return the codec that a setting means: of `auto`, libdeflate where it is installed.

    Raises `SettingsError` where the one that was asked for is not.
    """
    if choice is ZipCodec.ZLIB:
        return ZLIB
    try:
        package: Any = import_module("deflate")  # an extra, without types
    except ImportError:
        if choice is ZipCodec.AUTO:
            return ZLIB
        raise SettingsError(
            '`zip-codec = "libdeflate"`: the package `deflate` is not installed',
            hint="pip install 'wheelfix[fast]'; where it has no wheels, use `zip-codec = \"zlib\"`",
        ) from None

    one_shot: Callable[[bytes, int], bytearray] = package.deflate_compress

    def compress(data: bytes, level: int) -> bytes:
        return bytes(one_shot(data, 6 if level < 0 else level))

    return Codec(f"libdeflate (deflate {package.__version__})", 4 * 2**20, compress)
