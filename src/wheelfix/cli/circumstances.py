"""The circumstances of a load, as `explain` and `tree` let them be described."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, cast

import typer

from wheelfix.errors import SettingsError

if TYPE_CHECKING:
    from wheelfix.explain import Question
    from wheelfix.targets import Target
    from wheelfix.wheel import Wheel

Scheme = Annotated[
    str | None,
    typer.Option(
        "--scheme",
        metavar="NAME",
        help="Installed by: venv, user, target-pip, debian-system, conda, ...; "
        "with a Python: venv/python3.12.",
        show_default=False,
    ),
]
TargetName = Annotated[
    str | None,
    typer.Option(
        "--target",
        metavar="NAME|FILE",
        help="Where it is installed: debian:12, ubuntu:24.04, rhel:9, fedora:42, alpine:3.20, "
        "glibc:2.28, musl, conda, pyenv, debian:12+conda, or a description in a file. "
        "By default what the platform tag promises.",
        show_default=False,
    ),
]
Env = Annotated[
    list[str] | None,
    typer.Option(
        "--env",
        metavar="LD_LIBRARY_PATH=DIRS",
        help="The variable at the start of the process; its directories are read here.",
        show_default=False,
    ),
]
With = Annotated[
    list[Path] | None,
    typer.Option(
        "--with",
        metavar="WHEEL",
        help="Another wheel that is installed beside.",
        show_default=False,
    ),
]


def library_path_of(assignments: Sequence[str]) -> tuple[str, ...] | None:
    """Return the elements of LD_LIBRARY_PATH; None where it is not given.

    Raises `SettingsError` for another variable: the model of the loader knows no other.
    """
    found: tuple[str, ...] | None = None
    for each in assignments:
        name, equals, value = each.partition("=")
        if name != "LD_LIBRARY_PATH" or not equals:
            raise SettingsError(
                f"`--env {each}`: only LD_LIBRARY_PATH=DIRECTORIES can be foretold",
                hint="variables that Python code reads change what it opens; `--after` and the "
                "file itself as subject explain that",
            )
        found = tuple(value.replace(";", ":").split(":")) if value else ()
    return found


def target_of(text: str | None, wheel: "Wheel | None") -> "Target":
    """Return the target that `text` names; a description if it is a file."""
    from wheelfix import targets

    if text is None:
        return targets.find(targets.default_name(wheel), wheel)
    path = Path(text)
    if path.suffix not in {".toml", ".json"}:
        return targets.find(text, wheel)
    import tomllib

    try:
        content = path.read_text(encoding="utf-8")
        table: object = json.loads(content) if path.suffix == ".json" else tomllib.loads(content)
    except OSError as error:
        raise SettingsError(f"`{path}` cannot be read: {error.strerror}") from error
    except ValueError as error:
        raise SettingsError(f"`{path}` is no {path.suffix[1:].upper()}: {error}") from error
    if not isinstance(table, dict):
        raise SettingsError(f"`{path}` must be a table with the keys of a target")
    return targets.described(cast("dict[str, object]", table), path.stem)


def read_wheel(path: Path) -> "Wheel":
    """Return what the wheel at `path` is."""
    from wheelfix.archive import open_wheel

    if not path.is_file():
        raise SettingsError(f"`{path}` is not a file")
    with open_wheel(path) as archive:
        return archive.wheel


def question_of(
    wheel: "Wheel",
    *,
    target: str | None,
    scheme: str | None,
    others: "Sequence[Wheel]",
    library_path: tuple[str, ...] | None,
) -> "Question":
    """Return the circumstances that the options describe."""
    from wheelfix.explain import Planted, Question

    planted = Planted()
    found = target_of(target, wheel)
    if library_path or found.library_path:
        from wheelfix.site import planted as read_planted

        planted = read_planted(library_path or found.library_path)
    return Question(
        target=found,
        scheme=scheme,
        others=tuple(others),
        library_path=library_path,
        planted=planted,
    )
