"""Worker processes in which auditwheel analyses wheels.

auditwheel changes the working directory, reads its settings from the environment and caches what it
has read: it needs a process of its own. `auditwheel.wheel_abi.analyze_wheel_abi` is what both
`auditwheel repair` and `auditwheel show` call first. It is not public; pyproject.toml names the
releases that have it in this form, and `scripts/tool_versions.py` tries them.
"""

import logging
import os
import tempfile
import traceback
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from enum import StrEnum
from importlib import import_module
from pathlib import Path
from typing import Any, NamedTuple, Self

from wheelfix.errors import ToolError
from wheelfix.system.workers import WorkerDiedError, WorkerProcess, WorkerTimeoutError

TIMEOUT = 600
"""Seconds for the analysis of one wheel."""
_AGAIN = "was the machine overloaded, or out of memory? run it again"


@dataclass(frozen=True, slots=True, kw_only=True)
class Question:
    """What auditwheel is asked about a wheel."""

    wheel: Path
    exclude: frozenset[str]
    """Patterns for names in DT_NEEDED, and for paths of this machine's libraries."""
    platform: str | None
    """The platform tag to reach with grafts, or `auto`; None to judge the wheel as it is."""
    ldpaths: str | None
    """The folders to search in place of the system's, separated by colons."""
    isa_ext_check: bool
    environ: Mapping[str, str]
    """The whole environment that auditwheel sees."""


class PolicyFindings(NamedTuple):
    """The findings of auditwheel for one platform policy."""

    name: str
    """The platform tag: `manylinux_2_17_x86_64`."""
    aliases: tuple[str, ...]
    """Older names of the same tag: `manylinux2014_x86_64`."""
    external: Mapping[str, Path | None]
    """Libraries that neither the policy nor the wheel provides -> where this machine has them."""
    blacklisted: Mapping[str, Sequence[str]]
    """Library -> its symbols that the wheel uses and the policy forbids."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Analysis:
    """The findings of auditwheel for a wheel (its `WheelAbIInfo`)."""

    policies: tuple[PolicyFindings, ...]
    """The weakest first, which is `linux_<arch>`: it promises nothing."""
    overall: str
    """The name of the best policy that the wheel meets."""
    symbols: str
    """The best policy by symbol versions alone; so for the following."""
    ucs2: str
    pyfpe: str
    blacklist: str
    machine: str
    external: Mapping[str, Mapping[str, Mapping[str, Path | None]]]
    """Object -> name of the policy -> libraries to graft for it, and those that they need."""
    libpython: frozenset[str]
    """The libraries among these that are no library to graft, but a DT_NEEDED entry to remove."""
    excluded: frozenset[str]
    """Names in DT_NEEDED, and paths of this machine, that a pattern of `exclude` matched."""
    warnings: tuple[str, ...]


class Refusal(StrEnum):
    """Why auditwheel has no analysis for a wheel."""

    LIBC_UNKNOWN = "no extension says for which C library it was built"
    NO_OBJECT = "no object is for the architecture of the wheel"


class Auditwheel:
    """auditwheel in worker processes. Use it as a context manager; threads may share it."""

    def __init__(self, environ: Mapping[str, str], processes: int = 1) -> None:
        """Start no process yet; `environ` is the user's environment."""
        self.environ = environ
        self._processes = processes
        self._idle: list[WorkerProcess] = []

    def __enter__(self) -> Self:
        """Start the processes, which import auditwheel while the caller goes on.

        If none can be started, `analyze` says so.
        """
        with suppress(ToolError):
            while len(self._idle) < self._processes:
                self._idle.append(_start())
        return self

    def __exit__(self, *_: object) -> None:
        while self._idle:
            self._idle.pop().kill()

    def analyze(self, question: Question) -> Analysis | Refusal:
        """Return auditwheel's analysis of a wheel.

        Raises `ToolError` if it fails, takes longer than `TIMEOUT`, or ends its process.
        """
        try:
            worker = self._idle.pop()
        except IndexError:
            worker = _start()
        try:
            worker.start_call(analyze, question)
            answer: Analysis | Refusal | Exception = worker.answer(TIMEOUT)
        except BaseException:  # Ctrl-C
            worker.kill()
            raise
        if isinstance(answer, WorkerTimeoutError):
            raise ToolError(f"auditwheel did not end within {TIMEOUT:g} seconds", hint=_AGAIN)
        if isinstance(answer, WorkerDiedError):
            raise ToolError("auditwheel's process ended abruptly", hint=_AGAIN)
        self._idle.append(worker)
        if isinstance(answer, Exception):
            raise answer
        return answer


def _start() -> WorkerProcess:
    """Start a process. Raises `ToolError` if that is not possible."""
    try:
        return WorkerProcess(_import)
    except OSError as error:
        raise ToolError(
            f"no process can be started for auditwheel: {error}",
            hint="is there enough memory, and a limit on processes (`ulimit -u`)?",
        ) from error


