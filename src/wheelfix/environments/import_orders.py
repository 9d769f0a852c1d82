"""Orders of imports in an installed environment: what each opens, and which copy serves whom."""

from collections.abc import Iterator, Sequence
from difflib import get_close_matches
from itertools import islice, permutations, product

from packaging.utils import canonicalize_name

from wheelfix.environments.modules import InstalledModules
from wheelfix.errors import SettingsError
from wheelfix.grouping import flatten
from wheelfix.loader.load_values import Load
from wheelfix.loader.process_bindings import Binding
from wheelfix.named_tuple import NamedTuple
from wheelfix.rules.predictions import Prediction
from wheelfix.text import FEW, join_some

_MOST_SYMBOLS = 3
"""Symbols by which a run shows that a copy serves an object."""


class Served(NamedTuple):
    """An object that gets another file for a SONAME than if its module is imported alone."""

    path: str
    usual: str
    """The file that it gets alone."""
    prediction: Prediction | None
    """What shows it; None if no symbol tells the files apart."""


class Copy(NamedTuple):
    """The one of several files of a SONAME that is loaded in an order of imports."""

    soname: str
    path: str
    first: str
    """The module that loads it, by path."""
    others: tuple[str, ...]
    """The other files of the SONAME, which are not loaded for it."""
    served: tuple[Served, ...]


class Order(NamedTuple):
    """What is loaded where some names are imported in turn."""

    names: tuple[str, ...]
    """As `import` takes them."""
    copies: tuple[Copy, ...]
    """Those of the SONAMEs that several files of the environment have."""
    failing: tuple[str, ...]
    """The modules that fail in it, by path; without those that fail alone, and may not be tried."""
    prediction: Prediction

    @property
    def predictions(self) -> tuple[Prediction, ...]:
        """What shows that it works, or what fails, and whom each copy serves."""
        of_copies = (served.prediction for served in flatten(copy.served for copy in self.copies))
        return (self.prediction, *filter(None, of_copies))


def in_order(modules: InstalledModules, names: Sequence[str]) -> InstalledModules:
    """Return the modules that importing `names` opens, in this order.

    A package is taken to open all of its extension modules, those first that it surely begins, in
    turn with those of the packages that it surely imports.
    Raises `SettingsError` for a name that nothing there has.
    """
    for name in names:
        top, *others = name.split(".")
        is_name = all(part.isidentifier() for part in (top, *others))
        if not is_name or (
            top not in modules.imports and not modules.symbols.contents.has_source(top)
        ):
            raise SettingsError(
                f"no distribution there is imported as `{name}`",
                hint=_suggestion(modules, name),
            )
    opened: dict[str, None] = {}
    seen: set[str] = set()
    for name in names:
        opened |= dict.fromkeys(_opened_by(modules, name, seen))
    return modules.in_order(opened, names)


def _suggestion(modules: InstalledModules, name: str) -> str | None:
    """Return what the distribution `name` is imported as, or the names that are alike."""
    wanted = canonicalize_name(name)
    of_it = [
        top
        for top, paths in modules.imports.items()
        if canonicalize_name(modules.distribution(paths[0]).partition(" ")[0]) == wanted
    ]
    near = of_it or get_close_matches(name, modules.imports, FEW)
    return f"did you mean {join_some(near, FEW)}?" if near else None


def _opened_by(modules: InstalledModules, name: str, seen: set[str]) -> Iterator[str]:
    if name in seen:
        return
    seen.add(name)
    top = name.partition(".")[0]
    for other in modules.symbols.contents.begun(top) if name == top else ():
        if other.startswith("/") or other.partition(".")[0] == top:
            yield from modules.at([other])
        else:
            yield from _opened_by(modules, other.partition(".")[0], seen)
    for path in modules.imports.get(top, ()):
        if f"{modules.modules[path]}.".startswith(f"{name}."):
            yield path


def imported_as(modules: InstalledModules, distribution: str) -> tuple[str, ...]:
    """Return the public names in site-packages that `import` takes of a distribution."""
    wanted = canonicalize_name(distribution)
    places = (
        modules.in_site(path)
        for path, owners in modules.owners.items()
        if any(
            canonicalize_name(owner.distribution.partition(" ")[0]) == wanted for owner in owners
        )
    )
    names = (
        place.partition("/")[0].removesuffix(".py")
        for place in places
        if place.endswith(("/__init__.py", ".so")) or "/" not in place.removesuffix(".py")
    )
    tops = dict.fromkeys(name.partition(".")[0] for name in names)
    return tuple(top for top in tops if top.isidentifier() and not top.startswith("_"))


def meeting_pairs(modules: InstalledModules) -> tuple[tuple[str, str], ...]:
    """Return the pairs of names, in both orders, that load different files of one SONAME.

    To import the name of a folder without `__init__.py` loads nothing.
    """
    sonames = modules.symbols.contested
    loaders: dict[str, dict[str, set[str]]] = {name: {} for name in sonames}
    for top, paths in modules.imports.items():
        for path in paths if modules.is_of_package(paths[0]) else ():
            for request in modules.usual(path).requests:
                if request.result and request.name in loaders:
                    loaders[request.name].setdefault(request.result, set()).add(top)
    pairs = (
        pair
        for files in loaders.values()
        for first, other in permutations(files.values(), 2)
        for pair in product(sorted(first), sorted(other))
        if pair[0] != pair[1]
    )
    return tuple(dict.fromkeys(pairs))


def judge(modules: InstalledModules, names: Sequence[str]) -> Order:
    """Return what is loaded in the order of `modules`, which is that of importing `names`."""
    loads, lacks, _ = modules.in_turn
    first_with: dict[str, str] = {}
    served: dict[str, dict[tuple[str, str], Served]] = {}
    for path, load in loads.items():
        for result in load.objects:
            first_with.setdefault(result, path)
        for request, usual in modules.otherwise(load) if modules.is_order_known(load) else ():
            user, result = request.requester or "", request.result or ""
            bindings = _bindings(modules, load, user, result)
            imports = modules.modules[first_with[result]], modules.modules[path]
            shown = Prediction(imports, bindings=bindings) if bindings else None
            served.setdefault(result, {}).setdefault((user, usual), Served(user, usual, shown))
    sonames = {path: name for name, paths in modules.symbols.contested.items() for path in paths}
    copies = (
        Copy(
            soname=sonames[path],
            path=path,
            first=first,
            others=tuple(p for p in modules.symbols.contested[sonames[path]] if p != path),
            served=tuple(served.get(path, {}).values()),
        )
        for path, first in first_with.items()
        if path in sonames
    )
    alone = {path: lack for path, lack in modules.failures if modules.is_surely_imported(path)}
    known = {path: lack for path, (load, lack) in lacks.items() if modules.is_order_known(load)}
    failing = {**alone, **known}
    return Order(
        names=tuple(names),
        copies=tuple(copies),
        failing=tuple(failing),
        prediction=Prediction(
            tuple(names), tuple(flatten(lack.words for lack in failing.values()))
        ),
    )


def _bindings(
    modules: InstalledModules, load: Load, user: str, provider: str
) -> tuple[Binding, ...]:
    """Return bindings of `user` to `provider`, of symbols that no other object defines for it."""
    all_bindings = (
        Binding(name, user, provider)
        for name, definer in modules.symbols.bindings(load, user)
        if definer == provider
    )
    return tuple(islice(all_bindings, _MOST_SYMBOLS))
