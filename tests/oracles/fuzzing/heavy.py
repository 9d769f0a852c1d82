"""Random wheels with many of something: each checked within the bounds of `bombs.py`.

    python -m tests.oracles.fuzzing.heavy --first 0 -n 10000 [--scale 0.01]

A case is identified by its number and the scale of its sizes: at 1 one takes about half a second,
at 0.01 about 10 ms. Prints those that exceed the bounds or end by an internal error, and the most
that one took. Exits with 1 if there are any.
"""

import argparse
import json
import os
import random
import resource
import signal
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from struct import pack
from typing import NamedTuple

from tests.oracles.fuzzing.bombs import MEMORY, SECONDS
from tests.oracles.fuzzing.forge import (
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
from wheelfix import check
from wheelfix.settings import Settings

LARGEST = 1_000_000
"""Bytes of a wheel: no larger one is tried."""
BATCH = 100
"""Scaled cases for one process: to fork takes longer than to check a small wheel."""


class _Dice(random.Random):
    """The dice of one case."""

    def __init__(self, number: int, scale: float) -> None:
        super().__init__(f"heavy {number}")
        self._scale = scale

    def many(self, most: int) -> int:
        """Return a number up to `most`, scaled; small ones are as likely as large ones."""
        power: float = max(1, most * self._scale) ** self.random()
        return round(power)


def _name(dice: _Dice, count: int) -> str:
    size = dice.many(3000) if dice.random() < 0.1 else 0
    return f"lib{'a' * size}{dice.randrange(count)}.so{dice.choice(('', '.1'))}"


def _object(dice: _Dice, count: int, most: int) -> bytes:
    """Write an object whose tables have up to `most` entries each; `count` objects are there."""
    strings = Strings()
    tables: dict[str, bytes] = {}
    tags: list[tuple[int, int | str]] = []
    shared = strings.add("x" * dice.many(1 << 18))
    needed = [strings.add(_name(dice, count)) for _ in range(dice.many(min(most, 990)))]
    tags += [(NEEDED, name) for name in needed]
    if dice.random() < 0.7:
        tags.append((SONAME, strings.add(_name(dice, count))))
    if dice.random() < 0.7:
        entries = (
            dice.choice(("$ORIGIN", "/opt", "$ORIGIN/..")) + f"/{n}" * dice.randrange(3)
            for n in range(dice.many(min(most, 990)))
        )
        tags.append((dice.choice((RPATH, RUNPATH)), strings.add(":".join(["$ORIGIN", *entries]))))
    if dice.random() < 0.6:
        size = dice.many(most)
        if dice.random() < 0.3:
            names = [shared] * size
        else:
            stem = dice.choice(("f", "_ZN1a1b", "PyInit_", "_ZTI"))
            names = [strings.add(f"{stem}{n}") for n in range(size)]
        section = dice.randrange(2)
        tables |= {"symbols": symbols(names, section=section), "hash": sysv_hash(size + 1)}
        tags += [(SYMTAB, "symbols"), (HASH, "hash")]
    if dice.random() < 0.3:
        size = dice.many(most)
        file = strings.add("libc.so.6")
        versions = [strings.add(f"GLIBC_2.{n}") for n in range(size)]
        tables["needs"] = pack("<2H3L", 1, 1, file, 16, 0) + b"".join(
            pack("<L2H2L", n, 0, 2 + n % 1000, name, 16 if n + 1 < size else 0)
            for n, name in enumerate(versions)
        )
        tags.append((VERNEED, "needs"))
    notes = 0
    if dice.random() < 0.3:
        listed = ",".join(f'"{_name(dice, count)}"' for _ in range(dice.many(most // 4 + 1)))
        text = f'[{{"soname":[{listed}]}}]'.encode()
        text += bytes(-len(text) % 4)
        note = pack("<3L", 4, len(text), 0x407C0C0A) + b"FDO\0" + text
        tables["note"] = note * dice.many(10)
        notes = dice.many(200)
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


def _source(dice: _Dice, most: int) -> str:
    lines = ["import ctypes, os\n"]
    for _ in range(dice.randint(1, 4)):
        statement = dice.choice(_STATEMENTS)
        size = dice.many(most * 5)
        lines += [statement.format(n=n, m=n % 7) for n in range(size)]
    return "".join(lines)


def files(number: int, scale: float = 1) -> Files:
    """Return the files of one case."""
    dice = _Dice(number, scale)
    made: dict[str, bytes | str] = {}
    count = dice.many(400)
    kinds = [_object(dice, count, max(1, dice.many(200_000) // count)) for _ in range(3)]
    for n in range(count):
        folder = dice.choice(("p/", "p/", f"p{n}/", f"p/{n % 9}/", ""))
        kind = dice.choice(kinds) if dice.random() < 0.8 else _object(dice, count, 50)
        made[f"{folder}lib{n}.so{dice.choice(('', '.1'))}"] = kind
    for n in range(dice.many(300) if dice.random() < 0.5 else 0):
        made[f"p/m{n}.py"] = _source(dice, 4000 // (n + 1) + 1)
    if dice.random() < 0.2:
        tags = "".join(f"Tag: cp311-cp311-linux_{n}\n" for n in range(dice.many(20_000)))
        made[f"{INFO}/WHEEL"] = WHEEL + tags
    if dice.random() < 0.3:
        key = dice.choice(("Requires-Dist: a{}>=1; extra == 'x'", "License-File: {}", "X: {}"))
        lines = "".join(key.format(n) + "\n" for n in range(dice.many(19_000)))
        made[f"{INFO}/METADATA"] = METADATA + lines
    if dice.random() < 0.2:
        row = dice.choice(("a,,\n", "{},,\n", "{}\n", "{},sha256=x,1\n", '"{}\n'))
        made[f"{INFO}/RECORD"] = "".join(row.format(n) for n in range(dice.many(80_000)))
    if dice.random() < 0.2:
        made[f"{INFO}/entry_points.txt"] = "[console_scripts]\n" + "".join(
            f"a{n}=p.m{n}:f\n" for n in range(dice.many(40_000))
        )
    return made


class Spent(NamedTuple):
    """What one case took."""

    number: int
    size: int
    """Bytes of the wheel."""
    seconds: float
    """Of the processor."""
    memory: int
    """Bytes: the peak of the process, which has tried the cases before it, too."""
    said: str
    """Why the wheel was refused."""

    @property
    def is_internal(self) -> bool:
        """Whether it ended by an error that is not ours."""
        return self.said.startswith("internal error")

    @property
    def is_bad(self) -> bool:
        """Whether it exceeds the bounds, or ends by an error that is not ours."""
        return self.seconds > SECONDS or self.memory > MEMORY or self.is_internal


def tried(numbers: Sequence[int], scale: float, path: Path) -> Iterator[Spent]:
    """Check cases in one forked process, each written to `path`; stop after a bad one."""
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(reading)
        resource.setrlimit(resource.RLIMIT_DATA, (2 << 30, 2 << 30))
        with os.fdopen(writing, "w", buffering=1, encoding="utf-8", errors="replace") as stream:
            for number in numbers:
                print(number, file=stream)
                spent = _tried(number, scale, path)
                print(json.dumps(spent), file=stream)
                if spent.is_bad:
                    break
        os._exit(0)
    os.close(writing)
    number = numbers[0]
    with os.fdopen(reading, encoding="utf-8") as lines:
        for line in lines:
            number = int(line)
            answer = lines.readline()
            if answer:
                yield Spent(*json.loads(answer))
    status = os.waitpid(child, 0)[1]
    if status:
        said = f"internal error: ended with {os.waitstatus_to_exitcode(status)}"
        yield Spent(number, path.stat().st_size, 0, 0, said)


def _tried(number: int, scale: float, path: Path) -> Spent:
    content = wheel(files(number, scale))
    if len(content) > LARGEST:
        return Spent(number, len(content), 0, 0, "")
    path.write_bytes(content)
    start = time.process_time()
    signal.setitimer(signal.ITIMER_PROF, 6 * SECONDS)  # its signal ends the process
    try:
        error = check(path, Settings()).error
        said = error.message if error else ""
    except BaseException as bad:  # noqa: BLE001 - it is what is looked for
        said = f"internal error: {type(bad).__name__}: {bad}"
    signal.setitimer(signal.ITIMER_PROF, 0)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    seconds = time.process_time() - start
    return Spent(number, len(content), seconds, peak, said[:4000])


def main() -> None:
    """Try the cases that are asked for."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("-n", type=int, default=100)
    parser.add_argument("--scale", type=float, default=1, help="of the sizes: 0.01 is fast")
    options = parser.parse_args()
    bad = tries = refused = 0
    most = [0.0, 0]
    left = list(range(options.first, options.first + options.n))
    with tempfile.TemporaryDirectory() as folder:
        while left:
            # The peak of a process is of all that it did: after a bad one the rest gets another.
            batch = left[: BATCH if options.scale < 1 else 1]
            for spent in tried(batch, options.scale, Path(folder) / NAME):
                left.remove(spent.number)
                tries += spent.size <= LARGEST
                refused += bool(spent.said)
                most = [max(most[0], spent.seconds), max(most[1], spent.memory)]
                if spent.is_bad:
                    bad += 1
                    memory = spent.memory / 1e6
                    print(
                        f"case {spent.number}: {spent.size} bytes, "
                        f"{spent.seconds:.1f} s, {memory:.0f} MB\n  {spent.said[:150]}",
                        flush=True,
                    )
            done = options.n - len(left)
            if done // 5000 != (done - len(batch)) // 5000:
                print(f"{done} cases, {bad} bad", flush=True)
    print(f"{tries} wheels, {refused} refused, {bad} bad; at most {most[0]:.1f} s", end=" ")
    print(f"and {most[1] / 1e6:.0f} MB")
    sys.exit(bool(bad))


if __name__ == "__main__":
    main()
