"""Builders for tests: ELF objects from a few lines of C, wheels from a mapping of names to bytes.

`compiled` keeps the objects, so that each is linked once for all tests and runs.
"""

# ruff: noqa: PLR0913 -- keyword arguments are the point of a builder

import base64
import hashlib
import sysconfig
import zipfile
from collections.abc import Mapping, Sequence
from pathlib import Path

from tests.support.compiled import compile_c

GCC = "gcc"
Files = Mapping[str, bytes | str | Path]
"""Of a wheel: member -> its content, or the file that has it."""
ONE_FUNCTION = "int f(void) { return 1; }"


def shared_object(
    path: Path,
    source: str = ONE_FUNCTION,
    *,
    soname: str | None = None,
    needed: Sequence[Path] = (),
    rpath: str | None = None,
    runpath: str | None = None,
    as_needed: bool = False,
    flags: Sequence[str] = (),
    libc: bool = True,
) -> Path:
    """Link one shared object; `needed` are linked in order, without `libc` nothing else is."""
    arguments = ["-shared", "-fPIC", *([] if libc else ["-nostdlib"]), *flags]
    if soname is not None:
        arguments += _linker("-soname", soname)
    arguments += _search_path(rpath, runpath)
    return _compile(path, source, arguments, needed, as_needed=as_needed)


def executable(
    path: Path,
    source: str = "int main(void) { return 0; }",
    *,
    needed: Sequence[Path] = (),
    rpath: str | None = None,
    runpath: str | None = None,
    as_needed: bool = False,
    flags: Sequence[str] = (),
    libc: bool = True,
) -> Path:
    """Link one program, a PIE unless `flags` say otherwise; without `libc`, write `_start`."""
    arguments = ["-fPIE", "-pie", *([] if libc else ["-nostdlib"]), *flags]
    arguments += [*_linker("--allow-shlib-undefined"), *_search_path(rpath, runpath)]
    return _compile(path, source, arguments, needed, as_needed=as_needed)


def extension(
    path: Path,
    module: str,
    *,
    needed: Sequence[Path] = (),
    calls: Sequence[str] = (),
    single_phase: bool = False,
    rpath: str | None = None,
    runpath: str | None = None,
    as_needed: bool = False,
    flags: Sequence[str] = (),
) -> Path:
    """Build an importable CPython extension module.

    Its function `value()` returns the sum of the functions named in `calls` (`int name(void)`),
    which `needed` may define, or 42 where there are none.
    """
    return shared_object(
        path,
        extension_source(module, calls, single_phase=single_phase),
        needed=needed,
        rpath=rpath,
        runpath=runpath,
        as_needed=as_needed,
        flags=["-I", sysconfig.get_path("include"), *flags],
    )


def extension_source(module: str, calls: Sequence[str] = (), *, single_phase: bool = False) -> str:
    """Return the C code of an extension module, as `extension` describes it."""
    initialiser = "PyModule_Create(&module)" if single_phase else "PyModuleDef_Init(&module)"
    slots = "0" if single_phase else "slots"
    return f"""
    #include <Python.h>
    {"".join(f"int {name}(void);" for name in calls)}
    static PyObject *value(PyObject *self, PyObject *unused) {{
        return PyLong_FromLong({" + ".join(f"{name}()" for name in calls) or "42"});
    }}
    static PyMethodDef methods[] = {{{{"value", value, METH_NOARGS, 0}}, {{0, 0, 0, 0}}}};
    static PyModuleDef_Slot slots[] = {{{{0, 0}}}};
    static struct PyModuleDef module = {{
        PyModuleDef_HEAD_INIT, "{module}", 0, 0, methods, {slots}, 0, 0, 0}};
    PyMODINIT_FUNC PyInit_{module}(void) {{ (void)slots; return {initialiser}; }}
    """


