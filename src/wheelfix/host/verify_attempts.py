"""Attempts of a verification: what to load, import and run, and its execution by the probe."""

import json
import os
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from wheelfix.elf.model import Elf
from wheelfix.errors import ToolError
from wheelfix.host.installed_files import File
from wheelfix.host.pythons import FreshEnvironment, Interpreter
from wheelfix.host.verify_model import Attempt, AttemptKind, Options
from wheelfix.system.subprocesses import run
from wheelfix.wheel.model import Wheel

_PROBE = Path(__file__).with_name("verify_probe.py")

Answer = Mapping[str, Any]
"""What the probe answers to one attempt; `verify_probe` has the keys."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WheelUnderTest:
    """A wheel that is installed in a fresh environment."""

    wheel: Wheel
    files: Mapping[str, File]
    """The installed files, by member."""
    site: Path
    """The folder of its packages."""
    place: FreshEnvironment
    options: Options
    python: Interpreter

    @property
    def members(self) -> Mapping[str, str]:
        """The members by installed path."""
        return {file.path: member for member, file in self.files.items()}


# --- What to try ----------------------------------------------------------------------------------


def attempts(subject: WheelUnderTest) -> Iterator[Attempt]:
    """Yield an attempt for every object, extension module, package with objects, and program."""
    for member, elf in subject.wheel.elfs.items():
        file = subject.files.get(member)
        if file is None or not elf.dynamic or elf.is_executable:
            continue
        yield Attempt(AttemptKind.LOAD, member, file.path)
        module = _module(subject, member, elf)
        if module is not None:
            yield Attempt(AttemptKind.IMPORT, member, module)
    for package, member in _packages(subject):
        yield Attempt(AttemptKind.IMPORT, member, package)
    for member in _programs(subject):
        yield Attempt(AttemptKind.RUN, member, subject.files[member].path)


def _module(subject: WheelUnderTest, member: str, elf: Elf) -> str | None:
    """Return the name to import `member` by, None if it is no extension module of this Python."""
    path = subject.files[member].path
    if not elf.module_hooks or not path.startswith(f"{subject.site}/"):
        return None
    relative = path.removeprefix(f"{subject.site}/")
    for suffix in subject.python.suffixes:
        if relative.endswith(suffix):
            parts = relative.removesuffix(suffix).split("/")
            if any("." in part or not part.isidentifier() for part in parts):
                return None
            hooks = {f"PyInit_{parts[-1]}", f"PyModExport_{parts[-1]}"}
            return ".".join(parts) if hooks.intersection(elf.module_hooks) else None
    return None


def _packages(subject: WheelUnderTest) -> Iterator[tuple[str, str]]:
    """Yield the packages with objects, but without an extension module that imports them."""
    modules = {
        member.partition("/")[0]
        for member, elf in subject.wheel.elfs.items()
        if member in subject.files and _module(subject, member, elf) is not None
    }
    for top in dict.fromkeys(member.partition("/")[0] for member in subject.wheel.elfs):
        member = f"{top}/__init__.py"
        if member in subject.files and top.isidentifier() and top not in modules:
            yield top, member


def _programs(subject: WheelUnderTest) -> Iterator[str]:
    """Yield the members that are programs: the wheel's scripts, and executable ELF files."""
    scripts = f"{subject.wheel.data_dir}/scripts/"
    for member in subject.wheel.members:
        elf = subject.wheel.elfs.get(member.name)
        if member.name not in subject.files:
            continue
        is_program = elf is not None and elf.is_executable
        if is_program and not os.access(subject.files[member.name].path, os.X_OK):
            continue
        if member.name.startswith(scripts) or is_program:
            yield member.name


# --- Execution ------------------------------------------------------------------------------------


def run_attempts(subject: WheelUnderTest, planned: Sequence[Attempt]) -> list[Answer]:
    """Run the attempts, each in a process of its own; return the answers in the same order.

    Raises `ToolError` if the Python under test fails to run the probe.
    """
    count = max(1, min(subject.options.jobs, len(planned)))
    parts = [planned[number::count] for number in range(count)]
    with ThreadPoolExecutor(count) as pool:
        answered = list(pool.map(partial(_run_probe, subject), parts))
    answers: list[Answer] = [{}] * len(planned)
    for number, some in enumerate(answered):
        answers[number::count] = some
    return answers


def _run_probe(subject: WheelUnderTest, planned: Sequence[Attempt]) -> list[Answer]:
    """Run the attempts by one process of the probe, which forks for each."""
    jobs = [
        {
            "kind": attempt.kind,
            "what": _command(subject, attempt) if attempt.kind is AttemptKind.RUN else attempt.what,
            "timeout": subject.options.timeout,
        }
        for attempt in planned
    ]
    python = subject.place.python
    done = run(
        [python, "-B", "-u", str(_PROBE)],
        env=subject.place.environ,
        cwd=subject.place.root.parent / "home",
        stdin="".join(f"{json.dumps(job)}\n" for job in jobs),
        timeout=(subject.options.timeout + 10) * max(1, len(jobs)),
        accepted=range(-64, 256),
    )
    answers = [json.loads(line) for line in done.stdout.splitlines()]
    if len(answers) != len(jobs):
        raise ToolError(
            f"`{python}` ended before all attempts were made: {done.stderr.strip()[-2000:]}",
            hint="does this Python run at all?",
        )
    return answers


def _command(subject: WheelUnderTest, attempt: Attempt) -> list[str]:
    name = attempt.what.rpartition("/")[2]
    for command in subject.options.runs:
        if command[0] == name:
            return [attempt.what, *command[1:]]
    return [attempt.what, "--version"]
