"""Wheels and their SBOMs through the commands that read one, as users run them."""

import atexit
import io
import json
import os
import random
import re
import tempfile
from collections import Counter
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import (
    AbstractContextManager,
    contextmanager,
    nullcontext,
    redirect_stderr,
    redirect_stdout,
)
from copy import deepcopy
from dataclasses import replace
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import Any

import typer

from tests.oracles.fuzzing import forge, heavy
from tests.oracles.fuzzing.damage import damaged
from tests.oracles.fuzzing.sound import METADATA, WHEEL, objects, wheels
from tests.oracles.fuzzing.well_formed import source_text, wheel_file
from wheelfix.errors import ExitCode, WheelfixError
from wheelfix.pipelines import repair_many
from wheelfix.pipelines.ask_auditwheel import Answer, Auditwheel, Question
from wheelfix.pipelines.sbom import Bundled, listed_packages, sbom_edits
from wheelfix.wheel.edits import AddMember, NewFile
from wheelfix.wheel.model import Wheel
from wheelfix.wheel.reader import open_wheel

# ruff: noqa: S311 -- dice need no secrecy

REACHED: Counter[str] = Counter()
"""How often each command ended with each exit code, in this process."""


class _Shared(Auditwheel):
    """One process for all wheels, in the place of a new one for each, asked once per question.

    Of damage to the parts of an object that auditwheel does not read, a view has nothing: most
    wheels lead to a question that was asked before.
    """

    def __init__(self, environ: Mapping[str, str]) -> None:
        """Keep each answer."""
        super().__init__(environ)
        self._answers: dict[object, Mapping[str, Any]] = {}

    def __call__(self, _environ: object) -> AbstractContextManager[Auditwheel]:
        """Return the process, which goes on when the context ends."""
        return nullcontext(self)

    @contextmanager
    def show(self, question: Question) -> Generator[Answer[Mapping[str, Any]]]:
        """Give the answer to an equal question about an equal view, wherever it lies."""
        wheel, *facts = question
        key = wheel.name, wheel.read_bytes(), *facts
        if key not in self._answers:
            with super().show(question) as answer:
                self._answers[key] = answer()
        yield lambda: self._answers[key]


@cache
def _commands() -> dict[str, Callable[..., Any]]:
    """Return the commands; import auditwheel once, for one process that all wheels share."""
    import_module("auditwheel.wheel_abi")
    auditwheel = _Shared(dict(os.environ))
    atexit.register(auditwheel.__exit__)
    for module in (repair_many, import_module("wheelfix.cli.commands.why")):
        setattr(module, "Auditwheel", auditwheel)  # noqa: B010 - a class by type
    found: dict[str, Callable[..., Any]] = {}
    for name in ("repair", "diff", "why", "show", "explain"):
        alone = typer.Typer(add_completion=False, rich_markup_mode=None)
        place = "wheelfix.diff.command" if name == "diff" else f"wheelfix.cli.commands.{name}"
        alone.command(name)(getattr(import_module(place), name))
        found[name] = typer.main.get_command(alone)
    return found


def try_commands(data: bytes) -> None:
    """Run each command that takes a wheel, in one of its formats.

    Raises the first error of ours that one ended with, after all have run.
    """
    dice = random.Random(data)
    with tempfile.TemporaryDirectory() as folder:
        wheel, other = Path(folder) / forge.NAME, Path(folder) / "other" / forge.NAME
        other.parent.mkdir()
        wheel.write_bytes(data)
        other.write_bytes(dice.choice((data, dice.choice(wheels()))))
        both = [str(wheel), str(other)]
        dice.shuffle(both)
        library = dice.choice(("libm.so.6", "libc.so.6", "x.so", "lib1.so"))
        refused: list[WheelfixError] = []
        for name, *arguments in (
            ("repair", "--dry-run", str(wheel)),
            ("diff", *both),
            ("why", str(wheel), library),
            ("show", str(wheel)),
            ("explain", str(wheel), *dice.choice(((), ("demo/x.so",), (library,)))),
        ):
            chosen = ["--output-format", dice.choice(_FORMATS.get(name, ("text", "json")))]
            try:
                _run(name, [*chosen, *arguments])
            except WheelfixError as error:
                refused.append(error)
        if refused:
            raise refused[0]


