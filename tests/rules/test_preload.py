"""Where preload shims are written, and for which sources."""

from collections.abc import Mapping
from collections.abc import Set as AbstractSet

import pytest

from tests.support.naming import opening
from tests.support.shims import shims
from tests.support.values import apply_fixes, elf, wheel
from wheelfix.analysis.preload_shim import has_hook
from wheelfix.rules.registry import RULES
from wheelfix.settings import Settings
from wheelfix.wheel.model import PRELOAD, Wheel

NAME = "libours.so.1"
LIBRARY = f"lib/{NAME}"


def opening_wheel(sources: list[str], inits: Mapping[str, bytes], *others: str) -> Wheel:
    return wheel(
        {LIBRARY: elf(soname=NAME)},
        *dict.fromkeys((*sources, *inits)),
        *others,
        openings={source: (opening(NAME),) for source in sources},
        sources=inits,
    )


def preloaded(subject: Wheel) -> Wheel:
    chosen = Settings(include=(NAME,))
    after, _ = apply_fixes(subject, RULES, chosen)
    again, steps = apply_fixes(after, RULES, chosen)
    assert (again, steps) == (after, ())
    return after


@pytest.mark.parametrize(
    ("sources", "inits", "expected"),
    [
        (["demo/a.py"], ["demo"], {"demo"}),
        (["demo/__init__.py"], ["demo"], {"demo"}),
        (["demo/sub/a.py"], ["demo", "demo/sub"], {"demo/sub"}),
        (["demo/sub/a.py", "demo/b.py"], ["demo", "demo/sub"], {"demo/sub", "demo"}),
        (["demo/x/a.py", "demo/y/b.py"], ["demo", "demo/x"], {"demo/x", "demo"}),
        (["demo/x/a.py", "demo/y/b.py"], ["demo"], {"demo"}),
        (["demo/x/a.py"], ["demo"], {"demo"}),
        (["ns/x/a.py", "ns/y/b.py"], ["ns/x", "ns/y"], {"ns/x", "ns/y"}),
        (["one/a.py", "two/b.py"], ["one", "two"], {"one", "two"}),
        (["a.py"], ["demo"], set[str]()),
        (["demo/a.py"], [], set[str]()),
    ],
)
def test_the_shim_is_in_the_innermost_package_around_the_source(
    sources: list[str], inits: list[str], expected: AbstractSet[str]
) -> None:
    after = preloaded(opening_wheel(sources, {f"{name}/__init__.py": b"" for name in inits}))
    assert {member: [*libraries] for member, libraries in shims(after).items()} == {
        f"{folder}/{PRELOAD}.py": [NAME] for folder in expected
    }
    for folder in inits:
        assert has_hook(after.sources[f"{folder}/__init__.py"]) is (folder in expected)


def test_a_shared_package_has_no_shim() -> None:
    shared = b"from pkgutil import extend_path\n__path__ = extend_path(__path__, __name__)\n"
    inits = {"ns/__init__.py": shared, "ns/x/__init__.py": b""}
    after = preloaded(opening_wheel(["ns/x/a.py", "ns/y/b.py"], inits))
    assert set(shims(after)) == {f"ns/x/{PRELOAD}.py"}
    assert after.sources["ns/__init__.py"] == shared


def test_the_pyc_file_of_a_changed_source_is_removed() -> None:
    compiled = "demo/__pycache__/__init__.cpython-311.pyc"
    other = "demo/__pycache__/api.cpython-311.pyc"
    init = "demo/__init__.py"
    subject = opening_wheel(["demo/a.py"], {init: b""}, compiled, other)
    names = {member.name for member in preloaded(subject).members}
    assert compiled not in names
    assert {init, other, f"demo/{PRELOAD}.py"} <= names
