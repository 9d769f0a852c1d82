"""Which DT_NEEDED entries are unused, judged on values: no compiler, no file."""

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence

from tests.support.values import elf, wheel
from wheelfix.analysis.lddtree_search import NO_PATH, SearchPath
from wheelfix.analysis.loaded_wheel import Definitions, LoadedWheel
from wheelfix.analysis.needed_judgement import Pruning, Unused, judge_needed
from wheelfix.analysis.world import Installed
from wheelfix.elf.constants import STT_FUNC
from wheelfix.elf.model import Definition, Elf, Exports, Undefined
from wheelfix.loader.as_needed import Library, Why
from wheelfix.providers.model import Provided
from wheelfix.settings import PruneNeeded, Settings
from wheelfix.wheel.edits import Edit
from wheelfix.wheel.names_in_code import CodeNames

MODULE = "p/a.so"


class Names(CodeNames):
    """Some names in the strings of one module, and no sources."""

    def __init__(self, strings: Collection[str]) -> None:
        self._strings = strings

    def is_named(self, module: str) -> bool:
        del module
        return False

    def is_only_tried(self, module: str) -> bool:
        del module
        return False

    @property
    def opens_libraries(self) -> bool:
        return False

    def has_opening(self, test: Callable[[bytes], bool]) -> bool:
        del test
        return False

    def sources_that(self, test: Callable[[bytes], object]) -> Sequence[str]:
        del test
        return ()

    @property
    def taking_modules(self) -> Sequence[bytes]:
        return ()

    def mentions(self, names: Collection[str]) -> Mapping[str, tuple[str, ...]]:
        return {name: (MODULE,) if name in self._strings else () for name in names}


class Defined:
    """Definitions by member; nothing is read."""

    def __init__(self, defined: Mapping[str, Iterable[str]], named: Iterable[str] = ()) -> None:
        self._exports = {
            member: Exports(definitions={name: (definition(),) for name in names})
            for member, names in defined.items()
        }
        self._named = set(named)

    def including(self, edits: Iterable[Edit]) -> Definitions:
        del edits
        return self

    def reader(self, member: str, /) -> Callable[[], Exports]:
        exports = self._exports.setdefault(member, Exports())
        return lambda: exports

    def host(
        self, name: str, dependent: Elf, path: str = "", root: SearchPath = NO_PATH, /
    ) -> Library | None:
        del name, dependent, path, root
        return None

    def outside(self, name: str, dependent: Elf, folders: Iterable[str]) -> Library | None:
        del name, dependent, folders
        return None

    def provider_library(
        self, name: str, dependent: Elf, provider: Provided, folder: str | None, /
    ) -> Library | None:
        del name, dependent, provider, folder
        return None

    def preferring(self, places: Iterable[str], /) -> Definitions:
        del places
        return self

    @property
    def code(self) -> CodeNames:
        return Names(self._named)


def definition() -> Definition:
    return Definition(version=None, version_index=None, hidden=False, weak=False, type=STT_FUNC)


def uses(*names: str, weak: bool = False) -> tuple[Undefined, ...]:
    return tuple(
        Undefined(name=name, version=None, file=None, type=STT_FUNC, weak=weak) for name in names
    )


def judged(
    objects: Mapping[str, Elf],
    defined: Mapping[str, Iterable[str]],
    named: Iterable[str] = (),
    settings: Settings | None = None,
) -> Pruning:
    subject, definitions = wheel(objects), Defined(defined, named)
    world = Installed(wheel=subject).worlds[0]
    loaded = LoadedWheel.around(world, subject, definitions)
    return judge_needed(loaded, settings or Settings(), definitions)


def unused(pruning: Pruning) -> dict[str, Unused]:
    """Return the entries of the module that are unused, by name."""
    return {entry.name: entry for entry in pruning.unused if entry.member == MODULE}


def module(*needed: str, **fields: object) -> Elf:
    """An extension module that Python imports as `a`."""
    return elf(*needed, module_hooks=("PyInit_a",), **fields)


def libraries(**fields: Mapping[str, object]) -> dict[str, Elf]:
    return {f"p/lib{name}.so": elf(soname=f"lib{name}.so", **rest) for name, rest in fields.items()}


def test_an_entry_that_no_symbol_binds_through_is_unused() -> None:
    objects = {MODULE: module("libb.so", "libc1.so", undefined=uses("b")), **libraries(b={}, c1={})}
    found = unused(judged(objects, {"p/libb.so": ["b"], "p/libc1.so": ["c"]}))
    assert found.keys() == {"libc1.so"}
    assert not found["libc1.so"].kept
    assert found["libc1.so"].library == "/env/lib/python3.11/site-packages/p/libc1.so"


def test_an_entry_through_which_another_object_gets_its_symbol_is_kept() -> None:
    """`libb.so` takes `c` of `libc1.so` without DT_NEEDED: only the module's entry loads it."""
    objects = {
        MODULE: module(needed=("libb.so", "libc1.so"), undefined=uses("b")),
        **libraries(b={"undefined": uses("c"), "needed": ()}, c1={"needed": ()}),
    }
    pruning = judged(objects, {"p/libb.so": ["b"], "p/libc1.so": ["c"]})
    assert not unused(pruning)  # the linker keeps what a sibling uses
    (missing,) = pruning.missing
    assert (missing.member, missing.name, missing.symbols) == ("p/libb.so", "libc1.so", ("c",))


