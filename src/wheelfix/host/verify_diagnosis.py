"""Results of verification attempts: status, explanation, and comparison with the loader model."""

import os
import re
import shlex
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import product
from pathlib import Path
from posixpath import basename, normpath

from packaging.utils import canonicalize_name

from wheelfix.analysis.load_failures import (
    NAME_ANOTHER,
    OF_OTHER_PYTHON,
    Failure,
    Lack,
    LoadJudge,
    hidden_at,
)
from wheelfix.analysis.never_bundled import reason_to_leave_out
from wheelfix.analysis.objects_in_use import with_library_path
from wheelfix.analysis.opened_libraries import openings
from wheelfix.analysis.world import World
from wheelfix.elf.exports import among
from wheelfix.elf.model import Libc
from wheelfix.grouping import flatten
from wheelfix.host.ask_import_probe import PROBE, no_answer
from wheelfix.host.import_probe import NotDefinedError
from wheelfix.host.installed_files import dist_info_folders, recorded_files
from wheelfix.host.library_search import library_at
from wheelfix.host.neighbors import InstalledDistributions
from wheelfix.host.os_packages import system_package
from wheelfix.host.verify_values import (
    Attempt,
    AttemptKind,
    Check,
    CheckStatus,
    VerifyAnswer,
    WheelUnderTest,
)
from wheelfix.loader.load_values import Load, Request, search_list
from wheelfix.loader.platform_libraries import may_come_from_platform
from wheelfix.loader.python_api import MODULE_SUFFIX, init_functions, is_libpython
from wheelfix.providers.markers import extras_of, may_hold
from wheelfix.providers.requirements_between_wheels import Part, applicable_requirements
from wheelfix.providers.well_known import (
    brings,
    well_known_folders,
    well_known_provider,
    well_known_providers_of,
    where_required,
)
from wheelfix.settings import matches_any
from wheelfix.system.lazy_patterns import lazy_pattern
from wheelfix.system.subprocesses import NOT_EXECUTED
from wheelfix.text import FEW, join_plain, join_some, killed_by, overdue, said_once
from wheelfix.wheel.grafted_name import original_name, remove_hash
from wheelfix.wheel.requirements import name_of, parsed

_MISSING = lazy_pattern(
    r"(?<![^\s:'\"])([^\s:'\"]+): cannot open shared object file: No such file or directory"
    r"|Error loading shared library ([^\s:]+): No such file or directory"
)
_VERSION = lazy_pattern(r"version [`'](\S+)' not found \(required by ([^)]+)\)")
_UNDEFINED = lazy_pattern(
    r"undefined symbol: ([^\s,]+)|Error relocating \S+: ([^\s:]+): symbol not found"
)
_REFUSED = lazy_pattern(
    r"invalid ELF header|file too short|wrong ELF class|cannot (enable|make|apply|map|allocate)|"
    r"ELF load command|ELF file|only ET_DYN|cannot dynamically load|Exec format error|"
    r"Error loading shared library|initial-exec|static TLS|detected by ld\.so"
)
_LOADER_ERRORS = (
    (_MISSING, CheckStatus.MISSING),
    (_VERSION, CheckStatus.VERSION),
    (_UNDEFINED, CheckStatus.UNDEFINED),
    (_REFUSED, CheckStatus.REFUSED),
)
"""Error messages of glibc's and musl's loaders."""
_NOT_THERE = (
    "{}: cannot open shared object file: No such file or directory, on a machine without `{}`"
)
"""The message where the loader took this machine's copy of a library of a requirement."""
_PROMISED = "manylinux tags promise it"
_OF_UV = "_virtualenv.pth"
"""It opens nothing, and is in each environment that uv makes."""
_STATIC_TLS = "cannot allocate memory in static TLS block"
_FRAME = lazy_pattern(
    rf"  File \"(<frozen importlib|[^\"]*/importlib/__init__\.py\"|{re.escape(str(PROBE))}\")"
)
_NO_FRAMES = lazy_pattern(r"(?m)^.*\(most recent call first\):\n(?!  )")
_NOT_LOADED = "its own object is not loaded"
_NO_HOOK = lazy_pattern(r"dynamic module does not define (module export|init) function")
_NO_MODULE = lazy_pattern(r"No module named '([\w.]+)'")
_MODULE = lazy_pattern(r"the module `(\w+)")
_GIL = lazy_pattern(r"lock \(GIL\) has been enabled to load module '([^']+)'")
_ALLIED = lazy_pattern(
    r"(torch|tensorflow|(nvidia|cutensor|tensorrt)-\S+) .*\b(nvidia|cutensor|rocm)-"
    r"|(mkl|tbb|intel-\S+) .*\b(tbb|tcmlib|umf|intel-)|(?P<own>\S+) (.* )?(?P=own)( |$)"
)
"""A well-known distribution, before others that it may require, or that are itself."""
_OF_OWNER = lazy_pattern(r"[-.].*|_(libs?|data)$")
"""What follows the name of a distribution, or of its package, in those of its files and folders."""
_REMOVED = frozenset(
    {
        *("asynchat", "asyncore", "distutils", "imp", "smtpd"),
        *("aifc", "audioop", "cgi", "cgitb", "chunk", "crypt", "imghdr", "lib2to3", "mailcap"),
        *("msilib", "nis", "nntplib", "ossaudiodev", "pipes", "sndhdr", "spwd", "sunau"),
        *("telnetlib", "uu", "xdrlib"),
    }
)
"""What the standard library no longer has, by "What's New In Python" 3.12 and 3.13."""
_MAX_CANDIDATES = 12
_LACKING = frozenset({CheckStatus.MISSING, CheckStatus.UNDEFINED})
_BINDING = frozenset({CheckStatus.UNDEFINED, CheckStatus.VERSION})
"""What the loader says after it has found all libraries."""


