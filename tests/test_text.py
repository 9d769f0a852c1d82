"""Lists, counts and sizes as people read them."""

import pytest

from wheelfix.text import count, first_of, in_units, join_some, killed_by


@pytest.mark.parametrize(
    ("names", "most", "joined"),
    [
        ([], 5, ""),
        (["a"], 5, "`a`"),
        (["a", "b", "c"], 3, "`a`, `b`, `c`"),
        (["a", "b", "c"], 2, "`a`, `b`, `c`"),
        (["a", "b", "c", "d"], 2, "`a`, `b` and 2 more"),
        (["a", "b", "a", "b"], 2, "`a`, `b`"),
        (range(2000), 1, "`0` and 1,999 more"),
    ],
)
def test_some_names_are_listed_and_the_others_counted(
    names: list[str], most: int, joined: str
) -> None:
    assert join_some(names, most) == joined


@pytest.mark.parametrize(
    ("number", "noun", "words"),
    [
        (0, "file", "0 files"),
        (1, "library", "1 library"),
        (2, "library", "2 libraries"),
        (1234, "file", "1,234 files"),
        (0.5, "second", "0.5 seconds"),
    ],
)
def test_a_count_has_its_plural(number: float, noun: str, words: str) -> None:
    assert count(number, noun) == words


@pytest.mark.parametrize(
    ("size", "words"),
    [(0, "0 B"), (999, "999 B"), (999.5, "1 kB"), (1_234_567, "1.23 MB"), (5e12, "5e+03 GB")],
)
def test_a_size_has_a_decimal_unit(size: float, words: str) -> None:
    assert in_units(size) == words


def test_what_is_left_out_is_counted() -> None:
    assert first_of(["a", "b"], 2, ": -v") == ["a", "b"]
    assert first_of(["a", "b", "c", "d"], 2, ": -v") == ["a", "b", "and 2 more: -v"]


def test_signals_in_words() -> None:
    assert killed_by(11) == "killed by signal 11 (SIGSEGV)"
    assert killed_by(40) == "killed by signal 40"  # a real-time one, without a name
