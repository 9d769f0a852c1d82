"""Measure wheelfix and other tools, interleaved in one run.

    python scripts/bench.py                                # all but the parts named below
    python scripts/bench.py --tools auditwheel,repairwheel,floor,wheelfix
    python scripts/bench.py -n 5 --parts check --wheels tiny,many
    python scripts/bench.py --parts batch --batch DIR      # the wheels in and below DIR
    python scripts/bench.py --parts no-verdict             # repair --no-verdict and repair
    python scripts/bench.py --parts explain                # and auditwheel lddtree, libtree
    python scripts/bench.py --parts small,imports [--batch DIR]
    python scripts/bench.py --parts doctor [--environment DIR]
    python scripts/bench.py --least --markdown docs/explanation/benchmarks.md

The parts: `repair`, `no-verdict` and `check` of single wheels, `start` (--help and the like),
`small` (one library to graft, and the published wheels of the corpus, or in DIR, below 2 MB, made
unrepaired again), `imports` (what each command imports), `batch` (200 wheels in a directory),
`explain`, `doctor` (an environment with the published wheels of the corpus, or DIR; its floor reads
all objects and sources). Each run is a process of its own,
measured by wait4: wall seconds, user and system CPU seconds of the process tree, and the peak
memory of its largest process. The tables show medians, or with --least the least of all runs, and
ratios of them, wheelfix to the other: below 1 is better. `floor` is what any program must do:
inflate and hash every member once, deflate what is new, copy the rest (benchmark/floor.py). The
wheels are made here, or fetched and made unrepaired again; they stay in the cache for the next run,
as does an environment with repairwheel.
"""

import argparse
import os
import platform
import shlex
import shutil
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path

from benchmark.cases import MAKERS, MEGABYTE, Case, make, new_members, unrepaired
from benchmark.measure import FLOOR, OURS, Commands, Runs, compare, environment, spend
from benchmark.tables import UNITS, cells, figure, shown, table
from real_wheels.listed import read_corpus
from real_wheels.programs import (
    DEFAULT_CACHE,
    ProgramError,
    Programs,
    fetch,
    find_program,
    run,
    tools_python,
)

SCRIPTS = Path(__file__).parent
MARK = "<!-- written by scripts/bench.py -->"

# --- Explaining -----------------------------------------------------------------------------------


def explaining(programs: Programs, options: argparse.Namespace) -> str:
    """Measure what it takes to explain the largest published wheel, and its largest object."""
    wheelfix, published = programs[OURS], options.cache / "published"
    wheel = max(published.glob("*/*.whl"), key=lambda path: path.stat().st_size)
    with tempfile.TemporaryDirectory(prefix="bench-") as folder:
        site = Path(folder, "site-packages")
        with zipfile.ZipFile(wheel) as archive:
            archive.extractall(site)
        objects = [path for path in site.rglob("*.so*") if path.is_file()]
        largest = max(objects, key=lambda path: path.stat().st_size)
        commands = {
            "wheelfix explain WHEEL": [*wheelfix, "explain", str(wheel)],
            "wheelfix explain --site DIR OBJECT": [
                *wheelfix, "explain", "--site", str(site), str(largest.relative_to(site)),
            ],
            "auditwheel lddtree OBJECT": [
                *programs["auditwheel"], "lddtree", str(largest),
            ],
        }  # fmt: skip
        if libtree := shutil.which("libtree"):
            commands["libtree OBJECT"] = [libtree, "-vv", str(largest)]
        rows = list(spent(commands, options))
        about = (
            f"{wheel.name}: {wheel.stat().st_size / MEGABYTE:.3g} MB, {len(objects)} libraries; "
            f"OBJECT is its largest, {largest.relative_to(site)}, "
            f"{largest.stat().st_size / MEGABYTE:.3g} MB."
        )
    return f"{table(rows)}\n\n{about}"


def file_system(path: Path) -> str:
    """Name the type of the file system that holds `path`."""
    mounts = [line.split()[1:3] for line in Path("/proc/mounts").read_text().splitlines()]
    holders = [each for each in mounts if path.resolve().is_relative_to(each[0])]
    return max(holders, key=lambda each: len(each[0]))[1]


