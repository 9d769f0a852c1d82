"""Hold the model of the loader to the real one, on published wheels.

    python scripts/fidelity.py --cache DIR             # the wheels that corpus.py has fetched
    python scripts/fidelity.py --cache DIR --fetch     # all wheels of corpus.toml
    python scripts/fidelity.py x.whl y.whl             # these
    python scripts/fidelity.py --bindings --cache DIR  # and every symbol
    python scripts/fidelity.py --python PATH --cache DIR
    python scripts/fidelity.py --random 3000 [--libc glibc|musl] [--first SEED]

Each wheel is installed into a virtual environment. Then every ELF object is opened in a process
of its own under LD_DEBUG, programs are only loaded and not run, and the model is asked the same.
Compared are the files that were opened, in order; the candidates that were there, in order; and
whether it fails, with the name that the loader's message blames. What an object's constructors
open is their own affair, and left out. With `--bindings` everything is
bound at once, and compared is also, for every symbol with its version, the file that it was bound
to, and the symbols that are blamed.

Random installations are made by `installations.py`, which says what is compared.
Exit code 1 if anything differs.
"""

import argparse
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass, replace
from functools import cache
from pathlib import Path

from oracle.binding import LoadBindings, ProcessBinder, Symbols
from oracle.lookups import Lookup, read_lookups, read_plt_entries
from real_wheels.listed import read_corpus
from real_wheels.programs import fetch as fetch_wheel
from real_wheels.programs import tools_python
from wheelfix.elf.exports import read_exports
from wheelfix.elf.model import Definition, Exports, Libc
from wheelfix.errors import WheelfixError
from wheelfix.host.disk import read_process
from wheelfix.host.ld_debug import Log, LoggedRequest
from wheelfix.host.pythons import Interpreter, find, install, interpreter, make
from wheelfix.loader.model import Environment, How, Load, Request, SearchOutcome
from wheelfix.loader.search import load, load_all
from wheelfix.wheel.reader import open_wheel

OPEN = "import sys, _ctypes\n_ctypes.dlopen(sys.argv[1], 2)"
MAX_SHOWN = 20
SYMBOLS = re.compile(r"undefined symbol|symbol lookup error|version [`'].*' not found")
BINDING = re.compile(
    r"binding file (.*) \[0\] to (.*) \[0\]: \w+ symbol `([^']*)'(?: \[(.*)\])?$", re.MULTILINE
)
UNDEFINED = re.compile(r"undefined symbol: ([^\s,]+)(?:, version (\S+))?")
NO_VERSION = re.compile(r"version `([^']*)' not found")
NEW = frozenset(How) - {How.LOADED, How.SAME_FILE, How.LIBC}


@dataclass(frozen=True, slots=True, kw_only=True)
class Seen:
    """What opening one object did, or what the model says that it does."""

    opened: tuple[str, ...]
    tried: tuple[str, ...]
    """The candidates of searches that are there."""
    blamed: str | None
    """What a failure names."""
    bound: "frozenset[Edge]" = frozenset()
    """Which file binds which symbol to which file."""
    unbound: tuple[str, ...] = ()
    """The symbols and versions that are blamed."""


Edge = tuple[str, str, str | None, str]
"""User, symbol, version, provider."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Compared:
    """One object, both ways."""

    wheel: str
    member: str
    real: Seen
    model: Seen
    said: str
    """The real loader's message."""
    symbols: bool = False
    """It fails for a symbol."""

    @property
    def differs(self) -> bool:
        """Whether the model is wrong."""
        return self.real != self.model


def main() -> int:
    """Compare, print a table and the differences, and return the exit code."""
    options = parse_arguments()
    if options.random:
        return random_installations(Libc(options.libc), options.first, options.random)
    wheels = list(options.wheels)
    if options.fetch:
        fetch(options.cache)
    if options.cache is not None:
        wheels += sorted((options.cache / "published").glob("*/*.whl"))
    found: list[Compared] = []
    skipped: list[str] = []
    began = time.monotonic()
    for wheel in wheels:
        try:
            python = interpreter(options.python, os.environ)
            some = compare(wheel, python, symbols=options.bindings)
        except WheelfixError as error:
            skipped.append(f"{wheel.name}: {error.message.splitlines()[0]}")
            continue
        found += some
        wrong = [each for each in some if each.differs]
        bound = f", {sum(len(e.real.bound) for e in some)} bindings" if options.bindings else ""
        said = f"{len(some)} objects{bound}, {len(wrong)} differences"
        print(f"{wheel.name}: {said}", flush=True)
        for each in wrong:
            print(explained(each), flush=True)
    for line in skipped:
        print(f"skipped: {line}")
    print(tally(found, len(wheels) - len(skipped), time.monotonic() - began))
    if options.json:
        options.json.write_text(
            json.dumps([asdict(each) for each in found], indent=1, default=sorted)
        )
    return int(not found or any(each.differs for each in found))


