"""The platform tag that a wheel's objects allow once it is installed, by auditwheel's tables."""

from collections.abc import Iterator, Mapping, Sequence
from types import MappingProxyType

from wheelfix.analysis.policies import Policy, newest_versions, promised_by, too_new
from wheelfix.analysis.policy_analysis import analyze
from wheelfix.analysis.policy_reasons import (
    Judgement,
    NearMiss,
    library_reasons,
    near_miss,
    other_reasons,
    shortfall,
    target_tag,
)
from wheelfix.loader.glibc_moves import oldest_glibc
from wheelfix.loader.platform_libraries import DEFINERS
from wheelfix.loader.symbol_versions import Release, release_of
from wheelfix.named_tuple import NamedTuple
from wheelfix.settings import Settings
from wheelfix.wheel.model import Wheel
from wheelfix.wheel.platform_tags import Family, parse_platform_tag


class Verdict(NamedTuple):
    """The platform tag that the objects of a wheel allow, and the obstacles to a better one."""

    overall: str
    """The best tag, such as `manylinux_2_17_x86_64`; `linux_x86_64` if no policy is met."""
    external: tuple[str, ...]
    """Libraries that neither the wheel nor the policy provides."""
    reasons: tuple[str, ...]
    """Why the tag is not better: which symbol version or library, in which member."""
    near: NearMiss | None = None
    """The next better tag with an image, if only a few symbols forbid it."""
    libraries_alone: bool = False
    """Whether `external` is the only obstacle: with these libraries, the tag is met."""
    newest: str = ""
    """A symbol for which an older tag is not possible, and its member; empty if not asked for."""
    unlisted: tuple[str, ...] = ()
    """Tags of the wheel between two policies, such as `manylinux_2_25`, that the objects satisfy:
    those of the next newer policy, with no newer glibc than the tag's (PEP 600), and of all else
    what the next older one has."""
    promised: Mapping[str, str] = MappingProxyType({})
    """The prefix of symbol versions -> the newest number that all tags of the wheel promise."""
    in_data: bool = False
    """Whether objects are in the folders of `*.data`, which installers put elsewhere."""

    @property
    def text(self) -> str:
        """The tag, and what it is said of, where `auditwheel show` of the zip may differ."""
        judges = " once installed; `auditwheel show` judges the zip" if self.in_data else ""
        return self.overall + judges


def policy_verdict(
    wheel: Wheel, settings: Settings, policies: Sequence[Policy], elsewhere: Sequence[str] = ()
) -> Verdict | None:
    """Return the verdict on `wheel`, computed from `policies`; None if no object counts.

    Exclude patterns count if they match a name; those for paths of this machine do not. So do the
    patterns of libraries that are `elsewhere`.
    """
    analysis = analyze(wheel, settings, policies, (*settings.exclude, *elsewhere))
    return analysis and verdict_from(wheel, analysis.judgement, settings, policies)


def verdict_from(
    wheel: Wheel, judgement: Judgement, settings: Settings, policies: Sequence[Policy]
) -> Verdict:
    """Return `judgement` with the objects and symbols of `wheel` that it results from."""
    target, own = target_tag(wheel, settings, judgement.overall, policies)
    external, private = shortfall(target, judgement.upgrades)
    others = list(other_reasons(wheel, own, judgement, private, policies))
    return Verdict(
        overall=judgement.overall,
        external=external,
        # What is in the objects comes first: WF805 names the libraries, too.
        reasons=(*sorted(others, key=len), *sorted(library_reasons(wheel, external), key=len)),
        near=near_miss(wheel, judgement.overall, policies),
        libraries_alone=bool(external) and not others,
        unlisted=tuple(_tags_without_policy(wheel, judgement.overall, policies)),
        promised=_promised(wheel, policies),
        in_data=any(member.startswith(f"{wheel.data_dir}/") for member in wheel.elfs),
    )


def _promised(wheel: Wheel, policies: Sequence[Policy]) -> Mapping[str, str]:
    """Return the newest number of each prefix that each platform tag of the wheel promises."""
    promised: dict[str, Release] = {}
    for tag in wheel.name.platforms:
        if policy := promised_by(tag, policies):
            versions = newest_versions(policy, parse_platform_tag(tag).arch)
            for prefix in DEFINERS.keys() & versions.keys():
                newest = release_of(f"{prefix}_{versions[prefix]}")
                promised[prefix] = min(newest, promised.get(prefix, newest))
    return {prefix: ".".join(map(str, release)) for prefix, release in promised.items()}


def _tags_without_policy(wheel: Wheel, overall: str, policies: Sequence[Policy]) -> Iterator[str]:
    """Yield the tags of the wheel for which auditwheel has no policy, and that are satisfied."""
    best, elfs = parse_platform_tag(overall), wheel.elfs.values()
    known = {policy.tag.version for policy in policies}
    newest = oldest_glibc(elfs)
    for tag in wheel.name.platforms if best.family is Family.MANYLINUX else ():
        own = parse_platform_tag(tag)
        has_policy = own.version in known
        above = min((version for version in known if version > own.version), default=())
        policy = promised_by(tag, policies)
        is_met = not any(any(too_new(elf, policy, own.arch)) for elf in elfs)
        is_next = best == own._replace(version=above)
        if not has_policy and is_met and newest <= own.version and is_next:
            yield tag
