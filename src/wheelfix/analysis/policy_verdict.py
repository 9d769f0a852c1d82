"""auditwheel's verdict on a wheel, found from what its objects say.

The rules are those of auditwheel's `wheel_abi.py`, `policy/__init__.py` and `lddtree.py`, and its
tables are read as data: `check` needs no process, no libraries of the host and milliseconds. Two
things are left out on purpose. What the host has in place of an external library makes no
difference to the tag: that it is external is reason enough. And which of the wheel's own libraries
the zip's layout lets an object find is not asked: installed, the files stand elsewhere, and the
WF1xx rules judge that. An object that needs a library of the wheel by name has it.
"""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from fnmatch import fnmatchcase
from typing import Any, NamedTuple

from wheelfix.analysis.policy_reasons import Policy, isa_level, judge
from wheelfix.analysis.verdict import Verdict
from wheelfix.elf.constants import STT_FUNC, STT_NOTYPE
from wheelfix.elf.model import Elf, Libc, Machine, Undefined, libc_of
from wheelfix.loader.platform_libraries import is_glibc_loader
from wheelfix.settings import Settings
from wheelfix.wheel.model import Wheel
from wheelfix.wheel.platform_tags import ARCHITECTURES, Family, parse_platform_tag

_BASELINES = {abi: arch for arch, abi in ARCHITECTURES.items() if arch != "armv6l"}
_POLICY_ARCHITECTURES = {
    **{arch: arch for arch in _BASELINES.values()},
    **{f"x86_64_v{level}": "x86_64" for level in (2, 3, 4)},
    "arm64_v8a": "aarch64",
}
"""Architecture of a platform tag -> that of its policies."""
_JUDGED = frozenset({Family.MANYLINUX, Family.MUSLLINUX, Family.ANDROID})
_EF_ARM_EABIMASK, _EF_ARM_EABI_VER5, _EF_ARM_ABI_FLOAT_HARD = 0xFF000000, 0x05000000, 0x400
_LIBPYTHON = re.compile(r"libpython\d+\.\d+m?.so(\.\d)*")
_MUSL_FILES = ("-linux-musl.so", "-arm-linux-musleabihf.so")
_GLIBC_FILE = re.compile(r".*cpython-3(1[1-9]|[2-9]\d)[^.-]*-.*-linux-gnu(eabihf)?\.so")
_MUSL_LIBC = {"i686": "x86", "armv7l": "armv7"}
"""How musl calls an architecture in its SONAME, where not as the tag does."""
_MUSL_OWN = frozenset(f"lib{name}.so" for name in ("c", "pthread", "rt", "m", "dl", "util", "xnet"))
"""Names that musl answers itself, whatever files there are (ldso/dynlink.c, `load_library`).

auditwheel looks for files of these names, and judges by what the machine has.
"""


class _Subject(NamedTuple):
    """The objects that count, sorted by what is asked of them."""

    family: Family
    arch: str
    elfs: Mapping[str, Elf]
    """Those for the machine and the C library of the wheel: their symbol versions count."""
    extensions: Mapping[str, Elf]
    tops: Mapping[str, Elf]
    """Extensions, and what nothing else needs by its file name: all that loading starts from."""
    needed: Mapping[str, tuple[str, ...]]
    """Member -> its DT_NEEDED entries, but for those that an exclude pattern matches."""


def policy_verdict(wheel: Wheel, settings: Settings, policies: Sequence[Policy]) -> Verdict | None:
    """Return what auditwheel would say of `wheel`; None if no object is for its machine.

    Exclude patterns count where they match a name; those for paths of the host do not.
    """
    found = findings(wheel, settings, policies)
    return judge(wheel, found, settings, policies) if found is not None else None


def findings(wheel: Wheel, settings: Settings, policies: Sequence[Policy]) -> dict[str, Any] | None:
    """Return the verdict in the words of `auditwheel show --json`, schema version 1."""
    subject = _subject(wheel, settings)
    if subject is None:
        return None
    ladder = _ladder(subject, wheel.name.platforms, policies)
    versions = _versions(subject.elfs.values())
    external = _external(subject, ladder)
    used = _used(subject, ladder)
    blacklisted = [_blacklisted(subject, policy, used) for policy in ladder]
    isa = settings.isa_ext_check and any(map(isa_level, subject.tops.values()))
    fpectl, narrow = _fpectl(subject), _narrow_unicode(subject)
    linux = len(ladder)
    symbols = _first(_has(policy, subject.arch, versions) for policy in ladder)
    overall = max(
        symbols,
        _first(not names for names in external),
        _first(not names for names in blacklisted),
        linux if isa or fpectl or narrow else 0,
    )
    # Android keeps its own level.
    said = wheel.name.platforms[: len(ladder)] if subject.family is Family.ANDROID else ()
    tags = [*(said or (_tag(policy, subject) for policy in ladder)), f"linux_{subject.arch}"]
    return {
        "overall_tag": tags[overall],
        "sym_tag": tags[symbols],
        "pyfpe": fpectl,
        "ucs2": narrow,
        "unsupported_isa": isa,
        "external_libs": dict.fromkeys(external[0] if external else ()),
        "policy_upgrades": {
            tag: _upgrade(libraries, private)
            for tag, libraries, private in zip(
                tags[:overall], external[:overall], blacklisted[:overall], strict=False
            )
            if libraries or private
        },
    }


