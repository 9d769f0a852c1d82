"""auditwheel's policies and verdicts, put in plain words.

auditwheel decides; it names neither the symbol, nor the object, nor the library that stands in
the way. What the objects say of themselves tells, so nothing is decided here a second time.
"""

import re
import struct
from collections.abc import Callable, Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

from wheelfix.analysis.providers import known_for
from wheelfix.analysis.verdict import Verdict
from wheelfix.elf.model import Elf, Libc
from wheelfix.errors import BadWheelError, SettingsError, ToolError, WheelfixError
from wheelfix.loader.platform_libraries import is_glibc_loader
from wheelfix.settings import Settings
from wheelfix.text import join_some
from wheelfix.wheel.model import Wheel
from wheelfix.wheel.platform_tags import Family, PlatformTag, parse_platform_tag

_X86_ISA_1_NEEDED = 0xC0008002  # x86-64 psABI, "Program Property"
_ISA_LEVELS = {2: "x86-64-v2", 4: "x86-64-v3", 8: "x86-64-v4"}
_NEAR = 8
"""Symbols up to which a tag counts as missed by little."""


class Policy(NamedTuple):
    """What one platform tag allows, as auditwheel's table has it."""

    name: str
    """Without the architecture: `manylinux_2_17`."""
    aliases: tuple[str, ...]
    symbol_versions: Mapping[str, Mapping[str, Sequence[str]]]
    """Architecture -> prefix, such as `GLIBC` -> versions that the platform has."""
    blacklist: Mapping[str, Sequence[str]]
    """Library -> symbols that must not be used from it."""
    whitelist: frozenset[str] = frozenset()
    """The libraries that every machine of the platform has."""
    priority: int = 0
    """The policy that promises most has the highest."""


@dataclass(frozen=True, slots=True)
class JudgedSymbols:
    """The undefined symbols that auditwheel looks at by name."""

    names: frozenset[str]

    def __contains__(self, name: object) -> bool:
        """Whether it looks at `name`: black-listed, or of a Python 2 build of another kind."""
        return name in self.names or (isinstance(name, str) and "PyUnicodeUCS2_" in name)


def judged_symbols(policies: Iterable[Policy]) -> Container[str] | None:
    """Return the symbols that matter under `policies`; None if nothing is known of them."""
    names = {name for p in policies for symbols in p.blacklist.values() for name in symbols}
    if not names:
        return None
    # auditwheel's elfutils.py, `elf_references_pyfpe_jbuf`.
    return JudgedSymbols(frozenset({*names, "PyFPE_jbuf", "PyFPE_dummy", "PyFPE_counter"}))


def judged_libraries(policies: Iterable[Policy]) -> frozenset[str]:
    """Return the libraries of which some symbols must not be used under `policies`."""
    return frozenset(library for policy in policies for library in policy.blacklist)


def platform_libraries(policies: Iterable[Policy]) -> frozenset[str]:
    """Return the libraries that every manylinux platform of `policies` has."""
    lists = [policy.whitelist for policy in policies if policy.name.startswith("manylinux")]
    return lists[0].intersection(*lists[1:]) if lists else frozenset()


# --- Whether a verdict allows a tag -------------------------------------------------------------


def satisfies(verdict: Verdict, platforms: Iterable[str]) -> bool:
    """Whether the objects that `verdict` is about may carry every tag of `platforms`."""
    return not unmet(verdict, platforms)


def unmet(verdict: Verdict, platforms: Iterable[str]) -> tuple[str, ...]:
    """Return the tags of `platforms` that promise more than `verdict` found.

    A manylinux tag promises a version of glibc (PEP 600). Of musl, auditwheel knows only the
    version of the machine it runs on, so any musllinux tag stands for any other (PEP 656).
    """
    found = parse_platform_tag(verdict.overall)

    def allowed(tag: str) -> bool:
        wanted = parse_platform_tag(tag)
        if wanted.libc is None:
            return wanted.family is not Family.ANDROID or tag == verdict.overall
        if (found.family, found.arch) != (wanted.family, wanted.arch):
            return False
        return wanted.libc is Libc.MUSL or wanted.version >= found.version

    return tuple(tag for tag in platforms if not allowed(tag))


# --- Why ----------------------------------------------------------------------------------------


