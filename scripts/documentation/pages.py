"""The pages of the documentation site: those of docs/, and a page for each rule and command.

`python -m documentation.pages FOLDER` writes them.
"""

import re
import shutil
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from posixpath import relpath
from typing import Any

import typer

from documentation.markup import prose, with_linked_rules
from documentation.parts import EVERY_RULE, PARTS, ROOT, SCHEMAS, schema_files
from wheelfix.cli.app import COMMANDS, app
from wheelfix.reports.rule_docs import FAMILIES, rule_page, rule_path
from wheelfix.rules.rule import AnyRule

_MARK = re.compile(r"^<!-- generated: ([\w-]+) -->$", re.MULTILINE)
_BRACKETS = re.compile(r"  \[([^\[\]]*)\]$")


def site_pages() -> Mapping[str, str]:
    """Return the text of every file of the site by its path."""
    docs = ROOT / "docs"
    pages = {
        file.relative_to(docs).as_posix(): _filled(file.read_text(encoding="utf-8"))
        for file in sorted(docs.rglob("*.md"))
    }
    pages["reference/changelog.md"] = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
    for rule in EVERY_RULE:
        pages[f"{rule_path(rule.name)}.md"] = _rule(rule)
    for name in COMMANDS:
        pages[f"reference/commands/{name}.md"] = _command(name)
    linked = {path: with_linked_rules(text, _addresses(path)) for path, text in pages.items()}
    for name, text in schema_files().items():
        linked[f"reference/{SCHEMAS}/{name}"] = text
    return linked


def _filled(page: str) -> str:
    """Return a page with its generated parts. Raises `KeyError` for an unknown part."""
    return _MARK.sub(lambda mark: PARTS[mark[1]](), page)


def _rule(rule: AnyRule) -> str:
    """Return the page of a rule, with a link to its family in the table of rules."""
    family = rule.code[:3]
    title = f"{family}xx: {FAMILIES[family]}"
    anchor = re.sub(r"[^a-z0-9]+", "-", title.lower())
    heading, _, rest = rule_page(rule).partition("\n")
    return f"{heading}\n\n[Rules](index.md) / [{title}](index.md#{anchor})\n{rest}"


def _addresses(page: str) -> Mapping[str, str]:
    """Return the link from `page` to the page of each rule by code."""
    folder = page.rpartition("/")[0] or "."
    return {rule.code: relpath(f"{rule_path(rule.name)}.md", folder) for rule in EVERY_RULE}


# --- A command, as its help describes it ----------------------------------------------------------


def _command(name: str) -> str:
    """Return the page of a command."""
    group: Any = typer.main.get_command(app)
    parent = group.make_context("wheelfix", [], resilient_parsing=True)
    listed = group.get_command(parent, name)
    context = listed.make_context(name, [], parent=parent, resilient_parsing=True)
    command = context.command
    usage = context.get_usage().removeprefix("Usage: ")
    paragraphs = [prose(text) for text in command.help.split("\n\n")]
    lines = [f"# wheelfix {name}", "", paragraphs[0], "", "```text", usage, "```", ""]
    for paragraph in paragraphs[1:]:
        lines += [paragraph, ""]
    for kind, title in (("argument", "Arguments"), ("option", "Options")):
        chosen = [one for one in command.get_params(context) if one.param_type_name == kind]
        if chosen:
            lines += [f"## {title}", ""]
            lines += [line for one in chosen for line in _option(one, context)]
    if command.epilog:
        lines += ["## Examples", "", "```text", command.epilog.strip(), "```", ""]
    return "\n".join(lines)


def _option(parameter: Any, context: Any) -> Iterator[str]:  # noqa: ANN401 - click's own classes
    """Yield the lines of a definition list: the flags, the help, environment and default."""
    record = parameter.get_help_record(context)
    if record is None:
        return
    flags, text = record
    details = _BRACKETS.search(text)
    yield f"`{flags}`"
    yield f":   {prose(_BRACKETS.sub('', text))}{f' *({prose(details[1])})*' if details else ''}"
    yield ""


def main() -> None:
    """Write all pages into the folder that is named."""
    folder = Path(sys.argv[1])
    shutil.copytree(ROOT / "docs", folder, dirs_exist_ok=True)
    for path, text in site_pages().items():
        file = folder / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