_FORMATS = {
    "diff": ("text", "markdown", "json"),
    "explain": ("text", "mermaid", "dot", "html", "json"),
}
_BAD = re.compile("internal error.*|Traceback.*|auditwheel failed.*")


def _run(name: str, arguments: Sequence[str]) -> None:
    """Run a command in this process. Raises what it raises, or `AssertionError` for what it says.

    An error that belongs to one of several wheels is printed, not raised.
    """
    out, err = io.StringIO(), io.StringIO()
    code: object = ExitCode.ERROR
    try:
        with redirect_stdout(out), redirect_stderr(err):
            code = _commands()[name](arguments, standalone_mode=False)
    finally:
        REACHED[f"{name} {code or 0}"] += 1
    bad = _BAD.search(err.getvalue()) or _BAD.search(out.getvalue())
    if bad:
        raise AssertionError(f"{name}: {bad[0]}")


def any_wheel(dice: random.Random) -> bytes:
    """Return a small random wheel: of one object, of several, of many, or a damaged zip."""
    kind = dice.random()
    if kind < 0.3:
        return wheel_file(dice)
    if kind < 0.4:
        return damaged(dice.choice(wheels()), dice)
    if kind < 0.5:
        return forge.wheel(heavy.files(dice.randrange(1 << 40), 0.005))
    files: dict[str, bytes | str] = {"demo/x.so": damaged(dice.choice(objects()), dice)}
    if dice.random() < 0.3:
        files["demo/__init__.py"] = source_text(dice)
    if dice.random() < 0.3:
        files[f"{forge.INFO}/METADATA"] = any_metadata(dice)
    if dice.random() < 0.2:
        files[f"{forge.INFO}/WHEEL"] = damaged(WHEEL.encode(), dice)
    if dice.random() < 0.3:
        name = dice.choice(("wheelfix", "auditwheel"))
        files[f"{forge.INFO}/sboms/{name}.cdx.json"] = any_sbom(dice)
    return forge.wheel(files)


def with_metadata(dice: random.Random) -> bytes:
    """Return a sound wheel with a random SBOM and random METADATA."""
    name = dice.choice(("wheelfix", "auditwheel"))
    return forge.wheel(
        {
            "demo/x.so": objects()[1],
            f"{forge.INFO}/METADATA": any_metadata(dice),
            f"{forge.INFO}/sboms/{name}.cdx.json": any_sbom(dice),
        }
    )


@cache
def _sound_wheel() -> Wheel:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / forge.NAME
        path.write_bytes(forge.wheel({"demo/x.so": objects()[1]}))
        with open_wheel(path) as archive:
            return archive.wheel


def try_sbom(data: bytes) -> None:
    """Read an SBOM, write the one of a repair, and read that: it must change nothing more."""
    wheel = _sound_wheel()
    text, member = data.decode("utf-8", "replace"), f"{forge.INFO}/sboms/wheelfix.cdx.json"
    for _ in range(2):
        wheel = replace(wheel, texts={**wheel.texts, member: text})
        listed_packages(wheel)
        edits = tuple(sbom_edits(Bundled(), (), wheel, ()))
        added = [edit.source for edit in edits if isinstance(edit, AddMember)]
        if not added:
            return
        text = "".join(one.content.decode() for one in added if isinstance(one, NewFile))
    raise AssertionError("the SBOM is written anew each time")


# --- SBOMs and METADATA ---------------------------------------------------------------------------

