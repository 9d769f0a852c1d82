"""Providers found in wheels, distributions and directories."""

import sys
import zipfile
from pathlib import Path

import pytest

from tests.support.build import make_wheel, shared_object
from tests.support.providers import BLAS, DEPENDENT
from tests.support.values import elf, findings, wheel
from wheelfix.errors import BadWheelError, SettingsError
from wheelfix.host.provider_lookup import (
    find_providers,
    in_directory,
    in_dist_info,
    in_distribution,
    in_wheel,
)
from wheelfix.providers.model import Folder
from wheelfix.rules import provider_requirements, provider_search_paths
from wheelfix.settings import ProviderSetting
from wheelfix.wheel.model import Key
from wheelfix.wheel.reader import open_wheel


def test_the_libraries_of_a_wheel_are_found_with_their_directories(tmp_path: Path) -> None:
    files = {
        "pro/lib/libpro.so.3": b"",
        "pro/lib/libpro_more.so": b"",
        "pro/libmod.cpython-311-x86_64-linux-gnu.so": b"",
        "pro/_core.so": b"",
        "pro.libs/libgrafted-1a2b3c4d.so.1": b"",
        "a_pro-2.0.data/data/lib/libdata.so.1": b"",
        "a_pro-2.0.data/platlib/plat/libplat.so": b"",
    }
    path = make_wheel(tmp_path, "a_pro", "2.0", "py3-none-any", files, root_is_purelib=True)
    found = in_wheel(path)
    assert {(folder.scheme, folder.directory): folder.libraries for folder in found.folders} == {
        ("purelib", "pro/lib"): ("libpro.so.3", "libpro_more.so"),
        ("data", "lib"): ("libdata.so.1",),
        ("platlib", "plat"): ("libplat.so",),
        ("purelib", "pro.libs"): ("libgrafted-1a2b3c4d.so.1",),
    }
    assert (found.name, found.version) == ("a-pro", "2.0")


def test_the_folders_of_a_provider_s_wheel_are_those_that_an_installer_takes(
    tmp_path: Path,
) -> None:
    """The dist-info folder names the data folder, and a line of WHEEL the root."""
    made = make_wheel(
        tmp_path,
        "foo_bar",
        "1.0",
        "py3-none-any",
        {"foo_bar-1.0.data/data/lib/libx.so.1": b"", "foo/liby.so": b""},
        wheel_lines="Was-Root-Is-Purelib: true\n",
    )
    path = made.rename(tmp_path / "Foo.Bar-1.0-py3-none-any.whl")
    with open_wheel(path) as archive:
        assert archive.wheel.data_dir == "foo_bar-1.0.data"
    found = {(folder.scheme, folder.directory) for folder in in_wheel(path).folders}
    assert found == {(Key.DATA, "lib"), (Key.PLATLIB, "foo")}


def test_a_wheel_that_no_installer_takes_is_no_provider(tmp_path: Path) -> None:
    made = make_wheel(tmp_path, "pro", "1.0", "py3-none-any", {"pro/libpro.so.3": b""})
    path = made.rename(tmp_path / "other-1.0-py3-none-any.whl")
    with pytest.raises(BadWheelError, match=r"other-1\.0-py3-none-any\.whl.*is not of other 1\.0"):
        in_wheel(path)


