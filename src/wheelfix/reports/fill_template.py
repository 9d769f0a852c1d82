"""Self-contained HTML pages, made from templates with marks."""

import re
from base64 import b64encode
from collections.abc import Mapping
from hashlib import sha256

from wheelfix.system.packaged_text import read_text


def fill_template(name: str, values: Mapping[str, str]) -> str:
    """Return the template `name` of this package with `values`, HTML, for its marks `@@NAME@@`.

    `@@POLICY@@` becomes a Content Security Policy that allows the template's inline `style` and
    `script` elements by their hashes (CSP 3, 2.3.1), and nothing else.
    """
    template = read_text("wheelfix.reports", name)
    policy = "; ".join(
        (
            "default-src 'none'",
            f"style-src {_hashes(template, 'style')}",
            f"script-src {_hashes(template, 'script')}",
            "base-uri 'none'",
            "form-action 'none'",
        )
    )
    everything = {"POLICY": policy, **values}
    # In one pass: a name from a wheel may look like one of the marks.
    return re.sub(r"@@(\w+)@@", lambda mark: everything[mark[1]], template).rstrip("\n")


def _hashes(template: str, element: str) -> str:
    bodies = re.findall(rf"<{element}(?: id=\"\w+\")?>(.*?)</{element}>", template, re.DOTALL)
    digests = (b64encode(sha256(body.encode()).digest()).decode() for body in bodies)
    return " ".join(f"'sha256-{digest}'" for digest in digests)
