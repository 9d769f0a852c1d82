"""Every option, once, with its documentation.

Flags, environment variables, `[tool.wheelfix]` and the help texts are made from these fields.
Nothing below the command line sees a raw option.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from fnmatch import fnmatchcase
from pathlib import Path

from packaging.utils import canonicalize_name


class Size(int):
    """A number of bytes, written as such or as `50 MB`, `48MiB`; 0 is no limit."""

    __slots__ = ()


NO_LIMIT = Size(0)


class ZipCodec(StrEnum):
    """What deflates the members that are new or changed."""

    AUTO = "auto"
    """libdeflate where the package `deflate` is installed, or else zlib."""
    ZLIB = "zlib"
    """The one of the running Python."""
    LIBDEFLATE = "libdeflate"
    """Three times as fast as zlib, with a result that is a little smaller."""


class DataLibraries(StrEnum):
    """How a file finds a library that no single relative path reaches from where it lands."""

    COLOCATE = "colocate"
    """The libraries stand once more in the file's own install scheme, and move with it."""
    SEARCH = "search"
    """One search path entry for each install scheme and Python version that the tags allow."""
    MOVE = "move"
    """The file moves to platlib, beside the package."""


class ProviderBy(StrEnum):
    """How an object comes by a library that another wheel has."""

    ENTRY = "entry"
    """A search path entry from each object to the provider's folder."""
    PRELOAD = "preload"
    """A module that opens it before the import, where one can; an entry elsewhere."""
    BOTH = "both"
    """An entry for each object, and such a module wherever one can be."""


class SearchPathTag(StrEnum):
    """The dynamic tag of the search paths."""

    AUTO = "auto"
    """DT_RPATH on the objects that wheelfix changes, as auditwheel does; others keep theirs."""
    RPATH = "rpath"
    """DT_RPATH on every object with a search path."""
    RUNPATH = "runpath"
    """DT_RUNPATH on every object with a search path."""


class SacrificialEntry(StrEnum):
    """The harmless first search path entry for tools that rewrite or drop the first one."""

    OFF = "off"
    KEEP = "keep"
    """Put it first and ship it."""
    REMOVE = "remove"
    """Put it first, keep it through the graft, take it away before the wheel is written."""


class PruneNeeded(StrEnum):
    """Which unused DT_NEEDED entries go."""

    OFF = "off"
    """None, and none is looked for."""
    SAFE = "safe"
    """Those of which nothing but symbols was wanted, as far as can be seen."""
    ALL = "all"
    """Also those with constructors, names opened at run time and the like."""


class Share(StrEnum):
    """With which wheels of the same run a wheel shares the libraries that both would graft."""

    OFF = "off"
    """With none, and none of them is a provider."""
    PRODUCT = "product"
    """With those that METADATA pins, or asks for at the wheel's own version."""
    REQUIRED = "required"
    """With all that METADATA asks for, and with every provider that is given by its wheel."""


class FailOn(StrEnum):
    """The mildest finding that makes a check fail."""

    ERROR = "error"
    WARNING = "warning"
    INFO = "info"
    NEVER = "never"
    """Findings are reported, and the exit code is 0."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Requirement:
    """A library that the wheel must have, and symbols that it must define."""

    library: str
    """Its file name or SONAME, as a glob; as it is before the graft."""
    symbols: tuple[str, ...] = ()
    """Globs, each of which a symbol must match."""


SCHEMES = ("platlib", "purelib", "data")
"""The paths of an install scheme in which a provider may have its folder."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Provider:
    """A distribution that is installed beside the wheel, and one folder of libraries in it."""

    requirement: str = ""
    """What METADATA must ask for (PEP 508); empty for a mere directory."""
    libraries: tuple[str, ...] = ()
    """Globs of the SONAMEs; none as long as they are yet to be looked up."""
    directory: str | None = None
    """Relative to site-packages, or to what `scheme` names; None where no entry can lead there."""
    scheme: str = "platlib"
    """`platlib`, `purelib`, or `data` for what lands in `<prefix>`."""
    source: str = ""
    """What was given or looked at: a wheel, a distribution, a directory."""
    at_hand: str = ""
    """The wheel or the directory to look into; empty where the libraries are known by name only."""
    version: str = ""
    """The version at hand."""
    refused: tuple[str, ...] = ()
    """Versions at hand that METADATA does not allow: they are not judged."""
    owner: bool = False
    """Whether it is a wheel of the same run, found by what METADATA asks for."""
    shared: bool = False
    """Whether what both would graft is grafted there alone."""
    grafted: tuple[tuple[str, str], ...] = ()
    """What it grafted in this run: the names in DT_NEEDED, and those that they became."""
    through: str = ""
    """The distribution that METADATA asks for in its place, and that asks for it."""

    @property
    def name(self) -> str:
        """The distribution's name in its normal form (PEP 503); empty for a mere directory."""
        return name_of(self.requirement)

    @property
    def label(self) -> str:
        """What to call it in messages."""
        return self.requirement or self.source

    @property
    def to_require(self) -> str:
        """What METADATA may ask for: where no version is said, at least the one at hand.

        That is the only one which is known to serve.
        """
        bare = self.requirement.strip()
        if self.version and self.name and canonicalize_name(bare) == self.name:
            return f"{bare}>={self.version}"
        return bare

    def has(self, library: str) -> bool:
        """Return whether `library`, a DT_NEEDED entry, is one of its libraries."""
        # What comes before the first wildcard decides most: to compile a pattern takes longer.
        globs = (glob for glob in self.libraries if library.startswith(_WILD.split(glob, 1)[0]))
        return any(fnmatchcase(library, glob) for glob in globs)


_WILD = re.compile(r"[*?[]")


