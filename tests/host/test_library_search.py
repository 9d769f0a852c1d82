"""Libraries of `library-path` and of this machine, as a wheel's objects find them."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.build import make_wheel, shared_object
from wheelfix.elf.model import Libc
from wheelfix.errors import SettingsError
from wheelfix.host import library_search
from wheelfix.host.library_search import GivenLibraries, HostLibraries
from wheelfix.host.provider_lookup import in_directory
from wheelfix.loader.load_values import Environment
from wheelfix.providers.model import Provided
from wheelfix.wheel.edits import AddMember, HostFile, MoveMember
from wheelfix.wheel.reader import Archive, open_wheel

MEMBER = "demo/liba.so"


@pytest.fixture
def archive(tmp_path: Path) -> Iterator[Archive]:
    """A wheel with one library, which has an RPATH of the build machine."""
    inner = shared_object(tmp_path / "build" / "libinner.so")
    library = shared_object(
        tmp_path / "liba.so",
        "int inner_of_a(void){return 1;}",
        needed=[inner],
        rpath=str(tmp_path / "build"),
    )
    with open_wheel(make_wheel(tmp_path, tag="py3-none-any", files={MEMBER: library})) as archive:
        yield archive


def libraries(archive: Archive, *library_path: str, **environ: str) -> HostLibraries:
    return HostLibraries(archive=archive, library_path=library_path, environ=environ)


def test_a_library_is_found_by_rpath_and_remembered_without_it(
    archive: Archive, tmp_path: Path
) -> None:
    elf = archive.wheel.elfs[MEMBER]
    without_rpath = elf._replace(rpath=None, runpath=None)
    known = libraries(archive)
    assert known.host("libinner.so", without_rpath) is None
    found = known.host("libinner.so", elf)
    assert found is not None
    assert found.path == str(tmp_path / "build" / "libinner.so")
    assert known.host("libinner.so", without_rpath) is found
    assert known.including(()).host("libinner.so", without_rpath) is found
    (tmp_path / "empty").mkdir()
    assert known.preferring([str(tmp_path / "empty")]).host("libinner.so", without_rpath) is None


def test_only_given_libraries_are_found_without_the_machine(
    archive: Archive, tmp_path: Path
) -> None:
    elf = archive.wheel.elfs[MEMBER]
    given = GivenLibraries(archive=archive, library_path=())
    assert given.host("libinner.so", elf) is None
    assert given.host("libc.so.6", elf) is None
    assert libraries(archive).host("libc.so.6", elf) is not None
    provider = in_directory(tmp_path / "build")
    beside = given.beside([provider])
    assert beside.host("libinner.so", elf) is not None
    assert beside.provider_library("libinner.so", elf, provider, None) is not None
    other = Provided(requirement="other", wheel="/else.whl")
    assert beside.provider_library("libinner.so", elf, other, None) is None


def test_a_library_path_is_a_folder_that_exists(archive: Archive, tmp_path: Path) -> None:
    elf = archive.wheel.elfs[MEMBER]._replace(rpath=None, runpath=None)
    assert libraries(archive, str(tmp_path / "build")).host("libinner.so", elf) is not None
    other = libraries(archive, str(tmp_path / "build" / "build"))
    with pytest.raises(SettingsError, match="holds no libraries"):
        other.host("libinner.so", elf)


def test_a_library_path_entry_that_is_neither_folder_nor_wheel_is_refused(
    archive: Archive, tmp_path: Path
) -> None:
    elf = archive.wheel.elfs[MEMBER]
    with pytest.raises(SettingsError, match="holds no libraries"):
        libraries(archive, str(tmp_path / "none.whl")).host("libinner.so", elf)


def test_exports_are_those_of_the_member_behind_the_edits(archive: Archive, tmp_path: Path) -> None:
    inner = str(tmp_path / "build" / "libinner.so")
    edits = (
        MoveMember(member=MEMBER, new="demo.libs/liba.so"),
        AddMember(member="demo.libs/libinner.so", source=HostFile(path=inner), size=1),
    )
    known = libraries(archive).including(edits)
    moved, added = known.reader("demo.libs/liba.so"), known.reader("demo.libs/libinner.so")
    assert moved is not None
    assert added is not None
    assert "inner_of_a" in moved().definitions
    assert known.reader("demo.libs/none.so") is None


def test_the_trusted_directories_are_searched_though_neither_ld_so_conf_nor_the_loader_has_them(
    archive: Archive, monkeypatch: pytest.MonkeyPatch
) -> None:
    elf = archive.wheel.elfs[MEMBER]._replace(rpath=None, runpath=None)
    searched: list[str] = []
    bare = Environment(libc=Libc.GLIBC, files={}, default_directories=("/own/lib",))

    def configured_directories(_: object) -> tuple[str, ...]:
        return "/opt/lib", "/lib"

    monkeypatch.setattr(library_search, "configured_directories", configured_directories)

    def loader_environment(*_: object) -> Environment:
        return bare

    def search(path: object) -> None:
        searched.append(str(path))

    monkeypatch.setattr(library_search, "loader_environment", loader_environment)
    monkeypatch.setattr(library_search, "_map_readable", search)
    assert libraries(archive).host("libnone.so", elf) is None
    folders = ["/opt/lib", "/lib", "/own/lib", "/lib64", "/usr/lib", "/usr/lib64"]
    assert searched == [f"{folder}/libnone.so" for folder in folders]
