"""Messages about a repair: grafts, RECORD, effects of edits, debug files, licenses."""

from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path, PurePosixPath

from packaging.utils import canonicalize_name

from wheelfix.host.os_packages import Package
from wheelfix.pipelines.bundled_licenses import is_known
from wheelfix.pipelines.debug_files import DebugFile
from wheelfix.pipelines.graft import GraftedLibrary
from wheelfix.providers.markers import requirements_on
from wheelfix.rules.findings import PlannedEdit
from wheelfix.text import count, join_some
from wheelfix.wheel.dist_info import license_expression
from wheelfix.wheel.model import Wheel


def requirement_notes(libraries: Iterable[GraftedLibrary], wheel: Wheel) -> Iterator[str]:
    """Yield a message for each grafted library of a distribution that METADATA requires."""
    for library in libraries:
        package = library.package
        if package is None or package.type != "pypi":
            continue
        name = canonicalize_name(package.name)
        if requirements_on(wheel, name):
            yield (
                f"`{library.original}` is grafted, though METADATA requires {name}, which has it: "
                f"`--provider {name}` would leave it there"
            )


def record_notes(wheel: Wheel) -> Iterator[str]:
    """Yield a message for each RECORD entry that was wrong in the wheel as read."""
    for problem in wheel.record_problems:
        yield f"RECORD was wrong: `{problem.member}`: {problem.message}"


def effect_notes(steps: Iterable[PlannedEdit]) -> Iterator[str]:
    """Yield what edits change besides what is wrong."""
    for member, effect in dict.fromkeys(
        (step.member, effect) for step in steps for effect in step.effects
    ):
        yield f"`{member}`: {effect}"


def debug_file_notes(files: Sequence[DebugFile], directory: Path) -> Iterator[str]:
    """Yield where the debug files are, and which ones a debugger does not find by build-id."""
    if files:
        yield f"what was stripped from {count(len(files), 'object')} is in `{directory}`"
    named = [PurePosixPath(file.place) for file in files if not file.has_build_id]
    if named:
        yield (
            f"without a build-id, gdb finds {join_some(path.name for path in named)} only beside "
            f"the installed object: cp -r {directory / named[0].parts[0]}/. SITE_PACKAGES"
        )


def license_notes(
    libraries: Iterable[GraftedLibrary], parts: Iterable[Package], wheel: Wheel
) -> Iterator[str]:
    """Yield why the License-Expression of `wheel` cannot cover what is bundled, if so."""
    known = {library.original: library.package for library in libraries}
    known.update((part.name, part) for part in parts)
    unknown = [
        name for name, package in known.items() if not (package and is_known(package.license))
    ]
    if unknown and license_expression(wheel.metadata):
        yield (
            f"`License-Expression` stays as it is: the license of {join_some(unknown)} is not "
            "known; [[tool.wheelfix.component]] can state it"
        )
