"""A wheel as frozen values: name, members, metadata, ELF objects.

Names inside a wheel are `str` with `/`, exactly as the zip spells them: a `Path` would normalise
them before they are checked.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import field
from enum import StrEnum
from functools import cached_property
from typing import Self

from wheelfix.elf.model import Elf, Libc
from wheelfix.errors import BadWheelError
from wheelfix.frozen import frozen
from wheelfix.grouping import flatten, values_by_key
from wheelfix.named_tuple import NamedTuple
from wheelfix.python_sources.source_facts import PythonOpening
from wheelfix.system.lazy_patterns import lazy_pattern
from wheelfix.wheel.platform_tags import promised_libcs

PRELOAD = "_wheelfix_preload"
"""The name of a preload shim: a module that opens libraries before their names are used."""


class WheelName(NamedTuple):
    """The five to seven fields of a wheel's file name (PEP 427; PEP 825, draft)."""

    distribution: str
    version: str
    build: str | None
    pythons: tuple[str, ...]
    abis: tuple[str, ...]
    platforms: tuple[str, ...]
    variant: str | None = None
    """The label of a variant wheel (PEP 825, "Variant label")."""

    @classmethod
    def parse(cls, filename: str) -> Self:
        """Split `filename`; `BadWheelError` if it is not a wheel's (PEP 427, "File name")."""
        if filename.endswith((".tar.gz", ".zip")) and "-" in filename:
            raise BadWheelError(
                f"`{filename}` is an sdist or another archive, not a wheel",
                hint=f"build the wheel first: pip wheel --no-deps {filename}",
            )
        stem, dot, suffix = filename.rpartition(".")
        parts = stem.split("-")
        # Of more than five fields, the third is a build tag if it begins with a digit (PEP 427);
        # a Python tag never does (PEP 825).
        builds = int(len(parts) > 5 and parts[2][:1] in _DIGITS)
        labels = len(parts) - builds - 5
        is_split = dot and suffix == "whl" and labels in (0, 1) and all(parts)
        if not (is_split and filename.isprintable()):
            raise BadWheelError(f"`{filename}` is not the name of a wheel", hint=_WHEEL_NAME)
        if labels and not (_PYTHON_TAG.match(parts[2 + builds]) and _LABEL.fullmatch(parts[-1])):
            is_label = builds or _PYTHON_TAG.match(parts[2])
            raise BadWheelError(
                f"`{filename}` is not the name of a wheel: "
                + (
                    f"invalid variant label `{parts[-1]}`: use a-z, 0-9, `_` and `.`"
                    if is_label
                    else f"invalid build tag `{parts[2]}`: it must begin with a digit"
                ),
                hint=_WHEEL_NAME,
            )
        for part in parts[2 : 5 + builds]:
            if not _TAG.fullmatch(part):  # pip and uv refuse it
                raise BadWheelError(
                    f"`{filename}` is not the name of a wheel: `{part}` has other characters than "
                    "ASCII letters, digits, `_` and `.`",
                    hint=_WHEEL_NAME,
                )
        tags = [tuple(field.split(".")) for field in parts[2 + builds : 5 + builds]]
        return cls(
            distribution=parts[0],
            version=parts[1],
            build=parts[2] if builds else None,
            pythons=tags[0],
            abis=tags[1],
            platforms=tags[2],
            variant=parts[-1] if labels else None,
        )

    def __str__(self) -> str:
        head = [self.distribution, self.version, *([self.build] if self.build else [])]
        tags = (self.python_tag, ".".join(self.platforms))
        return "-".join([*head, *tags, *([self.variant] if self.variant else [])]) + ".whl"

    @property
    def python_tag(self) -> str:
        """The tags of Pythons and their ABIs: `cp311-cp311`."""
        return f"{'.'.join(self.pythons)}-{'.'.join(self.abis)}"


_DIGITS = tuple("0123456789")
_PYTHON_TAG = lazy_pattern(r"[a-z]+[0-9]")
_TAG = lazy_pattern(r"[A-Za-z0-9_.]+")
_LABEL = lazy_pattern(r"[0-9a-z_.]+")
FILE_MODE, PROGRAM_MODE = 0o100644, 0o100755
"""`st_mode` of files and of programs, as set by installers that set modes themselves."""
NAME_MAX = 255
"""Bytes of a file's name (limits.h)."""
_WHEEL_NAME = "a wheel is called name-version[-build]-python-abi-platform[-variant].whl"


