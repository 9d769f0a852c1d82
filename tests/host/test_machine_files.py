"""Files of this machine: what another user could change is not read."""

import hashlib
import json
import os
import zipfile
from collections.abc import Callable
from pathlib import Path
from tempfile import mkdtemp

import pytest

from tests.support import build, repairing
from tests.support.build import make_wheel
from wheelfix.cli.app import run
from wheelfix.errors import ToolError
from wheelfix.host.machine_files import (
    MAX_TEXT,
    LinksOut,
    UntrustedFileError,
    folders_below,
    open_regular,
    read_regular,
    read_trusted,
    trusted_files,
    trusted_path,
)
from wheelfix.host.os_packages import Package, owners
from wheelfix.pipelines.repair_result import Outcome, Status
from wheelfix.settings import Settings

NOBODY = 65534
needs_another_user = pytest.mark.skipif(os.geteuid() != 0, reason="needs another user")


def give(*paths: Path) -> None:
    """Give the entries at `paths` to another user; only root can."""
    for path in paths:
        os.chown(path, NOBODY, NOBODY, follow_symlinks=False)


@pytest.fixture
def shared(tmp_path: Path) -> Path:
    """Make a folder in which every user may make files, as /tmp."""
    folder = tmp_path / "site-packages"
    folder.mkdir()
    folder.chmod(0o1777)
    return folder


def put(path: Path, text: str = "text") -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    return path


# --- Which files are trusted ----------------------------------------------------------------------


def test_an_own_file_is_read_through_own_links(shared: Path, tmp_path: Path) -> None:
    put(shared / "own/real/file")
    (shared / "own/link").symlink_to("real")
    (shared / "here").symlink_to(shared / "own/link/../real")
    for path in (shared / "own/link/file", shared / "here/file", shared / "own/../own/real/file"):
        assert read_trusted(path, 4) == b"text"
        assert trusted_path(path) == Path(os.path.realpath(path))
    with pytest.raises(OSError, match="larger than 3 bytes"):
        read_trusted(shared / "own/real/file", 3)
    (tmp_path / "loop").symlink_to("loop")
    with pytest.raises(OSError, match="symbolic links"):
        trusted_path(tmp_path / "loop")


def test_a_relative_path_is_not_found() -> None:
    with pytest.raises(FileNotFoundError):
        trusted_path("etc/passwd")


@pytest.mark.parametrize("text", ["a\0b", "\ud800"])
def test_what_is_not_a_path_is_not_found(text: str) -> None:
    with pytest.raises(FileNotFoundError):
        trusted_path(f"/{text}")
    with pytest.raises(FileNotFoundError):
        open_regular(f"/{text}")


@needs_another_user
@pytest.mark.parametrize("entry", ["folder", "folder/link", "folder/real", "folder/real/file"])
def test_an_entry_of_another_user_is_refused(shared: Path, entry: str) -> None:
    put(shared / "folder/real/file")
    (shared / "folder/link").symlink_to("real")
    assert read_trusted(shared / "folder/link/file", MAX_TEXT)
    give(shared / entry)
    with pytest.raises(PermissionError, match="belongs to user `nobody`") as caught:
        read_trusted(shared / "folder/link/file", MAX_TEXT)
    assert caught.value.filename == str(shared / entry)


@pytest.mark.parametrize(("place", "mode"), [("folder", 0o777), ("folder/file", 0o666)])
def test_what_all_users_may_write_is_refused(tmp_path: Path, place: str, mode: int) -> None:
    file = put(tmp_path / "folder/file")
    (tmp_path / place).chmod(mode)
    with pytest.raises(PermissionError, match="can be changed by other users"):
        read_trusted(file, MAX_TEXT)
    (tmp_path / place).chmod(mode & ~0o002)
    assert read_trusted(file, MAX_TEXT), "the group has no other members"


