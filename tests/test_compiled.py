"""A compiled object that comes from the cache is the one that the compiler would make."""

import os
import shutil
from pathlib import Path

import pytest

from tests.support import compiled
from tests.support.build import shared_object

CASES: dict[str, list[str]] = {
    "plain": [],
    "debug": ["-g"],
    "gold": ["-fuse-ld=gold"],
    "script": ["-Wl,--version-script={folder}/map"],
    "relative script": ["-Wl,--version-script=map"],
}


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(compiled, "CACHE", tmp_path / "cache")
    monkeypatch.setattr("tempfile.gettempdir", lambda: "/is/elsewhere")
    return tmp_path / "cache"


def build(folder: Path, monkeypatch: pytest.MonkeyPatch, version: str, flags: list[str]) -> bytes:
    folder.mkdir()
    monkeypatch.chdir(folder)
    (folder / "map").write_text(f"{version} {{ global: *; }};")
    needed = shared_object(folder / "liba.so", soname=f"lib{version}.so", libc=False)
    flags = [word.format(folder=folder) for word in flags]
    path = shared_object(folder / "x.so", "int f(void) { return 1; }", needed=[needed], flags=flags)
    return path.read_bytes()


@pytest.mark.each_run("relative script")
@pytest.mark.parametrize("case", CASES)
def test_an_object_is_the_same_without_the_cache(
    tmp_path: Path, cache: Path, monkeypatch: pytest.MonkeyPatch, case: str
) -> None:
    """Twice in one folder, with other inputs, and elsewhere: what debug information names."""
    for name, version in (("a", "V1"), ("a", "V1"), ("a", "V2"), ("b", "V2"), ("b", "V1")):
        objects: list[bytes] = []
        for folder in (cache, tmp_path / "fresh"):
            monkeypatch.setattr(compiled, "CACHE", folder)
            objects.append(build(tmp_path / name, monkeypatch, version, CASES[case]))
            shutil.rmtree(tmp_path / name)
        shutil.rmtree(tmp_path / "fresh")
        assert objects[0] == objects[1], (name, version)
    assert any(cache.iterdir())


def test_a_hit_runs_no_compiler(
    tmp_path: Path, cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = shared_object(tmp_path / "a" / "x.so").read_bytes()
    (kept,) = cache.iterdir()
    monkeypatch.setattr(compiled, "_compile", None)
    again = shared_object(tmp_path / "b" / "x.so")
    assert again.read_bytes() == first == kept.read_bytes()
    assert os.access(again, os.X_OK)


def test_what_names_a_temporary_folder_is_not_kept(
    tmp_path: Path, cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tempfile.gettempdir", lambda: str(tmp_path))
    shared_object(tmp_path / "x.so", runpath=str(tmp_path))
    assert not cache.exists()


@pytest.mark.parametrize("flags", [[], ["-g"]])
def test_what_names_the_folder_of_a_test_names_that_of_the_next(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, flags: list[str]
) -> None:
    monkeypatch.setattr("tempfile.gettempdir", lambda: str(tmp_path))

    def built(run: str) -> list[bytes]:
        base = tmp_path / "pytest-of-me" / run / "popen-gw0"
        one, other = base / "test_a0", base / "test_a10"
        one.mkdir(parents=True)
        monkeypatch.chdir(one)
        library = shared_object(one / "liba.so", soname="liba.so", rpath=f"{one}:{other}")
        user = shared_object(
            other / "x.so", needed=[library], runpath=f"{other}:/x:{one}/lib", flags=flags
        )
        return [library.read_bytes(), user.read_bytes()]

    first = built("pytest-1")
    monkeypatch.setattr(compiled, "_compile", None)
    assert built("pytest-2") == [content.replace(b"/pytest-1/", b"/pytest-2/") for content in first]


def test_a_folder_that_cannot_be_written_is_no_cache(tmp_path: Path, cache: Path) -> None:
    cache.write_text("in the way")
    assert shared_object(tmp_path / "x.so").exists()


def test_only_what_a_month_has_not_used_is_forgotten(tmp_path: Path, cache: Path) -> None:
    old = cache / "old"
    shared_object(tmp_path / "x.so")
    old.write_bytes(b"")
    os.utime(old, (0, 0))
    compiled.forget_unused()
    assert len(list(cache.iterdir())) == 1
    assert not old.exists()
