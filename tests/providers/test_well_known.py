"""The shipped list of well-known providers."""

from collections.abc import Sequence

import pytest

from tests.support.values import elf, wheel
from wheelfix.analysis.ungraftable_libraries import (
    Beside,
    MissingLibraries,
    other_release,
    unlocated_libraries_error,
)
from wheelfix.providers.markers import with_extras
from wheelfix.providers.model import Folder, Provided
from wheelfix.providers.well_known import (
    brings,
    by_extra,
    lacking,
    options_of,
    providers_for,
    releases_with,
    well_known_folders,
    well_known_provider,
    well_known_providers_of,
)
from wheelfix.settings import SCHEMES
from wheelfix.wheel.model import Key, Metadata
from wheelfix.wheel.requirements import name_of


def test_the_version_of_cuda_is_that_of_the_other_libraries_or_not_known() -> None:
    for others, name in [
        (["libcublas.so.12"], "nvidia-nccl-cu12"),
        (["libcublas.so.11"], "nvidia-nccl-cu11"),
        ([], ""),
        (["libcublas.so.11", "libcublas.so.12"], ""),
    ]:
        module = elf(*others, "libnccl.so.2", rpath="$ORIGIN/../nvidia/nccl/lib")
        assert (well_known_provider("libnccl.so.2", wheel({"demo/m.so": module})) or "") == name, (
            others
        )


