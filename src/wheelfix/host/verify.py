"""Verification of a wheel: install it, load every object, import every module, run every program.

Each attempt is a process of its own, with all symbols bound at once, in a temporary environment.
What was loaded is compared with the prediction of the loader model.
"""

import os
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import replace
from functools import cache, partial
from importlib.metadata import Distribution, EntryPoint
from itertools import takewhile
from pathlib import Path

from packaging.utils import canonicalize_name

from wheelfix.analysis.load_failures import LoadJudge
from wheelfix.analysis.world import World
from wheelfix.budget import Budget
from wheelfix.elf.model import Elf
from wheelfix.elf.object_file_names import is_object_name
from wheelfix.errors import SettingsError, ToolError
from wheelfix.grouping import flatten, values_by_key
from wheelfix.host.ask_import_probe import PROBE, ask_probe
from wheelfix.host.fresh_environments import (
    INSTALLER_SCHEMES,
    FreshEnvironment,
    RefusedWheelError,
    find,
    install,
    lacking_installer,
    link_installed,
    make,
    make_unpacked,
)
from wheelfix.host.installed_files import dist_info_folders, recorded_files
from wheelfix.host.library_search import libraries_defining, library_at
from wheelfix.host.machine_files import has_string
from wheelfix.host.neighbors import InstalledDistributions, Unmet
from wheelfix.host.prefixes import own_modules, standard_library
from wheelfix.host.pythons import Interpreter, all_pythons, named_python
from wheelfix.host.reachable_files import glibc_of, read_file, read_process
from wheelfix.host.verify_diagnosis import (
    checks,
    is_loaded,
    of_machine,
    opened_of_machine,
    status_of,
    with_hosts,
)
from wheelfix.host.verify_values import (
    UNTRIED,
    Attempt,
    AttemptKind,
    Check,
    CheckStatus,
    Options,
    Verified,
    VerifyAnswer,
    WheelUnderTest,
)
from wheelfix.loader.file_system import FileSystem
from wheelfix.loader.install_schemes import (
    SITE_FOLDERS,
    Scheme,
    allows_any,
    interpreters,
    name_in_site,
    python_version,
    scheme_names,
    schemes,
)
from wheelfix.loader.load_values import Load
from wheelfix.loader.loading import load_first, load_in_turn
from wheelfix.loader.python_api import MODULE_SUFFIX, init_functions
from wheelfix.providers.markers import may_hold
from wheelfix.providers.requirements_between_wheels import Part, each_requirement
from wheelfix.providers.well_known import lacking_notes
from wheelfix.system.lazy_patterns import lazy_pattern
from wheelfix.system.tempfiles import scratch
from wheelfix.wheel.model import Wheel, WheelName
from wheelfix.wheel.names_in_code import CodeNames
from wheelfix.wheel.platform_tags import are_android
from wheelfix.wheel.reader import Archive, open_wheel
from wheelfix.wheel.requirements import allows_python, parsed


class OtherPythonError(SettingsError):
    """The tags of a wheel allow none of the Pythons."""


