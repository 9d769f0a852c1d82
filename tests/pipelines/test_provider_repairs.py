"""Repairs of wheels that use libraries of providers."""

import subprocess
import sys
import zipfile
from dataclasses import replace
from pathlib import Path

import pytest

from tests.support.build import extension, make_wheel, shared_object
from tests.support.environment import ENVIRON
from tests.support.installers import pip
from tests.support.providers import (
    SUFFIX,
    TAG,
    dependent_wheel,
    imported,
    pro_library,
    provider_wheel,
    repaired,
    unpacked,
)
from tests.support.repairing import repair
from wheelfix.cli.app import run
from wheelfix.host.verify_values import AttemptKind, Check, CheckStatus, Verified
from wheelfix.pipelines.repair_proof import verify_findings
from wheelfix.pipelines.repair_result import Absence, Status
from wheelfix.rules.findings import Severity
from wheelfix.settings import ProviderSetting, PruneNeeded, Settings


def test_an_exclude_without_a_version_gets_a_suggestion_with_one(
    tmp_path: Path,
) -> None:
    bare = shared_object(tmp_path / "sdk" / "libpro.so", soname="libpro.so")
    source = "int pro(void) { return 7; }"
    versioned = shared_object(tmp_path / "sdk" / "libpro.so.3", source, soname="libpro.so.3")
    path = dependent_wheel(tmp_path / "sdk", bare, versioned, requires="")
    unused = {"prune_needed": PruneNeeded.OFF}
    outcome = repaired(path, tmp_path / "out", exclude=("libpro.so",), **unused)
    (found,) = (finding for finding in outcome.remaining if finding.code == "WF802")
    assert "matches only `libpro.so`, without a version" in found.message
    assert found.hint == "did you mean `libpro.so*`?"
    assert "`libpro.so.3` is needed, and" in found.notes[0]
    for patterns in (("libpro.so*",), ("libpro.so", "libpro.so.3")):
        outcome = repaired(path, tmp_path / "out", exclude=patterns, **unused)
        assert "WF802" not in {finding.code for finding in outcome.remaining}


def test_a_repaired_wheel_loads_from_the_provider_and_grafts_the_rest(tmp_path: Path) -> None:
    """Two wheels: one has the library, the other needs it, also by way of what is grafted."""
    pro = pro_library(tmp_path)
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
    (absent,) = outcome.absent
    assert (absent.library, absent.absence) == ("libpro.so.3", Absence.PROVIDED)
    assert absent.provider.startswith("pro")
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


def test_pip_installs_both_into_a_target_and_the_import_names_a_missing_library(
    tmp_path: Path,
) -> None:
    pro = pro_library(tmp_path)
    provider = provider_wheel(tmp_path, "", library=pro)
    output = repaired(dependent_wheel(tmp_path, pro), tmp_path / "out", str(provider)).output
    assert output is not None
    pro.unlink()
    target = tmp_path / "target"
    tagged = tmp_path / "links"
    tagged.mkdir()
    (tagged / output.name).write_bytes(output.read_bytes())
    (tagged / provider.name).write_bytes(provider.read_bytes())
    options = ("--no-index", "--find-links", tagged, "--target", target)
    pip("install", "-q", *options, output).check_returncode()
    assert imported(target) == "7"
    (target / "pro/lib/libpro.so.3").unlink()
    assert "libpro.so.3: cannot open shared object file" in imported(target)


def test_a_wheel_that_does_not_require_its_provider_is_not_published(tmp_path: Path) -> None:
    pro = pro_library(tmp_path)
    provider = provider_wheel(tmp_path, "", library=pro)
    outcome = repaired(dependent_wheel(tmp_path, pro, requires=""), tmp_path / "out", str(provider))
    assert outcome.status is Status.REJECTED
    (found,) = (finding for finding in outcome.remaining if finding.severity is Severity.ERROR)
    assert found.code == "WF821"
    assert "`Requires-Dist: pro>=2.0`" in (found.hint or "")


@pytest.mark.large
def test_a_repair_that_verifies_installs_the_providers_wheel_beside(tmp_path: Path) -> None:
    pro = pro_library(tmp_path)
    path, provider = dependent_wheel(tmp_path, pro), provider_wheel(tmp_path, "", library=pro)
    outcome = repaired(path, tmp_path / "out", str(provider), verify=True)
    assert outcome.status is Status.REPAIRED, outcome.remaining
    given = ProviderSetting(requirement="pro>=2", libraries=("libpro.so.*",), directory="pro/lib")
    chosen = Settings(wheel_dir=tmp_path / "no", provider=(given,), verify=True)
    alone = repair(path, chosen, ENVIRON)
    assert alone.status is Status.REJECTED
    (lacking,) = (f for f in alone.remaining if "load: it needs pro" in f.message)
    assert "put pro beside it with `--with`" in (lacking.hint or "")
    assert repair(path, replace(chosen, verify=False), ENVIRON).status is Status.REPAIRED


