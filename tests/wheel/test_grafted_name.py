"""The names of grafted libraries."""

import pytest

from wheelfix.wheel.grafted_name import original_name, remove_hash, stable_name


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


@pytest.mark.parametrize(
    ("member", "stable"),
    [
        ("demo.libs/libfoo-1a2b3c4d.so.1", "demo.libs/libfoo.so.1"),
        ("Demo_Project-1.0.dist-info/RECORD", "*.dist-info/RECORD"),
        ("demo-1.0.data/data/lib/libfoo.so", "*.data/data/lib/libfoo.so"),
        ("demo-1.0.data", "*.data"),
        ("demo/vendored-1.0.dist-info/RECORD", "demo/vendored-1.0.dist-info/RECORD"),
        ("demo.dist-info/RECORD", "demo.dist-info/RECORD"),
        ("libfoo-1a2b3c4d.so", "libfoo.so"),
        ("", ""),
    ],
)
def test_a_stable_name_has_neither_versions_nor_hashes(member: str, stable: str) -> None:
    assert stable_name(member) == stable
