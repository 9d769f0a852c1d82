"""Files that must be there: the refusal of others names the wheel that was meant."""

from difflib import get_close_matches
from pathlib import Path

from wheelfix.errors import SettingsError


def require_file(path: Path, folder: Path = Path()) -> None:
    """Raise `SettingsError` if `path`, relative to `folder`, is not a file."""
    file = folder / path
    if file.is_file():
        return
    if file.is_dir():
        raise SettingsError(f"`{path}` is a directory", hint=f"name a wheel in it: {path}/*.whl")
    if file.exists():
        raise SettingsError(f"`{path}` is not a file")
    if set("*?[").intersection(str(path)):
        raise SettingsError(
            f"no file matches `{path}`",
            hint="the shell found no match for the pattern; build the wheel first",
        )
    wheels = sorted(wheel.name for wheel in file.parent.glob("*.whl"))
    near = get_close_matches(file.name, wheels, 1)
    raise SettingsError(
        f"`{path}` cannot be read: No such file",
        hint=f"did you mean `{path.with_name(near[0])}`?" if near else None,
    )


def no_wheel_error(folder: object) -> SettingsError:
    """Return the error for a folder that has no wheel."""
    return SettingsError(f"no wheel was found in `{folder}`", hint="build one, or name a file")
