"""The command line: read options, call one function, print, choose the exit code.

Nothing is imported here that not every command line needs.
"""

import gc
import os
import sys
from collections.abc import Sequence
from io import TextIOWrapper
from pathlib import Path

from wheelfix.cli.checks import Asked, check_wheels
from wheelfix.cli.config.files import Layer, configured
from wheelfix.cli.console import Terminal
from wheelfix.cli.front import Plain, answer, plain_check, plain_repair
from wheelfix.cli.repairs import refuse_wheels, repair_wheels
from wheelfix.cli.stdio import guard_streams
from wheelfix.errors import ExitCode, WheelfixError, internal_error
from wheelfix.pipelines.auditwheel_worker import Auditwheel
from wheelfix.rules.plugins import all_rules

_YOUNG = 50_000
"""Objects after which garbage is looked for: what is imported is none. What is read of a wheel is
in no cycles: to look more often takes up to a tenth of the time, and no less is in memory."""


def main() -> None:
    """Run the command line, and exit."""
    gc.set_threshold(_YOUNG)
    guard_streams()
    arguments = sys.argv[1:]
    code = _answered(arguments)
    if code is None:
        code = _worked(arguments)
    gc.freeze()  # at its end, Python would look at every object once more
    sys.exit(code)


def _worked(arguments: Sequence[str]) -> int:
    from wheelfix.cli.signals import end_now, install_signal_handlers
    from wheelfix.system.timeouts import is_somebody_late

    at_the_end = install_signal_handlers()
    code = _commanded(arguments)
    at_the_end()
    if is_somebody_late():
        end_now(code)
    return code


def run(arguments: Sequence[str]) -> int:
    """Run the command line `arguments` in a process that goes on, and return the exit code."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, TextIOWrapper):  # a name may hold what the locale cannot spell
            stream.reconfigure(errors="backslashreplace")
    code = _answered(arguments)
    return _commanded(arguments) if code is None else code


def _commanded(arguments: Sequence[str]) -> int:
    """Let a command do what is asked."""
    try:
        if checked := plain_check(arguments, os.environ):
            return _checked(checked)
        if plain := plain_repair(arguments, os.environ):
            return _repaired(plain)
        from wheelfix.cli.commands import app

        app(arguments, prog_name="wheelfix")
    except SystemExit as leaving:
        return leaving.code if isinstance(leaving.code, int) else ExitCode.ERROR
    except WheelfixError as error:
        _fail(error)
        return error.exit_code
    except KeyboardInterrupt:
        return 130
    except Exception as error:  # noqa: BLE001 - a crash must not look like exit code 1, "findings"
        _crashed(error, arguments)
    return ExitCode.ERROR


def _repaired(asked: Plain) -> int:
    """Repair wheels as `wheelfix repair` does with no option but `-w`."""
    wheels = [Path(wheel) for wheel in asked.wheels]
    table = {"wheel-dir": os.fspath(Path(asked.wheel_dir))} if asked.wheel_dir else {}
    flags = [Layer(source="the command line", table=table)] if table else []
    with Auditwheel(os.environ) as auditwheel:
        refuse_wheels(wheels)
        configuration = configured(Path.cwd(), None).over(flags).check(all_rules())
        return repair_wheels(wheels, configuration, auditwheel)


def _checked(wheels: Sequence[str]) -> int:
    """Check wheels as `wheelfix check` does without any option."""
    configuration = configured(Path.cwd(), None).check(all_rules())
    return check_wheels(Asked(wheels=[Path(wheel) for wheel in wheels]), configuration)


def _answered(arguments: Sequence[str]) -> int | None:
    """Print what can be answered at once, and return the exit code; None for all else."""
    text = answer(arguments)
    if text is None:
        return None
    try:
        sys.stdout.write(text)
        sys.stdout.flush()
    except WheelfixError as error:
        _fail(error)
        return error.exit_code
    return ExitCode.OK


def _crashed(error: Exception, arguments: Sequence[str]) -> None:
    if {"-v", "-vv", "--verbose"}.intersection(arguments):
        Terminal(verbosity=0).trace(error)
    _fail(internal_error(error))


def _fail(error: WheelfixError) -> None:
    Terminal(verbosity=0).fail(error)
