"""Hold what `check` says of published wheels to real installations of them.

    python scripts/beside_requirements.py RESULTS.jsonl WHEEL|DIR...

Each wheel is checked alone and with `--deps`, and installed by `wheelfix verify --deps` into a
fresh environment, where everything is loaded, imported and run. Three kinds of differences count:
an error of `check` alone that is gone with `--deps`; an error with `--deps` about an object that
loads; and an object that does not load without an error or a warning about it. What this machine
has, and the platform tag does not promise, explains the second kind. An error about an object that
could not be tried, since its package does not import for another reason, is listed as untried. With
`--errors-only`, wheels without an error of `check` alone are not installed; errors about anything
else than loading are listed as others, for a person to judge.

A line of JSON for each wheel is appended to the results; wheels that have one are skipped, so that
a run goes on where it was interrupted. Only wheels for this Python and machine are taken. This runs
the code of the wheels.
"""

import argparse
import json
import re
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from packaging.tags import sys_tags
from packaging.utils import parse_wheel_filename

from wheelfix import Finding, Settings, Severity, check

_LOADING = ("WF10", "WF301", "WF304", "WF311", "WF805", "WF82")
"""Codes of the rules that say what does not load."""
_FAILED = {"missing library", "undefined symbol", "missing symbol version", "refused by the loader"}
_LIBRARY = re.compile(r"([^\s:]+): cannot open shared object file")
_TIMEOUT = 1500
"""Seconds for one command."""


def main() -> None:
    """Compare the wheels, and print the differences."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("results", type=Path)
    parser.add_argument("wheels", type=Path, nargs="+")
    parser.add_argument("--errors-only", action="store_true", help="install those with errors")
    arguments = parser.parse_args()
    if absent := [str(path) for path in arguments.wheels if not path.exists()]:
        parser.error(f"{', '.join(absent)}: not found")
    if arguments.results.suffix == ".whl" or arguments.results.is_dir():
        parser.error(f"{arguments.results}: the file of results comes first, then the wheels")
    known = _known(arguments.results)
    supported = frozenset(sys_tags())
    for wheel in _wheels(arguments.wheels):
        if wheel.name in known or not parse_wheel_filename(wheel.name)[3] & supported:
            continue
        result = {"wheel": wheel.name, **_result(wheel, errors_only=arguments.errors_only)}
        with arguments.results.open("a", encoding="utf-8") as file:
            file.write(json.dumps(result) + "\n")
    found = _known(arguments.results).values()
    for result in found:
        for kind in ("error", "alone", "untrue", "untried", "missed", "others"):
            for line in result.get(kind, ()):
                print(f"{result['wheel']}: {kind}: {line}")
    print(f"{len(found)} wheels")


def _known(results: Path) -> dict[str, dict[str, Any]]:
    lines = results.read_text("utf-8").splitlines() if results.exists() else []
    return {result["wheel"]: result for result in map(json.loads, lines)}


def _wheels(paths: Sequence[Path]) -> Iterator[Path]:
    for path in paths:
        found = sorted(path.glob("*.whl")) if path.is_dir() else [path]
        yield from sorted(found, key=lambda wheel: wheel.stat().st_size)


def _result(wheel: Path, *, errors_only: bool) -> dict[str, Any]:
    try:
        alone = _check(wheel, Settings())
        errors = [finding for finding in alone if finding.severity == Severity.ERROR]
        others = {finding.code for finding in errors} - {f.code for f in _loading(errors)}
        result: dict[str, Any] = {
            "notes": [finding.message for finding in alone if finding.code == "WF827"],
            "errors": len(errors),
            "others": [_line(finding) for finding in errors if finding.code in others],
        }
        if any(_loading(errors)) or not errors_only:
            result |= _compare(wheel, alone)
    except (ValueError, subprocess.TimeoutExpired) as error:
        return {"error": [str(error)[-500:]]}
    return result


def _compare(wheel: Path, alone: Sequence[Finding]) -> dict[str, Any]:
    beside = _check(wheel, Settings(deps=True))
    verified = _run("verify", "--deps", "--output-format", "json", str(wheel))
    checks = [check for found in verified["results"] for check in found["checks"]]
    failed = [check for check in checks if check["status"] in _FAILED]
    tried = {check["member"] for check in checks if check["status"] != "not tried"}
    unseen = [finding for finding in _loading(beside) if not _is_true(finding, failed)]
    return {
        "alone": [_line(f) for f in _loading(alone) if _key(f) not in set(map(_key, beside))],
        "untrue": [_line(f) for f in unseen if f.member in tried],
        "untried": [_line(f) for f in unseen if f.member not in tried],
        "missed": [
            f"{check['member']}: {check['message']}"
            for check in failed
            if not any(_explains(finding, check) for finding in beside)
        ],
        "failed": len(failed),
        "attempts": len(checks),
    }


def _check(wheel: Path, settings: Settings) -> Sequence[Finding]:
    report = check(wheel, settings)
    if report.error is not None:
        raise ValueError(report.error.message)
    return report.findings


def _run(*words: str) -> dict[str, Any]:
    command = [sys.executable, "-m", "wheelfix", *words]
    done = subprocess.run(command, capture_output=True, text=True, timeout=_TIMEOUT, check=False)
    try:
        return dict(json.loads(done.stdout))
    except ValueError as error:
        raise ValueError(f"{words[0]}: {done.stderr.strip()}") from error


def _loading(findings: Sequence[Finding]) -> Iterator[Finding]:
    for finding in findings:
        if finding.severity == Severity.ERROR and finding.code.startswith(_LOADING):
            yield finding


def _key(finding: Finding) -> tuple[object, ...]:
    return finding.code, finding.member, finding.entry


def _line(finding: Finding) -> str:
    return f"{finding.code} {finding.member}: {finding.message}"


def _is_true(finding: Finding, failed: Sequence[dict[str, Any]]) -> bool:
    """Return whether the installation shows the error, or this machine hides it."""
    libraries = re.findall(r"`(\S+\.so\S*?)`", finding.message)
    return any(_explains(finding, check) for check in failed) or any(map(_is_here, libraries))


def _explains(finding: Finding, check: dict[str, Any]) -> bool:
    """Return whether a finding is about what did not load."""
    if finding.severity == Severity.NOTE and finding.code not in {"WF203", "WF302"}:
        return False
    library = _LIBRARY.search(check["message"])
    about = f"{finding.message} {finding.notes} {finding.entry}"
    return finding.member == check["member"] or bool(library and library[1] in about)


def _is_here(library: str) -> bool:
    """Return whether the loader of this machine finds a library."""
    command = [sys.executable, "-c", f"import ctypes; ctypes.CDLL({library!r})"]
    return subprocess.run(command, capture_output=True, check=False).returncode == 0


if __name__ == "__main__":
    main()