def judge(
    wheel: Wheel, found: Mapping[str, Any], settings: Settings, policies: Sequence[Policy]
) -> Verdict:
    """Turn the JSON of `auditwheel show` (schema version 1) into a verdict with its reasons."""
    overall = str(found["overall_tag"])
    target = _target(wheel, settings, overall, policies)
    obstacles = _obstacles(target, found.get("policy_upgrades", {}))
    located: Mapping[str, str | None] = found.get("external_libs", {})
    external = {name: located.get(name) for name in obstacles.get("libs_to_eliminate", ())}
    others = [
        *(_symbol_reasons(wheel, target, policies) if target else ()),
        *_blacklist_reasons(wheel, obstacles.get("blacklisted_symbols", {})),
        *(_isa_reasons(wheel) if found.get("unsupported_isa") else ()),
        *_python_reasons(wheel, found),
    ]
    return Verdict(
        overall=overall,
        external=external,
        reasons=tuple(sorted((*_external_reasons(wheel, external), *others), key=len)),
        near=near_misses(wheel, overall, policies),
        libraries_alone=bool(external) and not others,
    )


def _python_reasons(wheel: Wheel, found: Mapping[str, Any]) -> Iterator[str]:
    if found.get("pyfpe"):
        members = _where(wheel, lambda elf: any(u.name.startswith("PyFPE_") for u in elf.undefined))
        yield f"`PyFPE_*` symbols need a Python built with fpectl: used by {members}"
    if found.get("ucs2"):
        members = _where(wheel, lambda elf: any("UnicodeUCS2_" in u.name for u in elf.undefined))
        yield f"`PyUnicodeUCS2_*` symbols need a narrow Python 2: used by {members}"


def near_misses(wheel: Wheel, overall: str, policies: Sequence[Policy]) -> tuple[str, ...]:
    """Name the symbols that alone forbid a better tag than `overall`, where they are few.

    What forbids a newer tag forbids the older ones as well, and is said once; the first that is
    missed by much ends the search. Symbols of libraries that are yet to be grafted are not seen.
    """
    best = parse_platform_tag(overall)
    if best.libc is None:
        return ()
    tags = [f"{policy.name}_{best.arch}" for policy in policies]
    better = [
        (parsed.version, tag)
        for tag in tags
        if (parsed := parse_platform_tag(tag)).libc is best.libc and parsed.version < best.version
    ]
    found: list[str] = []
    said: list[str] = []
    for _, tag in sorted(better, reverse=True):
        forbidding = _forbidding(wheel, tag, policies)
        if not forbidding or len(forbidding) > _NEAR:
            break
        more = [each for each in forbidding if each not in said]
        same = ["the same"] if len(more) < len(forbidding) else []
        found.append(f"`{tag}` is missed by {'; '.join((*same, *more))}")
        said = forbidding
    return tuple(found)


def _forbidding(wheel: Wheel, tag: str, policies: Sequence[Policy]) -> list[str]:
    """Name each symbol that is newer than `tag` allows, with the members that use it."""
    users: dict[str, list[str]] = {}
    allowed = _allowed_versions(tag, policies)
    for member, elf in wheel.elfs.items():
        for file, version in _too_new(elf, allowed):
            names = [u.name for u in elf.undefined if (u.file, u.version) == (file, version)]
            for name in names or ["no symbol that is used"]:
                users.setdefault(f"`{name}@{version}` of `{file}`", []).append(member)
    return [f"{symbol} in {join_some(members)}" for symbol, members in users.items()]


def _target(
    wheel: Wheel, settings: Settings, overall: str, policies: Iterable[Policy]
) -> str | None:
    """Return the policy to be met, with its architecture: None if there is nothing to explain.

    It is that of the tag which promises most, in the file name or asked for; for a version that
    auditwheel has no policy for, the next older one. Without such a tag it is the newest policy.
    """
    known = [parse_platform_tag(f"{policy.name}_any") for policy in policies]
    tags = map(parse_platform_tag, (*wheel.name.platforms, settings.plat))
    best = parse_platform_tag(overall)
    if promising := [tag for tag in tags if tag.libc is not None]:
        wanted = min(promising, key=lambda tag: tag.version)
    elif best.family is Family.LINUX:
        musl = any(elf.libc is Libc.MUSL for elf in wheel.elfs.values())
        wanted = PlatformTag(Family.MUSLLINUX if musl else Family.MANYLINUX, (99, 0), best.arch)
    else:
        return None
    fitting = [tag.version for tag in known if tag.libc is wanted.libc]
    version = max((v for v in fitting if v <= wanted.version), default=wanted.version)
    return str(replace(wanted, version=version))


