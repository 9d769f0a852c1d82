"""The options of a report, and the paths it shows."""

from pathlib import Path
from typing import NamedTuple

from wheelfix.rules.findings import Severity
from wheelfix.rules.rule import AnyRule

NAME = "wheelfix"
"""The tool's name in reports."""


class RenderOptions(NamedTuple):
    """Everything a format needs besides the findings."""

    version: str
    """The version of wheelfix."""
    rules: tuple[AnyRule, ...] = ()
    """The rules that were run."""
    folder: Path = Path()
    """The working directory of the run."""
    root: Path = Path()
    """The folder of the checkout; paths below it are relative to it."""
    colour: bool = False
    verbose: bool = False
    limit: Severity = Severity.ERROR
    """The lowest severity that fails the check."""
    documentation: str = ""
    """The URL of docs/rules.md; empty if the project has none."""


def shown_path(source: Path, options: RenderOptions) -> str:
    """Return the path of a wheel, relative to the checkout if it is below it."""
    whole = options.folder / source
    is_below = whole.is_relative_to(options.root)
    return (whole.relative_to(options.root) if is_below else source).as_posix()
