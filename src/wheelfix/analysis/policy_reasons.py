"""The reasons why a wheel does not satisfy a platform policy: symbols, libraries and members.

auditwheel or `policy_verdict` decides on the tag. Their `Judgement` names neither the objects nor
the symbols; this module finds them in the objects and the policy tables.
"""

import shlex
import struct
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from enum import StrEnum
from operator import itemgetter
from typing import assert_never

from wheelfix.analysis.policies import (
    Policy,
    needed_versions,
    needs_fpectl,
    needs_narrow_unicode,
    policy_of,
    promised_by,
    too_new,
)
from wheelfix.elf.demangle import demangle, join_symbols
from wheelfix.elf.model import Elf, Libc
from wheelfix.errors import BadWheelError
from wheelfix.grouping import flatten, grouped, values_by_key
from wheelfix.loader.machine_names import X86_64_LEVELS
from wheelfix.loader.symbol_versions import Release, prefix_of, release_of
from wheelfix.named_tuple import NamedTuple
from wheelfix.settings import Settings
from wheelfix.text import by_number, count, first_of, join_some, quote
from wheelfix.wheel.model import Wheel
from wheelfix.wheel.platform_tags import (
    FAMILIES,
    LEGACY,
    Family,
    PlatformTag,
    are_android,
    parse_platform_tag,
)
from wheelfix.wheel.variant import promised_isa

_X86_ISA_1_NEEDED = 0xC0008002  # x86-64 psABI, "Program Property"
_ISA_LEVELS = {2 << index: name for index, name in enumerate(X86_64_LEVELS)}
_NEAR = 8
"""The most symbols that may forbid a tag that is reported as nearly met."""


class Shortfall(NamedTuple):
    """The obstacles to one tag, apart from symbol versions."""

    libraries: tuple[str, ...] = ()
    """Libraries that neither the wheel nor the policy provides."""
    symbols: Mapping[str, Sequence[str]] = {}
    """Library -> its private symbols that the wheel uses."""


class Judgement(NamedTuple):
    """The result of checking a wheel against platform policies, as `auditwheel show` prints it."""

    overall: str
    """The best tag, such as `manylinux_2_17_x86_64`; `linux_x86_64` if no policy is met."""
    symbols: str
    """The best tag by symbol versions alone."""
    fpectl: bool
    """Whether an extension needs a Python built with fpectl (PEP 513)."""
    narrow_unicode: bool
    """Whether an extension needs a Python 2 with narrow Unicode (PEP 513)."""
    unsupported_isa: bool
    """Whether an object needs more than the baseline instruction set."""
    upgrades: Mapping[str, Shortfall]
    """Better tag -> the obstacles to it."""


def other_reasons(
    wheel: Wheel,
    target: str | None,
    judgement: Judgement,
    private: Mapping[str, Sequence[str]],
    policies: Sequence[Policy],
) -> Iterator[str]:
    """Yield the obstacles to the tag `target`, apart from libraries.

    `private` are the private symbols that `wheel` uses, by library.
    """
    if target is not None:
        yield from _symbol_reasons(wheel.elfs, target, policies)
    yield from _blacklist_reasons(wheel, private)
    if judgement.unsupported_isa:
        yield from _isa_reasons(wheel)
    if judgement.fpectl:
        members = _where(wheel, needs_fpectl)
        yield f"`PyFPE_*` symbols need a Python built with fpectl: used by {members}"
    if judgement.narrow_unicode:
        members = _where(wheel, needs_narrow_unicode)
        yield f"`PyUnicodeUCS2_*` symbols need a narrow Python 2: used by {members}"


class NearMiss(NamedTuple):
    """A platform tag that only a few symbols forbid."""

    tag: str
    image: str
    """The name of its image of pypa/manylinux."""
    symbols: tuple[str, ...]
    """Each symbol that is too new, with its library and the members that use it."""

    @property
    def text(self) -> str:
        """All of it in a sentence."""
        return f"`{self.tag}` is missed by {'; '.join(self.symbols)}"