class Member(NamedTuple):
    """One file of the wheel. Directory entries of the zip are not members.

    A tuple, since a wheel may have 50,000.
    """

    name: str
    size: int
    """Bytes, inflated."""
    compressed_size: int
    """Bytes in the zip; 0 for a member that is not written yet."""
    mode: int = FILE_MODE
    """`st_mode`: type and permission bits from external_attr, 0 where the zip has none."""


class Metadata(NamedTuple):
    """The header of METADATA (PyPA, "Core metadata specifications"); empty where it is missing."""

    metadata_version: str = ""
    name: str = ""
    version: str = ""
    requires_python: str | None = None
    requires_dist: tuple[str, ...] = ()
    """As written, one requirement each (PEP 508)."""
    license_files: tuple[str, ...] = ()
    """Paths relative to `*.dist-info/licenses` (PEP 639)."""
    fields: tuple[tuple[str, str], ...] = ()
    """All fields in file order, unfolded, names in lower case, without the body."""
    description: str = ""
    """The body."""
    problem: str | None = None
    """Why METADATA cannot be read; None if it can."""


LICENSE_NAME = lazy_pattern(r"LICEN[CS]E|COPYING|NOTICE|AUTHORS|COPYRIGHT", re.IGNORECASE)
"""How names of license files begin; the first four are setuptools' default `license_files`."""
PROSE_NAME = lazy_pattern(r"README|CHANGE|HISTORY|NEWS|INSTALL", re.IGNORECASE)
"""How names of other texts for people begin."""


def is_license(member: str, dist_info: str) -> bool:
    """Return whether `member` is a license: in `licenses` (PEP 639), or as older tools name it."""
    inner = member.removeprefix(f"{dist_info}/")
    if inner == member:
        return False
    folder, slash, _ = inner.partition("/")
    return folder.lower() == "licenses" if slash else LICENSE_NAME.match(inner) is not None


class RecordRow(NamedTuple):
    """One row of RECORD (PEP 376, PEP 427). A tuple, since a wheel may have 50,000."""

    name: str
    hash: str
    """`sha256=…` as written; empty for RECORD itself."""
    size: int | None


class RecordProblem(NamedTuple):
    """One disagreement between RECORD and the files."""

    member: str
    message: str


class Key(StrEnum):
    """The paths of an install scheme, under the names that `*.data` folders use (PEP 427)."""

    PURELIB = "purelib"
    PLATLIB = "platlib"
    DATA = "data"
    SCRIPTS = "scripts"
    HEADERS = "headers"


LIBRARY_KEYS = (Key.PURELIB, Key.PLATLIB)
"""The paths of `site-packages`: one folder for nearly every Python."""


class ZipFeature(StrEnum):
    """A feature of the zip format that only some readers accept."""

    DESCRIPTOR = "a data descriptor: sizes and checksum behind the data, not before it"
    GAP = "a data descriptor that its header does not announce"
    COMMENT = "a comment in the central directory"
    FOLDER_TWICE = "a second entry for the same folder"
    EXTRA = "an extra field that is malformed"
    EXTRA_TWICE = "a second name twice in its extra field"
    EXTRA_SIZE = "another size in its extra field than in the central directory"
    COMPRESSION = "a compression method that few readers know: BZIP2 or LZMA"
    SPARE_ZIP64 = "Zip64 sizes beside plain ones in the central directory"


class ZipOddity(NamedTuple):
    """One such feature, and the entries that have it."""

    feature: ZipFeature
    entry: str
    """The first entry."""
    entries: int
    """The number of entries."""


class DistInfo(str):
    """The name of a dist-info folder, `name-version.dist-info`, as spelled in the zip."""

    __slots__ = ()

    @property
    def record(self) -> str:
        """The member RECORD."""
        return f"{self}/RECORD"

    @property
    def wheel_file(self) -> str:
        """The member WHEEL."""
        return f"{self}/WHEEL"

    @property
    def metadata(self) -> str:
        """The member METADATA."""
        return f"{self}/METADATA"

    @property
    def licenses(self) -> str:
        """The folder of license texts (PEP 639)."""
        return f"{self}/licenses"

    @property
    def sboms(self) -> str:
        """The folder of SBOMs (PEP 770)."""
        return f"{self}/sboms"

    @property
    def data_dir(self) -> str:
        """`name-version.data`, whose subfolders go to paths of the install scheme (PEP 427)."""
        return f"{self.removesuffix('.dist-info')}.data"

    @property
    def scripts(self) -> str:
        """The folder of the scripts, with a slash."""
        return f"{self.data_dir}/{Key.SCRIPTS}/"

    @property
    def variant(self) -> str:
        """The file about the variants of the release (PEP 825)."""
        return f"{self}/variant.json"


