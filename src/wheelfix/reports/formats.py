"""The output formats of `check` by name; the module of one is read when it is asked for."""

from collections.abc import Callable, Mapping
from enum import StrEnum
from functools import partial
from importlib import import_module
from types import MappingProxyType
from typing import cast

from wheelfix.pipelines.check_result import SetReport
from wheelfix.reports.render import RenderOptions


class Format(StrEnum):
    """How `check` says what it found."""

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


_MODULES = {Format.JSON: "json_report", Format.HTML: "check_page"}
"""Where a module of the format's own name would hide one of the standard library."""


def _render(form: Format, found: SetReport, options: RenderOptions) -> str:
    """Draw `found` in the format `form`."""
    module = import_module(f"wheelfix.reports.{_MODULES.get(form, form)}")
    return cast("Callable[[SetReport, RenderOptions], str]", module.render)(found, options)


FORMATS: Mapping[str, Callable[[SetReport, RenderOptions], str]] = MappingProxyType(
    {form.value: partial(_render, form) for form in Format}
)
"""Each returns the whole text, without a line end after the last line."""
