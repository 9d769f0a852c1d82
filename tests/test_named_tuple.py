"""A named tuple is what one of `typing.NamedTuple` with the same fields is."""

import copy
import pickle
import typing
from collections.abc import Callable
from typing import Any

import pytest

from wheelfix.named_tuple import NamedTuple


class Value(NamedTuple):
    """A value."""

    name: str
    size: int = 3
    others: tuple[int, ...] = ()

    @property
    def double(self) -> int:
        return 2 * self.size

    def __str__(self) -> str:
        return self.name


class Judge(typing.NamedTuple):
    """A value."""

    name: str
    size: int = 3
    others: tuple[int, ...] = ()

    @property
    def double(self) -> int:
        return 2 * self.size

    def __str__(self) -> str:
        return self.name


ANSWERS: dict[str, Callable[[Any], object]] = {
    "by place": lambda cls: cls("a", 1, (2,)),
    "by name": lambda cls: cls(others=(2,), name="a"),
    "as a tuple": lambda cls: (*cls("a"), cls("a") == ("a", 3, ()), hash(cls("a"))),
    "fields": lambda cls: (cls._fields, cls._field_defaults, cls.__match_args__),
    "changed": lambda cls: (cls("a")._replace(size=4), cls("a")._replace(name="b").double),
    "made": lambda cls: cls._make(iter(("a", 1, ()))),
    "as a dictionary": lambda cls: cls("a")._asdict(),
    "shown": lambda cls: (repr(cls("a")).partition("(")[2], str(cls("a")), cls.__doc__),
    "copied": lambda cls: (copy.copy(cls("a")), copy.deepcopy(cls("a"))),
    "without a dictionary": lambda cls: hasattr(cls("a"), "__dict__"),
}
REFUSED: dict[str, Callable[[Any], object]] = {
    "too few": lambda cls: cls(),
    "too many": lambda cls: cls("a", 1, (), 2),
    "an unknown name": lambda cls: cls("a", weight=1),
    "a name twice": lambda cls: cls("a", name="b"),
    "an assignment": lambda cls: setattr(cls("a"), "size", 4),
    "a new attribute": lambda cls: setattr(cls("a"), "weight", 4),
}


@pytest.mark.parametrize("asked", ANSWERS)
def test_it_answers_as_the_one_of_typing(asked: str) -> None:
    assert ANSWERS[asked](Value) == ANSWERS[asked](Judge)


@pytest.mark.parametrize("asked", REFUSED)
def test_it_refuses_what_the_one_of_typing_refuses(asked: str) -> None:
    with pytest.raises((TypeError, AttributeError)) as of_judge:
        REFUSED[asked](Judge)
    with pytest.raises(of_judge.type):
        REFUSED[asked](Value)


def test_an_unknown_field_cannot_be_changed() -> None:
    with pytest.raises(TypeError, match="weight"):
        Value("a")._replace(weight=1)  # type: ignore[call-arg]  # pyright: ignore[reportCallIssue]


@pytest.mark.parametrize("protocol", range(pickle.HIGHEST_PROTOCOL + 1))
def test_it_can_be_sent_to_another_process(protocol: int) -> None:
    sent = pickle.loads(pickle.dumps(Value("a"), protocol))  # noqa: S301 - our own
    assert (sent, type(sent)) == (Value("a"), Value)
