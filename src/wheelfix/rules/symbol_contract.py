"""Whether objects export and import only the symbols that the project's settings allow."""

import re
from bisect import bisect_left
from collections.abc import Collection, Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from fnmatch import fnmatchcase, translate
from functools import lru_cache, partial
from itertools import chain, pairwise
from typing import Self

from packaging.utils import canonicalize_name

from wheelfix.budget import BudgetError
from wheelfix.elf.demangle import demangle
from wheelfix.elf.exports import OF_LINKER
from wheelfix.elf.model import Elf, Undefined, is_of_compiler
from wheelfix.elf.object_file_names import stem_of
from wheelfix.grouping import flatten, values_by_key
from wheelfix.loader import python_api
from wheelfix.loader.platform_libraries import may_come_from_platform
from wheelfix.loader.python_api import init_functions
from wheelfix.named_tuple import NamedTuple
from wheelfix.providers.model import Folder
from wheelfix.providers.well_known import well_known_folders
from wheelfix.rules.context import Context
from wheelfix.rules.findings import Hit, Severity
from wheelfix.rules.module_names import extension_modules
from wheelfix.rules.rule import rule
from wheelfix.rules.undefined_symbols import GIVE_LIBRARIES
from wheelfix.settings import EXTENSION_MODULES, GRAFTED, SymbolContract, matches_any
from wheelfix.system.lazy_patterns import lazy_pattern
from wheelfix.text import FEW, count, join_some, them
from wheelfix.wheel.grafted_name import original_name

_STEPS_A_NAME = 10
_STEPS_A_MATCH = 2
_STEPS_A_PATTERN = 100
_WILD = lazy_pattern(r"[*?[]")
"""What makes a pattern of fnmatch of a name."""


@rule("WF305", "symbol-contract", Severity.ERROR)
def symbol_contract(context: Context) -> Iterator[Hit]:
    """Object exports or imports other symbols than the project's settings allow.

    ## What it does
    Checks each table `[[tool.wheelfix.symbols]]` of the settings against the dynamic symbols of the
    `objects` that it names: globs for a member, its file name or SONAME before the graft, or the
    groups `extension-modules` and `grafted`. Globs for symbols match the name as it is, or
    demangled, without parameters.

    - `exports`: only these are exported; the init function of an extension module always may be.
    - `never-exports`: none of these is exported.
    - `must-export`: each of these matches an exported symbol of each object.
    - `imports`, `never-imports`: only these, and none of these, are undefined in the object; with
      `imports-of`, a distribution or a glob for SONAMEs, only symbols that come from there count.

    Without these settings, it reports nothing. A table that names no object of the wheel is an
    error: what is not looked at passes nowhere.

    ## Why is this bad?
    What the project states about its symbols is not true of this wheel.

    A symbol that is exported by accident can bind to, or replace, that of another wheel in the same
    process. A symbol that is not part of a stable interface ties the wheel to one version of
    another. And what is looked up at run time, by `dlsym` or ctypes, is checked by no linker.

    ## Example
    `objects = ["libfoo.so*"], exports = ["foo_*"], never-exports = ["*ZSTD*"]`, and `libfoo.so`
    exports `ZSTD_compress` of a static libzstd.

    ## Common causes
    - Static libraries are linked in. **Solution**: `-Wl,--exclude-libs,ALL`.
    - Symbols are visible by default. **Solution**: `-fvisibility=hidden` and an export macro, or a
      version script.

    ## Fix safety
    Not fixed.
    """
    if not context.settings.symbols or context.wheel.is_pure:
        return
    known = _Objects.of(context)
    for contract in context.settings.symbols:
        objects = known.named(contract.objects)
        if not objects:
            yield _names_nothing(context, contract)
        for member, elf in objects.items():
            yield from _exports_hits(known, contract, member)
            yield from _imports_hits(context, contract, member, elf)