def checks(
    subject: WheelUnderTest,
    answered: Sequence[tuple[Attempt, VerifyAnswer]],
    predicted: Mapping[str, Load],
    hosted: Mapping[str, Attempt],
    judge: Callable[[], LoadJudge],
) -> tuple[Check, ...]:
    """Return the results of the attempts; `predicted` are the loads by installed path.

    `hosted` are the members that were loaded after their hosts. `judge` is asked only about loads.
    """
    every = [
        _check(subject, attempt, answer, predicted.get(subject.files[attempt.member].path), judge)
        for attempt, answer in answered
    ]
    known = tuple(_without_dependents(every, subject, hosted, predicted))
    named = {*map(name_of, subject.wheel.metadata.requires_dist)}
    is_met = not subject.unmet and named <= subject.installed.requires_dist.keys()
    left, made = {*map(canonicalize_name, subject.left_out)}, list[Check]()
    for check in _without_untried(known, subject, predicted):
        needs = check.status is CheckStatus.NEEDS
        module = canonicalize_name(_first_group(_MODULE, check.message) or "")
        # What only an extra requires, or another Python, is not left out.
        is_required = needs and bool(left) and module not in named - left
        made.append(replace(check, is_undeclared=needs and is_met, is_required=is_required))
    return tuple(made)


def is_loaded(answer: VerifyAnswer) -> bool:
    """Return whether a load succeeded."""
    return not answer.get("hang") and not answer["code"] and not {"error"} & answer.keys()


def with_hosts(
    subject: WheelUnderTest, answered: Mapping[Attempt, VerifyAnswer], predicted: Mapping[str, Load]
) -> Iterator[Attempt]:
    """Yield the loads that lack symbols of other members, to be tried after those.

    A plug-in is not linked with the module that opens it, and takes symbols of it. What lacks a
    library that a requirement has is tried after that one: Python may open it before.
    """
    errors = {
        attempt: str(answer.get("error", ""))
        for attempt, answer in answered.items()
        if attempt.kind is AttemptKind.LOAD
    }
    absent = [attempt for attempt, error in errors.items() if _MISSING.search(error)]
    required = _required_libraries(subject) if absent else {}
    for attempt in absent:
        load = predicted.get(attempt.what)
        missing = [request.name for request in load.missing] if load else []
        if missing and required.keys() >= {*missing}:
            yield attempt._replace(after=tuple(map(required.__getitem__, missing)))
    lacking = [attempt for attempt, error in errors.items() if _UNDEFINED.search(error)]
    elfs = subject.wheel.elfs
    wanted = {a.member: {s.name for s in elfs[a.member].undefined if not s.weak} for a in lacking}
    names = frozenset[str]().union(*wanted.values())
    defined: dict[str, set[str]] = {}
    for member in subject.files.keys() & elfs.keys() if lacking else ():
        exports = library_at(subject.files[member].path, elfs[member]).exports
        if elfs[member].is_library and (there := set(among(exports.definitions, names))):
            defined[member] = there
    # Modules come first: what they export is for plug-ins.
    ordered = sorted(defined, key=lambda member: (not elfs[member].module_hooks, member))
    for attempt in lacking:
        left, after = set(wanted[attempt.member]), list[str]()
        for member in ordered:
            if member != attempt.member and left & defined[member]:
                left -= defined[member]
                after.append(subject.files[member].path)
        if after:
            yield attempt._replace(after=tuple(after))


def _required_libraries(subject: WheelUnderTest) -> dict[str, str]:
    """Return the paths of what the installed requirements have, by name of the file."""
    required = applicable_requirements(
        Part(subject.wheel.name, subject.wheel.metadata.requires_dist)
    )
    names = {canonicalize_name(requirement.name) for requirement in required}
    folders = dist_info_folders(subject.site)
    theirs = (f for f in folders if canonicalize_name(f.name.partition("-")[0]) in names)
    return {Path(path).name: str(path) for path in flatten(map(recorded_files, theirs))}


