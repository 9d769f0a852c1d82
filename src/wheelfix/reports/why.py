"""The output of `wheelfix why`: what needs a library, and where it comes from."""

import posixpath
import shlex
from collections.abc import Iterator, Sequence
from glob import escape
from pathlib import Path
from typing import Any

from packaging.utils import canonicalize_name

from wheelfix.analysis.graph import Node
from wheelfix.analysis.load_tree import of_another_version, why_unreached
from wheelfix.analysis.never_bundled import FROM_MACHINE, reason_not_to_bundle
from wheelfix.analysis.world import Provenance
from wheelfix.grouping import grouped
from wheelfix.named_tuple import NamedTuple
from wheelfix.providers.well_known import OPTIONS_OF_BUILD, well_known_providers_of
from wheelfix.reports.printable import printable
from wheelfix.text import count, join_some, operand, pasteable
from wheelfix.wheel.grafted_name import original_name, repaired_without

_MOST = 5
"""The number of chains that the text shows."""


class Use(NamedTuple):
    """One library and its users."""

    name: str
    """As it was before a graft: its DT_NEEDED name if that is known, or its file name."""
    node: Node
    chains: tuple[tuple[str, ...], ...]
    """Nodes from a load root to the library, the shortest chain first, by their names of today."""
    dependents: tuple[str, ...] = ()
    """The objects whose DT_NEEDED has its name, whatever file that finds."""
    openers: tuple[str, ...] = ()
    """The Python sources that open it, each with its line and call."""
    source: str = ""
    """The file on this machine that it is or would be copied from."""
    package: str = ""
    """The package that it was copied from."""
    is_planned: bool = False
    """Whether it would be grafted, and is not in the wheel yet."""
    tag: str = ""
    """The platform tag of the wheel, after the repair if that is planned."""
    obstacle: str = ""
    """What to do first, where no repair can be planned; empty if it can, or if none was."""
    is_brought_in: bool = False
    """Whether it is not found, and a repair was planned after which it is."""
    is_dropped: bool = False
    """Whether it is that of the wheel as it is, and no longer that of the repaired one."""
    is_unreached: bool = False
    """Whether no search path leads to that of the requirement."""
    is_led: bool = False
    """Whether a search path leads to where it may be."""
    where: str = ""
    """Which other well-known wheels have it; empty if none has."""
    requirement: str | None = None
    """What METADATA requires and probably has it, empty if it may be any; None if none has it."""
    by: str = ""
    """By what METADATA requires it; empty if it is always required."""
    ask: str = ""
    """The options with which `wheelfix why` reads the wheels that may have it."""
    search: str = ""
    """The options with which a repair writes the search paths to it, and to what else needs one."""
    stopped: str = ""
    """Why a repair with these options writes nothing; empty if it does, or was not planned."""
    leave: str = ""
    """The options with which a repair leaves it to a well-known wheel in place of a graft."""
    of_build: str = ""
    """Which well-known wheels have it, and their option, if it is not known which one is meant."""
    move: str = ""
    """The option with which a repair moves the wheel's own into site-packages, to be found."""
    excluded: str = ""
    """The pattern of the setting `exclude` that leaves it out."""
    is_included: bool = False
    """Whether the setting `include` names it, which comes before `exclude` and providers."""

    @property
    def is_graft(self) -> bool:
        """Whether an earlier repair has copied it into the wheel."""
        is_renamed = self.node.name != self.name and ".libs/" in self.node.id
        return not self.is_planned and bool(self.package or is_renamed)

    @property
    def is_of_neighbor(self) -> bool:
        """Whether objects of other wheels alone need it: no repair of this one leads to it."""
        return bool(self.chains) and not self.dependents


