"""Imports in processes of an environment's own Python, under the loader's log of bindings.

This executes what is installed there.
"""

import os
from collections.abc import Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from wheelfix.errors import SettingsError
from wheelfix.grouping import flatten
from wheelfix.host.ask_import_probe import ask_probe, no_answer
from wheelfix.host.ld_debug_log import Log, LoggedProgram, debug_variables
from wheelfix.host.machine_files import open_regular
from wheelfix.host.prefixes import python_around
from wheelfix.host.pythons import without_python_settings
from wheelfix.loader.process_bindings import Binding
from wheelfix.rules.predictions import ImportRun, Prediction
from wheelfix.system.subprocesses import run
from wheelfix.system.tempfiles import scratch
from wheelfix.text import killed_by, overdue

_PIECE = 1 << 20
"""Bytes of a log that are read at once."""
_MOST = 1 << 31
"""Bytes of logs that are read: ten times those of the imports of a framework."""


def run_imports(
    python: Path,
    predictions: Iterable[Prediction],
    environ: Mapping[str, str],
    library_path: Sequence[str],
    seconds: float,
) -> dict[tuple[str, ...], ImportRun]:
    """Run the imports of each prediction, those of several once; return what they have shown.

    Each is a process of `python` with the variables of `environ` that do not concern Python and the
    loader, with `library_path` in LD_LIBRARY_PATH, an empty home and at most `seconds`.
    Raises `ToolError` if the Python cannot be run.
    """
    wanted: dict[tuple[str, ...], set[Binding]] = {}
    for prediction in predictions:
        wanted.setdefault(prediction.imports, set()).update(prediction.bindings)
    clean = without_python_settings(environ)
    if library_path:
        clean["LD_LIBRARY_PATH"] = ":".join(library_path)
    return {
        names: _run(python, names, bindings, clean, seconds) for names, bindings in wanted.items()
    }


def _run(
    python: Path,
    names: Sequence[str],
    bindings: Collection[Binding],
    environ: Mapping[str, str],
    seconds: float,
) -> ImportRun:
    symbols = sorted({binding.symbol for binding in bindings})
    job = {"kind": "imports", "what": names}
    with scratch() as folder:
        for name in ("home", "tmp", "log"):
            (folder / name).mkdir()
        variables = {
            **environ,
            "HOME": str(folder / "home"),
            "TMPDIR": str(folder / "tmp"),
            **debug_variables(folder / "log" / "log", with_bindings=bool(symbols)),
        }
        [answer] = ask_probe(
            run, str(python), [job], environ=variables, home=folder / "home", seconds=seconds
        )
        logged = read_logs(folder / "log", answer["pid"], symbols) if symbols else ()
    users = {(binding.symbol, binding.user) for binding in bindings}
    resolved = (
        Binding(binding.symbol, os.path.realpath(binding.user), os.path.realpath(binding.provider))
        for binding in flatten(program.bindings for program in logged)
    )
    problem = _problem(answer, seconds)
    return ImportRun(
        problem=problem,
        is_broken=answer.get("type") == "ImportError" or answer.get("code", 0) < 0,
        errors="\n".join((*answer.get("causes", ()), problem)),
        bindings=[binding for binding in resolved if (binding.symbol, binding.user) in users],
    )


def _problem(answer: Mapping[str, Any], seconds: float) -> str:
    if answer.get("hang"):
        return f"it {overdue(seconds)}"
    if answer["code"] < 0:
        return f"it was {killed_by(-answer['code'])}"
    return no_answer(answer) or ": ".join(filter(None, map(answer.get, ("type", "error"))))


def read_logs(folder: Path, pid: int, symbols: Sequence[str]) -> list[LoggedProgram]:
    """Return what the loader has logged of the process `pid`.

    What is imported can write there too, and remove the logs.
    """
    programs: list[LoggedProgram] = []
    left = _MOST
    for path in sorted(folder.glob("log.*")):
        number = path.suffix.removeprefix(".")
        if number.isdecimal():
            log = Log(int(number), symbols)
            with suppress(OSError), open_regular(path) as file:
                while left > 0 and (piece := file.read(_PIECE)):
                    left -= len(piece)
                    log.feed(piece)
            programs += (program for program in log.finish() if program.pid == pid)
    return programs


def python_of(directory: Path) -> Path:
    """Return the Python of the environment that the absolute `directory` is, or is in.

    Raises `SettingsError` if there is none.
    """
    python = python_around(directory)
    if python is not None:
        return python
    raise SettingsError(
        f"`{directory}` has no Python to prove it with",
        hint="name the virtual environment or the prefix that it is in, or leave out --prove",
    )
