"""`wheelfix rule`."""

from collections.abc import Sequence
from enum import StrEnum
from inspect import cleandoc
from typing import Annotated

import typer

from wheelfix.cli.config.values import suggestion
from wheelfix.cli.front import WrittenRule, explained, listed
from wheelfix.errors import SettingsError
from wheelfix.reports.rule_docs import rulebook
from wheelfix.rules.plugins import all_rules
from wheelfix.rules.rule import AnyRule


class Format(StrEnum):
    """How rules are printed."""

    TEXT = "text"
    MARKDOWN = "markdown"


def rule(
    name: Annotated[
        str | None,
        typer.Argument(metavar="[CODE|NAME]", help="A rule.", show_default=False),
    ] = None,
    every: Annotated[bool, typer.Option("--all", help="List all rules.")] = False,
    output_format: Annotated[
        Format, typer.Option("--output-format", help="Text, or Markdown with all explanations.")
    ] = Format.TEXT,
) -> None:
    """Explain a rule, or list them."""
    rules = all_rules()
    chosen = rules if name is None or every else (_named(name, rules),)
    if output_format is Format.MARKDOWN:
        typer.echo(rulebook(chosen), nl=False)
    elif name is None or every:
        typer.echo(listed([written(each) for each in rules]))
    else:
        typer.echo(explained(written(chosen[0])))


def _named(name: str, rules: Sequence[AnyRule]) -> AnyRule:
    for each in rules:
        if name.upper() == each.code or name.lower() == each.name:
            return each
    words = [word for each in rules for word in (each.code, each.name)]
    raise SettingsError(
        f"no rule has the code or name `{name}`",
        hint=suggestion(name, words) or "`wheelfix rule --all` lists the rules",
    )


def written(rule: AnyRule) -> WrittenRule:
    """Return what there is to say of a rule."""
    explanation = (
        cleandoc(rule.explanation)
        if rule.explanation
        else "There is no text: Python was started with -OO, which strips docstrings."
    )
    return WrittenRule(rule.code, rule.name, rule.severity.label, explanation)
