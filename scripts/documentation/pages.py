"""The pages of the documentation site: those of docs/, and a page for each rule and command.

`python -m documentation.pages FOLDER` writes them. `python -m documentation.pages` without a folder
writes the generated parts that pages of docs/ have as copies, for readers on a code host.
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
from documentation.parts import COMMITTED, EVERY_RULE, FAMILIES, PARTS, ROOT, SCHEMAS, schema_files
from wheelfix.cli.app import COMMANDS, app
from wheelfix.cli.help import option_sections
from wheelfix.cli.help_content import examples_of, question_of
from wheelfix.reports.rule_excerpts import fix_safety, rule_path, sections
from wheelfix.rules.rule import AnyRule

_MARK = re.compile(r"^<!-- generated: ([\w-]+) -->\n(.*?)^<!-- end -->$", re.MULTILINE | re.DOTALL)
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
    return _MARK.sub(lambda mark: PARTS[mark[1]](), page).replace(
        "../../CHANGELOG.md", "changelog.md"
    )


def shown_on_code_host(page: str) -> Iterator[tuple[str, str]]:
    """Yield the name of each generated part of a page, and what stands for it where no site is."""
    return ((mark[1], mark[2]) for mark in _MARK.finditer(page))


def with_committed_parts(page: str) -> str:
    """Return a page of docs/ with the parts that it has as copies written anew."""
    return _MARK.sub(
        lambda mark: (
            f"<!-- generated: {mark[1]} -->\n\n{PARTS[mark[1]]().strip()}\n\n<!-- end -->"
            if mark[1] in COMMITTED
            else mark[0]
        ),
        page,
    )


def _rule(rule: AnyRule) -> str:
    """Return the page of a rule, with a link to its family in the table of rules."""
    family = rule.code[:3]
    title = f"{family}xx: {FAMILIES[family]}"
    anchor = re.sub(r"[^a-z0-9]+", "-", title.lower())
    texts = dict(sections(rule.explanation))
    summary = texts.pop("")
    fixed = {
        "safe": "`wheelfix repair` fixes it.",
        "unsafe": "`wheelfix repair --unsafe-fixes` fixes it.",
        "": "`wheelfix repair` does not fix it.",
    }[fix_safety(rule.explanation)]
    lines = [f"# {rule.name} ({rule.code})", ""]
    lines += [f"[Rules](index.md) / [{title}](index.md#{anchor})", ""]
    lines += [_others_of_family(rule), ""]
    lines += [f"**{rule.severity.label.capitalize()}.** {summary} {fixed}", ""]
    for heading, text in texts.items():
        lines += [f"## {heading}", "", text, ""]
    return "\n".join(lines)


def _others_of_family(rule: AnyRule) -> str:
    """Return links to the rules of a family, in the order of their codes."""
    family = [one for one in EVERY_RULE if one.code[:3] == rule.code[:3]]
    links = (
        f"**{one.code}**"
        if one is rule
        else f'[{one.code}]({rule_path(one.name).rpartition("/")[2]}.md "{one.name}")'
        for one in family
    )
    return f"<small>{' '.join(links)}</small>"


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
    lines = [
        f"# wheelfix {name}",
        "",
        f"*{question_of(name)}*",
        "",
        paragraphs[0],
        "",
        "```text",
        usage,
        "```",
        "",
    ]
    for paragraph in paragraphs[1:]:
        lines += [paragraph, ""]
    if examples := examples_of(name):
        shown = "\n".join(f"{command}  # {purpose}" for command, purpose in examples)
        lines += ["## Examples", "", "```text", shown, "```", ""]
    for title, rows in option_sections(command.get_params(context), context):
        if rows:
            lines += [f"## {title}", "", *(line for row in rows for line in _option(*row))]
    if command.epilog:
        lines += ["## Settings", "", prose(command.epilog), ""]
    return "\n".join(lines)


def _option(flags: str, text: str) -> Iterator[str]:
    """Yield the lines of a definition list: the flags, the help, and its default."""
    details = _BRACKETS.search(text)
    facts = f" *({prose(details[1])})*" if details else ""
    yield f"`{flags}`"
    yield f":   {prose(_BRACKETS.sub('', text))}{facts}"
    yield ""


def main() -> None:
    """Write all pages into the folder that is named, or the copies in docs/."""
    if len(sys.argv) < 2:
        for file in (ROOT / "docs").rglob("*.md"):
            page = file.read_text(encoding="utf-8")
            file.write_text(with_committed_parts(page), encoding="utf-8")
        return
    folder = Path(sys.argv[1])
    shutil.copytree(ROOT / "docs", folder, dirs_exist_ok=True)
    for path, text in site_pages().items():
        file = folder / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
