"""Every setting of a run, with its help, bounds and flag.

Flags, environment variables, `[tool.wheelfix]`, its JSON schema and the help texts are derived from
the fields of `Settings`.
"""

import zlib
from collections.abc import Iterable, Mapping
from dataclasses import KW_ONLY, field, fields
from enum import StrEnum
from fnmatch import fnmatchcase
from functools import lru_cache, partial
from pathlib import Path, PurePosixPath
from typing import Any, Literal, TypeVar

from wheelfix.frozen import frozen
from wheelfix.named_tuple import NamedTuple
from wheelfix.system.lazy_patterns import lazy_pattern
from wheelfix.wheel.model import Key, Wheel


class Suffix(str):
    """What follows the name of the distribution in that of a directory; it may be empty."""

    __slots__ = ()


class PathList(str):
    """Folders with colons between them: an empty one is the current directory, no text is none."""

    __slots__ = ()

    @property
    def folders(self) -> tuple[str, ...]:
        """The folders in the order in which they are searched."""
        return tuple(self.split(":")) if self else ()


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


class SearchPathTag(StrEnum):
    """The dynamic tag of the search paths."""

    AUTO = "auto"
    """DT_RPATH on objects that wheelfix changes, as auditwheel does; others keep theirs."""
    RPATH = "rpath"
    """DT_RPATH on every object with a search path."""
    RUNPATH = "runpath"
    """DT_RUNPATH on every object with a search path."""


class Licenses(StrEnum):
    """What a repair adds to the wheel on the licenses of the libraries that it grafts."""

    OFF = "off"
    TEXTS = "texts"
    """Their texts, each once; METADATA stays as it is."""
    METADATA = "metadata"
    """Also a `License-File` line in METADATA for each text."""
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
    NOTE = "note"
    NEVER = "never"
    """Findings are reported; the exit code is 0."""


EXTENSION_MODULES, GRAFTED = "extension-modules", "grafted"
"""The groups that the `objects` of a contract of symbols may name."""


@frozen
class SymbolContract:
    """Which symbols some objects of the wheel may export and import, as globs.

    A glob matches the name of a symbol as it is, or demangled.
    """

    objects: tuple[str, ...]
    """Globs for the member, its file name or SONAME before the graft; or names of groups."""
    exports: tuple[str, ...] | None = None
    """Only these may be exported, besides the init functions of extension modules."""
    never_exports: tuple[str, ...] = ()
    must_export: tuple[str, ...] = ()
    """Each object exports a symbol for each of these."""
    imports_of: str = ""
    """The distribution, or a glob for the SONAMEs, whose symbols the following concern; empty for
    all."""
    imports: tuple[str, ...] | None = None
    """Only these may be imported."""
    never_imports: tuple[str, ...] = ()


@frozen
class FileLists:
    """Which files the wheel may and must have, as globs for the names of members."""

    only: tuple[str, ...] = ()
    """No others, besides the dist-info folder and grafted libraries; empty for any."""
    must: tuple[str, ...] = ()
    """A member matches each of these."""


@frozen
class Component:
    """Code in the wheel that no package database knows: grafted, linked statically, or copied."""

    name: str
    version: str = ""
    license: str = ""
    """An SPDX expression; empty if it is not stated."""
    license_files: tuple[str, ...] = ()
    """Paths of its license texts on this machine."""
    libraries: tuple[str, ...] = ()
    """Globs for the file names, before the graft, of the grafted libraries that are part of it."""


AUTO = "auto"
"""The provider that stands for all that METADATA requires and the linker found."""
SCHEMES = (Key.PLATLIB, Key.PURELIB, Key.DATA)
"""The install scheme paths that may hold a provider's folder."""


@frozen
class ProviderSetting:
    """A distribution installed beside the wheel whose libraries it uses, as the user names it."""

    requirement: str = ""
    """The requirement that METADATA must have (PEP 508)."""
    libraries: tuple[str, ...] = ()
    """Globs of the SONAMEs; empty to look them up."""
    directory: str | None = None
    """Their folder, relative to site-packages or to the path that `scheme` names."""
    scheme: str = Key.PLATLIB
    """`platlib`, `purelib`, or `data` for a folder in `<prefix>`."""
    source: str = ""
    """A wheel, a distribution or a directory, in place of a table with the fields above."""


