"""Whether the licenses of bundled libraries are in the wheel."""

import json
import posixpath
from collections.abc import Collection, Iterable, Iterator
from functools import cache
from itertools import chain
from typing import Any

from wheelfix.budget import Budget
from wheelfix.elf.object_file_names import stem_of
from wheelfix.rules.context import Context
from wheelfix.rules.findings import Hit, Severity
from wheelfix.rules.rule import rule
from wheelfix.settings import matches_any
from wheelfix.system.lazy_patterns import lazy_pattern
from wheelfix.system.packaged_text import read_lines
from wheelfix.wheel.grafted_name import earlier_names
from wheelfix.wheel.model import Wheel, is_license
from wheelfix.wheel.sbom_places import license_members, occurrences

_PROSE = frozenset(
    {"archive", "edit", "event", "form", "history", "input", "menu", "mount", "net", "panel"}
)
"""Names of libraries, without `lib`, that are words of licenses: they name no library."""
_WORD = lazy_pattern(r"[a-z0-9]+(?:[-_.][a-z0-9]+)*")
_PART = lazy_pattern(r"[a-z]+|[0-9]+|[-_.]")


@rule("WF525", "no-license-text", Severity.NOTE)
def no_license_text(context: Context) -> Iterator[Hit]:
    """A bundled library without a license text.

    ## What it does
    Looks for the license of each library in a folder of grafted libraries: the SBOM names a text
    that is in the wheel, or a license text in `*.dist-info` names the library, or the project that
    builds it, in its own name (`LICENSE.zeromq.txt`) or anywhere in the text, as numpy's does with
    `Files: numpy.libs/libgfortran*.so`. WebP's license covers `libwebpmux` and `libsharpyuv`.

    ## Why is this bad?
    Who publishes the wheel distributes the library. Nearly all licenses, MIT, BSD, LGPL and GPL,
    require that their text accompanies a copy.

    ## Example
    `pkg.libs/libgfortran-1a2b3c4d.so.5`, in a wheel with the project's own `LICENSE` only.

    ## Common causes
    - The library was grafted by a tool that copies no licenses. **Solution**: repair the built
      wheel with `wheelfix repair`, which adds the texts that the package of the library installs.
    - The library belongs to no package, or its package has no text (on Alpine, it is in the package
      `-doc`). **Solution**: `[[tool.wheelfix.component]]` with `name`, `libraries` and
      `license-files`.

    ## Fix safety
    Not fixed: a repair adds the texts of the libraries that it grafts itself.
    """
    wheel, settings = context.wheel, context.settings
    vendored = [member for member in wheel.elfs if settings.is_vendored(member, wheel)]
    if not vendored:
        return
    stated = set(_members_with_text(wheel))
    names = {
        member: _names(posixpath.basename(member)) for member in vendored if member not in stated
    }
    texts = [
        f"{name.removeprefix(wheel.dist_info)}\n{text}".lower()
        for name, text in wheel.texts.items()
        if is_license(name, wheel.dist_info)
    ]
    called = frozenset(chain(*names.values()))
    named = _names_in(called, texts, context.budget)
    for member, own in names.items():
        if named.isdisjoint(own):
            yield Hit(
                message="no license text in the wheel is known to be that of this library",
                member=member,
                hint="add its license text to the package (`license-files` in pyproject.toml); a "
                "repair that grafts it takes the text from [[tool.wheelfix.component]]",
            )


def _names(file: str) -> frozenset[str]:
    """Return what a license text may call a library: its file, its own name, or its project's.

    In lower case and without what follows a `+`. For `libwebpmux-8fb1c9f6.so.3`: `libwebpmux`,
    `webpmux`, `webp`, `libwebp`.
    """
    stem = stem_of([file, *earlier_names(file)][-1])
    name = (stem.rstrip("-_.0123456789") or stem).partition("+")[0].lower()
    projects = [project for project, globs in _projects() if _is_one_of(stem, globs)]
    own = name.removeprefix("lib")
    known = len(own) > 2 and own not in _PROSE
    called = {name, *([own] if known else []), *projects, *(f"lib{word}" for word in projects)}
    return frozenset(called)


def _names_in(names: Collection[str], texts: Iterable[str], budget: Budget) -> set[str]:
    """Return those of `names` that are words of `texts`; a number may follow, as in `png16`.

    In time that does not grow with the number of names. Raises `BudgetError` if it takes too long.
    """
    parts_of = {name: _PART.findall(name) for name in names}
    firsts = {parts[0] for parts in parts_of.values() if parts}
    longest = max((len(parts) for parts in parts_of.values()), default=0)
    named: set[str] = set()
    words: set[str] = set()
    for text in texts:
        named.update(name for name in names if " " in name and name in text)
        words.update(_WORD.findall(text))
    for word in words:
        parts = ["", *_PART.findall(word), ""]
        starts = [at for at, part in enumerate(parts) if part in firsts]
        for start in starts:
            budget.spend(longest, "the words of its licenses")
            if parts[start - 1].isalnum():
                continue
            for end in range(start + 1, min(start + longest + 1, len(parts))):
                if not parts[end].isalpha():
                    named.add("".join(parts[start:end]))
    return named.intersection(names)


def _is_one_of(stem: str, globs: Iterable[str]) -> bool:
    return matches_any(stem, (f"lib{glob}" for glob in globs))


@cache
def _projects() -> tuple[tuple[str, tuple[str, ...]], ...]:
    """Return the projects with libraries of other names, each with patterns of these names."""
    rows = (line.partition(": ") for line in read_lines("wheelfix.rules", "library-projects.txt"))
    return tuple((project, tuple(globs.split())) for project, _, globs in rows)


def _members_with_text(wheel: Wheel) -> Iterator[str]:
    """Yield the members whose license text, according to an SBOM, is in the wheel."""
    present = wheel.member_names
    folder = wheel.dist_info.sboms
    for name, text in wheel.texts.items():
        if not name.startswith(f"{folder}/"):
            continue
        try:
            document: Any = json.loads(text)
            for component in document["components"]:
                if not present.isdisjoint(license_members(component, folder)):
                    yield from [str(place["location"]) for place in occurrences(component)]
        except (ValueError, TypeError, KeyError, AttributeError, RecursionError):
            continue
