"""Our own analysis of a wheel, with the libraries of this machine: no process is started."""

from collections.abc import Mapping, Sequence
from pathlib import Path

from wheelfix.analysis.auditwheel_answer import Analysis
from wheelfix.analysis.lddtree_search import SearchPath, members_by_name, outside_libraries
from wheelfix.analysis.policy_analysis import ThisMachine, analyze
from wheelfix.analysis.policy_verdict import Verdict, policy_verdict
from wheelfix.elf.model import ORIGIN, Elf
from wheelfix.errors import SettingsError
from wheelfix.frozen import frozen
from wheelfix.host.library_search import AUDITWHEEL_PATH, HostLibraries
from wheelfix.host.policy_tables import read_policies
from wheelfix.loader.as_needed import Library
from wheelfix.loader.install_schemes import layouts
from wheelfix.pipelines.graft import HostLibrary, read_library
from wheelfix.pipelines.repair_refusals import no_object_error, refuse_without_policies
from wheelfix.settings import Settings
from wheelfix.wheel.model import Wheel
from wheelfix.wheel.platform_tags import as_promised


@frozen(kw_only=False)
class Analyst:
    """Decides about a wheel by auditwheel's policy tables, with `libraries` of this machine.

    `exclude` are patterns of libraries that are left to others.
    """

    libraries: HostLibraries
    workdir: Path | None = None
    """Where libraries are copied to; None for a plan that is not carried out."""

    def analyze(self, wheel: Wheel, settings: Settings, exclude: Sequence[str]) -> Analysis:
        """Return which libraries to graft, and the tag.

        Raises `NonPlatformWheelError` if no object counts, and `SettingsError`.
        """
        return _analyze(wheel, settings, exclude, self.libraries)

    def verdict(self, wheel: Wheel, settings: Settings, exclude: Sequence[str]) -> Verdict:
        """Return which platform tag the objects of `wheel` allow, as they are.

        Raises `NonPlatformWheelError` if none of them counts.
        """
        verdict = policy_verdict(wheel, settings, read_policies(), exclude)
        if verdict is None:
            refuse_without_policies(wheel, exclude)
            raise no_object_error(wheel, settings.plat)
        return verdict

    def library(self, source: Path) -> HostLibrary:
        """Read a library of this machine. Raises `ToolError` if it cannot be grafted."""
        library = read_library(source, self.workdir)
        tags = self.libraries.archive.wheel.name.platforms
        named = self.libraries.environ.get("LD_LIBRARY_PATH", "").split(":")
        searched = [folder for folder in named if folder.rstrip("/") in self.libraries.searched]
        return library._replace(elf=as_promised(library.elf, tags), library_path=searched)


def _analyze(
    wheel: Wheel, settings: Settings, exclude: Sequence[str], libraries: HostLibraries
) -> Analysis:
    entries = libraries.environ.get(AUDITWHEEL_PATH, "")
    if ORIGIN.search(entries):
        raise SettingsError(
            f"`{AUDITWHEEL_PATH}={entries}` has an entry with `$ORIGIN`, which stands for no "
            "object here",
            hint="write absolute paths, or paths relative to the current directory",
        )

    def find(name: str, dependent: Elf, path: str, root: SearchPath) -> tuple[Library, Path] | None:
        library = libraries.graftable(name, dependent, path, root)
        return None if library is None else (library, Path(library.path).resolve())

    paths = {path: member for member, path in next(iter(layouts(wheel))).paths.items()}
    shipped, places = members_by_name(wheel.elfs), {m: path for path, m in paths.items()}

    def outside(member: str) -> Mapping[str, tuple[Library, Path]]:
        elf, path = wheel.elfs[member], places.get(member, "")
        located = outside_libraries(path, elf, paths, shipped, libraries.outside)
        return {name: (lib, Path(lib.path).resolve()) for name, lib in located.items()}

    analysis = analyze(wheel, settings, read_policies(), exclude, ThisMachine(find, outside))
    if analysis is None:
        refuse_without_policies(wheel, exclude)
        raise no_object_error(wheel, settings.plat)
    untrusted = (passed for passed in libraries.untrusted if passed.name in analysis.names)
    return analysis._replace(searched=libraries.searched, untrusted=tuple(untrusted))
