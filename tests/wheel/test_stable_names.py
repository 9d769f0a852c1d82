"""What of a member's name is the same in every build and release."""

import pytest

from wheelfix.wheel.stable_names import stable_name


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