_SBOM = {
    "bomFormat": "CycloneDX",
    "specVersion": "1.6",
    "version": 1,
    "metadata": {
        "tools": {"components": [{"type": "application", "name": "wheelfix", "version": "1"}]},
        "component": {"type": "library", "bom-ref": "pkg:pypi/demo@1.0", "name": "demo"},
    },
    "components": [
        {
            "type": "library",
            "bom-ref": place,
            "name": "zlib",
            "version": "1.3",
            "hashes": [{"alg": "SHA-256", "content": "00"}],
            "licenses": [{"license": {"id": "Zlib"}}],
            "purl": "pkg:deb/debian/zlib1g@1.3",
            "properties": [{"name": "wheelfix:library", "value": "libm.so.6"}],
            "externalReferences": [{"type": "license", "url": "../licenses/x"}],
            "evidence": {"occurrences": [{"location": place}]},
        }
        for place in ("demo/x.so", "demo.libs/libz-0.so", "demo/x.so")
    ],
    "dependencies": [{"ref": "demo/x.so", "dependsOn": ["demo.libs/libz-0.so"]}],
}
_NUMBERS: Sequence[object] = (None, True, False, 0, -1, 5, 1.5, 10**400, float("nan"))
_WORDS = ("", "\ud800", "\0", "\u202e", "a" * 5000, "demo/x.so", "true", "wheelfix:external")
_NESTED: Sequence[object] = json.loads('[{}, [], [{}], {"a": 1}, [[[]]]]')
_VALUES = (*_NUMBERS, *_WORDS, *_NESTED)


def any_sbom(dice: random.Random) -> bytes:
    """Return a list of components with other values in some places, or damaged text."""
    document: Any = deepcopy(_SBOM)
    for _ in range(dice.randint(1, 3)):
        places = list(_places(document))
        holder, key = dice.choice(places)
        if dice.random() < 0.2:
            del holder[key]
        elif dice.random() < 0.2:
            other, name = dice.choice(places)
            holder[key] = deepcopy(other[name])
        else:
            holder[key] = deepcopy(dice.choice(_VALUES))
    content = json.dumps(document).encode()
    return damaged(content, dice) if dice.random() < 0.2 else content


def _places(value: Any) -> Any:
    """Yield each container in `value` with each of its keys."""
    keys: Any = [*value] if isinstance(value, dict) else range(len(value))
    for key in keys:
        yield value, key
        if isinstance(value[key], dict | list):
            yield from _places(value[key])


_FIELDS = (
    *("Name", "Version", "Requires-Python", "Requires-Dist", "Provides-Extra", "License-File"),
    *("License-Expression", "License", "Classifier", "Dynamic", "Metadata-Version", "Keywords"),
    *("Project-URL", "Description-Content-Type", "Summary", "Import-Name", "\ud7ff", "a b", ""),
)
_TEXTS = (
    *("demo", "1.0", ">=3.8", ">=3." + "9" * 50, "numpy", "numpy>=1.2; extra == 'x'", "MIT", "2.5"),
    *("nvidia-cublas-cu12==1", "a @ https://x/y.whl", "x[y]<2,>1; os_name == 'nt'", "../../x", ""),
    *("(((", "~=3", "===x", "3.*", "LICENSE", "\u202e", "a" * 3000, "MIT OR", "===\u00e9"),
    *("numpy; python_version < '3' and (extra == 'x' or extra == 'y')", "-", "1!2.post3.dev4+l"),
)


def any_metadata(dice: random.Random) -> bytes:
    """Return METADATA with random fields, or damaged text."""
    if dice.random() < 0.3:
        return damaged(METADATA.encode(), dice)
    lines = [f"{line}\n" for line in METADATA.splitlines()]
    for _ in range(dice.randint(1, 4)):
        line = f"{dice.choice(_FIELDS)}: {dice.choice(_TEXTS)}\n"
        lines.insert(dice.randrange(len(lines) + 1), line)
    return "".join(lines).encode()
