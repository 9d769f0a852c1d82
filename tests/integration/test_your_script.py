"""The replacements that docs/how-to/your-script.md shows, each on a small wheel with the fault.

The settings are read from the page; only paths that the page cannot know are replaced.
"""

import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from tests.support.build import executable, extension, make_wheel, shared_object
from tests.support.documents import fences
from tests.support.providers import MACHINE, SUFFIX, TAG
from tests.support.tools import tool
from wheelfix.cli.app import run
from wheelfix.wheel.reader import open_wheel

SETTINGS = [fence.content for fence in fences("docs/how-to/your-script.md", "toml")]
PROJECTS = (
    *("pyarrow", "numpy", "cudf", "faiss", "pytorch", "sherpa"),
    *("cudf-symbols", "pytorch-symbols", "vllm"),
)


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The project, in which the library path names `lib`."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("LD_LIBRARY_PATH", str(tmp_path / "lib"))
    return tmp_path


def configure(here: Path, project: str, *changes: tuple[str, str]) -> None:
    assert len(SETTINGS) == len(PROJECTS)
    text = SETTINGS[PROJECTS.index(project)]
    for old, new in changes:
        assert old in text
        text = text.replace(old, new)
    (here / "pyproject.toml").write_text(text)


def library(here: Path, name: str, source: str = "int f(void) { return 7; }") -> Path:
    return shared_object(here / "lib" / name, source, soname=name)


def user_of(here: Path, *libraries: Path, requires: str = "", runpath: str | None = None) -> Path:
    module = extension(
        here / f"_core{SUFFIX}", "_core", needed=libraries, calls=["f"], runpath=runpath
    )
    files: dict[str, str | Path] = {"demo/__init__.py": "", f"demo/_core{SUFFIX}": module}
    metadata = f"Requires-Dist: {requires}\n" if requires else ""
    return make_wheel(here / "dist", tag=TAG, files=files, metadata=metadata)


def repaired(here: Path, wheel: Path) -> Path:
    assert run(["repair", str(wheel)]) == 0
    (made,) = (here / "wheelhouse").glob("*.whl")
    return made


def search_path(wheel: Path, ending: str) -> tuple[str | None, str | None]:
    """Return DT_RPATH and DT_RUNPATH of the member with this ending."""
    with open_wheel(wheel) as archive:
        [elf] = [elf for name, elf in archive.wheel.elfs.items() if name.endswith(ending)]
    return elf.rpath, elf.runpath


@pytest.mark.parametrize(("name", "code"), [("arrow_f", 0), ("ZSTD_f", 1)])
def test_what_libarrow_exports(here: Path, name: str, code: int) -> None:
    configure(here, "pyarrow")
    source = f"int {name}(void) {{ return 1; }} int _ZN5arrow1fEv(void) {{ return 1; }}"
    arrow = shared_object(here / "libarrow.so.2600", source, soname="libarrow.so.2600")
    wheel = make_wheel(here / "dist", tag=TAG, files={"pyarrow/libarrow.so.2600": arrow})
    script = f"nm --demangle --dynamic {arrow} | grep ' T ' | grep -v -E 'arrow|_init|_fini'"
    listed = subprocess.run(["sh", "-c", script], check=False, capture_output=True)
    assert (listed.returncode == 0) is bool(code), "the project's own script says the same"
    assert run(["check", "--select", "WF305", str(wheel)]) == code


def test_licenses_of_what_is_grafted(here: Path) -> None:
    configure(here, "numpy")
    (here / "licenses").mkdir()
    (here / "licenses" / "OpenBLAS.txt").write_text("Redistribution and use ...\n")
    made = repaired(here, user_of(here, library(here, "libscipy_openblas-6cdc3b4a.so.0")))
    with zipfile.ZipFile(made) as archive:
        texts = [name for name in archive.namelist() if "/licenses/bundled/" in name]
        assert [archive.read(name) for name in texts] == [b"Redistribution and use ...\n"]
    bare = user_of(here, library(here, "libother.so.0"))
    assert run(["repair", "-w", "bare", str(bare)]) == 1, "nobody knows its license"


