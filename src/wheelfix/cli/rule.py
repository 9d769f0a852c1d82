"""`wheelfix rule`."""

from collections.abc import Sequence
from enum import StrEnum
from inspect import cleandoc
from typing import TYPE_CHECKING, Annotated

import typer

from wheelfix.errors import SettingsError

if TYPE_CHECKING:
    from wheelfix.rules.base import AnyRule


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
    from wheelfix.plugins import all_rules

    rules = all_rules()
    chosen = rules if name is None or every else (_named(name, rules),)
    if output_format is Format.MARKDOWN:
        from wheelfix.reports.rulebook import rulebook

        typer.echo(rulebook(chosen), nl=False)
    elif name is None or every:
        typer.echo(_listed(rules))
    else:
        typer.echo(_explained(chosen[0]))


def _named(name: str, rules: "Sequence[AnyRule]") -> "AnyRule":
    for each in rules:
        if name.upper() == each.code or name.lower() == each.name:
            return each
    from wheelfix.tables import suggestion

    words = [word for each in rules for word in (each.code, each.name)]
    raise SettingsError(
        f"no rule has the code or name `{name}`",
        hint=suggestion(name, words) or "`wheelfix rule --all` lists the rules",
    )


def _listed(rules: "Sequence[AnyRule]") -> str:
    width = max((len(each.name) for each in rules), default=0)
    return "\n".join(
        f"{each.code}  {each.name:{width}}  {each.severity.label:7}"
        f"  {fix_safety(each):6}  {each.summary}".rstrip()
        for each in sorted(rules, key=lambda each: each.code)
    )


def fix_safety(rule: "AnyRule") -> str:
    """Return `safe` or `unsafe` for a rule that mends: the first word of "Fix safety"."""
    words = rule.explanation.partition("## Fix safety")[2].split(maxsplit=1)
    word = words[0].strip(":.,").lower() if words else ""
    return word if word in {"safe", "unsafe"} else ""


def _explained(rule: "AnyRule") -> str:
    explanation = (
        cleandoc(rule.explanation)
        if rule.explanation
        else ("There is no text: Python was started with -OO, which strips docstrings.")
    )
    return f"# {rule.name} ({rule.code}, {rule.severity.label})\n\n{explanation}"