def parse_arguments() -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("wheels", nargs="*", type=Path)
    parser.add_argument("--cache", type=Path, help="folder of scripts/corpus.py")
    parser.add_argument("--python", default=sys.executable, help="default: %(default)s")
    parser.add_argument("--fetch", action="store_true", help="fetch what corpus.toml names first")
    parser.add_argument("--bindings", action="store_true", help="compare every symbol as well")
    parser.add_argument("--random", type=int, metavar="N", help="compare N random installations")
    parser.add_argument("--first", type=int, default=0, metavar="SEED", help="the first seed")
    parser.add_argument("--libc", choices=list(Libc), default=Libc.GLIBC, help="of the random ones")
    parser.add_argument("--json", type=Path, help="also write everything that was found here")
    options = parser.parse_args()
    if options.fetch and options.cache is None:
        parser.error("--fetch needs --cache")
    return options


def fetch(cache: Path) -> None:
    """Download what corpus.toml names as published and as loaded, each once."""
    wanted = read_corpus()
    tools = tools_python(cache, wanted.installer)
    for requirement in (*(each.requirement for each in wanted.published), *wanted.loaded):
        fetch_wheel(requirement, tools, cache)


def tally(found: Sequence[Compared], wheels: int, seconds: float) -> str:
    """Return the figures."""
    failing = sum(each.real.blamed is not None for each in found)
    return (
        f"{wheels} wheels, {len(found)} objects, {sum(len(e.real.opened) for e in found)} files "
        f"opened, {sum(len(each.real.bound) for each in found)} symbols bound, "
        f"{failing} failures and {sum(e.symbols for e in found)} for symbols, "
        f"{sum(each.differs for each in found)} differences, {seconds:.0f} s"
    )


def explained(each: Compared) -> str:
    """Return one difference in full."""
    lines = [f"  {each.member}: {each.said}"]
    for name in ("opened", "tried", "blamed"):
        real, model = getattr(each.real, name), getattr(each.model, name)
        if real != model:
            lines += [f"    {name}: real  {real}", f"    {name}: model {model}"]
    if each.real.unbound != each.model.unbound:
        lines += [
            f"    unbound: real  {each.real.unbound}",
            f"    unbound: model {each.model.unbound}",
        ]
    for who, some in (
        ("real ", each.real.bound - each.model.bound),
        ("model", each.model.bound - each.real.bound),
    ):
        lines += [f"    bound: {who} {edge}" for edge in sorted(some, key=str)[:MAX_SHOWN]]
    return "\n".join(lines)


def random_installations(libc: Libc, first: int, number: int) -> int:
    """Compare random installations, and print the figures; return the exit code."""
    import installations  # noqa: PLC0415 - the other half, beside this script

    began = time.monotonic()
    counts = Counter[str]()
    with tempfile.TemporaryDirectory(prefix="wheelfix-fidelity-") as folder:
        programs = installations.programs(libc, Path(folder))
        if isinstance(programs, str):
            print(programs, file=sys.stderr)
            return 2
        for seed in range(first, first + number):
            root = Path(folder, "case")
            root.mkdir()
            case = installations.random_case(seed, root, libc, programs)
            happened, foretold = installations.observe(case), installations.predict(case)
            wrong = installations.compare(case, happened, foretold)
            for line in wrong:
                print(f"seed {seed}: {line}", flush=True)
            counts["differences"] += bool(wrong)
            for one in foretold:
                counts[installations.outcome(one)] += 1
                counts["symbols bound"] += len(one.binding.bound) if one.binding else 0
            shutil.rmtree(root)
    said = ", ".join(f"{count} {name}" for name, count in sorted(counts.items()))
    print(f"{libc}: {number} installations: {said}, {time.monotonic() - began:.0f} s")
    return int(counts["differences"] > 0)