def verify(
    path: Path, options: Options, environ: Mapping[str, str], *, name: WheelName | None = None
) -> Iterator[Verified]:
    """Verify the wheel at `path` in a fresh environment for each chosen Python and scheme.

    It is absolute, and so are those beside it. `name` is the name of the wheel if the file has
    another one. Raises `WheelfixError` if the wheel cannot be read or installed.
    """
    with open_wheel(path, name=name) as archive:
        wheel = archive.wheel
        if options.image is not None:
            site = [Path(os.path.realpath(options.site))] if options.site is not None else []
            read = options.image.reading(path, *options.beside, PROBE, *site)
            options = replace(options, image=read)
        for python in usable_pythons(wheel, options, environ):
            allowed = {s.name: s for s in schemes(wheel.name) if s.python == python.name}
            for scheme in _chosen(options, allowed, wheel.name, python):
                layout = allowed.get(scheme)
                result = Verified(
                    wheel=str(wheel.name),
                    scheme=scheme,
                    python=python.name,
                    interpreter=python.path,
                    image=python.image.name if python.image else "",
                )
                with scratch() as folder:
                    root = Path(os.path.realpath(folder))
                    if layout is not None and scheme.partition("-")[0] not in INSTALLER_SCHEMES:
                        place = make_unpacked(layout, python, root, environ)
                    else:
                        place = make(scheme, python, root, environ)
                    dependencies, beside = options.dependencies, options.beside
                    try:
                        install(path, wheel, place, dependencies=dependencies, beside=beside)
                    except RefusedWheelError as error:
                        yield replace(result, checks=(_refused(result.wheel, error),))
                        continue
                    except ToolError as error:
                        needed = sorted(wheel.needed) if dependencies else ()
                        notes = flatten(lacking_notes(name, wheel) for name in needed)
                        hint = "\n".join(filter(None, (*notes, error.hint)))
                        raise error.with_hint(hint or None) from error
                    subject = _subject(archive, python, place, layout, options)
                    result = _verify_scheme(subject, result)
                yield result


_CAUSE = lazy_pattern(r"\b(?:[Cc]ause|Caused by|error|ERROR): |\bBecause ")


def _refused(name: str, error: ToolError) -> Check:
    """Return that an installer refuses a wheel, with the last of the causes that it prints."""
    cause = next(filter(_CAUSE.search, reversed(error.lines)), error.lines[-1])
    return Check(
        kind=AttemptKind.INSTALL,
        member=name,
        what=name,
        status=CheckStatus.NOT_INSTALLED,
        message=cause.strip(),
        tail=error.message,
    )


def _subject(
    archive: Archive,
    python: Interpreter,
    place: FreshEnvironment,
    layout: Scheme | None,
    options: Options,
) -> WheelUnderTest:
    """Return the installed wheel, in an environment whose Python finds it."""
    wheel = archive.wheel
    part = part_for(wheel, python)
    site, files = find(place.root, wheel, layout)
    if options.site is not None:
        link_installed(options.site, place, site)
    if not place.is_site_searched:
        found = _search_path([*dict.fromkeys((str(site), *place.paths))], place)
        place = replace(place, environ={**place.environ, **found})
    return WheelUnderTest(
        wheel=wheel,
        files=files,
        site=site,
        place=place,
        options=options,
        unmet=tuple(_unmet(part, options, site, python)),
        python=python,
        code=CodeNames(archive),
    )


def _search_path(folders: Sequence[str], place: FreshEnvironment) -> dict[str, str]:
    """Return the variable with which Python finds the folders of a wheel.

    A prefix has its site-packages after the standard library, as the user's are.
    """
    if Path(folders[0]).name not in SITE_FOLDERS:
        return {"PYTHONPATH": ":".join(folders)}
    user = {"PYTHONUSERBASE": str(place.root.parent / "user")}
    site = Path(user["PYTHONUSERBASE"], "lib", place.base.name, "site-packages")
    site.mkdir(parents=True)
    lines = (f"import site; site.addsitedir({folder!a})\n" for folder in folders)
    (site / "wheelfix.pth").write_text("".join(lines))
    return user


def _unmet(part: Part, options: Options, site: Path, python: Interpreter) -> Iterable[Unmet]:
    """Return what a wheel requires, directly or not, and what is in `site` does not meet."""
    if options.dependencies:
        return ()
    name, found = part.name, dict[str, Unmet]()
    installed = InstalledDistributions(site, python.name)
    requires = installed.requires_dist.items()
    held = {other: _held(theirs, name, python) for other, theirs in requires}
    beside = {canonicalize_name(path.name.partition("-")[0]) for path in options.beside}
    for at, (required, through) in each_requirement(part, held):
        unmet = installed.unmet(f"{name.distribution} {name.version}", required, through)
        if unmet and (unmet.version or at not in beside):
            found.setdefault(at, unmet)
    return found.values()


