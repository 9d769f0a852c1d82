"""Edited members of a wheel: their new bytes, compared with the prediction."""

from collections.abc import Callable, Generator, Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import cache, partial
from pathlib import Path, PurePosixPath
from tempfile import NamedTemporaryFile
from typing import NamedTuple

from wheelfix.budget import Budget
from wheelfix.elf import editor
from wheelfix.elf.compare import differences
from wheelfix.elf.image import Buffer
from wheelfix.elf.model import Elf
from wheelfix.elf.shrink_for_patchelf import removable_ranges, restore, write_shrunken
from wheelfix.elf.strip import DebugLink, write_debug_file, write_stripped
from wheelfix.errors import SettingsError, VerificationError
from wheelfix.pipelines.debug_files import DebugFile, place_of
from wheelfix.pipelines.patchelf import (
    Patchelf,
    find_lief_patchelf,
    find_patchelf,
)
from wheelfix.settings import Patcher, Settings, ZipCodec
from wheelfix.system.mapped_pieces import mapped
from wheelfix.wheel.deflate import ZLIB, Codec, NewContent, libdeflate
from wheelfix.wheel.edits import AddMember, CopyOf, Edit, HostFile, MoveMember, NewFile
from wheelfix.wheel.model import Wheel, WheelName
from wheelfix.wheel.reader import Archive

_THREADS = 2


@dataclass(frozen=True, slots=True, kw_only=True)
class Applied:
    """The new content of a wheel, ready to be written."""

    content: Mapping[str, NewContent]
    """Member -> its new bytes; members that keep their bytes are absent."""
    moved: Mapping[str, str]
    """Member -> the member of the input whose bytes it has, where the names differ."""
    debug_files: tuple[DebugFile, ...] = ()
    """What was stripped from the objects, if that is kept."""
    ways: Mapping[str, str] = field(default_factory=dict[str, str])
    """Member -> how its object was edited: "in place", "with room at its end", or "patchelf"."""


class _Source(NamedTuple):
    """What the bytes of a member are made from."""

    data: str | NewContent
    """The name of a member of the input, a file, or the bytes."""
    elf: Elf | None
    """What these bytes are, if they are an ELF object."""


class _Job(NamedTuple):
    """One object to edit."""

    member: str
    data: str | NewContent
    before: Elf
    wanted: Elf
    budget: Budget | None
    """That of the wheel for its members; a library of this machine has its own."""


def apply(
    archive: Archive,
    after: Wheel,
    edits: Iterable[Edit],
    workdir: Path,
    settings: Settings,
) -> Applied:
    """Carry out `edits`, which make `after` of the archive's wheel; files go to `workdir`.

    Raises `VerificationError` where an edited object is not what `after` predicts, `ToolError`
    where patchelf fails.
    """
    before = archive.wheel
    made = _sources(before, edits)
    names = [member.name for member in after.members]
    sources = {name: made.get(name, _Source(name, before.elfs.get(name))) for name in names}
    jobs = [
        _Job(
            member,
            source.data,
            source.elf,
            after.elfs[member],
            archive.budget if isinstance(source.data, str) else None,
        )
        for member, source in sources.items()
        if source.elf is not None and member in after.elfs and source.elf != after.elfs[member]
    ]
    sizes = {member.name: member.size for member in after.members}
    jobs.sort(key=lambda job: sizes[job.member], reverse=True)  # so that no large one is the last
    find = find_lief_patchelf if settings.patcher is Patcher.LIEF_PATCHELF else find_patchelf
    own = editor.edit if settings.patcher is Patcher.AUTO else editor.edit_in_place
    editing = partial(
        _edit,
        archive=archive,
        workdir=workdir,
        own=own,
        patchelf=cache(find),
        debug_files_of=after.name if settings.debug_symbols else None,
    )
    with ThreadPoolExecutor(_THREADS) as pool:
        edited = dict(zip([job.member for job in jobs], pool.map(editing, jobs), strict=True))
    content = {m: source.data for m, source in sources.items() if not isinstance(source.data, str)}
    return Applied(
        content=content | {member: done.path for member, done in edited.items()},
        moved={
            member: source.data
            for member, source in sources.items()
            if isinstance(source.data, str) and member not in {source.data, *edited}
        },
        debug_files=tuple(file for m in sources if m in edited and (file := edited[m].debug_file)),
        ways={m: edited[m].way for m in sources if m in edited and edited[m].way},
    )


def _sources(wheel: Wheel, edits: Iterable[Edit]) -> dict[str, _Source]:
    """Return what each member is made from, if not from the member of `wheel` of the same name.

    The bytes of a copy are those of its original.
    """
    sources: dict[str, _Source] = {}

    def source_of(member: str) -> _Source:
        return sources.get(member, _Source(member, wheel.elfs.get(member)))

    for edit in edits:
        match edit:
            case MoveMember():
                sources[edit.new] = source_of(edit.member)
            case AddMember(source=CopyOf(member=original)):
                sources[edit.member] = source_of(original)
            case AddMember(source=HostFile(path=path)):
                sources[edit.member] = _Source(Path(path), edit.elf)
            case AddMember(source=NewFile(content=content)):
                sources[edit.member] = _Source(content, edit.elf)
            case _:
                pass
    return sources


