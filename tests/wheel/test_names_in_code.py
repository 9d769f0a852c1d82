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