def text(answers: Sequence[tuple[Path, Sequence[Use]]], words: Sequence[str] = ()) -> str:
    """Return a paragraph for each library; of several wheels, below the name of its wheel.

    `words` are the flags with which a repair has the same settings.
    """
    blocks: list[str] = []
    for path, uses in answers:
        command = _repair_of(path, words)
        explained = shlex.join(("wheelfix", "explain", operand(path)))
        written = (_paragraph(use, command, explained) for use in uses)
        paragraphs = ["\n".join(map(printable, lines)) for lines in written]
        if paragraphs and len(answers) > 1:
            paragraphs[0] = f"{printable(path.name)}\n{paragraphs[0]}"
        blocks += paragraphs
    return "\n\n".join(blocks)


def _repair_of(path: Path, words: Sequence[str]) -> str:
    return shlex.join(("wheelfix", "repair", *words, operand(path)))


def _paragraph(use: Use, command: str, explained: str) -> Iterator[str]:
    yield f"{use.name}: {_state(use)}"
    if not use.chains and not use.openers:
        entries = f"the DT_NEEDED entry of {join_some(map(_short, use.dependents), 2)}"
        needed = f"{entries} does not lead to it" if use.dependents else "it is in no DT_NEEDED"
        yield f"  needed by  nothing: {needed}, and no Python source is seen to open it"
        if use.node.provenance is Provenance.WHEEL:
            yield f"             which objects use its symbols without that: `{explained}`"
    for index, opener in enumerate(use.openers[:_MOST]):
        yield f"  {'' if index else 'opened by':10} {opener}"
    ways = grouped(use.chains, lambda chain: chain[1:])
    for index, (rest, chains) in enumerate(list(ways.items())[:_MOST]):
        label = "" if index else "needed by"
        first = join_some([_short(chain[0]) for chain in chains], 2)
        yield f"  {label:10} {' -> '.join((first, *map(_short, (*rest[:-1], use.name))))}"
    if len(ways) > _MOST:
        yield f"             and {count(len(ways) - _MOST, 'chain')} more"
    if use.source or use.package or use.is_graft:
        package = f" ({use.package})" if use.source and use.package else use.package
        yield f"  from       {use.source + package or 'not known'}"
    for title, way in _ways(use, command):
        for index, line in enumerate(way.splitlines()):
            yield f"  {'' if index else title:10} {line}"


def _state(use: Use) -> str:
    if not use.is_dropped:
        return _origin(use)
    own = use.node.unreached or [use.node.id] * (use.node.provenance is Provenance.WHEEL)
    where = f"in the wheel, {join_some(own, 2)}; " if own else ""
    return f"{where}no symbol of it is used, so a repair drops the DT_NEEDED entry"


def _origin(use: Use) -> str:
    match use.node.provenance:
        case Provenance.WHEEL if use.is_planned:
            grafts = "would graft" if use.obstacle else "grafts"
            return f"a repair {grafts} it as `{use.node.id}`, because {use.tag} does not include it"
        case Provenance.WHEEL if use.node.name != use.name:
            return f"{'grafted' if use.is_graft else 'in the wheel,'} as `{use.node.id}`"
        case Provenance.WHEEL:
            return f"in the wheel, `{use.node.id}`{_search_path(use)}"
        case Provenance.OTHER | Provenance.VARIABLE:
            return f"from `{use.node.id}`{_search_path(use)}"
        case Provenance.MISSING:
            return _why_missing(use)
        case Provenance.PLATFORM | Provenance.PYTHON:
            return f"expected from the {use.node.provenance}, never grafted"


def _search_path(use: Use) -> str:
    if use.node.provenance is Provenance.WHEEL and use.node.soname not in {None, use.name}:
        renamed = "; a repair writes the file name where that is needed" * use.is_brought_in
        return f", with the SONAME `{use.node.soname}`{renamed}"
    way = ", where no search path leads" + "; a repair writes one" * (not use.obstacle)
    return way * use.is_brought_in


