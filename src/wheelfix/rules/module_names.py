"""Whether every name finds what it names: modules, SONAMEs, libraries opened by name."""

import json
import posixpath
import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from fnmatch import filter as filter_names
from fnmatch import fnmatchcase
from typing import Any, NamedTuple, cast

from wheelfix.elf.model import Abi, Elf, Libc, Machine
from wheelfix.loader.install_schemes import Key, Scheme, describe, installed, interpreters, split
from wheelfix.loader.installed_wheel import environment
from wheelfix.loader.model import Dlopen
from wheelfix.loader.platform_libraries import may_come_from_platform
from wheelfix.loader.search import load_all
from wheelfix.rules.context import Context, Stage
from wheelfix.rules.findings import Fix, Hit, Severity
from wheelfix.rules.rule import rule
from wheelfix.wheel.edits import RenameNeeded
from wheelfix.wheel.grafted_name import original_name, unhashed
from wheelfix.wheel.model import Opening, Wheel, Where
from wheelfix.wheel.platform_tags import promised_libcs

_LIBRARY_KEYS = (Key.PURELIB, Key.PLATLIB)


def _users(wheel: Wheel, name: str) -> tuple[str, ...]:
    return tuple(member for member, elf in wheel.elfs.items() if name in elf.needed)


def _listed(names: Iterable[str]) -> str:
    shown = [f"`{name}`" for name in names]
    more = f" and {len(shown) - 3} more" if len(shown) > 3 else ""
    return ", ".join(shown[:3]) + more


# --- Extension modules ----------------------------------------------------------------------------

_SUFFIX = re.compile(
    r"\.(?:cpython-3(?P<cpython>\d+)(?P<flags>[a-z]*)(?:-(?P<platform>[\w-]+))?"
    r"|pypy3(?P<pypy>\d+)-pp\d+(?:-(?P<pypy_platform>[\w-]+))?"
    r"|(?P<abi3>abi3t?))\.so|\.so"
)
"""The suffixes of `importlib.machinery.EXTENSION_SUFFIXES`, over all Pythons (PEP 3149, 425)."""
_MACHINES: Mapping[str, int] = {
    "x86_64": Machine.X86_64,
    "i386": Machine.I386,
    "aarch64": Machine.AARCH64,
    "arm": Machine.ARM,
    "powerpc64le": Machine.PPC64,
    "s390x": Machine.S390,
    "riscv64": Machine.RISCV,
    "loongarch64": Machine.LOONGARCH,
}
"""The first part of the multiarch triplet in a suffix, and the machine it stands for."""


class ExtensionModule(NamedTuple):
    """A file that some Python may import as an extension module, by its name."""

    member: str
    elf: Elf
    stem: str
    suffix: str
    pythons: frozenset[str] | None
    """The Pythons that import the suffix, among those of `layout.interpreters`; None is all."""
    platform: str | None
    """The multiarch triplet in the suffix."""

    @property
    def tagged(self) -> bool:
        """Whether the suffix says that this is an extension module."""
        return self.suffix != ".so"

    @property
    def hooks(self) -> tuple[str, ...]:
        """What CPython looks up for this name (`_PyImport_GetModInitFunc`, PEP 489, PEP 793)."""
        if self.stem.isascii():
            return f"PyInit_{self.stem}", f"PyModExport_{self.stem}"
        name = self.stem.encode("punycode").decode("ascii").replace("-", "_")
        return f"PyInitU_{name}", f"PyModExportU_{name}"


def extension_modules(wheel: Wheel) -> Iterator[ExtensionModule]:
    """Yield the files in site-packages that some Python 3 would import by their names."""
    allowed = interpreters(wheel.name)
    if all(python.startswith("python2") for python in allowed):
        return
    for member, elf in wheel.elfs.items():
        place = split(member, wheel)
        if not elf.dynamic or elf.is_executable or not place or place[0] not in _LIBRARY_KEYS:
            continue
        folder, _, name = place[1].rpartition("/")
        stem, dot, rest = name.partition(".")
        match = _SUFFIX.fullmatch(dot + rest)
        importable = all(part.isidentifier() for part in [*filter(None, folder.split("/")), stem])
        if match and importable:
            yield ExtensionModule(
                member=member,
                elf=elf,
                stem=stem,
                suffix=match[0],
                pythons=_importing(match, allowed),
                platform=match["platform"] or match["pypy_platform"],
            )


