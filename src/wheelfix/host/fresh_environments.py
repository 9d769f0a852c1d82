"""Fresh Python environments: made, with a wheel installed or unpacked into them."""

import os
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path

from packaging.tags import platform_tags

from wheelfix.errors import SettingsError, ToolError
from wheelfix.frozen import frozen
from wheelfix.host.find_installers import find_uv, own_pip, pip_for
from wheelfix.host.installed_files import (
    File,
    by_record,
    data_folder,
    dist_info_folders,
    find_dist_info,
    find_files,
    recorded_files,
)
from wheelfix.host.machine_files import folders_below
from wheelfix.host.pip_settings import from_here, is_set, names_index, with_absolute_path
from wheelfix.host.pythons import Interpreter, home_of
from wheelfix.host.required_wheels import WITHOUT_INDEX
from wheelfix.loader.install_schemes import ENV, Scheme, installed_path, scheme_names
from wheelfix.system.lazy_patterns import lazy_pattern
from wheelfix.system.paths import is_file, is_there
from wheelfix.system.subprocesses import Run, run
from wheelfix.wheel.model import RecordRow, Wheel, WheelName
from wheelfix.wheel.platform_tags import parse_platform_tag
from wheelfix.wheel.reader import open_wheel
from wheelfix.wheel.record import format_record

INSTALLER_SCHEMES = ("venv", "prefix", "user", "target")
"""Install schemes made by an installer: uv if it is found, or else pip.

The suffix `-pip` or `-uv` chooses the installer: `target-pip`. For the schemes of other systems,
the wheel is unpacked to where their installers put files.
"""
_OTHER_TAGS = "is not a supported wheel on this platform"
"""What pip says of a wheel for another machine or Python."""
_OF_UV_INDEX = lazy_pattern(r"UV_(FIND_LINKS|NO_INDEX|(DEFAULT_)?INDEX|(EXTRA_)?INDEX_URL)")
"""The variables with which uv is told where to look."""
_OF_SYSTEM = lazy_pattern(r"\b(Errno|os error) (1|5|12|13|23|24|28|30|122)\b")
"""What pip (Python) and uv (Rust) say of an error of the system, such as a full disk.

Others, such as that a file is not there (2), come of what the wheel has.
"""
_REFUSED = lazy_pattern(r"\b40[13]\b")
"""What an index answers that asks for a password (HTTP)."""
_ASKED = lazy_pattern(r"(?m)^\s*User for (\S+):")
"""What pip asks then, and ends with a traceback; with `--no-input` it would not say why."""


class RefusedWheelError(ToolError):
    """An installer refuses the wheel, whatever else is there."""


@frozen
class FreshEnvironment:
    """An empty environment: its folder, and how to run its Python."""

    root: Path
    python: str
    environ: Mapping[str, str]
    """Without variables that affect the loader, Python, or an installer."""
    index: Mapping[str, str]
    """The variables that tell the installers where to get distributions."""
    arguments: tuple[str, ...]
    """Options of the installer."""
    installer: str
    """`pip`, `uv`, or empty: uv if it is found, or else pip."""
    base: Interpreter
    """The Python below a virtual environment."""
    run: Run
    """Runs programs where `base` is: on this machine, or in an image."""
    scheme: Scheme | None = None
    """The layout to unpack the wheel to, without an installer."""
    paths: tuple[str, ...] = ()
    """Folders with the packages that its Python does not search by default."""
    is_site_searched: bool = False
    """Whether Python searches its site-packages without being told: a venv, that of the user."""