# --- Both ways ------------------------------------------------------------------------------------


def compare(wheel: Path, python: Interpreter, *, symbols: bool = False) -> list[Compared]:
    """Install `wheel` for `python`, and compare every object, with `symbols` all that it binds."""
    with open_wheel(wheel) as archive:
        value = archive.wheel
    with tempfile.TemporaryDirectory(prefix="wheelfix-fidelity-") as folder:
        root = Path(os.path.realpath(folder))
        place = make("venv", python, root, os.environ)
        install(wheel, value, place)
        _, files = find(place.root, value)
        objects = [
            (member, files[member].path)
            for member, elf in value.elfs.items()
            if elf.dynamic and member in files
        ]
        program = os.path.realpath(place.python)
        first = [python.ctypes] if python.ctypes else []
        environment = read_process(program, [*first, *(path for _, path in objects)])
        tables = read_symbols()
        log = root / "log"
        log.mkdir()

        def both(item: tuple[str, str]) -> Compared:
            member, path = item
            is_program = value.elfs[member].is_executable
            real, said = watched(path, place.python, log, is_program=is_program, symbols=symbols)
            loads = foreseen(path, first, environment, is_program=is_program)
            model = foretold(loads[-1], is_program=is_program)
            if symbols and model.blamed is None:
                model = with_symbols(model, loads, environment, tables, is_program=is_program)
            return Compared(
                wheel=wheel.name,
                member=member,
                real=real if real.blamed is None else replace(real, bound=frozenset(), unbound=()),
                model=model,
                said=said,
                symbols=real.blamed is None and SYMBOLS.search(said) is not None,
            )

        with ThreadPoolExecutor(2) as pool:
            return list(pool.map(both, objects))


def watched(
    path: str, python: str, log: Path, *, is_program: bool, symbols: bool
) -> tuple[Seen, str]:
    """Open the object at `path`, and read what the loader tells of it."""
    command = [python, "-I", "-S", "-c", OPEN, path]
    variables = {"LD_DEBUG": "libs,files"}
    if symbols:
        variables = {"LD_DEBUG": "libs,files,bindings", "LD_BIND_NOW": "1"}
    if is_program:  # the loader prints what it would load, and ends
        command, variables = [path], {**variables, "LD_TRACE_LOADED_OBJECTS": "1"}
        variables |= {"LD_WARN": "1"} if symbols else {}
    variables["LD_DEBUG_OUTPUT"] = str(log / "log")
    process = subprocess.Popen(
        command, env=variables, cwd="/", stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    )
    output, _ = process.communicate()
    file = log / f"log.{process.pid}"
    text = until_constructors(file.read_bytes(), path, is_program=is_program)
    parser = Log(process.pid)
    parser.feed(text)
    file.unlink()
    asked = [each for image in parser.finish() for each in image.requests]
    if not is_program:
        starts = [n for n, each in enumerate(asked) if each.dlopen and each.name == path]
        asked = asked[starts[0] :] if starts else []
    message = blame(output, path)
    return Seen(
        opened=tuple(each.path for each in asked if each.path is not None),
        tried=tuple(tried(asked)),
        blamed=message,
        bound=frozenset(said_bound(os.fsdecode(text), path, is_program=is_program)),
        unbound=blamed_symbols(output) if symbols else (),
    ), output.strip().splitlines()[-1] if output.strip() else ""


def until_constructors(log: bytes, path: str, *, is_program: bool) -> bytes:
    """Cut the log where the object's own code begins to run, which may open what it likes."""
    start = 0
    if not is_program:
        start = log.find(b"\tfile=%b [0];  dynamically loaded" % os.fsencode(path))
    end = log.find(b"\tcalling init: ", max(start, 0))
    return log[: log.rfind(b"\n", 0, end) + 1] if end >= 0 else log


def said_bound(log: str, path: str, *, is_program: bool) -> Iterator[Edge]:
    """Yield what the loader says that it binds."""
    start = 0 if is_program else log.find(f"\tfile={path} [0];  dynamically loaded")
    for user, provider, symbol, version in BINDING.findall(log, max(start, 0)):
        if user != "linux-vdso.so.1":
            yield identity(user), symbol, version or None, identity(provider)


def identity(path: str) -> str:
    """Return what all names of a file have in common."""
    there = Path(path).stat()
    return IDENTITIES.setdefault((there.st_dev, there.st_ino), os.path.realpath(path))