class Paths(StrEnum):
    """Which texts of a setting are paths."""

    OUTPUT = "output"
    """Its text, of a file or directory that wheelfix writes, and names as the user did."""
    INPUT = "input"
    """Each of its texts."""
    WITH_SLASH = "with-slash"
    """Each text with a slash; others are names."""
    EXISTING = "existing"
    """Each text for which there is a file or directory; others are names of distributions."""
    LIST = "list"
    """Each part of its text between colons."""
    LICENSE_FILES = "license-files"
    """The `license-files` of each of its tables."""


SeverityLabel = Literal["note", "warning", "error"]
OPTION = "option"
"""The key of an option in the metadata of its field."""
_T = TypeVar("_T")


@frozen(kw_only=False)
class Option:
    """The help, bounds and flag of a field that an option of the command line gives."""

    help: str
    _: KW_ONLY
    group: Group
    """The list of the help text that has the flag."""
    flag: str = ""
    """The long flag, if it is not derived from the field's name."""
    short: str = ""
    """The short flag, such as `-w`."""
    metavar: str | None = None
    """The placeholder of the flag's value in the help."""
    least: float | None = None
    most: float | None = None
    """The bounds of a number; None for no bound."""

    def default(self, value: _T) -> _T:
        """Declare a field with this option, and `value` as its default."""
        return field(default_factory=lambda: value, metadata={OPTION: self})


@frozen
class Setting(Option):
    """An option of the command line that the other layers of the configuration have, too."""

    variable: str = ""
    """auditwheel's environment variable for the same option."""
    off_flag: str = ""
    """The flag that turns a boolean off, if it is not `--no-` and the field's name."""
    alone: str = ""
    """The value of the flag where none of its values follows."""
    commands: tuple[str, ...] = ("repair", "check")
    """The commands with this flag."""
    separator: str = ""
    """What separates the values that one flag may give; empty if it gives one."""
    is_added: bool = False
    """Whether a layer adds its values to those of the layer below, instead of replacing them."""
    is_run_wide: bool = False
    """Whether it concerns the whole run, so that it cannot be overridden for some wheels."""
    paths: Paths | None = None
    """Which of its texts are paths; None if it has none."""
    example: str = ""
    """The value to show if the default is None."""


_LIB_SDIR = ".libs"
_OF_NEIGHBORS = ("repair", "check", "show", "why", "explain", "verify", "diff")
_repair_setting = partial(Setting, commands=("repair",))
_check_setting = partial(Setting, commands=("check",))
_rule_setting = partial(Setting, group=Group.RULES)
_graft_setting = partial(_repair_setting, group=Group.GRAFT)
_loading_setting = partial(Setting, group=Group.LOADING)
_writing_setting = partial(_repair_setting, group=Group.WRITING)


