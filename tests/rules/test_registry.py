"""All rules."""

import pytest

from wheelfix.rules.registry import RULES, SET_RULES
from wheelfix.rules.rule import AnyRule


@pytest.mark.parametrize("rule", [*RULES, *SET_RULES])
def test_every_rule_is_explained(rule: AnyRule) -> None:
    text = rule.explanation
    heads = ["What it does", "Why is this bad?", "Example", "Common causes", "Fix safety"]
    places = [text.find(f"## {head}") for head in heads]
    assert places == sorted(places)
    assert places[0] > 0
