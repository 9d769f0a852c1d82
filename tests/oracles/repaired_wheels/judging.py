"""Differences between what auditwheel and wheelfix publish of one random project."""

import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any
from unittest.mock import patch

from tests.oracles.link_graphs.linking import run
from tests.oracles.repaired_wheels.making import Bench, table
from tests.oracles.repaired_wheels.projects import (
    PLACES,
    SCRIPTS,
    SITE,
    Kind,
    Object,
    Project,
)
from tests.oracles.repaired_wheels.uses import Built
from tests.support.forked import forked
from tests.support.trees import SIMULATED, Scheme, Tree, spread
from wheelfix.api import Severity, check
from wheelfix.cli.app import run as wheelfix

_AUDITWHEEL: Any = import_module("auditwheel.main")  # it has no types
import_module("wheelfix.cli.commands.repair")  # once, not in each fork
VENV = Scheme(platlib=SITE, purelib=SITE, data="", scripts="bin", headers="include/site/python3.11")
SCHEMES: Mapping[str, Scheme] = {**SIMULATED, "venv": VENV}

Numbers = tuple[str, ...]
"""The numbers that the references of an object point to."""
ABSENT: Numbers = ("absent",)
"""Of an object that is not loaded."""


@dataclass(frozen=True, kw_only=True)
class Load:
    """What became of one load."""

    ok: bool
    said: str
    numbers: Mapping[str, Numbers]
    """Of each table that is loaded."""


@dataclass(frozen=True, kw_only=True)
class Repair:
    """What a program made of a wheel."""

    wheel: Path | None
    said: str


@dataclass(frozen=True, kw_only=True)
class Judgment:
    """What was seen of one project."""

    wrong: tuple[str, ...]
    """What works after auditwheel, and not after wheelfix."""
    facts: tuple[str, ...]
    """What to count."""


def judge(project: Project, bench: Bench, options: Sequence[str] = ()) -> Judgment:
    """Repair the project's wheel by both programs, and by wheelfix again; load what they publish.

    wheelfix gets `options`.
    """
    built = bench.build(project)
    environ = dict(os.environ)
    if project.library_path:
        folders = [str(bench.folder / name) for name in project.library_path]
        environ["LD_LIBRARY_PATH"] = ":".join(folders)
    plain = _loads(project, bench, built, "built", environ)
    theirs = _repair(_auditwheel, built, bench.folder / "theirs", environ)
    if not theirs.wheel:
        return Judgment(wrong=(), facts=("wheel that auditwheel refuses",))
    ours = _repair(wheelfix, built, bench.folder / "ours", environ, options)
    forecast = () if options else tuple(_forecast(built, ours, environ))
    for name in {each.folder for each in project.machine}:
        shutil.rmtree(bench.folder / name)
    after = _loads(project, bench, theirs.wheel, "theirs")
    facts = [f"load {'ok' if load.ok else 'failed'} after auditwheel" for load in after.values()]
    if not ours.wheel:
        if all(load.ok for load in after.values()):
            wrong = (f"not published: {ours.said}", *forecast)
            return Judgment(wrong=wrong, facts=tuple(facts))
        fails = "wheel that wheelfix refuses, and of which an object fails after auditwheel"
        return Judgment(wrong=forecast, facts=(*facts, fails))
    now = _loads(project, bench, ours.wheel, "ours")
    facts += [f"load {'ok' if load.ok else 'failed'} after wheelfix" for load in now.values()]
    found = list(_differences(project, plain, after, now))
    found += _second(ours.wheel, bench.folder / "again", environ, options)
    found += [*forecast, *_silent(project, ours.wheel, now)]
    facts += ["wheel of both", *(text for text in found if text == NULL)]
    return Judgment(wrong=tuple(text for text in found if text != NULL), facts=tuple(facts))


def _forecast(built: Path, ours: Repair, environ: Mapping[str, str]) -> Iterator[str]:
    """Hold `check` of a wheel against what becomes of it: whether a repair publishes one."""
    with patch.dict(os.environ, environ, clear=True):
        report = check(built)
    errors = [f for f in report.findings if f.severity is Severity.ERROR and f.fix is None]
    refuses = any("cannot write this wheel" in (f.hint or "") for f in errors)
    if (refuses and ours.wheel) or not (errors or ours.wheel):
        yield f"check: {[f.message for f in errors]}, but the repair: {ours.said}"


def _silent(project: Project, wheel: Path, loads: Mapping[str, Load]) -> Iterator[str]:
    """Hold `check` of what was published against the loads of its objects: it warns of what fails.

    A library that lacks symbols may be loaded by what has them: that is a note.
    """
    found = [f for f in check(wheel).findings if f.code[:3] in {"WF1", "WF3", "WF8"}]
    for each in project.wheel:
        least = Severity.NOTE if each.kind is Kind.LIBRARY else Severity.WARNING
        if not loads[each.name].ok and not any(f.severity >= least for f in found):
            yield f"{each.name} fails, of which check is silent: {loads[each.name].said}"