def test_an_entry_before_another_definition_is_kept_if_the_binding_would_change() -> None:
    """Without `libone.so` of the module, `libuser.so` takes `f` from `libtwo.so`."""
    objects = {
        MODULE: module("libone.so", "libuser.so", undefined=uses("u")),
        **libraries(one={}, user={"undefined": uses("f"), "needed": ("libtwo.so",)}, two={}),
    }
    defined = {"p/libone.so": ["f"], "p/libtwo.so": ["f"], "p/libuser.so": ["u"]}
    found = unused(judged(objects, defined))
    assert found["libone.so"].kept
    assert (
        "takes `f` from `libone.so` through it, from `libtwo.so` without it"
        in (found["libone.so"].hazards[0])
    )


def test_constructors_and_names_opened_at_run_time_keep_an_entry_unless_it_is_forced() -> None:
    objects = {
        MODULE: module("libinit.so", "libopen.so"),
        **libraries(init={"constructors": True}, open={}),
    }
    found = unused(judged(objects, {}, named=["libopen.so"]))
    assert found["libinit.so"].kept
    assert "it has constructors" in found["libinit.so"].hazards[0]
    assert found["libopen.so"].kept
    assert "may open it at run time" in found["libopen.so"].hazards[0]
    forced = judged(objects, {}, ["libopen.so"], Settings(drop_needed=("libinit.so",)))
    assert not unused(forced)["libinit.so"].kept
    everything = judged(objects, {}, ["libopen.so"], Settings(prune_needed=PruneNeeded.ALL))
    assert not any(entry.kept for entry in everything.unused)


def test_an_entry_that_loads_what_another_entry_loads_too_is_unused_without_hazards() -> None:
    objects = {
        MODULE: module("libb.so", "libinit.so", undefined=uses("b")),
        **libraries(
            b={"needed": ("libinit.so",), "undefined": uses("i")}, init={"constructors": True}
        ),
    }
    found = unused(judged(objects, {"p/libb.so": ["b"], "p/libinit.so": ["i"]}))
    assert not found["libinit.so"].kept
    assert found["libinit.so"].hazards == ()


def test_a_weak_reference_keeps_an_entry_for_a_library_of_the_wheel() -> None:
    objects = {MODULE: module("libb.so", undefined=uses("b", weak=True)), **libraries(b={})}
    found = unused(judged(objects, {"p/libb.so": ["b"]}))
    assert found["libb.so"].kept
    assert found["libb.so"].hazards == ("weak references of `a.so` become null: `b`",)
    asked = unused(judged(objects, {"p/libb.so": ["b"]}, settings=Settings(drop_needed=("*",))))
    assert not asked["libb.so"].kept
    assert asked["libb.so"].hazards == found["libb.so"].hazards


def test_a_weak_reference_of_another_object_keeps_an_entry_for_a_library_of_the_wheel() -> None:
    """`libuser.so` uses `b` if something else has loaded `libb.so`: the module does."""
    objects = {
        MODULE: module("libouter.so", "libuser.so", undefined=uses("u")),
        **libraries(outer={"needed": ("libb.so",)}, user={"undefined": uses("b", weak=True)}, b={}),
    }
    found = unused(judged(objects, {"p/libb.so": ["b"], "p/libuser.so": ["u"]}))
    assert found["libouter.so"].kept
    assert found["libouter.so"].hazards == ("weak references of `libuser.so` become null: `b`",)


def test_the_library_with_the_module_s_entry_point_is_kept_whatever_is_forced() -> None:
    objects = {MODULE: elf("libb.so"), **libraries(b={})}
    found = unused(
        judged(objects, {"p/libb.so": ["PyInit_a"]}, settings=Settings(drop_needed=("*",)))
    )
    assert found["libb.so"].kept
    assert not found["libb.so"].forceable


def test_an_entry_for_a_library_that_is_not_found_cannot_be_judged() -> None:
    pruning = judged({MODULE: module("libgone.so", undefined=uses("g"))}, {})
    assert not pruning.unused
    gone = {decision.name: decision for decision in pruning.absent[MODULE]}["libgone.so"]
    assert (gone.why, gone.open_references) == (Why.ABSENT, ("g",))
    assert not judged(
        {MODULE: module("libb.so"), **libraries(b={})},
        {},
        settings=Settings(prune_needed=PruneNeeded.OFF),
    ).unused


def test_an_entry_is_kept_for_a_library_that_takes_symbols_from_the_object() -> None:
    """`libplug.so` calls back: by itself, when it is opened later, it does not load."""
    objects = {
        MODULE: module("libplug.so"),
        **libraries(plug={"undefined": uses("f"), "needed": ()}),
    }
    found = unused(judged(objects, {MODULE: ["f"]}))["libplug.so"]
    assert found.kept
    reason = (
        f"`libplug.so` takes `f` from `{MODULE.rpartition('/')[2]}`, and does not load by itself"
    )
    assert found.hazards == (reason,)
