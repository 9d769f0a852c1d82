"""Modules that are imported with RTLD_GLOBAL, found by reading and held to what Python does."""

import subprocess
import sys
from pathlib import Path
from textwrap import dedent

import pytest

from tests.support.build import extension
from wheelfix.budget import Budget
from wheelfix.python_sources.global_imports import functions_that_set_flags, global_imports
from wheelfix.python_sources.parsing import Sources

FLAGS = """
    import ctypes, sys
    _known = hasattr(sys, "getdlopenflags")
    if _known:
        _before = sys.getdlopenflags()
    def set_flags():
        if _known:
            sys.setdlopenflags(_before | ctypes.RTLD_GLOBAL)
    def reset_flags():
        if _known:
            sys.setdlopenflags(_before)
"""
TRIES = """
    try:
        from pkg import flags
        _use = True
    except ImportError:
        _use = False
    if _use:
        flags.set_flags()
    from pkg import core
    if _use:
        flags.reset_flags()
    from pkg import other
"""
TORCH = """
    import os, sys, platform
    if (False or os.getenv("USE_GLOBAL_OF_THE_TEST")) and platform.system() != "Windows":
        sys.setdlopenflags(os.RTLD_GLOBAL | os.RTLD_LAZY)
        from pkg import core
    else:
        from pkg import other
"""
GUARD = """
    import contextlib, os, sys
    @contextlib.contextmanager
    def guard():
        before = sys.getdlopenflags()
        sys.setdlopenflags(before | os.RTLD_GLOBAL)
        try:
            yield
        finally:
            sys.setdlopenflags(before)
    with guard():
        from . import core
    from . import other
"""
NESTED = """
    import os, sys
    from pkg import other
    sys.setdlopenflags(os.RTLD_NOW | os.RTLD_GLOBAL)
    from pkg import inner
    from pkg import other
    sys.setdlopenflags(os.RTLD_NOW)
"""
EXTENSION = """
    import os, sys
    sys.setdlopenflags(os.RTLD_GLOBAL | os.RTLD_LAZY)
    from . import _json
    from . import core
    from . import gone
    from . import other
"""
TOGGLES = """
    import sys
    def toggle(): sys.setdlopenflags(sys.getdlopenflags() ^ 256)
    toggle()
    from . import core
    toggle()
    sys.setdlopenflags(257)
    sys.setdlopenflags(sys.getdlopenflags() & ~256)
    from . import other
"""
RECORDER = """
import sys
class Recorder:
    def find_spec(self, name, path, target=None):
        if name in {"pkg.core", "pkg.other"} and sys.getdlopenflags() & 0x100:
            print(name)
sys.meta_path.insert(0, Recorder())
import pkg.start
"""


@pytest.mark.parametrize(
    ("start", "files", "expected"),
    [
        (TRIES, {"flags": FLAGS}, ["pkg.core"]),
        (TRIES, {}, []),
        (TORCH, {}, []),
        (GUARD, {}, ["pkg.core"]),
        (TOGGLES, {}, ["pkg.core"]),
        (NESTED, {"inner": "import pkg.core"}, ["pkg.core"]),
        (EXTENSION, {}, ["pkg.core"]),  # as kuzu; the last import fails
    ],
)
def test_imports_while_the_flag_is_set(
    tmp_path: Path, start: str, files: dict[str, str], expected: list[str]
) -> None:
    package = tmp_path / "pkg"
    package.mkdir()
    texts = {"__init__": "", "core": "", "other": "", "start": start, **files}
    for name, text in texts.items():
        (package / f"{name}.py").write_text(dedent(text))
    extension(package / "_json.so", "_json")
    done = subprocess.run(
        [sys.executable, "-c", RECORDER], cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert done.stdout.split() == expected

    def path_of(module: str) -> str | None:
        path = module.replace(".", "/")
        found = (f"{path}/__init__.py", f"{path}.py")
        return next((each for each in found if (tmp_path / each).exists()), None)

    def read(path: str) -> bytes:
        return (tmp_path / path).read_bytes()

    found = global_imports(
        ["pkg.start"], Sources(path_of, read, {"pkg._json"}.__contains__), Budget("a test", 100_000)
    )
    named = [each.module for each in found if each.module in {"pkg.core", "pkg.other"}]
    assert named == expected


def test_functions_that_set_the_flags_are_named() -> None:
    assert functions_that_set_flags(dedent(FLAGS).encode()) == {b"set_flags", b"reset_flags"}
    assert functions_that_set_flags(b"import sys\nsys.setdlopenflags(1)") == frozenset()