def _check(
    subject: WheelUnderTest,
    attempt: Attempt,
    answer: VerifyAnswer,
    load: Load | None,
    judge: Callable[[], LoadJudge],
) -> Check:
    status, message = status_of(subject, attempt, answer)
    root = f"{subject.place.root}/"
    message = _with_members(message, root)
    if status is CheckStatus.MISSING and load is not None:
        message = _of_the_wheel(message, load, subject)
    if status in _BINDING and load and load.missing and _is_about(message, load, subject):
        load = _after_others(load, answer, judge().world)
    members = subject.members
    check = Check(
        kind=attempt.kind,
        member=attempt.member,
        what=attempt.what.removeprefix(root),
        status=status,
        message=message,
        tail=_with_members(_without_frames(str(answer.get("tail", ""))), root),
        loaded=tuple(members[path] for _, _, path in answer.get("maps", ()) if path in members),
    )
    if status in {*_LACKING, CheckStatus.OK, CheckStatus.VERSION} and load:
        # What fails has no maps: the symbols were looked for in the machine's.
        mapped = {path for *_, path in answer.get("maps", ())}
        for library in (path for is_other, path in of_machine(subject, [load]) if not is_other):
            is_used = status is not CheckStatus.OK or os.path.realpath(library) in mapped
            name = basename(library)
            is_told = status is CheckStatus.MISSING and name in subject.left.libraries
            # What the loader lacked first may come from a requirement that brings this, too.
            lacking = _requirements(check, subject)
            is_told |= not {*lacking}.isdisjoint(subject.left.that_may_bring([name]))
            if is_used and not is_told and _is_of_requirement(name, subject):
                lacked = _first_group(_UNDEFINED, message)
                message = _NOT_THERE.format(name, library)
                message += f", which does not define `{lacked}`" if lacked else ""
                check = replace(check, status=CheckStatus.MISSING, message=message)
    is_missing = check.status is CheckStatus.MISSING and load
    lacked = _first_group(_MISSING, check.message) if is_missing else None
    if lacked and load and (unmet := _unmet_of_neighbors(lacked, load, subject)):
        return replace(check, status=CheckStatus.NEEDS, message=unmet, tail="")
    if load is None:
        opened = _opened_by(_first_group(_MISSING, message), subject)
        if status is CheckStatus.NEEDS:
            return replace(check, explanation=tuple(_of_extras(check, subject)))
        told = tuple(opened) if status is CheckStatus.MISSING else tuple(_truncated(check, subject))
        is_entry = status is CheckStatus.NO_OBJECT and attempt.kind is AttemptKind.RESOLVE
        # What the entry point names, not what that imports.
        is_entry &= f" = {_first_group(_NO_MODULE, message) or ''}" in attempt.what
        return replace(check, explanation=(NAME_ANOTHER,) if is_entry else told)
    if check.kind is AttemptKind.LOAD and check.status is CheckStatus.OK:
        return _compare(check, load, subject)
    return replace(check, explanation=tuple(_explanation(check, load, subject, judge)))


def _with_members(text: str, root: str) -> str:
    """Return `text` with the files below `root` by one name each, relative to it.

    The loader has `..` in the names of what it finds by `$ORIGIN/..`.
    """
    below = re.compile(rf"{re.escape(root)}[^:\s]+")
    return below.sub(lambda path: normpath(path[0]).removeprefix(root), text)


def _is_about(message: str, load: Load, subject: WheelUnderTest) -> bool:
    """Return whether a message names an object of the wheel in a load; an import loads others."""
    root, members = f"{subject.place.root}/", subject.members
    return any(path.removeprefix(root) in message for path in load.objects if path in members)


def _after_others(load: Load, answer: VerifyAnswer, world: World) -> Load:
    """Return a load after the libraries that an import had opened, and that it misses alone."""
    mapped = {path for *_, path in answer.get("maps", ())}
    carriers = flatten(world.carriers.get(request.name, ()) for request in load.missing)
    before = [path for path in carriers if os.path.realpath(path) in mapped]
    return world.process(load.root, before)[-1]


def of_machine(subject: WheelUnderTest, loads: Iterable[Load]) -> Iterator[tuple[bool, str]]:
    """Yield the libraries of this machine that installed objects load, and no tag promises.

    Each has whether only another one of these needs it.
    """
    found = set[str]()
    for request in flatten(load.requests for load in loads):
        path, by = request.result or "", request.requester or ""
        is_ours = _is_installed(subject, by)
        if path and (is_ours or by in found) and _is_of_machine(subject, request.name, path):
            found.add(path)
            yield not is_ours, path


_ENDS = lazy_pattern(r"(?=\.\d+(?:\.|$)|$)")
"""Where names of a library may end: `libz.so.1.2.13` is `libz.so.1`, too."""


def opened_of_machine(subject: WheelUnderTest, answers: Iterable[VerifyAnswer]) -> Iterator[str]:
    """Yield those that its sources open by their names."""
    names = {o.name for _, o in openings(subject.wheel) if "/" not in o.name}
    paths = {path for answer in answers for *_, path in answer.get("maps", ())} if names else ()
    for path, name in product(() if subject.python.image else paths, names):
        # Of `find_library("z")` it is `z`; the file may have more of the version than the SONAME.
        names_of_file = {path[: end.start()] for end in _ENDS.finditer(path)}
        asked = {name, f"lib{name}.so"}
        is_asked = not asked.isdisjoint(map(basename, names_of_file))
        if is_asked and all(_is_of_machine(subject, basename(n), path) for n in names_of_file):
            yield path


def _is_of_machine(subject: WheelUnderTest, name: str, path: str) -> bool:
    """Return whether the file at `path`, asked for by `name`, is the machine's own."""
    is_promised = may_come_from_platform(name) or is_libpython(name)
    return not is_promised and not _is_installed(subject, path)


def _is_installed(subject: WheelUnderTest, path: str) -> bool:
    own = [str(subject.place.root), *map(str, subject.linked)]
    return any(path.startswith(f"{folder}/") for folder in own)


