"""Whether every symbol that an object of the wheel asks for has a provider, once installed."""

from collections.abc import Iterable, Iterator, Mapping
from difflib import get_close_matches
from fnmatch import fnmatchcase

from wheelfix.analysis.unresolved_symbols import Reference, Unresolved
from wheelfix.elf.demangle import demangle
from wheelfix.elf.exports import among
from wheelfix.elf.model import Elf
from wheelfix.loader import python_api
from wheelfix.loader.install_schemes import interpreters
from wheelfix.loader.platform_libraries import defined_by
from wheelfix.rules.context import Context
from wheelfix.rules.findings import Hit, Severity
from wheelfix.rules.module_names import extension_modules
from wheelfix.rules.rule import rule
from wheelfix.wheel.grafted_name import unhashed

_PROMISED = ("libstdc++.so.6", "libgcc_s.so.1", "librt.so.1", "libz.so.1")
"""Libraries of all manylinux tags that are often forgotten in a link."""
_SHOWN = 3


def _listed(names: Iterable[str]) -> str:
    shown = [f"`{name}`" for name in names]
    more = f" and {len(shown) - _SHOWN:,} more" if len(shown) > _SHOWN else ""
    return ", ".join(shown[:_SHOWN]) + more


def _spelled(reference: Reference) -> str:
    name, version = reference
    return demangle(name) + (f"@{version}" if version else "")


# --- What nobody provides -------------------------------------------------------------------------


def _may_be_newer(context: Context, name: str) -> bool:
    """Whether `name` may belong to a Python that is not known, or to one that is no CPython."""
    pythons = interpreters(context.wheel.name)
    return python_api.is_python_name(name) and any(
        python_api.exports(p, name) is None for p in pythons
    )


@rule("WF301", "undefined-symbol", Severity.ERROR)
def undefined_symbol(context: Context) -> Iterator[Hit]:
    """An object needs a symbol that nothing defines.

    ## What it does
    Loads every object of the wheel on paper, as it is installed, and looks for a definition of
    the right version of each symbol that is not weak: in what is loaded with it, in what the
    interpreter has loaded, and, for what is asked of a platform library by version, in the
    promise of the platform tag. Libraries that are not imported themselves are held to it like
    extension modules. Python's own names are WF303's.

    It is a warning if another object of the wheel defines the symbol, if only a program needs
    it, or a library that nothing of the wheel loads needs it of a platform library, or if a
    library of this machine was looked into that others may have in another version.

    ## Why is this bad?
    Python binds everything when it imports: `ImportError: …: undefined symbol: not_there`.

    ## Example
    `ext.so` calls `blosc_compress`, and was linked with a library that has `blosc2_compress`.

    ## Common causes
    - A source file or a library is missing in the link. **Solution**: link with `-Wl,-z,defs`,
      which makes it an error there.
    - C and C++ disagree on the name. **Solution**: `extern "C"`.
    - Another extension module defines it, and is loaded with RTLD_GLOBAL before.
      **Solution**: put it into a library that both need.

    ## Fix safety
    Not fixed.
    """
    definers = _definers(context)
    for each in context.unresolved:
        for reference in each.references[:_SHOWN] if not each.absent else ():
            if not _may_be_newer(context, reference[0]):
                yield _undefined(context, each, reference, definers)


def _definers(context: Context) -> Mapping[str, str]:
    """Return symbol -> a member that defines it, for what is unresolved somewhere."""
    wanted = {name for each in context.unresolved for name, _ in each.references}
    definers: dict[str, str] = {}
    world = context.world
    for member, path in world.paths.items() if world and wanted else ():
        if world and path in world.libraries:
            there = world.libraries[path].exports.definitions
            definers |= dict.fromkeys(among(there, wanted), member)
    return definers


def _nearest(context: Context, unresolved: Unresolved, name: str) -> str | None:
    """Return what is defined in the group and spelled most like `name`."""
    world = context.world
    known = [
        each
        for path in (world.loads[unresolved.root].objects if world else ())
        if world and path in world.libraries
        for each in world.libraries[path].exports.definitions
        if each[:4] == name[:4] and abs(len(each) - len(name)) <= 4
    ]
    return _alike(name, known)