def _importing(match: re.Match[str], allowed: Iterable[str]) -> frozenset[str] | None:
    if match["cpython"]:
        return frozenset({f"python3.{match['cpython']}" + ("t" if "t" in match["flags"] else "")})
    if match["pypy"]:
        return frozenset({f"pypy3.{match['pypy']}"})
    if match["abi3"] == "abi3":
        return frozenset(p for p in allowed if not p.startswith("pypy") and not p.endswith("t"))
    return None


def _asks_for_python(elf: Elf) -> bool:
    return any(symbol.name.startswith(("Py", "_Py")) for symbol in elf.undefined)


@rule("WF311", "module-hook", Severity.ERROR)
def module_hook(context: Context) -> Iterator[Hit]:
    """An extension module has no function of the name that its file name makes Python look for.

    ## What it does
    Compares the file name of each extension module with the functions that make a module of it:
    `PyInit_name`, for names beyond ASCII `PyInitU_` and the name in punycode (PEP 489), and
    `PyModExport_name` (PEP 793). A plain library that is only named like a module (no such
    function, and nothing of Python's that it asks for) is none.

    ## Why is this bad?
    `import foo` fails: `dynamic module does not define module export function (PyInit_foo)`.

    ## Example
    `foo.cpython-311-x86_64-linux-gnu.so` that defines `PyInit_bar`.

    ## Common causes
    - The file was renamed after it was built, or CMake's `OUTPUT_NAME` and `PYBIND11_MODULE`
      name different modules. **Solution**: let both say the same.
    - The function is C++ without `extern "C"`, or hidden. **Solution**: use `PyMODINIT_FUNC`.

    ## Fix safety
    Not fixed: only the build knows which name is meant.
    """
    needed = {name for elf in context.wheel.elfs.values() for name in elf.needed}
    for module in extension_modules(context.wheel):
        hooks = tuple(hook for hook in module.elf.module_hooks if hook.startswith("Py"))
        library = module.stem.startswith("lib") or module.member.rpartition("/")[2] in needed
        # A library that others link with may hold modules for a program that embeds Python.
        if set(hooks) & set(module.hooks) or library:
            continue
        if not hooks and not (module.tagged and _asks_for_python(module.elf)):
            continue
        has = f"it defines {_listed(hooks)}" if hooks else "it defines no such function at all"
        yield Hit(
            message=f"cannot be imported as `{module.stem}`: `{module.hooks[0]}` is not defined",
            member=module.member,
            entry=module.hooks[0],
            notes=(has,),
            hint="give the file and the module the same name, and export the function",
            severity=None if module.tagged else Severity.WARNING,
        )


@rule("WF312", "module-never-imported", Severity.ERROR)
def module_never_imported(context: Context) -> Iterator[Hit]:
    """The suffix of an extension module fits none of the Pythons that the wheel is for.

    ## What it does
    Compares the suffix of each extension module (`.cpython-310-x86_64-linux-gnu.so`, `.abi3.so`)
    with the Python and ABI tags of the wheel, and with the machine that the module is built for.
    A warning, if another file of the same name serves those Pythons, or if some are served.

    ## Why is this bad?
    Python looks only for its own suffixes: `ModuleNotFoundError`, with the file in its place.

    ## Example
    `old.cpython-310-x86_64-linux-gnu.so` in a wheel with the tag `cp311-cp311`.

    ## Common causes
    - A leftover of an earlier build in the source tree. **Solution**: build from a clean tree,
      by `python -m build` through an sdist.
    - A cross build that took the suffix of the build machine's Python. **Solution**: set
      `SETUPTOOLS_EXT_SUFFIX` or your build system's counterpart.

    ## Fix safety
    Not fixed: the file is either surplus or misnamed, and only the build knows which.
    """
    allowed = interpreters(context.wheel.name)
    modules = tuple(extension_modules(context.wheel))
    served: dict[str, set[str]] = {}
    for module in modules:
        fits = set(allowed) if module.pythons is None else set(allowed) & module.pythons
        served.setdefault(_import_name(module), set()).update(fits if _fits_machine(module) else ())
    for module in modules:
        if not module.elf.module_hooks:
            continue
        if not _fits_machine(module):
            yield _never(module, f"its code is not for {module.platform}", Severity.ERROR)
        elif module.pythons is not None and not module.pythons & set(allowed):
            rest = served[_import_name(module)]
            what = f"the wheel is for {_shown(allowed)}"
            yield _never(module, what, Severity.WARNING if rest else Severity.ERROR)
        elif missing := _without_module(context, module, served[_import_name(module)]):
            yield Hit(
                message=f"`{module.stem}` is missing for {_shown(missing)}, which the tags allow",
                member=module.member,
                entry=module.suffix,
                hint="build one wheel for each Python, or for the stable ABI",
                severity=Severity.WARNING,
            )


