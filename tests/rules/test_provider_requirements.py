"""Requires-Dist lines for providers: which are missing, and which are added."""

from collections.abc import Mapping
from typing import Any

import pytest

from tests.support.values import apply_fixes, elf, findings, wheel
from wheelfix.rules.findings import Severity
from wheelfix.rules.provider_requirements import provider_not_required
from wheelfix.settings import Provider, Settings
from wheelfix.wheel.model import Metadata

PRO = Provider(requirement="pro>=2", libraries=("libpro.so.*",), directory="pro/lib")


def module(name: str, *needed: str, **fields: Any) -> Any:
    return elf(*needed, module_hooks=(f"PyInit_{name}",), **fields)


TWO = {"demo/_core.so": module("_core"), "demo/_gpu.so": module("_gpu", "libpro.so.3")}


@pytest.mark.parametrize(
    ("objects", "init", "requires", "severity", "added"),
    [
        (TWO, b"from . import _core", (), Severity.ERROR, False),
        (TWO, b"from . import _gpu", (), Severity.ERROR, True),
        ({"demo/_gpu.so": TWO["demo/_gpu.so"]}, b"", (), Severity.ERROR, True),
        (TWO, b"from . import _core", ("pro>=2; extra == 'gpu'",), Severity.INFO, False),
        (TWO, b"from . import _gpu", ("pro>=2; extra == 'gpu'",), Severity.WARNING, False),
        (TWO, b"", ("pro>=2",), None, False),
    ],
)
def test_a_provider_of_some_modules_only_is_not_added_to_metadata(
    objects: Mapping[str, Any],
    init: bytes,
    requires: tuple[str, ...],
    severity: Severity | None,
    *,
    added: bool,
) -> None:
    subject = wheel(
        objects,
        "demo/__init__.py",
        sources={"demo/__init__.py": init},
        metadata=Metadata(name="demo", version="1.0", requires_dist=requires),
    )
    found = findings(provider_not_required, subject, provider=(PRO,), add_requires=True)
    assert [each.severity for each in found] == ([severity] if severity is not None else [])
    if severity is Severity.ERROR:
        assert ("extra == " in (found[0].hint or "")) is not added
    chosen = Settings(provider=(PRO,), add_requires=True)
    after, _ = apply_fixes(subject, [provider_not_required], chosen)
    assert after.metadata.requires_dist == (*requires, *(["pro>=2"] if added else []))
    assert not added or not findings(provider_not_required, after, provider=(PRO,))


def test_no_line_is_added_without_the_setting() -> None:
    subject = wheel({"demo/_gpu.so": module("_gpu", "libpro.so.3")}, metadata=Metadata(name="demo"))
    (found,) = findings(provider_not_required, subject, provider=(PRO,))
    assert found.fix is None
    assert "--add-requires" in (found.hint or "")
    broken = wheel({"demo/_gpu.so": module("_gpu", "libpro.so.3")}, metadata=Metadata(problem="x"))
    (found,) = findings(provider_not_required, broken, provider=(PRO,), add_requires=True)
    assert found.fix is None
