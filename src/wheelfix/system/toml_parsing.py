"""TOML that others have written."""

import re

from wheelfix.system import deferred

_DEEPEST = 1000
"""Parts of a dotted key."""


def parse_toml(data: bytes) -> dict[str, object]:
    """Return the table in `data`.

    Raises `ValueError` if it is not TOML in UTF-8, `RecursionError` for one that is nested too
    deeply: tomllib takes quadratic time for the parts of a key.
    """
    if max(part.count(b".") for part in re.split(rb"[\n,=]", data)) > _DEEPEST:
        raise RecursionError
    return deferred.tomllib.loads(data.decode("utf-8").replace("\r\n", "\n"))
