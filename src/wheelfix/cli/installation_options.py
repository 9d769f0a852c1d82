"""Options and reading for commands that ask about an installed wheel, on some machine."""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from types import MappingProxyType

from wheelfix.analysis.world import Installed, PlantedLibraries, World, neighbor
from wheelfix.cli.console import Terminal
from wheelfix.cli.options import Call, current_folder
from wheelfix.errors import SettingsError
from wheelfix.host.library_search import library_paths
from wheelfix.host.provider_objects import neighbors_of, wheel_beside
from wheelfix.host.reachable_files import in_system, read_planted
from wheelfix.host.sysroot import HERE, Sysroot
from wheelfix.loader import targets
from wheelfix.loader.install_schemes import scheme_names
from wheelfix.loader.loading import absolute_directories, split_library_path
from wheelfix.loader.targets import Target
from wheelfix.providers.model import Provided
from wheelfix.reports.printable import printable
from wheelfix.settings import Group, Option, Settings
from wheelfix.text import FEW, join_some
from wheelfix.wheel.model import Wheel
from wheelfix.wheel.required_file import require_file

LIBRARY_PATH = "LD_LIBRARY_PATH"
SCHEME = Option(
    f"Install scheme: {', '.join(scheme_names())}; with a Python: venv/python3.12.",
    group=Group.MACHINES,
    metavar="NAME",
)
TARGET = Option(
    "Machine: debian:12-slim, ubuntu:24.04, rhel:9, fedora:42, alpine:3.20, "
    "glibc:2.28, musl, conda, pyenv, debian:12+conda. "
    "By default the machine that the platform tag promises.",
    group=Group.MACHINES,
    metavar="NAME",
)


def say_unknown(providers: Iterable[Provided], terminal: Terminal) -> None:
    """Say what is required and has no wheel: the answer does not count on it.

    And which of several versions is taken.
    """
    notes: dict[str, str] = {}
    for provider in providers:  # of several versions the highest comes first
        others = join_some(
            (p.version for p in provider.available if p.version != provider.version), FEW
        )
        if provider.unknown:
            notes[provider.called] = f"{provider.unknown_text}; {provider.build_advice}"
        elif others:
            taken = f"{provider.release} is taken; `check` judges {others}, too"
            notes.setdefault(provider.called, taken)
    for note in notes.values():
        terminal.say(printable(f"note: {note}"))


def library_path_of(variables: Mapping[str, str]) -> str:
    """Return LD_LIBRARY_PATH; empty if it is not there.

    Raises `SettingsError` for another variable: only the loader's are part of the question.
    """
    other = next((name for name in variables if name != LIBRARY_PATH), None)
    if other is not None:
        raise SettingsError(
            f"`--env {other}=…`: only LD_LIBRARY_PATH=… is supported here",
            hint="`wheelfix explain` follows variables that Python code reads",
        )
    return variables.get(LIBRARY_PATH, "")


def in_shell(
    variables: Mapping[str, str], environ: Mapping[str, str], target: str | None
) -> dict[str, str]:
    """Return the variables of a process in an environment: those of `--env`.

    On this machine also LD_LIBRARY_PATH of the shell, which starts the process; of a machine that
    `target` describes it is not known.
    """
    value = environ.get(LIBRARY_PATH) if target is None else None
    return {**(parse_variables([f"{LIBRARY_PATH}={value}"]) if value else {}), **variables}


def parse_variables(assignments: Sequence[str]) -> dict[str, str]:
    """Return the variables in the values of `--env`; directories of libraries are absolute.

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
    variables = {name: value for name, _, value in pairs}
    return variables | library_paths(variables, current_folder()) if variables else {}


def target_of(
    text: str | None, wheel: Wheel | None, beside: Iterable[Sequence[str]] = ()
) -> Target:
    """Return the target that `text` names.

    Without `text`, it is the target that the platform tags promise, including those `beside`.
    """
    return targets.find(text or targets.default_name(wheel, beside), wheel)


def refuse_for_site(call: Call, *names: str) -> None:
    """Raise `SettingsError` for options of wheels where an environment is the subject.

    `names` are those of the command; `given` are the settings.
    """
    flags = [f"--{name}" for name in names if call.context.params.get(name)]
    of_wheels = {"neighbors": "--with", "provider": "--provider", "sysroot": "--sysroot"}
    for name, flag in (*of_wheels.items(), ("deps", "--deps")):
        flags += [flag] if call.is_flag(name) else []
    if flags:
        raise for_wheels(flags[0], "no wheel is named, so --site is the subject")


def for_wheels(flag: str, subject: str) -> SettingsError:
    """Return the error for an option of wheels where something else is the subject."""
    return SettingsError(f"{flag} is for wheels: {subject}", hint="name a wheel, or leave it out")


def wheels_beside(settings: Settings) -> list[Wheel]:
    """Return the wheels that `--with` names, whether something needs them or not."""
    return [read_wheel(Path(text)) for text in settings.neighbors if text.endswith(".whl")]


def read_wheel(path: Path) -> Wheel:
    """Read the wheel at `path`. Raises `SettingsError` if it is not a file."""
    require_file(path)
    return wheel_beside(str(path))


def world_of(
    wheel: Wheel,
    *,
    target: str | None,
    scheme: str | None = None,
    others: Sequence[Wheel] = (),
    variables: Mapping[str, str] = MappingProxyType({}),
    providers: tuple[Provided, ...],
    whole: Collection[str] = (),
    system: Sysroot = HERE,
) -> World:
    """Return the installed `wheel` that the options describe, beside `others`.

    Of `providers`, it has what the wheel needs, and all of those with the file names `whole`.

    The directories of `variables` are read on this machine. Another `system` gives its own
    libraries in place of those that the tag promises.
    """
    neighbors = (*neighbors_of(wheel, providers, whole), *map(neighbor, others))
    machine = target_of(target, wheel, [each.platforms for each in neighbors])
    machine.refuse_other_libc(wheel.libcs, "the wheel")
    if system != HERE:
        machine = replace(machine, promised=False, gives=frozenset(), packages={}, versions={})
    library_path = split_library_path(variables.get(LIBRARY_PATH, ""), machine.libc)
    read = (*library_path, *absolute_directories(variables))
    planted = read_planted(read) if read else PlantedLibraries()
    installed = Installed(wheel=wheel, neighbors=neighbors, planted=planted)
    world = installed.on(machine, scheme, library_path)
    return world if system == HERE else in_system(world, system)
