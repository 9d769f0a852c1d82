"""Executable stacks: the flag is cleared where it is asked for, and where no code needs it."""

import re
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.rules.cases import installed, segment
from tests.support.build import shared_object
from tests.support.values import elf, wheel
from wheelfix.elf.constants import Pt
from wheelfix.elf.model import Elf
from wheelfix.elf.reader import read_elf
from wheelfix.environments.run_environment_rules import find_in_environment
from wheelfix.rules.context import Context
from wheelfix.rules.executable_stack import executable_stack
from wheelfix.rules.findings import Finding
from wheelfix.rules.fix_plan import apply_fixes_until_stable
from wheelfix.rules.run_rules import run_rules
from wheelfix.settings import Settings
from wheelfix.wheel.edits import ClearExecstack
from wheelfix.wheel.model import Wheel


def marked(folder: Path) -> Elf:
    path = shared_object(folder / "a.so", soname="libsoname.so", flags=["-Wl,-z,execstack"])
    return read_elf(path.read_bytes(), "a.so")


def judged(subject: Wheel, **settings: Any) -> tuple[Finding, ...]:
    return run_rules(Context(wheel=subject, settings=Settings(**settings)), [executable_stack])


@pytest.mark.parametrize(
    ("globs", "member", "is_fixed"),
    [
        ((), "pkg/libx.so", False),
        (("liby*",), "pkg/libx.so", False),
        (("libx*",), "pkg/libx.so", True),
        (("libx.so.1",), "pkg.libs/libx-0a1b2c3d.so.1", True),
        (("libx-0a1b2c3d.so.1",), "pkg.libs/libx-0a1b2c3d.so.1", True),
        (("libsoname.so",), "pkg/libx.so", True),
        (("*",), "pkg/libx.so", True),
    ],
)
def test_the_flag_is_cleared_where_it_is_asked_for(
    tmp_path: Path, globs: tuple[str, ...], member: str, *, is_fixed: bool
) -> None:
    subject = wheel({member: marked(tmp_path)})
    context = Context(wheel=subject, settings=Settings(clear_execstack=globs))
    fixed, steps = apply_fixes_until_stable(context, [executable_stack])
    assert [step.edit for step in steps] == ([ClearExecstack(member=member)] if is_fixed else [])
    assert bool(run_rules(fixed, [executable_stack])) != is_fixed


def test_the_hint_can_be_pasted(tmp_path: Path) -> None:
    member = "pkg.libs/libx-0a1b2c3d.so.1"
    subject = wheel({member: marked(tmp_path)})
    (found,) = judged(subject)
    assert found.hint is not None
    glob = re.findall(r"wheelfix repair --clear-execstack (\S+)`", found.hint)[0]
    assert not [f for f in judged(subject, clear_execstack=(glob,)) if f.fix is None]


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"trampolines": True}, "writes trampolines of nested functions to the stack"),
        ({"trampolines": None}, "not recognized on this machine"),
        ({"segments": ()}, "no PT_GNU_STACK header"),
        ({"dynamic": False}, "no dynamic section"),
    ],
)
def test_the_flag_is_not_cleared_where_the_code_may_need_it(
    tmp_path: Path, change: Mapping[str, Any], reason: str
) -> None:
    subject = marked(tmp_path)
    if "segments" in change:
        loads = tuple(s for s in subject.segments if s.type == Pt.LOAD)
        change = {"segments": loads}
    settings: Mapping[str, Any] = {"clear_execstack": ("*",)}
    (found,) = judged(wheel({"pkg/libx.so": subject._replace(**change)}), **settings)
    assert found.fix is None
    (note,) = found.notes
    assert "`clear-execstack` is refused" in note
    assert reason in note
    assert found.hint is not None
    assert "wheelfix repair --clear-execstack" not in found.hint
    is_needed = bool(change.get("trampolines"))
    assert ("GLIBC_TUNABLES=glibc.rtld.execstack=2" in found.hint) == is_needed


@pytest.mark.parametrize(
    ("glibc", "flags", "fails"), [("2.41", 7, 1), ("2.41", 6, 0), ("2.40", 7, 0)]
)
def test_an_installed_module_is_refused_by_glibc(glibc: str, flags: int, fails: int) -> None:
    core = elf(module_hooks=("PyInit__core",), segments=(segment(type=Pt.GNU_STACK, flags=flags),))
    modules = installed({"alpha/_core.so": (core, ())})
    world = replace(modules.world, versions={"GLIBC": glibc})
    found = find_in_environment(
        replace(modules, symbols=replace(modules.symbols, world=world)), Settings()
    )
    assert [(one.code, one.severity.label) for one in found] == [("WF952", "error")] * fails
    assert all(
        "needs an executable stack, which glibc 2.41 refuses" in one.message for one in found
    )