@needs_another_user
def test_the_remedy_is_a_command_that_the_user_may_run(
    shared: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def remedy() -> str:
        with pytest.raises(UntrustedFileError) as caught:
            read_trusted(file, MAX_TEXT)
        return caught.value.remedy

    file = put(shared / "folder/file")
    give(shared / "folder")
    assert remedy() == f"chown -h root {shared}/folder"
    monkeypatch.setattr(os, "geteuid", lambda: NOBODY + 1)
    assert remedy() == f"sudo chown -h root {shared}/folder"
    monkeypatch.setattr(os, "geteuid", lambda: NOBODY)
    file.chmod(0o666)
    assert remedy() == f"sudo chmod go-w {file}", "it belongs to root"
    give(file)
    assert remedy() == f"chmod go-w {file}"


@needs_another_user
def test_what_a_group_with_other_users_may_write_is_refused(tmp_path: Path) -> None:
    file = put(tmp_path / "folder/file")
    os.chown(file.parent, 0, NOBODY)
    assert read_trusted(file, MAX_TEXT)
    file.parent.chmod(0o770)
    with pytest.raises(PermissionError, match="can be changed by other users"):
        read_trusted(file, MAX_TEXT)


@needs_another_user
def test_the_owner_of_the_current_directory_is_trusted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In a container, root often works in the checkout of another user."""
    file = put(tmp_path / "checkout/build/file")
    give(tmp_path / "checkout", file.parent)
    with pytest.raises(PermissionError):
        read_trusted(file, MAX_TEXT)
    monkeypatch.chdir(tmp_path / "checkout")
    assert read_trusted(file, MAX_TEXT)
    assert read_trusted(Path.cwd() / "build/file", MAX_TEXT)


@needs_another_user
def test_owners_alone_count_where_the_current_directory_is_open_to_all(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As in a container with a folder of Windows, where every mode is 0777."""
    file = put(tmp_path / "mounted/build/file")
    for path in (file.parent.parent, file.parent, file):
        path.chmod(0o777)
    with pytest.raises(PermissionError):
        read_trusted(file, MAX_TEXT)
    monkeypatch.chdir(tmp_path / "mounted")
    assert read_trusted(file, MAX_TEXT)
    give(file)
    with pytest.raises(PermissionError, match="belongs to"):
        read_trusted(file, MAX_TEXT)


def test_only_regular_files_are_opened(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "fifo")
    (tmp_path / "zero").symlink_to("/dev/zero")
    for path in (tmp_path / "fifo", tmp_path / "zero", tmp_path):
        with pytest.raises(OSError, match="not a regular file"):
            read_regular(path, MAX_TEXT)
    sparse = put(tmp_path / "sparse")
    os.truncate(sparse, 1 << 36)
    with pytest.raises(OSError, match="larger than"):
        read_regular(sparse, MAX_TEXT)


def test_files_below_a_folder_do_not_leave_it(tmp_path: Path) -> None:
    folder = tmp_path / "folder"
    put(folder / "b/text")
    put(folder / "a")
    secret = put(tmp_path / "secret")
    (folder / "inner").symlink_to("b/text")
    (folder / "outer").symlink_to(secret)
    (folder / "outer-folder").symlink_to("..")
    os.truncate(put(folder / "huge"), MAX_TEXT + 1)
    os.mkfifo(folder / "fifo")
    (folder / "zero").symlink_to("/dev/zero")
    assert list(trusted_files(folder, MAX_TEXT)) == [
        ("a", folder / "a"), ("b/text", folder / "b/text"), ("inner", folder / "b/text"),
    ]  # fmt: skip
    assert list(trusted_files(tmp_path / "missing", MAX_TEXT)) == []


# --- Owners of files ------------------------------------------------------------------------------


def conda_record(prefix: Path, file: str, texts: Path, **others: object) -> Path:
    record = {"name": "zfoo", "version": "1", "files": [file], "extracted_package_dir": str(texts)}
    return put(prefix / "conda-meta/x.json", json.dumps({**record, **others}))


def distribution(site: Path, file: str) -> Path:
    dist_info = site / "x-1.dist-info"
    put(dist_info / "METADATA", "Metadata-Version: 2.1\nName: x\nVersion: 1\n")
    return put(dist_info / "RECORD", f"{file},,\n")


def owner(library: Path) -> Package | None:
    return owners([library], {"PATH": ""}, library.parent).get(library)


@needs_another_user
def test_a_record_that_another_user_planted_names_no_owner(shared: Path) -> None:
    library = put(shared / "build/lib/libzfoo.so.1")
    record = conda_record(shared, "build/lib/libzfoo.so.1", shared / "evil")
    package = owner(library)
    assert package is not None, "as long as it is the user's own"
    give(record)
    assert owner(library) is None
    give(record.parent)
    assert owner(library) is None


@needs_another_user
def test_a_distribution_that_another_user_planted_names_no_owner(shared: Path) -> None:
    library = put(shared / "x/libzfoo.so.1")
    record = distribution(shared, "x/libzfoo.so.1")
    assert owner(library) is not None
    give(record)
    assert owner(library) is None
    os.chown(record, 0, 0)
    give(record.parent)
    assert owner(library) is None


def test_a_distribution_counts_in_site_packages_alone(tmp_path: Path) -> None:
    library = put(tmp_path / "build/lib/libzfoo.so.1")
    distribution(tmp_path, "build/lib/libzfoo.so.1")
    assert owner(library) is None


@pytest.mark.each_run("conda-meta/x.json-[fz]*", "x-1*")
@pytest.mark.parametrize("kind", ["fifo", "zero", "huge"])
@pytest.mark.parametrize("name", ["conda-meta/x.json", "x-1.dist-info/RECORD"])
def test_a_record_that_is_not_a_usual_file_is_absent(tmp_path: Path, kind: str, name: str) -> None:
    site = tmp_path / "site-packages"
    library = put(site / "x/libzfoo.so.1")
    record = site / name
    record.parent.mkdir()
    if kind == "fifo":
        os.mkfifo(record)
    elif kind == "zero":
        record.symlink_to("/dev/zero")
    else:
        os.truncate(put(record), 60 << 30)
    assert owner(library) is None


@pytest.mark.parametrize("field", ["name", "version", "license", "subdir"])
def test_a_record_with_half_a_character_is_absent(tmp_path: Path, field: str) -> None:
    library = put(tmp_path / "lib/libzfoo.so.1")
    conda_record(tmp_path, "lib/libzfoo.so.1", tmp_path / "texts", **{field: "\ud800z"})
    assert owner(library) is None


def test_names_of_license_texts_stay_in_their_folder(tmp_path: Path) -> None:
    library = put(tmp_path / "lib/libzfoo.so.1")
    odd = os.fsdecode(b"\xff\n.txt")
    for name in ("..x", ".hidden/a", odd, "b" * 255):
        put(tmp_path / "texts/info/licenses" / name)
    conda_record(tmp_path, "lib/libzfoo.so.1", tmp_path / "texts", name="../../x")
    package = owner(library)
    assert package is not None
    assert [text.name for text in package.license_files] == [
        "__.._x/_x", "__.._x/_hidden/a", f"__.._x/{'b' * 200}", "__.._x/__.txt",
    ]  # fmt: skip
    assert all(text.path.is_file() for text in package.license_files)


# --- A repair -------------------------------------------------------------------------------------


def repaired(lib: Path, out: Path, *others: Path) -> Outcome:
    """Repair a wheel that needs a library in `lib`, and may search `others` before."""
    library = build.shared_object(lib / "libzfoo.so.1", "int zfoo(void) { return 1; }")
    rpath = ":".join(map(str, (*others, lib)))
    module = build.extension(
        out / "_core.so", "_core", needed=[library], calls=["zfoo"], rpath=rpath
    )
    wheel = build.make_wheel(
        out / "dist", files={"demo/_core.cpython-311-x86_64-linux-gnu.so": module}
    )
    if others:
        build.shared_object(others[0] / library.name, "int zfoo(void) { return 666; }")
        give(others[0] / library.name)
    return repairing.repair(wheel, Settings(wheel_dir=out / "out"), os.environ)


def members(outcome: Outcome) -> dict[str, bytes]:
    assert outcome.status is Status.REPAIRED, outcome.error
    assert outcome.output is not None
    with zipfile.ZipFile(outcome.output) as archive:
        return {name: archive.read(name) for name in archive.namelist()}


def planted_by_conda(shared: Path, secret: Path) -> list[Path]:
    link = shared / "evil/info/licenses/key"
    link.parent.mkdir(parents=True)
    link.symlink_to(secret)
    record = conda_record(shared, "build/lib/libzfoo.so.1", shared / "evil")
    return [record.parent, record, shared / "evil", shared / "evil/info", link.parent, link]


def planted_by_installer(shared: Path, secret: Path) -> list[Path]:
    record = distribution(shared, "build/lib/libzfoo.so.1")
    link = record.parent / "licenses/key"
    link.parent.mkdir()
    link.symlink_to(secret)
    return [record.parent, record, record.with_name("METADATA"), link.parent, link]


@pytest.mark.parametrize("plant", [planted_by_conda, planted_by_installer])
@pytest.mark.parametrize("is_of_another", [pytest.param(True, marks=needs_another_user), False])
def test_a_repair_copies_no_file_that_another_user_chose(
    tmp_path: Path, shared: Path, plant: Callable[[Path, Path], list[Path]], *, is_of_another: bool
) -> None:
    """Nor one that the records of an environment lead to from outside."""
    secret = put(tmp_path / "secret", "TOP SECRET KEY")
    secret.chmod(0o600)
    entries = plant(shared, secret)
    if is_of_another:
        give(*entries)
    found = members(repaired(shared / "build/lib", tmp_path))
    assert any(name.startswith("demo.libs/libzfoo") for name in found)
    assert b"TOP SECRET KEY" not in b"".join(found.values())
    assert not any("key" in name for name in found)


@needs_another_user
def test_a_library_of_another_user_is_not_grafted(tmp_path: Path, shared: Path) -> None:
    outcome = repaired(tmp_path / "lib", tmp_path, shared)
    own = (tmp_path / "lib/libzfoo.so.1").read_bytes()
    assert any(hashlib.sha256(own).hexdigest()[:8] in name for name in members(outcome))
    (note,) = (text for text in outcome.messages if "is not used" in text)
    planted = shared / "libzfoo.so.1"
    assert note == (
        f"`{planted}` is not used, as `{planted}` belongs to user `nobody`; to use it: "
        f"chown -h root {planted}"
    )
    give(tmp_path / "lib")
    outcome = repairing.repair(outcome.source, Settings(wheel_dir=tmp_path / "x"), os.environ)
    assert isinstance(outcome.error, ToolError)
    assert "neither in the wheel nor among this machine's libraries" in outcome.error.message
    assert f"`{tmp_path / 'lib'}` belongs to user `nobody`" in outcome.error.message
    assert outcome.error.hint == (f"chown -h root {planted} && chown -h root {tmp_path / 'lib'}")


@needs_another_user
def test_a_library_of_another_user_is_not_included(tmp_path: Path) -> None:
    library = build.shared_object(tmp_path / "libzfoo.so.1", "int zfoo(void) { return 1; }")
    give(library)
    module = build.extension(tmp_path / "_core.so", "_core")
    wheel = build.make_wheel(
        tmp_path / "dist", files={"demo/_core.cpython-311-x86_64-linux-gnu.so": module}
    )
    settings = Settings(wheel_dir=tmp_path / "out", include=(str(library),))
    outcome = repairing.repair(wheel, settings, os.environ)
    assert isinstance(outcome.error, ToolError)
    assert outcome.error.message == (
        f"`{library}` cannot be grafted: `{library}` belongs to user `nobody`"
    )
    assert outcome.error.hint == f"to graft it: chown -h root {library}"


def test_folders_in_each_other_may_be_many(tmp_path: Path) -> None:
    """More than Python 3.11 calls functions in each other: `os.walk` and `rglob` fail there."""
    folders = [str(tmp_path) + "/d" * depth for depth in range(1200)]
    for folder in folders[1:]:
        os.mkdir(folder)  # noqa: PTH102 - text, as below
    (tmp_path / "loop").symlink_to(tmp_path)
    found = list(folders_below(tmp_path))
    for folder in folders[:0:-1]:
        os.rmdir(folder)  # noqa: PTH106 - shutil.rmtree calls itself, too
    assert found == [(folder, ["loop"] if not at else []) for at, folder in enumerate(folders)]


def test_the_folders_of_the_kernel_are_left_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`--library-path /` leads to /proc, which has folders for each process and thread."""
    for name in ("usr", "proc/1"):
        (tmp_path / name).mkdir(parents=True)
    monkeypatch.setattr("wheelfix.host.machine_files._OF_THE_KERNEL", (f"{tmp_path}/proc/",))
    folders = [folder for folder, _ in folders_below(tmp_path)]
    assert folders == [str(tmp_path), f"{tmp_path}/usr"]


@pytest.mark.skipif(os.geteuid() != 0, reason="only root gives files away")
@pytest.mark.parametrize("command", ["repair", "verify", "doctor", "doctor --prove ."])
def test_a_temporary_folder_of_others_is_refused_with_its_owner(
    command: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """As of root in a container; otherwise a repair takes its own copies for missing ones."""
    folder = tmp_path / "tmp"
    folder.mkdir()
    os.chown(folder, 12345, 12345)
    monkeypatch.setenv("TMPDIR", str(folder))
    wheel = make_wheel(tmp_path, files={"demo.py": ""})
    assert run([*command.split(), *([] if "." in command else [str(wheel)])]) == 2
    said = capsys.readouterr().err
    assert f"`{folder}` belongs to user 12345" in said
    assert "set TMPDIR to a folder in which only you can write" in said
    assert not list(folder.iterdir())


@pytest.mark.parametrize("place", ["/", "/proc", "/proc/self/root", "/sys", "/dev", "..", "."])
def test_a_link_to_the_machine_or_to_its_kernel_is_not_a_package(
    place: str, tmp_path: Path
) -> None:
    top, packages = tmp_path / "top", tmp_path / "packages"
    top.mkdir()
    packages.mkdir()
    (top / "package").symlink_to(packages)
    (top / "link").symlink_to(place)
    follow = LinksOut(str(top)).follow
    assert follow(str(top / "package"))
    assert not follow(str(top / "link"))


def test_a_link_to_shared_memory_may_be_a_package(tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to(mkdtemp(dir="/dev/shm"))
    is_followed = LinksOut(str(tmp_path)).follow(str(tmp_path / "link"))
    (tmp_path / "link").resolve().rmdir()
    assert is_followed


def test_what_links_lead_to_is_read_up_to_a_limit(tmp_path: Path) -> None:
    """A link to a whole machine costs no more; the folder itself is read to its end."""
    top, machine = tmp_path / "top", tmp_path / "machine"
    for n in range(9):
        (top / f"own{n}").mkdir(parents=True)
        (machine / f"{n}").mkdir(parents=True)
        (machine / f"{n}" / "file").touch()
    (top / "link").symlink_to(machine)
    links = LinksOut(str(top))
    links.left = 8
    found = [folder for folder, _ in folders_below(top, links)]
    assert len([one for one in found if "own" in one]) == 9
    assert len([one for one in found if "/link/" in one]) == 4
    assert len([one for one in folders_below(top, LinksOut(str(top))) if "/link/" in one[0]]) == 9


def test_links_out_of_several_folders_have_one_limit_and_lead_to_each_folder_once(
    tmp_path: Path,
) -> None:
    one, two, shared = (tmp_path / name for name in ("one", "two", "shared"))
    for folder in (one, two, shared):
        folder.mkdir()
    for folder, other in ((one, two), (two, one)):
        (folder / "link").symlink_to(shared)
        (folder / "other").symlink_to(other)
    links = LinksOut(str(one), str(two))
    below = [folder for top in (one, two) for folder, _ in folders_below(top, links)]
    assert below == [str(one), str(one / "link"), str(two)]
