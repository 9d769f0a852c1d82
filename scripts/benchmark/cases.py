"""The wheels that are measured: made here, or fetched and made unrepaired again."""

import base64
import hashlib
import json
import multiprocessing
import platform
import random
import re
import shutil
import zipfile
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import asdict, dataclass
from pathlib import Path

from real_wheels.listed import read_corpus
from real_wheels.programs import fetch, run, tools_python

PLATFORM = f"linux_{platform.machine()}"


MEGABYTE = 1_000_000


Files = Iterable[tuple[str, bytes | Path]]
"""Members of a wheel: name and content, large content by path."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """A wheel to repair, and where its libraries are."""

    wheel: Path
    libraries: Path | None = None
    """Folder for AUDITWHEEL_LD_LIBRARY_PATH."""


def write_wheel(path: Path, name: str, files: Files) -> Path:
    """Write `files` as the wheel `path`, RECORD last; large files are streamed."""
    rows: list[str] = []
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for member, content in files:
            if isinstance(content, Path):
                archive.write(content, member)
                with content.open("rb") as file:
                    sha, size = hashlib.file_digest(file, "sha256"), content.stat().st_size
            else:
                archive.writestr(member, content)
                sha, size = hashlib.sha256(content), len(content)
            text = base64.urlsafe_b64encode(sha.digest()).decode().rstrip("=")
            rows.append(f"{member},sha256={text},{size}\n")
        record = f"{name}.dist-info/RECORD"
        archive.writestr(record, "".join([*rows, f"{record},,\n"]))
    return path


def new_wheel(folder: Path, files: Files) -> Path:
    """Write a wheel of our own that holds `files`."""
    tag = f"py3-none-{PLATFORM}"
    wheel = f"Wheel-Version: 1.0\nGenerator: bench\nRoot-Is-Purelib: false\nTag: {tag}\n"

    def members() -> Iterator[tuple[str, bytes | Path]]:
        yield from files
        yield "bench-1.dist-info/METADATA", b"Metadata-Version: 2.1\nName: bench\nVersion: 1\n"
        yield "bench-1.dist-info/WHEEL", wheel.encode()

    return write_wheel(folder / f"bench-1-{tag}.whl", "bench-1", members())


def unrepaired(
    published: Path,
    folder: Path,
    *,
    keep_libraries: bool,
    outside: Collection[str] = (),
    without: Collection[str] = (),
) -> Case:
    """Tag a published wheel as pip builds it.

    Its `.libs` may move out, to be grafted again, and so do the members `outside`. Those of
    `without` are dropped.
    """
    stem = published.stem.rpartition("-")[0]
    name = "-".join(stem.split("-")[:2])
    libraries = folder / "libraries"
    libraries.mkdir()

    def members(archive: zipfile.ZipFile) -> Iterator[tuple[str, bytes]]:
        for info in archive.infolist():
            top, _, file = info.filename.partition("/")
            if info.is_dir() or info.filename.endswith(".dist-info/RECORD"):
                continue
            if info.filename in without:
                continue
            content = archive.read(info)
            if info.filename in outside or (top.endswith(".libs") and not keep_libraries):
                (libraries / file.rpartition("/")[2]).write_bytes(content)
            elif info.filename.endswith(".dist-info/WHEEL"):
                yield info.filename, retagged(content)
            else:
                yield info.filename, content

    with zipfile.ZipFile(published) as archive:
        wheel = write_wheel(folder / f"{stem}-{PLATFORM}.whl", name, members(archive))
    kept_all = keep_libraries and not outside
    return Case(wheel=wheel, libraries=None if kept_all else libraries)


def retagged(wheel_file: bytes) -> bytes:
    """Replace the platforms in the Tag lines of WHEEL by the one that pip builds for."""
    lines = re.sub(r"(?m)^(Tag: .*-)\S+$", rf"\g<1>{PLATFORM}", wheel_file.decode()).splitlines()
    return "".join(f"{line}\n" for line in dict.fromkeys(lines) if line).encode()


def compile_shared(target: Path, source: str, *options: str | Path) -> Path:
    """Compile C source to a shared object."""
    source_file = target.with_suffix(".c")
    source_file.write_text(source)
    run("cc", "-shared", "-fPIC", "-o", target, source_file, *options)
    return target


def pattern(target: Path, size: int, seed: int) -> Path:
    """Write `size` bytes that deflate to about two thirds: always the same for one seed."""
    source = random.Random(seed)  # noqa: S311 - no secret
    alphabet = bytes(40 + byte % 40 for byte in range(256))
    blocks = [source.randbytes(1 << 20).translate(alphabet) for _ in range(16)]
    with target.open("wb") as file:
        for start in range(0, size, 1 << 20):
            file.write(source.choice(blocks)[: size - start])
    return target


def data_library(folder: Path, name: str, size: int, *options: str | Path) -> Path:
    """Compile a library `name` with a function of that name and `size` bytes of constant data."""
    data = pattern(folder / f"{name}.bin", size, seed=len(name))
    source = (
        f'__asm__(".section .rodata\\n.incbin \\"{data}\\"\\n.text");\n'
        f"int {name}(void) {{ return 1; }}\n"
    )
    library = compile_shared(
        folder / f"lib{name}.so.1", source, f"-Wl,-soname,lib{name}.so.1", *options
    )
    data.unlink()
    return library


def extension(folder: Path, *libraries: Path) -> Path:
    """Compile an extension module that calls a function of each library."""
    names = [library.name.removeprefix("lib").partition(".")[0] for library in libraries]
    declarations = "".join(f"int {name}(void);\n" for name in names)
    calls = " + ".join(["0", *(f"{name}()" for name in names)])
    source = f"#include <unistd.h>\n{declarations}"
    source += f"int calls(void) {{ return getpid() + {calls}; }}\n"
    source += "void *PyInit_ext(void) { return 0; }\n"
    target = folder / "ext.abi3.so"
    return compile_shared(target, source, *libraries, f"-Wl,-rpath-link,{folder / 'libraries'}")


def make_tiny(folder: Path, _cache: Path) -> Case:
    """Make a wheel of one extension module that needs nothing but libc."""
    files: Files = [("bench/__init__.py", b""), ("bench/ext.abi3.so", extension(folder))]
    return Case(wheel=new_wheel(folder, files))


def make_graft(folder: Path, _cache: Path) -> Case:
    """Make a wheel of one extension module that needs one library of 200 kB."""
    libraries = folder / "libraries"
    libraries.mkdir()
    part = data_library(libraries, "part", 200_000)
    files: Files = [("bench/__init__.py", b""), ("bench/ext.abi3.so", extension(folder, part))]
    return Case(wheel=new_wheel(folder, files), libraries=libraries)


def make_small(folder: Path, _cache: Path) -> Case:
    """Make a wheel of one extension module that needs twelve libraries of 200 kB."""
    libraries = folder / "libraries"
    libraries.mkdir()
    made: list[Path] = []
    for letter in "abcdefghijkl":
        made.append(data_library(libraries, f"part_{letter}", 200_000, *made[-1:]))
    files: Files = [("bench/__init__.py", b""), ("bench/ext.abi3.so", extension(folder, *made))]
    return Case(wheel=new_wheel(folder, files), libraries=libraries)


def make_many(folder: Path, _cache: Path) -> Case:
    """Make a wheel of 20,000 small files and one extension module."""

    def files() -> Iterator[tuple[str, bytes | Path]]:
        yield "bench/ext.abi3.so", extension(folder)
        for number in range(20_000):
            suffix = ("py", "json", "txt")[number % 3]
            text = f"# file {number}\n" + f"value_{number} = {number * number}\n" * 20
            yield f"bench/part{number % 100}/file{number}.{suffix}", text.encode()

    return Case(wheel=new_wheel(folder, files()))


def make_huge(folder: Path, _cache: Path) -> Case:
    """Make a wheel with a library of 500 MB that needs no change."""
    library = data_library(folder, "huge", 500 * MEGABYTE)
    module = extension(folder)
    return Case(
        wheel=new_wheel(folder, [("bench/libhuge.so.1", library), ("bench/ext.abi3.so", module)])
    )


def make_huge_changed(folder: Path, _cache: Path) -> Case:
    """Make a wheel with a library of 500 MB that needs a library to be grafted."""
    libraries = folder / "libraries"
    libraries.mkdir()
    part = data_library(libraries, "part", 200_000)
    library = data_library(folder, "huge", 500 * MEGABYTE, "-Wl,--no-as-needed", part)
    module = extension(folder)
    files = [("bench/libhuge.so.1", library), ("bench/ext.abi3.so", module)]
    return Case(wheel=new_wheel(folder, files), libraries=libraries)


@dataclass(frozen=True, slots=True, kw_only=True)
class Unrepaired:
    """The maker of an unrepaired wheel out of a published one of the corpus."""

    project: str
    keep_libraries: bool

    def __call__(self, folder: Path, cache: Path) -> Case:
        """Fetch the wheel and make it as pip would have built it."""
        wheels = read_corpus()
        pins = [each.requirement for each in wheels.published]
        (pin,) = (each for each in pins if each.partition("==")[0] == self.project)
        published = fetch(pin, tools_python(cache, wheels.installer), cache)
        return unrepaired(published, folder, keep_libraries=self.keep_libraries)


def make_torch(folder: Path, cache: Path) -> Case:
    """Make a wheel with a library of 434 MB that needs one to be grafted.

    One of torch's test programs has no search path to its libraries: wheelfix gives it one, but
    auditwheel would refuse the wheel. That build of torch is not on PyPI: PIP_EXTRA_INDEX_URL may
    say where it is.
    """
    wheels = read_corpus()
    tools = tools_python(cache, wheels.installer)
    published = fetch("torch==2.13.0+cpu", tools, cache)
    return unrepaired(
        published,
        folder,
        keep_libraries=True,
        outside={"torch/lib/libgomp.so.1"},
        without={"torch/bin/test_shim"},
    )


def make_vtk(folder: Path, cache: Path) -> Case:
    """Make a wheel of 380 libraries with 7,600 DT_NEEDED entries."""
    tools = tools_python(cache, read_corpus().installer)
    return unrepaired(fetch("vtk==9.7.2", tools, cache), folder, keep_libraries=True)


MAKERS: Mapping[str, Callable[[Path, Path], Case]] = {
    "tiny": make_tiny,
    "graft": make_graft,
    "small": make_small,
    "numpy": Unrepaired(project="numpy", keep_libraries=True),
    "scipy": Unrepaired(project="scipy", keep_libraries=False),
    "opencv": Unrepaired(project="opencv-python-headless", keep_libraries=False),
    "pyarrow": Unrepaired(project="pyarrow", keep_libraries=True),
    "h5py": Unrepaired(project="h5py", keep_libraries=False),
    "vtk": make_vtk,
    "torch": make_torch,
    "many": make_many,
    "huge": make_huge,
    "huge-changed": make_huge_changed,
}


def new_members(case: Case, wheelfix: Sequence[str], folder: Path) -> Path:
    """Repair the wheel of `case`; return a zip of the members that were not copied, stored."""
    repaired = folder / "repaired"
    libraries = ["--ldpaths", str(case.libraries)] if case.libraries else []
    run(*wheelfix, "repair", "-w", repaired, *libraries, case.wheel)
    (wheel,) = repaired.glob("*.whl")
    new = folder / "new.zip"
    with zipfile.ZipFile(case.wheel) as before, zipfile.ZipFile(wheel) as after:
        old = {(info.filename, info.CRC, info.compress_size) for info in before.infolist()}
        with zipfile.ZipFile(new, "w") as stored:
            for info in after.infolist():
                if (info.filename, info.CRC, info.compress_size) not in old:
                    with after.open(info) as source, stored.open(info.filename, "w") as target:
                        shutil.copyfileobj(source, target, MEGABYTE)
    return new


def make(name: str, cache: Path) -> Case:
    """Return the wheel `name`, made once, in a process of its own.

    A child's peak memory starts with what its parent had: this process must stay small.
    """
    folder = cache / "bench" / name
    ready = folder / "case.json"
    if not ready.exists():
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)
        spawn = multiprocessing.get_context("spawn")
        with ProcessPoolExecutor(1, mp_context=spawn) as pool:
            case = pool.submit(MAKERS[name], folder, cache).result()
        ready.write_text(json.dumps(asdict(case), default=str))
    saved = json.loads(ready.read_text())
    libraries = Path(saved["libraries"]) if saved["libraries"] else None
    return Case(wheel=Path(saved["wheel"]), libraries=libraries)
