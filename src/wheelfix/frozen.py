"""Frozen dataclasses whose class costs little.

`@dataclass(frozen=True)` compiles six methods while its module is imported, 0.3 ms for each class:
a sixth of the time of a small wheel. Here no method is compiled; in return it takes some
microseconds more to make a value. The fields are those of `dataclasses`, whose functions
(`fields`, `replace`, `asdict`) take such values. Where there are very many, they are `NamedTuple`s.
"""

from collections.abc import Callable
from dataclasses import MISSING, FrozenInstanceError, dataclass, field, fields
from typing import TYPE_CHECKING, Any, ClassVar, NoReturn, TypeVar, dataclass_transform, overload

if TYPE_CHECKING:
    from dataclasses import Field

Class = TypeVar("Class", bound=type)


@overload
def frozen(cls: Class, /) -> Class: ...


@overload
def frozen(*, eq: bool = ..., kw_only: bool = ...) -> Callable[[Class], Class]: ...


@dataclass_transform(frozen_default=True, kw_only_default=True, field_specifiers=(field,))
def frozen(
    cls: Class | None = None, /, *, eq: bool = True, kw_only: bool = True
) -> Class | Callable[[Class], Class]:
    """Make a frozen dataclass of a class. Without `eq` its values are compared by identity."""

    def complete(cls: Class) -> Class:
        dataclass(init=False, repr=False, eq=False, kw_only=kw_only)(cls)
        methods = {**vars(_Methods), "__init__": _init(cls)}
        for name in _ALWAYS | _COMPARISON if eq else _ALWAYS:
            if name not in vars(cls):
                setattr(cls, name, methods[name])
        return cls

    return complete if cls is None else complete(cls)


def _init(cls: Any) -> Callable[..., None]:  # noqa: ANN401 - a dataclass, which has no type
    """Return the `__init__` of a class, which raises `TypeError` as a compiled one does."""
    names = {each.name for each in fields(cls)}
    defaults = {each.name: each.default for each in fields(cls) if each.default is not MISSING}
    makers = {
        each.name: each.default_factory
        for each in fields(cls)
        if each.default_factory is not MISSING
    }

    def init(self: object, *arguments: object, **named: object) -> None:
        given = dict(zip(cls.__match_args__, arguments, strict=False), **named)
        values = {**defaults, **given}
        for name in makers.keys() - given.keys():
            values[name] = makers[name]()
        if values.keys() != names or len(given) != len(arguments) + len(named):
            raise TypeError(f"{cls.__qualname__} has the fields {sorted(names)}: {sorted(given)}")
        for name, each in values.items():
            object.__setattr__(self, name, each)

    return init


class _Methods:
    """What is the same for all classes."""

    __dataclass_fields__: "ClassVar[dict[str, Field[Any]]]"

    def __repr__(self) -> str:
        shown = (f"{each.name}={getattr(self, each.name)!r}" for each in fields(self) if each.repr)
        return f"{type(self).__qualname__}({', '.join(shown)})"

    def __setattr__(self, name: str, _value: object) -> NoReturn:
        raise FrozenInstanceError(f"cannot assign to field {name!r}")

    def __delattr__(self, name: str) -> NoReturn:
        raise FrozenInstanceError(f"cannot delete field {name!r}")

    def __eq__(self, other: object) -> bool:
        if type(self) is not type(other):
            return NotImplemented
        return _compared(self) == _compared(other)

    def __hash__(self) -> int:
        return hash(_compared(self))


def _compared(value: Any) -> tuple[object, ...]:  # noqa: ANN401 - of any frozen class
    return tuple(getattr(value, each.name) for each in fields(value) if each.compare)


_ALWAYS = {"__init__", "__repr__", "__setattr__", "__delattr__"}
_COMPARISON = {"__eq__", "__hash__"}
