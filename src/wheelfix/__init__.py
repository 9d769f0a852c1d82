"""Repair Linux wheels so that they work once installed, and say what is wrong with others.

What `__all__` names is public, and changes only with a word in the changelog; all else may change
with any release. Each name is imported when it is first used.
"""

TYPE_CHECKING = False  # what type checkers take for true; `typing` takes 8 ms to import
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

__all__ = [  # noqa: RUF022 - what one does, then what comes back, then what rules are made of
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
    """Import a public name from its module when it is asked for (PEP 562)."""
    if name not in _HOME:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module  # noqa: PLC0415 - see above

    found: object = getattr(import_module(f"wheelfix.{_HOME[name]}"), name)
    globals()[name] = found
    return found
