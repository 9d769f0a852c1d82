"""Whether every undefined symbol of the wheel's objects is resolved, once installed."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from difflib import get_close_matches
from functools import partial

from wheelfix.analysis.load_failures import (
    BUILD_IN_IMAGE,
    OF_OPENMP,
    UNLESS_LOADED,
    Failure,
    Lack,
    LoadJudge,
    alike_elsewhere,
    bundled_way,
    named_way,
    way_of_build,
)
from wheelfix.analysis.loaded_wheel import LoadedWheel
from wheelfix.analysis.unresolved_symbols import Unresolved, VersionedName, newer_symbols
from wheelfix.elf.demangle import demangle, join_symbols
from wheelfix.elf.exports import among
from wheelfix.grouping import flatten, grouped
from wheelfix.loader import python_api
from wheelfix.loader.as_needed import Library
from wheelfix.loader.install_schemes import interpreters, site_path
from wheelfix.loader.platform_libraries import first_versions, may_come_from_platform, to_be_linked
from wheelfix.loader.symbol_versions import ACCEPTS_UNVERSIONED, prefix_of, release_of
from wheelfix.providers.model import Provided
from wheelfix.python_sources.open_flags import line_for_all
from wheelfix.python_sources.opening_calls import EXECUTES, line_of
from wheelfix.rules.context import Context
from wheelfix.rules.findings import Finding, Hit, Severity
from wheelfix.rules.rule import rule
from wheelfix.text import FEW, count, first_of, join_some, quote, them
from wheelfix.wheel.grafted_name import original_name

GIVE_LIBRARIES = "pass the libraries with `--library-path`"
"""The hint for symbols that libraries which were not read may define."""
_VERIFY = "`wheelfix verify` imports it with those of a machine"
"""The hint for those that libraries of the platform may define."""
_NEWER = {"GLIBC": "glibc", "GLIBCXX": "libstdc++", "GCC": "libgcc_s"}
"""The libraries of each prefix of versions."""


def _spell(reference: VersionedName) -> str:
    name, version = reference
    return demangle(name) + (f"@{version}" if version else "")


def _may_be_newer(context: Context, name: str) -> bool:
    """Return whether an unknown Python, or one other than CPython, may define `name`."""
    pythons = interpreters(context.wheel.name)
    return python_api.is_python_name(name) and any(
        python_api.exports(p, name) is None for p in pythons
    )


@rule("WF301", "undefined-symbol", Severity.ERROR)
def undefined_symbol(context: Context) -> Iterator[Hit]:
    """Undefined symbol: no loaded library defines it.

    ## What it does
    Simulates loading every object of the wheel as installed, and looks for a definition of each
    symbol that is not weak, in the right version: in the objects loaded with it, in the
    interpreter, and, for versioned symbols of platform libraries, among those that the platform tag
    promises; of libstdc++, libgcc_s and glibc also for those without a version, by the first
    version that has them.
    Libraries that are not imported themselves are treated like extension modules. Left out are
    symbols to which no relocation refers, as the loader does not look them up. Names of the Python
    C API are left to WF303, and versions that a bundled library lacks to WF304.

    What a source surely opens for all others before (RTLD_GLOBAL) defines symbols, too. It is a
    warning if another object of the wheel defines the symbol, and anything of the wheel may load
    that before for all others (a source that has this flag before it imports the module, dlopen in
    C, code that cannot be read such as bytecode, a .pth file, and what another module imports); if
    a library of a requirement defines it, and may be opened so before; if only a program needs it;
    if a library that no object of the wheel loads needs it from a platform library; if nothing in
    the wheel is seen to load the object; or if the result depends on a library of this machine,
    which other machines may have in another version. It is for information if nothing is seen to
    load a library, and another object of the wheel defines the symbol: who links with one may link
    with both; and if the library is loaded only with objects that define it.

    ## Why is this bad?
    What is imported, or opened with RTLD_NOW, has all its symbols bound: that fails with `undefined
    symbol`.

    ## Example
    `ext.so` calls `blosc_compress`, and was linked with a library that has `blosc2_compress`.

    ## Common causes
    - A source file or a library was not linked. **Solution**: link with it. `-Wl,-z,defs` makes
      this a link error for a library; a module leaves the symbols of Python undefined.
    - A C function was compiled as C++, or the reverse. **Solution**: `extern "C"`.
    - A library of the wheel defines it, and was not linked with. **Solution**: link with it: to be
      loaded before is not enough, unless it is opened with RTLD_GLOBAL. A repair writes the search
      path that leads there.
    - Another extension module defines it, and is loaded before with RTLD_GLOBAL. **Solution**: put
      the symbol into a library that both link with.
    - The program that opens the library defines it, such as a simulator of cocotb. **Solution**:
      none is needed; ignore the rule for the library, with that reason.

    ## Fix safety
    Not fixed.
    """
    yield from _undefined(context)
    for unresolved in context.unresolved_alone:
        name, *others = map(_spell, unresolved.references)
        yield Hit(
            message=f"does not load alone, only with objects that define `{name}`"
            + (f" and {count(len(others), 'other symbol')}" if others else ""),
            member=unresolved.member,
            entry=unresolved.references[0][0],
            hint=f"if it is opened by itself, link what defines {them(unresolved.references)}",
            severity=Severity.NOTE,
        )
    yield from _too_new_for_the_tags(context)


def newer_version(finding: Finding) -> str | None:
    """Return the version of a symbol that is said to be too new for the tags; None of others."""
    version = first_versions().get(finding.entry or "")
    return version if version and version in finding.message else None


def _undefined(context: Context) -> Iterator[Hit]:
    if not context.unresolved_symbols:
        return
    definers = _definers(context)
    of_providers = {
        name: f"`{library.elf.soname or library.path.rpartition('/')[2]}` of {provider.release}"
        for name, provider, library in defined_by_providers(context)
    }
    lacking = {(m, version) for m, lack in _refused_bundled(context) for version in lack.versions}
    named = _named_by_provider(context) | lacking
    for unresolved in context.unresolved_symbols:
        if unresolved.absent or is_left(context, unresolved):
            continue
        sources = {
            (name, version): (
                definers.get(name),
                of_providers.get(name),
                to_be_linked(
                    name, {*map(original_name, context.wheel.elfs[unresolved.member].needed)}
                ),
                python_api.is_python_name(name),
                name.startswith(OF_OPENMP),
            )
            for name, version in unresolved.references
            if named.isdisjoint({(unresolved.member, name), (unresolved.member, version)})
            and not _may_be_newer(context, name)
        }
        # One cause, one finding: what was not linked, which has all of these symbols.
        for alike in grouped(sources, sources.__getitem__).values():
            yield _undefined_hit(context, unresolved, alike, sources[alike[0]][:3])


def _too_new_for_the_tags(context: Context) -> Iterator[Hit]:
    """Yield the objects that take newer platform symbols than their tags promise."""
    loaded, verdict = context.loaded_wheel, context.verdict
    if loaded is None or verdict is None or not verdict.promised:
        return
    # One cause, the image of the build: the same message and entry for all objects.
    too_new = newer_symbols(loaded, verdict.promised)
    for prefix, uses in grouped(too_new, lambda use: prefix_of(use[2])).items():
        _, name, version = max(uses, key=lambda use: release_of(use[2]))
        library = _NEWER[prefix]
        is_one = len({name for _, name, _ in uses}) == 1
        undefined = "undefined symbol" if is_one else "undefined symbols such as"
        for member in dict.fromkeys(member for member, _, _ in uses):
            yield Hit(
                message=f"{undefined} `{demangle(name)}`, which {library} has since "
                f"{version}; the tags promise only {prefix}_{verdict.promised[prefix]}",
                member=member,
                entry=name,
                notes=(
                    "the references have no version: the loader compares none, nor does auditwheel",
                ),
                hint=BUILD_IN_IMAGE,
            )


def is_left(context: Context, unresolved: Unresolved) -> bool:
    """Return whether a requirement that was not looked into may define the symbols."""
    absent = set(unresolved.absent)
    return root_package(context, unresolved.root) in context.left.opened or not absent.isdisjoint(
        context.left.libraries
    )


def root_package(context: Context, root: str) -> str:
    """Return the top-level package of the object that is loaded."""
    return (site_path(root, context.wheel) or "").partition("/")[0]


def _named_by_provider(context: Context) -> frozenset[tuple[str, str]]:
    """Return the members and symbols that WF824 reports if they are undefined."""
    return frozenset(
        (use.member, symbol.name)
        for use in context.provider_uses
        for symbol in (use.elf.undefined if use.provider.places else ())
        if symbol.version is None or symbol.file == use.library
    )


def _opened_without(context: Context, package: str) -> Iterator[str]:
    """Yield a note on each provider that a package opens for all, without the symbol."""
    for provider in context.providers_opened_for_all.get(package, ()):
        yield f"`{package}` opens {provider.release} with RTLD_GLOBAL, which does not define it"


def defined_by_providers(context: Context) -> Iterator[tuple[str, Provided, Library]]:
    """Yield each unresolved symbol that a library of a provider defines, with these."""
    for unresolved in context.unresolved_symbols if context.providers else ():
        elf, wanted = context.wheel.elfs[unresolved.member], {n for n, _ in unresolved.references}
        for provider in context.providers:
            for library in context.libraries_of(provider, elf):
                for name in among(library.exports.definitions, frozenset(wanted)):
                    yield name, provider, library


def _definers(context: Context) -> Mapping[str, str]:
    """Return a member that defines it for each unresolved symbol, where there is one."""
    references = flatten(unresolved.references for unresolved in context.unresolved_symbols)
    wanted = {name for name, _ in references}
    definers: dict[str, str] = {}
    loaded = context.loaded_wheel
    for member, path in loaded.paths.items() if loaded and wanted else ():
        if loaded and path in loaded.libraries:
            there = loaded.libraries[path].exports.definitions
            definers |= dict.fromkeys(among(there, wanted), member)
    return definers


_STEPS_A_COMPARISON = 20
"""Of two names (difflib)."""


def _nearest(context: Context, unresolved: Unresolved, name: str) -> str | None:
    """Return the defined symbol of the lookup scope that is spelled most like `name`."""
    loaded = context.loaded_wheel
    known: list[str] = []
    for path in loaded.loads[unresolved.root].objects if loaded else ():
        if loaded and path in loaded.libraries:
            names = loaded.libraries[path].exports.definitions
            known += (n for n in names if n[:4] == name[:4] and abs(len(n) - len(name)) <= 4)
    context.budget.spend(_STEPS_A_COMPARISON * len(known), f"the names like `{name}`")
    return next(iter(get_close_matches(name, known, n=1, cutoff=0.85)), None)


def _undefined_hit(
    context: Context,
    unresolved: Unresolved,
    references: Sequence[VersionedName],
    where: tuple[str | None, str | None, str | None],
) -> Hit:
    """Return the hit for symbols that are in a member, or in a platform library, or in neither."""
    (name, _), *others = references
    definer, of_provider, platform = where
    it = them(references)
    near = _nearest(context, unresolved, name) if definer is None else None
    root, outside = context.wheel.elfs[unresolved.root], join_some(unresolved.foreign, 3)
    # An object that Python does not import may be opened by a program that defines the symbol.
    is_library = not root.module_hooks and not root.is_executable
    is_seen = unresolved.root in context.objects_in_use
    opener = (
        _possible_opener(context, definer, unresolved)
        if definer
        else _possible_lender(context, unresolved, is_there=of_provider is not None)
    )
    elsewhere = opener or (platform and is_library)
    severity = None
    if definer and is_library and not is_seen:
        severity = Severity.NOTE
    elif elsewhere or unresolved.foreign or root.is_executable or not is_seen:
        severity = Severity.WARNING
    names, is_lent = [name for name, _ in references], of_provider and not definer
    unread = () if definer or of_provider or platform else context.left.requirements
    lender = f"link it with {of_provider}"
    hint = lender if is_lent else _to_link(context, unresolved, names, definer)
    return Hit(
        message=("it is not known whether a" if opener else "no")
        + f" loaded library defines `{_spell(references[0])}`"
        + f" and {count(len(others), 'other symbol')}" * bool(others),
        member=unresolved.member,
        entry=name,
        notes=(
            *([f"the symbol is `{name}`"] if demangle(name) != name else []),
            *(["nothing in the wheel is seen to load it"] if is_library and not is_seen else []),
            *([f"loaded by `{unresolved.root}`"] if unresolved.root != unresolved.member else []),
            *([f"`{definer}` defines {it}, but is not loaded with it"] if definer else []),
            *filter(None, [opener]),
            *_opened_without(context, root_package(context, unresolved.root)),
            *([f"{of_provider} defines {it}, but is not in DT_NEEDED"] if of_provider else []),
            *([f"`{platform}` defines {it}, but is not in DT_NEEDED"] if platform else []),
            *([f"a similar symbol is defined: `{demangle(near)}`"] if near else []),
            *([f"searched outside the wheel, too: in {outside}"] if outside else []),
            *(
                [f"not looked into, as `--deps` or `--with` does: {join_some(unread, FEW)}"]
                if unread
                else []
            ),
            *([f"also {join_symbols((n for n, _ in others), FEW)}"] if others else []),
        ),
        hint=hint + UNLESS_LOADED if opener and hint.startswith("link ") else hint,
        severity=severity,
    )


def _to_link(
    context: Context, unresolved: Unresolved, names: Sequence[str], definer: str | None
) -> str:
    """Return what to do about symbols that are in a member, or on the platform, or nowhere."""
    loaded, world = context.loaded_wheel, context.world
    libraries = loaded.libraries.items() if loaded and not definer else ()
    own = {path: library for path, library in libraries if path in world.members}
    lack = Lack(
        Failure.SYMBOL,
        world.paths[unresolved.member],
        symbols=tuple(names),
        definers=(world.paths[definer],) if definer else (),
        alike=alike_in(context, names[0], own),
    )
    way, root = named_way(world, lack, "it"), context.wheel.elfs[unresolved.root]
    is_seen = unresolved.root in context.objects_in_use
    if not (way or is_seen or root.module_hooks or root.is_executable):
        who = f"the program that opens it defines {them(names)}"
        way = f"nothing to do if {who}; otherwise, link what does"
    way = way or way_of_build(replace(world, linkable=context.linkable), lack, "it")
    is_path = way.startswith("link") and definer
    return way + "; a repair then writes the search path that leads there" * bool(is_path)


def alike_in(
    context: Context, name: str, libraries: Mapping[str, Library]
) -> tuple[str, str] | None:
    """Return what `alike_elsewhere` does of libraries of the wheel."""
    code, members = context.code, context.world.members

    def mentions(path: str, text: str) -> bool:
        return code is not None and members[path] in code.mentions((text,))[text]

    return alike_elsewhere(name, libraries, context.budget, mentions)


_OPENERS = ("dlopen", "dlmopen", "PyImport_Import", "PyRun_", "PyEval_EvalCode")
"""How the functions begin by which an object may load another, such as compiled Python code."""


def _possible_opener(context: Context, definer: str, unresolved: Unresolved) -> str:
    """Return a note on what of the wheel may load a library before, and it counts; or empty.

    It does for all others, and for those that are loaded with it: they stay bound to it.
    Code that is not read may do so: that of other modules, bytecode, and what `exec` runs.
    """
    loaded, wheel, code = context.loaded_wheel, context.wheel, context.code
    order = context.import_order
    member, root = unresolved.member, unresolved.root
    loads = loaded.loads.items() if loaded else ()
    users = {m: ld for m, ld in loads if loaded and loaded.paths[definer] in ld.objects}
    for user, load in users.items():
        if wheel.elfs[user].is_executable or (loaded and loaded.paths[member] in load.objects):
            return f"`{user}` loads `{definer}`, too, maybe before"
    is_loaded = len(users) > 1 or bool(wheel.elfs[definer].module_hooks)
    if is_loaded or (code is not None and code.opens_libraries):
        for source in order.may_run_before(root, line_for_all):
            return f"`{source}` may open `{definer}` before, for all (RTLD_GLOBAL)"
    openers = (
        other
        for other, elf in wheel.elfs.items()
        for symbol in elf.undefined
        if (symbol.name.startswith(_OPENERS) if other != root else symbol.name == "dlopen")
    )
    executing = order.may_run_before(root, partial(line_of, EXECUTES))
    for other in (*executing, *order.unread, *openers):
        return f"`{other}` has code that is not known, and may load `{definer}` before, for all"
    return ""


def _possible_lender(context: Context, unresolved: Unresolved, *, is_there: bool) -> str:
    """Return a note on what may load a requirement's library before, and it counts; or empty.

    `is_there` says that one which was read has the symbols; one that was not read may have them.
    """
    order, code, root = context.import_order, context.code, unresolved.root
    unread = join_some(context.left.requirements, FEW)
    if code is None or context.loaded_wheel is None:
        return ""
    for name, source in order.opened_outside(root).items():
        if line_for_all(order.read(source)):
            return f"`{source}` may open `{name}` of the machine before, for all (RTLD_GLOBAL)"
    other = next(iter(order.unread), "")
    if other or not (is_there or unread):
        may = f"`{other}` has code that is not known, and may load a library before, for all"
        return may * bool(other)
    whose, loads = "a requirement" if is_there else unread, context.loaded_wheel.loads.items()
    own = [member for member, load in loads if not (is_there or load.missing)]
    for source in order.may_open_for_all(root, own):
        return f"`{source}` may open a library of {whose} before, for all (RTLD_GLOBAL)"
    for provider in context.providers if is_there else ():
        sources = flatten(order.may_import(root, module) for module in provider.modules)
        if code.opens(provider.wheel, line_for_all):
            for source in sources:
                return (
                    f"`{source}` may import {provider.release} before, "
                    "which may open a library for all (RTLD_GLOBAL)"
                )
    return ""


@rule("WF302", "symbols-not-judged", Severity.NOTE)
def symbols_not_judged(context: Context) -> Iterator[Hit]:
    """Undefined symbols may be defined by libraries that were not read.

    ## What it does
    Reports libraries that were not read (those of other wheels, or of the user's system) and may
    define otherwise undefined symbols. Those of the platform for which wheelfix has no list of
    symbols, such as `libX11.so.6`, may be others on other machines than on this one.

    ## Why is this bad?
    It is unknown whether these symbols exist.

    ## Example
    A CUDA package that needs `libcuda.so.1`, which exists only on machines with the driver.

    ## Common causes
    - Libraries of other wheels. **Solution**: `--library-path` with the wheel or directory.

    ## Fix safety
    Not fixed: nothing is known to be wrong.
    """
    lacking = (
        unresolved
        for unresolved in context.unresolved_symbols
        if unresolved.absent and not is_left(context, unresolved)
    )
    for absent, alike in grouped(lacking, lambda unresolved: unresolved.absent).items():
        symbols = {name for name, _ in flatten(unresolved.references for unresolved in alike)}
        members = dict.fromkeys(unresolved.member for unresolved in alike)
        names = first_of([quote(demangle(name)) for name in sorted(symbols)], 2)
        yield Hit(
            message=f"not judged: {', '.join(names)} may be of {join_some(absent, 3)}",
            member=alike[0].member,
            notes=(f"in {join_some(members, 3)}",) if len(members) > 1 else (),
            hint=_VERIFY if all(map(may_come_from_platform, absent)) else GIVE_LIBRARIES,
        )


@rule("WF304", "missing-version", Severity.ERROR)
def missing_version(context: Context) -> Iterator[Hit]:
    """Symbol version not found: the bundled library does not define it.

    ## What it does
    Compares the Verneed records of each object with the Verdef records of the bundled library that
    the loader finds.

    ## Why is this bad?
    glibc checks versions before symbols, and fails with `version … not found` even if only weak
    references use the version, unless the version is marked as weak, too (VER_FLG_WEAK).
    Libraries without any Verdef pass the check; but glibc before 2.41 ends the process when it
    binds a symbol that should have a version to such a library, if Verneed names it. musl has no
    check.

    ## Example
    A module linked with OpenSSL 3 needs `OPENSSL_3.0.0`, and the wheel bundles 1.1.

    ## Common causes
    - The build links with one copy of a library and ships another. **Solution**: use the same copy.

    ## Fix safety
    Not fixed. A repair writes the wheel nevertheless if the object lacked the version before.
    """
    for member, lack in _refused_bundled(context):
        hint = bundled_way(context.world, lack)
        for version in lack.versions:
            defined = context.wheel.elfs[context.world.members[lack.result or ""]].verdef
            yield Hit(
                message=f"needs version `{version}` of `{lack.library}`, which the bundled library "
                "does not define",
                member=member,
                entry=version,
                notes=(f"it defines {join_some(defined, 3)}",),
                hint=hint,
            )
        if lack.failure is Failure.UNVERSIONED:
            yield Hit(
                message=f"needs {join_some(lack.symbols, FEW)} with a version of "
                f"`{lack.library}`, and the bundled library has no versions: this ends a process "
                f"of glibc before {ACCEPTS_UNVERSIONED}",
                member=member,
                entry=lack.library,
                hint=hint,
            )


def _refused_bundled(context: Context) -> Iterator[tuple[str, Lack]]:
    """Yield the members that a bundled library lacks something for, each as it is opened first.

    Whether the platform has the versions is auditwheel's verdict (WF801).
    """
    loaded = context.loaded_wheel
    if loaded is None:
        return
    judge = _judge(context, loaded)
    for member, load in loaded.loads.items():
        alone = load._replace(
            objects=(load.root,)
        )  # the others of the load have loads of their own
        for lack in (*judge.version_lacks(alone), *judge.unversioned_lacks(load)):
            if lack.requester == load.root and lack.result in loaded.members:
                yield member, lack


def _judge(context: Context, loaded: LoadedWheel) -> LoadJudge:
    world = replace(context.world, environment=loaded.environment)
    return LoadJudge(world=world, index=loaded.index)


def failing_loads(context: Context) -> frozenset[str]:
    """Return the members that, opened first, lack a version or a symbol, or load what does."""
    loaded = context.loaded_wheel
    if loaded is None:
        return frozenset()
    judge = _judge(context, loaded)
    return frozenset(
        member
        for member, load in loaded.loads.items()
        if any((*judge.version_lacks(load), *judge.symbol_lacks(load)))
    )
