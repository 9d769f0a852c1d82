"""Wheels as values, without a zip or a compiler."""

from collections.abc import Mapping, Sequence
from typing import Any

from wheelfix.elf.model import Elf, ElfType, Machine
from wheelfix.rules.context import Context, Stage
from wheelfix.rules.findings import Finding, PlannedEdit
from wheelfix.rules.fix_plan import apply_fixes_until_stable
from wheelfix.rules.rule import Rule
from wheelfix.rules.run_rules import run_rules
from wheelfix.settings import Settings
from wheelfix.wheel.model import Member, Wheel, WheelName

GLIBC = "libc.so.6"


def elf(*needed: str, **fields: Any) -> Elf:
    """An x86-64 shared object that needs `needed` and libc."""
    values: dict[str, Any] = {
        "bits": 64,
        "little_endian": True,
        "machine": Machine.X86_64,
        "osabi": 0,
        "flags": 0,
        "type": ElfType.DYN,
        "needed": (*needed, GLIBC),
    }
    return Elf(**{**values, **fields})


def wheel(
    objects: Mapping[str, Elf],
    *files: str,
    name: str = "demo-1.0-cp311-cp311-linux_x86_64.whl",
    **fields: Any,
) -> Wheel:
    """A wheel with these objects and other files."""
    parsed = WheelName.parse(name)
    dist_info = f"{parsed.distribution}-{parsed.version}.dist-info"
    names = [*objects, *files, f"{dist_info}/WHEEL", f"{dist_info}/RECORD"]
    values: dict[str, Any] = {
        "name": parsed,
        "members": tuple(Member(name=n, size=1, compressed_size=1) for n in names),
        "dist_info": dist_info,
        "tags": tuple(
            f"{python}-{abi}-{platform}"
            for python in parsed.pythons
            for abi in parsed.abis
            for platform in parsed.platforms
        ),
        "root_is_purelib": False,
        "elfs": dict(objects),
    }
    return Wheel(**{**values, **fields})


def findings(
    rule: Rule, subject: Wheel, stage: Stage = Stage.AFTER, **settings: Any
) -> tuple[Finding, ...]:
    """Return the findings of one rule for a wheel."""
    context = Context(wheel=subject, settings=Settings(**settings), stage=stage)
    return run_rules(context, [rule])


def apply_fixes(
    subject: Wheel, rules: Sequence[Rule], settings: Settings, stage: Stage = Stage.AFTER
) -> tuple[Wheel, tuple[PlannedEdit, ...]]:
    """Return the wheel that the fixes of `rules` make of `subject`, and their edits."""
    context = Context(wheel=subject, settings=settings).at_stage(stage)
    after, steps = apply_fixes_until_stable(context, rules)
    return after.wheel, steps