def name_of(requirement: str) -> str:
    """Return the normal form of the name that a requirement begins with (PEP 508, "Names")."""
    match = _NAME.match(requirement.strip())
    return canonicalize_name(match[0]) if match else ""


_NAME = re.compile(r"[A-Za-z0-9](?:[A-Za-z0-9._-]*[A-Za-z0-9])?")


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """What a run was asked to do. Field docstrings are the help texts."""

    # --- auditwheel's own options, with its defaults and meaning ---------------------------------
    wheel_dir: Path = Path("wheelhouse")
    """Directory to write repaired wheels to."""
    plat: str = "auto"
    """Desired platform tag, such as manylinux_2_28_x86_64, or auto."""
    lib_sdir: str = ".libs"
    """Suffix of the directory for grafted libraries."""
    exclude: tuple[str, ...] = ()
    """Do not graft libraries whose SONAME or path matches this glob; repeatable."""
    only_plat: bool = False
    """Do not add a better platform tag than the one asked for."""
    update_tags: bool = True
    """Update the platform tags of the file name and of WHEEL."""
    strip: bool = False
    """Strip symbols from the ELF objects."""
    zip_level: int = -1
    """Compression level of changed members, 0 to 9; untouched members are copied as they are."""
    zip_codec: ZipCodec = ZipCodec.AUTO
    """What deflates new members: zlib, libdeflate (of the extra `fast`), or auto, the faster one of
    those that are installed. The same bytes take the same codec."""
    ldpaths: str | None = None
    """Colon-separated directories to search for external libraries, in place of the system's."""
    isa_ext_check: bool = True
    """Refuse objects that need more than the baseline instruction set."""
    allow_pure_python_wheel: bool = True
    """Let pure Python wheels through; always so, the option exists for auditwheel's users."""

    # --- which rules, and how far they may go ----------------------------------------------------
    select: tuple[str, ...] = ("ALL",)
    """Rules to run, by code, prefix or name; ALL are those of plug-ins too."""
    extend_select: tuple[str, ...] = ()
    """Rules to run besides those."""
    ignore: Mapping[str, str] = field(default_factory=dict[str, str])
    """Rules not to run, by code, prefix or name; in the file, a table may give each its reason."""
    per_file_ignores: Mapping[str, tuple[str, ...]] = field(
        default_factory=dict[str, tuple[str, ...]]
    )
    """Rules not to run on members that match a glob: 'pkg/tests/*:WF311,WF313'; repeatable."""
    severity: Mapping[str, str] = field(default_factory=dict[str, str])
    """How bad a rule's findings are: WF113=error, or warning, or info; repeatable."""
    unsafe_fixes: bool = False
    """Also apply fixes that may change which file is loaded."""

    # --- wheelfix's own policies -----------------------------------------------------------------
    data_libraries: DataLibraries = DataLibraries.COLOCATE
    """How a file outside site-packages finds its libraries: colocate, search or move."""
    search_path_tag: SearchPathTag = SearchPathTag.AUTO
    """The dynamic tag of search paths: auto, rpath or runpath."""
    sacrificial_entry: SacrificialEntry = SacrificialEntry.OFF
    """A harmless first search path entry: off, keep or remove."""
    keep_entries: tuple[str, ...] = ()
    """Search path entries to leave alone, as globs, such as /opt/rocm/*; repeatable."""
    keep_names: tuple[str, ...] = ()
    """Graft libraries whose SONAME or file name matches this glob under that name; repeatable."""
    prune_needed: PruneNeeded = PruneNeeded.SAFE
    """Which unused DT_NEEDED entries to drop: off, safe or all."""
    keep_needed: tuple[str, ...] = ()
    """Never drop these DT_NEEDED entries, as globs, such as libtorch*.so; repeatable."""
    drop_needed: tuple[str, ...] = ()
    """Drop these unused DT_NEEDED entries whatever speaks for them, as globs; repeatable."""
    library_path: tuple[str, ...] = ()
    """Directory or wheel with libraries that others provide, to be looked into; repeatable."""
    provider: tuple[Provider, ...] = ()
    """Another wheel or distribution, or a directory of wheels or libraries: what it has is not
    grafted, and found where it is installed; repeatable."""
    share: Share = Share.PRODUCT
    """Graft once what a wheel has in common with another that it requires: off, product (pinned, or
    of one version) or required."""
    provider_by: ProviderBy = ProviderBy.ENTRY
    """How libraries of providers are found: by entry, preload or both."""
    add_requires: bool = False
    """Add a missing Requires-Dist line for a provider to METADATA."""
    require: tuple[Requirement, ...] = ()
    """Demand a library, and symbols that it defines: libx.so=x_*,y_*; repeatable."""
    target: tuple[str, ...] = ()
    """Machines to load on, such as debian:11,alpine:3.20,glibc:2.41,page:64k; repeatable."""
    fail_on: FailOn = FailOn.ERROR
    """The mildest finding that makes a check fail: error, warning, info or never."""
    baseline: str | None = None
    """File with findings that were there before and do not count; --write-baseline makes it."""
    max_size: Size = NO_LIMIT
    """The most that a wheel may weigh, such as 50MB or 48MiB."""
    max_file_size: Size = NO_LIMIT
    """The most that a file in a wheel may weigh, inflated, such as 20MB."""
    max_growth: int = 10
    """How many percent a wheel may outgrow the one that it is held against."""
    against: tuple[str, ...] = ()
    """Wheel of an earlier release to compare sizes with; repeatable."""
    verify: bool = False
    """Install the result, try everything in it, and publish it only if all works."""
    verdict: bool = True
    """Revalidate the result with auditwheel."""
    jobs: int = 1
    """Wheels to work on side by side."""
    timeout: int = 1800
    """The most seconds that a check may take for one wheel; 0 for no limit."""
