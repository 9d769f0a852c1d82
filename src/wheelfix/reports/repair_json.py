"""The output of `wheelfix repair` as JSON (`schemas/repair.schema.json`)."""

from collections.abc import Iterable
from typing import Any

from wheelfix.pipelines.repair_result import Absent, GraftedFrom, Loads, Outcome
from wheelfix.reports.check_json import problem, verdict_value
from wheelfix.rules.findings import Finding, PlannedEdit
from wheelfix.wheel.model import Wheel


def as_json(outcomes: Iterable[Outcome], documentation: str) -> dict[str, Any]:
    """Return the outcomes as JSON types; `version` changes when the meaning of a key does.

    `documentation` is the address of the documentation site; it may be empty.
    """
    return {"version": 1, "wheels": [_outcome(outcome, documentation) for outcome in outcomes]}


def _outcome(outcome: Outcome, documentation: str) -> dict[str, Any]:
    error = outcome.error
    return {
        "source": str(outcome.source),
        "status": outcome.status.value,
        "output": None if outcome.output is None else str(outcome.output),
        "error": None if error is None else {"message": error.message, "hint": error.hint},
        "tags_before": _platforms(outcome.before),
        "tags_after": _platforms(outcome.after),
        "size_before": outcome.bytes_before,
        "size_after": outcome.bytes_after or None,
        "grafted": [_grafted(library) for library in outcome.grafted],
        "edits": [_edit(edit) for edit in outcome.edits],
        "edited_by": dict(outcome.ways),
        "found": [_finding(finding, documentation) for finding in outcome.found],
        "remaining": [_finding(finding, documentation) for finding in outcome.remaining],
        "loads": [_loads(load) for load in outcome.loads],
        "absent": [_absent(library) for library in outcome.absent],
        "verdict": verdict_value(outcome.verdict),
        "messages": list(outcome.messages),
    }


def _platforms(wheel: Wheel | None) -> list[str]:
    return [] if wheel is None else list(wheel.name.platforms)


def _grafted(library: GraftedFrom) -> dict[str, Any]:
    return {
        "member": library.member,
        "original_name": library.original,
        "source": str(library.source),
        "package": library.package or None,
        "size": library.size,
        "needed_by": list(library.dependents),
    }


def _absent(library: Absent) -> dict[str, Any]:
    return {
        "library": library.library,
        "absence": library.absence.value,
        "provider": library.provider or None,
        "needed_by": list(library.dependents),
    }


def _edit(edit: PlannedEdit) -> dict[str, Any]:
    return {
        "rule": edit.code,
        "name": edit.name,
        "title": edit.title,
        "member": edit.member,
        "old": edit.old,
        "new": edit.new,
    }


def _finding(finding: Finding, documentation: str) -> dict[str, Any]:
    return {
        **problem(finding, documentation),
        "entry": finding.entry,
        "notes": list(finding.notes),
        "hint": finding.hint,
    }


def _loads(load: Loads) -> dict[str, Any]:
    return {
        "member": load.member,
        "libraries": dict(load.libraries),
        "works_with": list(load.works),
        "fails_with": list(load.fails),
    }