def test_the_libraries_of_an_installed_distribution_are_found_by_record(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    library = shared_object(tmp_path / "libpro.so.3", soname="libpro.so.3")
    path = make_wheel(tmp_path, "pro", "2.0", "py3-none-any", {"pro/lib/libpro.so.3": library})
    site = tmp_path / "lib" / "site-packages"
    with zipfile.ZipFile(path) as archive:
        archive.extractall(site)
    monkeypatch.setattr(sys, "path", [str(site), *sys.path])
    found = in_distribution("pro>=1")
    (folder,) = found.folders
    assert (found.requirement, found.version, folder.directory) == ("pro>=1", "2.0", "pro/lib")
    (found,) = find_providers((ProviderSetting(source="pro"),), wheel({}))
    assert found.places == (str(site / "pro/lib"),)


def test_files_above_site_packages_are_of_the_data_scheme(tmp_path: Path) -> None:
    """RECORD as pip and uv write it for `*.data/data/lib/libmkl.so.2`."""
    dist_info = tmp_path / "lib/python3.11/site-packages/mkl-1.0.dist-info"
    dist_info.mkdir(parents=True)
    (dist_info / "METADATA").write_text("Metadata-Version: 2.1\nName: mkl\nVersion: 1.0\n")
    (dist_info / "WHEEL").write_text("Wheel-Version: 1.0\nRoot-Is-Purelib: true\n")
    (dist_info / "RECORD").write_text("../../libmkl.so.2,,\nmkl/libown.so.1,,\n")
    found = in_dist_info(dist_info, "mkl>=1")
    assert (found.requirement, found.version, found.metadata.name) == ("mkl>=1", "1.0", "mkl")
    assert found.folders == (
        Folder(Key.PURELIB, "mkl", ("libown.so.1",), str(dist_info.parent / "mkl")),
        Folder(Key.DATA, "lib", ("libmkl.so.2",), str(tmp_path / "lib")),
    )


def test_nothing_above_a_target_folder_is_of_a_distribution_in_it(tmp_path: Path) -> None:
    """`pip --target` moves RECORD, whose rows of the data scheme lead elsewhere then."""
    dist_info = tmp_path / "opt/app/vendor/mkl-1.0.dist-info"
    dist_info.mkdir(parents=True)
    (dist_info / "RECORD").write_text("../../lib/libmkl.so.2,,\nmkl/libown.so.1,,\n")
    (folder,) = in_dist_info(dist_info, "mkl").folders
    assert folder.libraries == ("libown.so.1",)


def test_a_directory_needs_no_requirement_and_is_reached_in_site_packages(tmp_path: Path) -> None:
    inside = tmp_path / "lib/python3.11/site-packages/pro/lib"
    shared_object(inside / "libpro.so")
    (folder,) = in_directory(inside).folders
    assert (folder.directory, in_directory(inside).requirement) == ("pro/lib", "")
    shared_object(tmp_path / "sdk/libpro.so")
    (folder,) = in_directory(tmp_path / "sdk").folders
    assert (folder.directory, folder.libraries) == (None, ("libpro.so",))
    subject = wheel({DEPENDENT: elf("libpro.so")})
    given = (ProviderSetting(source=str(tmp_path / "sdk")),)
    assert not findings(provider_search_paths.provider_not_searched, subject, provider=given)
    assert not findings(provider_requirements.provider_not_required, subject, provider=given)


def test_a_well_known_name_needs_no_installed_distribution() -> None:
    given = ProviderSetting(source="nvidia-cublas-cu12>=12.4")
    (found,) = find_providers((given,), wheel({}))
    (folder,) = found.folders
    assert found.requirement == "nvidia-cublas-cu12>=12.4"
    assert folder.directory == "nvidia/cublas/lib"
    assert folder.has("libcublasLt.so.12")
    assert not folder.has("libcublas.so.11")


def test_a_table_and_the_wheel_of_the_same_provider_are_merged(tmp_path: Path) -> None:
    name = "nvidia_cublas_cu12"
    path = make_wheel(
        tmp_path, name, "12.5", "py3-none-any", {"nvidia/cublas/lib/libcublas.so.12": b""}
    )
    (found,) = find_providers((BLAS, ProviderSetting(source=str(path))), wheel({}))
    assert (found.requirement, found.version) == (BLAS.requirement, "12.5")
    assert found.places == (str(path),)


@pytest.mark.parametrize(
    "text", ["no-such-provider-anywhere", "missing.whl", "a-1-py3-none-any.whl"]
)
def test_a_missing_provider_is_an_error(text: str) -> None:
    with pytest.raises(SettingsError, match="provider"):
        find_providers((ProviderSetting(source=text),), wheel({}))


def test_settings_for_a_set_of_wheels_may_name_the_one_that_provides(tmp_path: Path) -> None:
    """It provides nothing for itself, and its own wheel need not be for the same Python."""
    core = make_wheel(tmp_path, "core", "1.0", "cp39-cp39-linux_x86_64", {"core/libc.so.1": b""})
    settings = [ProviderSetting(source="Core"), ProviderSetting(source=str(core))]
    own = wheel({}, name="core-1.0-cp311-cp311-linux_x86_64.whl")
    assert [found.folders for found in find_providers(settings, own)] == [()]
    with pytest.raises(SettingsError, match="the provider `Core` is neither"):
        find_providers(settings, wheel({}, name="plug-1.0-cp311-cp311-linux_x86_64.whl"))
