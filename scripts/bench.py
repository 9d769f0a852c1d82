"""Measure wheelfix beside auditwheel and repairwheel, interleaved in one run.

    python scripts/bench.py                                # all parts, all wheels
    python scripts/bench.py -n 5 --parts check --wheels tiny,many
    python scripts/bench.py --parts batch --batch DIR      # the wheels in and below DIR
    python scripts/bench.py --parts no-verdict             # repair --no-verdict beside repair
    python scripts/bench.py --parts explain                # beside auditwheel lddtree and libtree

The parts: `repair`, `no-verdict` and `check` of single wheels, `start` (--help and the like),
`batch` (200 wheels in a directory), `explain`. Each run is a process of its own, measured by wait4:
wall seconds, user and system CPU seconds of the process tree, and the peak memory of its largest
process. The tables show medians, or with --least the least of all runs, and ratios of them,
wheelfix to the other: below 1 is better. The wheels are made here, or fetched and made unrepaired
again; they stay in the cache for the next run, as does an environment with repairwheel.
"""

import argparse
import base64
import hashlib
import json
import multiprocessing
import os
import platform
import random
import re
import shutil
import statistics
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import asdict, dataclass, replace
from functools import partial
from pathlib import Path

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
from real_wheels.programs import environment as user_environment

PLATFORM = f"linux_{platform.machine()}"
MEGABYTE = 1_000_000
OURS = "wheelfix"
UNITS = {"wall": "s", "cpu": "CPU", "peak": "peak MB", "size": "size"}


