"""The parts of pages that come from the program, by the name of their mark.

What stands between `<!-- generated: targets -->` and `<!-- end -->` in a page of docs/ is what
readers see on a code host: a copy of the part `targets`, or where to look for it. The site has the
part.
"""

import inspect
import json
import tomllib
from collections.abc import Callable, Iterator, Mapping
from enum import Enum
from importlib.resources import files
from pathlib import Path
from typing import Any, cast

import yaml

import wheelfix
from documentation.markup import attributes, code, prose, signature, table
from wheelfix import api
from wheelfix.analysis.never_bundled import NEVER, WITH_DRIVERS, listed
from wheelfix.cli.app import COMMANDS
from wheelfix.cli.config.json_schema import schema as settings_schema
from wheelfix.cli.config.settings_text import toml
from wheelfix.environments.run_environment_rules import ENVIRONMENT_RULES
from wheelfix.errors import ExitCode
from wheelfix.grouping import grouped
from wheelfix.loader.install_schemes import schemes
from wheelfix.loader.targets import find, names
from wheelfix.reports.check_formats import Format
from wheelfix.reports.rule_excerpts import fix_safety, rule_path
from wheelfix.rules.registry import RULES, SET_RULES
from wheelfix.rules.rule import AnyRule
from wheelfix.settings import SETTING_FIELDS, Group, SettingField
from wheelfix.system.packaged_text import read_text
from wheelfix.wheel.model import WheelName

