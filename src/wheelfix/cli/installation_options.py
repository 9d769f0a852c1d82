"""Options and reading for commands that ask about an installed wheel, on some machine."""

import json
import tomllib
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Annotated, cast

import typer

from wheelfix.analysis.installation import LoadOptions, PlantedLibraries
from wheelfix.cli import completion
from wheelfix.cli.options import require_file
from wheelfix.errors import SettingsError
from wheelfix.host.installed_environment import read_planted
from wheelfix.host.provider_objects import provider_files_of
from wheelfix.loader import target_machines
from wheelfix.loader.install_schemes import scheme_names
from wheelfix.loader.target_machines import Target
from wheelfix.settings import Group, Settings
from wheelfix.wheel.model import Wheel
from wheelfix.wheel.reader import open_wheel

Site = Annotated[
    Path | None,
    typer.Option(
        metavar="DIR",
        help="Read an installed environment instead: a venv, a prefix, a site-packages folder.",
        rich_help_panel=Group.WHEELS,
    ),
]
Scheme = Annotated[
    str | None,
    typer.Option(
        metavar="NAME",
        autocompletion=completion.schemes,
        help=f"Install scheme: {', '.join(scheme_names())}; with a Python: venv/python3.12.",
        rich_help_panel=Group.MACHINES,
    ),
]
TargetName = Annotated[
    str | None,
    typer.Option(
        metavar="NAME|FILE",
        autocompletion=completion.targets,
        help="Machine: debian:12, ubuntu:24.04, rhel:9, fedora:42, alpine:3.20, "
        "glibc:2.28, musl, conda, pyenv, debian:12+conda, or a description in a file. "
        "By default the machine that the platform tag promises.",
        rich_help_panel=Group.MACHINES,
    ),
]
Variables = Annotated[
    list[str] | None,
    typer.Option(
        metavar="NAME=VALUE",
        help="An environment variable of the process: LD_LIBRARY_PATH for the loader, others for "
        "Python code that searches them for libraries. Their directories are read on this machine.",
        rich_help_panel=Group.MACHINES,
    ),
]
Env = Annotated[
    list[str] | None,
    typer.Option(
        metavar="LD_LIBRARY_PATH=DIRS",
        help="LD_LIBRARY_PATH of the process; its directories are read on this machine.",
        rich_help_panel=Group.MACHINES,
    ),
]


def parse_library_path(assignments: Sequence[str]) -> tuple[str, ...] | None:
    """Return the elements of LD_LIBRARY_PATH in the values of `--env`; None if it is not given.

    Raises `SettingsError` for another variable: only the loader's are part of the graph.
    """
    variables = parse_variables(assignments)
    other = next((name for name in variables if name != "LD_LIBRARY_PATH"), None)
    if other is not None:
        raise SettingsError(
            f"`--env {other}=…`: only LD_LIBRARY_PATH=… is supported here",
            hint="`wheelfix explain` follows variables that Python code reads",
        )
    return library_path(variables)


def parse_variables(assignments: Sequence[str]) -> dict[str, str]:
    """Return the variables in the values of `--env`.

    Raises `SettingsError` for anything but an assignment, and for variables of the loader that its
    model does not have.
    """
    pairs = [text.partition("=") for text in assignments]
    for text, (name, equals, _) in zip(assignments, pairs, strict=True):
        if not name or not equals:
            raise SettingsError(
                f"`--env {text}` is not an assignment", hint="--env LD_LIBRARY_PATH=/opt/lib"
            )
        if name.startswith("LD_") and name != "LD_LIBRARY_PATH":
            raise SettingsError(
                f"`--env {text}`: of the loader's variables, only LD_LIBRARY_PATH is supported",
                hint="`wheelfix trace` shows the effect of the others",
            )
    return {name: value for name, _, value in pairs}


def library_path(variables: Mapping[str, str]) -> tuple[str, ...] | None:
    """Return the elements of LD_LIBRARY_PATH, separated by `:` or `;`; None if it is not set."""
    value = variables.get("LD_LIBRARY_PATH")
    if value is None:
        return None
    return tuple(value.replace(";", ":").split(":")) if value else ()


def absolute_directories(variables: Mapping[str, str]) -> tuple[str, ...]:
    """Return the absolute paths in the variables; Python code may search any of them."""
    paths = (path.strip() for value in variables.values() for path in value.split(":"))
    return tuple(dict.fromkeys(path.rstrip("/") for path in paths if path.startswith("/")))


def target_of(
    text: str | None, wheel: Wheel | None, beside: Iterable[Sequence[str]] = ()
) -> Target:
    """Return the target that `text` names or, as a TOML or JSON file, describes.

    Without `text`, it is the target that the platform tags promise, including those `beside`.
    """
    if text is None:
        return target_machines.find(target_machines.default_name(wheel, beside), wheel)
    path = Path(text)
    if path.suffix not in {".toml", ".json"}:
        return target_machines.find(text, wheel)
    try:
        content = path.read_text(encoding="utf-8")
        table: object = json.loads(content) if path.suffix == ".json" else tomllib.loads(content)
    except OSError as error:
        raise SettingsError(f"`{path}` cannot be read: {error.strerror}") from error
    except (ValueError, RecursionError) as error:
        raise SettingsError(f"`{path}` is not {path.suffix[1:].upper()}: {error}") from error
    if not isinstance(table, dict):
        raise SettingsError(f"`{path}` must be a table with the keys of a target")
    return target_machines.described(cast("dict[str, object]", table), path.stem)


def read_wheel(path: Path) -> Wheel:
    """Read the wheel at `path`. Raises `SettingsError` if it is not a file."""
    require_file(path)
    with open_wheel(path) as archive:
        return archive.wheel


def question_of(
    wheel: Wheel,
    *,
    target: str | None,
    scheme: str | None = None,
    others: Sequence[Wheel] = (),
    library_path: tuple[str, ...] | None = None,
    directories: tuple[str, ...] = (),
    settings: Settings,
) -> LoadOptions:
    """Return the installation that the options describe; `directories` are read on this machine.

    The providers in `settings` have been looked up (`with_providers`).
    """
    planted = PlantedLibraries()
    provided = provider_files_of(wheel, settings.provider)
    tags = (*(other.name.platforms for other in others), *(files.platforms for files in provided))
    found = target_of(target, wheel, tags)
    if directories or library_path or found.library_path:
        planted = read_planted((*(library_path or found.library_path), *directories))
    return LoadOptions(
        target=found,
        scheme=scheme,
        others=tuple(others),
        beside=provided,
        library_path=library_path,
        planted=planted,
    )
