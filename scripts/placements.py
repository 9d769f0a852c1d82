#!/usr/bin/env python3
"""Show which `provider-by` finds CUDA's libraries in different places of installation.

    scripts/placements.py [--cache DIR] [--work DIR]

Links extension modules and a program against libcudart, libcufft and libcublas of the nvidia
wheels, repairs the wheel in each way, installs it with pip into the same folder and into others,
and imports it in a new process; no GPU is needed. Prints a table, and the errors without a
provider. Wheels are fetched by `pip download` unless DIR has them: about 800 MB, and 6 GB on disk.
"""

import argparse
import os
import shutil
import subprocess
import sys
import sysconfig
import tempfile
import zipfile
from collections.abc import Callable, Mapping
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from tests.support.build import executable, make_wheel  # noqa: E402 - the tests' builders are not installed

PROVIDERS = {
    "nvidia-cuda-runtime-cu12": "nvidia/cuda_runtime/lib/libcudart.so.12",
    "nvidia-cufft-cu12": "nvidia/cufft/lib/libcufft.so.11",
    "nvidia-cublas-cu12": "nvidia/cublas/lib/libcublas.so.12",
}
MODULES: Mapping[str, tuple[str, list[str]]] = {
    "_core": ("cudaRuntimeGetVersion(&value)", ["nvidia-cuda-runtime-cu12"]),
    "_fft": ("cufftGetVersion(&value)", ["nvidia-cufft-cu12"]),
    "_blas": ("value = (long)cublasGetCudartVersion() & 1", ["nvidia-cublas-cu12"]),
    "_plain": ("value = 1", []),
}
DECLARED = "int cudaRuntimeGetVersion(int *); int cufftGetVersion(int *);"
SOURCE = """
#include <Python.h>
{declared} size_t cublasGetCudartVersion(void);
static PyObject *call(PyObject *self, PyObject *none) {{
    int value = 0; {call}; return PyLong_FromLong(value);
}}
static PyMethodDef methods[] = {{{{"call", call, METH_NOARGS, 0}}, {{0}}}};
static struct PyModuleDef module = {{PyModuleDef_HEAD_INIT, "{name}", 0, 0, methods}};
PyMODINIT_FUNC PyInit_{name}(void) {{ return PyModule_Create(&module); }}
"""
ENVIRON = {key: value for key, value in os.environ.items() if not key.startswith(("LD_", "PYTHON"))}
WAYS = ("entry", "preload", "both")
TAG = f"cp3{sys.version_info.minor}-cp3{sys.version_info.minor}-linux_{os.uname().machine}"


def main() -> None:
    """Build, repair, install, import, print."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--cache", type=Path, help="directory with wheels, and for them")
    parser.add_argument("--work", type=Path, help="directory to work in, and to keep")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        work = given.work or Path(folder)
        wheels = {name: fetched(name, given.cache or work / "wheels") for name in PROVIDERS}
        built = build(wheels, work)
        repaired = {way: repair(built, wheels, way, work / way) for way in WAYS}
        print("| installed | " + " | ".join(WAYS) + " |\n|---|---|---|---|")
        for name, placement in PLACEMENTS.items():
            results = placement(repaired, list(wheels.values()), work / placement.__name__)
            print(f"| {name} | " + " | ".join(results.values()) + " |", flush=True)
        for way, output in repaired.items():
            print(f"\n{way}, without a provider: {without(output, work / 'without' / way)}")


def fetched(name: str, folder: Path) -> Path:
    """Return the wheel of `name` in `folder`, downloaded if it has none."""
    pattern = f"{name.replace('-', '_')}-*.whl"
    if not any(folder.glob(pattern)):
        pip("download", "--no-deps", "--only-binary", ":all:", "--dest", str(folder), name)
    return max(folder.glob(pattern))


def build(wheels: Mapping[str, Path], work: Path) -> Path:
    """Build the wheel against the libraries of the providers' wheels."""
    sdk = work / "sdk"
    for wheel in wheels.values():
        with zipfile.ZipFile(wheel) as archive:
            archive.extractall(sdk)
    files: dict[str, bytes | str | Path] = {"gpu/__init__.py": '"""Uses CUDA."""\n'}
    for name, (call, providers) in MODULES.items():
        path = work / f"{name}{sysconfig.get_config_var('EXT_SUFFIX')}"
        source = SOURCE.format(name=name, call=call, declared=DECLARED)
        command = ["gcc", "-shared", "-fPIC", f"-I{sysconfig.get_path('include')}"]
        libraries = [str(sdk / PROVIDERS[provider]) for provider in providers]
        command += ["-x", "c", "-", "-o", str(path), "-x", "none", *libraries]
        subprocess.run(command, input=source, text=True, check=True)
        files[f"gpu/{path.name}"] = path
    main_source = f"{DECLARED} int main(void) {{ int v; return cudaRuntimeGetVersion(&v); }}"
    library = sdk / PROVIDERS["nvidia-cuda-runtime-cu12"]
    program = executable(work / "gpu-version", main_source, needed=[library])
    files["gpu-1.0.data/scripts/gpu-version"] = program
    versions = {name: wheel.name.split("-")[1] for name, wheel in wheels.items()}
    asked = [f"Requires-Dist: {n}>={v}; extra == 'cuda'" for n, v in versions.items()]
    metadata = "\n".join(["Provides-Extra: cuda", *asked, ""])
    return make_wheel(work / "built", "gpu", tag=TAG, files=files, metadata=metadata)


