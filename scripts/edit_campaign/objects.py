"""Objects to edit: of wheels, of folders, and linked here by every linker with every layout."""

import shutil
import subprocess
import zipfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from tests.oracles.odd_objects.linked import VALUE, link_all

_LARGEST = 1 << 23
"""Bytes."""
_SOURCE = f"""
__thread int tls = 3;
int data = 5, *pointer = &data, zeros[2000];
__attribute__((constructor)) static void begin(void) {{ zeros[7] = {VALUE} - 8; }}
int value(void) {{ return zeros[7] + *pointer + tls; }}
"""
_CODE_FIRST = """
PHDRS { text PT_LOAD FILEHDR PHDRS FLAGS(5); ro PT_LOAD FLAGS(4); rw PT_LOAD FLAGS(6);
  dynamic PT_DYNAMIC FLAGS(6); note PT_NOTE FLAGS(4); tls PT_TLS FLAGS(4);
  eh 0x6474e550 FLAGS(4); stack 0x6474e551 FLAGS(6); relro 0x6474e552 FLAGS(4); }
SECTIONS {
  . = SIZEOF_HEADERS;
  .init : { KEEP (*(.init)) } :text
  .plt : { *(.plt) *(.iplt) } .plt.got : { *(.plt.got) } .plt.sec : { *(.plt.sec) }
  .text : { *(.text .text.*) } .fini : { KEEP (*(.fini)) }
  . = ALIGN(CONSTANT(MAXPAGESIZE));
  .note : { *(.note.*) } :ro :note
  .gnu.hash : { *(.gnu.hash) } :ro .hash : { *(.hash) } .dynsym : { *(.dynsym) }
  .dynstr : { *(.dynstr) } .gnu.version : { *(.gnu.version) }
  .gnu.version_d : { *(.gnu.version_d) } .gnu.version_r : { *(.gnu.version_r) }
  .rela.dyn : { *(.rela.init .rela.text .rela.data .rela.got .rela.bss .rela.ifunc .rela.*) }
  .rela.plt : { *(.rela.plt) *(.rela.iplt) }
  .rodata : { *(.rodata .rodata.*) }
  .eh_frame_hdr : { *(.eh_frame_hdr) } :ro :eh .eh_frame : { KEEP (*(.eh_frame)) } :ro
  . = DATA_SEGMENT_ALIGN (CONSTANT (MAXPAGESIZE), CONSTANT (COMMONPAGESIZE));
  .tdata : { *(.tdata .tdata.*) } :rw :tls :relro .tbss : { *(.tbss .tbss.*) }
  .init_array : { KEEP (*(.init_array .ctors)) } :rw :relro
  .fini_array : { KEEP (*(.fini_array .dtors)) } :rw :relro
  .dynamic : { *(.dynamic) } :rw :dynamic :relro
  .got : { *(.got) } :rw :relro
  . = DATA_SEGMENT_RELRO_END (0, .);
  .got.plt : { *(.got.plt) *(.igot.plt) } :rw
  .data : { *(.data .data.*) } .bss : { *(.bss .bss.* COMMON) }
  . = DATA_SEGMENT_END (.);
}
"""
"""The layout of GNU ld 2.45 with `-z rosegment`: .init directly behind the program headers."""
_FLAVOURS = {
    "code-first": ("-T", "{script}", "-Wl,--build-id"),
    "code-first-16k": ("-T", "{script}", "-Wl,-z,max-page-size=0x4000"),
    "mold": ("-fuse-ld=mold",),
    "mold-separate": ("-fuse-ld=mold", "-Wl,-z,separate-loadable-segments,-z,now"),
    "mold-relr": ("-fuse-ld=mold", "-Wl,-z,pack-relative-relocs"),
    "lld-64k": ("-fuse-ld=lld", "-Wl,-z,max-page-size=65536"),
    "lld-2m": ("-fuse-ld=lld", "-Wl,-z,max-page-size=2097152"),
    "gold-2m": ("-fuse-ld=gold", "-Wl,-z,max-page-size=2097152"),
    "bfd-no-id": ("-Wl,--build-id=none,--hash-style=gnu",),
    "bfd-bss": ("-Wl,--hash-style=both", "-DBSS=1"),
}
MUSL = "musl"
"""Start of the names of objects for musl's loader."""


@dataclass(frozen=True, slots=True)
class Object:
    """One object, and the folder of the machine that it is for (none: this machine)."""

    label: str
    path: Path
    folders: tuple[Path, ...] = ()
    """Where its libraries are."""
    is_linked: bool = False
    """Whether it was linked here, and has the function `value`."""


def linked(folder: Path) -> Iterator[Object]:
    """Link objects of all flavours into `folder`."""
    folder.mkdir(parents=True, exist_ok=True)
    for name in link_all(folder):
        yield Object(name, folder / name, (folder,), is_linked=True)
    script = folder / "code-first.ld"
    script.write_text(_CODE_FIRST, encoding="utf-8")
    for name, flags in _FLAVOURS.items():
        arguments = [flag.format(script=script) for flag in flags]
        source = _SOURCE + ("int large[100000];" if "-DBSS=1" in flags else "")
        if _linked(folder / name, source, "gcc", arguments):
            yield Object(name, folder / name, (folder,), is_linked=True)
    if shutil.which("musl-gcc"):
        for linker in ("bfd", "gold", "lld", "mold"):
            name = f"{MUSL}-{linker}"
            if _linked(folder / name, _SOURCE, "musl-gcc", [f"-fuse-ld={linker}"]):
                yield Object(name, folder / name, (folder,), is_linked=True)


def _linked(path: Path, source: str, compiler: str, flags: list[str]) -> bool:
    command = [compiler, "-shared", "-fPIC", "-xc", "-", "-xnone", "-o", str(path), *flags]
    command += [f"-Wl,-soname,lib{path.name}.so.1", "-Wl,-rpath,/opt/odd/lib"]
    done = subprocess.run(command, input=source.encode(), capture_output=True, check=False)
    return done.returncode == 0


def of_wheels(cache: Path, folder: Path) -> Iterator[Object]:
    """Unpack the wheels below `cache`, and yield their objects."""
    for wheel in sorted(cache.rglob("*.whl")):
        place = folder / wheel.name
        if not place.exists():
            with zipfile.ZipFile(wheel) as archive:
                archive.extractall(place)
        yield from of_folder(place)


def of_folder(folder: Path) -> Iterator[Object]:
    """Yield the objects below a folder."""
    files = sorted(p for p in folder.rglob("*.so*") if p.is_file() and not p.is_symlink())
    folders = tuple(sorted({path.parent for path in files}))
    for path in files:
        if path.stat().st_size <= _LARGEST and _is_elf(path):
            yield Object(f"{folder.name}/{path.relative_to(folder)}", path, folders)


def _is_elf(path: Path) -> bool:
    with path.open("rb") as file:
        return file.read(4) == b"\x7fELF"


def linker_of(data: bytes) -> str:
    """Return the linker that an object names, bfd if none."""
    marks = {b".note.gnu.gold-version\0": "gold", b"Linker: ": "lld", b"\0mold ": "mold"}
    return next((linker for mark, linker in marks.items() if mark in data), "bfd")
