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
from collections.abc import Callable, Mapping
from enum import StrEnum
from importlib import import_module
from pathlib import Path
from typing import Any, NamedTuple, Self

from wheelfix.analysis.auditwheel_answer import Analysis, PolicyFindings
from wheelfix.analysis.ungraftable_libraries import UntrustedLibrary
from wheelfix.elf.constants import MAGIC
from wheelfix.errors import ToolError
from wheelfix.host.machine_files import (
    MAX_LIBRARY,
    Trust,
    UntrustedFileError,
    open_regular,
    trusted_file,
)
from wheelfix.system.workers import WorkerDiedError, WorkerProcess, WorkerTimeoutError
from wheelfix.text import overdue

_AGAIN = "was the machine overloaded, or out of memory? run it again"


class Question(NamedTuple):
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
    trust: Trust
    """Whose libraries may be grafted."""
    timeout: int
    """Seconds for the answer; 0 for no limit."""


class AuditwheelRefusal(StrEnum):
    """Why auditwheel has no analysis for a wheel."""

    LIBC_UNKNOWN = "no extension says for which C library it was built"
    NO_OBJECT = "no object is for the architecture of the wheel"


class Auditwheel:
    """auditwheel in worker processes. Use it as a context manager; threads may share it."""

    def __init__(self, environ: Mapping[str, str]) -> None:
        """Start no process yet; `environ` is the user's environment."""
        self.environ = environ
        self._idle: list[WorkerProcess] = []

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        while self._idle:
            self._idle.pop().kill()

    def analyze(self, question: Question) -> Analysis | AuditwheelRefusal:
        """Return auditwheel's analysis of a wheel, from a new process if the others are busy.

        Raises `ToolError` if it fails, takes too long, or ends its process.
        """
        try:
            worker = self._idle.pop()
        except IndexError:
            worker = _start()
        try:
            worker.start_call(analyze, question)
            answer: Analysis | AuditwheelRefusal | Exception
            answer = worker.answer(question.timeout or None)
        except BaseException:  # Ctrl-C
            worker.kill()
            raise
        if isinstance(answer, WorkerTimeoutError):
            raise ToolError(f"auditwheel {overdue(question.timeout)}", hint=_AGAIN)
        if isinstance(answer, WorkerDiedError):
            raise ToolError("auditwheel's process ended abruptly", hint=_AGAIN)
        self._idle.append(worker)
        if isinstance(answer, Exception):
            raise answer
        return answer


def _start() -> WorkerProcess:
    """Start a process. Raises `ToolError` if that is not possible."""
    try:
        return WorkerProcess()
    except OSError as error:
        raise ToolError(
            f"no process can be started for auditwheel: {error}",
            hint="is there enough memory, and a limit on processes (`ulimit -u`)?",
        ) from error


# --- In the worker process ------------------------------------------------------------------------
# auditwheel has no types, and is imported in that process alone, while ours goes on.


def analyze(question: Question) -> Analysis | AuditwheelRefusal | ToolError:
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
        frame = traceback.extract_tb(error.__traceback__)[-1]
        words = " ".join(str(error).split())
        return ToolError(
            f"auditwheel failed: {type(error).__name__}: {words} ({Path(frame.filename).name}, "
            f"line {frame.lineno})",
            hint="`auditwheel show` on the same wheel may say more",
        )


def _analyze(question: Question) -> Analysis | AuditwheelRefusal:
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
    wheel_abi.json = _NoJson  # of whole trees, for messages of a level below INFO
    candidates = _Candidates(question.trust, lddtree.find_lib)
    lddtree.find_lib = candidates.find_lib
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
        return AuditwheelRefusal.NO_OBJECT
    except errors.InvalidLibcError:
        return AuditwheelRefusal.LIBC_UNKNOWN
    finally:
        lddtree.find_lib = candidates.original
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
        excluded=frozenset(records.excluded),
        warnings=tuple(records.warnings),
        untrusted=tuple(candidates.untrusted),
        searched=(),
    )


class _NoJson:
    """In the place of `auditwheel.json`, whose texts take a third of the time of an analysis."""

    @staticmethod
    def dumps(_: object) -> str:
        return ""


class _Candidates:
    """The files that auditwheel may open in search of a library, in the place of all that exist.

    It would wait for a FIFO or for a link to itself, and fails for what is not an ELF file.
    """

    def __init__(self, trust: Trust, original: Callable[..., Any]) -> None:
        self.original = original
        """`find_lib` of auditwheel's lddtree.py."""
        self.untrusted: dict[UntrustedLibrary, None] = {}
        self._trust = trust

    def find_lib(self, platform: object, lib: str, ldpaths: list[str], *others: object) -> object:
        """Search the folders that have a library of that name which no other user can change."""
        usable = [folder for folder in ldpaths if self._is_usable(folder, lib)]
        return self.original(platform, lib, usable, *others)

    def _is_usable(self, folder: str, lib: str) -> bool:
        path = Path(folder, lib)
        try:
            with open_regular(path) as file:
                if file.read(4) != MAGIC:
                    return False
            trusted_file(path, MAX_LIBRARY, trust=self._trust)
        except UntrustedFileError as error:
            reason = f"`{path}` is not used, as `{error.filename}` {error.strerror}"
            self.untrusted[UntrustedLibrary(lib, reason, error.remedy)] = None
            return False
        except OSError:
            return False
        return True


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
