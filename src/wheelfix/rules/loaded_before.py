"""What is loaded before a module of a wheel that lacks something, as the rules judge it."""

from collections.abc import Sequence

from wheelfix.analysis.explain import Before, Explanation, drivers_among, of_drivers
from wheelfix.analysis.objects_in_use import with_library_path
from wheelfix.analysis.world import World
from wheelfix.grouping import flatten, grouped
from wheelfix.rules.bundled_not_found import (
    gaps,
    no_common_path,
    runpath_blocks_inheritance,
    unreachable_library,
)
from wheelfix.rules.context import Context
from wheelfix.rules.findings import Hit, Severity
from wheelfix.rules.provider_search_paths import provider_not_searched
from wheelfix.rules.undefined_symbols import is_left, root_package, undefined_symbol
from wheelfix.text import FEW, join_some
from wheelfix.wheel.requirements import name_of


def loaded_before(world: World, context: Context, alone: Explanation) -> Before:
    """Return what is loaded before an object of a wheel, or may be, as `check` judges it."""
    file, member = world.environment.files[alone.root], world.members[alone.root]
    first = context.opened_before(world, member) if file.is_module else ()
    opened = context.import_order.opened_for_all(member)
    for_all = (*flatten(world.load(world.paths[member]).objects for member in opened),)
    if alone.ok:
        return Before(first, for_all=for_all)
    return _before_failing(world, context, alone, first)._replace(for_all=for_all)


def _before_failing(
    world: World, context: Context, alone: Explanation, first: Sequence[str]
) -> Before:
    file, is_seen = world.environment.files[alone.root], context.objects_in_use
    started = context.code and with_library_path(context.wheel, context.code)
    by = started and started.get(world.members.get(alone.root, ""))
    if by or not file.is_library:
        return Before(unknown=[f"`{by}` sets LD_LIBRARY_PATH"] if by else ())
    left, member = context.left, world.members[alone.root]
    missing = {step.request.name for step in alone.missing}
    other, unreached = context.unread_import(member), missing & left.unreached.keys()
    drivers = drivers_among(world, missing)
    asked = missing - unreached - drivers
    owners = {n: by or "a requirement" for n, by in left.libraries.items() if n in asked}
    beside = {r.name for r in world.load(alone.root).missing if r.requester in world.others}
    able = {name: left.that_may_bring([name]) for name in asked & beside}
    owners |= {name: by[0] for name, by in able.items() if by}
    unknown = [
        f"whether {owner} has {join_some(alike, FEW)}"
        for owner, alike in grouped(owners, owners.__getitem__).items()
    ]
    outside = context.import_order.opened_outside(member)
    opened_by = {name: outside[name] for name in sorted(missing & outside.keys())}
    unknown += (f"`{by}` opens a file of that name outside the wheel" for by in opened_by.values())
    unknown += [other] * bool(other and unreached)
    unknown += of_drivers(drivers)
    names = missing - owners.keys() - drivers - outside.keys() - (unreached if other else set())
    lacking = sorted(r.name for r in world.process(alone.root, first)[-1].missing)
    carriers = [next(iter(world.carriers.get(n, ())), "") for n in lacking if n in names]
    if missing and not names:
        return Before(unknown=unknown)
    own = {world.members.get(path) for path in (alone.root, *alone.objects)}
    hits = [hit for hit in context.shared(_hits) if hit.member in own]
    if not (file.is_module or member in is_seen):
        required = {*map(name_of, context.wheel.metadata.requires_dist)}
        is_lent = all(carriers) and any(p.name in required for p in context.providers)
        is_failing = any(hit.severity is None for hit in hits)
        is_open = (is_lent or context.left.requirements) and not is_failing
        opener = "what opens it, and what that loads before"
        return Before(unknown=[*unknown, opener] if is_open else ())
    unresolved = (symbols for symbols in context.unresolved_symbols if symbols.member in own)
    is_opening = root_package(context, member) in context.providers_opened_for_all
    may_be_lent = hits or is_opening or any(s.absent or is_left(context, s) for s in unresolved)
    judged = {use.library for use in context.provider_uses}.union(
        *(g.libraries for g in gaps(context))
    )
    is_judged = names <= judged and all(carriers) and (not alone.lacks_unread or may_be_lent)
    if not is_judged or any(hit.severity is None for hit in hits):
        return Before()
    deeper = [(path, request.name) for path in carriers for request in world.load(path).missing]
    unknown += [f"whether `{world.label(path)}` finds `{name}`" for path, name in deeper[:1]]
    unsure = [hit.notes[0] for hit in hits if hit.severity is Severity.WARNING and names]
    if names:
        return Before(() if unsure else (*first, *carriers), unknown=[*unsure, *unknown])
    may_be = "code of the wheel may load that before, for all (RTLD_GLOBAL)"
    return Before(unknown=[may_be])


def _hits(context: Context) -> tuple[Hit, ...]:
    of_gaps = (unreachable_library, no_common_path, runpath_blocks_inheritance)
    rules = (*of_gaps, provider_not_searched, undefined_symbol)
    return tuple(flatten(rule.check(context) for rule in rules))
