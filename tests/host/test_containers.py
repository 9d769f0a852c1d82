"""`verify --image`: the programs of a verification, run by a stand-in for docker and podman."""

import os
import shlex
import shutil
from pathlib import Path

import pytest

from tests.support.build import ONE_FUNCTION, extension, make_wheel, shared_object
from tests.support.engines import calls, stand_in
from tests.support.providers import SUFFIX, TAG
from tests.support.tools import needs_pip
from tests.support.trees import BASE_PYTHON
from wheelfix.cli.app import run
from wheelfix.errors import SettingsError
from wheelfix.host import fresh_environments
from wheelfix.host.containers import find_image
from wheelfix.host.pythons import Interpreter

IMAGE = "python:3-slim"


@pytest.fixture
def wheel(tmp_path: Path) -> Path:
    """A wheel in a folder with an odd name, with one module that loads and one library that does
    not."""
    gone = shared_object(tmp_path / "gone" / "libgone.so", ONE_FUNCTION, soname="libgone.so")
    files: dict[str, str | Path] = {
        "demo/__init__.py": "",
        f"demo/good{SUFFIX}": extension(tmp_path / f"good{SUFFIX}", "good"),
        "demo/libbad.so": shared_object(tmp_path / "libbad.so", needed=[gone]),
    }
    return make_wheel(tmp_path / "a, b: c", tag=TAG, files=files)


