"""What the help of each command begins with and ends with: question, options, examples."""

from functools import cache
from typing import Any

from wheelfix.named_tuple import NamedTuple
from wheelfix.system import deferred
from wheelfix.system.packaged_text import read_text


class Example(NamedTuple):
    """A command line, and what it is for."""

    command: str
    purpose: str


def examples_of(command: str) -> tuple[Example, ...]:
    """Return the examples of a command; those of the program by `wheelfix`."""
    return tuple(Example(*example) for example in _table()["examples"].get(command, ()))


def question_of(command: str) -> str:
    """Return the question that a command answers, which its help begins with."""
    return str(_table()["questions"].get(command, ""))


def most_used_options(command: str) -> tuple[str, ...]:
    """Return the options that nine of ten users need; empty for a command with few."""
    return tuple(_table()["most-used"].get(command, ()))


@cache
def _table() -> dict[str, Any]:
    return deferred.tomllib.loads(read_text("wheelfix.cli", "help_content.toml"))