def make(
    scheme: str, python: Interpreter, root: Path, environ: Mapping[str, str]
) -> FreshEnvironment:
    """Make an empty environment in `root`, with a home and a temporary folder of its own.

    Raises `SettingsError` for a scheme that no installer here makes.
    """
    kind, _, installer = scheme.partition("-")
    if kind not in INSTALLER_SCHEMES or installer not in {"", "pip", "uv"}:
        raise SettingsError(
            f"the scheme `{scheme}` cannot be made here",
            hint=f"choose among {', '.join(scheme_names())}, or all",
        )
    for name in ("home", "tmp", "env"):
        (root / name).mkdir()
    homes = {"HOME": str(root / "home"), "TMPDIR": str(root / "tmp")}
    clean = {**python.environ(environ), **homes, "LD_BIND_NOW": "1"}
    index = _index_settings(environ)
    runner: Run = run
    if python.image is not None:
        # Code of the wheel could read .netrc, and the passwords there are not for the index alone.
        files = (Path(text) for name, text in index.items() if name != "NETRC" and is_file(text))
        runner = python.image.reading(*files).runner(root)
    env = root / "env"
    executable = python.path
    arguments: tuple[str, ...] = (f"--{kind}", str(env))
    if kind == "venv":
        runner([python.path, "-I", "-m", "venv", "--without-pip", str(env)], env=clean)
        executable, arguments = str(env / "bin" / "python"), ()
        if "PATH" in clean:  # as an activated one: of `#!/usr/bin/env python`, installers keep it
            clean["PATH"] = f"{env / 'bin'}:{clean['PATH']}"
    elif kind == "user":
        clean["PYTHONUSERBASE"] = str(env)
        arguments = ("--user",)
    return FreshEnvironment(
        root=env,
        python=executable,
        environ=clean,
        index=index,
        arguments=arguments,
        installer=installer,
        base=python,
        run=runner,
        is_site_searched=kind in {"venv", "user"},
    )


def make_unpacked(
    scheme: Scheme, python: Interpreter, root: Path, environ: Mapping[str, str]
) -> FreshEnvironment:
    """Make an empty environment with the layout of `scheme`, a scheme of another system.

    As in one of conda, `sys.prefix` of a virtual environment is where data files are.
    """
    if scheme.name == "conda":
        return replace(make("venv", python, root, environ), scheme=scheme)
    place = make("prefix", python, root, environ)
    libraries = dict.fromkeys((scheme.platlib, scheme.purelib))
    paths = tuple(str(place.root) + folder.removeprefix(ENV) for folder in libraries)
    beside = str(root / "dependencies")
    arguments = ("--target", beside)
    return replace(place, scheme=scheme, paths=(*paths, beside), arguments=arguments)


def install(
    path: Path,
    wheel: Wheel,
    place: FreshEnvironment,
    *,
    dependencies: bool = False,
    beside: Iterable[Path] = (),
) -> None:
    """Install the wheel at `path`, and the wheels `beside`, with uv or pip; all are absolute.

    In an image, its own pip installs. `dependencies` are got from the user's index. For a scheme
    of another system the wheels are unpacked, and the installer gets only the dependencies, into
    the last folder of `place.paths`.
    Raises `ToolError` if there is no installer, or if it fails; `RefusedWheelError` if it refuses
    the wheel.
    """
    if place.scheme is not None:
        unpack(path, wheel.name, place, place.scheme)
        for other in beside:
            unpack(other, None, place, place.scheme)
        if not dependencies:
            return
    # A repaired wheel has another name before it is published.
    named = [(path, str(wheel.name)), *((one, one.name) for one in beside)]
    sources = [_link(*each, str(number), place) for number, each in enumerate(named)]
    command, environ = _installer(place, dependencies=dependencies)
    call = [*command, *place.arguments, *sources]
    try:
        place.run(call, env=with_absolute_path({**place.environ, **environ}), cwd=place.root)
    except ToolError as error:
        raise _install_error(error, wheel, place, dependencies=dependencies) from None


def _link(path: Path, name: str, folder: str, place: FreshEnvironment) -> str:
    """Make a link to a wheel; return its path, relative to the environment.

    Installers read a path as a URL or a requirement, where it has a `#`, a ` ; ` or a line break.
    """
    link = place.root.parent / "tmp" / folder / name.replace("#", "_")
    link.parent.mkdir()
    link.symlink_to(path)
    return os.path.relpath(link, place.root)


