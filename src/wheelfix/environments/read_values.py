"""What is read in the Python sources and other files of an environment."""

from wheelfix.named_tuple import NamedTuple


class Promotion(NamedTuple):
    """An object that a Python source opens for all others (RTLD_GLOBAL)."""

    path: str
    source: str
    """The source below site-packages, and the line: `torch/__init__.py:300`."""


class Opening(NamedTuple):
    """A library that the import of a Python source opens by its path."""

    path: str
    module: str
    """The dotted name of the source."""
    source: str
    """Its path."""
    line: int
    """Of the statement of the module that opens it."""
    sure: bool
    """Whether the import fails if the library cannot be opened; otherwise that may be caught."""
    for_all: bool = False
    """Whether all that is loaded later finds its symbols (RTLD_GLOBAL)."""


class Variable(NamedTuple):
    """An environment variable that a file of an environment sets."""

    name: str
    directories: tuple[str, ...]
    """Those in its value that are known."""
    path: str
    """The file that sets it."""
    line: int
    before_start: bool
    """Whether a shell sets it before Python starts; otherwise Python code that is imported does."""
