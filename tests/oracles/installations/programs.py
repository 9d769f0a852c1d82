"""Programs that open libraries and print what is loaded and bound."""

import os
import shutil
import subprocess
from pathlib import Path

from tests.oracles.installations.case import LIB, SYSTEM
from tests.oracles.installations.objects import PROGRAM
from wheelfix.elf.model import Elf, Libc
from wheelfix.elf.reader import read_elf

PROBE = r"""
#define _GNU_SOURCE
#include <dlfcn.h>
#include <elf.h>
#include <link.h>
#include <stdio.h>
#include <string.h>
SYMBOLS
static const char *provider;
static ElfW(Addr) wanted;
static int first;
static int covers(struct dl_phdr_info *info, size_t size, void *data) {
    int is_main = first; first = 0;
    for (int i = 0; i < info->dlpi_phnum; i++) {
        const ElfW(Phdr) *each = &info->dlpi_phdr[i];
        if (each->p_type == PT_LOAD && wanted - info->dlpi_addr - each->p_vaddr < each->p_memsz)
            provider = is_main ? "main" : info->dlpi_name;
    }
    return 0;
}
static void table(const char *user, ElfW(Addr) base, ElfW(Rela) *rela, size_t size,
                  ElfW(Sym) *symbols, const char *strings) {
    for (; size >= sizeof *rela; size -= sizeof *rela, rela++) {
        ElfW(Sym) *symbol = &symbols[ELF64_R_SYM(rela->r_info)];
        const char *name = strings + symbol->st_name;
        if (ELF64_R_TYPE(rela->r_info) == R_X86_64_COPY || name[0] != 's' ||
            name[1] < '0' || name[1] > '9' || name[2])
            continue;
        wanted = *(ElfW(Addr) *)(base + rela->r_offset);
        provider = wanted ? "?" : "";
        first = 1;
        if (wanted) dl_iterate_phdr(covers, 0);
        printf("bind %s|%s|%s\n", user, name, provider);
    }
}
static ElfW(Addr) at(ElfW(Addr) base, ElfW(Addr) value) {
    return value < base ? value + base : value;
}
static int shown;
static int show(struct dl_phdr_info *info, size_t size, void *data) {
    int is_main = !shown++;
    if (!is_main && !strstr(info->dlpi_name, "libw")) return 0;
    if (!is_main) printf("map %s\n", info->dlpi_name);
    ElfW(Dyn) *dynamic = 0;
    for (int i = 0; i < info->dlpi_phnum; i++)
        if (info->dlpi_phdr[i].p_type == PT_DYNAMIC)
            dynamic = (void *)(info->dlpi_addr + info->dlpi_phdr[i].p_vaddr);
    ElfW(Addr) base = info->dlpi_addr, symbols = 0, strings = 0, rela = 0, jumps = 0;
    size_t rela_size = 0, jumps_size = 0;
    for (; dynamic && dynamic->d_tag; dynamic++) {
        ElfW(Addr) value = dynamic->d_un.d_ptr;
        switch (dynamic->d_tag) {
        case DT_SYMTAB: symbols = at(base, value); break;
        case DT_STRTAB: strings = at(base, value); break;
        case DT_RELA: rela = at(base, value); break;
        case DT_JMPREL: jumps = at(base, value); break;
        case DT_RELASZ: rela_size = value; break;
        case DT_PLTRELSZ: jumps_size = value; break;
        }
    }
    const char *user = is_main ? "main" : info->dlpi_name;
    table(user, base, (void *)rela, rela_size, (void *)symbols, (void *)strings);
    table(user, base, (void *)jumps, jumps_size, (void *)symbols, (void *)strings);
    return 0;
}
static void report(void) { shown = 0; dl_iterate_phdr(show, 0); }
int main(int count, char **words) {
    setvbuf(stdout, 0, _IOLBF, 0);
    puts("start");
    report();
    for (int i = 1; i + 2 < count; i += 3) {
        int mode = RTLD_NOW;
        if (words[i][0] == 'g') mode |= RTLD_GLOBAL;
#ifdef RTLD_DEEPBIND
        if (words[i][0] == 'd') mode |= RTLD_DEEPBIND;
#endif
        void *(*open)(const char *, int) = dlopen, *handle;
        if (words[i + 1][0]) {
            handle = dlopen(words[i + 1], RTLD_NOW | RTLD_NOLOAD);
            open = handle ? (void *(*)(const char *, int))dlsym(handle, "wopen") : 0;
            dlerror();
            if (!open) { puts("skip"); continue; }
        }
        handle = open(words[i + 2], mode);
        if (handle) puts("open"); else printf("fail %s\n", dlerror());
        report();
    }
    return 0;
}
"""

