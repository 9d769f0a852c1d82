"""For each rule a wheel that has the fault, and one beside it that has not."""

import os
import re
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple, cast
from zlib import crc32

from tests.support.build import (
    ONE_FUNCTION,
    extension,
    make_wheel,
    shared_object,
    stub_library_with_versions,
)
from tests.support.no_names import NoMentions
from tests.support.providers import dependent_wheel, pro_library, provider_wheel
from tests.support.values import elf, wheel
from wheelfix.analysis.policy_reasons import NearMiss
from wheelfix.analysis.policy_verdict import Verdict
from wheelfix.analysis.world import PlantedLibraries, World
from wheelfix.budget import Budget
from wheelfix.elf.exports import Names, SizedDefinition
from wheelfix.elf.model import (
    Definition,
    Elf,
    Exports,
    Filtee,
    Libc,
    Machine,
    Segment,
    Undefined,
    VersionNeed,
)
from wheelfix.environments.modules import InstalledModules
from wheelfix.environments.read_contents import InstalledContents
from wheelfix.environments.read_values import Opening, Promotion, Variable
from wheelfix.environments.symbols import InstalledSymbols
from wheelfix.grouping import values_by_key
from wheelfix.host.installed_files import Owner
from wheelfix.loader.install_schemes import Scheme
from wheelfix.loader.load_values import Environment
from wheelfix.python_sources.opening_calls import may_open
from wheelfix.python_sources.source_facts import LookupPlace, PythonOpening
from wheelfix.rules.context import Context, SetContext, Stage
from wheelfix.settings import (
    FileLists,
    Index,
    ProviderSetting,
    SacrificialEntry,
    SearchPathTag,
    Settings,
    SymbolContract,
)
from wheelfix.wheel.model import (
    Member,
    Metadata,
    RecordProblem,
    RecordRow,
    Wheel,
    ZipFeature,
    ZipOddity,
)

SUFFIX = ".cpython-311-x86_64-linux-gnu.so"
LINUX = "demo-1.0-cp311-cp311-linux_x86_64.whl"
MANYLINUX = "demo-1.0-cp311-cp311-manylinux_2_17_x86_64.whl"
MUSL = "demo-1.0-cp311-cp311-musllinux_1_1_x86_64.whl"
PLAIN = elf()
SOUND = wheel({"demo/_core.so": PLAIN}, "demo/__init__.py")
INFO = "demo-1.0.dist-info"
PRO = ProviderSetting(requirement="pro>=2", libraries=("libpro.so.*",), directory="pro/lib")
PYPI: Mapping[str, Any] = {"index": Index.PYPI}


@dataclass(frozen=True, kw_only=True)
class ValueCase:
    """Wheels as values."""

    faulty: Wheel
    sound: Wheel = SOUND
    settings: Mapping[str, Any] = field(default_factory=dict[str, Any])
    stage: Stage = Stage.AFTER


@dataclass(frozen=True, kw_only=True)
class ContextCase:
    """Wheels with something that only a run knows."""

    faulty: Context
    sound: Context


@dataclass(frozen=True, kw_only=True)
class SetCase:
    """Wheels of one run."""

    faulty: SetContext
    sound: SetContext


@dataclass(frozen=True, kw_only=True)
class FileCase:
    """Wheels in files, whose objects are linked: what other objects define decides."""

    faulty: Callable[[Path], Path]
    sound: Callable[[Path], Path]
    settings: Callable[[Path], Mapping[str, Any]] = lambda _: {}
    sound_settings: Callable[[Path], Mapping[str, Any]] | None = None


@dataclass(frozen=True, kw_only=True)
class EnvironmentCase:
    """Installed environments."""

    faulty: InstalledModules
    sound: InstalledModules


Case = ValueCase | ContextCase | SetCase | FileCase | EnvironmentCase


def objects(faulty: Any, sound: Any, **settings: Any) -> ValueCase:
    """One object each."""
    return ValueCase(
        faulty=wheel({"demo/_core.so": faulty}),
        sound=wheel({"demo/_core.so": sound}),
        settings=settings,
    )


def segment(**fields: int) -> Segment:
    values = {"type": 1, "flags": 5, "align": 4096}
    return Segment(**{**dict.fromkeys(Segment._fields, 0), **values, **fields})


def opening(name: str, where: LookupPlace) -> Mapping[str, tuple[PythonOpening, ...]]:
    opened = PythonOpening(
        line=3, function="ctypes.CDLL", name=name, where=where, sure=True, on_import=True
    )
    return {"demo/__init__.py": (opened,)}


def member(name: str, size: int = 1, **fields: Any) -> Member:
    return Member(name=name, size=size, compressed_size=fields.pop("compressed", size), **fields)


def metadata(*fields: tuple[str, str], **values: Any) -> Metadata:
    stated = (("metadata-version", "2.1"), ("name", "demo"), ("version", "1.0"), *fields)
    known: dict[str, Any] = {key.replace("-", "_"): value for key, value in stated[:3]}
    values = {**known, "fields": stated, **values}
    return Metadata(**values)


PREFIX = "/env/lib/python3.11/site-packages"


def installed(*distributions: Mapping[str, tuple[Elf, Sequence[str]]]) -> InstalledModules:
    """Files of distributions `d0`, `d1`, ...: objects, and the functions that each defines.

    The unique symbol of an object has as many bytes as it has unique symbols.
    """
    files = {name: elf for some in distributions for name, (elf, _) in some.items()}
    defined = {
        f"{PREFIX}/{name}": defs for some in distributions for name, (_, defs) in some.items()
    }
    program = elf(interpreter="/lib64/ld-linux-x86-64.so.2")
    paths = {f"{PREFIX}/{name}": one for name, one in files.items()}
    main, libc = "/usr/bin/python3", "/lib/libc.so.6"
    environment = Environment(
        libc=Libc.GLIBC,
        files={**paths, main: program, libc: elf(soname="libc.so.6", needed=())},
        main=main,
        default_directories=("/lib",),
    )
    owners = values_by_key(
        (
            f"{PREFIX}/{name}",
            Owner(f"d{number} 1.0", f"sha256={number}", 8 if "changed" in name else None),
        )
        for number, some in enumerate(distributions)
        for name in some
    )
    world = World(
        environment=environment,
        budget=Budget.of_files(),
        abi=program.abi,
        schemes=(Scheme("venv", "python3.11", "/env", "/env", "/env", "/env", "/env", "/env"),),
        members={path: path.removeprefix(f"{PREFIX}/") for path in paths},
        where="/env",
    )
    return InstalledModules(
        symbols=InstalledSymbols(
            world=world, contents=cast("InstalledContents", WrittenContents(paths, defined))
        ),
        owners={path: tuple(some) for path, some in owners.items()},
    )


