"""Whether a source may open an object for all others, whatever the spelling."""

import pytest

from wheelfix.python_sources.open_flags import line_for_all

FOR_THEMSELVES = [
    "import ctypes",
    "ctypes.CDLL(path)",
    "ctypes.CDLL(path, 1)",
    "ctypes.CDLL(path, mode=ctypes.RTLD_LOCAL | os.RTLD_NOW)",
    "ctypes.CDLL(path, ctypes.DEFAULT_MODE, use_errno=True)",
    "ctypes.CDLL(\n    name('#', f(')')),  # RTLD_GLOBAL\n    None,\n)",
    "ffi.dlopen('libfoo.so', ffi.RTLD_LAZY)",
    "from ctypes import CDLL, PyDLL as PyDLL",
    "def load(path: str) -> ctypes.CDLL: ...",
    "library: ctypes.CDLL = ctypes.CDLL(path)",
    '"""Opens with `ctypes.CDLL`, or dlopen(3), never with RTLD_GLOBAL."""',
    "raise OSError('could not dlopen it; RTLD_GLOBAL is not set')",
    "size = 256  # CDLL",
    "sys.setdlopenflags(2)",
    "ctypes.CDLL(path, handle=ctypes._dlopen(path, ctypes.RTLD_LOCAL))",
    "flags = sys.getdlopenflags()",
]
MAYBE_FOR_ALL = [
    "ctypes.CDLL(path, 256)",
    "ctypes.CDLL(path, 0x102)",
    "ctypes.CDLL(path, mode=ctypes.RTLD_GLOBAL)",
    "ctypes.CDLL(path, ctypes.RTLD_LOCAL | ctypes.RTLD_GLOBAL)",
    "ctypes.CDLL(path, 1 << 8)",
    "ctypes.CDLL(path, flags)",
    "ctypes.CDLL(path, mode=flags)",
    "ctypes.CDLL(path, **options)",
    "ctypes.CDLL(*arguments)",
    "ctypes.CDLL(path,\\\n mode=flags)",
    "load = ctypes.CDLL",
    "list(map(ctypes.CDLL, paths))",
    "class Library(ctypes.CDLL): ...",
    "from ctypes import CDLL as load",
    "getattr(ctypes, 'CDLL')(path, flags)",
    "getattr(ctypes, 'CD' + 'LL')(path, flags)",
    "getattr(sys, name)(258)",
    "flags = os.RTLD_GLOBAL",
    "flags = os.RTLD_DEEPBIND  # dlopen",
    "flags = getattr(ctypes, 'RTLD_GLOBAL')",
    "sys.setdlopenflags(flags)",
    "sys.setdlopenflags(2 | 256)",
    "from sys import setdlopenflags as f",
    "ctypes.CDLL(path, 256",
    "ctypes._dlopen(path, 0x102)",
    "from ctypes import _dlopen as load",
    "libc.dlmopen(0, path, 258)",
    "ctypes.cdll._dlltype(path, 258)",
    "RTLD_NOW = 258\nctypes.CDLL(path, RTLD_NOW)",
    "eval('CDLL(path, 258)')",
]


@pytest.mark.parametrize("statement", FOR_THEMSELVES)
def test_plain_flags_open_for_the_object_itself(statement: str) -> None:
    assert line_for_all(f"import os\n{statement}\n".encode()) == 0


@pytest.mark.parametrize("statement", MAYBE_FOR_ALL)
def test_other_flags_may_open_for_all(statement: str) -> None:
    assert line_for_all(f"import os\n{statement}\n".encode())


def test_flags_may_be_as_deep_as_python_parses_them() -> None:
    for count in (500, 1200, 2500):
        flags = "|".join(["1"] * count)
        assert line_for_all(f"ctypes.CDLL(path, {flags})".encode()) == 0
        assert line_for_all(f"ctypes.CDLL(path, {flags}|256)".encode()) == 1


def test_the_first_line_counts() -> None:
    source = b"import ctypes\nctypes.CDLL(a)\nctypes.CDLL(b, 256)\nctypes.CDLL(c, flags)\n"
    assert line_for_all(source) == 3
