"""Small wheels that ask for much work or memory are checked, or refused, within bounds.

The makers of the wheels are in `tests.oracles.fuzzing.bombs`, which also measures them by itself.
"""

from pathlib import Path

import pytest

from tests.oracles.fuzzing.bombs import BOMBS, MEMORY, SECONDS, cost, written
from tests.oracles.fuzzing.forge import INFO, NAME, library, wheel
from tests.support.effort import spends_at_most
from wheelfix import check
from wheelfix.errors import BadWheelError
from wheelfix.settings import Settings

NOISE = 2
"""Other work on the machine makes the same instructions take up to so many times as long."""

REPAIRED = (
    "strings_undefined",
    "million_undefined",
    "needed_x_rpath",
    "chain_deep",
    "notes_many",
    "tags_many",
    "tags_and_lines",
    "record_duplicates",
    "source_nested",
    "symbols_shared",
    "drops_rebinding",
    "versions_many",
)
"""Of each kind one: a repair begins as a check does."""


@pytest.mark.large
@pytest.mark.parametrize("name", BOMBS)
def test_a_small_wheel_is_checked_within_seconds_and_512_mb(name: str, tmp_path: Path) -> None:
    _assert_is_bounded("check", written(name, tmp_path))


@pytest.mark.each_run("tags_many")
@pytest.mark.parametrize("name", REPAIRED)
def test_a_small_wheel_is_repaired_within_seconds_and_512_mb(name: str, tmp_path: Path) -> None:
    _assert_is_bounded("repair", written(name, tmp_path))


@pytest.mark.large
def test_sources_of_nested_functions_are_read_twice_within_seconds(tmp_path: Path) -> None:
    _assert_is_bounded("diff", written("source_nested_many", tmp_path))


def _assert_is_bounded(command: str, path: Path) -> None:
    assert path.stat().st_size < 1_000_000

    def seconds() -> float:
        spent = cost(path, command, most=300)
        assert spent.code in {0, 1, 2}, spent.output[-2000:]
        assert "internal error" not in spent.output
        assert "Traceback" not in spent.output
        assert spent.memory < MEMORY
        return spent.seconds

    assert spends_at_most(NOISE * SECONDS, seconds)


@pytest.mark.each_run("strings_*", "record_*", "tags_*")
@pytest.mark.parametrize(
    ("name", "what", "where"),
    [
        ("strings_undefined", "memory", "the undefined symbols of `a.so`"),
        ("sections_many", "work", "the section headers of `a.so`"),
        ("needed_x_rpath", "work", "the libraries that it loads"),
        ("record_of_missing", "memory", "the wrong rows of `demo-1.0.dist-info/RECORD`"),
        ("tags_many", "work", "the tags of `demo-1.0.dist-info/WHEEL`"),
        ("copies_of_one_soname", "work", "the objects of `p2310/liba.so`"),
    ],
)
def test_a_refusal_names_the_wheel_and_what_was_too_much_where(
    name: str, what: str, where: str, tmp_path: Path
) -> None:
    path = written(name, tmp_path)
    error = check(path, Settings()).error
    assert isinstance(error, BadWheelError)
    assert error.message == (f"`{path.name}` exceeds the {what} limit for its size: {where}")
    assert error.hint


def test_equal_rows_of_record_are_one_problem(tmp_path: Path) -> None:
    path = tmp_path / NAME
    path.write_bytes(wheel({f"{INFO}/RECORD": "a,,\n" * 500}))
    read = check(path, Settings()).wheel
    assert read is not None
    assert len([p for p in read.record_problems if p.member == "a"]) == 2


@pytest.mark.large
def test_a_chain_of_libraries_with_inherited_search_paths_is_judged(tmp_path: Path) -> None:
    """Each of its objects loads all that follow: as real suites of libraries do."""
    path = tmp_path / NAME
    files = {
        f"p/l{n}.so": library([f"l{n + 1}.so"], soname=f"l{n}.so", rpath=f"$ORIGIN:$ORIGIN/{n}")
        for n in range(200)
    }
    path.write_bytes(wheel(files))
    report = check(path, Settings())
    assert report.error is None
    assert report.findings
