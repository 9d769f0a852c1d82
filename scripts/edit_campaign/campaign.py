"""Cases made, edited, judged and counted."""

from __future__ import annotations

import random
import shutil
import statistics
import subprocess
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

from edit_campaign.dice import aliases, random_edit
from edit_campaign.editors import Lief, Patchelf
from edit_campaign.loading import Loader
from edit_campaign.objects import MUSL, Object, linker_of
from tests.oracles.odd_objects.linked import PROGRAM, VALUE
from wheelfix.elf.compare import differences
from wheelfix.elf.editor import edit
from wheelfix.elf.growth import NoRoomError
from wheelfix.elf.model import Elf
from wheelfix.elf.reader import read_elf
from wheelfix.elf.revision import Revision
from wheelfix.errors import PlanConflictError, WheelfixError

STRIPPED = 0.5
"""Of the edited objects, this share is stripped."""
_ROOM = 1 << 28
"""Bytes of edited objects at a time."""
_LEAST = 8
"""Edit sets of an object, however large."""
_OTHER = "="
"""Start of what is said of a file that another editor made."""
LIBRARIES = ("libc.so.6", "libm.so.6", "libdl.so.2", "libpthread.so.0", "libz.so.1")


@dataclass(frozen=True, slots=True, kw_only=True)
class _Case:
    """An object that is edited many times."""

    taken: Object
    data: bytes
    before: Elf
    dice: random.Random

    @property
    def suffix(self) -> str:
        return PROGRAM if self.taken.path.name.endswith(PROGRAM) else ".so"


class _Written(NamedTuple):
    """An edited object."""

    data: bytes
    elf: Elf


class _Strip(NamedTuple):
    """A copy to be stripped."""

    source: Path
    command: tuple[str, ...]


@dataclass(slots=True)
class Counts:
    """What became of the cases."""

    edits: int = 0
    loads: int = 0
    grown: int = 0
    declined: Counter[str] = field(default_factory=Counter[str])
    failures: list[str] = field(default_factory=list[str])
    added: list[int] = field(default_factory=list[int])
    linkers: Counter[str] = field(default_factory=Counter[str])
    others: Counter[tuple[str, str]] = field(default_factory=Counter[tuple[str, str]])

    def text(self) -> str:
        """Summarise."""
        sizes = sorted(self.added) or [0]
        total = (
            f"{self.edits} edits, {self.loads} loads, {self.grown} grew,"
            f" {self.declined.total()} declined, {len(self.failures)} failures;"
            f" bytes added: median {statistics.median(sizes):.0f}, worst {sizes[-1]}"
        )
        lines = [
            total,
            *(f"  {count} of {linker}" for linker, count in self.linkers.most_common()),
            *(f"  declined {count}: {why}" for why, count in self.declined.most_common()),
            *(f"  {name} {what}: {count}" for (name, what), count in sorted(self.others.items())),
        ]
        return "\n".join(lines)


