"""What the rules about installed environments find."""

from wheelfix.environments import rules
from wheelfix.environments.modules import InstalledModules
from wheelfix.rules.findings import Finding
from wheelfix.rules.left_to_requirements import left_to_requirements, without_wheel
from wheelfix.rules.registry import rules_in
from wheelfix.rules.rule import EnvironmentRule
from wheelfix.rules.run_rules import finding_of, matching_ignore, worst_first
from wheelfix.settings import Settings

_KIND: type[EnvironmentRule[InstalledModules]] = EnvironmentRule
ENVIRONMENT_RULES = rules_in(_KIND, rules)
"""All rules about an installed environment, by code."""


def find_in_environment(modules: InstalledModules, settings: Settings) -> tuple[Finding, ...]:
    """Return what the rules about environments find, without what `ignore` names; worst first."""
    findings = [
        finding_of(rule, hit, settings) for rule in ENVIRONMENT_RULES for hit in rule.check(modules)
    ]
    unknown = without_wheel(modules.unknown, (), settings)
    findings += (finding_of(left_to_requirements, hit, settings) for hit in unknown)
    kept = (finding for finding in findings if matching_ignore(finding, settings) is None)
    return worst_first(kept)
