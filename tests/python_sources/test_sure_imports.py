"""Modules that importing a package imports in any case."""

import pytest

from wheelfix.python_sources.opens import read_imports
from wheelfix.python_sources.source_facts import Imported
from wheelfix.python_sources.sure_imports import sure_imports

IMPORTS: list[tuple[bytes, set[str]]] = [
    (b"from . import _core", {"demo._core"}),
    (b"from ._core import run", {"demo._core"}),
    (b"from .sub import deep", {"demo.sub", "demo.sub._deep"}),
    (b"import demo._core, os.path", {"demo._core", "os.path"}),
    (b"from demo import _core", {"demo._core"}),
    (b"try:\n    from . import _core\nexcept ImportError:\n    pass", set()),
    (b"try:\n    from . import _core\nexcept ImportError:\n    raise", {"demo._core"}),
    (b"if True:\n    from . import _core", {"demo._core"}),
    (b"import x, os\nif os.name == 'posix':\n    from . import _core", {"demo._core"}),
    (b"import x\nif x.y:\n    from . import _core", set()),
    (b"def f():\n    from . import _core", set()),
    (b"def f():\n    from . import _core\nf()", {"demo._core"}),
    (b"import importlib\nimportlib.import_module('._core', __name__)", {"demo._core"}),
    (b"import importlib as i\ni.import_module(f'{__name__}._core')", {"demo._core"}),
    (b"import importlib as i\nfor n in ('_core',): i.import_module('demo.' + n)", {"demo._core"}),
    (b"__import__('demo._core')", {"demo._core"}),
    (b"try: __import__('demo._core')\nexcept ImportError: pass", set()),
    # As numpy's: a name that nothing defines.
    (
        b"try: SETUP\nexcept NameError: SETUP = 0\nif SETUP: pass\nelse: from . import _core",
        {"demo._core"},
    ),
    (b"try:\n    print\nexcept NameError:\n    from . import _core", set()),
    (b"def f(): pass\ntry:\n    f\nexcept NameError:\n    from . import _core", set()),
    (b"def f():\n    from . import _core\n    yield\nf()", set()),
    (b"async def f():\n    from . import _core\nf()", set()),
    (b"def f():\n    from . import _core\ndef f(): pass\nf()", set()),
    (b"from .. import _core", set()),
    (b"not Python", set()),
]


def imported(packages: dict[str, bytes], name: str, line: int | None = None) -> list[str]:
    def imports_of(module: str) -> list[Imported]:
        return list(read_imports(module, packages.get(module, b"")))

    return list(sure_imports([name], imports_of, line))


@pytest.mark.parametrize(("source", "expected"), IMPORTS)
def test_modules_that_importing_a_package_always_imports(source: bytes, expected: set[str]) -> None:
    packages = {"demo": source, "demo.sub": b"from demo.sub import _deep", "demo.no": b"import z"}
    found = imported(packages, "demo")
    assert expected <= set(found)
    assert ("demo._core" in found) is ("demo._core" in expected)
    assert "z" not in found


@pytest.mark.parametrize(
    ("before", "is_begun"),
    [
        ("", True),
        ("import os", False),
        ("x = 1", True),
        ("if x: raise ImportError", False),
        ("assert x", False),
        ("f()", False),
        ("def g(): raise ImportError", True),
    ],
)
def test_what_is_tried_is_begun_unless_something_before_may_raise(
    before: str, *, is_begun: bool
) -> None:
    source = f"def f(): raise ImportError\ntry:\n  {before}\n  import m\nexcept ImportError: pass"
    imports = read_imports("p", source.encode())
    assert ("m" in [imported.name for imported in imports]) is is_begun
    assert all(imported.caught for imported in imports)


def test_modules_come_in_the_order_in_which_they_are_imported() -> None:
    packages = {
        "demo": b"import other.sub\nfrom . import _core\nimport last",
        "other": b"import demo\nimport base",
        "demo.tools": b"import tool",
    }
    others = ["demo", "other", "base", "other.sub"]
    assert imported(packages, "demo") == [*others, "demo._core", "last"]
    assert imported(packages, "demo.tools") == [
        *(*others, "demo._core", "last", "demo.tools", "tool")
    ]
    assert imported(packages, "demo", 2) == others