@dataclass(slots=True, kw_only=True)
class Campaign:
    """Random edits of the objects of one machine."""

    loader: Loader
    work: Path
    strips: Sequence[Sequence[str]]
    """Commands that rewrite an object in place."""
    editors: Sequence[Patchelf | Lief]
    edits: int
    """Edit sets for each object, each time that it is taken."""
    share: float
    """The share of the cases that other editors get, too."""
    keep: Path | None
    counts: Counts = field(default_factory=Counts)
    _good: dict[Path, Elf | None] = field(default_factory=dict[Path, "Elf | None"])

    def run(self, taken: Object, seed: int) -> None:
        """Make edits of one object, and judge them."""
        before = self._loadable(taken)
        if before is None:
            return
        dice = random.Random(f"{taken.label} {seed}")  # noqa: S311 - reproducible by its seed
        case = _Case(taken=taken, data=taken.path.read_bytes(), before=before, dice=dice)
        stage = _emptied(self.work / "stage")
        made: dict[Path, str] = {}
        edits = self.counts.edits
        wanted: dict[Path, _Strip] = {}
        for number in range(min(self.edits, max(_LEAST, _ROOM // len(case.data)))):
            label = f"{taken.label} seed {seed} edit {number}"
            made.update(self._made(case, label, stage, number, wanted))
        self.counts.linkers[linker_of(case.data)] += self.counts.edits - edits
        for path, error in _all_stripped(wanted).items():
            if made[path].startswith(_OTHER):
                self.counts.others[made[path][1:], "failed"] += bool(error)
            elif error:
                self._failed(made[path], f"it failed: {error}", wanted[path].source)
        for path, text in self._answers(list(made), taken).items():
            name = made[path]
            self.counts.loads += 1
            if name.startswith(_OTHER):
                self.counts.others[name[1:], "broken" if text else "loaded"] += 1
            elif text:
                self._failed(name, f"it does not load: {text}", path)

    def _answers(self, paths: Sequence[Path], taken: Object) -> Mapping[Path, str]:
        if taken.label.startswith(MUSL):
            return self.loader.answers_of_musl(paths, self._folders(taken), VALUE)
        return self.loader.answers(paths, self._folders(taken), VALUE if taken.is_linked else None)

    def _folders(self, taken: Object) -> tuple[Path, ...]:
        return (self.work / "names", *taken.folders)

    def _made(
        self, case: _Case, label: str, stage: Path, number: int, strips: dict[Path, _Strip]
    ) -> dict[Path, str]:
        """Edit an object once and twice, and ask for stripped copies; return what the files are."""
        # musl has its C library built in, and knows it by its own names alone.
        libraries = () if case.taken.label.startswith(MUSL) else LIBRARIES
        extra = [
            name
            for name in libraries
            if (self.work / "names" / f"q-{name}").exists()
            and not (name == "libc.so.6" and _is_refused_with_libc(case.before))
        ]
        wanted = random_edit(case.before, extra, case.dice)
        once = self._edited(case.data, wanted, label)
        if once is None:
            return {}
        made = {_written(stage / f"{number}-one{case.suffix}", once.data): label}
        again = random_edit(once.elf, extra, case.dice)
        twice = self._edited(once.data, again, f"{label} again")
        if twice is not None:
            made[_written(stage / f"{number}-two{case.suffix}", twice.data)] = f"{label} again"
        for source, name in list(made.items()):
            if case.dice.random() < STRIPPED:
                command = case.dice.choice(self.strips)
                bare = source.with_name(f"{source.stem}-bare{case.suffix}")
                made[bare] = f"{name} after {' '.join(command)}"
                strips[bare] = _Strip(source, tuple(command))
        if case.dice.random() < self.share:
            for path, editor in self._by_others(case, wanted, stage / f"{number}"):
                bare = path.with_name(f"{path.stem}-bare{case.suffix}")
                made[path], made[bare] = f"{_OTHER}{editor}", f"{_OTHER}{editor} stripped"
                strips[bare] = _Strip(path, tuple(self.strips[0]))
        return made

    def _edited(self, data: bytes, revision: Revision, label: str) -> _Written | None:
        self.counts.edits += 1
        try:
            written = edit(data, revision, "x.so").content(data)
        except NoRoomError as error:
            self.counts.declined[str(error)] += 1
            return None
        except PlanConflictError:
            self.counts.declined["the edit contradicts itself"] += 1
            return None
        except (WheelfixError, ValueError, KeyError, IndexError) as error:
            self._failed(label, f"{type(error).__name__}: {error}", None)
            return None
        self.counts.added.append(len(written) - len(data))
        self.counts.grown += len(written) > len(data)
        if found := differences(data, written, revision.after, "x.so"):
            self._failed(label, "; ".join(found), None)
        return _Written(written, read_elf(written, "x.so"))

    def _by_others(self, case: _Case, wanted: Revision, stem: Path) -> Iterator[tuple[Path, str]]:
        """Give an edit to other editors; yield the files, and who made them."""
        for editor in self.editors:
            path = _written(stem.with_name(f"{stem.name}-{editor.name}{case.suffix}"), case.data)
            said = editor.edit(path, wanted)
            if said is None:
                self.counts.others[editor.name, "has no such edit"] += 1
                continue
            if said:
                self.counts.others[editor.name, "failed"] += 1
                continue
            self.counts.others[editor.name, "edited"] += 1
            if differences(case.data, path.read_bytes(), wanted.after, "x.so"):
                self.counts.others[editor.name, "differs from the prediction"] += 1
            yield path, editor.name

    def _loadable(self, taken: Object) -> Elf | None:
        """Return what an object says, if it loads before any edit, and after each strip."""
        if taken.path not in self._good:
            self._good[taken.path] = self._judged(taken)
        return self._good[taken.path]

    def _judged(self, taken: Object) -> Elf | None:
        try:
            elf = read_elf(taken.path.read_bytes(), "x.so")
        except WheelfixError:
            return None
        suffix = PROGRAM if taken.path.name.endswith(PROGRAM) else ".so"
        if not elf.dynamic or (elf.interpreter and suffix != PROGRAM):
            return None
        self._give_names(elf, taken)
        stage = _emptied(self.work / "base")
        paths = [_written(stage / f"base{suffix}", taken.path.read_bytes())]
        for number, command in enumerate(self.strips):
            paths.append(stage / f"{number}{suffix}")
            shutil.copy(paths[0], paths[-1])
            _run(command, paths[-1:])
        return None if any(self._answers(paths, taken).values()) else elf

    def _give_names(self, elf: Elf, taken: Object) -> None:
        """Let each library be found under the names that edits give it."""
        names = self.work / "names"
        names.mkdir(exist_ok=True)
        for name in {*elf.needed, *LIBRARIES}:
            found = next((f / name for f in taken.folders if (f / name).exists()), None)
            found = found or _system(name)
            for alias in aliases(name) if found else ():
                if found and alias != name and not (names / alias).exists():
                    (names / alias).symlink_to(found.resolve())

    def _failed(self, label: str, text: str, path: Path | None) -> None:
        self.counts.failures.append(f"{label}: {text}")
        print(f"{label}: {text}", flush=True)
        if self.keep and path is not None:
            self.keep.mkdir(parents=True, exist_ok=True)
            shutil.copy(path, self.keep / f"{len(self.counts.failures)}-{path.name}")


def _is_refused_with_libc(elf: Elf) -> bool:
    """Return whether glibc refuses the object once it needs libc.so.6 (elf/dl-version.c).

    mold 1.10 writes DT_RELR without the version that says so.
    """
    versions = (version for need in elf.verneed for version in need.versions)
    return elf.relr and "GLIBC_ABI_DT_RELR" not in versions


def _system(name: str) -> Path | None:
    for folder in ("/lib/x86_64-linux-gnu", "/usr/lib/x86_64-linux-gnu"):
        if (Path(folder) / name).exists():
            return Path(folder) / name
    return None


def _written(path: Path, data: bytes) -> Path:
    path.write_bytes(data)
    path.chmod(0o755)
    return path


def _all_stripped(wanted: Mapping[Path, _Strip]) -> dict[Path, str]:
    """Strip copies, all of a command in one process; return what was said of each file."""
    found: dict[Path, str] = {}
    for command in {strip.command for strip in wanted.values()}:
        paths = [path for path, strip in wanted.items() if strip.command == command]
        for path in paths:
            shutil.copy(wanted[path].source, path)
        takes_many = not command[0].endswith("objcopy")
        if takes_many and not _run(command, paths):
            found.update(dict.fromkeys(paths, ""))
            continue
        for path in paths:
            shutil.copy(wanted[path].source, path)
            found[path] = _run(command, [path])
    return found


def _run(command: Sequence[str], paths: Sequence[Path]) -> str:
    done = subprocess.run([*command, *paths], capture_output=True, text=True, check=False)
    return done.stderr[-200:] or "?" if done.returncode else ""


def _emptied(folder: Path) -> Path:
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    return folder
