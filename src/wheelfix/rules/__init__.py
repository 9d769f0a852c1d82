"""The rules, by topic."""

from collections.abc import Iterable
from typing import TypeVar

from wheelfix.rules import (
    files,
    hardening,
    loadability,
    metadata,
    module_names,
    needed,
    platform_tag,
    preload,
    providers,
    reachability,
    release_set,
    search_paths,
    size,
    stale_ignores,
    symbols,
    targets,
)
from wheelfix.rules.rule import Rule, SetRule
from wheelfix.settings import Settings

RULES: tuple[Rule, ...] = tuple(
    sorted(
        (
            *reachability.RULES,
            *search_paths.RULES,
            *needed.RULES,
            *symbols.RULES,
            *module_names.RULES,
            *metadata.RULES,
            *loadability.RULES,
            *hardening.RULES,
            *files.RULES,
            *size.RULES,
            *platform_tag.RULES,
            *preload.RULES,
            *providers.RULES,
            *targets.RULES,
        ),
        key=lambda rule: rule.code,
    )
)
"""All rules about one wheel, by code."""

SET_RULES: tuple[SetRule, ...] = (*release_set.SET_RULES, *stale_ignores.SET_RULES)
"""All rules about the wheels of a release side by side, by code."""

CHECKPOINT_RULES: tuple[Rule, ...] = module_names.RULES
"""The rules by which names are checked again after each stage of a repair."""

REPORTING_RULES: tuple[Rule, ...] = (
    *symbols.RULES,
    *loadability.RULES,
    *hardening.RULES,
    *size.RULES,
    *targets.RULES,
)
"""Rules without fixes: no round of fixes needs to ask them."""


def selected(settings: Settings, rules: Iterable[Rule] = RULES) -> tuple[Rule, ...]:
    """Return those of `rules` that `settings` ask for: selected, and not ignored."""
    return tuple(
        rule
        for rule in chosen(settings, rules)
        if not any(rule.matches(selector) for selector in settings.ignore)
    )


SomeRule = TypeVar("SomeRule", Rule, SetRule)


def chosen(settings: Settings, rules: Iterable[SomeRule]) -> tuple[SomeRule, ...]:
    """Return those of `rules` that `settings` select, ignored ones among them."""
    wanted = (*settings.select, *settings.extend_select)
    return tuple(rule for rule in rules if any(rule.matches(selector) for selector in wanted))