def _names_nothing(context: Context, contract: SymbolContract) -> Hit:
    """Return the hit of a contract for what is not in the wheel, maybe since a repair grafts it."""
    names = [
        name
        for name in context.dependents
        if any(glob == GRAFTED or fnmatchcase(name, glob) for glob in contract.objects)
        and not context.named_libraries.called(name)
        and not may_come_from_platform(name, context.wheel.libc)
    ]
    note = f"needed, but outside the wheel: {join_some(names, FEW)}"
    return Hit(
        message=f"no object of the wheel is {join_some(contract.objects)}: the contract of symbols "
        "in the settings was not checked",
        entry=contract.objects[0],
        notes=(note,) if names else (),
        hint="a repair may graft it: check the wheel that `wheelfix repair` writes"
        if names
        else "add it to the wheel, or correct `objects` in [[tool.wheelfix.symbols]]",
    )


class _Objects(NamedTuple):
    """The objects of a wheel, as contracts name them."""

    context: Context
    modules: Mapping[str, frozenset[str]]
    """The extension modules that no other object is linked with, and their init functions."""

    @classmethod
    def of(cls, context: Context) -> Self:
        modules = {
            module.member: frozenset({*module.elf.module_hooks, *init_functions(module.name)})
            for module in extension_modules(context.wheel)
            if (module.tagged or module.elf.module_hooks)
            and module.member.rpartition("/")[2] not in context.dependents
        }
        return cls(context, modules)

    def named(self, names: Iterable[str]) -> Mapping[str, Elf]:
        """Return the dynamic objects that one of `names`, globs and groups, stands for."""
        return {
            member: elf
            for member, elf in self.context.wheel.elfs.items()
            if elf.dynamic and any(self._is_named(member, elf, name) for name in names)
        }

    def _is_named(self, member: str, elf: Elf, name: str) -> bool:
        if name == EXTENSION_MODULES:
            return member in self.modules
        if name == GRAFTED:
            return self.context.settings.is_vendored(member, self.context.wheel)
        file, soname = member.rpartition("/")[2], elf.soname or ""
        return any(
            fnmatchcase(each, name) for each in (member, *map(original_name, (file, soname)))
        )

    def exports(self, member: str) -> Collection[str]:
        """Return the symbols that others can bind to, besides the init functions of a module."""
        read = self.context.definitions.reader(member) if self.context.definitions else None
        if read is None:
            return ()
        hooks = self.modules.get(member, frozenset())
        return [name for name in read().definitions if name not in hooks]

    def all_exports(self, member: str) -> Collection[str]:
        """Return the symbols that others can bind to, with the init functions of a module."""
        return {*self.exports(member), *self.context.wheel.elfs[member].module_hooks}


def _exports_hits(known: _Objects, contract: SymbolContract, member: str) -> Iterator[Hit]:
    if contract.exports is None and not contract.never_exports and not contract.must_export:
        return
    names = known.exports(member)
    match = partial(_matching, known.context, names)
    if contract.exports is not None:
        others = {*names} - match(contract.exports) - OF_LINKER
        yield from _hits(member, others, "exports", "`exports` does not list")
    yield from _hits(member, match(contract.never_exports), "exports", "`never-exports` lists")
    for pattern in _idle(known.context, known.all_exports(member), contract.must_export):
        yield Hit(
            message=f"exports no symbol `{pattern}`, which `must-export` lists",
            member=member,
            entry=pattern,
            hint="export the symbol, or correct [[tool.wheelfix.symbols]]",
        )