def _alike(name: str, known: Iterable[str], cutoff: float = 0.85) -> str | None:
    """Return what is spelled most like `name`, if anything comes near."""
    return next(iter(get_close_matches(name, tuple(known), n=1, cutoff=cutoff)), None)


def _platform_definer(context: Context, user: Elf, name: str) -> str | None:
    """Return the library of the platform that `user` should have been linked with."""
    for library in _PROMISED:
        host = context.definitions.host(library, user) if context.definitions else None
        known = host.exports.definitions if host is not None else defined_by(library)
        if known is not None and name in known:
            return library
    return None


def _resembling(name: str) -> tuple[str, ...]:
    """Say which name of Python's C API is spelled most like `name`."""
    if not python_api.is_python_name(name):
        return ()
    near = _alike(name, python_api.names())
    return (f"Python has `{near}`",) if near else ()


def _undefined(
    context: Context,
    each: Unresolved,
    reference: Reference,
    definers: Mapping[str, str],
) -> Hit:
    name, number = reference[0], len(each.references)
    definer = definers.get(name)
    near = _nearest(context, each, name) if definer is None else None
    root = context.wheel.elfs[each.root]
    platform = _platform_definer(context, root, name)
    # What no Python imports may be opened by a program that has the symbol.
    mild = definer or each.foreign or root.is_executable or (platform and not root.module_hooks)
    return Hit(
        message=f"needs `{_spelled(reference)}`, which nothing defines that it is loaded with",
        member=each.member,
        entry=name,
        notes=(
            *([f"the symbol is `{name}`"] if demangle(name) != name else []),
            *([f"loaded by `{each.root}`"] if each.root != each.member else []),
            *([f"`{definer}` defines it, and is not loaded with it"] if definer else []),
            *_resembling(name),
            *([f"`{platform}` defines it, and is not in DT_NEEDED"] if platform else []),
            *([f"defined is `{demangle(near)}`"] if near else []),
            *([f"looked for in this machine's {_listed(each.foreign)}"] if each.foreign else []),
            *([f"{number:,} symbols of this object are undefined"] if number > _SHOWN else []),
        ),
        hint="link with what defines it; `-Wl,-z,defs` finds such symbols at build time",
        severity=Severity.WARNING if mild else None,
    )


@rule("WF302", "symbols-not-judged", Severity.INFO)
def symbols_not_judged(context: Context) -> Iterator[Hit]:
    """Symbols may be defined by libraries that are not at hand.

    ## What it does
    Says which libraries are missing here (other wheels bring them, or the user's system), where
    symbols are undefined that they may define.

    ## Why is this bad?
    Nobody has checked whether these symbols exist.

    ## Example
    A CUDA package that needs `libcuda.so.1`, which only machines with a driver have.

    ## Common causes
    - Libraries of other wheels. **Solution**: `--library-path` with the wheel or directory.

    ## Fix safety
    Not fixed: nothing is known to be wrong.
    """
    groups: dict[tuple[str, ...], list[Unresolved]] = {}
    for each in context.unresolved:
        if each.absent:
            groups.setdefault(each.absent, []).append(each)
    for absent, some in groups.items():
        symbols = {name for each in some for name, _ in each.references}
        yield Hit(
            message=f"{len(symbols):,} symbols of {_listed(each.member for each in some)} may be "
            f"defined by what is not at hand: {_listed(absent)}",
            member=some[0].member,
            notes=(f"such as {_listed(map(demangle, sorted(symbols)))}",),
            hint="hand the libraries over with `--library-path`",
        )


# --- Python's own names ---------------------------------------------------------------------------


