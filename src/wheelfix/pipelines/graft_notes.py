"""Messages about grafted libraries that another wheel has."""

from collections.abc import Iterable, Iterator

from packaging.utils import canonicalize_name

from wheelfix.pipelines.graft import GraftedLibrary
from wheelfix.providers.well_known import provider_option
from wheelfix.wheel.model import Wheel
from wheelfix.wheel.requirements import requirements_on

_LARGE = 10 * 2**20
"""Bytes of a library from which on a message names the well-known wheel that has it."""


def graft_notes(libraries: Iterable[GraftedLibrary], wheel: Wheel) -> Iterator[str]:
    """Yield for each large library the option that leaves it to a well-known wheel."""
    for library in libraries:
        known = _option(library, wheel)
        if known:
            size = library.host.size / 1e6
            yield (
                f"`{library.original}` is grafted, {size:,.0f} MB: `{known}` "
                "would leave it to that wheel"
            )


def _option(library: GraftedLibrary, wheel: Wheel) -> str:
    """Return the option that leaves a large library to a well-known wheel; empty for others."""
    return provider_option(library.original, wheel) if library.host.size > _LARGE else ""


def requirement_notes(libraries: Iterable[GraftedLibrary], wheel: Wheel) -> Iterator[str]:
    """Yield a message for each grafted library of a distribution that METADATA requires.

    Large libraries of well-known wheels have a message already.
    """
    for library in libraries:
        package = library.package
        if package is None or package.type != "pypi" or _option(library, wheel):
            continue
        name = canonicalize_name(package.name)
        if requirements_on(wheel, name):
            yield (
                f"`{library.original}` is grafted, though METADATA requires {name}, which has it: "
                f"`--provider {name}` would leave it there"
            )