def spent(
    commands: Mapping[str, Sequence[str]], options: argparse.Namespace
) -> Iterator[dict[str, str]]:
    """Run the commands in turns; their exit codes tell of the wheel, and are shown."""
    asked = {name: partial(ready, words) for name, words in commands.items()}
    for name, runs in compare(asked, options.n, codes=range(256), others=options.others).items():
        figures = {
            UNITS[column]: shown(figure(runs or [], column, least=options.least))
            for column in ("wall", "cpu", "peak")
        }
        yield {"command": name, **figures, "exit code": str((runs or [])[-1].code)}


def ready(words: Sequence[str], _out: Path) -> Sequence[str]:
    """Return a command that writes nothing."""
    return words


# --- Single wheels --------------------------------------------------------------------------------


def repair_command(
    tool: str, program: Sequence[str], case: Case, new: Path, out: Path
) -> Sequence[str]:
    """Return the command with which `tool` repairs the wheel of `case`.

    `new` is a zip of the members that a repair writes, for the floor.
    """
    if tool == FLOOR:
        return [*program, "repair", str(case.wheel), str(new), str(out / case.wheel.name)]
    if tool != "repairwheel":
        return [*program, "repair", "-w", str(out), str(case.wheel)]
    libraries = ["-l", str(case.libraries)] if case.libraries else []
    return [*program, "-o", str(out), *libraries, str(case.wheel)]


def repairing(programs: Programs, options: argparse.Namespace) -> str:
    """Measure the repair of each wheel that was asked for."""

    def row(case: Case) -> dict[str, str]:
        with tempfile.TemporaryDirectory(prefix="bench-") as folder:
            new = new_members(case, programs[OURS], Path(folder))
            commands = {
                tool: partial(repair_command, tool, program, case, new)
                for tool, program in programs.items()
            }
            runs = compare(commands, options.n, case.libraries, others=options.others)
        return cells(runs, least=options.least)

    return of_each_wheel(row, options)


def without_verdict(programs: Programs, options: argparse.Namespace) -> str:
    """Measure our repair without and with auditwheel's verdict."""

    def row(case: Case) -> dict[str, str]:
        judged = partial(repair_command, OURS, programs[OURS], case, Path())
        commands: Commands = {
            "judged": judged,
            OURS: lambda out: [*judged(out), "--no-verdict"],
        }
        return cells(compare(commands, options.n, case.libraries), least=options.least)

    return of_each_wheel(row, options)


def checking(programs: Programs, options: argparse.Namespace) -> str:
    """Measure `wheelfix check`, `auditwheel show` and the floor on each chosen wheel."""
    words = {"auditwheel": "show", FLOOR: "check", OURS: "check"}

    def row(case: Case) -> dict[str, str]:
        commands = {
            tool: partial(ready, [*program, words[tool], str(case.wheel)])
            for tool, program in programs.items()
            if tool in words
        }
        runs = compare(commands, options.n, case.libraries, {0, 1}, options.others)
        return cells(runs, least=options.least)

    return of_each_wheel(row, options)


def of_each_wheel(row: Callable[[Case], dict[str, str]], options: argparse.Namespace) -> str:
    """Return the table with a row for each wheel that was asked for, and can be had."""
    rows: list[dict[str, str]] = []
    for name in options.wheels.split(","):
        try:
            case = make(name, options.cache)
        except ProgramError as error:
            print(f"{name}: left out: {error}", file=sys.stderr)
            continue
        with zipfile.ZipFile(case.wheel) as archive:
            members = len(archive.infolist())
        size = f"{case.wheel.stat().st_size / MEGABYTE:.3g}"
        rows.append({"wheel": name, "MB": size, "members": str(members), **row(case)})
        print(f"{name}: done", file=sys.stderr, flush=True)
    return table(rows)


# --- Small wheels ---------------------------------------------------------------------------------

SMALL = 2 * MEGABYTE
"""Bytes below which most published wheels are."""


