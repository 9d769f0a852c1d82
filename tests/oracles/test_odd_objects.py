"""Some hundreds of odd but valid objects, judged by the real loader."""

import platform
import shutil

import pytest

from tests.oracles.odd_objects.oddities import compare

pytestmark = pytest.mark.skipif(
    platform.machine() != "x86_64" or shutil.which("gcc") is None, reason="not an x86-64 compiler"
)


def test_what_the_loader_loads_is_read_edited_and_loaded_again() -> None:
    result = compare(0, 40, tools=False)
    assert [f"{case.label}: {text}" for case, text in result.faults] == []
    assert result.loaded > 28
    assert result.edited == result.loaded


@pytest.mark.large
def test_objects_of_patchelf_and_binutils_as_well() -> None:
    result = compare(0, 20, tools=True)
    assert [f"{case.label}: {text}" for case, text in result.faults] == []
    assert result.edited == result.loaded > 10
