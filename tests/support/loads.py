"""Loads in the model, each call with a budget of its own."""

from collections.abc import Iterable

from wheelfix.budget import Budget
from wheelfix.loader import loading
from wheelfix.loader.load_values import Dlopen, Environment, Load


def load(root: str, environment: Environment) -> Load:
    """Load `root` in a new process."""
    return loading.load(root, environment, Budget.of_files())


def load_each(roots: Iterable[str], environment: Environment) -> tuple[Load, ...]:
    """Load each of `roots` in a new process of its own."""
    return loading.load_each(roots, environment, Budget.of_files())


def load_all(roots: Iterable[str | Dlopen], environment: Environment) -> tuple[Load, ...]:
    """Open `roots` one after the other in one process."""
    return loading.load_all(roots, environment, Budget.of_files())
