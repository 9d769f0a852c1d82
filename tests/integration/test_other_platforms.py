"""Checks of wheels for other machines and for musl, without any tools."""

import json
import subprocess
from pathlib import Path
from typing import Any

import pytest

from tests.support.fork_server import warm_program
from tests.support.installers import pip
from wheelfix.cli.app import run

pytestmark = pytest.mark.network

WHEELS = {
    "manylinux2014_x86_64": "markupsafe==3.0.4",
    "manylinux2014_aarch64": "markupsafe==3.0.4",
    "manylinux2014_ppc64le": "markupsafe==3.0.4",
    "manylinux2014_s390x": "cffi==2.1.1",
    "manylinux_2_31_armv7l": "markupsafe==3.0.4",
    "manylinux_2_17_i686": "markupsafe==3.0.2",
    "manylinux_2_39_riscv64": "markupsafe==3.0.4",
    "musllinux_1_2_x86_64": "markupsafe==3.0.4",
    "musllinux_1_2_aarch64": "markupsafe==3.0.4",
}
some_platforms = pytest.mark.each_run("manylinux2014_s390x", "musllinux_1_2_x86_64")


@pytest.fixture(scope="module", params=WHEELS)
def wheel(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    platform = str(request.param)
    folder = tmp_path_factory.mktemp("foreign")
    options = ["--quiet", "--no-deps", "--only-binary=:all:", "--python-version", "3.11"]
    done = pip("download", *options, "--platform", platform, "--dest", folder, WHEELS[platform])
    assert done.returncode == 0, done.stderr
    [found] = folder.glob("*.whl")
    return found


def checked(wheel: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Check a wheel with an empty environment: no PATH, no HOME."""
    command = [warm_program(), "check", *arguments, str(wheel)]
    return subprocess.run(
        command, env={"PATH": ""}, cwd=wheel.parent, capture_output=True, text=True, check=False
    )


@some_platforms
def test_a_good_wheel_of_each_platform_passes(wheel: Path) -> None:
    done = checked(wheel, "--output-format", "json")
    assert done.stderr == ""
    assert done.returncode == 0
    report: dict[str, Any] = json.loads(done.stdout)
    [judged] = report["wheels"]
    assert judged["verdict"]["tag"] is not None
    assert not {each["code"] for each in judged["findings"] if each["severity"] == "error"}


@some_platforms
def test_defects_of_each_platforms_wheel_are_found(
    wheel: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    contract = wheel.parent / "contract.toml"
    contract.write_text('[[symbols]]\nobjects = ["libnone.so"]\nexports = []\n')
    assert run(["check", "--max-size", "1kB", "--config", str(contract), str(wheel)]) == 1
    text = capsys.readouterr().out
    assert "wheel-over-budget" in text
    assert "libnone.so" in text
