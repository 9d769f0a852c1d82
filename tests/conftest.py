"""Options and hooks of the test suite."""

import signal
import subprocess
import sys
from functools import cache
from tempfile import TemporaryDirectory

import pytest

from wheelfix.system.signal_mask import SIGNALS


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--update-golden",
        action="store_true",
        help="Write tests/reports/golden anew, and compare nothing.",
    )


def pytest_configure() -> None:
    # With `nohup` or `&`, the tests and all they start would ignore these signals.
    for number in SIGNALS:
        if signal.getsignal(number) is signal.SIG_IGN:
            signal.signal(number, signal.SIG_DFL)
    signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> None:
    """Fail with the reason, before any fixture does, if no package index answers."""
    if item.get_closest_marker("network") is not None and not _index_answers():
        pytest.fail("pip reaches no package index; deselect these tests with -m 'not network'")


@cache
def _index_answers() -> bool:
    with TemporaryDirectory() as folder:
        command = ["pip", "download", "-q", "--no-deps", "--dest", folder, "markupsafe==3.0.4"]
        done = subprocess.run([sys.executable, "-m", *command], capture_output=True, check=False)
    return done.returncode == 0
