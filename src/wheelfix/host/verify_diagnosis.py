"""Results of verification attempts: status, explanation, and comparison with the loader model."""

import re
import signal
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

from wheelfix.analysis.providers import install_advice
from wheelfix.host.verify_values import Answer, Attempt, AttemptKind, Check, Status, WheelUnderTest
from wheelfix.loader.load_values import Load, Request

_MISSING = re.compile(
    r"([^\s:'\"]+): cannot open shared object file: No such file or directory"
    r"|Error loading shared library ([^\s:]+): No such file or directory"
)
_VERSION = re.compile(r"version [`'](\S+)' not found \(required by ([^)]+)\)")
_UNDEFINED = re.compile(
    r"undefined symbol: ([^\s,]+)|Error relocating \S+: ([^\s:]+): symbol not found"
)
_REFUSED = re.compile(
    r"invalid ELF header|file too short|wrong ELF class|cannot (enable|make|apply|map|allocate)|"
    r"ELF load command|ELF file|only ET_DYN|cannot dynamically load|Exec format error|"
    r"Error loading shared library|initial-exec|static TLS"
)
_LOADER_ERRORS = (
    (_MISSING, Status.MISSING),
    (_VERSION, Status.VERSION),
    (_UNDEFINED, Status.UNDEFINED),
    (_REFUSED, Status.REFUSED),
)
"""Error messages of glibc's and musl's loaders."""
_STATIC_TLS = "cannot allocate memory in static TLS block"
_FRAME = re.compile(
    r"  File \"(<frozen importlib|[^\"]*/(importlib/__init__|wheelfix/host/verify_probe)\.py\")"
)
_NO_MODULE = re.compile(r"No module named '([\w.]+)'")
_MAX_CANDIDATES = 12


def checks(
    subject: WheelUnderTest,
    answered: Sequence[tuple[Attempt, Answer]],
    predicted: Mapping[str, Load],
) -> tuple[Check, ...]:
    """Return the results of the attempts; `predicted` are the loads by installed path."""
    found = [
        _check(subject, attempt, answer, predicted.get(subject.files[attempt.member].path))
        for attempt, answer in answered
    ]
    return tuple(_without_dependents(found))


def _check(subject: WheelUnderTest, attempt: Attempt, answer: Answer, load: Load | None) -> Check:
    status, message = _status(subject, attempt, answer)
    members = subject.members
    check = Check(
        **attempt._asdict(),
        status=status,
        message=message,
        tail=_without_frames(str(answer.get("tail", ""))),
        loaded=tuple(members[path] for _, _, path in answer.get("maps", ()) if path in members),
    )
    if load is None:
        return check
    if check.kind is AttemptKind.LOAD and check.status is Status.OK:
        return _compared(check, load, members)
    return replace(check, explanation=tuple(_explanation(check, load, subject)))


def _without_frames(tail: str) -> str:
    """Return the output without the traceback frames of the probe and of importlib."""
    return "".join(line for line in tail.splitlines(keepends=True) if not _FRAME.match(line))


def _compared(check: Check, load: Load, members: Mapping[str, str]) -> Check:
    """Compare the members that were loaded with the prediction."""
    if load.missing:
        names = ", ".join(request.name for request in load.missing)
        message = f"it loads, but the model says that {names} is missing"
        return replace(check, status=Status.DIFFERS, message=message)
    predicted = {members[path] for path in load.objects if path in members}
    lacking = predicted - set(check.loaded)
    if lacking:
        message = f"the model says that it loads {', '.join(sorted(lacking))} too"
        return replace(check, status=Status.DIFFERS, message=message)
    return check


def _without_dependents(found: Sequence[Check]) -> Iterator[Check]:
    """Yield the checks; libraries that load with a dependent do not count as failures.

    A library that does not load alone is fine if another object, or an import, has loaded it: that
    one provides the missing libraries and symbols.
    """
    loaded = {member for check in found if check.status is Status.OK for member in check.loaded}
    for check in found:
        lacks = check.status in {Status.MISSING, Status.UNDEFINED}
        if check.kind is AttemptKind.LOAD and lacks and check.member in loaded:
            note = f"alone: {check.message}"
            yield replace(check, status=Status.DEPENDENT, message=note, explanation=())
        else:
            yield check


# --- Status ---------------------------------------------------------------------------------------


def _status(subject: WheelUnderTest, attempt: Attempt, answer: Answer) -> tuple[Status, str]:
    """Return how an attempt ended, and a message."""
    if answer.get("hang"):
        return Status.HUNG, f"did not end within {subject.options.timeout:g} seconds"
    code = int(answer["code"])
    if code < 0:
        return Status.CRASHED, f"killed by signal {-code} ({_signal_name(-code)})"
    if attempt.kind is AttemptKind.RUN:
        return _run_status(code, str(answer["tail"]))
    if "error" in answer:
        return _error_status(subject, attempt, answer)
    if "maps" not in answer:
        return Status.CRASHED, f"ended itself with exit code {code}"
    return Status.OK, ""


