"""Whether pip, uv and PyPI accept `entry_points.txt` and the scripts of the wheel, and these start.

Their checks of scripts and entry points are stricter than the specification, and differ. The tests
install random wheels with both.
"""

import re
from bisect import bisect_left
from collections.abc import Iterator, Mapping, Sequence

from wheelfix.analysis.import_order import ImportOrder
from wheelfix.analysis.load_failures import NAME_ANOTHER
from wheelfix.grouping import flatten
from wheelfix.loader.install_schemes import site_path
from wheelfix.python_sources.imported_modules import DYNAMIC, bound_names
from wheelfix.rules.context import Context
from wheelfix.rules.findings import Hit, Severity
from wheelfix.rules.pypi_checks import IndexAnswer
from wheelfix.rules.rule import rule
from wheelfix.settings import Index
from wheelfix.system import deferred
from wheelfix.system.lazy_patterns import lazy_pattern
from wheelfix.text import FEW, first_of, join_some, them
from wheelfix.wheel.model import Wheel

_SCRIPTS = {"console_scripts", "gui_scripts"}
_NAME = lazy_pattern(r"[^\s\[\]/=]+")
_FUNCTION = lazy_pattern(r"\w+(\.\w+)*:\w+(\.\w+)*\s*(\[\s*[\w.-]+(\s*,\s*[\w.-]+)*\s*\])?")
_INTERPRETER = lazy_pattern(r"(python|pypy|graalpy)w?[\d.]*(\.exe)?", re.IGNORECASE)
"""Names that uv reserves for the Pythons of an environment."""
_MOST_SECTIONS = 1000
"""Ten times as many as any project has."""
_NOT_UTF8 = "\ufffd"
"""What the reader puts in the place of other bytes."""
_RENAMED = "the name has a space: pip names the script by its end, uv by all of it"
_MAKES_MODULES = lazy_pattern(
    rb"__path__|meta_path|path_hooks|ModuleType|sys\.modules|import modules|\bexec[ \t]*\("
    rb"|\.py[\"']|[\"'][wax]b?[\"']|write_(?:text|bytes)|shutil|symlink"
)
"""What may make modules that are no files, or write their files."""
_INDEX_NAME = lazy_pattern(r"[\w.-]+")


