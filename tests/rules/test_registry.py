"""Codes, names and documentation of all rules."""

import re
import sys
from pathlib import Path

import pytest

import wheelfix
from wheelfix.environments.run_environment_rules import ENVIRONMENT_RULES
from wheelfix.rules.registry import REPORTING_RULES, RULES, SET_RULES
from wheelfix.rules.rule import AnyRule

EVERY_RULE: list[AnyRule] = [*RULES, *SET_RULES, *ENVIRONMENT_RULES]
PACKAGE = Path(wheelfix.__file__).parent
HEADINGS = ["What it does", "Why is this bad?", "Example", "Common causes", "Fix safety"]


def test_codes_and_names_of_rules_are_unique_and_of_one_form() -> None:
    for values, form in (
        ([rule.code for rule in EVERY_RULE], r"WF[1-9]\d\d"),
        ([rule.name for rule in EVERY_RULE], r"[a-z]+(-[a-z]+)*"),
    ):
        assert len(set(values)) == len(values)
        assert all(re.fullmatch(form, value) for value in values)


def test_every_rule_that_is_written_is_registered() -> None:
    text = "".join(path.read_text(encoding="utf-8") for path in PACKAGE.rglob("*.py"))
    written = set(re.findall(r'@(?:set_|environment_)?rule\(\s*"(WF\d+)"', text))
    assert written == {rule.code for rule in EVERY_RULE}


def test_rules_that_are_left_out_while_fixes_are_applied_are_those_without_fixes() -> None:
    makers = ("Fix", "removal")
    modules = {rule.check.__module__ for rule in RULES}
    fixing = {m for m in modules if any(hasattr(sys.modules[m], name) for name in makers)}
    assert {rule.check.__module__ for rule in REPORTING_RULES} == modules - fixing


@pytest.mark.parametrize("rule", EVERY_RULE, ids=lambda rule: rule.code)
def test_a_rule_explains_itself(rule: AnyRule) -> None:
    first, _, rest = rule.explanation.partition("\n")
    assert re.fullmatch(r"[A-Z].*\.", first), "one sentence"
    parts = re.split(r"^ *## (.+)$", rest, flags=re.MULTILINE)
    assert parts[1::2] == HEADINGS
    assert all(text.strip() for text in parts[2::2]), "no heading without a text"
