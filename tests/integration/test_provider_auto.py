"""`--provider auto`: libraries in the site-packages of the build belong to their distributions."""

import subprocess
import sys
import venv
from pathlib import Path

import pytest

from tests.support.build import extension, make_wheel
from tests.support.environment import ENVIRON
from tests.support.installers import install
from tests.support.providers import MACHINE, SUFFIX, TAG, pro_library
from tests.support.repairing import repair
from wheelfix.cli.app import run
from wheelfix.pipelines.repair_result import Outcome, Status
from wheelfix.settings import AUTO, ProviderSetting, Settings


def environment(folder: Path, *wheels: Path) -> Path:
    """Make an environment with these wheels; return its site-packages."""
    venv.create(folder, with_pip=False, symlinks=True)
    site = next(folder.glob("lib/python3*/site-packages"))
    for wheel in wheels:
        done = install(wheel, site)
        assert done.returncode == 0, done.stderr
    return site


@pytest.fixture
def pro(tmp_path: Path) -> Path:
    """Write the wheel of the provider."""
    library = pro_library(tmp_path)
    files: dict[str, Path | str] = {"pro/__init__.py": "", f"pro/lib/{library.name}": library}
    path = make_wheel(tmp_path / "providers", "pro", "2.0", f"py3-none-linux_{MACHINE}", files)
    library.unlink()
    return path


@pytest.fixture
def site(tmp_path: Path, pro: Path) -> Path:
    """Make the environment of the build."""
    return environment(tmp_path / "build", pro)


def linked(folder: Path, site: Path, requires: str = "pro>=2", runpath: str | None = None) -> Path:
    """Link a module with the library in `site`, by default with a search path to it."""
    library = site / "pro/lib/libpro.so.3"
    module = extension(
        folder / f"_core{SUFFIX}",
        "_core",
        needed=[library],
        calls=["pro"],
        runpath=str(library.parent) if runpath is None else runpath or None,
    )
    files: dict[str, Path | str] = {"demo/__init__.py": "", f"demo/_core{SUFFIX}": module}
    metadata = f"Requires-Dist: {requires}\n" if requires else ""
    return make_wheel(folder / "dist", tag=TAG, files=files, metadata=metadata)


def repaired(path: Path, to: Path, *providers: str, **environ: str) -> Outcome:
    settings = Settings(
        wheel_dir=to,
        provider=tuple(ProviderSetting(source=source) for source in providers),
    )
    return repair(path, settings, {**ENVIRON, **environ}, folder=path.parent)


def value(site: Path) -> str:
    done = subprocess.run(
        [site.parents[2] / "bin/python", "-I", "-c", "import demo._core as m; print(m.value())"],
        capture_output=True,
        text=True,
        check=False,
    )
    return (done.stdout or done.stderr).strip().splitlines()[-1]


@pytest.mark.parametrize("how", ["search path", "LD_LIBRARY_PATH"])
def test_the_library_belongs_to_the_distribution_in_the_environment_of_the_build(
    tmp_path: Path, pro: Path, site: Path, how: str
) -> None:
    path = linked(tmp_path, site, runpath=None if how == "search path" else "")
    variables = {} if how == "search path" else {"LD_LIBRARY_PATH": str(site / "pro/lib")}
    outcome = repaired(path, tmp_path / "out", AUTO, **variables)
    assert outcome.status is Status.REPAIRED, outcome
    assert outcome.output
    assert outcome.after
    assert not outcome.grafted
    assert outcome.after.elfs[f"demo/_core{SUFFIX}"].entries == ("$ORIGIN/../pro/lib",)
    (absent,) = outcome.absent
    assert (absent.library, absent.provider) == ("libpro.so.3", "pro>=2")
    (tmp_path / "build").rename(tmp_path / "gone")
    assert value(environment(tmp_path / "user", pro, outcome.output)) == "7"


def test_an_environment_that_is_gone_is_recognized_by_the_folder(
    tmp_path: Path, site: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As pip builds: it removes the isolated environment, and the search path stays."""
    gone = tmp_path / "pip-build-env/overlay/lib/python3.11/site-packages/pro/lib"
    path = linked(tmp_path, site, runpath=str(gone))
    monkeypatch.setattr(sys, "path", [str(site), *sys.path])
    outcome = repaired(path, tmp_path / "out", AUTO)
    assert outcome.output, outcome
    assert not outcome.grafted
    again = repaired(outcome.output, tmp_path / "again", AUTO)
    assert again.status is Status.UNCHANGED, again
    monkeypatch.chdir(tmp_path)
    assert run(["check", "-q", "--provider", AUTO, str(outcome.output)]) == 0
    assert run(["check", "-q", str(outcome.output)]) == 0
    assert run(["check", "-q", "--fail-on-unknown", str(outcome.output)]) == 1


@pytest.mark.parametrize("requires", ["", "other"])
def test_what_metadata_does_not_require_is_grafted(
    tmp_path: Path, site: Path, requires: str
) -> None:
    """As numpy's BLAS: the wheel scipy-openblas64 is there for the build only."""
    outcome = repaired(linked(tmp_path, site, requires), tmp_path / "out", AUTO)
    assert outcome.output, outcome
    (library,) = outcome.grafted
    assert (library.original, library.package_label) == ("libpro.so.3", "pro 2.0")
    assert not any("--provider" in message for message in outcome.messages)


def test_without_it_a_message_names_the_required_distribution(tmp_path: Path, site: Path) -> None:
    outcome = repaired(linked(tmp_path, site), tmp_path / "out")
    assert outcome.output, outcome
    (message,) = (text for text in outcome.messages if "--provider" in text)
    assert message == (
        "`libpro.so.3` is grafted, though METADATA requires pro, which has it: `--provider pro` "
        "would leave it there"
    )


def test_a_version_that_metadata_does_not_allow_is_reported(tmp_path: Path, site: Path) -> None:
    outcome = repaired(linked(tmp_path, site, "pro<2"), tmp_path / "out", AUTO)
    assert not outcome.grafted
    noted = [f for f in outcome.remaining if f.code == "WF107"]
    assert any("not allowed by METADATA" in note for found in noted for note in found.notes)


def test_a_library_of_the_system_belongs_to_no_distribution(tmp_path: Path, site: Path) -> None:
    vendor = tmp_path / "vendor"
    vendor.mkdir()
    (vendor / "libpro.so.3").write_bytes((site / "pro/lib/libpro.so.3").read_bytes())
    path = linked(tmp_path, site, runpath=str(vendor))
    outcome = repaired(path, tmp_path / "out", AUTO)
    assert [library.original for library in outcome.grafted] == ["libpro.so.3"], outcome
