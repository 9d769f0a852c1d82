"""Excerpts of the documentation of rules: sections and sentences of their docstrings."""

import re
from collections.abc import Mapping
from inspect import cleandoc

from wheelfix.rules.findings import Safety

_HEADING = "## "
_OWN = "WF"
"""What the codes of wheelfix's own rules begin with; those of plug-ins must not."""


def sections(explanation: str) -> Mapping[str, str]:
    """Return the sections by heading; the summary has an empty heading."""
    parts: dict[str, list[str]] = {"": []}
    heading = ""
    for line in cleandoc(explanation).splitlines():
        if line.startswith(_HEADING):
            heading = line.removeprefix(_HEADING)
            parts[heading] = []
        else:
            parts[heading].append(line)
    return {heading: "\n".join(lines).strip() for heading, lines in parts.items()}


def why(explanation: str) -> str:
    """Return the first paragraph of "Why is this bad?" as one line."""
    paragraph = sections(explanation).get("Why is this bad?", "").partition("\n\n")[0]
    return " ".join(paragraph.split())


def why_briefly(explanation: str) -> str:
    """Return the first sentence of "Why is this bad?"."""
    return re.split(r"(?<=[.!?]) ", why(explanation), maxsplit=1)[0]


def fix_safety(explanation: str) -> str:
    """Return `safe` or `unsafe`, the first word of "Fix safety"; empty for a rule without a fix."""
    words = sections(explanation).get("Fix safety", "").split(maxsplit=1)
    word = words[0].strip(":.,").lower() if words else ""
    return word if word in set(Safety) else ""


def rule_address(code: str, name: str, site: str) -> str:
    """Return the address of the rule's page on `site`, the documentation site of wheelfix.

    It is empty without a site, and for a rule of a plug-in: the site has none of its pages.
    """
    return f"{site}{rule_path(name)}/" if site and code.startswith(_OWN) else ""


def rule_path(name: str) -> str:
    """Return the path of the page of the rule `name` on the documentation site."""
    return f"rules/{name}"