class WrittenContents(NamedTuple):
    """What is in the files of `installed`."""

    files: Mapping[str, Elf]
    defined: Mapping[str, Sequence[str]]

    def save(self) -> None: ...

    def missing(self, _tops: object) -> Sequence[tuple[str, str]]:
        return ()

    def that_import(self, module: str) -> Sequence[str]:
        return (module.rpartition(".")[0],)

    def others_that_import(self, _module: str) -> Sequence[str]:
        return ()

    def that_name(self, _library: str) -> Sequence[str]:
        return ()

    def importing(self, _module: str) -> frozenset[str]:
        return frozenset()

    def exports(self, path: str) -> Exports:
        names = self.defined.get(path, ())
        definition = Definition(None, None, hidden=False, weak=False, type=2)
        return Exports(definitions=dict.fromkeys(names, (definition,)))

    def names(self, path: str) -> frozenset[str]:
        return frozenset(self.defined.get(path, ()))

    def own_lookups(self, path: str, names: Names) -> Mapping[str, SizedDefinition]:
        return {"own": sized(8)} if "own" in names and "own" in self.defined[path] else {}

    def unique_lookups(self, path: str) -> Mapping[str, SizedDefinition]:
        unique = self.files[path].unique_symbols
        return {"u": sized(unique)} if unique else {}

    def sizes(self, path: str, names: Names) -> Mapping[str, SizedDefinition]:
        size = 16 if path.endswith("/for_all.so") else 8
        return dict.fromkeys(names & {*self.defined.get(path, ())}, sized(size))

    def values(self, path: str, names: frozenset[str]) -> Mapping[str, bytes]:
        return dict.fromkeys(names & {*self.defined.get(path, ())}, b"")

    def hashes(self, path: str) -> Sequence[int]:
        return [crc32(name.encode()) for name in self.defined.get(path, ())]

    def own_sizes(self, path: str, hashes: frozenset[int]) -> Mapping[str, int]:
        names = {name for name in self.defined.get(path, ()) if crc32(name.encode()) in hashes}
        return {name: one.size for name, one in self.sizes(path, names).items()}

    def has_source(self, top: str) -> bool:
        return bool(top)

    def version(self, path: str, pattern: re.Pattern[bytes]) -> str:  # noqa: ARG002 - as `Contents` has it
        return ""

    def size(self, path: str) -> int:
        return len(self.files[path].soname or "")

    @property
    def openings(self) -> Sequence[Opening]:
        return ()

    def may_import(self, top: str, other: str) -> bool:  # noqa: ARG002 - as `Contents` has it
        return False

    @property
    def promotions(self) -> Sequence[Promotion]:
        paths = (path for path in self.files if path.endswith("/for_all.so"))
        return [Promotion(path, "alpha/__init__.py:1") for path in paths]

    @property
    def variables(self) -> Sequence[Variable]:
        setters = (path for path in self.files if path.endswith("/sets.so"))
        return [
            variable
            for path in setters
            for variable in (
                Variable("LD_LIBRARY_PATH", ("/opt/lib",), path, 1, before_start=True),
                Variable("FOO_PATH", (path.rpartition("/")[0],), path, 2, before_start=False),
            )
        ]

    def planted(self, directories: Collection[str]) -> PlantedLibraries:
        files = {
            f"{one}/libfoo.so.1": elf(soname="libfoo.so.1", constructors=True)
            for one in directories
        }
        return PlantedLibraries(files=files)

    def are_equal(self, one: str, other: str) -> bool:
        return one == other

    def mentions(self, path: str, words: frozenset[str]) -> Collection[str]:
        return words & {"FOO_PATH"} if path.endswith("/reader.so") else ()

    def may_open(
        self, library: str, packages: frozenset[str], how: Callable[[bytes], bool] = may_open
    ) -> bool:
        del how
        return library in packages

    tops: Sequence[str] = ()
    at_start: Collection[str] = ()
    opens_unknown: Sequence[str] = ()

    def requirements(self, distribution: str) -> Sequence[str]:
        return [distribution]

    def needed(self, name: str) -> Sequence[str]:
        return self.sure_imports(name)

    def opened_outside(self, module: str) -> Mapping[str, bool]:
        del module
        return {}

    def before(self, name: str) -> Sequence[str]:
        return self.sure_imports(name)[:1]

    def is_tried(self, module: str) -> bool:
        return not module

    def sure_imports(self, name: str, line: int | None = None) -> Sequence[str]:
        top = name.partition(".")[0]
        return (top, f"{top}._core") if line is None else (top,)


def sized(size: int) -> SizedDefinition:
    """Data without a version, unique as far as `Elf.unique_symbols` says so."""
    return SizedDefinition(
        Definition(None, None, hidden=False, weak=False, type=1, unique=True), size
    )


def module_and_library(
    name: str, uses: str, defines: Sequence[str]
) -> Mapping[str, tuple[Elf, Sequence[str]]]:
    """A module that needs libfoo.so.1 beside it, and refers to one function."""
    core = elf(
        "libfoo.so.1",
        runpath="$ORIGIN",
        module_hooks=("PyInit__core",),
        undefined=(Undefined(uses, None, None, 2, weak=False),),
    )
    library = elf(soname="libfoo.so.1")
    return {f"{name}/_core.so": (core, ()), f"{name}/libfoo.so.1": (library, defines)}


