"""Make real objects odd but valid: what the loader loads is read, and still loads once edited.

Objects of every linker of this machine are changed in one to four ways that leave them valid, such
as section headers that are stripped, tables that are moved, or segments that are cut to pages. The
real loader says which of them are. Those must read as the object that they were made from; edited
in place, they must pass the comparison with the original, and load again.

    python -m tests.oracles.odd_objects.oddities -n 5000
    python -m tests.oracles.odd_objects.oddities --first 4711 -n 1 --keep .
"""

import argparse
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from tests.oracles.odd_objects.judge import loaded
from tests.oracles.odd_objects.kinds import odd
from tests.oracles.odd_objects.linked import PROGRAM, VALUE, link_all
from wheelfix.elf.compare import differences
from wheelfix.elf.editor import edit
from wheelfix.elf.growth import NoRoomError
from wheelfix.elf.model import Elf
from wheelfix.elf.reader import read_elf
from wheelfix.elf.revision import Revision
from wheelfix.errors import WheelfixError

_BATCH = 460
"""Objects that are kept at once."""
_ALIKE = ("bits", "machine", "type", "dt_flags", "module_hooks", "relr")
_MAY_BECOME_TRUE = ("constructors", "destructors")
"""Without sections, the code of the compiler's own files cannot be told from that of others."""


@dataclass(frozen=True, kw_only=True)
class Case:
    """An odd object."""

    label: str
    data: bytes
    before: Elf
    """What it was made from."""
    suffix: str


@dataclass(frozen=True, kw_only=True)
class Result:
    """What became of many cases."""

    loaded: int
    edited: int
    """How many of them were edited and loaded again."""
    faults: tuple[tuple[Case, str], ...]


def cases(folder: Path, first: int, count: int, *, tools: bool) -> Iterator[Case]:
    """Yield the cases with these numbers; `folder` gets the libraries that they need."""
    objects = list(link_all(folder).items())
    known = {name: read_elf(data, name) for name, data in objects}
    for seed in range(first, first + count):
        name, data = objects[seed % len(objects)]
        changed, done = odd(data, seed, tools=tools)
        label = f"case {seed}: {name}, {', '.join(done) or 'unchanged'}"
        suffix = PROGRAM if name.endswith(PROGRAM) else ".so"
        yield Case(label=label, data=changed, before=known[name], suffix=suffix)


def compare(first: int, count: int, *, tools: bool) -> Result:
    """Hold wheelfix to the loader in `count` cases."""
    faults: list[tuple[Case, str]] = []
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        made = {
            folder / f"odd-{n}{case.suffix}": case
            for n, case in enumerate(cases(folder, first, count, tools=tools))
        }
        for path, case in made.items():
            _write(path, case.data)
        said = loaded(list(made), folder)
        good = {path: case for path, case in made.items() if said[path] == str(VALUE)}
        edited: dict[Path, Case] = {}
        for path, case in made.items():
            try:
                data = _judged(case)
            except (WheelfixError, ValueError) as error:
                if path in good:
                    faults.append((case, str(error)))
                continue
            if path in good:
                changed = path.with_name(f"edited-{path.name}")
                _write(changed, data)
                edited[changed] = case
        again = loaded(list(edited), folder)
        faults += [
            (case, f"edited, it does not load: {again[path]}")
            for path, case in edited.items()
            if again[path] != str(VALUE)
        ]
    return Result(loaded=len(good), edited=len(edited), faults=tuple(faults))


def _write(path: Path, data: bytes) -> None:
    path.write_bytes(data)
    path.chmod(0o755)


def _judged(case: Case) -> bytes:
    """Read and edit an object; return the edited one. Raises `ValueError` for what is wrong."""
    elf = read_elf(case.data, "odd.so")
    if unlike := list(_unlike(case.before, elf)):
        raise ValueError(f"it reads otherwise: {'; '.join(unlike)}")
    revision = Revision.of(elf).drop_needed("libtwo.so.1")
    if elf.runpath and elf.rpath is None:
        revision = revision.set_paths(None, "$ORIGIN/../odd")
    try:
        data = edit(case.data, revision, "odd.so", may_grow=False).content(case.data)
    except NoRoomError as error:
        raise ValueError(f"it is not edited in place: {error}") from error
    if found := differences(case.data, data, revision.after, "odd.so"):
        raise ValueError(f"the comparison rejects it: {'; '.join(found)}")
    return data


def _unlike(before: Elf, now: Elf) -> Iterator[str]:
    if not now.dynamic:
        yield "not an object for the loader"
        return
    for name in _ALIKE:
        if getattr(before, name) != getattr(now, name):
            yield f"{name}: {getattr(before, name)!r}, {getattr(now, name)!r}"
    for name in _MAY_BECOME_TRUE:
        if getattr(before, name) and not getattr(now, name):
            yield f"{name} are lost"
    if {*before.needed} - {*now.needed}:
        yield f"needed: {now.needed}"
    for name in ("undefined", "verneed", "verdef"):
        if Counter(getattr(before, name)) != Counter(getattr(now, name)):
            yield f"{name}: {getattr(before, name)!r}, {getattr(now, name)!r}"


def main() -> int:
    """Compare many cases, and say how many are at fault."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("-n", type=int, default=2000, help="number of objects")
    parser.add_argument("--first", type=int, default=0, help="the first number")
    parser.add_argument("--no-tools", action="store_true", help="without patchelf and binutils")
    parser.add_argument("--keep", type=Path, metavar="DIR", help="write the objects at fault")
    options = parser.parse_args()
    started = time.monotonic()
    loading = edited = 0
    kinds = Counter[str]()
    last = options.first + options.n
    for first in range(options.first, last, _BATCH):
        result = compare(first, min(_BATCH, last - first), tools=not options.no_tools)
        loading += result.loaded
        edited += result.edited
        for case, text in result.faults:
            print(f"{case.label}: {text}")
            kinds[text.partition(":")[0]] += 1
            if options.keep:
                name = case.label.partition(":")[0].replace(" ", "-")
                (options.keep / f"{name}.so").write_bytes(case.data)
    for kind, count in kinds.most_common():
        print(f"{count:6}  {kind}")
    print(
        f"{options.n} objects, {loading} load, {edited} of these edited,"
        f" {kinds.total()} at fault, {time.monotonic() - started:.0f} s"
    )
    return 1 if kinds else 0


if __name__ == "__main__":
    sys.exit(main())
