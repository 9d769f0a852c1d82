"""`wheelfix` and `auditwheel` as programs that start at once: forks of one that imported them.

Starting an interpreter and importing wheelfix takes half a second of CPU, and hundreds of tests
type commands into a shell. The program `wheelfix` in `warm_path` hands its streams,
arguments, environment, current directory and limits to the server, and ends as the run there does.
A signal reaches the program alone: what ends by one, or is about the start, runs `python -m
wheelfix`.
"""

import atexit
import gc
import json
import os
import pkgutil
import resource
import selectors
import shutil
import signal
import socket
import subprocess
import sys
from contextlib import suppress
from functools import cache
from importlib import import_module
from pathlib import Path
from tempfile import mkdtemp
from typing import NoReturn

from tests.support.build import executable
from tests.support.cheap_forks import use_large_pages
from tests.support.forked import run_as
from tests.support.kept_elf_files import keep_elf_files
from tests.support.kept_listings import keep_listings
from tests.support.warm import warm_up
from tests.support.warm_pip import warm_pip

_CLIENT = r"""
#define _GNU_SOURCE
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <arpa/inet.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

extern char **environ;
static const char *const python[] = {%(python)s 0};

/* Whether Python would start as the server did. */
static int is_alike(void) {
    int count = 0;
    for (char **word = environ; *word; word++) {
        if (strncmp(*word, "PYTHON", 6)) continue;
        const char *const *known = python;
        while (*known && strcmp(*known, *word)) known++;
        if (!*known) return 0;
        count++;
    }
    return count + 1 == sizeof python / sizeof *python;
}

static void write_words(FILE *task, char **words) {
    int count = 0;
    while (words[count]) count++;
    fprintf(task, "%%d%%c", count, 0);
    for (int n = 0; n < count; n++) fprintf(task, "%%s%%c", words[n], 0);
}

int main(int argc, char **argv) {
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    char own[4096] = "", here[4096], *text, *name;
    size_t size;
    FILE *task = open_memstream(&text, &size);
    (void)!readlink("/proc/self/exe", own, sizeof own - 1);
    name = strrchr(own, '/') + 1;
    if (!is_alike()) {
        char *words[argc + 3];
        words[0] = %(interpreter)s, words[1] = "-m", words[2] = name;
        memcpy(words + 3, argv + 1, argc * sizeof *argv);
        execv(words[0], words);
    }
    argv[0] = own;
    write_words(task, argv);
    write_words(task, environ);
    fprintf(task, "%%s%%c%%d%%c", getcwd(here, sizeof here) ? here : "/", 0, umask(0), 0);
    for (int n = 0; n <= RLIMIT_AS; n++) {
        struct rlimit limit;
        getrlimit(n, &limit);
        fprintf(task, "%%ld%%c%%ld%%c", (long)limit.rlim_cur, 0, (long)limit.rlim_max, 0);
    }
    fclose(task);
    snprintf(address.sun_path, sizeof address.sun_path, "%%.*ssocket", (int)(name - own), own);
    int server = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0), status;
    if (connect(server, (void *)&address, sizeof address)) return perror(address.sun_path), 127;
    union {
        struct cmsghdr head;
        char space[CMSG_SPACE(3 * sizeof(int))];
    } rights = {.head = {CMSG_LEN(3 * sizeof(int)), SOL_SOCKET, SCM_RIGHTS}};
    for (int n = 0; n < 3; n++) memcpy(CMSG_DATA(&rights.head) + n * sizeof n, &n, sizeof n);
    unsigned length = htonl(size);
    struct iovec part = {&length, sizeof length};
    struct msghdr message = {
        .msg_iov = &part, .msg_iovlen = 1, .msg_control = &rights, .msg_controllen = sizeof rights};
    if (sendmsg(server, &message, MSG_NOSIGNAL) < 0) return perror("streams"), 127;
    for (ssize_t sent; size && (sent = send(server, text, size, MSG_NOSIGNAL)) > 0; size -= sent)
        text += sent;
    for (int n = 0; n < 3; n++) close(n);
    if (recv(server, &status, sizeof status, MSG_WAITALL) != sizeof status) return 127;
    status = ntohl(status);
    if (status < 0) kill(getpid(), -status);
    _exit(status);
}
"""
_MAIN = {
    "wheelfix": "wheelfix.__main__",
    "auditwheel": "auditwheel.main",
    "tests.oracles.fuzzing.fuzz": "tests.oracles.fuzzing.fuzz",
    "tests.oracles.fuzzing.campaign": "tests.oracles.fuzzing.campaign",
    "tests.support.warm_pip": "tests.support.warm_pip",
    "tests.support.warm_python": "tests.support.warm_python",
    "tests.support.warm_venv": "tests.support.warm_venv",
}
"""The programs, by what `python -m` calls them, and the modules with their `main`."""
_NEEDS_MORE = ("wheelfix.host.import_probe",)
"""Modules that are a program."""


