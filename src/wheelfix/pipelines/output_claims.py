"""Claims of output files: which ones the repairs of one run may write."""

import os
from collections.abc import Iterable
from pathlib import Path

from wheelfix.errors import OutputError


def other_folder(folder: Path) -> str:
    """Return the name of a folder for repaired wheels that is not `folder`."""
    return "repaired" if folder.name == "wheelhouse" else "wheelhouse"


def words_for_another_folder(wheel: Path, wheel_dir: Path, folder: Path) -> tuple[str, ...]:
    """Return the option with which a repair of `wheel` does not overwrite it; none if it does not.

    Relative paths start in `folder`. The name of the output may be another one: then the option is
    not needed, and does no harm.
    """
    output = os.path.realpath(folder / wheel_dir / wheel.name)
    is_same = output == os.path.realpath(folder / wheel)
    return ("-w", other_folder(wheel_dir)) if is_same else ()


class Outputs:
    """The wheels of a run, which stay as they are, and those it has written. Mutable."""

    def __init__(self, wheels: Iterable[Path], folder: Path) -> None:
        """`folder` is where relative paths start."""
        self._folder = folder
        self._inputs = frozenset(map(self._real, wheels))
        self._claimed: dict[str, Path] = {}

    def is_same(self, output: Path, wheel: Path) -> bool:
        """Return whether both are one file."""
        return self._real(output) == self._real(wheel)

    def claim(self, output: Path, wheel: Path) -> None:
        """Let only the repair of `wheel` write `output`.

        Raises `OutputError` if it is another wheel of the run, or the output of another.
        """
        real = self._real(output)
        if real in self._inputs:
            raise OutputError(
                f"`{output.name}` would replace the wheel of that name, which is an input of this "
                "run",
                hint="choose another directory for the output: -w wheelhouse",
            )
        first = self._claimed.setdefault(real, wheel)
        if first != wheel:
            raise OutputError(
                f"`{first.name}` is written to `{output}`, too",
                hint="repair them in two runs, each with its own -w",
            )

    def _real(self, path: Path) -> str:
        return os.path.realpath(self._folder / path)
