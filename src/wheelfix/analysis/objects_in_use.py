"""Which objects of a wheel something in it is seen to load: computed, not observed.

A plug-in that its host finds by listing a folder, in a list of several names, or under a name that
is put together at run time, is not among them: whether anything loads it is not known.
"""

import posixpath
from collections import Counter
from collections.abc import Collection, Iterator, Mapping
from collections.abc import Set as AbstractSet

from wheelfix.analysis.loaded_wheel import Definitions
from wheelfix.elf.model import Elf, names_of
from wheelfix.grouping import flatten, grouped
from wheelfix.python_sources.imported_modules import module_name
from wheelfix.system.lazy_patterns import lazy_pattern
from wheelfix.wheel.model import Wheel
from wheelfix.wheel.names_in_code import CodeNames

_LIBRARY_PATH = "LD_LIBRARY_PATH"
_COMPUTED_IMPORT = lazy_pattern(rb"\b(?:import_module|__import__)\(\s*[^\"'\s]")


def objects_in_use(wheel: Wheel, definitions: Definitions) -> frozenset[str]:
    """Return the programs, modules, and libraries opened by name, with all that these need.

    Left out are modules that are imported only in a `try`, or maybe by a name that is put together,
    and programs inside of a package that
    names LD_LIBRARY_PATH: they may fail, or search elsewhere.
    """
    dynamic = {member: elf for member, elf in wheel.elfs.items() if elf.dynamic}
    by_name = grouped(dynamic, posixpath.basename)
    in_use: set[str] = set()
    names: set[str] = set()
    waiting = list(_roots(wheel, dynamic, definitions))
    while waiting:
        member = waiting.pop()
        if member not in in_use:
            in_use.add(member)
            new = set(dynamic[member].needed) - names
            names |= new
            waiting += flatten(by_name.get(name, ()) for name in new)
    return frozenset(in_use)


def _roots(wheel: Wheel, dynamic: dict[str, Elf], definitions: Definitions) -> Iterator[str]:
    opened = {opening.name for opening in flatten(wheel.openings.values())}
    setting = {
        member.partition("/")[0]
        for member in definitions.code.mentions({_LIBRARY_PATH})[_LIBRARY_PATH]
    }
    names = {member: names_of(member, elf.soname) for member, elf in dynamic.items()}
    mentions = definitions.code.mentions(set(flatten(names.values())))
    plug_ins = _lists(names, mentions, dynamic)
    for member, elf in dynamic.items():
        if elf.is_executable:
            is_seen = member.partition("/")[0] not in setting
        elif elf.module_hooks:
            is_seen = _is_module_in_use(member, definitions.code)
        else:
            named = set(flatten(mentions.get(name, ()) for name in names[member]))
            is_seen = not names[member].isdisjoint(opened) or bool(named - plug_ins - {member})
        if is_seen:
            yield member


def _is_module_in_use(member: str, code: CodeNames) -> bool:
    """Return whether some import of a module must work.

    A private one that nothing names may be imported by a name that a source puts together.
    """
    stem = module_name(member).rpartition(".")[2]
    if not stem.startswith("_") or code.is_named(stem) or not any(code.sources_that(_imports_any)):
        return not code.is_only_tried(stem)
    return not {member}.issuperset(code.mentions({stem})[stem])


def _imports_any(source: bytes) -> bool:
    return bool(_COMPUTED_IMPORT.search(source))


def _lists(
    names: Mapping[str, AbstractSet[str]],
    mentions: Mapping[str, Collection[str]],
    dynamic: Collection[str],
) -> frozenset[str]:
    """Return the objects that name several libraries: hosts open the plug-in that is asked for."""
    libraries = Counter[str]()
    for member, own in names.items():
        hosts = set(flatten(mentions.get(name, ()) for name in own))
        libraries.update(hosts - {member})
    return frozenset(host for host, number in libraries.items() if number > 1 and host in dynamic)