def _imports_hits(
    context: Context, contract: SymbolContract, member: str, elf: Elf
) -> Iterator[Hit]:
    if contract.imports is None and not contract.never_imports:
        return
    sources = _sources(context, contract.imports_of, member, elf)
    match = partial(_matching, context, sources)
    broken = {"`never-imports` lists": match(contract.never_imports)}
    if contract.imports is not None:
        broken["`imports` does not list"] = {*sources} - match(contract.imports)
    for how, names in broken.items():
        certain = {name for name in names if not sources[name]}
        yield from _hits(member, certain, "imports", how)
        for hit in _hits(member, names - certain, "may import", how):
            others = dict.fromkeys(flatten(sources[name] for name in names))
            note = f"they may also be of {join_some(others, FEW)}, not read either"
            yield replace(hit, notes=(note,), hint=GIVE_LIBRARIES, severity=Severity.WARNING)


def _hits(member: str, names: Collection[str], verb: str, how: str) -> Iterator[Hit]:
    """Yield one hit for all symbols of an object that break one line of a contract."""
    if not names:
        return
    first = sorted(names)
    spelled = join_some(map(_spelled, first), FEW)
    yield Hit(
        message=f"{verb} {count(len(names), 'symbol')} that {how}: {spelled}",
        member=member,
        entry=first[0],
        hint=f"hide {them(names)} with `-fvisibility=hidden` or a version script; or list "
        f"{them(names)} in [[tool.wheelfix.symbols]]"
        if verb == "exports"
        else f"call what the contract allows; or list {them(names)} in [[tool.wheelfix.symbols]]",
    )


def _matching(context: Context, names: Collection[str], globs: Iterable[str]) -> set[str]:
    """Return those of `names` that one of `globs` matches, as they are or demangled."""
    different = frozenset(globs)
    if not different:
        return set()
    starts = tuple(glob[:-1] for glob in different if _is_beginning(glob))
    patterns = [glob for glob in different if _WILD.search(glob) and not _is_beginning(glob)]
    _spend(context, names, starts, patterns)
    matches = [re.compile(translate(glob)).match for glob in patterns]
    return {
        name
        for name in names
        if any(
            text in different or text.startswith(starts) or any(match(text) for match in matches)
            for text in (name, _spelled(name))
        )
    }


def _idle(context: Context, names: Collection[str], globs: Sequence[str]) -> Iterator[str]:
    """Yield those of `globs` that match none of `names`."""
    _spend(context, names, (), ())
    spelled = sorted(set(flatten((name, _spelled(name)) for name in names)))
    exact = frozenset(spelled)
    for glob in globs:
        if not _WILD.search(glob):
            is_idle = glob not in exact
        elif _is_beginning(glob):
            place = bisect_left(spelled, glob[:-1])
            is_idle = place == len(spelled) or not spelled[place].startswith(glob[:-1])
        else:
            is_idle = not _matching(context, names, [glob])
        if is_idle:
            yield glob


def _spend(
    context: Context, names: Collection[str], starts: Sequence[str], patterns: Sequence[str]
) -> None:
    """Count what it takes to demangle `names`, and to compare each character with each pattern."""
    characters = sum(map(len, names))
    mangled = sum(len(name) for name in names if name.startswith("_Z"))
    steps = _STEPS_A_NAME * len(names) + mangled + (len(names) * len(starts) >> 4)
    steps += (_STEPS_A_MATCH * len(names) + (characters >> 4)) * len(patterns)
    steps += _STEPS_A_PATTERN * len(patterns) + sum(map(len, patterns))
    try:
        context.budget.spend(steps, "the symbols of [[tool.wheelfix.symbols]]")
    except BudgetError as error:
        raise error.with_hint(
            "write names, or their beginnings and `*`, which are matched at once"
        ) from None


def _is_beginning(glob: str) -> bool:
    """Return whether a glob is the beginning of names, and `*`: nearly all are, or whole names."""
    wild = _WILD.search(glob)
    return wild is not None and glob[wild.start() :] == "*"


@lru_cache(maxsize=2**16)
def _spelled(name: str) -> str:
    return demangle(name) if name.startswith("_Z") else name