class UnverifiedWheel(NamedTuple):
    """What the zip's directory and the dist-info folder say of a wheel; nothing is verified."""

    name: WheelName
    members: tuple[str, ...]
    dist_info: DistInfo
    root_is_purelib: bool
    metadata: Metadata


@frozen
class Wheel:
    """One wheel: its name, its files, its metadata, and its ELF objects."""

    name: WheelName
    members: tuple[Member, ...]
    """In the order of the zip's central directory."""
    dist_info: DistInfo
    tags: tuple[str, ...]
    """The `Tag:` lines of WHEEL, in file order."""
    root_is_purelib: bool
    record: tuple[RecordRow, ...] = ()
    record_problems: tuple[RecordProblem, ...] = ()
    elfs: Mapping[str, Elf] = field(default_factory=dict[str, Elf])
    """By member name, in the order of `members`."""
    broken_elfs: Mapping[str, str] = field(default_factory=dict[str, str])
    """Members with ELF's magic number that cannot be read as ELF, and why; not in `elfs`."""
    impostors: Mapping[str, str] = field(default_factory=dict[str, str])
    """Members with the name of a shared object but no ELF magic number, and what they look like."""
    openings: Mapping[str, tuple[PythonOpening, ...]] = field(
        default_factory=dict[str, tuple[PythonOpening, ...]]
    )
    """Libraries that Python sources open by name, by member; sources without any are left out."""
    unfollowed: tuple[str, ...] = ()
    """Python sources that exceed the limits of the analysis, and may open more than `openings`."""
    opening_unknown: tuple[str, ...] = ()
    """Python sources that open libraries by names that are not known, or may do so."""
    sources: Mapping[str, bytes] = field(default_factory=dict[str, bytes])
    """Sources that a repair may write to, by member: preload shims, and the `__init__.py` of
    packages with shared objects, or sources that open libraries, in or below them."""
    metadata: Metadata = field(default_factory=Metadata)
    size: int = 0
    """Bytes of the zip; 0 for a wheel that is not written yet."""
    texts: Mapping[str, str] = field(default_factory=dict[str, str])
    """The JSON and text files of the dist-info folder, and its licenses, by member."""
    zip_oddities: tuple[ZipOddity, ...] = ()
    """What is unusual about the zip itself; empty for a wheel that is not written yet."""

    @property
    def is_pure(self) -> bool:
        """Whether no member is an ELF object, readable or not."""
        return not self.elfs and not self.broken_elfs

    @cached_property
    def member_names(self) -> frozenset[str]:
        """The names of its members."""
        return frozenset(member.name for member in self.members)

    @cached_property
    def sizes(self) -> Mapping[str, int]:
        """The bytes of each member."""
        return {member.name: member.size for member in self.members}

    @cached_property
    def object_names(self) -> frozenset[str]:
        """The file names of its objects for the dynamic loader."""
        return frozenset(
            member.rpartition("/")[2] for member, elf in self.elfs.items() if elf.dynamic
        )

    @cached_property
    def needed(self) -> frozenset[str]:
        """The DT_NEEDED entries of its objects."""
        return frozenset(flatten(elf.needed for elf in self.elfs.values()))

    @cached_property
    def dependents(self) -> Mapping[str, Sequence[str]]:
        """DT_NEEDED entry -> its objects that have it."""
        elfs = self.elfs.items()
        return values_by_key(
            (name, member) for member, elf in elfs for name in dict.fromkeys(elf.needed)
        )

    @cached_property
    def libc(self) -> Libc:
        """The C library that its objects need: glibc, unless one needs another."""
        libcs = (elf.libc or Libc.GLIBC for elf in self.elfs.values())
        return next((libc for libc in libcs if libc is not Libc.GLIBC), Libc.GLIBC)

    @cached_property
    def libcs(self) -> frozenset[Libc]:
        """The C libraries that its tags name, or else those that its objects need, or all."""
        needed = (elf.libc for elf in self.elfs.values())
        return frozenset(promised_libcs(self.name.platforms) or filter(None, needed)) or frozenset(
            Libc
        )

    @property
    def zip_size(self) -> int:
        """Bytes of the zip, or of its members if it is not written yet."""
        return self.size or sum(member.compressed_size for member in self.members)

    @property
    def data_dir(self) -> str:
        """As in `dist_info`."""
        return self.dist_info.data_dir
