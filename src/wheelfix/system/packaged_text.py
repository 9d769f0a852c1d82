"""Text files that are part of the package."""

from importlib.resources import files


def read_text(package: str, name: str) -> str:
    """Return the file `name` of `package`. Raises `FileNotFoundError` if it was not installed."""
    return files(package).joinpath(name).read_text("utf-8")