ROOT = Path(__file__).parents[2]
EVERY_RULE: tuple[AnyRule, ...] = tuple(
    sorted((*RULES, *SET_RULES, *ENVIRONMENT_RULES), key=lambda rule: rule.code)
)
"""wheelfix's own rules by code; those of plug-ins have no page."""
FAMILIES = {
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
"""The families of wheelfix's own rules, by the beginning of their codes."""
SCHEMAS = "schemas"
"""The folder of the JSON schemas beside the page about them."""


def rules() -> str:
    """Return a table of rules for each family."""
    lines: list[str] = []
    for beginning, family in FAMILIES.items():
        rows = [
            (
                rule.code,
                f"[{rule.name}](../{rule_path(rule.name)}.md)",
                rule.severity.label,
                prose(rule.summary),
                fix_safety(rule.explanation),
            )
            for rule in EVERY_RULE
            if rule.code.startswith(beginning)
        ]
        head = ("code", "name", "severity", "what is wrong", "fix")
        lines += [f"## {beginning}xx: {family}", "", table(head, rows), ""]
    return "\n".join(lines)


def commands() -> str:
    """Return the list of commands."""
    rows = [(f"[{name}]({name}.md)", prose(entry.summary)) for name, entry in COMMANDS.items()]
    return table(("command", "what it does"), rows)


# --- Settings -------------------------------------------------------------------------------------


def settings() -> str:
    """Return a chapter for each topic, as in help texts, with a section for each setting."""
    properties = settings_schema()["properties"]
    by_group = grouped(SETTING_FIELDS, lambda field: field.setting.group)
    lines: list[str] = []
    for group in Group:
        sections = [_setting(field, properties[field.key]) for field in by_group.get(group, ())]
        lines += [f"## {group}", "", *sections] if sections else []
    return "\n".join(lines)


def _setting(field: SettingField, schema: Mapping[str, Any]) -> str:
    setting = field.setting
    rows = [
        ("Type", _type(schema)),
        ("Default", "none" if field.default is None else code(toml(field.default))),
        ("Flag", ", ".join(map(code, field.flags))),
        ("Commands", ", ".join(f"[{name}](commands/{name}.md)" for name in setting.commands)),
        ("Environment", ", ".join(map(code, field.variables))),
    ]
    if not setting.commands:  # a setting that only a file can have
        rows = rows[:2]
    if setting.is_added:
        rows.append(("Layers", "values add up: file, environment, flags"))
    if setting.is_run_wide:
        rows.append(("Overrides", "cannot be overridden for some wheels"))
    lines = [f"### {field.key}", "", prose(setting.help), "", table(rows[0], rows[1:]), ""]
    if isinstance(field.type, type) and issubclass(field.type, Enum):
        docs = attributes(field.type)
        values = [(code(str(value.value)), prose(docs[value.name].text)) for value in field.type]
        if any(text for _, text in values):
            lines += [table(("value", "meaning"), values), ""]
    return "\n".join(lines)


def _type(schema: Mapping[str, Any]) -> str:
    """Return a JSON schema in words."""
    if "enum" in schema:
        return ", ".join(code(toml(value)) for value in schema["enum"])
    if "anyOf" in schema:
        return " or ".join(_type(one) for one in schema["anyOf"])
    match schema.get("type"):
        case "array":
            return f"list of: {_type(schema['items'])}"
        case "object" if "properties" in schema:
            return f"table with {', '.join(code(key) for key in schema['properties'])}"
        case "object":
            return f"table of: {_type(schema['additionalProperties'])}"
        case kind:
            bounds = [
                f"{word} {schema[key]:,}"
                for word, key in (("from", "minimum"), ("to", "maximum"))
                if key in schema
            ]
            return " ".join([str(kind), *bounds])


# --- Reports --------------------------------------------------------------------------------------


def formats() -> str:
    """Return the table of the formats of `check`."""
    docs = attributes(Format)
    rows = [(code(form.value), prose(docs[form.name].text)) for form in Format]
    return table(("format", "what it is"), rows)


def exit_codes() -> str:
    """Return the table of exit codes."""
    docs = attributes(ExitCode)
    rows = [(str(exit_code.value), prose(docs[exit_code.name].text)) for exit_code in ExitCode]
    return table(("exit code", "meaning"), rows)


def schema_files() -> Mapping[str, str]:
    """Return the JSON schemas by file name."""
    folder = files("wheelfix.reports").joinpath("schemas")
    found = sorted(folder.iterdir(), key=lambda file: file.name)
    return {file.name: file.read_text("utf-8") for file in found}


def schemas() -> str:
    """Return a chapter for each JSON schema, with its keys."""
    lines: list[str] = []
    for name, text in schema_files().items():
        schema = json.loads(text)
        title = name.removesuffix(".schema.json")
        rows = [
            (code(path), kind, prose(description))
            for path, kind, description in _keys(schema, schema, "", frozenset())
        ]
        lines += [f"## {title}", "", prose(_sentence(schema["title"])), ""]
        lines += [prose(schema["description"]), ""] if "description" in schema else []
        lines += [f"[{name}]({SCHEMAS}/{name})", ""]
        if title != "settings":  # they have a page of their own
            lines += [table(("key", "type", "meaning"), rows), ""]
    return "\n".join(lines)


def _sentence(text: str) -> str:
    return f"{text[:1].upper()}{text[1:]}."


def _keys(
    node: Mapping[str, Any], schema: Mapping[str, Any], path: str, open_: frozenset[str]
) -> Iterator[tuple[str, str, str]]:
    """Yield each key below `node`: its path, type and description. A recursion is not entered."""
    reference = str(node.get("$ref", "")).rpartition("/")[2]
    if reference in open_:
        return
    open_ = open_ | {reference} if reference else open_
    whole = {**schema["$defs"][reference], **node} if reference else node
    if reference:
        inherited = schema["$defs"][reference]
        yield from _keys(inherited, schema, path, open_)
        whole = node
    for key, value in whole.get("properties", {}).items():
        place = f"{path}.{key}" if path else key
        yield place, _kind(value, schema), _description(value, schema)
        yield from _keys(value, schema, place, open_)
    if isinstance(items := whole.get("items"), Mapping):
        yield from _keys(cast("Mapping[str, Any]", items), schema, f"{path}[]", open_)
    if isinstance(values := whole.get("additionalProperties"), Mapping):
        yield from _keys(cast("Mapping[str, Any]", values), schema, f"{path}.*", open_)
    for choice in (*whole.get("anyOf", ()), *whole.get("oneOf", ())):
        yield from _keys(choice, schema, path, open_)


def _resolved(node: Mapping[str, Any], schema: Mapping[str, Any]) -> Mapping[str, Any]:
    reference = str(node.get("$ref", "")).rpartition("/")[2]
    return {**_resolved(schema["$defs"][reference], schema), **node} if reference else node


def _kind(node: Mapping[str, Any], schema: Mapping[str, Any]) -> str:
    whole = _resolved(node, schema)
    if "const" in whole:
        return code(json.dumps(whole["const"]))
    if "enum" in whole:
        return ", ".join(code(json.dumps(value)) for value in whole["enum"])
    choices = (*whole.get("anyOf", ()), *whole.get("oneOf", ()))
    if choices:
        return " or ".join(dict.fromkeys(_kind(choice, schema) for choice in choices))
    kinds = whole.get("type", "any")
    return kinds if isinstance(kinds, str) else " or ".join(kinds)


def _description(node: Mapping[str, Any], schema: Mapping[str, Any]) -> str:
    return str(_resolved(node, schema).get("description", ""))


# --- Machines and libraries -----------------------------------------------------------------------


def _presets() -> Mapping[str, Any]:
    text = files("wheelfix.loader").joinpath("targets.toml").read_text("utf-8")
    return tomllib.loads(text)


def targets() -> str:
    """Return the table of platforms."""
    described = _presets()["platforms"]
    rows: list[tuple[str, ...]] = []
    for name in names():
        platform = name.partition(":")[0]
        if platform in described:
            target = find(name)
            newest = ", ".join(f"{prefix} {version}" for prefix, version in target.versions.items())
            rows.append((code(name), prose(described[platform]["summary"]), newest))
    return table(("target", "what it describes", "newest symbol versions"), rows)


def target_libraries() -> str:
    """Return the table of the libraries that platforms have without further packages."""
    data = _presets()
    rows = [
        (
            platform,
            ", ".join(code(name) for name in sorted(find(_a_release(platform, data)).gives)),
        )
        for platform in data["platforms"]
        if "releases" in data["platforms"][platform]
    ]
    return table(("platform", "libraries of the minimal image"), rows)


def _a_release(platform: str, data: Mapping[str, Any]) -> str:
    return f"{platform}:{next(iter(data['platforms'][platform]['releases']))}"


def target_pythons() -> str:
    """Return the table of Pythons."""
    described = _presets()["pythons"]
    rows = [(code(name), prose(described[name]["summary"])) for name in described]
    return table(("Python", "what it describes"), rows)


def install_schemes() -> str:
    """Return the table of the install schemes of one Python."""
    name = WheelName.parse("demo-1.0-cp312-cp312-manylinux_2_28_x86_64.whl")
    rows = [
        (code(scheme.name), *map(code, (scheme.platlib, scheme.data, scheme.scripts)))
        for scheme in schemes(name)
    ]
    return table(("scheme", "platlib", "data", "scripts"), rows)


def providers() -> str:
    """Return the table of the well-known providers."""
    tables = json.loads(read_text("wheelfix.providers", "well-known.json"))
    rows = [
        (
            code(known["name"]),
            known["source"],
            code(f"{known['scheme']}: {known['directory']}"),
            ", ".join(code(library) for library in known["libraries"][:6])
            + (f" and {more:,} more" if (more := len(known["libraries"]) - 6) > 0 else ""),
        )
        for known in tables
    ]
    return table(("name", "as of", "folder", "libraries"), rows)


def never_grafted() -> str:
    """Return the table of the libraries that are never grafted."""
    return _drivers(NEVER)


def installed_with_drivers() -> str:
    """Return the table of the libraries that a wheel may leave to a machine with a driver."""
    return _drivers(WITH_DRIVERS)


def _drivers(file: str) -> str:
    rows = [(", ".join(map(code, globs)), prose(reason)) for globs, reason in listed(file)]
    return table(("libraries", "reason"), rows)


# --- Python, the action, the changelog ------------------------------------------------------------


def python_api() -> str:
    """Return a chapter for each public name."""
    return "\n".join(_public(name, getattr(wheelfix, name)) for name in api.__all__)


def _public(name: str, thing: object) -> str:
    lines = [f"## {name}", ""]
    if inspect.isfunction(thing):
        lines += ["```python", signature(thing), "```", ""]
    lines += [inspect.cleandoc(thing.__doc__ or ""), ""]
    if isinstance(thing, type) and name != "Settings":  # it has a page of its own
        rows = [
            (code(key), code(attribute.type) if attribute.type else "", prose(attribute.text))
            for key, attribute in attributes(thing).items()
            if not key.startswith("_")
        ]
        lines += [table(("attribute", "type", "meaning"), rows), ""] if rows else []
    return "\n".join(lines)


def action_inputs() -> str:
    """Return the table of the action's inputs."""
    inputs = _action()["inputs"]
    rows = [
        (code(name), code(given["default"] or " "), prose(given["description"]))
        for name, given in inputs.items()
    ]
    return table(("input", "default", "meaning"), rows)


def action_outputs() -> str:
    """Return the table of the action's outputs."""
    outputs = _action()["outputs"]
    rows = [(code(name), prose(given["description"])) for name, given in outputs.items()]
    return table(("output", "meaning"), rows)


def _action() -> dict[str, dict[str, dict[str, str]]]:
    text = (ROOT / "action.yml").read_text(encoding="utf-8")
    return cast("dict[str, dict[str, dict[str, str]]]", yaml.safe_load(text))


PARTS: Mapping[str, Callable[[], str]] = {
    part.__name__.replace("_", "-"): part
    for part in (
        rules,
        commands,
        settings,
        formats,
        exit_codes,
        schemas,
        targets,
        target_libraries,
        target_pythons,
        providers,
        never_grafted,
        installed_with_drivers,
        install_schemes,
        python_api,
        action_inputs,
        action_outputs,
    )
}

COMMITTED = frozenset(PARTS) - {"rules", "settings", "schemas", "python-api", "commands"}
"""The parts that pages have as copies; the others are long, or link to pages of the site only."""
