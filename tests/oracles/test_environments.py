"""Bindings in random environments: what doctor predicts is what the loader binds."""

import os
from collections import Counter
from pathlib import Path

import pytest

from tests.oracles.environments.fidelity import LOADER, a_program, differences


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    if os.uname().machine != "x86_64" or not LOADER.exists():
        pytest.skip("the objects are written for x86-64 and glibc")
    return a_program(tmp_path_factory.mktemp("programs"))


def test_bindings_of_random_environments(program: Path, tmp_path: Path) -> None:
    counts = Counter[str]()
    for seed in range(10, 20):
        assert list(differences(seed, tmp_path / str(seed), program, counts)) == []
    assert counts["to other distributions"] > 20
    assert counts["failures"] > 1
