"""Whether pip and uv install the wheel.

Their checks of scripts and entry points are stricter than the specification, and differ. The tests
install random wheels with both.
"""

import re
from collections.abc import Iterator

from wheelfix.rules.context import Context
from wheelfix.rules.findings import Hit, Severity
from wheelfix.rules.rule import rule

_SCRIPTS = {"console_scripts", "gui_scripts"}
_NAME = re.compile(r"[^\s\[\]/=]+")
_FUNCTION = re.compile(r"\w+(\.\w+)*:\w+(\.\w+)*\s*(\[\s*[\w.-]+(\s*,\s*[\w.-]+)*\s*\])?")
_INTERPRETER = re.compile(r"(python|pypy|graalpy)w?[\d.]*(\.exe)?", re.IGNORECASE)
"""Names that uv reserves for the Pythons of an environment."""
_MOST = 5


@rule("WF519", "installer-refuses", Severity.ERROR)
def installer_refuses(context: Context) -> Iterator[Hit]:
    """Installation by pip or uv fails because of scripts or entry points.

    ## What it does
    Reports what one of the two refuses: in `entry_points.txt`, lines that are no entry points,
    sections and names that occur twice, and scripts whose name is no file name or whose value is
    not `module:function`; in `*.data/scripts`, folders and the names of Python itself.

    ## Why is this bad?
    The installation fails: uv with "invalid console script", "`entry_points.txt` is invalid" or
    "Scripts must not use the reserved name", pip with "Invalid script entry point". What one
    installer accepts, the other may refuse.

    ## Example
    `[console_scripts]` with `demo = demo.cli`, which names a module and no function.

    ## Common causes
    - `project.scripts` of `pyproject.toml` has a value without a function. **Solution**: such as
      `demo = "demo.cli:main"`.
    - `setup.py` has a script in a folder of its own. **Solution**: an entry point, or a script
      without a folder.

    ## Fix safety
    Not fixed: only the project knows the intended value.
    """
    wheel = context.wheel
    entry_points = f"{wheel.dist_info}/entry_points.txt"
    problems = list(_problems(wheel.texts.get(entry_points, "")))
    if problems:
        more = [f"and {len(problems) - _MOST} more"] if len(problems) > _MOST else []
        yield Hit(
            message="has entry points that pip or uv refuses",
            member=entry_points,
            notes=(*problems[:_MOST], *more),
            hint="fix them in `pyproject.toml`, and build the wheel again",
        )
    folder = f"{wheel.data_dir}/scripts/"
    for member in wheel.members:
        name = member.name.removeprefix(folder)
        if name == member.name:
            continue
        if "/" in name:
            message = "is in a folder below `scripts`, which uv refuses"
        elif _INTERPRETER.fullmatch(name):
            message = f"is a script called `{name}`, a name that uv reserves for Python itself"
        else:
            continue
        yield Hit(message=message, member=member.name, hint="rename it where the wheel is built")


def _problems(text: str) -> Iterator[str]:
    """Yield why lines of entry_points.txt are refused."""
    section = ""
    sections: set[str] = set()
    names: set[str] = set()
    for line in filter(None, map(str.strip, text.splitlines())):
        name, equals, value = (part.strip() for part in line.partition("="))
        if line.startswith("["):
            section = line[1:-1].strip()
            names.clear()
            if not line.endswith("]") or not section or section in sections:
                yield f"`{line}` is no section, or the second of its name"
            sections.add(section)
            continue
        if line.startswith("#"):
            continue
        elif not section or not equals or not name or name in names:
            yield f"`{line}` is no `name = value` in a section, or the second of its name"
        elif section in _SCRIPTS:
            yield from _script_problems(name, value)
        names.add(name)


def _script_problems(name: str, value: str) -> Iterator[str]:
    if not _NAME.fullmatch(name) or name in {".", ".."}:
        yield f"`{name} = {value}`: the name is not that of a file in the folder for scripts"
    elif _INTERPRETER.fullmatch(name):
        yield f"`{name} = {value}`: uv reserves the name for Python itself"
    elif not _FUNCTION.fullmatch(value):
        yield f"`{name} = {value}`: the value is not `module:function`"
