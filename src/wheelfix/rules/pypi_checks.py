"""What PyPI refuses of an uploaded wheel, or writes an email about: one table, with its sources.

Read in the index's source (pypi/warehouse) at 6b62157 of 2026-08-21. Not in the table is what only
the index knows (names taken, files that exist, the age of the release, the quota of the project),
and the scan for malware.
"""

import re
from enum import Enum

from wheelfix.named_tuple import NamedTuple
from wheelfix.rules.findings import Severity
from wheelfix.settings import Index, Settings, Size
from wheelfix.system.lazy_patterns import lazy_pattern

_INVALID = "Invalid distribution file. "
_ZIPFILES, _WHEEL = "warehouse/utils/zipfiles.py", "warehouse/utils/wheel.py"
_LEGACY, _METADATA = "warehouse/forklift/legacy.py", "warehouse/forklift/metadata.py"
REFUSED = "PyPI refuses it"
"""The first words of the note about each check but the one that writes an email."""
_PACKAGING = "packaging.metadata 26.2, called by warehouse/forklift/metadata.py"
RATIO = 50
"""Bytes of the files, for one of the zip, above which an upload is refused."""
PYPI_LIMIT = Size(100 * 2**20)
"""Bytes of a file (warehouse/constants.py: MAX_FILESIZE)."""


class Predicate(NamedTuple):
    """One check of an upload."""

    code: str
    """The rule that makes it."""
    words: str
    """What the index answers; `{}` stands for what it inserts. Empty if it writes an email."""
    source: str
    """The file of the index's source."""
    date: str
    """When that answer came in."""


def _of_zip(words: str, date: str) -> Predicate:
    return Predicate("WF520", f"{_INVALID}ZIP archive not accepted: {words}", _ZIPFILES, date)


def _of_upload(code: str, words: str, date: str) -> Predicate:
    return Predicate(code, words, _LEGACY, date)


def _of_field(words: str, date: str) -> Predicate:
    return Predicate("WF523", words, _METADATA, date)


