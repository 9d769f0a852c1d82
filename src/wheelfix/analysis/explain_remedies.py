"""Who must do what about a load that fails."""

import posixpath
import shlex
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from typing import Protocol

from packaging.utils import canonicalize_name

from wheelfix.analysis.load_failures import (
    BUILD_FOR_TAGS,
    HIDDEN,
    OF_OTHER_PYTHON,
    Failure,
    Lack,
    LoadJudge,
    gets_otherwise,
    is_source,
    named_way,
    way_of_build,
)
from wheelfix.analysis.load_tree import found_elsewhere
from wheelfix.analysis.never_bundled import FROM_MACHINE, reason_not_to_bundle, reason_to_leave_out
from wheelfix.analysis.world import World, release_of
from wheelfix.elf.demangle import join_symbols
from wheelfix.elf.model import names_of
from wheelfix.grouping import flatten, values_by_key
from wheelfix.loader.load_values import Load, SearchOutcome
from wheelfix.loader.loading import entry_directory
from wheelfix.loader.platform_libraries import may_come_from_platform
from wheelfix.named_tuple import NamedTuple
from wheelfix.providers.well_known import (
    OF_SOME,
    brings,
    in_wheels,
    is_listed,
    options_for,
    providers_for,
    way_of_authors,
    well_known_folders,
    well_known_providers_of,
)
from wheelfix.text import FEW, are, by_number, join_plain, join_some, quote, them, toml_string
from wheelfix.wheel.grafted_name import original_name, remove_hash
from wheelfix.wheel.requirements import name_of, read_requirement

_LEFT_OUT = (
    "RECORD of {} lists it as a data file that is not there: it was removed, so install that wheel "
    "again, or `pip install --target` left it out or put it elsewhere (`uv pip` does not); its "
    "authors can ship it as package data, or repair the wheel as it was built with "
    "`--data-libraries=move`"
)
_OVERWRITTEN = " was overwritten by that of "


class Advice(NamedTuple):
    """What to do about what is lacking."""

    names: tuple[str, ...]
    """The libraries, versions or symbols; none where a file as a whole is meant."""
    way: str

    @property
    def text(self) -> str:
        """The advice as a sentence."""
        return f"{join_symbols(self.names)}: {self.way}" if self.names else self.way


class Installed(Protocol):
    """The distributions of an environment."""

    @property
    def owners(self) -> Mapping[str, Sequence[object]]:
        """The distributions whose RECORDs list a file, by its path."""
        ...

    def distribution(self, path: str) -> str:
        """Return the distribution of a file, `numpy 2.1.0`; empty if it is not known."""
        ...

    def requirement(self, path: str, name: str) -> str:
        """Return the requirement on `name` of the distribution of a file; empty without one."""
        ...

    def not_installed(self, path: str) -> Sequence[str]:
        """Return what the distribution of a file requires, and is not installed (PEP 508)."""
        ...

    def lost(self, paths: Iterable[str], own: str) -> str:
        """Return the distribution, `own` if it can be, whose RECORD lists a path that is gone."""
        ...

    def to_install(self, distribution: str) -> str:
        """Return what pip installs of a distribution; empty if that is not known."""
        ...

    def overwriting(self, path: str, own: str) -> str:
        """Return the distribution that wrote its file over that of `own`; empty for none."""
        ...


def of_order(
    judge: LoadJudge, loads: Sequence[Load], lack: Lack, installed: Installed | None
) -> Sequence[Advice]:
    """Return what to do where a file that was loaded before takes the place of another."""
    world, alone = judge.world, judge.world.load(loads[-1].root)
    load = next(each for each in loads if each.root == alone.root)
    new = {(o.requester, name) for o in judge.lacks_beside(load, alone) for name in o.names}
    if alone.missing or new.isdisjoint((lack.requester, name) for name in lack.names):
        return []
    for request, usual in gets_otherwise(load, alone):
        first = next((o.root for o in loads if request.result in o.objects), load.root)
        if first != load.root:
            reverse = world.process(first, (load.root,))[-1]
            names = [world.label(path) for path in (request.result or "", usual, load.root, first)]
            way = "load `{2}` before `{3}`".format(*names)
            if any(judge.lacks_beside(reverse, world.load(first))):
                owner, other = (_owner(world, installed, p) for p in (usual, request.result or ""))
                way = (
                    "they cannot be loaded into one process: install versions that belong together"
                )
                if owner == other:
                    fix = "ship only one of the two libraries, or give each its own SONAME"
                    way = f"the authors of {owner or 'the wheel'} must {fix}"
            return [Advice((), "`{}` takes the place of `{}`: ".format(*names) + way)]
    return []