def test_libraries_of_other_wheels_are_left_to_them(
    here: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    configure(here, "cudf")
    site = here / "build" / "lib" / "python3.12" / "site-packages"
    shared_object(site / "pro/lib/libpro.so.3", "int f(void){return 7;}", soname="libpro.so.3")
    files: dict[str, str | Path] = {
        "pro/__init__.py": "",
        "pro/lib/libpro.so.3": site / "pro/lib/libpro.so.3",
    }
    wheel = make_wheel(here / "index", "pro", "2.0", f"py3-none-linux_{MACHINE}", files)
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(site)
    monkeypatch.delenv("LD_LIBRARY_PATH")
    folder = site / "pro" / "lib"
    given = user_of(here, folder / "libpro.so.3", requires="pro>=2", runpath=str(folder))
    made = repaired(here, given)
    rpath, _ = search_path(made, SUFFIX)
    assert rpath == "$ORIGIN/../pro/lib"


def test_libraries_of_a_folder_are_excluded(here: Path) -> None:
    configure(here, "faiss", ("/opt/cuvs/", f"{here}/lib/"))
    made = repaired(here, user_of(here, library(here, "libcuvs.so")))
    with open_wheel(made) as archive:
        assert [elf.needed for elf in archive.wheel.elfs.values()] == [("libcuvs.so", "libc.so.6")]


def test_search_paths_into_the_wheels_of_cuda(here: Path) -> None:
    configure(here, "pytorch")
    cublas = library(here, "libcublas.so.12")
    made = repaired(here, user_of(here, cublas, requires="nvidia-cublas-cu12"))
    assert search_path(made, SUFFIX) == ("$ORIGIN/../nvidia/cublas/lib", None)


def test_programs_in_the_data_folder(here: Path) -> None:
    configure(here, "sherpa")
    runtime, sound = library(here, "libonnxruntime.so"), library(here, "libasound.so.2")
    source = "int f(void); int main(void) { return f() - 7; }"
    program = executable(here / "tool", source, needed=[runtime, sound])
    files = {"demo_bin-1.0.data/data/bin/tool": program}
    wheel = make_wheel(
        here / "dist",
        "demo_bin",
        tag=f"py3-none-linux_{MACHINE}",
        files=files,
        metadata="Requires-Dist: sherpa-onnx-core\n",
    )
    with zipfile.ZipFile(wheel, "a") as archive:
        archive.writestr("demo_bin-1.0.data/data/share/unlisted", "not in RECORD")
    made = repaired(here, wheel)
    rpath, _ = search_path(made, "/tool")
    assert rpath is not None
    entries = rpath.split(":")
    for minor in (8, 13, 14):
        assert f"$ORIGIN/../lib/python3.{minor}/site-packages/sherpa_onnx/lib" in entries


SYSDEPS = "lib/rocm_sysdeps/lib"


@pytest.mark.parametrize(
    ("providers", "libraries", "entries"),
    [
        (
            ["rocm-sdk-core", "rocm-sdk-libraries"],
            ["libamdhip64.so.7", "librocm_sysdeps_liblzma.so.5", "librocblas.so.5"],
            ["_rocm_sdk_core/lib", f"_rocm_sdk_core/{SYSDEPS}", "_rocm_sdk_libraries/lib"],
        ),
        (["intel-sycl-rt"], ["libsycl.so.9"], ["../.."]),
        (["torch"], ["libc10.so"], ["torch/lib"]),
    ],
)
def test_search_paths_into_the_wheels_of_gpus_and_torch(
    here: Path, providers: list[str], libraries: list[str], entries: list[str]
) -> None:
    settings = f'[tool.wheelfix]\ndata-libraries = "search"\nprovider = {providers}\n'
    (here / "pyproject.toml").write_text(settings)
    needed = [
        library(here, name, f"int f{number}(void) {{ return 7; }}")
        for number, name in enumerate(libraries)
    ]
    calls = [f"f{number}" for number in range(len(libraries))]
    source = "".join(f"int {name}(void);" for name in calls)
    source += f"int all(void) {{ return {' + '.join(f'{name}()' for name in calls)}; }}"
    made = shared_object(here / "libdemo.so", source, needed=needed)
    files: dict[str, str | Path] = {"demo/__init__.py": "", "demo/lib/libdemo.so": made}
    metadata = "".join(f"Requires-Dist: {name}\n" for name in providers)
    wheel = make_wheel(here / "dist", tag=TAG, files=files, metadata=metadata)
    rpath, runpath = search_path(repaired(here, wheel), "/libdemo.so")
    found = (rpath or runpath or "").split(":")
    assert {f"$ORIGIN/../../{entry}" for entry in entries} <= set(found)


NEW_ABI = "namespace {0} {{ int name(std::string const& given) {{ return int(given.size()); }} }}"
TORCH = "#include <string>\n" + "".join(map(NEW_ABI.format, ("at", "c10", "torch")))
OLD_ABI = """#define _GLIBCXX_USE_CXX11_ABI 0
#include <list>
namespace c10 { int old(std::list<int> const& given) { return int(given.size()); } }
"""
STABLE = 'extern "C" int aoti_torch_f(); int f() { return aoti_torch_f(); }'
UNSTABLE = "namespace c10 { int error(); } int f() { return c10::error(); }"


@pytest.mark.parametrize(
    ("project", "member", "source", "code"),
    [
        ("cudf-symbols", "libcudf/lib64/libcudf.so", "int cudf_f() { return 1; }", 0),
        ("cudf-symbols", "libcudf/lib64/libcudf.so", "int ZSTD_f() { return 1; }", 1),
        ("pytorch-symbols", "torch/lib/libtorch_cpu.so", TORCH, 0),
        ("pytorch-symbols", "torch/lib/libtorch_cpu.so", OLD_ABI + TORCH, 1),
        ("vllm", "vllm/_C.abi3.so", STABLE, 0),
        ("vllm", "vllm/_C.abi3.so", UNSTABLE, 1),
    ],
)
def test_contracts_say_what_the_scripts_say(
    here: Path, project: str, member: str, source: str, code: int
) -> None:
    configure(here, project)
    (here / "source.cpp").write_text(source)
    made = here / member.rpartition("/")[2]
    command = [tool("g++"), "-shared", "-fPIC", "-o", str(made), "source.cpp"]
    subprocess.run(command, check=True, cwd=here)
    wheel = make_wheel(here / "dist", tag=TAG, files={member: made})
    assert run(["check", "--select", "WF305", str(wheel)]) == code


@pytest.mark.network
@pytest.mark.large
@pytest.mark.parametrize(
    ("project", "requirement"),
    [
        ("pyarrow", "pyarrow==26.0.1"),
        ("cudf-symbols", "libcudf-cu12==26.10.2"),
        ("pytorch-symbols", "torch==2.13.0"),
        ("vllm", "vllm==0.33.0"),
    ],
)
def test_contracts_pass_on_published_wheels_as_the_scripts_do(
    here: Path, project: str, requirement: str
) -> None:
    configure(here, project)
    command = ["pip", "download", "-q", "--no-deps", "--dest", "dist", requirement]
    subprocess.run([sys.executable, "-m", *command], check=True)
    (wheel,) = (here / "dist").iterdir()
    assert run(["check", "--select", "WF305", str(wheel)]) == 0


@pytest.mark.network
@pytest.mark.large
def test_a_published_extension_of_torch_breaks_the_contract_of_vllm(
    here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    configure(here, "vllm", ("vllm/*.so", "torchvision/_C.so"))
    command = ["pip", "download", "-q", "--no-deps", "--dest", "dist", "torchvision==0.24.0"]
    subprocess.run([sys.executable, "-m", *command], check=True)
    (wheel,) = (here / "dist").iterdir()
    assert run(["check", "--select", "WF305", str(wheel)]) == 1
    assert "torchvision/_C.so" in capsys.readouterr().out
