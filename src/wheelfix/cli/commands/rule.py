"""`wheelfix rule`: the documentation of a rule, and the list of all rules."""

from collections.abc import Sequence
from typing import Annotated

import typer

from wheelfix.cli import option_completion, options
from wheelfix.cli.config.values import rule_suggestion
from wheelfix.errors import SettingsError
from wheelfix.frozen import frozen
from wheelfix.reports.rule_excerpts import fix_safety
from wheelfix.rules.stated_rules import StatedRule, stated_rules
from wheelfix.settings import Group, Option


@frozen
class _Options:
    """The options."""

    all: bool = Option("List all rules.", group=Group.OUTPUT).default(False)


@options.with_options
def rule(
    request: _Options,
    name: Annotated[
        str | None,
        typer.Argument(
            metavar="[CODE|NAME]",
            help="The rule; without one, list all.",
            autocompletion=option_completion.rules,
        ),
    ] = None,
) -> None:
    """Explain a rule, or list all rules."""
    rules = stated_rules()
    named = None if name is None or request.all else _find_rule(name, rules)
    head = f"# {named.name} ({named.code}, {named.severity})" if named else ""
    typer.echo(f"{head}\n\n{named.explanation}" if named else _list_rules(rules))


def _find_rule(name: str, rules: Sequence[StatedRule]) -> StatedRule:
    for rule in rules:
        if name.upper() == rule.code or name.lower() == rule.name:
            return rule
    raise SettingsError(
        f"no rule has the code or name `{name}`",
        hint=rule_suggestion(name, rules),
    )


def _list_rules(rules: Sequence[StatedRule]) -> str:
    """Return a line for each rule."""
    width = max(len(rule.name) for rule in rules)
    return "\n".join(
        f"{rule.code}  {rule.name:{width}}  {rule.severity:7}"
        f"  {fix_safety(rule.explanation):6}  {rule.summary}".rstrip()
        for rule in rules
    )