def taken_from_machine(world: World, installed: Installed, load: Load) -> Iterator[Lack]:
    """Yield the libraries of the machine that `load` takes, and that another wheel should have.

    It is known to have them, or a requirement has them, and no search path leads there: without the
    machine's, the load fails.
    """
    there = {*world.members, *world.others}
    for request in load.requests:
        path, result = request.requester or "", request.result
        is_outside = path in there and result not in there
        if result and is_outside and not may_come_from_platform(request.name):
            carriers = there.intersection(world.carriers.get(request.name, ()))
            owners = {installed.distribution(carrier).partition(" ")[0] for carrier in carriers}
            is_known = well_known_providers_of(request.name)
            if is_known or any(installed.requirement(path, owner) for owner in owners):
                yield Lack(Failure.FILE, path, request.name, result)


def failure_remedy(
    world: World, installed: Installed | None, lack: Lack, objects: Sequence[str] = ()
) -> str:
    """Return all `advices` as one sentence."""
    return "; ".join(each.text for each in advices(world, installed, lack, objects))


def advices(
    world: World, installed: Installed | None, lack: Lack, objects: Sequence[str] = ()
) -> Sequence[Advice]:
    """Return what gets a file loaded, or who must change what.

    Of a wheel, a file that cannot be loaded is for another Python or machine, or damaged.
    `objects` are those of the load, by default of the file that lacks something.
    """
    way = _of_overwritten(world, installed, lack) if installed else ""
    way = way or "its authors must give it another top-level name" * (lack.there == HIDDEN)
    if way or _is_of_path(world, lack):
        return [Advice((), way or START_WITHOUT_PATH)]
    if lack.failure is Failure.FILE:
        return [_of_file(world, installed, lack, objects)]
    every, whole = lack.definers, lack
    if every:  # by coincidence, one of another distribution has the name, too
        owner = _owner(world, installed, lack.requester)
        owners = {path: _owner(world, installed, path) for path in every}
        required = {
            of
            for of in owners.values()
            if installed and installed.requirement(lack.requester, of.partition(" ")[0])
        }
        own = tuple(path for path, of in owners.items() if of in {owner, "", *required})
        own = own if installed else own or every
        lack = lack._replace(definers=own, alike=None if own else lack.alike)
    names = lack.symbols[: 1 if lack.alike else None] or lack.versions
    who = f"`{world.label(lack.requester)}`"
    by_way = values_by_key(
        (named_way(world, lack._replace(symbols=(name,)), who), name) for name in lack.symbols
    )
    if len(by_way) > 1 and not lack.alike:
        parts = (whole._replace(symbols=tuple(names)) for names in by_way.values())
        return [*flatten(advices(world, installed, part, objects) for part in parts)]
    if not (way := named_way(world, lack, who)):
        objects = objects or world.load(lack.requester).objects
        lack = lack._replace(definers=every)
        if other := _of_other_release(world, installed, lack, objects):
            return [Advice(names, other)]
        way = way_of_build(world, lack, who)
    return [Advice(names, f"its authors must {way}")]


def _of_overwritten(world: World, installed: Installed, lack: Lack) -> str:
    """Return that an object which a lack is about is another one than was installed, if it is."""
    own, path = installed.distribution(lack.requester), lack.requester
    needed = (one.result for one in world.load(path).requests if one.requester == path)
    about = [lack.result] if lack.result or lack.failure is Failure.FILE else needed
    for each in filter(None, (path, lack.library, *about)):
        if other := installed.overwriting(each, own):
            return f"`{world.label(each)}`{_OVERWRITTEN}{other}: only one of both can be installed"
    return ""


