"""Random wheels with many of something: each checked within the bounds of `bombs.py`.

    python scripts/fuzzing/heavy.py --first 0 -n 10000

A case is identified by its number. Prints those that exceed the bounds or end by an internal error,
and the most that one took. Exits with 1 if there are any.
"""

import argparse
import os
import random
import resource
import sys
import tempfile
from pathlib import Path
from struct import pack
from typing import NamedTuple

sys.path.insert(0, str(Path(__file__).parents[1]))

from fuzzing.bombs import MEMORY, SECONDS
from fuzzing.forge import (
    HASH,
    INFO,
    METADATA,
    NAME,
    NEEDED,
    NOTE,
    RPATH,
    RUNPATH,
    SONAME,
    SYMTAB,
    VERNEED,
    WHEEL,
    Files,
    Strings,
    symbols,
    sysv_hash,
    wheel,
    with_strings,
)
from wheelfix.pipelines.check import check
from wheelfix.settings import Settings

# ruff: noqa: S311 -- dice need no secrecy


def _many(dice: random.Random, most: int) -> int:
    """Return a number up to `most`, small ones as likely as large ones."""
    power: float = most ** dice.random()
    return round(power)


def _name(dice: random.Random, count: int) -> str:
    size = _many(dice, 3000) if dice.random() < 0.1 else 0
    return f"lib{'a' * size}{dice.randrange(count)}.so{dice.choice(('', '.1'))}"


