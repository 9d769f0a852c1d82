"""Wheels and plans that a repair refuses: other systems and platforms, no objects, edits."""

from collections.abc import Iterable, Sequence

from wheelfix.analysis.policy_analysis import has_policies, libc_of_object
from wheelfix.elf.model import Elf, Libc
from wheelfix.errors import (
    BadWheelError,
    NonPlatformWheelError,
    SettingsError,
    ToolError,
)
from wheelfix.grouping import grouped
from wheelfix.host.policy_tables import read_policies
from wheelfix.rules.auditwheel_verdict import WITHOUT_OBJECT
from wheelfix.rules.findings import PlannedEdit
from wheelfix.settings import Settings, StripLevel
from wheelfix.text import FEW, are, count, first_of, join_plain, join_some
from wheelfix.wheel.edits import ElfEdit
from wheelfix.wheel.model import Wheel, WheelName
from wheelfix.wheel.platform_tags import (
    architectures_of,
    are_android,
    other_system,
    parse_platform_tag,
)

NO_OBJECT = (
    "This does not look like a platform wheel, no ELF executable or shared library file (including "
    "compiled Python C extension) found in the wheel archive"
)
"""auditwheel's words (its error.py): its users search for them."""
_OTHER_PLAT = "leave out --plat, or name a platform of the wheel's own architecture and libc"
PLEASE_REPORT = "nothing was published; please report this wheel"
"""The hint for an edit that is not what was planned: a bug."""


def refuse_other_platform(name: WheelName, plat: str, wheel: Wheel | None = None) -> None:
    """Raise `SettingsError` if `plat` is for another architecture or C library than the wheel.

    The words are auditwheel's (main_repair.py). Without the wheel, its name says enough.
    """
    requested = parse_platform_tag(plat)
    for tag in map(parse_platform_tag, name.platforms):
        if requested.arch and tag.arch and tag.arch != requested.arch:
            current, other = f"{tag.arch} architecture", requested.arch
        elif requested.libc and tag.libc and tag.libc is not requested.libc:
            current, other = f"{tag.libc.name} libc", requested.libc.name
        else:
            continue
        objects = () if wheel is None else wheel.elfs.items()
        built = [_built_for(member, elf) for member, elf in objects]
        raise SettingsError(
            f"can't repair wheel {name} with {current} to a wheel targeting {other}",
            hint="its objects are for that, the tag is not: give it the tag that it was built for"
            if any(requested.arch in arches and requested.libc is libc for arches, libc in built)
            else _OTHER_PLAT,
        )


def no_object_error(wheel: Wheel, plat: str) -> NonPlatformWheelError:
    """Return the error for a wheel without an object for its tag, or for `plat`.

    The first words, and those of the architecture, are auditwheel's (error.py).
    """
    named = ".".join(wheel.name.platforms) if plat == "auto" else plat
    by_kind = grouped(wheel.elfs, lambda member: _built_for(member, wheel.elfs[member]))
    others = [
        f"{join_some(members)} {are(members)} for "
        + " and ".join(filter(None, (f"{' or '.join(arches) or 'unknown'} architecture", libc)))
        for (arches, libc), members in by_kind.items()
    ]
    if not others:
        hint = "build the wheel again"
    elif plat == "auto":
        hint = "build it for that platform, or give it the tag that it was built for"
    else:
        hint = _OTHER_PLAT
    return NonPlatformWheelError(
        f"Invalid binary wheel: no ELF executable or shared library for {named} found: "
        + "; ".join(others or first_of(list(wheel.broken_elfs.values()), FEW)),
        hint=hint,
    )


def either_or_error(
    names: Sequence[str], some: Sequence[str], others: Sequence[str]
) -> BadWheelError:
    """Return the error for several libraries of one of `names`: not all objects would load."""
    return BadWheelError(
        f"the objects find several libraries named {join_some(names, FEW)}, and others need one: "
        f"with one, {join_some(some, FEW)} cannot be loaded, with another {join_some(others, FEW)}",
        hint="link them all with the same library, or give one of them another SONAME",
    )