def test_each_object_is_reported_as_on_this_machine(
    wheel: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    needs_pip(BASE_PYTHON)
    log = stand_in(tmp_path, monkeypatch, "podman")
    monkeypatch.setenv("SECRET", "1")
    assert run(["verify", "--image", IMAGE, str(wheel)]) == 1
    shown = capsys.readouterr().out
    assert f" in {IMAGE})" in shown
    assert "loaded 1 of 2 objects: 1 missing library" in shown
    assert "imported 1 of 1 module\n" in shown
    assert "libgone.so: cannot open shared object file" in shown
    started = [call for call in calls(log) if call[0] == "run"]
    assert all("--network=none" in call for call in started)
    assert not any("SECRET" in word for call in started for word in call)
    mounted = {word for call in started for word in call if str(wheel) in word and "mount" in word}
    assert mounted == {f'--mount=type=bind,"source={wheel}","target={wheel}",readonly'}


def test_an_image_without_pip_is_an_error_with_the_way_out(
    wheel: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    def pip_for(_: Interpreter) -> None: ...

    stand_in(tmp_path, monkeypatch, "docker")
    monkeypatch.setattr(fresh_environments, "pip_for", pip_for)
    assert run(["verify", "--image", IMAGE, str(wheel)]) == 2
    said = capsys.readouterr().err
    assert "no installer was found" in said
    assert "hint: use an image whose Python has pip" in said


def test_the_check_in_place_of_a_container_is_for_the_wheels_c_library(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("PATH", "")
    for tag, target in [
        ("musllinux_1_2_x86_64", "alpine:3.20"),
        ("linux_x86_64", "debian:12-slim"),
        ("musllinux_1_2_x86_64.manylinux_2_17_x86_64", "debian:12-slim"),
    ]:
        with pytest.raises(SettingsError) as raised:
            find_image("some", [Path(f"-d/demo-1.0-py3-none-{tag}.whl")], has_network=False)
        assert f"--target {target} ./-d/demo" in (raised.value.hint or "")


@pytest.mark.each_run("lib64")
@pytest.mark.parametrize("scheme", ["prefix", "user", "target", "lib64"])
def test_every_scheme_is_made_in_the_image(
    scheme: str, wheel: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    stand_in(tmp_path, monkeypatch, "docker")
    assert run(["verify", "--image", IMAGE, "--scheme", scheme, str(wheel)]) == 1


@pytest.mark.large
def test_other_wheels_and_an_environment_are_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    base = make_wheel(tmp_path / "base", name="base", tag=TAG, files={"base/__init__.py": ""})
    site = tmp_path / "site"
    (site / "other-1.dist-info").mkdir(parents=True)
    (site / "other.py").write_text("")
    (site / "other-1.dist-info" / "METADATA").write_text("Name: other\nVersion: 1\n")
    (site / "other-1.dist-info" / "RECORD").write_text("other.py,,\n")
    demo = make_wheel(tmp_path, tag=TAG, files={"demo/__init__.py": "import base, other"})
    log = stand_in(tmp_path, monkeypatch, "docker")
    given = ["--with", str(base), "--site", str(site)]
    assert run(["verify", "--strict", "--image", IMAGE, *given, str(demo)]) == 0
    assert any(f'"source={site}"' in word for call in calls(log) for word in call)


@pytest.mark.large
def test_files_belong_to_the_user(
    wheel: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    log = stand_in(tmp_path, monkeypatch, "docker", info="print('seccomp')")
    run(["verify", "--image", IMAGE, str(wheel)])
    started = [call for call in calls(log) if call[0] == "run"]
    assert all(f"--user={os.getuid()}:{os.getgid()}" in call for call in started)


def test_a_python_that_the_image_lacks(
    wheel: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    stand_in(tmp_path, monkeypatch, "docker")
    assert run(["verify", "--image", IMAGE, "--python", "python9", str(wheel)]) == 2
    said = capsys.readouterr().err
    assert "executable file not found: python9" in said
    assert "hint: --python names a Python that the image has" in said


@pytest.mark.large
def test_a_wheel_for_another_machine_is_refused_by_the_pip_of_the_image(
    wheel: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    stand_in(tmp_path, monkeypatch, "docker")
    newer = wheel.with_name("demo-1.0-py3-none-manylinux_2_99_x86_64.whl")
    shutil.copy(wheel, newer)
    assert run(["verify", "--image", IMAGE, str(newer)]) == 2
    assert f"cannot be installed in `{IMAGE}`: its platform tags" in capsys.readouterr().err


@pytest.mark.parametrize("names", [(), ("docker",), ("docker", "podman")])
def test_without_an_engine_the_hint_is_a_check_that_needs_none(
    names: tuple[str, ...],
    wheel: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    refusal = "print('Client: 1'); sys.exit('Cannot connect to the daemon. Is it running?')"
    stand_in(tmp_path, monkeypatch, *names, info=refusal)
    assert run(["verify", "--image", IMAGE, str(wheel)]) == 2
    error, _, hint = capsys.readouterr().err.partition("hint: ")
    error = " ".join(error.split())  # long lines are broken
    if not names:
        assert error == f"error: neither podman nor docker is installed, to run `{IMAGE}`"
    for name in names:
        assert f"`{name}` does not answer: Cannot connect to the daemon. Is it running?" in error
    command = shlex.split(hint.split("`")[1])
    assert command[:4] == ["wheelfix", "check", "--target", "debian:12-slim"]
    assert run([*command[1:], "--select", "WF101"]) == 0


@pytest.mark.large
def test_an_engine_that_answers_is_preferred(
    wheel: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    answers = "sys.exit(os.path.basename(sys.argv[0]) == 'podman')"
    log = stand_in(tmp_path, monkeypatch, "docker", "podman", info=answers)
    assert run(["verify", "--image", IMAGE, str(wheel)]) == 1
    assert any(call[0] == "run" for call in calls(log))


def test_all_pythons_are_those_of_this_machine(
    wheel: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["verify", "--image", IMAGE, "--all-pythons", str(wheel)]) == 2
    assert "--image" in capsys.readouterr().err


@pytest.mark.parametrize("is_here", [True, False])
def test_only_an_image_that_is_not_here_is_pulled(
    *, is_here: bool, wheel: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    info = f"print('rootless')\nif {is_here} and arguments[0] == 'image': print('0123abcd')"
    log = stand_in(tmp_path, monkeypatch, "podman", info=info)
    find_image(IMAGE, [wheel], has_network=False)
    pulls = [call for call in calls(log) if call[0] == "pull"]
    assert pulls == ([] if is_here else [["pull", "--quiet", IMAGE]])