def _import_name(module: ExtensionModule) -> str:
    return posixpath.join(posixpath.dirname(module.member), module.stem)


def _fits_machine(module: ExtensionModule) -> bool:
    arch = (module.platform or "").partition("-")[0]
    return arch not in _MACHINES or _MACHINES[arch] == module.elf.machine


def _never(module: ExtensionModule, why: str, severity: Severity) -> Hit:
    return Hit(
        message=f"is never imported: no Python of the wheel's tags looks for `{module.suffix}`",
        member=module.member,
        entry=module.suffix,
        notes=(why,),
        hint="build from a clean tree, with the suffix of the Python that the wheel is for",
        severity=severity,
    )


def _without_module(context: Context, module: ExtensionModule, served: set[str]) -> tuple[str, ...]:
    """Return the Pythons of the tags that no file of this name serves, where that is no choice.

    Free-threaded builds and PyPy have no stable ABI in common with CPython, and the tags of pure
    Python allow them anyway; a source of the same name serves all.
    """
    name = _import_name(module)
    lacking = tuple(
        python
        for python in interpreters(context.wheel.name)
        if not (python.startswith("pypy") or python.endswith("t") or python in served)
    )
    sources = {f"{name}.py", f"{name}/__init__.py"}
    if not lacking or any(member.name in sources for member in context.wheel.members):
        return ()
    return lacking


def _shown(pythons: Iterable[str]) -> str:
    names = list(pythons)
    return names[0] if len(names) == 1 else f"{names[0]} to {names[-1]}"


# --- SONAMEs --------------------------------------------------------------------------------------


@rule("WF313", "soname-differs", Severity.ERROR, Stage.BEFORE)
def soname_differs(context: Context) -> Iterator[Hit]:
    """A library is needed by its SONAME, and stands in the wheel under another file name.

    ## What it does
    Reports DT_NEEDED entries that name no file of the wheel, where a library of the wheel has
    that name as its SONAME.

    ## Why is this bad?
    The loader looks for *files*; it compares SONAMEs only with what is loaded already. The user
    of the library does not load, or loads another copy that the system has; and auditwheel says
    that the library `could not be located`, or grafts the build machine's.

    ## Example
    The file `libin.so` has the SONAME `libin.so.2`, and `user.so` needs `libin.so.2`.

    ## Common causes
    - The symbolic link `libin.so.2 -> libin.so` is not in the wheel: a zip has no links.
      **Solution**: ship the file under its SONAME, or `wheelfix repair`.

    ## Fix safety
    Safe: DT_NEEDED of its users changes to the file name, with the Verneed records that go with
    it. The library itself stays as it is, under its path and with its SONAME: what opens it by
    path, and what relies on its being loaded, still finds it.
    """
    wheel = context.wheel
    names = dict.fromkeys(name for elf in wheel.elfs.values() for name in elf.needed)
    for name in names:
        if name in context.shipped or may_come_from_platform(name):
            continue
        users = _users(wheel, name)
        library = _with_soname(wheel, name, wheel.elfs[users[0]])
        if library is None:
            continue
        file = library.rpartition("/")[2]
        edits = tuple(
            RenameNeeded(member=user, old=name, new=file) for user in users if user != library
        )
        yield Hit(
            message=f"has the SONAME `{name}`, but its file name is `{file}`: who needs it by the "
            "one does not find the other",
            member=library,
            entry=name,
            notes=(f"needed by {_listed(users)}",),
            hint="`wheelfix repair` lets its users ask for the file name",
            fix=Fix(title="ask for the file name", edits=edits) if edits else None,
            severity=Severity.WARNING if _opened_by_path(context, library) else None,
        )


def _with_soname(wheel: Wheel, name: str, user: Elf) -> str | None:
    kind = user.abi
    for member, elf in wheel.elfs.items():
        fits = elf.abi == kind
        if elf.soname == name and elf.dynamic and not elf.is_executable and fits:
            return member
    return None