def part_for(wheel: Wheel, python: Interpreter) -> Part:
    """Return a wheel as if it were for one Python alone, with what it may require there."""
    implementation = "pp" if python.name.startswith("pypy") else "cp"
    tag = implementation + python_version(python.name).replace(".", "")
    name = wheel.name._replace(pythons=(tag,), abis=("none",))
    return Part(name, _held(wheel.metadata.requires_dist, name, python))


def _held(texts: Iterable[str], name: WheelName, python: Interpreter) -> tuple[str, ...]:
    """Return those of some requirements that may hold for a Python, with some extra."""
    pairs = ((text, requirement) for text in texts for requirement in parsed([text]))
    return tuple(text for text, required in pairs if may_hold(required, name, python.markers))


def _verify_scheme(subject: WheelUnderTest, result: Verified) -> Verified:
    """Return the result with what came of the attempts."""
    planned = tuple(_attempts(subject))
    answers = dict(_answered(subject, planned))
    answered = {attempt: answers[attempt] for attempt in planned}
    answered |= _packages_of_raised(subject, answered)
    predicted, judge = _predict(subject)
    hosted = tuple(with_hosts(subject, answered, predicted))
    loaded = {a.member for a, answer in _answered(subject, hosted) if is_loaded(answer)}
    made = checks(
        subject,
        tuple(answered.items()),
        predicted,
        {attempt.member: attempt for attempt in hosted if attempt.member in loaded},
        judge,
    )
    # An import has loaded others before these: those of the machine are not used.
    lent = {check.member for check in made if check.status is CheckStatus.DEPENDENT}
    # Without a virtual environment, the base Python's are there, too.
    is_known = subject.place.python != subject.python.path
    alone = (load for path, load in predicted.items() if subject.members.get(path) not in lent)
    opened = opened_of_machine(subject, answers.values())
    used = {*of_machine(subject, alone), *((False, path) for path in opened)}
    return replace(
        result,
        checks=made,
        not_met=tuple(each for each in subject.unmet if each.version or is_known),
        lost=tuple(member for member in subject.wheel.elfs if member not in subject.files),
        of_machine=tuple(dict.fromkeys(path for _, path in sorted(used))),
    )


def _predict(
    subject: WheelUnderTest,
) -> tuple[Mapping[str, Load], Callable[[], LoadJudge]]:
    """Return the load of each object as the model predicts it, by installed path, and its judge.

    Symbols are read when the judge is asked for, of a load. Files of an image are not read.
    """
    roots = [
        subject.files[member].path
        for member, elf in subject.wheel.elfs.items()
        if elf.dynamic and member in subject.files
    ]
    program = os.path.realpath(subject.place.python)
    first = (subject.python.ctypes,) if subject.python.ctypes else ()
    budget = Budget.of_file(str(subject.wheel.name), subject.wheel.zip_size)
    loads = dict[str, Load]()
    # A Python may be a script.
    if roots and subject.python.image is None and read_file(program) is not None:
        environment = read_process(program, (*first, *roots))
        files = FileSystem(environment, budget)
        loads = {
            root: load_first(root, files)
            if environment.files[root].is_executable
            else load_in_turn((*first, root), files)[-1]
            for root in roots
        }
    return loads, cache(partial(_judge, subject, loads, program, first, budget))


def _judge(
    subject: WheelUnderTest,
    loads: Mapping[str, Load],
    program: str,
    first: Sequence[str],
    budget: Budget,
) -> LoadJudge:
    """Return the judge of loads, beside all that is installed and that the interpreter loads."""
    folders = flatten(map(dist_info_folders, (subject.site, *subject.linked)))
    installed = filter(is_object_name, flatten(map(recorded_files, folders)))
    modules = own_modules(standard_library(subject.place.root))
    environment = read_process(program, (*first, *loads, *installed, *modules))
    files, sites = environment.files, [f"{folder}/" for folder in (subject.site, *subject.linked)]
    world = World(
        environment=environment,
        budget=budget,
        abi=files[next(iter(loads))].abi,
        schemes=tuple(s for s in schemes(subject.wheel.name) if s.python == subject.python.name),
        members={path: subject.installed_name(path) for path in subject.members},
        versions=glibc_of(files.values()),
        linkable=libraries_defining,
        others={path: name_in_site(path) for path in files if path.startswith((*sites,))},
    )
    libraries = {path: library_at(path, elf) for path, elf in files.items() if elf.dynamic}
    return LoadJudge.of(world, libraries, loads.values(), has_string)


