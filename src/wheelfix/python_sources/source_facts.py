"""What is read from Python sources: libraries that they open, and variables that they set."""

from enum import StrEnum

from wheelfix.named_tuple import NamedTuple


class LookupPlace(StrEnum):
    """Where a Python source searches for a library that it opens by name."""

    SEARCH = "search"
    """By dlopen: libraries already loaded, the ld.so cache and the default directories."""
    FIND = "find"
    """By `ctypes.util.find_library`: the ld.so cache, and the linker's directories."""
    SOURCE = "source"
    """At a path relative to the folder of the source."""
    PREFIX = "prefix"
    """At a path relative to `sys.prefix`."""
    ABSOLUTE = "absolute"
    """At a fixed path, or one relative to the current directory."""


class PythonOpening(NamedTuple):
    """One library that a Python source opens: `ctypes.CDLL("libx.so")`."""

    line: int
    function: str
    """The call, as `ctypes.CDLL`."""
    name: str
    """A file name, or a path of the kind `where`."""
    where: LookupPlace
    sure: bool
    """Whether the call is unconditional, and no `except` catches its failure; of `find_library`,
    also whether no library of an unknown name was opened before it in the same function."""
    on_import: bool
    """Whether it runs when the module is imported, and not only when a function is called."""
    suffixes: tuple[str, ...] = ()
    """Globs of suffixes that the call tries after `name`; empty for `name` alone."""
    for_all: bool = False
    """Whether it puts the library into the global scope (RTLD_GLOBAL)."""
    runs: bool = False
    """Whether the import of the module surely runs it, also if its failure is caught."""
    statement: int = 0
    """The line of the module's own statement that runs it; 0 if the import does not."""

    @property
    def is_of_current(self) -> bool:
        """Whether it is a path from the current directory, which is any when users import it."""
        return self.where is LookupPlace.ABSOLUTE and not self.name.startswith("/")

    @property
    def text(self) -> str:
        """The call and its line, in messages."""
        start = 'f"{sys.prefix}/' if self.where is LookupPlace.PREFIX else '"'
        return f'`{self.function}({start}{self.name}")` in line {self.line}'


class Imported(NamedTuple):
    """What the import of a module surely begins to import, or opens."""

    name: str
    """Of `from a import b` also `a.b`, which may be no module; of a library, its path."""
    line: int
    """Of the module's own statement that does it."""
    caught: bool = False
    """Whether the module goes on if it fails: it was begun all the same."""


class EnvironAssignment(NamedTuple):
    """A variable that a Python source sets when it is imported: `os.environ[...] = ...`."""

    line: int
    variable: str
    directories: tuple[str, ...]
    """Those in the value that are known; relative ones start in site-packages."""
