"""The calls by which Python sources open libraries by name, and the words that such a source has.

A call that is added here needs its word in `WORDS`, or a source with it is not parsed, and in
`CALLS` and `SEARCHING`.
"""

import re

from wheelfix.system.lazy_patterns import lazy_pattern

CTYPES = lazy_pattern(
    r"ctypes\.(CDLL|PyDLL|(cdll|pydll|(C|Py)DLL)\.LoadLibrary)|_ctypes\.dlopen|ctypes\._dlopen"
)
OF_CTYPES = ("CDLL", "PyDLL", "cdll", "pydll", "RTLD_GLOBAL")
"""What `from ctypes import *` brings of it."""
FIND_LIBRARY = "ctypes.util.find_library"
NUMPY = lazy_pattern(r"numpy\..*\.load_library")
"""`numpy.ctypeslib.load_library(name, folder)`, under its names of all versions."""
CFFI = "dlopen"
"""The method of an `FFI` object."""
OF_MODULES = lazy_pattern(
    r"importlib\.(util\.spec_from_file_location|machinery\.ExtensionFileLoader)|imp\.load_dynamic"
)
"""They take a name and the path of an extension module, or maybe of a source."""
UNKNOWN = frozenset({"_imp.create_dynamic", "runpy.run_path"})
"""What they open, or run, is not followed."""

_FOR_MODULES = (
    b"spec_from_file_location",
    b"extensionfileloader",
    b"load_dynamic",
    b"create_dynamic",
    b"run_path",
)
WORDS = (
    *(b"cdll", b"pydll", b"loadlibrary", b"dlopen", b"setdl", b"find_library", b"load_library"),
    *_FOR_MODULES,
)
"""In lower case."""
_STEMS = (
    *(b"dll", b"dlopen", b"setdl", b"library", b"_dynamic", b"run_path"),
    *(b"spec_from_file_location", b"extensionfileloader"),
)
"""Few, and one of them in each of `WORDS`: most sources have none. Long ones are found faster."""
CALLS = lazy_pattern(rb"\b([cC]DLL|PyDLL|pydll|cdll|LoadLibrary|_?dlopen|load_library)\b")
"""The words of the calls that open a library."""
IMPORTS_ANY = lazy_pattern(
    rb"\b(?:exec|import_module|__import__|(?:exec|load|run)_module|run_path|entry_points"
    rb"|walk_packages)[ \t]*\(|[=(,][ \t]*(?:\w+\.)?(?:import_module|__import__)\b"
    rb"|\b(?:import_module|__import__)[ \t]+as\b|\bfrom[ \t]+\.+[ \t]+import[ \t]*\*"
)
"""The calls that may import a module by a name that a source does not have.

Or the function by another name: `get = importlib.import_module`, `map(import_module, names)`. So
may `from . import *`, by what `__all__` has.
"""
IMPORTS_ALL = lazy_pattern(rb"\bimport[ \t]*\*")
"""The statement that imports what `__all__` has: maybe modules, by computed names."""
EXECUTES = lazy_pattern(rb"\bexec[ \t]*\(")
"""The call that may run any statement."""
COMPUTES = lazy_pattern(rb"""\b(exec|eval|__import__)\((?!('([^'\\]|\\.)*'|"([^"\\]|\\.)*")[,)])""")
"""Such a call, or `__import__`, whose text or name does not stand there."""
AT_START = lazy_pattern(
    rb"(?:\A(?:\xef\xbb\xbf)?|[\r\n])import[ \t]"
    rb"(?!sys, types, os;(?:has_mfs = [^;]*;)?p = os\.path\.join\(sys\._getframe\(1\)\.f_locals)"
)
"""A line of a .pth file that Python runs (site), but those of setuptools for namespace packages."""
SEARCHING = lazy_pattern(rb"[cC]DLL|PyDLL|LoadLibrary|dlopen|load_library|[\w*})]\.so\b")
"""The words of a source that may search for libraries; others look for files that are none."""


_OF_MODULE = lazy_pattern(rb"[\w)\]]\.(?:__file__|origin)\b")
_IN_FOLDER = lazy_pattern(rb"dirname|parent|join|split")


def takes_a_module(source: bytes) -> bool:
    """Return whether a source has the file of a module, to open or hand on: `_core.__file__`."""
    if b".__file__" not in source and b".origin" not in source:  # ten times as fast as a pattern
        return False
    lines = source.splitlines()
    return any(_OF_MODULE.search(line) and not _IN_FOLDER.search(line) for line in lines)


def line_of(words: re.Pattern[bytes], source: bytes) -> int:
    """Return the first line that matches `words`; 0 if none does."""
    found = words.search(source)
    return source.count(b"\n", 0, found.end()) + 1 if found else 0


def opens(source: bytes) -> bool:
    """Return whether a Python source has the word of a call that opens a library or a module."""
    return bool(CALLS.search(source)) or any(word in source.lower() for word in _FOR_MODULES)


def may_open(source: bytes) -> bool:
    """Return whether a Python source has a word, in any case, that opening a library takes."""
    lower = source.lower()  # several times as fast as one regular expression
    return any(stem in lower for stem in _STEMS) and any(word in lower for word in WORDS)
