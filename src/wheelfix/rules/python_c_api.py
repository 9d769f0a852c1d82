"""Whether modules use Python's C API as their tags promise: its names, stable ABI, and GIL."""

from collections.abc import Iterator
from functools import lru_cache

from wheelfix.analysis.load_failures import BUILD_FOR_TAGS
from wheelfix.loader import python_api
from wheelfix.loader.install_schemes import (
    STABLE_ABIS,
    interpreters,
    is_free_threaded,
    minor_version,
    native_interpreters,
    runs_of,
)
from wheelfix.loader.platform_libraries import may_come_from_platform
from wheelfix.named_tuple import NamedTuple
from wheelfix.rules.context import Context
from wheelfix.rules.findings import Hit, Severity
from wheelfix.rules.module_names import extension_modules
from wheelfix.rules.rule import rule
from wheelfix.text import by_number, join_some

_CREATE, _INIT = "PyModule_Create2", "PyModuleDef_Init"
_OF_MODULE_DEF = frozenset({_CREATE, _INIT, "PyModule_FromDefAndSpec2"})
"""Functions for a PyModuleDef, whose layout abi3t does not have (PEP 803, "Opaque PyObject")."""
_OF_SLOTS = frozenset({_INIT, "PyModule_FromSlotsAndSpec", "PyUnstable_Module_SetGIL"})
"""Functions of modules that may say that they need no GIL: by a slot (PEP 489, PEP 793), or by the
call for those of a single phase (Include/moduleobject.h)."""


class _Use(NamedTuple):
    """The names of Python's C API that one object needs."""

    member: str
    names: tuple[str, ...]
    pythons: tuple[str, ...]
    """The Pythons that load the object."""
    is_imported: bool
    """Whether Python imports it as a module, and no program brings the names."""


def _uses(context: Context) -> Iterator[_Use]:
    modules = {module.member: module for module in extension_modules(context.wheel)}
    everywhere, api = interpreters(context.wheel.name), python_api.names()
    for member, elf in context.wheel.elfs.items():
        module = modules.get(member)
        pythons = everywhere
        if module is not None and module.pythons is not None:
            pythons = tuple(python for python in everywhere if python in module.pythons)
        names = sorted({s.name for s in elf.undefined if not s.weak and s.name in api})
        if names and pythons and not elf.is_executable:
            yield _Use(member, tuple(names), pythons, module is not None and bool(elf.module_hooks))


@lru_cache(maxsize=1 << 16)
def _lacking(name: str, pythons: tuple[str, ...], *, is_imported: bool) -> tuple[str, ...]:
    """Return those of `pythons` that lack `name`; none if one has it, for what is not imported."""
    answers = {python: python_api.exports(python, name) for python in pythons}
    if not is_imported and True in answers.values():
        return ()
    return tuple(python for python, answer in answers.items() if answer is False)


@rule("WF303", "python-symbol", Severity.ERROR)
def python_symbol(context: Context) -> Iterator[Hit]:
    """Extension module uses Python C API that its Python versions lack.

    ## What it does
    Compares the Python C API names that an object uses with those that CPython exports, for every
    version that the wheel's tags and the module's suffix allow. One finding for each object, with
    the oldest version that has all names. Unknown newer versions, free-threaded builds and other
    interpreters are assumed to have the names. It is a warning if the
    module is only imported in a `try`, or maybe by a name that is put together.

    ## Why is this bad?
    The import fails with `undefined symbol` in some of the Python versions that pip installs the
    wheel for.

    ## Example
    The tag `cp38-abi3` on a module that calls `PyModule_AddObjectRef`, new in CPython 3.10.

    ## Common causes
    - `Py_LIMITED_API` is newer than the tag, or not set. **Solution**: use the same version for
      both; `abi3audit` checks in more detail.
    - The wheel has a module for another Python. **Solution**: build from a clean tree.

    ## Fix safety
    Not fixed.
    """
    for use in _uses(context):
        lacking = {
            name: pythons
            for name in use.names
            if (pythons := _lacking(name, use.pythons, is_imported=use.is_imported))
            and not _defines(context, use.member, name)
        }
        if lacking:
            without = frozenset[str]().union(*lacking.values())
            lack = by_number(without, "lacks", "lack")
            yield Hit(
                message=f"uses {join_some(lacking)} of the Python C API, which "
                f"{runs_of(without)} {lack}",
                member=use.member,
                entry=next(iter(lacking)),
                notes=(python_api.versions_with(tuple(lacking)),),
                hint=_limit(use, "tag the wheel for the first Python that has it, or ")
                if STABLE_ABIS & {*context.wheel.name.abis}
                else BUILD_FOR_TAGS,
                severity=None if use.member in context.objects_in_use else Severity.WARNING,
            )


def _limit(use: _Use, retag: str = "") -> str:
    """Return how to build what promises the stable ABI of the oldest Python of the tags."""
    macro = f"`Py_LIMITED_API` as 0x03{min(map(minor_version, use.pythons)):02X}0000"
    return f"{retag}do not use it: with {macro}, compilers warn, or refuse it"


def _defines(context: Context, member: str, name: str) -> bool:
    """Return whether an object that is loaded with `member` defines `name`."""
    loaded = context.loaded_wheel
    if loaded is None or member not in loaded.paths:
        return False
    return any(
        name in loaded.libraries[path].exports.definitions
        for path in loaded.loads[member].objects
        if path in loaded.libraries
    )