def _opened_by_path(context: Context, library: str) -> bool:
    """Return whether a source opens `library` by its path, which makes its SONAME known."""
    wheel = context.wheel
    place = split(library, wheel)
    return place is not None and any(
        opening.where is Where.SOURCE and _place(wheel, source, opening) == place
        for source, opening in _openings(wheel)
    )


@rule("WF314", "duplicate-soname", Severity.WARNING)
def duplicate_soname(context: Context) -> Iterator[Hit]:
    """Two different libraries of the wheel have one SONAME.

    ## What it does
    Reports libraries with the same SONAME and different content, if something of the wheel needs
    that name.

    ## Why is this bad?
    A process has one library for a name: the one that is loaded first serves all that ask for
    the name later. Which one that is depends on what is imported first.

    ## Example
    `pkg/a/libcore.so.1` and `pkg/b/libcore.so.1`, of two versions.

    ## Common causes
    - Two parts of a package bring different builds of one library. **Solution**: build both with
      one of them, or give each a SONAME of its own.

    ## Fix safety
    Not fixed: which of them is meant for whom is not to be seen.
    """
    groups: dict[tuple[str, Abi], list[str]] = {}
    needed = {name for elf in context.wheel.elfs.values() for name in elf.needed}
    for member, elf in context.wheel.elfs.items():
        if elf.soname and elf.soname in needed and elf.dynamic and not elf.is_executable:
            groups.setdefault((elf.soname, elf.abi), []).append(member)
    for (soname, _), members in groups.items():
        first, *others = members
        for other in others:
            if _content(context.wheel.elfs[first]) != _content(context.wheel.elfs[other]):
                yield Hit(
                    message=f"has the SONAME `{soname}` of another library: the one that is "
                    "loaded first serves both kinds of users",
                    member=other,
                    entry=soname,
                    notes=(f"the other one is `{first}`",),
                    hint="ship one of them, or give each a SONAME of its own",
                )


def _content(elf: Elf) -> Elf:
    """Return what tells two builds apart, without what a repair may change."""
    return replace(elf, rpath=None, runpath=None, segments=())


_COMMON = re.compile(
    r"lib(?:z|ssl|crypto|stdc\+\+|gomp|gcc_s|gfortran|quadmath|jpeg|turbojpeg|png\d*|sqlite3|curl|"
    r"lzma|bz2|zstd|lz4|ffi|xml2|xslt|freetype|tiff|webp|expat|openblas|blas|lapack|ncursesw?|"
    r"tinfo|readline|pq|ssh2|nghttp2|protobuf|hdf5|iconv|pcre2?(?:-8)?|uuid|krb5|gssapi_krb5)"
    r"\.so(?:\.\d+)*"
)
"""SONAMEs that every other system and wheel has, too."""


@rule("WF315", "common-soname", Severity.WARNING)
def common_soname(context: Context) -> Iterator[Hit]:
    """A vendored library keeps a SONAME that many systems and other wheels have, too.

    ## What it does
    Reports libraries of the wheel whose SONAME is a widespread one, such as `libz.so.1` or
    `libssl.so.3`, and not a private one like `libz-1a2b3c4d.so.1`.

    ## Why is this bad?
    A process has one library for a SONAME, whoever loaded it first. If that was the system or
    another wheel, this wheel runs with their copy, which may lack a symbol or a version; if it
    was this wheel, they run with this one.

    ## Example
    `pkg/lib/libssl.so.3`: after `import ssl` the wheel's own modules use the system's OpenSSL.

    ## Common causes
    - The library was copied into the package by hand. **Solution**: leave it out, and let
      `wheelfix repair` graft it under a private name; or link it statically.
    - It is wanted so, to be shared (`libgomp` of a family of wheels). **Solution**: ignore the
      rule, and say why.

    ## Fix safety
    Not fixed: code that opens the library by its path or its name would have to change, too.
    """
    for member, elf in context.wheel.elfs.items():
        name = elf.soname or member.rpartition("/")[2]
        if elf.dynamic and not elf.is_executable and _COMMON.fullmatch(name):
            users = _users(context.wheel, name)
            yield Hit(
                message=f"ships `{name}` under its common name: the first copy in the process "
                "serves everybody, this one or another",
                member=member,
                entry=name,
                notes=(f"needed by {_listed(users)}",) if users else (),
                hint="leave it out and let `wheelfix repair` graft it under a private name",
            )


