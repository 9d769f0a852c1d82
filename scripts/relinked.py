"""Hold the pruning of unused DT_NEEDED entries to real projects that are built twice.

Each project is built from its sdist, once with `--no-as-needed` and some libraries that it has no
use for, and once with `--as-needed`. What `wheelfix repair --prune-needed all` plans to drop from
the former, edited in place, must leave each object with the DT_NEEDED and Verneed of the latter. An
entry that wheelfix finds unused and keeps, with its reason, is no difference.

    python scripts/relinked.py [NAME...] [--cache FOLDER]

Prints a Markdown table; exits with 1 on a difference. The headers that the projects need must be
installed (corpus.toml lists most of them).
"""

import argparse
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from wheelfix.elf.editor import edit_in_place
from wheelfix.elf.model import Elf, without_needed
from wheelfix.pipelines.repair import repair
from wheelfix.pipelines.repair_result import Outcome
from wheelfix.settings import PruneNeeded, Settings
from wheelfix.wheel.edits import DropNeeded
from wheelfix.wheel.reader import open_wheel

PROJECTS = (
    "psycopg2==2.9.13",
    "python-ldap==3.4.8",
    "pycurl==7.49.0",
    "pygit2==1.11.1",
    "cffi==2.1.1",
    "greenlet==3.5.6",  # C++
    "ujson==6.1.0",  # C++
)
IDLE = "-lz -lexpat -lcrypt"
"""Libraries to link with for nothing. They stand before the objects, where `--as-needed` drops them
again: so not what a project may use without saying so, like libm."""
ALWAYS_KEPT = {"libc.so.6": "the C library always stays"}
"""GNU ld leaves it out where nothing but the weak references of the start files want it."""
FLAGS = {"all": f"-Wl,--no-as-needed {IDLE}", "needed": f"-Wl,--as-needed {IDLE}"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """One object, linked both ways."""

    project: str
    member: str
    entries: int
    """DT_NEEDED entries, linked with everything."""
    dropped: tuple[str, ...]
    kept: Mapping[str, str]
    """What is unused and stays, with the reason."""
    differences: tuple[str, ...]


def build(requirement: str, way: str, cache: Path) -> Path:
    """Build the wheel of `requirement`, once; `CalledProcessError` says that it does not build."""
    folder = cache / way / requirement
    if not list(folder.glob("*.whl")):
        subprocess.run(
            [
                sys.executable, "-m", "pip", "wheel", "-q", "--no-deps", "--no-cache-dir",
                "--disable-pip-version-check", "--no-binary", requirement.partition("==")[0],
                "-w", str(folder), requirement,
            ],
            env={**os.environ, "LDFLAGS": FLAGS[way]},
            check=True,
        )  # fmt: skip
    return next(folder.glob("*.whl"))


def plan(wheel: Path) -> Outcome:
    """Plan the repair of `wheel` with everything pruned that nothing strong is bound to."""
    settings = Settings(prune_needed=PruneNeeded.ALL, verdict=False)
    outcome = repair(wheel, settings, os.environ, publish=False)
    if outcome.error is not None:
        raise outcome.error
    return outcome


def rows(project: str, cache: Path) -> Iterator[Row]:
    """Build a project both ways, and compare its objects."""
    full, relinked = (build(project, way, cache) for way in FLAGS)
    outcome = plan(full)
    assert outcome.before is not None
    with open_wheel(full) as archive:
        content = {member: archive.read(member) for member in outcome.before.elfs}
    with open_wheel(relinked) as archive:
        wanted = archive.wheel.elfs
    for member, elf in outcome.before.elfs.items():
        edits = [
            step.edit
            for step in outcome.edits
            if isinstance(step.edit, DropNeeded) and step.edit.member == member
        ]
        kept = {
            finding.entry or "": finding.message
            for finding in outcome.found
            if finding.name == "unused-needed-kept" and finding.member == member
        }
        names = {edit.name for edit in edits}
        data = content[member]
        pruned = edit_in_place(data, elf, without_needed(elf, names), member).elf
        left = frozenset(pruned.needed) - frozenset(wanted[member].needed)
        kept |= {name: why for name, why in ALWAYS_KEPT.items() if name in left}
        yield Row(
            project=project,
            member=member,
            entries=len(elf.needed),
            dropped=tuple(edit.name for edit in edits),
            kept=kept,
            differences=tuple(differences(pruned, wanted[member], kept)),
        )


def differences(ours: Elf, wanted: Elf, kept: Mapping[str, str]) -> Iterator[str]:
    """Say in what the pruned object differs from the relinked one."""
    needed = tuple(name for name in ours.needed if name not in kept)
    if sorted(needed) != sorted(wanted.needed):
        yield f"DT_NEEDED {needed} instead of {wanted.needed}"
    elif needed != wanted.needed:
        yield f"order {needed} instead of {wanted.needed}"
    versions = _versions(ours, set(kept)), _versions(wanted, set())
    if versions[0] != versions[1]:
        yield f"Verneed {versions[0] - versions[1]} instead of {versions[1] - versions[0]}"


def _versions(elf: Elf, without: set[str]) -> set[tuple[str, str]]:
    return {
        (need.file, version)
        for need in elf.verneed
        if need.file not in without
        for version in need.versions
    }


def main() -> int:
    """Compare the projects, and say what differs."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="*", metavar="NAME", help="default: all")
    parser.add_argument("--cache", type=Path, default=Path(tempfile.gettempdir(), "relinked"))
    options = parser.parse_args()
    differing = 0
    print("| project | object | entries | dropped | kept | difference |")
    print("|---|---|---|---|---|---|")
    for project in PROJECTS:
        if options.names and project.partition("==")[0] not in options.names:
            continue
        for row in rows(project, options.cache.resolve()):
            differing += bool(row.differences)
            dropped, kept = (" ".join(names) or "-" for names in (row.dropped, row.kept))
            print(
                f"| {row.project} | {row.member} | {row.entries} | {dropped} | {kept} | "
                f"{'; '.join(row.differences) or 'none'} |",
                flush=True,
            )
    return 1 if differing else 0


if __name__ == "__main__":
    sys.exit(main())
