"""What goes wrong where installed distributions meet."""

from collections.abc import Iterable, Iterator, Mapping, Sequence

from wheelfix.analysis.explain_remedies import START_WITHOUT_PATH, assignment, failure_remedy
from wheelfix.analysis.load_failures import HIDDEN, Failure, Lack, lack_text
from wheelfix.elf.demangle import demangle, join_symbols
from wheelfix.environments.bindings import Preemption, interpositions, preemptions
from wheelfix.environments.effects_of_variables import directed, displaced
from wheelfix.environments.modules import InstalledModules, Meeting
from wheelfix.environments.product_copies import copies
from wheelfix.environments.read_values import Variable
from wheelfix.environments.tls_shortages import Shortage, limits, shortages
from wheelfix.grouping import grouped, values_by_key
from wheelfix.host.installed_files import Owner, writers
from wheelfix.loader.platform_libraries import is_of_cxx_library
from wheelfix.loader.process_bindings import Binding
from wheelfix.loader.static_tls import OPTIONAL, SURPLUS
from wheelfix.python_sources.imported_modules import module_name
from wheelfix.rules.findings import Hit, Severity
from wheelfix.rules.predictions import Prediction
from wheelfix.rules.rule import environment_rule
from wheelfix.text import FEW, count, first_of, join_plain, join_some, said_once, so_do_others

_SEARCHED_FIRST = "LD_LIBRARY_PATH is searched before DT_RUNPATH and the directories of the system"


