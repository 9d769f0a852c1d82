"""The errors that wheelfix raises, and its exit codes.

The exit codes follow ruff and ESLint: 0 is fine or all repaired, 1 is findings that remain,
2 is everything else, crashes included.
"""

from enum import IntEnum


class ExitCode(IntEnum):
    """The exit codes of the process."""

    OK = 0
    FINDINGS = 1
    ERROR = 2


class WheelfixError(Exception):
    """The base of all errors that wheelfix raises on purpose.

    `hint` is the next step for the user, if possible a command.
    """

    def __init__(self, message: str, *, hint: str | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint


class BadWheelError(WheelfixError):
    """The input is not a valid wheel: truncated, hostile, inconsistent."""


class NonPlatformWheelError(BadWheelError):
    """The wheel has no ELF object, or none for the architecture of its platform tag."""


class BadElfError(WheelfixError):
    """A file with ELF's magic number whose headers or tables are inconsistent."""


class SettingsError(WheelfixError):
    """An option or a configuration key that wheelfix does not know or cannot use."""


class RuleError(WheelfixError):
    """A rule of another distribution cannot be loaded, or crashed."""


class ToolError(WheelfixError):
    """patchelf, auditwheel or strip is missing, too old, failed, or hung."""


class ProviderNotRepairedError(WheelfixError):
    """A wheel of the same run, from which this one takes libraries, was not repaired."""


class PlanConflictError(WheelfixError):
    """Two rules ask for edits that contradict each other."""


class VerificationError(WheelfixError):
    """The written wheel differs from the prediction of the plan; it is not published."""


class OutputError(WheelfixError):
    """A wheel or a report cannot be written to its path."""


def internal_error(error: Exception) -> WheelfixError:
    """Return the error that reports a bug in wheelfix."""
    found = WheelfixError(
        f"internal error: {type(error).__name__}: {error}",
        hint="this is a bug of wheelfix; -v shows where it is, please report it with the wheel",
    )
    found.__cause__ = error
    return found
