"""`wheelfix rule`: the documentation of a rule, and the list of all rules."""

from collections.abc import Sequence
from enum import StrEnum
from inspect import cleandoc
from typing import Annotated

import typer

from wheelfix.cli import completion
from wheelfix.cli.config.values import suggestion
from wheelfix.errors import SettingsError
from wheelfix.reports.rule_docs import fix_safety, rule_page
from wheelfix.rules.plugins import all_rules
from wheelfix.rules.rule import AnyRule
from wheelfix.settings import Group


class RuleFormat(StrEnum):
    """How rules are printed."""

    TEXT = "text"
    MARKDOWN = "markdown"


def rule(
    name: Annotated[
        str | None,
        typer.Argument(
            metavar="[CODE|NAME]",
            help="The rule; without one, list all.",
            autocompletion=completion.rules,
        ),
    ] = None,
    every: Annotated[
        bool, typer.Option("--all", help="List all rules.", rich_help_panel=Group.OUTPUT)
    ] = False,
    output_format: Annotated[
        RuleFormat,
        typer.Option(help="Text, or Markdown with all explanations.", rich_help_panel=Group.OUTPUT),
    ] = RuleFormat.TEXT,
) -> None:
    """Explain a rule, or list all rules."""
    rules = all_rules()
    named = None if name is None or every else _named(name, rules)
    if output_format is RuleFormat.MARKDOWN:
        chosen = _by_code(rules) if named is None else [named]
        typer.echo("\n".join(map(rule_page, chosen)), nl=False)
    elif named is None:
        typer.echo(_listed(rules))
    else:
        typer.echo(_explained(named))


def _named(name: str, rules: Sequence[AnyRule]) -> AnyRule:
    for rule in rules:
        if name.upper() == rule.code or name.lower() == rule.name:
            return rule
    words = [word for rule in rules for word in (rule.code, rule.name)]
    raise SettingsError(
        f"no rule has the code or name `{name}`",
        hint=suggestion(name, words) or "`wheelfix rule --all` lists the rules",
    )


def _by_code(rules: Sequence[AnyRule]) -> list[AnyRule]:
    return sorted(rules, key=lambda rule: rule.code)


def _listed(rules: Sequence[AnyRule]) -> str:
    """Return a line for each rule."""
    width = max(len(rule.name) for rule in rules)
    return "\n".join(
        f"{rule.code}  {rule.name:{width}}  {rule.severity.label:7}"
        f"  {fix_safety(rule):6}  {rule.summary}".rstrip()
        for rule in _by_code(rules)
    )


def _explained(rule: AnyRule) -> str:
    explanation = (
        cleandoc(rule.explanation)
        if rule.explanation
        else "There is no text: Python was started with -OO, which strips docstrings."
    )
    return f"# {rule.name} ({rule.code}, {rule.severity.label})\n\n{explanation}"
