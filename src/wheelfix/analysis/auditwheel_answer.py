"""What the platform policies say of a wheel: the tags, and what to graft for each."""

from collections.abc import Mapping, Sequence
from pathlib import Path

from wheelfix.analysis.policy_reasons import Judgement, Shortfall
from wheelfix.analysis.ungraftable_libraries import UntrustedLibrary
from wheelfix.grouping import flatten
from wheelfix.named_tuple import NamedTuple


class PolicyFindings(NamedTuple):
    """The findings for one platform policy."""

    name: str
    """The platform tag: `manylinux_2_17_x86_64`."""
    aliases: tuple[str, ...]
    """Older names of the same tag: `manylinux2014_x86_64`."""
    external: Mapping[str, Path | None]
    """Libraries that neither the policy nor the wheel provides -> where this machine has them."""
    blacklisted: Mapping[str, Sequence[str]]
    """Library -> its symbols that the wheel uses and the policy forbids."""


class Analysis(NamedTuple):
    """The findings for a wheel (auditwheel's `WheelAbIInfo`)."""

    policies: tuple[PolicyFindings, ...]
    """The weakest first, which is `linux_<arch>`: it promises nothing."""
    overall: str
    """The name of the best policy that the wheel meets."""
    symbols: str
    """The best policy by symbol versions alone. The same holds for the next fields."""
    ucs2: str
    pyfpe: str
    blacklist: str
    machine: str
    external: Mapping[str, Mapping[str, Mapping[str, Path | None]]]
    """Object -> name of the policy -> libraries to graft for it, and those that they need."""
    excluded: frozenset[str]
    """Names in DT_NEEDED, and paths of this machine, that a pattern of `exclude` matched."""
    libc_of_none: bool
    """Whether neither a tag nor an object says for which C library the wheel is."""
    untrusted: tuple[UntrustedLibrary, ...]
    """The libraries that were passed over."""
    searched: tuple[str, ...]
    """The folders that were searched besides the system's and the objects' own."""

    @property
    def names(self) -> frozenset[str]:
        """The libraries that are to be grafted for any policy."""
        return frozenset(flatten(policy.external for policy in self.policies))

    @property
    def judgement(self) -> Judgement:
        """What the policies forbid, without the grafts that could change it."""
        worst = self.policies[0].name if len(self.policies) > 1 else None
        best = [policy.name for policy in self.policies].index(self.overall)
        lacking = {
            policy.name: Shortfall(tuple(sorted(policy.external)), policy.blacklisted)
            for policy in self.policies[best + 1 :]
        }
        return Judgement(
            overall=self.overall,
            symbols=self.symbols,
            fpectl=self.pyfpe == worst,
            narrow_unicode=self.ucs2 == worst,
            unsupported_isa=self.machine == worst,
            upgrades={tag: short for tag, short in lacking.items() if any(short)},
        )