@rule("WF519", "installer-refuses", Severity.ERROR)
def installer_refuses(context: Context) -> Iterator[Hit]:
    """Installation by pip or uv fails because of scripts or entry points.

    ## What it does
    Reports what one of the two refuses: `entry_points.txt` that is not UTF-8, lines of it that are
    not entry points, sections and names that occur twice, and scripts whose name is not a file name
    or whose value is `module:function`; in `*.data/scripts`, folders and the names of Python
    itself. With `index = "pypi"`, it also reads `entry_points.txt` as PyPI does since May 2026.

    ## Why is this bad?
    The installation fails, or the command gets another name. uv says "invalid console script",
    "`entry_points.txt` is invalid" or "Scripts must not use the reserved name", pip "Invalid script
    entry point". What one installer accepts, the other may refuse.

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
    text = wheel.texts.get(entry_points, "")
    problems = list(_problems(text))
    reason = _index_refusal(text) if text else None
    notes = (IndexAnswer.ENTRY_POINTS.note(f"'{wheel.name}'"),) if reason else ()
    if problems or (reason and context.settings.index is Index.PYPI):
        is_renamed = all(problem.endswith(_RENAMED) for problem in problems)
        who = "pip and uv install differently" if is_renamed else "pip or uv refuses"
        who = who if problems else f"PyPI refuses: {reason}"
        yield Hit(
            message=f"has entry points that {who}",
            member=entry_points,
            notes=(*first_of(problems, 5), *notes),
            hint="fix them in `pyproject.toml`, and build the wheel again",
        )
    folder = wheel.dist_info.scripts
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


@rule("WF528", "module-left-out", Severity.WARNING)
def module_left_out(context: Context) -> Iterator[Hit]:
    """Script or package imports a module that the wheel does not have.

    ## What it does
    Looks for the modules that `console_scripts` and `gui_scripts` name, in the packages of the
    wheel that have an `__init__`, and for the functions in their sources; and for the modules of
    these packages that the import of a top-level one surely imports, in any of its sources. Other
    packages may be of another distribution. Nothing is said if one of these sources may make
    modules itself. It is an error of an import if METADATA requires no other distribution.

    ## Why is this bad?
    The script or the import ends with `ModuleNotFoundError` or `ImportError: cannot import name`.

    ## Example
    `demo = demo.cli:main`, where `demo/cli.py` was left out of the wheel.

    ## Common causes
    - The module was renamed or moved, and `project.scripts` of `pyproject.toml` was not.
      **Solution**: name the new place.
    - The build backend leaves the module out. **Solution**: see its settings of packages.

    ## Fix safety
    Not fixed: only the project knows the intended module.
    """
    member = f"{context.wheel.dist_info}/entry_points.txt"
    places = context.memory.of_files(context.wheel, _places_of_code)
    paths = [*places]
    section = ""
    for line in map(str.strip, context.wheel.texts.get(member, "").splitlines()):
        section = line[1:-1].strip() if line.startswith("[") else section
        name, _, value = (part.strip() for part in line.partition("="))
        if section in _SCRIPTS and _FUNCTION.fullmatch(value):
            module, _, function = value.partition(":")
            lacks = f"the wheel has no module `{module}`"
            if not _is_left_out(paths, module.split(".")):
                first = re.split(r"\W", function)[0]
                lacks = _undefined(context, places, module.replace(".", "/"), first)
            if lacks:
                yield Hit(
                    message=f"script `{name}` is `{value}`, and {lacks}",
                    member=member,
                    entry=name,
                    hint=NAME_ANOTHER,
                )
    yield from _imported_and_left_out(context, paths)


def _places_of_code(wheel: Wheel) -> Mapping[str, str]:
    """Return the members with code by their sorted places below site-packages."""
    code = (name for name in wheel.sizes if name.endswith((".py", ".pyc", ".so")))
    places = ((place, name) for name in code if (place := site_path(name, wheel)))
    return dict(sorted(places))


def _undefined(context: Context, places: Mapping[str, str], module: str, name: str) -> str:
    """Return that the source of a module has nowhere the word `name`; empty if it may have it."""
    is_own = re.compile(rf"{module}(\.[^/]*|/(__init__|{name})[./].*)").fullmatch
    files = list(filter(is_own, places))
    if context.code is None or len(files) != 1 or not files[0].endswith(".py"):
        return ""  # there is another file of that name, or a module of it
    if not name.isascii():
        return ""  # sources have encodings, and Python normalizes names (NFKC)
    source = context.code.read(places[files[0]])
    is_there = not source or re.search(rf"\b{name}\b".encode(), source)
    return "" if is_there or DYNAMIC.search(source) else f"`{files[0]}` does not define `{name}`"


def _imported_and_left_out(context: Context, paths: Sequence[str]) -> Iterator[Hit]:
    order = context.import_order
    imported = [name for name in order.sources if name in order.always_imported]
    found = {name: left for name in imported if (left := [*_left_out(order, paths, name)])}
    if found and any(_MAKES_MODULES.search(order.read(order.sources[name])) for name in imported):
        return
    for importer, left_out in found.items():
        yield Hit(
            message=f"always imports {join_some(left_out, FEW)}, which the wheel does not have",
            member=order.sources[importer],
            entry=left_out[0],
            hint=f"build the wheel with {them(left_out)}",
            severity=None if context.wheel.metadata.requires_dist else Severity.ERROR,
        )


def _left_out(order: ImportOrder, paths: Sequence[str], importer: str) -> Iterator[str]:
    """Yield the modules that a source surely imports, and for which nothing can stand."""
    sure = {(one.line, one.name) for one in order.begun(importer) if not one.caught}
    lacking = {name for _, name in sure if _is_left_out(paths, name.split("."))}
    for line, name in sorted(sure):
        package, _, last = name.rpartition(".")
        source = order.sources.get(package)
        if name in lacking and package not in lacking and source is not None:
            may_be_any = (line, package) in sure  # `from package import last`
            bound = bound_names(order.read(source), package) if may_be_any else frozenset[str]()
            if bound is not None and last not in {"*", *bound}:
                yield name


def _is_left_out(paths: Sequence[str], parts: Sequence[str]) -> bool:
    """Return whether a package among the sorted `paths`, with `__init__`, lacks a module."""

    def is_there(place: str) -> bool:
        starts = (f"{place}.", f"{place}/")
        found = (paths[at : at + 1] for at in (bisect_left(paths, start) for start in starts))
        return any(path.startswith(starts) for path in flatten(found))

    place = parts[0]
    for part in parts[1:]:
        package, place = place, f"{place}/{part}"
        if not is_there(place):
            return is_there(f"{package}/__init__")
    return False


def _problems(text: str) -> Iterator[str]:
    """Yield why lines of entry_points.txt are refused."""
    if _NOT_UTF8 in text:
        yield "it is not UTF-8"
    section = ""
    sections: set[str] = set()
    names: set[str] = set()
    for line in filter(None, map(str.strip, text.splitlines())):
        name, equals, value = (part.strip() for part in line.partition("="))
        if line.startswith("["):
            section = line[1:-1].strip()
            names.clear()
            if not line.endswith("]") or not section or section in sections:
                yield f"`{line}` is not a section header, or repeats one"
            sections.add(section)
            continue
        if line.startswith("#"):
            continue
        elif not section or not equals or not name or name in names:
            yield f"`{line}` is not `name = value` in a section, or repeats a name"
        elif section in _SCRIPTS:
            yield from _script_problems(name, value)
        names.add(name)


def _index_refusal(text: str) -> str | None:
    """Return why PyPI refuses entry_points.txt; None if it takes it."""
    if text.count("\n[") > _MOST_SECTIONS:
        return None  # not known: the time of `configparser` grows with their square
    if _NOT_UTF8 in text:
        return "it is not UTF-8"
    # An INI file of the entry points specification: names have cases, and `=` ends them.
    parser = deferred.configparser.ConfigParser(delimiters=("=",))
    parser.optionxform = str  # type: ignore[method-assign, assignment]  # documented
    try:
        parser.read_string(text)
    except deferred.configparser.Error as error:
        return str(error).partition("\n")[0]
    names = flatten(parser[section] for section in sorted(_SCRIPTS & {*parser}))
    wrong = next((name for name in names if not _INDEX_NAME.fullmatch(name)), None)
    return f"`{wrong}` is not a valid script name" if wrong is not None else None


def _script_problems(name: str, value: str) -> Iterator[str]:
    if _NAME.fullmatch("".join(name.split())) and len(name.split()) > 1:
        yield f"`{name} = {value}`: {_RENAMED}"
    elif not _NAME.fullmatch(name) or name in {".", ".."}:
        yield f"`{name} = {value}`: the name is not that of a file in the folder for scripts"
    elif _INTERPRETER.fullmatch(name):
        yield f"`{name} = {value}`: uv reserves the name for Python itself"
    elif not _FUNCTION.fullmatch(value):
        yield f"`{name} = {value}`: the value is not `module:function`"
