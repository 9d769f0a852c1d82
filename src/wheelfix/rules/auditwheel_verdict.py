"""Whether the wheel satisfies its platform tags, by auditwheel's policies."""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from fnmatch import fnmatchcase

from wheelfix.analysis.needed_chains import shortest_chains
from wheelfix.analysis.never_bundled import reason_not_to_bundle, reason_to_leave_out
from wheelfix.analysis.pattern_suggestions import suggest_pattern
from wheelfix.analysis.policy_reasons import MORE_THAN_BASELINE, TO_ALLOW_ISA, how_to_build_for
from wheelfix.analysis.policy_verdict import Verdict
from wheelfix.analysis.ungraftable_libraries import other_release
from wheelfix.elf.model import names_of
from wheelfix.loader.symbol_versions import GNU2_TLS, WITHOUT_GNU2_TLS
from wheelfix.providers.well_known import (
    OF_SOME,
    is_optional,
    lacking_notes,
    options_of,
    well_known_provider,
    well_known_providers_of,
    where_required,
)
from wheelfix.rules.context import Context
from wheelfix.rules.findings import Fix, Hit, Severity
from wheelfix.rules.pypi_checks import IndexAnswer, takes_platform
from wheelfix.rules.rule import rule
from wheelfix.rules.target_machines import packages_with, targets_without
from wheelfix.settings import matches_any
from wheelfix.text import FEW, count, in_units, join_plain, join_some, toml_pattern
from wheelfix.wheel.grafted_name import original_name, remove_hash
from wheelfix.wheel.model import Wheel
from wheelfix.wheel.platform_tags import Family, only_promised, parse_platform_tag, satisfies

WITHOUT_OBJECT = (
    "if nothing in it depends on the platform, build it with the tag `any`, or retag it: `pip "
    "install wheel`, `wheel tags --abi-tag none --platform-tag any FILE`"
)


def broken_promises(wheel: Wheel, verdict: Verdict) -> list[str]:
    """Return the platform tags of the wheel that its objects do not satisfy.

    The verdict is for one C library. Objects that need none, such as static executables, may have
    the tags of both.
    """
    bound = any(elf.libc is not None for elf in wheel.elfs.values())
    musl = _is_musllinux(verdict.overall)
    return [
        tag
        for tag in wheel.name.platforms
        if tag not in verdict.unlisted
        and not satisfies(verdict.overall, tag)
        and (bound or _is_musllinux(tag) == musl)
    ]


def _is_musllinux(tag: str) -> bool:
    return parse_platform_tag(tag).family is Family.MUSLLINUX


@rule("WF801", "tag-not-met", Severity.ERROR)
def tag_not_met(context: Context) -> Iterator[Hit]:
    """Objects require more than the platform tag promises.

    ## What it does
    Determines the best tag that the objects satisfy by auditwheel's rules and policies, given the
    bundled and the excluded libraries, and compares it with the tags in the file name. If only
    libraries are missing, WF805 reports each of them. It is a note that Android's 32-bit machines,
    and several tags of Android on one wheel, have no policy.

    ## Why is this bad?
    pip installs the wheel on every machine that the tag allows, and the import fails on those
    without the library or the symbol version.

    ## Example
    A wheel tagged `manylinux_2_17` with a reference to `GLIBC_2.34`.

    ## Common causes
    - The wheel was built on a system newer than the tag. **Solution**: build in the container of
      the tag, or request a later tag: `--plat manylinux_2_34_x86_64`.
    - Compiled with `-march=native`. **Solution**: compile for the baseline, and select faster code
      at run time.

    ## Fix safety
    Safe: `repair` drops a tag that the wheel's own objects do not satisfy, and writes the best one
    that they do. If a library that is grafted needs a newer platform, nothing is published.
    """
    verdict, platforms = context.verdict, context.wheel.name.platforms
    tags = ".".join(platforms)
    is_judged = context.settings.verdict and bool(context.wheel.elfs)
    if verdict is None and is_judged and only_promised(platforms) is not None:
        yield Hit(
            message=f"auditwheel has no policy for {tags}: what its objects need was not compared "
            "with the tag",
            severity=Severity.NOTE,
        )
    if verdict is None or verdict.libraries_alone:
        return
    broken = broken_promises(context.wheel, verdict)
    if not any(map(_has_policy, broken)):
        return
    yield Hit(
        message=f"tagged {'.'.join(broken)}, but satisfies only {verdict.overall}",
        notes=verdict.reasons,
        hint=_other_tag(verdict, broken[0]),
        fix=tag_fix(verdict) if context.settings.update_tags else None,
    )


