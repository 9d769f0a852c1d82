"""Who does the work, where one process is not enough."""

from collections.abc import Callable
from concurrent.futures import Executor
from typing import NamedTuple


class Crew(NamedTuple):
    """Who does the work."""

    start: Callable[[], Executor]
    """Return an executor; another one after that has broken."""
    at_once: int
    """How many calls it gets before one has ended: a few for each worker."""
    is_cancelling: bool = True
    """Whether calls are cancelled when nobody wants the rest. Not those of a pool of processes
    that is then killed: it stumbles over cancelled calls as it ends the others."""


def crew_of(executor: Executor, at_once: int = 64) -> Crew:
    """Return the crew of an executor that is there, and cannot be replaced."""
    return Crew(start=lambda: executor, at_once=at_once)
