"""The rules as their sources state them: code, name, severity and documentation.

Nothing is imported for it: the rules bring all analyses, which take a quarter of a second.
"""

import re
from collections.abc import Iterator, Sequence
from functools import cache
from inspect import cleandoc

from wheelfix.named_tuple import NamedTuple
from wheelfix.system import deferred
from wheelfix.system.entry_points import entry_points
from wheelfix.system.lazy_patterns import lazy_pattern

EVERY = "ALL"
"""The selector of all rules, including those of plug-ins."""
PLUGINS = "wheelfix.rules"
"""The entry point group of plug-ins."""
_PACKAGES = ("wheelfix.rules", "wheelfix.environments")
_RULE = lazy_pattern(
    r'^@(?:set_|environment_)?rule\(\s*"(WF\d+)",\s*"([a-z-]+)",\s*Severity\.([A-Z]+)'
    r'[^@]*?^def [^"]*"""(.*?)"""',
    re.DOTALL | re.MULTILINE,
)


class StatedRule(NamedTuple):
    """What is said of a rule, without its check."""

    code: str
    name: str
    severity: str
    """As settings and reports spell it: `error`."""
    explanation: str
    """The documentation, without the indentation of the source."""

    @property
    def summary(self) -> str:
        """The first line of the documentation."""
        return self.explanation.partition("\n")[0]

    def matches(self, selector: str) -> bool:
        """Return whether `selector` (a code, a prefix of one, a name, or ALL) matches this rule."""
        return names_rule(selector, self.code, self.name)


def names_rule(selector: str, code: str, name: str) -> bool:
    """Return whether `selector` (a code, a prefix of one, a name, or ALL) matches the rule."""
    return selector == EVERY or code.startswith(selector.upper()) or name == selector


@cache
def stated_rules() -> Sequence[StatedRule]:
    """Return all rules by code: about wheels, sets of wheels and environments, and of plug-ins.

    Raises `RuleError` for a plug-in that cannot be used.
    """
    return sorted((*_own_rules(), *_rules_of_plugins()), key=lambda rule: rule.code)


def _own_rules() -> Iterator[StatedRule]:
    for package in _PACKAGES:
        for source in deferred.resources.files(package).iterdir():
            text = source.read_text("utf-8") if source.name.endswith(".py") else ""
            for code, name, severity, explanation in _RULE.findall(text):
                yield StatedRule(code, name, severity.lower(), cleandoc(explanation))


def _rules_of_plugins() -> Iterator[StatedRule]:
    if entry_points(PLUGINS):
        from wheelfix.rules.rule_plugins import load_rules  # noqa: PLC0415 - imports every rule

        for rule in load_rules():
            if rule.plugin is not None:
                text = cleandoc(rule.explanation)
                yield StatedRule(rule.code, rule.name, rule.severity.label, text)
