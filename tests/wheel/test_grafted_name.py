"""The names of grafted libraries."""

import pytest

from wheelfix.wheel.grafted_name import original_name, remove_hash


@pytest.mark.parametrize(
    ("name", "original"),
    [
        ("libfoo-1a2b3c4d.so", "libfoo.so"),
        ("libfoo-1a2b3c4d.so.1.2", "libfoo.so.1.2"),
        ("libgfortran-040039e1-0352e75f.so.5", "libgfortran-040039e1.so.5"),
        ("libfoo-1a2b3c4d.1.so", "libfoo.1.so"),
    ],
)
def test_the_hash_of_a_graft_is_removed(name: str, original: str) -> None:
    assert remove_hash(name) == original
    assert original_name(name) == original


@pytest.mark.parametrize(
    "name",
    [
        "libfoo.so.1",
        "libfoo-1a2b3c4.so",
        "libfoo-1A2B3C4D.so",
        "libfoo-1a2b3c4d",
        "libfoo.1-1a2b3c4d.so",
        "data-20240101.json",
        "pkg.libs/libfoo-1a2b3c4d.so",
        "",
    ],
)
def test_other_names_stay(name: str) -> None:
    assert remove_hash(name) is None
    assert original_name(name) == name