def of_small_wheels(programs: Programs, options: argparse.Namespace) -> str:
    """Measure what start-up decides: one library to graft, published small wheels, --version."""
    auditwheel, wheelfix = programs["auditwheel"], programs[OURS]
    case = make("graft", options.cache)

    def run_both(words: Sequence[str], count: int, case: Case | None = None) -> Runs:
        theirs = ["show" if word == "check" else word for word in words]
        commands: Commands = {
            "auditwheel": lambda out: [*auditwheel, *(w.replace("OUT", str(out)) for w in theirs)],
            OURS: lambda out: [*wheelfix, *(w.replace("OUT", str(out)) for w in words)],
        }
        libraries = case.libraries if case else None
        return compare(commands, count, libraries, {0, 1}, others=count)

    rows = [
        {"work": name, **sums([run_both([*words, str(case.wheel)], options.n, case)], options)}
        for name, words in (
            ("check, one library to graft", ["check"]),
            ("repair, one library to graft", ["repair", "-w", "OUT"]),
        )
    ]
    with tempfile.TemporaryDirectory(prefix="bench-") as folder:
        cases = list(small_wheels(Path(folder), options))
        each = [run_both(["repair", "-w", "OUT", str(one.wheel)], 1, one) for one in cases]
    work = f"repair, {len(cases)} published wheels below 2 MB, all together"
    rows.append({"work": work, **sums(each, options)})
    python: Commands = {
        "python -c pass": partial(ready, [sys.executable, "-c", "pass"]),
        OURS: partial(ready, [*wheelfix, "--version"]),
    }
    started = compare(python, options.n, others=options.n)
    rows.append({"work": "--version", **sums([started], options)})
    return table(rows)


def sums(each: Sequence[Runs], options: argparse.Namespace) -> dict[str, str]:
    """Lay out what two tools spent on some wheels together; without those that one refuses."""
    done = [[runs[tool] or [] for tool in runs] for runs in each if all(runs.values())]
    row: dict[str, str] = {"beside": next(iter(each[0])) if each else "-"}
    for name, unit in (("cpu", "CPU"), ("wall", "s")):
        theirs, ours = (
            sum(figure(both[side], name, least=options.least) for both in done) for side in (0, 1)
        )
        row |= {f"its {unit}": shown(theirs), f"wheelfix {unit}": shown(ours)}
        row[f"{unit} / its"] = f"{ours / theirs:.2f}" if theirs else "-"
    return row


def small_wheels(folder: Path, options: argparse.Namespace) -> Iterator[Case]:
    """Make the small wheels of the corpus, or in a directory, unrepaired again."""
    if options.batch:
        found = sorted(options.batch.rglob("*.whl"))
    else:
        wheels = read_corpus()
        tools = tools_python(options.cache, wheels.installer)
        found = [fetch(one.requirement, tools, options.cache) for one in wheels.published]
    for number, wheel in enumerate(found):
        if wheel.stat().st_size < SMALL and not wheel.name.endswith("-none-any.whl"):
            made = folder / str(number)
            made.mkdir()
            yield unrepaired(wheel, made, keep_libraries=False)


def importing(programs: Programs, options: argparse.Namespace) -> str:
    """Measure what each command imports, and how long that takes (`python -X importtime`)."""
    case = make("graft", options.cache)
    folder = Path(programs[OURS][0]).parent
    python = next(filter(Path.exists, (folder / "python3", folder / "python")))
    rows: list[dict[str, str]] = []
    with tempfile.TemporaryDirectory(prefix="bench-") as out:
        for words in (
            ["--version"],
            ["rule", "WF101"],
            ["check", str(case.wheel)],
            ["repair", "-w", out, str(case.wheel)],
        ):
            command = [str(python), "-X", "importtime", "-m", OURS, *words]
            told = [imports_of(command, case.libraries) for _ in range(options.n)]
            rows.append(
                {
                    "command": words[0],
                    "modules": str(len(told[0])),
                    "of wheelfix": str(sum(name.startswith(OURS) for name in told[0])),
                    "ms": shown(min(sum(times.values()) for times in told) / 1000),
                }
            )
    return table(rows)


def imports_of(command: Sequence[str], libraries: Path | None) -> Mapping[str, int]:
    """Return the modules that a command and its workers import, and their own microseconds."""
    done = subprocess.run(
        command, env=environment(libraries), capture_output=True, text=True, check=False
    )
    lines = [line.split("|") for line in done.stderr.splitlines() if line.count("|") == 2]
    times = {name.strip(): own.rpartition(":")[2].strip() for own, _, name in lines}
    return {name: int(own) for name, own in times.items() if own.isdecimal()}


# --- Start and throughput -------------------------------------------------------------------------


def starting(programs: Programs, options: argparse.Namespace) -> str:
    """Measure what does no work but to start."""
    rows: list[dict[str, str]] = []
    for ours, theirs in (
        ("--help", "--help"),
        ("--version", "--version"),
        ("rule WF101", "--help"),
    ):
        words = {"auditwheel": [theirs], OURS: ours.split()}
        commands = {tool: partial(ready, [*programs[tool], *words[tool]]) for tool in words}
        runs = compare(commands, 4 * options.n, others=options.others)
        rows.append({"command": ours, **cells(runs, least=options.least)})
    return table(rows)


