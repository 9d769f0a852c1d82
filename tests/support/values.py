"""Wheels as values, without a zip or a compiler."""

from collections.abc import Mapping, Sequence
from typing import Any

from wheelfix.analysis.world import Installed, World
from wheelfix.elf.model import Elf, ElfType, Machine
from wheelfix.host.provider_lookup import find_providers
from wheelfix.loader.targets import Target, find
from wheelfix.rules.context import Context, Stage
from wheelfix.rules.findings import Finding, PlannedEdit
from wheelfix.rules.fix_plan import apply_fixes_until_stable
from wheelfix.rules.rule import Rule
from wheelfix.rules.run_rules import run_rules
from wheelfix.settings import Settings
from wheelfix.wheel.model import DistInfo, Member, Wheel, WheelName

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
    dist_info = DistInfo(f"{parsed.distribution}-{parsed.version}.dist-info")
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


def world_on(
    subject: Wheel,
    target: str | Target = "glibc:2.28",
    scheme: str | None = None,
    library_path: tuple[str, ...] = (),
    **beside: Any,
) -> World:
    """The world of a wheel on a target."""
    machine = find(target, subject) if isinstance(target, str) else target
    return Installed(wheel=subject, **beside).on(machine, scheme, library_path)


def context_of(subject: Wheel, settings: Settings, stage: Stage = Stage.AFTER) -> Context:
    """Return the context of a wheel with the providers of the settings."""
    providers = find_providers(settings.provider, subject)
    return Context(wheel=subject, settings=settings, providers=providers, stage=stage)


def findings(
    rule: Rule, subject: Wheel, stage: Stage = Stage.AFTER, **settings: Any
) -> tuple[Finding, ...]:
    """Return the findings of one rule for a wheel."""
    return run_rules(context_of(subject, Settings(**settings), stage), [rule])


def apply_fixes(
    subject: Wheel, rules: Sequence[Rule], settings: Settings, stage: Stage = Stage.AFTER
) -> tuple[Wheel, tuple[PlannedEdit, ...]]:
    """Return the wheel that the fixes of `rules` make of `subject`, and their edits."""
    context = context_of(subject, settings).at_stage(stage)
    after, steps = apply_fixes_until_stable(context, rules)
    return after.wheel, steps
