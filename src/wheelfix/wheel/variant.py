"""Wheel variants: `variant.json`, and what its properties promise (PEP 825, a draft)."""

import json
from collections.abc import Mapping
from typing import Any, cast

from wheelfix.system.lazy_patterns import lazy_pattern
from wheelfix.wheel.model import Wheel

_LEVEL = lazy_pattern(r"v[234]")
_NULL = "null"
"""The label of the variant without properties."""


def variant_problem(wheel: Wheel) -> str:
    """Return what is wrong with the `variant.json` of a variant wheel; empty if nothing is."""
    label = wheel.name.variant
    if label is None:
        return ""
    variants = _variants(wheel)
    if variants is None:
        return f"the wheel is the variant `{label}`, but has no `variant.json` that can be read"
    if label not in variants:
        there = ", ".join(f"`{name}`" for name in sorted(variants)[:3]) or "none"
        return f"the wheel is the variant `{label}`, but its `variant.json` describes {there}"
    if label == _NULL and variants[label]:
        return "the variant `null` has properties"
    return ""


def promised_isa(wheel: Wheel) -> str | None:
    """Return the x86-64 level that the properties of a variant wheel promise: `x86-64-v3`.

    That is the property `x86_64 :: level :: v3`; of several values, the lowest.
    """
    label = wheel.name.variant
    properties: Any = (_variants(wheel) or {}).get(label) if label else None
    try:
        values = [value for value in properties["x86_64"]["level"] if _LEVEL.fullmatch(value)]
    except (KeyError, TypeError):
        return None
    return f"x86-64-{min(values)}" if values else None


def _variants(wheel: Wheel) -> Mapping[str, object] | None:
    """Return the properties by label; None if there are none that can be read."""
    try:
        document: Any = json.loads(wheel.texts[wheel.dist_info.variant])
        variants = document["variants"]
    except (KeyError, TypeError, ValueError, RecursionError):
        return None
    if not isinstance(variants, dict):
        return None
    return cast("dict[str, object]", variants)
