"""Every setting of a run, with its help, bounds and flag.

Flags, environment variables, `[tool.wheelfix]`, its JSON schema and the help texts are derived from
the fields of `Settings`.
"""

import re
import zlib
from collections.abc import Iterable, Mapping
from dataclasses import KW_ONLY, dataclass, field, fields
from enum import StrEnum
from fnmatch import fnmatchcase
from pathlib import Path, PurePosixPath
from typing import Any, Literal, NamedTuple, TypeVar

from packaging.utils import canonicalize_name

from wheelfix.wheel.model import Key, Wheel


class Suffix(str):
    """What follows the name of the distribution in that of a directory; it may be empty."""

    __slots__ = ()


class Size(int):
    """A number of bytes, given as a number or as `50 MB`, `48MiB`; 0 means no limit."""

    __slots__ = ()


NO_LIMIT = Size(0)


class Specifier(str):
    """Versions, as PEP 440 writes them: `>=1.2`."""

    __slots__ = ()


class ZipCodec(StrEnum):
    """The library that compresses new and changed members."""

    AUTO = "auto"
    """libdeflate if the package `deflate` is installed, otherwise zlib."""
    ZLIB = "zlib"
    """The zlib of the running Python."""
    LIBDEFLATE = "libdeflate"
    """Three times as fast as zlib, and compresses slightly better."""


class DataLibraries(StrEnum):
    """How a file finds a library that no single relative path reaches in every install scheme."""

    COLOCATE = "colocate"
    """Copy the libraries into the file's own install scheme."""
    SEARCH = "search"
    """Add a search path entry for each install scheme and Python version that the tags allow."""
    MOVE = "move"
    """Move the file to platlib, into the package."""


class ProviderBy(StrEnum):
    """How an object finds a library that a provider ships."""

    ENTRY = "entry"
    """By a search path entry to the provider's folder, in each object."""
    PRELOAD = "preload"
    """By a module that opens it before the import, where possible; by an entry elsewhere."""
    BOTH = "both"
    """By an entry in each object, and by such a module where possible."""


class SearchPathTag(StrEnum):
    """The dynamic tag of the search paths."""

    AUTO = "auto"
    """DT_RPATH on objects that wheelfix changes, as auditwheel does; others keep theirs."""
    RPATH = "rpath"
    """DT_RPATH on every object with a search path."""
    RUNPATH = "runpath"
    """DT_RUNPATH on every object with a search path."""


class Licenses(StrEnum):
    """What a repair adds to the wheel on the licences of the libraries that it grafts."""

    OFF = "off"
    TEXTS = "texts"
    """Their texts, each with a `License-File` line in METADATA."""
    EXPRESSION = "expression"
    """Also their SPDX expressions, in the `License-Expression` of a wheel that has one."""


class SacrificialEntry(StrEnum):
    """A harmless first search path entry, for tools that rewrite or drop the first entry."""

    OFF = "off"
    KEEP = "keep"
    """Insert it and ship it."""
    REMOVE = "remove"
    """Insert it before the graft, remove it before the wheel is written."""


class StripLevel(StrEnum):
    """What is removed from the objects of a repaired wheel."""

    OFF = "off"
    DEBUG = "debug"
    """Debug sections; native backtraces keep the names of functions."""
    ALL = "all"
    """Also symbol tables (.symtab), as auditwheel's `--strip` does."""


class Patcher(StrEnum):
    """What edits ELF objects that need more room than they have."""

    AUTO = "auto"
    """wheelfix itself; patchelf for an object that it declines."""
    PATCHELF = "patchelf"
    LIEF_PATCHELF = "lief-patchelf"
    NONE = "none"
    """None, and wheelfix does not edit objects either; a wheel that needs it is an error."""


class PruneNeeded(StrEnum):
    """Which unused DT_NEEDED entries are dropped."""

    OFF = "off"
    """None; unused entries are not searched for."""
    SAFE = "safe"
    """Entries for libraries that can only have been needed for their symbols."""
    ALL = "all"
    """Also libraries with constructors, libraries opened by name at run time, and the like."""


class Index(StrEnum):
    """The package index whose checks of an upload count."""

    NONE = "none"
    """None in particular: what only some index refuses is a warning, or is not looked for."""
    PYPI = "pypi"
    """What PyPI refuses is an error; what it writes an email about is a warning."""