def _is_of_requirement(name: str, subject: WheelUnderTest) -> bool:
    """Return whether a library, which this machine has, is what a requirement has or should have.

    So is one that a well-known wheel has: METADATA must require that.
    """
    if matches_any(name, subject.options.exclude):
        return False
    is_known = well_known_providers_of(name) or name in _required_libraries(subject)
    return bool(is_known) or subject.left.libraries.get(name) in subject.left_out


def _unmet_of_neighbors(name: str, load: Load, subject: WheelUnderTest) -> str:
    """Return what is required, not installed, and has a library that only neighbors need."""
    if not _needed_beside(name, load, subject):
        return ""
    is_having = True if well_known_providers_of(name) else None
    lacking = subject.installed.not_installed(load.root)
    able = (name_of(text) for text in lacking if brings(text, name) is is_having)
    return " or ".join(sorted({*able} & {*map(canonicalize_name, subject.left_out)}))


def _needed_beside(name: str | None, load: Load, subject: WheelUnderTest) -> str:
    """Return the path of the object of another wheel that needs a library; empty if ours does."""
    by = [request.requester or "" for request in load.requests if request.name == name]
    return "" if subject.members.keys() & {*by} else next(iter(by), "")


def _of_the_wheel(message: str, load: Load, subject: WheelUnderTest) -> str:
    """Return the loader's message about the first missing library that a wheel can bring.

    The loader names the first of all, which may belong to the user's machine.
    """
    named = _first_group(_MISSING, message) or ""
    others = (one.name for one in load.missing if not _of_users(one.name, subject))
    return message.replace(named, next(others, named)) if _of_users(named, subject) else message


def _of_users(library: str, subject: WheelUnderTest) -> str | None:
    """Return why the user's machine must have a library; None if a wheel must, or may, bring it.

    musllinux tags promise none of those that manylinux tags do.
    """
    is_promised = subject.wheel.libc is Libc.GLIBC and may_come_from_platform(library)
    reason = reason_to_leave_out(library) or (_PROMISED if is_promised else None)
    return None if _bringing(library, subject) else reason


def _without_frames(tail: str) -> str:
    """Return the output without the traceback frames of the probe and of importlib.

    The line above a traceback of these alone goes with them.
    """
    kept = "".join(line for line in tail.splitlines(keepends=True) if not _FRAME.match(line))
    return _NO_FRAMES.sub("", kept)


def _compare(check: Check, load: Load, subject: WheelUnderTest) -> Check:
    """Compare the members that were loaded with the prediction.

    Code of a `.pth` file may have opened what is not found: Python runs it when it starts.
    """
    members, message = subject.members, ""
    predicted = {members[path] for path in load.objects if path in members}
    if lacking := predicted - set(check.loaded):
        message = f"by its search paths, it should load {', '.join(sorted(lacking))} too"
    if load.missing and all(path.name == _OF_UV for path in subject.site.glob("*.pth")):
        names = ", ".join(request.name for request in load.missing)
        message = f"it loads, but by its search paths {names} should be missing"
    return replace(check, status=CheckStatus.DIFFERS, message=message) if message else check


def _without_dependents(
    made: Sequence[Check],
    subject: WheelUnderTest,
    hosted: Mapping[str, Attempt],
    predicted: Mapping[str, Load],
) -> Iterator[Check]:
    """Yield the checks; what loads with a dependent, or after its hosts, is not a failure.

    A library that does not load alone is fine if another object, or an import, has loaded it: that
    one provides the missing libraries and symbols. Where an import provides the libraries alone,
    what it lacks is said of the object.
    """
    loaded = set(flatten(check.loaded for check in made if check.status is CheckStatus.OK))
    binding = (c for c in made if c.kind is AttemptKind.IMPORT and c.status in _BINDING)
    loads = ((c, predicted.get(subject.files[c.member].path)) for c in binding)
    bound = {c.member: c for c, load in loads if load and _is_about(c.message, load, subject)}
    packages = {c.what: c.loaded for c in made if c.status is CheckStatus.OK}
    for check in made:
        host, note = hosted.get(check.member), f"alone: {check.message}"
        parent = check.what.rpartition(".")[0]
        if check.status is CheckStatus.RAISED and check.member in packages.get(parent, ()):
            yield replace(check, message=f"{check.message}; the import of `{parent}` loads it")
        elif check.kind is not AttemptKind.LOAD or check.status not in _LACKING:
            yield check
        elif check.member in loaded:
            yield replace(check, status=CheckStatus.DEPENDENT, message=note, explanation=())
        elif check.status is CheckStatus.MISSING and check.member in bound:
            yield replace(bound[check.member], kind=check.kind, what=check.what)
        elif host is not None:
            note += f"; it loads after {join_some(map(subject.installed_name, host.after), FEW)}"
            is_ours = check.status is CheckStatus.UNDEFINED
            status = CheckStatus.HOSTED if is_ours else CheckStatus.AFTER
            yield replace(check, status=status, message=note, explanation=())
        elif program := _program(check, subject):
            yield replace(check, status=CheckStatus.PROGRAM, message=program, explanation=())
        else:
            yield check


def _program(check: Check, subject: WheelUnderTest) -> str | None:
    """Return the program of the wheel that defines the symbol which an object lacks."""
    names = frozenset({_first_group(_UNDEFINED, check.message) or ""})
    elfs = subject.wheel.elfs
    for member, elf in () if elfs[check.member].is_module else elfs.items():
        if elf.is_executable and member in subject.files:
            path = subject.files[member].path
            if among(library_at(path, elf).exports.definitions, names):
                program = subject.installed_name(path)
                return (
                    f"the program `{program}`, which defines `{min(names)}`: only that can load it"
                )
    return None