def lasting(remedy: str, folder: str) -> str:
    """Return a remedy without the parts about a folder, or its files, that are gone once read."""
    parts = (part for part in remedy.split("; ") if folder not in part and _OVERWRITTEN not in part)
    return "; ".join(parts)


def _is_of_path(world: World, lack: Lack) -> bool:
    """Return whether a file gets what it lacks without LD_LIBRARY_PATH."""
    is_asked = world.environment.library_path and (lack.symbols or lack.versions)
    with_path = world.load(lack.requester).objects if is_asked else ()
    usual = world.without_path.load(lack.requester).objects if with_path else ()
    return any(path not in with_path and _has(world, path, lack) for path in usual)


def _owner(world: World, installed: Installed | None, path: str) -> str:
    """Return the distribution of a file with its version; empty for the wheel that is asked of."""
    if installed is not None:
        return installed.distribution(path)
    return release_of(world.others.get(path, ""))


def _of_other_release(
    world: World, installed: Installed | None, lack: Lack, objects: Sequence[str]
) -> str:
    """Return which other distribution to replace, if one has what should define a name.

    Whether an older or a newer release has it is not known.
    """
    there = {*world.members, *world.others}
    own, asked = _owner(world, installed, lack.requester), there.intersection(objects)
    if lack.result and lack.result not in there:  # one of this machine comes first
        asked = {*_named(world, lack.library)}
        having = sorted(path for path in asked if _has(world, path, lack))
        if installed and having:
            return _of_unreached(world, installed, lack, having, lack.requester)
    elif lack.result:
        asked = {lack.result}
    sole = {path for path in asked if not installed or not installed.owners.get(path, ())[1:]}
    lenders = sorted({_owner(world, installed, path) for path in sole} - {own, ""})
    for release in lenders:
        name, _, version = release.partition(" ")
        required = installed.requirement(lack.requester, name) if installed else ""
        required = required.partition(";")[0].strip()
        with suppress(ValueError):  # METADATA and versions may be anything
            if required and version not in read_requirement(required).specifier:
                return f"{release} is installed, {own} requires {required}: install that"
    if not lenders:
        return ""
    names = " or ".join(release.partition(" ")[0] for release in lenders)
    lack_it = by_number(lenders, "lacks it", "lack it")
    how = " with a version" * (lack.failure is Failure.UNVERSIONED)
    other = f"install another release of {names} that has it{how}, if there is one"
    return f"{other}: {join_plain(lenders, FEW)} {lack_it}{how}"


def _has(world: World, path: str, lack: Lack) -> bool:
    """Return whether a file has the versions and symbols that another of its name lacks."""
    is_definer = path in lack.definers or not lack.symbols
    return is_definer and {*lack.versions} <= {*world.environment.files[path].verdef}


def _of_file(
    world: World, installed: Installed | None, lack: Lack, objects: Sequence[str]
) -> Advice:
    name, is_of_other = lack.library, lack.there == SearchOutcome.WRONG_MACHINE
    if installed is None:
        way = "build it for the machine of the tags" if is_of_other else "build the wheel again"
        way = BUILD_FOR_TAGS if lack.there == OF_OTHER_PYTHON else way
        return Advice((), f"its authors must {way}")
    is_opened = lack.requester in {name, world.environment.main}
    if lack.there or is_opened or name in world.members:
        # It is damaged, or gone, or for another Python.
        owner = installed.distribution(name) or installed.distribution(lack.requester)
        top, kind = world.label(name).partition("/")[0], "machine" if is_of_other else "Python"
        is_other = is_of_other or "another Python" in lack.there
        way = "; if it has its tag, the authors must build it for its tags" * is_other
        return Advice((), f"install {owner or top} again, for this {kind}{way}")
    return Advice((world.label(name),), _of_missing(world, installed, lack, objects))


