"""Platform policies: what each manylinux, musllinux and Android tag allows."""

import posixpath
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import product
from typing import Self

from wheelfix.elf.constants import STT_FUNC, STT_NOTYPE
from wheelfix.elf.model import Elf, Libc
from wheelfix.grouping import flatten
from wheelfix.loader.platform_libraries import is_glibc_loader
from wheelfix.loader.symbol_versions import BIONIC_VERSIONS, newer, release_of
from wheelfix.named_tuple import NamedTuple
from wheelfix.wheel.platform_tags import Family, PlatformTag, parse_platform_tag


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
    def tag(self) -> PlatformTag:
        """The tag of the platform, for any architecture."""
        return parse_platform_tag(f"{self.name}_any")

    @property
    def libc(self) -> Libc | None:
        """The C library of the platform; None for `linux`."""
        return self.tag.libc

    def at_level(self, level: int) -> Self:
        """Return the policy of an Android API level that has no policy of its own.

        auditwheel's table has the levels that brought libraries, and no versions of symbols.
        """
        versions = [
            name.removeprefix("_") for name, first in BIONIC_VERSIONS.items() if int(first) <= level
        ]
        archs = (*self.symbol_versions, *map(self.spelled, self.symbol_versions))
        name = f"{self.tag.family}_{level}"
        return self._replace(name=name, symbol_versions={a: {"LIBC": versions} for a in archs})

    def spelled(self, arch: str) -> str:
        """Return the name of an architecture of the table in the tags of the platform."""
        return _OF_ANDROID.get(arch, arch) if self.libc is Libc.BIONIC else arch


_OF_ANDROID = {"aarch64": "arm64_v8a"}
_HOOKS = ("PyInit_", "init", "_cffi_pypyinit_")
"""Those that auditwheel knows, also of Python 2 (elfutils.py, `elf_is_python_extension`)."""
_FPECTL_SYMBOLS = frozenset({"PyFPE_jbuf", "PyFPE_dummy", "PyFPE_counter"})
_NARROW_UNICODE = "PyUnicodeUCS2_"
"""Part of the symbols of a narrow Python 2 build."""


def hook_prefix(member: str, elf: Elf) -> str | None:
    """Return the prefix of the hook by which auditwheel recognizes a Python extension."""
    stem = posixpath.basename(member).partition(".")[0]
    hooks = (prefix for hook, prefix in product(elf.module_hooks, _HOOKS) if hook == prefix + stem)
    return next(hooks, None)


def needs_fpectl(member: str, elf: Elf) -> bool:
    """Return whether an object is an extension for a Python built with fpectl (PEP 513).

    As auditwheel decides (elfutils.py, `elf_references_pyfpe_jbuf`).
    """
    return hook_prefix(member, elf) is not None and any(
        symbol.name in _FPECTL_SYMBOLS and symbol.type in {STT_NOTYPE, STT_FUNC}
        for symbol in elf.undefined
    )


def needs_narrow_unicode(member: str, elf: Elf) -> bool:
    """Return whether an object is an extension for a Python 2 with narrow Unicode (PEP 513).

    As auditwheel decides (elfutils.py, `elf_find_ucs2_symbols`).
    """
    return hook_prefix(member, elf) not in {None, _HOOKS[0]} and any(
        _NARROW_UNICODE in symbol.name and symbol.type == STT_FUNC for symbol in elf.undefined
    )


def symbol_filter(policies: Iterable[Policy]) -> Callable[[str], bool]:
    """Return whether auditwheel compares an undefined symbol by its name under `policies`."""
    listed = {name for p in policies for symbols in p.blacklist.values() for name in symbols}
    names = listed | _FPECTL_SYMBOLS
    return lambda name: name in names or _NARROW_UNICODE in name


def blacklisted_libraries(policies: Iterable[Policy]) -> frozenset[str]:
    """Return the libraries with private symbols under `policies`."""
    return frozenset(flatten(policy.blacklist for policy in policies))


def policy_of(target: str, policies: Iterable[Policy]) -> Policy | None:
    """Return the policy for the tag `target`; of Android, that of its level or one before."""
    wanted = parse_platform_tag(target)
    if wanted.family is Family.ANDROID:
        level = wanted.version[0]
        known = [policy for policy in policies if policy.tag.family is wanted.family]
        older = [policy for policy in known if policy.tag.version[0] <= level]
        return max(older, key=lambda policy: policy.tag.version).at_level(level) if older else None
    for policy in policies:
        if any(target.lower().startswith(f"{name}_") for name in (policy.name, *policy.aliases)):
            return policy
    return None


def promised_by(tag: str, policies: Iterable[Policy]) -> Policy | None:
    """Return the policy for a tag; between two policies the older one, with the tag's own glibc.

    So PEP 600 defines it. None for a newer tag than all.
    """
    own = parse_platform_tag(tag)
    known = [policy for policy in policies if policy.tag.family is own.family]
    older = [policy for policy in known if policy.tag.version < own.version]
    if (policy := policy_of(tag, policies)) or not 0 < len(older) < len(known):
        return policy
    oldest = max(older, key=lambda policy: policy.tag.version)
    every = flatten(p.symbol_versions.get(own.arch, {}).get("GLIBC", ()) for p in known)
    glibc = [number for number in every if release_of(f"GLIBC_{number}") <= own.version]
    versions = {**oldest.symbol_versions.get(own.arch, {}), "GLIBC": glibc}
    return oldest._replace(symbol_versions={**oldest.symbol_versions, own.arch: versions})


def oldest_with(version: str, oldest: str, policies: Iterable[Policy]) -> str:
    """Return the oldest tag, from `oldest` on, that promises a symbol version; empty for none."""
    wanted = parse_platform_tag(oldest)
    tags = [
        policy.tag._replace(arch=wanted.arch)
        for policy in policies
        if policy.tag.family is wanted.family
        and policy.tag.version >= wanted.version
        and version.partition("_")[0] in policy.symbol_versions.get(wanted.arch, {})
        and not lacks(policy, version, wanted.arch)
    ]
    return str(min(tags, key=lambda tag: tag.version)) if tags else ""


def newest_versions(policy: Policy, arch: str) -> dict[str, str]:
    """Return the newest number of each prefix of symbol versions that `policy` promises."""
    newest: dict[str, str] = {}
    for prefix, numbers in policy.symbol_versions.get(arch, {}).items():
        for number in numbers:
            if number[:1].isdecimal() and newer(number, newest.get(prefix, "0")):
                newest[prefix] = number
    return newest


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
