"""Libraries of other wheels: not grafted, reached, asked for, and really there."""

import os
import re
import subprocess
import sys
import sysconfig
import zipfile
from pathlib import Path
from typing import Any

import pytest

from tests.support.build import extension, make_wheel, shared_object, stub_library_with_versions
from tests.support.environment import ENVIRON
from tests.support.values import elf, findings, wheel
from wheelfix.analysis.providers import never_bundled, presets, suggest_pattern
from wheelfix.cli.app import run
from wheelfix.cli.config.values import settings_from
from wheelfix.errors import SettingsError
from wheelfix.host.host_libraries import GivenLibraries
from wheelfix.host.provider_lookup import in_directory, in_distribution, in_wheel, with_providers
from wheelfix.pipelines.repair import repair
from wheelfix.pipelines.repair_result import Outcome, Status
from wheelfix.rules import provider_contents, provider_paths, provider_requirements
from wheelfix.rules import providers as rules
from wheelfix.rules.context import Context, Stage
from wheelfix.rules.engine import apply_fixes_until_stable, run_rules
from wheelfix.rules.findings import Finding, Severity
from wheelfix.rules.registry import RULES
from wheelfix.rules.search_paths import dead_entry, escaping_entry
from wheelfix.settings import DataLibraries, Provider, PruneNeeded, Settings, name_of
from wheelfix.wheel.model import Metadata, Wheel
from wheelfix.wheel.reader import open_wheel

MACHINE = os.uname().machine
SUFFIX = sysconfig.get_config_var("EXT_SUFFIX")
MINOR = sys.version_info.minor
TAG = f"cp3{MINOR}-cp3{MINOR}-linux_{MACHINE}"

BLAS = Provider(
    requirement="nvidia-cublas-cu12>=12.4",
    libraries=("libcublas*.so.*",),
    directory="nvidia/cublas/lib",
)
USER = "demo/_core.so"
PROVIDER_RULES = (
    *provider_paths.RULES,
    *provider_requirements.RULES,
    *provider_contents.RULES,
    *rules.RULES,
)


def asked(*requirements: str) -> Metadata:
    return Metadata(name="demo", version="1.0", requires_dist=requirements)


def user_of_blas(member: str = USER, **fields: Any) -> Wheel:
    return wheel({member: elf("libcublas.so.12", **fields)}, metadata=asked("nvidia-cublas-cu12"))


# --- WF106: an entry leads there ------------------------------------------------------------------


@pytest.mark.parametrize(
    ("member", "entry"),
    [
        ("demo/_core.so", "$ORIGIN/../nvidia/cublas/lib"),
        ("_core.so", "$ORIGIN/nvidia/cublas/lib"),
        ("demo/sub/_core.so", "$ORIGIN/../../nvidia/cublas/lib"),
        ("demo-1.0.data/platlib/demo/_core.so", "$ORIGIN/../nvidia/cublas/lib"),
        ("demo.libs/libours-1a2b3c4d.so.1", "$ORIGIN/../nvidia/cublas/lib"),
    ],
)
def test_each_object_gets_the_entry_to_the_provider_and_keeps_it(member: str, entry: str) -> None:
    subject = user_of_blas(member)
    (found,) = findings(provider_paths.provider_not_searched, subject, provider=(BLAS,))
    assert (found.member, found.severity) == (member, Severity.ERROR)
    settings = Settings(provider=(BLAS,))
    after, _ = apply_fixes_until_stable(subject, RULES, settings, Stage.AFTER)
    assert after.elfs[member].rpath == entry
    again, steps = apply_fixes_until_stable(after, RULES, settings, Stage.AFTER)
    assert (again, steps) == (after, ())


def test_an_entry_to_a_provider_is_neither_dead_nor_escaping_though_the_wheel_lacks_it() -> None:
    subject = user_of_blas("_core.so", rpath="$ORIGIN/nvidia/cublas/lib")
    assert findings(dead_entry, subject)
    assert not findings(dead_entry, subject, provider=(BLAS,))
    outside = Provider(requirement="far", libraries=("libfar.so",), directory="lib", scheme="data")
    far = wheel({"far.so": elf("libfar.so", rpath="$ORIGIN/../../../../../lib")})
    assert findings(escaping_entry, far, provider=(outside,))


def test_an_entry_that_is_there_in_another_spelling_is_enough() -> None:
    subject = user_of_blas(rpath="${ORIGIN}/../nvidia/./cublas/lib/")
    assert not findings(provider_paths.provider_not_searched, subject, provider=(BLAS,))


def test_a_library_that_the_wheel_ships_itself_is_not_the_providers() -> None:
    subject = wheel({USER: elf("libcublas.so.12"), "demo/libcublas.so.12": elf()})
    for rule in PROVIDER_RULES:
        assert rule is rules.provider_unused or not findings(rule, subject, provider=(BLAS,))


