"""Judge the pruning of DT_NEEDED by a C library as old as the platform tags promise.

Each wheel is repaired. Every object that lost an entry is opened by the loader of an old
distribution, before and after, in a program that links libpthread and in one that does not: what
was bound then must be bound to the same library now.

    debootstrap --variant=minbase --include=gcc,libc6-dev,zlib1g bullseye /srv/bullseye
    python scripts/old_glibc.py --root /srv/bullseye WHEEL... [--prune-needed all]

Prints a line of a Markdown table for each wheel; exits with 1 on a difference. Before glibc 2.34
libpthread, libdl, librt and others were libraries of their own: Debian 11 has glibc 2.31. Needs
root, for chroot.
"""

import argparse
import os
import re
import subprocess
import sys
import tempfile
import zipfile
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

from wheelfix.elf.model import Elf
from wheelfix.loader.platform_libraries import may_come_from_platform
from wheelfix.pipelines.repair import repair
from wheelfix.settings import PruneNeeded, Settings

HOSTS = {"no threads": (), "threads": ("-Wl,--no-as-needed", "-lpthread")}
"""Programs that open a library -> what they are linked with."""
_HOST = """
#include <dlfcn.h>
#include <stdio.h>
#include <unistd.h>
int main(int count, char **words) {
    if (!dlopen(words[1], RTLD_NOW | RTLD_GLOBAL) || !dlopen(words[2], RTLD_NOW)) {
        puts(dlerror());
        _exit(1);
    }
    _exit(0); /* without destructors */
}
"""
NULL, OWN = "weak references null now", "own symbols bound elsewhere now"
"""What `--prune-needed all` accepts, with a note, and `safe` does not."""
_PYTHON = re.compile(r"_?_?Py|PY_")
"""Symbols of the interpreter, for which a library of data symbols stands."""
_BINDING = re.compile(r"binding file (\S+) \[0\] to (\S+) \[0\]: \w+ symbol `([^']+)'")


class Bound(NamedTuple):
    """A reference, as the loader bound it."""

    file: str
    """Below the unpacked wheel."""
    symbol: str


@dataclass(kw_only=True)
class Row:
    """What was found about one wheel."""

    wheel: str
    dropped: int = 0
    objects: int = 0
    counts: Counter[str] = field(default_factory=Counter[str])
    """How the pairs of loads came out."""
    differences: list[str] = field(default_factory=list[str])


@dataclass(frozen=True, slots=True, kw_only=True)
class OldSystem:
    """A distribution in a folder, and a folder in it for what is judged."""

    root: Path
    folder: Path

    def inside(self, path: Path) -> str:
        """Return the path as a process in the distribution sees it."""
        return f"/{path.relative_to(self.root)}"

    def run(self, *words: str, **environ: str) -> subprocess.CompletedProcess[str]:
        """Run a command there."""
        return subprocess.run(
            ["chroot", str(self.root), *words],
            env={"PATH": "/usr/sbin:/usr/bin:/sbin:/bin", **environ},
            capture_output=True,
            text=True,
            errors="replace",
            check=False,
        )

    def link(self, source: str, name: str, *options: str) -> Path:
        """Compile and link a C source there."""
        (self.folder / f"{name}.c").write_text(source, encoding="ascii")
        made = self.inside(self.folder / name)
        done = self.run("gcc", "-w", "-o", made, f"{made}.c", *options)
        if done.returncode:
            raise SystemExit(f"gcc in {self.root}: {done.stderr}")
        return self.folder / name

    def bindings(self, program: Sequence[str], **environ: str) -> tuple[int, str, str]:
        """Return the exit code of a program, its words, and what the loader says of bindings."""
        done = self.run(*program, LD_BIND_NOW="1", LD_DEBUG="bindings", **environ)
        return done.returncode, done.stdout, done.stderr


def judge(wheel: Path, system: OldSystem, prune: PruneNeeded) -> Row:
    """Repair a wheel, and load the objects that lost an entry, before and after."""
    row = Row(wheel=wheel.name)
    with tempfile.TemporaryDirectory(dir=system.folder) as name:
        settings = Settings(prune_needed=prune, verdict=False, wheel_dir=Path(name))
        outcome = repair(wheel, settings, os.environ)
        if outcome.error is not None or outcome.before is None or outcome.after is None:
            row.differences.append(f"repair: {outcome.error}")
            return row
        before, after = outcome.before.elfs, outcome.after.elfs
        lost = {
            member: set(elf.needed) - set(after[member].needed)
            for member, elf in before.items()
            if member in after
        }
        changed = [member for member, names in lost.items() if names]
        row.objects, row.dropped = len(changed), sum(map(len, lost.values()))
        if not changed:
            return row
        assert outcome.output is not None
        places = {"before": wheel, "after": outcome.output}
        for place, file in places.items():
            _unpack(file, Path(name, place))
        names = {symbol.name for elf in before.values() for symbol in elf.undefined}
        stub = "".join(f"char {name}[4096];\n" for name in sorted(names) if _PYTHON.match(name))
        python = system.link(stub, "python.so", "-shared", "-fPIC")
        for member in changed:
            for host in HOSTS:
                was, now = (
                    _load(system, system.folder / host, python, Path(name, place), member)
                    for place in places
                )
                _compare(row, f"{member} in a program with {host}", was, now, before)
    return row