def module_with_unique(name: str, size: int) -> Mapping[str, tuple[Elf, Sequence[str]]]:
    core = elf(module_hooks=("PyInit__core",), unique_symbols=size)
    return {f"{name}/_core.so": (core, ())}


def module_with_tls(name: str, size: int) -> Mapping[str, tuple[Elf, Sequence[str]]]:
    core = elf(
        module_hooks=("PyInit__core",),
        segments=(segment(type=7, memsz=size, align=16),),
        dt_flags=0x10,
    )
    return {f"{name}/_core.so": (core, ())}


FOR_ALL = {"alpha/for_all.so": (elf(soname="for_all.so"), ("own",))}


def module_that_defines(*names: str) -> Mapping[str, tuple[Elf, Sequence[str]]]:
    return {"beta/_core.so": (elf(module_hooks=("PyInit__core",)), names)}


OLDER = module_and_library("alpha", "one", ["one"])
READER = {
    "beta/reader.so": (
        elf(
            module_hooks=("PyInit_reader",),
            undefined=(Undefined("getenv", None, None, 2, weak=False),),
        ),
        (),
    )
}
SETTER = {"gamma/sets.so": (elf(soname="sets.so"), ())}


def judged(overall: str, name: str = MANYLINUX, **fields: Any) -> Context:
    """A wheel with the verdict of the policies."""
    values: dict[str, Any] = {"external": (), "reasons": ("`x` is newer",), "near": None}
    verdict = Verdict(overall=overall, **{**values, **fields})
    return Context(
        wheel=wheel({"demo/_core.so": PLAIN}, name=name), settings=Settings(), verdict=verdict
    )


def excluding(*patterns: str) -> Context:
    return Context(wheel=SOUND, settings=Settings(), unmatched_excludes=patterns)


def release(*wheels: Wheel, **fields: Any) -> SetContext:
    return SetContext(wheels=wheels, settings=fields.pop("settings", Settings()), **fields)


def linked(folder: Path, name: str, source: str, *needed: Path, **fields: Any) -> Path:
    """Link a library without libc, called by its file name."""
    fields.setdefault("soname", name)
    return shared_object(folder / name, source, needed=needed, libc=False, **fields)


def written(folder: Path, *libraries: Path) -> Path:
    """Write a wheel with a few libraries in one folder."""
    members = {f"demo/{path.name}": path for path in libraries}
    return make_wheel(folder / "dist", tag=f"py3-none-linux_{os.uname().machine}", files=members)


CALL = "int f(void); int g(void) { return f(); }"
NO_CALL = "int g(void) { return 2; }"
ALLOCATOR = f"{ONE_FUNCTION} void *malloc(unsigned long n) {{ return 0; }} void free(void *p) {{}}"


def user_of(
    source: str, *, library: str = ONE_FUNCTION, ships: bool = True
) -> Callable[[Path], Path]:
    """An extension module, linked with a library that, unless not `ships`, is in the wheel."""

    def make(folder: Path) -> Path:
        used = linked(folder, "libused.so.1", library, flags=["-w", "-fno-builtin"])
        imported = f"{source} void *PyInit_user(void) {{ return 0; }}"
        user = shared_object(folder / "user.so", imported, needed=[used], runpath="$ORIGIN")
        return written(folder, user, *([used] if ships else []))

    return make


def underlinked(*, links: bool) -> Callable[[Path], Path]:
    """A library that calls another, which the user of both loads."""

    def make(folder: Path) -> Path:
        deep = linked(folder, "libdeep.so", ONE_FUNCTION)
        mid = linked(folder, "libmid.so", CALL, *([deep] if links else []), runpath="$ORIGIN")
        source = "int f(void), g(void); int h(void) { return f() + g(); }"
        user = linked(folder, "user.so", source, mid, deep, runpath="$ORIGIN")
        return written(folder, user, mid, deep)

    return make


def of_host(soname: str) -> Callable[[Path], Path]:
    """A user of `libdev.so`, which stands beside the wheel with this SONAME."""

    def make(folder: Path) -> Path:
        used = linked(folder, "libdev.so", ONE_FUNCTION)
        user = linked(folder, "user.so", CALL, used)
        linked(folder.parent / "host", "libdev.so", ONE_FUNCTION, soname=soname)
        return written(folder, user)

    return make


def module_of(more: str) -> Callable[[Path], Path]:
    """An extension module that also has what the source `more` declares."""

    def make(folder: Path) -> Path:
        return written(
            folder, linked(folder, f"m{SUFFIX}", f"int PyInit_m(void) {{ return 0; }} {more}")
        )

    return make


def versioned(shipped: str) -> Callable[[Path], Path]:
    """A user of `f@V_2`, in a wheel whose library has the version `shipped`."""

    def make(folder: Path) -> Path:
        name = "libused.so.1"
        used = stub_library_with_versions(folder / "sdk" / name, name, {"V_2": ["f"]})
        user = linked(folder, "user.so", CALL, used, runpath="$ORIGIN")
        return written(
            folder, user, stub_library_with_versions(folder / name, name, {shipped: ["f"]})
        )

    return make


def pruned(left: Mapping[str, Elf]) -> Context:
    """A wheel whose module needed a library before the edits of this repair."""
    return Context(
        wheel=wheel(left), settings=Settings(), origin=wheel(PATHS), definitions=NoMentions()
    )


def dependent(folder: Path) -> Path:
    return dependent_wheel(folder, pro_library(folder))


def provided(source: str, soname: str = "libpro.so.3") -> Callable[[Path], Mapping[str, Any]]:
    """The settings for a provider whose library is compiled from `source`."""

    def make(folder: Path) -> Mapping[str, Any]:
        library = shared_object(folder / "provider" / soname, source, soname=soname)
        given = ProviderSetting(source=str(provider_wheel(folder, "", library=library)))
        return {"provider": (PRO, given)}

    return make


def two_versions(older: str) -> Callable[[Path], Mapping[str, Any]]:
    """The settings for a provider in two versions; METADATA allows the newer one."""

    def make(folder: Path) -> Mapping[str, Any]:
        wheels = [provider_wheel(folder, older, "1.0")] if older else []
        wheels.append(provider_wheel(folder, "int pro(void) { return 7; }"))
        return {"provider": tuple(ProviderSetting(source=str(path)) for path in wheels)}

    return make


