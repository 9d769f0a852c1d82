"""The names of the output formats of `check`."""

from enum import StrEnum


class Format(StrEnum):
    """How `check` writes its findings."""

    FULL = "full"
    CONCISE = "concise"
    JSON = "json"
    JSONL = "jsonl"
    SARIF = "sarif"
    GITHUB = "github"
    GITLAB = "gitlab"
    JUNIT = "junit"
    MARKDOWN = "markdown"
    HTML = "html"
