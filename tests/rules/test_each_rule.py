"""Each rule finds the wheel with its fault, not the one beside it; its fix removes the fault."""

import os
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

import wheelfix
from tests.rules.cases import CASES, ContextCase, EnvironmentCase, FileCase, SetCase, ValueCase
from tests.support.repairing import repair
from tests.support.values import context_of
from wheelfix.environments.modules import InstalledModules
from wheelfix.environments.run_environment_rules import ENVIRONMENT_RULES, find_in_environment
from wheelfix.rules.context import Context
from wheelfix.rules.findings import Finding
from wheelfix.rules.fix_plan import apply_fixes_until_stable
from wheelfix.rules.registry import RULES, SET_RULES
from wheelfix.rules.rule import AnyRule, EnvironmentRule, Rule, SetRule
from wheelfix.rules.run_rules import find_in_set, run_rules
from wheelfix.settings import Settings

EVERY_RULE: tuple[AnyRule, ...] = (*RULES, *SET_RULES, *ENVIRONMENT_RULES)


def judge(rule: AnyRule, folder: Path) -> tuple[list[Finding], list[Finding]]:
    """Return the findings of a rule in its faulty and in its sound wheel."""
    case = CASES[rule.code]
    if isinstance(case, FileCase):
        sound_settings = case.sound_settings or case.settings
        return (
            in_file(rule, case.faulty(folder / "faulty"), case.settings(folder)),
            in_file(rule, case.sound(folder / "sound"), sound_settings(folder)),
        )
    if isinstance(case, SetCase):
        assert isinstance(rule, SetRule)
        return list(find_in_set(case.faulty, [rule])), list(find_in_set(case.sound, [rule]))
    if isinstance(case, EnvironmentCase):
        assert isinstance(rule, EnvironmentRule)
        return in_environment(rule, case.faulty), in_environment(rule, case.sound)
    assert isinstance(rule, Rule)
    faulty, sound = contexts(case)
    return list(run_rules(faulty, [rule])), list(run_rules(sound, [rule]))


def contexts(case: ValueCase | ContextCase, **settings: Any) -> tuple[Context, Context]:
    if isinstance(case, ContextCase):
        return case.faulty, case.sound
    chosen = Settings(**case.settings, **settings)
    return (
        context_of(case.faulty, chosen, case.stage),
        context_of(case.sound, chosen, case.stage),
    )


def in_environment(
    rule: EnvironmentRule[InstalledModules], modules: InstalledModules
) -> list[Finding]:
    found = find_in_environment(modules, Settings())
    return [finding for finding in found if finding.code == rule.code]


def in_file(rule: AnyRule, path: Path, settings: Mapping[str, Any]) -> list[Finding]:
    report = wheelfix.check(path, Settings(**settings))
    return [found for found in report.findings if found.code == rule.code]


def test_every_rule_has_its_case() -> None:
    assert {*CASES} == {rule.code for rule in EVERY_RULE}


@pytest.mark.parametrize("rule", EVERY_RULE, ids=lambda rule: rule.code)
def test_a_rule_finds_its_fault_only_there_and_its_fix_removes_it(
    rule: AnyRule, tmp_path: Path
) -> None:
    faulty, sound = judge(rule, tmp_path)
    assert faulty
    assert sound == []
    fixes = [found.fix for found in faulty if found.fix]
    if re.match(r"(Safe|Unsafe)\b", rule.explanation.partition("## Fix safety")[2].strip()):
        assert fixes
    # The graft, or the tags, are the fix of others.
    if isinstance(rule, Rule) and any(fix.edits for fix in fixes):
        assert_fixed_for_good(rule, tmp_path)


def assert_fixed_for_good(rule: Rule, tmp_path: Path) -> None:
    """Repair the faulty wheel that `judge` left; the fix finds nothing more to do."""
    case = CASES[rule.code]
    if isinstance(case, FileCase):
        settings = Settings(
            wheel_dir=tmp_path / "out", unsafe_fixes=True, **case.settings(tmp_path)
        )
        environ = os.environ | {"LD_LIBRARY_PATH": ":".join(settings.library_path or ())}
        outcome = repair(case.faulty(tmp_path / "faulty"), settings, environ)
        assert rule.code in {edit.code for edit in outcome.edits}
        assert rule.code not in {found.code for found in outcome.remaining}
        return
    assert isinstance(case, ValueCase | ContextCase)
    context = contexts(case, unsafe_fixes=True)[0]
    if isinstance(case, ValueCase):
        context = context.at_stage(rule.stage)
    fixed, edits = apply_fixes_until_stable(context, [rule])
    assert edits
    assert not [found for found in run_rules(fixed, [rule]) if found.fix]
    assert apply_fixes_until_stable(fixed, [rule]) == (fixed, ())
