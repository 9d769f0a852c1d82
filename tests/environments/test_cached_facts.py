"""Objects that are kept between runs: only of the same files, and only what only we can write."""

import os
import pickle
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.support.build import shared_object
from wheelfix.elf import reader
from wheelfix.elf.model import Elf
from wheelfix.environments.cached_facts import CachedFacts


@pytest.fixture
def library(tmp_path: Path) -> Path:
    path = shared_object(tmp_path / "liba.so", "int a(void) { return 1; }", soname="liba.so")
    os.utime(path, (1_000_000_000, 1_000_000_000))
    return path


def reads(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    found: list[str] = []
    read = reader.read_elf

    def noting(data: memoryview, path: str) -> Elf:
        found.append(path)
        return read(data, path)

    monkeypatch.setattr(reader, "read_elf", noting)
    return found


def test_a_file_is_read_once_until_it_changes(
    library: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    read, folder = reads(monkeypatch), tmp_path / "cache"
    first = CachedFacts(folder, "/env")
    elf = first.read(str(library))
    first.save()
    again = CachedFacts(folder, "/env")
    assert again.read(str(library)) == elf
    assert len(read) == 1
    (file,) = folder.iterdir()
    before = file.stat().st_mtime_ns
    again.save()
    assert file.stat().st_mtime_ns == before
    os.utime(library)  # just now: the next change may have the same time
    later = CachedFacts(folder, "/env")
    later.read(str(library))
    later.save()
    CachedFacts(folder, "/env").read(str(library))
    CachedFacts(folder, "/other").read(str(library))
    assert len(read) == 4


def test_a_file_of_the_same_times_and_size_is_read_again(
    library: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Programs set mtime; ctime is the kernel's."""
    read, folder = reads(monkeypatch), tmp_path / "cache"
    first = CachedFacts(folder, "/env")
    first.read(str(library))
    first.save()
    status = library.stat()
    library.write_bytes(library.read_bytes().replace(b"liba.so", b"libb.so"))
    os.utime(library, ns=(status.st_atime_ns, status.st_mtime_ns))
    assert library.stat().st_ino == status.st_ino
    assert CachedFacts(folder, "/env").read(str(library)).soname == "libb.so"
    assert len(read) == 2


def test_facts_are_known_until_a_file_changes(library: Path, tmp_path: Path) -> None:
    folder, names = str(library.parent), [library.name]
    first = CachedFacts(tmp_path / "cache", "/env")
    first.read(str(library))
    first.facts(str(library))[b"is good"] = ("yes",)
    first.facts_of_files(folder, names)[b"are good"] = ("all",)
    assert first.facts_of_files(folder, names) == {b"are good": ("all",)}
    first.save()
    again = CachedFacts(tmp_path / "cache", "/env")
    again.read(str(library))
    assert again.facts(str(library)) == {b"is good": ("yes",)}
    assert again.facts_of_files(folder, names) == {b"are good": ("all",)}
    assert again.facts_of_files(folder, []) == {}
    assert again.facts_of_files(folder, [library.name, "gone.py"]) == {}
    os.utime(library, (1_000_000_001, 1_000_000_001))
    later = CachedFacts(tmp_path / "cache", "/env")
    later.read(str(library))
    assert later.facts(str(library)) == later.facts_of_files(folder, names) == {}
    os.utime(library)  # just now: what is read is known in this run alone
    now = CachedFacts(tmp_path / "cache", "/env")
    now.read(str(library))
    now.facts(str(library))[b"is good"] = ("yes",)
    assert now.facts(str(library)) == {b"is good": ("yes",)}
    now.save()
    afterwards = CachedFacts(tmp_path / "cache", "/env")
    afterwards.read(str(library))
    assert afterwards.facts(str(library)) == {}


def damage(data: bytes) -> bytes:
    return data[:-20]


def run_a_program(_: bytes) -> bytes:
    class Attack:
        def __reduce__(self) -> tuple[object, tuple[str]]:
            return os.mkdir, ("made",)

    return pickle.dumps(Attack())


@pytest.mark.parametrize("change", [damage, run_a_program])
def test_a_damaged_cache_is_not_used(
    library: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, change: Callable[[bytes], bytes]
) -> None:
    read, folder = reads(monkeypatch), tmp_path / "cache"
    first = CachedFacts(folder, "/env")
    first.read(str(library))
    first.save()
    (file,) = folder.iterdir()
    file.write_bytes(change(file.read_bytes()))
    monkeypatch.chdir(tmp_path)
    CachedFacts(folder, "/env").read(str(library))
    assert len(read) == 2
    assert not Path("made").exists()


def test_a_cache_that_others_can_write_is_not_used(
    library: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    read, folder = reads(monkeypatch), tmp_path / "cache"
    first = CachedFacts(folder, "/env")
    first.read(str(library))
    first.save()
    (file,) = folder.iterdir()
    file.chmod(0o666)
    CachedFacts(folder, "/env").read(str(library))
    assert len(read) == 2
    folder.chmod(0o777)
    unsafe = CachedFacts(folder, "/other")
    unsafe.read(str(library))
    unsafe.save()
    assert len(list(folder.iterdir())) == 1


def test_old_environments_are_forgotten(library: Path, tmp_path: Path) -> None:
    for number in range(25):
        cache = CachedFacts(tmp_path / "cache", f"/env{number}")
        cache.read(str(library))
        cache.save()
    assert len(list((tmp_path / "cache").iterdir())) == 20
