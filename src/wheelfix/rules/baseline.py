"""The findings that a project had when it took wheelfix up, and that do not count.

They are told by what does not change from one build to the next: the distribution, the rule, the
member and the entry, without versions and without the hashes in the names of grafted libraries.
"""

import json
import re
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple, cast

from packaging.utils import canonicalize_name

from wheelfix.errors import OutputError, SettingsError
from wheelfix.rules.findings import Finding
from wheelfix.wheel.grafted_name import original_name

VERSION = 1
_INFO = re.compile(r"^([^/]+?)-[^/-]+\.(dist-info|data)/")


class Known(NamedTuple):
    """What tells one finding from another."""

    distribution: str
    code: str
    member: str
    entry: str


@dataclass(frozen=True, slots=True)
class Baseline:
    """The findings that do not count, each as often as it was there."""

    findings: frozenset[Known] = frozenset()

    def covers(self, distribution: str, finding: Finding) -> bool:
        """Whether `finding` was there before."""
        return known(distribution, finding) in self.findings


def known(distribution: str, finding: Finding) -> Known:
    """Return what tells `finding` from others in any build of `distribution`."""
    return Known(
        distribution=canonicalize_name(distribution),
        code=finding.code,
        member=_stable(finding.member or ""),
        entry=_stable(finding.entry or ""),
    )


def _stable(name: str) -> str:
    folder, slash, base = _INFO.sub(r"\1.\2/", name).rpartition("/")
    return folder + slash + original_name(base)


def read(path: Path) -> Baseline:
    """Read a baseline. Raises `SettingsError` for what is none."""
    try:
        document: object = json.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise SettingsError(
            f"cannot read the baseline `{path}`: {error.strerror}",
            hint="--write-baseline makes it",
        ) from error
    except ValueError as error:
        raise SettingsError(f"the baseline `{path}` is not JSON: {error}") from error
    table = cast("dict[str, object]", document) if isinstance(document, dict) else {}
    rows = table.get("findings")
    if table.get("version") != VERSION or not isinstance(rows, list):
        raise SettingsError(
            f"`{path}` is no baseline of version {VERSION}", hint="make it anew: --write-baseline"
        )
    try:
        fields = cast("list[dict[str, str]]", rows)
        return Baseline(frozenset(Known(**row) for row in fields))
    except TypeError as error:
        raise SettingsError(
            f"the baseline `{path}` has a row that is no finding: {error}",
            hint="make it anew: --write-baseline",
        ) from error


def text(findings: Iterable[tuple[str, Finding]]) -> str:
    """Return the baseline of `findings`, each with its distribution, sorted for small diffs."""
    rows = sorted(Counter(known(distribution, each) for distribution, each in findings))
    document = {"version": VERSION, "findings": [row._asdict() for row in rows]}
    return json.dumps(document, indent=1) + "\n"  # ASCII: names may be no Unicode, or turn it round


def write(path: Path, content: str) -> None:
    """Write a baseline. Raises `OutputError`."""
    try:
        path.write_text(content, encoding="utf-8")
    except OSError as error:
        raise OutputError(f"cannot write the baseline `{path}`: {error.strerror}") from error