@environment_rule("WF951", "file-of-two-distributions", Severity.WARNING)
def file_of_two_distributions(modules: InstalledModules) -> Iterator[Hit]:
    """Two installed distributions write the same file, with different content.

    ## What it does
    Compares the paths and hashes in the RECORDs of an installed environment, and says whose file
    the first one is, by its hash. Objects (shared libraries and extension modules), and Python
    sources that another one surely imports, are a warning. Other files, and those with the same
    hash in both RECORDs, are a note.

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
        worst = [path for path in differing if path in files or _is_imported(modules, path)]
        about = worst or differing or paths
        shown = about[0]
        names = join_some(map(modules.in_site, about), FEW)
        which = f"{count(len(paths), 'file')}, {names}" if differing and paths[1:] else names
        which += " with different content" if differing else ""
        yield Hit(
            message=f"{join_some(distributions)} write {which}: {_winner(modules, about)}",
            severity=None if worst else Severity.NOTE,
            member=members.get(shown, shown.removeprefix(f"{modules.world.where}/")),
            entry=" ".join(distributions),
            hint=f"`pip uninstall {' '.join(name.partition(' ')[0] for name in distributions)}`, "
            "and install the one that is wanted"
            if worst
            else None,
        )


def _winner(modules: InstalledModules, paths: Sequence[str]) -> str:
    """Return whose file is at the first of the paths, if the hashes in RECORD tell."""
    owners = modules.owners[paths[0]]
    of = writers(paths[0], owners) if _differs(owners) else None
    if of is None:
        return "the last one installed wins"
    file = f"`{modules.in_site(paths[0])}`" if paths[1:] else "the file"
    return f"{file} is that of {join_some(of, FEW) or 'neither'}"


def _is_imported(modules: InstalledModules, path: str) -> bool:
    place = modules.in_site(path)
    if not place.endswith(".py"):
        return False
    module, contents = module_name(place), modules.symbols.contents
    top = module.partition(".")[0]
    return any(contents.that_import(module)) or any(
        module in contents.needed(other) for other in contents.importing(top) - {top}
    )


def _differs(owners: tuple[Owner, ...]) -> bool:
    hashes = {owner.hash for owner in owners}
    return len(hashes) > 1 and "" not in hashes


@environment_rule("WF952", "module-does-not-load", Severity.ERROR)
def module_does_not_load(modules: InstalledModules) -> Iterator[Hit]:
    """Installed extension module loads in no order of imports.

    ## What it does
    Loads each extension module of an installed environment as the dynamic loader would, and each
    library that a Python source opens by its path (ctypes, cffi) when its package is imported.
    Without RECORD, a package is searched for the modules that it surely imports. An error is what

    - needs a library that is not found, and no other file of the environment has the SONAME and
      the versions that it needs; with `--order`, also a library which nothing before it in that
      order may load;
    - needs a symbol version which the library found does not define, or one of a library that had
      versions and lost them (glibc before 2.41 ends the process);
    - needs a symbol which nothing in the environment or the interpreter defines, or only a file
      that neither the module loads nor any code may open for all others (RTLD_GLOBAL);
    - has no init function, or, with glibc 2.41 or later, an object that needs an executable stack
      (WF603);
    - is empty, cut off, or listed by RECORD and not there, wherever a source, or code in C by its
      name, imports it.

    It is a warning

    - if a source catches that what is there does not fit together (`try`); in folders without
      `__init__.py`, where its name does not say for what Python it is, a note;
    - without an order, if another import may load the library before, and no source there imports
      the module with what may load it; a note, if one does that is not known to run before;
    - if code that is not known to run before may open what defines the symbol, for all;
    - if it loads a library of this machine that a requirement has, to which no search path leads,
      or that a well-known wheel has, such as for CUDA.

    Where the package itself, the outermost with an `__init__.py`, is not seen to import the module,
    a library that is not found is a note; a warning, if the environment has another version of it,
    or has it where no search path leads.

    A library that no import is seen to open is a note; a warning, if it refers to a C++ symbol that
    nothing there defines. If its package, or one that this imports, also opens some by names that
    are not known, the symbol is an error, and a library that is not found a warning.

    ## Why is this bad?
    The import fails: `cannot open shared object file`, `version not found`, `undefined symbol`.

    ## Example
    `flash_attn_2_cuda` was built for another version of torch, and refers to a symbol that
    `libc10.so` no longer defines.

    ## Common causes
    - Two distributions were built for each other, and one of them was replaced by another version.
      **Solution**: install the versions that belong together.
    - A wheel promises a library that this machine does not have. **Solution**: install the
      package of the operating system that contains it; the hint names it.

    ## Fix safety
    Not fixed: `wheelfix doctor` changes nothing.
    """
    lent = dict(modules.lent())
    failures = (*modules.failures, *modules.of_machine(), *lent.items())
    causes = grouped(failures, lambda failure: _cause(modules, *failure))
    for (owner, *_), alike in causes.items():
        yield _unloaded_hit(modules, owner, alike, lent)
    yield from _unopened_that_fail(modules)


def _unloaded_hit(
    modules: InstalledModules,
    owner: str,
    alike: Sequence[tuple[str, Lack]],
    lent: Mapping[str, Lack],
) -> Hit:
    """Return the hit for modules that fail by one cause; others may have `lent` it to some."""
    known = (f for f in alike if f[0] not in lent and not f[1].is_of_machine)
    surely = (failure for failure in known if modules.fails_surely(*failure))
    sure = [failure for failure in surely if failure[1].result or not modules.unknown]
    path, lack = (sure or alike)[0]
    module, world = modules.modules[path], modules.world
    lenders = () if lack.failure is Failure.FILE else _lenders(modules, path)
    is_there = lack.result or lack.library in world.carriers
    is_mismatch = lack.failure is not Failure.INIT and bool(lack.symbols or is_there)
    is_needed = bool(modules.order) or modules.is_surely_imported(path)
    is_maybe = path in lent and not (lent[path].is_known and is_needed)
    # What is caught, or of another Python, may never be imported. What does not fit together was
    # meant to work.
    is_meant = modules.is_of_python(path) and (lack.definers or not is_maybe)
    unsure = Severity.WARNING if is_mismatch and is_meant else Severity.NOTE
    is_empty = path.endswith("/__init__.py")  # Python makes a namespace package of the folder
    doing = "running" if module.endswith(".pth") else "importing"
    outcome = "finds nothing in it" if is_empty else "fails"
    is_other = lack.there == HIDDEN and "." not in module
    outcome = "gets another module" if is_other else outcome
    outcome = (
        outcome if is_empty or is_other or sure else _unsure_outcome(modules, lack, lent.get(path))
    )
    others = modules.also_opening(path) if sure else ()
    by_variables = {failure.result for _, failure in alike if failure.result in world.of_variables}
    return Hit(
        message=f"{doing} `{module}` {outcome}: {lack_text(world, lack)}"
        f"{so_do_others(alike, 'module')}",
        severity=None if sure else unsure,
        member=world.label(path),
        entry=lack.what,
        notes=(
            *((f"of {owner}",) if owner else ()),
            *(f"it loads libraries of {join_plain(lenders, FEW)}" for _ in lenders[:1]),
            *(f"importing {join_some(others, FEW)} fails, too" for _ in others[:1]),
            *(
                f"`{other}` is found by LD_LIBRARY_PATH"
                for other in sorted(filter(None, by_variables))
            ),
            *(f"`{p.requirement}` is not known, and may have it" for p in modules.unknown),
        ),
        hint=_remedy(modules, path, lack),
        prediction=None
        if is_empty or is_other or lack.is_of_machine
        else Prediction((module,), lack.words),
    )


def _unsure_outcome(modules: InstalledModules, lack: Lack, lent: Lack | None) -> str:
    """Return how an import may end that is not seen to fail; others may have `lent` a library."""
    if lent is not None:
        other = "another import" if lent.is_known else "code of its package, or another import,"
        is_asked = modules.are_asked_for(lack.definers, modules.usual(lack.requester))
        for_all = " for all (RTLD_GLOBAL)" if lack.definers and not is_asked else ""
        return f"fails unless {other} has loaded a library before{for_all}"
    if lack.is_of_machine:
        return "depends on this machine"
    return "may fail" if modules.unknown else "fails, and its package is not seen to need it"


def _unopened_that_fail(modules: InstalledModules) -> Iterator[Hit]:
    opening = {module.partition(".")[0] for module in modules.symbols.contents.opens_unknown}
    causes = grouped(modules.undefined_anywhere(), lambda failure: _cause(modules, *failure))
    for (owner, *_), alike in causes.items():
        path, lack = alike[0]
        lenders = _lenders(modules, path) if lack.symbols else ()
        top = module_name(modules.world.label(path)).partition(".")[0]
        is_cxx = "".join(lack.symbols).startswith("_Z")
        needed = modules.symbols.contents.needed(top) if is_cxx else (top,)
        opens = any(module.partition(".")[0] in opening for module in (top, *needed))
        yield Hit(
            message=f"what opens `{modules.world.label(path)}` fails: "
            f"{lack_text(modules.world, lack)}{so_do_others(alike, 'object')}",
            # A driver, or the program that embeds it, may define functions of C; a plug-in may be
            # for a machine that has the library.
            severity=None
            if is_cxx and opens
            else Severity.WARNING
            if is_cxx or (opens and lack.failure is Failure.FILE)
            else Severity.NOTE,
            member=modules.world.label(path),
            entry=lack.what,
            notes=(
                *((f"of {owner}, opened by a name that is not known",) if owner else ()),
                *(f"it loads libraries of {join_plain(lenders, FEW)}" for _ in lenders[:1]),
            ),
            hint=_remedy(modules, path, lack),
        )


def _lenders(modules: InstalledModules, path: str) -> Sequence[str]:
    """Return the other distributions whose libraries an object loads."""
    members, owners = modules.world.members, modules.owners
    objects = (member for member in modules.usual(path).objects if member in members)
    sole = (member for member in objects if len(owners.get(member, ())) < 2)
    return sorted(set(map(modules.distribution, sole)) - {modules.distribution(path), ""})


def _remedy(modules: InstalledModules, path: str, lack: Lack) -> str:
    """Return what to do about what an object lacks, and of a library about the others, too.

    One repair for all is named once.
    """
    alone, objects = modules.world.load(path), modules.usual(path).objects
    is_needed = lack.failure is Failure.FILE and lack.library != path
    files = modules.symbols.judge.file_lacks(alone) if is_needed else ()
    lacks = {each.what: each for each in (lack, *files)}.values()
    ways = [failure_remedy(modules.world, modules, each, objects) for each in lacks]
    return said_once("; ".join(first_of(ways, FEW)))


def _cause(modules: InstalledModules, path: str, lack: Lack) -> tuple[str, str, str | None]:
    """Return what modules that fail for the same reason have in common."""
    what = lack.there if lack.library in modules.world.members else lack.what
    return modules.distribution(path), what, lack.result


@environment_rule("WF953", "first-library-wins", Severity.WARNING)
def first_library_wins(modules: InstalledModules) -> Iterator[Hit]:
    """Import fails after another import, which has loaded another library of the same SONAME.

    ## What it does
    Finds the SONAMEs that several files of an installed environment have. For each object that
    needs one of them, and each of these files, it loads a module of another distribution that
    loads the file, and then the module with the object. Reports those that need a symbol
    version or a symbol which that file does not define. What the `__init__.py` of packages always
    import comes before; where a package opens the file itself, and may import the other module
    before that, nothing is said. It is an error if both orders fail, and a note for modules in a
    top-level folder without `__init__.py`, which may be there to be copied.

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
        both = met.reverse is not None or met.importer == second.partition(".")[0]
        lacks = dict.fromkeys(lack for lack in (met.lack, met.reverse) if lack)
        is_sure = modules.is_of_package(met.first) and modules.is_of_package(met.second)
        yield Hit(
            message=f"after `import {first}`, `import {second}` fails: "
            f"{lack_text(modules.world, met.lack)}",
            severity=Severity.NOTE
            if not is_sure
            else Severity.ERROR
            if both or met.importer
            else None,
            member=label(met.second),
            entry=f"{first} {met.lack.library or met.lack.symbols[0]}",
            notes=(
                _meeting_text(modules, met),
                *((f"`import {met.importer}` does so",) * bool(met.importer)),
                *(
                    f"the other way round, {lack_text(modules.world, lack)}"
                    for lack in (*lacks,)[1:]
                ),
            ),
            hint=_way_apart(modules, met)
            if both
            else f"import `{second}` before `{met.importer or first}`",
            prediction=Prediction((first, second), met.lack.words),
        )


