"""The wheels that the examples of the documents name, built from a few lines of C."""

import os
import shutil
import sys
import sysconfig
import venv
import zipfile
from pathlib import Path

from tests.support.build import extension, make_wheel, shared_object

MACHINE = os.uname().machine
PYTHON = f"cp3{sys.version_info.minor}"
TAG = f"{PYTHON}-{PYTHON}-linux_{MACHINE}"
SUFFIX = sysconfig.get_config_var("EXT_SUFFIX")
NOW = ("-Wl,-z,now",)
"""The default of some compilers, and not of others."""


def example_wheels(folder: Path) -> None:
    """Write `dist/*.whl` into `folder`, and the libraries that they need into `vendor/lib`.

    In the environment `.venv`, `demo._core` searches a folder that does not exist.
    """
    vendor = folder / "vendor" / "lib"
    dist = folder / "dist"
    bar = shared_object(
        vendor / "libbar.so.2",
        "int bar(void) { return 2; }",
        soname="libbar.so.2",
        libc=False,
        flags=NOW,
    )
    foo = shared_object(
        vendor / "libfoo.so.1",
        "int bar(void); int foo(void) { return bar(); }",
        soname="libfoo.so.1",
        needed=[bar],
        runpath="$ORIGIN",
        libc=False,
        flags=NOW,
    )
    _wheel(dist, "demo._core", foo, "foo")
    cufft = shared_object(
        vendor / "libcufft.so.11",
        "int fft(void) { return 3; }",
        soname="libcufft.so.11",
        libc=False,
        flags=NOW,
    )
    requires = "Requires-Dist: nvidia-cufft-cu12>=11.4\n"
    _wheel(dist / "cuda", "gpu._fft", cufft, "fft", requires)
    _provider(folder / "providers", cufft)
    site = folder / "build-env/lib/python3.12/site-packages"
    used = site / "nvidia/cufft/lib" / cufft.name
    used.parent.mkdir(parents=True)
    shutil.copy(cufft, used)
    _wheel(folder / "linked", "gpu._fft", used, "fft", requires)
    core = _package(dist / "product", "core._core", foo, "foo")
    make_wheel(dist / "product", "core", "1.0", TAG, {**core, f"core/lib/{foo.name}": foo})
    _wheel(dist / "product", "plugin._core", foo, "foo", "Requires-Dist: core>=1.0\n")
    solver = shared_object(
        folder / "build" / "libsolver.so",
        "int foo(void); int solve(void) { return foo(); }",
        soname="libsolver.so",
        needed=[foo],
        runpath=str(vendor),
        libc=False,
        flags=NOW,
    )
    files: dict[str, Path | str] = {
        "solver/__init__.py": "",
        "solver-1.0.data/data/share/solver/libsolver.so": solver,
    }
    make_wheel(dist / "data", "solver", "1.0", TAG, files)
    lacking = extension(
        folder / "build" / "sym" / f"_core{SUFFIX}",
        "_core",
        calls=["foo_open"],
        flags=NOW,
    )
    sym: dict[str, Path | str] = {"sym/__init__.py": "", f"sym/{lacking.name}": lacking}
    make_wheel(folder / "undefined", "sym", "1.0", TAG, sym)
    opener = 'import ctypes\n\nlibrary = ctypes.CDLL("libfoo.so.1")\n'
    make_wheel(folder / "opened", "viewer", "1.0", "py3-none-any", {"viewer/__init__.py": opener})
    _wheel_without_cuda(folder)
    _musl_wheel(folder)
    _environment(folder / ".venv", foo)


def second_wheel(folder: Path) -> None:
    """Write another wheel beside the one in `dist`."""
    _wheel(folder / "dist", "other._core", folder / "vendor" / "lib" / "libfoo.so.1", "foo")


def _wheel(dist: Path, module: str, library: Path, function: str, metadata: str = "") -> None:
    """Write a wheel whose module calls `function`, and searches the build machine's folder."""
    files = _package(dist, module, library, function)
    make_wheel(dist, module.partition(".")[0], "1.0", TAG, files, metadata=metadata)


