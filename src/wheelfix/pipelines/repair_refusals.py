"""Wheels that a repair refuses: other systems, other platforms, no objects, edits not allowed."""

from collections.abc import Iterable

from wheelfix.errors import BadWheelError, NonPlatformWheelError, SettingsError, ToolError
from wheelfix.rules.findings import PlannedEdit
from wheelfix.settings import Settings, StripLevel
from wheelfix.text import join_some
from wheelfix.wheel.edits import ElfEdit
from wheelfix.wheel.model import Wheel, WheelName
from wheelfix.wheel.platform_tags import other_system, parse_platform_tag

NO_OBJECT = (
    "This does not look like a platform wheel, no ELF executable or shared library file (including "
    "compiled Python C extension) found in the wheel archive"
)
"""auditwheel's words (its error.py): its users search for them."""


def refuse_other_platform(filename: str, plat: str) -> None:
    """Raise `SettingsError` if `plat` is for another architecture or C library than the wheel.

    The words are auditwheel's (main_repair.py).
    """
    wanted = parse_platform_tag(plat)
    for tag in map(parse_platform_tag, WheelName.parse(filename).platforms):
        if wanted.arch and tag.arch and tag.arch != wanted.arch:
            own, other = f"{tag.arch} architecture", wanted.arch
        elif wanted.libc and tag.libc and tag.libc is not wanted.libc:
            own, other = f"{tag.libc.name} libc", wanted.libc.name
        else:
            continue
        raise SettingsError(
            f"can't repair wheel {filename} with {own} to a wheel targeting {other}",
            hint="leave out --plat, or name a platform of the wheel's own architecture and libc",
        )


def refuse_symbols_of_nothing(settings: Settings) -> None:
    """Raise `SettingsError` if debug files are wanted, and nothing is to be stripped."""
    if settings.debug_symbols is not None and settings.strip is StripLevel.OFF:
        raise SettingsError(
            "`debug-symbols` keeps what `strip` removes, and `strip` is off",
            hint='strip = "debug" in [tool.wheelfix], or --strip=debug',
        )


def refuse_other_system(wheel: Wheel) -> None:
    """Raise `BadWheelError` for a wheel of another system than Linux."""
    system = other_system(wheel.name.platforms)
    if system is not None:
        raise BadWheelError(
            f"`{wheel.name}` is a wheel for {system.name}: wheelfix repairs wheels for Linux with "
            "glibc or musl",
            hint=f"repair it with {system.tool}" if system.tool else None,
        )


def refuse_pure(wheel: Wheel, settings: Settings) -> None:
    """Raise `NonPlatformWheelError` for a wheel without ELF objects.

    The settings may allow it if the platform tag is `any`.
    """
    is_allowed = settings.allow_pure_python_wheel and "any" in wheel.name.platforms
    if wheel.is_pure and not is_allowed:
        raise NonPlatformWheelError(
            NO_OBJECT, hint="--allow-pure-python-wheel accepts wheels with the platform tag `any`"
        )


def refuse_edited_objects(steps: Iterable[PlannedEdit]) -> None:
    """Raise `ToolError` if an object is to be edited, for `--patcher none`."""
    edits = [step.edit for step in steps if isinstance(step.edit, ElfEdit)]
    if edits:
        members = join_some(list(dict.fromkeys(edit.member for edit in edits)))
        raise ToolError(
            f"the patcher `none` cannot edit {members}: {len(edits):,} edits are needed",
            hint="--patcher auto (the default) makes them, --dry-run then lists them",
        )
