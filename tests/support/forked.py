"""Command lines of Python packages in a fork of this process, which has imported them already.

Starting an interpreter and importing pip or wheelfix takes half a second, and most tests only ask
what the program does. Streams, environment, current directory and exit code are a process's own.
"""

import os
import sys
import tempfile
import traceback
import warnings
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from subprocess import CompletedProcess
from typing import NoReturn


def forked(
    main: Callable[[list[str]], object],
    arguments: Sequence[str | Path],
    *,
    env: Mapping[str, str] | None = None,
    cwd: Path | None = None,
) -> CompletedProcess[str]:
    """Call `main(arguments)` in a fork of this process; what it returns or exits with is the code.

    Standard input is empty.
    """
    words = [str(word) for word in arguments]
    with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err:
        with warnings.catch_warnings():  # Python 3.12 warns of other threads; the fork has none
            warnings.simplefilter("ignore", DeprecationWarning)
            pid = os.fork()
        if pid == 0:
            nothing = os.open(os.devnull, os.O_RDONLY)
            streams = nothing, out.fileno(), err.fileno()
            run_as(streams, os.environ if env is None else env, cwd, lambda: main(words))
        code = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
        for file in (out, err):
            file.seek(0)
        return CompletedProcess(words, code, out.read().decode(), err.read().decode())


def run_as(
    streams: Sequence[int],
    env: Mapping[str, str],
    cwd: Path | None,
    main: Callable[[], object],
) -> NoReturn:
    """Call `main` in this process, a fork, with other streams, environment and current directory.

    The process ends as an interpreter does: what `main` returns or exits with is the exit code.
    """
    code: object = 1
    try:
        for number, stream in enumerate(streams):
            os.dup2(stream, number)
            os.close(stream)
        sys.stdin, sys.stdout, sys.stderr = (
            open(number, "rw"[number > 0], closefd=False)  # noqa: SIM115
            for number in range(3)
        )
        wanted = dict(env)
        os.environ.clear()
        os.environ.update(wanted)
        tempfile.tempdir = None
        if cwd is not None:
            os.chdir(cwd)
        warnings.resetwarnings()
        for kind in (DeprecationWarning, PendingDeprecationWarning, ImportWarning, ResourceWarning):
            warnings.simplefilter("ignore", kind)  # as Python does without -W
        code = main()
    except SystemExit as error:
        code = error.code
    except BaseException:  # noqa: BLE001 - as an interpreter does
        traceback.print_exc()
    finally:
        try:
            sys.stdout.flush()
            sys.stderr.flush()
        except OSError:
            code = 120
        finally:
            os._exit(code if isinstance(code, int) else code is not None)
