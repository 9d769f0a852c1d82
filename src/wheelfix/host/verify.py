"""Install a wheel, load every object, import every module, run every program, and tell.

Each attempt is a process of its own, with every symbol bound at once, in an environment that was
made for it and goes with it. What was loaded is held against what the model of the loader said.
"""

import json
import os
import re
import signal
import sys
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from enum import StrEnum
from functools import partial
from pathlib import Path
from typing import Any

from wheelfix.analysis.providers import provider_known_for
from wheelfix.elf.model import Elf
from wheelfix.errors import SettingsError, ToolError
from wheelfix.host.installed_files import read_file
from wheelfix.host.machine import describe
from wheelfix.host.pythons import (
    EVERY,
    SPREAD,
    Interpreter,
    Place,
    all_pythons,
    find,
    install,
    interpreter,
    is_there,
    make,
    make_spread,
)
from wheelfix.host.trace_model import File
from wheelfix.loader.install_schemes import Scheme, interpreters, schemes
from wheelfix.loader.model import Load, Request
from wheelfix.loader.search import load_all
from wheelfix.system.scratch import scratch
from wheelfix.system.subprocesses import finish, start
from wheelfix.wheel.model import Wheel, WheelName
from wheelfix.wheel.reader import open_wheel

_PROBE = Path(__file__).with_name("verify_probe.py")
_MISSING = re.compile(r"([^\s:'\"]+): cannot open shared object file: No such file or directory")
_MUSL_MISSING = re.compile(r"Error loading shared library ([^\s:]+): No such file or directory")
_UNDEFINED = re.compile(r"undefined symbol: ([^\s,]+)")
_MUSL_UNDEFINED = re.compile(r"Error relocating \S+: ([^\s:]+): symbol not found")
_VERSION = re.compile(r"version [`'](\S+)' not found \(required by ([^)]+)\)")
_FRAME = re.compile(
    r"  File \"(<frozen importlib|[^\"]*/(importlib/__init__|wheelfix/host/verify_probe)\.py\")"
)
_NO_MODULE = re.compile(r"No module named '([\w.]+)'")
_LOADER = re.compile(
    r"invalid ELF header|file too short|wrong ELF class|cannot (enable|make|apply|map|allocate)|"
    r"ELF load command|ELF file|only ET_DYN|cannot dynamically load|Exec format error|"
    r"Error loading shared library|initial-exec|static TLS"
)


class Status(StrEnum):
    """How one attempt ended."""

    OK = "ok"
    NEEDS = "needs another distribution"
    """An import asked for a module that is not the wheel's, and not installed."""
    RAISED = "raised an exception"
    """The objects are loaded; the module's own code refused to go on."""
    EXITED = "exit code"
    """A program that starts does not know the arguments."""
    MISSING = "missing library"
    UNDEFINED = "undefined symbol"
    VERSION = "missing symbol version"
    REFUSED = "refused by the loader"
    CRASHED = "crashed"
    HUNG = "hung"
    DIFFERS = "differs from the prediction"


_MILD = frozenset({Status.OK, Status.NEEDS, Status.RAISED, Status.EXITED})


class Kind(StrEnum):
    """What was attempted."""

    LOAD = "load"
    IMPORT = "import"
    RUN = "run"


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """What to verify, and how long it may take."""

    pythons: tuple[str, ...] = ()
    """Their paths; none means the one that runs wheelfix, or else one that the tags allow."""
    schemes: tuple[str, ...] = ("venv",)
    dependencies: bool = False
    """Install what the wheel requires, from the index that the installer is configured for."""
    beside: tuple[Path, ...] = ()
    """Other wheels to install with it, without what they require."""
    runs: tuple[tuple[str, ...], ...] = ()
    """Commands in place of `--version`, by the program's name."""
    timeout: float = 60
    """Seconds for each attempt."""
    jobs: int = 2


@dataclass(frozen=True, slots=True, kw_only=True)
class Check:
    """One attempt, and what came of it."""

    kind: Kind
    member: str
    what: str
    """The installed path, the module's name, or the command."""
    status: Status = Status.OK
    message: str = ""
    explanation: tuple[str, ...] = ()
    tail: str = ""
    """The last lines that it printed."""
    loaded: tuple[str, ...] = ()
    """The members that were in the process afterwards."""

    @property
    def failed(self) -> bool:
        """Whether the wheel is to blame."""
        return self.status not in _MILD


