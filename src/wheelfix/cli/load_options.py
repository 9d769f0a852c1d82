"""The circumstances of a load, as `explain` and `tree` let them be described."""

import json
import tomllib
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Annotated, cast

import typer

from wheelfix.analysis.installation import LoadOptions, PlantedLibraries, ProviderFiles
from wheelfix.cli.config.files import configured
from wheelfix.cli.options import layers
from wheelfix.errors import SettingsError
from wheelfix.host.provider_lookup import with_providers
from wheelfix.host.provider_objects import provider_files_of
from wheelfix.host.site import read_planted
from wheelfix.loader import targets
from wheelfix.loader.targets import Target
from wheelfix.settings import Settings
from wheelfix.wheel.model import Wheel
from wheelfix.wheel.reader import open_wheel

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
Variables = Annotated[
    list[str] | None,
    typer.Option(
        "--env",
        metavar="NAME=VALUE",
        help="A variable at the start of the process: LD_LIBRARY_PATH for the loader, others where "
        "Python code searches them for libraries. Their directories are read here.",
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


def settings_of(
    context: typer.Context, provider: list[str] | None, config: Path | None
) -> Callable[[str], Settings]:
    """Return what gives the settings for a wheel of some name: of them, the providers count."""
    return configured(Path.cwd(), config).over(layers(context, {"provider": provider})).settings_for


def library_path_of(assignments: Sequence[str]) -> tuple[str, ...] | None:
    """Return the elements of LD_LIBRARY_PATH; None where it is not given.

    Raises `SettingsError` for another variable: the graph is the loader's alone.
    """
    other = next((name for name in variables_of(assignments) if name != "LD_LIBRARY_PATH"), None)
    if other is not None:
        raise SettingsError(
            f"`--env {other}=…`: only LD_LIBRARY_PATH=DIRECTORIES can be foretold here",
            hint="`wheelfix explain` follows variables that Python code reads",
        )
    return library_path(variables_of(assignments))


def variables_of(assignments: Sequence[str]) -> dict[str, str]:
    """Return the variables that `--env` gives.

    Raises `SettingsError` for what is no assignment, and for what the model does not know.
    """
    pairs = [each.partition("=") for each in assignments]
    for text, (name, equals, _) in zip(assignments, pairs, strict=True):
        if not name or not equals:
            raise SettingsError(
                f"`--env {text}` is no assignment", hint="--env LD_LIBRARY_PATH=/opt/lib"
            )
        if name.startswith("LD_") and name != "LD_LIBRARY_PATH":
            raise SettingsError(
                f"`--env {text}`: of the loader's variables, only LD_LIBRARY_PATH is foretold",
                hint="`wheelfix trace` shows what the others do",
            )
    return {name: value for name, _, value in pairs}


def library_path(variables: Mapping[str, str]) -> tuple[str, ...] | None:
    """Return the elements of LD_LIBRARY_PATH, which `:` and `;` separate; None without it."""
    value = variables.get("LD_LIBRARY_PATH")
    if value is None:
        return None
    return tuple(value.replace(";", ":").split(":")) if value else ()


def directories_of(variables: Mapping[str, str]) -> tuple[str, ...]:
    """Return the directories that the variables name: Python code may search any of them."""
    return tuple(
        dict.fromkeys(
            each.strip().rstrip("/")
            for value in variables.values()
            for each in value.split(":")
            if each.strip().startswith("/")
        )
    )


def target_of(
    text: str | None, wheel: Wheel | None, beside: Iterable[Sequence[str]] = ()
) -> Target:
    """Return the target that `text` names; a description if it is a file.

    Without one, it is what the platform tags promise, those `beside` among them.
    """
    if text is None:
        return targets.find(targets.default_name(wheel, beside), wheel)
    path = Path(text)
    if path.suffix not in {".toml", ".json"}:
        return targets.find(text, wheel)
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


def read_wheel(path: Path) -> Wheel:
    """Return what the wheel at `path` is."""
    if not path.is_file():
        raise SettingsError(f"`{path}` is not a file")
    with open_wheel(path) as archive:
        return archive.wheel


def question_of(
    wheel: Wheel,
    *,
    target: str | None,
    scheme: str | None,
    others: Sequence[Wheel],
    library_path: tuple[str, ...] | None,
    directories: tuple[str, ...] = (),
    settings: Settings | None = None,
) -> LoadOptions:
    """Return the circumstances that the options describe; `directories` are read as well."""
    planted = PlantedLibraries()
    provided = _provided(wheel, settings)
    tags = (*(each.name.platforms for each in others), *(each.platforms for each in provided))
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


def _provided(wheel: Wheel, settings: Settings | None) -> tuple[ProviderFiles, ...]:
    """Return what the providers of `settings` install beside `wheel`."""
    if settings is None or not settings.provider:
        return ()
    return provider_files_of(wheel, with_providers(settings, Path.cwd(), wheel).provider)
