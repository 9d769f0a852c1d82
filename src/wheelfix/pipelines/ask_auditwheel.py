"""auditwheel's own answer about a wheel: what `auditwheel show --json` prints of a view of it.

That command and its JSON are auditwheel's public interface (its show-schema.json). It runs in a
process of its own, which is started early, so that its import ends before the question is asked,
and serves all wheels of a run.
"""

import io
import json
import logging
import os
import sys
import tempfile
import traceback
import zipfile
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import contextmanager, redirect_stderr, redirect_stdout, suppress
from importlib import import_module, metadata
from pathlib import Path
from typing import Any, Self, TypeVar

from wheelfix.analysis.policy_reasons import Judgement, Shortfall, checks_isa
from wheelfix.errors import ToolError
from wheelfix.host.policy_tables import not_installed_error, read_policies
from wheelfix.named_tuple import NamedTuple
from wheelfix.pipelines.auditwheel_view import build_view
from wheelfix.settings import Settings
from wheelfix.system.wheelfix_metadata import is_supported, required_versions
from wheelfix.system.workers import WorkerDiedError, WorkerProcess, WorkerTimeoutError
from wheelfix.text import overdue
from wheelfix.wheel.model import FILE_MODE, Wheel

Value = TypeVar("Value")
Answer = Callable[[], Value]
"""What waits for an answer of auditwheel."""
_AGAIN = "was the machine overloaded, or out of memory? run it again"


class Question(NamedTuple):
    """What `auditwheel show` is asked about a wheel."""

    wheel: Path
    isa_ext_check: bool
    timeout: int
    """Seconds for the answer; 0 for no limit."""


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

    def prepare(self) -> None:
        """Start a process if none is idle. Raises `ToolError` if auditwheel is not supported."""
        _refuse_unsupported()
        if not self._idle:
            self._idle.append(_start())

    @contextmanager
    def show(self, question: Question) -> Generator[Answer[Mapping[str, Any]]]:
        """Begin `auditwheel show --json`, in a new process if the others are busy.

        What this yields waits for what is printed; it raises `ToolError` if auditwheel fails, takes
        too long, or ends its process. A process that nothing waits for is killed in the end.
        """
        try:
            worker = self._idle.pop()
        except IndexError:
            worker = _start()
        answers: list[Mapping[str, Any] | Exception] = []

        def answer() -> Mapping[str, Any]:
            said: Mapping[str, Any] | Exception = worker.answer(question.timeout or None)
            answers.append(said)
            if isinstance(said, WorkerTimeoutError):
                raise ToolError(f"auditwheel {overdue(question.timeout)}", hint=_AGAIN)
            if isinstance(said, WorkerDiedError):
                raise ToolError("auditwheel's process ended abruptly", hint=_AGAIN)
            if isinstance(said, Exception):
                raise said
            return said

        try:
            worker.start_call(_show, question)
            yield answer
        finally:
            if answers and not isinstance(answers[0], WorkerTimeoutError | WorkerDiedError):
                self._idle.append(worker)
            else:
                worker.kill()


@contextmanager
def ask(
    auditwheel: Auditwheel,
    wheel: Wheel,
    settings: Settings,
    exclude: Sequence[str],
    workdir: Path,
) -> Generator[Answer[Judgement]]:
    """Let auditwheel judge a view of `wheel`, which is written to `workdir`, while we go on.

    What this yields waits for the judgement, and raises `ToolError`. Libraries that a pattern of
    `exclude` matches count as provided; what this machine has makes no difference.
    """
    filename, members = build_view(wheel, exclude, read_policies())
    folder = Path(tempfile.mkdtemp(prefix="auditwheel-", dir=workdir)).resolve()
    with zipfile.ZipFile(folder / filename, "w", zipfile.ZIP_STORED) as archive:
        for name, content in members.items():
            entry = zipfile.ZipInfo(name)
            entry.external_attr = FILE_MODE << 16
            archive.writestr(entry, content)
    question = Question(folder / filename, checks_isa(wheel, settings), settings.timeout)
    with auditwheel.show(question) as answer:
        yield lambda: judgement_of(answer())


def judgement_of(said: Mapping[str, Any]) -> Judgement:
    """Return the judgement that `auditwheel show --json` prints."""
    return Judgement(
        overall=said["overall_tag"],
        symbols=said["sym_tag"],
        fpectl=said["pyfpe"],
        narrow_unicode=said["ucs2"],
        unsupported_isa=said["unsupported_isa"],
        upgrades={
            tag: Shortfall(
                tuple(upgrade.get("libs_to_eliminate", ())), upgrade.get("blacklisted_symbols", {})
            )
            for tag, upgrade in said["policy_upgrades"].items()
        },
    )


def _refuse_unsupported() -> None:
    try:
        version = metadata.version("auditwheel")
    except metadata.PackageNotFoundError:
        raise not_installed_error() from None
    if not is_supported("auditwheel", version):
        releases = required_versions("auditwheel")
        raise ToolError(
            f"auditwheel {version} is installed, and wheelfix needs auditwheel{releases}",
            hint=f"pip install 'auditwheel{releases}'",
        )


def _start() -> WorkerProcess:
    """Start a process. Raises `ToolError` if that is not possible."""
    try:
        return WorkerProcess(_import_auditwheel)
    except OSError as error:
        raise ToolError(
            f"no process can be started for auditwheel: {error}",
            hint="is there enough memory, and a limit on processes (`ulimit -u`)?",
        ) from error


# --- In the worker process ------------------------------------------------------------------------
# auditwheel has no types, and is imported in that process alone, while ours goes on.


def _import_auditwheel() -> None:
    with suppress(BaseException):  # the answer will say so
        import_module("auditwheel.main")
        import_module("auditwheel.wheel_abi")  # `show` imports it when it is called


def _show(question: Question) -> Mapping[str, Any] | ToolError:
    """Run `auditwheel show --json` in this process; return its answer, or why there is none."""
    os.environ.clear()  # of its variables, and those of libraries
    os.environ["TMPDIR"] = str(question.wheel.parent)
    os.chdir(question.wheel.parent)
    tempfile.tempdir = None  # so that TMPDIR is read again
    logging.getLogger("auditwheel").propagate = False
    sys.argv = ["auditwheel", "show", "--json", "--ldpaths", ""]
    sys.argv += [] if question.isa_ext_check else ["--disable-isa-ext-check"]
    sys.argv += [str(question.wheel)]
    said, complaints = io.StringIO(), io.StringIO()
    try:
        main: Any = import_module("auditwheel.main").main
        with redirect_stdout(said), redirect_stderr(complaints):
            main()
        answer: Mapping[str, Any] = json.loads(said.getvalue())
        if "error" in answer:
            return ToolError(f"auditwheel failed: {' '.join(str(answer['error']).split())}")
    except BaseException as error:  # noqa: BLE001 - a border: whatever it raises is its failure
        frame = traceback.extract_tb(error.__traceback__)[-1]
        words = " ".join(f"{error} {complaints.getvalue()}".split())
        return ToolError(
            f"auditwheel failed: {type(error).__name__}: {words} ({Path(frame.filename).name}, "
            f"line {frame.lineno})",
            hint="`auditwheel show` on the same wheel may say more",
        )
    return answer