def leading(folder: Path) -> Path:
    """A wheel whose search path leads to the library of `pro`."""
    module = extension(
        folder / f"_core{SUFFIX}",
        "_core",
        needed=[pro_library(folder)],
        calls=["pro"],
        runpath="$ORIGIN/../pro/lib",
    )
    return make_wheel(folder, files={"demo/__init__.py": "", f"demo/_core{SUFFIX}": module})


def free_threaded(name: str) -> Callable[[Path], Path]:
    """A module of a single phase for a free-threaded Python, which refers to `name`, too."""

    def make(folder: Path) -> Path:
        names = filter(None, ("PyModule_Create2", name))
        source = "".join(f"extern char {one}; char *p_{one} = &{one};" for one in names)
        built = shared_object(folder / "m.so", f"{source} void *PyInit_m(void) {{ return 0; }}")
        tag = "cp313-cp313t-linux_x86_64"
        return make_wheel(folder / "dist", tag=tag, files={"demo/m.so": built})

    return make


def two_copies(other: str) -> Wheel:
    """A file of 200 kB, and `other` with the same bytes."""
    names = ("a/x.bin", other)
    return wheel(
        {},
        members=tuple(member(name, 200_000) for name in names),
        record=tuple(RecordRow(name, "sha256=x", 200_000) for name in names),
    )


def beside(entry: str | None) -> Callable[[Path], Mapping[str, Any]]:
    """The settings for neighbors: the library of one, with the entry, needs that of another."""

    def make(folder: Path) -> Mapping[str, Any]:
        place = folder / str(bool(entry))
        far = shared_object(place / "libfar.so.1", soname="libfar.so.1")
        source, name = "int pro(void) { return 7; }", "libpro.so.3"
        library = shared_object(place / name, source, soname=name, needed=[far], runpath=entry)
        pro = provider_wheel(place, "", library=library)
        other = make_wheel(place, "far", tag=pro.stem[8:], files={"far/libfar.so.1": far})
        return {"neighbors": (str(pro), str(other))}

    return make


def siblings(odd: Wheel) -> SetContext:
    """Three wheels of a release, and one that is `odd`."""
    usual = [sibling(minor) for minor in (11, 12, 13)]
    return release(*usual, odd)


def sibling(
    minor: int = 14,
    objects: Mapping[str, Any] | None = None,
    platform: str = "manylinux_2_28_x86_64",
    **fields: Any,
) -> Wheel:
    name = f"demo-1.0-cp3{minor}-cp3{minor}-{platform}.whl"
    return wheel(objects or {"demo/_core.so": NEEDY, "demo/_fast.so": PLAIN}, name=name, **fields)


NEEDY = elf("libinner.so.1")

PATHLESS = {"demo/_core.so": NEEDY, "demo.libs/libinner.so.1": PLAIN}
PATHS = {
    "demo/_core.so": elf("libinner.so.1", rpath="$ORIGIN/../demo.libs"),
    "demo.libs/libinner.so.1": PLAIN,
}
IN_DATA = {"demo-1.0.data/data/demo/libdata.so": NEEDY, "demo.libs/libinner.so.1": PLAIN}
FILTEE = Filtee("libreal.so.1", required=True, position=0)
NOTE = '[{"soname": ["libx.so"], "priority": "required"}]'
NOTED = {"demo/_core.so": elf(dlopen_notes=(NOTE,)), "demo/lib/libx.so": PLAIN}
NOTED_PATH = NOTED | {"demo/_core.so": elf(dlopen_notes=(NOTE,), rpath="$ORIGIN/lib")}
NEWER = elf(undefined=(Undefined("PyModule_AddObjectRef", None, None, 0, weak=False),))
STABLE = elf(
    undefined=(Undefined("PyBuffer_FillInfo", None, None, 0, weak=False),),
    module_hooks=("PyInit_m",),
)
RELRO = segment(type=0x6474E552)
STACK = segment(type=0x6474E551, flags=6, align=16)
EXEC_STACK = STACK._replace(flags=7)
TLS = segment(type=7, flags=4, memsz=1 << 20, align=16)
V3 = bytes.fromhex("028000c0040000000400000000000000")