def _object(dice: random.Random, count: int, most: int) -> bytes:
    """Write an object whose tables have up to `most` entries each; `count` objects are there."""
    strings = Strings()
    tables: dict[str, bytes] = {}
    tags: list[tuple[int, int | str]] = []
    shared = strings.add("x" * _many(dice, 1 << 18))
    needed = [strings.add(_name(dice, count)) for _ in range(_many(dice, min(most, 990)))]
    tags += [(NEEDED, name) for name in needed]
    if dice.random() < 0.7:
        tags.append((SONAME, strings.add(_name(dice, count))))
    if dice.random() < 0.7:
        entries = (
            dice.choice(("$ORIGIN", "/opt", "$ORIGIN/..")) + f"/{n}" * dice.randrange(3)
            for n in range(_many(dice, min(most, 990)))
        )
        tags.append((dice.choice((RPATH, RUNPATH)), strings.add(":".join(["$ORIGIN", *entries]))))
    if dice.random() < 0.6:
        size = _many(dice, most)
        if dice.random() < 0.3:
            names = [shared] * size
        else:
            stem = dice.choice(("f", "_ZN1a1b", "PyInit_", "_ZTI"))
            names = [strings.add(f"{stem}{n}") for n in range(size)]
        section = dice.randrange(2)
        tables |= {"symbols": symbols(names, section=section), "hash": sysv_hash(size + 1)}
        tags += [(SYMTAB, "symbols"), (HASH, "hash")]
    if dice.random() < 0.3:
        size = _many(dice, most)
        file = strings.add("libc.so.6")
        versions = [strings.add(f"GLIBC_2.{n}") for n in range(size)]
        tables["needs"] = pack("<2H3L", 1, 1, file, 16, 0) + b"".join(
            pack("<L2H2L", n, 0, 2 + n % 1000, name, 16 if n + 1 < size else 0)
            for n, name in enumerate(versions)
        )
        tags.append((VERNEED, "needs"))
    notes = 0
    if dice.random() < 0.3:
        listed = ",".join(f'"{_name(dice, count)}"' for _ in range(_many(dice, most // 4 + 1)))
        text = f'[{{"soname":[{listed}]}}]'.encode()
        text += bytes(-len(text) % 4)
        note = pack("<3L", 4, len(text), 0x407C0C0A) + b"FDO\0" + text
        tables["note"] = note * _many(dice, 10)
        notes = _many(dice, 200)
    return with_strings(
        tags, tables, strings, segments=[(NOTE, "note")] * notes, kind=dice.choice((2, 3, 3, 3))
    )


_STATEMENTS = (
    "ctypes.CDLL('lib{n}.so')\n",
    "a{n} = 'x' * {n}\n",
    "def f{n}(a):\n    return f{m}(a) + ctypes.CDLL(a)\n",
    "if a{m}: b = [b, b, '{n}']\n",
    "for x in (a{m}, '{n}'): ctypes.CDLL(os.path.join(x, 'b'))\n",
    "d = {{'{n}': d, {n}: '{m}'}}\n",
    "try:\n    ctypes.CDLL(f'{{a{m}}}{n}')\nexcept OSError:\n    pass\n",
    "\n",
    "class C{n}:\n    x = '{m}'\n",
)


def _source(dice: random.Random, most: int) -> str:
    lines = ["import ctypes, os\n"]
    for _ in range(dice.randint(1, 4)):
        statement = dice.choice(_STATEMENTS)
        size = _many(dice, most * 5)
        lines += [statement.format(n=n, m=n % 7) for n in range(size)]
    return "".join(lines)


def files(number: int) -> Files:
    """Return the files of one case."""
    dice = random.Random(f"heavy {number}")
    made: dict[str, bytes | str] = {}
    count = _many(dice, 400)
    kinds = [_object(dice, count, max(1, _many(dice, 200_000) // count)) for _ in range(3)]
    for n in range(count):
        folder = dice.choice(("p/", "p/", f"p{n}/", f"p/{n % 9}/", ""))
        kind = dice.choice(kinds) if dice.random() < 0.8 else _object(dice, count, 50)
        made[f"{folder}lib{n}.so{dice.choice(('', '.1'))}"] = kind
    for n in range(_many(dice, 300) if dice.random() < 0.5 else 0):
        made[f"p/m{n}.py"] = _source(dice, 4000 // (n + 1) + 1)
    if dice.random() < 0.2:
        tags = "".join(f"Tag: cp311-cp311-linux_{n}\n" for n in range(_many(dice, 20_000)))
        made[f"{INFO}/WHEEL"] = WHEEL + tags
    if dice.random() < 0.3:
        key = dice.choice(("Requires-Dist: a{}>=1; extra == 'x'", "License-File: {}", "X: {}"))
        lines = "".join(key.format(n) + "\n" for n in range(_many(dice, 19_000)))
        made[f"{INFO}/METADATA"] = METADATA + lines
    if dice.random() < 0.2:
        row = dice.choice(("a,,\n", "{},,\n", "{}\n", "{},sha256=x,1\n", '"{}\n'))
        made[f"{INFO}/RECORD"] = "".join(row.format(n) for n in range(_many(dice, 80_000)))
    if dice.random() < 0.2:
        made[f"{INFO}/entry_points.txt"] = "[console_scripts]\n" + "".join(
            f"a{n}=p.m{n}:f\n" for n in range(_many(dice, 40_000))
        )
    return made


class Spent(NamedTuple):
    """What one case took."""

    seconds: float
    memory: int
    """Bytes."""
    refused: bool
    said: str


def tried(path: Path) -> Spent:
    """Check a wheel in a forked process, which begins with the memory of this one."""
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(reading)
        resource.setrlimit(resource.RLIMIT_DATA, (2 << 30, 2 << 30))
        resource.setrlimit(resource.RLIMIT_CPU, (30, 31))
        try:
            error = check(path, Settings()).error
            said = error.message if error else ""
        except BaseException as bad:  # noqa: BLE001 - it is what is looked for
            said = f"internal error: {type(bad).__name__}: {bad}"
        os.write(writing, said.encode(errors="replace")[:4000])
        os._exit(0)
    os.close(writing)
    with os.fdopen(reading, "rb") as stream:
        said = stream.read().decode(errors="replace")
    status, usage = os.wait4(child, 0)[1:]
    if status:
        said = f"internal error: ended with {status}"
    seconds = usage.ru_utime + usage.ru_stime
    return Spent(seconds, usage.ru_maxrss * 1024, bool(said), said)


def _write_case(number: int, path: Path) -> int:
    """Write a case by a process of its own, so that this one stays small; return its bytes."""
    child = os.fork()
    if child == 0:
        path.write_bytes(wheel(files(number)))
        os._exit(0)
    os.waitpid(child, 0)
    return path.stat().st_size


def main() -> None:
    """Try the cases that are asked for."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("-n", type=int, default=100)
    options = parser.parse_args()
    bad = tries = refused = 0
    most = [0.0, 0]
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / NAME
        for number in range(options.first, options.first + options.n):
            size = _write_case(number, path)
            if size > 1_000_000:
                continue
            spent = tried(path)
            tries += 1
            refused += spent.refused
            most = [max(most[0], spent.seconds), max(most[1], spent.memory)]
            over = spent.seconds > SECONDS or spent.memory > MEMORY
            if over or spent.said.startswith("internal error"):
                bad += 1
                memory = spent.memory / 1e6
                print(f"case {number}: {size} bytes, {spent.seconds:.1f} s, {memory:.0f} MB")
                print(f"  {spent.said[:150]}", flush=True)
    print(f"{tries} wheels, {refused} refused, {bad} bad; at most {most[0]:.1f} s", end=" ")
    print(f"and {most[1] / 1e6:.0f} MB")
    sys.exit(bool(bad))


if __name__ == "__main__":
    main()