Files = Iterable[tuple[str, bytes | Path]]
"""Members of a wheel: name and content, large content by path."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """A wheel to repair, and where its libraries are."""

    wheel: Path
    libraries: Path | None = None
    """Folder for AUDITWHEEL_LD_LIBRARY_PATH."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """What one run cost."""

    wall: float
    """Seconds."""
    cpu: float
    """Seconds, user and system, of the process tree."""
    peak: float
    """MB, resident, of the largest process of the tree."""
    code: int
    """The exit code."""
    size: int = 0
    """Bytes of the wheel that was written."""


# --- making wheels -------------------------------------------------------------------------------


def write_wheel(path: Path, name: str, files: Files) -> Path:
    """Write `files` as the wheel `path`, RECORD last; large files are streamed."""
    rows: list[str] = []
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for member, content in files:
            if isinstance(content, Path):
                archive.write(content, member)
                with content.open("rb") as file:
                    sha, size = hashlib.file_digest(file, "sha256"), content.stat().st_size
            else:
                archive.writestr(member, content)
                sha, size = hashlib.sha256(content), len(content)
            text = base64.urlsafe_b64encode(sha.digest()).decode().rstrip("=")
            rows.append(f"{member},sha256={text},{size}\n")
        record = f"{name}.dist-info/RECORD"
        archive.writestr(record, "".join([*rows, f"{record},,\n"]))
    return path


def new_wheel(folder: Path, files: Files) -> Path:
    """Write a wheel of our own that holds `files`."""
    tag = f"py3-none-{PLATFORM}"
    wheel = f"Wheel-Version: 1.0\nGenerator: bench\nRoot-Is-Purelib: false\nTag: {tag}\n"

    def members() -> Iterator[tuple[str, bytes | Path]]:
        yield from files
        yield "bench-1.dist-info/METADATA", b"Metadata-Version: 2.1\nName: bench\nVersion: 1\n"
        yield "bench-1.dist-info/WHEEL", wheel.encode()

    return write_wheel(folder / f"bench-1-{tag}.whl", "bench-1", members())


def unrepaired(
    published: Path,
    folder: Path,
    *,
    keep_libraries: bool,
    outside: Collection[str] = (),
    without: Collection[str] = (),
) -> Case:
    """Tag a published wheel as pip builds it.

    Its `.libs` may move out, to be grafted again, and so do the members `outside`. Those of
    `without` are dropped.
    """
    stem = published.stem.rpartition("-")[0]
    name = "-".join(stem.split("-")[:2])
    libraries = folder / "libraries"
    libraries.mkdir()

    def members(archive: zipfile.ZipFile) -> Iterator[tuple[str, bytes]]:
        for info in archive.infolist():
            top, _, file = info.filename.partition("/")
            if info.is_dir() or info.filename.endswith(".dist-info/RECORD"):
                continue
            if info.filename in without:
                continue
            content = archive.read(info)
            if info.filename in outside or (top.endswith(".libs") and not keep_libraries):
                (libraries / file.rpartition("/")[2]).write_bytes(content)
            elif info.filename.endswith(".dist-info/WHEEL"):
                yield info.filename, retagged(content)
            else:
                yield info.filename, content

    with zipfile.ZipFile(published) as archive:
        wheel = write_wheel(folder / f"{stem}-{PLATFORM}.whl", name, members(archive))
    kept_all = keep_libraries and not outside
    return Case(wheel=wheel, libraries=None if kept_all else libraries)


def retagged(wheel_file: bytes) -> bytes:
    """Replace the platforms in the Tag lines of WHEEL by the one that pip builds for."""
    lines = re.sub(r"(?m)^(Tag: .*-)\S+$", rf"\g<1>{PLATFORM}", wheel_file.decode()).splitlines()
    return "".join(f"{line}\n" for line in dict.fromkeys(lines) if line).encode()


def compile_shared(target: Path, source: str, *options: str | Path) -> Path:
    """Compile C source to a shared object."""
    source_file = target.with_suffix(".c")
    source_file.write_text(source)
    run("cc", "-shared", "-fPIC", "-o", target, source_file, *options)
    return target


def pattern(target: Path, size: int, seed: int) -> Path:
    """Write `size` bytes that deflate to about two thirds: always the same for one seed."""
    source = random.Random(seed)  # noqa: S311 - no secret
    alphabet = bytes(40 + byte % 40 for byte in range(256))
    blocks = [source.randbytes(1 << 20).translate(alphabet) for _ in range(16)]
    with target.open("wb") as file:
        for start in range(0, size, 1 << 20):
            file.write(source.choice(blocks)[: size - start])
    return target


def data_library(folder: Path, name: str, size: int, *options: str | Path) -> Path:
    """Compile a library `name` with a function of that name and `size` bytes of constant data."""
    data = pattern(folder / f"{name}.bin", size, seed=len(name))
    source = (
        f'__asm__(".section .rodata\\n.incbin \\"{data}\\"\\n.text");\n'
        f"int {name}(void) {{ return 1; }}\n"
    )
    library = compile_shared(
        folder / f"lib{name}.so.1", source, f"-Wl,-soname,lib{name}.so.1", *options
    )
    data.unlink()
    return library


def extension(folder: Path, *libraries: Path) -> Path:
    """Compile an extension module that calls a function of each library."""
    names = [library.name.removeprefix("lib").partition(".")[0] for library in libraries]
    declarations = "".join(f"int {name}(void);\n" for name in names)
    calls = " + ".join(["0", *(f"{name}()" for name in names)])
    source = f"#include <unistd.h>\n{declarations}"
    source += f"int calls(void) {{ return getpid() + {calls}; }}\n"
    source += "void *PyInit_ext(void) { return 0; }\n"
    target = folder / "ext.abi3.so"
    return compile_shared(target, source, *libraries, f"-Wl,-rpath-link,{folder / 'libraries'}")


def make_tiny(folder: Path, _cache: Path) -> Case:
    """Make a wheel of one extension module that needs nothing but libc."""
    files: Files = [("bench/__init__.py", b""), ("bench/ext.abi3.so", extension(folder))]
    return Case(wheel=new_wheel(folder, files))


def make_small(folder: Path, _cache: Path) -> Case:
    """Make a wheel of one extension module that needs twelve libraries of 200 kB."""
    libraries = folder / "libraries"
    libraries.mkdir()
    made: list[Path] = []
    for letter in "abcdefghijkl":
        made.append(data_library(libraries, f"part_{letter}", 200_000, *made[-1:]))
    files: Files = [("bench/__init__.py", b""), ("bench/ext.abi3.so", extension(folder, *made))]
    return Case(wheel=new_wheel(folder, files), libraries=libraries)


def make_many(folder: Path, _cache: Path) -> Case:
    """Make a wheel of 20,000 small files and one extension module."""

    def files() -> Iterator[tuple[str, bytes | Path]]:
        yield "bench/ext.abi3.so", extension(folder)
        for number in range(20_000):
            suffix = ("py", "json", "txt")[number % 3]
            text = f"# file {number}\n" + f"value_{number} = {number * number}\n" * 20
            yield f"bench/part{number % 100}/file{number}.{suffix}", text.encode()

    return Case(wheel=new_wheel(folder, files()))


def make_huge(folder: Path, _cache: Path) -> Case:
    """Make a wheel with a library of 500 MB that needs no change."""
    library = data_library(folder, "huge", 500 * MEGABYTE)
    module = extension(folder)
    return Case(
        wheel=new_wheel(folder, [("bench/libhuge.so.1", library), ("bench/ext.abi3.so", module)])
    )


def make_huge_changed(folder: Path, _cache: Path) -> Case:
    """Make a wheel with a library of 500 MB that needs a library to be grafted."""
    libraries = folder / "libraries"
    libraries.mkdir()
    part = data_library(libraries, "part", 200_000)
    library = data_library(folder, "huge", 500 * MEGABYTE, "-Wl,--no-as-needed", part)
    module = extension(folder)
    files = [("bench/libhuge.so.1", library), ("bench/ext.abi3.so", module)]
    return Case(wheel=new_wheel(folder, files), libraries=libraries)


@dataclass(frozen=True, slots=True, kw_only=True)
class Unrepaired:
    """The maker of an unrepaired wheel out of a published one of the corpus."""

    project: str
    keep_libraries: bool

    def __call__(self, folder: Path, cache: Path) -> Case:
        """Fetch the wheel and make it as pip would have built it."""
        wheels = read_corpus()
        pins = [each.requirement for each in wheels.published]
        (pin,) = (each for each in pins if each.partition("==")[0] == self.project)
        published = fetch(pin, tools_python(cache, wheels.installer), cache)
        return unrepaired(published, folder, keep_libraries=self.keep_libraries)


def make_torch(folder: Path, cache: Path) -> Case:
    """Make a wheel with a library of 434 MB that needs one to be grafted.

    One of torch's test programs has no search path to its libraries: wheelfix gives it one, but
    auditwheel would refuse the wheel. That build of torch is not on PyPI: PIP_EXTRA_INDEX_URL may
    say where it is.
    """
    wheels = read_corpus()
    tools = tools_python(cache, wheels.installer)
    published = fetch("torch==2.13.0+cpu", tools, cache)
    return unrepaired(
        published,
        folder,
        keep_libraries=True,
        outside={"torch/lib/libgomp.so.1"},
        without={"torch/bin/test_shim"},
    )


MAKERS: Mapping[str, Callable[[Path, Path], Case]] = {
    "tiny": make_tiny,
    "small": make_small,
    "numpy": Unrepaired(project="numpy", keep_libraries=True),
    "scipy": Unrepaired(project="scipy", keep_libraries=False),
    "opencv": Unrepaired(project="opencv-python-headless", keep_libraries=False),
    "pyarrow": Unrepaired(project="pyarrow", keep_libraries=True),
    "torch": make_torch,
    "many": make_many,
    "huge": make_huge,
    "huge-changed": make_huge_changed,
}


def make(name: str, cache: Path) -> Case:
    """Return the wheel `name`, made once, in a process of its own.

    A child's peak memory starts with what its parent had: this process must stay small.
    """
    folder = cache / "bench" / name
    ready = folder / "case.json"
    if not ready.exists():
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)
        spawn = multiprocessing.get_context("spawn")
        with ProcessPoolExecutor(1, mp_context=spawn) as pool:
            case = pool.submit(MAKERS[name], folder, cache).result()
        ready.write_text(json.dumps(asdict(case), default=str))
    saved = json.loads(ready.read_text())
    libraries = Path(saved["libraries"]) if saved["libraries"] else None
    return Case(wheel=Path(saved["wheel"]), libraries=libraries)


# --- measuring -----------------------------------------------------------------------------------

Commands = Mapping[str, Callable[[Path], Sequence[str]]]
"""Tool -> the command that is measured, given an empty folder to write to."""
Runs = Mapping[str, Sequence[Run] | None]
"""Tool -> its runs; None for a tool that failed."""


def environment(libraries: Path | None = None) -> dict[str, str]:
    """Give the environment of what is measured: bytecode is cached, as it is for users."""
    found = user_environment()
    found.pop("PYTHONDONTWRITEBYTECODE", None)
    return found | ({"AUDITWHEEL_LD_LIBRARY_PATH": str(libraries)} if libraries else {})


def measure(
    command: Callable[[Path], Sequence[str]], libraries: Path | None, codes: set[int]
) -> Run:
    """Run a command once. Raises `ProgramError` for an exit code that is not among `codes`."""
    with tempfile.TemporaryDirectory(prefix="bench-") as folder:
        out = Path(folder, "out")
        out.mkdir()
        words, log = command(out), Path(folder, "log")
        run = spend(words, environment(libraries), log)
        if run.code not in codes:
            said = (log.read_text().strip().splitlines() or ["nothing"])[-1]
            raise ProgramError(f"`{' '.join(words)}`: exit code {run.code}: {said}")
        return replace(run, size=sum(path.stat().st_size for path in out.glob("*.whl")))


def compare(
    commands: Commands, count: int, libraries: Path | None = None, codes: Iterable[int] = (0,)
) -> Runs:
    """Measure the commands in turns, `count` times each, after one run to warm up.

    A tool other than wheelfix that fails is left out from then on; wheelfix must not.
    """
    runs: dict[str, list[Run] | None] = {tool: [] for tool in commands}
    for turn in range(count + 1):
        for tool, command in commands.items():
            if (results := runs[tool]) is None:
                continue
            try:
                result = measure(command, libraries, set(codes))
            except ProgramError as error:
                if tool == OURS:
                    raise
                print(error, file=sys.stderr)
                runs[tool] = None
                continue
            if turn:
                results.append(result)
    return runs


# Starts the command and waits. A process begins with its parent's peak memory (exec_mmap in Linux's
# fs/exec.c), so the parent is this small one, which imports as little as can be.
LAUNCH = """
import os, sys, time
log, *command = sys.argv[1:]
file = os.open(log, os.O_WRONLY | os.O_CREAT)
actions = [(os.POSIX_SPAWN_DUP2, file, 1), (os.POSIX_SPAWN_DUP2, file, 2)]
start = time.perf_counter()
child = os.posix_spawn(command[0], command, os.environ, file_actions=actions)
status, usage = os.wait4(child, 0)[1:]
wall = time.perf_counter() - start
print(wall, usage.ru_utime + usage.ru_stime, usage.ru_maxrss, os.waitstatus_to_exitcode(status))
"""


def spend(command: Sequence[str], environment: Mapping[str, str], log: Path) -> Run:
    """Run a command to its end.

    It runs in the folder of `log`, where no pyproject.toml configures it.
    """
    launcher = [sys.executable, "-I", "-S", "-c", LAUNCH, str(log), *command]
    said = subprocess.check_output(launcher, cwd=log.parent, env=environment, text=True)
    wall, cpu, kibibytes, code = said.split()
    peak = int(kibibytes) * 1024 / MEGABYTE
    return Run(wall=float(wall), cpu=float(cpu), peak=peak, code=int(code))


# --- Tables ---------------------------------------------------------------------------------------


def figure(runs: Sequence[Run], name: str, *, least: bool) -> float:
    """Return the median or the least of one figure over the runs."""
    return (min if least else statistics.median)(float(getattr(run, name)) for run in runs)


def cells(runs: Runs, *, least: bool) -> dict[str, str]:
    """Lay out what the tools have spent: seconds and memory of each, and the ratios to ours."""
    row: dict[str, str] = {}
    for name, unit in UNITS.items():
        values = {
            tool: figure(each, name, least=least) if each else None for tool, each in runs.items()
        }
        if name in {"wall", "peak"}:
            row |= {f"{tool} {unit}": shown(value) for tool, value in values.items()}
        ours = values[OURS]
        for tool, value in values.items():
            if tool != OURS and name != "peak" and ours:
                row[f"{unit} / {tool}"] = f"{ours / value:.3f}" if value else "-"
    return row


def shown(value: float | None) -> str:
    """Format a figure; a dash for a tool that failed."""
    return "-" if value is None else f"{value:.3g}" if value < 1000 else f"{value:.0f}"


def table(rows: Sequence[Mapping[str, str]]) -> str:
    """Lay out the rows as a Markdown table that reads well as it is."""
    columns = list(dict.fromkeys(column for row in rows for column in row))
    lines = [columns, *([row.get(column, "") for column in columns] for row in rows)]
    widths = [max(len(line[index]) for line in lines) for index in range(len(columns))]
    lines.insert(1, ["-" * width for width in widths])
    return "\n".join(
        f"| {' | '.join(cell.rjust(width) for cell, width in zip(line, widths, strict=True))} |"
        for line in lines
    )


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
            "wheelfix tree WHEEL": [*wheelfix, "tree", str(wheel)],
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
    for name, runs in compare(asked, options.n, codes=range(256)).items():
        figures = {
            UNITS[column]: shown(figure(runs or [], column, least=options.least))
            for column in ("wall", "cpu", "peak")
        }
        yield {"command": name, **figures, "exit code": str((runs or [])[-1].code)}


def ready(words: Sequence[str], _out: Path) -> Sequence[str]:
    """Return a command that writes nothing."""
    return words


# --- Single wheels --------------------------------------------------------------------------------


def repair_command(tool: str, program: Sequence[str], case: Case, out: Path) -> Sequence[str]:
    """Return the command with which `tool` repairs the wheel of `case`."""
    if tool != "repairwheel":
        return [*program, "repair", "-w", str(out), str(case.wheel)]
    libraries = ["-l", str(case.libraries)] if case.libraries else []
    return [*program, "-o", str(out), *libraries, str(case.wheel)]


def repairing(programs: Programs, options: argparse.Namespace) -> str:
    """Measure the repair of each wheel that was asked for."""

    def row(case: Case) -> dict[str, str]:
        commands = {
            tool: partial(repair_command, tool, program, case) for tool, program in programs.items()
        }
        runs = compare(commands, options.n, case.libraries)
        return cells(runs, least=options.least)

    return of_each_wheel(row, options)


def without_verdict(programs: Programs, options: argparse.Namespace) -> str:
    """Measure our repair without auditwheel's verdict, beside the same with it."""

    def row(case: Case) -> dict[str, str]:
        judged = partial(repair_command, OURS, programs[OURS], case)
        commands: Commands = {
            "judged": judged,
            OURS: lambda out: [*judged(out), "--no-verdict"],
        }
        return cells(compare(commands, options.n, case.libraries), least=options.least)

    return of_each_wheel(row, options)


