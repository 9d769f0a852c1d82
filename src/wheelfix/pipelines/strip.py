"""binutils' strip: what is not loaded goes."""

from pathlib import Path

from wheelfix.system.subprocesses import run


def strip(path: Path) -> None:
    """Remove symbols and debug sections that the loader does not need, in place (`strip -s`).

    Call it before patchelf, never after: strip moves what patchelf has appended, and such files do
    not load any more (pypa/auditwheel 716). The file must be a private copy.

    Raises `ToolError` if strip is missing or fails, for example on another machine's objects.
    """
    run(
        ["strip", "-s", str(path)],
        install_hint="install binutils, or leave out `--strip`",
    )
