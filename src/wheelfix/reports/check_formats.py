"""The output formats of `check`. The module that renders one is imported when it is asked for."""

from collections.abc import Callable
from enum import StrEnum
from importlib import import_module

from wheelfix.pipelines.check_result import SetReport
from wheelfix.reports.check_content import RenderOptions


class Format(StrEnum):
    """How `check` writes its findings."""

    FULL = "full"
    """For people: what, where, why it matters, what to do."""
    CONCISE = "concise"
    """For grep and editors: `wheel!member: error[WF101] unreachable-library: message`."""
    JSON = "json"
    """For programs; it has a version and a schema."""
    JSONL = "jsonl"
    """For thousands of wheels: one line per wheel, as soon as it is ready."""
    SARIF = "sarif"
    """For code scanning: SARIF 2.1.0 with the help of every rule."""
    GITHUB = "github"
    """Annotations of a workflow run of GitHub Actions."""
    GITLAB = "gitlab"
    """GitLab's code quality report."""
    JUNIT = "junit"
    """For Jenkins, GitLab and Azure: one suite per wheel, one case per rule."""
    MARKDOWN = "markdown"
    """For comments; also appended to the file that `GITHUB_STEP_SUMMARY` names, if any."""
    HTML = "html"
    """One page with a filter; it needs no network."""

    @property
    def is_for_people(self) -> bool:
        """Whether it leaves out what was not asked for: notes, by default."""
        return self in {Format.FULL, Format.CONCISE, Format.GITHUB, Format.MARKDOWN}


SUMMARY_LIMIT = 960 * 1024
"""Bytes; GitHub drops a step's summary above 1 MiB, and other tools write to it too."""
_RENDER = {
    Format.FULL: ("check_text", "render"),
    Format.CONCISE: ("check_text", "render_concise"),
    Format.JSON: ("check_json", "render"),
    Format.JSONL: ("check_json", "render_jsonl"),
    Format.HTML: ("check_page", "render"),
}
"""The module and function of formats whose module does not have their name."""


def render(set_report: SetReport, form: Format, options: RenderOptions) -> str:
    """Return the report of `set_report` in the format `form`, without a final line end."""
    return str(_function(*_RENDER.get(form, (form, "render")))(set_report, options))


def step_summary(set_report: SetReport, options: RenderOptions, room: int) -> str:
    """Return the report for the summary of a GitHub step, in at most `room` bytes."""
    return str(_function("markdown", "step_summary")(set_report, options, room))


def _function(module: str, name: str) -> Callable[..., object]:
    function: Callable[..., object] = getattr(import_module(f"wheelfix.reports.{module}"), name)
    return function
