"""Real and predicted results for every object of a wheel."""

import os
import re
import tempfile
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

from tests.oracles.symbols import read_symbols
from wheel_loads.model import Comparison
from wheel_loads.observe import observe
from wheel_loads.predict import predicted_files, predicted_loads, with_predicted_symbols
from wheelfix.host.fresh_environments import find, install, make
from wheelfix.host.pythons import Interpreter
from wheelfix.host.reachable_files import read_process
from wheelfix.wheel.reader import open_wheel

SYMBOL_MESSAGE = re.compile(r"undefined symbol|symbol lookup error|version [`'].*' not found")


def compare(wheel: Path, python: Interpreter, *, symbols: bool = False) -> list[Comparison]:
    """Install `wheel` for `python` and load its objects; with `symbols`, compare bindings, too."""
    with open_wheel(wheel) as archive:
        value = archive.wheel
    with tempfile.TemporaryDirectory(prefix="wheelfix-fidelity-") as folder:
        root = Path(os.path.realpath(folder))
        place = make("venv", python, root, os.environ)
        install(wheel, value, place)
        _, files = find(place.root, value)
        objects = [
            (member, files[member].path)
            for member, elf in value.elfs.items()
            if elf.dynamic and member in files
        ]
        program = os.path.realpath(place.python)
        first = [python.ctypes] if python.ctypes else []
        environment = read_process(program, [*first, *(path for _, path in objects)])
        tables = read_symbols()
        log = root / "log"
        log.mkdir()

        def both(item: tuple[str, str]) -> Comparison:
            member, path = item
            is_program = value.elfs[member].is_executable
            real, message = observe(path, place.python, log, is_program=is_program, symbols=symbols)
            loads = predicted_loads(path, first, environment, is_program=is_program)
            model = predicted_files(loads[-1], is_program=is_program)
            if symbols and model.blamed is None:
                model = with_predicted_symbols(
                    model, loads, environment, tables, is_program=is_program
                )
            return Comparison(
                wheel=wheel.name,
                member=member,
                real=real if real.blamed is None else replace(real, bound=frozenset(), unbound=()),
                model=model,
                message=message,
                symbols=real.blamed is None and SYMBOL_MESSAGE.search(message) is not None,
            )

        with ThreadPoolExecutor(2) as pool:
            return list(pool.map(both, objects))
