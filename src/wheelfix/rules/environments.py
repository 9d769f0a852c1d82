"""What goes wrong where installed distributions meet."""

import re
import shlex
from collections.abc import Iterable, Iterator

from wheelfix.analysis.installed_bindings import Preemption, preemptions
from wheelfix.analysis.installed_modules import (
    EXECUTABLE_STACK,
    InstalledModules,
    Lack,
    Meeting,
    Owner,
)
from wheelfix.analysis.predictions import Prediction
from wheelfix.analysis.product_copies import copies
from wheelfix.analysis.static_tls import OPTIONAL, SURPLUS, shortages
from wheelfix.elf.demangle import demangle
from wheelfix.grouping import grouped, values_by_key
from wheelfix.loader.process_bindings import Binding
from wheelfix.rules.findings import Hit, Severity
from wheelfix.rules.rule import environment_rule
from wheelfix.text import FEW, count, join_plain, join_some

_OF_CXX_RUNTIME = re.compile(
    r"_Z(T[VIST]|GV|N|K|L)*(S[tabsiod]|9__gnu_cxx|10__cxxabiv1)|_Z(nw|na|dl|da)"
)
"""Names of the C++ standard library (Itanium C++ ABI): versions of it stay compatible."""


@environment_rule("WF951", "file-of-two-distributions", Severity.WARNING)
def file_of_two_distributions(modules: InstalledModules) -> Iterator[Hit]:
    """Two installed distributions write the same file, with different content.

    ## What it does
    Compares the paths and hashes in the RECORDs of an installed environment. Objects (shared
    libraries and extension modules) are a warning. Other files, and those with the same hash in
    both RECORDs, are a note.

    ## Why is this bad?
    The distribution that was installed last has its file there; the other one works with a file
    that it was not built with. Whether it does depends on the order of installation. If one of them
    is uninstalled, the file is gone for both.

    ## Example
    `opencv-python` and `opencv-contrib-python` both write `cv2/cv2.abi3.so`.

    ## Common causes
    - Two builds of one project are installed, often since two requirements name one each.
      **Solution**: uninstall both, and install one of them again.

    ## Fix safety
    Not fixed: `wheelfix doctor` changes nothing.
    """
    shared = values_by_key(
        (tuple(sorted({owner.distribution for owner in owners})), path)
        for path, owners in modules.owners.items()
        if len({owner.distribution for owner in owners}) > 1
    )
    files, members = modules.world.environment.files, modules.world.members
    for distributions, paths in shared.items():
        differing = [path for path in paths if _differs(modules.owners[path])]
        objects = [path for path in differing if path in files]
        shown = (objects or differing or paths)[0]
        which = f"the same {count(len(paths), 'file')}"
        which += f", {len(differing):,} of them with different content" if differing else ""
        yield Hit(
            message=f"{join_some(distributions)} write {which}: the last one installed wins",
            severity=None if objects else Severity.NOTE,
            member=members.get(shown, shown.removeprefix(f"{modules.world.where}/")),
            entry=" ".join(distributions),
            hint="uninstall all of them, and install the one that is wanted" if objects else None,
        )


def _differs(owners: tuple[Owner, ...]) -> bool:
    hashes = {owner.hash for owner in owners}
    return len(hashes) > 1 and "" not in hashes


