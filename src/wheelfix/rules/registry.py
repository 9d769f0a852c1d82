"""All rules of wheelfix, by code."""

from collections.abc import Iterable
from typing import TypeVar

from wheelfix.rules import (
    files,
    hardening,
    leftovers,
    loadability,
    metadata,
    module_names,
    needed,
    platform_tag,
    preload,
    provider_contents,
    provider_paths,
    provider_requirements,
    providers,
    python_openings,
    reachability,
    release_set,
    search_paths,
    size,
    sonames,
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
            *sonames.RULES,
            *python_openings.RULES,
            *metadata.RULES,
            *loadability.RULES,
            *hardening.RULES,
            *files.RULES,
            *leftovers.RULES,
            *size.RULES,
            *platform_tag.RULES,
            *preload.RULES,
            *provider_paths.RULES,
            *provider_requirements.RULES,
            *provider_contents.RULES,
            *providers.RULES,
            *targets.RULES,
        ),
        key=lambda rule: rule.code,
    )
)
"""All rules about one wheel, by code."""

RELEASE_RULES: tuple[SetRule, ...] = release_set.RULES
"""Rules about the wheels of a release side by side."""

IGNORE_RULES: tuple[SetRule, ...] = stale_ignores.RULES
"""Rules about the project's ignores: run last, on what the other rules have found."""

SET_RULES: tuple[SetRule, ...] = (*RELEASE_RULES, *IGNORE_RULES)
"""All rules about a set of wheels, by code."""

CHECKPOINT_RULES: tuple[Rule, ...] = (
    *module_names.RULES,
    *sonames.RULES,
    *python_openings.RULES,
)
"""Rules about names, run again after each stage of a repair to see which stage broke one."""

REPORTING_RULES: tuple[Rule, ...] = (
    *symbols.RULES,
    *loadability.RULES,
    *hardening.RULES,
    *size.RULES,
    *targets.RULES,
)
"""Rules without fixes: left out while fixes are applied."""


SomeRule = TypeVar("SomeRule", Rule, SetRule)


def selected_rules(settings: Settings, rules: Iterable[SomeRule]) -> tuple[SomeRule, ...]:
    """Return those of `rules` that `settings` select; some of them may be ignored."""
    selectors = (*settings.select, *settings.extend_select)
    return tuple(rule for rule in rules if any(rule.matches(selector) for selector in selectors))


def enabled_rules(settings: Settings, rules: Iterable[SomeRule]) -> tuple[SomeRule, ...]:
    """Return those of `rules` that `settings` select and do not ignore."""
    return tuple(
        rule
        for rule in selected_rules(settings, rules)
        if not any(rule.matches(selector) for selector in settings.ignore)
    )
