"""Decisions that follow from the analysis of a wheel: libraries to graft, platform tags.

They are made as in auditwheel's main_repair.py.
"""

from collections.abc import Iterator, Mapping, Sequence
from itertools import chain
from pathlib import Path

from wheelfix.analysis.auditwheel_answer import Analysis
from wheelfix.analysis.policies import Policy, hook_prefix
from wheelfix.analysis.policy_reasons import Obstacle, images, unattainable_tag_error
from wheelfix.analysis.ungraftable_libraries import (
    Beside,
    MissingLibraries,
    other_libc_error,
    unlocated_libraries_error,
)
from wheelfix.elf.model import Elf, Libc, libc_of
from wheelfix.errors import BadWheelError, SettingsError
from wheelfix.grouping import flatten, values_by_key
from wheelfix.host.policy_tables import read_policies
from wheelfix.host.reachable_files import read_file
from wheelfix.host.unsearched_folders import places_of_missing
from wheelfix.loader.musl_search import is_musl_itself
from wheelfix.pipelines.analyst import Analyst
from wheelfix.pipelines.graft import (
    Externals,
    Graft,
    add_platforms,
    grafted_libraries,
    renames,
    tags_of,
)
from wheelfix.pipelines.repair_refusals import refuse_without_policies
from wheelfix.providers.requirements_between_wheels import Part, applicable_requirements
from wheelfix.rules.auditwheel_verdict import broken_promises
from wheelfix.rules.object_platforms import why_for_other_systems
from wheelfix.settings import Settings
from wheelfix.text import join_plain, join_some
from wheelfix.wheel.model import Wheel
from wheelfix.wheel.platform_tags import (
    RUNPATH_SINCE,
    PlatformTag,
    parse_platform_tag,
    reads_runpath,
)


def graft(
    analyst: Analyst,
    wheel: Wheel,
    settings: Settings,
    beside: Beside,
    *,
    last: bool = False,
) -> Graft:
    """Return what to graft into `wheel`, as `analyst` decides.

    Libraries that a pattern of `exclude` matches are left to others; `beside` is what is known
    of other wheels. Of several libraries of one name, grafted ones load the `last`, if so asked.

    Raises `BadWheelError` if no requested policy allows the wheel, `SettingsError` for a platform
    that is not possible, `ToolError` if a library is missing.
    """
    if not wheel.elfs:
        return Graft(tags=tags_of(wheel))
    refuse_without_policies(wheel, settings.exclude)  # auditwheel has no answer then
    analysis = analyst.analyze(wheel, settings, settings.exclude)
    requested, platforms = _platforms(analysis, wheel, settings, read_policies())
    is_musl = parse_platform_tag(platforms[0]).libc is Libc.MUSL
    external = {
        member: {
            name: source
            for name, source in sorted(libraries[platforms[0]].items())
            if not (is_musl and is_musl_itself(name))
        }
        for member, libraries in analysis.external.items()
    }
    externals = _locate(external, analysis, wheel, settings, beside)
    names = sorted(set(flatten(externals.values())))
    if names and not reads_runpath(platforms):
        raise BadWheelError(
            f"{join_some(names)} cannot be grafted for `{platforms[0]}`: objects find what is in "
            f"the wheel by DT_RUNPATH, which Android reads from API level {RUNPATH_SINCE} on",
            hint=f"build the wheel for `android_{RUNPATH_SINCE}`, or link the libraries statically",
        )
    sources = sorted(set(flatten(libraries.values() for libraries in externals.values())))
    hosts = {source: analyst.library(source) for source in sources}
    folder = settings.graft_folder(wheel.name.distribution)
    replaced = [analysis.policies[0].name]
    untrue = _untrue_tags(analyst, wheel, settings)
    given_up = wheel.name.platforms if settings.only_plat else untrue
    replaced += {tag.lower() for tag in given_up} - {*platforms}
    is_asked = settings.unsafe_fixes or settings.plat != "auto"
    stays = "" if is_asked else why_for_other_systems(wheel)
    is_tagged = settings.update_tags and not stays
    return Graft(
        tags=add_platforms(wheel, platforms, replaced) if is_tagged else tags_of(wheel),
        libraries=grafted_libraries(externals, hosts, wheel, folder, last=last),
        renames=renames(externals, hosts, wheel),
        excluded=analysis.excluded,
        messages=(
            *(() if stays else _about_the_libc(analysis, wheel)),
            *([f"the tag `any` stays: the wheel {stays}"] if stays else []),
            *(library.advice for library in analysis.untrusted),
            *_about_a_better_tag(requested, platforms),
            *(
                f"`{tag}` goes, which the wheel does not satisfy{why}"
                for tag, why in untrue.items()
            ),
        ),
    )


# --- The answer -----------------------------------------------------------------------------------


def _platforms(
    analysis: Analysis, wheel: Wheel, settings: Settings, policies: Sequence[Policy]
) -> tuple[str, tuple[str, ...]]:
    """Return the tag that was requested, and all tags that the wheel gets, the best one first.

    Raises `BadWheelError` if the objects do not allow the one that was requested.
    """
    names = [policy.name for policy in analysis.policies]
    best = names.index(analysis.overall)
    limits = {
        Obstacle.SYMBOLS: names.index(analysis.symbols),
        Obstacle.UCS2: names.index(analysis.ucs2),
        Obstacle.BLACKLIST: names.index(analysis.blacklist),
        Obstacle.MACHINE: names.index(analysis.machine),
    }
    oldest = min(limits.values())
    if settings.plat == "auto":
        requested = max(best, 1)  # not `linux_<arch>`: its obstacle is raised below
    else:
        requested = _rank_of_platform(analysis, wheel, settings.plat, oldest)
    for obstacle, limit in limits.items():
        if requested > limit:
            possible = names[oldest] if oldest else None
            grafts = {
                name: elf
                for libraries in analysis.external.values()
                for name, path in libraries.get(names[requested], {}).items()
                if path is not None and (elf := read_file(path)) is not None
            }
            raise unattainable_tag_error(
                names[requested], obstacle, wheel, policies, possible, grafts
            )
    chosen = [requested] if settings.only_plat or best <= requested else [best, requested]
    known = [analysis.policies[index] for index in chosen]
    return names[requested], tuple(flatten((p.name, *p.aliases) for p in known))


