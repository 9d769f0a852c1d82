"""LD_DEBUG output of one or several processes, parsed in pieces of any size."""

import time
import tracemalloc

import pytest

from tests.support.effort import slowness
from wheelfix.host.ld_debug_log import MAX_KEPT, Log, LoggedProgram
from wheelfix.loader.load_values import How
from wheelfix.loader.process_bindings import Binding

START = """\
       100:\t
       100:\tfile=libm.so.6 [0];  needed by app [0]
       100:\tfind library=libm.so.6 [0]; searching
       100:\t search path=/a:/b\t\t(RPATH from file app)
       100:\t  trying file=/a/libm.so.6
       100:\t  trying file=/b/libm.so.6
       100:\t search path=/planted\t\t(LD_LIBRARY_PATH)
       100:\t  trying file=/planted/libm.so.6
       100:\t search cache=/etc/ld.so.cache
       100:\t  trying file=/lib/libm.so.6
       100:\t
       100:\tfile=libm.so.6 [0];  generating link map
       100:\t  dynamic: 0x00007f0000000d48  base: 0x00007f0000000000   size: 0x00000000000df110
       100:\t    entry: 0x00007f0000000000  phdr: 0x00007f0000000040  phnum:                 11
       100:\tchecking for version `GLIBC_2.2.5' in file /lib/libm.so.6 [0] required by file app [0]
       100:\tcalling init: /lib/libm.so.6
       100:\ttransferring control: app
"""
OPEN = """\
       {pid}:\tfile=/x/{name} [0];  dynamically loaded by app [0]
       {pid}:\tfile=/x/{name} [0];  generating link map
       {pid}:\t  dynamic: 0x00007f1000000d48  base: 0x00007f1000000000   size: 0x00000000000df110
       {pid}:\topening file=/x/{name} [0]; direct_opencount=1
"""


def read(text: str, *symbols: str, piece: int = 1 << 20) -> tuple[LoggedProgram, ...]:
    log = Log(100, symbols)
    data = text.encode()
    for start in range(0, len(data), piece):
        log.feed(data[start : start + piece])
    return log.finish()


@pytest.mark.parametrize("piece", [1, 7, 1 << 20])
def test_a_request_is_read_with_its_candidates_and_their_lists(piece: int) -> None:
    (logged,) = read(START, piece=piece)
    (request,) = logged.requests
    assert (request.name, request.requester, request.dlopen) == ("libm.so.6", "app", False)
    assert [(candidate.path, candidate.how, candidate.owner) for candidate in request.tried] == [
        ("/a/libm.so.6", How.RPATH, "app"),
        ("/b/libm.so.6", How.RPATH, "app"),
        ("/planted/libm.so.6", How.LIBRARY_PATH, None),
        ("/lib/libm.so.6", How.CACHE, None),
    ]
    assert (request.path, request.address) == ("/lib/libm.so.6", 0x7F0000000D48)
    assert logged.program == "app"


def test_a_fork_writes_to_the_log_of_its_parent() -> None:
    parent, child = read(
        START + OPEN.format(pid=101, name="c.so") + OPEN.format(pid=100, name="p.so")
    )
    assert [request.path for request in parent.requests] == ["/lib/libm.so.6", "/x/p.so"]
    assert (child.pid, child.forked_from, child.program) == (101, 100, "app")
    assert [request.path for request in child.requests] == ["/x/c.so"]


@pytest.mark.parametrize("program", ["app", "other"])
def test_another_program_in_the_same_process_is_distinguished(program: str) -> None:
    first, second = read(START + OPEN.format(pid=100, name="p.so") + START.replace("app", program))
    assert [request.path for request in first.requests] == ["/lib/libm.so.6", "/x/p.so"]
    assert [request.path for request in second.requests] == ["/lib/libm.so.6"]
    assert second.program == program


def test_what_a_library_needs_later_is_not_another_program() -> None:
    later = OPEN.format(pid=100, name="p.so") + (
        "       100:\tfile=libq.so [0];  needed by /x/p.so [0]\n"
        "       100:\tfind library=libq.so [0]; searching\n"
        "       100:\t search path=/q\t\t(RUNPATH from file /x/p.so)\n"
        "       100:\t  trying file=/q/libq.so\n"
    )
    (logged,) = read(START + later)
    missed = logged.requests[-1]
    assert (missed.name, missed.path) == ("libq.so", None)
    assert missed.tried[-1].how is How.RUNPATH


def test_symbols_are_chosen_while_reading() -> None:
    lines = [
        "binding file /a.so [0] to /b.so [0]: normal symbol `tvmGet' [V_1]",
        "binding file /a.so [0] to /b.so [0]: normal symbol `_ZN3tvm3runEv'",
        "binding file /a.so [0] to /b.so [0]: normal symbol `_ZN5other3runEv'",
        "binding file /a.so [0] to /b.so [0]: normal symbol `malloc' [GLIBC_2.2.5]",
        "binding file /a.so [0] to /b.so [0]: normal symbol `tvmGet' [V_1]",
    ]
    (logged,) = read("".join(f"       100:\t{line}\n" for line in lines), "tvm*")
    assert logged.bindings == {
        Binding(symbol="tvmGet", version="V_1", user="/a.so", provider="/b.so"): 2,
        Binding(symbol="_ZN3tvm3runEv", version=None, user="/a.so", provider="/b.so"): 1,
    }


def test_the_same_request_again_is_only_counted() -> None:
    (logged,) = read(START + OPEN.format(pid=100, name="p.so") * 1000)
    assert [(request.name, request.times) for request in logged.requests] == [
        ("libm.so.6", 1),
        ("/x/p.so", 1000),
    ]


def test_a_flood_of_requests_is_counted_and_not_kept() -> None:
    flood = "".join(OPEN.format(pid=100, name=f"{n}.so") for n in range(MAX_KEPT + 500))
    (logged,) = read(START + flood)
    assert len(logged.requests) == MAX_KEPT
    assert logged.dropped == 501


def test_a_flood_of_bindings_takes_neither_time_nor_memory() -> None:
    line = "       100:\tbinding file /a.so [0] to /b.so [0]: normal symbol `f{}' [V]\n"
    piece = "".join(line.format(n % 100) for n in range(15_000)).encode()  # about a megabyte
    log = Log(100, ["tvm*"])
    began = time.process_time()
    tracemalloc.start()
    for _ in range(10):
        log.feed(piece)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 8 * len(piece)
    assert time.process_time() - began < 7 * slowness()


@pytest.mark.parametrize("junk", ["", "\n\n", "no number\n", "       100:\tfile=\n", "\x00\xff\n"])
def test_lines_that_are_no_log_are_skipped(junk: str) -> None:
    programs = read(junk + START)
    assert [request.path for request in programs[0].requests] == ["/lib/libm.so.6"]
