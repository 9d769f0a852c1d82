"""New members are deflated to the same bytes by the same codec."""

import random
import sys
import zlib
from concurrent.futures import ThreadPoolExecutor
from importlib.metadata import requires
from pathlib import Path

import pytest
from packaging.requirements import Requirement

from tests.support.build import make_wheel
from wheelfix.errors import BadWheelError, SettingsError
from wheelfix.pipelines.zip_codec import codec_of
from wheelfix.settings import ZipCodec
from wheelfix.wheel.deflate_members import ZLIB, Codec, deflate_ahead
from wheelfix.wheel.reader import open_wheel
from wheelfix.wheel.writer import write_wheel

SOME = random.Random(7).randbytes(700_000) * 4 + b"text " * 200_000  # noqa: S311 - no secret

CODE = b"".join(random.Random(8).choices([b"%d:" % n for n in range(3000)], k=700_000))  # noqa: S311


def deflated(codec: Codec, *contents: bytes | Path, level: int = -1, threads: int = 2) -> bytes:
    with ThreadPoolExecutor(threads) as pool:
        return b"".join(data for _, data in deflate_ahead(pool, contents, codec, level))


@pytest.fixture(params=["zlib", "libdeflate"])
def codec(request: pytest.FixtureRequest) -> Codec:
    choice = ZipCodec(request.param)
    if choice is ZipCodec.LIBDEFLATE:
        pytest.importorskip("deflate", reason="it has no wheel for this machine")
    return codec_of(choice)


@pytest.mark.parametrize("content", [b"", b"x", SOME], ids=["empty", "byte", "much"])
@pytest.mark.parametrize("level", [-1, 1, 9])
def test_any_inflater_gets_the_content_back(
    codec: Codec, content: bytes, level: int, tmp_path: Path
) -> None:
    file = tmp_path / "content"
    file.write_bytes(content)
    for given in (content, file):
        data = deflated(codec, given, level=level)
        assert zlib.decompress(data, -zlib.MAX_WBITS) == content


def test_the_bytes_do_not_depend_on_how_many_threads_make_them(
    codec: Codec, tmp_path: Path
) -> None:
    file = tmp_path / "content"
    file.write_bytes(SOME)
    assert deflated(codec, file, b"more", threads=1) == deflated(codec, file, b"more", threads=4)


@pytest.mark.large
def test_content_that_is_too_long_for_one_call_is_deflated_by_zlib(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def stored(data: bytes, _level: int) -> bytes:
        return zlib.compress(data, 0, -15)

    codec = Codec("it", stored)
    assert deflated(codec, CODE) == stored(CODE, -1)
    monkeypatch.setattr("wheelfix.wheel.deflate_members._WHOLE", len(CODE) - 1)
    assert deflated(codec, CODE) == deflated(ZLIB, CODE)


def test_pieces_refer_to_what_precedes_them() -> None:
    whole = zlib.compress(CODE, wbits=-15)
    assert len(whole) < len(deflated(ZLIB, CODE)) < 1.01 * len(whole)


@pytest.mark.parametrize("wrong", [b"\3\0", zlib.compress(b"something else", 6, -15), b"nonsense"])
def test_a_codec_that_is_wrong_is_found_out_when_the_wheel_is_read_back(
    wrong: bytes, tmp_path: Path
) -> None:
    path = make_wheel(tmp_path, files={"demo/a.py": b"a"})

    def compress(_data: bytes, _level: int) -> bytes:
        return wrong

    codec = Codec("it", compress)
    content = {"demo/a.py": b"something"}
    with (
        open_wheel(path) as archive,
        write_wheel(archive, archive.wheel, content, {}, tmp_path, codec=codec) as pending,
        pytest.raises(BadWheelError),
    ):
        open_wheel(pending.path, name=archive.wheel.name)


def test_auto_is_libdeflate_where_it_is_installed(monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("deflate", reason="it has no wheel for this machine")
    assert codec_of(ZipCodec.AUTO).name.startswith("libdeflate (deflate ")
    monkeypatch.setitem(sys.modules, "deflate", None)
    assert codec_of(ZipCodec.AUTO) == ZLIB
    assert ZLIB.name == f"zlib {zlib.ZLIB_RUNTIME_VERSION}"


def test_a_codec_that_is_not_installed_is_named_with_a_remedy(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setitem(sys.modules, "deflate", None)
    with pytest.raises(SettingsError, match="`deflate` is not installed") as caught:
        codec_of(ZipCodec.LIBDEFLATE)
    assert "pip install deflate" in str(caught.value.hint)


@pytest.mark.parametrize(
    ("machine", "python", "codecs"),
    [
        ("x86_64", "CPython", ["deflate", "zlib-ng"]),
        ("aarch64", "CPython", ["deflate", "zlib-ng"]),
        ("ppc64le", "CPython", []),
    ],
)
def test_codecs_are_installed_where_they_have_wheels(
    machine: str, python: str, codecs: list[str]
) -> None:
    around = {"platform_machine": machine, "platform_python_implementation": python}
    around |= {"python_version": "3.13", "extra": ""}
    needed = map(Requirement, requires("wheelfix") or ())
    found = {one.name for one in needed if one.marker is None or one.marker.evaluate(around)}
    assert sorted(found & {"deflate", "zlib-ng"}) == codecs
