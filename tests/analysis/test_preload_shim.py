"""Preload shims: their source, and the `__init__.py` that imports them."""

import ast
import importlib
import re
import sys
from pathlib import Path

import pytest

from wheelfix.analysis.preload_shim import has_hook, read_shim, shim_source, with_hook
from wheelfix.wheel.model import PRELOAD

# --- The import of the shim -----------------------------------------------------------------------


@pytest.mark.parametrize(
    "source",
    [
        b"",
        b"# only a comment",
        b"import os\n",
        b"#!/usr/bin/env python3\n# -*- coding: latin-1 -*-\nname = '\xe9'\n",
        b'"""What it is.\n\nMore of it."""\n',
        b"'What.'\n\nfrom __future__ import annotations\nfrom __future__ import division\nx = 1",
        b"from __future__ import (\n    annotations,\n)  # why\n\n\nimport os\n",
        b'"""Doc."""; \\\nimport os\n',
        b"\xef\xbb\xbfimport os\n",
        b'\xef\xbb\xbf"""Doc."""\r\nimport os\r\n',
        b"import functools as f\n@f.cache\ndef g(): ...\n",
        b"if True:\n\timport os\n",
        b"f'not a docstring'\nimport os\n",
        b"\x0cimport os\n",
        b"x = 1\rimport os\r",
    ],
)
def test_the_shim_is_imported_first_and_nothing_else_changes(
    source: bytes, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    written = with_hook(source)
    assert written is not None
    assert has_hook(written)
    assert not has_hook(source)
    package = tmp_path / "hooked"
    package.mkdir()
    (package / "__init__.py").write_bytes(written)
    (package / f"{PRELOAD}.py").write_text("import sys\nseen = dict(vars(sys.modules['hooked']))\n")
    monkeypatch.setattr(sys, "path", [str(tmp_path), *sys.path])
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    importlib.invalidate_caches()
    try:
        module = importlib.import_module("hooked")
        seen = sys.modules[f"hooked.{PRELOAD}"].seen
    finally:
        for name in [name for name in sys.modules if name.split(".")[0] == "hooked"]:
            del sys.modules[name]
    assert module.__doc__ == ast.get_docstring(ast.parse(source), clean=False)
    own = {"annotations", "division"}
    assert {name for name in seen if not name.startswith("__")} <= own
    plain: dict[str, object] = {}
    exec(compile(source, "plain", "exec"), plain)  # noqa: S102 - a source of this test
    assert {name for name in vars(module) if not name.startswith("_")} == {
        name for name in plain if not name.startswith("_")
    }
    rest = re.sub(rb"from \. import _wheelfix_preload  # noqa[^\r\n]*\r?\n", b"", written)
    assert rest in {source, source + b"\n"}


@pytest.mark.parametrize(
    "source",
    [
        b"__path__ = __import__('pkgutil').extend_path(__path__, __name__)\n",
        b"__import__('pkg_resources').declare_namespace(__name__)\n",
        b"'''One.''' 'Two.'; import os\n",
        b"from __future__ import annotations; import os",
        b"@staticmethod\ndef g(): ...\n",
        b"print 'Python 2'\n",
        b"name = '\xe9'\n",
        b"x" * (2**20 + 1),
        b"(" * 5000,
        b"import os\0\n",
    ],
)
def test_a_shared_or_unreadable_source_is_left_alone(source: bytes) -> None:
    assert with_hook(source) is None


# --- The source of a shim -------------------------------------------------------------------------

LIBRARIES = {"libpro.so.3": "../pro.libs", "libdep.so.1": 'lib/\\"\u00e9\U0001f600'}


def test_a_shim_can_be_read_back_and_is_valid_python_3_6() -> None:
    source = shim_source(LIBRARIES)
    assert read_shim(source) == LIBRARIES
    ast.parse(source, feature_version=(3, 6))
    assert source.isascii()
    assert shim_source(dict(reversed(list(LIBRARIES.items())))) == source


@pytest.mark.parametrize(
    "source",
    [
        b"",
        b"LIBRARIES = ['a']\n",
        b"LIBRARIES = {f(): 'b'}\n",
        b"LIBRARIES = {**a}\n",
        b"LIBRARIES = [\n",
        b"a.b = {}\n",
    ],
)
def test_other_files_of_that_name_are_no_shims(source: bytes) -> None:
    assert read_shim(source) is None