def _unpack(wheel: Path, folder: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(folder)


def _load(
    system: OldSystem, host: Path, python: Path, folder: Path, member: str
) -> Mapping[Bound, str] | str:
    """Return the library of each reference of the wheel's files, or why it does not load."""
    path = folder / member
    path.chmod(0o755)
    code, said, log = system.bindings([system.inside(p) for p in (host, python, path)])
    if "cannot dynamically load" in said:
        trace = {"LD_TRACE_LOADED_OBJECTS": "1", "LD_WARN": "1"}
        code, said, log = system.bindings([system.inside(path)], **trace)
        code = code or "not found" in said + log
    if code:
        return (said + log).strip().rpartition("\n")[2] or f"exit code {code}"
    own = f"{system.inside(folder)}/"
    return {
        Bound(file.removeprefix(own), symbol): library.rpartition("/")[2]
        for file, library, symbol in _BINDING.findall(log)
        if file.startswith(own)
    }


def _compare(
    row: Row,
    what: str,
    before: Mapping[Bound, str] | str,
    after: Mapping[Bound, str] | str,
    elfs: Mapping[str, Elf],
) -> None:
    if isinstance(before, str):
        row.counts["fail before"] += 1
        return
    if isinstance(after, str):
        row.differences.append(f"{what}: {after}")
        return
    row.counts["load"] += 1
    loaded = {bound.file for bound in after}
    for bound, library in before.items():
        now = after.get(bound)
        if now == library or bound.file not in loaded:
            continue
        if now and may_come_from_platform(library) and may_come_from_platform(now):
            row.counts["moved within the platform"] += 1
        elif now is None and bound.symbol in _weak(elfs.get(bound.file)):
            row.counts[NULL] += 1
        elif now and bound.symbol not in _undefined(elfs.get(bound.file)):
            row.counts[OWN] += 1
        else:
            row.differences.append(f"{what}: {bound.symbol} of {bound.file}: {library}, now {now}")


def _undefined(elf: Elf | None) -> Iterator[str]:
    return (symbol.name for symbol in elf.undefined) if elf else iter(())


def _weak(elf: Elf | None) -> Iterator[str]:
    return (symbol.name for symbol in elf.undefined if symbol.weak) if elf else iter(())


def _words(counts: Counter[str]) -> str:
    return ", ".join(f"{number} {word}" for word, number in counts.items())


def main() -> int:
    """Judge the wheels, and print what was found."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("wheels", nargs="+", type=Path, metavar="WHEEL")
    parser.add_argument("--root", type=Path, required=True, help="of the old distribution")
    parser.add_argument("--prune-needed", type=PruneNeeded, default=PruneNeeded.SAFE)
    options = parser.parse_args()
    root: Path = options.root.resolve()
    totals: Counter[str] = Counter()
    failed = 0
    with tempfile.TemporaryDirectory(dir=root / "tmp") as name:
        system = OldSystem(root=root, folder=Path(name))
        for host, linked in HOSTS.items():
            system.link(_HOST, host, *linked, "-ldl")
        print("| wheel | objects | entries dropped | loads in two programs | differences |")
        print("|---|---|---|---|---|")
        for wheel in options.wheels:
            row = judge(wheel.resolve(), system, options.prune_needed)
            for kind in (NULL, OWN) if options.prune_needed is PruneNeeded.SAFE else ():
                if number := row.counts[kind]:
                    row.differences.append(f"{number} {kind}")
            failed += bool(row.differences)
            totals += Counter({**row.counts, "entries": row.dropped, "objects": row.objects})
            loads = _words(row.counts) or "-"
            found = "; ".join(row.differences[:5]) or "none"
            cells = (row.wheel, str(row.objects), str(row.dropped), loads, found)
            print(f"| {' | '.join(cells)} |", flush=True)
    print(f"{len(options.wheels)} wheels: {_words(totals)}; {failed} with differences")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
