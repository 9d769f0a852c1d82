"""`wheelfix` and `auditwheel` as programs that start at once: forks of one that imported them.

Starting an interpreter and importing wheelfix takes half a second of CPU, and hundreds of tests
type commands into a shell. The program `wheelfix` in `warm_path` hands its streams,
arguments, environment, current directory and limits to the server, and ends as the run there does.
A signal reaches the program alone: what ends by one, or is about the start, runs `python -m
wheelfix`.
"""

import atexit
import gc
import marshal
import os
import pkgutil
import resource
import selectors
import shutil
import signal
import socket
import subprocess
import sys
from functools import cache
from importlib import import_module
from pathlib import Path
from tempfile import mkdtemp
from typing import NoReturn

from tests.support.cheap_forks import use_large_pages
from tests.support.forked import run_as
from tests.support.kept_listings import keep_listings
from tests.support.warm import warm_up

_CLIENT = """#!{interpreter} -IS
import _socket, marshal, os, resource, sys
if {{name: value for name, value in os.environ.items() if name.startswith("PYTHON")}} != {python}:
    os.execv(sys.executable, [sys.executable, "-m", {name!r}, *sys.argv[1:]])
server = _socket.socket(_socket.AF_UNIX, _socket.SOCK_STREAM)
server.connect({address!r})
limits = [(number, resource.getrlimit(number)) for number in range(resource.RLIMIT_AS + 1)]
task = marshal.dumps((sys.argv, dict(os.environ), os.getcwd(), os.umask(0), limits))
streams = b"".join(number.to_bytes(4, sys.byteorder) for number in range(3))
server.sendmsg([len(task).to_bytes(4, "big")], [(_socket.SOL_SOCKET, _socket.SCM_RIGHTS, streams)])
while task:
    task = task[server.send(task):]
for number in range(3):
    os.close(number)
status = int.from_bytes(server.recv(4), "big", signed=True)
if status < 0:
    os.kill(os.getpid(), -status)
os._exit(status)
"""
_MAIN = {"wheelfix": "wheelfix.__main__", "auditwheel": "auditwheel.main"}
_NEEDS_MORE = ("wheelfix.cli.dask_workers", "wheelfix.host.verify_probe")
"""Modules that are a program, or import what may not be installed."""


def warm_path(path: str) -> str:
    """Return the search path `path` with the folder of these programs before it."""
    return f"{_started()}{os.pathsep}{path}"


def warm_program(name: str = "wheelfix") -> str:
    """Return the path of one of the programs."""
    return str(_started() / name)


@cache
def _started() -> Path:
    """Start the server for this process, and return the folder of the programs."""
    folder = Path(mkdtemp(prefix="warm-"))
    address = folder / "socket"
    python = {name: value for name, value in os.environ.items() if name.startswith("PYTHON")}
    for name in _MAIN:
        client = _CLIENT.format(
            interpreter=sys.executable, python=python, name=name, address=str(address)
        )
        (folder / name).write_text(client)
        (folder / name).chmod(0o755)
    server = subprocess.Popen(
        [sys.executable, "-m", __name__, address],
        cwd=Path(__file__).parents[2],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    )
    assert server.stdout is not None
    assert server.stdout.read() == b"", "it closes the stream when it listens"

    @atexit.register
    def _() -> None:
        server.kill()
        server.communicate()
        shutil.rmtree(folder, ignore_errors=True)

    return folder


def _serve(address: str) -> None:
    """Run command lines until the standard input ends, which is when the tests do."""
    import_module("auditwheel.main")
    package = import_module("wheelfix")
    for module in pkgutil.walk_packages(package.__path__, "wheelfix."):
        if module.name not in _NEEDS_MORE:
            import_module(module.name)
    keep_listings()
    warm_up()
    gc.collect()
    gc.freeze()
    use_large_pages()
    with socket.socket(socket.AF_UNIX) as listener, selectors.DefaultSelector() as ready:
        listener.bind(address)
        listener.listen()
        ready.register(listener, selectors.EVENT_READ)
        ready.register(0, selectors.EVENT_READ)
        nothing = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nothing, 1)
        os.close(nothing)
        while all(key.fd != 0 for key, _ in ready.select()):
            connection, _ = listener.accept()
            with connection:
                if os.fork() == 0:
                    ready.close()
                    listener.close()
                    _attend(connection)
            while _reap():
                pass
    shutil.rmtree(Path(address).parent, ignore_errors=True)


def _reap() -> bool:
    try:
        return os.waitpid(-1, os.WNOHANG)[0] != 0
    except ChildProcessError:
        return False


def _attend(connection: socket.socket) -> NoReturn:
    """Run one command line in a child, and tell the program how it ended."""
    head, streams, _, _ = socket.recv_fds(connection, 4, 3)
    size = int.from_bytes(head, "big")
    task = bytearray()
    while len(task) < size:
        task += connection.recv(size - len(task))
    arguments, environ, folder, mask, limits = marshal.loads(task)  # noqa: S302 - of our own program
    child = os.fork()
    if child == 0:
        connection.close()
        sys.argv = arguments
        os.umask(mask)
        for limit, most in limits:
            if most != resource.getrlimit(limit):
                resource.setrlimit(limit, most)
        main = import_module(_MAIN[Path(arguments[0]).name]).main
        run_as(streams, environ, Path(folder), main)
    for stream in streams:
        os.close(stream)
    code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    connection.sendall(code.to_bytes(4, "big", signed=True))
    os._exit(0)


if __name__ == "__main__":
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    _serve(sys.argv[1])