def test_a_program_needs_an_entry_for_each_scheme_and_gets_them_when_asked() -> None:
    program = "demo-1.0.data/scripts/demo"
    subject = user_of_blas(program, interpreter="/lib64/ld-linux-x86-64.so.2")
    (found,) = findings(provider_paths.provider_not_searched, subject, provider=(BLAS,))
    assert found.fix is None
    settings = Settings(provider=(BLAS,), data_libraries=DataLibraries.SEARCH)
    after, _ = apply_fixes_until_stable(subject, RULES, settings, Stage.AFTER)
    entries = after.elfs[program].entries
    assert "$ORIGIN/../lib/python3.11/site-packages/nvidia/cublas/lib" in entries
    assert "$ORIGIN/../lib/python3.11/dist-packages/nvidia/cublas/lib" in entries


def test_a_provider_of_the_data_scheme_is_reached_wherever_that_lands() -> None:
    mkl = Provider(requirement="mkl", libraries=("libmkl_*",), directory="lib", scheme="data")
    subject = wheel({USER: elf("libmkl_rt.so.3")})
    settings = Settings(provider=(mkl,), data_libraries=DataLibraries.SEARCH)
    after, _ = apply_fixes_until_stable(subject, RULES, settings, Stage.AFTER)
    assert "$ORIGIN/../../.." in after.elfs[USER].entries  # <prefix>/lib above site-packages


def test_a_provider_that_calls_itself_pure_is_reached_where_lib_and_lib64_are_two() -> None:
    pure = Provider(
        requirement="p", libraries=("libcublas.so.*",), directory="p/lib", scheme="purelib"
    )
    settings = Settings(provider=(pure,), data_libraries=DataLibraries.SEARCH)
    after, _ = apply_fixes_until_stable(user_of_blas(), RULES, settings, Stage.AFTER)
    assert after.elfs[USER].entries == (
        "$ORIGIN/../p/lib",
        "$ORIGIN/../../../../lib/python3.11/site-packages/p/lib",
    )


def test_what_is_not_covered_is_said() -> None:
    pure = Provider(requirement="p", libraries=("libcublas.so.*",), directory="p", scheme="purelib")
    (found,) = findings(provider_paths.provider_beside, user_of_blas(), provider=(pure,))
    assert "editable" in found.notes[0]
    assert "lib64" in found.notes[1]
    (found,) = findings(provider_paths.provider_beside, user_of_blas(), provider=(BLAS,))
    assert len(found.notes) == 1


# --- WF821, WF822: METADATA asks for it -----------------------------------------------------------


def test_a_provider_that_is_not_required_is_an_error_with_the_line_to_add() -> None:
    subject = wheel({USER: elf("libcublas.so.12")}, metadata=asked("numpy"))
    (found,) = findings(provider_requirements.provider_not_required, subject, provider=(BLAS,))
    assert found.severity is Severity.ERROR
    assert "`Requires-Dist: nvidia-cublas-cu12>=12.4`" in (found.hint or "")


@pytest.mark.parametrize(
    "requirement", ["nvidia-cublas-cu12", "NVIDIA_cublas.cu12 >=12.4 ; sys_platform == 'linux'"]
)
def test_a_provider_that_is_required_in_any_spelling_is_no_finding(requirement: str) -> None:
    subject = wheel({USER: elf("libcublas.so.12")}, metadata=asked(requirement))
    assert not findings(provider_requirements.provider_not_required, subject, provider=(BLAS,))


def test_a_provider_of_an_extra_stays_optional() -> None:
    subject = wheel(
        {USER: elf("libcublas.so.12")}, metadata=asked("nvidia-cublas-cu12; extra == 'gpu'")
    )
    (found,) = findings(provider_requirements.provider_not_required, subject, provider=(BLAS,))
    assert found.severity is Severity.INFO