@environment_rule("WF952", "module-does-not-load", Severity.ERROR)
def module_does_not_load(modules: InstalledModules) -> Iterator[Hit]:
    """Installed extension module loads in no order of imports.

    ## What it does
    Loads each extension module of an installed environment as the dynamic loader would. Reports
    those that need a library which is not found, and no other file of the environment has the
    SONAME; those that need a symbol version which the library found does not define; those
    that refer to a symbol which nothing in the environment defines; and, with glibc 2.41 or later,
    those with an object that needs an executable stack (WF603). Where the package itself is not
    seen to import the module, a library that is not found is a note, as some packages try modules
    and do without. What does not fit together is a warning then, or a note in a top-level folder
    without `__init__.py`, which may be of another Python.

    ## Why is this bad?
    The import fails, with `cannot open shared object file`, `version not found` or `undefined
    symbol`.

    ## Example
    `flash_attn_2_cuda` was built for another version of torch, and refers to a symbol that
    `libc10.so` no longer defines.

    ## Common causes
    - Two distributions were built for each other, and one of them was replaced by another version.
      **Solution**: install the versions that belong together.
    - A wheel promises a library that this machine does not have. **Solution**: install the
      package of the operating system that contains it; `wheelfix explain --site` names it.

    ## Fix safety
    Not fixed: `wheelfix doctor` changes nothing.
    """
    where = shlex.quote(modules.world.where)
    causes = grouped(modules.failures(), lambda found: _cause(modules, *found))
    for (owner, *_), found in causes.items():
        sure = [one for one in found if modules.is_surely_imported(one[0])]
        path, lack = (sure or found)[0]
        module = modules.modules[path]
        more = f"; so would {count(len(found) - 1, 'other module')}" if len(found) > 1 else ""
        is_mismatch = modules.is_of_package(path) and (lack.symbols or lack.result)
        when = f"importing `{module}` fails" if sure else f"importing `{module}` would fail"
        yield Hit(
            message=f"{when}: {_lack_text(modules, lack)}{more}",
            severity=None if sure else Severity.WARNING if is_mismatch else Severity.NOTE,
            member=modules.world.label(path),
            entry=lack.library or lack.symbols[0],
            notes=(f"of {owner}",) if owner else (),
            hint=f"`wheelfix explain --site {where} {module}` shows what it loads",
            prediction=Prediction((module,), lack.words),
        )


def _cause(modules: InstalledModules, path: str, lack: Lack) -> tuple[str, str, str | None]:
    """Return what modules that fail for the same reason have in common."""
    return modules.distribution(path), lack.library or lack.symbols[0], lack.result


@environment_rule("WF953", "first-library-wins", Severity.WARNING)
def first_library_wins(modules: InstalledModules) -> Iterator[Hit]:
    """Import fails after another import, which has loaded another library of the same SONAME.

    ## What it does
    Finds the SONAMEs that several files of an installed environment have. For each object that
    needs one of them, and each of these files, it loads a module of another distribution that
    loads the file, and then the module with the object. Reports those that need a symbol
    version or a symbol which that file does not define. It is an error if both orders fail.

    ## Why is this bad?
    The loader searches for a SONAME once in a process: the first file serves all that ask for the
    name. The program works or fails depending on the order of its imports.

    ## Example
    `a.libs/libfoo.so.1` is older than `b.libs/libfoo.so.1`: after `import a`, `import b` fails with
    `undefined symbol: foo_new`.

    ## Common causes
    - A wheel contains a library under its usual SONAME. **Solution**: report it to its authors:
      `auditwheel repair` and `wheelfix repair` give it a name of its own. Until then, import the
      module first that needs the newer one.

    ## Fix safety
    Not fixed: `wheelfix doctor` changes nothing.
    """
    label = modules.world.label
    for met in modules.meetings():
        first, second = modules.modules[met.first], modules.modules[met.second]
        both = met.fails_in_both_orders
        yield Hit(
            message=f"after `import {first}`, `import {second}` fails: "
            f"{_lack_text(modules, met.lack)}",
            severity=Severity.ERROR if both else None,
            member=label(met.second),
            entry=f"{first} {met.lack.library or met.lack.symbols[0]}",
            notes=(_meeting_text(modules, met),),
            hint="they cannot be imported into one process: install versions that belong together"
            if both
            else f"import `{second}` before `{first}`",
            prediction=Prediction((first, second), met.lack.words),
        )