def _why_missing(use: Use) -> str:
    if use.excluded:
        return f"must come from elsewhere: `exclude` has `{use.excluded}`"
    if use.is_unreached or _has_known(use):
        where = ", and no search path leads there" if use.is_unreached else ""
        return f"left to `{use.requirement}`, which METADATA requires{use.by}{where}"
    if use.node.unreached:
        is_of_other = "!" in use.node.unreached[0]  # `WHEEL!MEMBER`
        unless = " unless an import loads it before" * is_of_other
        return f"not found{unless}: {why_unreached(use.node.name, use.node.unreached)}"
    if use.requirement is not None:
        who = f"`{use.requirement}`" if use.requirement else "a requirement of METADATA"
        known = use.where
        what = f", but {known}; whether {who} brings that" if known else f"; whether {who} has it"
        return f"not in the wheel{what} is not known"
    if reason_not_to_bundle(use.name):
        return "must come from the user's machine"
    others = of_another_version(use.node.versions)
    return (
        f"not found: {others}" if use.node.versions else "neither in the wheel nor on the platform"
    )


def _has_known(use: Use) -> bool:
    """Return whether the requirement is well-known to have the library."""
    name = canonicalize_name(use.requirement or "")
    return name in well_known_providers_of(use.name)


def _ways(use: Use, command: str) -> Iterator[tuple[str, str]]:
    """Yield what brings a library in, leaves it to others, or keeps it out, each with its title."""
    provenance = use.node.provenance
    if provenance is Provenance.MISSING and not (use.excluded or use.is_dropped):
        reason = _why_not_grafted(use)
        asked = f"why{_after_repair(command)} {shlex.quote(use.name)}"
        yield ("left out", reason) if reason else ("bring in", _way_in(use, command, asked))
    if provenance is Provenance.OTHER and use.is_brought_in and use.obstacle:
        yield "bring in", use.obstacle
    if provenance is not Provenance.WHEEL or "/" in use.name:
        return  # the object needs a path of the build machine (WF206), which `--exclude` would keep
    if use.is_planned:
        if use.leave:
            yield "leave to", f"`{command} {use.leave}`"
        elif use.of_build:
            yield "leave to", use.of_build
        if use.obstacle:
            yield "bring in", use.obstacle
            return
        keep_out = f"`{command} --exclude {shlex.quote(pasteable(escape(use.name)))}`"
        yield "keep out", "take it out of `include`" if use.is_included else keep_out
    elif use.is_graft:
        yield "keep out", repaired_without(use.name)


def _after_repair(command: str) -> str:
    return command.removeprefix("wheelfix repair")


def _way_in(use: Use, command: str, asked: str) -> str:
    """Return what makes a library found that is not; empty if nothing is known.

    `asked` is what a command asks with other options again: `why x.whl libfoo`.
    """
    if use.is_of_neighbor:
        explain = f"wheelfix explain{_after_repair(command)} {shlex.quote(use.name)}"
        return f"an object of another wheel needs it; more by `{explain}`"
    if use.is_unreached:
        return _to_search(use, command)
    if use.is_brought_in or (use.obstacle and use.requirement is None):
        return _as_planned(use, command)
    if use.requirement is None:
        return _of_known_provider(use, command)
    if _has_known(use) and not use.is_led:
        return f"nothing to do if Python code loads it before; otherwise {_to_search(use, command)}"
    name = f"`{use.requirement}`" if use.requirement else "a requirement of METADATA"
    before = "" if use.is_led else " and Python code loads it before, as no search path leads there"
    decides = f"; `wheelfix {asked} {use.ask}` decides that" * bool(use.ask)
    return f"nothing to do if {name} brings it{before}{decides}"


def _as_planned(use: Use, command: str) -> str:
    """Return the repair that was planned to bring a library in, or what to do first."""
    if not use.obstacle:
        return f"`{' '.join(filter(None, (command, use.move or use.leave)))}`"
    return "; or,\n".join(filter(None, (_leaving(use, command), use.obstacle)))


