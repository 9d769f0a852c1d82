"""Files that must be there: the refusal of others names the wheel that was meant."""

import os
from difflib import get_close_matches
from pathlib import Path

from wheelfix.errors import SettingsError
from wheelfix.system.paths import is_file, is_folder, is_there


def require_file(path: Path, folder: Path = Path()) -> None:
    """Raise `SettingsError` if `path`, relative to `folder`, is not a file."""
    file = folder / path
    if is_file(file):
        return
    if is_folder(file):
        raise SettingsError(f"`{path}` is a directory", hint=f"name a wheel in it: {path}/*.whl")
    if is_there(file):
        raise SettingsError(f"`{path}` is not a file")
    if set("*?[").intersection(str(path)):
        raise SettingsError(
            f"no file matches `{path}`",
            hint="the shell found no match for the pattern; build the wheel first",
        )
    wheels = sorted(wheel.name for wheel in file.parent.glob("*.whl"))
    near = get_close_matches(file.name, wheels, 1)
    is_closed = is_folder(file.parent) and not os.access(file.parent, os.X_OK)
    raise SettingsError(
        f"`{path}` cannot be read: {'Permission denied' if is_closed else 'No such file'}",
        hint=f"did you mean `{path.with_name(near[0])}`?" if near else None,
    )


def no_wheel_error(folder: object) -> SettingsError:
    """Return the error for a folder that has no wheel."""
    return SettingsError(f"no wheel was found in `{folder}`", hint="build one, or name a file")