def _of_missing(world: World, installed: Installed, lack: Lack, objects: Sequence[str]) -> str:
    name, requester = lack.library, lack.requester
    user = _of_wheel(world, requester, objects)
    own = installed.distribution(user)
    gone = installed.lost(world.places(name, requester), own)
    there = [path for path in _named(world, name) if world.fits(path, name, requester)]
    if there and not (gone and gone == own):
        there.sort(key=lambda path: (path not in objects, installed.distribution(path) != own))
        return _of_unreached(world, installed, lack, there, user)
    if gone:
        release = installed.to_install(gone)
        how = f": pip install --force-reinstall --no-deps {shlex.quote(release)}" if release else ""
        copy = f"the copy of `{original_name(name)}` that the wheel of {gone} had is gone"
        return f"{copy}: install that wheel again{how or ', from where it came'}"
    folder, file = requester.removesuffix(world.label(requester)), posixpath.basename(name)
    recorded = (path for path in installed.owners if path.endswith(f"/{file}"))
    outside = (path for path in recorded if not path.startswith(folder))
    if own and not is_source(requester) and installed.lost(outside, own) == own:
        return _LEFT_OUT.format(own)
    return _of_absent(world, installed, lack, user)


def _of_wheel(world: World, path: str, objects: Sequence[str]) -> str:
    """Return the object of a wheel that leads to a file of the machine; of another file, itself."""
    there = {*world.members, *world.others}
    if path in there or path not in world.environment.files:
        return path
    every = objects or [*flatten(load.objects for load in world.first_loads.values())]
    users = (each for each in reversed(every) if each in there)
    return next((each for each in users if path in world.load(each).objects), path)


def _named(world: World, name: str) -> list[str]:
    """Return the files of distributions that have the name of a library."""
    files, file = world.environment.files, posixpath.basename(name)
    there = (path for path in (*world.members, *world.others) if path in files)
    return [path for path in there if file in names_of(path, files[path].soname)]


def _of_machine(world: World, lack: Lack) -> list[str]:
    """Return where the machine has a library, in folders that the search paths of others name."""
    files, name = world.environment.files, lack.library
    places = (at for at in (*world.environment.links, *files) if at.endswith(f"/{name}"))
    there = ((at, world.file_system.file(at)[0]) for at in places)
    return [at for at, path in there if path in files and world.fits(path, name, lack.requester)]


def _of_absent(world: World, installed: Installed, lack: Lack, requester: str) -> str:
    """Return what to do about a library that no distribution has; `requester` is of a wheel."""
    name = lack.library
    package, _, versions = found_elsewhere(world, name)
    providers = _providers(world, installed, name, requester)
    known, reason = in_wheels(name, providers), reason_to_leave_out(name)
    if versions:
        there, needed = join_some(versions, 2), f"; this one is {known}" if known else ""
        return f"another version is installed, {there}: install what belongs together{needed}"
    lacking = _not_installed(world, installed, name, requester)
    if package and not (reason and lacking):
        return f"install the system package `{package}`"
    if reason and not known and not lacking:
        is_left = "is left to the user's machine, as {}"
        return f"it {(FROM_MACHINE if reason_not_to_bundle(name) else is_left).format(reason)}"
    owner = _owner_or_label(world, installed, requester)
    required = [text for text in lacking if name_of(text) in providers]
    if lacking and not required:
        return (
            f"{join_some(lacking, 3)} {are(lacking)} not installed, and the wheel of {owner} "
            f"requires {them(lacking)}: pip install {shlex.join(lacking)}"
        )
    if known:
        texts = () if required else _requirements(installed, requester, providers)
        limited = [text for text in texts if ";" in text and brings(text, name) is not False]
        known += "".join(f", which {owner} requires only as `{text}`" for text in limited[:1])
        return f"it is {known}{_to_be_provided(world, installed, name, requester, required)}"
    return _to_be_grafted(world, installed, lack, requester)