@dataclass(frozen=True, slots=True, kw_only=True)
class Verified:
    """What became of one wheel in one environment."""

    wheel: str
    scheme: str
    python: str
    """As `layout` names it."""
    interpreter: str
    """Its path."""
    checks: tuple[Check, ...] = ()
    lost: tuple[str, ...] = ()
    """Objects of the wheel that the installer did not install."""

    @property
    def failed(self) -> bool:
        """Whether anything failed."""
        return any(check.failed for check in self.checks)


def verify(
    path: Path, options: Options, environ: Mapping[str, str], *, name: WheelName | None = None
) -> Iterator[Verified]:
    """Install the wheel at `path` in each environment that is asked for, and try everything.

    `name` is what it is called, if not like its file. Raises `WheelfixError` if it cannot be
    read, or not be installed.
    """
    with open_wheel(path, name=name) as archive:
        wheel = archive.wheel
    for python in _pythons(wheel.name, options.pythons, environ):
        for scheme in _schemes(wheel.name, python, options.schemes):
            with scratch() as folder:
                root = Path(os.path.realpath(folder))
                yield _verify(path, wheel, python, scheme, root, options, environ)


def _allowed(name: WheelName, python: Interpreter) -> dict[str, Scheme]:
    """Return the schemes that the tags allow for `python`, by name."""
    return {each.name: each for each in schemes(name) if each.python == python.name}


def _schemes(name: WheelName, python: Interpreter, wanted: Sequence[str]) -> tuple[str, ...]:
    """Return the schemes to make; `SettingsError` for one that the tags rule out."""
    allowed = _allowed(name, python)
    usable = tuple(each for each in EVERY if each in allowed and is_there(each))
    foreign = next((each for each in wanted if each in SPREAD and each not in allowed), None)
    if foreign is not None:
        raise SettingsError(
            f"`{name}` is not installed by `{foreign}` for {python.name}",
            hint=f"its tags allow {', '.join(usable)}",
        )
    return tuple(
        dict.fromkeys(s for each in wanted for s in (usable if each == "all" else (each,)))
    )


def _pythons(
    name: WheelName, wanted: Sequence[str], environ: Mapping[str, str]
) -> tuple[Interpreter, ...]:
    """Return the Pythons to verify `name` with; `SettingsError` if its tags allow none of them."""
    allowed = interpreters(name)
    found = [interpreter(python, environ) for python in wanted or (sys.executable,)]
    usable = tuple(each for each in found if each.name in allowed)
    if not usable and not wanted:
        others = (interpreter(python, environ) for python in all_pythons(environ))
        usable = tuple(each for each in others if each.name in allowed)[-1:]
    if not usable:
        raise SettingsError(
            f"`{name}` cannot be installed for {', '.join(each.name for each in found)}: "
            f"its tags allow {', '.join(allowed)}",
            hint="install one of these Pythons, and name it with --python",
        )
    return usable


# --- One environment ------------------------------------------------------------------------------


def _verify(  # noqa: PLR0913, PLR0917 - one for each thing that is chosen
    path: Path,
    wheel: Wheel,
    python: Interpreter,
    scheme: str,
    root: Path,
    options: Options,
    environ: Mapping[str, str],
) -> Verified:
    known = _allowed(wheel.name, python).get(scheme)
    if known is not None and scheme in SPREAD:
        place = make_spread(known, python, root, environ)
    else:
        place = make(scheme, python, root, environ)
    install(
        path,
        wheel,
        place,
        environ,
        dependencies=options.dependencies,
        beside=options.beside,
    )
    site, files = find(place.root, wheel, known)
    paths = dict.fromkeys((str(site), *place.paths))
    is_venv = scheme.startswith("venv")
    environment = {**place.environ, **({} if is_venv else {"PYTHONPATH": ":".join(paths)})}
    work = _Work(
        wheel=wheel,
        files=files,
        site=site,
        place=replace(place, environ=environment),
        options=options,
        python=python,
    )
    lost = tuple(member for member in wheel.elfs if member not in files)
    checks = tuple(_checks(work))
    return Verified(
        wheel=str(wheel.name),
        scheme=scheme,
        python=python.name,
        interpreter=python.path,
        checks=checks,
        lost=lost,
    )