def refuse_without_policies(wheel: Wheel, exclude: Sequence[str]) -> None:
    """Raise `BadWheelError` for objects for which auditwheel knows no platform but `linux`."""
    if not has_policies(wheel, read_policies(), exclude):
        raise BadWheelError(
            "no manylinux, musllinux or Android platform is for the machine and "
            "the C library of its objects",
            hint="install it from its file, where it was built",
        )


def _built_for(member: str, elf: Elf) -> tuple[tuple[str, ...], Libc | None]:
    """Return the architectures and the C library of an object; none if they are not known."""
    return tuple(architectures_of(elf.abi)), libc_of_object(member, elf)


def refuse_symbols_of_nothing(settings: Settings) -> None:
    """Raise `SettingsError` if debug files are wanted, and nothing is to be stripped."""
    if settings.debug_symbols is not None and settings.strip is StripLevel.OFF:
        raise SettingsError(
            "`debug-symbols` keeps what `strip` removes, and `strip` is off",
            hint='strip = "debug" in [tool.wheelfix], or --strip=debug',
        )


def refuse_several_of_android(wheel: Wheel) -> None:
    """Raise `BadWheelError` for a wheel of Android with several platform tags.

    auditwheel judges wheels with one (policy/__init__.py: "must have exactly one platform tag").
    """
    platforms = wheel.name.platforms
    if are_android(platforms) and len(platforms) > 1:
        raise BadWheelError(
            f"`{wheel.name}` has several platform tags: auditwheel judges a wheel of Android by "
            "one",
            hint="build one wheel for each level and machine, and without the tag `any`",
        )


def refuse_other_system(wheel: Wheel) -> None:
    """Raise `BadWheelError` for a wheel of another system than Linux and Android."""
    system = other_system(wheel.name.platforms)
    if system is not None:
        raise BadWheelError(
            f"`{wheel.name}` is a wheel for {system.name}: wheelfix is for Linux and Android",
            hint=f"for a repair: {system.tool}" if system.tool else None,
        )


def refuse_false_record(wheel: Wheel, settings: Settings) -> None:
    """Raise `BadWheelError` if RECORD is wrong about files that the settings do not trust."""
    problems = wheel.record_problems
    if problems and not settings.trust_files:
        lines = [f"`{problem.member}`: {problem.message}" for problem in problems]
        raise BadWheelError(
            f"RECORD disagrees with the files: {'; '.join(first_of(lines, 1))}",
            hint="build the wheel again; if you know and trust the change, "
            "--trust-files corrects RECORD",
        )


def refuse_pure(wheel: Wheel, settings: Settings) -> None:
    """Raise `NonPlatformWheelError` for a wheel without ELF objects.

    The settings may allow it if the platform tag is `any`.
    """
    is_allowed = settings.allow_pure_python_wheel and "any" in wheel.name.platforms
    if wheel.is_pure and not is_allowed:
        listed = (f"`{member}` is {what}" for member, what in wheel.impostors.items())
        hint = "--allow-pure-python-wheel accepts wheels with the platform tag `any`"
        if "any" not in wheel.name.platforms:
            hint = join_plain(listed, FEW) or WITHOUT_OBJECT
        raise NonPlatformWheelError(NO_OBJECT, hint=hint)


def refuse_edited_objects(steps: Iterable[PlannedEdit]) -> None:
    """Raise `ToolError` if an object is to be edited, for `--patcher none`."""
    edits = [step.edit for step in steps if isinstance(step.edit, ElfEdit)]
    if edits:
        members = join_some(list(dict.fromkeys(edit.member for edit in edits)))
        raise ToolError(
            f"the patcher `none` cannot edit {members}: {count(len(edits), 'edit')}",
            hint="--patcher auto (the default) makes them, --dry-run then lists them",
        )