class Share(StrEnum):
    """Which wheels of the same run share the libraries that both would graft."""

    OFF = "off"
    """None; no wheel of the run is a provider."""
    PRODUCT = "product"
    """Wheels that METADATA pins, or requires at the wheel's own version."""
    REQUIRED = "required"
    """All wheels that METADATA requires, and every provider given as a wheel."""


class Group(StrEnum):
    """The options that a help text lists together, in the order of the lists."""

    WHEELS = "Wheels"
    OUTPUT = "Output"
    FAILURE = "Exit code"
    RULES = "Rules"
    GRAFT = "Graft and platform tag"
    PROVIDERS = "Libraries of other wheels"
    LOADING = "DT_NEEDED and search paths"
    WRITING = "Changed files"
    PROOF = "Proof"
    MACHINES = "Machines and install schemes"
    SIZES = "Size limits"
    RUN = "Time and processes"
    GENERAL = "General"


class Show(StrEnum):
    """The least severe findings that a report for people shows."""

    ERRORS = "errors"
    WARNINGS = "warnings"
    NOTES = "notes"


class FailOn(StrEnum):
    """The lowest severity that makes a check fail."""

    ERROR = "error"
    WARNING = "warning"
    INFO = "info"
    NEVER = "never"
    """Findings are reported; the exit code is 0."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Requirement:
    """A library that the wheel must contain, and symbols that the library must define."""

    library: str
    """A glob for its file name or SONAME before the graft."""
    symbols: tuple[str, ...] = ()
    """Globs; at least one defined symbol must match each."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Component:
    """Code in the wheel that no package database knows: grafted, linked statically, or copied."""

    name: str
    version: str = ""
    license: str = ""
    """An SPDX expression; empty if it is not stated."""
    license_files: tuple[str, ...] = ()
    """Paths of its licence texts on this machine."""
    libraries: tuple[str, ...] = ()
    """Globs for the file names, before the graft, of the grafted libraries that are part of it."""


AUTO = "auto"
"""The provider that stands for all that METADATA requires and the linker found."""
SCHEMES = (Key.PLATLIB, Key.PURELIB, Key.DATA)
"""The install scheme paths that may hold a provider's folder."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Provider:
    """A distribution installed beside the wheel, and one folder of libraries in it."""

    requirement: str = ""
    """The requirement that METADATA must have (PEP 508); empty for a directory."""
    libraries: tuple[str, ...] = ()
    """Globs of the SONAMEs; empty until they have been looked up."""
    directory: str | None = None
    """Relative to site-packages, or to the path `scheme` names; None if no entry can lead there."""
    scheme: str = Key.PLATLIB
    """`platlib`, `purelib`, or `data` for a folder in `<prefix>`."""
    source: str = ""
    """The wheel, distribution or directory given by the user."""
    path: str = ""
    """The wheel or directory to read; empty if the libraries are known by name only."""
    version: str = ""
    """The version of that wheel or directory."""
    refused: tuple[str, ...] = ()
    """Versions found that METADATA does not allow; they are not read."""
    owner: bool = False
    """Whether it is a wheel of the same run, found by the requirements of METADATA."""
    shared: bool = False
    """Whether libraries that both wheels would graft are grafted there only."""
    grafted: tuple[tuple[str, str], ...] = ()
    """The libraries it grafted in this run: DT_NEEDED name and grafted name."""
    through: str = ""
    """The distribution that METADATA requires, and that requires this one."""

    @property
    def name(self) -> str:
        """The distribution's normalized name (PEP 503); empty for a directory."""
        return name_of(self.requirement)

    @property
    def label(self) -> str:
        """Its name in messages."""
        return self.requirement or self.source

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

    def has(self, library: str) -> bool:
        """Return whether `library`, a DT_NEEDED entry, is one of its libraries."""
        return any(fnmatchcase(library, glob) for glob in self.libraries)


def name_of(requirement: str) -> str:
    """Return the normalized name that a requirement begins with (PEP 508, "Names")."""
    match = _NAME.match(requirement.strip())
    return canonicalize_name(match[0]) if match else ""


_NAME = re.compile(r"[A-Za-z0-9](?:[A-Za-z0-9._-]*[A-Za-z0-9])?")


