"""Matrices of cases: those that differ in kind are tried in each run, all with `--large`."""

from collections.abc import Callable, Iterable
from typing import Any, TypeVar

import pytest

A = TypeVar("A")
B = TypeVar("B")


def some(cases: Iterable[A], each_run: Callable[[A], bool]) -> list[Any]:
    """Return `cases` as parameters; `each_run` tells which are not `large`."""
    return [pytest.param(case, marks=() if each_run(case) else pytest.mark.large) for case in cases]


def crossed(rows: Iterable[A], columns: Iterable[B], each_run: Callable[[A, B], bool]) -> list[Any]:
    """Return each row with each column, as `some` returns cases."""
    columns = list(columns)
    return [
        pytest.param(row, column, marks=() if each_run(row, column) else pytest.mark.large)
        for row in rows
        for column in columns
    ]
