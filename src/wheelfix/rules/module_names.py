"""Whether Python finds extension modules by their file names."""

import posixpath
import re
from collections.abc import Iterable, Iterator, Mapping
from typing import NamedTuple

from wheelfix.elf.model import Elf, Machine
from wheelfix.loader.install_schemes import interpreters, site_path
from wheelfix.loader.python_api import init_functions
from wheelfix.rules.context import Context
from wheelfix.rules.findings import Hit, Severity
from wheelfix.rules.rule import rule
from wheelfix.text import join_some
from wheelfix.wheel.model import Wheel

MODULE_SUFFIX = re.compile(
    r"\.(?:cpython-3(?P<cpython>\d+)(?P<flags>[a-z]*)(?:-(?P<platform>[\w-]+))?"
    r"|pypy3(?P<pypy>\d+)-pp\d+(?:-(?P<pypy_platform>[\w-]+))?"
    r"|(?P<abi3>abi3t?))\.so$"
)
"""The suffixes that only extension modules have, over all Pythons (PEP 3149, PEP 384, PEP 803).

`importlib.machinery.EXTENSION_SUFFIXES` has also `.so`.
"""
_SUFFIX = re.compile(rf"{MODULE_SUFFIX.pattern}|\.so")
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
"""The first part of the multiarch triplet in a suffix, and its machine."""


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
        if not elf.dynamic or elf.is_executable or path is None:
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
    """Extension module lacks its PyInit function.

    ## What it does
    Compares the file name of each extension module with its entry points: `PyInit_name`, for
    non-ASCII names `PyInitU_` and the name in punycode (PEP 489), or `PyModExport_name` (PEP 793).
    A plain library that is only named like a module (without such a function, and without use of
    the Python C API) is not reported.

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
    for module in extension_modules(context.wheel):
        hooks = tuple(hook for hook in module.elf.module_hooks if hook.startswith("Py"))
        wanted = init_functions(module.name)
        file = module.member.rpartition("/")[2]
        library = module.stem.startswith("lib") or file in context.dependents
        # A library that others link with may contain modules for a program that embeds Python.
        if set(hooks) & set(wanted) or library:
            continue
        if not hooks and not (module.tagged and _asks_for_python(module.elf)):
            continue
        has = f"it defines {join_some(hooks, 3)}" if hooks else "it defines no PyInit function"
        yield Hit(
            message=f"cannot be imported as `{module.name}`: `{wanted[0]}` is not defined",
            member=module.member,
            entry=wanted[0],
            notes=(has,),
            hint="use the same name for the file and the module, and export the function",
            severity=None if module.tagged else Severity.WARNING,
        )


@rule("WF312", "module-never-imported", Severity.ERROR)
def module_never_imported(context: Context) -> Iterator[Hit]:
    """Suffix of an extension module matches none of the wheel's Python tags.

    ## What it does
    Compares the suffix of each extension module (`.cpython-310-x86_64-linux-gnu.so`, `.abi3.so`)
    with the Python and ABI tags of the wheel, and with the machine that the module is built for. It
    is a warning if another file of the same module fits those Pythons, or some of them.

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
    """Return the Pythons of the tags for which the wheel has no file of this module.

    Free-threaded builds and PyPy are left out: they share no stable ABI with CPython, but pure
    Python tags allow them. A Python source of the same name serves all.
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