def _other_tag(verdict: Verdict, tag: str) -> str:
    if any(GNU2_TLS in reason for reason in verdict.reasons):
        return WITHOUT_GNU2_TLS
    if any(MORE_THAN_BASELINE in reason for reason in verdict.reasons):
        return TO_ALLOW_ISA
    return f"to keep {tag}, build {how_to_build_for(tag, 'in an image as old as that')}"


@rule("WF802", "unmatched-exclude", Severity.WARNING)
def unmatched_exclude(context: Context) -> Iterator[Hit]:
    """Pattern of `--exclude` matches no library, or none with a version.

    ## What it does
    Reports patterns of `exclude` that match neither a DT_NEEDED entry of the wheel or a grafted
    library nor the path of a library; and those that match only `libfoo.so`, where `libfoo.so.1` is
    needed as well and no other pattern matches it. Similar names are shown, with the size of the
    libraries grafted for them.

    ## Why is this bad?
    Because of a typing error or a missing asterisk, the library is grafted. `librocblas.so` does
    not match `librocblas.so.5`, and 890 MB were once grafted for it (ROCm/aiter 5318).

    ## Example
    `--exclude libcuda.so` where the object needs `libcuda.so.1`.

    ## Common causes
    - No asterisk for the version. **Solution**: `--exclude 'libcuda.so*'`.
    - The library is no longer needed. **Solution**: remove the pattern.

    ## Fix safety
    Not fixed.
    """
    names = list(dict.fromkeys(original_name(name) for name in context.dependents))
    left = [name for name in names if not matches_any(name, context.settings.exclude)]
    for pattern in context.unmatched_excludes:
        matched = [name for name in names if fnmatchcase(name, pattern)]
        near = suggest_pattern(pattern, left)
        yield Hit(
            message=f"the pattern `{pattern}` of `exclude` matches "
            + (f"only `{matched[0]}`, without a version" if matched else "no library"),
            entry=pattern,
            notes=tuple(_let_in(context.wheel, near[1])) if near else (),
            hint=f"did you mean `{near[0]}`?" if near else "remove it",
        )


def _let_in(wheel: Wheel, names: Sequence[str]) -> Iterator[str]:
    """Yield notes on libraries that are needed as `names`, and how much of them was grafted."""
    grafted = {
        remove_hash(base): member.size
        for member in wheel.members
        if remove_hash(base := member.name.rpartition("/")[2]) and member.name in wheel.elfs
    }
    for name in names[:3]:
        size = f", and {in_units(grafted[name])} were grafted for it" if name in grafted else ""
        yield f"`{name}` is needed{size}"


@rule("WF803", "tag-missed-by-little", Severity.NOTE)
def tag_missed_by_little(context: Context) -> Iterator[Hit]:
    """A few symbols keep the wheel from an older platform tag.

    ## What it does
    For the next older, and so better, platform tag that has a build image, lists the symbols that
    are too new for it, with the objects that use them, if they are few.

    ## Why is this bad?
    A single call of one function may exclude all users of an older distribution, and auditwheel
    reports neither the symbol nor the object (pypa/auditwheel 36).

    ## Example
    `manylinux_2_31_x86_64` is missed by `pthread_create@GLIBC_2.34` in `pkg/_core.so`.

    ## Common causes
    - The wheel was built on an unnecessarily new system. **Solution**: build in the container of
      the tag.
    - A function with an older version of its symbol. **Solution**: `.symver`, or another function.

    ## Fix safety
    Not fixed: only a build on an older system uses the older symbol.
    """
    near = context.verdict.near if context.verdict is not None else None
    if near is not None:
        yield Hit(
            message=f"`{near.tag}` is missed by {count(len(near.symbols), 'symbol')}",
            notes=near.symbols,
            hint=f"build in the image `quay.io/pypa/{near.image}`",
        )