def _not_installed(world: World, installed: Installed, name: str, requester: str) -> list[str]:
    """Return what the wheel of an object requires, is not installed, and may have a library."""
    if ("/" in name and not is_source(requester)) or reason_not_to_bundle(name):
        return []
    is_known, is_left = bool(well_known_providers_of(name)), bool(reason_to_leave_out(name))
    folders = [f"{canonicalize_name(at)}/" for _, at in _entries(world, requester)]
    return [
        text
        for text in installed.not_installed(requester)
        if brings(text, name) is not False
        if (name_of(text) in well_known_folders()) is is_known
        if not is_left or any(f"/{name_of(text)}/" in folder for folder in folders)
    ]


def _to_be_provided(
    world: World, installed: Installed, name: str, requester: str, required: Sequence[str]
) -> str:
    """Return what to do about a library that a well-known wheel has, which is not installed.

    Without `required`, it is not known which of several is meant, such as for what CUDA.
    """
    owner = _owner_or_label(world, installed, requester)
    known = _providers(world, installed, name, requester)
    provider, *others = required or known
    install = f": pip install {shlex.quote(provider)}"
    there = [folder for _, folder in _entries(world, requester)]
    lacking = _lacking(world, installed, requester)
    texts = (*required, *_requirements(installed, requester, (*known, *lacking.values())))
    way = way_of_authors(name, owner, texts, there, lacking)
    if required:
        also = f"; {way}, unless an import loads it before"
        return f", which is required{install}{also}" if way else install
    if way or others or not is_listed(name, known):
        return f": {way}" if way else ""
    is_own = name_of(owner.partition(" ")[0]) not in well_known_folders()
    whose = f"{'of' if is_own else 'that requires'} {owner}"
    return f"{install}, which the wheel {whose} must require, {OF_SOME}"


def _entries(world: World, path: str) -> list[tuple[str, str]]:
    """Return the search path entries of an object, each with its folder."""
    elf, origin = world.environment.files.get(path), posixpath.dirname(path)
    return [(entry, entry_directory(entry, origin)) for entry in (elf.entries if elf else ())]


def _lacking(world: World, installed: Installed, requester: str) -> dict[str, str]:
    """Return the well-known wheel of each library that an object does not find.

    It is empty where it is not known which one is meant, and no repair finds the library.
    """
    meant, own = dict[str, str](), installed.distribution(requester)
    for request in world.load(requester).missing:
        if request.requester == requester:
            owners = [*map(installed.distribution, _named(world, request.name))]
            there = {canonicalize_name(owner.partition(" ")[0]) for owner in owners}
            known = _providers(world, installed, request.name, requester)
            fitting = [one for one in known if one in (there or known)]
            is_left = may_come_from_platform(request.name) or reason_not_to_bundle(request.name)
            if len(fitting) == 1 or not (own in owners or is_left):
                meant[request.name] = fitting[0] if len(fitting) == 1 else ""
    return meant


def _providers(world: World, installed: Installed, name: str, requester: str) -> tuple[str, ...]:
    """Return the well-known wheels with a library that the wheel of an object may mean."""
    elf = world.environment.files.get(requester)
    texts = _requirements(installed, requester, well_known_folders())
    return providers_for(name, installed.distribution(requester), texts, elf.needed if elf else ())


def _requirements(installed: Installed, requester: str, names: Iterable[str]) -> list[str]:
    """Return what the distribution of an object requires of `names`."""
    return [text for name in names if (text := installed.requirement(requester, name))]


def _owner_or_label(world: World, installed: Installed, path: str) -> str:
    """Return what to call the wheel of an object: the same for all objects of a distribution."""
    return installed.distribution(path) or quote(world.label(path))


