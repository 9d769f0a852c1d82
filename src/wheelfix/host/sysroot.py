"""Whose files the loader's model reads: this machine's, or those of a system below a folder.

Such a folder is the root of another system: that of a container, or the sysroot of a cross
compiler. Its absolute links and paths lead below the folder, as after chroot(2).
"""

import os

from wheelfix.elf.model import Libc
from wheelfix.errors import SettingsError
from wheelfix.frozen import frozen
from wheelfix.loader.file_system import MAX_LINKS
from wheelfix.loader.loader_demands import demands_of
from wheelfix.system.paths import is_folder


@frozen(kw_only=False)
class Sysroot:
    """The root of a system."""

    folder: str = ""
    """Where it lies on this machine, absolute and canonical; empty for this machine itself."""

    def place(self, path: str) -> str:
        """Return where the absolute `path` of that system lies on this machine."""
        return f"{self.folder}{self._resolve(path)}" if self.folder else path

    def follow(self, path: str) -> str:
        """Return `path` of this machine without links that would lead out of the folder.

        A name by which its file is found here, too, is kept: a wheel's says what is in it.
        """
        inner = path.removeprefix(self.folder)
        if not self.folder or not inner.startswith("/") or inner == path:
            return path
        real = self.place(inner)
        folder, _, name = inner.rpartition("/")
        named = f"{self.place(folder)}/{name}"
        return named if os.path.realpath(named) == real else real

    def _resolve(self, path: str) -> str:
        place, rest, links = "", path.split("/")[::-1], 0
        while rest:
            part = rest.pop()
            if part in {"", "."}:
                continue
            if part == "..":
                place = place.rpartition("/")[0]
                continue
            step = f"{place}/{part}"
            try:
                target = os.readlink(f"{self.folder}{step}")  # noqa: PTH115 - text
            except (OSError, ValueError):
                place = step
                continue
            links += 1
            if links > MAX_LINKS:
                return path
            place = "" if target.startswith("/") else place
            rest += target.split("/")[::-1]
        return place


HERE = Sysroot()
"""This machine."""


def system_at(folder: str | None, libc: Libc | None = None) -> Sysroot:
    """Return the system whose root is `folder`; None and `/` are this machine.

    Raises `SettingsError` if it is not a directory, or not for wheels of `libc`.
    """
    if folder is None:
        return HERE
    if not demands_of(libc).on_builders:
        raise SettingsError(
            f"`{folder}`: what a wheel of Android needs is in no system's folders",
            hint="name the folders of its libraries with `--ldpaths`, and no `--sysroot`",
        )
    real = os.path.realpath(folder)
    if not is_folder(real):
        raise SettingsError(
            f"`{folder}` is not a directory",
            hint="--sysroot names the folder that has the `usr` and `etc` of another system",
        )
    return HERE if real == "/" else Sysroot(real)