NULL = "weak reference that only wheelfix makes null, which it says"


def judge_uses(built: Built, folder: Path, options: Sequence[str] = ()) -> Judgment:
    """Repair a wheel by both programs, and by wheelfix again; ask what its modules show.

    wheelfix gets `options`.
    """
    environ = dict(os.environ)
    before = _shown(built, built.wheel, folder / "installed-built")
    theirs = _repair(_auditwheel, built.wheel, folder / "theirs", environ)
    ours = _repair(wheelfix, built.wheel, folder / "ours", environ, options)
    forecast = () if options else tuple(_forecast(built.wheel, ours, environ))
    facts: list[str] = []
    for path in built.machine:
        shutil.rmtree(path)
    after: Mapping[str, str] = {}
    if theirs.wheel:
        after = _shown(built, theirs.wheel, folder / "installed-theirs")
    if ours.wheel is None:
        fine = bool(after) and all(after[name] == before[name] for name in before)
        refused = (f"not published: {ours.said}", *built.ways) if fine else ()
        return Judgment(wrong=(*refused, *forecast), facts=(*facts, "wheel that wheelfix refuses"))
    now = _shown(built, ours.wheel, folder / "installed-ours")
    wrong = [
        f"{way}: {now[name]!r}, as built {before[name]!r}, auditwheel {after.get(name)!r}"
        for name, way in zip(built.shown, built.ways, strict=True)
        if now[name] not in {before[name], after.get(name)}
    ]
    wrong += [*_second(ours.wheel, folder / "again", environ, options), *forecast]
    for number, wheel in enumerate([built.wheel, ours.wheel] if built.verified else ()):
        wrong += _verified(wheel, folder / f"verified{number}")
    facts += [f"use {'as built' if now[name] == before[name] else 'otherwise'}" for name in now]
    facts += [
        f"use {'as built' if after[name] == before[name] else 'otherwise'} after auditwheel"
        for name in after
    ]
    return Judgment(wrong=tuple(wrong), facts=tuple(facts))


def _second(
    wheel: Path, output: Path, environ: Mapping[str, str], options: Sequence[str]
) -> Iterator[str]:
    """Repair what was published once more: that must change nothing."""
    again = _repair(wheelfix, wheel, output, environ, options)
    if again.wheel is None or again.wheel.read_bytes() != wheel.read_bytes():
        yield f"the second repair differs: {again.said}"


def _verified(wheel: Path, folder: Path) -> Iterator[str]:
    """Hold what `verify` says against each object, opened or run by itself, but plug-ins."""
    spread(wheel, VENV, folder)
    works = True
    for path in folder.rglob("*"):
        if path.is_file() and path.read_bytes()[:4] == b"\x7fELF" and path.name[:4] != "plug":
            code = f"import ctypes; ctypes.CDLL({str(path)!r}, 2)"
            command = [sys.executable, "-c", code] if ".so" in path.name else [str(path)]
            done = subprocess.run(command, cwd="/", capture_output=True, check=False)
            works = works and done.returncode != (1 if ".so" in path.name else 127)
    said = forked(wheelfix, ["verify", wheel])
    if (said.returncode == 0) != works:
        yield f"verify ends with {said.returncode}: {said.stdout}{said.stderr}"


def _shown(built: Built, wheel: Path, folder: Path) -> Mapping[str, str]:
    """Install a wheel, and return what each module prints, or its exception."""
    _install(wheel, folder, built.installer)
    clean = {
        "PATH": "/usr/bin:/bin",
        "DEMO_DATA": str(folder),
        "DEMO_BIN": str(folder / "bin"),
    }
    site = str(folder / SITE)
    return {
        name: _said(
            f"import sys; sys.path.insert(0, {site!r}); import {name} as m; m.show()", clean
        )
        for name in built.shown
    }


def _install(wheel: Path, folder: Path, installer: str | None) -> None:
    if installer is None or not (installer == "pip" or shutil.which(installer)):
        spread(wheel, VENV, folder)
        return
    run([sys.executable, "-m", "venv", "--without-pip", str(folder)], folder.parent)
    python, few = str(folder / "bin" / "python"), ["--no-deps", "--no-index", "-q", str(wheel)]
    pip = [sys.executable, "-m", "pip", "--python", python, "install", *few]
    uv = [installer, "pip", "install", "--python", python, *few]
    run(pip if installer == "pip" else uv, folder.parent)


