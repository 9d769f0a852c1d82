"""All rules that selectors match: about wheels, sets of wheels and environments."""

from wheelfix.environments.run_environment_rules import ENVIRONMENT_RULES
from wheelfix.rules.registry import SET_RULES
from wheelfix.rules.rule import AnyRule
from wheelfix.rules.rule_plugins import load_rules


def all_rules() -> tuple[AnyRule, ...]:
    """Return wheelfix's own rules and those of installed plug-ins.

    Raises `RuleError` for a plug-in that cannot be used.
    """
    return (*load_rules(), *SET_RULES, *ENVIRONMENT_RULES)