def _sources(context: Context, source: str, member: str, elf: Elf) -> Mapping[str, Sequence[str]]:
    """Return the undefined symbols of an object that come from `source`, all if it is empty.

    With each stand the other libraries that may define it; none where it is known.
    """
    undefined = [symbol for symbol in elf.undefined if not is_of_compiler(symbol)]
    if not source:
        return dict.fromkeys([symbol.name for symbol in undefined], ())
    globs = _libraries_of(context, source)
    sources: dict[str, Sequence[str]] = {}
    for symbol in undefined:
        libraries = _definers(context, member, symbol)
        if any(matches_any(library, globs) for library in libraries):
            sources[symbol.name] = [name for name in libraries if not matches_any(name, globs)]
    return sources


def _libraries_of(context: Context, source: str) -> Collection[str]:
    """Return globs for the SONAMEs of a distribution; a glob for SONAMEs stands for itself."""
    name = canonicalize_name(source)
    named = (p.folders for p in context.providers if p.name == name)
    folders: Sequence[Folder] = list(chain.from_iterable(named))
    folders = folders or well_known_folders().get(name, ())
    return list(flatten(folder.libraries for folder in folders)) or [source]


def _definers(context: Context, member: str, symbol: Undefined) -> Sequence[str]:
    """Return the library that a symbol binds to; the missing ones of the load if none is known."""
    if symbol.file is not None:
        return [symbol.file]
    loaded = context.loaded_wheel
    if loaded is None or member not in loaded.paths or python_api.is_python_name(symbol.name):
        return []
    path = loaded.own[member].scope.lookup(symbol.name, symbol.version)
    if path is not None:
        return [path.rpartition("/")[2]]
    return [request.name for request in loaded.loads[member].requests if request.failed]


@rule("WF306", "contract-without-effect", Severity.WARNING)
def contract_without_effect(context: Context) -> Iterator[Hit]:
    """Entry of a contract of symbols matches nothing.

    ## What it does
    Reports the globs of `objects`, `exports` and `imports` in `[[tool.wheelfix.symbols]]` that
    match no object, and no symbol of these objects.

    ## Why is this bad?
    The entry is misspelled, or what it allowed is gone: a symbol of that name could come back
    unnoticed.

    ## Example
    `exports = ["foo_*", "fooo_init"]`.

    ## Common causes
    - The symbol was removed, or renamed. **Solution**: remove the entry.
    - The entry is for other wheels of the release. **Solution**: put it into
      `[[tool.wheelfix.overrides]]`.

    ## Fix safety
    Not fixed.
    """
    if not context.settings.symbols:
        return
    known = _Objects.of(context)
    for contract in context.settings.symbols:
        for key, entry in _without_effect(known, contract):
            yield Hit(
                message=f"`{entry}` of `{key}` in [[tool.wheelfix.symbols]] matches nothing",
                entry=entry,
                hint="correct or remove it; what is for some wheels only belongs in "
                "[[tool.wheelfix.overrides]] (in wheelfix.toml, [[overrides]])",
            )


def _without_effect(known: _Objects, contract: SymbolContract) -> Iterator[tuple[str, str]]:
    """Yield the key and the text of each entry that matches nothing."""
    objects = known.named(contract.objects)
    if not objects:  # reported as an error
        return
    for name in contract.objects:
        if not known.named([name]):
            yield "objects", name
    if contract.exports:
        names = set(flatten(map(known.all_exports, objects)))
        listed = [glob for glob in contract.exports if glob not in OF_LINKER]
        yield from (("exports", glob) for glob in _idle(known.context, names, listed))
    source = contract.imports_of
    imports = set(
        flatten(_sources(known.context, source, member, elf) for member, elf in objects.items())
    )
    if source and not imports:
        yield "imports-of", source
        return
    yield from (("imports", glob) for glob in _idle(known.context, imports, contract.imports or ()))