def repair(wheel: Path, wheels: Mapping[str, Path], way: str, to: Path) -> Path:
    """Repair the wheel in one way, and return the result."""
    providers = [word for each in wheels.values() for word in ("--provider", str(each))]
    command = [sys.executable, "-m", "wheelfix", "repair", "-q", str(wheel), "-w", str(to)]
    command += [*providers, "--provider-by", way, "--data-libraries", "search"]
    environ = {**ENVIRON, "PYTHONPATH": os.environ.get("PYTHONPATH", "")}
    done = subprocess.run(command, env=environ, check=True, stdout=subprocess.PIPE, text=True)
    return Path(done.stdout.strip().splitlines()[-1])


# --- Where things are installed ------------------------------------------------------------------


def one_environment(repaired: Mapping[str, Path], wheels: list[Path], at: Path) -> dict[str, str]:
    """Install both into one environment."""
    python = environment(at)
    pip("--python", python, "install", "--no-deps", *map(str, wheels))
    return {way: installed(python, output, []) for way, output in repaired.items()}


def user_over_system(repaired: Mapping[str, Path], wheels: list[Path], at: Path) -> dict[str, str]:
    """Install both into the user's scheme and the system's, a virtual environment."""
    python = environment(at, "--system-site-packages")
    pip("--python", python, "install", "--no-deps", *map(str, wheels))
    user = {"PYTHONUSERBASE": str(at / "user")}
    return {way: installed(python, output, ["--user"], user) for way, output in repaired.items()}


def one_target(repaired: Mapping[str, Path], wheels: list[Path], at: Path) -> dict[str, str]:
    """Install both into one directory."""
    python = environment(at)
    target = str(at / "target")
    pip("install", "--no-deps", "--target", target, *map(str, wheels))
    path = {"PYTHONPATH": target}
    return {
        way: installed(python, output, ["--upgrade", "--target", target], path)
        for way, output in repaired.items()
    }


def two_targets(repaired: Mapping[str, Path], wheels: list[Path], at: Path) -> dict[str, str]:
    """Install both into two directories that Python searches."""
    python = environment(at)
    ours, theirs = str(at / "ours"), str(at / "theirs")
    pip("install", "--no-deps", "--target", theirs, *map(str, wheels))
    path = {"PYTHONPATH": f"{ours}:{theirs}"}
    return {
        way: installed(python, output, ["--upgrade", "--target", ours], path)
        for way, output in repaired.items()
    }


PLACEMENTS: Mapping[str, Callable[[Mapping[str, Path], list[Path], Path], dict[str, str]]] = {
    "one virtual environment": one_environment,
    "`--user`, over providers of the system's": user_over_system,
    "one `--target` directory": one_target,
    "two `--target` directories, both on `sys.path`": two_targets,
}


def environment(at: Path, *options: str) -> str:
    """Make a virtual environment without pip, and return its Python."""
    shutil.rmtree(at, ignore_errors=True)
    command = [sys.executable, "-m", "venv", "--without-pip", *options, str(at / "venv")]
    subprocess.run(command, check=True, env=ENVIRON)
    return str(at / "venv/bin/python")


def installed(
    python: str, wheel: Path, options: list[str], environ: Mapping[str, str] | None = None
) -> str:
    """Install the wheel, and say what works: its modules, its program, an object by its path."""
    local = environ or {}
    target = "--target" in options
    where = [] if target else ["--python", python]
    again = ["--no-deps", "--no-index", "--force-reinstall"]
    pip(*where, "install", *again, *options, str(wheel), environ=local)
    modules = [name for name in MODULES if said(python, f"import gpu.{name}", local) == ""]
    where_from = said(python, IMPORT_ALL, local)
    opened = said(python, OPEN_BY_PATH, local) == ""
    program = said(python, RUN_PROGRAM, local) == ""
    words = f"{len(modules)} of {len(MODULES)} modules"
    words += ", the program" if program else ""
    words += ", by path" if opened else ""
    return words + ("" if where_from in {"", "providers"} else f" ({where_from})")


IMPORT_ALL = """
import gpu._core, gpu._fft, gpu._blas
for module in (gpu._core, gpu._fft, gpu._blas):
    module.call()
with open('/proc/self/maps') as maps:
    files = {line.split()[-1] for line in maps if '/libcu' in line}
print('providers' if len(files) == 4 and all('/nvidia/' in each for each in files) else files)
"""
OPEN_BY_PATH = """
import ctypes, importlib.util
ctypes.CDLL(importlib.util.find_spec('gpu._core').origin)
"""
RUN_PROGRAM = """
import importlib.metadata, subprocess
files = importlib.metadata.distribution('gpu').files
file, = [each for each in files if each.name == 'gpu-version']
path = file.locate().resolve()
if not path.exists():  # --target installs it elsewhere than RECORD says
    import gpu, pathlib
    path = pathlib.Path(gpu.__file__).parent.parent / 'bin/gpu-version'
subprocess.run([path], check=True, capture_output=True)
"""


def said(python: str, code: str, environ: Mapping[str, str]) -> str:
    """Return what a new process prints, or the end of its traceback."""
    done = subprocess.run(
        [python, "-c", code],
        env={**ENVIRON, **environ},
        capture_output=True,
        text=True,
        check=False,
    )
    return ((done.stdout if not done.returncode else done.stderr).strip().splitlines() or [""])[-1]


def without(wheel: Path, at: Path) -> str:
    """Return the error of a wheel installed alone; modules without the provider must work."""
    python = environment(at)
    pip("--python", python, "install", "--no-deps", "--no-index", str(wheel))
    assert said(python, "import gpu._plain", {}) == ""
    return said(python, "import gpu._fft", {})


def pip(*arguments: str, environ: Mapping[str, str] | None = None) -> None:
    """Run pip, quietly."""
    command = [sys.executable, "-m", "pip", "--quiet", "--disable-pip-version-check", *arguments]
    subprocess.run(command, env={**ENVIRON, **(environ or {})}, check=True)


if __name__ == "__main__":
    main()
