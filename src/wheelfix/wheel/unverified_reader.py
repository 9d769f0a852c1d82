"""Reading of single text members from wheels that are not verified, such as providers."""

import struct
import zipfile
import zlib
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from zipfile import ZipFile

from wheelfix.errors import BadWheelError, SettingsError
from wheelfix.wheel.dist_info import dist_info_folder, read_core_metadata, read_metadata
from wheelfix.wheel.model import UnverifiedWheel, WheelName
from wheelfix.wheel.zip_headers import DEFLATED, STORED

_DAMAGES = (
    zipfile.BadZipFile, zlib.error, struct.error, OSError, RuntimeError, ValueError, EOFError,
)  # fmt: skip
"""What `zipfile` raises for damaged zips."""
_MAX_TEXT = 1 << 22
"""Bytes read of one text."""


def read_unverified(path: Path) -> UnverifiedWheel:
    """Read the wheel at `path`. Raises `SettingsError`, `BadWheelError`."""
    with open_unverified(path) as archive:
        name, members = WheelName.parse(path.name), tuple(archive.namelist())
        dist_info = dist_info_folder(members, name)
        wheel_file = read_metadata(member_text(archive, dist_info.wheel_file))
        metadata = read_core_metadata(member_text(archive, dist_info.metadata))
    return UnverifiedWheel(name, members, dist_info, wheel_file.root_is_purelib, metadata)


@contextmanager
def open_unverified(path: Path) -> Generator[ZipFile]:
    """Open a wheel without verification.

    Raises `SettingsError` if it cannot be opened, or turns out to be damaged while it is read, and
    names the file in a `BadWheelError` that is raised meanwhile.
    """
    try:
        if path.exists() and not path.is_file():
            raise OSError("it is not a file")
        with ZipFile(path) as archive:
            for info in archive.infolist():  # decompressors of others have errors of their own
                if info.compress_type not in {STORED, DEFLATED}:
                    raise zipfile.BadZipFile(
                        f"compression method {info.compress_type} is not that of a wheel"
                    )
            yield archive
    except BadWheelError as error:
        raise BadWheelError(f"the provider `{path}`: {error.message}", hint=error.hint) from error
    except _DAMAGES as error:
        raise SettingsError(
            f"the provider `{path}` cannot be read: {getattr(error, 'strerror', None) or error}"
        ) from error


def member_text(archive: ZipFile, member: str) -> str:
    """Return the first 4 MiB of a text member; empty if there is none."""
    if member not in archive.namelist():
        return ""
    with archive.open(member) as file:
        return file.read(_MAX_TEXT).decode("utf-8", "replace")