CASES: Mapping[str, Case] = {
    "WF101": ValueCase(faulty=wheel(PATHLESS), sound=wheel(PATHS)),
    "WF102": ValueCase(
        faulty=wheel(
            {
                "demo/a.so": elf("libone.so", rpath="$ORIGIN/../demo.libs"),
                "demo.libs/libone.so": elf("libtwo.so"),
                "demo.libs/libtwo.so": PLAIN,
            }
        ),
        sound=wheel(
            {
                "demo/a.so": elf("libone.so", rpath="$ORIGIN/../demo.libs"),
                "demo.libs/libone.so": elf("libtwo.so", rpath="$ORIGIN"),
                "demo.libs/libtwo.so": PLAIN,
            }
        ),
    ),
    "WF103": ValueCase(faulty=wheel(IN_DATA), sound=wheel(PATHLESS)),
    "WF104": ValueCase(
        faulty=wheel(
            {
                "demo.libs/libone.so.1": elf("libtwo.so", runpath="/build/only/here"),
                "demo.libs/libtwo.so": PLAIN,
            }
        ),
        sound=wheel(
            {
                "demo.libs/libone.so.1": elf("libtwo.so", runpath="$ORIGIN"),
                "demo.libs/libtwo.so": PLAIN,
            }
        ),
    ),
    "WF105": ValueCase(faulty=wheel({"demo-1.0.data/data/lib/libinner.so": PLAIN})),
    "WF106": ValueCase(
        faulty=wheel({"demo/_core.so": elf("libpro.so.3")}),
        sound=wheel({"demo/_core.so": elf("libpro.so.3", rpath="$ORIGIN/../pro/lib")}),
        settings={"provider": (PRO,)},
    ),
    "WF107": ValueCase(
        faulty=wheel({"demo/_core.so": elf("libpro.so.3")}), settings={"provider": (PRO,)}
    ),
    "WF111": objects(elf(runpath="/build/lib"), elf(runpath="$ORIGIN")),
    "WF112": objects(elf(rpath="$ORIGIN/lib:"), elf(rpath="$ORIGIN/lib")),
    "WF113": objects(elf(rpath="$ORIGIN/lib:."), elf(rpath="$ORIGIN/lib")),
    "WF114": objects(elf(rpath="$ORIGIN/$NOTHING"), elf(rpath="$ORIGIN/$LIB")),
    "WF115": objects(elf(rpath="$ORIGIN/../../../../../../x"), elf(rpath="$ORIGIN/../demo.libs")),
    "WF116": ValueCase(
        faulty=wheel({"demo/_core.so": elf(rpath="$ORIGIN/../demo.libs")}),
        sound=wheel(PATHS),
    ),
    "WF117": objects(elf(rpath="$ORIGIN:$ORIGIN/lib:$ORIGIN"), elf(rpath="$ORIGIN:$ORIGIN/lib")),
    "WF118": objects(elf(rpath="/x", runpath="$ORIGIN"), elf(runpath="$ORIGIN")),
    "WF121": objects(
        elf(runpath="$ORIGIN"), elf(rpath="$ORIGIN"), search_path_tag=SearchPathTag.RPATH
    ),
    "WF122": ValueCase(
        faulty=wheel({"demo/_core.so": elf(rpath="$ORIGIN:$ORIGIN/lib")}),
        settings={"sacrificial_entry": SacrificialEntry.KEEP},
        stage=Stage.BEFORE,
    ),
    "WF201": FileCase(faulty=user_of(NO_CALL), sound=user_of(CALL)),
    "WF202": FileCase(
        faulty=user_of(NO_CALL, library=ALLOCATOR), sound=user_of(CALL, library=ALLOCATOR)
    ),
    "WF203": FileCase(faulty=user_of(CALL, ships=False), sound=user_of(CALL)),
    "WF204": FileCase(faulty=underlinked(links=False), sound=underlinked(links=True)),
    "WF205": objects(
        elf("libpython3.99.so.1.0", module_hooks=("PyInit__core",)),
        elf("libother.so.1", module_hooks=("PyInit__core",)),
    ),
    "WF206": ValueCase(
        faulty=wheel({"demo/a.so": elf("/build/lib/libb.so"), "demo/libb.so": PLAIN}),
        sound=wheel({"demo/a.so": elf("libb.so", rpath="$ORIGIN"), "demo/libb.so": PLAIN}),
    ),
    "WF207": objects(elf("libf.so.1", "libf.so.1"), elf("libf.so.1")),
    "WF208": FileCase(
        faulty=of_host("libdev.so.1"),
        sound=of_host("libdev.so"),
        settings=lambda folder: {
            "library_path": (str(folder / "host"),),
            "exclude": ("libdev.so*",),
        },
    ),
    "WF209": objects(
        elf(verneed=(VersionNeed("libv.so.1", ("V_1",)),)),
        elf("libv.so.1", verneed=(VersionNeed("libv.so.1", ("V_1",)),)),
    ),
    "WF210": objects(elf(versym_alone=True), PLAIN),
    "WF211": objects(elf(""), PLAIN),
    "WF212": ValueCase(
        faulty=wheel(
            {
                "demo.libs/libfront.so.1": elf(
                    filtees=(Filtee("libreal.so.1", required=True, position=0),)
                )
            }
        ),
        sound=wheel({"demo.libs/libfront.so.1": PLAIN}),
    ),
    "WF301": FileCase(
        faulty=user_of("int gone(void); int g(void) { return gone(); }"), sound=user_of(CALL)
    ),
    "WF302": FileCase(faulty=user_of(CALL, ships=False), sound=user_of(CALL)),
    "WF303": ValueCase(
        faulty=wheel({"demo/m.so": NEWER}, name="demo-1.0-cp38-cp38-linux_x86_64.whl"),
        sound=wheel({"demo/m.so": NEWER}),
    ),
    "WF304": FileCase(faulty=versioned("V_1"), sound=versioned("V_2")),
    "WF305": ValueCase(
        faulty=SOUND,
        sound=wheel({"demo/libother.so": PLAIN}),
        settings={"symbols": (SymbolContract(objects=("libother.so",)),)},
    ),
    "WF306": ValueCase(
        faulty=wheel({"demo/libother.so": PLAIN}),
        sound=wheel({"demo/libother.so": PLAIN, "demo/libgone.so": PLAIN}),
        settings={"symbols": (SymbolContract(objects=("libother.so", "libgone.so")),)},
    ),
    "WF307": FileCase(faulty=module_of("int more;"), sound=module_of("static int more;")),
    "WF308": ValueCase(
        faulty=wheel({"demo/m.abi3.so": STABLE}, name="demo-1.0-cp39-abi3-linux_x86_64.whl"),
        sound=wheel({"demo/m.abi3.so": STABLE}, name="demo-1.0-cp311-abi3-linux_x86_64.whl"),
    ),
    "WF309": FileCase(faulty=free_threaded(""), sound=free_threaded("PyUnstable_Module_SetGIL")),
    "WF311": ValueCase(
        faulty=wheel({f"foo{SUFFIX}": elf(module_hooks=("PyInit_bar",))}),
        sound=wheel({f"foo{SUFFIX}": elf(module_hooks=("PyInit_foo",))}),
    ),
    "WF312": ValueCase(
        faulty=wheel({f"m{SUFFIX.replace('x86_64', 'aarch64')}": elf(module_hooks=("PyInit_m",))}),
        sound=wheel({f"m{SUFFIX}": elf(machine=Machine.AARCH64, module_hooks=("PyInit_m",))}),
    ),
    "WF313": ValueCase(
        faulty=wheel({"demo/m.so": elf("libin.so.2"), "demo/libin.so": elf(soname="libin.so.2")}),
        sound=wheel({"demo/m.so": elf("libin.so"), "demo/libin.so": elf(soname="libin.so")}),
        stage=Stage.BEFORE,
    ),
    "WF314": ValueCase(
        faulty=wheel(
            {
                "demo/m.so": elf("libc1.so"),
                "demo/a/libc1.so": elf(soname="libc1.so"),
                "demo/b/libc1.so": elf(soname="libc1.so", constructors=True),
            }
        ),
        sound=wheel({"demo/m.so": elf("libc1.so"), "demo/a/libc1.so": elf(soname="libc1.so")}),
    ),
    "WF315": ValueCase(
        faulty=wheel({"demo/libz.so.1": PLAIN}), sound=wheel({"demo/libz-1a2b3c4d.so.1": PLAIN})
    ),
    "WF316": ValueCase(faulty=wheel({"demo.libs/libstdc++.so.6": PLAIN})),
    "WF317": ValueCase(
        faulty=wheel({}, "demo/__init__.py", openings=opening("libx.so", LookupPlace.SOURCE)),
        sound=wheel(
            {"demo/libx.so": PLAIN},
            "demo/__init__.py",
            openings=opening("libx.so", LookupPlace.SOURCE),
        ),
    ),
    "WF318": ValueCase(
        faulty=wheel(
            {"demo/m.so": elf("libfoo.so.1")},
            "demo/__init__.py",
            openings=opening("libfoo.so.1", LookupPlace.SEARCH),
        ),
    ),
    "WF319": ValueCase(faulty=wheel(NOTED), sound=wheel(NOTED_PATH)),
    "WF320": ValueCase(faulty=wheel({}, "demo/a.py", unfollowed=("demo/a.py",))),
    "WF321": ValueCase(
        faulty=wheel(
            {}, "demo/__init__.py", openings=opening("libwidget.so.1", LookupPlace.SEARCH)
        ),
        sound=wheel({}, "demo/__init__.py", openings=opening("libm.so.6", LookupPlace.SEARCH)),
    ),
    "WF322": ValueCase(
        faulty=wheel(NOTED), sound=wheel(NOTED_PATH), settings={"include": ("libx.so",)}
    ),
    "WF402": ValueCase(
        faulty=wheel({"demo.libs/libother-1a2b3c4d.so.1": PLAIN}),
        sound=wheel({"demo.libs/libfront-1a2b3c4d.so.1": PLAIN}),
        settings={"grafts": ("libfront*",)},
    ),
    "WF401": ContextCase(faulty=pruned(PATHLESS | {"demo/_core.so": PLAIN}), sound=pruned(PATHS)),
    "WF501": ValueCase(
        faulty=wheel({}, record_problems=(RecordProblem(f"{INFO}/RECORD", "is missing"),))
    ),
    "WF502": ValueCase(faulty=wheel({"demo/_core.so": PLAIN}, f"{INFO}/RECORD.jws")),
    "WF503": ValueCase(
        faulty=wheel({"demo/m.so": PLAIN}, root_is_purelib=True), stage=Stage.BEFORE
    ),
    "WF504": ValueCase(faulty=wheel({}, tags=())),
    "WF505": ValueCase(
        faulty=wheel({}, f"{INFO}/METADATA", metadata=metadata(name="other")),
        sound=wheel({}, f"{INFO}/METADATA", metadata=metadata()),
    ),
    "WF506": ValueCase(
        faulty=wheel({}, f"{INFO}/METADATA"),
        sound=wheel({}, f"{INFO}/METADATA", metadata=metadata()),
    ),
    "WF507": ValueCase(
        faulty=wheel(
            {}, metadata=metadata(("requires-python", ">=3.12"), requires_python=">=3.12")
        ),
        sound=wheel({}, metadata=metadata(("requires-python", ">=3.11"), requires_python=">=3.11")),
    ),
    "WF508": ValueCase(
        faulty=wheel({"demo-1.0.data/purelib/demo/a.so": PLAIN}),
        sound=wheel({"demo-1.0.data/platlib/demo/a.so": PLAIN}),
    ),
    "WF509": ContextCase(
        faulty=judged("manylinux_2_17_x86_64", "demo-1.0-py3-none-any.whl"),
        sound=judged("manylinux_2_17_x86_64"),
    ),
    "WF510": ValueCase(
        faulty=wheel(
            {"demo/a.cpython-311.so": PLAIN},
            name="demo-1.0-cp311-cp311-manylinux_2_28_aarch64.whl",
        ),
        sound=wheel({"demo/a.cpython-311.so": PLAIN}),
    ),
    "WF511": ValueCase(
        faulty=wheel({"demo/_a.so": PLAIN}, name=MUSL), sound=wheel({"demo/_a.so": PLAIN})
    ),
    "WF512": ValueCase(
        faulty=wheel({}, "demo-1.0.data/purelib/other-3.dist-info/METADATA"),
    ),
    "WF513": ValueCase(
        faulty=wheel({}, members=(member("demo-1.0.data/scripts/run", mode=0o100644),)),
        sound=wheel({}, members=(member("demo-1.0.data/scripts/run", mode=0o100755),)),
    ),
    "WF515": ValueCase(
        faulty=wheel(
            {"demo/libx.so.1": PLAIN, "demo/libx.so.1.2": PLAIN},
            record=(
                RecordRow("demo/libx.so.1", "sha256=x", 9),
                RecordRow("demo/libx.so.1.2", "sha256=x", 9),
            ),
        ),
        sound=wheel(
            {"demo/libx.so.1": PLAIN, "demo/libx.so.1.2": PLAIN},
            record=(
                RecordRow("demo/libx.so.1", "sha256=x", 9),
                RecordRow("demo/libx.so.1.2", "sha256=y", 9),
            ),
        ),
    ),
    "WF516": ValueCase(
        faulty=wheel({}, "demo/__pycache__/a.cpython-311.pyc"), sound=wheel({}, "demo/a.py")
    ),
    "WF517": ValueCase(
        faulty=wheel({}, texts={f"{INFO}/direct_url.json": '{"url": "file:///home/me/demo"}'}),
    ),
    "WF518": ValueCase(faulty=wheel({}, "lib/thing.py"), sound=wheel({}, "demo/lib/thing.py")),
    "WF519": ValueCase(
        faulty=wheel({}, "demo-1.0.data/scripts/a/b"), sound=wheel({}, "demo-1.0.data/scripts/b")
    ),
    "WF528": ValueCase(
        faulty=wheel(
            {},
            "demo/__init__.py",
            texts={f"{INFO}/entry_points.txt": "[console_scripts]\na = demo.cli:main\n"},
        ),
        sound=wheel(
            {},
            "demo/__init__.py",
            "demo/cli.py",
            texts={f"{INFO}/entry_points.txt": "[console_scripts]\na = demo.cli:main\n"},
        ),
    ),
    "WF520": ValueCase(
        faulty=wheel({}, zip_oddities=(ZipOddity(ZipFeature.DESCRIPTOR, "demo/a.py", 1),)),
    ),
    "WF521": ValueCase(
        faulty=wheel({}, members=(member("demo/big", 68_000_000, compressed=66_000),)),
        sound=wheel({}, members=(member("demo/big", 68_000_000, compressed=6_600_000),)),
        settings=PYPI,
    ),
    "WF522": ValueCase(faulty=SOUND, sound=wheel({}, name=MANYLINUX), settings=PYPI),
    "WF523": ValueCase(
        faulty=wheel({}, metadata=metadata(metadata_version="2.9")),
        sound=wheel({}, metadata=metadata()),
        settings=PYPI,
    ),
    "WF525": ValueCase(
        faulty=wheel({"demo.libs/libours-1a2b3c4d.so.1": PLAIN}),
    ),
    "WF526": ValueCase(
        faulty=wheel({}, "tests/__init__.py"),
        sound=wheel({}, "demo/__init__.py"),
        settings={"files": FileLists(only=("demo/*",))},
    ),
    "WF527": ValueCase(
        faulty=wheel({"libinner.so.1": PLAIN, "demo/_core.so": PLAIN}),
        sound=wheel({"_core.so": elf(module_hooks=("PyInit__core",)), "demo/libinner.so": PLAIN}),
    ),
    "WF601": ValueCase(faulty=wheel({}, broken_elfs={"demo/data.bin": "it is truncated"})),
    "WF602": ValueCase(faulty=wheel({}, impostors={f"demo/m{SUFFIX}": "a text file"})),
    "WF603": ValueCase(
        faulty=wheel(
            {"demo.libs/libx-0a1b2c3d.so.1": elf(segments=(segment(flags=6), EXEC_STACK))}
        ),
        sound=wheel({"demo.libs/libx-0a1b2c3d.so.1": elf(segments=(segment(flags=6), STACK))}),
        settings={"clear_execstack": ("libx.so.1",)},
    ),
    "WF604": objects(
        elf(segments=(segment(offset=4088, vaddr=4096),)),
        elf(segments=(segment(offset=4096, vaddr=4096),)),
    ),
    "WF605": objects(
        elf(machine=Machine.PPC64, segments=(segment(flags=6, memsz=1),)),
        elf(machine=Machine.PPC64, segments=(segment(flags=6, memsz=1, align=65536),)),
    ),
    "WF606": objects(elf(segments=(TLS,), dt_flags=16), elf(segments=(TLS,))),
    "WF607": ValueCase(
        faulty=wheel({"demo/m.so": elf(relr=True)}, name=MUSL),
        sound=wheel({"demo/m.so": PLAIN}, name=MUSL),
    ),
    "WF608": objects(elf(gnu_properties=V3), PLAIN),
    "WF609": objects(elf(segments=(RELRO,)), elf(segments=(segment(memsz=1), RELRO))),
    "WF610": ValueCase(
        faulty=wheel({"demo/m.abi3.so": elf(hashed=False)}),
        sound=wheel({"demo/m.abi3.so": PLAIN}),
    ),
    "WF621": objects(elf(dt_flags=4), PLAIN),
    "WF622": objects(elf(segments=(segment(flags=7),)), elf(segments=(segment(flags=5),))),
    "WF623": objects(elf(segments=(STACK,)), elf(segments=(STACK, RELRO))),
    "WF624": objects(elf(segments=(RELRO,)), elf(segments=(RELRO,), dt_flags=8)),
    "WF625": objects(elf(segments=(segment(),), unique_symbols=1), elf(segments=(segment(),))),
    "WF701": objects(elf(debug_size=5_000_000), PLAIN),
    "WF702": objects(elf(symtab_size=5_000_000), PLAIN),
    "WF703": ValueCase(
        faulty=two_copies("b/y.bin"),
        sound=two_copies("demo-1.0.data/data/lib/demo.data-libs/x.bin"),
    ),
    "WF704": ValueCase(faulty=wheel({}, members=(member("a.bin", 20_000_000),))),
    "WF705": ValueCase(
        faulty=wheel({}, size=834), sound=wheel({}, size=833), settings={"max_size": 833}
    ),
    "WF706": ValueCase(
        faulty=wheel({}, members=(member("a.bin", 5000),)),
        sound=wheel({}, members=(member("a.bin", 4999),)),
        settings={"max_file_size": 4999},
    ),
    "WF801": ContextCase(
        faulty=judged("manylinux_2_28_x86_64"), sound=judged("manylinux_2_17_x86_64")
    ),
    "WF802": ContextCase(faulty=excluding("libnone.so*"), sound=excluding()),
    "WF803": ContextCase(
        faulty=judged(
            "manylinux_2_34_x86_64",
            LINUX,
            near=NearMiss(
                tag="manylinux_2_28_x86_64", image="manylinux_2_28_x86_64", symbols=("`x`",)
            ),
        ),
        sound=judged("manylinux_2_34_x86_64", LINUX),
    ),
    "WF804": ContextCase(
        faulty=judged("manylinux_2_17_x86_64", LINUX), sound=judged("manylinux_2_17_x86_64")
    ),
    "WF805": ContextCase(
        faulty=judged("linux_x86_64", external=("libfoo.so.1",), libraries_alone=True),
        sound=judged("linux_x86_64"),
    ),
    "WF811": ValueCase(
        faulty=wheel({}, name="demo-1.0-cp311-cp311-manylinux_2_34_x86_64.whl"),
        sound=wheel({}, name=MANYLINUX),
        settings={"target": ("debian:11",)},
    ),
    "WF812": objects(
        elf(verneed=(VersionNeed("libc.so.6", ("GLIBC_2.29",)),)),
        elf(verneed=(VersionNeed("libc.so.6", ("GLIBC_2.28",)),)),
        target=("rhel:8",),
    ),
    "WF813": objects(elf("libGL.so.1"), PLAIN, target=("debian:12",)),
    "WF814": objects(
        elf(machine=Machine.PPC64, segments=(segment(memsz=1),)),
        elf(machine=Machine.PPC64, segments=(segment(memsz=1, align=65536),)),
        target=("page:64K",),
    ),
    "WF815": objects(PLAIN, elf(segments=(STACK,)), target=("glibc:2.41",)),
    "WF816": SetCase(
        faulty=release(SOUND, settings=Settings(target=("musl:1.2",))),
        sound=release(SOUND, settings=Settings(target=("debian:12",))),
    ),
    "WF821": ValueCase(
        faulty=wheel({"demo/_core.so": elf("libpro.so.3")}),
        sound=wheel(
            {"demo/_core.so": elf("libpro.so.3")}, metadata=metadata(requires_dist=("pro>=2",))
        ),
        settings={"provider": (PRO,)},
    ),
    "WF822": ValueCase(
        faulty=wheel(
            {"demo/_core.so": elf("libpro.so.3")}, metadata=metadata(requires_dist=("pro",))
        ),
        sound=wheel(
            {"demo/_core.so": elf("libpro.so.3")}, metadata=metadata(requires_dist=("pro>=2",))
        ),
        settings={"provider": (PRO,)},
    ),
    "WF823": FileCase(
        faulty=dependent,
        sound=dependent,
        settings=provided("int pro(void) { return 7; }", "libpro.so.4"),
        sound_settings=provided("int pro(void) { return 7; }"),
    ),
    "WF824": FileCase(
        faulty=dependent,
        sound=dependent,
        settings=provided("int other(void) { return 7; }"),
        sound_settings=provided("int pro(void) { return 7; }"),
    ),
    "WF825": ValueCase(faulty=wheel({"demo/libX11.so.6": PLAIN})),
    "WF829": FileCase(
        faulty=dependent,
        sound=dependent,
        settings=two_versions("int other(void) { return 7; }"),
        sound_settings=two_versions(""),
    ),
    "WF826": ValueCase(
        faulty=SOUND,
        sound=wheel({"demo/_core.so": elf("libpro.so.3")}),
        settings={"provider": (PRO,)},
    ),
    "WF827": ValueCase(
        faulty=wheel(
            {"demo/_core.so": elf("libpro.so.3", runpath="$ORIGIN/../pro/lib")},
            metadata=Metadata(requires_dist=("pro",)),
        ),
        sound=wheel(
            {"demo/_core.so": elf("libpro.so.3", runpath="$ORIGIN/../pro/lib")},
            metadata=Metadata(requires_dist=('pro; sys_platform == "win32"',)),
        ),
    ),
    "WF828": FileCase(
        faulty=leading,
        sound=leading,
        settings=beside(None),
        sound_settings=beside("$ORIGIN/../../far"),
    ),
    "WF851": SetCase(
        faulty=siblings(
            sibling(objects={"demo/_core.so": elf("libother.so.1"), "demo/_fast.so": PLAIN})
        ),
        sound=siblings(sibling()),
    ),
    "WF852": SetCase(
        faulty=siblings(sibling(objects={"demo/_core.so": NEEDY})), sound=siblings(sibling())
    ),
    "WF853": SetCase(
        faulty=siblings(sibling(platform="manylinux_2_34_x86_64")), sound=siblings(sibling())
    ),
    "WF854": SetCase(faulty=siblings(sibling(size=48_000_000)), sound=siblings(sibling(size=1))),
    "WF951": EnvironmentCase(
        faulty=installed(OLDER, OLDER),
        sound=installed(OLDER, module_and_library("beta", "one", ["one"])),
    ),
    "WF952": EnvironmentCase(
        faulty=installed(module_and_library("beta", "two", ["one"])), sound=installed(OLDER)
    ),
    "WF953": EnvironmentCase(
        faulty=installed(OLDER, module_and_library("beta", "two", ["one", "two"])),
        sound=installed(OLDER, module_and_library("beta", "one", ["one", "two"])),
    ),
    "WF954": EnvironmentCase(
        faulty=installed(module_with_unique("alpha", 8), module_with_unique("beta", 16)),
        sound=installed(module_with_unique("alpha", 8), module_with_unique("beta", 8)),
    ),
    "WF955": EnvironmentCase(
        faulty=installed(FOR_ALL, module_that_defines("own")),
        sound=installed(FOR_ALL, module_that_defines("other")),
    ),
    "WF956": EnvironmentCase(
        faulty=installed(module_with_tls("alpha", 900), module_with_tls("beta", 900)),
        sound=installed(module_with_tls("alpha", 800), module_with_tls("beta", 800)),
    ),
    "WF957": EnvironmentCase(
        faulty=installed(
            module_and_library("alpha", "H5get_libversion", ["H5get_libversion"]),
            module_and_library("beta", "H5get_libversion", ["H5get_libversion"]),
        ),
        sound=installed(
            module_and_library("alpha", "H5get_libversion", ["H5get_libversion"]), OLDER
        ),
    ),
    "WF958": EnvironmentCase(
        faulty=installed({"alpha/changed.so": (elf(soname="of10bytes_"), ())}),
        sound=installed({"alpha/changed.so": (elf(soname="of8bytes"), ())}),
    ),
    "WF959": EnvironmentCase(faulty=installed(OLDER, SETTER), sound=installed(OLDER)),
    "WF960": EnvironmentCase(
        faulty=installed(READER, SETTER),
        sound=installed({**READER, **SETTER}),  # of one distribution
    ),
    "WF901": SetCase(
        faulty=release(SOUND, unused_ignores=frozenset({("WF101", "")})), sound=release(SOUND)
    ),
}
