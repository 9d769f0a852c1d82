"""Cases made, edited, judged and counted."""

from __future__ import annotations

import random
import shutil
import statistics
import subprocess
from collections import Counter
from collections.abc import Sequence
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

_EDITS = 12
"""Edit sets for each object, each time that it is taken."""
LIBRARIES = ("libc.so.6", "libm.so.6", "libdl.so.2", "libpthread.so.0", "libz.so.1")


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
        lines = [
            f"{self.edits} edits, {self.grown} grew, {self.declined.total()} declined,",
            f"{len(self.failures)} failures",
            f"bytes added: median {statistics.median(sizes):.0f}, worst {sizes[-1]}",
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
        dice = random.Random(f"{taken.label} {seed}")
        original = taken.path.read_bytes()
        stage = self.work / "stage"
        shutil.rmtree(stage, ignore_errors=True)
        stage.mkdir(parents=True)
        (self.work / "names").mkdir(exist_ok=True)
        folders = (self.work / "names", *taken.folders)
        # musl has its C library built in, and knows it by its own names alone.
        libraries = () if taken.label.startswith(MUSL) else LIBRARIES
        extra = [n for n in libraries if (self.work / "names" / f"q-{n}").exists()]
        suffix = PROGRAM if taken.path.name.endswith(PROGRAM) else ".so"
        made: dict[Path, str] = {}
        for number in range(_EDITS):
            wanted = random_edit(before, extra, dice)
            label = f"{taken.label} seed {seed} edit {number}"
            once = self._edited(original, before, wanted, label)
            if once is None:
                continue
            first = stage / f"{number}-one{suffix}"
            _write(first, once)
            made[first] = label
            elf = read_elf(once, "x.so")
            twice = self._edited(once, elf, random_edit(elf, extra, dice), f"{label} again")
            if twice is not None:
                second = stage / f"{number}-two{suffix}"
                _write(second, twice)
                made[second] = f"{label} again"
            for source in list(made):
                if not source.name.startswith(f"{number}-") or dice.random() < 0.3:
                    continue
                command = dice.choice(self.strips)
                bare = source.with_name(f"{source.stem}-bare{suffix}")
                shutil.copy(source, bare)
                done = subprocess.run([*command, str(bare)], capture_output=True, check=False)
                made[bare] = f"{made[source]} after {' '.join(command)}"
                if done.returncode:
                    self._failed(made[bare], f"it failed: {done.stderr.decode()[-200:]}", source)
            if dice.random() < self.share:
                self._try_others(taken, original, before, wanted, stage / f"{number}", made)
        said = self.loader.answers(list(made), folders, musl=taken.label.startswith(MUSL))
        for path, text in said.items():
            name = made[path]
            if name.startswith("="):
                self.counts.others[
                    name[1:].partition(" ")[0], "loaded" if not text else "broken"
                ] += 1
            elif text:
                self._failed(name, f"it does not load: {text}", path)

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

    def _try_others(
        self,
        taken: Object,
        original: bytes,
        before: Elf,
        wanted: Elf,
        stem: Path,
        made: dict[Path, str],
    ) -> None:
        for editor in self.editors:
            path = stem.with_name(f"{stem.name}-{editor.name}.so")
            _write(path, original)
            said = editor.edit(path, before, wanted)
            if said is None:
                self.counts.others[editor.name, "has no such edit"] += 1
                continue
            if said:
                self.counts.others[editor.name, "failed"] += 1
                continue
            self.counts.others[editor.name, "edited"] += 1
            made[path] = f"={editor.name} {taken.label}"
            bare = path.with_name(f"{path.stem}-bare.so")
            shutil.copy(path, bare)
            subprocess.run([*self.strips[0], str(bare)], capture_output=True, check=False)
            made[bare] = f"={editor.name}+strip {taken.label}"
            if differences(original, path.read_bytes(), wanted, "x.so"):
                self.counts.others[editor.name, "differs from the prediction"] += 1

    def _loadable(self, taken: Object) -> Elf | None:
        """Return what an object says, if it loads before any edit and after each strip."""
        if taken.path not in self._good:
            self._good[taken.path] = None
            try:
                elf = read_elf(taken.path.read_bytes(), "x.so")
            except WheelfixError:
                return None
            if not elf.dynamic or (elf.interpreter and not taken.path.name.endswith(PROGRAM)):
                return None
            self._give_names(elf, taken)
            stage = self.work / "base"
            shutil.rmtree(stage, ignore_errors=True)
            stage.mkdir(parents=True)
            suffix = PROGRAM if taken.path.name.endswith(PROGRAM) else ".so"
            paths = [stage / f"base{suffix}"]
            shutil.copy(taken.path, paths[0])
            paths[0].chmod(0o755)
            for number, command in enumerate(self.strips):
                path = stage / f"{number}{suffix}"
                shutil.copy(paths[0], path)
                subprocess.run([*command, str(path)], capture_output=True, check=False)
                paths.append(path)
            folders = (self.work / "names", *taken.folders)
            said = self.loader.answers(paths, folders, musl=taken.label.startswith(MUSL))
            if not any(said.values()):
                self._good[taken.path] = elf
        return self._good[taken.path]

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


def _write(path: Path, data: bytes) -> None:
    path.write_bytes(data)
    path.chmod(0o755)
