"""The rules' own documentation, in parts and as one Markdown document."""

import re
from collections.abc import Mapping, Sequence

from wheelfix.rules.findings import Severity
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
    """Return the documentation by heading; the summary under the empty one."""
    found: dict[str, list[str]] = {"": []}
    heading = ""
    for line in _trimmed(rule.explanation):
        if line.startswith(_HEADING):
            heading = line.removeprefix(_HEADING)
            found[heading] = []
        else:
            found[heading].append(line)
    return {heading: "\n".join(lines).strip() for heading, lines in found.items()}


def _trimmed(docstring: str) -> list[str]:
    """Return the lines of a docstring without their indentation (PEP 257); 3.13 compiles it so."""
    first, *others = docstring.strip().splitlines() or [""]
    indented = (len(line) - len(line.lstrip()) for line in others if line.strip())
    margin = min(indented, default=0)
    return [first, *(line[margin:] for line in others)]


def why(rule: AnyRule) -> str:
    """Return in one line why what the rule finds is bad."""
    paragraph = sections(rule).get("Why is this bad?", "").partition("\n\n")[0]
    return " ".join(paragraph.split())


def why_briefly(rule: AnyRule) -> str:
    """Return the first sentence of it."""
    return re.split(r"(?<=[.!?]) ", why(rule), maxsplit=1)[0]


def anchor(rule: AnyRule) -> str:
    """Return the fragment of the rule's heading in the document, as code hosts make it."""
    return f"{rule.code}-{rule.name}".lower()


def rulebook(rules: Sequence[AnyRule]) -> str:
    """Return the document of all `rules`."""
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
    lines = [f"### {rule.code} {rule.name}", "", f"**{_severity(rule.severity)}.** {summary}", ""]
    for heading, text in texts.items():
        lines += [f"#### {heading}", "", text, ""]
    return "\n".join(lines)


def _severity(severity: Severity) -> str:
    return severity.label.capitalize()
