"""glibc's libraries before symbols moved into libc.so.6."""

from functools import partial

import pytest

from tests.support.values import elf
from wheelfix.elf.model import Definition, Exports, Libc, VersionNeed
from wheelfix.loader.as_needed import Library
from wheelfix.loader.glibc_moves import before_moves, oldest_glibc
from wheelfix.loader.symbol_lookup import binds


def library(soname: str, **symbols: tuple[str, ...]) -> Library:
    """Make a library of symbols, each with its versions; the last version is the default."""
    definitions = {
        name: tuple(
            Definition(
                version=version,
                version_index=number,
                hidden=version != versions[-1],
                weak=False,
                type=2,
            )
            for number, version in enumerate(versions, 2)
        )
        for name, versions in symbols.items()
    }
    read = partial(Exports, definitions=definitions)
    return Library(path=f"/lib/{soname}", elf=elf(soname=soname), read=read)


NEW = {
    one.path: one
    for one in (
        library(
            "libc.so.6",
            timer_create=("GLIBC_2.2.5", "GLIBC_2.3.3", "GLIBC_2.34"),
            clock_gettime=("GLIBC_2.2.5", "GLIBC_2.17"),
            pthread_mutex_lock=("GLIBC_2.2.5",),
            pthread_create=("GLIBC_2.36",),
        ),
        library("librt.so.1", mq_open=("GLIBC_2.3.4",)),
        library("libpthread.so.0"),
    )
}


def names(release: tuple[int, ...]) -> dict[str, set[str]]:
    """Return what the libraries that differ in a release define."""
    return {one.elf.soname or "": {*one.exports.definitions} for one in before_moves(NEW, release)}


@pytest.mark.parametrize("release", [(2, 17), (2, 28), (2, 33)])
def test_a_symbol_belongs_to_the_library_that_had_it(release: tuple[int, ...]) -> None:
    assert names(release) == {
        "libc.so.6": {"clock_gettime", "pthread_mutex_lock", "pthread_create"},
        "librt.so.1": {"mq_open", "timer_create"},
    }


def test_a_move_counts_from_its_release_on() -> None:
    assert not names((2, 34))
    assert names((2, 16))["librt.so.1"] == {"mq_open", "timer_create", "clock_gettime"}


def test_it_has_the_versions_of_that_time_without_a_default() -> None:
    (_, librt) = before_moves(NEW, (2, 31))
    found = librt.exports.definitions["timer_create"]
    assert [definition.version for definition in found] == ["GLIBC_2.2.5", "GLIBC_2.3.3"]
    assert binds(found, None, Libc.GLIBC)
    assert not binds(found, "GLIBC_2.34", Libc.GLIBC)


def test_libraries_of_an_old_glibc_do_not_change() -> None:
    old = [
        library("libc.so.6", pthread_mutex_lock=("GLIBC_2.2.5",)),
        library("librt.so.1", timer_create=("GLIBC_2.2.5", "GLIBC_2.3.3")),
    ]
    assert not [*before_moves({one.path: one for one in old}, (2, 17))]
    assert not [*before_moves({}, (2, 17))]


def test_the_oldest_glibc_is_that_of_the_newest_version_needed() -> None:
    def needing(*versions: str) -> VersionNeed:
        return VersionNeed(file="libc.so.6", versions=versions)

    first = elf(verneed=(needing("GLIBC_2.2.5", "GLIBC_2.17"), needing("GLIBCXX_3.4.30")))
    second = elf(verneed=(needing("GLIBC_2.3.4", "GLIBC_PRIVATE"),))
    assert oldest_glibc([first, second]) == (2, 17)
    assert oldest_glibc([elf()]) == ()
    relative = elf(verneed=(needing("GLIBC_2.17", "GLIBC_ABI_DT_RELR", "GLIBC_PRIVATE"),))
    assert oldest_glibc([relative]) == (2, 36)
