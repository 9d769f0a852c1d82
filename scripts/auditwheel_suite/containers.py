"""Local processes in place of the containers of auditwheel's tests: the part of `docker` they use.

A container that has a folder for wheels (`/io`) runs its commands on this machine, with the paths
of the container replaced. Containers without one only prepare images, for which nothing is done.
The image of Python is a fresh virtual environment; all others are one that builds wheels.
"""

import os
import re
import shlex
import subprocess
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import NamedTuple

import pytest

PACKAGE_MANAGERS = ("apt-get", "apk", "dnf", "yum")


class Machine(NamedTuple):
    """The programs that stand for those of all containers."""

    tools: Path
    """A folder with `auditwheel`: the program to try."""
    builder: Path
    """A virtual environment with pip and build backends."""


class Container:
    """A container, as `docker.models.containers.Container`."""

    id = "local"

    def __init__(self, machine: Machine, image: str, paths: Mapping[str, Path]) -> None:
        """Make the environment of an image; `paths` are places in the container -> here."""
        self._machine = machine
        self._image = image
        self._folder = tempfile.TemporaryDirectory()
        self._home = machine.builder
        self._idle = "/io" not in paths
        if image.startswith("python:") and not self._idle:
            self._home = Path(self._folder.name, "python")
            make = [str(machine.builder / "bin/python"), "-m", "venv", "--without-pip"]
            subprocess.run([*make, str(self._home)], check=True)
        self._paths = {**paths, "/usr/local": self._home}

    def exec_run(
        self,
        cmd: str | Sequence[str],
        workdir: str | None = None,
        environment: Mapping[str, str] | None = None,
    ) -> tuple[int, bytes]:
        """Run a command here; return its exit code and what it prints."""
        if self._idle:
            return 0, b""
        words = [self._here(word) for word in (shlex.split(cmd) if isinstance(cmd, str) else cmd)]
        if words[0] in PACKAGE_MANAGERS:
            _require_packages(words)
            return 0, b""
        if words[0] == "pip":
            # Neither environment needs a pip of its own.
            pip = [str(self._machine.builder / "bin/python"), "-m", "pip", "-q"]
            target = [] if words[1] == "download" else ["--python", str(self._home / "bin/python")]
            words = [*pip, *target, *words[1:]]
        given = {name: self._here(value) for name, value in (environment or {}).items()}
        given.pop("COVERAGE_PROCESS_START", None)
        path = f"{self._machine.tools}:{self._home / 'bin'}:{os.environ['PATH']}"
        done = subprocess.run(
            words,
            cwd=self._here(workdir) if workdir else self._folder.name,
            env={**os.environ, "PATH": path, **given},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            check=False,
        )
        return done.returncode, done.stdout.replace(os.fsencode(self._home), b"/usr/local")

    def _here(self, text: str) -> str:
        """Replace the container's paths in `text`."""
        for inside, outside in self._paths.items():
            text = re.sub(rf"(?<![\w/.]){inside}(?![\w.-])", str(outside), text)
        return text

    def commit(self) -> SimpleNamespace:
        """Return an image: the same, as nothing was installed into it."""

        def remove(_name: str) -> None:
            """Do nothing: there is no image."""

        client = SimpleNamespace(images=SimpleNamespace(remove=remove))
        return SimpleNamespace(id=self._image, short_id=self._image, client=client)

    def remove(self, *, force: bool) -> None:
        """Remove the environment."""
        del force
        self._folder.cleanup()


def docker(machine: Machine) -> ModuleType:
    """Return what stands for the module `docker`."""

    def run(image: str, _: Sequence[str], **options: Mapping[str, Mapping[str, str]]) -> Container:
        volumes = options["volumes"].items()
        return Container(machine, image, {at["bind"]: Path(here) for here, at in volumes})

    client = SimpleNamespace(containers=SimpleNamespace(run=run))
    module = ModuleType("docker")
    module.__dict__["from_env"] = lambda: client
    return module


def _require_packages(words: Sequence[str]) -> None:
    """Skip the test unless the packages that it installs are on this machine (dpkg)."""
    packages = [word for word in words[1:] if word not in {"install", "add"} and word[0] != "-"]
    for package in packages:
        asked = subprocess.run(["dpkg", "-s", package], capture_output=True, check=False)
        if asked.returncode:
            pytest.skip(f"{package} is not installed on this machine")
