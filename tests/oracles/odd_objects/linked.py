"""Objects to begin with, from every linker of this machine."""

import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

VALUE = 42
"""What the function `value` of each object returns once all is relocated and initialised."""

_LIBRARIES = {"libone.so.1": "int strong(void) { return 4; }", "libtwo.so.1": "int weak = 1;"}
_BODY = """
int strong(void);
extern int weak __attribute__((weak));
int data = 5;
int *pointer = &data;
const char *texts[] = {"a", "b", "c", "d"};
"""
_RICH = (
    _BODY
    + """
__thread int tls = 3;
static int counter = 1;
static int zeros[2000];
__attribute__((constructor)) static void begin(void) { counter = 30; }
int value(void) {
    return (&weak ? 0 : 0) + counter + strong() + *pointer + tls + zeros[strong()] + texts[1][1];
}
"""
)
_PLAIN = (
    _BODY
    + """
__thread int tls;
int value(void) { return (&weak ? 0 : 0) + 33 + strong() + *pointer + tls + texts[1][1]; }
"""
)
"""Without .bss, and with .tbss before .dynamic."""
_MAIN = "int main(void) { return value(); }"
_START = """
void exit(int);
__attribute__((force_align_arg_pointer)) void _start(void) { exit(value()); }
"""
PROGRAM = ".program"
"""Suffix of the names of programs."""
_BARE = "-nostartfiles"
_FLAVOURS = {
    "bfd": (),
    "bfd-sysv": ("-Wl,--hash-style=sysv,-z,norelro",),
    "bfd-both-now": ("-Wl,--hash-style=both,-z,now,-z,noseparate-code",),
    "bfd-stripped": ("-s", "-Wl,--build-id=none"),
    "bfd-large-pages": ("-Wl,-z,max-page-size=0x200000,-z,common-page-size=0x10000",),
    "bfd-relr": ("-Wl,-z,pack-relative-relocs",),
    "bfd-based": ("-Wl,-Ttext-segment=0x7000000,--hash-style=both",),
    "bfd-bare": (_BARE, "-Wl,--hash-style=both,-z,norelro"),
    "bfd-bare-dense": (_BARE, "-Wl,-z,noseparate-code,-z,norelro"),
    "bfd-bare-relro": (_BARE, "-Wl,-z,separate-code,-z,relro,-z,now"),
    "gold": ("-fuse-ld=gold",),
    "gold-bare": ("-fuse-ld=gold", _BARE, "-Wl,--hash-style=both"),
    "lld": ("-fuse-ld=lld",),
    "lld-read-only-dynamic": ("-fuse-ld=lld", "-Wl,-z,rodynamic,--hash-style=both"),
    "lld-separate": ("-fuse-ld=lld", "-Wl,-z,separate-loadable-segments,-z,now"),
    "lld-bare": ("-fuse-ld=lld", _BARE, "-Wl,--hash-style=sysv"),
    "bfd-pie.program": ("-pie", "-fPIE"),
    "bfd-fixed.program": ("-no-pie", "-fno-pie"),
    "bfd-bare-pie.program": ("-pie", "-fPIE", _BARE, "-Wl,-z,norelro"),
    "bfd-bare-fixed.program": ("-no-pie", "-fno-pie", _BARE, "-Wl,-z,noseparate-code"),
    "gold-bare.program": ("-fuse-ld=gold", "-pie", "-fPIE", _BARE),
    "lld.program": ("-fuse-ld=lld", "-pie", "-fPIE"),
    "lld-bare-fixed.program": ("-fuse-ld=lld", "-no-pie", "-fno-pie", _BARE),
}


def link_all(folder: Path) -> dict[str, bytes]:
    """Link one object of each flavour, and beside them the libraries that they need."""
    for name, source in _LIBRARIES.items():
        versions = f"{name.partition('.')[0].upper()} {{ *; }};"
        (folder / "versions").write_text(versions, encoding="utf-8")
        flags = [
            "-shared",
            "-fPIC",
            f"-Wl,-soname,{name},--version-script,{folder / 'versions'}",
            "-nostdlib",
        ]
        _link(folder / name, source, flags)
    return dict(_flavours(folder))


def _flavours(folder: Path) -> Iterator[tuple[str, bytes]]:
    libraries = [f"-l:{name}" for name in _LIBRARIES]
    path = ["-Wl,--enable-new-dtags,-rpath,/opt/odd/lib:/opt/odd/lib64:$ORIGIN/../odd"]
    path += ["-Wl,--no-as-needed", f"-L{folder}"]
    for name, flags in _FLAVOURS.items():
        linker = name.partition("-")[0]
        if shutil.which(f"ld.{linker}") is None:
            continue
        source = _PLAIN if _BARE in flags else _RICH
        if name.endswith(PROGRAM):
            source += _START if _BARE in flags else _MAIN
            kind = ["-Wl,--export-dynamic"]
        else:
            kind = ["-shared", "-fPIC", f"-Wl,-soname,lib{name}.so.1.0"]
        _link(folder / name, source, [*kind, *flags, *path, *libraries])
        yield name, (folder / name).read_bytes()


def _link(file: Path, source: str, flags: list[str]) -> None:
    command = ["gcc", "-xc", "-", "-xnone", "-o", str(file), *flags]
    subprocess.run(command, input=source.encode(), check=True, capture_output=True)
