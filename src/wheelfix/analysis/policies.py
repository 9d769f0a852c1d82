"""Platform policies: what each manylinux, musllinux and Android tag allows."""

from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from wheelfix.elf.model import Elf
from wheelfix.loader.platform_libraries import is_glibc_loader


class Policy(NamedTuple):
    """What one platform tag allows, from auditwheel's tables."""

    name: str
    """Without the architecture: `manylinux_2_17`."""
    aliases: tuple[str, ...]
    symbol_versions: Mapping[str, Mapping[str, Sequence[str]]]
    """Architecture -> prefix, such as `GLIBC` -> versions that the platform has."""
    blacklist: Mapping[str, Sequence[str]]
    """Library -> its private symbols, which a wheel must not use."""
    whitelist: frozenset[str] = frozenset()
    """The libraries of every machine of the platform."""
    priority: int = 0
    """Highest for the oldest platform."""


@dataclass(frozen=True, slots=True)
class JudgedSymbols:
    """The undefined symbols that auditwheel compares by name."""

    names: frozenset[str]

    def __contains__(self, name: object) -> bool:
        """Whether auditwheel compares `name`: blacklisted, or of a narrow Python 2 build."""
        return name in self.names or (isinstance(name, str) and "PyUnicodeUCS2_" in name)


def judged_symbols(policies: Iterable[Policy]) -> Container[str]:
    """Return the symbols that matter under `policies`."""
    names = {name for p in policies for symbols in p.blacklist.values() for name in symbols}
    # auditwheel's elfutils.py, `elf_references_pyfpe_jbuf`.
    return JudgedSymbols(frozenset({*names, "PyFPE_jbuf", "PyFPE_dummy", "PyFPE_counter"}))


def judged_libraries(policies: Iterable[Policy]) -> frozenset[str]:
    """Return the libraries with private symbols under `policies`."""
    return frozenset(library for policy in policies for library in policy.blacklist)


def platform_libraries(policies: Iterable[Policy]) -> frozenset[str]:
    """Return the libraries of every manylinux platform of `policies`."""
    lists = [policy.whitelist for policy in policies if policy.name.startswith("manylinux")]
    return lists[0].intersection(*lists[1:]) if lists else frozenset()


def policy_of(target: str, policies: Iterable[Policy]) -> Policy | None:
    """Return the policy for the tag `target`."""
    for policy in policies:
        if any(target.startswith(f"{name}_") for name in (policy.name, *policy.aliases)):
            return policy
    return None


def too_new(elf: Elf, policy: Policy | None, arch: str) -> Iterator[tuple[str, str]]:
    """Yield the symbol versions of `elf` that `policy` does not have, each after its library.

    Versions with an unlisted prefix are allowed. auditwheel does not look at those of the loader
    (elfutils.py).
    """
    known = (policy.symbol_versions.get(arch) if policy is not None else None) or {}
    for need in elf.verneed:
        for version in need.versions if not is_glibc_loader(need.file) else ():
            prefix, _, number = version.partition("_")
            if prefix in known and number not in known[prefix]:
                yield need.file, version
