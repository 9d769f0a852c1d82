"""Which objects of a wheel something in it is seen to load: computed, not observed.

A plug-in that its host finds by listing a folder, in a list of several names, or under a name that
is put together at run time, is not among them: whether anything loads it is not known.
"""

import posixpath
import re
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from collections.abc import Set as AbstractSet

from wheelfix.analysis.loaded_wheel import Definitions
from wheelfix.elf.model import Elf, names_of
from wheelfix.grouping import flatten, grouped
from wheelfix.python_sources.imported_modules import module_name
from wheelfix.python_sources.parsing import without_texts
from wheelfix.system.lazy_patterns import lazy_pattern
from wheelfix.wheel.model import Wheel
from wheelfix.wheel.names_in_code import CodeNames
from wheelfix.wheel.read_contents import is_prose

_LIBRARY_PATH = "LD_LIBRARY_PATH"
_READS = lazy_pattern(
    rb"(?m)^[ \t]*#.*|(?<!\\)[ \t]#[ \t][^\"'\n]*$"
    rb"|\b(?:environ\.(?:get|pop)|getenv)\(\s*[\"']LD_LIBRARY_PATH[\"']"
    rb"|[\"']LD_LIBRARY_PATH[\"']\s+(?:not\s+)?in\s|\$\{?LD_LIBRARY_PATH\b(?!:?=)"
    rb"|^[ \t]*(?:del[ \t]+[\w.]*\benviron\[[\"']LD_LIBRARY_PATH[\"']\]"
    rb"|unset(?:[ \t]+\w+)+[ \t]*$|LD_LIBRARY_PATH=(?=\s|$))"
)
"""Comments, and what surely reads or removes the variable, in Python and shells."""
_STATES = lazy_pattern(rb"LD_LIBRARY_PATH(?:[\"']|[ \t]*[:=,>])")
"""What a text has from which code may take the variable."""
_COMPUTED_IMPORT = lazy_pattern(rb"\b(?:import_module|__import__)\(\s*[^\"'\s]")


def objects_in_use(wheel: Wheel, definitions: Definitions) -> frozenset[str]:
    """Return the programs, modules, and libraries opened by name, with all that these need.

    Left out are modules that are imported only in a `try`, or maybe by a name that is put together,
    and programs `with_library_path`: they may fail, or search elsewhere.
    """
    dynamic = {member: elf for member, elf in wheel.elfs.items() if elf.dynamic}
    return frozenset(_with_needed(_roots(wheel, dynamic, definitions), dynamic))


def with_library_path(wheel: Wheel, code: CodeNames) -> Mapping[str, str]:
    """Return the programs for which something sets LD_LIBRARY_PATH, with all that these need.

    Each with that: an object, source or script of the same package, or a script that names the
    program.
    """
    programs = [member for member, elf in wheel.elfs.items() if elf.is_executable]
    if not programs:
        return {}
    dynamic = {member: elf for member, elf in wheel.elfs.items() if elf.dynamic}
    scripts = {
        script: _READS.sub(b"", code.read(script))
        for script in code.scripts_that(_may_set_library_path)
        if not is_prose(script) or _STATES.search(code.read(script))
    }
    naming = code.mentions({_LIBRARY_PATH})[_LIBRARY_PATH]
    objects = [member for member in naming if member in wheel.elfs]
    sources = code.sources_that(lambda source: _may_set_library_path(source, without_texts))
    setting = (*objects, *scripts, *sources)
    tops = {member.partition("/")[0]: member for member in setting}
    started: dict[str, str] = {}
    for program in programs:
        name = re.escape(posixpath.basename(program).encode())
        named = re.compile(rb"(?<![\w.-])%b(?![\w.-])" % name)
        by = tops.get(program.partition("/")[0])
        by = by or next((script for script, text in scripts.items() if named.search(text)), "")
        started |= dict.fromkeys(_with_needed([program], dynamic) if by else (), by)
    return started


def _may_set_library_path(
    source: bytes, code_of: Callable[[bytes], bytes] = lambda source: source
) -> bool:
    word = _LIBRARY_PATH.encode()
    return word in source and word in _READS.sub(b"", code_of(source))


def _with_needed(roots: Iterable[str], dynamic: Mapping[str, Elf]) -> Collection[str]:
    """Return some objects with all that these need."""
    by_name = grouped(dynamic, posixpath.basename)
    found: set[str] = set()
    names: set[str] = set()
    waiting = list(roots)
    while waiting:
        member = waiting.pop()
        if member not in found and member in dynamic:
            found.add(member)
            new = set(dynamic[member].needed) - names
            names |= new
            waiting += flatten(by_name.get(name, ()) for name in new)
    return found


def _roots(wheel: Wheel, dynamic: dict[str, Elf], definitions: Definitions) -> Iterator[str]:
    opened = {opening.name for opening in flatten(wheel.openings.values())}
    started = with_library_path(wheel, definitions.code)
    names = {member: names_of(member, elf.soname) for member, elf in dynamic.items()}
    mentions = definitions.code.mentions(set(flatten(names.values())))
    plug_ins = _lists(names, mentions, dynamic)
    modules = _modules_in_use([m for m in dynamic if dynamic[m].module_hooks], definitions.code)
    for member, elf in dynamic.items():
        if elf.is_executable:
            is_seen = member not in started
        elif elf.module_hooks:
            is_seen = member in modules
        else:
            named = set(flatten(mentions.get(name, ()) for name in names[member]))
            is_seen = not names[member].isdisjoint(opened) or bool(named - plug_ins - {member})
        if is_seen:
            yield member


def _modules_in_use(members: Iterable[str], code: CodeNames) -> frozenset[str]:
    """Return the modules that some import must load.

    A private one that nothing names may be imported by a name that a source puts together.
    """
    stems = {member: module_name(member).rpartition(".")[2] for member in members}
    hidden = {s for s in stems.values() if s.startswith("_") and not code.is_named(s)}
    built = hidden if hidden and any(code.sources_that(_imports_any)) else set[str]()
    mentions = code.mentions(built)  # of all at once: it reads the whole wheel
    return frozenset(
        member
        for member, stem in stems.items()
        if ({*mentions[stem]} - {member} if stem in built else not code.is_only_tried(stem))
    )


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
