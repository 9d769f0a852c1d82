"""Debug files: what was stripped from the objects of a wheel, for debuggers.

gdb and debuginfod find one by the build-id of the object. The object's .gnu_debuglink also names
it, with its CRC, for debuggers that look beside the object (gdb, "Separate Debug Files").
"""

import os
from collections.abc import Generator, Iterable
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import NamedTuple

from wheelfix.elf.constants import SHF_ALLOC, SHF_EXECINSTR
from wheelfix.elf.image import Image
from wheelfix.elf.reader import build_id
from wheelfix.errors import OutputError
from wheelfix.system.mapped_pieces import mapped, pieces
from wheelfix.system.tempfiles import PendingFile, output_errors
from wheelfix.wheel.model import WheelName


class DebugFile(NamedTuple):
    """What was stripped from one object."""

    path: Path
    """The temporary file."""
    place: str
    """Where it belongs, relative to the directory of debug files."""
    has_build_id: bool


def place_of(data: memoryview, member: str, wheel: WheelName) -> tuple[str, bool]:
    """Return the place of an object's debug file, and whether its build-id says it.

    Without a build-id, it is the member's path in a folder named after the wheel: merged into
    site-packages, gdb finds it beside the object.
    """
    number = build_id(data, member).hex()
    if len(number) > 2:
        return f".build-id/{number[:2]}/{number[2:]}.debug", True
    return f"{str(wheel).removesuffix('.whl')}/{member}.debug", False


@contextmanager
def published(files: Iterable[DebugFile], directory: Path) -> Generator[None]:
    """Write `files` below `directory`; if the context fails, remove those that were not there.

    Objects with the same build-id come from one link: the larger debug file stays.

    Raises `OutputError`, also for a file of another object with the same build-id.
    """
    chosen: dict[str, Path] = {}
    for file in files:
        target = directory / file.place
        if _supersedes(file.path, chosen.get(file.place, target), target):
            chosen[file.place] = file.path
    with ExitStack() as stack:
        ready = [stack.enter_context(_copied(path, directory / p)) for p, path in chosen.items()]
        new = [p for p in map(directory.joinpath, chosen) if not p.exists()]
        for pending in ready:
            pending.publish()
        try:
            yield
        except BaseException:
            for path in new:
                path.unlink(missing_ok=True)
            raise


def _copied(source: Path, target: Path) -> PendingFile:
    """Return an unpublished copy of `source`, to be named `target`."""
    pending = PendingFile(target.parent, target.name)
    with (
        output_errors(target.parent),
        mapped(source) as data,
        os.fdopen(os.dup(pending.descriptor), "wb") as file,
    ):
        file.writelines(pieces(data))
    return pending


def _supersedes(new: Path, old: Path, target: Path) -> bool:
    """Return whether the debug file `new` replaces `old`, which may not be there.

    Raises `OutputError` if they are of different objects.
    """
    if not old.exists():
        return True
    with mapped(new) as data, mapped(old) as known:
        if data == known:
            return False
        if _code(data, target) != _code(known, target):
            raise OutputError(
                f"`{target}` is the debug file of another object with the same build-id",
                hint="link with `--build-id=sha1`, which differs for each object; or choose another"
                " directory for `debug-symbols`",
            )
        return len(data) >= len(known)


def _code(data: memoryview, path: Path) -> list[tuple[bytes, int, int]]:
    """Return name, address and size of the sections with code: later edits do not move these."""
    image = Image.parse(data, str(path))
    return [
        (image.section_name(section), section.addr, section.size)
        for section in image.sections
        if section.flags & SHF_ALLOC and section.flags & SHF_EXECINSTR
    ]
