"""Whether Python finds extension modules by their file names."""

import posixpath
import re
from collections.abc import Collection, Iterable, Iterator
from dataclasses import replace

from wheelfix.analysis.load_failures import NAME_MODULE_ALIKE
from wheelfix.elf.model import Abi, Elf
from wheelfix.grouping import flatten
from wheelfix.loader.install_schemes import (
    has_installable_tags,
    interpreters,
    is_free_threaded,
    minor_version,
    native_interpreters,
    runs_of,
    site_path,
)
from wheelfix.loader.machine_names import MACHINES
from wheelfix.loader.python_api import (
    MODULE_SUFFIX,
    init_functions,
    is_python_name,
)
from wheelfix.named_tuple import NamedTuple
from wheelfix.python_sources.imported_modules import names_of_file_imports
from wheelfix.rules.context import Context
from wheelfix.rules.findings import Hit, Severity
from wheelfix.rules.rule import rule
from wheelfix.system.lazy_patterns import lazy_pattern
from wheelfix.text import join_some
from wheelfix.wheel.model import Wheel
from wheelfix.wheel.platform_tags import parse_platform_tag

_FIRST_ABI3T = 15
"""The minor version whose builds all look for `.abi3t.so`, and whose free-threaded one no longer
looks for `.abi3.so` (PEP 803; `_PyImport_DynLoadFiletab` in Python/dynload_shlib.c)."""
_SUFFIX = lazy_pattern(rf"{MODULE_SUFFIX.pattern}|\.so")
_ABIS = {names.triplet.partition("-")[0]: abi for abi, names in MACHINES.items()}
"""The first part of the multiarch triplet in a suffix, and its ABI."""


class ExtensionModule(NamedTuple):
    """A file that some Python may import as an extension module."""

    member: str
    elf: Elf
    stem: str
    suffix: str
    pythons: frozenset[str] | None
    """The Pythons that import this suffix, among those of `interpreters`; None means all."""
    platform: str | None
    """The multiarch triplet in the suffix."""

    @property
    def name(self) -> str:
        """The last part of the name that it is imported by; `__init__` is imported as its folder.

        `PathFinder` (importlib/_bootstrap_external.py) tries it with each suffix, too.
        """
        folder = posixpath.basename(posixpath.dirname(self.member))
        return folder if self.stem == "__init__" and folder else self.stem

    @property
    def tagged(self) -> bool:
        """Whether the suffix is one that only extension modules have."""
        return self.suffix != ".so"


def extension_modules(wheel: Wheel) -> Iterator[ExtensionModule]:
    """Yield the files in site-packages that some Python 3 would import as modules."""
    allowed = interpreters(wheel.name)
    if all(python.startswith("python2") for python in allowed):
        return
    for member, elf in wheel.elfs.items():
        path = site_path(member, wheel)
        if not elf.is_library or path is None:
            continue
        folder, _, name = path.rpartition("/")
        stem, dot, rest = name.partition(".")
        match = _SUFFIX.fullmatch(dot + rest)
        importable = all(part.isidentifier() for part in [*filter(None, folder.split("/")), stem])
        if match and importable:
            yield ExtensionModule(
                member=member,
                elf=elf,
                stem=stem,
                suffix=match[0],
                pythons=_importing_pythons(match, allowed),
                platform=match["platform"] or match["pypy_platform"],
            )


def _importing_pythons(match: re.Match[str], allowed: Iterable[str]) -> frozenset[str] | None:
    if match["cpython"]:
        return frozenset({f"python3.{match['cpython']}" + ("t" if "t" in match["flags"] else "")})
    if match["pypy"]:
        return frozenset({f"pypy3.{match['pypy']}"})
    cpythons = (python for python in allowed if not python.startswith("pypy"))
    match match["abi3"]:
        case "abi3":
            return frozenset(p for p in cpythons if not (_has_abi3t(p) and is_free_threaded(p)))
        case "abi3t":
            return frozenset(filter(_has_abi3t, cpythons))
        case _:
            return None


def _has_abi3t(python: str) -> bool:
    return minor_version(python) >= _FIRST_ABI3T


def _python_hooks(module: ExtensionModule) -> tuple[str, ...]:
    return tuple(hook for hook in module.elf.module_hooks if hook.startswith("Py"))


def _lacks_hook(context: Context, module: ExtensionModule) -> bool:
    """Return whether a module, by its name or its other functions, has no function to import it.

    A library that others link with may contain modules for a program that embeds Python.
    """
    pythons = module.pythons or interpreters(context.wheel.name)
    wanted = flatten(init_functions(module.name, python) for python in pythons)
    if not set(module.elf.module_hooks).isdisjoint(wanted):
        return False
    file = module.member.rpartition("/")[2]
    is_hidden = f"{_import_name(module)}/__init__.py" in context.wheel.member_names
    if module.stem.startswith("lib") or file in context.dependents or is_hidden:
        return False
    is_module = _asks_for_python(module) or _may_be_imported(context, module)
    return bool(module.elf.module_hooks) or (module.tagged and is_module)


