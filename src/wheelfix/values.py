"""Frozen dataclasses that are made in a twentieth of the time.

`dataclasses` compiles source of its own for each class, which takes 0.5 ms, and imports `inspect`:
a quarter of a short command. Here all classes share methods that look up what their fields are.
Type checkers see `dataclasses`, and its `fields`, `asdict` and `replace` take these values too.
"""

from collections.abc import Callable, Mapping
from operator import attrgetter
from typing import TYPE_CHECKING, Any, NamedTuple, NoReturn, TypeVar

__all__ = ["dataclass", "field", "replace"]

Value = TypeVar("Value")


class _Field(NamedTuple):
    """One field of a class, under the names that `dataclasses.field` has for what it says."""

    default: object = ...
    """The ellipsis where there is none."""
    default_factory: Callable[[], object] | None = None
    compare: bool = True
    repr: bool = True
    kw_only: bool = True
    type: object = None


class _Shape:
    """The fields of a class by name, and what its methods look up in them."""

    __slots__ = ("content", "defaults", "fields", "fresh", "positional", "shown")

    def __init__(self, fields: Mapping[str, _Field]) -> None:
        each = fields.items()
        self.fields = fields
        self.positional = tuple(name for name, of in each if not of.kw_only)
        self.defaults = {name: of.default for name, of in each if of.default is not ...}
        self.fresh = tuple((name, of.default_factory) for name, of in each if of.default_factory)
        self.shown = tuple(name for name, of in each if of.repr)
        self.content = attrgetter(*(name for name, of in each if of.compare))


class _Fields:
    """`__dataclass_fields__`, made when `dataclasses` asks a class for it."""

    def __get__(self, _: object, owner: "type[_Value]") -> object:
        from dataclasses import MISSING, field, make_dataclass  # noqa: PLC0415 - to be spared

        def described(each: _Field) -> Any:  # noqa: ANN401 - as dataclasses.field
            said: dict[str, Any] = {
                "default": MISSING if each.default is ... else each.default,
                "default_factory": each.default_factory or MISSING,
            }
            return field(compare=each.compare, repr=each.repr, kw_only=each.kw_only, **said)

        rows = [(name, each.type, described(each)) for name, each in owner.__shape__.fields.items()]
        fields: object = vars(make_dataclass(owner.__name__, rows))["__dataclass_fields__"]
        owner.__dataclass_fields__ = fields
        return fields


class _Value:
    """What each class gets."""

    __shape__: _Shape
    __dataclass_fields__: object = _Fields()

    def __init__(self, *given: object, **named: object) -> None:
        shape = self.__shape__
        content = {**shape.defaults, **dict(zip(shape.positional, given, strict=False)), **named}
        for name, make in shape.fresh:
            if name not in content:
                content[name] = make()
        if content.keys() != shape.fields.keys() or len(given) > len(shape.positional):
            wrong = sorted(content.keys() ^ shape.fields.keys()) or given
            raise TypeError(f"{type(self).__name__} lacks these, or does not have them: {wrong}")
        object.__setattr__(self, "__dict__", content)

    def __repr__(self) -> str:
        shown = (f"{name}={getattr(self, name)!r}" for name in self.__shape__.shown)
        return f"{type(self).__qualname__}({', '.join(shown)})"

    def __eq__(self, other: object) -> bool:
        if other.__class__ is not self.__class__:
            return NotImplemented
        content = self.__shape__.content
        return bool(content(self) == content(other))

    def __hash__(self) -> int:
        return hash(self.__shape__.content(self))

    def __setattr__(self, name: str, _: object) -> NoReturn:
        raise AttributeError(f"{type(self).__name__} is frozen: `{name}` stays")

    def __delattr__(self, name: str) -> NoReturn:
        raise AttributeError(f"{type(self).__name__} is frozen: `{name}` stays")


_SHARED = {
    name: vars(_Value)[name]
    for name in (
        *("__init__", "__repr__", "__eq__", "__hash__", "__setattr__", "__delattr__"),
        "__dataclass_fields__",
    )
}


def _dataclass(
    *, frozen: bool, slots: bool = False, kw_only: bool = False
) -> Callable[[type[Value]], type[Value]]:
    """Make a class one of values, which must be `frozen`; `slots` would save nothing."""
    del slots
    if not frozen:
        raise TypeError("values are frozen")

    def decorate(cls: type[Value]) -> type[Value]:
        shape = _Shape(_fields(cls, kw_only=kw_only))
        own = {"__shape__": shape, "__match_args__": shape.positional}
        for name, each in {**_SHARED, **own}.items():
            setattr(cls, name, each)
        return cls

    return decorate


def _fields(cls: type[object], *, kw_only: bool) -> Mapping[str, _Field]:
    """Return the fields of a class, those of the one that it extends first."""
    inherited: _Shape | None = getattr(cls, "__shape__", None)
    found = dict(inherited.fields) if inherited is not None else {}
    content = vars(cls)
    for name, kind in content.get("__annotations__", {}).items():
        said: object = content.get(name, ...)
        if isinstance(said, _Field):
            delattr(cls, name)
        described = said if isinstance(said, _Field) else _Field(default=said)
        found[name] = described._replace(kw_only=kw_only, type=kind)
    return found


def _replace(value: _Value, /, **changes: object) -> _Value:
    """Return `value` with other content in some fields."""
    kept = {name: getattr(value, name) for name in value.__shape__.fields}
    return type(value)(**{**kept, **changes})


if TYPE_CHECKING:
    from dataclasses import dataclass, field, replace
else:
    dataclass, field, replace = _dataclass, _Field, _replace