_RUNTIMES: Mapping[str, tuple[str, Severity]] = {
    "libstdc++": (
        (
            "types, locales and exceptions of the two do not mix, and an older one that is loaded "
            "first lacks `GLIBCXX` versions that others need"
        ),
        Severity.WARNING,
    ),
    "libgcc_s": (
        (
            "an exception or a `pthread_cancel` that one unwinder starts cannot pass frames that "
            "only the other knows"
        ),
        Severity.WARNING,
    ),
    "libgomp": (
        (
            "each has its own pool of threads: together they start more threads than there are "
            "processors, and settings such as `omp_set_num_threads` reach only one of them"
        ),
        Severity.INFO,
    ),
}


@rule("WF316", "second-runtime", Severity.WARNING)
def second_runtime(context: Context) -> Iterator[Hit]:
    """The wheel ships a compiler's runtime library, which a process should have once.

    ## What it does
    Reports libstdc++, libgcc_s and libgomp among the files of the wheel, under whatever name.

    ## Why is this bad?
    Other modules of the process use the system's copy, or that of another wheel. What a runtime
    keeps for the whole process then exists twice: thread pools (libgomp), the unwinder's tables
    (libgcc_s), locales and type identity (libstdc++).

    ## Example
    `scikit_learn.libs/libgomp-a34b3233.so.1.0.0`.

    ## Common causes
    - libstdc++ and libgcc_s are promised by all manylinux tags. **Solution**: leave them out;
      build on an older system if the promised one is too old.
    - libgomp is promised by none, so auditwheel grafts it. **Solution**: none is better in
      general; `OMP_NUM_THREADS` reaches all copies.

    ## Fix safety
    Not fixed.
    """
    for member, elf in context.wheel.elfs.items():
        name = member.rpartition("/")[2]
        own = original_name(name)
        runtime = _RUNTIMES.get(own.partition(".so")[0])
        musl = Libc.MUSL in promised_libcs(context.wheel.name.platforms)
        if runtime is None or not elf.dynamic or (musl and "gomp" not in own):
            continue
        consequence, severity = runtime
        yield Hit(
            message=f"ships a `{own}` of its own beside the one that others use",
            member=member,
            entry=own,
            notes=(consequence,),
            severity=severity,
        )


# --- Libraries opened by name ---------------------------------------------------------------------


def _openings(wheel: Wheel) -> Iterator[tuple[str, Opening]]:
    for source in _present(wheel, wheel.openings):
        yield from ((source, opening) for opening in wheel.openings[source])


def _present(wheel: Wheel, sources: Collection[str]) -> Iterable[str]:
    """Return those that no edit has taken out."""
    members = {member.name for member in wheel.members} if sources else ()
    return (source for source in sources if source in members)


def _place(wheel: Wheel, source: str, opening: Opening) -> tuple[Key, str] | None:
    """Return the place that `opening` means by a path within site-packages, as `split` gives."""
    here = split(source, wheel)
    if here is None:
        return None
    rest = posixpath.normpath(posixpath.join(posixpath.dirname(here[1]), opening.name))
    return None if rest.startswith("..") else (here[0], rest)


def _graded(opening: Opening) -> Severity:
    """Return how bad it is if the name is not found: certain failure, later, or provided for."""
    if not opening.sure:
        return Severity.INFO
    return Severity.ERROR if opening.on_import else Severity.WARNING


def _call(opening: Opening) -> str:
    return f'line {opening.line}: `{opening.function}("{opening.name}")`'


def _answering(wheel: Wheel, name: str) -> tuple[str, ...]:
    """Return the objects that answer to the bare `name` once they are loaded."""
    return tuple(
        member
        for member, elf in wheel.elfs.items()
        if elf.dynamic and name in {elf.soname, member.rpartition("/")[2]}
    )


def _renamed(wheel: Wheel, name: str) -> str | None:
    """Return the library of the wheel that was called `name` before it was grafted."""
    for member, elf in wheel.elfs.items():
        file = member.rpartition("/")[2]
        if elf.dynamic and name in {unhashed(file), unhashed(elf.soname or "")}:
            return member
    return None


