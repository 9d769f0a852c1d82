"""Random cases that are well-formed: wheels, sources, settings."""

import io
import random
import zipfile
from dataclasses import fields
from hashlib import sha256

from tests.oracles.fuzzing.damage import damaged
from tests.oracles.fuzzing.sound import TOML, members, objects
from wheelfix.settings import Settings
from wheelfix.wheel.model import RecordRow
from wheelfix.wheel.record import format_record, hash_field


def wheel_file(dice: random.Random) -> bytes:
    """Zip damaged members soundly, so that the rules get to see them; RECORD is true of half."""
    files = dict(members())
    for name in dice.sample(sorted(files), dice.randint(1, 3)):
        files[name] = source_text(dice) if name.endswith(".py") else damaged(files[name], dice)
    if dice.random() < 0.2:
        files[f"demo/{_word(dice)}.so"] = damaged(dice.choice(objects()), dice)
    record = "demo-1.0.dist-info/RECORD"
    rows = [RecordRow(name=name, hash=_hash(data), size=len(data)) for name, data in files.items()]
    files[record] = format_record([*rows, RecordRow(name=record, hash="", size=None)])
    if dice.random() < 0.5:
        files[record] = damaged(files[record], dice)
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w") as archive:
        for name, data in files.items():
            entry = zipfile.ZipInfo(name)
            entry.external_attr = dice.choice((0, 0o100644, 0o100755)) << 16
            archive.writestr(entry, data)
    return stream.getvalue()


def _hash(data: bytes) -> str:
    return hash_field("sha256", sha256(data).digest())


def _word(dice: random.Random) -> str:
    return "".join(dice.choices("ab.\u202e\x85 '\"<&%\u00e9$,:;[", k=dice.randint(1, 6)))


def source_text(dice: random.Random) -> bytes:
    """Write a Python source of random statements."""
    lines = ["import ctypes, os, sys", "from pathlib import Path", "here = Path(__file__).parent"]
    lines += [_statement(dice, 0) for _ in range(dice.randint(1, 5))]
    return "\n".join(lines).encode()


def _statement(dice: random.Random, depth: int) -> str:
    """Write a statement, with what is in it indented."""
    pad = "    " * depth
    one, two = _expression(dice, 3), _expression(dice, 2)
    inner = _statement(dice, depth + 1) if depth < 3 else f"{pad}    pass"
    return pad + dice.choice(
        (
            f"{_name(dice)} = {one}",
            f"{_name(dice)} += {one}",
            f"ctypes.CDLL({one})",
            f"ctypes.CDLL({one})",
            f"for {_name(dice)} in {one}:\n{inner}",
            f"if {one}:\n{inner}\n{pad}else:\n{inner}",
            f"with {one} as {_name(dice)}:\n{inner}",
            f"try:\n{inner}\n{pad}except OSError:\n{inner}",
            f"def {_name(dice)}(x={two}):\n{inner}\n{pad}    return {one}",
            f"{_name(dice)}, {_name(dice)} = {one}",
            f"lib = ctypes.cdll[{one}]",
        )
    )


def _name(dice: random.Random) -> str:
    return dice.choice(("a", "b", "x", "f", "here", "libs"))


def _expression(dice: random.Random, depth: int) -> str:
    if depth == 0:
        return dice.choice((*_ATOMS, _name(dice)))
    one, two, three = (_expression(dice, depth - 1) for _ in range(3))
    return dice.choice(
        (
            f"({one} + {two})",
            f"({one} + {one})",
            f"({one} / {two})",
            f"({one} % {two})",
            f"({one}, {two}, {three})",
            f"[{one}, {two}]",
            f"{{{one}: {two}}}",
            f"{one}[{two}]",
            f"f'{{{_name(dice)}}}{{{_name(dice)}}}.so'",
            f"os.path.join({one}, {two}, {three})",
            f"{one}.{dice.choice(_METHODS)}({two})",
            f"{one}.replace({two}, {three})",
            f"{one}.parent",
            f"({one} if {two} else {three})",
            f"({one} or {two} and {three})",
            f"[{_name(dice)} for {_name(dice)} in {one} if {two}]",
            f"{_name(dice)}({one})",
            f"os.environ.get({one}, {two})",
            f"str({one})",
            f"lambda x: {one}",
            f"({one} in {two})",
        )
    )


_ATOMS = (
    "'libx.so'", "'/'", "'..'", "''", "'%s'", "'%999999999d'", "'{:>999999999}'", "'{0.x[1]}'",
    "'{}{}'", "b'lib\\xff'", "0", "1", "-1", "10**9", "0xffffffffffffffff", "None", "True", "...",
    "__file__", "sys.platform", "os.environ", "1.5", "1j", "'\\u202e\\n'", "'a' * 9999999", "()",
)  # fmt: skip


_METHODS = (
    "format", "join", "split", "strip", "joinpath", "with_name", "with_suffix", "get", "encode",
    "startswith", "parents", "append", "resolve", "exists",
)  # fmt: skip


def settings_file(dice: random.Random) -> bytes:
    """Write settings: known keys with values of any kind."""
    if dice.random() < 0.2:
        return damaged(TOML.encode(), dice)
    keys = [field.name.replace("_", "-") for field in fields(Settings)]
    lines = [f"{dice.choice(keys)} = {_toml(dice, 2)}" for _ in range(dice.randint(1, 4))]
    return "\n".join(lines).encode()


def _toml(dice: random.Random, depth: int) -> str:
    kind = dice.randrange(4) if depth else 0
    if kind == 1:
        return f"[{', '.join(_toml(dice, depth - 1) for _ in range(dice.randrange(4)))}]"
    if kind == 2:
        keys = (
            "requirement",
            "libraries",
            "directory",
            "scheme",
            "library",
            "symbols",
            "WF1",
            "a*",
        )
        chosen = dice.sample(keys, dice.randrange(4))
        pairs = [f'"{key}" = {_toml(dice, depth - 1)}' for key in chosen]
        return f"{{{', '.join(pairs)}}}"
    return dice.choice(_VALUES)


_VALUES = (
    "true", "0", "-1", "9", "99999999999999999999", "1.5", "nan", "inf", "1979-05-27", "''", "' '",
    "'auto'", "'WF1=error'", "'a:WF1'", "'libx.so=x_*'", "'../x'", "'/abs'", "'[z-a]'", "'*?['",
    "'50MB'", "'1e9'", "'9999999999999999999999GB'", "'numpy>=1'", "'\\u0000'", '"\\u0000"',
    '"\\u202e"', "'error'", "'never'", "'all'", "'glibc:2.41'", "'platlib'", "'purelib'",
)  # fmt: skip
