"""Wheels for Android without its NDK: objects that `gcc -nostdlib` links with stubs of its own."""

# ruff: noqa: PLR0913 -- keyword arguments are the point of a builder

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from tests.support.build import make_wheel, shared_object, stub_library_with_versions

SUFFIX = ".cpython-313-x86_64-linux-android.so"
MODULE = f"demo/_m{SUFFIX}"
_IDENT = """
__attribute__((section(".note.android.ident"), used)) static const struct {
    int sizes[3]; char owner[8]; int level; char ndk[64], build[64];
} ident = {{8, 132, 1}, "Android", 24, "r27d", "13750724"};
"""
"""What the NDK's crtbegin_so.o brings (bionic, libc/arch-common/bionic/crtbrand.S)."""
PAGES = ("-Wl,-z,max-page-size=16384",)


class Ndk(NamedTuple):
    """The libraries that an extension is linked with."""

    folder: Path
    """The folders of `--ldpaths`."""
    libc: Path
    libm: Path
    python: Path
    cxx: Path
    """libc++_shared.so, which no device has."""
    omp: Path
    """libomp.so, likewise; it needs libc++_shared.so."""


def make_ndk(folder: Path, *, ident: bool = True) -> Ndk:
    """Forge the libraries of an NDK and of a Python for Android."""
    system, brought = folder / "system", folder / "ldpaths"
    versions = {"LIBC": ["getpid", "abs"], "LIBC_N": ["at24"], "LIBC_P": ["at28"]}
    libc = stub_library_with_versions(system / "libc.so", "libc.so", versions)
    libm = library(system / "libm.so", "double sin(double x) { return x; }", ident=ident)
    python = library(
        system / "libpython3.13.so",
        "void *PyModuleDef_Init(void *d) { return d; }",
        ident=ident,
    )
    cxx = library(
        brought / "libc++_shared.so",
        "int getpid(void); int cxx(void) { return getpid(); }",
        needed=[libc],
        ident=ident,
    )
    omp = library(
        brought / "libomp.so", "int cxx(void); int omp(void) { return cxx(); }", needed=[cxx],
        ident=ident,
    )  # fmt: skip
    return Ndk(brought, libc, libm, python, cxx, omp)


def library(
    path: Path,
    source: str,
    *,
    needed: Sequence[Path] = (),
    soname: str | None = "",
    runpath: str | None = None,
    rpath: str | None = None,
    ident: bool = True,
    flags: Sequence[str] = PAGES,
) -> Path:
    """Link an object of Android; without `ident`, only the wheel's tag says that it is one."""
    return shared_object(
        path,
        source + (_IDENT if ident else ""),
        soname=path.name if soname == "" else soname,
        needed=needed,
        runpath=runpath,
        rpath=rpath,
        flags=("-fno-builtin", "-w", *flags),
        libc=False,
    )


def module(
    path: Path,
    ndk: Ndk,
    calls: Sequence[str] = ("getpid",),
    *,
    name: str = "_m",
    needed: Sequence[Path] = (),
    runpath: str | None = None,
    rpath: str | None = None,
    ident: bool = True,
    flags: Sequence[str] = PAGES,
) -> Path:
    """Link an extension module that calls these functions."""
    declared = "".join(f"int {call}(void); " for call in calls)
    called = " + ".join(f"{call}()" for call in calls) or "0"
    return library(
        path,
        f"{declared} void *PyModuleDef_Init(void *); int use(void) {{ return {called}; }}"
        f"void *PyInit_{name}(void) {{ return PyModuleDef_Init(0); }}",
        needed=(*needed, ndk.python, ndk.libc),
        soname=None,
        runpath=runpath,
        rpath=rpath,
        ident=ident,
        flags=flags,
    )


def android_wheel(
    folder: Path, files: Mapping[str, bytes | str | Path], level: int = 24, abi: str = "x86_64"
) -> Path:
    """Zip a wheel for an API level."""
    tag = f"cp313-cp313-android_{level}_{abi}"
    return make_wheel(folder, tag=tag, files={"demo/__init__.py": "", **files})
