"""The rules, by topic."""

from collections.abc import Iterable

from wheelfix.rules import (
    entries,
    hardening,
    loadability,
    metadata,
    names,
    needed,
    platform,
    providers,
    reach,
    symbols,
)
from wheelfix.rules.base import Rule
from wheelfix.settings import Settings

RULES: tuple[Rule, ...] = tuple(
    sorted(
        (
            *reach.RULES,
            *entries.RULES,
            *needed.RULES,
            *symbols.RULES,
            *names.RULES,
            *metadata.RULES,
            *loadability.RULES,
            *hardening.RULES,
            *platform.RULES,
            *providers.RULES,
        ),
        key=lambda rule: rule.code,
    )
)
"""All rules, by code."""

CHECKPOINT_RULES: tuple[Rule, ...] = names.RULES
"""The rules by which names are checked again after each stage of a repair."""

REPORTING_RULES: tuple[Rule, ...] = (*symbols.RULES, *loadability.RULES, *hardening.RULES)
"""Rules without fixes: no round of fixes needs to ask them."""


def selected(settings: Settings, rules: Iterable[Rule] = RULES) -> tuple[Rule, ...]:
    """Return those of `rules` that `settings` ask for: selected, and not ignored."""
    return tuple(
        rule
        for rule in chosen(settings, rules)
        if not any(rule.matches(selector) for selector in settings.ignore)
    )


def chosen(settings: Settings, rules: Iterable[Rule] = RULES) -> tuple[Rule, ...]:
    """Return those of `rules` that `settings` select, ignored ones among them."""
    wanted = (*settings.select, *settings.extend_select)
    return tuple(rule for rule in rules if any(rule.matches(selector) for selector in wanted))