@rule("WF303", "python-symbol", Severity.ERROR)
def python_symbol(context: Context) -> Iterator[Hit]:
    """An extension module needs a name of Python's C API that its Pythons do not have.

    ## What it does
    Compares the names that modules ask of the interpreter with what CPython exports, for every
    version that the wheel's tags and the module's suffix allow; for `abi3` also with the stable
    ABI as of the oldest of them. Versions that are too new to be known, free-threaded builds and
    other interpreters are given the benefit of the doubt.

    ## Why is this bad?
    `ImportError: …: undefined symbol: PyType_GetModuleByDef` in some of the Pythons that pip
    installs the wheel for.

    ## Example
    `cp38-abi3` on a module that calls `PyModule_AddObjectRef`, which CPython has since 3.10.

    ## Common causes
    - `Py_LIMITED_API` is newer than the tag, or not set at all. **Solution**: let both say the
      same version; `abi3audit` looks closer.
    - A module of another Python in the wheel. **Solution**: build from a clean tree.

    ## Fix safety
    Not fixed.
    """
    modules = {module.member: module for module in extension_modules(context.wheel)}
    everywhere = interpreters(context.wheel.name)
    api = python_api.names()
    sound: dict[tuple[tuple[str, ...], bool], set[str]] = {}
    for member, elf in context.wheel.elfs.items():
        if elf.is_executable:
            continue
        module = modules.get(member)
        pythons = everywhere
        if module is not None and module.pythons is not None:
            pythons = tuple(python for python in everywhere if python in module.pythons)
        imported = module is not None and bool(module.elf.module_hooks)
        known = sound.setdefault((pythons, imported), set())
        for name, _, _, _, weak in elf.undefined:
            if name in known or weak or name not in api:
                continue
            hits = list(_judged(context, member, name, pythons, strict=imported))
            if not hits:
                known.add(name)
            elif not _defines(context, member, name):
                yield from hits


def _defines(context: Context, member: str, name: str) -> bool:
    """Whether something that is loaded with `member` defines `name` itself."""
    world = context.world
    if world is None or member not in world.paths:
        return False
    return any(
        name in world.libraries[path].exports.definitions
        for path in world.loads[member].objects
        if path in world.libraries
    )


def _judged(
    context: Context, member: str, name: str, pythons: tuple[str, ...], *, strict: bool
) -> Iterator[Hit]:
    answers = {python: python_api.exports(python, name) for python in pythons}
    lacking = [python for python, answer in answers.items() if answer is False]
    if lacking and (strict or not any(answer is True for answer in answers.values())):
        several = f" to {lacking[-1]}" if len(lacking) > 1 else ""
        yield Hit(
            message=f"needs `{name}` of Python, which {lacking[0]}{several} does not have",
            member=member,
            entry=name,
            notes=_known_since(name),
            hint="build it for the Python versions that the tags promise",
        )
    elif "abi3" in context.wheel.name.abis and strict:
        yield from _unstable(member, name, pythons)


def _known_since(name: str) -> tuple[str, ...]:
    found = python_api.find(name)
    if found is None:
        return ()
    if not found.minors:
        return (f"CPython has it since 3.{found.stable}",)
    first, last = min(found.minors), max(found.minors)
    oldest, newest = min(python_api.known_minors()), max(python_api.known_minors())
    since = f"since 3.{first}" if first > oldest else ""
    until = f"until 3.{last}" if last < newest else ""
    return (f"CPython exports it {since}{' ' if since and until else ''}{until}",)


def _unstable(member: str, name: str, pythons: tuple[str, ...]) -> Iterator[Hit]:
    found = python_api.find(name)
    oldest = min(int(python.rpartition(".")[2].rstrip("t")) for python in pythons)
    stable = found.stable if found else None
    if found is not None and (stable is None or stable > oldest):
        when = f"only since 3.{stable}" if stable else "not at all"
        yield Hit(
            message=f"needs `{name}`, in the stable ABI {when}, and the tag promises 3.{oldest}",
            member=member,
            entry=name,
            notes=("every CPython known so far exports it all the same",),
            hint=f"define `Py_LIMITED_API` as 0x03{oldest:02X}0000",
            severity=Severity.WARNING,
        )