def _asks_for_python(module: ExtensionModule) -> bool:
    return any(is_python_name(symbol.name) for symbol in module.elf.undefined)


def _may_be_imported(context: Context, module: ExtensionModule) -> bool:
    definitions = context.definitions
    return definitions is not None and definitions.code.may_import(module.member)


def _named(context: Context, modules: Collection[ExtensionModule]) -> frozenset[str]:
    """Return the names of `modules` that a source or an object of the wheel may import."""
    names = frozenset(module.name for module in modules)
    definitions = context.definitions
    if definitions is None:
        return names
    in_sources = frozenset(filter(definitions.code.is_named, names))
    mentions = definitions.code.mentions(names - in_sources)
    elfs = context.wheel.elfs.keys()
    return in_sources | {name for name, members in mentions.items() if not elfs.isdisjoint(members)}


def _file_imports(context: Context) -> frozenset[str]:
    """Return the names under which sources import modules from files."""
    if context.definitions is not None:
        return context.definitions.code.file_imports
    return frozenset[str]().union(*map(names_of_file_imports, context.wheel.sources.values()))


_UNDER_ANY_NAME = "a source imports modules from files, under names that are not known"


def _severity_of_hook(
    context: Context, module: ExtensionModule, names: Collection[str], hooks: Collection[str]
) -> Severity | None:
    """Return the severity for a module whose file has another name; None for that of the rule."""
    if hooks and "" in names:
        return Severity.NOTE
    code = context.code
    is_imported = code is None or (
        code.is_imported(module.member) and not code.is_only_tried(module.name)
    )
    is_module = bool(hooks) or _asks_for_python(module) or is_imported
    return None if module.tagged and is_module else Severity.WARNING


@rule("WF311", "module-hook", Severity.ERROR)
def module_hook(context: Context) -> Iterator[Hit]:
    """Extension module lacks its PyInit function.

    ## What it does
    Compares the file name of each extension module with its entry points: `PyInit_name`, for
    non-ASCII names `PyInitU_` and the name in punycode (PEP 489), or `PyModExport_name` (PEP 793).
    A plain library that is only named like a module (without such a function, and without use of
    the Python C API) is an error if a Python source imports it, and not only in a `try` that may
    fail, and a warning if none has its name or opens libraries; otherwise sources may open it. One
    that uses the Python C API, with a private name such as `_inject` that no Python source names,
    is not reported: something else opens it. Nor is a module that a source imports from its file
    under the name of its function (`spec_from_file_location`); where that name is not known, it is
    for information.

    ## Why is this bad?
    The import fails: `dynamic module does not define module export function (PyInit_…)`.

    ## Example
    `foo.cpython-311-x86_64-linux-gnu.so` defines `PyInit_bar`.

    ## Common causes
    - The file was renamed after the build, or CMake's `OUTPUT_NAME` and `PYBIND11_MODULE` have
      different names. **Solution**: use the same name for both.
    - The function is C++ without `extern "C"`, or has hidden visibility. **Solution**: use
      `PyMODINIT_FUNC`.

    ## Fix safety
    Not fixed: only the build knows the intended name.
    """
    lacking = [m for m in extension_modules(context.wheel) if _lacks_hook(context, m)]
    without = (m for m in lacking if not _python_hooks(m))
    private = [m for m in without if m.name.startswith("_") and _asks_for_python(m)]
    unused = {module.name for module in private} - _named(context, private)
    names = _file_imports(context) if lacking else frozenset[str]()
    by_file = frozenset(flatten(init_functions(name) for name in names if name))
    for module in lacking:
        hooks, wanted = _python_hooks(module), init_functions(module.name)
        if not by_file.isdisjoint(hooks) or (not hooks and module.name in unused):
            continue
        has = f"it defines {join_some(hooks, 3)}" if hooks else "it defines no PyInit function"
        yield Hit(
            message=f"cannot be imported as `{module.name}`, as `{wanted[0]}` is not defined",
            member=module.member,
            entry=wanted[0],
            notes=(has, *([_UNDER_ANY_NAME] if hooks and "" in names else [])),
            hint=NAME_MODULE_ALIKE,
            severity=_severity_of_hook(context, module, names, hooks),
        )


