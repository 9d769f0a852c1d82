"""Platform policies: what each manylinux, musllinux and Android tag allows."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

from wheelfix.elf.model import Elf, Libc
from wheelfix.loader.platform_libraries import is_glibc_loader
from wheelfix.wheel.platform_tags import parse_platform_tag


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

    @property
    def libc(self) -> Libc | None:
        """The C library of the platform; None for `linux` and Android."""
        return parse_platform_tag(f"{self.name}_any").libc


FPECTL_SYMBOLS = frozenset({"PyFPE_jbuf", "PyFPE_dummy", "PyFPE_counter"})
"""Symbols of a Python built with fpectl (auditwheel's elfutils.py, `elf_references_pyfpe_jbuf`)."""
NARROW_UNICODE = "PyUnicodeUCS2_"
"""Part of the symbols of a narrow Python 2 build."""


def symbol_filter(policies: Iterable[Policy]) -> Callable[[str], bool]:
    """Return whether auditwheel compares an undefined symbol by its name under `policies`."""
    listed = {name for p in policies for symbols in p.blacklist.values() for name in symbols}
    names = listed | FPECTL_SYMBOLS
    return lambda name: name in names or NARROW_UNICODE in name


def blacklisted_libraries(policies: Iterable[Policy]) -> frozenset[str]:
    """Return the libraries with private symbols under `policies`."""
    return frozenset(library for policy in policies for library in policy.blacklist)


def platform_libraries(policies: Iterable[Policy]) -> frozenset[str]:
    """Return the libraries of every manylinux platform of `policies`."""
    lists = [policy.whitelist for policy in policies if policy.libc is Libc.GLIBC]
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
    if policy is not None:
        for file, version in needed_versions(elf):
            if lacks(policy, version, arch):
                yield file, version


def needed_versions(elf: Elf) -> Iterator[tuple[str, str]]:
    """Yield the symbol versions that auditwheel looks at, each after its library."""
    for need in elf.verneed:
        for version in need.versions if not is_glibc_loader(need.file) else ():
            yield need.file, version


def lacks(policy: Policy, version: str, arch: str) -> bool:
    """Return whether `policy` has versions of that prefix and not this one."""
    known = policy.symbol_versions.get(arch, {})
    prefix, _, number = version.partition("_")
    return prefix in known and number not in known[prefix]
