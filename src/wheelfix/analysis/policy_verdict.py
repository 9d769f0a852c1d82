"""The platform tag that a wheel's objects allow: our own computation, without auditwheel.

There are two verdicts, and both are values of `Verdict`:

- `policy_verdict` here, which `check` uses. It applies the rules of auditwheel's `wheel_abi.py`,
  `policy/__init__.py` and `lddtree.py` to auditwheel's policy tables, starts no process, and reads
  no libraries of this machine.
- `pipelines.ask_auditwheel.AskedAuditwheel`, which `repair` uses: it asks auditwheel itself.

Both judge the wheel as it is installed: an object that needs a library of the wheel has it, since
the WF1xx rules judge search paths. tests/analysis/test_policy_verdict.py and scripts/verdicts.py
hold them equal. They can differ in two cases:

- Exclude patterns for paths of this machine count for auditwheel only.
- For musl, auditwheel searches this machine for `libc.so` and the other names of `_MUSL_OWN`.
"""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from functools import cache, partial
from itertools import chain, count, takewhile
from operator import not_
from posixpath import basename
from typing import NamedTuple, TypeVar

from wheelfix.analysis.policies import (
    FPECTL_SYMBOLS,
    NARROW_UNICODE,
    Policy,
    lacks,
    needed_versions,
)
from wheelfix.analysis.policy_reasons import (
    Judgement,
    NearMiss,
    Shortfall,
    checks_isa,
    isa_level,
    library_reasons,
    near_miss,
    other_reasons,
    shortfall,
    target_tag,
)
from wheelfix.elf.constants import STT_FUNC, STT_NOTYPE
from wheelfix.elf.model import Elf, Libc, Machine, libc_of
from wheelfix.loader.glibc_moves import oldest_glibc
from wheelfix.loader.machine_names import X86_64_LEVELS, musl_soname
from wheelfix.loader.musl_search import RESERVED
from wheelfix.loader.platform_libraries import is_glibc_loader
from wheelfix.settings import Settings, matches_any
from wheelfix.wheel.model import Wheel
from wheelfix.wheel.platform_tags import ARCHITECTURES, FAMILIES, Family, parse_platform_tag

_BASELINES = {abi: arch for arch, abi in ARCHITECTURES.items() if arch != "armv6l"}
_POLICY_ARCHITECTURES = {
    **{arch: arch for arch in _BASELINES.values()},
    **{name.replace("-", "_"): "x86_64" for name in X86_64_LEVELS},
    "arm64_v8a": "aarch64",
}
"""Architecture of a platform tag -> that of its policies."""
_T = TypeVar("_T")
_EF_ARM_EABIMASK, _EF_ARM_EABI_VER5, _EF_ARM_ABI_FLOAT_HARD = 0xFF000000, 0x05000000, 0x400
_MUSL_FILES = ("-linux-musl.so", "-arm-linux-musleabihf.so")
_GLIBC_FILE = re.compile(r".*cpython-3(1[1-9]|[2-9]\d)[^.-]*-.*-linux-gnu(eabihf)?\.so")
LIBPYTHON = re.compile(r"libpython\d+\.\d+m?.so(\.\d)*")
"""The names for which auditwheel does not search: a graft removes these entries."""
_HOOKS = ("PyInit_", "init", "_cffi_pypyinit_")
_MUSL_OWN = frozenset(f"lib{name}.so" for name in RESERVED)


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
    those of the next newer policy, with no newer glibc than the tag's (PEP 600)."""

    @property
    def text(self) -> str:
        """The tag, and what it is said of."""
        return f"{self.overall} once installed; `auditwheel show` judges the zip"


class Subject(NamedTuple):
    """The objects that are checked, by the checks that apply to them."""

    family: Family
    arch: str
    elfs: Mapping[str, Elf]
    """The objects for the architecture and C library of the wheel: their symbol versions count."""
    extensions: Mapping[str, Elf]
    tops: Mapping[str, Elf]
    """The load roots: extensions, and objects that no other object needs by file name."""
    needed: Mapping[str, tuple[str, ...]]
    """Member -> its DT_NEEDED entries, except those that an exclude pattern matches."""


