"""Configured providers that are unused."""

import pytest

from tests.support.providers import BLAS, DEPENDENT
from tests.support.values import elf, findings, wheel
from wheelfix.rules import unused_providers as rules
from wheelfix.rules.findings import Severity
from wheelfix.settings import ProviderSetting


def test_an_unused_provider_is_a_warning_if_an_asterisk_is_missing() -> None:
    subject = wheel({DEPENDENT: elf("libcublas.so.12")})
    unused = ProviderSetting(requirement="x", libraries=("libx.so.1",), directory="x")
    (found,) = findings(rules.provider_unused, subject, provider=(unused,))
    assert found.severity is Severity.NOTE
    bare = ProviderSetting(requirement="b", libraries=("libcublas.so",), directory="b")
    (found,) = findings(rules.provider_unused, subject, provider=(bare,))
    assert (found.severity, found.hint) == (Severity.WARNING, "did you mean `libcublas.so*`?")
    assert not findings(rules.provider_unused, subject, provider=(BLAS,))


@pytest.mark.parametrize(
    ("needed", "pattern", "excluded"),
    [
        ("libcuda.so.1", "libcudart.so.12", ()),
        ("libcublas.so.12", "libcublasLt.so.12", ()),
        ("libcublas.so.12", "libcublas.so.11", ("libcublas.so.*",)),
    ],
)
def test_a_different_or_excluded_library_was_not_meant(
    needed: str, pattern: str, excluded: tuple[str, ...]
) -> None:
    """libcudart is the runtime, libcuda the driver: no letter of either is wrong."""
    unused = ProviderSetting(requirement="b", libraries=(pattern,), directory="b")
    subject = wheel({DEPENDENT: elf(needed)})
    (found,) = findings(rules.provider_unused, subject, provider=(unused,), exclude=excluded)
    assert (found.severity, found.hint, found.notes) == (Severity.NOTE, None, ())


def test_a_pattern_that_lacks_its_asterisk_beside_one_that_serves_is_reported() -> None:
    subject = wheel({DEPENDENT: elf("libcublas.so.12", "libcublasLt.so.12")})
    half = ProviderSetting(
        requirement="b", libraries=("libcublas.so.*", "libcublasLt.so"), directory="b"
    )
    (found,) = findings(rules.provider_unused, subject, provider=(half,))
    assert (found.severity, found.hint) == (Severity.WARNING, "did you mean `libcublasLt.so*`?")
    assert "matches no library" in found.message
    grafted = wheel({DEPENDENT: elf("libcublas.so.12", "libcublasLt-1a2b3c4d.so.12.4")})
    (found,) = findings(rules.provider_unused, grafted, provider=(half,))
    assert "`libcublasLt.so` does not match `libcublasLt.so.12.4`" in found.notes
    whole = ProviderSetting(
        requirement="b", libraries=("libcublas*.so.*", "libno.so"), directory="b"
    )
    assert not findings(rules.provider_unused, subject, provider=(whole,))
