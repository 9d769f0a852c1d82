"""What was found of the providers that a user names, and of the other wheels of a run.

`host.provider_lookup` reads wheels, installed distributions and directories.
"""

import posixpath
import shlex
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import field

from packaging.utils import canonicalize_name

from wheelfix.frozen import frozen
from wheelfix.named_tuple import NamedTuple
from wheelfix.settings import ProviderSetting, matches_any
from wheelfix.wheel.model import Key, Metadata
from wheelfix.wheel.requirements import name_of

NO_INDEX = "as PIP_NO_INDEX is set"
"""Why something may be unknown that the index has."""


class Folder(NamedTuple):
    """A folder of a provider that has libraries for others."""

    scheme: Key
    """The path of the install scheme that `directory` is relative to."""
    directory: str | None
    """None if no search path entry can lead there."""
    libraries: tuple[str, ...]
    """Globs of their SONAMEs."""
    path: str = ""
    """The folder on this machine, or the wheel, a slash and the folder in it; empty if unknown."""

    def has(self, library: str) -> bool:
        """Return whether `library`, a DT_NEEDED entry, is one of its libraries."""
        return matches_any(library, self.libraries)


@frozen
class Provided:
    """One version of a distribution that is installed beside the wheel, or a mere directory."""

    setting: ProviderSetting | None = None
    """What the user wrote; None for another wheel of the run."""
    requirement: str = ""
    """The requirement that METADATA must have (PEP 508); empty for a directory."""
    version: str = ""
    """The version that was found."""
    wheel: str = ""
    """The path of the wheel that was found."""
    metadata: Metadata = field(default_factory=Metadata)
    """METADATA of that version."""
    folders: tuple[Folder, ...] = ()
    """Those that the user states come first."""
    refused: tuple[str, ...] = ()
    """Versions found that METADATA does not allow; only the bounds of a requirement read them."""
    available: tuple["Provided", ...] = ()
    """All versions that were found, the lowest first, if there are several."""
    platforms: tuple[str, ...] = ()
    """The platform tags of its wheel, if it is installed."""
    through: str = ""
    """The distribution that METADATA requires, and that requires this one."""
    unknown: str = ""
    """Why no wheel of it is known, though it was asked for; empty otherwise."""

    @property
    def name(self) -> str:
        """The distribution's normalized name (PEP 503); empty for a directory."""
        return name_of(self.requirement)

    @property
    def file_name(self) -> str:
        """The file name of its wheel; without one, the distribution and its version."""
        return posixpath.basename(self.wheel) or (self.name and self.release)

    @property
    def called(self) -> str:
        """The distribution's name; of a directory, what stands for one in messages."""
        return self.name or self.label

    @property
    def release(self) -> str:
        """The distribution and its version, in messages."""
        return f"{self.called} {self.version}".rstrip()

    @property
    def modules(self) -> frozenset[str]:
        """The modules that it probably has: of its own name, and its folders in site-packages."""
        folders = {
            (folder.directory or "").partition("/")[0]
            for folder in self.folders
            if folder.scheme is not Key.DATA
        }
        return frozenset({self.name.replace("-", "_"), *folders}) - {""}

    @property
    def label(self) -> str:
        """Its name in messages."""
        written = self.setting.source if self.setting is not None else self.wheel
        return self.requirement or next((folder.path for folder in self.folders), written)

    @property
    def unknown_text(self) -> str:
        """That it is `unknown`, and why."""
        return f"`{self.requirement}` is not known: {self.unknown}"

    @property
    def build_advice(self) -> str:
        """How a person may get the wheel of one that is `unknown`."""
        if NO_INDEX in self.unknown:
            return "unset PIP_NO_INDEX, or name its wheel: `--with FILE.whl`"
        command = shlex.join(["pip", "wheel", "-w", "wheels", self.requirement])
        built = "may build it, if that is its name and it has sources, and so execute its code"
        return f"`{command}` {built}; then add `--with wheels`"

    @property
    def to_require(self) -> str:
        """The requirement to add to METADATA.

        Without a version specifier it gets `>=` the version that was read: only that version is
        known to have the libraries.
        """
        bare = self.requirement.strip()
        if self.version and self.name and canonicalize_name(bare) == self.name:
            return f"{bare}>={self.version}"
        return bare

    @property
    def places(self) -> tuple[str, ...]:
        """The wheel, or the directories, to read; empty if its libraries are known by name only."""
        return (self.wheel,) if self.wheel else tuple(f.path for f in self.folders if f.path)

    def folder_with(self, library: str) -> Folder | None:
        """Return the first folder that has `library`, a DT_NEEDED entry."""
        return next((folder for folder in self.folders if folder.has(library)), None)

    def directory_of(self, file: str) -> str | None:
        """Return the directory of the file at the path `file`, as `Folder.directory` states it."""
        parent = file.rpartition("/")[0]
        stated = (folder.directory for folder in self.folders if folder.path == parent)
        return next(stated, parent.removeprefix(f"{self.wheel}/") if self.wheel else None)


def requires_dist_of(providers: Iterable[Provided]) -> Mapping[str, Sequence[str]]:
    """Return the Requires-Dist entries of each distribution that was found, by its name."""
    return {p.name: p.metadata.requires_dist for p in providers if p.version}