def test_only_what_lacks_something_is_told_to_put_it_beside() -> None:
    crashed = Check(kind=AttemptKind.IMPORT, member="a.so", what="a", status=CheckStatus.CRASHED)
    result = Verified(
        wheel="", scheme="venv", python="python3.11", interpreter="", checks=(crashed,)
    )
    [found] = verify_findings([result])
    assert "--with" not in (found.hint or "")


def test_what_a_verify_has_not_tried_is_a_warning_also_beside_what_loads() -> None:
    """An `ok` of some modules says nothing of the others."""
    kind = AttemptKind.IMPORT
    loads = Check(kind=kind, member="a.so", what="a")
    untried = Check(
        kind=kind, member="b.so", what="b", status=CheckStatus.MACHINE, message="libcuda.so.1"
    )
    result = Verified(
        wheel="", scheme="venv", python="python3.11", interpreter="", checks=(loads, untried)
    )
    [found] = verify_findings([result])
    assert (found.severity, found.message) == (
        Severity.WARNING,
        "1 file not tried: `libcuda.so.1`",
    )
    assert not verify_findings([replace(result, checks=(loads,))])


@pytest.mark.large
def test_verify_installs_wheels_beside_from_any_current_directory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pro = pro_library(tmp_path)
    provider = provider_wheel(tmp_path, "", library=pro)
    output = repaired(dependent_wheel(tmp_path, pro), tmp_path / "out", str(provider)).output
    assert output is not None
    pro.unlink()
    monkeypatch.chdir(tmp_path)
    beside = provider.relative_to(tmp_path)
    command = ["verify", "-q", str(output.relative_to(tmp_path))]
    assert run(command) == 1
    assert run([*command, "--with", str(beside)]) == 0
    assert run([*command, "--with", str(beside), "--scheme", "lib64,debian-system"]) == 0


def test_a_large_library_that_a_well_known_wheel_has_is_pointed_out(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
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
    assert run(["repair", "-w", str(tmp_path / "out"), str(path)]) == 0
    said = " ".join(capsys.readouterr().err.split())
    way = (
        "to leave `libcublas.so.12` to the other wheel that has it: `--provider nvidia-cublas-cu12"
    )
    assert f"{way} --add-requires`" in said
    cublas.unlink()
    lost = repaired(path, tmp_path / "lost")
    assert lost.error is not None
    repair = "`wheelfix repair --provider nvidia-cublas-cu12 --add-requires"
    assert repair in (lost.error.hint or "")


def test_a_driver_library_is_not_grafted_unless_that_is_asked_for(tmp_path: Path) -> None:
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
    (absent,) = outcome.absent
    assert (absent.library, absent.absence) == ("libcuda.so.1", Absence.MACHINE)
    assert "driver" in absent.provider
    assert outcome.after is not None
    assert not [m.name for m in outcome.after.members if "libcuda" in m.name]
    ignoring = repaired(path, tmp_path / "ignoring", ignore={"WF825": ""})
    assert ignoring.after == outcome.after
    forced = repaired(path, tmp_path / "forced", graft_drivers=True)
    assert forced.after is not None
    assert [m.name for m in forced.after.members if "libcuda" in m.name]


def test_a_provider_may_have_its_library_in_its_root(tmp_path: Path) -> None:
    pro = pro_library(tmp_path)
    provider = make_wheel(tmp_path, "pro", "2.0", TAG, {"libpro.so.3": pro, "pro.py": ""})
    path = dependent_wheel(tmp_path / "sdk", pro)
    fixed = repaired(path, tmp_path / "out", str(provider)).output
    assert fixed is not None
    pro.unlink()
    assert imported(unpacked(tmp_path / "site", fixed, provider)) == "7"


def test_the_provider_is_found_whatever_rules_are_selected(tmp_path: Path) -> None:
    pro = pro_library(tmp_path)
    provider = provider_wheel(tmp_path, "", library=pro)
    path = dependent_wheel(tmp_path, pro)
    outcome = repaired(path, tmp_path / "out", str(provider), select=("WF111",))
    assert outcome.output
    site = unpacked(tmp_path / "site", provider, outcome.output)
    assert imported(site) == "7"


def test_an_unfixable_search_path_to_the_provider_is_left_out(tmp_path: Path) -> None:
    pro = pro_library(tmp_path)
    path = dependent_wheel(tmp_path, pro)
    provider = provider_wheel(tmp_path, "", library=pro)
    outcome = repaired(path, tmp_path / "out", str(provider), unfixable={"*": ("WF106",)})
    assert "WF106" not in {step.code for step in outcome.edits}