# --- Pythons and schemes --------------------------------------------------------------------------


def _chosen(
    options: Options, allowed: Mapping[str, Scheme], name: WheelName, python: Interpreter
) -> tuple[str, ...]:
    """Return the schemes to make; raises `SettingsError` for one that the tags exclude."""
    usable = tuple(scheme for scheme in allowed if not lacking_installer(scheme, python))
    for scheme in options.schemes:
        if scheme in scheme_names() and scheme not in allowed:
            raise SettingsError(
                f"`{name}` is not installed by `{scheme}` for {python.name}",
                hint=f"its tags allow {', '.join(usable)}",
            )
    chosen = (usable if scheme == "all" else (scheme,) for scheme in options.schemes)
    return tuple(dict.fromkeys(flatten(chosen)))


def schemes_without_installer(
    wheel: Wheel, options: Options, environ: Mapping[str, str]
) -> Iterator[tuple[str, str]]:
    """Yield the schemes that `all` leaves out, each with the installer that it lacks."""
    if "all" in options.schemes:
        for python in usable_pythons(wheel, options, environ):
            every = schemes(wheel.name)
            of_python = (scheme.name for scheme in every if scheme.python == python.name)
            lacking = ((scheme, lacking_installer(scheme, python)) for scheme in of_python)
            yield from (pair for pair in lacking if pair[1])


def usable_pythons(
    wheel: Wheel, options: Options, environ: Mapping[str, str]
) -> tuple[Interpreter, ...]:
    """Return the Pythons to use; raises `OtherPythonError` if tags or Requires-Python allow none.

    Raises `ToolError` for a wheel for Android.
    """
    if are_android(wheel.name.platforms):
        raise ToolError(
            f"`{wheel.name}` is for Android: only a device or its emulator can import it",
            hint="`wheelfix explain` computes what it loads there",
        )
    allowed, required = interpreters(wheel.name), wheel.metadata.requires_python or ""
    if not allows_any(required, allowed):
        required = ""  # what no Python can install (WF507), the installer refuses

    def is_allowed(python: Interpreter) -> bool:
        # Of `3.14.0rc1` and `3.14.0+`, installers compare the numbers.
        whole = python.markers["python_full_version"]
        version = "".join(takewhile("0123456789.".__contains__, whole))
        return python.name in allowed and allows_python(required, [version])

    wanted, image = options.pythons, options.image
    default = "python3" if image else sys.executable
    pythons = [named_python(python, environ, image) for python in wanted or (default,)]
    usable = tuple(filter(is_allowed, pythons))
    others = () if usable or image else tuple(filter(is_allowed, all_pythons(environ)))
    if found := usable or (() if wanted else others[-1:]):
        return found
    names = ", ".join(python.name for python in pythons)
    why = f"METADATA requires Python {required}"
    if any(python.name not in allowed for python in pythons):
        why = f"its tags allow {', '.join(allowed)}"
    hint = "install one of these Pythons, and name it with `--python`"
    for python in others[-1:]:
        hint = f"{python.name} is installed: `--python {python.name}`"
    raise OtherPythonError(f"`{wheel.name}` cannot be installed for {names}: {why}", hint=hint)


# --- What to try ----------------------------------------------------------------------------------


