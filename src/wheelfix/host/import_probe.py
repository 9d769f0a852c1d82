"""Probe of a verification: load objects, import modules and run programs in forked children.

A standalone program. It runs under the Python under test (3.8 or later), which has no wheelfix,
and imports little: libraries loaded by the probe itself would hide missing ones of the wheel.

Jobs are lines of JSON on stdin: `kind` (load, import, imports, resolve, run), `what` (path, module
name, module names in turn, `module:function`, argv), `after` (paths to open for all before a load)
and `timeout` in seconds.
Answers are lines of JSON on stdout, in the same order: `pid`, `code` (exit code, or negative
signal) or `hang`, `tail` (end of the output), and `answered`, unless the child ended before it
could say how the attempt went. Then there are `maps` (device, inode, path), and after an exception
`error`, `type`, `causes` (the texts of the error and of those before it) and `absent` (modules not
found); of several errors, the last one. `gil` says that an import has enabled the GIL of a
free-threaded Python (PEP 703); `origins` are the canonical paths of the modules that were imported.

What a child imports may write to any descriptor, fork and exit. So a child has only its own
descriptors, and an answer counts if it is whole, has the types above, came once and with the token
of this attempt; which files are mapped, the probe reads itself, while the child waits. The probe
adopts what a child has started (PR_SET_CHILD_SUBREAPER), and ends it with the child.
"""

from __future__ import annotations

import os
import sys

GIVEN = os.environ.get("PYTHONPATH", "") if __name__ == "__main__" else ""
PLACES = tuple(filter(None, GIVEN.split(os.pathsep)))
"""Where the wheel under test is: its packages are not the probe's own."""
SEARCHED = sys.path[:]
sys.path[:] = [place for place in SEARCHED if place not in PLACES]
for imported, module in list(sys.modules.items()):
    if str(getattr(module, "__file__", "")).startswith(PLACES):  # code of a `.pth` file did it
        del sys.modules[imported]

import contextlib  # noqa: E402 - only now
import errno  # noqa: E402
import faulthandler  # noqa: E402
import importlib  # noqa: E402
import json  # noqa: E402
import select  # noqa: E402
import signal  # noqa: E402
import time  # noqa: E402

TAIL = 4000
"""Bytes of the output in the answer."""
ANSWER = 8 << 20
"""Maximum bytes of an answer; the paths of thousands of libraries are a fraction of it."""
PIPE = 1 << 20
"""Maximum bytes in a pipe (fs.pipe-max-size of proc(5))."""
PIECE = 1 << 16
LAST = 5.0
"""Seconds in which what a child has started must end after SIGKILL."""
UNANSWERED = 70
"""The exit code where a child could not answer (EX_SOFTWARE of sysexits.h)."""

PR_SET_CHILD_SUBREAPER = 36
"""`linux/prctl.h`; execve(2) keeps it, so that ctypes, which sets it, is not loaded any more."""
REAPS = "--reaps"
TEXTS = ("error", "type")
LISTS = ("causes", "absent", "origins")
OF_PROBE = {"pid", "code", "hang", "tail", "answered", "maps"}
"""The keys of an answer that the probe adds to those of a child."""

TYPE_CHECKING = False  # `typing` is slow to import
if TYPE_CHECKING:
    from typing import Any


def serve() -> None:
    """Read jobs from stdin, and write the answers to the original stdout."""
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8", errors="surrogateescape")
    for line in sys.stdin:
        try:
            answer = attempt(json.loads(line))
        except OSError as error:
            sys.exit(f"{error.strerror}: raise the limit (`ulimit -u`, `ulimit -n`)")
        answers.write("\n" + json.dumps(answer) + "\n")  # others may have begun the line
        answers.flush()


def adopt() -> None:
    """Become the parent of what descendants leave behind, in this process anew without ctypes."""
    if REAPS in sys.argv:
        return
    with contextlib.suppress(Exception):
        import ctypes  # noqa: PLC0415 - loads libffi

        ctypes.CDLL(None).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    with contextlib.suppress(OSError):
        os.execv(sys.executable, [sys.executable, "-B", "-u", __file__, REAPS])  # noqa: S606


