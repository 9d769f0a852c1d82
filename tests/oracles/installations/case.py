"""One installation: its description, and its files on disk."""

import shutil
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from tests.oracles.installations.cache import Entry, cache_bytes
from tests.oracles.installations.objects import Code, elf32_header, shared_object
from wheelfix.elf.model import Machine
from wheelfix.elf.reader import read_elf
from wheelfix.host.loader_config import parse_cache
from wheelfix.loader.load_values import Environment

NAMES = [f"libw{letter}.so" for letter in "abcdef"]
SYMBOLS = [f"s{number}" for number in range(8)]
LIB = "lib/x86_64-linux-gnu"
CWD = "/proc/self/cwd"
SYSTEM = [f"{CWD}/system", f"{CWD}/../d1//sub"]
"""Default directories of the loader: absolute, and as long as Debian's."""
DIRECTORIES = [
    "d0",
    "d1",
    "d1/sub",
    "d2",
    "d2/sub",
    "glibc",
    "d1/glibc-hwcaps/x86-64-v2",
    "d0/tls",
    "d2/x86_64/x86_64",
    "x86_64",
    "d2/system",
    LIB,
]


@dataclass(frozen=True, kw_only=True)
class Step:
    """One dlopen of the program's."""

    name: str
    mode: str = "n"
    """`g` with RTLD_GLOBAL, `d` with RTLD_DEEPBIND."""
    caller: str = ""
    """The library that makes the call, if it is loaded; otherwise nothing happens."""


@dataclass(frozen=True, kw_only=True)
class Case:
    """One installation on disk, and the same as an `Environment`."""

    root: Path
    environment: Environment
    steps: tuple[Step, ...] = ()


def write_files(
    environment: Environment,
    codes: dict[str, Code],
    program: Path,
    cache: Sequence[Entry] | None = None,
) -> Environment:
    """Make the files that `environment` describes, and return it with what was made."""
    for each in environment.directories:
        Path(each).mkdir(parents=True, exist_ok=True)
    files = dict(environment.files)
    for path, elf in environment.files.items():
        if path == environment.main:
            shutil.copy(program, path)
        elif path not in environment.hard_links:
            data = elf32_header(elf) if elf.bits == 32 else shared_object(elf, codes.get(path))
            Path(path).write_bytes(data)
            if path in codes:
                files[path] = read_elf(data, path)
    for path, original in environment.hard_links.items():
        Path(path).hardlink_to(original)
        files[path] = files[original]
    for path in environment.broken:
        Path(path).write_text("INPUT(libz.so)\n" * 10)
    for path, target in environment.links.items():
        if path != CWD:
            Path(path).symlink_to(target)
    written = replace(environment, files=files)
    return written if environment.cwd is None else _with_system(written, environment.cwd, cache)


def _with_system(environment: Environment, cwd: str, cache: Sequence[Entry] | None) -> Environment:
    """Make the C library that the program finds, and ld.so.cache."""
    system = Path(cwd, "system")
    system.mkdir(parents=True, exist_ok=True)
    for library in Path("/", LIB).glob("libc.so.6"):
        (system / "libc.so.6").symlink_to(library)
    if cache is None:
        return environment
    data = cache_bytes(cache)
    Path(cwd, "ld.so.cache").write_bytes(data)
    known = parse_cache(data, (64, Machine.X86_64), environment.subdirectories)
    return replace(environment, cache=known)