def _installer(
    place: FreshEnvironment, *, dependencies: bool
) -> tuple[list[str], Mapping[str, str]]:
    """Return the command that installs wheels at `place`, and the variables that it needs.

    Raises `ToolError` if there is none.
    """
    index = place.index if dependencies else dict[str, str]()
    words = [] if dependencies else ["--no-deps"]
    is_off = is_set("PIP_NO_INDEX", index) or is_set("UV_NO_INDEX", index)
    words += ["--no-index"] * (is_off or not dependencies)
    image = place.base.image
    uv = None if image else find_uv()
    if uv is None and place.installer == "uv":
        raise ToolError(
            "uv was not found", hint="in an image, pip installs" if image else "pip install uv"
        )
    # uv has no `--user`, and does not read the settings of pip.
    is_pip = place.installer == "pip" or "--user" in place.arguments
    if uv is not None and dependencies and not (is_pip or place.installer):
        is_told = any(index[name] for name in index if _OF_UV_INDEX.fullmatch(name))
        is_pip = not is_told and names_index(own_pip(), {**place.environ, **index})
    if uv is not None and not is_pip:
        command = [uv, "pip", "install", "-q", "--link-mode", "copy"]
        command += ["--python", place.python, "--break-system-packages"]
        command += ["--no-cache", "--no-config", "--offline"] if not dependencies else []
        return [*command, *words], {**index, "UV_NO_WRAP": "1"}
    command = [*_pip(place), "install", "-q", "--no-warn-script-location"]
    command += ["--no-compile", "--ignore-installed", *words]
    variables = {"PIP_BREAK_SYSTEM_PACKAGES": "1", "PIP_ROOT_USER_ACTION": "ignore"}
    return command, {**index, **variables, "PIP_DISABLE_PIP_VERSION_CHECK": "1"}


def _install_error(
    error: ToolError, wheel: Wheel, place: FreshEnvironment, *, dependencies: bool
) -> ToolError:
    """Return the error for an installation that failed with `error`."""
    image = place.base.image
    if problem := wheel.metadata.problem:
        return RefusedWheelError(
            f"`{wheel.name}` cannot be installed: {problem}", hint="build it again"
        )
    if _OTHER_TAGS in error.message if image else not fits_machine(wheel.name):
        hint = "use an image or a machine that they allow"
        if not image and any(parse_platform_tag(tag).has_objects for tag in wheel.name.platforms):
            hint = "use a machine that they allow; `wheelfix verify --image IMAGE` uses a container"
        where = f"in `{image.name}`" if image else "here"
        return ToolError(
            f"`{wheel.name}` cannot be installed {where}: its platform tags do not allow this "
            "machine",
            hint=hint,
        )
    if dependencies:
        if asked := _ASKED.search(error.message):
            return ToolError(f"a user name and a password are needed for the index at {asked[1]}")
        is_other = _REFUSED.search(error.message) or _OF_SYSTEM.search(error.message)
        return error.with_hint(None if is_other else WITHOUT_INDEX)
    # Neither another distribution nor an index was asked for.
    return error if _OF_SYSTEM.search(error.message) else RefusedWheelError(*error.lines)


def fits_machine(name: WheelName) -> bool:
    """Return whether the platform tags of a wheel allow this machine."""
    return not {"any", *platform_tags()}.isdisjoint(name.platforms)


def _pip(place: FreshEnvironment) -> list[str]:
    pip = pip_for(place.base)
    if pip is None:
        raise ToolError("no installer was found", hint="use an image whose Python has pip")
    return pip if pip[0] == place.python else [*pip, "--python", place.python]


def link_installed(environment: Path, place: FreshEnvironment, site: Path) -> None:
    """Link what is installed in `environment` into `place`, whose packages are in `site`.

    Every file has a link of its own, in folders that are real: `$ORIGIN` and `..` of a search path
    lead where they would if all had been installed at once. What `place` has stays. Programs are
    left out: their first line names another Python.
    """
    for dist_info in dist_info_folders(Path(os.path.realpath(environment))):
        packages, prefix = dist_info.parent, data_folder(dist_info)
        for path in map(Path, recorded_files(dist_info)):
            if path.is_relative_to(packages):
                link = site / path.relative_to(packages)
            elif path.is_relative_to(prefix) and not path.is_relative_to(prefix / "bin"):
                link = place.root / path.relative_to(prefix)
            else:
                continue
            if path.suffix != ".pyc" and not is_there(link):
                link.parent.mkdir(parents=True, exist_ok=True)
                link.symlink_to(path)


