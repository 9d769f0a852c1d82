"""Requirements on providers in METADATA."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest

from tests.support.providers import BLAS, DEPENDENT, asked
from tests.support.values import apply_fixes, elf, findings, wheel
from wheelfix.providers.model import Folder, Provided
from wheelfix.rules import provider_requirements
from wheelfix.rules.context import Context
from wheelfix.rules.findings import Severity
from wheelfix.rules.provider_requirements import provider_not_required
from wheelfix.rules.run_rules import run_rules
from wheelfix.settings import ProviderSetting, Settings
from wheelfix.wheel.model import Key, Metadata

PRO = ProviderSetting(requirement="pro>=2", libraries=("libpro.so.*",), directory="pro/lib")


def module(name: str, *needed: str, **fields: Any) -> Any:
    return elf(*needed, module_hooks=(f"PyInit_{name}",), **fields)


TWO = {"demo/_core.so": module("_core"), "demo/_gpu.so": module("_gpu", "libpro.so.3")}


def test_a_provider_that_is_not_required_is_an_error_with_the_line_to_add() -> None:
    subject = wheel({DEPENDENT: elf("libcublas.so.12")}, metadata=asked("numpy"))
    (found,) = findings(provider_requirements.provider_not_required, subject, provider=(BLAS,))
    assert found.severity is Severity.ERROR
    assert "`Requires-Dist: nvidia-cublas-cu12>=12.4`" in (found.hint or "")


@pytest.mark.parametrize(
    "requirement", ["nvidia-cublas-cu12", "NVIDIA_cublas.cu12 >=12.4 ; sys_platform == 'linux'"]
)
def test_a_provider_that_is_required_in_any_spelling_is_no_finding(requirement: str) -> None:
    subject = wheel({DEPENDENT: elf("libcublas.so.12")}, metadata=asked(requirement))
    assert not findings(provider_requirements.provider_not_required, subject, provider=(BLAS,))


def test_a_provider_of_an_extra_stays_optional() -> None:
    subject = wheel(
        {DEPENDENT: elf("libcublas.so.12")}, metadata=asked("nvidia-cublas-cu12; extra == 'gpu'")
    )
    (found,) = findings(provider_requirements.provider_not_required, subject, provider=(BLAS,))
    assert found.severity is Severity.NOTE


@pytest.mark.parametrize(
    ("required", "known", "version", "loose"),
    [
        ("p", "p>=1", "", True),
        ("p", "p", "", False),
        ("p", "p", "1.5", True),
        ("p>=1", "p", "", False),
        ("p>=1", "p>=1", "", False),
        ("p>=1.2", "p>=1", "", False),
        ("p>=0.9", "p>=1", "", True),
        ("p>=1", "p>=1,<2", "", True),
        ("p>=1,<2", "p>=1,<3", "", False),
        ("p~=1.4", "p>=1.4,<2", "", False),
        ("p==1.*", "p>=1.4", "", True),
        ("p>=2", "p", "1.5", True),
        ("p>=1", "p", "1.5", False),
    ],
)
def test_metadata_must_not_allow_more_than_the_provider(
    required: str, known: str, version: str, *, loose: bool
) -> None:
    folder = Folder(Key.PLATLIB, "p", ("libp.so",))
    provider = Provided(requirement=known, version=version, folders=(folder,))
    subject = wheel({DEPENDENT: elf("libp.so")}, metadata=asked(required))
    context = Context(wheel=subject, settings=Settings(), providers=(provider,))
    found = run_rules(context, [provider_requirements.provider_loosely_required])
    assert bool(found) is loose


@pytest.mark.parametrize(
    ("required", "loose"),
    [
        ("nvidia-cublas>=12", True),
        ("nvidia-cublas<14", True),
        ("nvidia-cublas>=13", False),
        ("nvidia-cublas~=13.1", False),
        ("nvidia-cublas==13.*", False),
    ],
)
def test_metadata_must_not_allow_releases_before_the_soname(required: str, *, loose: bool) -> None:
    folder = Folder(Key.PLATLIB, "nvidia/cu13/lib", ("libcublas.so.13",))
    provider = Provided(requirement="nvidia-cublas", version="13.2.1", folders=(folder,))
    subject = wheel({DEPENDENT: elf("libcublas.so.13")}, metadata=asked(required))
    context = Context(wheel=subject, settings=Settings(), providers=(provider,))
    found = run_rules(context, [provider_requirements.provider_loosely_required])
    messages = [finding.message for finding in found]
    problem = "which allows releases before 13, with other SONAMEs"
    assert messages == [f"METADATA requires `{required}`, {problem}"] * loose


@pytest.mark.parametrize(
    ("library", "required", "version", "hint"),
    [
        ("libp.so", "p", "1.5", "such as `p>=1.5`"),
        ("libp.so", "p>=2", "1.5", "check with a wheel of p that `p>=2` allows"),
        ("libp-1a2b3c4d.so", "p>=2", "1.5", "check with a wheel of p that `p>=2` allows"),
        (
            "libp-1a2b3c4d.so",
            "p>=1",
            "1.5",
            (
                'repair both wheels with `keep-names = ["libp.so"]`; or, only if both are always '
                "released together, require `p==1.5`"
            ),
        ),
    ],
)
def test_no_version_is_advised_that_makes_things_worse(
    library: str, required: str, version: str, hint: str
) -> None:
    """None that METADATA excludes; and an exact one is the second choice."""
    folder = Folder(Key.PLATLIB, "p", (library,))
    provider = Provided(requirement="p", version=version, folders=(folder,))
    subject = wheel({DEPENDENT: elf(library)}, metadata=asked(required))
    context = Context(wheel=subject, settings=Settings(), providers=(provider,))
    (found,) = run_rules(context, [provider_requirements.provider_loosely_required])
    assert found.hint == hint


@pytest.mark.parametrize(
    ("extra", "refused", "lowest"), [("", (), "13.1"), ("!=13.1", ("13.1",), "13.2")]
)
def test_the_lowest_of_the_versions_that_were_read_is_the_bound(
    extra: str, refused: tuple[str, ...], lowest: str
) -> None:
    """A higher one would be refused to users of what was given, and judged to serve."""
    folder, name = Folder(Key.PLATLIB, "p", ("libcublas.so.13",)), "nvidia-cublas"
    both = tuple(
        Provided(requirement=name, version=version, folders=(folder,))
        for version in ("13.1", "13.2")
    )
    provider = replace(both[1], available=both, refused=refused)
    subject = wheel({DEPENDENT: elf("libcublas.so.13")}, metadata=asked(f"{name}{extra}"))
    context = Context(wheel=subject, settings=Settings(), providers=(provider,))
    (found,) = run_rules(context, [provider_requirements.provider_loosely_required])
    assert found.hint == f"such as `{name}>={lowest},<14`"


@pytest.mark.parametrize(
    ("objects", "init", "requires", "severity", "added"),
    [
        (TWO, b"from . import _core", (), Severity.ERROR, False),
        (TWO, b"from . import _gpu", (), Severity.ERROR, True),
        ({"demo/_gpu.so": TWO["demo/_gpu.so"]}, b"", (), Severity.ERROR, True),
        (TWO, b"from . import _core", ("pro>=2; extra == 'gpu'",), Severity.NOTE, False),
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
    assert [finding.severity for finding in found] == ([severity] if severity is not None else [])
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