def in_batches(programs: Programs, options: argparse.Namespace) -> str:
    """Measure `wheelfix check -j2` on a directory, and auditwheel on its wheels, two at a time."""
    with tempfile.TemporaryDirectory(prefix="bench-") as made:
        folder = options.batch or two_hundred(Path(made), options.cache)
        wheels = sorted(folder.rglob("*.whl"))
        distinct = list({path.resolve(): path for path in wheels}.values())
        listed = Path(made, "list")
        listed.write_text("".join(f"{path}\n" for path in distinct))
        records = ["--output-format", "jsonl", str(folder)]
        xargs = [*find_program("xargs"), "-a", str(listed), "-d", "\\n", "-n1", "-P2"]
        commands = {
            f"{OURS} check -j2": [*programs[OURS], "check", "-j2", *records],
            f"{OURS} check": [*programs[OURS], "check", *records],
            "auditwheel show, two at a time": [*xargs, *programs["auditwheel"], "show"],
        }
        counts = {command: len(wheels) for command in commands}
        counts["auditwheel show, two at a time"] = len(distinct)
        rows = list(spent(commands, options))
        for row in rows:
            number = counts[row["command"]]
            row["wheels"] = str(number)
            row["wheels a second"] = f"{number / float(row['s']):.3g}"
        megabytes = sum(path.stat().st_size for path in wheels) / MEGABYTE
    about = f"{len(wheels)} wheels of {megabytes:.0f} MB, {len(distinct)} of them distinct."
    return f"{table(rows)}\n\n{about}"


