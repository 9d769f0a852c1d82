"""Where what `check` found goes: to stdout, to files, and into the summary of a GitHub step."""

import os
from collections.abc import Iterable, Mapping
from importlib.metadata import PackageNotFoundError, metadata
from pathlib import Path
from typing import NamedTuple

from wheelfix import __version__
from wheelfix.cli.console import Terminal
from wheelfix.errors import OutputError, SettingsError
from wheelfix.pipelines.check_result import SetReport
from wheelfix.reports.formats import FORMATS, Format
from wheelfix.reports.markdown import SUMMARY_LIMIT, step_summary
from wheelfix.reports.render import RenderOptions
from wheelfix.rules.findings import Severity
from wheelfix.rules.plugins import all_rules
from wheelfix.rules.rule import AnyRule
from wheelfix.settings import FailOn, Settings

_CHECKOUTS = ("GITHUB_WORKSPACE", "CI_PROJECT_DIR")
_FOR_PEOPLE = {Format.FULL, Format.CONCISE}
_LINKED = {Format.SARIF, Format.MARKDOWN}


def reports_in(texts: Iterable[str]) -> list[tuple[Format, Path]]:
    """Read `FORMAT=FILE` options. Raises `SettingsError`."""
    found: list[tuple[Format, Path]] = []
    for text in texts:
        form, equals, file = text.partition("=")
        if form not in FORMATS or not equals or not file:
            raise SettingsError(
                f"`--report {text}`: it must be a format, `=` and a file",
                hint=f"the formats are {', '.join(FORMATS)}",
            )
        found.append((Format(form), Path(file)))
    return found


class ReportWriter(NamedTuple):
    """What was found, on its way out."""

    found: SetReport
    settings: Settings
    terminal: Terminal

    def show(self, form: Format) -> None:
        """Print the report."""
        text = FORMATS[form](self.found, self._drawing(form, colour=self.terminal.colours_results))
        if text:
            self.terminal.result(text)

    def write(self, form: Format, file: Path) -> None:
        """Write the report to `file`. Raises `OutputError`."""
        text = FORMATS[form](self.found, self._drawing(form, colour=False))
        try:
            file.write_text(text + "\n", encoding="utf-8", errors="backslashreplace")
        except OSError as error:
            raise OutputError(f"cannot write the report `{file}`: {error.strerror}") from error

    def summarise(self, environ: Mapping[str, str]) -> None:
        """Append the report to the summary of the GitHub step that this is part of, if it is.

        A summary that cannot be written is a pity, and no reason to fail.
        """
        if not (file := environ.get("GITHUB_STEP_SUMMARY")):
            return
        options = self._drawing(Format.MARKDOWN, colour=False)
        try:
            written = Path(file).stat().st_size if Path(file).exists() else 0
            text = step_summary(self.found, options, SUMMARY_LIMIT - written)
            with Path(file).open("a", encoding="utf-8", errors="backslashreplace") as summary:
                summary.write(text)
        except OSError as error:
            self.terminal.say(f"cannot write the step summary `{file}`: {error.strerror}")

    def _drawing(self, form: Format, *, colour: bool) -> RenderOptions:
        """Say how to draw: people see paths as given, code hosts as in the checkout."""
        limit = self.settings.fail_on
        plain = form in _FOR_PEOPLE
        folder = Path() if plain else Path.cwd()
        return RenderOptions(
            version=__version__,
            rules=self._rules(),
            folder=folder,
            root=Path() if plain else checkout(os.environ, folder),
            colour=colour,
            verbose=self.terminal.verbosity > 0,
            limit=Severity.ERROR if limit is FailOn.NEVER else Severity[limit.upper()],
            documentation=_documentation() if form in _LINKED else "",
        )

    def _rules(self) -> tuple[AnyRule, ...]:
        """Return the rules that hold for all wheels, and those that have found something."""
        hit = {finding.code for _, finding in self.found.all_findings}
        return tuple(rule for rule in all_rules() if rule.code in hit or self._holds(rule))

    def _holds(self, rule: AnyRule) -> bool:
        wanted = (*self.settings.select, *self.settings.extend_select)
        return any(map(rule.matches, wanted)) and not any(map(rule.matches, self.settings.ignore))


def checkout(environ: Mapping[str, str], folder: Path) -> Path:
    """Return the folder that the code host of this run names files relative to."""
    given = (Path(environ[name]) for name in _CHECKOUTS if environ.get(name))
    return next((path for path in given if folder.is_relative_to(path)), folder)


def _documentation() -> str:
    """Return where wheelfix says that its rules are explained; nothing if it says nothing."""
    try:
        urls = metadata("wheelfix").get_all("Project-URL") or []
    except PackageNotFoundError:
        return ""
    pairs = (url.partition(", ") for url in urls)
    return next((address for label, _, address in pairs if label == "Rules"), "")