def _to_be_grafted(world: World, installed: Installed, lack: Lack, user: str) -> str:
    name, owner = lack.library, _owner_or_label(world, installed, user)
    if "/" in name and is_source(user):
        return f"the wheel of {owner} must have it there, or open the file that it has"
    if (there := _of_machine(world, lack)) and not is_source(user):
        return _of_unreached(world, installed, lack, there, user)
    graft = f" and `include = [{toml_string(name)}]` in [tool.wheelfix]" * is_source(user)
    what = "one that fits" if _named(world, name) else "it"
    what += f" (`{world.label(lack.requester)}` needs it)" * (lack.requester != user)
    return (
        f"neither the wheel of {owner} nor this machine has {what}: its authors can graft it, or "
        f"drop it if it is unused, with `wheelfix repair`{graft}; a system package may have it"
    )


START_WITHOUT_PATH = "`env -u LD_LIBRARY_PATH python3` starts Python without it"
_SEPARATORS = {"LD_LIBRARY_PATH": frozenset(":;"), "LD_PRELOAD": frozenset(": ")}
"""What ends a path in the variables (ld.so(8)): nothing quotes it."""


def assignment(variable: str, path: str) -> str:
    """Return `path` as the value of a variable of the loader; empty if that cannot have it."""
    return "" if _SEPARATORS[variable].intersection(path) else f"{variable}={shlex.quote(path)}"


def _of_unreached(
    world: World, installed: Installed, lack: Lack, there: Sequence[str], user: str
) -> str:
    """Return what to do about a library that is there, and not where it is looked for.

    `user` is the requester, or the object of a wheel that leads to it.
    """
    name, requester, path = lack.library, lack.requester, there[0]
    who, is_installed = world.label(requester), path in world.members or path in world.others
    has = "it is installed" if is_installed else "this machine has it"
    where = f"{has} as {join_some(map(world.label, there), 2)}"
    folder, file = posixpath.split(path)
    pair = ("LD_LIBRARY_PATH", folder) if file == name else ("LD_PRELOAD", path)
    variable = "" if "/" in name else assignment(*pair)
    until = f"; until then, {variable}" if variable else ""
    if is_source(requester):
        return f"{where}: `{who}` must open it by that path, made from `__file__`{until}"
    own = _owner_or_label(world, installed, user)
    leading = [entry for entry, at in _entries(world, user) if at == folder]
    why = f"no search path of {own} contains: its wheel"
    if user != requester:
        entry = f", and the entry {join_some(leading)} of `{world.label(user)}` is not inherited"
        why = f"no search path of `{who}` contains{entry * bool(leading)}: the wheel of {own}"
    if any(posixpath.basename(each) != name for each in there):  # a SONAME, or the end of a path
        why = f"the loader does not look for: the wheel of {own}"
    repair = _reaching_repair(world, installed, name, user, path)
    return f"{where}, which {why} needs {repair}{until}"


def _reaching_repair(world: World, installed: Installed, name: str, user: str, path: str) -> str:
    """Return the repair after which an object finds a library at `path`."""
    folder, file = posixpath.split(path)
    owner = installed.distribution(path)
    provider = canonicalize_name(owner.partition(" ")[0])
    if owner in {_owner_or_label(world, installed, user), ""}:
        if file != name and well_known_providers_of(name):  # which may load it before (WF313)
            return "a new repair of the wheel as it was built"
        is_searched = any(at == folder for _, at in _entries(world, user))
        is_known = is_searched or path in world.members or path in world.others
        return f"`wheelfix repair{'' if is_known else f' --library-path {shlex.quote(folder)}'}`"
    if remove_hash(name):
        return f"a copy of its own, as that name changes with each build of {provider}"
    if provider in well_known_folders():
        known = _providers(world, installed, name, user) or (provider,)
        # One for another CUDA is not meant.
        meant = {**_lacking(world, installed, user), name: provider * (provider in known)}
        options = options_for(meant, _requirements(installed, user, meant.values()))
        return f"`wheelfix repair {options}`" if all(meant.values()) else "a repair"
    add = "" if installed.requirement(user, provider) else "--add-requires "
    if not (release := installed.to_install(owner)) or "://" in release:
        return f"a repair beside the wheel of {owner}{', which it must require' * bool(add)}"
    return f"`wheelfix repair {add}--with {shlex.quote(release)}`"
