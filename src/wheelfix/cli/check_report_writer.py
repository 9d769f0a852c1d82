"""Reports of `check` on stdout, in files, and in the summary of a GitHub step."""

import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from pathlib import Path

from wheelfix import __version__
from wheelfix.cli.console import Terminal
from wheelfix.cli.output_files import Kind, write_file
from wheelfix.errors import OutputError, SettingsError
from wheelfix.named_tuple import NamedTuple
from wheelfix.pipelines.check_result import SetReport
from wheelfix.reports.check_content import (
    RenderOptions,
    lowest_failing,
    lowest_shown,
    selectors_by_name,
)
from wheelfix.reports.check_formats import SUMMARY_LIMIT, Format, render, step_summary
from wheelfix.reports.check_text import render_statistics
from wheelfix.reports.printable import Style, printable
from wheelfix.rules.findings import Severity
from wheelfix.rules.registry import SET_RULES, enabled_rules
from wheelfix.rules.rule import AnyRule
from wheelfix.rules.rule_plugins import load_rules
from wheelfix.settings import Settings
from wheelfix.system.paths import is_there
from wheelfix.system.tempfiles import open_output
from wheelfix.system.wheelfix_metadata import documentation_site

_CHECKOUTS = ("GITHUB_WORKSPACE", "CI_PROJECT_DIR")
KINDS: Mapping[Format, Kind] = {
    **dict.fromkeys(Format, Kind.TEXT),
    Format.JSON: Kind.REPORT,
    Format.JSONL: Kind.RECORDS,
    Format.SARIF: Kind.SARIF,
    Format.GITLAB: Kind.LIST,
    Format.JUNIT: Kind.MARKUP,
    Format.HTML: Kind.MARKUP,
}
"""What a file is that a report in each format may replace."""
_ON_TERMINAL = {Format.FULL, Format.CONCISE}


def parse_reports(texts: Iterable[str]) -> list[tuple[Format, Path]]:
    """Parse `FORMAT=FILE` options. Raises `SettingsError`."""
    reports: list[tuple[Format, Path]] = []
    for text in texts:
        form, equals, file = text.partition("=")
        if form not in set(Format) or not equals or not file:
            raise SettingsError(
                f"`--report {text}`: it must be a format, `=` and a file",
                hint=f"the formats are {', '.join(Format)}",
            )
        reports.append((Format(form), Path(file)))
    return reports


class ReportWriter(NamedTuple):
    """Writes the report of a run."""

    found: SetReport
    settings: Settings
    terminal: Terminal
    inputs: Sequence[Path] = ()
    """Files that no report replaces."""

    def write(self, form: Format, file: Path | None) -> None:
        """Write the report to `file` or stdout. Raises `OutputError`."""
        self._write(partial(render, self.found, form), form, file)

    def write_statistics(self, file: Path | None) -> None:
        """Write the number of findings of each rule to `file` or stdout. Raises `OutputError`."""
        self._write(partial(render_statistics, self.found), Format.FULL, file)

    def _write(self, text: Callable[[RenderOptions], str], form: Format, file: Path | None) -> None:
        if file is not None:
            write_file(file, text(self._options(form, color=False)), KINDS[form], self.inputs)
        elif report := text(self._options_for(form)):
            self.terminal.result(report)

    def _options_for(self, form: Format) -> RenderOptions:
        options = self._options(form, color=self.terminal.colors_results)
        style = options.style._replace(width=self.terminal.width)
        if self.terminal.links_results:
            style = style._replace(documentation=documentation_site())
        return options._replace(style=style)

    def write_step_summary(self, environ: Mapping[str, str]) -> None:
        """Append the report to the summary of the running GitHub step, if there is one.

        A summary that cannot be written is not an error.
        """
        if not (file := environ.get("GITHUB_STEP_SUMMARY")):
            return
        options = self._options(Format.MARKDOWN, color=False)
        try:
            written = Path(file).stat().st_size if is_there(file) else 0
            text = step_summary(self.found, options, SUMMARY_LIMIT - written - 1)
            with open_output(Path(file), os.O_APPEND) as summary:
                text = f"\n{text}" if written else text  # a heading needs an empty line
                summary.write(text.encode(errors="backslashreplace"))
        except (OSError, OutputError) as error:
            self.terminal.say(f"the step summary is left out: {printable(str(error))}")

    def _options(self, form: Format, *, color: bool) -> RenderOptions:
        """Return the options for `form`: code hosts get paths relative to the checkout."""
        limit = lowest_failing(self.settings.fail_on)
        on_terminal = form in _ON_TERMINAL
        folder = Path() if on_terminal else Path.cwd()
        return RenderOptions(
            version=__version__,
            rules=self._rules(),
            folder=folder,
            root=Path() if on_terminal else checkout(os.environ, folder),
            style=Style(
                color=color,
                verbose=self.terminal.verbosity > 0,
                documentation="" if on_terminal else documentation_site(),
            ),
            quiet=self.terminal.verbosity < 0,
            least=self._least() if form.is_for_people else Severity.NOTE,
            asked=selectors_by_name(self.settings),
            limit=Severity.ERROR if limit is None else limit,
        )

    def _least(self) -> Severity:
        return lowest_shown(self.settings.show, self.settings.fail_on, self.terminal.verbosity)

    def _rules(self) -> tuple[AnyRule, ...]:
        """Return the rules about wheels that are selected or have findings."""
        rules: tuple[AnyRule, ...] = (*load_rules(), *SET_RULES)
        hit = {finding.code for _, finding in self.found.all_findings}
        shown = hit.union(rule.code for rule in enabled_rules(self.settings, rules))
        return tuple(rule for rule in rules if rule.code in shown)


def checkout(environ: Mapping[str, str], folder: Path) -> Path:
    """Return the folder that the code host of this run uses as the root of paths."""
    given = (Path(environ[name]) for name in _CHECKOUTS if environ.get(name))
    return next((path for path in given if folder.is_relative_to(path)), folder)
