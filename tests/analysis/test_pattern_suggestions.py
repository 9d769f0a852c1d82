"""What was probably meant by a pattern that matches no library."""

import pytest

from wheelfix.analysis.pattern_suggestions import suggest_pattern


@pytest.mark.parametrize(
    ("pattern", "better"),
    [
        ("libcublas.so", "libcublas.so*"),
        ("libcublas", "libcublas*"),
        ("libcublas*.so", "libcublas*.so*"),
        ("cublas.so", "libcublas.so*"),
        ("libcublas.so.11", "libcublas.so*"),
        ("libcublass.so.12", "libcublas.so.12"),
        ("libcurand.so.*", None),
        ("libcublas.so.*", None),
        ("*", None),
        ("/opt/*", None),
    ],
)
def test_the_pattern_that_was_probably_meant_is_suggested(pattern: str, better: str | None) -> None:
    found = suggest_pattern(pattern, ["libcublas.so.12", "libm.so.6"])
    assert found == (None if better is None else (better, ("libcublas.so.12",)))
