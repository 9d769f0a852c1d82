"""What was probably meant by a pattern that matches no library."""

from fnmatch import fnmatchcase

import pytest

from wheelfix.analysis.pattern_suggestions import common_patterns, suggest_pattern


@pytest.mark.parametrize(
    ("pattern", "better"),
    [
        ("libcublas.so", "libcublas.so*"),
        ("libcublas", "libcublas*"),
        ("libcublas*.so", "libcublas*.so*"),
        ("cublas.so", "libcublas.so*"),
        ("libcublas.so.11", "libcublas.so*"),
        ("libcublass.so.12", "libcublas.so.12"),
        ("libcubla.so.12", "libcublas.so.12"),
        ("libcurand.so.*", None),
        ("libcublas.so.*", None),
        ("*", None),
        ("/opt/*", None),
    ],
)
def test_the_pattern_that_was_probably_meant_is_suggested(pattern: str, better: str | None) -> None:
    found = suggest_pattern(pattern, ["libcublas.so.12", "libm.so.6"])
    assert found == (None if better is None else (better, ("libcublas.so.12",)))


def test_a_different_library_of_a_similar_name_is_not_suggested() -> None:
    assert suggest_pattern("libcudart.so.12", ["libcuda.so.1"]) is None


def test_few_patterns_match_many_names_and_no_other() -> None:
    names = ["libQt6Core.so.6", "libQt6Gui.so.6", "libicu.so.1", "libssl.so", "libssl-a[1].so"]
    for others, patterns in (
        ([], ["libQt6*", "libicu.so.1", "libssl*"]),
        (["libssl.so.3", "libQt5.so"], ["libQt6*", "libicu.so.1", "libssl-a[[]1].so", "libssl.so"]),
    ):
        assert common_patterns(names, others) == patterns
        assert all(any(fnmatchcase(name, glob) for glob in patterns) for name in names)
        assert not any(fnmatchcase(name, glob) for glob in patterns for name in others)
