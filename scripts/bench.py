"""Measure `wheelfix repair` beside `auditwheel repair`, interleaved in one run.

    python scripts/bench.py -n 3 --wheels tiny,many
    python scripts/bench.py -n 3 --explain    # beside auditwheel lddtree and libtree

Each run is a process of its own, measured by wait4: wall seconds, user and system CPU seconds of
the process tree, and the peak memory of its largest process. The table shows medians, and ratios
of medians, wheelfix / auditwheel: below 1 is better. The wheels are made here, or fetched and made
unrepaired again; they stay in the cache for the next run.
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
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import asdict, dataclass
from pathlib import Path

import corpus

PLATFORM = f"linux_{platform.machine()}"
MEGABYTE = 1_000_000


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
    size: int
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


def unrepaired(published: Path, folder: Path, *, keep_libraries: bool) -> Case:
    """Tag a published wheel as pip builds it; its `.libs` may move out, to be grafted again."""
    stem = published.stem.rpartition("-")[0]
    name = "-".join(stem.split("-")[:2])
    libraries = folder / "libraries"
    libraries.mkdir()

    def members(archive: zipfile.ZipFile) -> Iterator[tuple[str, bytes]]:
        for info in archive.infolist():
            top, _, file = info.filename.partition("/")
            if info.is_dir() or info.filename.endswith(".dist-info/RECORD"):
                continue
            content = archive.read(info)
            if top.endswith(".libs") and not keep_libraries:
                (libraries / file).write_bytes(content)
            elif info.filename.endswith(".dist-info/WHEEL"):
                yield info.filename, retagged(content)
            else:
                yield info.filename, content

    with zipfile.ZipFile(published) as archive:
        wheel = write_wheel(folder / f"{stem}-{PLATFORM}.whl", name, members(archive))
    return Case(wheel=wheel, libraries=None if keep_libraries else libraries)


def retagged(wheel_file: bytes) -> bytes:
    """Replace the platforms in the Tag lines of WHEEL by the one that pip builds for."""
    lines = re.sub(r"(?m)^(Tag: .*-)\S+$", rf"\g<1>{PLATFORM}", wheel_file.decode()).splitlines()
    return "".join(f"{line}\n" for line in dict.fromkeys(lines) if line).encode()


def compile_shared(target: Path, source: str, *options: str | Path) -> Path:
    """Compile C source to a shared object."""
    source_file = target.with_suffix(".c")
    source_file.write_text(source)
    corpus.run("cc", "-shared", "-fPIC", "-o", target, source_file, *options)
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
        wheels = corpus.read_corpus()
        pins = [each.requirement for each in wheels.published]
        (pin,) = (each for each in pins if each.partition("==")[0] == self.project)
        published = corpus.fetch(pin, corpus.tools_python(cache, wheels.installer), cache)
        return unrepaired(published, folder, keep_libraries=self.keep_libraries)


MAKERS: Mapping[str, Callable[[Path, Path], Case]] = {
    "tiny": make_tiny,
    "small": make_small,
    "numpy": Unrepaired(project="numpy", keep_libraries=True),
    "scipy": Unrepaired(project="scipy", keep_libraries=False),
    "opencv": Unrepaired(project="opencv-python-headless", keep_libraries=False),
    "pyarrow": Unrepaired(project="pyarrow", keep_libraries=True),
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


def measure(program: Sequence[str], case: Case) -> Run:
    """Repair the wheel of `case` once."""
    extra = {"AUDITWHEEL_LD_LIBRARY_PATH": str(case.libraries)} if case.libraries else {}
    with tempfile.TemporaryDirectory(prefix="bench-") as folder:
        out = Path(folder, "out")
        out.mkdir()
        command = [*program, "repair", "-w", str(out), str(case.wheel)]
        log = Path(folder, "log")
        wall, cpu, peak, code = spend(command, {**corpus.environment(), **extra}, log)
        written = list(out.glob("*.whl"))
        if code or len(written) != 1:
            said = (log.read_text().strip().splitlines() or ["nothing"])[-1]
            raise corpus.ProgramError(f"`{' '.join(command)}`: exit code {code}: {said}")
        size = written[0].stat().st_size
    return Run(wall=wall, cpu=cpu, peak=peak, size=size)


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


def spend(
    command: Sequence[str], environment: Mapping[str, str], log: Path
) -> tuple[float, float, float, int]:
    """Run a command to its end: wall seconds, CPU seconds, peak memory in MB, exit code.

    It runs in the folder of `log`, where no pyproject.toml configures it.
    """
    launcher = [sys.executable, "-I", "-S", "-c", LAUNCH, str(log), *command]
    said = subprocess.check_output(launcher, cwd=log.parent, env=environment, text=True)
    wall, cpu, kibibytes, code = said.split()
    return float(wall), float(cpu), int(kibibytes) * 1024 / MEGABYTE, int(code)


def compare(programs: corpus.Programs, case: Case, count: int) -> dict[str, list[Run]]:
    """Measure the programs in turns, `count` times each, after one run to warm up."""
    runs: dict[str, list[Run]] = {tool: [] for tool in programs}
    for turn in range(count + 1):
        for tool, program in programs.items():
            result = measure(program, case)
            if turn:
                runs[tool].append(result)
    return runs


def median(runs: Sequence[Run], figure: str) -> float:
    """Return the median of one figure over the runs."""
    return statistics.median(float(getattr(run, figure)) for run in runs)


def cells(name: str, case: Case, runs: Mapping[str, Sequence[Run]]) -> dict[str, str]:
    """Lay out the row of one wheel: every tool's figure, then the ratio."""
    with zipfile.ZipFile(case.wheel) as archive:
        members = len(archive.infolist())
    row = {
        "wheel": name,
        "MB": f"{case.wheel.stat().st_size / MEGABYTE:.3g}",
        "members": str(members),
    }
    for figure, unit in (("wall", "s"), ("cpu", "CPU s"), ("peak", "peak MB")):
        values = {tool: median(each, figure) for tool, each in runs.items()}
        row |= {f"{tool} {unit}": f"{value:.3g}" for tool, value in values.items()}
        if len(values) == 2:
            row[f"{unit} ratio"] = ratio(values)
    if len(runs) == 2:
        row["size ratio"] = ratio({tool: median(each, "size") for tool, each in runs.items()})
    return row


