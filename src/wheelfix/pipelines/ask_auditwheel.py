"""Questions to auditwheel about a view of a wheel, and its answers as those about the wheel.

auditwheel reads the view (see `auditwheel_view`) in a process of its own.
"""

import tempfile
import zipfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from importlib import metadata
from pathlib import Path

from wheelfix.analysis.auditwheel_answer import Analysis
from wheelfix.analysis.policies import Policy
from wheelfix.analysis.policy_reasons import checks_isa, newest_symbol
from wheelfix.analysis.policy_verdict import Verdict, verdict_from
from wheelfix.elf.model import ORIGIN
from wheelfix.errors import BadWheelError, SettingsError, ToolError
from wheelfix.host.library_search import AUDITWHEEL_PATH, LIBRARY_PATHS, search_folders
from wheelfix.host.machine_files import Trust
from wheelfix.host.policy_tables import not_installed_error, read_policies
from wheelfix.pipelines.auditwheel_view import View, build_view
from wheelfix.pipelines.auditwheel_worker import Auditwheel, AuditwheelRefusal, Question
from wheelfix.pipelines.graft import HostLibrary, read_library
from wheelfix.pipelines.repair_refusals import no_object_error
from wheelfix.settings import Settings
from wheelfix.system.wheelfix_metadata import is_supported, required_versions
from wheelfix.wheel.model import FILE_MODE, Wheel


@dataclass(frozen=True, slots=True)
class AskedAuditwheel:
    """auditwheel, asked in a process of its own; all files are written to `workdir`.

    LD_LIBRARY_PATH and AUDITWHEEL_LD_LIBRARY_PATH of the user's environment are used.
    """

    auditwheel: Auditwheel
    workdir: Path

    def analyze(self, wheel: Wheel, settings: Settings, exclude: Sequence[str]) -> Analysis:
        """Ask about a view of `wheel`; the answer is about its members."""
        shown = wheel if settings.ldpaths is None else _without_loaders(wheel)
        view = build_view(shown, exclude, _policies())
        question = self._question(view, wheel, settings, exclude)
        return _about_members(_analyze(self.auditwheel, question, wheel), view, question)

    def verdict(self, wheel: Wheel, settings: Settings, exclude: Sequence[str]) -> Verdict:
        """Ask about a view of `wheel`; raises as `graft` does.

        Unless a pattern of `exclude` is for paths, it does not matter what this machine has.
        """
        policies = _policies()
        view = build_view(wheel, exclude, policies)
        question = self._question(view, wheel, settings, exclude)._replace(platform=None)
        if not any(pattern.startswith(("/", "*", "?", "[")) for pattern in exclude):
            # What this machine has for an external library makes no difference to the tag.
            nowhere = {**question.environ, AUDITWHEEL_PATH: ""}
            question = question._replace(ldpaths="", environ=nowhere)
        judgement = _analyze(self.auditwheel, question, wheel).judgement
        found = verdict_from(wheel, judgement, settings, policies)
        return found._replace(newest=newest_symbol(wheel, found.overall, policies))

    def library(self, source: Path) -> HostLibrary:
        """Copy the library."""
        return read_library(source, self.workdir)

    def _question(
        self, view: View, wheel: Wheel, settings: Settings, exclude: Sequence[str]
    ) -> Question:
        """Write the view as a wheel, into a folder of its own in `workdir`, and ask about it."""
        self.workdir.mkdir(parents=True, exist_ok=True)
        folder = Path(tempfile.mkdtemp(prefix="auditwheel-", dir=self.workdir)).resolve()
        with zipfile.ZipFile(folder / view.filename, "w", zipfile.ZIP_STORED) as archive:
            for name, content in view.members.items():
                entry = zipfile.ZipInfo(name)
                entry.external_attr = FILE_MODE << 16
                archive.writestr(entry, content)
        return Question(
            wheel=folder / view.filename,
            exclude=frozenset(exclude),
            platform=settings.plat,
            ldpaths=settings.ldpaths,
            isa_ext_check=checks_isa(wheel, settings),
            environ=_environment(folder, self.auditwheel.environ, settings),
            trust=Trust.of_process(),
            timeout=settings.timeout,
        )


# --- The question ---------------------------------------------------------------------------------


def _policies() -> tuple[Policy, ...]:
    """Return the policies of a supported auditwheel. Raises `ToolError` if there is none."""
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
    return read_policies()


def _without_loaders(wheel: Wheel) -> Wheel:
    """Return `wheel` without PT_INTERP: auditwheel also searches the folder of the loader."""
    elfs = {member: elf._replace(interpreter=None) for member, elf in wheel.elfs.items()}
    return replace(wheel, elfs=elfs)


def _environment(folder: Path, environ: Mapping[str, str], settings: Settings) -> dict[str, str]:
    """Return `environ` without auditwheel's own variables but that of the folders to search."""
    own, _ = LIBRARY_PATHS
    if ORIGIN.search(environ.get(own, "")):
        raise SettingsError(
            f"`{own}={environ[own]}` has an entry with `$ORIGIN`, which stands for no object here",
            hint="write absolute paths, or paths relative to the current directory",
        )
    known = {
        key: value
        for key, value in environ.items()
        if not key.startswith("AUDITWHEEL_") and key not in LIBRARY_PATHS
    }
    folders = search_folders(settings.library_path, environ, settings.ldpaths)
    return {**known, own: ":".join(folders), "TMPDIR": str(folder)}


def _analyze(auditwheel: Auditwheel, question: Question, wheel: Wheel) -> Analysis:
    """Return the analysis of a view of `wheel`. Raises `BadWheelError`, or `ToolError`."""
    match auditwheel.analyze(question):
        case Analysis() as analysis:
            return analysis
        case AuditwheelRefusal.LIBC_UNKNOWN:
            raise BadWheelError(
                "no object of the wheel says for which C library it was built",
                hint="name the platform, such as --plat manylinux_2_28_x86_64",
            )
        case AuditwheelRefusal.NO_OBJECT:
            raise no_object_error(wheel, question.platform or "auto")


# --- The answer -----------------------------------------------------------------------------------


def _about_members(analysis: Analysis, view: View, question: Question) -> Analysis:
    """Return the answer to a question about `view` as one about the wheel."""
    return analysis._replace(
        external={
            member: analysis.external[place]
            for place, members in view.represented.items()
            if place in analysis.external
            for member in members
        },
        excluded=view.excluded | analysis.excluded,
        searched=tuple(filter(None, question.environ[LIBRARY_PATHS[0]].split(":"))),
        warnings=tuple(_warnings(analysis, view)),
    )


def _warnings(analysis: Analysis, view: View) -> Iterator[str]:
    """Yield auditwheel's warnings about members."""
    for text in dict.fromkeys(analysis.warnings):
        if text.startswith("ignoring: ") or " not found in " in text:
            continue  # these have no folder, and name nothing that exists
        yield view.name_members(text)
