"""Pages in a real browser: Chromium, without a window."""

import json
import re
import shutil
import subprocess
from base64 import b64encode
from functools import cache
from hashlib import sha256
from html import unescape
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest

_CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser")
needs_chromium = pytest.mark.skipif(_CHROMIUM is None, reason="needs Chromium")


@cache
def _profile() -> TemporaryDirectory[str]:
    """Make the browser's own folder once: to fill a new one is a third of a page's CPU time."""
    return TemporaryDirectory(prefix="chromium-", ignore_cleanup_errors=True)


def browsed(
    html: str, folder: Path, fragment: str = "", *, width: int = 1600, dark: bool = False
) -> tuple[str, str]:
    """Return the document of the page after its script, and the console output."""
    (folder / "page.html").write_text(html)
    done = subprocess.run(
        [
            str(_CHROMIUM), "--headless", "--no-sandbox", "--disable-gpu", "--disable-quic",
            "--no-first-run", "--disable-background-networking", "--disable-component-update",
            "--disable-sync", f"--user-data-dir={_profile().name}", "--enable-logging=stderr",
            f"--window-size={width},1000", f"--blink-settings=preferredColorScheme={int(not dark)}",
            "--dump-dom", f"file://{folder}/page.html{fragment}",
        ],
        capture_output=True, text=True, check=True, timeout=120,
    )  # fmt: skip
    console = "\n".join(line for line in done.stderr.splitlines() if "CONSOLE" in line)
    return done.stdout, console


def evaluated(html: str, expression: str, folder: Path, **options: Any) -> Any:
    """Return the value of a JavaScript expression after the page's own script, from JSON."""
    script = (
        '{const value = document.createElement("output"); value.id = "value";'
        f"value.textContent = JSON.stringify({expression}); document.body.append(value);}}"
    )
    digest = b64encode(sha256(script.encode()).digest()).decode()
    allowed = html.replace("script-src ", f"script-src 'sha256-{digest}' ", 1)
    probed = allowed.replace("</body>", f"<script>{script}</script></body>")
    dom, console = browsed(probed, folder, **options)
    assert console == ""
    found = re.search(r'<output id="value">(.*?)</output>', dom, re.DOTALL)
    assert found, dom
    return json.loads(unescape(found[1]))
