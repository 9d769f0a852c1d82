"""Modules that importing a package imports in any case."""

import pytest

from wheelfix.wheel.sure_imports import sure_imports

IMPORTS: list[tuple[bytes, set[str]]] = [
    (b"from . import _core", {"demo._core"}),
    (b"from ._core import run", {"demo._core"}),
    (b"from .sub import deep", {"demo.sub", "demo.sub._deep"}),
    (b"import demo._core, os.path", {"demo._core", "os.path"}),
    (b"from demo import _core", {"demo._core"}),
    (b"try:\n    from . import _core\nexcept ImportError:\n    pass", set()),
    (b"if True:\n    from . import _core", set()),
    (b"def f():\n    from . import _core", set()),
    (b"from .. import _core", set()),
    (b"not Python", set()),
]


@pytest.mark.parametrize(("source", "imported"), IMPORTS)
def test_modules_that_importing_a_package_always_imports(source: bytes, imported: set[str]) -> None:
    packages = {"demo": source, "demo.sub": b"from demo.sub import _deep", "demo.no": b"import x"}
    found = sure_imports(packages)
    assert imported <= found
    assert ("demo._core" in found) is ("demo._core" in imported)
    assert "x" not in found
