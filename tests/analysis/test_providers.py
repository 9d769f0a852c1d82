"""Well-known providers, drivers, and patterns of library names."""

import pytest

from wheelfix.analysis.providers import never_bundled, presets, suggest_pattern
from wheelfix.settings import name_of


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


def test_other_libraries_may_be_bundled() -> None:
    for name in (
        "libcudart.so.12",
        "libcublas.so.12",
        "libGLU.so.1",
        "libdrm.so.2",
        "libX11alike.so",
        "libxcb.so.1",
    ):
        assert never_bundled(name) is None


def test_the_shipped_list_is_complete() -> None:
    assert {"nvidia-cublas-cu11", "nvidia-cublas-cu12", "nvidia-cublas"} <= presets().keys()
    for name, providers in presets().items():
        for provider in providers:
            assert name_of(provider.requirement) == name
            assert provider.libraries
            assert provider.directory
            assert provider.source.startswith(f"as of {name} ")
            assert provider.scheme in {"platlib", "purelib", "data"}