def _attempts(subject: WheelUnderTest) -> Iterator[Attempt]:
    """Yield an attempt for every object, extension module, package, entry point, and program."""
    imported: list[str] = []
    run = frozenset(programs(subject.wheel))
    for member in subject.files:
        elf = subject.wheel.elfs.get(member)
        if member in run or (elf and not elf.dynamic):
            continue
        if elf:
            yield Attempt(AttemptKind.LOAD, member, subject.files[member].path)
        module = _module(subject, member, elf)
        if module is not None:
            imported.append(module)
            yield Attempt(AttemptKind.IMPORT, member, module)
    yield from _packages(subject, imported)
    yield from _entry_points(subject)
    for member in filter(subject.files.__contains__, programs(subject.wheel)):
        yield Attempt(AttemptKind.RUN, member, subject.files[member].path)


def _packages(subject: WheelUnderTest, imported: Sequence[str]) -> Iterator[Attempt]:
    """Yield an import of each package that has or opens libraries, and no extension module.

    Where no import is known to need the objects, every package is imported, and every module.
    """
    wheel = subject.wheel
    packages = {member: _package(subject, member) for member in subject.files}
    own = [packages.get(member) for member in wheel.elfs]
    users = (*wheel.elfs, *wheel.openings) if imported or (own and all(own)) else packages
    for found in dict.fromkeys(map(packages.get, users)):
        if found and not any(f"{module}.".startswith(f"{found[1]}.") for module in imported):
            yield Attempt(AttemptKind.IMPORT, *found)


def _packages_of_raised(
    subject: WheelUnderTest, answered: Mapping[Attempt, VerifyAnswer]
) -> Iterator[tuple[Attempt, VerifyAnswer]]:
    """Import each package all of whose modules raised: it may load them under other names.

    Yield each import that does, or fails otherwise, with its answer.
    """
    imports = {a: each for a, each in answered.items() if a.kind is AttemptKind.IMPORT}
    statuses = values_by_key(
        (_package(subject, attempt.member), status_of(subject, attempt, answer)[0])
        for attempt, answer in imports.items()
    )
    wanted = [
        Attempt(AttemptKind.IMPORT, *package)
        for package, those in statuses.items()
        if package and {*those} - UNTRIED == {CheckStatus.RAISED}
    ]
    tried = {subject.files[attempt.member].path for attempt in imports}
    errors = {answer.get("error") for answer in imports.values()}
    for attempt, answer in _answered(subject, [each for each in wanted if each not in imports]):
        paths = {path for *_, path in answer.get("maps", ())}
        if paths & tried if is_loaded(answer) else answer.get("error") not in errors:
            yield attempt, answer


def _package(subject: WheelUnderTest, member: str) -> tuple[str, str] | None:
    """Return the outermost package of a file, or a module in none, and the name to import it by."""
    path = subject.files[member].path.removeprefix(f"{subject.site}/")
    parts = path.split("/")
    for depth in range(1, len(parts)):
        init = subject.members.get("/".join((str(subject.site), *parts[:depth], "__init__.py")))
        if init and all(map(str.isidentifier, parts[:depth])):
            return init, ".".join(parts[:depth])
    is_module = path.endswith(".py") and (len(parts) == 1 or member in subject.wheel.openings)
    name = path.removesuffix(".py").replace("/", ".")
    return (member, name) if is_module and all(map(str.isidentifier, name.split("."))) else None


def _entry_points(subject: WheelUnderTest) -> Iterator[Attempt]:
    """Yield an attempt for each function that a script of `entry_points.txt` calls."""
    member = f"{subject.wheel.dist_info}/entry_points.txt"
    if (file := subject.files.get(member)) is None:
        return
    entries: Iterable[EntryPoint] = ()
    with suppress(TypeError, ValueError):  # a line without `=`, or not UTF-8: WF519 is about it
        entries = Distribution.at(Path(file.path).parent).entry_points
    for entry in entries:
        value = entry.value.replace(" ", "").replace("[", " [")
        if entry.group in {"console_scripts", "gui_scripts"} and ":" in value:
            yield Attempt(AttemptKind.RESOLVE, member, f"{entry.name} = {value}")


