"""Where preload shims are written, for which modules, and where RPATH entries are instead."""

from collections.abc import Mapping
from typing import Any

import pytest

from tests.support.shims import shims
from tests.support.values import apply_fixes, elf, findings, wheel
from wheelfix.analysis.preload_shim import has_hook
from wheelfix.rules.findings import Severity
from wheelfix.rules.preload import provider_not_preloaded
from wheelfix.rules.provider_search_paths import provider_beside, provider_not_searched
from wheelfix.rules.registry import RULES
from wheelfix.settings import Provider, ProviderBy, Settings
from wheelfix.wheel.model import PRELOAD, Metadata, Wheel

PRO = Provider(requirement="pro>=2", libraries=("libpro.so.*",), directory="pro/lib")


def module(name: str, *needed: str, **fields: Any) -> Any:
    return elf(*needed, module_hooks=(f"PyInit_{name}",), **fields)


def preloaded(subject: Wheel, by: str = "preload", *providers: Provider) -> Wheel:
    chosen = Settings(provider=providers or (PRO,), provider_by=ProviderBy(by))
    after, _ = apply_fixes(subject, RULES, chosen)
    again, steps = apply_fixes(after, RULES, chosen)
    assert (again, steps) == (after, ())
    return after


def in_packages(objects: Mapping[str, Any], *inits: str, **fields: Any) -> Wheel:
    sources = {f"{package}/__init__.py": b"" for package in inits}
    asked = Metadata(name="demo", version="1.0", requires_dist=("pro>=2",))
    values: dict[str, Any] = {"sources": sources, "metadata": asked, **fields}
    return wheel(objects, *sources, **values)


@pytest.mark.parametrize(
    ("objects", "inits", "expected"),
    [
        (["demo/_a.so"], ["demo"], {"demo": ["._a"]}),
        (["demo/sub/_a.so"], ["demo", "demo/sub"], {"demo/sub": ["._a"]}),
        (["demo/sub/_a.so", "demo/_b.so"], ["demo", "demo/sub"], {"demo": [".sub._a", "._b"]}),
        (["demo/x/_a.so", "demo/y/_b.so"], ["demo", "demo/x"], {"demo": [".x._a", ".y._b"]}),
        (["demo/x/_a.so"], ["demo"], {"demo": [".x._a"]}),
        (["ns/x/_a.so", "ns/y/_b.so"], ["ns/x", "ns/y"], {"ns/x": ["._a"], "ns/y": ["._b"]}),
        (["one/_a.so", "two/_b.so"], ["one", "two"], {"one": ["._a"], "two": ["._b"]}),
        (["demo-1.0.data/platlib/demo/_a.so"], ["demo"], {"demo": ["._a"]}),
        (["demo/sub/__init__.so"], ["demo"], {"demo": [".sub"]}),
        (["_a.so"], ["demo"], {}),
        (["demo/_a.so"], [], {}),
        (["demo/__init__.so"], ["demo"], {}),
    ],
)
def test_the_shim_is_in_the_deepest_package_that_contains_the_modules(
    objects: list[str], inits: list[str], expected: Mapping[str, list[str]]
) -> None:
    def stem(member: str) -> str:
        name = member.rpartition("/")[2].removesuffix(".so")
        return member.split("/")[-2] if name == "__init__" else name

    subject = in_packages({m: module(stem(m), "libpro.so.3") for m in objects}, *inits)
    after = preloaded(subject)
    assert {k: sorted(v) for k, v in shims(after).items()} == {
        f"{folder}/{PRELOAD}.py": sorted(names) for folder, names in expected.items()
    }
    served = {name for names in expected.values() for name in names}
    for member in objects:
        assert bool(after.elfs[member].entries) is not bool(served)
    for folder in inits:
        assert has_hook(after.sources[f"{folder}/__init__.py"]) is (folder in expected)


def test_a_shared_package_has_no_shim() -> None:
    shared = b"from pkgutil import extend_path\n__path__ = extend_path(__path__, __name__)\n"
    subject = in_packages(
        {"ns/x/_a.so": module("_a", "libpro.so.3"), "ns/y/_b.so": module("_b", "libpro.so.3")},
        sources={"ns/__init__.py": shared, "ns/x/__init__.py": b""},
    )
    after = preloaded(subject)
    assert set(shims(after)) == {f"ns/x/{PRELOAD}.py"}
    assert after.elfs["ns/y/_b.so"].entries == ("$ORIGIN/../../pro/lib",)
    assert after.sources["ns/__init__.py"] == shared


LIBRARY = "demo.libs/libours.so.1"


def test_the_shim_of_a_module_covers_the_libraries_that_it_loads() -> None:
    subject = in_packages(
        {
            "demo/_a.so": module("_a", "libours.so.1", rpath="$ORIGIN/../demo.libs"),
            LIBRARY: elf("libpro.so.3"),
            "demo/_other.so": module("_other"),
        },
        "demo",
    )
    after = preloaded(subject)
    assert shims(after) == {f"demo/{PRELOAD}.py": {"._a": ("libpro.so.3",)}}
    assert after.elfs[LIBRARY].entries == ()


