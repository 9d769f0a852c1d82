"""auditwheel's decisions, predicted for the plan of `check`: no process is started."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from wheelfix.analysis.auditwheel_answer import Analysis
from wheelfix.analysis.lddtree_search import SearchPath
from wheelfix.analysis.policy_analysis import analyze
from wheelfix.analysis.policy_verdict import Verdict, policy_verdict
from wheelfix.elf.model import Elf
from wheelfix.host.library_search import HostLibraries
from wheelfix.host.policy_tables import read_policies
from wheelfix.loader.as_needed import Library
from wheelfix.pipelines.graft import HostLibrary, read_library
from wheelfix.pipelines.repair_refusals import no_object_error
from wheelfix.rules.context import Memory
from wheelfix.settings import Settings
from wheelfix.wheel.model import Wheel


@dataclass(frozen=True, slots=True)
class PredictedAuditwheel:
    """auditwheel's decisions on what `libraries` of this machine it would find."""

    libraries: HostLibraries
    memory: Memory

    def analyze(self, wheel: Wheel, settings: Settings, exclude: Sequence[str]) -> Analysis:
        """Predict the analysis. Raises `NonPlatformWheelError` if no object counts."""
        key = wheel.name, tuple(exclude), wheel.elfs
        make = partial(_predict, wheel, settings, exclude, self.libraries)
        return self.memory.recall("analysis", key, make)

    def verdict(self, wheel: Wheel, settings: Settings, exclude: Sequence[str]) -> Verdict | None:
        """Compute the verdict from the policy tables."""
        judged = {
            member: elf._replace(rpath=None, runpath=None, segments=())
            for member, elf in wheel.elfs.items()
        }
        key = wheel.name, exclude, judged
        judge = partial(policy_verdict, wheel, settings, read_policies(), exclude)
        return self.memory.recall("verdict", key, judge)

    def library(self, source: Path) -> HostLibrary:
        """Read the library where it is."""
        return self.memory.recall(f"library {source}", None, partial(read_library, source, None))


def _predict(
    wheel: Wheel, settings: Settings, exclude: Sequence[str], libraries: HostLibraries
) -> Analysis:
    def find(name: str, dependent: Elf, path: str, root: SearchPath) -> tuple[Library, Path] | None:
        library = libraries.graftable(name, dependent, path, root)
        return None if library is None else (library, Path(library.path).resolve())

    analysis = analyze(wheel, settings, read_policies(), exclude, find)
    if analysis is None:
        raise no_object_error(wheel, settings.plat)
    return analysis._replace(searched=libraries.searched)