def ratio(values: Mapping[str, float]) -> str:
    """Format wheelfix / auditwheel."""
    return f"{values['wheelfix'] / values['auditwheel']:.3f}"


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


def explaining(wheelfix: Sequence[str], cache: Path, count: int) -> str:
    """Measure what it takes to explain the largest published wheel, and its largest object."""
    wheel = max((cache / "published").glob("*/*.whl"), key=lambda path: path.stat().st_size)
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
                *corpus.find_program("auditwheel"), "lddtree", str(largest),
            ],
        }  # fmt: skip
        if libtree := shutil.which("libtree"):
            commands["libtree OBJECT"] = [libtree, "-vv", str(largest)]
        rows = list(measured(commands, Path(folder, "log"), count))
        about = (
            f"{wheel.name}: {wheel.stat().st_size / MEGABYTE:.3g} MB, {len(objects)} libraries; "
            f"OBJECT is its largest, {largest.relative_to(site)}, "
            f"{largest.stat().st_size / MEGABYTE:.3g} MB."
        )
    return f"{table(rows)}\n\n{about}"


def measured(
    commands: Mapping[str, Sequence[str]], log: Path, count: int
) -> Iterator[dict[str, str]]:
    """Run the commands in turns; exit codes tell of the libraries, and are shown."""
    runs: dict[str, list[tuple[float, float, float, int]]] = {name: [] for name in commands}
    for turn in range(count + 1):
        for name, command in commands.items():
            one = spend(command, corpus.environment(), log)
            if turn:
                runs[name].append(one)
    for name, each in runs.items():
        wall, cpu, peak = (statistics.median(run[figure] for run in each) for figure in range(3))
        figures = {"s": f"{wall:.3g}", "CPU s": f"{cpu:.3g}", "peak MB": f"{peak:.3g}"}
        yield {"command": name, **figures, "exit code": str(each[-1][3])}


def file_system(path: Path) -> str:
    """Name the type of the file system that holds `path`."""
    mounts = [line.split()[1:3] for line in Path("/proc/mounts").read_text().splitlines()]
    holders = [each for each in mounts if path.resolve().is_relative_to(each[0])]
    return max(holders, key=lambda each: len(each[0]))[1]


def circumstances(programs: corpus.Programs, count: int) -> str:
    """Say where and how it was measured."""
    versions = [corpus.run(*program, "--version").split("\n")[0] for program in programs.values()]
    with tempfile.TemporaryDirectory(prefix="bench-") as folder:
        least = spend(corpus.find_program("true"), corpus.environment(), Path(folder, "log"))[2]
    return (
        f"{' and '.join(versions)}; Python {platform.python_version()}, {os.cpu_count()} CPUs, "
        f"temporary files on {file_system(Path(tempfile.gettempdir()))}; medians of {count} runs "
        f"in turns; a peak below {least:.0f} MB cannot be seen."
    )


def parse_arguments() -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--wheels", default=",".join(MAKERS), help="default: %(default)s")
    parser.add_argument("-n", type=int, default=3, help="runs of each; default: %(default)s")
    parser.add_argument("--cache", type=Path, default=corpus.DEFAULT_CACHE)
    parser.add_argument("--wheelfix", default="wheelfix", help="command; default: %(default)s")
    parser.add_argument("--tools", default="auditwheel,wheelfix", help="default: %(default)s")
    parser.add_argument("--explain", action="store_true", help="measure explain and tree instead")
    parser.add_argument("--markdown", type=Path, help="also write the table to this file")
    parser.add_argument("--json", type=Path, help="also write every run to this file")
    options = parser.parse_args()
    if unknown := [name for name in options.wheels.split(",") if name not in MAKERS]:
        parser.error(f"no such wheel: {', '.join(unknown)}; there are {', '.join(MAKERS)}")
    return options


def main() -> int:
    """Measure the wheels that were asked for; 1 if a program failed on one."""
    options = parse_arguments()
    commands = {"auditwheel": "auditwheel", "wheelfix": options.wheelfix}
    programs = {name: corpus.find_program(commands[name]) for name in options.tools.split(",")}
    if options.explain:
        text = explaining(programs["wheelfix"], options.cache.resolve(), options.n)
        print(f"{text}\n\n{circumstances(programs, options.n)}")
        return 0
    rows: list[dict[str, str]] = []
    results: dict[str, dict[str, list[Run]]] = {}
    failed = False
    for name in options.wheels.split(","):
        try:
            case = make(name, options.cache.resolve())
            results[name] = compare(programs, case, options.n)
        except corpus.ProgramError as error:
            print(f"{name}: {error}", file=sys.stderr)
            failed = True
            continue
        rows.append(cells(name, case, results[name]))
        print(f"{name}: done", file=sys.stderr, flush=True)
    text = f"{table(rows)}\n\n{circumstances(programs, options.n)}\n"
    print(text, end="")
    if options.markdown:
        options.markdown.write_text(text)
    if options.json:
        everything = {
            name: {tool: [asdict(run) for run in runs] for tool, runs in tools.items()}
            for name, tools in results.items()
        }
        options.json.write_text(json.dumps(everything, indent=1))
    return int(failed)


if __name__ == "__main__":
    sys.exit(main())