_IMAGES = {
    "armv7l": ("manylinux_2_31", "manylinux_2_35", "musllinux_1_2"),
    "riscv64": ("manylinux_2_39", "musllinux_1_2"),
}
"""Architecture -> the tags with a maintained image, where they differ from `_COMMON_IMAGES`."""
_COMMON_IMAGES = ("manylinux_2_17", "manylinux_2_28", "manylinux_2_34", "musllinux_1_2")
"""The tags of the images that cibuildwheel 4.3 pins (`resources/pinned_docker_images.cfg`)."""


def images(arch: str) -> tuple[str, ...]:
    """Return the policies for `arch` that have a maintained image."""
    return _IMAGES.get(arch, _COMMON_IMAGES)


def near_miss(wheel: Wheel, overall: str, policies: Sequence[Policy]) -> NearMiss | None:
    """Return the next better tag than `overall` with an image, if only a few symbols forbid it.

    Symbols of libraries to graft do not count yet.
    """
    best = parse_platform_tag(overall)
    better = _older_policies(best, [p for p in policies if p.name in images(best.arch)])
    if not better:
        return None
    version, name = better[-1]
    tag = f"{name}_{best.arch}"
    symbols = _newer_symbols(wheel, tag, policies)
    older = (old for old, oldest in LEGACY.items() if oldest == version)
    image = f"{next(older, name)}_{best.arch}"
    return NearMiss(tag, image, tuple(symbols)) if symbols else None


def _older_policies(
    best: PlatformTag, policies: Iterable[Policy]
) -> list[tuple[tuple[int, ...], str]]:
    """Return versions and names of the policies of older platforms than `best`, that last."""
    tags = ((parse_platform_tag(f"{policy.name}_{best.arch}"), policy) for policy in policies)
    return sorted(
        (tag.version, policy.name)
        for tag, policy in tags
        if tag.libc is best.libc is not None and tag.version < best.version
    )


def newest_symbol(wheel: Wheel, overall: str, policies: Sequence[Policy]) -> str:
    """Return a symbol that the next older tag than `overall` does not allow, and its members."""
    best = parse_platform_tag(overall)
    older = _older_policies(best, policies)[-1:]
    newer = list(
        flatten(_versions_too_new(wheel.elfs, f"{name}_{best.arch}", policies) for _, name in older)
    )
    newest = max((_age(version) for _, _, version, _ in newer), default=None)
    dependents = values_by_key(
        (symbol, member)
        for member, file, version, names in newer
        for symbol in _symbols(file, version, names)
        if _age(version) == newest
    )
    symbols = [f"{name} in {join_some(members, 1)}" for name, members in dependents.items()]
    more = [f"and {count(len(symbols) - 1, 'more symbol')}"] if len(symbols) > 1 else []
    return "; ".join((*symbols[:1], *more))


def _age(version: str) -> tuple[bool, str, Release]:
    """Return an order in which each prefix has its newest version last, and glibc's is the last.

    The release of glibc is in the names of tags.
    """
    prefix = prefix_of(version)
    return prefix == "GLIBC", prefix, release_of(version)


def _symbols(file: str, version: str, names: Iterable[str]) -> Sequence[str]:
    """Return how the symbols of a library with a version are printed; without any, the version."""
    symbols = [f"{quote(f'{demangle(name)}@{version}')} of {quote(file)}" for name in names]
    return symbols or [f"{quote(version)} of {quote(file)}"]


def _newer_symbols(wheel: Wheel, tag: str, policies: Sequence[Policy]) -> list[str]:
    """Return each symbol that is newer than `tag` allows, with the members that use it.

    Empty if they are more than `_NEAR`.
    """
    dependents: dict[str, list[str]] = {}
    for member, file, version, names in _versions_too_new(wheel.elfs, tag, policies):
        for symbol in _symbols(file, version, names):
            dependents.setdefault(symbol, []).append(member)
            if len(dependents) > _NEAR:
                return []
    return [f"{symbol} in {join_some(members)}" for symbol, members in dependents.items()]


