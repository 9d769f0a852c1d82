"""Baselines: findings that a project had when it adopted wheelfix, and that are suppressed.

A finding is identified by what does not change between builds: the distribution, the rule, the
member and the entry, without versions, without the hashes in the names of grafted libraries, and
without the folder of the build, which may have another name each time.
"""

import json
from collections.abc import Iterable
from pathlib import Path
from typing import cast

from packaging.utils import canonicalize_name

from wheelfix.errors import SettingsError
from wheelfix.named_tuple import NamedTuple
from wheelfix.rules.findings import Finding
from wheelfix.wheel.stable_names import stable_name

VERSION = 1
_BUILD_PATH = "WF111"
"""The rule whose entry is an absolute path of the build machine."""


class Known(NamedTuple):
    """The identity of a finding."""

    distribution: str
    code: str
    member: str
    entry: str


class Baseline(NamedTuple):
    """The suppressed findings."""

    findings: frozenset[Known] = frozenset()

    def covers(self, distribution: str, finding: Finding) -> bool:
        """Return whether `finding` is in the baseline."""
        return fingerprint(distribution, finding) in self.findings


def fingerprint(distribution: str, finding: Finding) -> Known:
    """Return what identifies `finding` in any build of `distribution`."""
    return Known(
        distribution=canonicalize_name(distribution),
        code=finding.code,
        member=stable_name(finding.member or ""),
        entry="/" if finding.code == _BUILD_PATH else stable_name(finding.entry or ""),
    )


def parse(content: bytes, path: Path) -> Baseline:
    """Parse the baseline of the file `path`. Raises `SettingsError` if it is not one."""
    try:
        document: object = json.loads(content)
    except (ValueError, RecursionError) as error:
        raise SettingsError(f"the baseline `{path}` is not JSON: {error}") from error
    table = cast("dict[str, object]", document) if isinstance(document, dict) else {}
    rows = table.get("findings")
    if table.get("version") != VERSION or not isinstance(rows, list):
        raise SettingsError(
            f"`{path}` is not a baseline of version {VERSION}",
            hint="create it again with --write-baseline",
        )
    try:
        fields = cast("list[dict[str, str]]", rows)
        return Baseline(frozenset(Known(**row) for row in fields))
    except TypeError as error:
        raise SettingsError(
            f"the baseline `{path}` has an invalid row: {error}",
            hint="create it again with --write-baseline",
        ) from error


def text(findings: Iterable[tuple[str, Finding]]) -> str:
    """Return the text of a baseline: `findings` with their distributions, sorted."""
    rows = sorted({fingerprint(distribution, finding) for distribution, finding in findings})
    document = {"version": VERSION, "findings": [row._asdict() for row in rows]}
    # ASCII: names may have surrogates or bidi controls.
    return json.dumps(document, indent=1) + "\n"
