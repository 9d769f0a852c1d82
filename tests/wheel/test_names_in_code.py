"""What code names: by its bytes, which need not be text."""

import os
from collections.abc import Collection, Iterator, Mapping
from pathlib import Path

import pytest

from tests.support.build import extension, make_wheel, shared_object
from wheelfix.analysis.objects_in_use import objects_in_use
from wheelfix.host.library_search import GivenLibraries
from wheelfix.wheel.names_in_code import CodeNames
from wheelfix.wheel.reader import open_wheel
from wheelfix.wheel.zip_reader import ZipReader


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


@pytest.mark.parametrize("count", [1, 3, 8, 30])
def test_an_object_is_inflated_once_for_all_names(
    count: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    wanted = {f"name{n}" for n in range(count)}
    texts = "".join(f'const char *t{n} = "name{n}";' for n in range(count))
    wheel = make_wheel(tmp_path, files={"demo/a.so": shared_object(tmp_path / "a.so", texts)})
    inflated: list[str] = []
    inflate = ZipReader.inflate

    def noted(self: ZipReader, name: str) -> Iterator[bytes]:
        inflated.append(name)
        return inflate(self, name)

    with open_wheel(wheel) as archive:
        monkeypatch.setattr(ZipReader, "inflate", noted)
        assert CodeNames(archive).mentions(wanted) == dict.fromkeys(wanted, ("demo/a.so",))
    assert inflated.count("demo/a.so") <= 2  # and for its dynamic strings


def test_the_modules_of_a_wheel_are_sought_in_it_at_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    files: dict[str, bytes | str | Path] = {
        f"demo/_m{n}.so": extension(tmp_path / f"_m{n}.so", f"_m{n}") for n in range(12)
    }
    source = "import importlib\nfor n in range(12):\n    importlib.import_module(name(n))\n"
    wheel = make_wheel(tmp_path, files={"demo/__init__.py": source, **files})
    asked: list[int] = []
    mentions = CodeNames.mentions

    def noted(self: CodeNames, names: Collection[str]) -> Mapping[str, tuple[str, ...]]:
        asked.append(len(names))
        return mentions(self, names)

    monkeypatch.setattr(CodeNames, "mentions", noted)
    with open_wheel(wheel) as archive:
        assert not objects_in_use(archive.wheel, GivenLibraries(archive=archive, library_path=()))
    assert len([number for number in asked if number]) <= 2