def warm_path(path: str) -> str:
    """Return the search path `path` with the folder of these programs before it."""
    return f"{_started()}{os.pathsep}{path}"


def warm_program(name: str = "wheelfix") -> str:
    """Return the path of one of the programs."""
    return str(_started() / name)


def warm_python(code: str) -> list[str]:
    """Return the command that runs `code` as `python -c` does; its arguments follow."""
    return [warm_program("tests.support.warm_python"), code]


@cache
def _started() -> Path:
    """Start the server for this process, and return the folder of the programs."""
    folder = Path(mkdtemp(prefix="warm-"))
    address = folder / "socket"
    python = {name: value for name, value in os.environ.items() if name.startswith("PYTHON")}
    words = "".join(f"{json.dumps(f'{name}={value}')}, " for name, value in python.items())
    source = _CLIENT % {"python": words, "interpreter": json.dumps(sys.executable)}
    for name in _MAIN:
        executable(folder / name, source, flags=["-O1"])
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


def import_all() -> None:
    """Import wheelfix and auditwheel, read what they read once, and make forks cheap."""
    import_module("auditwheel.main")
    import_module("tests.support.warm_venv")
    warm_pip()
    package = import_module("wheelfix")
    for module in pkgutil.walk_packages(package.__path__, "wheelfix."):
        if module.name not in _NEEDS_MORE:
            import_module(module.name)
    keep_listings()
    keep_elf_files()
    warm_up()
    gc.collect()
    gc.freeze()
    use_large_pages()


def _serve(address: str) -> None:
    """Run command lines until the standard input ends, which is when the tests do."""
    import_all()
    runs: dict[int, tuple[int, socket.socket]] = {}
    with socket.socket(socket.AF_UNIX) as listener, selectors.DefaultSelector() as ready:
        listener.bind(address)
        listener.listen()
        ready.register(listener, selectors.EVENT_READ)
        ready.register(0, selectors.EVENT_READ)
        nothing = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nothing, 1)
        os.close(nothing)
        while (number := ready.select()[0][0].fd) != 0:
            if number in runs:
                ready.unregister(number)
                os.close(number)
                _tell(*runs.pop(number))
                continue
            connection, _ = listener.accept()
            pid = os.fork()
            if pid == 0:
                ready.close()
                listener.close()
                for other, (_, its) in runs.items():
                    os.close(other)
                    its.close()
                _attend(connection)
            run = os.pidfd_open(pid)
            runs[run] = pid, connection
            ready.register(run, selectors.EVENT_READ)
    shutil.rmtree(Path(address).parent, ignore_errors=True)


def _tell(pid: int, connection: socket.socket) -> None:
    """Tell the program how the run in the child `pid`, which has ended, did."""
    code = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
    with connection, suppress(OSError):  # it may have been killed
        connection.sendall(code.to_bytes(4, "big", signed=True))


def _attend(connection: socket.socket) -> NoReturn:
    """Run one command line in this process, a fork."""
    with connection:
        head, streams, _, _ = socket.recv_fds(connection, 4, 3)
        task = b""
        while len(task) < int.from_bytes(head, "big"):
            task += connection.recv(1 << 20)
    words = iter(task.split(b"\0"))
    sys.argv = [os.fsdecode(next(words)) for _ in range(int(next(words)))]
    pairs = (next(words).partition(b"=") for _ in range(int(next(words))))
    environ = {os.fsdecode(name): os.fsdecode(value) for name, _, value in pairs}
    folder = Path(os.fsdecode(next(words)))
    os.umask(int(next(words)))
    for limit in range(resource.RLIMIT_AS + 1):
        most = int(next(words)), int(next(words))
        if most != resource.getrlimit(limit):
            resource.setrlimit(limit, most)
    main = import_module(_MAIN[Path(sys.argv[0]).name]).main
    run_as(streams, environ, folder, main)


if __name__ == "__main__":
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    _serve(sys.argv[1])