# --- What to try ----------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class _Work:
    """One installed wheel, and what is known of it."""

    wheel: Wheel
    files: Mapping[str, File]
    site: Path
    place: Place
    options: Options
    python: Interpreter

    def of_wheel(self, maps: Sequence[Sequence[str]]) -> tuple[str, ...]:
        """Return the members among the files of a process."""
        by_path = {file.path: member for member, file in self.files.items()}
        return tuple(by_path[path] for _, _, path in maps if path in by_path)


def _checks(work: _Work) -> Iterator[Check]:
    jobs = list(_jobs(work))
    share = max(1, min(work.options.jobs, len(jobs)))
    parts = [jobs[number::share] for number in range(share)]
    with ThreadPoolExecutor(share) as pool:
        answers = list(pool.map(partial(_serve, work), parts))
    done = [
        (job, answer)
        for part, some in zip(parts, answers, strict=True)
        for job, answer in zip(part, some, strict=True)
    ]
    order = {id(job): number for number, job in enumerate(jobs)}
    done.sort(key=lambda pair: order[id(pair[0])])
    foretold = _foretold(work)
    checks = [_check(work, job, answer, foretold) for job, answer in done]
    yield from _reconsidered(checks)


def _jobs(work: _Work) -> Iterator[Check]:
    for member, elf in work.wheel.elfs.items():
        file = work.files.get(member)
        if file is None or not elf.dynamic:
            continue
        if not elf.is_executable:
            yield Check(kind=Kind.LOAD, member=member, what=file.path)
            module = _module(work, member, elf)
            if module is not None:
                yield Check(kind=Kind.IMPORT, member=member, what=module)
    for package, member in _packages(work):
        yield Check(kind=Kind.IMPORT, member=member, what=package)
    for member in _programs(work):
        yield Check(kind=Kind.RUN, member=member, what=work.files[member].path)


def _module(work: _Work, member: str, elf: Elf) -> str | None:
    """Return the name to import `member` by, None if it is no extension module of this Python."""
    path = work.files[member].path
    if not elf.module_hooks or not path.startswith(f"{work.site}/"):
        return None
    relative = path.removeprefix(f"{work.site}/")
    for suffix in work.python.suffixes:
        if relative.endswith(suffix):
            parts = relative.removesuffix(suffix).split("/")
            if any("." in part or not part.isidentifier() for part in parts):
                return None
            hooks = {f"PyInit_{parts[-1]}", f"PyModExport_{parts[-1]}"}
            return ".".join(parts) if hooks.intersection(elf.module_hooks) else None
    return None


def _packages(work: _Work) -> Iterator[tuple[str, str]]:
    """Yield the packages with libraries, and no extension module whose import would run them."""
    modules = {
        member.partition("/")[0]
        for member, elf in work.wheel.elfs.items()
        if member in work.files and _module(work, member, elf) is not None
    }
    for top in dict.fromkeys(member.partition("/")[0] for member in work.wheel.elfs):
        member = f"{top}/__init__.py"
        if member in work.files and top.isidentifier() and top not in modules:
            yield top, member


def _programs(work: _Work) -> Iterator[str]:
    """Yield the members that are programs: the wheel's scripts, and executable ELF files."""
    scripts = f"{work.wheel.data_dir}/scripts/"
    for member in work.wheel.members:
        elf = work.wheel.elfs.get(member.name)
        if member.name not in work.files:
            continue
        is_program = elf is not None and elf.is_executable
        if is_program and not os.access(work.files[member.name].path, os.X_OK):
            continue
        if member.name.startswith(scripts) or is_program:
            yield member.name