def _obstacles(target: str | None, upgrades: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return what forbids `target`; on musl auditwheel knows one policy, its machine's."""
    if target is None:
        return {}
    musl = (
        tag for tag in upgrades if target.startswith("musllinux_") and tag.startswith("musllinux_")
    )
    found: Mapping[str, Any] = upgrades.get(target) or upgrades.get(next(musl, ""), {})
    return found


def _external_reasons(wheel: Wheel, external: Iterable[str]) -> Iterator[str]:
    for name in external:
        users = _users(wheel, name)
        by = f"needed by {users}" if users else "needed by another library"
        yield f"`{name}` is neither in the wheel nor allowed by the policy: {by}"


def _symbol_reasons(wheel: Wheel, target: str, policies: Iterable[Policy]) -> Iterator[str]:
    allowed = _allowed_versions(target, policies)
    missing: dict[tuple[str, str], list[str]] = {}
    for member, elf in wheel.elfs.items():
        for pair in _too_new(elf, allowed):
            missing.setdefault(pair, []).append(member)
    for (file, version), members in missing.items():
        symbols = {
            symbol.name
            for member in members
            for symbol in wheel.elfs[member].undefined
            if symbol.version == version and symbol.file == file
        }
        of = f" ({join_some(sorted(symbols))})" if symbols else ""
        yield (
            f"`{version}` of `{file}`{of} is newer than `{target}` allows: "
            f"needed by {join_some(members)}"
        )


def _allowed_versions(target: str, policies: Iterable[Policy]) -> dict[str, frozenset[str]]:
    """Return by prefix the symbol versions that `target` allows; other prefixes are free."""
    for policy in policies:
        for name in (policy.name, *policy.aliases):
            versions = policy.symbol_versions.get(target.removeprefix(f"{name}_"))
            if target.startswith(f"{name}_") and versions is not None:
                return {
                    prefix: frozenset(f"{prefix}_{version}" for version in known)
                    for prefix, known in versions.items()
                }
    return {}


def _too_new(elf: Elf, allowed: Mapping[str, frozenset[str]]) -> Iterator[tuple[str, str]]:
    for need in elf.verneed:
        if is_glibc_loader(need.file):
            continue  # auditwheel does not look at the loader's own (elfutils.py)
        for version in need.versions:
            known = allowed.get(version.partition("_")[0])
            if known is not None and version not in known:
                yield need.file, version


def _blacklist_reasons(wheel: Wheel, blacklisted: Mapping[str, Sequence[str]]) -> Iterator[str]:
    for library, symbols in blacklisted.items():
        private = frozenset(symbols)
        users = _users_of_symbols(wheel, private)
        if users:
            used = sorted(private & {u.name for elf in wheel.elfs.values() for u in elf.undefined})
            yield f"{join_some(used)} of `{library}` may not be used: used by {users}"


def _isa_reasons(wheel: Wheel) -> Iterator[str]:
    for member, elf in wheel.elfs.items():
        level = isa_level(elf)
        if level is not None:
            yield f"`{member}` needs {level}, more than the baseline instruction set"


def isa_level(elf: Elf) -> str | None:
    """Return the x86-64 level above the baseline that the object says it needs, if any."""
    order = "<" if elf.little_endian else ">"
    data, position, word = elf.gnu_properties, 0, elf.bits // 8
    while position + 8 <= len(data):
        kind, size = struct.unpack_from(f"{order}II", data, position)
        if kind == _X86_ISA_1_NEEDED and size == 4 and position + 12 <= len(data):
            (bits,) = struct.unpack_from(f"{order}I", data, position + 8)
            return next((n for bit, n in sorted(_ISA_LEVELS.items())[::-1] if bits & bit), None)
        position += 8 + size + -size % word
    return None


def _users(wheel: Wheel, library: str) -> str:
    return _where(wheel, lambda elf: library in elf.needed)


def _users_of_symbols(wheel: Wheel, names: frozenset[str]) -> str:
    return _where(wheel, lambda elf: any(symbol.name in names for symbol in elf.undefined))


def _where(wheel: Wheel, holds: Callable[[Elf], bool]) -> str:
    return join_some([member for member, elf in wheel.elfs.items() if holds(elf)])


# --- Failures -----------------------------------------------------------------------------------


def explain(
    error: ToolError,
    wheel: Wheel,
    settings: Settings,
    policies: Sequence[Policy],
    searched: Sequence[str] = (),
) -> WheelfixError:
    """Turn auditwheel's known failures into errors that name the culprit; others stay as told.

    `searched` are the directories besides the system's and the objects' own search paths.
    """
    said = error.message
    if match := re.search(r'required library "(.+?)" could not be located', said):
        return _not_located(match[1], wheel, searched)
    if match := re.search(r'to "(\S+)" ABI because', said):
        return _not_allowed(match[1], said, wheel, policies)
    return _bad_platform(said, wheel, settings) or error


def _bad_platform(said: str, wheel: Wheel, settings: Settings) -> WheelfixError | None:
    if match := re.search(r"--plat: invalid choice: '(.*?)' \(choose from (.*?)\)", said):
        return SettingsError(
            f"`--plat {match[1]}` is not possible on this machine",
            hint=f"choose one of {match[2]}".replace("'", ""),
        )
    if match := re.search(r"can't repair wheel .* (architecture|libc) to a wheel targeting", said):
        return SettingsError(
            f"`--plat {settings.plat}` does not fit the {match[1]} of `{wheel.name}`",
            hint="leave --plat out, or name a platform of the wheel's own kind",
        )
    if match := re.search(r"no policy named '(.*?)' found", said):
        return SettingsError(
            f"auditwheel knows no platform `{match[1]}`",
            hint="`auditwheel repair --help` lists the platforms it knows",
        )
    if "couldn't detect libc for python extension" in said:
        return BadWheelError(
            "no object of the wheel says for which C library it was built",
            hint="name the platform, such as --plat manylinux_2_28_x86_64",
        )
    if "no ELF executable" in said:
        return BadWheelError(
            "no object of the wheel is for the architecture of its tag: "
            + join_some(list(wheel.elfs)),
            hint=f"were they built for {join_some(wheel.name.platforms)}?",
        )
    return None


def _not_located(library: str, wheel: Wheel, searched: Sequence[str]) -> ToolError:
    users = _users(wheel, library)
    by = f"by {users}" if users else "by a library that is to be grafted"
    paths = dict.fromkeys(
        entry for elf in wheel.elfs.values() if library in elf.needed for entry in elf.entries
    )
    nor = f" nor in its search path {join_some(list(paths))}" if paths else ""
    nor += f" nor in {join_some(list(searched))}" if searched else ""
    option = known_for(library) or f"--exclude {library}"
    return ToolError(
        f"`{library}` is needed {by}, and is neither in the wheel nor among this machine's "
        f"libraries{nor}",
        hint=f"set AUDITWHEEL_LD_LIBRARY_PATH to its folder, or, if it is to come from elsewhere "
        f"once installed, use {option}",
    )


def _not_allowed(target: str, said: str, wheel: Wheel, policies: Sequence[Policy]) -> BadWheelError:
    hint = "build it in an older image, or ask for a newer platform with --plat"
    if "too-recent versioned symbols" in said:
        why = list(_symbol_reasons(wheel, target, policies))
        why = why or ["a library that is to be grafted needs newer symbol versions than it allows"]
    elif "black-listed" in said:
        why = list(_blacklist_reasons(wheel, _blacklist(target, policies)))
        hint = "link the library statically or graft a private copy of it"
    elif "unsupported ISA" in said:
        why = list(_isa_reasons(wheel)) or [
            "a library that is to be grafted needs more than the baseline"
        ]
        hint = "build for the baseline, or allow it with --disable-isa-ext-check"
    else:
        why = ["it was built for a narrow (UCS2) Python 2"]
        hint = "build the wheel with a Python of wide Unicode"
    return BadWheelError(f"the wheel cannot be `{target}`: " + "; ".join(why), hint=hint)


def _blacklist(target: str, policies: Iterable[Policy]) -> Mapping[str, Sequence[str]]:
    for policy in policies:
        if any(target.startswith(f"{name}_") for name in (policy.name, *policy.aliases)):
            return policy.blacklist
    return {}
