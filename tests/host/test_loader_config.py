"""The loaders' files on this machine, damaged: they are read as far as they make sense."""

import os
import random
import sys
from pathlib import Path

import pytest

from tests.oracles.installations.cache import Entry, cache_bytes, named
from tests.support.values import elf
from wheelfix.elf.model import Machine
from wheelfix.host import loader_config
from wheelfix.host.loader_config import configured_directories, loader_environment, parse_cache
from wheelfix.host.sysroot import system_at

CACHE = cache_bytes(
    [
        Entry(name="liba.so.1", path="/usr/lib/liba.so.1"),
        Entry(name="libb.so.1", path="/usr/lib/glibc-hwcaps/x86-64-v3/libb.so.1", hwcap=named(1)),
    ]
)
X86_64 = (64, Machine.X86_64)
V3 = ("glibc-hwcaps/x86-64-v3",)


def test_a_cache_that_was_cut_gives_what_is_left() -> None:
    whole = parse_cache(CACHE, X86_64, V3)
    assert set(whole) == {"liba.so.1", "libb.so.1"}
    for size in range(len(CACHE)):
        assert parse_cache(CACHE[:size], X86_64, V3).keys() <= {"", *whole}


def test_a_damaged_cache_is_read_without_an_error() -> None:
    for seed in range(200):
        dice = random.Random(seed)  # noqa: S311 - a seeded test
        damaged = bytearray(CACHE)
        for _ in range(dice.randint(1, 4)):
            place = dice.randrange(20, len(damaged))
            damaged[place : place + 1] = dice.choice([b"\0", b"\x01", b"\xff", b""])
        parse_cache(bytes(damaged), X86_64, V3)


def test_a_line_of_the_configuration_ends_at_a_nul(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    config = tmp_path / "ld.so.conf"
    config.write_bytes(b"/one\ninclude sub\0*/x.conf\n/two\0x\n/three\n")
    monkeypatch.setattr(loader_config, "_CONFIG", str(config))
    assert configured_directories() == {
        "/one": f"{config}:1",
        "/two": f"{config}:3",
        "/three": f"{config}:4",
    }


def test_files_of_the_configuration_that_include_each_other_are_read_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By whatever name: each of twenty includes all, so that a tree of them has no end."""
    for number in range(20):
        (tmp_path / f"{number:02}.conf").write_text(
            f"include *.conf ../{tmp_path.name}/*.conf\n/{number}\n"
        )
    monkeypatch.setattr(loader_config, "_CONFIG", f"{tmp_path}/00.conf")
    assert set(configured_directories()) == {f"/{number}" for number in range(20)}


def test_the_paths_of_musl_end_at_a_nul(tmp_path: Path) -> None:
    (tmp_path / "etc").mkdir()
    (tmp_path / "etc/ld-musl-x86_64.path").write_bytes(b"/one:/two\n/three\0/four")
    sample = elf(interpreter=os.fspath(tmp_path / "lib/ld-musl-x86_64.so.1"))
    assert loader_environment(sample).default_directories == ("/one", "/two", "/three")


def test_the_folders_that_are_compiled_into_a_loader_are_its_own(tmp_path: Path) -> None:
    loader = tmp_path / "ld.so"
    loader.write_bytes(b"\x7fELF/alone/\0no/odd/lib64/\0/odd/lib/\0/no/file\0/not//it/\0")
    folders = loader_environment(elf(interpreter=str(loader))).default_directories
    assert folders == ("/odd/lib64", "/odd/lib")


def test_files_may_include_each_other_more_deeply_than_python_calls_functions(
    tmp_path: Path,
) -> None:
    """The directories come in the order of the lines, as those of ldconfig do."""
    (tmp_path / "etc").mkdir()
    last = 2 * sys.getrecursionlimit()
    for n in range(last + 1):
        name = f"{n}.conf" if n else "ld.so.conf"
        (tmp_path / "etc" / name).write_text(f"/before{n}\ninclude {n + 1}.conf\n/after{n}\n")
    found = list(configured_directories(system_at(str(tmp_path))))
    assert found[:2] == ["/before0", "/before1"]
    assert found[last : last + 2] == [f"/before{last}", f"/after{last}"]
    assert found[-1] == "/after0"


def test_files_that_include_each_other_are_read_once(tmp_path: Path) -> None:
    """Of 100 files that each include all of them a hundred times, too."""
    folder = tmp_path / "etc" / "ld.so.conf.d"
    folder.mkdir(parents=True)
    (tmp_path / "etc" / "ld.so.conf").write_text("include ld.so.conf.d/*.conf\n/last\n")
    for n in range(100):
        text = "include /etc/ld.so.conf.d/*.conf\ninclude *.conf\n" * 50 + f"/lib{n:02}\n"
        (folder / f"{n:02}.conf").write_text(text)
    found = configured_directories(system_at(str(tmp_path)))
    assert len(found) == 101
    assert found["/lib07"] == "/etc/ld.so.conf.d/07.conf:101"
    (tmp_path / "etc" / "ld.so.conf").write_text("".join(f"/{n}\n" for n in range(100_000)))
    assert len(configured_directories(system_at(str(tmp_path)))) < 10_000