# --- Versions of the wheel's own libraries --------------------------------------------------------


@rule("WF304", "missing-version", Severity.ERROR)
def missing_version(context: Context) -> Iterator[Hit]:
    """An object needs a symbol version that the wheel's own library does not define.

    ## What it does
    Compares the Verneed records of each object with the Verdef records of the wheel's library
    that answers to them.

    ## Why is this bad?
    The loader checks versions before any symbol: `libx.so.1: version 'X_2.0' not found`, also if
    nothing but weak references asks for it. A library without any Verdef passes.

    ## Example
    A module that was linked with OpenSSL 3 needs `OPENSSL_3.0.0`, and the wheel ships 1.1.

    ## Common causes
    - The build links with one copy of a library and ships another. **Solution**: let both be one.

    ## Fix safety
    Not fixed.
    """
    world = context.world
    for member in world.paths if world else ():
        for need in context.wheel.elfs[member].verneed:
            path = world.answer(member, need.file) if world else None
            library = world.environment.files.get(path) if world and path else None
            inside = world is not None and path in world.paths.values()
            if library is None or not inside or not library.verdef:
                continue
            for version in need.versions:
                if version not in library.verdef and world and path:
                    yield Hit(
                        message=f"needs version `{version}` of `{need.file}`, which the wheel's "
                        "copy does not define",
                        member=member,
                        entry=version,
                        notes=(f"it defines {_listed(library.verdef)}",),
                        hint="build against the library that the wheel ships",
                    )


# --- What the project demands ---------------------------------------------------------------------


@rule("WF305", "required-symbol-missing", Severity.ERROR)
def required_symbol_missing(context: Context) -> Iterator[Hit]:
    """A library or symbol that the project demands is not in the wheel.

    ## What it does
    Checks the demands of the settings: `[[tool.wheelfix.require]]` with `library`, a glob for
    the library's file name or SONAME, as it was before the graft; and `symbols`, globs of which
    each must match a symbol that the library defines. Without demands it does nothing.

    ## Why is this bad?
    Only the project knows which entry points its users look up at run time, by `dlsym`, ctypes
    or a registry of plug-ins: no linker checks those.

    ## Example
    `library = "libcodec.so", symbols = ["codec_*", "codec_register"]`, and the library was built
    with hidden visibility.

    ## Common causes
    - `-fvisibility=hidden` without an export macro, or `strip` of the wrong kind.
      **Solution**: export the symbols.
    - The library was left out of the build. **Solution**: put it into the wheel.

    ## Fix safety
    Not fixed.
    """
    for demand in context.settings.require:
        libraries = [
            member
            for member, elf in context.wheel.elfs.items()
            if elf.dynamic and _is_called(member, elf, demand.library)
        ]
        if not libraries and not context.wheel.is_pure:
            yield Hit(
                message=f"has no library `{demand.library}`, which the project demands",
                entry=demand.library,
                hint="put it into the wheel, or mend `require` in the configuration",
            )
        for member in libraries:
            read = context.definitions.reader(member) if context.definitions else None
            defined = read().definitions if read else None
            for pattern in demand.symbols if defined is not None else ():
                if not any(fnmatchcase(name, pattern) for name in defined or ()):
                    near = _alike(pattern, defined or (), cutoff=0.6)
                    yield Hit(
                        message=f"defines no symbol `{pattern}`, which the project demands",
                        member=member,
                        entry=pattern,
                        notes=(f"it defines `{near}`",) if near else (),
                        hint="export the symbol, or mend `require` in the configuration",
                    )


def _is_called(member: str, elf: Elf, pattern: str) -> bool:
    file = member.rpartition("/")[2]
    names = {file, unhashed(file), elf.soname, unhashed(elf.soname or "")}
    return any(fnmatchcase(name, pattern) for name in names if name)


RULES = (
    undefined_symbol,
    symbols_not_judged,
    python_symbol,
    missing_version,
    required_symbol_missing,
)
