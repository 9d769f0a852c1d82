"""What PyPI refuses of an uploaded wheel, or writes an email about: one table, with its sources.

Read in the index's source (pypi/warehouse) at 6b62157 of 2026-08-21. Not in the table is what only
the index knows (names taken, files that exist, the age of the release, the quota of the project),
the scan for malware, and the rendering of the description, which `twine check` tries.
"""

from enum import Enum
from typing import NamedTuple

from wheelfix.rules.findings import Severity
from wheelfix.settings import Index, Settings

_ZIP = "Invalid distribution file. ZIP archive not accepted: "
_ZIPFILES, _WHEEL = "warehouse/utils/zipfiles.py", "warehouse/utils/wheel.py"
_LEGACY, _METADATA = "warehouse/forklift/legacy.py", "warehouse/forklift/metadata.py"
REFUSED = "PyPI refuses it"
"""The first words of the note about each check but the one that writes an email."""
_PACKAGING = "packaging.metadata 26.2, called by warehouse/forklift/metadata.py"


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


class Answer(Enum):
    """The checks of an upload, by what they refuse."""

    DESCRIPTOR = Predicate(
        "WF520", f"{_ZIP}ZIP contains a data descriptor", _ZIPFILES, "2025-10-21"
    )
    GAP = Predicate("WF520", f"{_ZIP}Unknown record signature", _ZIPFILES, "2025-08-07")
    COMMENT = Predicate("WF520", f"{_ZIP}Comment in central directory", _ZIPFILES, "2025-10-21")
    FOLDER_TWICE = Predicate(
        "WF520", f"{_ZIP}Duplicate filename in local headers", _ZIPFILES, "2025-08-07"
    )
    EXTRA = Predicate("WF520", f"{_ZIP}Malformed zip file", _ZIPFILES, "2025-08-07")
    EXTRA_TWICE = Predicate(
        "WF520", f"{_ZIP}Invalid duplicate extra in local file", _ZIPFILES, "2025-10-21"
    )
    EXTRA_SIZE = Predicate("WF520", f"{_ZIP}Mis-matched data size", _ZIPFILES, "2025-08-07")
    RATIO = Predicate(
        "WF521",
        "Invalid distribution file. File exceeds compression ratio of 50",
        _LEGACY,
        "2023-06-21",
    )
    SIZE = Predicate(
        "WF705", "File too large. Limit for project {} is 100 MB.", _LEGACY, "2024-07-02"
    )
    FILE_NAME = Predicate("WF522", "{}", "packaging.utils 26.2, called by " + _LEGACY, "2024-04-18")
    PLATFORM = Predicate(
        "WF522", "Binary wheel {} has an unsupported platform tag {}.", _LEGACY, "2016-05-02"
    )
    LINUX = Predicate(
        "WF804", "Binary wheel {} has an unsupported platform tag {}.", _LEGACY, "2016-05-02"
    )
    PROJECT_NAME = Predicate(
        "WF522",
        "Filename {} should contain the normalized project name {}, not {}.",
        _LEGACY,
        "2025-10-23",
    )
    OTHER_NAME = Predicate("WF505", "Start filename for {} with {}.", _LEGACY, "2018-05-16")
    OTHER_VERSION = Predicate(
        "WF505", "Version in filename should be {} not {}.", _LEGACY, "2024-04-18"
    )
    DIST_INFO = Predicate(
        "WF522", "Invalid distribution file. WHEEL not found at {}", _LEGACY, "2024-11-18"
    )
    NO_RECORD = Predicate(
        "WF501", "Wheel {} does not contain the required RECORD file: {}", _LEGACY, "2025-08-07"
    )
    RECORD_NAMES = Predicate("WF501", "", _WHEEL, "2025-08-07")
    NO_METADATA = Predicate(
        "WF506", "Wheel {} does not contain the required METADATA file: {}", _LEGACY, "2023-05-11"
    )
    LICENSE_FILE = Predicate(
        "WF506",
        "License-File {} does not exist in distribution file {} at {}",
        _LEGACY,
        "2024-11-13",
    )
    URL = Predicate("WF506", "Can't have direct dependency: {}", _METADATA, "2024-03-19")
    ENTRY_POINTS = Predicate(
        "WF519",
        "Wheel {} has invalid entry points defined in the entry_points.txt file",
        _WHEEL,
        "2026-05-18",
    )
    FIELD = Predicate("WF523", "{}", _PACKAGING, "2024-03-19")
    METADATA_VERSION = Predicate(
        "WF523", "{} is not a valid metadata version", _METADATA, "2026-02-17"
    )
    LOCAL_VERSION = Predicate(
        "WF523", "The use of local versions in {} is not allowed.", _METADATA, "2024-03-19"
    )
    SUMMARY = Predicate(
        "WF523", "'summary' field must be 512 characters or less.", _METADATA, "2024-03-19"
    )
    EMAIL = Predicate("WF523", "{} is not a valid email address: ", _METADATA, "2024-03-19")
    CLASSIFIER = Predicate("WF523", "{} is not a valid classifier.", _METADATA, "2024-03-19")
    OLD_CLASSIFIER = Predicate(
        "WF523", "The classifier {} has been deprecated", _METADATA, "2024-03-19"
    )
    PAGE = Predicate("WF523", "{} is not a valid url.", _METADATA, "2024-03-19")
    LABEL = Predicate("WF523", "Must have a label", _METADATA, "2024-03-19")
    LONG_LABEL = Predicate("WF523", "{} must be 32 characters or less.", _METADATA, "2024-03-19")
    NO_URL = Predicate("WF523", "Must have a URL", _METADATA, "2024-03-19")
    BAD_URL = Predicate("WF523", "{} is not a valid url", _METADATA, "2024-03-19")
    DIST = Predicate("WF523", "{} is invalid: ", _METADATA, "2024-03-19")
    DIST_URL = Predicate("WF523", "Can't have direct dependency: {}", _METADATA, "2024-03-19")
    DYNAMIC = Predicate(
        "WF523", "Dynamic field {} is not a valid dynamic field.", _METADATA, "2025-01-10"
    )
    TWO_LICENSES = Predicate(
        "WF523",
        "License is deprecated when License-Expression is present. "
        "Only License-Expression should be present.",
        _METADATA,
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
        return f"{REFUSED}: `{_filled(words, values)}` ({source}, {date})"

    def severity(self, settings: Settings) -> Severity:
        """Return how severe that is for the index of `settings`."""
        refused = settings.index is Index.PYPI and not self.is_email
        return Severity.ERROR if refused else Severity.WARNING


def _filled(words: str, values: tuple[str, ...]) -> str:
    """Put `values`, which may have braces, in the places of `words`."""
    pieces = words.split("{}")
    return pieces[0] + "".join(v + p for v, p in zip(values, pieces[1:], strict=True))