_Own = Callable[[Buffer, Elf, Elf, str, Budget | None], editor.Edited]
"""`editor.edit`, or `editor.edit_in_place` where patchelf is to make what needs room."""


class _Written(NamedTuple):
    """An edited object."""

    path: Path
    way: str
    """As in `Applied.ways`."""
    debug_file: DebugFile | None = None


def _edit(  # noqa: PLR0913 - an object, and what all edits of a wheel use
    job: _Job,
    *,
    archive: Archive,
    workdir: Path,
    own: _Own,
    patchelf: Callable[[], Patchelf],
    debug_files_of: WheelName | None,
) -> _Written:
    """Edit a copy of an object, and then strip it, so that its debug file has the same sections."""
    before, wanted = job.before, job.wanted
    whole = replace(
        wanted,
        symtab=before.symtab,
        symtab_size=before.symtab_size,
        debug_size=before.debug_size,
    )
    with _opened(job.data, archive) as original:
        if whole == before:
            return _stripped(original, job, workdir, debug_files_of)
        edits = job._replace(wanted=whole)
        path, way = _edited(original, edits, workdir, own, patchelf)
    if whole == wanted:
        return _Written(path, way)
    with mapped(path) as edited:
        written = _stripped(edited, job, workdir, debug_files_of)
    path.unlink()
    return written._replace(way=way)


def _stripped(
    edited: memoryview, job: _Job, workdir: Path, debug_files_of: WheelName | None
) -> _Written:
    """Write the stripped object, and its debug file if these are kept for a wheel."""
    kept = link = None
    if debug_files_of is not None:
        place, has_build_id = place_of(edited, job.member, debug_files_of)
        kept = DebugFile(_written((), workdir), place, has_build_id)
        with kept.path.open("wb") as file:
            write_debug_file(edited, job.member, file)
        with mapped(kept.path) as data:
            link = DebugLink.to(PurePosixPath(place).name, data)
    path = _written((), workdir)
    with path.open("wb") as file:
        write_stripped(edited, job.member, file, keeps_symtab=job.wanted.symtab, link=link)
    with mapped(path) as bare:
        _prove(edited, bare, job.wanted, job.member)
    return _Written(path, "", kept)


def _prove(before: Buffer, after: Buffer, wanted: Elf, member: str) -> None:
    found = differences(before, after, wanted, member)
    if found:
        raise VerificationError(
            f"`{member}`: the edited file is not what was planned: {'; '.join(found)}",
            hint="nothing was published; please report this file",
        )


def _edited(
    original: memoryview, job: _Job, workdir: Path, own: _Own, patchelf: Callable[[], Patchelf]
) -> tuple[Path, str]:
    """Write the edited object, and prove it; return the way of editing as in `Applied.ways`."""
    path, way = _edited_by(original, job, workdir, own, patchelf)
    with mapped(path) as written:
        _prove(original, written, job.wanted, job.member)
    return path, way


def _edited_by(
    original: memoryview, job: _Job, workdir: Path, own: _Own, patchelf: Callable[[], Patchelf]
) -> tuple[Path, str]:
    """Write the edited object, and leave to patchelf what `own` does not do; return the way."""
    before, wanted = job.before, job.wanted
    edited = own(original, before, wanted, job.member, job.budget)
    path = _written(edited.patch.chunks(original), workdir)
    if replace(wanted, segments=edited.elf.segments) != edited.elf:
        _patch(path, job.member, edited.elf, wanted, patchelf())
        return path, f"patchelf, because {edited.declined}" if edited.declined else "patchelf"
    if before == wanted:
        return path, ""
    return path, "in place" if edited.patch.size == len(original) else "with room at its end"


def _written(chunks: Iterable[bytes], workdir: Path) -> Path:
    with NamedTemporaryFile(dir=workdir, delete=False) as file:
        file.writelines(chunks)
    return Path(file.name)


def _patch(path: Path, member: str, now: Elf, wanted: Elf, patchelf: Patchelf) -> None:
    """Let patchelf edit the file, a large one without the sections that it would only carry."""
    shrunken = path.with_name(f"{path.name}-shrunken")
    with mapped(path) as whole:
        left_out = removable_ranges(whole, member)
        if left_out:
            with shrunken.open("wb") as file:
                write_shrunken(whole, left_out, file)
    if not left_out:
        patchelf.patch(path, now, wanted)
        return
    patchelf.patch(shrunken, now, wanted)
    with path.open("r+b") as whole_file, mapped(shrunken) as patched:
        restore(patched, left_out, whole_file)
    shrunken.unlink()


@contextmanager
def _opened(data: str | NewContent, archive: Archive) -> Generator[memoryview]:
    match data:
        case str():
            yield archive.buffer(data)
        case Path():
            with mapped(data) as view:
                yield view
        case bytes():
            yield memoryview(data)


def codec_of(choice: ZipCodec) -> Codec:
    """Return the codec for a setting; for `auto`, libdeflate where it is installed.

    Raises `SettingsError` for `libdeflate` where that is not installed.
    """
    if choice is ZipCodec.ZLIB:
        return ZLIB
    codec = libdeflate()
    if codec is None and choice is ZipCodec.LIBDEFLATE:
        raise SettingsError(
            '`zip-codec = "libdeflate"`: the package `deflate` is not installed',
            hint='pip install deflate; where it has no wheels, use `zip-codec = "zlib"`',
        )
    return codec or ZLIB
