"""Measure how the cost of `wheelfix check` and `wheelfix repair` grows with a wheel.

    python scripts/curves.py
    python scripts/curves.py --curves files,objects -n 5

The curves: `files` (small files in a wheel), `objects` (half of them extension modules, each with a
library of its own), `symbols` (defined by one library, a tenth of them used by a module). Each
point is a process of its own: the least CPU seconds of several runs, user and system, of the
process tree, and the peak memory of its largest process. Under each curve: what one unit more
costs between the first and the last point, and the exponent of the growth, the slope of the
line through log(units) and log(seconds above those of the smallest wheel): 1 is linear.
"""

import argparse
import math
import shutil
import statistics
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from benchmark.cases import Files, compile_shared, extension, new_wheel
from benchmark.measure import compare
from benchmark.tables import figure, shown, table
from real_wheels.programs import DEFAULT_CACHE, ProgramError, find_program, run

_LEAST_GROWTH = 0.02
"""Seconds above the smallest wheel, below which a point is noise and not part of the fit."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Curve:
    """A kind of wheel, and how large it is to be."""

    sizes: Sequence[int]
    make: Callable[[Path, int], Files]
    """Return the members of a wheel of so many units; large ones are put into the folder."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Point:
    """What one wheel costs."""

    units: int
    seconds: float
    peak: float
    """MB."""


# --- Wheels ---------------------------------------------------------------------------------------


def with_files(folder: Path, count: int) -> Files:
    """Yield an extension module and `count` small files."""
    yield "bench/ext.abi3.so", extension(folder)
    for number in range(count):
        suffix = ("py", "json", "txt")[number % 3]
        text = f"# file {number}\n" + f"value_{number} = {number * number}\n" * 20
        yield f"bench/part{number % 100}/file{number}.{suffix}", text.encode()


def with_objects(folder: Path, count: int) -> Files:
    """Yield pairs of a module and the library that it alone needs; their names tell them apart."""
    library, module = folder / "libpart00000.so", folder / "ext.so"
    name = "-Wl,-soname,libpart00000.so"
    compile_shared(library, "int part(void) { return 1; }\n", name)
    source = (
        "#include <unistd.h>\nint part(void);\n"
        "int calls(void) { return part() + getpid(); }\nvoid *PyInit_m(void) { return 0; }\n"
    )
    compile_shared(module, source, library, "-Wl,-rpath,$ORIGIN/../../bench.libs")
    for number in range(count // 2):
        placed = f"{number:05}".encode()
        for file, member in (
            (module, f"bench/m{number:05}/m.abi3.so"),
            (library, f"bench.libs/libpart{number:05}.so"),
        ):
            yield member, file.read_bytes().replace(b"part00000", b"part" + placed)


def with_symbols(folder: Path, count: int) -> Files:
    """Yield a library that defines `count` symbols, and a module that uses a tenth of them."""
    library, module = folder / "libmany.so", folder / "ext.abi3.so"
    defined = "".join(
        f".globl a_function_{number}\n.type a_function_{number},@function\na_function_{number}:\n"
        for number in range(count)
    )
    assembled(library, f".text\n{defined}ret\n", "-Wl,-soname,libmany.so")
    used = "".join(f".quad a_function_{number}\n" for number in range(0, count, 10))
    hook = ".globl PyInit_ext\n.type PyInit_ext,@function\nPyInit_ext:\ncall getpid@PLT\nret\n"
    assembled(module, f".data\n{used}.text\n{hook}", library, "-Wl,-rpath,$ORIGIN")
    yield "bench/libmany.so", library
    yield "bench/ext.abi3.so", module


def assembled(target: Path, text: str, *options: str | Path) -> None:
    """Assemble and link a shared object."""
    source = target.with_suffix(".s")
    source.write_text(f"{text}.section .note.GNU-stack\n")
    run("cc", "-shared", "-o", target, source, *options)


CURVES: Mapping[str, Curve] = {
    "files": Curve(sizes=(1_000, 2_000, 5_000, 10_000, 20_000, 50_000), make=with_files),
    "objects": Curve(sizes=(10, 30, 100, 300, 1_000), make=with_objects),
    "symbols": Curve(sizes=(1_000, 10_000, 100_000, 1_000_000), make=with_symbols),
}


def wheel_of(curve: str, units: int, cache: Path) -> Path:
    """Return the wheel of `units`, made once."""
    folder = cache / "curves" / f"{curve}-{units}"
    if not (found := list(folder.glob("*.whl"))):
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)
        with tempfile.TemporaryDirectory(prefix="curves-") as made:
            wheel = new_wheel(folder, CURVES[curve].make(Path(made), units))
        found = [wheel]
    return found[0]


