"""What is new in a wheel is deflated to the same bytes by the same codec."""

import random
import sys
import time
import zlib
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Event

import pytest

from wheelfix.errors import SettingsError, VerificationError
from wheelfix.pipelines.apply_edits import codec_of
from wheelfix.settings import ZipCodec
from wheelfix.wheel.deflate import ZLIB, Codec, Early, deflate_ahead

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


def test_pieces_of_a_codec_without_dictionaries_are_joined(tmp_path: Path) -> None:
    pytest.importorskip("deflate", reason="it has no wheel for this machine")
    codec = codec_of(ZipCodec.LIBDEFLATE)._replace(piece=2**20)
    file = tmp_path / "content"
    file.write_bytes(CODE)
    data = deflated(codec, file)
    assert zlib.decompress(data, -zlib.MAX_WBITS) == CODE
    assert data[:1000] == codec.compress(CODE[: 2**20], -1)[:1000] if codec.compress else False
    whole = deflated(codec._replace(piece=2**25), file)
    assert len(whole) < len(data) < 1.01 * len(whole)


def test_a_piece_whose_end_is_not_found_is_left_to_zlib(tmp_path: Path) -> None:
    def stored(data: bytes, _level: int) -> bytes:
        return zlib.compress(data, 0, -15)

    codec = ZLIB._replace(piece=2**20, compress=stored)
    file = tmp_path / "content"
    file.write_bytes(SOME)
    data = deflated(codec, file)
    assert zlib.decompress(data, -zlib.MAX_WBITS) == SOME
    assert data.startswith(deflated(ZLIB, file)[:1000])


@pytest.mark.parametrize("edited", [0, 2**20 - 1, 2**20, 2**21 + 5, len(CODE) - 1])
@pytest.mark.parametrize("one_shot", [True, False])
def test_what_was_begun_early_is_used_where_it_is_what_is_asked_for(
    edited: int, tmp_path: Path, *, one_shot: bool
) -> None:
    """A piece depends on what precedes it, too."""
    done: list[bytes] = []

    def compress(data: bytes, _level: int) -> bytes:
        done.append(data)
        return zlib.compress(data, 1, -15)

    size = 2**20
    codec = ZLIB._replace(piece=size, compress=compress if one_shot else None)
    content = bytearray(CODE)
    content[edited] ^= 1
    before, after = tmp_path / "before", tmp_path / "after"
    before.write_bytes(CODE)
    after.write_bytes(content)
    inner = range(size, len(CODE) - size, size)
    with Early(codec, -1) as early, ThreadPoolExecutor(2) as pool:
        early.begin([before])
        while one_shot and len(done) < len(inner):
            time.sleep(0.01)
        data = b"".join(each for _, each in deflate_ahead(pool, [after], codec, -1, early))
    made = done.copy()
    assert data == deflated(codec, after)
    again = [at for at in inner if at - 2**15 <= edited < at + size]
    assert len(made) == one_shot * (len(range(0, len(CODE), size)) + len(again))


def test_what_was_begun_early_and_is_not_asked_for_keeps_nobody_waiting(tmp_path: Path) -> None:
    began = Event()

    def slow(data: bytes, _level: int) -> bytes:
        began.set()
        time.sleep(0.2)
        return zlib.compress(data, 1, -15)

    file = tmp_path / "content"
    file.write_bytes(SOME)
    start = time.monotonic()
    with Early(ZLIB._replace(piece=2**17, compress=slow), -1) as early:
        early.begin([file])
        began.wait()
    assert time.monotonic() - start < 2


@pytest.mark.parametrize("wrong", [b"\3\0", zlib.compress(b"something else", 6, -15), b"nonsense"])
def test_a_codec_that_is_wrong_is_found_out(wrong: bytes) -> None:
    def compress(_data: bytes, _level: int) -> bytes:
        return wrong

    codec = Codec("it", 2**20, compress)
    with pytest.raises(VerificationError, match="it has deflated does not inflate"):
        deflated(codec, b"something")


def test_auto_takes_the_faster_one_that_is_installed(monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("deflate", reason="it has no wheel for this machine")
    assert codec_of(ZipCodec.AUTO).name.startswith("libdeflate (deflate ")
    monkeypatch.setitem(sys.modules, "deflate", None)
    assert codec_of(ZipCodec.AUTO) == ZLIB
    assert ZLIB.name == f"zlib {zlib.ZLIB_RUNTIME_VERSION}"


def test_a_codec_that_is_asked_for_and_not_there_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "deflate", None)
    with pytest.raises(SettingsError, match="`deflate` is not installed") as caught:
        codec_of(ZipCodec.LIBDEFLATE)
    assert "pip install 'wheelfix[fast]'" in str(caught.value.hint)