@environment_rule("WF954", "shared-unique-symbol", Severity.ERROR)
def shared_unique_symbol(modules: InstalledModules) -> Iterator[Hit]:
    """Objects of two distributions share data, with different sizes or values.

    ## What it does
    Compares the STB_GNU_UNIQUE symbols of the objects of an installed environment: static
    variables of C++ templates and inline functions. Reports symbols that objects of different
    distributions define with different sizes, or with other bytes in their files, but for those
    that relocations write. With musl there are no such symbols.

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
        symbol, (size, other) = next(iter(clash.sizes.items()))
        users = (
            f"`import {first}` loads that of {owner(clash.first)}, `import {second}` that of "
            f"{owner(clash.second)}"
        )
        more = f" and {len(clash.sizes) - 1:,} more" if len(clash.sizes) > 1 else ""
        yield Hit(
            message=f"`{label(clash.first)}` and `{label(clash.second)}` share "
            f"`{demangle(symbol)}`{more}: "
            + (
                f"it has {size:,} and {count(other, 'byte')}"
                if size != other
                else "it begins with two different values"
            ),
            # Its authors build them together, and tested that.
            severity=Severity.NOTE if owner(clash.first) == owner(clash.second) else None,
            member=label(clash.second),
            entry=f"{label(clash.first)} {symbol}",
            notes=(f"{users}: whichever is first in a process, both use its variable",),
            prediction=Prediction(
                (first, second), bindings=(Binding(symbol, clash.second, clash.first),)
            ),
        )


_NO_ORDER = "no order helps: to `import {}` is to `import {}` first"


@environment_rule("WF955", "preempted-symbol", Severity.ERROR)
def preempted_symbol(modules: InstalledModules) -> Iterator[Hit]:
    """Objects of one distribution use the variables or the code of another one's copy.

    ## What it does
    Reads in Python sources which objects are opened for all others: `sys.setdlopenflags` and
    `ctypes.CDLL` with RTLD_GLOBAL. For each object it compares what its symbols bind to after such
    an import, and without it; what is always imported before that is left out. Reported are symbols
    that it otherwise gets from itself or from another file, and that are not the same there:
    variables of other sizes or with other initial bytes are an error, C++ functions with other code
    a warning, functions of C a note, a warning with `--order`, and all of the same distribution a
    note; an error, where `--prove` has seen it, and that the import fails then, and works alone.
    Left out are symbols with a version, which their library promises to keep compatible,
    those of the C++ standard library, and copies of inline functions.
    A library of the platform, or of another distribution, is bound once, in the scope of the module
    that loads it first: where an object before it defines thread-local variables of the same names,
    it uses these, and a later module its own. That is a warning: it is not known when the module
    uses them.
    What native code opens for all is not judged: name and flags are in its instructions. With musl
    it does nothing.

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
        lambda each: (owner(each.promotion.path), owner(each.user) or label(each.user)),
    )
    for (promoter, user), alike in pairs.items():
        data, code, of_c = _judged(alike)
        judged = data or code or of_c
        if not judged:
            continue
        met, symbol = judged[0]
        source, _, line = met.promotion.source.rpartition(":")
        module = modules.modules[met.module]
        opener = module_name(source)
        always = not {opener, met.promotion.path}.isdisjoint(modules.names_before(met.module))
        yield Hit(
            message=f"after `{source}` (line {line}) has opened `{label(met.promotion.path)}` for "
            f"all, `import {module}` uses {count(len(judged), 'symbol')} of {promoter} instead of "
            f"its own: {_difference(met, symbol)}",
            severity=_severity_of_preemption(
                data, code, is_own=promoter == user, is_asked=bool(modules.order)
            ),
            member=label(met.user),
            entry=f"{label(met.provider)} {symbol}",
            notes=(
                _preemption_text(modules, met, user),
                *((_NO_ORDER.format(module, opener),) * always),
            ),
            hint=None if always else f"import `{module}` first, or use them in two processes",
            prediction=Prediction(
                (opener, module), bindings=(Binding(symbol, met.user, met.provider),)
            ),
        )
    yield from _interposed(modules)


