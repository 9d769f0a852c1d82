"""Libraries and symbols of providers: what each rule reports, and what the loader says."""

import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.support.build import make_wheel, shared_object, stub_library_with_versions
from tests.support.odd_paths import spelled
from tests.support.providers import (
    DEPENDENT,
    MACHINE,
    PROVIDER_RULES,
    SUFFIX,
    asked,
    dependent_wheel,
    imported,
    pro_library,
    provider_wheel,
    repaired,
    unpacked,
)
from tests.support.values import elf, findings, wheel
from wheelfix.errors import SettingsError
from wheelfix.host.library_search import GivenLibraries
from wheelfix.host.provider_lookup import find_providers
from wheelfix.pipelines.repair_result import Status
from wheelfix.providers.model import Provided
from wheelfix.rules import provider_gaps, provider_requirements
from wheelfix.rules.context import Context
from wheelfix.rules.findings import Finding, Severity
from wheelfix.rules.run_rules import run_rules
from wheelfix.settings import ProviderSetting, Settings
from wheelfix.wheel.reader import Archive, open_wheel


def checked(path: Path, *providers: str, **settings: Any) -> list[Finding]:
    given = tuple(ProviderSetting(source=source) for source in providers)
    with open_wheel(path) as archive:
        found = find_providers(given, archive.wheel)
        return list(run_rules(context_of(archive, found, Settings(**settings)), PROVIDER_RULES))


def context_of(archive: Archive, providers: tuple[Provided, ...], settings: Settings) -> Context:
    definitions = GivenLibraries(archive=archive, library_path=()).beside(providers)
    return Context(
        wheel=archive.wheel, settings=settings, providers=providers, definitions=definitions
    )


def test_a_symbol_that_the_provider_lacks_is_named_as_the_loader_names_it(tmp_path: Path) -> None:
    pro = pro_library(tmp_path)
    good = provider_wheel(tmp_path, "", library=pro)
    bad = provider_wheel(tmp_path, "int pro_new(void) { return 7; }", "2.1")
    path = dependent_wheel(tmp_path, pro)
    codes = [finding.code for finding in checked(path, str(good))]
    assert "WF824" not in codes
    (found,) = (finding for finding in checked(path, str(bad)) if finding.code == "WF824")
    assert (found.entry, found.severity) == ("pro", Severity.ERROR)
    assert "pro 2.1" in found.message
    fixed = repaired(path, tmp_path / "out", str(good)).output
    assert fixed is not None
    assert imported(unpacked(tmp_path / "good", fixed, good)) == "7"
    assert "undefined symbol: pro" in imported(unpacked(tmp_path / "bad", fixed, bad))
    refused = repaired(path, tmp_path / "no", str(bad))
    assert refused.status is Status.REJECTED