def policy_verdict(
    wheel: Wheel,
    settings: Settings,
    policies: Sequence[Policy],
    elsewhere: Sequence[str] = (),
) -> Verdict | None:
    """Return the verdict on `wheel`, computed from `policies`; None if no object counts.

    Exclude patterns count if they match a name; those for paths of this machine do not. So do the
    patterns of libraries that are `elsewhere`.
    """
    judgement = judge(wheel, settings, policies, elsewhere)
    return None if judgement is None else verdict_from(wheel, judgement, settings, policies)


def verdict_from(
    wheel: Wheel, judgement: Judgement, settings: Settings, policies: Sequence[Policy]
) -> Verdict:
    """Return `judgement` with the objects and symbols of `wheel` that it results from."""
    target = target_tag(wheel, settings, judgement.overall, policies)
    external, private = shortfall(target, judgement.upgrades)
    others = list(other_reasons(wheel, target, judgement, private, policies))
    return Verdict(
        overall=judgement.overall,
        external=external,
        reasons=tuple(sorted((*library_reasons(wheel, external), *others), key=len)),
        near=near_miss(wheel, judgement.overall, policies),
        libraries_alone=bool(external) and not others,
        unlisted=tuple(_tags_without_policy(wheel, judgement.overall, policies)),
    )


def _tags_without_policy(wheel: Wheel, overall: str, policies: Iterable[Policy]) -> Iterator[str]:
    """Yield the tags of the wheel for which auditwheel has no policy, and that are satisfied."""
    found = parse_platform_tag(overall)
    known = {parse_platform_tag(f"{policy.name}_any").version for policy in policies}
    newest = oldest_glibc(wheel.elfs.values())
    for tag in wheel.name.platforms if found.family is Family.MANYLINUX else ():
        own = parse_platform_tag(tag)
        has_policy = own.version in known
        above = min((version for version in known if version > own.version), default=())
        if not has_policy and newest <= own.version and found == own._replace(version=above):
            yield tag


def judge(
    wheel: Wheel, settings: Settings, policies: Sequence[Policy], elsewhere: Sequence[str] = ()
) -> Judgement | None:
    """Return what auditwheel finds in the installed wheel; None if no object counts."""
    subject = subject_of(wheel, (*settings.exclude, *elsewhere))
    if subject is None:
        return None
    ladder = ladder_of(subject, policies)
    external = _external(subject, ladder)
    blacklisted = blacklisted_symbols(subject, ladder)
    checked = limits(subject, ladder, blacklisted, isa=checks_isa(wheel, settings))
    overall = max(*checked, first_met(not names for names in external))
    tags = [*(f"{policy.name}_{subject.arch}" for policy in ladder), f"linux_{subject.arch}"]
    lacking = map(Shortfall, external, blacklisted)
    return Judgement(
        overall=tags[overall],
        symbols=tags[checked.symbols],
        fpectl=bool(checked.pyfpe),
        narrow_unicode=bool(checked.ucs2),
        unsupported_isa=bool(checked.machine),
        upgrades={
            tag: short for tag, short in zip(tags[:overall], lacking, strict=False) if any(short)
        },
    )


class Limits(NamedTuple):
    """The index of the oldest policy that each check of auditwheel allows, under its names."""

    symbols: int
    ucs2: int
    pyfpe: int
    blacklist: int
    machine: int


def limits(
    subject: Subject,
    ladder: Sequence[Policy],
    blacklisted: Iterable[Mapping[str, object]],
    grafts: Sequence[Sequence[Elf]] = (),
    *,
    isa: bool,
) -> Limits:
    """Return what the checks allow, the external libraries aside.

    `grafts` are the libraries that each policy of `ladder` would have grafted; `isa` says whether
    the instruction set is checked.
    """
    worst = len(ladder)
    versions = _versions_of(subject.elfs.values())
    oldest = cache(partial(_oldest_for, ladder=ladder, arch=subject.arch))  # most graft the same
    with_grafts = (oldest(versions | _versions_of(some)) for some in grafts or [()] * worst)
    checked = chain(subject.tops.values(), *grafts)
    return Limits(
        symbols=min(map(max, count(), with_grafts), default=0),
        ucs2=worst * _needs_narrow_unicode(subject),
        pyfpe=worst * _needs_fpectl(subject),
        blacklist=first_met(not names for names in blacklisted),
        machine=worst * (isa and any(map(isa_level, checked))),
    )