@rule("WF804", "local-platform-tag", Severity.ERROR)
def local_platform_tag(context: Context) -> Iterator[Hit]:
    """Platform tag `linux_*` is refused by PyPI.

    ## What it does
    Reports `linux_x86_64` and the like in the file name, unless `update-tags` is off.

    ## Why is this bad?
    `linux_*` means the machine that the wheel was built on, whatever its C library. PyPI answers
    `400 Binary wheel has an unsupported platform tag`, except for `linux_armv6l` and
    `linux_armv7l`; from other sources, pip installs the wheel on machines where it does not load.

    ## Example
    `demo-1.0-cp311-cp311-linux_x86_64.whl`.

    ## Common causes
    - The wheel was built, but not repaired. **Solution**: `wheelfix repair`.
    - No platform tag allows the objects: they need a newer processor (WF608), or were built with
      `musl-gcc` for a system whose Python uses glibc. **Solution**: build for the baseline, in an
      image of manylinux or, for musl, of musllinux.
    - A repair refuses the wheel, such as for an executable stack (WF603). **Solution**: what the
      hint of that finding says.
    - Nothing in the wheel is compiled, but the build gives it a platform tag, as for
      `has_ext_modules`. **Solution**: build a pure wheel, or `wheel tags --platform-tag any`.
    - The wheel is for private machines. **Solution**: `update-tags = false`, or ignore the rule.

    ## Fix safety
    Safe: `repair` writes the best tag that the objects satisfy, and grafts missing libraries.
    """
    verdict, wheel = context.verdict, context.wheel
    local = [tag for tag in wheel.name.platforms if is_left_to_repair(context, tag)]
    if not local:
        return
    tags = f"platform {'tag' if len(local) == 1 else 'tags'} {join_some(local, len(local))}"
    if verdict is not None:
        better = not _is_local(verdict.overall)
        yield Hit(
            message=f"has the local {tags}, which PyPI refuses",
            entry=".".join(local),
            notes=(f"its objects satisfy {verdict.overall}",) if better else verdict.reasons,
            fix=tag_fix(verdict),
        )
        return
    impostors = (f"`{member}` is {what}" for member, what in wheel.impostors.items())
    hint = None if wheel.impostors else WITHOUT_OBJECT
    yield Hit(
        message=f"has no {'' if wheel.is_pure else 'readable '}ELF object, but the {tags}, which "
        "PyPI refuses",
        entry=".".join(local),
        notes=(IndexAnswer.LINUX.note(f"'{wheel.name}'", f"'{local[0]}'"), *impostors),
        hint=hint if wheel.is_pure else "build the wheel again",
    )


def is_left_to_repair(context: Context, tag: str) -> bool:
    """Return whether `tag` is a local one, which the index refuses and `repair` replaces.

    A wheel without objects has neither a verdict nor a repair: WF804 says what to do.
    """
    is_judged = context.verdict is not None or not context.wheel.elfs
    return is_judged and context.settings.update_tags and _is_local(tag) and not takes_platform(tag)


def _is_local(tag: str) -> bool:
    return parse_platform_tag(tag).is_local


def tag_fix(verdict: Verdict) -> Fix | None:
    """Return what a repair does about the tag; None if no graft helps."""
    if not _is_local(verdict.overall):
        return Fix(title=f"write {verdict.overall}", edits=())
    if verdict.external:
        libraries = join_some(verdict.external, 3)
        return Fix(title=f"graft {libraries} where installed, and write the tag", edits=())
    return None


