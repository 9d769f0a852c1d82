"""Rules: pure functions from a wheel in its context to hits."""

from collections.abc import Callable, Iterator
from typing import Any, Generic, TypeVar

from wheelfix.frozen import frozen
from wheelfix.rules.context import Context, SetContext, Stage
from wheelfix.rules.findings import Hit, Severity
from wheelfix.rules.stated_rules import names_rule

Subject = TypeVar("Subject")


@frozen(eq=False)
class _AnyRule(Generic[Subject]):
    """What all kinds of rules have."""

    code: str
    name: str
    severity: Severity
    check: Callable[[Subject], Iterator[Hit]]
    plugin: str | None = None
    """The distribution of a plug-in rule; None for wheelfix's own."""

    @property
    def explanation(self) -> str:
        """The rule's documentation; empty under `python -OO`, which strips docstrings."""
        return self.check.__doc__ or ""

    @property
    def summary(self) -> str:
        """The first line of the documentation."""
        return self.explanation.strip().partition("\n")[0]

    def matches(self, selector: str) -> bool:
        """Return whether `selector` (a code, a prefix of one, a name, or ALL) matches this rule."""
        return names_rule(selector, self.code, self.name)


@frozen(eq=False)
class Rule(_AnyRule[Context]):
    """A rule about one wheel; its documentation is the docstring of its check."""

    stage: Stage


@frozen(eq=False)
class SetRule(_AnyRule[SetContext]):
    """A rule about a set of wheels. Its hits name the wheel."""


@frozen(eq=False)
class EnvironmentRule(_AnyRule[Subject]):
    """A rule about an installed environment. Its hits name files by their names there."""


AnyRule = Rule | SetRule | EnvironmentRule[Any]


def rule(
    code: str, name: str, severity: Severity, stage: Stage = Stage.AFTER
) -> Callable[[Callable[[Context], Iterator[Hit]]], Rule]:
    """Make the decorated check a rule."""
    return lambda check: Rule(code=code, name=name, severity=severity, stage=stage, check=check)


def set_rule(
    code: str, name: str, severity: Severity
) -> Callable[[Callable[[SetContext], Iterator[Hit]]], SetRule]:
    """Make the decorated check a rule about several wheels."""
    return lambda check: SetRule(code=code, name=name, severity=severity, check=check)


def environment_rule(
    code: str, name: str, severity: Severity
) -> Callable[[Callable[[Subject], Iterator[Hit]]], EnvironmentRule[Subject]]:
    """Make the decorated check a rule about an installed environment."""
    return lambda check: EnvironmentRule(code=code, name=name, severity=severity, check=check)