def _without_untried(
    made: Sequence[Check], subject: WheelUnderTest, predicted: Mapping[str, Load]
) -> Iterator[Check]:
    """Yield the checks; what lacks a requirement that is not installed was not tried.

    So is what lacks a library of others, where Python imports such a requirement first: that may
    load it. Nor was what lacks a library that no wheel can bring tried: it belongs to the user's
    machine; nor a program without the LD_LIBRARY_PATH that code of the wheel sets.
    """
    is_lacking = any(check.status is CheckStatus.MISSING for check in made)
    started = with_library_path(subject.wheel, subject.code) if is_lacking else dict[str, str]()
    imported = {c.member: [c.message] for c in made if c.status is CheckStatus.NEEDS}
    for check in made:
        library = _first_group(_MISSING, check.message) or ""
        is_missing = check.status is CheckStatus.MISSING
        is_own = library in subject.wheel.object_names or remove_hash(library) is not None
        before = imported.get(check.member, []) if is_missing and not is_own else []
        needs = _requirements(check, subject) if check.status in _LACKING else []
        untried, message, also = check.status, "", tuple[str, ...]()
        if is_missing and not is_own and (reason := _of_users(library, subject)):
            untried, message = CheckStatus.MACHINE, f"{library} of the user's machine: {reason}"
            package = "" if subject.python.image else system_package(library)
            also = (f"install the system package `{package}`",) if package else ()
        elif is_missing and (by := started.get(check.member)):
            untried, message = CheckStatus.PROGRAM, f"the LD_LIBRARY_PATH of `{by}`"
        elif needs or before:
            untried, message = CheckStatus.NEEDS, " or ".join(needs or before)
            load = predicted.get(subject.files[check.member].path)
            also = tuple(_missing_too(load, library * bool(needs), subject)) if load else ()
        if untried is check.status:
            yield check
        else:
            yield replace(check, status=untried, message=message, explanation=also, tail="")


def _missing_too(load: Load, told: str, subject: WheelUnderTest) -> Iterator[str]:
    """Yield the missing libraries that are not of the user's machine.

    Left out is that which a requirement was `told` to have, and what else the same one has.
    """
    for name in dict.fromkeys(request.name for request in load.missing):
        brought = _bringing(name, subject)
        is_told = brought == _bringing(told, subject) if brought else name in subject.left.libraries
        if not (is_told or basename(name) == basename(told) or _of_users(name, subject)):
            known = where_required(name, subject.wheel) or "no requirement is known to have it"
            where = f"{' or '.join(brought)} may have it" if brought else known
            yield f"`{name}` is missing, too: {where}"


def _requirements(check: Check, subject: WheelUnderTest) -> list[str]:
    """Return the requirements that are not installed, and may bring what `check` lacks."""
    name = _first_group(_MISSING, check.message) or ""
    if check.status is CheckStatus.UNDEFINED:
        opened = subject.left.opened.get(check.member.partition("/")[0])
        return [one for one in subject.left_out if opened in {"", one}]
    if "/" in name:
        return [*filter(subject.left_out.__contains__, _requirements_of(name, subject))]
    return _bringing(name, subject)


def _bringing(library: str, subject: WheelUnderTest) -> list[str]:
    """Return the requirements that may bring a library, such as torch that of a wheel of CUDA."""
    left, brought = subject.left, subject.left.libraries.get(library)
    if brought is None and (known := " ".join(well_known_providers_of(library))):
        able = (o for o in left.that_may_bring([library]) if _ALLIED.match(f"{name_of(o)} {known}"))
        return [*filter(subject.left_out.__contains__, able)]
    return [one for one in subject.left_out if brought in {"", one}]


def _requirements_of(path: str, subject: WheelUnderTest) -> Iterator[str]:
    """Yield the requirements to which a file that is not there belongs, by all that is known.

    It is in site-packages, in no folder of the wheel, and one is well known to have it, or has the
    name of the top-level folder.
    """
    place, site = Path(os.path.normpath(subject.place.root / path)), subject.site
    if site not in place.parent.parents:
        return
    folder = place.relative_to(site).parts[0]
    tops = (os.path.relpath(each, site).partition("/")[0] for each in subject.members)
    own = {canonicalize_name(subject.wheel.name.distribution), *map(_owner_of, tops)}
    names = map(original_name, subject.wheel.object_names)
    if _owner_of(folder) in own or place.name in names:
        return
    for name, text in zip(subject.left.requirements, subject.left.required, strict=True):
        is_named = canonicalize_name(name) in {_owner_of(folder), canonicalize_name(folder)}
        is_brought = brings(text, place.name)
        if is_brought or (is_named and is_brought is None):
            yield name


def _owner_of(top: str) -> str:
    """Return what a top-level name tells of its owner: `far` of `far.libs` and `far-1.0.data`."""
    return canonicalize_name(_OF_OWNER.sub("", top))


# --- Status ---------------------------------------------------------------------------------------