IDENTITIES: dict[tuple[int, int], str] = {}


def blamed_symbols(output: str) -> tuple[str, ...]:
    """Return what the loader's messages say is not defined."""
    versions = [f"version {version}" for version in NO_VERSION.findall(output)]
    names = [label(*each) for each in UNDEFINED.findall(output)]
    return tuple(dict.fromkeys(versions or names))


def label(symbol: str, version: str | None) -> str:
    """Return how a symbol is named here."""
    return f"{symbol}@{version}" if version else symbol


def tried(asked: Sequence[LoggedRequest]) -> Iterator[str]:
    """Yield the candidates that are there."""
    for each in asked:
        for candidate in each.tried:
            if os.path.lexists(candidate.path):
                yield candidate.path


def blame(output: str, path: str) -> str | None:
    """Return what the loader says is missing or wrong, None if nothing or a symbol is."""
    match = re.search(r"([^\s:]+): cannot open shared object file", output)
    if match is None:
        match = re.search(r"(\S+) => not found", output)
    if match is None:
        match = re.search(
            r"([^\s:]+): (?:invalid ELF|file too short|wrong ELF class|cannot |only ET_DYN)", output
        )
    return match[1] if match is not None and match[1] != path else None


def foreseen(
    path: str, first: Sequence[str], environment: Environment, *, is_program: bool
) -> tuple[Load, ...]:
    """Ask the model for the start of the program, and for what it opens, the object last."""
    if is_program:
        return (load(path, environment),)
    started = load(environment.main, environment) if environment.main else None
    loads = load_all([*first, path], environment)
    return loads if started is None else (started, *loads)


def foretold(one: Load, *, is_program: bool) -> Seen:
    """Return what the model says of the files."""
    requests = list(until_failure(one, to_the_end=is_program))
    absent = {SearchOutcome.ABSENT, SearchOutcome.NO_DIRECTORY}
    missing = one.missing[0] if one.missing else None
    return Seen(
        opened=tuple(each.candidates[-1].path for each in requests if each.how in NEW),
        tried=tuple(
            candidate.path
            for each in requests
            for candidate in each.candidates
            if candidate.outcome not in absent and candidate.how is not How.PATH
        ),
        blamed=None
        if missing is None
        else (missing.candidates[-1].path if missing.fatal else missing.name),
    )


def with_symbols(
    seen: Seen,
    loads: Sequence[Load],
    environment: Environment,
    symbols: Symbols,
    *,
    is_program: bool,
) -> Seen:
    """Add what the model says of the symbols."""
    process = ProcessBinder(environment.files, symbols)
    binding = process.start(loads[0])
    for each in loads[1:]:
        binding = process.open(each)
    loader = set(environment.loaded.values())
    looked = binding.lookups if is_program else binding.bound
    return replace(
        seen,
        bound=frozenset(
            (identity(each.user), each.symbol, each.version, identity(each.provider))
            for each in looked
            if each.provider is not None and each.user not in loader
        ),
        unbound=tuple(blamed_by_model(binding, to_the_end=is_program)),
    )


def blamed_by_model(binding: LoadBindings, *, to_the_end: bool) -> Iterator[str]:
    """Yield what the model says is not defined."""
    if binding.missing:
        yield f"version {binding.missing[0].version}"
        return
    failing = [each for each in binding.lookups if each.fails]
    names = dict.fromkeys(label(each.symbol, each.version) for each in failing)
    yield from list(names)[: None if to_the_end else 1]


def read_symbols() -> Symbols:
    """Read symbols of files on this machine, each once."""

    @cache
    def exports(path: str) -> Exports:
        return read_exports(Path(path).read_bytes(), path)

    @cache
    def lookups(path: str) -> tuple[Lookup, ...]:
        return read_lookups(Path(path).read_bytes(), path)

    @cache
    def plt_entries(path: str) -> Mapping[str, tuple[Definition, ...]]:
        return read_plt_entries(Path(path).read_bytes(), path)

    return Symbols(exports=exports, plt_entries=plt_entries, lookups=lookups)


def until_failure(one: Load, *, to_the_end: bool) -> Iterator[Request]:
    """Yield the requests that the real loader comes to; a trace goes on after a failure."""
    for request in one.requests:
        yield request
        if request.failed and not to_the_end:
            return


if __name__ == "__main__":
    sys.exit(main())
