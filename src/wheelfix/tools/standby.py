"""auditwheel, started before there is work for it: most of a short run is its imports."""

import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Self

from wheelfix.tools.run import Completed, finish, start, stop

if TYPE_CHECKING:
    from subprocess import Popen

_MAIN = """\
import gc
gc.set_threshold(50_000)
import contextlib, importlib, json, logging, os, runpy, sys
for module in "main", "main_repair", "main_show", "wheel_abi", "repair":
    with contextlib.suppress(ImportError):
        importlib.import_module("auditwheel." + module)
task = json.load(sys.stdin)
os.chdir(task["cwd"])
os.environ.clear()
os.environ.update(task["env"])
sys.argv[1:] = task["arguments"]
logging.getLogger("auditwheel.repair").setLevel(logging.DEBUG)
try:
    runpy.run_module("auditwheel", run_name="__main__", alter_sys=True)
finally:
    gc.freeze()
"""
"""auditwheel, and the one module's debug messages that tell where a library was found: all modules'
(`-v`) are a megabyte and hide the cause of a failure. What is imported is no garbage: nobody has to
look for it there, least of all at the end."""
# -P: it changes into the wheel, from which nothing shall be imported.
_COMMAND = (sys.executable, "-P", "-c", _MAIN)
_FIXED = {
    "PYTHONHASHSEED": "0",  # it iterates over sets
    "PYTHONUTF8": "1",
}


class Standby:
    """Programs that wait for a task each. Use it as a context manager; safe to share by threads."""

    def __init__(self, environ: Mapping[str, str]) -> None:
        """Start none yet; `environ` is the user's environment, in which they are started."""
        self.environ = environ
        self._waiting: list[Popen[bytes]] = []

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        while self._waiting:
            stop(self._waiting.pop())

    def prepare(self) -> None:
        """Start one, unless one waits."""
        if not self._waiting:
            self._waiting.append(_started(self.environ))

    def run(
        self,
        arguments: Sequence[str],
        *,
        cwd: Path,
        env: Mapping[str, str],
        meanwhile: Callable[[], object] | None = None,
    ) -> Completed:
        """Run auditwheel in `cwd` with all of `env` as its environment.

        `meanwhile` is called while it works. Raises `ToolError` as `wheelfix.tools.run.run` does.
        """
        import json  # noqa: PLC0415 (it is started before anything else is imported)

        try:
            process = self._waiting.pop()
        except IndexError:
            process = _started(self.environ)
        task = {"arguments": list(arguments), "cwd": str(cwd), "env": {**env, **_FIXED}}
        argv = ("auditwheel", *arguments)
        return finish(process, argv, name="auditwheel", task=json.dumps(task), meanwhile=meanwhile)


def _started(environ: Mapping[str, str]) -> "Popen[bytes]":
    return start(_COMMAND, env={**environ, **_FIXED}, name="auditwheel")