def test_a_library_that_a_program_needs_too_gets_an_entry_and_the_module_a_shim() -> None:
    subject = in_packages(
        {
            "demo/_a.so": module("_a", "libours.so.1", rpath="$ORIGIN/../demo.libs"),
            "demo/run": elf("libours.so.1", rpath="$ORIGIN/../demo.libs", interpreter="/lib/ld.so"),
            LIBRARY: elf("libpro.so.3"),
        },
        "demo",
    )
    after = preloaded(subject)
    assert after.elfs[LIBRARY].entries == ("$ORIGIN/../pro/lib",)
    assert shims(after) == {f"demo/{PRELOAD}.py": {"._a": ("libpro.so.3",)}}
    (said,) = findings(
        provider_not_preloaded, after, provider=(PRO,), provider_by=ProviderBy.PRELOAD
    )
    assert said.severity is Severity.INFO
    assert "`demo/run`, which loads it, is a program" in said.message


@pytest.mark.parametrize(
    ("objects", "fields", "reason"),
    [
        ({"demo/libours.so": elf("libpro.so.3")}, {}, "by its path"),
        ({"demo/run": elf("libpro.so.3", interpreter="/lib/ld.so")}, {}, "is a program"),
        ({"_a.so": module("_a", "libpro.so.3")}, {}, "no package"),
        (
            {"demo/_a.so": module("_a", "libpro.so.3")},
            {"name": "demo-1.0-cp311-cp311-musllinux_1_2_x86_64.whl"},
            "musl does not",
        ),
        (
            {"demo/_a.so": module("_a", "libpro.so.3")},
            {"name": "demo-1.0-py2.py3-none-linux_x86_64.whl"},
            "Python 2",
        ),
    ],
)
@pytest.mark.parametrize("by", ["preload", "both"])
def test_where_no_shim_is_possible_there_is_an_entry_and_a_finding(
    objects: dict[str, Any], fields: dict[str, Any], reason: str, by: str
) -> None:
    after = preloaded(in_packages(objects, "demo", **fields), by)
    assert not shims(after)
    (member,) = objects
    assert "pro/lib" in (after.elfs[member].rpath or "")
    (said,) = findings(
        provider_not_preloaded, after, provider=(PRO,), provider_by=ProviderBy.PRELOAD
    )
    assert (said.severity, reason in said.message) == (Severity.INFO, True)


def test_by_entry_no_shim_is_written_and_by_both_an_entry_and_a_shim() -> None:
    subject = in_packages({"demo/_a.so": module("_a", "libpro.so.3")}, "demo")
    by_entry = preloaded(subject, "entry")
    assert by_entry.sources == subject.sources
    assert by_entry.elfs["demo/_a.so"].entries == ("$ORIGIN/../pro/lib",)
    by_both = preloaded(subject, "both")
    assert by_both.elfs["demo/_a.so"].entries == ("$ORIGIN/../pro/lib",)
    assert shims(by_both)


def test_a_present_shim_is_enough_and_is_extended_for_more_modules() -> None:
    one = preloaded(in_packages({"demo/_a.so": module("_a", "libpro.so.3")}, "demo"))
    assert not findings(provider_not_searched, one, provider=(PRO,))
    (said,) = findings(provider_beside, one, provider=(PRO,))
    assert "where Python finds it" in said.message
    assert said.notes[0].endswith("without an import")
    assert findings(provider_not_searched, one, provider=(PRO,), provider_by=ProviderBy.BOTH)
    (said,) = findings(provider_beside, preloaded(one, "both"), provider=(PRO,))
    assert said.notes[0].endswith("where the RPATH entries find it beside the wheel")
    more = in_packages(
        {"demo/_b.so": module("_b", "libelse.so.1"), **one.elfs}, sources=one.sources
    )
    other = Provider(requirement="else", libraries=("libelse.so.1",), directory="e")
    grown = preloaded(more, "preload", other)
    assert shims(grown) == {
        f"demo/{PRELOAD}.py": {"._a": ("libpro.so.3",), "._b": ("libelse.so.1",)}
    }
    assert grown.sources["demo/__init__.py"] == one.sources["demo/__init__.py"]


def test_ignoring_the_rule_means_entries() -> None:
    subject = in_packages({"demo/_a.so": module("_a", "libpro.so.3")}, "demo")
    for without in ({"ignore": {"WF108": ""}}, {"select": ("WF106",)}):
        chosen: dict[str, Any] = {"provider_by": ProviderBy.PRELOAD, **without}
        assert findings(provider_not_searched, subject, provider=(PRO,), **chosen)


def test_the_pyc_file_of_a_changed_source_is_removed() -> None:
    compiled = "demo/__pycache__/__init__.cpython-311.pyc"
    other = "demo/__pycache__/api.cpython-311.pyc"
    init = "demo/__init__.py"
    subject = wheel(
        {"demo/_a.so": module("_a", "libpro.so.3")}, init, compiled, other, sources={init: b""}
    )
    names = {member.name for member in preloaded(subject).members}
    assert compiled not in names
    assert {init, other, f"demo/{PRELOAD}.py"} <= names
