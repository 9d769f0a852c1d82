"""Very many libraries, and sources that open them, take time in proportion to their number."""

from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest

from tests.oracles.fuzzing.forge import INFO, METADATA, NAME, Files, library, wheel
from tests.support.effort import takes_at_most
from wheelfix import check
from wheelfix.analysis.left_to_requirements import left_to_requirements
from wheelfix.diff.wheels_of_releases import compare_wheels
from wheelfix.rules.bundled_not_found import unreachable_library
from wheelfix.rules.context import Context
from wheelfix.rules.opened_and_missing import opened_library_missing, opened_library_renamed
from wheelfix.rules.opened_outside_wheel import opened_library_outside
from wheelfix.rules.run_rules import run_rules
from wheelfix.settings import Settings
from wheelfix.wheel.reader import open_wheel

SMALL, LARGE = 40, 640
MOST = 16 * 3
"""Times longer that the large wheel may take: n log n is 28, and quadratic 256."""


def opened_by_path(count: int) -> Files:
    sources = {f"p/m{n}.py": f"import ctypes\nctypes.CDLL('lib{n}.so')\n" for n in range(count)}
    return {**sources, **{f"p/lib{n}.so": library(soname=f"lib{n}.so") for n in range(count)}}


def searched(count: int) -> Files:
    source = "from ctypes.util import find_library\n"
    source += "".join(f"find_library('x{n}')\n" for n in range(count))
    return {"p/a.py": source, **{f"p/m{n}.py": "" for n in range(count)}}


def of_one_soname(count: int) -> Files:
    return {f"p{n}/liba.so": library(soname="liba.so") for n in range(count)}


def needed_of_one_soname(count: int) -> Files:
    dependents = {f"q/{n}.so": library(["liba.so"]) for n in range(count)}
    return {**of_one_soname(count), **dependents}


def of_everything(count: int) -> Files:
    """Make many of each kind, for loops over one kind inside a loop over another."""
    some, few = range(count // 4), range(count // 8)
    suffix = ".cpython-311-x86_64-linux-gnu.so"
    opens = "".join(f"try: from . import m{n}\nexcept ImportError: pass\n" for n in some)
    opens += "import ctypes\n" + "".join(f"ctypes.CDLL('libo{n}.so')\n" for n in some)
    needs = "".join(f"Requires-Dist: lib-y{n}\nLicense-File: {n}\n" for n in some)
    scripts = "".join(f"s{n}=p.s{n}:f\n" for n in some)
    return {
        f"{INFO}/METADATA": METADATA + needs,
        f"{INFO}/entry_points.txt": f"[console_scripts]\n{scripts}",
        **{f"{INFO}/licenses/{n}": f"text {n}" for n in some},
        "p/__init__.py": opens,
        **{f"p/s{n}.py": f"import ctypes\nctypes.CDLL('libp{n}.so')\n" for n in some},
        **{
            f"p/m{n}{suffix}": library([f"libx{n}.so", f"liby{n}.so"], runpath="$ORIGIN/../x.libs")
            for n in few
        },
        **{f"x.libs/libx{n}.so": library(soname=f"libx{n}.so") for n in few},
        **{f"{INFO[:-10]}.data/data/lib/libz{n}.so": library(soname="libz.so") for n in few},
    }


def left_to_others(count: int) -> Files:
    lines = "".join(f"Requires-Dist: lib-x{n}\n" for n in range(count))
    entries = ":".join(f"$ORIGIN/../x{n}" for n in range(count))
    needed = [f"libx{n}.so" for n in range(count // 2)]
    files = {f"p/{n}.so": library([f"liby{n}.so"], runpath="$ORIGIN/../y") for n in range(count)}
    return {
        f"{INFO}/METADATA": METADATA + lines,
        **files,
        "p/a.so": library(needed, runpath=entries),
    }


def look_for_what_is_left(path: Path) -> None:
    with open_wheel(path) as archive:
        assert left_to_requirements(archive.wheel, Settings(), (), None).requirements


def judge_openings(path: Path) -> None:
    with open_wheel(path) as archive:
        context = Context(wheel=archive.wheel, settings=Settings())
        rules = (opened_library_missing, opened_library_renamed, opened_library_outside)
        run_rules(context, rules)


def judge_search_paths(path: Path) -> None:
    with open_wheel(path) as archive:
        context = Context(wheel=archive.wheel, settings=Settings())
        assert run_rules(context, [unreachable_library])


def judge(path: Path) -> None:
    assert check(path, Settings()).error is None


def compare(path: Path) -> None:
    compare_wheels(path, path, Settings())


@pytest.mark.large
@pytest.mark.parametrize(
    ("make", "work"),
    [
        (opened_by_path, judge_openings),
        (searched, judge_openings),
        (left_to_others, look_for_what_is_left),
        (of_one_soname, compare),
        (of_everything, judge),
        (of_everything, compare),
        (needed_of_one_soname, judge_search_paths),
    ],
)
def test_many_files_take_time_in_proportion(
    make: Callable[[int], Files], work: Callable[[Path], None], tmp_path: Path
) -> None:
    def at(count: int) -> Callable[[], None]:
        path = tmp_path / str(count) / NAME
        path.parent.mkdir()
        path.write_bytes(wheel(make(count)))
        return partial(work, path)

    at(10)()  # imports, and tables that are read once
    assert takes_at_most(MOST, at(LARGE), at(SMALL))


def test_a_library_that_many_objects_need_is_sought_among_the_requirements_once(
    tmp_path: Path,
) -> None:
    lines = "".join(f"Requires-Dist: lib-x{n}\n" for n in range(100))
    needs = library([f"liby{n}.so" for n in range(100)])

    def of(count: int) -> Callable[[], None]:
        path = tmp_path / str(count) / NAME
        path.parent.mkdir()
        objects = {f"p/{n}.so": needs for n in range(count)}
        path.write_bytes(wheel({f"{INFO}/METADATA": METADATA + lines, **objects}))
        return partial(look_for_what_is_left, path)

    assert takes_at_most(10, of(80), of(1))
