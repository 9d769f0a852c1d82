"""Promises of patterns: they do what those of `re` do."""

import re

import pytest

from wheelfix.python_sources.opening_calls import WORDS, may_open
from wheelfix.system.lazy_patterns import lazy_pattern


def test_a_lazy_pattern_answers_as_a_compiled_one() -> None:
    ours, theirs = lazy_pattern(r"(?P<word>b+)", re.IGNORECASE), re.compile("b+", re.IGNORECASE)
    for _ in range(2):
        match = ours.search("aBba")
        assert match is not None
        assert match["word"] == "Bb"
        assert ours.sub("-", "aBbab") == theirs.sub("-", "aBbab")
        assert ours.groups == 1


def test_a_wrong_pattern_raises_the_error_of_re() -> None:
    with pytest.raises(re.error):
        lazy_pattern("(").search("a")


@pytest.mark.parametrize("word", WORDS)
def test_a_source_with_the_word_of_a_call_may_open_libraries(word: bytes) -> None:
    assert may_open(b"x = 1\n# " + word.upper() + b"\n")