def _versions_of(elfs: Iterable[Elf]) -> frozenset[str]:
    """Return the symbol versions of `elfs` that auditwheel looks at."""
    return frozenset(version for elf in elfs for _, version in needed_versions(elf))


def _oldest_for(versions: frozenset[str], ladder: Iterable[Policy], arch: str) -> int:
    """Return the index of the oldest policy with all of the symbol versions."""
    return first_met(
        not any(lacks(policy, version, arch) for version in versions) for policy in ladder
    )


def first_met(met: Iterable[bool]) -> int:
    """Return the index of the first True, the length if there is none."""
    return sum(1 for _ in takewhile(not_, met))


def subject_of(wheel: Wheel, exclude: tuple[str, ...]) -> Subject | None:
    """Return the objects of `wheel` that count; None if none does."""
    machines = {
        member: machine
        for member, elf in wheel.elfs.items()
        if not member.endswith(".py") and (machine := _baseline(elf))  # auditwheel never opens .py
    }
    tags = [parse_platform_tag(tag) for tag in wheel.name.platforms]
    named_arch = _only({_POLICY_ARCHITECTURES.get(tag.arch) for tag in tags})
    arch = named_arch or next(iter(machines.values()), None)
    known = {member: wheel.elfs[member] for member, found in machines.items() if found == arch}
    libcs = {member: libc_of_object(member, elf) for member, elf in known.items()}
    families = {member: FAMILIES[libc] if libc else None for member, libc in libcs.items()}
    if arch is None or not known:
        return None
    named = (family for family in families.values() if family is not None)
    promised = {tag.family for tag in tags if tag.libc is not None}
    family = _only(promised) or next(named, Family.MANYLINUX)
    elfs = {member: elf for member, elf in known.items() if families[member] in {None, family}}
    if not elfs:
        return None
    names = {name for elf in elfs.values() for name in elf.needed}
    counting = {name for name in names if name and not matches_any(name, exclude)}
    needed = {
        member: tuple(name for name in elf.needed if name in counting)
        for member, elf in elfs.items()
    }
    extensions = {member: elf for member, elf in elfs.items() if hook_prefix(member, elf)}
    all_needed = {name for names in needed.values() for name in names}
    return Subject(
        family=family,
        arch=arch,
        elfs=elfs,
        extensions=extensions,
        tops={
            member: elf
            for member, elf in elfs.items()
            if member in extensions or basename(member) not in all_needed
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


def _only(found: set[_T]) -> _T | None:
    return next(iter(found)) if len(found) == 1 else None


def libc_of_object(member: str, elf: Elf) -> Libc | None:
    """Return the C library for which an object was built, if that is known.

    It is known by the interpreter, by DT_NEEDED, or by the file name. Before Python 3.11, names of
    extensions for musl had `-linux-gnu` too.
    """
    if elf.interpreter is not None:
        return Libc.MUSL if libc_of(basename(elf.interpreter)) is Libc.MUSL else Libc.GLIBC
    if elf.libc is not None:
        return elf.libc
    if member.endswith(_MUSL_FILES):
        return Libc.MUSL
    return Libc.GLIBC if _GLIBC_FILE.fullmatch(basename(member)) else None


def hook_prefix(member: str, elf: Elf) -> str | None:
    """Return the prefix of the hook by which auditwheel recognizes a Python extension."""
    stem = basename(member).partition(".")[0]
    hooks = (prefix for hook in elf.module_hooks for prefix in _HOOKS if hook == prefix + stem)
    return next(hooks, None)


def ladder_of(subject: Subject, policies: Sequence[Policy]) -> list[Policy]:
    """Return the policies for this family and architecture, that of the oldest platform first.

    For musl, auditwheel uses one: the version of this machine, or the newest on a machine without
    musl.
    """
    fitting = sorted(
        (
            policy
            for policy in policies
            if policy.name.startswith(subject.family) and subject.arch in policy.symbol_versions
        ),
        key=lambda policy: -policy.priority,
    )
    return fitting[-1:] if subject.family is Family.MUSLLINUX else fitting


def members_by_name(subject: Subject) -> dict[str, str]:
    """Return the members by their file names and SONAMEs."""
    found: dict[str, str] = {}
    for member, elf in subject.elfs.items():
        if elf.dynamic:
            found.setdefault(basename(member), member)
    for member, elf in subject.elfs.items():
        if elf.soname:
            found.setdefault(elf.soname, member)
    return found


def allowed_libraries(subject: Subject, policy: Policy) -> AbstractSet[str]:
    """Return the libraries that `policy` lets the wheel expect of the machine."""
    allowed = {_musl_soname(name, subject) for name in policy.whitelist}
    return allowed | _MUSL_OWN if subject.family is Family.MUSLLINUX else allowed


def _external(subject: Subject, ladder: Sequence[Policy]) -> list[tuple[str, ...]]:
    """Return, for each policy, the libraries that neither it nor the wheel provides."""
    shipped = members_by_name(subject)
    needed = [name for member in subject.tops for name in subject.needed[member]]
    return [
        tuple(sorted(_walk(subject, allowed_libraries(subject, policy), needed, shipped)))
        for policy in ladder
    ]


def _walk(
    subject: Subject,
    allowed: AbstractSet[str],
    needed: Iterable[str],
    shipped: Mapping[str, str],
) -> Iterator[str]:
    """Walk from the names `needed` through the members `shipped`, and yield the external names.

    Those that are `allowed` are neither yielded nor walked through.
    """
    seen: set[str] = set()
    waiting = list(needed)
    while waiting:
        name = waiting.pop()
        if name in seen or name in allowed or is_glibc_loader(name):
            continue
        seen.add(name)
        if LIBPYTHON.fullmatch(name):
            yield name  # not searched for: a graft removes the entry
        elif name in shipped:
            waiting += subject.needed.get(shipped[name], ())
        else:
            yield name


def _musl_soname(name: str, subject: Subject) -> str:
    """Return the SONAME of musl's libc for its file name, which auditwheel's table has."""
    if subject.family is not Family.MUSLLINUX or name != "libc.so":
        return name
    return musl_soname(ARCHITECTURES[subject.arch])


def blacklisted_symbols(subject: Subject, ladder: Sequence[Policy]) -> list[dict[str, list[str]]]:
    """Return for each policy, by library, the private symbols that the dependents use."""
    used = _private_symbols(subject, ladder)
    return [_private_in(policy, used) for policy in ladder]


def _private_symbols(subject: Subject, ladder: Iterable[Policy]) -> dict[str, set[str]]:
    """Return the symbols that the dependents of each library with private symbols use.

    Those that no policy of `ladder` lists as private are left out.
    """
    listed: dict[str, set[str]] = {}
    for policy in ladder:
        for library, names in policy.blacklist.items():
            listed.setdefault(library, set()).update(names)
    found: dict[str, set[str]] = {}
    for member, elf in subject.tops.items():
        if libraries := listed.keys() & set(subject.needed[member]):
            used = {symbol.name for symbol in elf.undefined if not symbol.weak} | {"*"}
            for library in libraries:
                found.setdefault(library, set()).update(used & listed[library])
    return found


def _private_in(policy: Policy, used: Mapping[str, set[str]]) -> dict[str, list[str]]:
    """Return the private symbols among those that are `used`, by library."""
    found = {
        library: used[library].intersection(names)
        for library, names in policy.blacklist.items()
        if library in used
    }
    return {library: sorted(names) for library, names in sorted(found.items()) if names}


def _needs_fpectl(subject: Subject) -> bool:
    """Return whether an extension needs a Python built with fpectl (PEP 513)."""
    return any(
        symbol.type in {STT_NOTYPE, STT_FUNC}
        for elf in subject.extensions.values()
        for symbol in elf.undefined
        if symbol.name in FPECTL_SYMBOLS
    )


def _needs_narrow_unicode(subject: Subject) -> bool:
    """Return whether an extension for Python 2 needs one with narrow Unicode (PEP 513)."""
    return any(
        symbol.type == STT_FUNC
        for member, elf in subject.extensions.items()
        if hook_prefix(member, elf) != _HOOKS[0]
        for symbol in elf.undefined
        if NARROW_UNICODE in symbol.name
    )