@rule("WF317", "opened-library-missing", Severity.ERROR)
def opened_library_missing(context: Context) -> Iterator[Hit]:
    """A Python source opens a library by a name or path that leads to nothing.

    ## What it does
    Reads, in the Python sources of the wheel, the names that are handed to `ctypes.CDLL`,
    `ctypes.cdll.LoadLibrary`, `PyDLL`, `ctypes.util.find_library`, cffi's `dlopen` and
    `numpy.ctypeslib.load_library`, and looks for each where it will be looked for once installed.
    Code for other systems, and what cannot be told without running the code, is left out.

    It is an error if the module itself makes the call and nothing catches its failure, a warning
    if one of its functions does, and otherwise for information.

    ## Why is this bad?
    `OSError: cannot open shared object file` when the package is imported or used.

    ## Example
    `CDLL(os.path.join(os.path.dirname(__file__), "libx.so"))`, and the wheel has `pkg/lib/libx.so`.
    `CDLL("libx.so")` finds only what the system has or what is loaded already, never the file
    that stands beside the source.

    ## Common causes
    - The build writes the library elsewhere. **Solution**: make the build and the code agree.
    - A bare name. **Solution**: `CDLL(str(Path(__file__).parent / "libx.so"))`.
    - `find_library`, which asks the system only. **Solution**: as above.

    ## Fix safety
    Not fixed: wheelfix does not change code.
    """
    wheel = context.wheel
    openings = list(_openings(wheel))
    files = frozenset(p[1] for m in wheel.members if openings and (p := split(m.name, wheel)))
    for source, opening in openings:
        match opening.where:
            case Where.SOURCE:
                yield from _missing_path(context, source, opening, files)
            case Where.SEARCH:
                yield from _missing_name(context, source, opening)
            case Where.FIND:
                yield from _not_findable(context, source, opening)
            case Where.PREFIX | Where.ABSOLUTE:
                pass  # a place of the user's machine


def _missing_path(
    context: Context, source: str, opening: Opening, files: frozenset[str]
) -> Iterator[Hit]:
    """Judge a path below site-packages; `files` are all that stand there."""
    wheel = context.wheel
    if ".so" not in opening.name and not opening.suffixes:
        return  # the name of another system's library
    place = _place(wheel, source, opening)
    if place is None:
        yield from _outside(context, source, opening)
        return
    top = place[1].partition("/")[0]
    wanted = [place[1] + suffix for suffix in opening.suffixes or ("",)]
    # A top folder without `__init__.py` is shared with other distributions (PEP 420).
    if place[1] in files or f"{top}/__init__.py" not in files:
        return
    if any(filter_names(files, glob) for glob in wanted):
        return
    name = posixpath.basename(place[1])
    yield Hit(
        message=f"{_call(opening)} opens `{place[1]}`, which the wheel does not have",
        member=source,
        entry=opening.name,
        notes=_elsewhere(wheel, name),
        hint="make the build and the code agree on the place of the library",
        severity=_graded(opening),
    )


def _elsewhere(wheel: Wheel, name: str) -> tuple[str, ...]:
    stem = name.partition(".")[0]
    near = [m for m in (_renamed(wheel, name), *_answering(wheel, name)) if m]
    near = near or [m for m in wheel.elfs if posixpath.basename(m).startswith(f"{stem}.")]
    return (f"the wheel has {_listed(dict.fromkeys(near))}",) if near else ()


def _outside(context: Context, source: str, opening: Opening) -> Iterator[Hit]:
    """Judge a path out of site-packages, which leads somewhere else in each scheme."""
    wheel = context.wheel
    lost: list[Scheme] = []
    name = posixpath.basename(opening.name)
    mine = [m.name for m in wheel.members if posixpath.basename(m.name) == name]
    for layout in context.layouts if mine else ():
        for scheme in layout.schemes:
            origin = installed(source, wheel, scheme) or ""
            path = posixpath.normpath(posixpath.join(posixpath.dirname(origin), opening.name))
            if path not in {installed(member, wheel, scheme) for member in mine}:
                lost.append(scheme)
    if lost:
        everywhere = len(lost) == sum(len(layout.schemes) for layout in context.layouts)
        yield Hit(
            message=f"{_call(opening)} leads out of site-packages, and not to the wheel's "
            f"{_listed(mine)}",
            member=source,
            entry=opening.name,
            notes=(f"fails in: {describe(lost)}",),
            hint="keep the library in the package, beside the code that opens it",
            severity=_graded(opening) if everywhere else min(_graded(opening), Severity.WARNING),
        )


