"""Debug files: what was stripped from the objects of a wheel, for debuggers.

gdb and debuginfod find one by the build-id of the object. The object's .gnu_debuglink also names
it, with its CRC, for debuggers that look beside the object (gdb, "Separate Debug Files").
"""

import hashlib
import os
import time
from collections.abc import Collection, Generator, Iterable, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path

from wheelfix.elf.constants import SHF_ALLOC, SHF_EXECINSTR, Sht
from wheelfix.elf.image import Image, Section
from wheelfix.elf.reader import build_id
from wheelfix.errors import BadElfError, OutputError
from wheelfix.named_tuple import NamedTuple
from wheelfix.system.mapped_files import map_file, pieces
from wheelfix.system.tempfiles import PendingFile, hold, output_errors
from wheelfix.wheel.model import NAME_MAX, WheelName

_SUFFIX = ".debug"
_LOCK_TRIES, _LOCK_PAUSE = 600, 0.1
"""Attempts to lock a directory, and seconds between them: about a minute."""
_WITHOUT = {Sht.NULL, Sht.NOBITS, Sht.SYMTAB, Sht.SYMTAB_SHNDX}
"""Types of sections without content, or with content that depends on the numbers of sections."""


class DebugFile(NamedTuple):
    """What was stripped from one object."""

    member: str
    """The object."""
    path: Path
    """The temporary file."""
    place: str
    """Where it belongs, relative to the directory of debug files."""
    has_build_id: bool


def place_of(data: memoryview, member: str, wheel: WheelName) -> tuple[str, bool]:
    """Return the place of an object's debug file, and whether its build-id says it.

    Without a build-id, it is the member's path in a folder named after the wheel: merged into
    site-packages, gdb finds it beside the object. A name that would get too long is its hash.
    """
    number = build_id(data, member).hex()
    if len(number) > 2:
        return f".build-id/{number[:2]}/{number[2:]}{_SUFFIX}", True
    folder, slash, name = member.rpartition("/")
    if len(name.encode()) > NAME_MAX - len(_SUFFIX):
        name = hashlib.sha256(name.encode()).hexdigest()
    return f"{str(wheel).removesuffix('.whl')}/{folder}{slash}{name}{_SUFFIX}", False


@contextmanager
def publish_debug_files(files: Iterable[DebugFile], directory: Path) -> Generator[None]:
    """Write `files` below `directory`; if that or the context fails, it has what it had before.

    Edits of one link may differ in their section headers. Of these, always the same debug file
    stays, whatever the order of wheels. The file of another object is never replaced.

    Raises `OutputError`, also for a file of another object with the same build-id.
    """
    chosen: dict[str, DebugFile] = {}
    for file in files:
        other = chosen.setdefault(file.place, file)
        if _supersedes(file, other.path, other.member, _LINK):
            chosen[file.place] = file
    with ExitStack() as stack:
        if chosen:
            stack.enter_context(_lock(directory))
        targets = {file: directory / place for place, file in chosen.items()}
        replaced = {f: t for f, t in targets.items() if t.exists()}
        with output_errors(directory):
            kept = {f for f, t in replaced.items() if not _supersedes(f, t, str(t), _ELSEWHERE)}
        ready = {
            f: stack.enter_context(_copy(f.path, t)) for f, t in targets.items() if f not in kept
        }
        before = [stack.enter_context(_copy(t, t)) for f, t in replaced.items() if f not in kept]
        new: list[Path] = []
        try:
            for file, pending in ready.items():
                path = pending.publish()
                new += [] if file in replaced else [path]
            yield
        except BaseException:
            for path in new:
                path.unlink(missing_ok=True)
            for pending in before:
                pending.publish()
            raise


@contextmanager
def _lock(directory: Path) -> Generator[None]:
    """Keep other runs and threads from writing debug files into `directory` (flock(2))."""
    with output_errors(directory):
        directory.mkdir(parents=True, exist_ok=True)
        descriptor = os.open(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        tries = 1
        while not hold(descriptor):
            if tries == _LOCK_TRIES:
                raise OutputError(
                    f"`{directory}` is locked by another process",
                    hint="choose another directory for `debug-symbols`",
                )
            time.sleep(_LOCK_PAUSE)
            tries += 1
        yield
    finally:
        os.close(descriptor)


def _copy(source: Path, target: Path) -> PendingFile:
    """Return an unpublished copy of `source`, to be named `target`."""
    pending = PendingFile(target.parent, target.name)
    with (
        output_errors(target.parent),
        map_file(source) as data,
        os.fdopen(os.dup(pending.descriptor), "wb") as file,
    ):
        file.writelines(pieces(data))
    return pending


_LINK = "link with `--build-id=sha1`, which differs for each object"
_ELSEWHERE = f"{_LINK}; or choose another directory for `debug-symbols`"


def _supersedes(new: DebugFile, old: Path, origin: str, hint: str) -> bool:
    """Return whether a debug file replaces that at `old`, which is of the object `origin`.

    Raises `OutputError` if they are of different objects.
    """
    with map_file(new.path) as data, map_file(old) as present:
        if data == present:
            return False
        if not _has_same_content(data, present):
            raise OutputError(
                f"`{new.member}` is another object with the same build-id as `{origin}`"
                if new.has_build_id
                else f"`{new.member}` is another object than that of `{origin}`",
                hint=hint,
            )
        return _rank(data) > _rank(present)


def _rank(data: memoryview) -> tuple[int, bytes]:
    return len(data), hashlib.sha256(data).digest()


def _has_same_content(section: memoryview, other: memoryview) -> bool:
    """Return whether two debug files tell debuggers the same, so that either may stay.

    Edits after the link move only sections that are loaded and have no code, and their symbols.
    """
    try:
        return _content(section) == _content(other)
    except BadElfError:
        return False


def _content(data: memoryview) -> tuple[Sequence[object], ...]:
    """Return the sections with code, the digests of those that are not loaded, and of symbols.

    The names of sections may get another one by an edit.

    Raises `BadElfError`.
    """
    image = Image.parse(data, "the debug file")
    sections = dict(enumerate(image.sections))
    code = {n: s for n, s in sections.items() if s.flags & SHF_ALLOC and s.flags & SHF_EXECINSTR}
    tables = [section for section in image.sections if section.type == Sht.SYMTAB]
    names = {image.header.shstrndx, *(table.link for table in tables)}
    others = [
        section
        for number, section in sections.items()
        if number not in names and not section.flags & SHF_ALLOC and section.type not in _WITHOUT
    ]
    return (
        sorted((image.section_name(s), s.addr, s.size) for s in code.values()),
        sorted(
            (
                image.section_name(s),
                hashlib.sha256(image.view[s.offset : s.offset + s.size]).digest(),
            )
            for s in others
        ),
        [_symbols(image, table, code.keys()) for table in tables],
    )


def _symbols(image: Image, table: Section, code: Collection[int]) -> bytes:
    """Return a digest of names, kinds and sizes of symbols, and of the addresses of code."""
    if not image.has(table.link):
        raise image.bad("the symbol table has no names")
    names = image.sections[table.link]
    text = image.read(names.offset, names.size, "the names of symbols")
    size = table.size - table.size % image.structs.sym.size
    digest = hashlib.sha256()
    for name, kind, _, section, value, length in image.structs.symbols(
        image.read(table.offset, size, "the symbols")
    ):
        address = value if section in code else 0
        digest.update(b"%s %d %d %d\0" % (_text(text, name), kind, address, length))
    return digest.digest()


def _text(names: bytes, start: int) -> bytes:
    return names[start : max(names.find(b"\0", start), start)]