def _index_settings(environ: Mapping[str, str]) -> dict[str, str]:
    """Return the user's variables and configuration files of the installers."""
    home = home_of(environ)
    config = Path(environ.get("XDG_CONFIG_HOME") or home / ".config")
    files = {
        "NETRC": [home / ".netrc"],
        "UV_CONFIG_FILE": [config / "uv" / "uv.toml"],
        "PIP_CONFIG_FILE": [config / "pip" / "pip.conf", home / ".pip" / "pip.conf"],
    }
    own = {
        variable: str(path)
        for variable, paths in files.items()
        for path in reversed(paths)
        if is_file(path)
    }
    # The installers are run in the environment, with a home of its own.
    given = {k: v for k, v in from_here(environ).items() if k.startswith(("PIP_", "UV_", "NETRC"))}
    return {**own, **given}


def unpack(path: Path, name: WheelName | None, place: FreshEnvironment, scheme: Scheme) -> None:
    """Unpack a wheel to the folders of `scheme`, with a RECORD of the installed paths.

    `name` is the name of the wheel if the file has another one.
    """
    with open_wheel(path, name=name) as archive:
        wheel = archive.wheel
        targets = {
            member.name: place.root / installed.removeprefix(f"{ENV}/")
            for member in wheel.members
            if (installed := installed_path(member.name, wheel, scheme)) is not None
        }
        scripts = wheel.dist_info.scripts
        for member in wheel.members:
            target = targets.get(member.name)
            if target is None:
                continue
            target.parent.mkdir(parents=True, exist_ok=True)
            is_script = member.name.startswith(scripts)
            with target.open("wb") as file:
                pieces = archive.inflate(member.name)
                for piece in _with_interpreter(pieces, place.python) if is_script else pieces:
                    file.write(piece)
            target.chmod(0o755 if is_script or member.mode & 0o111 else 0o644)
    record = targets[wheel.dist_info.record]
    paths = (os.path.relpath(target, record.parent.parent) for target in targets.values())
    record.write_bytes(format_record(RecordRow(path, "", None) for path in paths))


def _with_interpreter(pieces: Iterable[bytes], python: str) -> Iterator[bytes]:
    """Replace `#!python` by the path of `python`, as installers do (PEP 427)."""
    for number, piece in enumerate(pieces):
        if not number and piece.startswith(b"#!python"):
            yield f"#!{python}".encode()
            yield piece.removeprefix(b"#!python")
        else:
            yield piece


def lacking_installer(scheme: str, python: Interpreter) -> str:
    """Return the name of the installer that `scheme` needs for `python`, if it is not found."""
    if scheme.endswith("-uv"):
        return "" if python.image is None and find_uv() is not None else "uv"
    return "pip" if scheme in {"user", "target-pip"} and pip_for(python) is None else ""


def find(root: Path, wheel: Wheel, scheme: Scheme | None = None) -> tuple[Path, dict[str, File]]:
    """Return the folder of the wheel's packages, and its installed files by member.

    The paths of `scheme` are tried for files that RECORD does not lead to: that of `pip --target`
    may be wrong. Raises `ToolError` if there is no dist-info folder below `root`.
    """
    members = [member.name for member in wheel.members]
    for folder, _ in folders_below(root):
        if folder.endswith(".dist-info"):
            site = Path(folder).parent
            dist_info = find_dist_info(site, wheel.dist_info)
            if dist_info is not None:
                by_scheme = {
                    member: f"{root}{place.removeprefix(ENV)}"
                    for member in members
                    if scheme and (place := installed_path(member, wheel, scheme))
                }
                return site, find_files(by_scheme) | by_record(dist_info, members)
    raise ToolError(
        f"`{wheel.name}` was installed, but no {wheel.dist_info} is below {root}",
        hint="please report this, with the installer's version",
    )