def _interposed(modules: InstalledModules) -> Iterator[Hit]:
    label = modules.world.label
    for met in interpositions(modules):
        first, second = modules.modules[met.first], modules.modules[met.second]
        names = sorted(met.names)
        yield Hit(
            message=f"after `import {first}`, `{label(met.library)}` uses the thread-local "
            f"{join_symbols(names, FEW)} of `{label(met.provider)}`, and "
            f"`import {second}` that of `{label(met.library)}`",
            severity=Severity.WARNING,
            member=label(met.user),
            entry=f"{label(met.provider)} {names[0]}",
            notes=(
                f"what `{label(met.user)}` writes there, the library does not read",
                "that may crash: in the import, later or never, which its file does not tell",
                *((_NO_ORDER.format(second, first),) * met.always),
            ),
            hint=None if met.always else f"import `{second}` first, or use them in two processes",
            prediction=Prediction(
                (first, second), bindings=(Binding(names[0], met.library, met.provider),)
            ),
        )


def _severity_of_preemption(
    data: "_Judged", code: "_Judged", *, is_own: bool, is_asked: bool
) -> Severity:
    if is_own:  # its authors load their own libraries so, and tested that
        return Severity.NOTE
    if data:  # read by another layout, or with other initial values: wrong as soon as it is used
        return Severity.ERROR
    # Code of C++ inlines what it knows of the layout of its build; an API of C is meant to stay.
    return Severity.WARNING if code or is_asked else Severity.NOTE