# --- In the worker process ------------------------------------------------------------------------
# auditwheel has no types, and is imported in that process alone, while ours goes on.


def _import() -> None:
    """Import what `analyze` needs; that reports a failure."""
    with suppress(BaseException):
        import_module("auditwheel.wheel_abi")


def analyze(question: Question) -> Analysis | Refusal | ToolError:
    """Let auditwheel analyse a wheel, in this process, as its `repair` and `show` do.

    Return an error with auditwheel's own words if it fails.
    """
    os.environ.clear()
    os.environ.update(question.environ)
    os.chdir(question.wheel.parent)
    tempfile.tempdir = None  # so that TMPDIR is read again
    try:
        return _analyze(question)
    except BaseException as error:  # noqa: BLE001 - a border: whatever it raises is its failure
        trace = "".join(traceback.format_exception(error, limit=-5)).rstrip()
        return ToolError(
            f"auditwheel failed: {type(error).__name__}: {error}\n{trace}",
            hint="`auditwheel show` on the same wheel may say more",
        )


def _analyze(question: Question) -> Analysis | Refusal:
    wheel_abi: Any = import_module("auditwheel.wheel_abi")
    lddtree: Any = import_module("auditwheel.lddtree")
    errors: Any = import_module("auditwheel.error")
    for cached in (lddtree.load_ld_paths, lddtree.parse_ld_so_conf, wheel_abi.get_wheel_elfdata):
        cached.cache_clear()  # of another environment, or of a file that is gone
    records = _Records()
    logger = logging.getLogger("auditwheel")
    logger.handlers[:], logger.propagate = [records], False
    logger.setLevel(logging.INFO)
    libc, architecture, platform = _target(question)
    try:
        info = wheel_abi.analyze_wheel_abi(
            libc,
            architecture,
            question.wheel,
            question.exclude,
            disable_isa_ext_check=not question.isa_ext_check,
            allow_graft=platform is not None,
            requested_policy_base_name=platform,
            args_ldpaths=question.ldpaths,
        )
    except errors.NonPlatformWheelError:
        return Refusal.NO_OBJECT
    except errors.InvalidLibcError:
        return Refusal.LIBC_UNKNOWN
    external = {
        place.as_posix(): {name: reference.libs for name, reference in references.items()}
        for place, references in info.full_external_refs.items()
    }
    return Analysis(
        policies=tuple(
            PolicyFindings(policy.name, policy.aliases, found.libs, found.blacklist)
            for policy in info.policies
            for found in [info.external_refs[policy.name]]
        ),
        overall=info.overall_policy.name,
        symbols=info.sym_policy.name,
        ucs2=info.ucs_policy.name,
        pyfpe=info.pyfpe_policy.name,
        blacklist=info.blacklist_policy.name,
        machine=info.machine_policy.name,
        external=external,
        libpython=frozenset(
            name
            for references in external.values()
            for libraries in references.values()
            for name in libraries
            if lddtree.LIBPYTHON_RE.match(name)
        ),
        excluded=frozenset(records.excluded),
        warnings=tuple(records.warnings),
    )


def _target(question: Question) -> tuple[Any, Any, str | None]:
    """Return the C library, the architecture and the platform without it, as auditwheel has them.

    The file name goes before the platform that was asked for (auditwheel's main_repair.py).
    """
    architectures: Any = import_module("auditwheel.architecture").Architecture
    libcs: Any = import_module("auditwheel.libc").Libc
    errors: Any = import_module("auditwheel.error")
    wheeltools: Any = import_module("auditwheel.wheeltools")
    platform = question.platform or ""
    suffixes = {f"_{architecture.value}": architecture for architecture in architectures}
    suffix = next(filter(platform.endswith, suffixes), "")
    try:
        architecture = wheeltools.get_wheel_architecture(question.wheel.name)
    except (errors.WheelToolsError, errors.NonPlatformWheelError):
        architecture = suffixes.get(suffix)
    try:
        libc = wheeltools.get_wheel_libc(question.wheel.name)
    except errors.WheelToolsError:
        libc = next((lib for lib in libcs if platform.startswith(lib.tag_prefix)), None)
    return libc, architecture, platform.removesuffix(suffix) or None


class _Records(logging.Handler):
    """Messages of auditwheel that are not in its result."""

    def __init__(self) -> None:
        super().__init__()
        self.excluded: list[str] = []
        self.warnings: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        """Keep warnings, and the names and paths of what is excluded."""
        if record.levelno >= logging.WARNING:
            self.warnings.append(record.getMessage())
        elif record.msg == "Excluding %s" and isinstance(record.args, tuple):  # lddtree.py, `ldd`
            self.excluded.append(str(record.args[0]))
