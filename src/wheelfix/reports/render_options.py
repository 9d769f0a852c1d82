"""The options of a report, and the paths it shows."""

from pathlib import Path
from typing import NamedTuple

from wheelfix.rules.findings import Severity
from wheelfix.rules.rule import AnyRule

NAME = "wheelfix"
"""The tool's name in reports."""


class RenderOptions(NamedTuple):
    """Everything a format may know besides what was found."""

    version: str
    """wheelfix's own."""
    rules: tuple[AnyRule, ...] = ()
    """The rules that were asked: their documentation, and what passed."""
    folder: Path = Path()
    """The folder of the run."""
    root: Path = Path()
    """The folder of the checkout: wheels below it are named relative to it."""
    colour: bool = False
    verbose: bool = False
    limit: Severity = Severity.ERROR
    """From here on a finding makes the check fail."""
    documentation: str = ""
    """The address of docs/rules.md, where the project has one."""


def shown_path(source: Path, options: RenderOptions) -> str:
    """Return `source` as seen from the checkout where it is below it."""
    whole = options.folder / source
    is_below = whole.is_relative_to(options.root)
    return (whole.relative_to(options.root) if is_below else source).as_posix()
