"""Which symbols of a wheel's objects bind to nothing, once it is installed.

Every object is searched in the groups that the loader makes: what an extension module, a program
or a library that nothing else loads brings along when it is the first.
"""

from collections.abc import Container, Iterable, Iterator
from functools import cached_property
from typing import NamedTuple

from wheelfix.analysis.unused_needed import Definitions, LoadedWheel
from wheelfix.elf.exports import announce
from wheelfix.elf.model import Abi, Elf, Libc
from wheelfix.loader import python_api
from wheelfix.loader.as_needed import Library
from wheelfix.loader.model import Load
from wheelfix.loader.platform_libraries import (
    COMPILER_LIBRARIES,
    LIBC_SONAMES,
    PYTHON_LIBRARIES,
    defined_by,
    is_glibc_loader,
    may_come_from_platform,
)
from wheelfix.loader.symbols import Scope, binds
from wheelfix.wheel.model import Wheel

Reference = tuple[str, str | None]
"""A symbol, and the version asked for."""


class Unresolved(NamedTuple):
    """References of one object that bind to nothing, when one root is the first to be loaded."""

    member: str
    root: str
    references: tuple[Reference, ...]
    absent: tuple[str, ...]
    """Libraries of the group that are not at hand, and may define them."""
    foreign: tuple[str, ...]
    """Libraries of this machine in the group, which others may have in another version."""


def unresolved(
    wheel: Wheel, world: LoadedWheel, definitions: Definitions
) -> tuple[Unresolved, ...]:
    """Return what stays unresolved for some root, each object once, in the worst of its groups.

    The names of Python's C API are left out: the interpreter gives them, or does not.
    """
    return _Search(wheel, world, definitions).found()


class _Search:
    """The search of all objects of a wheel for what they refer to."""

    def __init__(self, wheel: Wheel, world: LoadedWheel, definitions: Definitions) -> None:
        self._wheel = wheel
        self._definitions = definitions
        self._programs: dict[Abi, tuple[Library, ...]] = {}
        self.world = world

    def found(self) -> tuple[Unresolved, ...]:
        alone = {m: still for m in self.world.paths if (still := self._alone(m))}
        found: list[Unresolved] = []
        for member, references in alone.items():
            worst: Unresolved | None = None
            for root in self._roots(member):
                left = self._in_group(root, member, references)
                if left.references and (worst is None or len(left.absent) < len(worst.absent)):
                    worst = left
            if worst is not None:
                found.append(worst)
        return tuple(found)

    def _alone(self, member: str) -> tuple[Reference, ...]:
        """Return what the member's own group does not give it.

        Nothing needs to be found for what is weak, nor for what is asked of a platform library by
        version: whether the platform has that is auditwheel's to judge (WF801).
        """
        elf = self._wheel.elfs[member]
        path = self.world.paths[member]
        if path not in self.world.libraries:
            return ()
        promised = {name for name in elf.needed if may_come_from_platform(name)}
        promised |= {need.file for need in elf.verneed if may_come_from_platform(need.file)}
        api = python_api.names()
        names = {
            name
            for name, version, file, _, weak in elf.undefined
            if not weak and (version is None or file not in promised) and name not in api
        }
        return self._unbound(
            self.world.loads[member],
            member,
            dict.fromkeys(
                [
                    (name, version)
                    for name, version, _, _, weak in elf.undefined
                    if name in names and not weak
                ]
            ),
        )

    def _in_group(self, root: str, member: str, references: tuple[Reference, ...]) -> Unresolved:
        load = self.world.loads[root]
        elf = self._wheel.elfs[member]
        left = references if root == member else self._unbound(load, member, references)
        if program := self._program(elf):
            left = tuple(each for each in left if not _defines(program, each))
        absent = dict.fromkeys(request.name for request in load.requests if request.failed)
        if not program:
            absent.setdefault(LIBC_SONAMES[self.world.environment.libc])
        listed = {name: known for name in absent if (known := defined_by(name)) is not None}
        return Unresolved(
            member=member,
            root=root,
            references=_not_in(left, listed.values()),
            absent=tuple(name for name in absent if name not in listed),
            foreign=self._foreign(load),
        )

    def _unbound(
        self, load: Load, member: str, references: Iterable[Reference]
    ) -> tuple[Reference, ...]:
        """Return those of `references` of `member` that nothing in `load` serves."""
        if self.world.paths[member] not in load.objects:
            return ()
        scope = Scope(load.objects, self.world.index)
        return tuple([reference for reference in references if scope.lookup(*reference) is None])

    def _roots(self, member: str) -> Iterator[str]:
        """Yield what brings the object in first: modules, programs, and what nothing else loads."""
        path = self.world.paths[member]
        for root, load in self.world.loads.items():
            if path in load.objects and self._is_root(root):
                yield root

    def _is_root(self, member: str) -> bool:
        elf = self._wheel.elfs[member]
        hooks = any(hook.startswith("Py") for hook in elf.module_hooks)
        return hooks or elf.is_executable or member not in self._brought

    @cached_property
    def _brought(self) -> frozenset[str]:
        """The members that another one loads."""
        members = {path: member for member, path in self.world.paths.items()}
        return frozenset(
            members[path]
            for root, load in self.world.loads.items()
            for path in load.objects
            if path in members and members[path] != root
        )

    def _program(self, elf: Elf) -> tuple[Library, ...]:
        """Return what the interpreter has loaded; nothing if its C library is not at hand."""
        if self.world.environment.libc is Libc.MUSL:
            return ()
        kind = elf.abi
        if kind not in self._programs:
            self._programs[kind] = self._loaded_with(elf)
        return self._programs[kind]

    def _loaded_with(self, elf: Elf) -> tuple[Library, ...]:
        definitions = self._definitions
        libc = definitions.host(PYTHON_LIBRARIES[0], elf)
        if libc is None:
            return ()
        names = (*PYTHON_LIBRARIES[1:], *libc.elf.needed)
        found = (libc, *filter(None, (definitions.host(name, elf) for name in names)))
        for library in found:
            announce(library.exports, self.world.wanted)
        return found

    def _foreign(self, load: Load) -> tuple[str, ...]:
        own = set(self.world.paths.values())
        names = [path.rpartition("/")[2] for path in load.objects if path not in own]
        return tuple(n for n in names if n not in COMPILER_LIBRARIES and not is_glibc_loader(n))


def _defines(libraries: Iterable[Library], reference: Reference) -> bool:
    name, version = reference
    there = (library.exports.definitions.get(name) for library in libraries)
    return any(binds(each, version) for each in there if each)


def _not_in(
    references: tuple[Reference, ...], known: Iterable[Container[str]]
) -> tuple[Reference, ...]:
    for names in known:
        references = tuple([each for each in references if each[0] not in names])
    return references