@rule("WF312", "module-never-imported", Severity.ERROR)
def module_never_imported(context: Context) -> Iterator[Hit]:
    """Suffix of an extension module matches none of the wheel's Python tags.

    ## What it does
    Compares the suffix of each extension module (`.cpython-310-x86_64-linux-gnu.so`, `.abi3.so`)
    with the Python and ABI tags of the wheel, and with the machine that the module is built for;
    what has the suffix of the tag's machine is opened, whatever its code is for (WF510). It is a
    warning if another file of the same module fits those Pythons, or some of them, and for
    `.abi3.so` where only free-threaded Pythons before 3.15 look for it: they have no stable ABI. It
    is for information if a module of a wheel for one Python has the suffix `.so`, which every
    Python imports.

    ## Why is this bad?
    Python looks only for its own suffixes: `ModuleNotFoundError`, although the file is there.

    ## Example
    `old.cpython-310-x86_64-linux-gnu.so` in a wheel with the tag `cp311-cp311`.

    ## Common causes
    - A file left over from an earlier build in the source tree. **Solution**: build from a clean
      tree, by `python -m build` through an sdist.
    - A cross build used the suffix of the build machine's Python. **Solution**: set
      `SETUPTOOLS_EXT_SUFFIX` or its equivalent in your build system.

    ## Fix safety
    Not fixed: only the build knows whether the file is superfluous or misnamed.
    """
    if not has_installable_tags(context.wheel.name):
        return  # WF507 says so
    allowed = interpreters(context.wheel.name)
    abis = {parse_platform_tag(tag).abi for tag in context.wheel.name.platforms}
    modules = tuple(extension_modules(context.wheel))
    served: dict[str, set[str]] = {}
    for module in modules:
        fits = set(allowed) if module.pythons is None else set(allowed) & module.pythons
        served.setdefault(_import_name(module), set()).update(fits if _fits_machine(module) else ())
    for module in modules:
        own = _suffix_abi(module)
        if not module.elf.module_hooks or (abis == {own} and not _is_for(module, own)):
            continue  # Python opens what has its suffix: WF510 says what its code is for
        if not _fits_machine(module):
            yield _never(module, f"its code is not for {module.platform}", Severity.ERROR)
        elif module.pythons is not None and not module.pythons & set(allowed):
            rest = served[_import_name(module)]
            what = f"the wheel is for {runs_of(allowed)}"
            yield _never(module, what, Severity.WARNING if rest else Severity.ERROR)
        elif missing := _without_module(context, module, served[_import_name(module)]):
            message = f"`{module.stem}` is missing for {runs_of(missing)}, which the tags allow"
            hint = "build one wheel for each Python, or for the stable ABI"
            yield _suffix_hit(module, message, hint, Severity.WARNING)
        elif module.suffix == ".abi3.so" and all(map(is_free_threaded, allowed)):
            message = (
                "has the suffix of the stable ABI, which free-threaded Pythons before "
                f"3.{_FIRST_ABI3T} import, but do not have"
            )
            hint = "build it without `Py_LIMITED_API`, with the suffix of the Python that it is for"
            yield _suffix_hit(module, message, hint, Severity.WARNING)
        elif not module.tagged and len(allowed) == 1:
            message = f"is built for {allowed[0]}, but every Python imports the suffix `.so`"
            yield _suffix_hit(module, message, "use `EXT_SUFFIX` of `sysconfig`", Severity.NOTE)


def _import_name(module: ExtensionModule) -> str:
    return posixpath.join(posixpath.dirname(module.member), module.stem)


def _fits_machine(module: ExtensionModule) -> bool:
    if module.platform and module.platform.endswith("-android") != module.elf.for_bionic:
        return False
    return _is_for(module, _suffix_abi(module))


def _suffix_abi(module: ExtensionModule) -> Abi | None:
    return _ABIS.get((module.platform or "").partition("-")[0])


def _is_for(module: ExtensionModule, abi: Abi | None) -> bool:
    own = module.elf.machine, module.elf.little_endian
    return abi is None or (abi.machine, abi.little_endian) == own


def _never(module: ExtensionModule, why: str, severity: Severity) -> Hit:
    message = f"is never imported, as no Python of the wheel's tags looks for `{module.suffix}`"
    hint = "build from a clean tree, with the suffix of the Python that the wheel is for"
    return replace(_suffix_hit(module, message, hint, severity), notes=(why,))


def _suffix_hit(module: ExtensionModule, message: str, hint: str, severity: Severity) -> Hit:
    return Hit(
        message=message, member=module.member, entry=module.suffix, hint=hint, severity=severity
    )


def _without_module(context: Context, module: ExtensionModule, served: set[str]) -> tuple[str, ...]:
    """Return the Pythons of the tags for which the wheel has no file of this module.

    Free-threaded builds and PyPy are left out where only pure Python tags allow them: they share no
    stable ABI with CPython. A Python source of the same name serves all.
    """
    name = _import_name(module)
    native = native_interpreters(context.wheel.name)
    lacking = tuple(
        python
        for python in interpreters(context.wheel.name)
        if python not in served
        and (python in native or not (python.startswith("pypy") or is_free_threaded(python)))
    )
    sources = {f"{name}.py", f"{name}/__init__.py"}
    if not lacking or any(member.name in sources for member in context.wheel.members):
        return ()
    return lacking