SeverityLabel = Literal["info", "warning", "error"]
_SETTING = "setting"
_T = TypeVar("_T")


@dataclass(frozen=True, slots=True)
class Setting:
    """The help, bounds and flag of one field of `Settings`."""

    help: str
    _: KW_ONLY
    group: Group
    """The list of the help text that has the flag."""
    flag: str = ""
    """The long flag, if it is not derived from the field's name."""
    off_flag: str = ""
    """The flag that turns a boolean off, if it is not `--no-` and the field's name."""
    short: str = ""
    """The short flag, such as `-w`."""
    metavar: str | None = None
    """The placeholder of the flag's value in the help."""
    alone: str = ""
    """The value of the flag where none of its values follows."""
    variable: str = ""
    """auditwheel's environment variable for the same option."""
    commands: tuple[str, ...] = ("repair", "check")
    """The commands with this flag."""
    least: int | None = None
    most: int | None = None
    """The bounds of a number; None for no bound."""
    has_commas: bool = False
    """Whether each value of the flag may be a comma-separated list."""
    is_added: bool = False
    """Whether a layer adds its values to those of the layer below, instead of replacing them."""
    is_run_wide: bool = False
    """Whether it concerns the whole run, so that it cannot be overridden for some wheels."""
    example: str = ""
    """The value to show if the default is None."""

    def default(self, value: _T) -> _T:
        """Declare a field with this setting, and `value` as its default."""
        return field(default_factory=lambda: value, metadata={_SETTING: self})


