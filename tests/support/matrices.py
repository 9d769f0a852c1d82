"""Matrices of cases: those that differ in kind are tried in each run, all with `--large`."""

from collections.abc import Callable, Iterable
from itertools import product
from typing import Any

import pytest


def crossed(*every: Iterable[Any], each_run: Callable[..., bool]) -> list[Any]:
    """Return the product of `every` as parameters; `each_run` tells which are not `large`."""
    return [
        pytest.param(*case, marks=() if each_run(*case) else pytest.mark.large)
        for case in product(*every)
    ]