@frozen
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
    wheel_dir: Path = _repair_setting(
        "Directory to write repaired wheels to.",
        group=Group.OUTPUT,
        short="-w",
        metavar="DIR",
        paths=Paths.OUTPUT,
    ).default(Path("wheelhouse"))
    plat: str = _graft_setting(
        "Desired platform tag, such as manylinux_2_28_x86_64, or auto.",
        metavar="TAG",
        variable="AUDITWHEEL_PLAT",
    ).default("auto")
    lib_sdir: Suffix = _graft_setting(
        "Suffix of the directory for grafted libraries: `.libs` for `pkg.libs`, `/libs` for a "
        "subdirectory of `pkg`.",
        short="-L",
        metavar="SUFFIX",
    ).default(Suffix(_LIB_SDIR))
    exclude: tuple[str, ...] = Setting(
        "Do not graft libraries whose SONAME or path matches this glob, and do not report them as "
        "missing; repeatable.",
        group=Group.GRAFT,
        metavar="GLOB",
    ).default(())
    only_plat: bool = _graft_setting(
        "Have no other platform tag than the one asked for: neither a better one, nor those that "
        "the wheel has.",
    ).default(False)
    update_tags: bool = _graft_setting(
        "Update the platform tags of the file name and of WHEEL."
    ).default(True)
    strip: StripLevel = _writing_setting(
        "What to remove from the ELF objects: off, debug (debug sections) or all (also symbol "
        "tables). The flag alone means all, as for auditwheel.",
        metavar="[LEVEL]",
        alone=StripLevel.ALL,
    ).default(StripLevel.OFF)
    debug_symbols: str | None = _writing_setting(
        "Keep what `strip` removes in this directory, by build-id as gdb and debuginfod expect it.",
        metavar="DIR",
        example="debug-symbols",
        paths=Paths.OUTPUT,
    ).default(None)
    clear_execstack: tuple[str, ...] = Setting(
        "Clear the executable stack flag of objects whose SONAME or file name matches this glob, "
        "unless their code needs it; repeatable.",
        group=Group.WRITING,
        metavar="GLOB",
    ).default(())
    zip_level: int = _writing_setting(
        "Compression level of changed members, 0 to 9; -1 is the default of the library "
        "(6). Unchanged members are copied.",
        flag="--zip-compression-level",
        metavar="LEVEL",
        short="-z",
        variable="AUDITWHEEL_ZIP_COMPRESSION_LEVEL",
        least=zlib.Z_DEFAULT_COMPRESSION,
        most=zlib.Z_BEST_COMPRESSION,
    ).default(zlib.Z_DEFAULT_COMPRESSION)
    zip_codec: ZipCodec = _writing_setting(
        "Library that compresses changed members: zlib, libdeflate (where it has wheels), or auto, "
        "the faster one that is installed.",
    ).default(ZipCodec.AUTO)
    normalize: bool = _writing_setting(
        "Compress all members anew, in a fixed order, with the same date and mode everywhere, so "
        "that builds with the same files give the same wheel.",
    ).default(False)
    isa_ext_check: bool = _graft_setting(
        "Refuse objects that need more than the baseline instruction set.",
        off_flag="--disable-isa-ext-check",
    ).default(True)
    allow_pure_python_wheel: bool = _graft_setting(
        "Accept pure Python wheels: without it, a wheel without ELF objects is an error.",
    ).default(False)
    patcher: Patcher = _writing_setting(
        "What edits ELF objects that need more room than they have: auto (wheelfix itself, and "
        "patchelf for what it declines), patchelf, lief-patchelf, or none, which edits no object "
        "at all.",
        variable="AUDITWHEEL_PATCHER",
    ).default(Patcher.AUTO)

    # --- which rules, and how far they may go ----------------------------------------------------
    select: tuple[str, ...] = _rule_setting(
        "Rules to report, by code, prefix or name; ALL includes those of plug-ins.",
        metavar="RULES",
        separator=",",
    ).default(("ALL",))
    extend_select: tuple[str, ...] = _rule_setting(
        "Rules to report besides those.",
        metavar="RULES",
        separator=",",
        is_added=True,
    ).default(())
    ignore: Mapping[str, str] = _rule_setting(
        "Rules not to report, by code, prefix or name; in the file, a table may give reasons.",
        metavar="RULES",
        separator=",",
        is_added=True,
    ).default({})
    per_file_ignores: Mapping[str, tuple[str, ...]] = _rule_setting(
        "Rules not to report for members that match a glob: 'pkg/tests/*:WF311,WF313'; repeatable.",
        metavar="GLOB:RULES",
        is_added=True,
    ).default({})
    severity: Mapping[str, SeverityLabel] = _rule_setting(
        "Severity of a rule's findings: WF113=error, or warning, or note; repeatable.",
        metavar="RULES=SEVERITY",
        is_added=True,
    ).default({})
    unfixable: Mapping[str, tuple[str, ...]] = _rule_setting(
        "Rules whose fixes a repair does not apply to members that match a glob: '*:WF111' or "
        "'pkg/tests/*:ALL'; repeatable.",
        metavar="GLOB:RULES",
        is_added=True,
    ).default({})
    unsafe_fixes: bool = _repair_setting(
        "Also apply fixes that may change which file is loaded.", group=Group.RULES
    ).default(False)

    # --- wheelfix's own policies -----------------------------------------------------------------
    data_libraries: DataLibraries = _repair_setting(
        "How a file outside site-packages finds its libraries: colocate, search or move.",
        group=Group.LOADING,
    ).default(DataLibraries.COLOCATE)
    search_path_tag: SearchPathTag = _repair_setting(
        "The dynamic tag of search paths: auto, rpath or runpath.", group=Group.LOADING
    ).default(SearchPathTag.AUTO)
    sacrificial_entry: SacrificialEntry = _repair_setting(
        "A harmless first search path entry: off, keep or remove.", group=Group.LOADING
    ).default(SacrificialEntry.OFF)
    keep_entries: tuple[str, ...] = _loading_setting(
        "Keep search path entries (folders) that match this glob, such as /opt/rocm/*; repeatable.",
        flag="--keep-entry",
        metavar="GLOB",
    ).default(())
    graft_drivers: bool = Setting(
        "Graft the libraries of drivers and of the display, too, which the user's machine has.",
        group=Group.GRAFT,
    ).default(False)
    grafts: tuple[str, ...] = Setting(
        "Only libraries whose name matches this glob may be grafted, and any other one is an error "
        "(WF402), while --exclude leaves it out; repeatable.",
        group=Group.GRAFT,
        flag="--graft",
        metavar="GLOB",
    ).default(("*",))
    locked: bool = _graft_setting(
        "Refuse grafts that differ from those in wheelfix.lock, which --write-lock writes.",
    ).default(False)
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
        paths=Paths.WITH_SLASH,
    ).default(())
    prune_needed: PruneNeeded = _loading_setting(
        "Which unused DT_NEEDED entries to drop: off, safe or all."
    ).default(PruneNeeded.SAFE)
    keep_needed: tuple[str, ...] = _loading_setting(
        "Never drop DT_NEEDED entries (libraries) that match this glob, such as libtorch*.so; "
        "repeatable.",
        metavar="GLOB",
    ).default(())
    drop_needed: tuple[str, ...] = _loading_setting(
        "Always drop unused DT_NEEDED entries that match this glob; repeatable.",
        metavar="GLOB",
    ).default(())
    library_path: tuple[str, ...] = Setting(
        "Directory in which libraries are looked for, to graft them or to read what they define, "
        "before those of the system; of a wheel they are only read. Repeatable, or with colons.",
        group=Group.GRAFT,
        metavar="DIR",
        paths=Paths.INPUT,
        commands=("repair", "check", "why"),
        separator=":",
    ).default(())
    ldpaths: PathList | None = Setting(
        "Directories in which to look for libraries instead of those of this machine and of "
        "LD_LIBRARY_PATH, separated by colons; --library-path adds to them.",
        group=Group.GRAFT,
        metavar="DIRS",
        paths=Paths.LIST,
        commands=("repair", "check", "why"),
        example="sysroot/usr/lib64",
    ).default(None)
    sysroot: str | None = Setting(
        "Root folder of another system, such as a cross compiler's: its libraries, loader and "
        "packages count in place of this machine's.",
        group=Group.GRAFT,
        metavar="DIR",
        paths=Paths.INPUT,
        commands=("repair", "check", "explain", "why"),
        example="aarch64-root",
    ).default(None)
    provider: tuple[ProviderSetting, ...] = Setting(
        "Wheel, distribution or directory that provides libraries: they are not grafted, but "
        "loaded from where it is installed; auto: the required distributions in which the linker "
        "found them; repeatable.",
        group=Group.PROVIDERS,
        metavar="WHEEL|NAME|DIR|auto",
        is_added=True,
        commands=("repair", "check", "show", "why", "explain", "verify"),
        paths=Paths.EXISTING,
    ).default(())
    site: str | None = Setting(
        "Installed environment with what the wheel requires: a venv, a prefix, a site-packages "
        "folder.",
        group=Group.PROVIDERS,
        metavar="DIR",
        commands=_OF_NEIGHBORS,
        paths=Paths.INPUT,
        example=".venv",
    ).default(None)
    neighbors: tuple[str, ...] = Setting(
        "Wheel, directory or requirement that is installed beside the wheel; of a requirement, "
        "wheels are fetched, also of what it requires; it may list versions: core==1.0,1.1; "
        "repeatable.",
        group=Group.PROVIDERS,
        flag="--with",
        metavar="WHEEL|DIR|REQUIREMENT",
        commands=(*_OF_NEIGHBORS, "doctor"),
        paths=Paths.EXISTING,
    ).default(())
    deps: bool = Setting(
        "Fetch the wheels of what the wheel requires, and judge it beside them. They are kept in "
        "the cache of the user. Only `verify` builds what has no wheel.",
        group=Group.PROVIDERS,
        commands=_OF_NEIGHBORS,
    ).default(False)
    add_requires: bool = _repair_setting(
        "Add missing Requires-Dist lines for providers to METADATA.", group=Group.PROVIDERS
    ).default(False)
    symbols: tuple[SymbolContract, ...] = _rule_setting(
        "Which symbols objects may export and import: "
        f"{', '.join(field.name.replace('_', '-') for field in fields(SymbolContract))}.",
        is_added=True,
        commands=(),
    ).default(())
    licenses: Licenses = _graft_setting(
        "What to add on the licenses of grafted libraries: off, texts, metadata (also their "
        "License-File lines), or expression (which also extends the License-Expression).",
    ).default(Licenses.TEXTS)
    component: tuple[Component, ...] = Setting(
        "Code in the wheel that no package database knows, for the licenses and the SBOM: name, "
        "version, license, license-files, libraries.",
        group=Group.GRAFT,
        is_added=True,
        commands=(),
        paths=Paths.LICENSE_FILES,
    ).default(())
    sbom_include: tuple[str, ...] = _graft_setting(
        "Copy this SBOM, such as one of cargo's, into the wheel (PEP 770); repeatable.",
        metavar="FILE",
        paths=Paths.INPUT,
    ).default(())
    target: tuple[str, ...] = _check_setting(
        "Machines that must load the wheel, such as "
        "debian:11,alpine:3.20,glibc:2.41,page:64k; repeatable.",
        group=Group.MACHINES,
        metavar="MACHINES",
        separator=",",
    ).default(())
    fail_on: FailOn = Setting(
        "Lowest severity that makes a check fail: error, warning, note or never.",
        group=Group.FAILURE,
        commands=("check", "diff", "doctor"),
        is_run_wide=True,
    ).default(FailOn.ERROR)
    fail_on_unknown: bool = _check_setting(
        "Fail if what the wheel requires may bring a library that it lacks, or lacks one: --deps "
        "looks.",
        group=Group.FAILURE,
    ).default(False)
    show: Show = _check_setting(
        "Least severe findings to show: errors, warnings or notes (findings for information); "
        "notes of rules selected by code or name are always shown.",
        group=Group.OUTPUT,
        is_run_wide=True,
    ).default(Show.WARNINGS)
    baseline: str | None = _check_setting(
        "File with known findings, which do not count; --write-baseline makes it.",
        group=Group.FAILURE,
        metavar="FILE",
        is_run_wide=True,
        example="wheelfix-baseline.json",
        paths=Paths.OUTPUT,
    ).default(None)
    index: Index = _check_setting(
        "Package index that the wheel must satisfy: pypi or none. What it refuses is an error.",
        group=Group.FAILURE,
    ).default(Index.NONE)
    files: FileLists = _rule_setting(
        "Files that the wheel may and must have: tables with the globs `only` and `must`.",
        commands=(),
    ).default(FileLists())
    max_size: Size = _check_setting(
        "Maximum size of a wheel, such as 50MB or 48MiB.", group=Group.SIZES, metavar="SIZE"
    ).default(NO_LIMIT)
    max_file_size: Size = _check_setting(
        "Maximum uncompressed size of a file in a wheel, such as 20MB.",
        group=Group.SIZES,
        metavar="SIZE",
    ).default(NO_LIMIT)
    max_growth: int = Setting(
        "Maximum growth in percent over the wheel of the earlier release.",
        group=Group.SIZES,
        metavar="PERCENT",
        least=0,
        commands=("diff",),
    ).default(10)
    trust_files: bool = _repair_setting(
        "Correct a RECORD that disagrees with the files; without it, such a wheel is an error.",
        group=Group.PROOF,
    ).default(False)
    verify: bool = _repair_setting(
        "Install the result, load everything in it, and write it only if nothing fails; what was "
        "not tried is a warning.",
        group=Group.PROOF,
    ).default(False)
    verdict: bool = _repair_setting(
        "Revalidate the result with auditwheel.", group=Group.PROOF
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
        "Maximum seconds for one wheel; 0 for no limit.",
        group=Group.RUN,
        commands=("repair", "check", "diff", "show", "why", "explain", "doctor"),
        metavar="SECONDS",
        least=0,
        most=10_000_000,
        is_run_wide=True,
    ).default(1800)

    @property
    def selectors(self) -> tuple[str, ...]:
        """The codes, prefixes and names of the rules to report."""
        return (*self.select, *self.extend_select)

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
        return tuple(filter(None, (setting.short, flag)))

    @property
    def long_flags(self) -> tuple[str, str]:
        """Its flag in full, and that of a boolean for false."""
        on, _, off = self.flags[bool(self.setting.short)].partition("/")
        return on, off

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
    SettingField(field.name, field.type, field.metadata[OPTION]) for field in fields(Settings)
)
"""The fields of `Settings`, in their order."""


def matches_any(name: str, globs: Iterable[str]) -> bool:
    """Return whether one of `globs` matches `name`, on any system case-sensitively.

    A distribution may list hundreds of thousands of names as globs: few have the start of `name`,
    and only these are compiled.
    """
    return any(name.startswith(_start(glob)) and fnmatchcase(name, glob) for glob in globs)


@lru_cache(1 << 10)
def _start(glob: str) -> str:
    return _MAGIC.split(glob, 1)[0]


_MAGIC = lazy_pattern("[*?[]")
"""The characters with which the pattern of a glob begins (fnmatch)."""