def _serve(work: _Work, jobs: Sequence[Check]) -> list[dict[str, Any]]:
    """Have the jobs done by one server, which forks for each."""
    lines = [
        json.dumps(
            {
                "kind": job.kind,
                "what": _argv(work, job) if job.kind is Kind.RUN else job.what,
                "timeout": work.options.timeout,
            }
        )
        for job in jobs
    ]
    command = [work.place.python, "-B", "-u", str(_PROBE)]
    home = work.place.root.parent / "home"
    limit = (work.options.timeout + 10) * max(1, len(jobs))
    server = start(command, env=work.place.environ, cwd=home)
    task = "".join(f"{line}\n" for line in lines)
    name = work.place.python
    done = finish(server, command, name=name, task=task, timeout=limit, accepted=range(-64, 256))
    answers = [json.loads(line) for line in done.stdout.splitlines()]
    if len(answers) != len(jobs):
        raise ToolError(
            f"`{work.place.python}` ended amid the work: {done.stderr.strip()[-2000:]}",
            hint="does this Python run at all?",
        )
    return answers


def _argv(work: _Work, job: Check) -> list[str]:
    name = job.what.rpartition("/")[2]
    for command in work.options.runs:
        if command[0] == name:
            return [job.what, *command[1:]]
    return [job.what, "--version"]


# --- What came of it ------------------------------------------------------------------------------


def _foretold(work: _Work) -> Mapping[str, Load]:
    """Return what the model says of each object, by installed path."""
    roots = [
        work.files[member].path
        for member, elf in work.wheel.elfs.items()
        if elf.dynamic and member in work.files
    ]
    if not roots:
        return {}
    program = os.path.realpath(work.place.python)
    if read_file(program) is None:  # a Python that is a script
        return {}
    first = (work.python.ctypes,) if work.python.ctypes else ()
    environment = describe(program, (*first, *roots))
    return {root: load_all((*first, root), environment)[-1] for root in roots}


def _check(
    work: _Work, job: Check, answer: Mapping[str, Any], foretold: Mapping[str, Load]
) -> Check:
    status, message = _status(work, job, answer)
    loaded = work.of_wheel(answer.get("maps", ()))
    check = replace(
        job, status=status, message=message, loaded=loaded, tail=_said(str(answer.get("tail", "")))
    )
    load = foretold.get(work.files[job.member].path)
    if job.kind is not Kind.LOAD or load is None:
        return replace(check, explanation=tuple(_explained(check, load, work)))
    return _compared(check, load, work)


def _said(tail: str) -> str:
    """Return what was printed, without the frames of a traceback that are the same each time."""
    return "".join(line for line in tail.splitlines(keepends=True) if not _FRAME.match(line))


def _status(  # noqa: PLR0911 - one for each way to end
    work: _Work, job: Check, answer: Mapping[str, Any]
) -> tuple[Status, str]:
    """Say how an attempt ended, and in whose words."""
    if answer.get("hang"):
        return Status.HUNG, f"did not end within {work.options.timeout:g} seconds"
    code = int(answer["code"])
    if code < 0:
        return Status.CRASHED, f"killed by signal {-code} ({_signal(-code)})"
    if job.kind is Kind.RUN:
        known = _loader_status(answer["tail"]) if code else None
        if known is not None:
            return known
        last = answer["tail"].strip().splitlines()[-1:]
        return (Status.EXITED, f"exit code {code}: {''.join(last)}") if code else (Status.OK, "")
    if "error" not in answer:
        done = "maps" in answer
        return (Status.OK, "") if done else (Status.CRASHED, f"ended itself with exit code {code}")
    error = str(answer["error"])
    known = _loader_status(error)
    if known is not None:
        return known
    if job.kind is Kind.LOAD:
        return Status.REFUSED, error
    foreign = _foreign(work, answer)
    if foreign is not None:
        return Status.NEEDS, foreign
    return Status.RAISED, f"{answer['type']}: {error}"


def _foreign(work: _Work, answer: Mapping[str, Any]) -> str | None:
    """Return the package of another distribution that an import did not find."""
    tops = {member.name.partition("/")[0] for member in work.wheel.members}
    printed = _NO_MODULE.findall(str(answer.get("tail", "")))
    absent = (str(name).partition(".")[0] for name in (*answer.get("absent", ()), *printed))
    return next((name for name in absent if name not in tops), None)


