"""Pages in a real browser: Chromium, without a window.

One serves all tests of a process: to start it is most of a page's CPU time.
"""

import atexit
import json
import os
import shutil
import subprocess
from collections.abc import Iterator
from functools import cache
from itertools import count
from pathlib import Path
from tempfile import mkdtemp
from typing import Any, BinaryIO

from tests.support.tools import needs
from tests.support.waiting import HANGS

needs_chromium = needs("chromium")

_DOCUMENT = "document.documentElement.outerHTML"
_SAID = ("Runtime.consoleAPICalled", "Runtime.exceptionThrown", "Log.entryAdded")
"""Events of what the console shows."""


def browsed(html: str, folder: Path, fragment: str = "") -> tuple[str, str]:
    """Return the document of the page after its script, and the console output."""
    return _asked(_page(html, folder) + fragment, _DOCUMENT)


def evaluated(
    html: str, expression: str, folder: Path, *, width: int = 1600, dark: bool = False
) -> Any:
    """Return the value of a JavaScript expression after the page's own script, from JSON."""
    value, console = _asked(_page(html, folder), f"JSON.stringify({expression})", width, dark=dark)
    assert console == ""
    return json.loads(value)


def _page(html: str, folder: Path) -> str:
    path = folder / "page.html"
    path.write_text(html)
    return f"file://{path}"


def _asked(url: str, expression: str, width: int = 1600, *, dark: bool = False) -> tuple[str, str]:
    """Return the text of an expression in the page when it is loaded, and the console output."""
    browser = _started()
    target = browser.call("Target.createTarget", url="about:blank")["targetId"]
    session = browser.call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
    for domain in ("Page", "Runtime", "Log"):
        browser.call(f"{domain}.enable", session)
    size = {"width": width, "height": 1000, "deviceScaleFactor": 1, "mobile": False}
    browser.call("Emulation.setDeviceMetricsOverride", session, **size)
    scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
    browser.call("Emulation.setEmulatedMedia", session, features=[scheme])
    browser.call("Page.navigate", session, url=url)
    said: list[str] = []
    for event in browser.events(until="Page.loadEventFired"):
        said += [json.dumps(event)] if event["method"] in _SAID else []
    answer = browser.call("Runtime.evaluate", session, expression=expression)
    assert "exceptionDetails" not in answer, answer
    said += [json.dumps(event) for event in browser.seen if event["method"] in _SAID]
    browser.call("Target.closeTarget", targetId=target)
    browser.seen.clear()
    return answer["result"]["value"], "\n".join(said)


class _Browser:
    """The Chrome DevTools Protocol over pipes: JSON texts, each with a zero byte behind it."""

    def __init__(self, commands: BinaryIO, answers: BinaryIO) -> None:
        self.seen: list[dict[str, Any]] = []
        """Events that nobody has asked for yet."""
        self._commands, self._answers = commands, answers
        self._messages = _messages(answers)
        self._numbers = count(1)

    def call(self, method: str, session: str | None = None, **parameters: object) -> dict[str, Any]:
        """Call a method of the browser, or of a page in its session, and return the result."""
        number = next(self._numbers)
        call = {"id": number, "method": method, "params": parameters}
        call |= {"sessionId": session} if session else {}
        self._commands.write(json.dumps(call).encode() + b"\0")
        self._commands.flush()
        while (message := next(self._messages)).get("id") != number:
            self.seen.append(message)
        assert "error" not in message, message
        result: dict[str, Any] = message["result"]
        return result

    def close(self) -> None:
        """End the browser."""
        self.call("Browser.close")
        self._commands.close()
        self._answers.close()

    def events(self, until: str) -> Iterator[dict[str, Any]]:
        """Yield the events until one of that name, which may have come already."""
        while True:
            event = self.seen.pop(0) if self.seen else next(self._messages)
            if event["method"] == until:
                return
            yield event


def _messages(answers: BinaryIO) -> Iterator[dict[str, Any]]:
    rest = b""
    while more := os.read(answers.fileno(), 1 << 16):
        *texts, rest = (rest + more).split(b"\0")
        yield from map(json.loads, texts)


@cache
def _started() -> _Browser:
    """Start the browser, which reads commands from descriptor 3, and answers to 4."""
    profile = mkdtemp(prefix="chromium-")
    (theirs, commands), (answers, theirs_too) = os.pipe(), os.pipe()
    words = [
        "chromium", "--headless", "--no-sandbox", "--disable-gpu", "--disable-quic",
        "--no-first-run", "--disable-background-networking", "--disable-component-update",
        "--disable-sync", f"--user-data-dir={profile}", "--remote-debugging-pipe",
    ]  # fmt: skip
    moved = f'exec "$@" 3<&{theirs} 4>&{theirs_too}'
    process = subprocess.Popen(
        ["bash", "-c", moved, "bash", *words],
        pass_fds=(theirs, theirs_too),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )
    os.close(theirs)
    os.close(theirs_too)
    browser = _Browser(os.fdopen(commands, "wb"), os.fdopen(answers, "rb"))

    @atexit.register
    def _() -> None:
        browser.close()
        process.wait(HANGS)
        shutil.rmtree(profile, ignore_errors=True)

    return browser