def _said(code: str, environ: Mapping[str, str]) -> str:
    done = subprocess.run(
        [sys.executable, "-c", code],
        env=environ, cwd="/", capture_output=True, text=True, check=False,
    )  # fmt: skip
    error = (done.stderr.strip().splitlines() or [""])[-1]
    return done.stdout + error.partition(":")[0]


def _differences(
    project: Project,
    plain: Mapping[str, Load],
    theirs: Mapping[str, Load],
    ours: Mapping[str, Load],
) -> Iterator[str]:
    alone = {each.name for each in project.wheel}
    strong = {table(each): len(each.code.refers) for each in (*project.machine, *project.wheel)}
    # After auditwheel, a first object may not find its libraries: then ours is what loads them so.
    anew = (load for name, load in ours.items() if name in alone and not theirs[name].ok)
    loads = (*plain.values(), *theirs.values(), *anew)
    seen = {(name, numbers) for load in loads for name, numbers in load.numbers.items()}
    for name, their in theirs.items():
        our, was = ours[name], plain[name]
        if their.ok and not our.ok:
            yield f"{name} fails: {our.said}"
        elif their.ok and was.ok:
            for reference, numbers in their.numbers.items():
                ours_now = our.numbers[reference]
                if ours_now == ABSENT or (name not in alone and (reference, ours_now) in seen):
                    continue  # without an unused entry, another object is the first to load it
                if ABSENT != numbers == was.numbers[reference] != ours_now:
                    first = strong[reference]
                    null = [number for number in ours_now[first:] if number != "0"]
                    is_null = numbers[:first] == ours_now[:first] and not null
                    text = f"{name}: {reference} is {ours_now}, not {numbers}"
                    yield NULL if is_null else text


def _loads(
    project: Project,
    bench: Bench,
    wheel: Path,
    name: str,
    environ: Mapping[str, str] | None = None,
) -> Mapping[str, Load]:
    """Install a wheel, load each object by itself, and several one after the other."""
    tree = spread(wheel, SCHEMES[project.scheme], bench.folder / f"installed-{name}")
    tables = [f"{table(each)}:{each.reads()}" for each in (*project.machine, *project.wheel)]
    clean = {"PATH": "/usr/bin:/bin"}
    if environ and "LD_LIBRARY_PATH" in environ:
        clean["LD_LIBRARY_PATH"] = environ["LD_LIBRARY_PATH"]
    reader = str(bench.reader.with_suffix(""))
    places = {each.number: _place(each, project, tree) for each in project.wheel}
    commands: dict[str, list[str]] = {}
    for each in project.wheel:
        program = [str(places[each.number])]
        command = program if each.kind is Kind.PROGRAM else [reader, *program]
        commands[each.name] = [*command, "--", *tables]
    for order in project.orders:
        files = [str(places[number]) for number in order]
        commands[f"order {order}"] = [reader, *files, "--", *tables]
    return {name: _load(command, clean) for name, command in commands.items()}


def _place(each: Object, project: Project, tree: Tree) -> Path:
    """Find an installed object; of a program with a shim in Python, the program."""
    scheme = SCHEMES[project.scheme]
    roots = {SITE: scheme.platlib, "lib": f"{scheme.data}/lib".lstrip("/"), "bin": scheme.scripts}
    root = next(root for root in roots if PLACES[each.folder].startswith(root))
    path = tree.root / PLACES[each.folder].replace(root, roots[root], 1) / each.name
    moved = tree.root / scheme.platlib / "demo.scripts" / each.name
    return moved if each.folder == SCRIPTS and moved.exists() else path


def _load(command: list[str], environ: Mapping[str, str]) -> Load:
    done = subprocess.run(
        command, env=environ, cwd="/", capture_output=True, text=True, check=False
    )
    lines = [line.split() for line in done.stdout.splitlines()]
    said = (done.stderr + done.stdout).strip().partition("\n")[0]
    numbers = {words[0]: tuple(words[1:]) for words in lines if words}
    return Load(ok=done.returncode == 0, said=said, numbers=numbers)


def _repair(
    main: Callable[[list[str]], object],
    wheel: Path,
    output: Path,
    environ: Mapping[str, str],
    options: Sequence[str] = (),
) -> Repair:
    """Repair a wheel with the defaults of a command, or with `options`."""
    arguments: list[str | Path] = ["repair", *options, "-w", output, wheel]
    done = forked(main, arguments, env=environ, cwd=wheel.parent)
    made = sorted(output.glob("*.whl")) if output.is_dir() else []
    said = f"exit code {done.returncode}\n{done.stdout}{done.stderr}"
    return Repair(wheel=made[0] if made and done.returncode in {0, None} else None, said=said)


def _auditwheel(arguments: list[str]) -> object:
    sys.argv = ["auditwheel", *arguments]
    return _AUDITWHEEL.main()
