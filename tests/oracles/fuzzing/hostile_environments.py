"""Environments that a stranger could have filled: odd files in the places that wheelfix reads."""

import os
import random
from contextlib import suppress
from pathlib import Path
from struct import pack

from tests.environments.test_proportion import MAKERS, SITE, SUFFIX, module
from tests.oracles.fuzzing import forge
from tests.oracles.fuzzing.commands import any_metadata
from tests.oracles.fuzzing.damage import damaged
from tests.oracles.fuzzing.hostile_wheels import EXECUTED, lying_object, odd_object, word
from tests.oracles.fuzzing.sound import objects
from tests.oracles.fuzzing.well_formed import source_text

_FILES = (
    *("pkg/__init__.py", "pkg/m.py", "qkg/__init__.py", "sitecustomize.py", "n\nl.py", "\udcff.py"),
    *(f"pkg/_core{SUFFIX}", f"qkg/_core{SUFFIX}", "pkg/\x1b[2J.so", f"qkg/_more{SUFFIX}"),
    *("pkg.libs/libx.so.1", "qkg.libs/libx.so.1", "pkg/liby.so", "qkg/liby.so", "qkg/libz.so"),
    *("x.pth", "a.egg-link", "__editable__.pkg.pth", "wheelfix.toml", "pkg-1.0.egg-info/PKG-INFO"),
    *(f"pkg-1.0.dist-info/{name}" for name in "METADATA RECORD entry_points.txt WHEEL".split()),
    *(f"pkg-1.0.dist-info/{name}" for name in "direct_url.json INSTALLER top_level.txt".split()),
    *(f"qkg-2.dist-info/{name}" for name in "METADATA RECORD".split()),
    *(f"../../../{name}" for name in "pyvenv.cfg conda-meta/history conda-meta/state".split()),
    *(f"../../../{name}" for name in "conda-meta/pkg-1.json etc/conda/activate.d/x.sh".split()),
)
_TEXTS = (
    *(b"from . import _core\n", b"from . import _core\n", b"import qkg\nfrom . import _core\n"),
    *(EXECUTED, b"import os; os.environ['LD_LIBRARY_PATH']='/x'\n", b"../../../../..\n/etc\n"),
    b"Metadata-Version: 2.1\nName: pkg\nVersion: 1.0\nRequires-Dist: qkg @ file:///x\n",
    b"pkg/../../../../../../etc/passwd,,\n/dev/zero,,\npkg/__init__.py,sha256=x,9e99\n",
    b'{"env_vars": {"A_PATH": "/x"}, "name": [1], "files": [1, null, "../x"], "url": 5}',
    b"[console_scripts]\nx = y:z\n[wheelfix.rules]\na=b:c\n",
    *(b"export LD_LIBRARY_PATH=$CONDA_PREFIX/lib:$X\n", b"home = /nope\nversion = 999999999\n"),
    *(b"\0\n", b"", b"import " * 50),
    "import ctypes,os\nctypes.CDLL(os.path.join(os.path.dirname(__file__),"
    f"'_core{SUFFIX}'), ctypes.RTLD_GLOBAL)\nimport pkg.m, qkg\n".encode(),
)
_LINKS = ("/dev/zero", "/dev/full", "x", "..", "/proc/self/mem", "/", "/etc/passwd", "pkg", "\n")


def fill(root: Path, dice: random.Random) -> None:
    """Make an environment at `root`, a folder that does not exist."""
    site = root / SITE
    site.mkdir(parents=True)
    (root / "pyvenv.cfg").write_text("home=/usr/bin\n", encoding="utf-8")
    is_whole = dice.random() < 0.6
    libraries = (
        f"{own}/{name}" for own in ("pkg", "qkg") for name in ("liby.so", f"_core{SUFFIX}")
    )
    linked = (*libraries, "pkg.libs/libx.so.1", "qkg.libs/libx.so.1")
    for name, content, share in (
        (f"pkg/_core{SUFFIX}", module(), 0.2),
        *((name, _linked(name, dice), 0.85) for name in linked),
        ("pkg/__init__.py", b"import pkg._core\n", 0.6),
        ("qkg/__init__.py", b"import qkg._core\n", 0.6),
        ("pkg-1.0.dist-info/METADATA", b"Metadata-Version: 2.1\nName: pkg\nVersion: 1.0\n", 0.7),
        ("pkg-1.0.dist-info/RECORD", b"pkg/__init__.py,,\npkg/liby.so,,1\n", 0.5),
        ("qkg-2.dist-info/RECORD", b"qkg/__init__.py,,\npkg/liby.so,,2\n", 0.5),
        ("qkg-2.dist-info/METADATA", b"Metadata-Version: 2.1\nName: qkg\nVersion: 2\n", 0.7),
    ):
        if dice.random() < share or (is_whole and share > 0.2):
            _put(site / name, content, dice, is_plain=is_whole)
    for _ in range(dice.randint(2, 24)):
        name = dice.choice(_FILES)
        _put(site / name, _content(name, dice), dice)
    if dice.random() < 0.2:
        made = MAKERS[dice.choice(tuple(MAKERS))](dice.choice((1, 3)))
        for name, text in made.items():
            _put(root / name, text.encode() if isinstance(text, str) else text, dice)


