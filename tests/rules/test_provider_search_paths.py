"""Search paths that lead to providers."""

from dataclasses import replace
from typing import Any

import pytest

from tests.support.providers import BLAS, DEPENDENT, PROVIDER_RULES, asked
from tests.support.values import apply_fixes, elf, findings, wheel
from wheelfix.rules import unused_providers as rules
from wheelfix.rules.findings import Severity
from wheelfix.rules.provider_search_paths import provider_beside, provider_not_searched
from wheelfix.rules.registry import RULES
from wheelfix.rules.search_paths import dead_entry, escaping_entry
from wheelfix.settings import DataLibraries, ProviderSetting, Settings
from wheelfix.wheel.model import Wheel


def dependent_on_blas(member: str = DEPENDENT, **fields: Any) -> Wheel:
    return wheel({member: elf("libcublas.so.12", **fields)}, metadata=asked("nvidia-cublas-cu12"))


@pytest.mark.parametrize(
    ("member", "entry"),
    [
        ("demo/_core.so", "$ORIGIN/../nvidia/cublas/lib"),
        ("_core.so", "$ORIGIN/nvidia/cublas/lib"),
        ("demo/sub/_core.so", "$ORIGIN/../../nvidia/cublas/lib"),
        ("demo-1.0.data/platlib/demo/_core.so", "$ORIGIN/../nvidia/cublas/lib"),
        ("demo.libs/libours-1a2b3c4d.so.1", "$ORIGIN/../nvidia/cublas/lib"),
    ],
)
def test_each_object_gets_the_entry_to_the_provider_and_keeps_it(member: str, entry: str) -> None:
    subject = dependent_on_blas(member)
    (found,) = findings(provider_not_searched, subject, provider=(BLAS,))
    assert (found.member, found.severity) == (member, Severity.ERROR)
    settings = Settings(provider=(BLAS,))
    after, _ = apply_fixes(subject, RULES, settings)
    assert after.elfs[member].rpath == entry
    again, steps = apply_fixes(after, RULES, settings)
    assert (again, steps) == (after, ())


def test_an_entry_to_a_provider_is_neither_dead_nor_escaping_though_the_wheel_lacks_it() -> None:
    subject = dependent_on_blas("_core.so", rpath="$ORIGIN/nvidia/cublas/lib")
    assert findings(dead_entry, replace(subject, metadata=asked()))
    assert not findings(dead_entry, subject, provider=(BLAS,))
    outside = ProviderSetting(
        requirement="far", libraries=("libfar.so",), directory="lib", scheme="data"
    )
    far = wheel({"far.so": elf("libfar.so", rpath="$ORIGIN/../../../../../lib")})
    assert findings(escaping_entry, far, provider=(outside,))


def test_an_entry_that_is_there_in_another_spelling_is_enough() -> None:
    subject = dependent_on_blas(rpath="${ORIGIN}/../nvidia/./cublas/lib/")
    assert not findings(provider_not_searched, subject, provider=(BLAS,))


def test_a_library_that_the_wheel_ships_itself_is_not_the_providers() -> None:
    subject = wheel({DEPENDENT: elf("libcublas.so.12"), "demo/libcublas.so.12": elf()})
    for rule in PROVIDER_RULES:
        assert rule is rules.provider_unused or not findings(rule, subject, provider=(BLAS,))


def test_a_program_needs_an_entry_for_each_scheme_and_gets_them_when_asked() -> None:
    program = "demo-1.0.data/scripts/demo"
    subject = dependent_on_blas(program, interpreter="/lib64/ld-linux-x86-64.so.2")
    (found,) = findings(provider_not_searched, subject, provider=(BLAS,))
    assert found.fix is None
    settings = Settings(provider=(BLAS,), data_libraries=DataLibraries.SEARCH)
    after, _ = apply_fixes(subject, RULES, settings)
    entries = after.elfs[program].entries
    assert "$ORIGIN/../lib/python3.11/site-packages/nvidia/cublas/lib" in entries
    assert "$ORIGIN/../lib/python3.11/dist-packages/nvidia/cublas/lib" in entries


def test_a_provider_of_the_data_scheme_is_reached_wherever_that_lands() -> None:
    mkl = ProviderSetting(
        requirement="mkl", libraries=("libmkl_*",), directory="lib", scheme="data"
    )
    subject = wheel({DEPENDENT: elf("libmkl_rt.so.3")})
    settings = Settings(provider=(mkl,), data_libraries=DataLibraries.SEARCH)
    after, _ = apply_fixes(subject, RULES, settings)
    assert "$ORIGIN/../../.." in after.elfs[DEPENDENT].entries  # <prefix>/lib above site-packages


def test_a_provider_that_calls_itself_pure_is_reached_where_lib_and_lib64_are_two() -> None:
    pure = ProviderSetting(
        requirement="p", libraries=("libcublas.so.*",), directory="p/lib", scheme="purelib"
    )
    settings = Settings(provider=(pure,), data_libraries=DataLibraries.SEARCH)
    after, _ = apply_fixes(dependent_on_blas(), RULES, settings)
    assert after.elfs[DEPENDENT].entries == (
        "$ORIGIN/../p/lib",
        "$ORIGIN/../../../../lib/python3.11/site-packages/p/lib",
    )


def test_a_note_lists_the_installations_that_are_not_covered() -> None:
    pure = ProviderSetting(
        requirement="p", libraries=("libcublas.so.*",), directory="p", scheme="purelib"
    )
    (found,) = findings(provider_beside, dependent_on_blas(), provider=(pure,))
    assert "editable" in found.notes[0]
    assert "lib64" in found.notes[1]
    (found,) = findings(provider_beside, dependent_on_blas(), provider=(BLAS,))
    assert len(found.notes) == 1