def _leaving(use: Use, command: str) -> str:
    leaving = f"`{command} {use.leave}` "
    return f"{leaving}leaves to other wheels what they have" if use.leave else ""


def _why_not_grafted(use: Use) -> str:
    """Return why a repair does not graft a library that the wheel has not; empty if it may."""
    has_copy = use.is_brought_in or (use.obstacle and use.node.unreached)
    return "" if has_copy else reason_not_to_bundle(use.name) or ""


def _of_known_provider(use: Use, command: str) -> str:
    is_in = f"it is {use.where}: nothing to do if Python code loads it before"
    return f"{is_in}; otherwise {_to_search(use, command)}" if use.where else ""


def _to_search(use: Use, command: str) -> str:
    """Return what writes the search path to a library, and what stops it."""
    if use.stopped:
        stopped = use.stopped.removeprefix("a repair ")
        return f"a repair with `{use.search}` would write the search path, but {stopped}"
    known = f"`{command} {use.search}`"
    way = known if use.search else OPTIONS_OF_BUILD
    return f"{way} writes the search path"


def advice(use: Use, command: str, library: str) -> str:
    """Return what to do about a library that an object does not find; empty if it is not known.

    `library` is the name that the object needs.
    """
    if use.is_dropped:
        return f"no symbol of it is used, so `{command}` drops it"
    if use.excluded:
        return _why_missing(use)
    is_there = use.node.provenance in {Provenance.OTHER, Provenance.WHEEL} and not use.is_planned
    if is_there and (use.is_brought_in or not use.obstacle):
        first = f"{use.obstacle}; then " if use.obstacle else ""
        return f"{first}`{command}` {_what_it_writes([use.node.id], library)}"
    if not use.obstacle and (use.is_planned or use.is_brought_in):
        return _of_repair(use, command, library)
    if reason := _why_not_grafted(use):
        return f"it {FROM_MACHINE.format(reason)}"
    way = " ".join(_way_in(use, command, f"explain{_after_repair(command)}").splitlines())
    return way + f"; METADATA requires `{use.requirement}`{use.by}" * bool(use.by)


def _of_repair(use: Use, command: str, library: str) -> str:
    if use.move:
        return f"`{command} {use.move}` moves it into site-packages"
    repair = f"`{command}` "
    if use.source:
        instead = _leaving(use, command) or use.of_build
        return "; ".join(filter(None, (f"{repair}grafts it from {use.source}", instead)))
    if use.leave:
        return f"`{command} {use.leave}` writes the search path"
    own = use.node.unreached
    return repair + (_what_it_writes(own, library) if own else "brings it in")


def _what_it_writes(members: Sequence[str], library: str) -> str:
    """Return what a repair writes, so that one of `members` is found as `library`."""
    name = posixpath.basename(library)
    if named := [member for member in members if posixpath.basename(member) == name]:
        return f"writes the search path to {join_some(named, 2)}"
    return f"writes the file name of {join_some(members, 2)} in place of the SONAME"


def _short(name: str) -> str:
    return original_name(posixpath.basename(name))


def as_json(
    answers: Sequence[tuple[Path, Sequence[Use]]], words: Sequence[str] = ()
) -> dict[str, Any]:
    """Return the same as JSON types; `version` changes when the meaning of a key does."""
    return {
        "version": 1,
        "libraries": [
            {
                "wheel": path.name,
                "name": use.name,
                "node": use.node.id,
                "from": use.node.provenance.value,
                "state": _state(use),
                "would_be_grafted": use.is_planned,
                "would_be_dropped": use.is_dropped,
                "source": use.source or None,
                "package": use.package or None,
                "chains": [list(chain) for chain in use.chains],
                "opened_by": list(use.openers),
                "ways": dict(_ways(use, _repair_of(path, words))),
            }
            for path, uses in answers
            for use in uses
        ],
    }
