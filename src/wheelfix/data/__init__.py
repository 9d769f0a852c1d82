"""Data that is part of the package."""

from pkgutil import get_data


def text(name: str) -> str:
    """Return the file `name` of this folder; `importlib.resources` would import `zipfile` for it.

    Raises `FileNotFoundError` where it was not installed.
    """
    content = get_data(__name__, name)
    if content is None:
        raise FileNotFoundError(name)
    return content.decode()