def status_of(
    subject: WheelUnderTest, attempt: Attempt, answer: VerifyAnswer
) -> tuple[CheckStatus, str]:
    """Return how an attempt ended, and a message."""
    if answer.get("hang"):
        return CheckStatus.HUNG, overdue(subject.options.timeout)
    code = int(answer["code"])
    if code < 0:
        return CheckStatus.CRASHED, killed_by(-code)
    if attempt.kind is AttemptKind.RUN:
        is_package = not attempt.member.startswith(subject.wheel.dist_info.scripts)
        if is_package and not os.access(subject.files[attempt.member].path, os.X_OK):
            return CheckStatus.NO_BIT, "the executable bit: pip adds none to the mode in the wheel"
        return _run_status(subject, code, str(answer["tail"]))
    if problem := no_answer(answer):
        ended = problem.removeprefix("no answer came: ")
        own = {subject.members.get(path) for *_, path in answer.get("maps", ())}
        # An object of mypyc makes the modules of a whole package.
        is_made = own & subject.wheel.elfs.keys()
        made = "an object or a source of its wheel makes one"
        otherwise = (CheckStatus.REPLACED, made) if is_made else (CheckStatus.NO_ANSWER, ended)
        return _loader_error(ended) or otherwise
    return _answered_status(subject, attempt, answer)


def _answered_status(
    subject: WheelUnderTest, attempt: Attempt, answer: VerifyAnswer
) -> tuple[CheckStatus, str]:
    """Return the status of a load or an import that gave a whole answer."""
    if "error" in answer:
        return _error_status(subject, attempt, answer)
    own = subject.files[attempt.member].path
    if attempt.member in subject.wheel.elfs and own not in (path for *_, path in answer["maps"]):
        is_import = attempt.kind is AttemptKind.IMPORT
        why = _not_looked_for(attempt.what, attempt.member, subject) if is_import else ""
        others = [each for each in answer.get("origins", ()) if is_import and each != own]
        if others and not why:
            place = re.escape(attempt.what.replace(".", "/"))
            if not re.search(rf"/{place}(/__init__)?\.[^/]*\Z", others[-1]):
                return CheckStatus.REPLACED, f"`{others[-1]}`"
            why = f"`{others[-1]}` has its name, and comes first"
        return (CheckStatus.NO_OBJECT, why) if why else (CheckStatus.NO_ANSWER, _NOT_LOADED)
    has_gil = bool(answer.get("gil"))
    return _gil_status(subject, attempt, str(answer["tail"])) if has_gil else (CheckStatus.OK, "")


def _gil_status(subject: WheelUnderTest, attempt: Attempt, tail: str) -> tuple[CheckStatus, str]:
    """Return the status of an import that has enabled the GIL.

    Python warns which module did it. A module of the wheel is blamed in its own attempt.
    """
    module = _first_group(_GIL, tail)
    if module in {None, attempt.what, attempt.what.rpartition(".")[2]}:
        return CheckStatus.GIL, "it does not declare that it is safe without the GIL (Py_mod_gil)"
    own = {member.name.partition("/")[0].partition(".")[0] for member in subject.wheel.members}
    if str(module).partition(".")[0] in own:
        return CheckStatus.OK, ""
    return CheckStatus.GIL_OF_OTHERS, f"`{module}` of another distribution enables it"


def _run_status(subject: WheelUnderTest, code: int, tail: str) -> tuple[CheckStatus, str]:
    """Return the status of a program that ended with an exit code."""
    if not code:
        return CheckStatus.OK, ""
    status = CheckStatus.NOT_RUN if code in NOT_EXECUTED else CheckStatus.EXITED
    last = tail.strip().rpartition("\n")[2]
    if last.startswith(start := "ModuleNotFoundError: "):
        if lacking := _other_distribution(subject, {"tail": last}):
            return CheckStatus.NEEDS, lacking
        if lack := _lack_of_python(subject, last.removeprefix(start)):
            return CheckStatus.RAISED, start + lack
        if _lacks_own(subject, last):
            return CheckStatus.NO_OBJECT, last
    message = ": ".join(filter(None, (f"exit code {code}", last)))
    return _loader_error(tail) or (status, message)


def _error_status(
    subject: WheelUnderTest, attempt: Attempt, answer: VerifyAnswer
) -> tuple[CheckStatus, str]:
    """Return the status of a load or an import that raised."""
    error = str(answer["error"])
    is_load = attempt.kind is AttemptKind.LOAD
    if is_load and _STATIC_TLS in error and not subject.wheel.elfs[attempt.member].module_hooks:
        return CheckStatus.PRELOAD, error
    known = _loader_error(error)
    if known is not None:
        path = subject.files[attempt.member].path
        if known[0] is CheckStatus.MISSING and _first_group(_MISSING, known[1]) == path:
            # What is there it passes over (`elf_machine_matches_host` in elf/dl-load.c of glibc).
            return CheckStatus.REFUSED, f"{path}: it is for another machine"
        return known
    if is_load:
        return CheckStatus.REFUSED, error
    if _NO_HOOK.search(error):
        return CheckStatus.NO_HOOK, error
    return _raised_status(subject, attempt, answer)


