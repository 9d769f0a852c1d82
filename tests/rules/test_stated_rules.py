"""What the sources state of the rules is what the rules are."""

from inspect import cleandoc

from tests.support.all_rules import all_rules
from wheelfix.rules.stated_rules import StatedRule, stated_rules


def test_the_sources_state_every_rule_as_it_is() -> None:
    own = (rule for rule in all_rules() if rule.plugin is None)
    assert stated_rules() == sorted(
        StatedRule(rule.code, rule.name, rule.severity.label, cleandoc(rule.explanation))
        for rule in own
    )