PROGRAMS = [
    (PROGRAM, "int s0; int *p = &s0; extern int s1 __attribute__((weak)); int *q = &s1;"),
    (PROGRAM._replace(rpath="$ORIGIN/../d0:$ORIGIN/../d2"), ""),
    (PROGRAM._replace(runpath="$ORIGIN/../d0:$ORIGIN/../d2"), "int s3; int s4(void) {return 1;}"),
    (
        PROGRAM._replace(rpath="$ORIGIN/../d1", needed=("libwa.so",)),
        "extern int s1, s2(void); int p(void) { return s1; } void *q(void) { return s2; }",
    ),
    (
        PROGRAM._replace(runpath="$ORIGIN/../d2:$ORIGIN/../d1", needed=("libwb.so", "libwa.so")),
        "extern int s5 __attribute__((weak)); int *p = &s5; int s6;",
    ),
]
"""Search path, what is needed, and symbols: own ones, weak ones, data to copy, a PLT entry."""


def own_loader(libc: Libc, folder: Path) -> Path:
    """Copy the loader of this machine, with the default directories and the cache of a case."""
    loader = folder / "lib" / f"{libc}.so"
    loader.parent.mkdir()
    if libc is Libc.MUSL:
        loader = loader.with_name("ld-musl-x86_64.so.1")
        shutil.copy("/lib/ld-musl-x86_64.so.1", loader)
        (folder / "etc").mkdir()
        (folder / "etc" / "ld-musl-x86_64.path").write_text(":".join(SYSTEM))
        return loader
    data = Path("/lib64/ld-linux-x86-64.so.2").read_bytes()
    usual = (f"/{LIB}", f"/usr/{LIB}")
    old, new = (b"".join(f"{path}/\0".encode() for path in paths) for paths in (usual, SYSTEM))
    cache = b"/etc/ld.so.cache\0"
    if old in data and len(old) == len(new) and cache in data:
        data = data.replace(old, new).replace(cache, b"ld.so.cache\0".ljust(len(cache), b"\0"))
    loader.write_bytes(data)
    loader.chmod(0o755)
    return loader


def build_programs(folder: Path, compiler: str, loader: Path) -> list[tuple[Path, Elf]]:
    """Compile the programs that open libraries."""
    for name, defined in (("libwa.so", "int s1; int s2(void) { return 0; }"), ("libwb.so", "")):
        command = ["gcc", "-shared", "-fPIC", "-nostdlib", "-xc", "-", "-o", str(folder / name)]
        subprocess.run([*command, f"-Wl,-soname,{name}"], input=defined, text=True, check=True)
    built: list[tuple[Path, Elf]] = []
    for number, (elf, source) in enumerate(PROGRAMS):
        tags = "--enable-new-dtags" if elf.runpath is not None else "--disable-new-dtags"
        path = [] if elf.search_path is None else [f"-Wl,-rpath,{elf.search_path}"]
        target, text = folder / f"probe{number}", folder / "probe.c"
        text.write_text(PROBE.replace("SYMBOLS", source))
        kind = ["-fno-pic", "-no-pie"] if "s2(void)" in source else ["-fPIE", "-pie"]
        libraries = [str(folder / name) for name in elf.needed]
        command = [compiler, *kind, "-w", "-o", str(target), str(text), "-rdynamic"]
        command += [f"-Wl,--no-as-needed,{tags}", *path, *libraries, "-ldl"]
        command += [f"-Wl,--dynamic-linker={loader}"]
        command += ["-Wl,--allow-shlib-undefined,-z,dynamic-undefined-weak"]
        subprocess.run(command, check=True)
        built.append((target, read_elf(target.read_bytes(), target.name)))
    return built


def programs_for(libc: Libc, folder: Path) -> list[tuple[Path, Elf]] | str:
    """Build the programs for `libc`; if that is not possible here, say why."""
    if os.uname().machine != "x86_64":
        return "the objects are written for x86-64"
    if libc is Libc.GLIBC and os.confstr("CS_GNU_LIBC_VERSION") is not None:
        return build_programs(folder, "gcc", own_loader(libc, folder))
    if libc is Libc.MUSL and shutil.which("musl-gcc") and Path("/lib/ld-musl-x86_64.so.1").exists():
        return build_programs(folder, "musl-gcc", own_loader(libc, folder))
    return "needs glibc" if libc is Libc.GLIBC else "needs musl-gcc: apt-get install musl-tools"
