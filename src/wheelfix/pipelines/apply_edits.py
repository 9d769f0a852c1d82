"""Edited members of a wheel: their new bytes, compared with the prediction."""

from collections.abc import Callable, Generator, Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import field
from functools import cache, partial
from pathlib import Path, PurePosixPath

from wheelfix.budget import Budget
from wheelfix.elf import editor
from wheelfix.elf.compare import differences
from wheelfix.elf.growth import NoRoomError
from wheelfix.elf.image import Buffer, Image
from wheelfix.elf.model import Elf
from wheelfix.elf.revision import Revision
from wheelfix.elf.strip import DebugLink, write_debug_file, write_stripped
from wheelfix.errors import ToolError, VerificationError
from wheelfix.frozen import frozen
from wheelfix.named_tuple import NamedTuple
from wheelfix.pipelines.debug_files import DebugFile, place_of
from wheelfix.pipelines.patchelf import Patchelf, find_lief_patchelf, find_patchelf, split
from wheelfix.settings import Patcher, Settings
from wheelfix.system import deferred
from wheelfix.system.mapped_files import map_file
from wheelfix.text import first_of, in_units
from wheelfix.wheel.deflate_members import NewContent
from wheelfix.wheel.edits import Edit, revisions, sources_of
from wheelfix.wheel.model import Wheel, WheelName
from wheelfix.wheel.reader import Archive

_THREADS = 2
_STEPS_AN_OBJECT = 1500
"""What it takes to edit an object, to prove it, and to read it back, however small it is."""
_MOST_DIFFERENCES = 8
"""Those of an object that an error lists."""
_LARGEST_FOR_PATCHELF = 1 << 27
"""Bytes. patchelf holds an object in memory twice, and two may be edited at a time: 512 MB."""


@frozen
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


class _Job(NamedTuple):
    """One object to edit."""

    member: str
    data: str | NewContent
    """The name of a member of the input, a file, or the bytes."""
    revision: Revision
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
    edits = list(edits)
    made = sources_of(edits, {})
    sources = {member.name: made.get(member.name, member.name) for member in after.members}
    revised = revisions(archive.wheel, edits)
    jobs = [
        _Job(member, data, revised[member], archive.budget if isinstance(data, str) else None)
        for member, data in sources.items()
        if member in revised and revised[member].after != revised[member].before
    ]
    own = sum(isinstance(job.data, str) for job in jobs)
    archive.budget.spend(_STEPS_AN_OBJECT * own, "the edits of its objects")
    sizes = after.sizes
    jobs.sort(key=lambda job: sizes[job.member], reverse=True)  # so that no large one is the last
    find = find_lief_patchelf if settings.patcher is Patcher.LIEF_PATCHELF else find_patchelf
    editing = partial(
        _edit,
        archive=archive,
        workdir=workdir,
        may_grow=settings.patcher is Patcher.AUTO,
        patchelf=cache(find),
        debug_files_of=after.name if settings.debug_symbols else None,
    )
    with ThreadPoolExecutor(_THREADS) as pool:
        edited = dict(zip([job.member for job in jobs], pool.map(editing, jobs), strict=True))
    content = {member: data for member, data in sources.items() if not isinstance(data, str)}
    return Applied(
        content=content | {member: done.path for member, done in edited.items()},
        moved={
            member: data
            for member, data in sources.items()
            if isinstance(data, str) and member not in {data, *edited}
        },
        debug_files=tuple(file for m in sources if m in edited and (file := edited[m].debug_file)),
        ways={m: edited[m].way for m in sources if m in edited and edited[m].way},
    )


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
    may_grow: bool,
    patchelf: Callable[[], Patchelf],
    debug_files_of: WheelName | None,
) -> _Written:
    """Edit a copy of an object, and then strip it, so that its debug file has the same sections."""
    revision = job.revision.unstripped
    with _open(job.data, archive) as original:
        if revision.after == revision.before:
            return _strip(original, job, workdir, debug_files_of)
        path, way = _write_edited(
            original, job._replace(revision=revision), workdir, patchelf, may_grow=may_grow
        )
    if revision.after == job.revision.after:
        return _Written(path, way)
    with map_file(path) as edited:
        written = _strip(edited, job, workdir, debug_files_of)
    path.unlink()
    return written._replace(way=way)