def _raised_status(
    subject: WheelUnderTest, attempt: Attempt, answer: VerifyAnswer
) -> tuple[CheckStatus, str]:
    """Return the status of an import, or of an entry point, for which Python code raised."""
    kind, error = str(answer["type"]), str(answer["error"]).replace(f"{subject.site}/", "")
    why = _not_looked_for(attempt.what, attempt.member, subject)
    if attempt.what in answer.get("absent", ()) or why == OF_OTHER_PYTHON:
        return CheckStatus.NO_OBJECT, ": ".join(filter(None, (error, why)))
    lacking = _other_distribution(subject, answer)
    # An extra may bring the module.
    if attempt.kind is AttemptKind.RESOLVE and not (
        lacking and subject.wheel.metadata.requires_dist
    ):
        module = attempt.what.partition(" = ")[2].partition(":")[0]
        is_absent = any(f"{module}.".startswith(f"{name}.") for name in answer.get("absent", ()))
        if is_absent or kind == NotDefinedError.__name__:
            return CheckStatus.NO_OBJECT, error
    raised = ": ".join(filter(None, (kind, _lack_of_python(subject, error) or error)))
    if lacking:
        return CheckStatus.NEEDS, lacking
    is_own = kind == ModuleNotFoundError.__name__ and _lacks_own(subject, error)
    return CheckStatus.NO_OBJECT if is_own else CheckStatus.RAISED, raised


def _not_looked_for(module: str, member: str, subject: WheelUnderTest) -> str:
    """Return why Python does not look for the file of a module; empty if it may."""
    suffix = MODULE_SUFFIX.search(member)
    is_misfit = suffix is not None and suffix[0] not in subject.python.suffixes
    path = subject.files[member].path
    return OF_OTHER_PYTHON if is_misfit else hidden_at(path, module, subject.python.name)


def _lacks_own(subject: WheelUnderTest, error: str) -> bool:
    """Return whether Python did not find a module that only the wheel could have.

    What is not installed may bring a module of a namespace, or into the wheel's folder.
    """
    package = str(_first_group(_NO_MODULE, error)).partition(".")[0]
    return f"{package}/__init__.py" in subject.files and not subject.left_out


def _other_distribution(subject: WheelUnderTest, answer: VerifyAnswer) -> str | None:
    """Return the requirement, or else the module of another one, that an import did not find."""
    own = {member.name.partition("/")[0] for member in subject.wheel.members}
    for name in (*answer.get("absent", ()), *_NO_MODULE.findall(str(answer.get("tail", "")))):
        top = name.partition(".")[0]
        if top not in own and not _is_of_python(name, subject):
            required = {*map(canonicalize_name, subject.left_out)}
            return top if canonicalize_name(top) in required else f"the module `{name}`"
    return None


def _of_extras(check: Check, subject: WheelUnderTest) -> Iterator[str]:
    """Yield what an extra requires, if that is named as the module which an import did not find.

    So is all that the extras of an entry point require.
    """
    module = canonicalize_name(_first_group(_MODULE, check.message) or "")
    asked = {*map(canonicalize_name, re.findall(r"[\w.-]+", check.what.partition("[")[2]))}
    for required in parsed(subject.wheel.metadata.requires_dist):
        extras = extras_of(required)
        is_absent = (name := name_of(str(required))) not in subject.installed.requires_dist
        is_meant = extras and is_absent and (name == module or asked & {*extras})
        if is_meant and may_hold(required, subject.wheel.name, subject.python.markers):
            line = shlex.quote(str(required).partition(";")[0].strip())
            yield f"the extra `{extras[0]}` requires it: `--deps --with {line}`"


def _lack_of_python(subject: WheelUnderTest, error: str) -> str:
    """Return that the standard library lacks a module, or a part of one; else an empty text."""
    module = str(_first_group(_NO_MODULE, error))
    lack = f"this Python does not have the module `{module}` of the standard library"
    return (error if "." in module else lack) * _is_of_python(module, subject)


def _is_of_python(module: str, subject: WheelUnderTest) -> bool:
    """Return whether the standard library alone may have a module; some requirements have one."""
    names = sys.stdlib_module_names | _REMOVED
    return not subject.left_out and module.partition(".")[0] in names


def _loader_error(text: str) -> tuple[CheckStatus, str] | None:
    """Return the status and the line of a loader's error message in `text`."""
    for pattern, status in _LOADER_ERRORS:
        match = pattern.search(text)
        if match is not None:
            start = text.rfind("\n", 0, match.start()) + 1
            return status, text[start:].partition("\n")[0].strip()
    return None


# --- Explanation ----------------------------------------------------------------------------------


def _explanation(
    check: Check, load: Load, subject: WheelUnderTest, judge: Callable[[], LoadJudge]
) -> Iterator[str]:
    if check.status is CheckStatus.MISSING:
        yield from _missing_library(check, load, subject)
    if check.status in {CheckStatus.CRASHED, CheckStatus.HUNG}:
        yield from [*_truncated(check, subject)] or _running_code(check)
    if check.failed:
        yield from _remedies(check, load, subject, judge)


def _missing_library(check: Check, load: Load, subject: WheelUnderTest) -> Iterator[str]:
    """Yield where a library was looked for, and by whom; what has it, `_remedies` say."""
    name = _first_group(_MISSING, check.message) or ""
    missing = [request for request in load.missing if request.name == name or not name]
    if missing:
        yield from _search(missing[0], subject)
        unknown = [one for one in subject.left_out if name_of(one) not in well_known_folders()]
        if unknown and not well_known_providers_of(missing[0].name):
            yield f"whether it is in {join_some(unknown, FEW)} is not known"
        return
    provider = well_known_provider(name, subject.wheel)
    if provider and "does not define" in check.message:
        yield f"ask `wheelfix check --with {provider}` whether that defines it"
    elif (where := where_required(name, subject.wheel)) and not _needed_beside(name, load, subject):
        yield f"`{name}` is {where}"
    yield from _not_predicted(name, check.message, load, subject)


