"""All rules of wheelfix, by code."""

from collections.abc import Iterable
from types import ModuleType
from typing import TypeVar

from wheelfix.rules import (
    allowed_files_and_grafts,
    auditwheel_verdict,
    bundled_drivers,
    bundled_not_found,
    entry_points_txt,
    executable_stack,
    files_as_installed,
    hardening,
    left_to_requirements,
    leftovers,
    licenses,
    loader_acceptance,
    metadata,
    module_names,
    needed_entries,
    object_platforms,
    opened_and_missing,
    opened_outside_wheel,
    package_index,
    provider_gaps,
    provider_requirements,
    provider_search_paths,
    python_c_api,
    release_set,
    search_paths,
    size,
    sonames,
    stale_ignores,
    symbol_contract,
    target_machines,
    undefined_symbols,
    unused_providers,
)
from wheelfix.rules.rule import AnyRule, Rule, SetRule
from wheelfix.settings import Settings

SomeRule = TypeVar("SomeRule", bound=AnyRule)


def rules_in(kind: type[SomeRule], *modules: ModuleType) -> tuple[SomeRule, ...]:
    """Return the rules of one kind that `modules` define, by code."""
    rules = (
        value
        for module in modules
        for value in vars(module).values()
        if isinstance(value, kind) and value.check.__module__ == module.__name__
    )
    return tuple(sorted(rules, key=lambda rule: rule.code))


RULES = rules_in(
    Rule,
    search_paths,
    bundled_not_found,
    needed_entries,
    undefined_symbols,
    python_c_api,
    symbol_contract,
    module_names,
    sonames,
    opened_and_missing,
    opened_outside_wheel,
    metadata,
    entry_points_txt,
    executable_stack,
    package_index,
    loader_acceptance,
    hardening,
    files_as_installed,
    object_platforms,
    allowed_files_and_grafts,
    leftovers,
    licenses,
    size,
    auditwheel_verdict,
    provider_search_paths,
    provider_requirements,
    provider_gaps,
    unused_providers,
    left_to_requirements,
    bundled_drivers,
    target_machines,
)
"""All rules about one wheel, by code."""

RELEASE_RULES = rules_in(SetRule, target_machines, release_set)
"""Rules about all wheels of a run, most of them about the wheels of a release side by side."""

IGNORE_RULES = rules_in(SetRule, stale_ignores)
"""Rules about the project's ignores: run last, on what the other rules have found."""

SET_RULES = (*RELEASE_RULES, *IGNORE_RULES)
"""All rules about a set of wheels, by code."""

CHECKPOINT_RULES = rules_in(Rule, module_names, sonames, opened_and_missing)
"""Rules about names, run again after each stage of a repair to see which stage broke one."""

SYMBOL_RULES = rules_in(
    Rule, needed_entries, undefined_symbols, python_c_api, symbol_contract, loader_acceptance
)
"""Rules that look at the libraries around the wheel: `check` does not know those of the machine."""

ARCHIVE_RULES = rules_in(
    Rule,
    metadata,
    entry_points_txt,
    package_index,
    files_as_installed,
    object_platforms,
    allowed_files_and_grafts,
    leftovers,
    size,
)
"""Rules about the zip, RECORD, metadata and entry points: for the wheels of every system."""


def is_for_any_system(rule: Rule) -> bool:
    """Return whether a rule is run on the wheels of every system."""
    return rule in ARCHIVE_RULES or rule.plugin is not None


TARGET_RULES = rules_in(Rule, target_machines)
"""Rules about the machines of `--target`."""

REPORTING_RULES = rules_in(
    Rule,
    allowed_files_and_grafts,
    bundled_drivers,
    entry_points_txt,
    hardening,
    left_to_requirements,
    licenses,
    loader_acceptance,
    module_names,
    object_platforms,
    provider_gaps,
    python_c_api,
    size,
    symbol_contract,
    target_machines,
    undefined_symbols,
    unused_providers,
)
"""Rules without fixes: left out while fixes are applied."""


def selected_rules(settings: Settings, rules: Iterable[SomeRule]) -> tuple[SomeRule, ...]:
    """Return those of `rules` that `settings` select; some of them may be ignored."""
    return tuple(rule for rule in rules if any(map(rule.matches, settings.selectors)))


def enabled_rules(settings: Settings, rules: Iterable[SomeRule]) -> tuple[SomeRule, ...]:
    """Return those of `rules` that `settings` select and do not ignore."""
    return tuple(
        rule
        for rule in selected_rules(settings, rules)
        if not any(rule.matches(selector) for selector in settings.ignore)
    )


def fixing_rules(settings: Settings, rules: Iterable[Rule]) -> tuple[Rule, ...]:
    """Return those of `rules` whose fixes a repair applies: all of wheelfix, reported or not.

    A plug-in's rule that is not selected, or ignored, is not run at all.
    """
    enabled = enabled_rules(settings, rules)
    return tuple(
        rule
        for rule in rules
        if rule not in REPORTING_RULES and (rule.plugin is None or rule in enabled)
    )
