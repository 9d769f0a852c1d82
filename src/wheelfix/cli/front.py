"""What is answered at once: typer alone takes longer to import than all of it takes.

Whatever is asked with more words than here goes to `commands`.
"""

import ast
from collections.abc import Iterator, Mapping, Sequence
from importlib.metadata import entry_points
from pathlib import Path
from typing import NamedTuple

import wheelfix

HELP = """\
Usage: wheelfix [OPTIONS] COMMAND [ARGS]...

  Repair Linux wheels so that they work once installed.

Options:
  -v, --verbose         Say more; also before the command.
  -V, --version         Show the version and exit.
  --install-completion  Install completion for the current shell.
  --show-completion     Show completion for the current shell, to copy it or
                        customize the installation.
  -h, --help            Show this message and exit.

Commands:
  repair    Write wheels that work once installed.
  check     Say what is wrong with wheels as they stand.
  explain   Say what an object loads once installed, and why.
  tree      Show a wheel's libraries once installed: who needs whom.
  rule      Explain a rule, or list them.
  init      Write a table with every setting and its default.
  settings  Show what holds for a wheel, and where it comes from.
  trace     Run a command, and tell which files it really loads.
  verify    Install wheels into fresh environments, and try all that is in
            them.

  Exit codes: 0 fine or all repaired, 1 errors remain in a wheel, 2 anything
  else. Every option may also stand in [tool.wheelfix] of pyproject.toml, or
  in the environment.
"""


def answer(arguments: Sequence[str]) -> str | None:
    """Return what to print for a command line that asks for no work; None for all others."""
    match arguments:
        case ["-h" | "--help"]:
            return HELP
        case ["-V" | "--version"]:
            return f"wheelfix {wheelfix.__version__}\n"
        case ["rule"] | ["rule", "--all"]:
            found = () if entry_points(group="wheelfix.rules") else written_rules()
            return f"{listed(found)}\n" if found else None
        case ["rule", wanted] if not wanted.startswith("-"):
            found = written_rules(wanted)
            return f"{explained(found[0])}\n" if found else None
        case _:
            return None


def plain_check(arguments: Sequence[str], environ: Mapping[str, str]) -> tuple[str, ...]:
    """Return what `check` is to look at where nothing else is said; nothing for all others.

    An environment variable may stand for an option, and make a completion of a command line.
    """
    command, *words = arguments or [""]
    said = any(name.startswith(("WHEELFIX_", "_WHEELFIX_")) for name in environ)
    if command != "check" or said or any(word.startswith("-") for word in words):
        return ()
    return tuple(words)


class Plain(NamedTuple):
    """What `repair` is to work on, where nothing else is said but where to write it."""

    wheels: tuple[str, ...]
    wheel_dir: str | None = None


def plain_repair(arguments: Sequence[str], environ: Mapping[str, str]) -> Plain | None:
    """Return what `repair` is asked for by words that need no parser; None for all others.

    An environment variable may stand for an option, and make a completion of a command line.
    """
    command, *wheels = arguments or [""]
    prefixes = ("WHEELFIX_", "_WHEELFIX_", "AUDITWHEEL_")
    said = {name for name in environ if name.startswith(prefixes)}
    if command != "repair" or said - {"AUDITWHEEL_LD_LIBRARY_PATH"}:
        return None
    wheel_dir = None
    if len(wheels) > 2 and wheels[0] in _WHEEL_DIR:
        _, wheel_dir, *wheels = wheels
    elif len(wheels) > 2 and wheels[-2] in _WHEEL_DIR:
        *wheels, _, wheel_dir = wheels
    words = (*wheels, *([] if wheel_dir is None else [wheel_dir]))
    if not wheels or any(not word or word.startswith("-") for word in words):
        return None
    return Plain(tuple(wheels), wheel_dir)


_WHEEL_DIR = {"-w", "--wheel-dir"}


# --- Rules, without the modules that they work with -----------------------------------------------


class WrittenRule(NamedTuple):
    """A rule as it stands in its source."""

    code: str
    name: str
    severity: str
    explanation: str

    @property
    def summary(self) -> str:
        """The first line of the documentation."""
        return self.explanation.partition("\n")[0]

    @property
    def fix_safety(self) -> str:
        """`safe` or `unsafe` for a rule that mends: the first word of "Fix safety"."""
        words = self.explanation.partition("## Fix safety")[2].split(maxsplit=1)
        word = words[0].strip(":.,").lower() if words else ""
        return word if word in {"safe", "unsafe"} else ""


def listed(rules: Sequence[WrittenRule]) -> str:
    """Return what `wheelfix rule --all` says: a line for each rule."""
    width = max((len(each.name) for each in rules), default=0)
    return "\n".join(
        f"{each.code}  {each.name:{width}}  {each.severity:7}"
        f"  {each.fix_safety:6}  {each.summary}".rstrip()
        for each in sorted(rules)
    )


def explained(rule: WrittenRule) -> str:
    """Return what `wheelfix rule` says of a rule."""
    return f"# {rule.name} ({rule.code}, {rule.severity})\n\n{rule.explanation}"


def written_rules(wanted: str | None = None) -> tuple[WrittenRule, ...]:
    """Return wheelfix's own rules, or the one of a code or name; none where there is no source."""
    spelled = (f'"{wanted.upper()}"', f'"{wanted.lower()}"') if wanted is not None else ('"',)
    heads = ((block.partition(")\n")[0], block) for block in _definitions())
    found = (_read(block) for head, block in heads if any(each in head for each in spelled))
    return tuple(rule for rule in found if rule is not None)


def _read(definition: str) -> WrittenRule | None:
    match ast.parse(definition).body:
        case [ast.FunctionDef(decorator_list=[ast.Call(args=args)]) as check, *_]:
            code, name, severity, *_ = map(_spelled, args)
            return WrittenRule(code, name, severity.lower(), ast.get_docstring(check) or "")
        case _:
            return None


def _definitions() -> Iterator[str]:
    """Yield the definitions of rules: two empty lines stand before and after each (PEP 8)."""
    for file in sorted(Path(wheelfix.__file__).with_name("rules").glob("*.py")):
        for block in file.read_text(encoding="utf-8").split("\n\n\n"):
            if block.startswith(("@rule(", "@set_rule(")):
                yield block


def _spelled(argument: ast.expr) -> str:
    """Return `"WF101"` as WF101, and `Severity.ERROR` as ERROR."""
    match argument:
        case ast.Constant(value=str(text)) | ast.Attribute(attr=text):
            return text
        case _:
            return ""