def _run_status(code: int, tail: str) -> tuple[Status, str]:
    """Return the status of a program that ended with an exit code."""
    if not code:
        return Status.OK, ""
    last = "".join(tail.strip().splitlines()[-1:])
    return _loader_error(tail) or (Status.EXITED, f"exit code {code}: {last}")


def _error_status(subject: WheelUnderTest, attempt: Attempt, answer: Answer) -> tuple[Status, str]:
    """Return the status of a load or an import that raised."""
    kind, error = attempt.kind, str(answer["error"])
    if kind is AttemptKind.LOAD and _STATIC_TLS in error and not _is_module(subject, attempt):
        return Status.PRELOAD, error
    known = _loader_error(error)
    if known is not None:
        return known
    if kind is AttemptKind.LOAD:
        return Status.REFUSED, error
    lacking = _other_distribution(subject, answer)
    if lacking is not None:
        return Status.NEEDS, lacking
    return Status.RAISED, f"{answer['type']}: {error}"


def _is_module(subject: WheelUnderTest, attempt: Attempt) -> bool:
    return bool(subject.wheel.elfs[attempt.member].module_hooks)


def _other_distribution(subject: WheelUnderTest, answer: Answer) -> str | None:
    """Return the top-level module of another distribution that an import did not find."""
    own = {member.name.partition("/")[0] for member in subject.wheel.members}
    printed = _NO_MODULE.findall(str(answer.get("tail", "")))
    absent = (str(name).partition(".")[0] for name in (*answer.get("absent", ()), *printed))
    return next((name for name in absent if name not in own), None)


def _loader_error(text: str) -> tuple[Status, str] | None:
    """Return the status and the line of a loader's error message in `text`."""
    for pattern, status in _LOADER_ERRORS:
        match = pattern.search(text)
        if match is not None:
            start = text.rfind("\n", 0, match.start()) + 1
            return status, text[start:].partition("\n")[0].strip()
    return None


def _signal_name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return "unknown"


# --- Explanation ----------------------------------------------------------------------------------


def _explanation(check: Check, load: Load, subject: WheelUnderTest) -> Iterator[str]:
    match check.status:
        case Status.MISSING:
            yield from _missing_library(check, load, subject)
        case Status.UNDEFINED:
            yield from _undefined_symbol(check, subject)
        case Status.CRASHED | Status.HUNG:
            yield from _running_code(check)
        case _:
            return


def _missing_library(check: Check, load: Load, subject: WheelUnderTest) -> Iterator[str]:
    name = _first_group(_MISSING, check.message)
    missing = [request for request in load.missing if name is None or request.name == name]
    if missing:
        yield from _search(missing[0], subject)
    if name is not None and (known := install_advice(name)):
        yield known
    if not missing and check.kind is not AttemptKind.RUN:
        yield "the model says that this library is found: something else asks for it"


def _search(request: Request, subject: WheelUnderTest) -> Iterator[str]:
    """Yield where the loader searched, in its order."""
    root = f"{subject.place.root}/"
    requester = (request.requester or "").removeprefix(root)
    yield f"{request.name} is needed by {requester}"
    if not request.candidates:
        yield "it has no search path, and the system has no such library"
    for candidate in request.candidates[:_MAX_CANDIDATES]:
        entry = f" by `{candidate.entry}`" if candidate.entry else ""
        path = candidate.path.removeprefix(root)
        yield f"{path}: {candidate.outcome} ({candidate.how}{entry})"
    own = [name for name in subject.wheel.elfs if name.rpartition("/")[2] == request.name]
    if own:
        yield f"the wheel has it as {own[0]}, where no search path leads"


def _undefined_symbol(check: Check, subject: WheelUnderTest) -> Iterator[str]:
    name = _first_group(_UNDEFINED, check.message)
    elf = subject.wheel.elfs.get(check.member)
    if elf is None:
        return
    symbol = next((symbol for symbol in elf.undefined if symbol.name == name), None)
    if symbol is not None and symbol.file is not None:
        version = f"{symbol.name}@{symbol.version}"
        yield f"it was linked against {symbol.file}, which defined it as {version}"
    elif symbol is not None:
        yield f"it needs {', '.join(elf.needed) or 'no library'}, and none of them defines it"


def _running_code(check: Check) -> Iterator[str]:
    """Yield the code that runs in such an attempt."""
    if check.kind is AttemptKind.LOAD:
        yield "it happened in its own constructors, or in those of a library that it loads"
    elif check.kind is AttemptKind.IMPORT:
        hook = f"PyInit_{check.what.rpartition('.')[2]}"
        yield f"it happened in {hook}, in constructors, or in Python code of its packages"


def _first_group(pattern: re.Pattern[str], text: str) -> str | None:
    """Return the group that took part in the first match, None without a match."""
    match = pattern.search(text)
    return None if match is None else match[match.lastindex or 0]