def _upgrade(
    libraries: Sequence[str], private: Mapping[str, Sequence[str]]
) -> dict[str, Sequence[str] | Mapping[str, Sequence[str]]]:
    found: dict[str, Sequence[str] | Mapping[str, Sequence[str]]] = {}
    if libraries:
        found["libs_to_eliminate"] = libraries
    if private:
        found["blacklisted_symbols"] = private
    return found


def _first(met: Iterable[bool]) -> int:
    """Return the first place where it holds; one past the last where it never does."""
    answers = list(met)
    return answers.index(True) if True in answers else len(answers)


# --- Which objects count ------------------------------------------------------------------------


def _subject(wheel: Wheel, settings: Settings) -> _Subject | None:
    machines = {
        member: machine
        for member, elf in wheel.elfs.items()
        if not member.endswith(".py") and (machine := _baseline(elf))  # auditwheel never opens .py
    }
    arch = _said_architecture(wheel.name.platforms) or next(iter(machines.values()), None)
    known = {member: wheel.elfs[member] for member, found in machines.items() if found == arch}
    families = {member: _family_of(member, elf) for member, elf in known.items()}
    if arch is None or not known:
        return None
    named = (family for family in families.values() if family is not None)
    family = _said_family(wheel.name.platforms) or next(named, Family.MANYLINUX)
    elfs = {member: elf for member, elf in known.items() if families[member] in {None, family}}
    if not elfs:
        return None
    needed = {
        member: tuple(name for name in elf.needed if not _matches(name, settings.exclude))
        for member, elf in elfs.items()
    }
    extensions = {member: elf for member, elf in elfs.items() if _hook(member, elf) is not None}
    users = {name for names in needed.values() for name in names}
    return _Subject(
        family=family,
        arch=arch,
        elfs=elfs,
        extensions=extensions,
        tops={
            member: elf
            for member, elf in elfs.items()
            if member in extensions or _base(member) not in users
        },
        needed=needed,
    )


def _baseline(elf: Elf) -> str | None:
    """Return the architecture of an object; on ARM only hard-float EABI 5 has tags."""
    hard_float = elf.flags & _EF_ARM_EABIMASK == _EF_ARM_EABI_VER5 and bool(
        elf.flags & _EF_ARM_ABI_FLOAT_HARD
    )
    if elf.machine == Machine.ARM and not hard_float:
        return None
    return _BASELINES.get(elf.abi)


def _said_architecture(platforms: Iterable[str]) -> str | None:
    """Return the one architecture that all platform tags name."""
    found = {_POLICY_ARCHITECTURES.get(parse_platform_tag(tag).arch) for tag in platforms}
    return found.pop() if len(found) == 1 else None


def _said_family(platforms: Iterable[str]) -> Family | None:
    found = {parse_platform_tag(tag).family for tag in platforms} & _JUDGED
    return found.pop() if len(found) == 1 else None


def _family_of(member: str, elf: Elf) -> Family | None:
    """Return the family of tags that the C library of an object calls for, if it tells.

    The interpreter tells, then DT_NEEDED, then the file name: before Python 3.11 musl's
    extensions were called `-linux-gnu` just as well.
    """
    if elf.interpreter is not None:
        is_musl = _base(elf.interpreter).startswith("ld-musl-")
        return Family.MUSLLINUX if is_musl else Family.MANYLINUX
    for name in elf.needed:
        if name.startswith(("libc.musl-", "ld-musl-")):
            return Family.MUSLLINUX
        if libc_of(name) is Libc.GLIBC:
            return Family.MANYLINUX
    if member.endswith(_MUSL_FILES):
        return Family.MUSLLINUX
    return Family.MANYLINUX if _GLIBC_FILE.fullmatch(_base(member)) else None


def _hook(member: str, elf: Elf) -> str | None:
    """Return the hook by which auditwheel knows a Python extension."""
    stem = _base(member).partition(".")[0]
    hooks = {f"{prefix}{stem}" for prefix in ("PyInit_", "init", "_cffi_pypyinit_")}
    return next((hook for hook in elf.module_hooks if hook in hooks), None)


def _matches(name: str, patterns: Iterable[str]) -> bool:
    return any(fnmatchcase(name, pattern) for pattern in patterns)


def _base(path: str) -> str:
    return path.rpartition("/")[2]


# --- What a policy allows -----------------------------------------------------------------------


def _ladder(
    subject: _Subject, platforms: Sequence[str], policies: Sequence[Policy]
) -> list[Policy]:
    """Return the policies for this family and architecture, the one that promises most first.

    Of musl, auditwheel takes one: the machine's own version, or where there is no musl the newest.
    Of Android, that of the wheel's own API level.
    """
    fitting = sorted(
        (
            policy
            for policy in policies
            if policy.name.startswith(subject.family) and subject.arch in policy.symbol_versions
        ),
        key=lambda policy: -policy.priority,
    )
    if subject.family is Family.MUSLLINUX:
        return fitting[-1:]
    if subject.family is Family.ANDROID:
        level = max(parse_platform_tag(tag).version for tag in platforms)
        return [
            policy
            for policy in fitting
            if parse_platform_tag(f"{policy.name}_any").version <= level
        ][-1:]
    return fitting


