"""Rules of other distributions, by the entry point group `wheelfix.rules`.

An entry point names a `Rule`, or a sequence of them (packaging.python.org, "Entry points
specification").
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from functools import cache
from typing import TYPE_CHECKING, cast

from wheelfix.errors import RuleError
from wheelfix.grouping import flatten
from wheelfix.rules.registry import RULES, SET_RULES
from wheelfix.rules.rule import AnyRule, Rule
from wheelfix.rules.stated_rules import PLUGINS
from wheelfix.system.entry_points import entry_points
from wheelfix.system.lazy_patterns import lazy_pattern

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint

_CODE = lazy_pattern(r"[A-Z]{2,5}[0-9]{3,4}")
_NAME = lazy_pattern(r"[a-z0-9]+(-[a-z0-9]+)+")


@cache
def load_rules() -> tuple[Rule, ...]:
    """Return wheelfix's own rules and those of installed plug-ins, by code.

    Plug-ins are loaded once per process, like any module.
    Raises `RuleError` for a plug-in that cannot be used.
    """
    return with_plugins(RULES, flatten(map(_rules_of, entry_points(PLUGINS))))


def with_plugins(rules: Iterable[Rule], added: Iterable[Rule]) -> tuple[Rule, ...]:
    """Return `rules` and the rules `added` by plug-ins, by code.

    Raises `RuleError` for a code or a name that is taken, reserved or malformed.
    """
    by_code = {rule.code: rule for rule in rules}
    known: tuple[AnyRule, ...] = (*by_code.values(), *SET_RULES)
    names = {rule.name for rule in known}
    for rule in added:
        problem = None
        if rule.code in by_code or rule.name in names:
            problem = "its code or name is already taken"
        elif rule.code.startswith("WF"):
            problem = "codes that start with WF are reserved for wheelfix"
        elif not _CODE.fullmatch(rule.code) or not _NAME.fullmatch(rule.name):
            problem = "a code must look like `ACME101`, a name like `no-debug-build`"
        if problem:
            raise RuleError(
                f"the rule {rule.code} ({rule.name}) of `{rule.plugin}` cannot be used: {problem}",
                hint=_report_to(rule.plugin),
            )
        by_code[rule.code] = rule
        names.add(rule.name)
    return tuple(sorted(by_code.values(), key=lambda rule: rule.code))


def _report_to(plugin: str | None) -> str:
    return f"report it to the authors of `{plugin}`, or uninstall it"


def _rules_of(point: "EntryPoint") -> Iterator[Rule]:
    plugin = point.dist.name if point.dist is not None else point.value
    hint = _report_to(plugin)
    try:
        loaded: object = point.load()
    except Exception as error:
        raise RuleError(
            f"the rules of `{plugin}` cannot be loaded from `{point.value}`: "
            f"{type(error).__name__}: {error}",
            hint=hint,
        ) from error
    rules = [loaded] if isinstance(loaded, Rule) else loaded
    if not isinstance(rules, Sequence):
        rules = [rules]
    for rule in cast("Sequence[object]", rules):
        if not isinstance(rule, Rule):
            raise RuleError(
                f"`{point.value}` of `{plugin}` is not a rule or a sequence of rules: {rule!r}",
                hint=hint,
            )
        yield replace(rule, plugin=plugin)