def _missing_name(context: Context, source: str, opening: Opening) -> Iterator[Hit]:
    wheel, name = context.wheel, opening.name
    libraries = _answering(wheel, name)
    if not libraries or may_come_from_platform(name):
        return
    if any(_opened_by_path(context, library) for library in libraries):
        return  # once loaded, a library answers to its SONAME
    users = _users(wheel, name)
    if users:
        yield Hit(
            message=f"{_call(opening)} finds the wheel's `{libraries[0]}` only after something "
            "that needs it is loaded",
            member=source,
            entry=name,
            notes=(f"needed by {_listed(users)}",),
            hint="import one of them before, or open the library by its path",
            severity=Severity.INFO,
        )
        return
    yield Hit(
        message=f"{_call(opening)} does not find the wheel's `{libraries[0]}`: a bare name is "
        "searched for in the system only",
        member=source,
        entry=name,
        notes=("no object of the wheel needs it, so that nothing has loaded it before",),
        hint="open the library by its path, made from `__file__`",
        severity=_graded(opening),
    )


def _not_findable(context: Context, source: str, opening: Opening) -> Iterator[Hit]:
    wheel = context.wheel
    stem = f"lib{opening.name}"
    mine = [
        member
        for member, elf in wheel.elfs.items()
        if elf.dynamic and original_name(posixpath.basename(member)).startswith(f"{stem}.so")
    ]
    opened = {posixpath.basename(each.name) for _, each in _openings(wheel) if each is not opening}
    if mine and not any(name.startswith(stem) for name in opened):
        yield Hit(
            message=f"{_call(opening)} never finds the wheel's `{mine[0]}`: it asks the system",
            member=source,
            entry=opening.name,
            hint="open the library by its path, made from `__file__`",
            severity=Severity.WARNING,
        )


@rule("WF318", "renamed-under-its-user", Severity.ERROR)
def renamed_under_its_user(context: Context) -> Iterator[Hit]:
    """A library that Python code opens by name is, or will be, grafted under another name.

    ## What it does
    Reports names that a Python source opens, where the library of that name will be grafted
    (before a repair), or was (after one), and so is called `libfoo-1a2b3c4d.so.1`. How sure the
    failure is tells the severity, as for WF317.

    ## Why is this bad?
    The code finds nothing: `OSError`. Or the system has a copy; then the process has two, each
    with its own state.

    ## Example
    `ext.so` needs `libfoo.so.1`, and `pkg/__init__.py` calls `ctypes.CDLL("libfoo.so.1")`.

    ## Common causes
    - A package uses one library both ways. **Solution**: `keep-names = ["libfoo.so.*"]` grafts
      it under its own name; once the extension module is imported, the loader knows it by that
      name. Other copies in the process then answer to it, too (WF315).

    ## Fix safety
    Not fixed: it is for the project to choose between `keep-names` and a change of its code.
    """
    wheel = context.wheel
    external = {
        name
        for elf in wheel.elfs.values()
        for name in elf.needed
        if name not in context.shipped and not may_come_from_platform(name)
    }
    spared = (*context.settings.keep_names, *context.settings.exclude)
    for source, opening in _openings(wheel):
        name = posixpath.basename(opening.name)
        if opening.where is not Where.SEARCH or _answering(wheel, name):
            continue
        new = _renamed(wheel, name)
        will_be = name in external and not any(fnmatchcase(name, glob) for glob in spared)
        if new is None and not will_be:
            continue
        severity = _graded(opening)
        if new is not None:
            message = f"{_call(opening)} does not find what is `{_name(new)}` now"
        else:
            message = f"{_call(opening)} names a library that the graft will rename"
            severity = min(severity, Severity.WARNING)  # nothing is broken yet
        yield Hit(
            message=message,
            member=source,
            entry=name,
            notes=(f"needed by {_listed(_users(wheel, name if new is None else _name(new)))}",),
            hint=f'`keep-names = ["{name}"]` grafts it under its own name',
            severity=severity,
        )


def _name(member: str) -> str:
    return member.rpartition("/")[2]


