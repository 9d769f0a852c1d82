"""Requirements on providers in METADATA."""

import pytest

from tests.support.providers import BLAS, DEPENDENT, asked
from tests.support.values import elf, findings, wheel
from wheelfix.rules import provider_requirements
from wheelfix.rules.findings import Severity
from wheelfix.settings import Provider


def test_a_provider_that_is_not_required_is_an_error_with_the_line_to_add() -> None:
    subject = wheel({DEPENDENT: elf("libcublas.so.12")}, metadata=asked("numpy"))
    (found,) = findings(provider_requirements.provider_not_required, subject, provider=(BLAS,))
    assert found.severity is Severity.ERROR
    assert "`Requires-Dist: nvidia-cublas-cu12>=12.4`" in (found.hint or "")


@pytest.mark.parametrize(
    "requirement", ["nvidia-cublas-cu12", "NVIDIA_cublas.cu12 >=12.4 ; sys_platform == 'linux'"]
)
def test_a_provider_that_is_required_in_any_spelling_is_no_finding(requirement: str) -> None:
    subject = wheel({DEPENDENT: elf("libcublas.so.12")}, metadata=asked(requirement))
    assert not findings(provider_requirements.provider_not_required, subject, provider=(BLAS,))


def test_a_provider_of_an_extra_stays_optional() -> None:
    subject = wheel(
        {DEPENDENT: elf("libcublas.so.12")}, metadata=asked("nvidia-cublas-cu12; extra == 'gpu'")
    )
    (found,) = findings(provider_requirements.provider_not_required, subject, provider=(BLAS,))
    assert found.severity is Severity.INFO


@pytest.mark.parametrize(
    ("required", "known", "version", "loose"),
    [
        ("p", "p>=1", "", True),
        ("p", "p", "", True),
        ("p>=1", "p", "", False),
        ("p>=1", "p>=1", "", False),
        ("p>=1.2", "p>=1", "", False),
        ("p>=0.9", "p>=1", "", True),
        ("p>=1", "p>=1,<2", "", True),
        ("p>=1,<2", "p>=1,<3", "", False),
        ("p~=1.4", "p>=1.4,<2", "", False),
        ("p==1.*", "p>=1.4", "", True),
        ("p>=2", "p", "1.5", True),
        ("p>=1", "p", "1.5", False),
    ],
)
def test_metadata_must_not_allow_more_than_the_provider(
    required: str, known: str, version: str, *, loose: bool
) -> None:
    provider = Provider(requirement=known, libraries=("libp.so",), directory="p", version=version)
    subject = wheel({DEPENDENT: elf("libp.so")}, metadata=asked(required))
    found = findings(provider_requirements.provider_loosely_required, subject, provider=(provider,))
    assert bool(found) is loose
