"""Options of the test suite, and what every test starts from."""

import signal

import pytest


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--update-golden", action="store_true", help="Write tests/golden anew, and compare nothing."
    )


def pytest_configure() -> None:
    # A shell that starts the tests in the background has them, and all they start, ignore Ctrl-C.
    signal.signal(signal.SIGINT, signal.default_int_handler)