_LIB_SDIR = ".libs"
_REPAIR = ("repair",)
_CHECK = ("check",)
_DIFF = ("diff",)


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """All settings of a run."""

    required_version: Specifier | None = Setting(
        "Versions of wheelfix that may run with this file (PEP 440).",
        group=Group.GENERAL,
        commands=(),
        is_run_wide=True,
        example=">=0.1",
    ).default(None)

    # --- auditwheel's own options, with its defaults and meaning ---------------------------------
    wheel_dir: Path = Setting(
        "Directory to write repaired wheels to.",
        group=Group.OUTPUT,
        short="-w",
        metavar="DIR",
        commands=_REPAIR,
    ).default(Path("wheelhouse"))
    plat: str = Setting(
        "Desired platform tag, such as manylinux_2_28_x86_64, or auto.",
        group=Group.GRAFT,
        metavar="TAG",
        variable="AUDITWHEEL_PLAT",
        commands=_REPAIR,
    ).default("auto")
    lib_sdir: Suffix = Setting(
        "Suffix of the directory for grafted libraries: `.libs` for `pkg.libs`, `/libs` for a "
        "subdirectory of `pkg`.",
        group=Group.GRAFT,
        short="-L",
        metavar="SUFFIX",
        commands=_REPAIR,
    ).default(Suffix(_LIB_SDIR))
    exclude: tuple[str, ...] = Setting(
        "Do not graft libraries whose SONAME or path matches this glob, and do not report them as "
        "missing; repeatable.",
        group=Group.GRAFT,
        metavar="GLOB",
    ).default(())
    only_plat: bool = Setting(
        "Do not add a better platform tag than the one asked for.",
        group=Group.GRAFT,
        commands=_REPAIR,
    ).default(False)
    update_tags: bool = Setting(
        "Update the platform tags of the file name and of WHEEL.",
        group=Group.GRAFT,
        commands=_REPAIR,
    ).default(True)
    strip: StripLevel = Setting(
        "What to remove from the ELF objects: off, debug (debug sections) or all (also symbol "
        "tables). The flag alone means all, as for auditwheel.",
        group=Group.WRITING,
        metavar="[LEVEL]",
        alone=StripLevel.ALL,
        commands=_REPAIR,
    ).default(StripLevel.OFF)
    debug_symbols: str | None = Setting(
        "Keep what `strip` removes in this directory, by build-id as gdb and debuginfod expect it.",
        group=Group.WRITING,
        metavar="DIR",
        commands=_REPAIR,
        example="debug-symbols",
    ).default(None)
    clear_execstack: tuple[str, ...] = Setting(
        "Clear the executable stack flag of objects whose SONAME or file name matches this glob, "
        "unless their code needs it; repeatable.",
        group=Group.WRITING,
        metavar="GLOB",
    ).default(())
    zip_level: int = Setting(
        "Compression level of changed members, 0 to 9; -1 is the default of the library (6). "
        "Unchanged members are copied.",
        group=Group.WRITING,
        flag="--zip-compression-level",
        metavar="LEVEL",
        short="-z",
        variable="AUDITWHEEL_ZIP_COMPRESSION_LEVEL",
        least=zlib.Z_DEFAULT_COMPRESSION,
        most=zlib.Z_BEST_COMPRESSION,
        commands=_REPAIR,
    ).default(zlib.Z_DEFAULT_COMPRESSION)
    zip_codec: ZipCodec = Setting(
        "Library that compresses changed members: zlib, libdeflate (where it has wheels), or auto, "
        "the faster one that is installed.",
        group=Group.WRITING,
        commands=_REPAIR,
    ).default(ZipCodec.AUTO)
    normalize: bool = Setting(
        "Compress all members anew, in a fixed order, with the same date and mode everywhere, so "
        "that builds with the same files give the same wheel.",
        group=Group.WRITING,
        commands=_REPAIR,
    ).default(False)
    ldpaths: str | None = Setting(
        "Colon-separated directories to search for external libraries, instead of the system's.",
        group=Group.GRAFT,
        metavar="DIRS",
        commands=_REPAIR,
        example="/opt/lib:/usr/lib64",
    ).default(None)
    isa_ext_check: bool = Setting(
        "Refuse objects that need more than the baseline instruction set.",
        group=Group.GRAFT,
        off_flag="--disable-isa-ext-check",
        commands=_REPAIR,
    ).default(True)
    allow_pure_python_wheel: bool = Setting(
        "Accept pure Python wheels: without it, a wheel without ELF objects is an error.",
        group=Group.GRAFT,
        commands=_REPAIR,
    ).default(False)
    patcher: Patcher = Setting(
        "What edits ELF objects that need more room than they have: auto (wheelfix itself, and "
        "patchelf for what it declines), patchelf, lief-patchelf, or none, which edits no object "
        "at all.",
        group=Group.WRITING,
        variable="AUDITWHEEL_PATCHER",
        commands=_REPAIR,
    ).default(Patcher.AUTO)

    # --- which rules, and how far they may go ----------------------------------------------------
    select: tuple[str, ...] = Setting(
        "Rules to run, by code, prefix or name; ALL includes those of plug-ins.",
        group=Group.RULES,
        metavar="RULES",
        has_commas=True,
    ).default(("ALL",))
    extend_select: tuple[str, ...] = Setting(
        "Rules to run besides those.",
        group=Group.RULES,
        metavar="RULES",
        has_commas=True,
        is_added=True,
    ).default(())
    ignore: Mapping[str, str] = Setting(
        "Rules not to run, by code, prefix or name; in the file, a table may give each a reason.",
        group=Group.RULES,
        metavar="RULES",
        has_commas=True,
        is_added=True,
    ).default({})
    per_file_ignores: Mapping[str, tuple[str, ...]] = Setting(
        "Rules not to run on members that match a glob: 'pkg/tests/*:WF311,WF313'; repeatable.",
        group=Group.RULES,
        metavar="GLOB:RULES",
        is_added=True,
    ).default({})
    severity: Mapping[str, SeverityLabel] = Setting(
        "Severity of a rule's findings: WF113=error, or warning, or info; repeatable.",
        group=Group.RULES,
        metavar="RULES=SEVERITY",
        is_added=True,
    ).default({})
    unsafe_fixes: bool = Setting(
        "Also apply fixes that may change which file is loaded.",
        group=Group.RULES,
        commands=_REPAIR,
    ).default(False)

    # --- wheelfix's own policies -----------------------------------------------------------------
    data_libraries: DataLibraries = Setting(
        "How a file outside site-packages finds its libraries: colocate, search or move.",
        group=Group.LOADING,
        commands=_REPAIR,
    ).default(DataLibraries.COLOCATE)
    search_path_tag: SearchPathTag = Setting(
        "The dynamic tag of search paths: auto, rpath or runpath.",
        group=Group.LOADING,
        commands=_REPAIR,
    ).default(SearchPathTag.AUTO)
    sacrificial_entry: SacrificialEntry = Setting(
        "A harmless first search path entry: off, keep or remove.",
        group=Group.LOADING,
        commands=_REPAIR,
    ).default(SacrificialEntry.OFF)
    keep_entries: tuple[str, ...] = Setting(
        "Keep search path entries that match this glob, such as /opt/rocm/*; repeatable.",
        group=Group.LOADING,
        flag="--keep-entry",
        metavar="GLOB",
    ).default(())
    keep_names: tuple[str, ...] = Setting(
        "Do not rename grafted libraries whose SONAME or file name matches this glob; repeatable.",
        group=Group.GRAFT,
        flag="--keep-name",
        metavar="GLOB",
    ).default(())
    include: tuple[str, ...] = Setting(
        "Graft this library, which code opens by name, and what it needs, under that name; "
        "repeatable.",
        group=Group.GRAFT,
        metavar="LIBRARY",
    ).default(())
    prune_needed: PruneNeeded = Setting(
        "Which unused DT_NEEDED entries to drop: off, safe or all.", group=Group.LOADING
    ).default(PruneNeeded.SAFE)
    keep_needed: tuple[str, ...] = Setting(
        "Never drop DT_NEEDED entries that match this glob, such as libtorch*.so; repeatable.",
        group=Group.LOADING,
        metavar="GLOB",
    ).default(())
    drop_needed: tuple[str, ...] = Setting(
        "Always drop unused DT_NEEDED entries that match this glob; repeatable.",
        group=Group.LOADING,
        metavar="GLOB",
    ).default(())
    library_path: tuple[str, ...] = Setting(
        "Directory or wheel to read libraries of other distributions from; repeatable.",
        group=Group.PROVIDERS,
        metavar="PATH",
    ).default(())
    provider: tuple[Provider, ...] = Setting(
        "Wheel, distribution or directory that provides libraries: they are not grafted, but "
        "loaded from where it is installed; auto: the required distributions in which the linker "
        "found them; repeatable.",
        group=Group.PROVIDERS,
        metavar="WHEEL|NAME|DIR|auto",
        is_added=True,
        commands=("repair", "check", "show", "why", "explain", "tree", "verify"),
    ).default(())
    share: Share = Setting(
        "Graft a library only once for wheels of the run that require each other: off, "
        "product (pinned, or of the same version) or required.",
        group=Group.PROVIDERS,
        commands=_REPAIR,
    ).default(Share.PRODUCT)
    provider_by: ProviderBy = Setting(
        "How libraries of providers are found: by entry, preload or both.",
        group=Group.PROVIDERS,
        commands=_REPAIR,
    ).default(ProviderBy.ENTRY)
    add_requires: bool = Setting(
        "Add missing Requires-Dist lines for providers to METADATA.",
        group=Group.PROVIDERS,
        commands=_REPAIR,
    ).default(False)
    require: tuple[Requirement, ...] = Setting(
        "Require a library, and symbols that it defines: libx.so=x_*,y_*; repeatable.",
        group=Group.GRAFT,
        metavar="LIBRARY[=SYMBOL,...]",
    ).default(())
    licenses: Licenses = Setting(
        "What to add on the licences of grafted libraries: off, texts, or expression, which also "
        "extends the License-Expression.",
        group=Group.GRAFT,
        commands=_REPAIR,
    ).default(Licenses.TEXTS)
    component: tuple[Component, ...] = Setting(
        "Code in the wheel that no package database knows, for the licences and the SBOM: name, "
        "version, license, license-files, libraries.",
        group=Group.GRAFT,
        is_added=True,
        commands=(),
    ).default(())
    sbom_include: tuple[str, ...] = Setting(
        "Copy this SBOM, such as one of cargo's, into the wheel (PEP 770); repeatable.",
        group=Group.GRAFT,
        metavar="FILE",
        commands=_REPAIR,
    ).default(())
    target: tuple[str, ...] = Setting(
        "Machines that must load the wheel, such as "
        "debian:11,alpine:3.20,glibc:2.41,page:64k; repeatable.",
        group=Group.MACHINES,
        metavar="MACHINES",
        has_commas=True,
        commands=_CHECK,
    ).default(())
    fail_on: FailOn = Setting(
        "Lowest severity that makes a check fail: error, warning, info or never.",
        group=Group.FAILURE,
        commands=(*_CHECK, *_DIFF),
        is_run_wide=True,
    ).default(FailOn.ERROR)
    show: Show = Setting(
        "Least severe findings to show: errors, warnings or notes (findings for information); "
        "notes of rules selected by code or name are always shown.",
        group=Group.OUTPUT,
        commands=_CHECK,
        is_run_wide=True,
    ).default(Show.WARNINGS)
    baseline: str | None = Setting(
        "File with known findings, which do not count; --write-baseline makes it.",
        group=Group.FAILURE,
        metavar="FILE",
        commands=_CHECK,
        is_run_wide=True,
        example="wheelfix-baseline.json",
    ).default(None)
    index: Index = Setting(
        "Package index that the wheel must satisfy: pypi or none. What it refuses is an error.",
        group=Group.FAILURE,
        commands=_CHECK,
    ).default(Index.NONE)
    max_size: Size = Setting(
        "Maximum size of a wheel, such as 50MB or 48MiB.",
        group=Group.SIZES,
        metavar="SIZE",
        commands=_CHECK,
    ).default(NO_LIMIT)
    max_file_size: Size = Setting(
        "Maximum uncompressed size of a file in a wheel, such as 20MB.",
        group=Group.SIZES,
        metavar="SIZE",
        commands=_CHECK,
    ).default(NO_LIMIT)
    max_growth: int = Setting(
        "Maximum growth in percent over the wheel of the earlier release.",
        group=Group.SIZES,
        metavar="PERCENT",
        least=0,
        commands=_DIFF,
    ).default(10)
    verify: bool = Setting(
        "Install the result, load everything in it, and write it only if all works.",
        group=Group.PROOF,
        commands=_REPAIR,
    ).default(False)
    verdict: bool = Setting(
        "Revalidate the result with auditwheel.", group=Group.PROOF, commands=_REPAIR
    ).default(True)
    jobs: int = Setting(
        "Number of wheels to process in parallel.",
        group=Group.RUN,
        short="-j",
        metavar="N",
        least=1,
        is_run_wide=True,
    ).default(1)
    timeout: int = Setting(
        "Maximum seconds to check one wheel; 0 for no limit.",
        group=Group.RUN,
        metavar="SECONDS",
        least=0,
        most=10_000_000,
        commands=_CHECK,
        is_run_wide=True,
    ).default(1800)

    def graft_folder(self, distribution: str) -> str:
        """Return the folder for the libraries grafted into a wheel of `distribution`."""
        return str(PurePosixPath(distribution + self.lib_sdir))

    def is_vendored(self, member: str, wheel: Wheel) -> bool:
        """Return whether `member` is in a folder of grafted libraries.

        That is `graft_folder`, or one with auditwheel's default suffix. Such a file is loaded only
        as a dependency.
        """
        package = wheel.name.distribution
        folder, own = f"/{member}".rpartition("/")[0], self.graft_folder(package)
        return folder.endswith(_LIB_SDIR) or (own != package and folder.endswith(f"/{own}"))