def attempt(job: dict[str, Any]) -> dict[str, Any]:
    """Do one job in a child process with a time limit, and return the answer."""
    token = os.urandom(16).hex()
    receive, send = os.pipe()
    output, prints = os.pipe()
    released, release = os.pipe()
    pid = os.fork()
    if pid == 0:
        child(job, token, send, prints, released)
    for number in (send, prints, released):
        os.close(number)
    child_output = ProbeOutput(pid, token, receive, output, release)
    status = wait(pid, child_output, time.monotonic() + job["timeout"], traces=job["kind"] != "run")
    end_children(pid)
    child_output.rest()
    child_output.let_go()
    os.close(receive)
    os.close(output)
    answer = child_output.answer()
    if status is None:
        answer["hang"] = True
    else:
        answer["code"] = -os.WTERMSIG(status) if os.WIFSIGNALED(status) else status >> 8
    answer["pid"] = pid
    answer["tail"] = child_output.tail.decode("utf-8", "replace")
    return answer


class ProbeOutput:
    """What a child process writes: its answer, and the end of its output."""

    def __init__(self, pid: int, token: str, receive: int, output: int, release: int) -> None:
        self.pid = pid
        self.token = token
        self.open = [receive, output]
        self.receive = receive
        self.release = release
        self.text = bytearray()
        self.tail = bytearray()
        self.maps: list[tuple[str, str, str]] = []

    def listen(self, seconds: float) -> bool:
        """Wait so many seconds for output; return whether there was any."""
        ready = select.select(self.open, [], [], seconds)[0]
        for source in ready:
            piece = os.read(source, PIECE)
            if not piece:
                self.open.remove(source)
            elif source == self.receive:
                self.text += piece[: max(0, ANSWER - len(self.text))]
                if self.text.endswith(b"\n"):
                    self.let_go()
            else:
                self.tail += piece
                del self.tail[:-TAIL]
        return bool(ready)

    def rest(self) -> None:
        """Read what is in the pipes, but not for ever: other processes may still write."""
        for _ in range(PIPE // PIECE):
            if not self.open or not self.listen(0):
                return

    def let_go(self) -> None:
        """Read what the child has mapped, and let it end."""
        if self.release >= 0:
            self.maps = mapped_files(self.pid)
            os.close(self.release)
            self.release = -1

    def answer(self) -> dict[str, Any]:
        """Return the answer of the child; nothing if it is not to be believed."""
        token, _, text = self.text.decode("utf-8", "replace").partition(" ")
        try:
            value = json.loads(text)  # of two answers, it raises
        except (ValueError, RecursionError):
            return {}
        if token != self.token or not is_answer(value):
            return {}
        return {**value, "answered": True, "maps": self.maps}


def is_answer(value: object) -> bool:
    """Return whether a value has the keys and types of an answer."""
    if not isinstance(value, dict):
        return False
    table: dict[Any, Any] = {**value}
    lists: list[Any] = [table.get(key, []) for key in LISTS]
    return (
        table.keys() <= {*TEXTS, *LISTS, "gil"}
        and all(isinstance(table.get(key, ""), str) for key in TEXTS)
        and all(isinstance(names, list) for names in lists)
        and all(isinstance(name, str) for names in lists for name in names)
    )


def wait(
    pid: int, child_output: ProbeOutput, deadline: float, *, traces: bool = True
) -> int | None:
    """Read the output of the child, and return its status; None, after killing it, at the deadline.

    A child that `traces` is aborted first, so that its fault handler prints a traceback.
    """
    while time.monotonic() < deadline:
        has_more = bool(child_output.open) and child_output.listen(0.02)
        ended, status = os.waitpid(pid, os.WNOHANG)
        if ended:
            return status
        if not has_more and not child_output.open:
            time.sleep(0.002)
    if traces:
        os.kill(pid, signal.SIGABRT)
        end = time.monotonic() + 1
        while time.monotonic() < end:
            if os.waitpid(pid, os.WNOHANG)[0]:
                return None
            child_output.rest()
            time.sleep(0.01)
    with contextlib.suppress(OSError):
        os.kill(pid, signal.SIGKILL)
    os.waitpid(pid, 0)
    return None


def end_children(group: int) -> None:
    """Kill what a child has started, also in sessions of their own, and wait for its end."""
    with contextlib.suppress(OSError):
        os.killpg(group, signal.SIGKILL)
    end = time.monotonic() + LAST
    with contextlib.suppress(ChildProcessError):
        while time.monotonic() < end:
            if not os.waitpid(-1, os.WNOHANG)[0]:
                for pid in children():
                    with contextlib.suppress(OSError):
                        os.kill(pid, signal.SIGKILL)
                time.sleep(0.002)


def children() -> list[int]:
    """Return the children of this process (proc_pid_stat(5))."""
    pids: list[int] = []
    for name in filter(str.isdigit, os.listdir("/proc")):  # noqa: PTH208 - no pathlib
        with contextlib.suppress(OSError), open(f"/proc/{name}/stat", "rb") as stat:  # noqa: PTH123
            if int(stat.read().rpartition(b")")[2].split()[1]) == os.getpid():
                pids.append(int(name))
    return pids


def child(job: dict[str, Any], token: str, send: int, output: int, released: int) -> None:
    """Do the job, in this process; never return."""
    try:
        own = os.getpid()
        os.setsid()
        nothing = os.open(os.devnull, os.O_RDONLY)
        os.dup2(nothing, 0)
        os.dup2(output, 1)
        os.dup2(output, 2)
        close_others({0, 1, 2, send, released})
        if job["kind"] == "run":
            execute(job["what"])
        if sys.version_info >= (3, 14):
            # The stack of C would take the place of the last words of the module.
            faulthandler.enable(2, c_stack=False)
        else:
            faulthandler.enable(2)
        data = f"{token} {json.dumps(result_of(job))}\n".encode()
        if os.getpid() == own:  # not a copy that an import has made
            while data:
                data = data[os.write(send, data) :]
            os.read(released, 1)
            sys.stdout.flush()
            sys.stderr.flush()
            os._exit(0)
    finally:
        os._exit(UNANSWERED)


def close_others(kept: set[int]) -> None:
    """Close all descriptors but those, and that of the loader's log (ld.so(8))."""
    log = os.environ.get("LD_DEBUG_OUTPUT")
    for number in map(int, os.listdir("/proc/self/fd")):  # noqa: PTH208 - no pathlib
        with contextlib.suppress(OSError):  # that of the list itself is gone
            target = os.readlink(f"/proc/self/fd/{number}")  # noqa: PTH115
            if number not in kept and not (log and target.startswith(log)):
                os.close(number)


def search_as_given() -> None:
    """Search PYTHONPATH, too; forget the probe's modules for which it has others, first."""
    sys.path[:] = SEARCHED
    places = filter(os.path.isdir, PLACES)
    names = [name for place in places for name in os.listdir(place)]  # noqa: PTH208 - no pathlib
    tops = {name.partition(".")[0] for name in names}
    for name in [name for name in sys.modules if name.partition(".")[0] in tops]:
        del sys.modules[name]


def result_of(job: dict[str, Any]) -> dict[str, Any]:
    """Load or import what a job names, and return what came of it."""
    result: dict[str, Any] = {}
    origins: list[str] = []
    is_free = not has_gil()
    sys.argv[:] = ["-c"]  # as `python -c`: some packages read options at their import
    search_as_given()
    for what in job["what"] if job["kind"] == "imports" else [job["what"]]:
        try:
            if job["kind"] == "load":
                import _ctypes  # noqa: PLC0415 - loads libffi

                for host in job.get("after", ()):
                    _ctypes.dlopen(host, os.RTLD_NOW | os.RTLD_GLOBAL)
                _ctypes.dlopen(what, os.RTLD_NOW | os.RTLD_LOCAL)
            else:
                name, _, function = what.partition(":")
                module = importlib.import_module(name)
                if function:
                    resolve(module, name, function)
                origin = getattr(getattr(module, "__spec__", None), "origin", None)
                with contextlib.suppress(ValueError):  # a NUL: not a path
                    origins += [os.path.realpath(origin)] if type(origin) is str else []
        except BaseException as error:  # noqa: BLE001 - any exception is the result
            before = result.get("causes", [])
            result = {
                "error": text_of(error),
                "type": type(error).__name__,
                "causes": [*before, *map(text_of, causes(error))],
                "absent": absent(error),
            }
    if is_free and has_gil():
        result["gil"] = True
    return {**result, "origins": origins}


class NotDefinedError(Exception):
    """An entry point names what its module does not have."""


def resolve(value: object, module: str, function: str) -> None:
    """Look up the function of an entry point in its module, as its script does."""
    for name in function.split("."):
        if not hasattr(value, name):
            raise NotDefinedError(f"module `{module}` does not define `{function}`")
        value = getattr(value, name)
    if not callable(value):
        raise NotDefinedError(f"`{function}` of module `{module}` is not a function")


def text_of(error: BaseException) -> str:
    """Return the text of an exception, whose class may not be able to say it; else its place."""
    try:
        return (str(error) or place_of(error))[:TAIL] + ""
    except BaseException as another:  # noqa: BLE001 - any exception is the result
        return f"its text cannot be read: {type(another).__name__}"


def place_of(error: BaseException) -> str:
    """Return the line of a source that raised; empty where only importlib and this file did."""
    place, trace = "", error.__traceback__
    while trace is not None:
        file = trace.tb_frame.f_code.co_filename
        if file not in {__file__, importlib.__file__} and not file.startswith("<"):
            place = f"line {trace.tb_lineno} of {file}"
        trace = trace.tb_next
    return place


def has_gil() -> bool:
    """Return whether the GIL is enabled (`sys._is_gil_enabled`, Python 3.13)."""
    return bool(getattr(sys, "_is_gil_enabled", lambda: True)())


def absent(error: BaseException) -> list[str]:
    """Return the modules not found, according to `error` and the exceptions that caused it."""
    return [e.name for e in causes(error) if isinstance(e, ModuleNotFoundError) and e.name]


def causes(error: BaseException | None) -> list[BaseException]:
    """Return `error`, and the exceptions that caused it."""
    seen: list[BaseException] = []
    while error is not None and error not in seen:
        seen.append(error)
        error = error.__cause__ or error.__context__
    return seen


def execute(command: list[str]) -> None:
    """Replace this process by the program `command`."""
    try:
        os.execv(command[0], command)  # noqa: S606 - the program under test, without a shell
    except OSError as error:
        what = command[0]
        with contextlib.suppress(OSError), open(what, "rb") as program:  # noqa: PTH123
            line = program.readline(PIECE)
            named = line[2:].split()[:1] if line[:2] == b"#!" else []
            if error.errno == errno.ENOENT:
                what += " ".join([": its interpreter", *map(os.fsdecode, named)])
        os.write(2, f"{what}: {error.strerror}\n".encode())
        os._exit(126)


def mapped_files(pid: int) -> list[tuple[str, str, str]]:
    """Return device, inode and path of every file that a process maps as a loader does.

    A library without code, such as one of data, has no executable segment.
    """
    files: dict[tuple[str, str], str] = {}
    path = f"/proc/{pid}/maps"
    with contextlib.suppress(OSError), open(path, errors="surrogateescape") as maps:  # noqa: PTH123
        for line in maps:
            fields = line.rstrip("\n").split(None, 5)
            if len(fields) == 6 and fields[1][3] == "p" and fields[5].startswith("/"):
                files[fields[3], fields[4]] = fields[5].replace("\\012", "\n")  # `show_map_vma`
    return [(device, inode, path) for (device, inode), path in files.items()]


if __name__ == "__main__":
    adopt()
    serve()
