"""The shipped list of well-known providers."""

import pytest

from tests.support.values import elf, wheel
from wheelfix.analysis.ungraftable_libraries import (
    MissingLibraries,
    other_release,
    unlocated_libraries_error,
)
from wheelfix.providers.model import Folder, Provided
from wheelfix.providers.well_known import (
    provider_option,
    releases_with,
    well_known_folders,
    well_known_providers_of,
)
from wheelfix.settings import SCHEMES
from wheelfix.wheel.model import Key, Metadata
from wheelfix.wheel.requirements import name_of


def test_the_version_of_cuda_is_that_of_the_other_libraries_or_not_known() -> None:
    for others, option in [
        (["libcublas.so.12"], "--provider nvidia-nccl-cu12"),
        (["libcublas.so.11"], "--provider nvidia-nccl-cu11"),
        ([], ""),
        (["libcublas.so.11", "libcublas.so.12"], ""),
    ]:
        module = elf(*others, "libnccl.so.2", rpath="$ORIGIN/../nvidia/nccl/lib")
        assert provider_option("libnccl.so.2", wheel({"demo/m.so": module})) == option, others


@pytest.mark.parametrize(
    ("provider", "library", "releases"),
    [
        ("nvidia-cuda-runtime", "libcudart.so.13", (13, 14)),
        ("nvidia-cufft-cu12", "libcufft.so.11", (11, 12)),
        ("nvidia-cuda-runtime", "libcudart.so.12", None),
        ("tbb", "libtbb.so.12", None),
        ("torch", "libtorch.so", None),
        ("other", "libother.so.1", None),
    ],
)
def test_the_number_of_a_soname_says_which_releases_have_it_where_it_is_theirs(
    provider: str, library: str, releases: tuple[int, int] | None
) -> None:
    assert releases_with(provider, library) == releases


def test_the_shipped_list_is_complete() -> None:
    assert {
        "nvidia-cublas-cu11",
        "nvidia-cublas-cu12",
        "nvidia-cublas",
    } <= well_known_folders().keys()
    for name, folders in well_known_folders().items():
        assert name_of(name) == name
        for folder in folders:
            assert folder.libraries
            assert folder.directory
            assert folder.scheme in SCHEMES


@pytest.mark.parametrize(
    ("requires", "entry", "option"),
    [
        (("nvidia-cudnn-cu12==9.1; platform_system == 'Linux'",), "", "nvidia-cudnn-cu12"),
        (("nvidia-cudnn-cu13",), "$ORIGIN/../../nvidia/cudnn/lib", "nvidia-cudnn-cu13"),
    ],
)
def test_the_provider_of_a_hint_is_one_that_the_wheel_is_for(
    requires: tuple[str, ...], entry: str, option: str
) -> None:
    library = next(
        name
        for name in ("libcudnn.so.9", "libcudnn.so.8")
        if "nvidia-cudnn-cu13" in well_known_providers_of(name)
    )
    subject = wheel(
        {"torch/lib/libtorch_cuda.so": elf(library, rpath=entry)},
        metadata=Metadata(requires_dist=requires),
    )
    assert provider_option(library, subject) == f"--provider {option}"
    missing = MissingLibraries([library, "libmine.so.1"], subject, [], [], {}, [])
    error = unlocated_libraries_error(missing)
    adding = "" if option in requires[0] else " --add-requires"
    assert f"`--provider {option}{adding} --exclude libmine.so.1`" in (error.hint or "")


@pytest.mark.parametrize(
    ("library", "other"),
    [
        ("libcudart.so.12", "require nvidia-cuda-runtime-cu12, with `libcudart.so.12`"),
        ("libcudart.so.14", "require a release that has `libcudart.so.14`"),
    ],
)
def test_another_distribution_has_the_library_of_another_version_of_cuda(
    library: str, other: str
) -> None:
    """From CUDA 13 on, the name of the distribution has no suffix."""
    folder = Folder(Key.PLATLIB, "nvidia/cu13/lib", ("libcudart.so.13",), path="/there")
    provider = Provided(requirement="nvidia-cuda-runtime", version="13.0", folders=(folder,))
    assert other_release(library, [provider]) == (
        f"nvidia-cuda-runtime 13.0 has `libcudart.so.13`: {other}, or build against this one"
    )