@pytest.mark.parametrize(
    ("provider", "library", "releases"),
    [
        ("nvidia-cuda-runtime", "libcudart.so.13", (13, 14)),
        ("nvidia-cufft-cu12", "libcufft.so.11", (11, 12)),
        ("nvidia-cuda-runtime-cu11", "libcudart.so.11.0", (11, 12)),
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


SURELY, CANNOT, MAY = True, False, None


@pytest.mark.parametrize(
    ("library", "requirement", "answer"),
    [
        ("libcudart.so.13", "nvidia-cuda-runtime", SURELY),
        ("libcudart.so.13", "NVIDIA_CUDA.runtime>=13,<14", SURELY),
        ("libcudart.so.13", "nvidia-cuda-runtime==13.*; extra == 'gpu'", SURELY),
        ("libcudart.so.13", "nvidia-cuda-runtime~=13.0.48", SURELY),
        ("libcudart.so.13", "nvidia-cuda-runtime>13.0.96", SURELY),
        ("libcudart.so.13", "nvidia-cuda-runtime!=13.0.96", SURELY),
        ("libcudart.so.13", "nvidia-cuda-runtime===13.0.96", SURELY),
        ("libcudart.so.13", "nvidia-cuda-runtime>=13.0.1rc1,<13.0.2", SURELY),
        ("libcudart.so.13", "nvidia-cuda-runtime @ file:///x.whl", SURELY),
        ("libcudart.so.13", "nvidia-cuda-runtime>=12,<13", CANNOT),
        ("libcudart.so.13", "nvidia-cuda-runtime==12.*", CANNOT),
        ("libcudart.so.13", "nvidia-cuda-runtime~=12.5", CANNOT),
        ("libcudart.so.13", "nvidia-cuda-runtime>=14", CANNOT),
        ("libcudart.so.13", "nvidia-cuda-runtime!=13.*,<14,>12.9", CANNOT),
        ("libcudart.so.13", "nvidia-cuda-runtime-cu11", CANNOT),
        ("libcudart.so.13", "nvidia-cuda-runtime-cu12>=12", CANNOT),
        ("libcudart.so.13", "nvidia-cuda-runtime-cu13", CANNOT),
        ("libcudart.so.12", "nvidia-cuda-runtime", CANNOT),
        ("libcudart.so.12", "nvidia-cuda-runtime-cu12==12.4.127", SURELY),
        ("libcudart.so.12", "nvidia-cuda-runtime-cu12<12", CANNOT),
        ("libcudart.so.11.0", "nvidia-cuda-runtime-cu11==11.*", SURELY),
        ("libcudart.so.11.0", "nvidia-cuda-runtime-cu11>=12", CANNOT),
        ("libcudart.so.13", "nvidia-cublas>=13", CANNOT),
        ("libcublas.so.13", "nvidia-cusolver", MAY),
        ("libcublas.so.13", "nvidia-cusolver-cu12", CANNOT),
        ("libcublas.so.12", "nvidia-cudnn-cu12", MAY),
        ("libcusparse.so.12", "nvidia-cusolver-cu12", MAY),
        ("libcurand.so.10", "nvidia-curand-cu12", SURELY),
        ("libnccl.so.2", "nvidia-nccl-cu12==1.*", CANNOT),
        ("libnvToolsExt.so.1", "nvidia-nvtx-cu11>=11.7", SURELY),
        ("libcudart.so.13", "torch>=2.14", MAY),
        ("libcudart.so.13", "numpy", MAY),
        ("libcudart.so.13", "cuda-toolkit[cudart]==13.*", MAY),
        ("libcudart.so.13", "not a requirement", MAY),
        ("libmine.so.1", "nvidia-cublas", MAY),
    ],
)
def test_what_a_requirement_brings(library: str, requirement: str, *, answer: bool | None) -> None:
    assert brings(requirement, library) is answer


def test_what_lacks_a_library_is_no_line_for_other_systems_and_none_of_another_name() -> None:
    lines = (
        "numpy",
        "nvidia-cuda-runtime-cu12 >= 12",
        "nvidia-cuda-runtime<13; python_version > '3.8'",
        "nvidia-cuda-runtime-cu12; sys_platform == 'win32'",
        "nvidia-cublas-cu12",
        "nvidia-cuda-runtime",
    )
    subject = wheel({}, metadata=Metadata(requires_dist=lines))
    assert lacking("libcudart.so.13", subject) == list(lines[1:3])


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
    assert well_known_provider(library, subject) == option
    missing = MissingLibraries([library, "libmine.so.1"], subject, [], [], {}, Beside())
    error = unlocated_libraries_error(missing)
    adding = "" if option in requires[0] else " --add-requires"
    assert f"`wheelfix repair --provider {option}{adding} --exclude libmine.so.1`" in (
        error.hint or ""
    )


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


@pytest.mark.parametrize(
    ("line", "added"),
    [
        ("torch==2.14.1", ""),
        ("Torch", ""),
        ("torchvision", " --add-requires"),
        ("torch; sys_platform == 'win32'", " --add-requires"),
    ],
)
def test_a_repair_adds_a_requirement_only_where_there_is_none(line: str, added: str) -> None:
    subject = wheel({}, metadata=Metadata(requires_dist=(line,)))
    left = {"libtorch.so": "torch", "libc10.so": "torch"}
    assert options_of(left, subject) == f"--provider torch{added}"
    assert options_of({}, subject) == ""


@pytest.mark.parametrize(
    ("release", "requires", "needed", "names"),
    [
        ("gpu 1.0", (), (), ("nvidia-curand", "nvidia-curand-cu11", "nvidia-curand-cu12")),
        ("gpu 1.0", ("tbb",), (), ("nvidia-curand", "nvidia-curand-cu11", "nvidia-curand-cu12")),
        ("gpu-cuda12x 1.0", (), (), ("nvidia-curand-cu12",)),
        ("gpu_cu11 1.0", (), (), ("nvidia-curand-cu11",)),
        ("gpu 2.6.0+cu124", (), (), ("nvidia-curand-cu12",)),
        ("gpu 1.0", ("nvidia-cufft-cu12>11",), (), ("nvidia-curand-cu12",)),
        ("gpu 1.0", ("nvidia-cufft",), (), ("nvidia-curand",)),
        ("gpu-cu11 1.0", (), ("libcublas.so.12",), ("nvidia-curand-cu12",)),
    ],
)
def test_the_version_of_cuda_says_which_wheel_has_a_library(
    release: str, requires: Sequence[str], needed: Sequence[str], names: Sequence[str]
) -> None:
    """A SONAME of one version of CUDA comes first, then METADATA and the name."""
    assert providers_for("libcurand.so.10", release, requires, needed) == names


@pytest.mark.parametrize(
    ("requirement", "library", "brought"),
    [
        ("cuda-toolkit[cublas,nvrtc]==12.*; extra == 'ctk'", "libcublas.so.12", True),
        ("cuda-toolkit[cublas,nvrtc]==13.*; extra == 'ctk'", "libcublas.so.13", True),
        ("CUDA_Toolkit[cusolver]>=12,<13; extra == 'ctk'", "libnvJitLink.so.12", True),
        ("cuda-toolkit[all]; extra == 'ctk'", "libcufft.so.11", True),
        ("cuda-toolkit[cublas]==12.*; extra == 'ctk'", "libcublas.so.13", False),
        ("cuda-toolkit[cudart]==12.*; extra == 'ctk'", "libcublas.so.12", False),
        ("cuda-toolkit==12.*; extra == 'ctk'", "libcublas.so.12", False),
    ],
)
def test_what_an_extra_of_cuda_toolkit_requires_is_known(
    requirement: str, library: str, *, brought: bool
) -> None:
    """As METADATA of cuda-toolkit 12.9.2 and 13.5 has it."""
    subject = wheel(
        {"demo/m.so": elf(library)}, metadata=Metadata(requires_dist=(requirement,), version="1")
    )
    assert bool(by_extra(library, subject)) is brought
    assert "`pip install 'demo[ctk]'`" in by_extra(library, subject) or not brought
    without = (requirement.partition(";")[0],)
    assert all(";" not in text for text in with_extras(without))
    assert with_extras(("numpy>=2",)) == ("numpy>=2",)