def _package(dist: Path, module: str, library: Path, function: str) -> dict[str, Path | str]:
    name, _, stem = module.partition(".")
    built = extension(
        dist.parent / "build" / name / f"{stem}{SUFFIX}",
        stem,
        needed=[library],
        calls=[function],
        runpath=str(library.parent),
        flags=NOW,
    )
    return {f"{name}/__init__.py": "", f"{name}/{built.name}": built}


def _environment(folder: Path, library: Path) -> None:
    """Make an environment with a `demo` that was built where `library` was elsewhere."""
    venv.create(folder, symlinks=True)
    built = extension(
        folder / f"_core{SUFFIX}",
        "_core",
        needed=[library],
        calls=["foo"],
        runpath="/build/lib",
        flags=NOW,
    )
    files: dict[str, Path | str] = {"demo/__init__.py": "", f"demo/{built.name}": built}
    wheel = make_wheel(folder, "demo", "1.0", TAG, files)
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(next(folder.glob("lib/python3*/site-packages")))


def _provider(folder: Path, library: Path) -> None:
    """Write a wheel that stands for the provider of `library`."""
    files: dict[str, Path | str] = {f"nvidia/cufft/lib/{library.name}": library}
    tag = f"py3-none-manylinux1_{MACHINE}"
    make_wheel(folder, "nvidia_cufft_cu12", "11.4.1.4", tag, files)


def _wheel_without_cuda(folder: Path) -> None:
    """Write a wheel whose modules are all linked with CUDA, which is not there; one calls it."""
    begin = "__attribute__((constructor)) static void begin(void) {}"
    cuda = [
        _versioned(folder / "build/cuda" / name, f"int {function}(void) {{ return 1; }} {begin}")
        for name, function in (("libcublas.so.11", "gemm"), ("libcufft.so.10", "fft"))
    ]
    modules = [
        extension(
            folder / "build" / "arrays" / f"{stem}{SUFFIX}",
            stem,
            needed=cuda,
            calls=calls,
            flags=("-Wl,--no-as-needed", *NOW),
        )
        for stem, calls in (("_core", []), ("_sort", []), ("_fft", ["fft"]))
    ]
    files: dict[str, Path | str] = {f"arrays/{module.name}": module for module in modules}
    files["arrays/__init__.py"] = ""
    make_wheel(folder / "arrays", "arrays", "12.3", TAG, files)
    shutil.rmtree(folder / "build/cuda")


def _versioned(path: Path, source: str) -> Path:
    """Link a library whose symbols have its name as their version, as those of CUDA have."""
    path.parent.mkdir(parents=True, exist_ok=True)
    script = path.with_suffix(".map")
    script.write_text(f"{path.name} {{ global: *; }};")
    flags = [f"-Wl,--version-script={script}", *NOW]
    return shared_object(path, source, soname=path.name, flags=flags)


def _musl_wheel(folder: Path) -> None:
    """Write a wheel for musl, whose library is in the package."""
    libc = shared_object(
        folder / "build" / "musl" / f"libc.musl-{MACHINE}.so.1",
        soname=f"libc.musl-{MACHINE}.so.1",
        libc=False,
    )
    foo = shared_object(
        folder / "build" / "musl" / "libfoo.so.1",
        "int foo(void) { return 1; }",
        soname="libfoo.so.1",
        libc=False,
        flags=NOW,
    )
    built = extension(
        folder
        / "build"
        / "musl"
        / f"_core.{PYTHON.replace('cp', 'cpython-')}-x86_64-linux-musl.so",
        "_core",
        needed=[foo, libc],
        calls=["foo"],
        runpath="$ORIGIN",
        flags=["-nostdlib", *NOW],
    )
    files: dict[str, Path | str] = {
        "demo/__init__.py": "",
        f"demo/{built.name}": built,
        "demo/libfoo.so.1": foo,
    }
    tag = f"{PYTHON}-{PYTHON}-musllinux_1_2_{MACHINE}"
    make_wheel(folder / "dist" / "musl", "demo", "1.0", tag, files)