@pytest.mark.parametrize(
    ("required", "known", "version", "loose"),
    [
        ("p", "p>=1", "", True),
        ("p", "p", "", True),
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
    provider = Provider(requirement=known, libraries=("libp.so",), directory="p", version=version)
    subject = wheel({USER: elf("libp.so")}, metadata=asked(required))
    found = findings(provider_requirements.provider_loosely_required, subject, provider=(provider,))
    assert bool(found) is loose


# --- WF826, WF825 ---------------------------------------------------------------------------------


def test_a_provider_of_which_nothing_is_taken_is_reported_louder_if_an_asterisk_is_missing() -> (
    None
):
    subject = wheel({USER: elf("libcublas.so.12")})
    (found,) = findings(rules.provider_unused, subject, provider=(Provider(source="x"),))
    assert found.severity is Severity.INFO
    bare = Provider(requirement="b", libraries=("libcublas.so",), directory="b")
    (found,) = findings(rules.provider_unused, subject, provider=(bare,))
    assert (found.severity, found.hint) == (Severity.WARNING, "did you mean `libcublas.so*`?")
    assert not findings(rules.provider_unused, subject, provider=(BLAS,))


@pytest.mark.parametrize(
    ("pattern", "better"),
    [
        ("libcublas.so", "libcublas.so*"),
        ("libcublas", "libcublas*"),
        ("libcublas*.so", "libcublas*.so*"),
        ("cublas.so", "libcublas.so*"),
        ("libcublas.so.11", "libcublas.so*"),
        ("libcublass.so.12", "libcublas.so.12"),
        ("libcurand.so.*", None),
        ("libcublas.so.*", None),
        ("*", None),
        ("/opt/*", None),
    ],
)
def test_what_a_pattern_was_probably_meant_to_be(pattern: str, better: str | None) -> None:
    found = suggest_pattern(pattern, ["libcublas.so.12", "libm.so.6"])
    assert found == (None if better is None else (better, ("libcublas.so.12",)))


def test_a_pattern_that_lacks_its_asterisk_beside_one_that_serves_is_reported() -> None:
    subject = wheel({USER: elf("libcublas.so.12", "libcublasLt.so.12")})
    half = Provider(requirement="b", libraries=("libcublas.so.*", "libcublasLt.so"), directory="b")
    (found,) = findings(rules.provider_unused, subject, provider=(half,))
    assert (found.severity, found.hint) == (Severity.WARNING, "did you mean `libcublasLt.so*`?")
    assert "matches no library" in found.message
    grafted = wheel({USER: elf("libcublas.so.12", "libcublasLt-1a2b3c4d.so.12.4")})
    (found,) = findings(rules.provider_unused, grafted, provider=(half,))
    assert "`libcublasLt.so` does not match `libcublasLt.so.12.4`" in found.notes
    whole = Provider(requirement="b", libraries=("libcublas*.so.*", "libno.so"), directory="b")
    assert not findings(rules.provider_unused, subject, provider=(whole,))


def test_an_exclude_for_the_name_without_a_version_is_told_of_the_one_with_it(
    tmp_path: Path,
) -> None:
    bare = shared_object(tmp_path / "sdk" / "libpro.so", soname="libpro.so")
    source = "int pro(void) { return 7; }"
    versioned = shared_object(tmp_path / "sdk" / "libpro.so.3", source, soname="libpro.so.3")
    path = user_wheel(tmp_path / "sdk", bare, versioned, requires="")
    unused = {"prune_needed": PruneNeeded.OFF}
    outcome = repaired(path, tmp_path / "out", exclude=("libpro.so",), **unused)
    (found,) = (each for each in outcome.remaining if each.code == "WF802")
    assert "matches only `libpro.so`, without a version" in found.message
    assert found.hint == "did you mean `libpro.so*`?"
    assert "`libpro.so.3` is needed, and" in found.notes[0]
    for patterns in (("libpro.so*",), ("libpro.so", "libpro.so.3")):
        outcome = repaired(path, tmp_path / "out", exclude=patterns, **unused)
        assert "WF802" not in {each.code for each in outcome.remaining}


@pytest.mark.parametrize(
    "member",
    ["demo.libs/libcuda-1a2b3c4d.so.1", "demo/libX11.so.6", "demo/libnvidia-ml.so.1"],
)
def test_a_driver_inside_the_wheel_is_reported(member: str) -> None:
    (found,) = findings(rules.bundled_driver, wheel({member: elf()}))
    assert (found.member, found.severity) == (member, Severity.WARNING)


def test_other_libraries_may_be_bundled() -> None:
    for name in (
        "libcudart.so.12",
        "libcublas.so.12",
        "libGLU.so.1",
        "libdrm.so.2",
        "libX11alike.so",
        "libxcb.so.1",
    ):
        assert never_bundled(name) is None


# --- Settings -------------------------------------------------------------------------------------


def test_a_table_says_all_and_a_text_what_to_look_up() -> None:
    table = {
        "requirement": "nvidia-cublas-cu12>=12.4",
        "libraries": ["libcublas*.so.*"],
        "directory": "nvidia/cublas/lib",
    }
    below = settings_from({"provider": [table]}, Settings(), "file")
    assert below.provider == (BLAS,)
    above = settings_from({"provider": ["x.whl"]}, below, "flags")
    assert above.provider == (BLAS, Provider(source="x.whl"))


REFUSED: list[tuple[object, str]] = [
    ("x", "list of tables"),
    ([{}], "requirement"),
    ([{"requirement": ">=1"}], "no requirement"),
    ([{"requirement": "x", "library": ["a"]}], "no key"),
    ([{"requirement": "x", "libraries": ["a"]}], "both"),
    ([{"requirement": "x", "libraries": ["a"], "directory": "/x"}], "relative"),
    ([{"requirement": "x", "libraries": ["a"], "directory": "a/../b"}], "relative"),
    ([{"requirement": "x", "libraries": ["a"], "directory": "a", "scheme": "lib"}], "scheme"),
]


@pytest.mark.parametrize(("given", "word"), REFUSED)
def test_a_table_that_makes_no_sense_is_refused(given: object, word: str) -> None:
    with pytest.raises(SettingsError, match=word):
        settings_from({"provider": given}, Settings(), "file")


# --- Looking up -----------------------------------------------------------------------------------


def test_a_wheel_says_which_libraries_it_has_and_where(tmp_path: Path) -> None:
    files = {
        "pro/lib/libpro.so.3": b"",
        "pro/lib/libpro_more.so": b"",
        "pro/libmod.cpython-311-x86_64-linux-gnu.so": b"",
        "pro/_core.so": b"",
        "pro.libs/libgrafted-1a2b3c4d.so.1": b"",
        "a_pro-2.0.data/data/lib/libdata.so.1": b"",
        "a_pro-2.0.data/platlib/plat/libplat.so": b"",
    }
    path = make_wheel(tmp_path, "a_pro", "2.0", "py3-none-any", files, root_is_purelib=True)
    found = {(each.scheme, each.directory): each.libraries for each in in_wheel(path)}
    assert found == {
        ("purelib", "pro/lib"): ("libpro.so.3", "libpro_more.so"),
        ("data", "lib"): ("libdata.so.1",),
        ("platlib", "plat"): ("libplat.so",),
        ("purelib", "pro.libs"): ("libgrafted-1a2b3c4d.so.1",),
    }
    assert {(each.name, each.version) for each in in_wheel(path)} == {("a-pro", "2.0")}


def test_a_distribution_says_it_by_its_record(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    library = shared_object(tmp_path / "libpro.so.3", soname="libpro.so.3")
    path = make_wheel(tmp_path, "pro", "2.0", "py3-none-any", {"pro/lib/libpro.so.3": library})
    site = tmp_path / "lib" / "site-packages"
    with zipfile.ZipFile(path) as archive:
        archive.extractall(site)
    monkeypatch.setattr(sys, "path", [str(site), *sys.path])
    (found,) = in_distribution("pro>=1")
    assert (found.requirement, found.version, found.directory) == ("pro>=1", "2.0", "pro/lib")
    assert Path(found.at_hand) == site / "pro/lib"
    settings = with_providers(Settings(provider=(Provider(source="pro"),)), tmp_path)
    assert settings.library_path == (str(site / "pro/lib"),)


def test_a_directory_needs_no_requirement_and_is_reached_in_site_packages(tmp_path: Path) -> None:
    inside = tmp_path / "lib/python3.11/site-packages/pro/lib"
    shared_object(inside / "libpro.so")
    (found,) = in_directory(inside)
    assert (found.directory, found.requirement) == ("pro/lib", "")
    shared_object(tmp_path / "sdk/libpro.so")
    (found,) = in_directory(tmp_path / "sdk")
    assert (found.directory, found.libraries) == (None, ("libpro.so",))
    subject = wheel({USER: elf("libpro.so")})
    assert not findings(provider_paths.provider_not_searched, subject, provider=(found,))
    assert not findings(provider_requirements.provider_not_required, subject, provider=(found,))


def test_a_well_known_name_needs_nothing_at_hand() -> None:
    given = Provider(source="nvidia-cublas-cu12>=12.4")
    settings = with_providers(Settings(provider=(given,)), Path())
    (found,) = settings.provider
    assert (found.directory, found.requirement) == ("nvidia/cublas/lib", "nvidia-cublas-cu12>=12.4")
    assert found.has("libcublasLt.so.12")
    assert not found.has("libcublas.so.11")


def test_what_is_said_and_what_is_at_hand_go_together(tmp_path: Path) -> None:
    name = "nvidia_cublas_cu12"
    path = make_wheel(
        tmp_path, name, "12.5", "py3-none-any", {"nvidia/cublas/lib/libcublas.so.12": b""}
    )
    settings = with_providers(Settings(provider=(BLAS, Provider(source=path.name))), tmp_path)
    assert {each.requirement for each in settings.provider} == {BLAS.requirement}
    assert {each.version for each in settings.provider} == {"12.5"}
    assert settings.library_path == (str(path),)


@pytest.mark.parametrize(
    "text", ["no-such-provider-anywhere", "missing.whl", "a-1-py3-none-any.whl"]
)
def test_a_provider_that_is_nowhere_is_an_error(text: str, tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match="provider"):
        with_providers(Settings(provider=(Provider(source=text),)), tmp_path)


def test_the_shipped_list_is_in_order() -> None:
    assert {"nvidia-cublas-cu11", "nvidia-cublas-cu12", "nvidia-cublas"} <= presets().keys()
    for name, providers in presets().items():
        for each in providers:
            assert name_of(each.requirement) == name
            assert each.libraries
            assert each.directory
            assert each.source.startswith(f"as of {name} ")
            assert each.scheme in {"platlib", "purelib", "data"}


# --- WF823, WF824: against the loader -------------------------------------------------------------


def provider_wheel(
    folder: Path, source: str, version: str = "2.0", *, library: Path | None = None
) -> Path:
    made = library or shared_object(folder / version / "libpro.so.3", source, soname="libpro.so.3")
    files: dict[str, Path | str] = {"pro/__init__.py": "", f"pro/lib/{made.name}": made}
    tag = f"py3-none-linux_{MACHINE}"
    return make_wheel(folder / f"wheels-{version}", "pro", version, tag, files)


def user_wheel(folder: Path, *libraries: Path, requires: str = "pro>=2") -> Path:
    module = extension(
        folder / f"_core{SUFFIX}", "_core", needed=libraries, calls=["pro"], runpath=str(folder)
    )
    files: dict[str, Path | str] = {"demo/__init__.py": "", f"demo/_core{SUFFIX}": module}
    metadata = f"Requires-Dist: {requires}\n" if requires else ""
    return make_wheel(folder / "dist", tag=TAG, files=files, metadata=metadata)


def checked(path: Path, *providers: str, **settings: Any) -> list[Finding]:
    given = Settings(provider=tuple(Provider(source=each) for each in providers), **settings)
    with open_wheel(path) as archive:
        asked_for = with_providers(given, path.parent, archive.wheel)
        definitions = GivenLibraries(archive=archive, settings=asked_for, environ={})
        context = Context(wheel=archive.wheel, settings=asked_for, definitions=definitions)
        return list(run_rules(context, PROVIDER_RULES))


def imported(site: Path) -> str:
    """Return what `import demo._core` says where nothing but `site` is."""
    code = "import demo._core as m; print(m.value())"
    command = [sys.executable, "-I", "-c", f"import sys; sys.path.insert(0, {str(site)!r}); {code}"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    return (done.stdout or done.stderr).strip().splitlines()[-1]


def unpacked(site: Path, *wheels: Path) -> Path:
    for each in wheels:
        with zipfile.ZipFile(each) as archive:
            archive.extractall(site)
    return site


def repaired(path: Path, to: Path, *providers: str, **settings: Any) -> Outcome:
    given = tuple(Provider(source=each) for each in providers)
    chosen = Settings(wheel_dir=to, provider=given, **settings)
    return repair(path, chosen, {**ENVIRON, "PWD": str(path.parent)})


@pytest.fixture
def pro(tmp_path: Path) -> Path:
    """Build the library that the provider has."""
    return shared_object(
        tmp_path / "sdk" / "libpro.so.3", "int pro(void) { return 7; }", soname="libpro.so.3"
    )


def test_a_symbol_that_the_provider_lacks_is_named_as_the_loader_names_it(
    tmp_path: Path, pro: Path
) -> None:
    good = provider_wheel(tmp_path, "", library=pro)
    bad = provider_wheel(tmp_path, "int pro_new(void) { return 7; }", "2.1")
    path = user_wheel(tmp_path, pro)
    codes = [each.code for each in checked(path, str(good))]
    assert "WF824" not in codes
    (found,) = (each for each in checked(path, str(bad)) if each.code == "WF824")
    assert (found.entry, found.severity) == ("pro", Severity.ERROR)
    assert "pro 2.1" in found.message
    fixed = repaired(path, tmp_path / "out", str(good)).output
    assert fixed is not None
    assert imported(unpacked(tmp_path / "good", fixed, good)) == "7"
    assert "undefined symbol: pro" in imported(unpacked(tmp_path / "bad", fixed, bad))
    refused = repaired(path, tmp_path / "no", str(bad))
    assert refused.status is Status.REJECTED


def test_a_version_that_the_provider_lacks_is_named(tmp_path: Path) -> None:
    def versioned(folder: str, version: str) -> Path:
        path = tmp_path / folder / "libpro.so.3"
        return stub_library_with_versions(path, "libpro.so.3", {version: ["pro"]})

    built, other = versioned("built", "PRO_2"), versioned("other", "PRO_1")
    good = provider_wheel(tmp_path, "", library=built)
    bad = provider_wheel(tmp_path, "", "1.0", library=other)
    path = user_wheel(tmp_path, built, requires="pro")
    assert not [each for each in checked(path, str(good)) if each.code == "WF824"]
    (found,) = (each for each in checked(path, str(bad)) if each.code == "WF824")
    assert "`pro@PRO_2`" in found.message
    fixed = repaired(path, tmp_path / "out", str(good)).output
    assert fixed is not None
    assert "PRO_2" in imported(unpacked(tmp_path / "bad", fixed, bad))


def test_a_library_that_the_provider_at_hand_lacks_is_an_error(tmp_path: Path, pro: Path) -> None:
    other = shared_object(tmp_path / "o" / "libpro.so.4", soname="libpro.so.4")
    at_hand = provider_wheel(tmp_path, "", library=other)
    path = user_wheel(tmp_path, pro)
    told = Provider(requirement="pro", libraries=("libpro.so.*",), directory="pro/lib")
    settings = with_providers(Settings(provider=(told, Provider(source=str(at_hand)))), path.parent)
    with open_wheel(path) as archive:
        definitions = GivenLibraries(archive=archive, settings=settings, environ={})
        context = Context(wheel=archive.wheel, settings=settings, definitions=definitions)
        (found,) = run_rules(context, [provider_contents.provider_lacks_library])
    assert found.entry == "libpro.so.3"


# --- Several versions at hand ---------------------------------------------------------------------


def other_provider(folder: Path, version: str, tag: str, name: str = "libpro.so.3") -> Path:
    """Write a provider's wheel of which only the names count."""
    return make_wheel(folder, "pro", version, tag, {f"pro/lib/{name}": b""})


@pytest.mark.parametrize(
    ("requires", "judged", "refused"),
    [
        ((), ("3.0", "1.0"), ("4.0rc1",)),
        (("pro",), ("3.0", "1.0"), ("4.0rc1",)),
        (("pro<3",), ("2.0", "1.0"), ("3.0", "4.0rc1")),
        (("pro==2.*",), ("2.0",), ("1.0", "3.0", "4.0rc1")),
        (("pro>=4.0rc1",), ("4.0rc1",), ("1.0", "2.0", "3.0")),
        (("pro<2; extra == 'a'", "pro>=3"), ("3.0", "1.0"), ("2.0", "4.0rc1")),
        (("other",), ("3.0", "1.0"), ("4.0rc1",)),
    ],
)
def test_the_highest_and_the_lowest_version_that_metadata_allows_are_judged(
    tmp_path: Path, requires: tuple[str, ...], judged: tuple[str, ...], refused: tuple[str, ...]
) -> None:
    for version in ("1.0", "2.0", "3.0", "4.0rc1"):
        other_provider(tmp_path / "links", version, "py3-none-any")
    make_wheel(tmp_path / "links", "nolibs", "1", "py3-none-any", {"nolibs.py": ""})
    subject = wheel({USER: elf("libpro.so.3")}, metadata=asked(*requires))
    given = Settings(provider=(Provider(source="links"),))
    settings = with_providers(given, tmp_path, subject)
    assert tuple(each.version for each in settings.provider) == judged
    assert {tuple(sorted(each.refused)) for each in settings.provider} == {refused}
    assert [Path(each).name.split("-")[1] for each in settings.library_path] == list(judged)


def test_versions_that_metadata_does_not_allow_are_not_judged_and_it_is_said(
    tmp_path: Path, pro: Path
) -> None:
    bad = str(provider_wheel(tmp_path, "int pro_new(void) { return 7; }", "3.0"))
    good = str(provider_wheel(tmp_path, "", library=pro))
    path = user_wheel(tmp_path, pro, requires="pro>=2,<3")
    found = checked(path, bad, good)
    assert not [each for each in found if each.code in {"WF822", "WF823", "WF824"}]
    (told,) = (each for each in found if each.code == "WF107")
    assert any("not checked: 3.0" in note for note in told.notes)
    alone = checked(path, bad)
    assert "WF824" not in [each.code for each in alone]
    (told,) = (each for each in alone if each.code == "WF822")
    assert "the available version 3.0, which was not checked" in told.message


def test_what_is_said_of_a_provider_in_a_table_holds_for_its_wheels(tmp_path: Path) -> None:
    wheels = [other_provider(tmp_path, version, "py3-none-any") for version in ("1.0", "3.0")]
    told = Provider(requirement="pro>=1", libraries=("libpro.so.*",), directory="pro/lib")
    given = (told, *(Provider(source=str(each)) for each in wheels))
    for requires, version, refused in (("pro", "3.0", ()), ("pro==2.*", "3.0", ("1.0", "3.0"))):
        subject = wheel({USER: elf("libpro.so.3")}, metadata=asked(requires))
        settings = with_providers(Settings(provider=given), tmp_path, subject)
        assert settings.provider[0].libraries == told.libraries
        assert (settings.provider[0].version, settings.provider[0].refused) == (version, refused)
        assert bool(settings.provider[0].at_hand) is not bool(refused)
        assert with_providers(settings, tmp_path, subject).library_path == settings.library_path
        found = findings(
            provider_requirements.provider_loosely_required, subject, provider=settings.provider
        )
        assert any("was not checked" in each.message for each in found) is bool(refused)


@pytest.mark.parametrize(
    ("older", "newer", "blamed"),
    [
        ("int pro(void) { return 7; }", "int pro_new(void) { return 7; }", "2.1"),
        ("int pro_old(void) { return 7; }", "int pro(void) { return 7; }", "2.0"),
    ],
)
def test_a_symbol_that_one_of_the_versions_lacks_is_named_as_the_loader_names_it(
    tmp_path: Path, pro: Path, older: str, newer: str, blamed: str
) -> None:
    wheels = {"2.0": provider_wheel(tmp_path, older), "2.1": provider_wheel(tmp_path, newer, "2.1")}
    path = user_wheel(tmp_path, pro)
    found = checked(path, *map(str, wheels.values()))
    (lacking,) = (each for each in found if each.code == "WF824")
    assert f"pro {blamed}" in lacking.message
    which = {"2.0": "lowest", "2.1": "highest"}[blamed]
    assert any(f"{blamed} is the {which}" in note for note in lacking.notes)
    bound = {"2.0": ">2.0", "2.1": "<2.1"}[blamed]
    assert f"`Requires-Dist: pro{bound}`" in (lacking.hint or "")
    (good,) = (each for version, each in wheels.items() if version != blamed)
    fixed = repaired(path, tmp_path / "out", str(good)).output
    assert fixed is not None
    for version, beside in wheels.items():
        said = imported(unpacked(tmp_path / f"site{version}", fixed, beside))
        assert ("undefined symbol: pro" in said) is (version == blamed)
        assert (said == "7") is (version != blamed)


def test_a_version_that_only_the_highest_defines_is_missed_in_the_lowest(tmp_path: Path) -> None:
    def versioned(folder: str, version: str) -> Path:
        path = tmp_path / folder / "libpro.so.3"
        return stub_library_with_versions(path, "libpro.so.3", {version: ["pro"]})

    built = versioned("built", "PRO_2")
    high = provider_wheel(tmp_path, "", "2.1", library=built)
    low = provider_wheel(tmp_path, "", "2.0", library=versioned("other", "PRO_1"))
    found = checked(user_wheel(tmp_path, built), str(high), str(low))
    (lacking,) = (each for each in found if each.code == "WF824")
    assert "`pro@PRO_2`" in lacking.message
    assert "pro 2.0" in lacking.message


@pytest.mark.parametrize(
    ("place", "words"),
    [
        ("pro/lib/libpro.so.4", "pro 3.0 does not have"),
        ("pro/new/libpro.so.3", "pro 2.0 has in `pro/lib`, not in `pro/new`"),
    ],
)
def test_a_library_that_the_next_release_renames_or_moves_is_named_with_that_release(
    tmp_path: Path, pro: Path, place: str, words: str
) -> None:
    low = provider_wheel(tmp_path, "", library=pro)
    library = shared_object(tmp_path / "n.so", "int pro(void) { return 8; }", soname="libpro.so.3")
    tag = f"py3-none-linux_{MACHINE}"
    high = make_wheel(tmp_path / "high", "pro", "3.0", tag, {place: library})
    path = user_wheel(tmp_path, pro)
    (found,) = (each for each in checked(path, str(low), str(high)) if each.code == "WF823")
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
    subject = wheel({USER: elf("libpro.so.3")}, name="d-1-cp311-cp311-manylinux_2_28_x86_64.whl")
    misfit = Provider(source=str(other_provider(tmp_path / "bad", "1.0", tag)))
    with pytest.raises(SettingsError, match=re.escape(words)):
        with_providers(Settings(provider=(misfit,)), tmp_path, subject)
    for good_tag in ("py3-none-any", "cp39-abi3-manylinux1_x86_64", "cp311-cp311-linux_x86_64"):
        good = Provider(source=str(other_provider(tmp_path / good_tag, "1.0", good_tag)))
        settings = with_providers(Settings(provider=(misfit, good)), tmp_path, subject)
        assert {each.at_hand for each in settings.provider} == {good.source}


# --- Repair ---------------------------------------------------------------------------------------


def test_a_repaired_wheel_loads_from_the_provider_and_grafts_the_rest(
    tmp_path: Path, pro: Path
) -> None:
    """Two wheels: one has the library, the other needs it, also by way of what is grafted."""
    ours = shared_object(
        tmp_path / "sdk" / "libours.so.1",
        "int pro(void); int ours(void) { return pro() + 1; }",
        soname="libours.so.1",
        needed=[pro],
        runpath=str(pro.parent),
    )
    provider = provider_wheel(tmp_path, "", library=pro)
    module = extension(
        tmp_path / f"_core{SUFFIX}",
        "_core",
        needed=[ours],
        calls=["ours"],
        runpath=str(pro.parent),
    )
    path = make_wheel(
        tmp_path / "dist",
        tag=TAG,
        files={"demo/__init__.py": "", f"demo/sub/_core{SUFFIX}": module},
        metadata="Requires-Dist: pro>=2\n",
    )
    outcome = repaired(path, tmp_path / "out", str(provider))
    assert outcome.status is Status.REPAIRED, outcome
    assert outcome.output
    with zipfile.ZipFile(outcome.output) as archive:
        libraries = [n for n in archive.namelist() if n.startswith("demo.libs/")]
    assert len(libraries) == 1
    assert "libours" in libraries[0]
    assert any("libpro.so.3" in each and "pro" in each for each in outcome.messages)
    pro.unlink()
    ours.unlink()
    for site in ("venv", "with blank"):
        folder = unpacked(tmp_path / site / "site-packages", outcome.output, provider)
        code = f"import sys; sys.path.insert(0, {str(folder)!r}); import demo.sub._core as m;"
        code += "print(m.value()); print(*{l.split(maxsplit=5)[-1].strip() for l in "
        code += "open('/proc/self/maps') if 'libpro' in l})"
        done = subprocess.run(
            [sys.executable, "-I", "-c", code], capture_output=True, text=True, check=True
        )
        assert done.stdout.splitlines() == ["8", str(folder / "pro/lib/libpro.so.3")]
    again = repaired(outcome.output, tmp_path / "again", str(provider))
    assert again.status is Status.UNCHANGED


def test_pip_installs_both_into_a_target_and_the_import_says_what_is_missing(
    tmp_path: Path, pro: Path
) -> None:
    provider = provider_wheel(tmp_path, "", library=pro)
    output = repaired(user_wheel(tmp_path, pro), tmp_path / "out", str(provider)).output
    assert output is not None
    pro.unlink()
    target = tmp_path / "target"
    tagged = tmp_path / "links"
    tagged.mkdir()
    (tagged / output.name).write_bytes(output.read_bytes())
    (tagged / provider.name).write_bytes(provider.read_bytes())
    command = [sys.executable, "-m", "pip", "install", "-q", "--no-index", "--target", str(target)]
    subprocess.run([*command, "--find-links", str(tagged), str(output)], check=True)
    assert imported(target) == "7"
    (target / "pro/lib/libpro.so.3").unlink()
    assert "libpro.so.3: cannot open shared object file" in imported(target)


def test_a_wheel_that_does_not_ask_for_its_provider_is_not_published(
    tmp_path: Path, pro: Path
) -> None:
    provider = provider_wheel(tmp_path, "", library=pro)
    outcome = repaired(user_wheel(tmp_path, pro, requires=""), tmp_path / "out", str(provider))
    assert outcome.status is Status.REJECTED
    (found,) = (each for each in outcome.remaining if each.severity is Severity.ERROR)
    assert found.code == "WF821"
    assert "`Requires-Dist: pro>=2.0`" in (found.hint or "")


def test_a_repair_that_verifies_installs_the_providers_wheel_beside(
    tmp_path: Path, pro: Path
) -> None:
    path, provider = user_wheel(tmp_path, pro), provider_wheel(tmp_path, "", library=pro)
    outcome = repaired(path, tmp_path / "out", str(provider), verify=True)
    assert outcome.status is Status.REPAIRED, outcome.remaining
    told = Provider(requirement="pro>=2", libraries=("libpro.so.*",), directory="pro/lib")
    chosen = Settings(wheel_dir=tmp_path / "no", provider=(told,), verify=True)
    alone = repair(path, chosen, ENVIRON)
    assert alone.status is Status.REJECTED
    assert any("libpro.so.3: cannot open" in each.message for each in alone.remaining)


def test_verify_installs_wheels_beside_from_wherever_it_is_run(
    tmp_path: Path, pro: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    provider = provider_wheel(tmp_path, "", library=pro)
    output = repaired(user_wheel(tmp_path, pro), tmp_path / "out", str(provider)).output
    assert output is not None
    pro.unlink()
    monkeypatch.chdir(tmp_path)
    beside = provider.relative_to(tmp_path)
    command = ["verify", "-q", str(output.relative_to(tmp_path))]
    assert run(command) == 1
    assert run([*command, "--with", str(beside)]) == 0
    assert run([*command, "--with", str(beside), "--scheme", "lib64,debian-system"]) == 0


def test_a_large_library_that_a_well_known_wheel_has_is_pointed_out(tmp_path: Path) -> None:
    cublas = shared_object(
        tmp_path / "sdk" / "libcublas.so.12",
        "const char large[11 << 20] = {1}; int pro(void) { return large[0]; }",
        soname="libcublas.so.12",
    )
    module = extension(
        tmp_path / f"_core{SUFFIX}",
        "_core",
        needed=[cublas],
        calls=["pro"],
        runpath=str(cublas.parent),
    )
    files: dict[str, Path | str] = {"demo/__init__.py": "", f"demo/_core{SUFFIX}": module}
    path = make_wheel(tmp_path / "found", tag=TAG, files=files)
    (said,) = (e for e in repaired(path, tmp_path / "out").messages if "--provider" in e)
    assert "`libcublas.so.12` is grafted, 12 MB: `--provider nvidia-cublas-cu12`" in said
    cublas.unlink()
    lost = repaired(path, tmp_path / "lost")
    assert lost.error is not None
    assert "use --provider nvidia-cublas-cu12" in (lost.error.hint or "")


def test_the_driver_is_left_to_the_machine_unless_the_rule_is_ignored(tmp_path: Path) -> None:
    driver = shared_object(
        tmp_path / "sdk" / "libcuda.so.1", "int cuInit(void) { return 0; }", soname="libcuda.so.1"
    )
    module = extension(
        tmp_path / f"_core{SUFFIX}",
        "_core",
        needed=[driver],
        calls=["cuInit"],
        runpath=str(driver.parent),
    )
    files: dict[str, Path | str] = {"demo/__init__.py": "", f"demo/_core{SUFFIX}": module}
    path = make_wheel(tmp_path / "dist", tag=TAG, files=files)
    outcome = repaired(path, tmp_path / "out")
    assert outcome.status is Status.REPAIRED, outcome
    assert any("libcuda.so.1" in each and "driver" in each for each in outcome.messages)
    assert outcome.after is not None
    assert not [m.name for m in outcome.after.members if "libcuda" in m.name]
    forced = repaired(path, tmp_path / "forced", ignore={"WF825": ""})
    assert forced.after is not None
    assert [m.name for m in forced.after.members if "libcuda" in m.name]