@rule("WF805", "unprovided-library", Severity.ERROR)
def unprovided_library(context: Context) -> Iterator[Hit]:
    """Library is neither in the wheel nor promised by the platform tag.

    ## What it does
    Follows DT_NEEDED through the bundled libraries, and reports libraries that are neither in the
    wheel nor on the list of the platform tag, each with the objects that lead to it. WF827 reports
    those that a requirement may bring. It is a warning where only plug-ins need the library that
    nothing in the wheel is seen to load, or modules that are imported in a `try`, and for libraries
    that come with a driver, such as libOpenCL.

    ## Why is this bad?
    The import fails on machines without the library, where nothing has loaded it before: `cannot
    open shared object file`. The build machine happens to have it.

    ## Example
    A wheel tagged `manylinux_2_17` that needs `libssl.so.3` of the build machine.

    ## Common causes
    - The wheel was not repaired, or tagged by hand. **Solution**: `wheelfix repair`, where the
      library is installed, grafts it.
    - Another package provides it. **Solution**: require that package, and exclude the library:
      `exclude = ["libtorch*.so"]`.
    - It belongs to the user's system, such as that of a driver. **Solution**: `exclude`; and open
      it at run time if the rest of the wheel works without it.

    ## Fix safety
    Safe: `repair` grafts the library if it is installed. Libraries of one well-known package and of
    the user's system are left to you.
    """
    verdict = context.verdict
    if verdict is None or not any(map(_has_policy, context.wheel.name.platforms)):
        return
    owned = [library for library in verdict.external if reason_not_to_bundle(library) is None]
    known = {library: well_known_provider(library, context.wheel) for library in owned}
    leaving = {library: to for library, to in known.items() if to}
    words = options_of({**context.left.unreached, **leaving}, context.wheel)
    loads = f"a repair with `{words}` loads it from there"
    if rare := {to for at, to in leaving.items() if is_optional(at, to, context.wheel)}:
        must = f"once METADATA requires {join_some(sorted(rare), FEW)}, {OF_SOME}"
        loads = f"{must}, {loads}"
    elif all(known.values()):
        loads = f"`wheelfix repair {words}` loads it from there"
    without = targets_without(context)
    for library in verdict.external:
        hit = _unprovided_hit(context, library, loads)
        yield hit if hit.severity else replace(hit, targets=tuple(without.get(library, ())))


def _has_policy(tag: str) -> bool:
    return parse_platform_tag(tag).libc is not None


def _unprovided_hit(context: Context, library: str, loads: str) -> Hit:
    """Return the hit; `loads` is the repair that loads all libraries of well-known packages."""
    dependents = context.dependents.get(library, ())
    packages = well_known_providers_of(library, context.wheel.name.distribution)
    known, reason = well_known_provider(library, context.wheel), reason_not_to_bundle(library)
    with_driver = reason_to_leave_out(library)
    other = "" if reason else other_release(library, context.providers)
    chains = (_chain_to(context, dependent) for dependent in dependents)
    notes = [f"needed by {join_plain(chains, FEW)}"] if dependents else []
    if listed := packages_with(library, context.target_worlds):
        notes.append(f"it is in a package of the distribution: {listed}")
    if with_driver:
        notes.append(with_driver)
    elif packages and not other:
        notes.append(where_required(library, context.wheel))
        notes += lacking_notes(library, context.wheel)
    exclude = f"`exclude = [{toml_pattern(library)}]` in [tool.wheelfix]"
    hint = f"if another package provides it, set {exclude}, which `check` and `repair` read"
    # One that was not looked into may have loaded it before.
    unknown = context.left.that_may_bring([library])
    if unknown and not reason:
        notes.append(f"not looked into: {join_some(unknown, FEW)}, which METADATA requires")
    if packages and not reason:
        hint = loads if known else ""  # the plan of a graft names several
        if unknown:
            asked = f"`wheelfix check --deps` says whether it is in {join_some(unknown, FEW)}"
            hint = "; if not: ".join(filter(None, (asked, hint)))
    is_seen = not context.objects_in_use.isdisjoint(dependents)
    if not is_seen:
        notes.append("nothing in the wheel is seen to load what needs it, or only in a `try`")
    graft = Fix(title=f"graft `{library}` where it is installed", edits=())
    tags = ".".join(context.wheel.name.platforms)
    return Hit(
        severity=None if is_seen and (reason or not with_driver) else Severity.WARNING,
        message=f"`{library}` is neither in the wheel nor promised by {tags}",
        several=f"{{}} are neither in the wheel nor promised by {tags}",
        member=dependents[0] if dependents else None,
        entry=library,
        notes=tuple(notes),
        hint=other or hint or None,
        fix=None if reason or known else graft,
    )


def _chain_to(context: Context, member: str) -> str:
    """Return the shortest chain of DT_NEEDED from an object that is opened to `member`."""
    elfs = context.wheel.elfs

    def dependents(needed: str) -> Iterator[str]:
        for name in sorted(names_of(needed, elfs[needed].soname)):
            members = context.dependents.get(name, ())
            context.budget.spend(1 + len(members), "what needs a missing library", needed)
            yield from members

    chains = shortest_chains(member, elfs.keys() - context.only_needed, dependents)
    return " -> ".join(f"`{known}`" for known in next(chains, (member,)))