class SettingField(NamedTuple):
    """A field of `Settings`."""

    name: str
    type: Any
    setting: Setting

    @property
    def key(self) -> str:
        """Its key in `[tool.wheelfix]`: `wheel-dir` for `wheel_dir`."""
        return self.name.replace("_", "-")

    @property
    def flags(self) -> tuple[str, ...]:
        """Its flags, the short one first; a boolean has one for each value: `--x/--no-x`."""
        setting = self.setting
        flag = setting.flag or f"--{self.key}"
        if self.type is bool:
            flag += f"/{setting.off_flag or f'--no-{self.key}'}"
        return (setting.short, flag) if setting.short else (flag,)

    @property
    def variables(self) -> tuple[str, ...]:
        """Its environment variables; the first that is set counts."""
        own = f"WHEELFIX_{self.name.upper()}"
        return (own, self.setting.variable) if self.setting.variable else (own,)

    @property
    def default(self) -> object:
        """The value of what was not set."""
        return getattr(_DEFAULTS, self.name)


_DEFAULTS = Settings()
SETTING_FIELDS = tuple(
    SettingField(field.name, field.type, field.metadata[_SETTING]) for field in fields(Settings)
)
"""The fields of `Settings`, in their order."""


def matches_any(name: str, globs: Iterable[str]) -> bool:
    """Return whether one of `globs` matches `name`, on any system case-sensitively."""
    return any(fnmatchcase(name, glob) for glob in globs)
