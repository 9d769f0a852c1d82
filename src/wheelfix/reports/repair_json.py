"""The output of `wheelfix repair` as JSON (`schemas/repair.schema.json`)."""

from collections.abc import Iterable
from typing import Any

from wheelfix.pipelines.graft import GraftedLibrary
from wheelfix.pipelines.repair_result import Absent, ObjectLoads, Outcome
from wheelfix.reports.check_json import finding_value, verdict_value
from wheelfix.reports.printable import error_value, fields_value
from wheelfix.rules.findings import PlannedEdit
from wheelfix.wheel.model import Wheel


def as_json(outcomes: Iterable[Outcome], documentation: str) -> dict[str, Any]:
    """Return the outcomes as JSON types; `version` changes when the meaning of a key does.

    `documentation` is the address of the documentation site; it may be empty.
    """
    return {"version": 1, "wheels": [_outcome(outcome, documentation) for outcome in outcomes]}


def _outcome(outcome: Outcome, documentation: str) -> dict[str, Any]:
    return {
        "source": str(outcome.source),
        "status": outcome.status.value,
        "output": None if outcome.output is None else str(outcome.output),
        "error": outcome.error and error_value(outcome.error),
        "tags_before": _platforms(outcome.before),
        "tags_after": _platforms(outcome.after),
        "size_before": outcome.bytes_before,
        "size_after": outcome.bytes_after or None,
        "grafted": [_grafted_library(library) for library in outcome.grafted],
        "edits": [_edit(edit) for edit in outcome.edits],
        "edited_by": dict(outcome.ways),
        "found": [finding_value(finding, documentation) for finding in outcome.found],
        "remaining": [finding_value(finding, documentation) for finding in outcome.remaining],
        "loads": [_loads(load) for load in outcome.loads],
        "absent": [_absent(library) for library in outcome.absent],
        "verdict": verdict_value(outcome.verdict),
        "messages": list(outcome.messages),
    }


def _platforms(wheel: Wheel | None) -> list[str]:
    return [] if wheel is None else list(wheel.name.platforms)


def _grafted_library(library: GraftedLibrary) -> dict[str, Any]:
    return {
        "member": library.member,
        "original_name": library.original,
        "source": str(library.host.source),
        "package": library.package_label or None,
        "size": library.host.size,
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


def _loads(load: ObjectLoads) -> dict[str, Any]:
    value = fields_value(load._asdict(), works="works_with", fails="fails_with")
    return {**value, "libraries": dict(load.libraries)}
