"""One case, judged: our own error or none, in time and in little memory."""

import random
import signal
from functools import cache
from pathlib import Path

from tests.oracles.fuzzing.damage import damaged
from tests.oracles.fuzzing.targets import TARGETS
from tests.support.effort import TRIES, slowness
from wheelfix.errors import WheelfixError

SECONDS = 2
"""Of the processor, for one case: other work on the machine does not count."""

# ruff: noqa: S311 -- dice need no secrecy


MEMORY = 256 << 20


CORPUS = Path(__file__).parents[2] / "fixtures" / "fuzz"


class CaseError(Exception):
    """A case that went wrong, with its input."""

    def __init__(self, data: bytes, cause: BaseException) -> None:
        super().__init__(f"{type(cause).__name__}: {cause}")
        self.data = data


def tried(target: str, data: bytes) -> str:
    """Return in which of our words `data` is refused, "" if it is not.

    Raises `CaseError` for all other ways to end, too much time and memory among them. Too much
    time is what a case takes again and again, of seconds of a machine that does nothing else.
    """
    for number in range(1, TRIES + 1):
        try:
            return _tried(target, data, SECONDS if number == 1 else SECONDS * slowness())
        except CaseError as error:
            if number == TRIES or not isinstance(error.__cause__, TimeoutError):
                raise
    raise AssertionError


def _tried(target: str, data: bytes, seconds: float) -> str:
    signal.signal(signal.SIGPROF, _late)
    signal.setitimer(signal.ITIMER_PROF, seconds)
    try:
        TARGETS[target].attempt(data)
    except WheelfixError as error:
        return error.message
    except BaseException as error:
        raise CaseError(data, error) from error
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
    return ""


def _late(_number: int, _frame: object) -> None:
    raise TimeoutError(f"more than {SECONDS} seconds")


@cache
def corpus(target: str) -> tuple[bytes, ...]:
    """Return the cases of a target that are kept."""
    return tuple(path.read_bytes() for path in sorted((CORPUS / target).glob("*")))


def case(target: str, number: int) -> bytes:
    """Return one case: new, or a damaged one of those that are kept."""
    dice = random.Random(f"{target} {number}")
    kept = corpus(target)
    if kept and dice.random() < 0.3:
        return damaged(dice.choice(kept), dice)
    return TARGETS[target].make(dice)
