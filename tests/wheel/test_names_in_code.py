"""What code names: by its bytes, which need not be text."""

import os
from pathlib import Path

import pytest

from tests.support.build import make_wheel, shared_object
from wheelfix.wheel.names_in_code import CodeNames
from wheelfix.wheel.reader import open_wheel


@pytest.mark.parametrize("name", [b"lib\xff.so.1", b"\xff\xfe", "libü.so".encode()])
def test_a_library_is_named_by_its_bytes(name: bytes, tmp_path: Path) -> None:
    text = "".join(f"\\x{byte:02x}" for byte in name)
    naming = shared_object(tmp_path / "a.so", f'const char *name(void) {{ return "{text}"; }}')
    other = shared_object(tmp_path / "b.so", "int b(void) { return 1; }", soname=os.fsdecode(name))
    wheel = make_wheel(tmp_path, files={"demo/a.so": naming, "demo/b.so": other})
    with open_wheel(wheel) as archive:
        decoded = name.decode("utf-8", "surrogateescape")
        assert archive.wheel.elfs["demo/b.so"].soname == decoded
        assert CodeNames(archive).mentions({decoded, "c.so"}) == {
            decoded: ("demo/a.so",),
            "c.so": (),
        }


@pytest.mark.parametrize(
    ("source", "is_named"),
    [
        ("_core.value()", True),
        ("'_core.so'", False),
        ("'_core.abi3.so'", False),
        ("'_core.abi3t.so'", False),
        ("'_core.cpython-311-x86_64-linux-gnu.so'", False),
        ("'_core.pypy39-pp73-x86_64-linux-gnu.so'", False),
        ("_core.abi3_version", True),
    ],
)
def test_the_name_of_a_file_is_not_that_of_a_module(
    source: str, tmp_path: Path, *, is_named: bool
) -> None:
    module = shared_object(tmp_path / "_core.so")
    wheel = make_wheel(tmp_path, files={"demo/_core.so": module, "demo/__init__.py": source})
    with open_wheel(wheel) as archive:
        assert CodeNames(archive).is_named("_core") == is_named
