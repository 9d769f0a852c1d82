"""Providers found in wheels, distributions and directories."""

import sys
import zipfile
from pathlib import Path

import pytest

from tests.support.build import make_wheel, shared_object
from tests.support.providers import BLAS, DEPENDENT
from tests.support.values import elf, findings, wheel
from wheelfix.errors import SettingsError
from wheelfix.host.provider_lookup import in_directory, in_distribution, in_wheel, with_providers
from wheelfix.rules import provider_requirements, provider_search_paths
from wheelfix.settings import Provider, Settings


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
    found = {
        (provider.scheme, provider.directory): provider.libraries for provider in in_wheel(path)
    }
    assert found == {
        ("purelib", "pro/lib"): ("libpro.so.3", "libpro_more.so"),
        ("data", "lib"): ("libdata.so.1",),
        ("platlib", "plat"): ("libplat.so",),
        ("purelib", "pro.libs"): ("libgrafted-1a2b3c4d.so.1",),
    }
    assert {(provider.name, provider.version) for provider in in_wheel(path)} == {("a-pro", "2.0")}


def test_the_libraries_of_an_installed_distribution_are_found_by_record(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    library = shared_object(tmp_path / "libpro.so.3", soname="libpro.so.3")
    path = make_wheel(tmp_path, "pro", "2.0", "py3-none-any", {"pro/lib/libpro.so.3": library})
    site = tmp_path / "lib" / "site-packages"
    with zipfile.ZipFile(path) as archive:
        archive.extractall(site)
    monkeypatch.setattr(sys, "path", [str(site), *sys.path])
    (found,) = in_distribution("pro>=1")
    assert (found.requirement, found.version, found.directory) == ("pro>=1", "2.0", "pro/lib")
    assert Path(found.path) == site / "pro/lib"
    settings = with_providers(Settings(provider=(Provider(source="pro"),)), tmp_path)
    assert settings.library_path == (str(site / "pro/lib"),)


def test_a_directory_needs_no_requirement_and_is_reached_in_site_packages(tmp_path: Path) -> None:
    inside = tmp_path / "lib/python3.11/site-packages/pro/lib"
    shared_object(inside / "libpro.so")
    (found,) = in_directory(inside)
    assert (found.directory, found.requirement) == ("pro/lib", "")
    shared_object(tmp_path / "sdk/libpro.so")
    (found,) = in_directory(tmp_path / "sdk")
    assert (found.directory, found.libraries) == (None, ("libpro.so",))
    subject = wheel({DEPENDENT: elf("libpro.so")})
    assert not findings(provider_search_paths.provider_not_searched, subject, provider=(found,))
    assert not findings(provider_requirements.provider_not_required, subject, provider=(found,))


def test_a_well_known_name_needs_no_installed_distribution() -> None:
    given = Provider(source="nvidia-cublas-cu12>=12.4")
    settings = with_providers(Settings(provider=(given,)), Path())
    (found,) = settings.provider
    assert (found.directory, found.requirement) == ("nvidia/cublas/lib", "nvidia-cublas-cu12>=12.4")
    assert found.has("libcublasLt.so.12")
    assert not found.has("libcublas.so.11")


def test_a_table_and_the_wheel_of_the_same_provider_are_merged(tmp_path: Path) -> None:
    name = "nvidia_cublas_cu12"
    path = make_wheel(
        tmp_path, name, "12.5", "py3-none-any", {"nvidia/cublas/lib/libcublas.so.12": b""}
    )
    settings = with_providers(Settings(provider=(BLAS, Provider(source=path.name))), tmp_path)
    assert {provider.requirement for provider in settings.provider} == {BLAS.requirement}
    assert {provider.version for provider in settings.provider} == {"12.5"}
    assert settings.library_path == (str(path),)


@pytest.mark.parametrize(
    "text", ["no-such-provider-anywhere", "missing.whl", "a-1-py3-none-any.whl"]
)
def test_a_missing_provider_is_an_error(text: str, tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match="provider"):
        with_providers(Settings(provider=(Provider(source=text),)), tmp_path)