@environment_rule("WF954", "shared-unique-symbol", Severity.ERROR)
def shared_unique_symbol(modules: InstalledModules) -> Iterator[Hit]:
    """Objects of two distributions share data of which they know different sizes.

    ## What it does
    Compares the STB_GNU_UNIQUE symbols of the objects of an installed environment: static
    variables of C++ templates and inline functions. Reports symbols that objects of different
    distributions define with different sizes. With musl there are no such symbols.

    ## Why is this bad?
    A process has one definition of each of these names, even of objects that are loaded apart
    (RTLD_LOCAL): the first one. The code of the other object reads and writes this variable as
    its own, with another layout: it reads wrong values, or writes beyond the end.

    ## Example
    `a.libs/libfoo-1a2b.so` and `b/_core.so` contain different versions of a C++ library; the
    variable `Registry<int>::instance` has 64 bytes in one of them, and 80 in the other.

    ## Common causes
    - Two wheels contain different versions of one C++ library, with its symbols exported.
      **Solution**: install versions that contain the same one; the authors can hide the symbols
      (`-fvisibility=hidden`, `-Wl,--exclude-libs,ALL`) or compile with `-fno-gnu-unique`.

    ## Fix safety
    Not fixed: `wheelfix doctor` changes nothing.
    """
    for clash in modules.clashes():
        label, owner = modules.world.label, modules.distribution
        first, second = (modules.modules[module] for module in clash.modules)
        symbol, (one, other) = next(iter(clash.sizes.items()))
        users = (
            f"`import {first}` loads that of {owner(clash.first)}, `import {second}` that of "
            f"{owner(clash.second)}"
        )
        more = f" and {len(clash.sizes) - 1:,} more" if len(clash.sizes) > 1 else ""
        yield Hit(
            message=f"`{label(clash.first)}` and `{label(clash.second)}` share "
            f"`{demangle(symbol)}`{more}: it has {one:,} and {count(other, 'byte')}",
            member=label(clash.second),
            entry=f"{label(clash.first)} {symbol}",
            notes=(f"{users}: whichever is first in a process, both use its variable",),
            hint="install versions that contain the same library, or use them in two processes",
            prediction=Prediction(
                (first, second), bindings=(Binding(symbol, clash.second, clash.first),)
            ),
        )


@environment_rule("WF955", "preempted-symbol", Severity.ERROR)
def preempted_symbol(modules: InstalledModules) -> Iterator[Hit]:
    """Objects of one distribution use the variables or the code of another one's copy.

    ## What it does
    Reads in Python sources which objects are opened for all others: `sys.setdlopenflags` and
    `ctypes.CDLL` with RTLD_GLOBAL. For each object of another distribution it compares what its
    symbols bind to after such an import, and without it. Reported are symbols that it otherwise
    gets from itself or from another file, and that are not the same there: variables of other sizes
    are an error, C++ functions with other code a warning, functions of C a note. Left out are
    symbols with a version, which their library promises to keep compatible, those of the
    C++ standard library, and copies of inline functions. With musl it does nothing.

    ## Why is this bad?
    Objects in the global scope are searched before the object itself. Its calls go into another
    build of the library, with other layouts of data, and what is missing there is still called in
    its own: it crashes, or computes wrongly.

    ## Example
    `import tensorflow` opens its libraries with RTLD_GLOBAL. After it, `import triton` uses
    TensorFlow's copy of LLVM, another version than its own.

    ## Common causes
    - A package opens its libraries for all others, to share them between its own modules.
      **Solution**: import the other package first; the authors can link the modules to the
      libraries instead, and hide symbols (`-Wl,--exclude-libs,ALL`).

    ## Fix safety
    Not fixed: `wheelfix doctor` changes nothing.
    """
    label, owner = modules.world.label, modules.distribution
    pairs = grouped(
        preemptions(modules),
        lambda found: (owner(found.promotion.path), owner(found.user) or label(found.user)),
    )
    for (promoter, user), found in pairs.items():
        data, code, of_c = _judged(found)
        judged = data or code or of_c
        if not judged:
            continue
        met, symbol = judged[0]
        source, _, line = met.promotion.source.rpartition(":")
        module = modules.modules[met.module]
        number = sum(len(one.symbols) for one in found if one.provider in modules.world.members)
        yield Hit(
            message=f"after `{source}` (line {line}) has opened `{label(met.promotion.path)}` for "
            f"all, `import {module}` uses {count(number, 'symbol')} of {promoter} instead of its "
            f"own: {_difference(met, symbol, len(judged))}",
            severity=Severity.ERROR if data else Severity.WARNING if code else Severity.NOTE,
            member=label(met.user),
            entry=f"{label(met.provider)} {symbol}",
            notes=(_preemption_text(modules, met, user),),
            hint=f"import `{module}` first, or use them in two processes",
            prediction=Prediction(
                (_module_of(source), module), bindings=(Binding(symbol, met.user, met.provider),)
            ),
        )