@pytest.mark.parametrize("kind", ["wheel", "directory"])
def test_a_provider_may_be_given_by_any_path(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    bad = provider_wheel(tmp_path, "int pro_new(void) { return 7; }", "2.1")
    path = dependent_wheel(tmp_path, pro_library(tmp_path))
    place = bad if kind == "wheel" else tmp_path / "2.1"
    monkeypatch.chdir(path.parent)
    codes = [finding.code for finding in checked(path, str(place))]
    assert "WF824" in codes
    for seed in range(4):
        assert [f.code for f in checked(path, spelled(place, tmp_path, seed))] == codes


def test_a_version_that_the_provider_lacks_is_named(tmp_path: Path) -> None:
    def versioned(folder: str, version: str) -> Path:
        path = tmp_path / folder / "libpro.so.3"
        return stub_library_with_versions(path, "libpro.so.3", {version: ["pro"]})

    built, other = versioned("built", "PRO_2"), versioned("other", "PRO_1")
    good = provider_wheel(tmp_path, "", library=built)
    bad = provider_wheel(tmp_path, "", "1.0", library=other)
    path = dependent_wheel(tmp_path, built, requires="pro")
    assert not [finding for finding in checked(path, str(good)) if finding.code == "WF824"]
    (found,) = (finding for finding in checked(path, str(bad)) if finding.code == "WF824")
    assert "`pro@PRO_2`" in found.message
    fixed = repaired(path, tmp_path / "out", str(good)).output
    assert fixed is not None
    assert "PRO_2" in imported(unpacked(tmp_path / "bad", fixed, bad))


def test_glibc_asks_for_the_version_of_a_weak_reference_and_musl_for_none(tmp_path: Path) -> None:
    for folder, version in (("built", "PRO_2"), ("other", "PRO_1")):
        library = tmp_path / folder / "libpro.so.3"
        stub_library_with_versions(library, "libpro.so.3", {version: ["pro"]})
    bad = provider_wheel(tmp_path, "", "1.0", library=tmp_path / "other" / "libpro.so.3")
    weak, use = "__attribute__((weak)) ", "int pro(void); int use(void) { return pro(); }"
    for libc, code, count in (("libc.so.6", weak + use, 1), ("libc.musl-x86_64.so.1", use, 0)):
        c = shared_object(tmp_path / libc / "libc.so", soname=libc, libc=False)
        needed = [tmp_path / "built" / "libpro.so.3", c]
        user = shared_object(
            tmp_path / libc / "libuse.so",
            code,
            needed=needed,
            runpath=str(tmp_path / "other"),
            flags=["-Wl,--no-as-needed"],
            libc=False,
        )
        path = make_wheel(tmp_path / libc, files={"demo/libuse.so": user})
        found = [one for one in checked(path, str(bad)) if one.code == "WF824"]
        assert len(found) == count
    user = tmp_path / "libc.so.6" / "libuse.so"
    command = [sys.executable, "-c", f"import ctypes; ctypes.CDLL({str(user)!r})"]
    outcome = subprocess.run(command, capture_output=True, text=True, check=False)
    assert "version `PRO_2' not found" in outcome.stderr


def test_a_library_that_the_available_provider_lacks_is_an_error(tmp_path: Path) -> None:
    pro = pro_library(tmp_path)
    other = shared_object(tmp_path / "o" / "libpro.so.4", soname="libpro.so.4")
    available = provider_wheel(tmp_path, "", library=other)
    path = dependent_wheel(tmp_path, pro)
    known = ProviderSetting(requirement="pro", libraries=("libpro.so.*",), directory="pro/lib")
    given = (known, ProviderSetting(source=str(available)))
    with open_wheel(path) as archive:
        providers = find_providers(given, archive.wheel)
        context = context_of(archive, providers, Settings())
        (found,) = run_rules(context, [provider_gaps.provider_lacks_library])
    assert found.entry == "libpro.so.3"


@pytest.mark.parametrize(("older", "bound"), [("int pro(void) { return 1; }", "1.0"), ("", "2.0")])
def test_no_version_without_a_symbol_is_the_bound(tmp_path: Path, older: str, bound: str) -> None:
    serving = "int pro(void) { return 7; }"
    given = [provider_wheel(tmp_path, older, "1.0"), provider_wheel(tmp_path, serving, "2.0")]
    path = dependent_wheel(tmp_path, pro_library(tmp_path), requires="pro")
    hints = {one.code: one.hint for one in checked(path, *map(str, given))}
    assert hints["WF822"] == f"such as `pro>={bound}`"


def other_provider(folder: Path, version: str, tag: str, name: str = "libpro.so.3") -> Path:
    """Write a provider's wheel; only the names in it count."""
    return make_wheel(folder, "pro", version, tag, {f"pro/lib/{name}": b""})


@pytest.mark.parametrize(
    ("requires", "judged", "refused"),
    [
        ((), ("3.0",), ("4.0rc1",)),  # WF821 asks for pro>=3.0
        (("pro",), ("3.0", "1.0"), ("4.0rc1",)),
        (("pro<3",), ("2.0", "1.0"), ("3.0", "4.0rc1")),
        (("pro==2.*",), ("2.0",), ("1.0", "3.0", "4.0rc1")),
        (("pro>=4.0rc1",), ("4.0rc1",), ("1.0", "2.0", "3.0")),
        (("pro<2; extra == 'a'", "pro>=3"), ("3.0", "1.0"), ("2.0", "4.0rc1")),
        (("other",), ("3.0",), ("4.0rc1",)),
    ],
)
def test_the_highest_and_the_lowest_version_that_metadata_allows_are_judged(
    tmp_path: Path, requires: tuple[str, ...], judged: tuple[str, ...], refused: tuple[str, ...]
) -> None:
    for version in ("1.0", "2.0", "3.0", "4.0rc1"):
        other_provider(tmp_path / "links", version, "py3-none-any")
    make_wheel(tmp_path / "links", "nolibs", "1", "py3-none-any", {"nolibs.py": ""})
    subject = wheel({DEPENDENT: elf("libpro.so.3")}, metadata=asked(*requires))
    providers = find_providers((ProviderSetting(source=str(tmp_path / "links")),), subject)
    assert tuple(provider.version for provider in providers) == judged
    assert {tuple(sorted(provider.refused)) for provider in providers} == {refused}
    assert [Path(provider.wheel).name.split("-")[1] for provider in providers] == list(judged)


def test_versions_that_metadata_does_not_allow_are_listed_as_not_checked(
    tmp_path: Path,
) -> None:
    pro = pro_library(tmp_path)
    bad = str(provider_wheel(tmp_path, "int pro_new(void) { return 7; }", "3.0"))
    good = str(provider_wheel(tmp_path, "", library=pro))
    path = dependent_wheel(tmp_path, pro, requires="pro>=2,<3")
    found = checked(path, bad, good)
    assert not [finding for finding in found if finding.code in {"WF822", "WF823", "WF824"}]
    (warning,) = (finding for finding in found if finding.code == "WF107")
    assert any("not checked: 3.0" in note for note in warning.notes)
    alone = checked(path, bad)
    assert "WF824" not in [finding.code for finding in alone]
    (warning,) = (finding for finding in alone if finding.code == "WF822")
    assert "the available version 3.0, not checked" in warning.message


def test_a_table_of_a_provider_applies_to_its_wheels(tmp_path: Path) -> None:
    wheels = [other_provider(tmp_path, version, "py3-none-any") for version in ("1.0", "3.0")]
    known = ProviderSetting(requirement="pro>=1", libraries=("libpro.so.*",), directory="pro/lib")
    given = (known, *(ProviderSetting(source=str(wheel_path)) for wheel_path in wheels))
    for requires, version, refused in (("pro", "3.0", ()), ("pro==2.*", "3.0", ("1.0", "3.0"))):
        subject = wheel({DEPENDENT: elf("libpro.so.3")}, metadata=asked(requires))
        first = find_providers(given, subject)[0]
        assert first.folders[0].libraries == known.libraries
        assert (first.version, first.refused) == (version, refused)
        assert bool(first.places) is not bool(refused)
        found = findings(provider_requirements.provider_loosely_required, subject, provider=given)
        assert any(", not checked" in finding.message for finding in found) is bool(refused)


@pytest.mark.parametrize(
    ("older", "newer", "blamed"),
    [
        ("int pro(void) { return 7; }", "int pro_new(void) { return 7; }", "2.1"),
        ("int pro_old(void) { return 7; }", "int pro(void) { return 7; }", "2.0"),
    ],
)
def test_a_symbol_that_one_of_the_versions_lacks_is_named_as_the_loader_names_it(
    tmp_path: Path, older: str, newer: str, blamed: str
) -> None:
    pro = pro_library(tmp_path)
    wheels = {"2.0": provider_wheel(tmp_path, older), "2.1": provider_wheel(tmp_path, newer, "2.1")}
    path = dependent_wheel(tmp_path, pro)
    between = provider_wheel(tmp_path, "int other(void) { return 7; }", "2.0.5")
    found = checked(path, *map(str, wheels.values()), str(between))
    (lacking,) = (finding for finding in found if finding.code == "WF824")
    assert f"pro {blamed}" in lacking.message
    which = {"2.0": "lowest", "2.1": "highest"}[blamed]
    assert any(f"{blamed} is the {which}" in note for note in lacking.notes)
    bound = {"2.0": ">=2.1", "2.1": "<2.0.5"}[blamed]
    assert (lacking.hint or "").endswith(f"or require `pro{bound}`")
    (good,) = (wheel_path for version, wheel_path in wheels.items() if version != blamed)
    fixed = repaired(path, tmp_path / "out", str(good)).output
    assert fixed is not None
    for version, beside in wheels.items():
        said = imported(unpacked(tmp_path / f"site{version}", fixed, beside))
        assert ("undefined symbol: pro" in said) is (version == blamed)
        assert (said == "7") is (version != blamed)


def test_a_function_of_c_that_the_provider_has_as_one_of_cxx_is_to_be_declared(
    tmp_path: Path,
) -> None:
    path = dependent_wheel(tmp_path, pro_library(tmp_path))
    of_cxx = provider_wheel(tmp_path, 'int f(void) __asm__("_Z3prov"); int f(void) { return 7; }')
    (lacking,) = (found for found in checked(path, str(of_cxx)) if found.code == "WF824")
    declared = 'declare `pro` as `extern "C"` wherever it is used: `libpro.so.3` defines it as'
    assert lacking.hint == f"{declared} `_Z3prov`, a function of C++"
    of_c = provider_wheel(tmp_path, "int pro(void) { return 7; }", "1.0")
    both = [found for found in checked(path, str(of_cxx), str(of_c)) if found.code == "WF824"]
    assert [(found.hint or "").rpartition(", or ")[2] for found in both] == ["require `pro<2.0`"]


def test_a_version_that_only_the_highest_defines_is_missed_in_the_lowest(tmp_path: Path) -> None:
    def versioned(folder: str, version: str) -> Path:
        path = tmp_path / folder / "libpro.so.3"
        return stub_library_with_versions(path, "libpro.so.3", {version: ["pro"]})

    built = versioned("built", "PRO_2")
    high = provider_wheel(tmp_path, "", "2.1", library=built)
    low = provider_wheel(tmp_path, "", "2.0", library=versioned("other", "PRO_1"))
    found = checked(dependent_wheel(tmp_path, built), str(high), str(low))
    (lacking,) = (finding for finding in found if finding.code == "WF824")
    assert "`pro@PRO_2`" in lacking.message
    assert (lacking.hint or "").startswith("`pro` is not in it: ")
    assert "pro 2.0" in lacking.message


@pytest.mark.parametrize(
    ("requires", "code", "offered"),
    [
        ("pro", "WF822", "such as `pro>=2.0`"),
        ("", "WF821", 'add "pro>=2.0"'),
        ("pro; sys_platform == 'win32'", "WF821", 'add "pro>=2.0"'),
    ],
)
def test_a_version_that_lacks_a_symbol_is_not_offered(
    tmp_path: Path, requires: str, code: str, offered: str
) -> None:
    pro = pro_library(tmp_path)
    path = dependent_wheel(tmp_path, pro, requires=requires)
    good = provider_wheel(tmp_path / "good", "", library=pro)
    bad = provider_wheel(tmp_path, "int other(void) { return 7; }")
    for given, words in ((good, offered), (bad, "require a version that serves it, not pro 2.0: ")):
        by_code = {finding.code: finding for finding in checked(path, str(given))}
        assert ("WF824" in by_code) is (given == bad)
        assert (by_code[code].hint or "").startswith(words)


@pytest.mark.parametrize(
    ("place", "words"),
    [
        ("pro/lib/libpro.so.4", "pro 3.0 does not have"),
        ("pro/new/libpro.so.3", "pro 2.0 has in `pro/lib`, not in `pro/new`"),
    ],
)
def test_a_library_that_the_next_release_renames_or_moves_is_named_with_that_release(
    tmp_path: Path, place: str, words: str
) -> None:
    pro = pro_library(tmp_path)
    low = provider_wheel(tmp_path, "", library=pro)
    library = shared_object(tmp_path / "n.so", "int pro(void) { return 8; }", soname="libpro.so.3")
    tag = f"py3-none-linux_{MACHINE}"
    high = make_wheel(tmp_path / "high", "pro", "3.0", tag, {place: library})
    path = dependent_wheel(tmp_path, pro)
    (found,) = (
        finding for finding in checked(path, str(low), str(high)) if finding.code == "WF823"
    )
    assert words in found.message
    assert any("available version that METADATA allows" in note for note in found.notes)
    fixed = repaired(path, tmp_path / "out", str(low)).output
    assert fixed is not None
    assert imported(unpacked(tmp_path / "low site", fixed, low)) == "7"
    assert "cannot open shared object" in imported(unpacked(tmp_path / "high site", fixed, high))


@pytest.mark.parametrize(
    ("tag", "words"),
    [
        ("py3-none-manylinux_2_17_aarch64", "for glibc aarch64, and the wheel for glibc x86_64"),
        ("py3-none-musllinux_1_2_x86_64", "for musl x86_64"),
        ("cp310-cp310-manylinux2014_x86_64", "for python3.10, and the wheel for python3.11"),
        ("py3-none-win_amd64", "for win_amd64"),
    ],
)
def test_a_provider_that_is_never_installed_beside_the_wheel_is_refused(
    tmp_path: Path, tag: str, words: str
) -> None:
    subject = wheel(
        {DEPENDENT: elf("libpro.so.3")}, name="d-1-cp311-cp311-manylinux_2_28_x86_64.whl"
    )
    misfit = ProviderSetting(source=str(other_provider(tmp_path / "bad", "1.0", tag)))
    with pytest.raises(SettingsError, match=re.escape(words)):
        find_providers((misfit,), subject)
    for good_tag in ("py3-none-any", "cp39-abi3-manylinux1_x86_64", "cp311-cp311-linux_x86_64"):
        good = ProviderSetting(source=str(other_provider(tmp_path / good_tag, "1.0", good_tag)))
        found = find_providers((misfit, good), subject)
        assert [provider.wheel for provider in found] == [good.source]


SOURCES = {
    "1.0": "int pro_old(void) { return 7; }",
    "2.0": "int pro(void) { return 7; }",
    "2.1": "int pro(void) { return 8; }",
    "3.0": "int pro_new(void) { return 7; }",
}
"""Version of the provider -> the source of its library, from which `pro` comes and goes."""


@pytest.mark.parametrize(
    ("requires", "allowed"),
    [
        ("pro", "`1.0`, `2.0`, `2.1`, `3.0`"),
        ("pro==2.1", "`2.1`"),
        ("pro>=2,<3", "`2.0`, `2.1`"),
        ("pro>=9", "none"),
        ("", "none"),
    ],
)
def test_the_true_bounds_of_a_requirement_and_the_symbol_at_each_border(
    tmp_path: Path, requires: str, allowed: str
) -> None:
    wheels = [provider_wheel(tmp_path, source, version) for version, source in SOURCES.items()]
    path = dependent_wheel(tmp_path, pro_library(tmp_path), requires=requires)
    (found,) = (one for one in checked(path, *map(str, wheels)) if one.code == "WF829")
    assert found.severity is Severity.NOTE
    assert "2 versions of 4 of pro have what the wheel needs: `pro>=2.0,<3.0`" in found.message
    lacks = f"`demo/_core{SUFFIX}` needs `pro`, not defined in `libpro.so.3`"
    assert found.notes == (
        f"1.0: {lacks}",
        "2.0: loads",
        "2.1: loads",
        f"3.0: {lacks}",
        f"of these, METADATA allows {allowed}" if requires else "METADATA does not require pro",
    )
    is_true = requires == "pro>=2,<3"
    assert found.hint == (None if is_true else "`Requires-Dist: pro>=2.0,<3.0`")
    for version, wheel_path in zip(SOURCES, wheels, strict=True):
        site = unpacked(tmp_path / "site" / version, path, wheel_path)
        assert (imported_at(site) in {"7", "8"}) is (f"{version}: loads" in found.notes)


def imported_at(site: Path) -> str:
    """Return what an import says, where the search path leads to the provider."""
    (tmp,) = site.parents[1].glob("_core*")
    module = site / "demo" / tmp.name
    subprocess.run(["patchelf", "--set-rpath", "$ORIGIN/../pro/lib", str(module)], check=True)
    return imported(site)


def test_a_library_of_another_name_draws_a_border(tmp_path: Path) -> None:
    pro = pro_library(tmp_path)
    renamed = shared_object(tmp_path / "n" / "libpro.so.4", SOURCES["2.0"], soname="libpro.so.4")
    wheels = [
        provider_wheel(tmp_path, "", "2.0", library=renamed),
        provider_wheel(tmp_path, "", "3.0rc1", library=pro),
        provider_wheel(tmp_path, "", "3.0+local", library=pro),
        provider_wheel(tmp_path, "", "4.0", library=renamed),
    ]
    path = dependent_wheel(tmp_path, pro, requires="pro")
    (found,) = (one for one in checked(path, *map(str, wheels)) if one.code == "WF829")
    assert found.hint == "`Requires-Dist: pro>=3.0rc1,<4.0`"
    assert "needs `libpro.so.3`, which it does not have" in found.notes[0]


def test_no_version_serves(tmp_path: Path) -> None:
    wheels = [provider_wheel(tmp_path, SOURCES[version], version) for version in ("1.0", "3.0")]
    path = dependent_wheel(tmp_path, pro_library(tmp_path), requires="pro")
    (found,) = (one for one in checked(path, *map(str, wheels)) if one.code == "WF829")
    assert found.message == "0 versions of 2 of pro have what the wheel needs"
    assert found.hint is None


def test_one_version_says_nothing_of_bounds(tmp_path: Path) -> None:
    only = provider_wheel(tmp_path, SOURCES["2.0"])
    path = dependent_wheel(tmp_path, pro_library(tmp_path))
    assert "WF829" not in [one.code for one in checked(path, str(only))]