def _tag(policy: Policy, subject: _Subject) -> str:
    return f"{policy.name}_{subject.arch}"


def _versions(elfs: Iterable[Elf]) -> frozenset[str]:
    """Return the symbol versions that are asked for, whatever the library: `GLIBC_2.17`."""
    return frozenset(
        version
        for elf in elfs
        for need in elf.verneed
        if not is_glibc_loader(need.file)
        for version in need.versions
    )


def _has(policy: Policy, arch: str, versions: Iterable[str]) -> bool:
    """Whether the platform has all `versions`, as far as its table knows their prefix."""
    known = policy.symbol_versions[arch]
    pairs = (version.partition("_") for version in versions)
    return all(prefix not in known or rest in known[prefix] for prefix, _, rest in pairs)


def _external(subject: _Subject, ladder: Sequence[Policy]) -> list[list[str]]:
    """Return for each policy the libraries that neither it nor the wheel gives."""
    shipped = _shipped(subject)
    known: dict[frozenset[str], list[str]] = {}
    for policy in ladder:
        if policy.whitelist not in known:
            known[policy.whitelist] = sorted(_reached(subject, policy, shipped))
    return [known[policy.whitelist] for policy in ladder]


def _shipped(subject: _Subject) -> dict[str, str]:
    """Return the names by which the wheel's own libraries are needed, and the members."""
    found: dict[str, str] = {}
    for member, elf in subject.elfs.items():
        if elf.dynamic:
            found.setdefault(_base(member), member)
    for member, elf in subject.elfs.items():
        if elf.soname:
            found.setdefault(elf.soname, member)
    return found


def _reached(subject: _Subject, policy: Policy, shipped: Mapping[str, str]) -> Iterator[str]:
    """Walk from what loading starts from, through the wheel's own libraries, to what is missing."""
    allowed = {_musl_soname(name, subject) for name in policy.whitelist}
    if subject.family is Family.MUSLLINUX:
        allowed |= _MUSL_OWN
    seen: set[str] = set()
    waiting = [name for member in subject.tops for name in subject.needed[member]]
    while waiting:
        name = waiting.pop()
        if name in seen or name in allowed or is_glibc_loader(name):
            continue
        seen.add(name)
        if _LIBPYTHON.fullmatch(name):
            if subject.family is not Family.ANDROID:
                yield name  # never looked for: a graft removes the entry
        elif name in shipped:
            waiting += subject.needed[shipped[name]]
        else:
            yield name


def _musl_soname(name: str, subject: _Subject) -> str:
    """Return the SONAME of musl's libc, which auditwheel's table calls by its file name."""
    if subject.family is not Family.MUSLLINUX or name != "libc.so":
        return name
    return f"libc.musl-{_MUSL_LIBC.get(subject.arch, subject.arch)}.so.1"


def _used(subject: _Subject, ladder: Sequence[Policy]) -> dict[str, frozenset[str]]:
    """Return by member which of the symbols that some policy forbids are used."""
    private = {name for policy in ladder for names in policy.blacklist.values() for name in names}
    return {
        member: frozenset({"*"}).union(
            symbol.name for symbol in elf.undefined if symbol.name in private and not symbol.weak
        )
        for member, elf in subject.tops.items()
    }


def _blacklisted(
    subject: _Subject, policy: Policy, used: Mapping[str, frozenset[str]]
) -> dict[str, list[str]]:
    """Return the private symbols that are used, by the library that happens to have them."""
    found: dict[str, set[str]] = {}
    for member in subject.tops:
        for library in policy.blacklist.keys() & set(subject.needed[member]):
            private = used[member].intersection(policy.blacklist[library])
            if private:
                found.setdefault(library, set()).update(private)
    return {library: sorted(names) for library, names in sorted(found.items())}


# --- Pythons that no tag allows -----------------------------------------------------------------


def _fpectl(subject: _Subject) -> bool:
    """Whether an extension needs a Python built with fpectl (PEP 513)."""
    names = {"PyFPE_jbuf", "PyFPE_dummy", "PyFPE_counter"}
    return any(
        symbol.name in names and symbol.type in {STT_NOTYPE, STT_FUNC}
        for symbol in _undefined(subject.extensions.values())
    )


def _narrow_unicode(subject: _Subject) -> bool:
    """Whether an extension for Python 2 needs one with narrow Unicode (PEP 513)."""
    old = (
        elf
        for member, elf in subject.extensions.items()
        if not (_hook(member, elf) or "").startswith("PyInit_")
    )
    return any(
        "PyUnicodeUCS2_" in symbol.name and symbol.type == STT_FUNC for symbol in _undefined(old)
    )


def _undefined(elfs: Iterable[Elf]) -> Iterator[Undefined]:
    return (symbol for elf in elfs for symbol in elf.undefined)
