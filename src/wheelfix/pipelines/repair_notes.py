"""Messages about a repair: libraries left out, or that could be; RECORD; debug files."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path, PurePosixPath

from packaging.utils import canonicalize_name

from wheelfix.analysis.providers import provider_of, provider_options, requirements_on
from wheelfix.host.os_packages import Package
from wheelfix.pipelines.debug_files import DebugFile
from wheelfix.pipelines.graft import Graft, GraftedLibrary, sharing
from wheelfix.settings import Settings
from wheelfix.text import counted, join_some
from wheelfix.wheel.grafted_name import unhashed
from wheelfix.wheel.model import Wheel

_LARGE = 10 * 2**20
"""Bytes of a library from which on a message names the well-known wheel that has it."""


def record_notes(wheel: Wheel) -> Iterator[str]:
    """Yield a message for each RECORD entry that was wrong in the wheel as read."""
    for problem in wheel.record_problems:
        yield f"corrected RECORD entry: `{problem.member}`: {problem.message}"


def debug_file_notes(files: Sequence[DebugFile], directory: Path) -> Iterator[str]:
    """Yield where the debug files are, and which ones a debugger does not find by build-id."""
    if files:
        yield f"what was stripped from {counted(len(files), 'object')} is in `{directory}`"
    named = [PurePosixPath(file.place) for file in files if not file.has_build_id]
    if named:
        yield (
            f"without a build-id, gdb finds {join_some(path.name for path in named)} only beside "
            f"the installed object: cp -r {directory / named[0].parts[0]}/. SITE_PACKAGES"
        )


def graft_notes(graft: Graft, owned: Iterable[GraftedLibrary], settings: Settings) -> Iterator[str]:
    """Yield the messages about a graft: libraries that were, or could be, left out.

    `owned` are the libraries that another wheel shares.
    """
    yield from _owned_by_others(owned, graft.libraries, settings)
    yield from _could_be_left_out(graft.libraries)


def _owned_by_others(
    owned: Iterable[GraftedLibrary], grafted: Iterable[GraftedLibrary], settings: Settings
) -> Iterator[str]:
    """Yield a message for each library that an owner has as well, as the same or another file."""
    owners = sharing(settings)
    for library in owned:
        provider = provider_of(library.soname, owners)
        if provider is not None:
            yield (
                f"`{library.original}` is not grafted: {provider.name} has it as `{library.soname}`"
            )
    theirs = {
        unhashed(name): provider
        for provider in owners
        for name in provider.libraries
        if unhashed(name)
    }
    for library in grafted:
        provider = theirs.get(unhashed(library.soname))
        if provider is not None and provider.has(library.soname):
            yield (
                f"`{library.original}` is grafted, though {provider.name} has it: an object "
                "outside site-packages needs it, too; `--data-libraries search` leaves it there"
            )
        elif provider is not None:
            glob = f"{library.original.partition('.so')[0]}.so.*"
            yield (
                f"`{library.original}` is grafted, though {provider.name} has one: they are two "
                "different files, and both get loaded; build both wheels with the same, or let "
                f"both have that of {provider.name} by `--keep-name '{glob}'`"
            )


def _could_be_left_out(libraries: Iterable[GraftedLibrary]) -> Iterator[str]:
    """Yield for each large library the option that leaves it to a well-known wheel."""
    for library in libraries:
        known = _options(library)
        if known:
            size = library.host.path.stat().st_size / 1e6
            yield (
                f"`{library.original}` is grafted, {size:,.0f} MB: `{known}` "
                "would leave it to that wheel"
            )


def _options(library: GraftedLibrary) -> str:
    """Return the options that leave a large library to a well-known wheel; empty for others."""
    is_large = library.host.path.stat().st_size > _LARGE
    return provider_options(library.original) if is_large else ""


def required_notes(
    libraries: Iterable[GraftedLibrary], packages: Mapping[Path, Package], wheel: Wheel
) -> Iterator[str]:
    """Yield a message for each grafted library of a distribution that METADATA requires.

    Large libraries of well-known wheels have a message already.
    """
    for library in libraries:
        package = packages.get(library.host.source)
        if package is None or package.type != "pypi" or _options(library):
            continue
        name = canonicalize_name(package.name)
        if requirements_on(wheel, name):
            yield (
                f"`{library.original}` is grafted, though METADATA requires {name}, which has it: "
                f"`--provider {name}`, or `--provider auto`, would leave it there"
            )
