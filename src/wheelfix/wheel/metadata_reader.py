"""Reading of single text members from wheels that are not verified, such as providers."""

import os
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

from wheelfix.errors import BadWheelError, SettingsError
from wheelfix.wheel.dist_info import dist_info_folder, read_core_metadata, read_metadata
from wheelfix.wheel.model import UnverifiedWheel, WheelName
from wheelfix.wheel.zip_reader import ZipReader

_MAX_TEXT = 1 << 22
"""Bytes read of one text."""


def read_unverified(path: Path) -> UnverifiedWheel:
    """Read the wheel at `path`. Raises `SettingsError`, `BadWheelError`."""
    with open_unverified(path) as archive:
        name, members = WheelName.parse(path.name), tuple(archive.entries)
        dist_info = dist_info_folder(members, name)
        wheel_file = read_metadata(member_text(archive, dist_info.wheel_file))
        metadata = read_core_metadata(member_text(archive, dist_info.metadata))
    return UnverifiedWheel(name, members, dist_info, wheel_file.root_is_purelib, metadata)


@contextmanager
def open_unverified(path: Path) -> Generator[ZipReader]:
    """Open a wheel; its directory is verified, and of its members those that are read.

    Raises `SettingsError` if it cannot be opened, and names the file in a `BadWheelError`.
    """
    flags = os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK
    try:
        with os.fdopen(os.open(path, flags), "rb") as file:
            yield ZipReader(file.fileno())
    except BadWheelError as error:
        raise BadWheelError(f"the provider `{path}`: {error.message}", hint=error.hint) from error
    except OSError as error:
        raise SettingsError(
            f"the provider `{path}` cannot be read: {error.strerror or error}"
        ) from error


def member_text(archive: ZipReader, member: str) -> str:
    """Return the first 4 MiB of a text member; empty if there is none."""
    data = bytearray()
    for piece in archive.inflate(member) if member in archive.entries else ():
        data += piece
        if len(data) >= _MAX_TEXT:
            break
    return data[:_MAX_TEXT].decode("utf-8", "replace")