def target_tag(
    wheel: Wheel, settings: Settings, overall: str, policies: Iterable[Policy]
) -> tuple[str | None, str | None]:
    """Return the tag to explain that has a policy, with its architecture, and the promised one.

    None if there is nothing to explain. It is the oldest tag of the file name and `plat`, first of
    the same machine and C library, or
    the next older one that has a policy.
    Without such a tag, it is the newest policy's.
    """
    known = [policy.tag for policy in policies]
    tags = map(parse_platform_tag, (*wheel.name.platforms, settings.plat))
    best = parse_platform_tag(overall)
    if promising := [tag for tag in tags if tag.libc is not None]:
        promised = min(promising, key=lambda tag: (_is_other(tag, best), tag.version))
    elif best.family is Family.LINUX:
        promised = PlatformTag(FAMILIES[wheel.libc], (99, 0), best.arch)
    else:
        return None, None
    fitting = [tag.version for tag in known if tag.libc is promised.libc is not Libc.BIONIC]
    version = max((v for v in fitting if v <= promised.version), default=promised.version)
    target = str(promised._replace(version=version))
    return target, str(promised) if promised_by(str(promised), policies) else target


def _is_other(tag: PlatformTag, best: PlatformTag) -> bool:
    return tag.arch != best.arch or best.libc not in {None, tag.libc}


def shortfall(target: str | None, upgrades: Mapping[str, Shortfall]) -> Shortfall:
    """Return the obstacles to `target`; for musl, there is only one policy."""
    if target is None:
        return Shortfall()
    musl = (policy for tag, policy in upgrades.items() if parse_platform_tag(tag).libc is Libc.MUSL)
    is_musl = parse_platform_tag(target).libc is Libc.MUSL
    other = next(musl, Shortfall()) if is_musl else Shortfall()
    return upgrades.get(target, other)


def library_reasons(wheel: Wheel, external: Iterable[str]) -> Iterator[str]:
    """Yield which objects need each of the `external` libraries."""
    dependents = wheel.dependents
    for name in external:
        members = dependents.get(name)
        by = join_some(members) if members else "another library"
        yield f"{quote(name)}, needed by {by}, is neither in the wheel nor allowed by the policy"


def _symbol_reasons(
    elfs: Mapping[str, Elf], target: str, policies: Iterable[Policy]
) -> Iterator[str]:
    versions = grouped(_versions_too_new(elfs, target, policies), itemgetter(1, 2))
    for (file, version), uses in versions.items():
        symbols = sorted(set(flatten(names for *_, names in uses)))
        of = f" ({join_symbols(symbols)})" if symbols else ""
        is_private = version == _PRIVATE
        how = "is of one build of glibc" if is_private else f"is newer than `{target}` allows"
        who = f"{join_some(member for member, *_ in uses)} {by_number(uses, 'needs', 'need')}"
        yield f"{who} {quote(version)} of {quote(file)}{of}, which {how}"


_PRIVATE = "GLIBC_PRIVATE"


def _versions_too_new(
    elfs: Mapping[str, Elf], tag: str, policies: Iterable[Policy]
) -> Iterator[tuple[str, str, str, Sequence[str]]]:
    """Yield the symbol versions that `tag` does not allow: member, library, version, symbols."""
    policy, arch = promised_by(tag, policies), parse_platform_tag(tag).arch
    for member, elf in elfs.items():
        newer = tuple(too_new(elf, policy, arch))
        symbols = elf.undefined if newer else ()
        names = values_by_key(((s.file, s.version), s.name) for s in symbols)
        for library, version in newer:
            yield member, library, version, names.get((library, version), ())


def _blacklist_reasons(wheel: Wheel, blacklisted: Mapping[str, Sequence[str]]) -> Iterator[str]:
    for library, symbols in blacklisted.items():
        undefined = flatten(elf.undefined for elf in wheel.elfs.values())
        # What has a version is too new with it.
        private = {symbol.name for symbol in undefined if not symbol.version} & {*symbols}
        members = [m for m, elf in wheel.elfs.items() if private & {u.name for u in elf.undefined}]
        if members:
            names = join_some(sorted(private))
            yield f"the tag forbids {names} of `{library}`: used by {join_some(members)}"


