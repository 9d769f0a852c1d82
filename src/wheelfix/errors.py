"""The errors that wheelfix raises, and its exit codes.

The exit codes follow ruff and ESLint: 0 is fine or all repaired, 1 is findings that remain,
2 is everything else, crashes included.
"""

from copy import copy
from enum import IntEnum
from errno import EAGAIN, EMFILE, ENFILE, ENOMEM
from pathlib import Path
from traceback import extract_tb
from typing import Self


class ExitCode(IntEnum):
    """The exit codes of the process."""

    OK = 0
    """No errors, or all repaired."""
    FINDINGS = 1
    """Errors remain in a wheel; `repair` did not write it, unless it lacked the version of a symbol
    before (WF304)."""
    ERROR = 2
    """Anything else: an unreadable wheel, wrong usage, a failing tool, no space for the result."""


_LINE_ENDS = {ord(c): ascii(c)[1:-1] for c in "\n\r\v\f\x1c\x1d\x1e\x85\u2028\u2029"}
"""What ends a line for `str.splitlines` -> an escape."""


class WheelfixError(Exception):
    """The base of all errors that wheelfix raises on purpose.

    `lines` are the message; one that ends a line within them has it in a name, which is quoted and
    may be hostile. `hint` is the next step for the user, if possible a command.
    """

    def __init__(self, *lines: str, hint: str | None = None) -> None:
        self.lines = tuple(line.translate(_LINE_ENDS) for line in lines)
        super().__init__(*self.lines)
        self.hint = hint

    @property
    def message(self) -> str:
        """All lines."""
        return "\n".join(self.lines)

    def __str__(self) -> str:
        """Return the message."""
        return self.message

    def with_hint(self, hint: str | None) -> Self:
        """Return this error, with its cause and traceback, with another hint."""
        error = copy(self)
        error.hint = hint
        error.__cause__ = self.__cause__
        return error.with_traceback(self.__traceback__)


class BadWheelError(WheelfixError):
    """The input is not a valid wheel: truncated, hostile, inconsistent."""


class NonPlatformWheelError(BadWheelError):
    """The wheel has no ELF object, or none for the architecture of its platform tag."""


class LockError(WheelfixError):
    """What a repair grafts differs from the lock."""


class BadElfError(WheelfixError):
    """A file with ELF's magic number whose headers or tables are inconsistent."""


class TruncatedElfError(BadElfError):
    """A file that ends before what is mapped of it: to read there is SIGBUS."""


class SettingsError(WheelfixError):
    """An option or a configuration key that wheelfix does not know or cannot use."""


class RuleError(WheelfixError):
    """A rule of another distribution cannot be loaded, or crashed."""


class ToolError(WheelfixError):
    """patchelf or auditwheel is missing, too old, failed, or hung."""


class PlanConflictError(WheelfixError):
    """Two rules ask for edits that contradict each other."""


class VerificationError(WheelfixError):
    """The written wheel differs from the prediction of the plan; it is not published."""


class OutputError(WheelfixError):
    """A wheel or a report cannot be written to its path."""


def time_limit_error(name: str, seconds: float) -> WheelfixError:
    """Return the error for the wheel `name`, whose work took longer than `--timeout`."""
    message = f"`{name}`: it took longer than {seconds} s"
    return WheelfixError(message, hint="--timeout gives each wheel more")


def process_killed_error(what: str = "the process of this command was killed") -> WheelfixError:
    """Return the error for work whose process ended by a signal that it could not handle."""
    hint = "it may have taken too much memory: `dmesg` says whether the kernel ended it"
    return WheelfixError(what, hint=hint)


def unexpected_error(error: Exception) -> WheelfixError:
    """Return the error that reports what nothing else has handled: a limit of the system or a bug.

    The operating system's own errors (disks, permissions, names, limits of `ulimit`) are not bugs.
    That of a bug has the file and line where it arose.
    """
    if isinstance(error, OSError):
        where = f"`{error.filename}`: " if error.filename else ""
        hint = _HINTS.get(error.errno or 0)
        reported = WheelfixError(f"{where}{error.strerror or error}", hint=hint)
    elif isinstance(error, MemoryError) or str(error) == "can't start new thread":
        reported = WheelfixError(
            "out of memory, or of threads", hint="raise the limit (`ulimit -v`, `ulimit -u`)"
        )
    elif isinstance(error, ImportError):
        reported = WheelfixError(
            f"a module cannot be loaded: {error}",
            hint="raise the limit (`ulimit -v`, `ulimit -n`), or install wheelfix again",
        )
    else:
        note_place(error)
        place = next(iter(getattr(error, "__notes__", [])), "place unknown")
        reported = WheelfixError(
            f"internal error: {type(error).__name__}: {error} ({place})",
            hint="this is a bug of wheelfix, please report this message with the wheel",
        )
    reported.__cause__ = error
    return reported


_HINTS = {
    EMFILE: "raise the limit of open files: `ulimit -n 1024`",
    ENFILE: "the system has too many open files: end other programs",
    ENOMEM: "raise the limit (`ulimit -v`), or use fewer --jobs",
    EAGAIN: "raise the limit of processes (`ulimit -u`), or use fewer --jobs",
}
_PACKAGE = f"{Path(__file__).parent}/"


def note_place(error: Exception) -> None:
    """Note the last file and line of wheelfix that `error` came through, if none is noted.

    A worker process sends notes with an error, but no traceback.
    """
    frames = extract_tb(error.__traceback__)
    own = [frame for frame in frames if frame.filename.startswith(_PACKAGE)] or frames
    if own and not hasattr(error, "__notes__"):
        file = own[-1].filename.removeprefix(_PACKAGE)
        error.add_note(f"{file}, line {own[-1].lineno}")