def _strip(
    edited: memoryview, job: _Job, workdir: Path, debug_files_of: WheelName | None
) -> _Written:
    """Write the stripped object, and its debug file if these are kept for a wheel."""
    wanted = job.revision.after
    kept = link = None
    if debug_files_of is not None:
        place, has_build_id = place_of(edited, job.member, debug_files_of)
        kept = DebugFile(job.member, _write((), workdir), place, has_build_id)
        with kept.path.open("wb") as file:
            write_debug_file(edited, job.member, file)
        with map_file(kept.path) as data:
            link = DebugLink.to(PurePosixPath(place).name, data)
    path = _write((), workdir)
    with path.open("wb") as file:
        write_stripped(edited, job.member, file, keeps_symtab=wanted.symtab, link=link)
    with map_file(path) as bare:
        _prove(edited, bare, wanted, job.member)
    return _Written(path, "", kept)


def _prove(before: Buffer, after: Buffer, wanted: Elf, member: str) -> None:
    changes = differences(before, after, wanted, member)
    if changes:
        raise VerificationError(
            f"`{member}`: the edited file is not what was planned:"
            f" {'; '.join(first_of(changes, _MOST_DIFFERENCES))}",
            hint="nothing was published; please report this file",
        )


def _write_edited(
    original: memoryview,
    job: _Job,
    workdir: Path,
    patchelf: Callable[[], Patchelf],
    *,
    may_grow: bool,
) -> tuple[Path, str]:
    """Write the edited object, and prove it; return the way of editing as in `Applied.ways`."""
    try:
        patch = editor.edit(original, job.revision, job.member, job.budget, may_grow=may_grow)
    except NoRoomError as error:
        reason = str(error) if may_grow else ""
        path = _run_patchelf(original, job, workdir, patchelf, reason)
        way = f"patchelf, because {reason}" if reason else "patchelf"
    else:
        path = _write(patch.chunks(original), workdir)
        way = "in place" if patch.size == len(original) else "with room at its end"
    with map_file(path) as written:
        _prove(original, written, job.revision.after, job.member)
    return path, way


def _run_patchelf(
    original: memoryview, job: _Job, workdir: Path, patchelf: Callable[[], Patchelf], reason: str
) -> Path:
    """Write an object that patchelf has edited, because of `reason` or as the user wishes."""
    _require_small(job.member, len(original), reason)
    first, rest = split(job.revision)
    done = editor.edit(original, first, job.member, job.budget)
    path = _write(done.chunks(original), workdir)
    patchelf().patch(path, rest)
    # Some programs find what is appended by its distance from the start, which patchelf keeps;
    # others, such as those of an archive, from the end, where it adds a segment.
    with path.open("ab") as file:
        file.write(Image.parse(original, job.member, job.budget).appended)
    return path


def _require_small(member: str, size: int, reason: str) -> None:
    """Raise `ToolError` for an object that patchelf edits only with too much memory."""
    if size > _LARGEST_FOR_PATCHELF:
        because = f" ({reason})" if reason else ""
        raise ToolError(
            f"`{member}` has no room for the edit{because}, and patchelf would take"
            f" {in_units(2 * size)} of memory for its {in_units(size)}",
            hint="build it again, with the names and search paths that it needs"
            if reason
            else "leave out `--patcher`: wheelfix edits large objects in little memory",
        )


def _write(chunks: Iterable[bytes], workdir: Path) -> Path:
    descriptor, name = deferred.tempfile.mkstemp(dir=workdir)
    with open(descriptor, "wb") as file:  # noqa: PTH123 - a descriptor
        file.writelines(chunks)
    return Path(name)


@contextmanager
def _open(data: str | NewContent, archive: Archive) -> Generator[memoryview]:
    match data:
        case str():
            yield archive.buffer(data)
        case Path():
            with map_file(data) as view:
                yield view
        case bytes():
            yield memoryview(data)