def _isa_reasons(wheel: Wheel) -> Iterator[str]:
    for member, elf in wheel.elfs.items():
        level = isa_level(elf)
        if level is not None:
            yield f"{quote(member)} needs {level}, {MORE_THAN_BASELINE}"


MORE_THAN_BASELINE = "more than the baseline instruction set"
TO_ALLOW_ISA = (
    "build for the baseline, without `-march`; or allow more, for `check` too, with "
    "`isa-ext-check = false` in [tool.wheelfix]"
)


def checks_isa(wheel: Wheel, settings: Settings) -> bool:
    """Return whether objects may not need more than the baseline: the label may promise more."""
    return settings.isa_ext_check and promised_isa(wheel) is None


def isa_level(elf: Elf) -> str | None:
    """Return the x86-64 level above the baseline that the object's GNU property needs, if any."""
    order = "<" if elf.little_endian else ">"
    data, position, word = elf.gnu_properties, 0, elf.bits // 8
    while position + 8 <= len(data):
        kind, size = struct.unpack_from(f"{order}II", data, position)
        if kind == _X86_ISA_1_NEEDED and size == 4 and position + 12 <= len(data):
            (bits,) = struct.unpack_from(f"{order}I", data, position + 8)
            return next((n for bit, n in sorted(_ISA_LEVELS.items())[::-1] if bits & bit), None)
        position += 8 + size + -size % word
    return None


def _where(wheel: Wheel, holds: Callable[[str, Elf], bool]) -> str:
    return join_some([member for member, elf in wheel.elfs.items() if holds(member, elf)])


class Obstacle(StrEnum):
    """The kinds of obstacles to a platform tag, apart from libraries, in auditwheel's words."""

    SYMBOLS = "of the presence of too-recent versioned symbols"
    UCS2 = "it was compiled against a UCS2 build of Python"
    BLACKLIST = "it depends on black-listed symbols"
    MACHINE = "it depends on unsupported ISA extensions"


def how_to_build_for(tag: str, image: str = "in an older image") -> str:
    """Return where objects for an older platform, as `tag` names one, are built."""
    level = parse_platform_tag(tag).version[:1] if are_android([tag]) else ()
    return f"with the NDK for API level {level[0]}" if level else image


def unattainable_tag_error(  # noqa: PLR0913, PLR0917 - the parts of one message
    target: str,
    obstacle: Obstacle,
    wheel: Wheel,
    policies: Sequence[Policy],
    possible: str | None,
    grafts: Mapping[str, Elf],
) -> BadWheelError:
    """Return the error for a wheel that cannot have the tag `target`; it names the members.

    `possible` is the oldest platform that the wheel can have, `grafts` are the libraries that it
    would get.
    """
    hint = f"build it {how_to_build_for(target)}" + (
        f", or `wheelfix repair --plat {possible}`" if possible else ""
    )
    match obstacle:
        case Obstacle.SYMBOLS:
            elfs = {**grafts, **wheel.elfs}
            why = list(_symbol_reasons(elfs, target, policies))
            private = [n for n in elfs if any(v == _PRIVATE for _, v in needed_versions(elfs[n]))]
            if private:  # which no image and no tag allows
                excludes = " ".join(f"--exclude {shlex.quote(n)}" for n in private if n in grafts)
                hint = "link without what glibc keeps for itself" + (
                    f"; or leave it to the machine of the user: `{excludes}`" if excludes else ""
                )
        case Obstacle.BLACKLIST:
            policy = policy_of(target, policies)
            why = list(_blacklist_reasons(wheel, policy.blacklist if policy else {}))
            hint = "link the library statically or graft a private copy of it"
        case Obstacle.MACHINE:
            why = list(_isa_reasons(wheel)) or [
                "a library that is to be grafted needs more than the baseline"
            ]
            hint = TO_ALLOW_ISA
        case Obstacle.UCS2:
            why = ["a narrow Python 2"]
            hint = "build the wheel with a Python of wide Unicode"
        case _:
            assert_never(obstacle)
    failing = f"cannot be `{target}`" if possible else "satisfies no platform tag"
    return BadWheelError(
        f"the wheel {failing} because {obstacle}: {'; '.join(first_of(why, 3))}", hint=hint
    )
