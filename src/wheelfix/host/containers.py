"""Images of containers, in which programs run by docker or podman."""

import os
import shlex
from collections.abc import Container, Mapping, Sequence
from functools import partial
from pathlib import Path

from wheelfix.elf.model import Libc
from wheelfix.errors import SettingsError, ToolError
from wheelfix.grouping import flatten
from wheelfix.named_tuple import NamedTuple
from wheelfix.system.subprocesses import Completed, Run, find_program, run
from wheelfix.text import operand
from wheelfix.wheel.model import WheelName
from wheelfix.wheel.platform_tags import only_promised

_PULL_SECONDS = 3600
_START_SECONDS = 60
"""Maximum seconds to start a container, beyond those of the program."""
_OF_ENGINE = range(125, 128)
"""Exit codes of docker and podman if the program was not started."""


class Image(NamedTuple):
    """An image on this machine. Every program runs in a new container, which is then removed."""

    name: str
    engine: str
    """The path of docker or podman."""
    options: tuple[str, ...]
    readable: tuple[Path, ...] = ()
    """Files and folders of this machine that the programs can read, at the same paths."""

    def reading(self, *paths: Path) -> "Image":
        """Return the image whose programs can also read `paths`."""
        return self._replace(readable=(*self.readable, *paths))

    def runner(self, *writable: Path) -> Run:
        """Return what runs programs in the image like `subprocesses.run`.

        They can write to these folders of this machine, at the same paths.
        """
        kinds = dict.fromkeys(self.readable, ",readonly") | dict.fromkeys(writable, "")
        mounts = [
            f'--mount=type=bind,"source={path}","target={path}"{kind}'
            for path, kind in kinds.items()
        ]
        return partial(self._run, mounts)

    def _run(  # noqa: PLR0913 - as `subprocesses.run`
        self,
        mounts: Sequence[str],
        argv: Sequence[str],
        *,
        cwd: Path | None = None,
        env: Mapping[str, str] | None = None,
        stdin: str = "",
        timeout: float = 600,
        accepted: Container[int] = (0,),
    ) -> Completed:
        variables = [f"--env={name}={value}" for name, value in (env or {}).items()]
        start = [self.engine, "run", "--rm", "--interactive", *self.options, *mounts, *variables]
        start += [f"--workdir={cwd or '/'}", f"--entrypoint={argv[0]}", self.name, *argv[1:]]
        codes = [code for code in range(256) if code in accepted and code not in _OF_ENGINE]
        try:
            return run(start, stdin=stdin, timeout=timeout + _START_SECONDS, accepted=codes)
        except ToolError as error:
            first, *more = error.lines
            was_started = not any(f"exit code {code}" in error.message for code in _OF_ENGINE)
            hint = error.hint if was_started else "--python names a Python that the image has"
            raise ToolError(f"in `{self.name}`: {first}", *more, hint=hint) from error


def find_image(name: str, wheels: Sequence[Path], *, has_network: bool) -> Image:
    """Return the image `name`, pulled if it is not here, of docker or podman.

    `wheels` are those to judge without it, as the hint says. With a network, programs use that of
    this machine. Raises `SettingsError` if neither engine is installed, `ToolError` if none answers
    or the image is not found.
    """
    engines = list(filter(None, map(find_program, ("podman", "docker"))))
    tags = list(flatten(WheelName.parse(wheel.name).platforms for wheel in wheels))
    target = "alpine:3.20" if only_promised(tags) is Libc.MUSL else "debian:12-slim"
    others = shlex.join(["wheelfix", "check", "--target", target, *map(operand, wheels)])
    otherwise = f"without a container: `{others}`"
    if not engines:
        raise SettingsError(
            f"neither podman nor docker is installed, to run `{name}`", hint=otherwise
        )
    silent: list[str] = []
    for engine in engines:
        try:
            about = run([engine, "info"], timeout=_START_SECONDS)
        except ToolError as error:
            said = error.message.rpartition("stderr:\n")[2].strip().splitlines()[0]
            silent.append(f"`{Path(engine).name}` does not answer: {said}")
        else:
            # Without root's rights, the root of a container is the user.
            user = () if "rootless" in about.stdout else (f"--user={os.getuid()}:{os.getgid()}",)
            network = "host" if has_network else "none"
            options = (f"--network={network}", "--security-opt=label=disable", *user)
            _pull(engine, name)
            return Image(name=name, engine=engine, options=options)
    raise ToolError("; ".join(silent), hint=f"start it, or {otherwise}")


def _pull(engine: str, name: str) -> None:
    listed = run([engine, "image", "ls", "--quiet", name], timeout=_START_SECONDS)
    if not listed.stdout.strip():
        run([engine, "pull", "--quiet", name], timeout=_PULL_SECONDS)
