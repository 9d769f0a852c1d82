"""Repair Linux wheels so that they work once installed, and report what is wrong with them.

The names in `__all__` are public: a change of them is in the changelog. Everything else may change
with any release.
"""

from importlib import import_module
from typing import TYPE_CHECKING

# Every submodule imports this package first. To import the public names here, not on first use,
# would add the third of a second that rules and pipelines take to `--help` and `--version`.
if TYPE_CHECKING:
    from wheelfix.api import check as check
    from wheelfix.api import check_all as check_all
    from wheelfix.api import check_each as check_each
    from wheelfix.api import repair as repair
    from wheelfix.api import repair_all as repair_all
    from wheelfix.errors import WheelfixError as WheelfixError
    from wheelfix.pipelines.check_result import Report as Report
    from wheelfix.pipelines.check_result import SetReport as SetReport
    from wheelfix.pipelines.repair_result import Outcome as Outcome
    from wheelfix.pipelines.repair_result import Status as Status
    from wheelfix.rules.context import Context as Context
    from wheelfix.rules.findings import Finding as Finding
    from wheelfix.rules.findings import Fix as Fix
    from wheelfix.rules.findings import Hit as Hit
    from wheelfix.rules.findings import Safety as Safety
    from wheelfix.rules.findings import Severity as Severity
    from wheelfix.rules.rule import Rule as Rule
    from wheelfix.rules.rule import rule as rule
    from wheelfix.settings import Settings as Settings

__version__ = "0.1.0"

_HOMES = {
    "api": ("check", "check_all", "check_each", "repair", "repair_all"),
    "errors": ("WheelfixError",),
    "rules.findings": ("Finding", "Fix", "Hit", "Safety", "Severity"),
    "pipelines.repair_result": ("Outcome", "Status"),
    "pipelines.check_result": ("Report", "SetReport"),
    "rules.context": ("Context",),
    "rules.rule": ("Rule", "rule"),
    "settings": ("Settings",),
}
_HOME = {name: home for home, names in _HOMES.items() for name in names}

__all__ = [  # noqa: RUF022 - functions, then results, then what rules are made of
    "check",
    "check_all",
    "check_each",
    "repair",
    "repair_all",
    "Settings",
    "Report",
    "SetReport",
    "Outcome",
    "Status",
    "Finding",
    "Severity",
    "WheelfixError",
    "rule",
    "Rule",
    "Context",
    "Hit",
    "Fix",
    "Safety",
]


def __getattr__(name: str) -> object:
    """Import a public name when it is first used (PEP 562)."""
    if name not in _HOME:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    found: object = getattr(import_module(f"wheelfix.{_HOME[name]}"), name)
    globals()[name] = found
    return found