class IndexAnswer(Enum):
    """The checks of an upload, by what they refuse."""

    DESCRIPTOR = _of_zip("ZIP contains a data descriptor", "2025-10-21")
    GAP = _of_zip("Unknown record signature", "2025-08-07")
    COMMENT = _of_zip("Comment in central directory", "2025-10-21")
    FOLDER_TWICE = _of_zip("Duplicate filename in local headers", "2025-08-07")
    EXTRA = _of_zip("Malformed zip file", "2025-08-07")
    EXTRA_TWICE = _of_zip("Invalid duplicate extra in local file", "2025-10-21")
    EXTRA_SIZE = _of_zip("Mis-matched data size", "2025-08-07")
    RATIO = _of_upload(
        "WF521", f"{_INVALID}File exceeds compression ratio of {RATIO}", "2023-06-21"
    )
    SIZE = _of_upload(
        "WF705",
        f"File too large. Limit for project {{}} is {PYPI_LIMIT // 2**20} MB.",
        "2024-07-02",
    )
    FILE_NAME = Predicate("WF522", "{}", "packaging.utils 26.2, called by " + _LEGACY, "2024-04-18")
    PLATFORM = _of_upload(
        "WF522", "Binary wheel {} has an unsupported platform tag {}.", "2016-05-02"
    )
    LINUX = _of_upload("WF804", "Binary wheel {} has an unsupported platform tag {}.", "2016-05-02")
    PROJECT_NAME = _of_upload(
        "WF522", "Filename {} should contain the normalized project name {}, not {}.", "2025-10-23"
    )
    OTHER_NAME = _of_upload("WF505", "Start filename for {} with {}.", "2018-05-16")
    OTHER_VERSION = _of_upload("WF505", "Version in filename should be {} not {}.", "2024-04-18")
    DIST_INFO = _of_upload("WF522", _INVALID + "WHEEL not found at {}", "2024-11-18")
    NO_RECORD = _of_upload(
        "WF501", "Wheel {} does not contain the required RECORD file: {}", "2025-08-07"
    )
    RECORD_NAMES = Predicate("WF501", "", _WHEEL, "2025-08-07")
    NO_METADATA = _of_upload(
        "WF506", "Wheel {} does not contain the required METADATA file: {}", "2023-05-11"
    )
    LICENSE_FILE = _of_upload(
        "WF506", "License-File {} does not exist in distribution file {} at {}", "2024-11-13"
    )
    URL = Predicate("WF506", "Can't have direct dependency: {}", _METADATA, "2024-03-19")
    ENTRY_POINTS = Predicate(
        "WF519",
        "Wheel {} has invalid entry points defined in the entry_points.txt file",
        _WHEEL,
        "2026-05-18",
    )
    FIELD = Predicate("WF523", "{}", _PACKAGING, "2024-03-19")
    METADATA_VERSION = _of_field("{} is not a valid metadata version", "2026-02-17")
    LOCAL_VERSION = _of_field("The use of local versions in {} is not allowed.", "2024-03-19")
    SUMMARY = _of_field("'summary' field must be 512 characters or less.", "2024-03-19")
    EMAIL = _of_field("{} is not a valid email address: ", "2024-03-19")
    CLASSIFIER = _of_field("{} is not a valid classifier.", "2024-03-19")
    OLD_CLASSIFIER = _of_field("The classifier {} has been deprecated", "2024-03-19")
    PAGE = _of_field("{} is not a valid url.", "2024-03-19")
    LABEL = _of_field("Must have a label", "2024-03-19")
    LONG_LABEL = _of_field("{} must be 32 characters or less.", "2024-03-19")
    NO_URL = _of_field("Must have a URL", "2024-03-19")
    BAD_URL = _of_field("{} is not a valid url", "2024-03-19")
    DIST = _of_field("{} is invalid: ", "2024-03-19")
    DIST_URL = _of_field("Can't have direct dependency: {}", "2024-03-19")
    DESCRIPTION = _of_upload(
        "WF523", "The description failed to render for 'text/x-rst'.", "2018-05-24"
    )
    DYNAMIC = _of_field("Dynamic field {} is not a valid dynamic field.", "2025-01-10")
    TWO_LICENSES = _of_field(
        "License is deprecated when License-Expression is present. "
        "Only License-Expression should be present.",
        "2024-11-13",
    )

    @property
    def is_email(self) -> bool:
        """Whether the index takes the wheel, and writes its maintainers an email."""
        return not self.value.words

    def note(self, *values: str) -> str:
        """Return what the index does, with its own words around `values`, and the source."""
        _, words, source, date = self.value
        if self.is_email:
            return f"PyPI takes it, and writes the maintainers an email ({source}, {date})"
        return f"{REFUSED}: `{_fill(words, values)}` ({source}, {date})"

    def severity(self, settings: Settings) -> Severity:
        """Return how severe that is for the index of `settings`."""
        refused = settings.index is Index.PYPI and not self.is_email
        return Severity.ERROR if refused else Severity.WARNING


def _fill(words: str, values: tuple[str, ...]) -> str:
    """Put `values`, which may have braces, in the places of `words`."""
    pieces = words.split("{}")
    return pieces[0] + "".join(v + p for v, p in zip(values, pieces[1:], strict=True))


_ARCHES = "x86_64|i686|aarch64|armv7l|ppc64le|s390x|riscv64"
_MAC = "ppc|ppc64|i386|x86_64|arm64|intel|fat|fat3|fat64|universal|universal2"
_PLATFORMS = lazy_pattern(
    rf"""any | win32 | win_(?:arm64|amd64|ia64) | linux_armv[67]l
    | manylinux(?:1|2010)_(?:x86_64|i686)
    | manylinux2014_(?:x86_64|i686|aarch64|armv7l|ppc64|ppc64le|s390x)
    | manylinux_\d+_\d+_(?:{_ARCHES}|ppc64)
    | musllinux_\d+_\d+_(?:{_ARCHES})
    | macosx_(?:10_\d+|(?:1[1-5]|26)_0)_(?:{_MAC})
    | ios_\d+_\d+_(?:arm64|x86_64)_(?:iphoneos|iphonesimulator)
    | android_\d+_(?:armeabi_v7a|arm64_v8a|x86|x86_64)
    | pyemscripten_\d+_\d+_wasm32
    """,
    re.VERBOSE,
)
"""The platform tags that PyPI takes (warehouse/forklift/legacy.py at 6b62157)."""


def takes_platform(tag: str) -> bool:
    """Return whether PyPI takes a platform tag; it compares in lower case, as packaging does."""
    return _PLATFORMS.fullmatch(tag.lower()) is not None