@environment_rule("WF956", "static-tls-of-several", Severity.ERROR)
def static_tls_of_several(modules: InstalledModules) -> Iterator[Hit]:
    """Modules that need more static TLS together than glibc has: the later import fails.

    ## What it does
    Adds up the thread-local data (PT_TLS) of the objects with DF_STATIC_TLS that two modules of
    different distributions load, and compares it with the 1,664 bytes that glibc reserves. Objects
    whose code finds their data by descriptors, as on ARM64, take some of them, too, if there are
    any: before glibc 2.32 all that are left (but on Debian 11), and 512 since then. Where a package
    is not seen to import its module, it is a warning. With `--order`, what a failed import leaves
    in use counts, too. WF606 does so for one wheel.

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
    label = modules.world.label
    for short in shortages(modules):
        module, total = modules.modules[short.module], sum(short.sizes.values())
        before = [modules.modules[path] for path in short.before]
        after = f"after `import {join_plain(before, 1)}`, " if before else ""
        yield Hit(
            message=f"{after}`import {module}` fails: {count(total, 'byte')} of static TLS are "
            f"needed, and glibc has {SURPLUS:,} for all libraries together",
            severity=None if short.sure else Severity.WARNING,
            member=label(short.module),
            entry=f"{' '.join(before)} {module}",
            notes=(
                f"`{label(short.path)}` finds no room",
                *(
                    f"`{label(path)}`: {count(size, 'byte')}"
                    for path, size in list(short.sizes.items())[:FEW]
                ),
            ),
            hint=_room_text(modules, short),
            prediction=Prediction((*before, module), error=("static TLS block",)),
        )


def _room_text(modules: InstalledModules, short: Shortage) -> str:
    if limits(modules.world) == (OPTIONAL,):
        room = -(-(short.wanted - SURPLUS + OPTIONAL) // 64) * 64
        variable = f"GLIBC_TUNABLES=glibc.rtld.optional_static_tls={room}"
    else:
        variable = assignment("LD_PRELOAD", short.path)
        if not variable:
            return "LD_PRELOAD with a link to the library makes room: its own path has a separator"
    return f"`{variable}` in the environment of the process makes room"


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
            f"from {join_plain(owners, FEW)}" + ("; they share variables" if clash else ""),
            severity=Severity.WARNING if clash else None,
            member=label(next(iter(files))),
            entry=product.name,
            notes=tuple(
                f"`{label(path)}`" + (f" {version}" if version else "")
                for path, version in files.items()
            ),
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


@environment_rule("WF959", "library-path-first", Severity.WARNING)
def library_path_first(modules: InstalledModules) -> Iterator[Hit]:
    """LD_LIBRARY_PATH has another build of a library that a distribution brings.

    ## What it does
    Loads each extension module with LD_LIBRARY_PATH and without it, and reports what gets another
    file, of other content, for a SONAME. LD_LIBRARY_PATH is that of the process (`--env` names
    another one), and what files of the environment set: the script that activates it, conda's
    settings, and Python sources and `.pth` files, which set it for the processes that Python
    starts. A library of the platform is a note, and so is what only such processes get, unless the
    other build lacks something. It is an error if it does so in this process.

    ## Why is this bad?
    The loader searches LD_LIBRARY_PATH before DT_RUNPATH (and after DT_RPATH): the object runs
    with a library that it was not built and tested with.

    ## Example
    LD_LIBRARY_PATH is `/usr/local/cuda/lib64`: `torch/lib/libtorch_cuda.so` gets the cuDNN
    there, and not that of `nvidia-cudnn-cu12`.

    ## Common causes
    - The variable was set for other programs. **Solution**: leave it out where Python is started:
      `env -u LD_LIBRARY_PATH python3`. The authors can link with `-Wl,--disable-new-dtags`, which
      writes DT_RPATH.

    ## Fix safety
    Not fixed: `wheelfix doctor` changes nothing.
    """
    label, owner = modules.world.label, modules.distribution
    failing = {path for path, _ in modules.failures}
    groups = grouped(displaced(modules), lambda each: (each.variable, each.usual, each.other))
    for (variable, usual, other), alike in groups.items():
        met = next((displacement for displacement in alike if displacement.lacking), alike[0])
        if variable is None and any(displacement.module in failing for displacement in alike):
            continue  # WF952 says so
        is_own = usual in modules.world.members
        is_used = is_own and (variable is None or variable.before_start)
        fails = variable is None and met.lacking and modules.is_surely_imported(met.module)
        lacks = f", which lacks {join_some(met.lacking, FEW)}" if met.lacking else ""
        of = f" of {owner(usual)}" if owner(usual) else ""
        yield Hit(
            message=f"{_when_set(modules, variable)} `import {modules.modules[met.module]}` loads "
            f"`{label(other)}`{lacks}, and not `{label(usual)}`{of}",
            severity=Severity.ERROR if fails else None if met.lacking or is_used else Severity.NOTE,
            member=label(met.user),
            entry=f"{label(other)} {_source(modules, variable) if variable else ''}",
            notes=(
                f"`{label(met.user)}` needs `{met.name}`{so_do_others(alike, 'object')}",
                _SEARCHED_FIRST,
            ),
            hint=START_WITHOUT_PATH,
            prediction=None
            if variable
            else Prediction(
                (modules.modules[met.module],),
                error=met.lacking,
                bindings=tuple(Binding(symbol, met.user, other) for symbol in met.symbols),
            ),
        )


@environment_rule("WF960", "variable-of-another-package", Severity.WARNING)
def variable_of_another_package(modules: InstalledModules) -> Iterator[Hit]:
    """A package sets a variable to its own folder, and libraries of others read it, too.

    ## What it does
    Reads in Python sources which environment variables an import sets to folders of the same
    distribution. Reports the libraries of other distributions that call `getenv`, or a function of
    Qt for it, and have the name of the variable in their bytes: a warning where objects in the
    folder load another build of that library (Qt and others, as in WF957), otherwise a note.

    ## Why is this bad?
    The other library takes its plug-ins or data from the folder, which belong to another build.
    A plug-in brings the library that it was built for, which is then there twice.

    ## Example
    `import cv2` sets QT_QPA_PLATFORM_PLUGIN_PATH to `cv2/qt/plugins`. PyQt5 then ends with `Could
    not load the Qt platform plugin "xcb"`.

    ## Common causes
    - A package has a library with plug-ins or data, and leads it there by its variable.
      **Solution**: remove the variable after the import, or install a build without the library,
      such as `opencv-python-headless`.

    ## Fix safety
    Not fixed: `wheelfix doctor` changes nothing.
    """
    label, owner = modules.world.label, modules.distribution
    for variable, alike in grouped(directed(modules), lambda each: each.variable).items():
        met = next((direction for direction in alike if direction.second), alike[0])
        user, *others = dict.fromkeys(owner(each.reader) for each in (met, *alike))
        folder = modules.in_site(variable.directories[0])
        second = f", with `{label(met.second)}`" if met.second else ""
        yield Hit(
            message=f"{_source(modules, variable)} sets {variable.name} to `{folder}`: "
            f"`{label(met.reader)}` of {user} takes its plug-ins or data there{second}"
            f"{so_do_others((user, *others), 'distribution')}",
            severity=None if met.second else Severity.NOTE,
            member=label(met.reader),
            entry=f"{variable.name} {_source(modules, variable)}",
            notes=(
                f"in a process that has imported `{_top_of(modules, variable)}`",
                *([f"also of {join_plain(others, FEW)}"] if others else []),
            ),
            hint=f'after the import, `import os; os.environ.pop("{variable.name}", None)`',
        )


def _when_set(modules: InstalledModules, variable: Variable | None) -> str:
    if variable is None:
        return "with this LD_LIBRARY_PATH,"
    where = f"once {_source(modules, variable)} has set LD_LIBRARY_PATH,"
    return where if variable.before_start else f"in processes that Python starts {where}"


def _source(modules: InstalledModules, variable: Variable) -> str:
    return f"`{modules.in_site(variable.path)}` (line {variable.line})"


def _top_of(modules: InstalledModules, variable: Variable) -> str:
    """Return the top-level name of the source that sets a variable."""
    return modules.in_site(variable.path).partition("/")[0].removesuffix(".py")


_Judged = list[tuple[Preemption, str]]


def _judged(preemptions: Iterable[Preemption]) -> tuple[_Judged, _Judged, _Judged]:
    """Return the data, the C++ functions, and the functions of C that are other ones."""
    data: _Judged = []
    code: _Judged = []
    of_c: _Judged = []
    for preemption in preemptions:
        data += [(preemption, name) for name in preemption.data if not is_of_cxx_library(name)]
        for name in preemption.code:
            if not is_of_cxx_library(name):
                (code if name.startswith("_Z") else of_c).append((preemption, name))
    return data, code, of_c


def _difference(met: Preemption, symbol: str) -> str:
    if symbol in met.data:
        usual, here = met.data[symbol]
        if usual == here:
            return f"there, the initial value of `{demangle(symbol)}` is another one"
        return f"`{demangle(symbol)}` has {here:,} instead of {count(usual, 'byte')}"
    return f"`{demangle(symbol)}` is other code there"


def _preemption_text(modules: InstalledModules, met: Preemption, user: str) -> str:
    label = modules.world.label
    return (
        f"`{label(met.user)}` of {user} then binds to `{label(met.provider)}`; alone, to "
        f"`{label(met.usual)}`"
    )


def _way_apart(modules: InstalledModules, met: Meeting) -> str:
    owner, (first, second) = modules.distribution(met.second), (met.first, met.second)
    if owner != modules.distribution(first):
        return "they cannot be imported into one process: install versions that belong together"
    other_order = f"import `{modules.modules[second]}` before `{modules.modules[first]}`"
    way = "ship only one of the two libraries" if met.reverse else other_order
    return f"the authors of {owner} can {way}, or give each library its own SONAME"


def _meeting_text(modules: InstalledModules, met: Meeting) -> str:
    label, owner = modules.world.label, modules.distribution
    return (
        f"`{label(met.first)}` of {owner(met.first)} loads `{label(met.other)}` first; alone, "
        f"`{label(met.second)}` of {owner(met.second)} gets `{label(met.usual)}`"
    )
