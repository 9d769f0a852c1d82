"""Codes, names and documentation of all rules."""

import re
from pathlib import Path

import pytest

import wheelfix.rules
from wheelfix.rules.registry import RULES
from wheelfix.rules.rule import Rule

PACKAGE = Path(wheelfix.rules.__file__).parent
HEADINGS = ["What it does", "Why is this bad?", "Example", "Common causes", "Fix safety"]


def test_codes_and_names_of_rules_are_unique_and_of_one_form() -> None:
    for values, form in (
        ([rule.code for rule in RULES], r"WF[1-9]\d\d"),
        ([rule.name for rule in RULES], r"[a-z]+(-[a-z]+)*"),
    ):
        assert len(set(values)) == len(values)
        assert all(re.fullmatch(form, value) for value in values)


def test_every_rule_that_is_written_is_registered() -> None:
    text = "".join(path.read_text(encoding="utf-8") for path in PACKAGE.glob("*.py"))
    assert set(re.findall(r'@rule\(\s*"(WF\d+)"', text)) == {rule.code for rule in RULES}


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.code)
def test_a_rule_explains_itself(rule: Rule) -> None:
    first, _, rest = rule.explanation.partition("\n")
    assert re.fullmatch(r"[A-Z`].*\.", first), "one sentence"
    parts = re.split(r"^ *## (.+)$", rest, flags=re.MULTILINE)
    assert parts[1::2] == HEADINGS
    assert all(text.strip() for text in parts[2::2]), "no heading without a text"