@rule("WF307", "module-exports", Severity.NOTE)
def module_exports(context: Context) -> Iterator[Hit]:
    """Extension modules export more than their init functions.

    ## What it does
    Counts the dynamic symbols of extension modules that other objects can bind to, besides the init
    functions that Python calls. Modules that other objects of the wheel are linked with are left
    out, and so are those of which `exports` in `[[tool.wheelfix.symbols]]` says what they export.

    ## Why is this bad?
    Once anything in the process opens the module with RTLD_GLOBAL, these symbols replace those of
    the same name in modules that are loaded later. It also makes loading slower.

    ## Example
    A module with a static zlib exports `inflate`.

    ## Common causes
    - Static libraries are linked in. **Solution**: `-Wl,--exclude-libs,ALL`.
    - Symbols are visible by default. **Solution**: `-fvisibility=hidden`, or a version script.

    ## Fix safety
    Not fixed: a program may look them up by name.
    """
    known = _Objects.of(context)
    contracts = context.settings.symbols
    settled = [known.named(each.objects) for each in contracts if each.exports is not None]
    numbers = {
        member: len({*known.exports(member)} - OF_LINKER)
        for member in known.modules
        if not any(member in objects for objects in settled)
    }
    most = sorted((number, member) for member, number in numbers.items() if number)[::-1]
    if most:
        total = sum(number for number, _ in most)
        yield Hit(
            message=f"{count(total, 'symbol')} exported by {count(len(most), 'extension module')} "
            "besides the init functions",
            member=most[0][1],
            notes=tuple(f"`{member}`: {number:,}" for number, member in most[:FEW]),
            hint="`wheelfix show --symbols` writes them as a contract for the settings",
        )


_MOST_NAMES = 20
"""Of an object, that are listed one by one."""
_HEAD = lazy_pattern(r"(?P<namespace>[^<(]*?::)|_Z\w{1,12}|_*[A-Za-z0-9]+_")
"""What the symbols of one library have in common: a namespace, or a prefix."""


def present_contracts(context: Context) -> tuple[SymbolContract, ...]:
    """Return the contract that the objects of the wheel, grafted ones aside, fulfill today."""
    known, settings = _Objects.of(context), context.settings
    named: dict[str, set[str]] = {}
    stems = pairwise(sorted({*map(_stem, known.named(["*"]))}))
    starts = {stem for stem, other in stems if other.startswith(stem)}
    for member in known.named(["*"]):
        if not settings.is_vendored(member, context.wheel):
            own = named.setdefault(_glob_of_object(member, known.modules, starts), set())
            own |= {*known.exports(member)} - OF_LINKER
    exports = values_by_key((_globs(names), glob) for glob, names in named.items())
    if [*exports] == [()] and all(member in known.modules for member in known.named(["*"])):
        exports = {(): [EXTENSION_MODULES]}
    return tuple(
        SymbolContract(objects=tuple(objects), exports=globs) for globs, objects in exports.items()
    )


def _stem(member: str) -> str:
    return stem_of(original_name(member.rpartition("/")[2]))


def _glob_of_object(member: str, modules: Container[str], starts: Container[str]) -> str:
    """Return a glob for a member that holds for other Pythons, and other versions of a library.

    The names of others in the wheel begin with those of `starts`, and do not match.
    """
    folder, slash, file = member.rpartition("/")
    if member in modules:
        return f"{folder}{slash}{file.partition('.')[0]}.*"
    stem = _stem(member)
    if stem not in starts:
        return f"{stem}*"
    return f"{stem}[.-]*" if ".so" in file else stem


def _globs(names: Collection[str]) -> tuple[str, ...]:
    """Return globs that match all of `names`: a few as they are, many by what they begin with."""
    if len(names) <= _MOST_NAMES:
        return tuple(sorted(names))
    spelled = ((name, demangle(name)) for name in names)
    heads = ((name, _HEAD.match(text)) for name, text in spelled)
    return tuple(sorted({f"{head[0]}*" if head else name for name, head in heads}))
