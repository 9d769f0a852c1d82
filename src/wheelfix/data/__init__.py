"""Data that is part of the package."""

from typing import Protocol, cast


class _Loader(Protocol):
    """What has imported this module: from a folder, or from a zip (PEP 302)."""

    def get_data(self, path: str) -> bytes:
        """Return the content of a file."""
        ...


def text(name: str) -> str:
    """Return the file `name` of this folder.

    `importlib.resources` would import `zipfile` for it, and `pkgutil` much else. Raises
    `FileNotFoundError` where it was not installed.
    """
    loader: object = __spec__.loader
    return cast("_Loader", loader).get_data(f"{__path__[0]}/{name}").decode()
