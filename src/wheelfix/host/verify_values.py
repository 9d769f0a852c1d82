"""Values of a verification: options, the wheel under test, attempts, results."""

from collections.abc import Mapping
from enum import StrEnum
from functools import cached_property
from pathlib import Path
from typing import Any

from wheelfix.analysis.left_to_requirements import LeftToRequirements, left_to_requirements
from wheelfix.frozen import frozen
from wheelfix.grouping import values_by_key
from wheelfix.host.containers import Image
from wheelfix.host.fresh_environments import FreshEnvironment
from wheelfix.host.installed_files import File
from wheelfix.host.neighbors import InstalledDistributions, Unmet
from wheelfix.host.pythons import Interpreter
from wheelfix.named_tuple import NamedTuple
from wheelfix.settings import Settings
from wheelfix.wheel.model import Wheel
from wheelfix.wheel.names_in_code import CodeNames


class CheckStatus(StrEnum):
    """The result of one attempt."""

    OK = "ok"
    NEEDS = "not tried"
    """It needs a module or a library that another distribution brings, which is not installed."""
    MACHINE = "not tried here"
    """It needs a library of the user's machine, such as a driver, which this machine lacks."""
    PROGRAM = "not tried in its program"
    """A plug-in that takes symbols of a program of the wheel, which alone can load it; a program
    that lacks the LD_LIBRARY_PATH with which code of the wheel starts it."""
    NO_BIT = "not run without its executable bit"
    """A program in a package, with the mode that it has in the wheel."""
    AFTER = "loaded only after others"
    """It loads after libraries of other distributions, to which its own search path does not lead.
    Whether something loads those before it is not known."""
    REPLACED = "replaced by another module"
    """A module in whose place its package, when imported, puts another one."""
    RAISED = "raised an exception"
    """The objects are loaded; the Python code of the module raised."""
    EXITED = "exit code"
    """A program started and failed; it may not know the arguments."""
    NOT_RUN = "could not be executed"
    """It ended with 126 or 127, as shells say it of what is not a program or lacks one."""
    NO_OBJECT = "not found"
    """A module of the wheel, or the function of an entry point, that Python does not find."""
    DEPENDENT = "loaded only with others"
    """A library that does not load alone; another object, or an import, has loaded it."""
    HOSTED = "loaded only after what it uses"
    """It does not load alone, as a plug-in, and does after the objects that define its symbols."""
    PRELOAD = "for LD_PRELOAD"
    """A library, not an extension module, whose static TLS must be reserved at the start."""
    NOT_INSTALLED = "refused by the installer"
    MISSING = "missing library"
    UNDEFINED = "undefined symbol"
    VERSION = "missing symbol version"
    REFUSED = "refused by the loader"
    NO_HOOK = "not a module"
    """Python finds no `PyInit` function of the name of the file (Python/importdl.c)."""
    CRASHED = "crashed"
    """A signal ended it."""
    NO_ANSWER = "no answer came"
    """It ended, or answered without the object that it was to load: it is not known whether."""
    HUNG = "hung"
    GIL = "enables the GIL"
    """An extension module that does not declare `Py_mod_gil`, in a free-threaded Python."""
    GIL_OF_OTHERS = "runs with the GIL"
    """A module of another distribution, which it imports, enables the GIL."""
    DIFFERS = "unlike the prediction"


_ELSEWHERE = frozenset({CheckStatus.MACHINE, CheckStatus.NO_BIT})
UNTRIED = _ELSEWHERE | {CheckStatus.NEEDS, CheckStatus.PROGRAM}
_UNKNOWN = UNTRIED | {CheckStatus.AFTER, CheckStatus.REPLACED}
_FINE = frozenset({CheckStatus.OK, CheckStatus.DEPENDENT, CheckStatus.HOSTED, CheckStatus.PRELOAD})
_NOT_OF_THE_WHEEL = (
    _FINE | _UNKNOWN | {CheckStatus.RAISED, CheckStatus.EXITED, CheckStatus.GIL_OF_OTHERS}
)


class VerifyResult(StrEnum):
    """The result for one wheel in one environment."""

    OK = "ok"
    NOT_TRIED = "not tried"
    """Nothing failed: no object loaded, no module imported, something lacks a requirement, or a
    script undeclared code."""
    SCRIPT_RAISED = "every script raised"
    """A module was imported, but that of no script, or no program ran: Python code raised."""
    RAISED = "every import raised"
    """Nothing failed to load, but no module was imported: Python code raised."""
    FAILED = "failed"


class AttemptKind(StrEnum):
    """What is attempted."""

    INSTALL = "install"
    LOAD = "load"
    IMPORT = "import"
    RESOLVE = "resolve"
    RUN = "run"


class Attempt(NamedTuple):
    """One object to load, module to import, entry point to resolve, or program to run."""

    kind: AttemptKind
    member: str
    what: str
    """The installed path, the name of the module, or the value of the entry point."""
    after: tuple[str, ...] = ()
    """The installed paths of objects to open for all before it."""


