"""Named tuples whose class costs little.

`typing.NamedTuple` compiles a constructor and makes five methods for each class while its module is
imported, 0.06 ms: with 160 classes a twentieth of the time of a small wheel. Here the classes have
the methods in common, and one constructor is compiled for each number of fields.
"""

import sys
from collections.abc import Iterable
from functools import cache
from types import CodeType, FunctionType
from typing import TYPE_CHECKING, Self

__all__ = ["NamedTuple"]


@cache
def _constructor(count: int) -> CodeType:
    fields = ", ".join(f"field_{at}" for at in range(count))
    # Nothing else takes values by name as fast as what is compiled.
    code: CodeType = eval(f"lambda cls, {fields}: new(cls, ({fields},))").__code__  # noqa: S307
    return code


# From Python 3.14 on annotations are made by a function, and to ask it takes what is saved here.
if TYPE_CHECKING or sys.version_info >= (3, 14):
    from typing import NamedTuple
else:
    from collections import _tuplegetter

    _GLOBALS = {"new": tuple.__new__}

    class _Class(type):
        def __new__(
            cls, name: str, bases: tuple[type, ...], namespace: dict[str, object]
        ) -> "_Class":
            names = tuple(namespace.get("__annotations__", ()))
            defaults = {each: namespace[each] for each in names if each in namespace}
            namespace |= {each: _tuplegetter(at, None) for at, each in enumerate(names)}
            namespace |= {"__slots__": (), "__match_args__": names}
            namespace |= {"_fields": names, "_field_defaults": defaults}
            if names:
                code = _constructor(len(names)).replace(co_varnames=("cls", *names))
                values = tuple(defaults.values())
                namespace["__new__"] = FunctionType(code, _GLOBALS, "__new__", values)
            return super().__new__(cls, name, bases, namespace)

    class NamedTuple(tuple, metaclass=_Class):
        """The base of named tuples, with the methods of `collections.namedtuple`."""

        __slots__ = ()

        @classmethod
        def _make(cls, values: Iterable[object]) -> Self:
            return tuple.__new__(cls, values)

        def _replace(self, **changes: object) -> Self:
            replaced = self._make(map(changes.pop, self._fields, self))
            if changes:
                raise TypeError(f"{type(self).__qualname__} has no fields {sorted(changes)}")
            return replaced

        def _asdict(self) -> dict[str, object]:
            return dict(zip(self._fields, self, strict=True))

        def __repr__(self) -> str:
            shown = ", ".join(f"{name}={value!r}" for name, value in self._asdict().items())
            return f"{type(self).__qualname__}({shown})"

        def __getnewargs__(self) -> tuple[object, ...]:
            return tuple(self)