def two_hundred(folder: Path, cache: Path) -> Path:
    """Make a directory of 200 wheels: links to those of the corpus, again and again."""
    wheels = read_corpus()
    tools = tools_python(cache, wheels.installer)
    found = [fetch(each.requirement, tools, cache) for each in wheels.published]
    batch = folder / "batch"
    for number in range(200):
        wheel = found[number % len(found)]
        place = batch / str(number // len(found))
        place.mkdir(parents=True, exist_ok=True)
        (place / wheel.name).symlink_to(wheel)
    return batch


# --- An environment -------------------------------------------------------------------------------


def diagnosing(programs: Programs, options: argparse.Namespace) -> str:
    """Measure `wheelfix doctor` on an environment with an empty cache, and with what it kept."""
    folder: Path = options.environment or installed(options.cache)
    doctor, env = [*programs[OURS], "doctor", str(folder)], find_program("env")
    files = [path for path in folder.rglob("*") if path.is_file() and not path.is_symlink()]
    objects = [path for path in files if path.suffix == ".so" or ".so." in path.name]
    sources = [path for path in files if path.suffix == ".py"]
    with tempfile.TemporaryDirectory(prefix="bench-") as made:
        listed = Path(made, "list")
        listed.write_text("".join(f"{path}\0" for path in (*objects, *sources)))
        read = [*find_program("xargs"), "-0", "-a", str(listed), *find_program("cat")]
        commands: Commands = {
            FLOOR: partial(ready, [*find_program("sh"), "-c", f"{shlex.join(read)} >/dev/null"]),
            "first": lambda out: [*env, f"XDG_CACHE_HOME={out}", *doctor],
            "again": partial(ready, [*env, f"XDG_CACHE_HOME={made}", *doctor]),
        }
        runs = compare(commands, options.n, codes=(0, 1))
    rows = [
        {"run": name, **cells({FLOOR: runs[FLOOR], OURS: runs[name]}, least=options.least)}
        for name in ("first", "again")
    ]
    return f"{table(rows)}\n\n{len(objects):,} objects, {len(sources):,} sources."


def installed(cache: Path) -> Path:
    """Install the published wheels of the corpus, once, into an environment."""
    folder = cache / "environment"
    if not (folder / "ready").exists():
        run(sys.executable, "-m", "venv", "--clear", folder)
        wanted = [each.requirement for each in read_corpus().published]
        run(folder / "bin" / "python", "-m", "pip", "install", "-q", "--no-deps", *wanted)
        (folder / "ready").touch()
    return folder


# --- The command line -----------------------------------------------------------------------------


def circumstances(programs: Programs, options: argparse.Namespace) -> str:
    """Say where and how it was measured."""
    said = {name: run(*program, "--version") for name, program in programs.items() if name != FLOOR}
    versions = [f"{name} {text.removeprefix(name).split()[0]}" for name, text in said.items()]
    with tempfile.TemporaryDirectory(prefix="bench-") as folder:
        least = spend(find_program("true"), environment(), Path(folder, "log")).peak
    how = "least" if options.least else "medians"
    return (
        f"{', '.join(versions)}; Python {platform.python_version()}, {os.cpu_count()} CPUs, "
        f"temporary files on {file_system(Path(tempfile.gettempdir()))}; {how} of {options.n} runs "
        f"in turns, of other projects' tools {options.others}; "
        f"a peak below {least:.0f} MB cannot be seen."
    )


def repairwheel(cache: Path) -> tuple[str, ...]:
    """Install repairwheel, once, into a separate environment: it has other dependencies."""
    folder = cache / "repairwheel"
    if not (folder / "ready").exists():
        run(sys.executable, "-m", "venv", "--clear", folder)
        run(folder / "bin" / "python", "-m", "pip", "install", "-q", "repairwheel")
        (folder / "ready").touch()
    return (str(folder / "bin" / "repairwheel"),)


Part = Callable[[Programs, argparse.Namespace], str]
PARTS: Mapping[str, Part] = {
    "repair": repairing,
    "no-verdict": without_verdict,
    "check": checking,
    "small": of_small_wheels,
    "imports": importing,
    "start": starting,
    "batch": in_batches,
    "explain": explaining,
    "doctor": diagnosing,
}


def parse_arguments() -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument(
        "--parts",
        default="small,repair,check,start,imports",
        help=f"of {','.join(PARTS)}; default: %(default)s",
    )
    parser.add_argument("--wheels", default=",".join(MAKERS), help="default: %(default)s")
    parser.add_argument("-n", type=int, default=3, help="runs of each; default: %(default)s")
    parser.add_argument(
        "--others", type=int, default=1, help="runs of other projects' tools; default: %(default)s"
    )
    parser.add_argument("--least", action="store_true", help="the least of all runs, not medians")
    parser.add_argument("--cache", type=Path, default=DEFAULT_CACHE)
    parser.add_argument("--batch", type=Path, help="directory of wheels; default: one of 200")
    parser.add_argument("--environment", type=Path, help="of `doctor`; default: one that is made")
    parser.add_argument("--wheelfix", default=OURS, help="command; default: %(default)s")
    parser.add_argument(
        "--tools", default=f"auditwheel,{FLOOR},{OURS}", help="default: %(default)s"
    )
    parser.add_argument(
        "--markdown",
        type=Path,
        help=f"also write the tables to this file, in place of what follows its line {MARK};\n"
        "a file without that line is refused",
    )
    options = parser.parse_args()
    for given, known in ((options.wheels, MAKERS), (options.parts, PARTS)):
        if unknown := [name for name in given.split(",") if name not in known]:
            parser.error(f"there is no {', '.join(unknown)}, but {', '.join(known)}")
    file: Path | None = options.markdown
    if file is not None and file.exists() and MARK not in file.read_text(encoding="utf-8"):
        parser.error(f"`{file}` has no line {MARK} to write the tables below")
    options.cache = options.cache.resolve()
    options.batch = options.batch.resolve() if options.batch else None
    options.environment = options.environment.resolve() if options.environment else None
    return options


def main() -> int:
    """Measure the parts that were asked for; 1 if a program failed."""
    options = parse_arguments()
    finders: Mapping[str, Callable[[], tuple[str, ...]]] = {
        "auditwheel": partial(find_program, "auditwheel"),
        "repairwheel": partial(repairwheel, options.cache),
        FLOOR: lambda: (sys.executable, "-I", str(SCRIPTS / "benchmark" / "floor.py")),
        OURS: partial(find_program, options.wheelfix),
    }
    programs = {name: finders[name]() for name in options.tools.split(",")}
    texts = [f"\n`{shlex.join(['python', 'scripts/bench.py', *sys.argv[1:]])}`\n"]
    for part in options.parts.split(","):
        try:
            texts.append(f"## {part}\n\n{PARTS[part](programs, options)}\n")
        except ProgramError as error:
            print(f"{part}: {error}", file=sys.stderr)
            return 1
        print(texts[-1], flush=True)
    texts.append(f"{circumstances(programs, options)}\n")
    print(texts[-1], end="")
    if options.markdown:
        before = options.markdown.read_text(encoding="utf-8") if options.markdown.exists() else ""
        head = before.partition(MARK)[0]
        options.markdown.write_text("\n".join([f"{head}{MARK}", *texts]), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
