"""A frozen class is what a frozen dataclass with the same fields is."""

import pickle
from collections.abc import Callable
from dataclasses import FrozenInstanceError, asdict, dataclass, field, fields, replace
from functools import cached_property
from typing import Any

import pytest

from wheelfix.frozen import frozen


@frozen
class Base:
    name: str
    others: dict[str, int] = field(default_factory=dict[str, int], compare=False)


@frozen
class Value(Base):
    size: int = 3
    hidden: str = field(default="", repr=False)

    @cached_property
    def double(self) -> int:
        return 2 * self.size


@frozen(kw_only=False, eq=False)
class Place:
    folder: str
    file: str = "x"


@dataclass(frozen=True, kw_only=True)
class JudgeBase:
    name: str
    others: dict[str, int] = field(default_factory=dict[str, int], compare=False)


@dataclass(frozen=True, kw_only=True)
class Judge(JudgeBase):
    size: int = 3
    hidden: str = field(default="", repr=False)


@dataclass(frozen=True, eq=False)
class JudgePlace:
    folder: str
    file: str = "x"


CALLS: dict[str, Callable[[Any, Any], object]] = {
    "all": lambda of, _: asdict(of(name="a", others={"b": 1}, size=2, hidden="s")),
    "defaults": lambda of, _: asdict(of(name="a")),
    "own default": lambda of, _: of(name="a").others is of(name="a").others,
    "shown": lambda of, _: repr(of(name="a", hidden="s")).partition("(")[2],
    "equal": lambda of, _: of(name="a") == of(name="a", others={"b": 1}),
    "different": lambda of, _: of(name="a") == of(name="b"),
    "other class": lambda of, place: of(name="a") == place("a"),
    "hashed": lambda of, _: hash(of(name="a")) == hash(of(name="a", others={"b": 1})),
    "replaced": lambda of, _: asdict(replace(of(name="a"), size=5)),
    "replaced wrongly": lambda of, _: replace(of(name="a"), sise=5),
    "missing": lambda of, _: of(),
    "unknown": lambda of, _: of(name="a", nome="b"),
    "positional": lambda of, _: of("a"),
    "set": lambda of, _: setattr(of(name="a"), "name", "b"),
    "deleted": lambda of, _: delattr(of(name="a"), "name"),
    "fields": lambda of, _: [each.name for each in fields(of)],
    "pickled": lambda of, _: asdict(pickle.loads(pickle.dumps(of(name="a", size=4)))),  # noqa: S301 - made here
    "places": lambda _, place: asdict(place("a", file="b")),
    "places by identity": lambda _, place: place("a") == place("a"),
    "twice": lambda _, place: place("a", folder="b"),
    "too many": lambda _, place: place("a", "b", "c"),
    "matched": lambda _, place: place.__match_args__,
}


def outcome(call: Callable[[Any, Any], object], *classes: object) -> object:
    try:
        return call(*classes)
    except (TypeError, FrozenInstanceError) as error:
        return type(error)


@pytest.mark.parametrize("call", CALLS)
def test_it_does_what_a_dataclass_does(call: str) -> None:
    assert outcome(CALLS[call], Value, Place) == outcome(CALLS[call], Judge, JudgePlace)


def test_a_cached_property_is_kept_beside_the_fields() -> None:
    value = Value(name="a")
    assert value.double == 6
    assert value == Value(name="a")