def stub_library_with_versions(
    path: Path, soname: str, versions: Mapping[str, Sequence[str]], *, flags: Sequence[str] = ()
) -> Path:
    """Forge a library that defines functions under symbol versions, such as a `GLIBC_9.99`.

    `versions` maps each version to the functions that it introduces; each inherits from the one
    before. Link an object against it with `libc=False` and it asks for just those versions.
    """
    names = [name for symbols in versions.values() for name in symbols]
    script = path.with_name(path.name + ".map")
    previous = ""
    nodes: list[str] = []
    for version, symbols in versions.items():
        nodes.append(f"{version} {{ global: {' '.join(f'{s};' for s in symbols)} }} {previous};")
        previous = version
    path.parent.mkdir(parents=True, exist_ok=True)
    script.write_text("\n".join(nodes))
    shared_object(
        path,
        "\n".join(f"int {name}(void) {{ return 1; }}" for name in names),
        soname=soname,
        flags=["-fno-builtin", "-w", *_linker("--version-script", str(script)), *flags],
        libc=False,
    )
    script.unlink()
    return path


def make_wheel(
    directory: Path,
    name: str = "demo",
    version: str = "1.0",
    tag: str = "cp311-cp311-linux_x86_64",
    files: Files | None = None,
    *,
    root_is_purelib: bool = False,
    modes: Mapping[str, int] | None = None,
    metadata: str = "",
    wheel_lines: str = "",
) -> Path:
    """Write a wheel with METADATA, WHEEL and a true RECORD; a `Path` stands for its content.

    ELF members get mode 0755 and others 0644, unless `modes` say otherwise (permission bits).
    `metadata` is appended to the header fields of METADATA, and `wheel_lines` to WHEEL.
    """
    dist_info = f"{name}-{version}.dist-info"
    contents = {member: _content(source) for member, source in (files or {}).items()}
    contents[f"{dist_info}/METADATA"] = (
        f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n{metadata}".encode()
    )
    lines = wheel_text(tag, root_is_purelib=root_is_purelib) + wheel_lines
    contents[f"{dist_info}/WHEEL"] = lines.encode()
    contents[f"{dist_info}/RECORD"] = record_text(contents, f"{dist_info}/RECORD").encode()
    directory.mkdir(parents=True, exist_ok=True)
    wheel = directory / f"{name}-{version}-{tag}.whl"
    with zipfile.ZipFile(wheel, "w") as archive:
        for member, content in contents.items():
            default = 0o755 if content.startswith(b"\x7fELF") else 0o644
            entry = zipfile.ZipInfo(member, (2020, 2, 2, 2, 2, 2))
            entry.compress_type = zipfile.ZIP_DEFLATED
            entry.external_attr = (0o100000 | (modes or {}).get(member, default)) << 16
            archive.writestr(entry, content)
    return wheel


def wheel_text(tag: str, *, root_is_purelib: bool = False) -> str:
    """Write the WHEEL file for a compressed tag set (PEP 425)."""
    pythons, abis, platforms = (part.split(".") for part in tag.split("-"))
    tags = [f"{p}-{a}-{plat}" for p in pythons for a in abis for plat in platforms]
    return "".join(
        [
            "Wheel-Version: 1.0\nGenerator: wheelfix-tests\n",
            f"Root-Is-Purelib: {str(root_is_purelib).lower()}\n",
            *(f"Tag: {tag}\n" for tag in tags),
        ]
    )


def record_text(contents: Mapping[str, bytes], record: str) -> str:
    """Write RECORD for `contents`; `record` is its own name, listed without hash and size."""
    rows = [f"{name},{record_hash(data)},{len(data)}\n" for name, data in contents.items()]
    return "".join([*rows, f"{record},,\n"])


def record_hash(content: bytes) -> str:
    """Hash `content` as RECORD spells it."""
    digest = base64.urlsafe_b64encode(hashlib.sha256(content).digest())
    return "sha256=" + digest.rstrip(b"=").decode()


def _content(source: bytes | str | Path) -> bytes:
    match source:
        case bytes():
            return source
        case str():
            return source.encode()
        case Path():
            return source.read_bytes()


def _linker(*arguments: str) -> list[str]:
    return [word for argument in arguments for word in ("-Xlinker", argument)]


def _search_path(rpath: str | None, runpath: str | None) -> list[str]:
    if rpath is not None:
        return _linker("--disable-new-dtags", "-rpath", rpath)
    if runpath is not None:
        return _linker("--enable-new-dtags", "-rpath", runpath)
    return []


def _compile(
    path: Path, source: str, arguments: Sequence[str], needed: Sequence[Path], *, as_needed: bool
) -> Path:
    linking = _linker("--as-needed" if as_needed else "--no-as-needed")
    compile_c(GCC, path, source, [*arguments, *linking], needed)
    return path
