"""The wheels that a command line names: files, and directories that stand for those in them."""

import shlex
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Annotated

import typer

from wheelfix.cli.console import Terminal
from wheelfix.errors import SettingsError
from wheelfix.host.machine_files import closed_folders, folders_below
from wheelfix.reports.printable import printable
from wheelfix.system.paths import is_folder
from wheelfix.text import FEW, join_some, operand
from wheelfix.wheel.required_file import no_wheel_error

WHEELS = typer.Argument(
    metavar="WHEEL|DIR...",
    help="The wheels; a directory stands for all wheels in and below it.",
    readable=False,  # the error of the file itself says more
)
Wheels = Annotated[list[Path], WHEELS]


def expand(paths: Sequence[Path], terminal: Terminal) -> list[Path]:
    """Return the wheels, each once, and for a directory those in and below it.

    Raises `SettingsError` for a directory without any.
    """
    say_closed((path for path in paths if is_folder(path)), terminal)
    wheels: dict[Path, None] = {}
    for path in paths:
        wheels |= dict.fromkeys(wheels_below(path) if is_folder(path) else [path])
    return list(wheels)


def say_closed(folders: Iterable[str | Path], terminal: Terminal) -> None:
    """Name those of `folders`, and below them, that this user may not read."""
    if closed := closed_folders(folders):
        names = printable(join_some(closed, FEW))
        terminal.say(f"note: you may not read {names}: what is there is left out")


def wheels_below(folder: Path) -> list[Path]:
    """Return what is named like a wheel, but not the directories of unpacked ones.

    Raises `SettingsError` if there are none.
    """
    wheels = sorted(path for path in _wheels_below(folder) if not path.is_dir())
    if not wheels:
        raise no_wheel_error(folder)
    return wheels


def names_wheels(word: str) -> bool:
    """Return whether an argument names a wheel, or a directory of wheels: a module is neither."""
    path = Path(word)
    return path.suffix == ".whl" or (is_folder(path) and any(_wheels_below(path)))


def one_wheel(wheels: Sequence[Path], taker: str, command: Sequence[str]) -> Path:
    """Return the only one of `wheels`.

    Raises `SettingsError` for several: `taker` says what takes one, and `command` are the words
    before the wheel.
    """
    if len(wheels) > 1:
        example = shlex.join([*command, operand(wheels[0])])
        raise SettingsError(
            f"{taker} takes one wheel, the pattern gave {len(wheels)}: {join_some(wheels, 3)}",
            hint=f"choose one, for example: `{example}`",
        )
    return wheels[0]


def _wheels_below(top: Path) -> Iterator[Path]:
    paths = (Path(folder, name) for folder, names in folders_below(top) for name in names)
    return (path for path in paths if path.suffix == ".whl")