@frozen
class Options:
    """What to verify, and the time limits."""

    pythons: tuple[str, ...] = ()
    """Their paths; none means the one that runs wheelfix, or else one that the tags allow; in an
    image `python3`."""
    image: Image | None = None
    """The image of a container in which everything is installed and run."""
    schemes: tuple[str, ...] = ("venv",)
    dependencies: bool = False
    """Install what the wheel requires, from the index that the installer is configured for."""
    beside: tuple[Path, ...] = ()
    """Other wheels to install too, without what they require."""
    site: Path | None = None
    """An environment whose distributions are linked into the fresh one."""
    exclude: tuple[str, ...] = ()
    """The patterns of libraries that the user leaves to the machine."""
    timeout: float = 60
    """Seconds for each attempt."""
    jobs: int = 2
    """Attempts at the same time."""


VerifyAnswer = Mapping[str, Any]
"""The answer of the probe to one attempt; `import_probe` has the keys."""


@frozen
class WheelUnderTest:
    """A wheel that is installed in a fresh environment."""

    wheel: Wheel
    files: Mapping[str, File]
    """The installed files, by member."""
    site: Path
    """The folder of its packages."""
    place: FreshEnvironment
    options: Options
    unmet: tuple[Unmet, ...]
    """What it requires, directly or not, and what is installed does not meet."""
    python: Interpreter
    code: CodeNames

    @cached_property
    def left_out(self) -> tuple[str, ...]:
        """What it requires, directly or not, and is not installed."""
        return tuple(each.name for each in self.unmet if each.version is None)

    @cached_property
    def left(self) -> LeftToRequirements:
        """What it leaves to the requirements that are not installed."""
        settings = Settings(exclude=self.options.exclude)
        left = left_to_requirements(self.wheel, settings, (), None) if self.left_out else None
        return left or LeftToRequirements()

    @cached_property
    def installed(self) -> InstalledDistributions:
        """What is installed with it."""
        return InstalledDistributions(self.site, self.python.name, *self.linked)

    @property
    def linked(self) -> tuple[Path, ...]:
        """The environments that `site` has links into."""
        site = self.options.site
        return () if site is None else (site.resolve(),)

    @cached_property
    def members(self) -> Mapping[str, str]:
        """The members by installed path."""
        return {file.path: member for member, file in self.files.items()}

    def installed_name(self, path: str) -> str:
        """Return the path of an installed file below site-packages, or else below the prefix."""
        return path.removeprefix(f"{self.site}/").removeprefix(f"{self.place.root}/")


@frozen
class Check:
    """One attempt and its result."""

    kind: AttemptKind
    member: str
    what: str
    """The installed path, the name of the module, or the value of the entry point."""
    status: CheckStatus = CheckStatus.OK
    message: str = ""
    """What went wrong; of what was not tried, the module or distribution that it needs."""
    explanation: tuple[str, ...] = ()
    tail: str = ""
    """The end of the output."""
    loaded: tuple[str, ...] = ()
    """The members that were in the process at the end."""
    is_undeclared: bool = False
    """Whether it needs what no distribution has, though all that METADATA requires is installed."""
    is_required: bool = False
    """Whether it may need what is required and not installed."""

    @property
    def failed(self) -> bool:
        """Whether the wheel is at fault."""
        return self.status not in _NOT_OF_THE_WHEEL


@frozen
class Verified:
    """The results of one wheel in one environment."""

    wheel: str
    scheme: str
    python: str
    """As in `loader.install_schemes`: `python3.11`."""
    interpreter: str
    """Its path."""
    image: str = ""
    """The image that has it; empty for this machine."""
    checks: tuple[Check, ...] = ()
    not_met: tuple[Unmet, ...] = ()
    """Who requires what that was not installed, or in another version."""
    lost: tuple[str, ...] = ()
    """Objects of the wheel that the installer did not install."""
    of_machine: tuple[str, ...] = ()
    """The libraries of this machine that objects load, and that no platform tag promises."""

    @property
    def untried(self) -> tuple[Check, ...]:
        """What could not be tried here."""
        return tuple(check for check in self.checks if check.status in UNTRIED)

    @property
    def failed(self) -> bool:
        """Whether a check failed."""
        return any(check.failed for check in self.checks)

    def result(self, *, strict: bool) -> VerifyResult:
        """Return the result; `strict` also fails for what may not be the wheel's fault."""
        if self.failed or (strict and any(check.status not in _FINE for check in self.checks)):
            return VerifyResult.FAILED
        imports = {AttemptKind.RESOLVE: AttemptKind.IMPORT}
        attempts = values_by_key((imports.get(c.kind, c.kind), c.status) for c in self.checks)
        # What waits for the user's machine, or for its mode, does not count where something else
        # was tried; that a module was imported does.
        here = [
            {*statuses}
            for kind, statuses in attempts.items()
            if not _ELSEWHERE.issuperset(statuses) or kind is AttemptKind.IMPORT
        ]
        entries = [c for c in self.checks if c.kind is AttemptKind.RESOLVE]
        is_unknown = any(map(_UNKNOWN.issuperset, here)) or any(c.is_undeclared for c in entries)
        if is_unknown or not here or any(check.is_required for check in self.checks):
            return VerifyResult.NOT_TRIED
        scripts = {c.status for c in entries}
        modules = {c.status for c in self.checks if c.kind is AttemptKind.IMPORT}
        if not any(every - _UNKNOWN == {CheckStatus.RAISED} for every in (*here, scripts)):
            return VerifyResult.OK
        is_all = modules - _UNKNOWN == {CheckStatus.RAISED}
        return VerifyResult.RAISED if is_all else VerifyResult.SCRIPT_RAISED
