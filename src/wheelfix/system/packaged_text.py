"""Text files that are part of the package."""

from collections.abc import Iterator
from importlib.resources import files


def read_text(package: str, name: str) -> str:
    """Return the file `name` of `package`. Raises `FileNotFoundError` if it was not installed."""
    return files(package).joinpath(name).read_text("utf-8")


def read_lines(package: str, name: str) -> Iterator[str]:
    """Yield the lines of a list without comments. Raises `FileNotFoundError` as `read_text`."""
    return (line for line in read_text(package, name).splitlines() if line and line[0] != "#")