@rule("WF319", "noted-library-missing", Severity.WARNING)
def noted_library_missing(context: Context) -> Iterator[Hit]:
    """An object notes that it opens a library of the wheel, which it does not find.

    ## What it does
    Reads `.note.dlopen` (the dlopen metadata of the UAPI group): names that the object's own
    code hands to `dlopen`. Reports those that the wheel ships, perhaps under a private name, and
    that the object's own search path does not lead to.

    ## Why is this bad?
    What the note calls required fails; what it recommends or suggests is silently missing.

    ## Example
    A note asks for `libzstd.so.1`, and the wheel has `pkg.libs/libzstd-1a2b3c4d.so.1`.

    ## Common causes
    - The library was grafted for another object and renamed. **Solution**:
      `keep-names = ["libzstd.so.*"]`, and a search path entry for the object.

    ## Fix safety
    Not fixed.
    """
    for member, elf in context.wheel.elfs.items():
        for note in elf.dlopen_notes:
            for names, priority in _noted(note):
                yield from _unfound(context, member, names, priority)


def _noted(note: str) -> Iterator[tuple[tuple[str, ...], str]]:
    """Yield names, of which one serves, and the priority; what is malformed says nothing."""
    try:
        entries: object = json.loads(note)
    except (ValueError, RecursionError):
        return
    for entry in cast("list[object]", entries) if isinstance(entries, list) else ():
        if isinstance(entry, dict):
            table = cast("dict[str, Any]", entry)
            names = table.get("soname")
            if isinstance(names, list):
                shown = tuple(str(name) for name in cast("list[object]", names))
                yield shown, str(table.get("priority", "recommended"))


def _unfound(context: Context, member: str, names: tuple[str, ...], priority: str) -> Iterator[Hit]:
    wheel = context.wheel
    mine = [m for name in names for m in (_renamed(wheel, name), *_answering(wheel, name)) if m]
    if not mine or any(may_come_from_platform(name) for name in names):
        return
    if any(_opens(context, member, name) for name in names):
        return
    yield Hit(
        message=f"notes that it opens {_listed(names)}, and does not find the wheel's `{mine[0]}`",
        member=member,
        entry=names[0],
        notes=(f"priority: {priority}",),
        hint=f'`keep-names = ["{names[0]}"]` grafts it under its own name',
        severity=Severity.ERROR if priority == "required" else None,
    )


def _opens(context: Context, member: str, name: str) -> bool:
    """Whether `member`, once loaded, finds `name`, in every layout that installs it."""
    for layout in context.layouts:
        path = layout.paths.get(member)
        if path is not None:
            installed_as = environment(context.wheel, layout)
            alone = {path: replace(context.wheel.elfs[member], needed=())}
            there = replace(installed_as, files={**installed_as.files, **alone})
            *_, load = load_all([path, Dlopen(name=name, caller=path)], there)
            if load.requests[0].result is None:
                return False
    return True


# --- What was too much to read --------------------------------------------------------------------


@rule("WF320", "openings-not-judged", Severity.INFO)
def openings_not_judged(context: Context) -> Iterator[Hit]:
    """Python sources may open libraries by names that nobody has looked at.

    ## What it does
    Says which Python sources were not followed to their ends, because they are too long, too
    involved, or too many. What was found until then counts as found elsewhere.

    ## Why is this bad?
    It need not be. But whether what they open by a name, also a computed one, is in its place
    (WF317), or is renamed by the graft (WF318), nobody has checked; and a copy that only they open
    counts as one that may go (WF515).

    ## Example
    A module of some megabytes that a generator wrote, with `ctypes.CDLL(name)` in it.

    ## Common causes
    - Generated code, or data that is written as code. **Solution**: open the libraries in a short
      module of their own, and import that.

    ## Fix safety
    Not fixed: nothing is known to be wrong.
    """
    given_up = list(_present(context.wheel, context.wheel.unfollowed))
    if given_up:
        yield Hit(
            message=f"{_counted(given_up)} not followed to the end: libraries that they open "
            "by name may have been missed",
            member=given_up[0],
            notes=(f"in {_listed(given_up)}",),
            hint="open libraries in a short module of their own, or look at these calls yourself",
        )


def _counted(sources: Sequence[str]) -> str:
    return f"{len(sources):,} Python source{'s were' if len(sources) > 1 else ' was'}"


RULES = (
    module_hook,
    module_never_imported,
    soname_differs,
    duplicate_soname,
    common_soname,
    second_runtime,
    opened_library_missing,
    renamed_under_its_user,
    noted_library_missing,
    openings_not_judged,
)
