"""Definitions of a wheel without an archive, whose objects contain no names of libraries."""

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence

from wheelfix.host.library_search import GivenLibraries
from wheelfix.wheel.edits import Edit
from wheelfix.wheel.names_in_code import CodeNames


class NoNames(CodeNames):
    """Of objects that contain no names of libraries."""

    def __init__(self) -> None:
        """Read no archive."""

    def mentions(self, names: Collection[str]) -> Mapping[str, tuple[str, ...]]:
        return dict.fromkeys(names, ())

    @property
    def opens_libraries(self) -> bool:
        return False

    def sources_that(self, test: Callable[[bytes], object]) -> Sequence[str]:
        del test
        return ()

    @property
    def taking_modules(self) -> Sequence[bytes]:
        return ()

    def has_opening(self, test: Callable[[bytes], bool]) -> bool:
        del test
        return False


class NoMentions(GivenLibraries):
    """Definitions of such objects."""

    def __init__(self) -> None:
        """Read no archive."""

    @property
    def code(self) -> CodeNames:
        return NoNames()

    def including(self, edits: Iterable[Edit]) -> "NoMentions":
        del edits
        return self
