"""Cases made, edited, judged and counted."""

from __future__ import annotations

import random
import shutil
import statistics
import subprocess
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from edit_campaign.dice import aliases, random_edit
from edit_campaign.editors import Lief, Patchelf
from edit_campaign.loading import Loader
from edit_campaign.objects import MUSL, Object
from odd_objects.linked import PROGRAM
from wheelfix.elf.compare import differences
from wheelfix.elf.editor import edit
from wheelfix.elf.model import Elf
from wheelfix.elf.reader import read_elf
from wheelfix.errors import PlanConflictError, WheelfixError

STRIPPED = 0.7
"""Of the edited objects, this share is stripped."""
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


@dataclass(slots=True)
class Counts:
    """What became of the cases."""

    edits: int = 0
    grown: int = 0
    declined: Counter[str] = field(default_factory=Counter[str])
    failures: list[str] = field(default_factory=list[str])
    added: list[int] = field(default_factory=list[int])
    others: Counter[tuple[str, str]] = field(default_factory=Counter[tuple[str, str]])

    def text(self) -> str:
        """Summarise."""
        sizes = sorted(self.added) or [0]
        total = (
            f"{self.edits} edits, {self.grown} grew, {self.declined.total()} declined,"
            f" {len(self.failures)} failures;"
            f" bytes added: median {statistics.median(sizes):.0f}, worst {sizes[-1]}"
        )
        lines = [
            total,
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
        for number in range(self.edits):
            made.update(self._made(case, f"{taken.label} seed {seed} edit {number}", stage, number))
        is_musl = taken.label.startswith(MUSL)
        said = self.loader.answers(list(made), self._folders(taken), musl=is_musl)
        for path, text in said.items():
            name, is_other, editor = made[path].partition("=")
            if is_other:
                what = "broken" if text else "loaded"
                self.counts.others[editor, what] += 1
            elif text:
                self._failed(name, f"it does not load: {text}", path)

    def _folders(self, taken: Object) -> tuple[Path, ...]:
        return (self.work / "names", *taken.folders)

    def _made(self, case: _Case, label: str, stage: Path, number: int) -> dict[Path, str]:
        """Edit an object once and twice, and strip these; return the files, and what they are."""
        # musl has its C library built in, and knows it by its own names alone.
        libraries = () if case.taken.label.startswith(MUSL) else LIBRARIES
        extra = [n for n in libraries if (self.work / "names" / f"q-{n}").exists()]
        wanted = random_edit(case.before, extra, case.dice)
        once = self._edited(case.data, case.before, wanted, label)
        if once is None:
            return {}
        made = {_written(stage / f"{number}-one{case.suffix}", once): label}
        elf = read_elf(once, "x.so")
        twice = self._edited(once, elf, random_edit(elf, extra, case.dice), f"{label} again")
        if twice is not None:
            made[_written(stage / f"{number}-two{case.suffix}", twice)] = f"{label} again"
        for source, name in list(made.items()):
            if case.dice.random() < STRIPPED:
                command = case.dice.choice(self.strips)
                bare = source.with_name(f"{source.stem}-bare{case.suffix}")
                made[bare] = f"{name} after {' '.join(command)}"
                if error := _stripped(command, source, bare):
                    self._failed(made[bare], f"it failed: {error}", source)
        if case.dice.random() < self.share:
            made.update(self._by_others(case, wanted, stage / f"{number}"))
        return made

    def _edited(self, data: bytes, before: Elf, wanted: Elf, label: str) -> bytes | None:
        self.counts.edits += 1
        try:
            done = edit(data, before, wanted, "x.so")
        except PlanConflictError:
            self.counts.declined["the edit contradicts itself"] += 1
            return None
        except (WheelfixError, ValueError, KeyError, IndexError) as error:
            self._failed(label, f"{type(error).__name__}: {error}", None)
            return None
        if done.declined:
            self.counts.declined[done.declined] += 1
            return None
        with memoryview(data) as view:
            written = b"".join(done.patch.chunks(view))
        self.counts.added.append(len(written) - len(data))
        self.counts.grown += len(written) > len(data)
        if read_elf(written, "x.so") != done.elf:
            self._failed(label, "it does not read as predicted", None)
        if found := differences(data, written, wanted, "x.so"):
            self._failed(label, "; ".join(found), None)
        return written

    def _by_others(self, case: _Case, wanted: Elf, stem: Path) -> Iterator[tuple[Path, str]]:
        """Give an edit to other editors; yield the files, and who made them."""
        for editor in self.editors:
            path = _written(stem.with_name(f"{stem.name}-{editor.name}{case.suffix}"), case.data)
            said = editor.edit(path, case.before, wanted)
            if said is None:
                self.counts.others[editor.name, "has no such edit"] += 1
                continue
            if said:
                self.counts.others[editor.name, "failed"] += 1
                continue
            self.counts.others[editor.name, "edited"] += 1
            if differences(case.data, path.read_bytes(), wanted, "x.so"):
                self.counts.others[editor.name, "differs from the prediction"] += 1
            yield path, f"={editor.name}"
            bare = path.with_name(f"{path.stem}-bare{case.suffix}")
            _stripped(self.strips[0], path, bare)
            yield bare, f"={editor.name} stripped"

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
            _stripped(command, paths[0], paths[-1])
        is_musl = taken.label.startswith(MUSL)
        said = self.loader.answers(paths, self._folders(taken), musl=is_musl)
        return None if any(said.values()) else elf

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


def _system(name: str) -> Path | None:
    for folder in ("/lib/x86_64-linux-gnu", "/usr/lib/x86_64-linux-gnu"):
        if (Path(folder) / name).exists():
            return Path(folder) / name
    return None


def _written(path: Path, data: bytes) -> Path:
    path.write_bytes(data)
    path.chmod(0o755)
    return path


def _stripped(command: Sequence[str], source: Path, bare: Path) -> str:
    """Strip a copy of `source`; return what was said if that failed."""
    shutil.copy(source, bare)
    done = subprocess.run([*command, str(bare)], capture_output=True, text=True, check=False)
    return done.stderr[-200:] or "?" if done.returncode else ""


def _emptied(folder: Path) -> Path:
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    return folder