def _untrue_tags(analyst: Analyst, wheel: Wheel, settings: Settings) -> Mapping[str, str]:
    """Return the tags that the objects of the wheel alone do not satisfy, each with a reason.

    One that only a graft breaks is not among them: the user may graft an older library, or none.
    """
    if not settings.update_tags:
        return {}
    own = analyst.verdict(wheel, settings, ("*",))
    met, untrue = parse_platform_tag(own.overall), dict[str, str]()
    for name in broken_promises(wheel, own):
        tag = parse_platform_tag(name)
        if (tag.libc, tag.arch) == (met.libc, met.arch):
            untrue[name] = f": {own.reasons[0]}" if own.reasons else ""
        elif tag.has_objects and not any(_is_for(tag, met, elf) for elf in wheel.elfs.values()):
            untrue[name] = ": no object is for it"
    return untrue


def _is_for(tag: PlatformTag, judged: PlatformTag, elf: Elf) -> bool:
    """Return whether an object may be for `tag`, of another machine or C library than `judged`."""
    return elf.abi == tag.abi and (tag.abi != judged.abi or tag.libc in {None, elf.libc})


def _rank_of_platform(analysis: Analysis, wheel: Wheel, platform: str, oldest: int) -> int:
    """Return the rank of `platform`; `oldest` is the highest that the objects allow."""
    known = [(policy.name, *policy.aliases) for policy in analysis.policies]
    rank = next((index for index, names in enumerate(known) if platform in names), 0)
    if not rank:
        raise SettingsError(
            f"`--plat {platform}` is not possible for `{wheel.name}`",
            hint=_other_platform(platform, known[1 : oldest + 1] or known[1:]),
        )
    return rank


def _other_platform(platform: str, known: Sequence[Sequence[str]]) -> str:
    """Return the hint for an impossible `platform`: its name with the architecture, or others.

    Of those, the ones that have an image to build in, and the oldest; there are too many of all.
    """
    names = list(chain.from_iterable(known))
    if f"{platform}_{parse_platform_tag(names[0]).arch}" in names:
        return f"choose `{platform}_{parse_platform_tag(names[0]).arch}`"
    with_image = list(flatten(same for same in known if any(map(_has_image, same))))
    shown = [*with_image, known[-1][0]] if with_image else names
    return f"choose one of auto, {join_plain(shown, 8)}"


def _has_image(tag: str) -> bool:
    arch = parse_platform_tag(tag).arch
    return tag.removesuffix(f"_{arch}") in images(arch)


def _locate(
    external: Mapping[str, Mapping[str, Path | None]],
    analysis: Analysis,
    wheel: Wheel,
    settings: Settings,
    beside: Beside,
) -> Externals:
    """Return the libraries to graft. Raises `ToolError` if this machine lacks some of them.

    Also for a C library: it comes with the loader of the machine.
    """
    for name in dict.fromkeys(flatten(external.values())):
        if libc := libc_of(name):
            raise other_libc_error(name, libc, wheel)
    located = {
        member: {name: source for name, source in libraries.items() if source is not None}
        for member, libraries in external.items()
    }
    every = flatten(libraries.items() for libraries in external.values())
    missing = sorted({name for name, source in every if source is None})
    if missing:
        places = places_of_missing(missing, wheel)
        sources = dict(flatten(libraries.items() for libraries in located.values()))
        grafts = [(name, elf) for name, path in sources.items() if (elf := read_file(path))]
        needs = (
            (n, name)
            for name, elf in grafts
            for n in missing
            if n not in wheel.needed and n in elf.needed
        )
        required = applicable_requirements(Part(wheel.name, wheel.metadata.requires_dist))
        is_followed = settings.deps or settings.site or settings.neighbors
        unread = () if is_followed else [*map(str, required)]
        raise unlocated_libraries_error(
            MissingLibraries(
                missing,
                wheel,
                analysis.searched,
                analysis.untrusted,
                places,
                beside,
                settings.sysroot,
                values_by_key(needs),
                unread,
            )
        )
    return located


# --- Messages -------------------------------------------------------------------------------------


def _about_the_libc(analysis: Analysis, wheel: Wheel) -> Iterator[str]:
    """Yield that the C library is assumed; raises `BadWheelError` if there is an extension.

    An extension calls the C library through Python at least; a static program needs none.
    """
    if analysis.libc_of_none:
        if any(hook_prefix(member, elf) for member, elf in wheel.elfs.items()):
            raise BadWheelError(
                "no object of the wheel says for which C library it was built",
                hint="name the platform, such as --plat manylinux_2_28_x86_64",
            )
        yield "no object says for which C library it was built: the tag is that of glibc"


def _about_a_better_tag(requested: str, platforms: Sequence[str]) -> Iterator[str]:
    if platforms[0] != requested:
        yield (
            f"the wheel is eligible for the higher priority tag `{platforms[0]}`: it gets that, "
            f"and `{requested}` as requested"
        )