def checking(programs: Programs, options: argparse.Namespace) -> str:
    """Measure `wheelfix check` beside `auditwheel show` on each wheel that was asked for."""

    def row(case: Case) -> dict[str, str]:
        commands = {
            tool: partial(ready, [*program, "show" if tool != OURS else "check", str(case.wheel)])
            for tool, program in programs.items()
            if tool != "repairwheel"
        }
        return cells(compare(commands, options.n, case.libraries, {0, 1}), least=options.least)

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
        runs = compare(commands, 4 * options.n)
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


# --- The command line -----------------------------------------------------------------------------


def circumstances(programs: Programs, options: argparse.Namespace) -> str:
    """Say where and how it was measured."""
    said = {name: run(*program, "--version") for name, program in programs.items()}
    versions = [f"{name} {text.removeprefix(name).split()[0]}" for name, text in said.items()]
    with tempfile.TemporaryDirectory(prefix="bench-") as folder:
        least = spend(find_program("true"), environment(), Path(folder, "log")).peak
    how = "least" if options.least else "medians"
    return (
        f"{', '.join(versions)}; Python {platform.python_version()}, {os.cpu_count()} CPUs, "
        f"temporary files on {file_system(Path(tempfile.gettempdir()))}; {how} of {options.n} runs "
        f"in turns; a peak below {least:.0f} MB cannot be seen."
    )


