"""Options and hooks of the test suite."""

import gc
import signal
import subprocess
import sys
from collections.abc import Generator
from fnmatch import fnmatchcase
from functools import cache
from importlib import import_module
from tempfile import TemporaryDirectory

import pytest
from hypothesis import HealthCheck, settings

from tests.support.cheap_forks import use_large_pages
from tests.support.compiled import forget_unused
from tests.support.kept_auditwheel import keep_one
from tests.support.kept_elf_files import keep_elf_files
from tests.support.kept_listings import keep_listings
from tests.support.kept_machine_objects import keep_machine_objects
from tests.support.kept_pythons import keep_pythons
from tests.support.tools import summary
from tests.support.warm import warm_up
from wheelfix.cli import console
from wheelfix.system.signal_mask import SIGNALS

# The same examples each time, however long each takes: campaigns try others (tests/oracles).
_EXAMPLES = settings(
    database=None, deadline=None, derandomize=True, suppress_health_check=[HealthCheck.too_slow]
)
settings.register_profile("large", _EXAMPLES)
settings.register_profile("each run", _EXAMPLES, max_examples=30)


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--update-golden",
        action="store_true",
        help="Write tests/reports/golden anew, and compare nothing.",
    )
    parser.addoption("--large", action="store_true", help="Also run the tests marked `large`.")
    parser.addoption(
        "--as-shipped",
        action="store_true",
        help="Keep nothing of auditwheel, Pythons, files, packages between tests: twice as slow.",
    )


def pytest_configure(config: pytest.Config) -> None:
    settings.load_profile("large" if config.getoption("--large") else "each run")
    # With `nohup` or `&`, the tests and all they start would ignore these signals.
    for number in SIGNALS:
        if signal.getsignal(number) is signal.SIG_IGN:
            signal.signal(number, signal.SIG_DFL)
    signal.signal(signal.SIGINT, signal.default_int_handler)
    gc.set_threshold(100_000)  # as the program does, for which little becomes garbage
    console.INTERVAL = 3600.0  # on a machine under load, quick commands are slow
    forget_unused()
    import_module("auditwheel.main")
    import_module("auditwheel.wheel_abi")  # once for all processes that are forked for it


def pytest_collection_finish(session: pytest.Session) -> None:
    """Keep what was imported out of every later garbage collection, and cheap to fork.

    In each process that a test forks, one would touch all of it, and so copy it. What is kept
    beside that halves the time of the tests; CI runs them without it, too.
    """
    is_kept = not session.config.getoption("--as-shipped")
    if is_kept:
        keep_listings()
        keep_elf_files()
        keep_machine_objects()
        keep_pythons()
    warm_up()
    gc.collect()
    gc.freeze()
    use_large_pages()
    if is_kept:
        keep_one()


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave out what is large; of a matrix what is not chosen, unless nothing chosen is there."""
    if config.getoption("--large"):
        return
    have_chosen = {_function(item) for item in items if _is_chosen(item)}
    large = {
        item
        for item in items
        if item.get_closest_marker("large")
        or (_function(item) in have_chosen and not _is_chosen(item))
    }
    config.hook.pytest_deselected(items=[item for item in items if item in large])
    items[:] = [item for item in items if item not in large]


def _function(item: pytest.Item) -> str:
    return item.nodeid.partition("[")[0]


def _is_chosen(item: pytest.Item) -> bool:
    """Tell whether `each_run` names this case of a matrix; true for all others."""
    chosen = item.get_closest_marker("each_run")
    if chosen is None or not isinstance(item, pytest.Function):
        return True
    return any(fnmatchcase(item.callspec.id, pattern) for pattern in chosen.args)


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_terminal_summary(
    terminalreporter: pytest.TerminalReporter,
) -> Generator[None, object, object]:
    """Say last which packages let the tests run that were skipped for want of a tool."""
    result = yield
    skipped = terminalreporter.getreports("skipped")
    line = summary([str(report.longrepr) for report in skipped])
    if line:
        terminalreporter.write_line(line)
    return result


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> None:
    """Fail with the reason, before any fixture does, if no index answers."""
    if item.get_closest_marker("network") is not None and not _index_answers():
        pytest.fail("pip reaches no package index; deselect these tests with -m 'not network'")


@cache
def _index_answers() -> bool:
    with TemporaryDirectory() as folder:
        command = ["pip", "download", "-q", "--no-deps", "--dest", folder, "markupsafe==3.0.4"]
        done = subprocess.run([sys.executable, "-m", *command], capture_output=True, check=False)
    return done.returncode == 0
