"""Text files that are part of the package."""

import pkgutil
from collections.abc import Iterator


def read_text(package: str, name: str) -> str:
    """Return the file `name` of `package`. Raises `FileNotFoundError` if it was not installed."""
    return (pkgutil.get_data(package, name) or b"").decode()


def read_lines(package: str, name: str) -> Iterator[str]:
    """Yield the lines of a list without comments. Raises `FileNotFoundError` as `read_text`."""
    return (line for line in read_text(package, name).splitlines() if line and line[0] != "#")