def repairwheel(cache: Path) -> tuple[str, ...]:
    """Install repairwheel, once, into an environment of its own: it brings other dependencies."""
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
    "start": starting,
    "batch": in_batches,
    "explain": explaining,
}


def parse_arguments() -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument(
        "--parts", default="repair,no-verdict,check,start,batch", help="default: %(default)s"
    )
    parser.add_argument("--wheels", default=",".join(MAKERS), help="default: %(default)s")
    parser.add_argument("-n", type=int, default=3, help="runs of each; default: %(default)s")
    parser.add_argument("--least", action="store_true", help="the least of all runs, not medians")
    parser.add_argument("--cache", type=Path, default=DEFAULT_CACHE)
    parser.add_argument("--batch", type=Path, help="directory of wheels; default: one of 200")
    parser.add_argument("--wheelfix", default=OURS, help="command; default: %(default)s")
    parser.add_argument(
        "--tools", default=f"auditwheel,repairwheel,{OURS}", help="default: %(default)s"
    )
    parser.add_argument("--markdown", type=Path, help="also write the tables to this file")
    options = parser.parse_args()
    for given, known in ((options.wheels, MAKERS), (options.parts, PARTS)):
        if unknown := [name for name in given.split(",") if name not in known]:
            parser.error(f"there is no {', '.join(unknown)}, but {', '.join(known)}")
    options.cache = options.cache.resolve()
    options.batch = options.batch.resolve() if options.batch else None
    return options


def main() -> int:
    """Measure the parts that were asked for; 1 if a program failed."""
    options = parse_arguments()
    finders: Mapping[str, Callable[[], tuple[str, ...]]] = {
        "auditwheel": partial(find_program, "auditwheel"),
        "repairwheel": partial(repairwheel, options.cache),
        OURS: partial(find_program, options.wheelfix),
    }
    programs = {name: finders[name]() for name in options.tools.split(",")}
    texts: list[str] = []
    for part in options.parts.split(","):
        try:
            texts.append(f"### {part}\n\n{PARTS[part](programs, options)}\n")
        except ProgramError as error:
            print(f"{part}: {error}", file=sys.stderr)
            return 1
        print(texts[-1], flush=True)
    texts.append(f"{circumstances(programs, options)}\n")
    print(texts[-1], end="")
    if options.markdown:
        options.markdown.write_text("\n".join(texts))
    return 0


if __name__ == "__main__":
    sys.exit(main())
