"""Installed files, found by RECORD and identified by inode."""

import csv
import os
from pathlib import Path

import pytest

from wheelfix.host import machine_files
from wheelfix.host.installed_files import (
    added_folders,
    by_record,
    dist_info_folders,
    distributions,
    find_dist_info,
    find_file,
    recorded_files,
    to_install,
)
from wheelfix.loader.install_schemes import schemes
from wheelfix.wheel.model import WheelName


@pytest.fixture
def site(tmp_path: Path) -> Path:
    """A site-packages folder with one distribution, and a file of its data scheme."""
    site = tmp_path / "lib" / "site-packages"
    dist_info = site / "My_Demo-1.0.dist-info"
    dist_info.mkdir(parents=True)
    (site / "demo").mkdir()
    (site / "demo" / "lib.so").touch()
    (tmp_path / "share").mkdir()
    (tmp_path / "share" / "lib.so").touch()
    (dist_info / "RECORD").write_text("demo/lib.so,,\n../../share/lib.so,,\ndemo/lost.so,,\n")
    return site


@pytest.mark.parametrize("name", ["my_demo-1.0", "My.Demo-1.0", "my-demo-1.0"])
def test_the_dist_info_folder_is_found_by_its_normalized_name(site: Path, name: str) -> None:
    assert find_dist_info(site, f"{name}.dist-info") == site / "My_Demo-1.0.dist-info"
    assert find_dist_info(site, "demo-1.0.dist-info") is None
    assert find_dist_info(site / "none", f"{name}.dist-info") is None


def test_what_any_scheme_installs_is_found_in_its_prefix(tmp_path: Path) -> None:
    names = ("cp311-cp311", "cp313-cp313t", "pp310-pypy310_pp73", "pp37-pypy37_pp73")
    tags = [f"demo-1.0-{name}-linux_x86_64.whl" for name in names]
    places = {
        (one.root, folder)
        for tag in tags
        for one in schemes(WheelName.parse(tag))
        for folder in (one.purelib, one.platlib)
    }
    assert len(places) > 10
    for number, (root, folder) in enumerate(sorted(places)):
        prefix = tmp_path / str(number)
        site = prefix / os.path.relpath(folder, root)
        (site / "demo-1.0.dist-info").mkdir(parents=True)
        assert [found.parent for found in dist_info_folders(prefix)] == [site]


def test_members_are_found_by_record_and_lost_ones_are_left_out(site: Path) -> None:
    members = ["demo/lib.so", "demo/lost.so", "my_demo-1.0.data/data/share/lib.so"]
    found = by_record(site / "My_Demo-1.0.dist-info", members)
    root = os.path.realpath(site.parents[1])
    assert {member: file.path for member, file in found.items()} == {
        "demo/lib.so": f"{root}/lib/site-packages/demo/lib.so",
        "my_demo-1.0.data/data/share/lib.so": f"{root}/share/lib.so",
    }
    assert by_record(site / "none.dist-info", members) == {}


def test_a_file_belongs_to_the_distribution_that_lists_it(site: Path) -> None:
    root = os.path.realpath(site.parents[1])
    shared, other = f"{root}/share/lib.so", f"{root}/share/other.so"
    assert distributions(site, {shared, other}) == {shared: "My-Demo 1.0"}


@pytest.mark.parametrize("name", ['a "quoted", one.so', "é.so", "two\nlines.so"])
def test_a_file_with_an_odd_name_belongs_to_its_distribution(site: Path, name: str) -> None:
    with (site / "My_Demo-1.0.dist-info" / "RECORD").open("a", newline="") as record:
        csv.writer(record).writerow((f"demo/{name}", "", ""))
    path = os.path.realpath(site / "demo" / name)
    assert distributions(site, {path}) == {path: "My-Demo 1.0"}


@pytest.mark.parametrize(
    ("folder", "distribution", "installed"),
    [("My_Demo", "My-Demo 1.0", "My-Demo==1.0"), ("_rdemo", "-rdemo 1.0", "")],
)
def test_no_distribution_is_installed_as_an_option(
    site: Path, folder: str, distribution: str, installed: str
) -> None:
    (site / "My_Demo-1.0.dist-info").rename(site / f"{folder}-1.0.dist-info")
    assert to_install(site, distribution) == installed


def test_a_file_is_identified_by_its_inode(site: Path) -> None:
    library = site / "demo" / "lib.so"
    link = site / "demo" / "link.so"
    link.hardlink_to(library)
    one, other = find_file(str(library)), find_file(str(link))
    assert one is not None
    assert other is not None
    assert one.id == other.id
    assert one.path != other.path
    assert find_file(str(site)) is None
    assert find_file(str(site / "none")) is None


def test_a_row_of_record_with_a_nul_is_no_file(site: Path) -> None:
    (site / "My_Demo-1.0.dist-info" / "RECORD").write_bytes(b"a\0b,,\ndemo/x.so,,\n")
    assert list(recorded_files(site / "My_Demo-1.0.dist-info")) == [f"{site}/demo/x.so"]


def test_path_files_with_a_nul_or_a_link_to_themselves_add_nothing(site: Path) -> None:
    """Python ignores the rest of such a file, too."""
    (site / "loop.pth").symlink_to("loop.pth")
    (site / "nul.pth").write_bytes(b"a\0b\n")
    (site / "added.pth").write_text(f"{'x' * 300}\n/usr\n")
    assert list(added_folders(site, {})) == ["/usr (added.pth)"]


def test_the_folders_of_the_user_and_of_pythonpath_are_named(tmp_path: Path) -> None:
    prefix, home = tmp_path / "prefix", tmp_path / "home"
    own = home / ".local/lib/python3.11/site-packages"
    for folder in (prefix / "lib/python3.11/site-packages", own, tmp_path / "more"):
        folder.mkdir(parents=True)
    environ = {"HOME": str(home), "PYTHONPATH": f"{tmp_path}/more:{tmp_path}/none:{prefix}/lib"}
    more = f"{tmp_path}/more (PYTHONPATH)"
    assert list(added_folders(prefix, environ)) == [f"{own} (of the user)", more]
    assert list(added_folders(prefix, environ | {"PYTHONNOUSERSITE": "1"})) == [more]
    assert list(added_folders(home / ".local", environ)) == [more, f"{prefix}/lib (PYTHONPATH)"]
    (prefix / "pyvenv.cfg").write_text("include-system-site-packages = false\n")
    assert list(added_folders(prefix, environ)) == [more]
    (prefix / "pyvenv.cfg").write_text("include-system-site-packages = true\n")
    told = ["the system's distributions (pyvenv.cfg)", f"{own} (of the user)", more]
    assert list(added_folders(prefix, environ)) == told


def test_links_to_more_than_is_followed_are_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    site, store = tmp_path / "site-packages", tmp_path / "store"
    for folder in (site, store):
        folder.mkdir()
    for number in range(5):
        (store / f"{number}.py").touch()
    (site / "linked").symlink_to(store)
    assert list(added_folders(site, {})) == []
    monkeypatch.setattr(machine_files, "_MOST_LINKED", 3)
    assert list(added_folders(site, {})) == ["most of what links lead to, as it is too much"]