def _not_predicted(
    name: str | None, message: str, load: Load, subject: WheelUnderTest
) -> Iterator[str]:
    """Yield who asks for a library that the objects of `load` find, or do not need."""
    result = next((asked.result for asked in load.requests if asked.name == name), None)
    if result is not None:
        if f"`{result}`" not in message:  # it is about machines without that file
            yield f"as this machine's loader is configured, it should be found: {result}"
        return
    opened = [*_opened_by(name, subject)]
    yield from opened or ["no object that is loaded for it needs this library"]


def _opened_by(name: str | None, subject: WheelUnderTest) -> Iterator[str]:
    """Yield which sources open a library, and which of the wheel's they may mean."""
    base = basename(name or "")
    if by := [
        f"`{file}`, line {at.line}"
        for file, at in openings(subject.wheel)
        if basename(at.name) == base
    ]:
        yield f"{join_plain(by, FEW)}, opens it"
        if own := [m for m in subject.wheel.elfs if original_name(basename(m)) == base]:
            yield f"the wheel has {join_some(own, FEW)}: the source must open that path"


def _search(request: Request, subject: WheelUnderTest) -> Iterator[str]:
    """Yield where the loader searched, in its order."""
    root = f"{subject.place.root}/"
    requester = (request.requester or "").removeprefix(root)
    yield f"{request.name} is needed by {requester}"
    if not request.candidates:
        yield "it has no search path, and the system has no such library"
    for candidate in request.candidates[:_MAX_CANDIDATES]:
        entry = f", `{candidate.entry}`" if candidate.entry else ""
        path = candidate.path.removeprefix(root)
        yield f"{path}: {candidate.verdict} ({search_list(candidate.how)}{entry})"


def _remedies(
    check: Check, load: Load, subject: WheelUnderTest, judge: Callable[[], LoadJudge]
) -> Iterator[str]:
    from wheelfix.analysis.explain_remedies import failure_remedy, lasting, of_order  # noqa: PLC0415 - few fail

    path, there = subject.files[check.member].path, ""
    if check.status is CheckStatus.NO_OBJECT:
        there = _not_looked_for(check.what, check.member, subject)
    taken = (
        Lack(Failure.FILE, request.requester or "", request.name, request.result)
        for request in load.requests
        if request.result and f"`{request.result}`" in check.message
    )
    made = judge()
    libraries = {**made.index.libraries, **made.unloaded}
    if not made.unloaded.keys().isdisjoint(load.objects):
        made = LoadJudge.of(made.world, libraries, [load], made.mentions)
    lacks = (*made.lacks(load), *made.init_lack(load), *taken)
    ways = list[str]()
    for lack in [Lack(Failure.FILE, path, path, there=there)] if there else lacks:
        is_file = lack.failure is Failure.FILE and check.status not in _BINDING
        if is_file or any(word in check.message for word in lack.words):
            is_damaged = lack.there and basename(lack.library) in {*map(basename, subject.members)}
            installed = None if is_damaged else _WithoutRequirements(subject)
            remedy = failure_remedy(made.world, installed, lack, load.objects)
            ways.append(lasting(remedy, str(subject.place.root)))
    late = load.requests if check.status in _BINDING and not ways else ()
    for other in flatten(made.world.carriers.get(request.name, ()) for request in late):
        loads = made.world.process(path, (other,))
        after = LoadJudge.of(made.world, libraries, [load, *loads], made.mentions)
        found = (k for k in after.lacks(loads[-1]) if any(w in check.message for w in k.words))
        ways += (way for lack in found for _, way in of_order(after, loads, lack, None))
    told = "\0".join(dict.fromkeys(filter(None, ways)))
    yield from filter(None, said_once(told).split("\0"))


class _WithoutRequirements(InstalledDistributions):
    """What is installed; that a requirement is not is told only of what that may bring."""

    def __init__(self, subject: WheelUnderTest) -> None:
        super().__init__(subject.site, subject.python.name, *subject.linked)
        self._own = subject.members

    def not_installed(self, path: str) -> tuple[str, ...]:
        return () if path in self._own else super().not_installed(path)


def _truncated(check: Check, subject: WheelUnderTest) -> Iterator[str]:
    """Yield which objects end before their segments, where SIGBUS ended the process."""
    if check.status is CheckStatus.CRASHED and "(SIGBUS)" in check.message:
        yield from (why for why in subject.wheel.broken_elfs.values() if "is truncated:" in why)


def _running_code(check: Check) -> Iterator[str]:
    """Yield the code that runs in such an attempt."""
    if check.kind is AttemptKind.LOAD:
        yield "when loaded: in its own constructors, or in those of a library that it loads"
    elif check.kind is AttemptKind.IMPORT:
        hooks = " or ".join(init_functions(check.what.rpartition(".")[2]))
        yield f"when imported: in {hooks}, in constructors, or in Python code of its packages"


def _first_group(pattern: re.Pattern[str], text: str) -> str | None:
    """Return the group that took part in the first match, None without a match."""
    match = pattern.search(text)
    return None if match is None else match[match.lastindex or 0]
