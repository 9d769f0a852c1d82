"""Frozen values: what they share with dataclasses, and what they cost."""

import dataclasses
import pickle
import subprocess
import sys
from collections.abc import Callable, Mapping

import pytest

from wheelfix import values
from wheelfix.values import dataclass, field, replace


@dataclass(frozen=True, slots=True, kw_only=True)
class Named:
    one: int
    two: tuple[str, ...] = ()
    three: Mapping[str, int] = field(default_factory=dict[str, int])
    look: Callable[[], int] | None = field(default=None, compare=False, repr=False)


@dataclass(frozen=True)
class Placed:
    first: int
    second: str = "x"


@dataclass(frozen=True, kw_only=True)
class More(Placed):
    third: int = 3


@dataclasses.dataclass(frozen=True, kw_only=True)
class Real:
    """What `Named` is, made by `dataclasses`."""

    one: int
    two: tuple[str, ...] = ()
    three: Mapping[str, int] = dataclasses.field(default_factory=dict[str, int])
    look: Callable[[], int] | None = dataclasses.field(default=None, compare=False, repr=False)


def test_it_is_not_the_one_of_the_standard_library() -> None:
    assert values.dataclass is not dataclasses.dataclass
    assert not hasattr(Named, "__dataclass_params__")


def test_values_of_the_same_content_are_equal_and_hash_alike() -> None:
    assert Placed(1) == Placed(first=1, second="x") != Placed(1, "y")
    assert hash(Placed(1)) == hash(Placed(1, "x"))
    assert Placed(1) != More(first=1)
    assert Named(one=1, look=lambda: 1) == Named(one=1)
    assert Placed(1).__eq__(1) is NotImplemented


def test_a_value_with_a_dictionary_cannot_be_hashed() -> None:
    with pytest.raises(TypeError, match="unhashable"):
        hash(Named(one=1))


def test_it_shows_what_a_dataclass_shows() -> None:
    said = repr(Real(one=1, two=("a",), look=lambda: 1))
    assert repr(Named(one=1, two=("a",), look=lambda: 1)) == said.replace("Real", "Named")


def test_defaults_are_made_anew_and_inherited() -> None:
    assert Named(one=1).three is not Named(one=1).three
    assert (More(first=1).second, More(first=1).third) == ("x", 3)


@pytest.mark.parametrize(
    ("kind", "places", "names"),
    [
        (Named, (), {}),
        (Named, (), {"one": 1, "four": 4}),
        (Named, (1,), {}),
        (Placed, (1, "x", 3), {}),
        (More, (1, "x", 3), {}),
    ],
)
def test_what_does_not_fit_is_refused(
    kind: Callable[..., object], places: tuple[object, ...], names: dict[str, object]
) -> None:
    with pytest.raises(TypeError):
        kind(*places, **names)


def test_a_value_stays_as_it_is() -> None:
    value = Placed(1)
    with pytest.raises(AttributeError, match="frozen"):
        value.first = 2  # type: ignore[misc]
    with pytest.raises(AttributeError, match="frozen"):
        delattr(value, "first")
    with pytest.raises(AttributeError, match="frozen"):
        setattr(value, "other", 2)  # noqa: B010 - no type checker lets it pass otherwise
    assert value == Placed(1)


def test_other_content_makes_another_value() -> None:
    value = More(first=1)
    assert replace(value, third=4) == More(first=1, third=4)
    assert value.third == 3
    with pytest.raises(TypeError, match="fourth"):
        replace(value, fourth=4)  # type: ignore[call-arg]


def test_dataclasses_takes_it_for_its_own() -> None:
    value = Named(one=1, two=("a",))
    assert dataclasses.is_dataclass(value)
    assert dataclasses.replace(value, one=2) == Named(one=2, two=("a",))
    assert dataclasses.asdict(value) == dataclasses.asdict(Real(one=1, two=("a",)))
    ours, theirs = dataclasses.fields(Named), dataclasses.fields(Real)
    assert [repr(each) for each in ours] == [repr(each) for each in theirs]
    assert [each.name for each in dataclasses.fields(More)] == ["first", "second", "third"]


def test_values_go_to_other_processes() -> None:
    there_and_back = pickle.loads(pickle.dumps(Placed(1, "y")))  # noqa: S301 - our own
    assert there_and_back == Placed(1, "y")


def test_only_frozen_ones_are_made() -> None:
    with pytest.raises(TypeError, match="frozen"):
        dataclass(frozen=False)


def test_patterns_take_them_apart() -> None:
    match Placed(1, "y"):
        case Placed(first, "y"):
            assert first == 1
        case _:
            pytest.fail("it does not match")


def test_the_standard_module_is_not_imported_for_them() -> None:
    program = "import sys, wheelfix.values; print({'dataclasses', 'inspect'} & {*sys.modules})"
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    assert done.stdout == "set()\n"