def _loader_status(text: str) -> tuple[Status, str] | None:
    """Recognise what glibc's and musl's loaders say (dl-error strings of both)."""
    for pattern, status in (
        (_MISSING, Status.MISSING),
        (_MUSL_MISSING, Status.MISSING),
        (_VERSION, Status.VERSION),
        (_UNDEFINED, Status.UNDEFINED),
        (_MUSL_UNDEFINED, Status.UNDEFINED),
        (_LOADER, Status.REFUSED),
    ):
        match = pattern.search(text)
        if match is not None:
            start = text.rfind("\n", 0, match.start()) + 1
            line = text[start:].partition("\n")[0]
            return status, line.strip()
    return None


def _signal(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return "unknown"


def _compared(check: Check, load: Load, work: _Work) -> Check:
    """Hold what was loaded against the prediction, and explain a failure by it."""
    by_path = {file.path: member for member, file in work.files.items()}
    expected = {by_path[path] for path in load.objects if path in by_path}
    if check.status is Status.OK:
        if load.missing:
            names = ", ".join(request.name for request in load.missing)
            said = f"it loads, but the model says that {names} is missing"
            return replace(check, status=Status.DIFFERS, message=said)
        lacking = expected - set(check.loaded)
        if lacking:
            said = f"the model says that it loads {', '.join(sorted(lacking))} too"
            return replace(check, status=Status.DIFFERS, message=said)
        return check
    return replace(check, explanation=tuple(_explained(check, load, work)))


def _explained(check: Check, load: Load | None, work: _Work) -> Iterator[str]:
    if load is None:
        return
    if check.status is Status.MISSING:
        match = _MISSING.search(check.message) or _MUSL_MISSING.search(check.message)
        missing = [r for r in load.missing if match is None or r.name == match[1]]
        for request in missing[:1]:
            yield from _why_missing(request, work)
        if match is not None and (known := provider_known_for(match[1])):
            yield known
        if not missing and check.kind is not Kind.RUN:
            yield "the model says that this library is found: something else asks for it"
    if check.status is Status.UNDEFINED:
        match = _UNDEFINED.search(check.message) or _MUSL_UNDEFINED.search(check.message)
        elf = work.wheel.elfs.get(check.member)
        own = next(
            (u for u in (elf.undefined if elf else ()) if match and u.name == match[1]), None
        )
        if own is not None and own.file is not None:
            yield f"it was linked against {own.file}, which defined it as {own.name}@{own.version}"
        elif elf is not None and own is not None:
            yield f"it needs {', '.join(elf.needed) or 'no library'}, and none of them defines it"
    if check.status in {Status.CRASHED, Status.HUNG}:
        yield from _where(check)


def _where(check: Check) -> Iterator[str]:
    """Say which code runs in such an attempt."""
    match check.kind:
        case Kind.LOAD:
            yield "it happened in its own constructors, or in those of a library that it loads"
        case Kind.IMPORT:
            hook = f"PyInit_{check.what.rpartition('.')[2]}"
            yield f"it happened in {hook}, in constructors, or in Python code of its packages"
        case Kind.RUN:
            return


def _why_missing(request: Request, work: _Work) -> Iterator[str]:
    """Say where the loader looked, in its order."""
    root = f"{work.place.root}/"
    asker = (request.requester or "").removeprefix(root)
    yield f"{request.name} is needed by {asker}"
    if not request.candidates:
        yield "it has no search path, and the system has no such library"
    for each in request.candidates[:12]:
        by = f" by `{each.entry}`" if each.entry else ""
        yield f"{each.path.removeprefix(root)}: {each.outcome} ({each.how}{by})"
    shipped = [m for m in work.wheel.elfs if m.rpartition("/")[2] == request.name]
    if shipped:
        yield f"the wheel has it as {shipped[0]}, where no entry leads"


def _reconsidered(checks: Sequence[Check]) -> Iterator[Check]:
    """Yield the checks; a library that its package brings together is not to blame alone.

    An object that does not load by itself is fine if another one, or an import, has loaded it:
    it has what it needs from there.
    """
    brought = {member for check in checks if check.status is Status.OK for member in check.loaded}
    for check in checks:
        mild = check.status in {Status.MISSING, Status.UNDEFINED}
        if check.kind is Kind.LOAD and mild and check.member in brought:
            note = f"alone: {check.message}; who loads it brings what it needs"
            yield replace(check, status=Status.OK, message=note, explanation=())
        else:
            yield check