def _module(subject: WheelUnderTest, member: str, elf: Elf | None) -> str | None:
    """Return the name to import `member` by, None if it is not a module for this Python.

    A file whose suffix only extension modules have is one whatever its entry point is called, or
    whether it is damaged: the import fails. So is one whose suffix is for no Python of the tags.
    """
    path = subject.files[member].path
    if not path.startswith(f"{subject.site}/"):
        return None
    relative = path.removeprefix(f"{subject.site}/")
    suffixes = subject.python.suffixes
    for suffix in (*_misfit(subject, path), *suffixes):  # `.so` ends each
        if relative.endswith(suffix):
            parts = relative.removesuffix(suffix).split("/")
            if any("." in part or not part.isidentifier() for part in parts):
                return None
            names = parts[:-1] if parts[-1] == "__init__" and parts[1:] else parts
            hooks = elf.module_hooks if elf else ()
            fits = not set(init_functions(names[-1])).isdisjoint(hooks)
            if not fits and suffix != ".so":
                fits = elf.is_module if elf and hooks else _may_import(subject, member, names[-1])
            return ".".join(names) if fits else None
    return None


def _may_import(subject: WheelUnderTest, member: str, name: str) -> bool:
    """Return whether a file without init functions is not there for others to link or to open."""
    needed = flatten(elf.needed for elf in subject.wheel.elfs.values())
    is_library = name.startswith("lib") or member.rpartition("/")[2] in needed
    return not is_library and subject.code.may_import(member)


def _misfit(subject: WheelUnderTest, path: str) -> Iterator[str]:
    """Yield the suffix of a module if no Python of the tags looks for it, and no file serves."""
    suffix = MODULE_SUFFIX.search(path)
    minor = suffix and (suffix["cpython"] or suffix["pypy"])
    if suffix is None or minor is None:
        return
    kind = "python" if suffix["cpython"] else "pypy"
    of_suffix = f"{kind}3.{minor}" + "t" * ("t" in (suffix["flags"] or ""))
    others = {*interpreters(subject.wheel.name)} - {subject.python.name}
    stem = path.removesuffix(suffix[0])
    served = any(Path(stem + end).exists() for end in (*subject.python.suffixes, ".py"))
    if of_suffix not in others and not served:
        yield suffix[0]


def programs(wheel: Wheel) -> Iterator[str]:
    """Yield the members that are programs: the wheel's scripts, and executable ELF files.

    A library among the scripts is none.
    """
    scripts = wheel.dist_info.scripts
    for member in wheel.members:
        elf = wheel.elfs.get(member.name)
        if elf.is_executable if elf is not None else member.name.startswith(scripts):
            yield member.name


# --- Execution ------------------------------------------------------------------------------------


def _answered(
    subject: WheelUnderTest, planned: Sequence[Attempt]
) -> Iterator[tuple[Attempt, VerifyAnswer]]:
    """Run the attempts, each in a process of its own; return each with its answer.

    Raises `ToolError` if the Python under test fails to run the probe.
    """
    count = min(subject.options.jobs, len(planned))
    parts = [planned[number::count] for number in range(count)]
    with ThreadPoolExecutor(count or 1) as pool:
        answered = list(pool.map(partial(_run_probe, subject), parts))
    for part, answers in zip(parts, answered, strict=True):
        yield from zip(part, answers, strict=True)


def _job(attempt: Attempt) -> str | list[str]:
    if attempt.kind is AttemptKind.RUN:
        return [attempt.what, "--version"]
    if attempt.kind is AttemptKind.RESOLVE:
        return attempt.what.partition(" = ")[2].partition(" [")[0]
    return attempt.what


def _run_probe(subject: WheelUnderTest, planned: Sequence[Attempt]) -> list[VerifyAnswer]:
    """Run the attempts in one process of the probe."""
    jobs = [
        {"kind": attempt.kind, "what": _job(attempt), "after": attempt.after} for attempt in planned
    ]
    place = subject.place
    return ask_probe(
        place.run,
        place.python,
        jobs,
        environ=place.environ,
        home=place.root.parent / "home",
        seconds=subject.options.timeout,
    )