@rule("WF308", "stable-abi-exceeded", Severity.WARNING)
def stable_abi_exceeded(context: Context) -> Iterator[Hit]:
    """Extension module of a wheel for the stable ABI uses more than the tag promises.

    ## What it does
    Compares the Python C API names that the modules of an `abi3` wheel use with the stable ABI of
    the oldest Python of the tags, where all known Pythons of the tags have the names (WF303 is
    about the others); of an `abi3t` wheel also with what needs the layout of PyModuleDef. One
    finding for each module, with the oldest tag that its names allow.

    ## Why is this bad?
    Only the stable ABI is promised to stay: a later Python may lack the other names, or change what
    they do, and pip installs the wheel for it.

    ## Example
    The tag `cp38-abi3` on a module that calls `PyBuffer_FillInfo`, in the stable ABI since 3.11.

    ## Common causes
    - `Py_LIMITED_API` is newer than the tag, or not set. **Solution**: use the same version for
      both; `abi3audit` checks in more detail.

    ## Fix safety
    Not fixed.
    """
    abis = context.wheel.name.abis
    modules = [use for use in _uses(context) if use.is_imported] if STABLE_ABIS & {*abis} else []
    for use in modules:
        oldest = min(map(minor_version, use.pythons))
        since = {
            name: symbol.stable
            for name in use.names
            if (symbol := python_api.find(name)) is not None
            and (symbol.stable is None or symbol.stable > oldest)
            and not _lacking(name, use.pythons, is_imported=use.is_imported)
            and not _defines(context, use.member, name)
        }
        never = [name for name, minor in since.items() if minor is None]
        newest = max((minor for minor in since.values() if minor is not None), default=oldest)
        if since:
            needs = f"needs `cp3{newest}`" if not never else "is not for the stable ABI"
            yield Hit(
                message=f"{needs}, as it uses {join_some(never or since)}, "
                f"{'not part of it' if never else f'in the stable ABI only since 3.{newest}'}; "
                f"the tag promises 3.{oldest}",
                member=use.member,
                entry=next(iter(never or since)),
                notes=("all versions of the tags that are known so far export them",),
                hint=_limit(use, "" if never else "tag the wheel for it, or "),
            )
        of_module_def = sorted(_OF_MODULE_DEF.intersection(use.names))
        if of_module_def and "abi3t" in abis and any(map(is_free_threaded, use.pythons)):
            yield Hit(
                message=f"uses {join_some(of_module_def)}, but a module for `abi3t` has no "
                "PyModuleDef",
                member=use.member,
                entry=of_module_def[0],
                hint="define `PyModExport_…` (PEP 793), and compile with `Py_TARGET_ABI3T`",
            )


@rule("WF309", "enables-gil", Severity.NOTE)
def enables_gil(context: Context) -> Iterator[Hit]:
    """Module for a free-threaded Python does not say that it runs without the GIL.

    ## What it does
    Reports modules of a wheel for a free-threaded Python whose slots stand in the file without
    `Py_mod_gil`, or with `Py_MOD_GIL_USED`, and modules without slots (`PyModule_Create`), where
    neither they nor the libraries that are loaded with them refer to `PyUnstable_Module_SetGIL`.
    A module that makes its slots when it runs is not judged.

    ## Why is this bad?
    The import enables the GIL for the whole process, with a RuntimeWarning: all its threads take
    turns again.

    ## Example
    A module of a `cp313-cp313t` wheel that has the slot `Py_mod_exec`, and no other.

    ## Common causes
    - The module is not prepared for threads. **Solution**: check what it shares between threads;
      then call `PyUnstable_Module_SetGIL(module, Py_MOD_GIL_NOT_USED)`, or use the slot
      `Py_mod_gil`. Cython: `freethreading_compatible`; pybind11: `py::mod_gil_not_used()`.

    ## Fix safety
    Not fixed: only the project knows.
    """
    native, loaded = native_interpreters(context.wheel.name), context.loaded_wheel
    if loaded is None or "abi3t" in context.wheel.name.abis:  # which has no PyModuleDef: WF308
        return
    for use in _uses(context):
        threaded = [python for python in use.pythons if is_free_threaded(python)]
        if not (use.is_imported and threaded and {_CREATE, _INIT} & {*use.names}):
            continue
        load = loaded.loads[use.member]
        may_declare = not all(may_come_from_platform(request.name) for request in load.missing)
        for elf in (loaded.environment.files[path] for path in load.objects):
            declaring = _OF_SLOTS - {_INIT} if elf.slots_enable_gil else _OF_SLOTS
            may_declare |= any(symbol.name in declaring for symbol in elf.undefined)
        if native.issuperset(threaded) and not may_declare:
            yield Hit(
                message="enables the GIL of a free-threaded Python: "
                + (
                    "its slots have no `Py_mod_gil` with `Py_MOD_GIL_NOT_USED`"
                    if _INIT in use.names
                    else "it is created by `PyModule_Create`, and does not refer to "
                    "`PyUnstable_Module_SetGIL`"
                ),
                member=use.member,
                hint="declare `Py_MOD_GIL_NOT_USED` once the module is safe without the GIL",
            )