@environment_rule("WF956", "static-tls-of-several", Severity.ERROR)
def static_tls_of_several(modules: InstalledModules) -> Iterator[Hit]:
    """Modules that need more static TLS together than glibc has: the later import fails.

    ## What it does
    Adds up the thread-local data (PT_TLS) of the objects with DF_STATIC_TLS that two modules of
    different distributions load, and compares it with the 1,664 bytes that glibc reserves. Where a
    package is not seen to import its module, it is a warning. WF606 does so for one wheel.

    ## Why is this bad?
    Whichever is imported later fails: `cannot allocate memory in static TLS block`.

    ## Example
    `a/_core.so` loads an allocator with 1 KiB of initial-exec TLS, `b/_core.so` another one.

    ## Common causes
    - `-ftls-model=initial-exec`. **Solution**: the authors build for the global-dynamic model.
      Until then, start the process with more room: `GLIBC_TUNABLES` as in the hint, or
      LD_PRELOAD with one of the libraries.

    ## Fix safety
    Not fixed: `wheelfix doctor` changes nothing.
    """
    for short in shortages(modules):
        module, total = modules.modules[short.module], sum(short.sizes.values())
        other = None if short.before is None else modules.modules[short.before]
        before = f"after `import {other}`, " if other else ""
        known = filter(None, (short.before, short.module))
        sure = all(map(modules.is_surely_imported, known))
        room = -(-(total - SURPLUS + OPTIONAL) // 64) * 64
        tunable = f"GLIBC_TUNABLES=glibc.rtld.optional_static_tls={room}"
        yield Hit(
            message=f"{before}`import {module}` fails: {count(total, 'byte')} of static TLS are "
            f"needed, and glibc has {SURPLUS:,} for all libraries together",
            severity=None if sure else Severity.WARNING,
            member=modules.world.label(short.module),
            entry=f"{other or ''} {module}",
            notes=tuple(
                f"`{modules.world.label(path)}`: {count(size, 'byte')}"
                for path, size in list(short.sizes.items())[:FEW]
            ),
            hint=f"`{tunable}` in the environment of the process makes room",
            prediction=Prediction((*filter(None, (other,)), module), error=("static TLS block",)),
        )


@environment_rule("WF957", "product-twice", Severity.NOTE)
def product_twice(modules: InstalledModules) -> Iterator[Hit]:
    """Distributions bring their own copies of the same well-known library.

    ## What it does
    Recognizes OpenMP runtimes, BLAS, HDF5, OpenSSL, PROJ, GDAL, LLVM, allocators and others by the
    functions that they export, whatever their file names, in all that the modules of an environment
    load. Where files with different content of several distributions, or of the platform, are one
    of them, it is a note, with the versions that strings of the files say. Two different versions
    of libstdc++.so.6 under different names are a warning: they share variables.

    ## Why is this bad?
    Most often it is not: each distribution uses its own copy. It may explain more threads than
    processors (two OpenMP runtimes), tables of one copy that the other does not know (PROJ, GDAL),
    or handles that are passed from one to the other (HDF5). Two libstdc++ have one number for each
    kind of locale facet (`std::locale::id`, STB_GNU_UNIQUE), and lists of facets of their own.

    ## Example
    `h5py.libs/libhdf5-1a2b.so` and `netCDF4.libs/libhdf5-3c4d.so`.

    ## Common causes
    - Wheels contain what they need. **Solution**: none is needed, unless something goes wrong; then
      look here first.

    ## Fix safety
    Not fixed: `wheelfix doctor` changes nothing.
    """
    label = modules.world.label
    for product, files in copies(modules):
        clash = modules.two_runtimes(files)
        owners = [modules.distribution(path) or "the platform" for path in files]
        yield Hit(
            message=f"{product.name} is there {count(len(files), 'time')}: "
            f"of {join_plain(owners, FEW)}" + ("; they share variables" if clash else ""),
            severity=Severity.WARNING if clash else None,
            member=label(next(iter(files))),
            entry=product.name,
            notes=tuple(
                f"`{label(path)}`" + (f" {version}" if version else "")
                for path, version in files.items()
            ),
            hint="install versions that use the libstdc++ of the platform" if clash else None,
        )


@environment_rule("WF958", "changed-since-installation", Severity.NOTE)
def changed_since_installation(modules: InstalledModules) -> Iterator[Hit]:
    """Installed objects are not those that their distribution has installed.

    ## What it does
    Compares the sizes of libraries, extension modules and programs with those in RECORD. Files that
    several distributions write are left to WF951.

    ## Why is this bad?
    The file was replaced, stripped or edited after the installation. What its metadata says, such
    as that it works for others, does not hold for it.

    ## Example
    `torch/lib/libtorch_cuda.so` after `patchelf --set-rpath`.

    ## Common causes
    - Another copy was put there, or a tool edited it. **Solution**: if it was not meant, install
      the distribution again: `pip install --force-reinstall --no-deps NAME`.

    ## Fix safety
    Not fixed: `wheelfix doctor` changes nothing.
    """
    for owner, paths in values_by_key(modules.changed_files()).items():
        yield Hit(
            message=f"{count(len(paths), 'object')} of {owner} changed since the installation: "
            f"{join_some(map(modules.world.label, paths), FEW)}",
            member=modules.world.label(paths[0]),
            entry=owner,
        )


_Judged = list[tuple[Preemption, str]]


def _judged(found: Iterable[Preemption]) -> tuple[_Judged, _Judged, _Judged]:
    """Return the data, the C++ functions, and the functions of C that are other ones."""
    data: _Judged = []
    code: _Judged = []
    of_c: _Judged = []
    for one in found:
        data += [(one, name) for name in one.data if not _OF_CXX_RUNTIME.match(name)]
        for name in one.code:
            if not _OF_CXX_RUNTIME.match(name):
                (code if name.startswith("_Z") else of_c).append((one, name))
    return data, code, of_c


def _difference(met: Preemption, symbol: str, number: int) -> str:
    more = f", and {number - 1:,} more differ" if number > 1 else ""
    if symbol in met.data:
        usual, here = met.data[symbol]
        return f"`{demangle(symbol)}` has {here:,} instead of {count(usual, 'byte')}{more}"
    return f"`{demangle(symbol)}` is other code there{more}"


def _preemption_text(modules: InstalledModules, met: Preemption, user: str) -> str:
    label = modules.world.label
    return (
        f"`{label(met.user)}` of {user} then binds to `{label(met.provider)}`; alone, to "
        f"`{label(met.usual)}`"
    )


def _module_of(source: str) -> str:
    """Return the dotted name of a source below site-packages."""
    return source.removesuffix(".py").removesuffix("/__init__").replace("/", ".")


def _meeting_text(modules: InstalledModules, met: Meeting) -> str:
    label, owner = modules.world.label, modules.distribution
    return (
        f"`{label(met.first)}` of {owner(met.first)} loads `{label(met.other)}` first; alone, "
        f"`{label(met.second)}` of {owner(met.second)} gets `{label(met.usual)}`"
    )


def _lack_text(modules: InstalledModules, lack: Lack) -> str:
    label = modules.world.label
    if lack.symbols:
        return f"`{label(lack.requester)}` refers to {join_some(lack.symbols, FEW)}, not defined"
    if lack.library == EXECUTABLE_STACK:
        return f"`{label(lack.requester)}` needs an executable stack, which glibc 2.41 refuses"
    if lack.result is None:
        return f"`{lack.library}`, which `{label(lack.requester)}` needs, is not found"
    return (
        f"`{label(lack.requester)}` needs {join_some(lack.versions, FEW)} of `{lack.library}`, and "
        f"`{label(lack.result)}` does not define it"
    )
