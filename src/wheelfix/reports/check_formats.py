"""The output formats of `check`, and the function that renders each."""

from collections.abc import Callable, Mapping
from enum import StrEnum

from wheelfix.pipelines.check_result import SetReport
from wheelfix.reports import (
    check_json,
    check_page,
    check_text,
    github,
    gitlab,
    junit,
    markdown,
    sarif,
)
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


_RENDER: Mapping[Format, Callable[[SetReport, RenderOptions], str]] = {
    Format.FULL: check_text.render,
    Format.CONCISE: check_text.render_concise,
    Format.JSON: check_json.render,
    Format.JSONL: check_json.render_jsonl,
    Format.SARIF: sarif.render,
    Format.GITHUB: github.render,
    Format.GITLAB: gitlab.render,
    Format.JUNIT: junit.render,
    Format.MARKDOWN: markdown.render,
    Format.HTML: check_page.render,
}


def render(set_report: SetReport, form: Format, options: RenderOptions) -> str:
    """Return the report of `set_report` in the format `form`, without a final line end."""
    return _RENDER[form](set_report, options)