def _linked(name: str, dice: random.Random) -> bytes:
    """Return an object that shares names of libraries and symbols with the others."""
    strings = forge.Strings()
    base = name.rpartition("/")[2]
    module = base.partition(".")[0] if ".cpython-" in base else ""
    needed = dice.sample(["libx.so.1", "liby.so"], dice.randint(0, 2)) if module else []
    needed += dice.sample(["libc.so.6", "libz.so"], dice.choice((0,) * 15 + (1,)))
    tags: list[tuple[int, int | str]] = [(forge.NEEDED, strings.add(each)) for each in needed]
    if not module and dice.random() < 0.9:
        soname = base if dice.random() < 0.9 else dice.choice(("libx.so.1", "libc.so.6", "liby.so"))
        tags.append((forge.SONAME, strings.add(soname)))
    own = name.partition("/")[0]
    usual = f"$ORIGIN:$ORIGIN/../{own}.libs:$ORIGIN/../{dice.choice(('pkg', 'qkg'))}"
    path = dice.choice((*[usual] * 6, "$ORIGIN/../pkg.libs", "/gone", ""))
    tags.append((dice.choice((forge.RPATH, *[forge.RUNPATH] * 4)), strings.add(path)))
    numbers = dice.choice((range(6), *[range(4) if own.startswith("p") else range(2, 6)] * 4))
    functions = [f"f{number}" for number in numbers]
    defined = dice.sample(functions, 1 if module else len(functions) - dice.choice((0, 0, 0, 1)))
    hooks = [f"PyInit_{module}"] if module and dice.random() < 0.95 else []
    used = [strings.add(each) for each in dice.sample(functions, 2 if needed else 0)]
    info = dice.choice((0x12, 0x12, 0x11, 0xA1, 0x22))  # functions, data, unique data, weak
    rows = forge.symbols(list(map(strings.add, defined)), section=1, info=info)[24:]
    rows += forge.symbols(list(map(strings.add, hooks)), section=1)[24:]
    table = forge.symbols(used) + rows
    count = len(table) // 24
    chain = (1, 0, *range(2, count), 0)  # one bucket that has all
    tables = {"symbols": table, "hash": pack(f"<{2 + len(chain)}L", 1, count, *chain)}
    tags += [(forge.SYMTAB, "symbols"), (forge.HASH, "hash")]
    if dice.random() < 0.9:  # a reference without a relocation fails nowhere
        # r_offset, symbol and R_X86_64_GLOB_DAT, r_addend
        uses = (pack("<3Q", 8, number << 32 | 6, 0) for number in range(1, len(used) + 1))
        tables["relocations"] = b"".join(uses)
        tags += [(forge.RELA, "relocations"), (forge.RELASZ, 24 * len(used)), (9, 24)]
    return forge.with_strings(tags, tables, strings)


def _content(name: str, dice: random.Random) -> bytes:
    if ".so" in name and dice.random() < 0.7:
        linked = _linked(name, dice)
        return linked if dice.random() < 0.8 else lying_object(linked, dice)
    if ".so" in name:
        sound = dice.choice(objects())
        return dice.choice(
            (sound, damaged(sound, dice), lying_object(sound, dice), odd_object(dice))
        )
    if name.endswith(".py") and dice.random() < 0.5:
        return source_text(dice)
    if name.endswith(("METADATA", "PKG-INFO")) and dice.random() < 0.5:
        return any_metadata(dice)
    text = dice.choice((*_TEXTS, word(dice).encode("utf-8", "replace"))) * dice.choice((1, 1, 3))
    return damaged(text, dice) if dice.random() < 0.4 else text


def _put(path: Path, content: bytes, dice: random.Random, *, is_plain: bool = False) -> None:
    """Write a file; or there is something else of its name."""
    path = Path(os.path.normpath(path))
    kind = 1 if is_plain else dice.random()
    with suppress(OSError):  # a file is where the folder would be
        path.parent.mkdir(parents=True, exist_ok=True)
        if path.exists() or path.is_symlink():
            return
        if kind < 0.02:
            path.symlink_to(dice.choice((*_LINKS, path.name)))
        elif kind < 0.03:
            os.mkfifo(path)
        elif kind < 0.04:
            path.mkdir()
        elif kind < 0.05:
            path.touch()
            os.truncate(path, dice.choice((1 << 20, 1 << 33, 1 << 42)))
        else:
            path.write_bytes(content)
            if kind < 0.07:
                when = dice.choice((0, -1, 1 << 33, 1 << 40))
                os.utime(path, (when, when))