# --- Measuring ------------------------------------------------------------------------------------


def points(
    curve: str, programs: Mapping[str, Sequence[str]], options: argparse.Namespace
) -> Iterator[tuple[str, list[Point]]]:
    """Yield the points of each command; the commands take turns."""
    found: dict[str, list[Point]] = {name: [] for name in programs}
    for units in CURVES[curve].sizes:
        if units > options.most:
            continue
        wheel = wheel_of(curve, units, options.cache)
        commands = {name: partial(command, words, wheel) for name, words in programs.items()}
        for name, runs in compare(commands, options.n, codes={0, 1}).items():
            if not runs:
                raise ProgramError(f"`wheelfix {name}` failed on {wheel}")
            seconds, peak = (figure(runs, what, least=True) for what in ("cpu", "peak"))
            found[name].append(Point(units=units, seconds=seconds, peak=peak))
        print(f"{curve} {units}: done", file=sys.stderr, flush=True)
    yield from found.items()


def command(words: Sequence[str], wheel: Path, out: Path) -> Sequence[str]:
    """Return the command for one wheel; a repair writes to `out`."""
    return [*words, *(["-w", str(out)] if "repair" in words else []), str(wheel)]


def exponent(found: Sequence[Point]) -> float | None:
    """Return the slope in the log-log plane of what is above the first point; None for noise.

    With x units at the first point, the rest of a linear cost is a * (units - x): so is the fit.
    """
    first = found[0]
    grown = [each for each in found if each.seconds - first.seconds > _LEAST_GROWTH]
    if len(grown) < 2:
        return None
    units = [math.log(each.units - first.units) for each in grown]
    seconds = [math.log(each.seconds - first.seconds) for each in grown]
    return statistics.linear_regression(units, seconds).slope


def slope(found: Sequence[Point]) -> float:
    """Return microseconds for a unit more, between the first and the last point."""
    first, last = found[0], found[-1]
    if first is last:
        return math.nan
    return (last.seconds - first.seconds) / (last.units - first.units) * 1e6


def drawn(curve: str, everything: Sequence[tuple[str, list[Point]]]) -> str:
    """Lay out the points, and under them what they come to."""
    rows: list[dict[str, str]] = []
    for number, point in enumerate(everything[0][1]):
        row = {curve: f"{point.units:,}"}
        for name, found in everything:
            row[f"{name} CPU s"] = shown(found[number].seconds)
            row[f"{name} peak MB"] = shown(found[number].peak)
        rows.append(row)
    said: list[str] = []
    for name, found in everything:
        power = exponent(found)
        growth = "no growth to be seen" if power is None else f"exponent {power:.2f}"
        said.append(f"- {name}: {slope(found):.2f} µs for one more, {growth}")
    return f"### {curve}\n\n{table(rows)}\n\n" + "\n".join(said) + "\n"


def parse_arguments() -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--curves", default=",".join(CURVES), help="default: %(default)s")
    parser.add_argument("-n", type=int, default=3, help="runs of each; default: %(default)s")
    parser.add_argument("--most", type=int, default=10**9, help="leave larger wheels out")
    parser.add_argument("--cache", type=Path, default=DEFAULT_CACHE)
    parser.add_argument("--wheelfix", default="wheelfix", help="command; default: %(default)s")
    options = parser.parse_args()
    if unknown := [name for name in options.curves.split(",") if name not in CURVES]:
        parser.error(f"there is no {', '.join(unknown)}, but {', '.join(CURVES)}")
    options.cache = options.cache.resolve()
    return options


def main() -> int:
    """Draw the curves that were asked for."""
    options = parse_arguments()
    wheelfix = find_program(options.wheelfix)
    programs = {
        "check": [*wheelfix, "check"],
        "repair": [*wheelfix, "repair"],
        "repair --no-verdict": [*wheelfix, "repair", "--no-verdict"],
    }
    for curve in options.curves.split(","):
        print(drawn(curve, list(points(curve, programs, options))), flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
