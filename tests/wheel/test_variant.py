"""Variant wheels: what their label promises, and what variant.json must say of it."""

import json
from typing import Any

import pytest

from tests.support.values import elf, findings, wheel
from wheelfix.rules.findings import Severity
from wheelfix.rules.loader_acceptance import isa
from wheelfix.rules.metadata import invalid_metadata
from wheelfix.wheel.model import Metadata
from wheelfix.wheel.variant import promised_isa, variant_problem

INFO = "demo-1.0.dist-info"
LEVELS = {level: bytes.fromhex(f"028000c004000000{bits:02x}00000000000000")
          for level, bits in (("v2", 2), ("v3", 4), ("v4", 8))}  # fmt: skip
MARKERS = (
    'a; "x86_64" in variant_namespaces',
    'b; "x86_64 :: level" in variant_features and python_version > "3.8"',
    'c; "x86_64 :: level :: v3" in variant_properties',
    'd; variant_label != "null"',
)


def variant(label: str | None, document: object, **fields: Any) -> Any:
    suffix = f"-{label}" if label else ""
    metadata = Metadata(
        fields=tuple(
            {"metadata-version": "2.4", "name": "demo", "version": "1.0"}.items()
        ),
        name="demo", version="1.0", metadata_version="2.4", requires_dist=MARKERS,
    )  # fmt: skip
    return wheel(
        {"demo/m.so": elf(gnu_properties=LEVELS["v3"])},
        f"{INFO}/METADATA",
        f"{INFO}/variant.json",
        name=f"demo-1.0-cp311-cp311-manylinux_2_28_x86_64{suffix}.whl",
        texts={f"{INFO}/variant.json": json.dumps(document)},
        metadata=metadata,
        **fields,
    )


def described(label: str, level: str | None = "v3") -> object:
    return {"variants": {label: {"x86_64": {"level": [level]}} if level else {}}}


def test_a_variant_wheel_may_need_what_its_label_promises() -> None:
    sound = variant("x86_64_v3", described("x86_64_v3"))
    assert promised_isa(sound) == "x86-64-v3"
    assert findings(isa, sound) == ()
    assert findings(invalid_metadata, sound) == ()
    less = variant("x86_64_v2", described("x86_64_v2", "v2"))
    [found] = findings(isa, less)
    assert "more than the variant label, x86-64-v2, promises" in found.message


@pytest.mark.parametrize(
    ("label", "document", "problem"),
    [
        ("x86_64_v3", described("x86_64_v4"), "its `variant.json` describes `x86_64_v4`"),
        ("x86_64_v3", {}, "no `variant.json` that can be read"),
        ("x86_64_v3", [1], "no `variant.json` that can be read"),
        ("x86_64_v3", {"variants": 5}, "no `variant.json` that can be read"),
        ("null", described("null"), "the variant `null` has properties"),
        ("null", described("null", None), ""),
        ("cu12", {"variants": {"cu12": {"x86_64": 3}}}, ""),
    ],
)
def test_the_label_is_one_that_the_wheel_describes(
    label: str, document: object, problem: str
) -> None:
    subject = variant(label, document)
    assert problem in variant_problem(subject)
    found = findings(invalid_metadata, subject)
    assert [f.severity for f in found] == ([Severity.ERROR] if problem else [])


def test_a_wheel_that_is_no_variant_has_no_markers_of_variants() -> None:
    """pip and uv refuse them."""
    subject = variant(None, {})
    assert len(findings(invalid_metadata, subject)) == len(MARKERS)
    assert findings(isa, subject)
