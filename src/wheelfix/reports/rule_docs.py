"""The documentation of the rules, from their docstrings."""

import re
from collections.abc import Mapping, Sequence
from inspect import cleandoc

from wheelfix.rules.findings import Safety
from wheelfix.rules.rule import AnyRule

_HEADING = "## "
_FAMILIES = {
    "WF1": "Search paths",
    "WF2": "Needed libraries",
    "WF3": "Symbols and names",
    "WF4": "Vendored libraries",
    "WF5": "Archive and metadata",
    "WF6": "Loadability and hardening",
    "WF7": "Size",
    "WF8": "Platform",
    "WF9": "The set of wheels, and wheelfix itself",
}
_HEAD = """\
# Rules

Made from the rules' own docstrings by `wheelfix rule --all --output-format markdown`. Each can be
selected and ignored by its code, by the beginning of one, and by its name.
"""


def sections(rule: AnyRule) -> Mapping[str, str]:
    """Return the sections by heading; the summary has an empty heading."""
    found: dict[str, list[str]] = {"": []}
    heading = ""
    for line in cleandoc(rule.explanation).splitlines():
        if line.startswith(_HEADING):
            heading = line.removeprefix(_HEADING)
            found[heading] = []
        else:
            found[heading].append(line)
    return {heading: "\n".join(lines).strip() for heading, lines in found.items()}


def why(rule: AnyRule) -> str:
    """Return the first paragraph of "Why is this bad?" as one line."""
    paragraph = sections(rule).get("Why is this bad?", "").partition("\n\n")[0]
    return " ".join(paragraph.split())


def why_briefly(rule: AnyRule) -> str:
    """Return the first sentence of "Why is this bad?"."""
    return re.split(r"(?<=[.!?]) ", why(rule), maxsplit=1)[0]


def fix_safety(rule: AnyRule) -> str:
    """Return `safe` or `unsafe`, the first word of "Fix safety"; empty for a rule without a fix."""
    words = sections(rule).get("Fix safety", "").split(maxsplit=1)
    word = words[0].strip(":.,").lower() if words else ""
    return word if word in set(Safety) else ""


def anchor(rule: AnyRule) -> str:
    """Return the fragment of the rule's heading in the document, as code hosts make it."""
    return f"{rule.code}-{rule.name}".lower()


def rules_document(rules: Sequence[AnyRule]) -> str:
    """Return the Markdown document of `rules`."""
    ordered = sorted(rules, key=lambda rule: rule.code)
    parts = [_HEAD]
    family = ""
    for rule in ordered:
        if rule.code[:3] != family:
            family = rule.code[:3]
            parts.append(f"## {family}xx: {_FAMILIES.get(family, 'More rules')}\n")
        parts.append(_chapter(rule))
    return "\n".join(parts).rstrip("\n") + "\n"


def _chapter(rule: AnyRule) -> str:
    summary, *_ = (texts := dict(sections(rule))).values()
    texts.pop("")
    severity = rule.severity.label.capitalize()
    lines = [f"### {rule.code} {rule.name}", "", f"**{severity}.** {summary}", ""]
    for heading, text in texts.items():
        lines += [f"#### {heading}", "", text, ""]
    return "\n".join(lines)
