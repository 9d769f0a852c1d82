"""cibuildwheel's own code with the README's configuration, as far as it goes without containers."""

import json
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from packaging.requirements import Requirement

from tests.support.build import extension, make_wheel
from tests.support.documents import blocks

options = pytest.importorskip("cibuildwheel.options", reason="cibuildwheel is not installed")
audit = pytest.importorskip("cibuildwheel.audit")
errors = pytest.importorskip("cibuildwheel.errors")

ROOT = Path(__file__).parents[2]
ABI3 = "cp38-abi3-manylinux_2_17_x86_64"
CP311 = "cp311-cp311-manylinux_2_17_x86_64"
SETTINGS = '\n[tool.wheelfix.severity]\nempty-entry = "note"\n'


def configuration() -> str:
    """Return the configuration of the README, which the page on cibuildwheel repeats.

    The page has it without the audit, too, for cibuildwheel 2 and 3.
    """
    [text, older, repeated] = [text for _, text in blocks("toml") if "cibuildwheel.linux" in text]
    assert repeated == text
    assert older == "".join(line for line in text.splitlines(keepends=True) if "audit" not in line)
    return text


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A project with the README's configuration; cibuildwheel stands in its folder."""
    folder = tmp_path / "project"
    folder.mkdir()
    (folder / "pyproject.toml").write_text(configuration(), encoding="utf-8")
    monkeypatch.chdir(folder)
    monkeypatch.delenv("GITHUB_STEP_SUMMARY", raising=False)
    return folder


def build_options(identifier: str = "cp311-manylinux_x86_64", platform: str = "linux") -> Any:
    """Read the configuration with cibuildwheel's parser."""
    arguments = options.CommandLineArguments.defaults()
    # Without uv it fetches virtualenv from where it is released, in place of the index.
    environment = {"CIBW_BUILD_FRONTEND": "build[uv]"}
    read = options.Options(platform=platform, command_line_arguments=arguments, env=environment)
    return read.build_options(identifier=identifier)


def test_the_parser_accepts_the_readme(project: Path) -> None:
    for identifier in ("cp311-manylinux_x86_64", "cp314t-musllinux_aarch64"):
        read = build_options(identifier)
        assert read.repair_command == "wheelfix repair -w {dest_dir} {wheel}"
        assert read.before_all == "pipx install wheelfix"
        assert read.audit_command == [
            "abi3audit --strict --report {abi3_wheel}",
            "wheelfix check --index pypi {wheel}",
        ]
        abi3audit, wheelfix = map(Requirement, read.audit_requires)
        assert (abi3audit.name, wheelfix.name) == ("abi3audit", "wheelfix")
        # cibuildwheel pins it only if it is the only requirement.
        assert [pin.operator for pin in abi3audit.specifier] == ["=="]
    assert project.is_dir()


def test_the_parser_accepts_the_page_on_android(project: Path) -> None:
    """The command differs from cibuildwheel's own for Android by the program alone."""
    [text] = [text for _, text in blocks("toml") if "cibuildwheel.android" in text]
    identifier = "cp313-android_arm64_v8a"
    own = build_options(identifier, "android").repair_command
    (project / "pyproject.toml").write_text(text, encoding="utf-8")
    ours = build_options(identifier, "android").repair_command
    assert ours == own.replace("auditwheel repair", "wheelfix repair")
    assert "{ldpaths}" in ours


def test_one_line_with_both_checks_means_the_same(project: Path) -> None:
    line = "abi3audit {abi3_wheel} && wheelfix check {wheel}"
    text = f'[tool.cibuildwheel.linux]\naudit-command = "{line}"'
    (project / "pyproject.toml").write_text(text, encoding="utf-8")
    assert build_options().audit_command == line.split(" && ")


def test_every_wheel_is_audited_and_not_only_abi3_ones(project: Path) -> None:
    commands = build_options().audit_command
    assert audit.needs_audit(commands, f"demo-1.0-{CP311}.whl")
    assert not audit.needs_audit(commands[:1], f"demo-1.0-{CP311}.whl")
    assert project.is_dir()


@pytest.fixture(scope="module")
def tools(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where cibuildwheel keeps the environment of its audits."""
    return tmp_path_factory.mktemp("cibuildwheel")


@pytest.fixture
def built(tmp_path: Path) -> Path:
    """Where the wheel comes out of the container: not in the project."""
    return tmp_path / "audit"


def run_audit(tools: Path, wheel: Path) -> None:
    """Run the audit step; wheelfix is installed from here, for it may not be published."""
    read = replace(build_options(), audit_requires=[build_options().audit_requires[0], str(ROOT)])
    audit.run_audit(tmp_dir=tools, build_options=read, wheel=wheel)


@pytest.mark.large
def test_the_audit_step_runs_both_checks(
    project: Path, tools: Path, built: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    good = extension(built / "good.abi3.so", "good")
    run_audit(tools, make_wheel(built, "one", tag=ABI3, files={"good.abi3.so": good}))
    said = capfd.readouterr().out
    assert "Running audit command: abi3audit" in said
    assert "Running audit command: wheelfix check" in said

    bad = extension(built / "bad.cpython-311-x86_64-linux-gnu.so", "bad", runpath=":$ORIGIN")
    wheel = make_wheel(built, "two", tag=CP311, files={bad.name: bad})
    with pytest.raises(errors.AuditCommandFailedError, match="wheelfix check"):
        run_audit(tools, wheel)
    said = capfd.readouterr().out
    assert "error[WF112] empty-entry" in said
    assert "Running audit command: abi3audit" not in said, "not an abi3 wheel"

    with (project / "pyproject.toml").open("a", encoding="utf-8") as file:
        file.write(SETTINGS)
    run_audit(tools, wheel)
    said = capfd.readouterr().out
    assert "empty-entry" not in said, "[tool.wheelfix] of the project holds: it is a note"
    assert ": -v" in said


def test_the_settings_of_the_project_hold_in_the_container_too(
    project: Path, tmp_path: Path
) -> None:
    """Run the repair command as cibuildwheel does: by sh, in its copy of the project."""
    with (project / "pyproject.toml").open("a", encoding="utf-8") as file:
        file.write('\n[tool.wheelfix]\nwheel-dir = "elsewhere"\nselect = ["WF112"]\n')
    extension_file = extension(tmp_path / "bad.cpython-311-x86_64-linux-gnu.so", "bad")
    wheel = make_wheel(tmp_path, tag=CP311, files={extension_file.name: extension_file})
    template = build_options().repair_command
    command = template.format(dest_dir=tmp_path / "out", wheel=wheel)
    command = command.replace("wheelfix", f"{sys.executable} -m wheelfix", 1)
    done = subprocess.run(
        ["sh", "-c", command], cwd=project, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    assert [path.parent.name for path in tmp_path.glob("*/*.whl")] == ["out"]
    shown = subprocess.run(
        [sys.executable, "-m", "wheelfix", "settings"],
        cwd=project,
        capture_output=True,
        text=True,
        check=True,
    )
    assert "pyproject.toml" in shown.stdout
    assert json.dumps(["WF112"]) in shown.stdout
