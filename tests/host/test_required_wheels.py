"""Wheels of requirements: by name and version from the index, and nothing of a stranger runs."""

import json
import os
import shlex
import socket
import subprocess
import sys
import tarfile
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from tests.support.build import extension, make_wheel, shared_object
from tests.support.installers import pip
from tests.support.waiting import HANGS
from wheelfix.cli.app import run
from wheelfix.errors import OutputError, SettingsError, ToolError
from wheelfix.host.required_wheels import fetch
from wheelfix.host.verify import verify
from wheelfix.host.verify_values import Options
from wheelfix.system.subprocesses import Completed
from wheelfix.system.subprocesses import run as run_program
from wheelfix.wheel.model import WheelName
from wheelfix.wheel.requirements import name_of

PURE = "py3-none-any"
HERE = f"cp3{sys.version_info.minor}-cp3{sys.version_info.minor}-linux_{os.uname().machine}"
OTHER = "cp312-cp312-manylinux_2_17_s390x"
"""The tag of a machine for which pip must be told what it may fetch."""


def dependent(tag: str = HERE) -> WheelName:
    return WheelName.parse(f"demo-1.0-{tag}.whl")


def wheel(folder: Path, name: str, version: str = "1.0", *requires: str, text: str = "") -> Path:
    metadata = "".join(f"Requires-Dist: {one}\n" for one in requires)
    return make_wheel(folder, name, version, PURE, {f"{name}.py": text}, metadata=metadata)


@pytest.fixture
def index(tmp_path: Path) -> Path:
    """Make a folder of wheels, in which an sdist leaves a file when it is built."""
    folder, source = tmp_path / "index", tmp_path / "evil-1.0"
    for one in (folder, source):
        one.mkdir()
    (source / "setup.py").write_text(
        f"open({str(tmp_path / 'RAN')!r}, 'w')\nfrom setuptools import setup\nsetup(name='evil')\n"
    )
    (source / "PKG-INFO").write_text("Metadata-Version: 2.1\nName: evil\nVersion: 1.0\n")
    with tarfile.open(folder / "evil-1.0.tar.gz", "w:gz") as archive:
        archive.add(source, source.name)
    return folder


@pytest.fixture
def environ(tmp_path: Path, index: Path) -> dict[str, str]:
    return {
        "PATH": os.environ["PATH"],
        "HOME": str(tmp_path),
        "XDG_CACHE_HOME": str(tmp_path / "cache"),
        "PIP_CONFIG_FILE": os.devnull,
        "PIP_NO_INDEX": "1",
        "PIP_FIND_LINKS": str(index),
    }


def names(
    requirements: Sequence[str], environ: Mapping[str, str], *given: str, tag: str = HERE
) -> list[str]:
    found = fetch(requirements, dependent(tag), environ, given).wheels
    return ["-".join(path.name.split("-")[:2]) for path in found]


URLS = ("file://{index}/evil-1.0.tar.gz", "file://{source}", "git+file://{source}")


@pytest.mark.each_run("*git+file*", "*-evil-cp311*", "*-x===*")
@pytest.mark.parametrize("tag", [HERE, pytest.param(OTHER, marks=pytest.mark.large)])
@pytest.mark.parametrize(
    "requirement",
    [
        *(f"evil @ {url}" for url in URLS),
        "evil",
        "evil==1.0",
        "evil-1.0.tar.gz",  # the name of a distribution, and of a file in the current directory
        "x===/../../../../../../../..{source}",  # pip takes it for a path
        f"x==={'=' * 99}/",  # in which a pattern could find operators in many ways
    ],
)
@pytest.mark.parametrize("is_direct", [True, pytest.param(False, marks=pytest.mark.large)])
def test_what_is_no_wheel_of_the_index_is_not_known_and_nothing_runs(  # noqa: PLR0913, PLR0917
    requirement: str,
    is_direct: bool,  # noqa: FBT001 - a parameter of the matrix
    tag: str,
    tmp_path: Path,
    index: Path,
    environ: dict[str, str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(index)
    text = requirement.format(index=index, source=tmp_path / "evil-1.0")
    wheel(index, "between", "1.0", text)
    wheel(index, "fine")
    found = fetch([text if is_direct else "between", "fine"], dependent(tag), environ)
    assert not (tmp_path / "RAN").exists()
    assert not list((tmp_path / "cache/wheelfix").glob("fetch-*"))
    (unknown,) = found.unknown
    assert unknown.name == name_of(text)
    assert unknown.unknown
    assert shlex.quote(text) in unknown.build_advice
    others = {"fine"} if is_direct else {"between", "fine"}
    assert {path.name.partition("-")[0] for path in found.wheels} == others


def test_folders_of_pip_stand_for_the_index_of_verify(
    tmp_path: Path, index: Path, environ: dict[str, str]
) -> None:
    wheel(index, "fine")
    demo = wheel(tmp_path, "demo", "1.0", "fine")
    (result,) = verify(demo, Options(dependencies=True), environ)
    assert not result.failed


@pytest.mark.parametrize("variable", ["PIP_NO_INDEX", "UV_NO_INDEX"])
def test_uv_asks_no_index_if_a_variable_says_so(variable: str, tmp_path: Path) -> None:
    wheel(tmp_path, "fine")
    index = {"UV_DEFAULT_INDEX": "http://127.0.0.1:1/simple", "UV_HTTP_RETRIES": "0"}
    folders = {"UV_FIND_LINKS": str(tmp_path), "UV_CACHE_DIR": str(tmp_path / "uv")}
    environ = {"PATH": os.environ["PATH"], "HOME": str(tmp_path), **index, **folders}
    demo = wheel(tmp_path, "demo", "1.0", "fine")
    options = Options(schemes=("venv-uv",), dependencies=True)
    with pytest.raises(ToolError):
        list(verify(demo, options, environ))
    (result,) = verify(demo, options, {**environ, variable: "1"})
    assert not result.failed


@pytest.mark.each_run("PIP_REQUIREMENT*", "PIP_CONSTRAINT--r*")
@pytest.mark.parametrize(
    ("variable", "text"),
    [
        ("PIP_REQUIREMENT", "evil @ file://{index}/evil-1.0.tar.gz"),
        ("PIP_EDITABLE", ""),
        ("PIP_NO_BINARY", ""),
        ("PIP_CONSTRAINT", "fine @ file://{index}/evil-1.0.tar.gz"),
        ("PIP_CONSTRAINT", "-r {index}/other.txt"),
    ],
)
def test_settings_of_pip_build_nothing(
    variable: str, text: str, tmp_path: Path, index: Path, environ: dict[str, str]
) -> None:
    wheel(index, "fine")
    file = tmp_path / "file.txt"
    file.write_text(text.format(index=index))
    value = {"PIP_EDITABLE": str(tmp_path / "evil-1.0"), "PIP_NO_BINARY": ":all:"}
    environ[variable] = value.get(variable, str(file))
    if variable == "PIP_CONSTRAINT":
        with pytest.raises(SettingsError, match="is not a name with versions"):
            fetch(["fine"], dependent(), environ)
    else:
        assert names(["fine"], environ) == ["fine-1.0"]
    assert not (tmp_path / "RAN").exists()


def test_a_neighbor_of_a_configuration_is_not_built(
    tmp_path: Path, index: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    path = make_wheel(tmp_path / "dist", tag=HERE, files={"demo.py": ""})
    monkeypatch.chdir(tmp_path)
    url = f"evil @ file://{index}/evil-1.0.tar.gz"
    Path("wheelfix.toml").write_text(f"neighbors = ['{url}']\n")
    assert run(["check", str(path)]) == 2
    assert "URLs are not followed, and nothing is built" in capsys.readouterr().err
    assert not (tmp_path / "RAN").exists()


def test_what_is_not_known_can_be_built_and_put_beside_the_wheel(
    tmp_path: Path,
    environ: dict[str, str],
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """The hint of the finding, followed; that the command executes code is what it says."""
    for name in ("PIP_NO_INDEX", "PIP_FIND_LINKS", "PIP_CONFIG_FILE", "XDG_CACHE_HOME"):
        monkeypatch.setenv(name, environ[name])
    monkeypatch.chdir(tmp_path)
    (tmp_path / "evil-1.0/setup.py").write_text("from setuptools import setup\nsetup(name='evil')")
    url = f"evil @ file://{tmp_path}/evil-1.0"
    path = make_wheel(tmp_path / "d", tag=HERE, files={}, metadata=f"Requires-Dist: {url}\n")
    (unknown,) = fetch([url], dependent(), environ).unknown
    _, command, *_ = unknown.build_advice.split("`")
    _, *words = shlex.split(command)
    assert pip(*words[:1], "--no-deps", "--no-build-isolation", *words[1:]).returncode == 0
    for call in (["check", "--deps"], ["doctor"]):
        assert run([*call, str(path)]) < 2  # WF517 is about the path in METADATA
        assert f"`{url}` is not known: URLs are not followed" in "".join(capsys.readouterr())
        assert run([*call, "--with", "wheels", str(path)]) < 2
        assert "is not known" not in "".join(capsys.readouterr())


def test_without_an_index_nothing_can_be_built(environ: dict[str, str]) -> None:
    del environ["PIP_FIND_LINKS"]
    (unknown,) = fetch(["nowhere"], dependent(), environ).unknown
    assert unknown.unknown.endswith("(from versions: none), as PIP_NO_INDEX is set")
    assert unknown.build_advice == "unset PIP_NO_INDEX, or name its wheel: `--with FILE.whl`"


def test_an_index_that_is_dead_is_asked_once_and_folders_are_still_looked_into(
    index: Path, environ: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    wheel(index, "core")
    calls: list[Sequence[str]] = []

    def record(argv: Sequence[str], **named: Any) -> Completed:
        calls.append(argv)
        return run_program(argv, **named)

    monkeypatch.setattr("wheelfix.host.required_wheels.run", record)
    with socket.create_server(("127.0.0.1", 0)) as server:
        dead = f"http://127.0.0.1:{server.getsockname()[1]}/simple"
    del environ["PIP_NO_INDEX"]
    given = {**environ, "PIP_INDEX_URL": dead, "PIP_RETRIES": "1"}
    found = fetch(["a", "core", "b"], dependent(), given)
    assert [path.name for path in found.wheels] == [f"core-1.0-{PURE}.whl"]
    assert [one.name for one in found.unknown] == ["a", "b"]
    assert all(one.unknown.startswith("the index does not answer (") for one in found.unknown)
    assert ["--no-index" in call for call in calls] == [False, True, True, True]
    calls.clear()
    del given["PIP_FIND_LINKS"]
    found = fetch([*"abcdefgh", "core"], dependent(), given)
    assert len(found.unknown) == 9
    assert len(calls) == 1


def test_very_many_requirements_without_a_wheel_are_not_asked_for_one_by_one(
    index: Path, environ: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each question takes a second, and 100 kB of METADATA name 10,000 distributions."""
    wheel(index, "core")
    calls: list[Sequence[str]] = []

    def fails(argv: Sequence[str], **_: object) -> None:
        calls.append(argv)
        lacking = next(word for word in argv if word.startswith("lacks"))
        raise ToolError(f"ERROR: No matching distribution found for {lacking}")

    monkeypatch.setattr("wheelfix.host.required_wheels.run", fails)
    found = fetch([f"lacks{n}" for n in range(10_000)], dependent(), environ)
    assert len(found.unknown) == 10_000
    assert len(calls) == 20
    assert found.unknown[-1].unknown == "not asked for: 20 others have no wheel"


LACKING = (
    "evil",
    "nosuchname",
    "fine==7",
    "other-machine",
    "other-python",
    "direct @ file:///x.tar.gz",
)
"""Only a source distribution, no file of that name, version, machine or Python, and a URL."""


@pytest.mark.parametrize(
    ("command", "code"), [("check --deps -v", 1), ("doctor -v", 0), ("explain --deps", 1)]
)
@pytest.mark.each_run("check*")
def test_what_has_no_wheel_is_said_and_all_the_rest_is_judged(  # noqa: PLR0913, PLR0917
    command: str,
    code: int,
    tmp_path: Path,
    index: Path,
    environ: dict[str, str],
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    for name in ("PIP_NO_INDEX", "PIP_FIND_LINKS", "PIP_CONFIG_FILE", "XDG_CACHE_HOME"):
        monkeypatch.setenv(name, environ[name])
    wheel(index, "fine")
    make_wheel(index, "other_machine", "1.0", "py3-none-win_amd64", {})
    make_wheel(index, "other_python", "1.0", "cp27-none-any", {})
    gone = shared_object(tmp_path / "libgone.so")
    module = extension(tmp_path / "_m.so", "_m", needed=[gone])
    path = make_wheel(
        tmp_path / "d",
        tag=HERE,
        files={"demo/__init__.py": "from . import _m", "demo/_m.so": module},
        metadata="".join(f"Requires-Dist: {one}\n" for one in LACKING),
    )
    assert run([*command.split(), str(path)]) == code
    printed = "".join(capsys.readouterr())
    for one in LACKING:
        assert f"`{one}` is not known: " in printed
        assert f"pip wheel -w wheels {shlex.quote(one)}` may build it" in printed
    assert "libgone.so" in printed
    assert not (tmp_path / "RAN").exists()


def test_requirements_are_followed_as_pip_follows_them(
    index: Path, environ: dict[str, str]
) -> None:
    wheel(
        index, "kit", "1.0", "far; extra == 'x'", "never; extra == 'y'", "old; python_version<'3'"
    )
    wheel(index, "near", "1.0", "kit[x]")
    wheel(index, "far", "1.0")
    wheel(index, "far", "2.0")
    assert names(["near", "far<2"], environ) == ["far-1.0", "kit-1.0", "near-1.0"]
    assert names(["near"], environ, "kit") == ["near-1.0"]


def test_an_older_version_is_taken_where_the_newest_fits_nothing(
    index: Path, environ: dict[str, str]
) -> None:
    for version in ("1.0", "2.0"):
        wheel(index, "base", version)
        wheel(index, "user", version, f"base=={version}")
    assert names(["base<2", "user"], environ) == ["base-1.0", "user-1.0"]
    found = fetch(["base<2", "user==2"], dependent(), environ)
    assert [one.requirement for one in found.unknown] == ["base<2,==2.0"]
    assert [path.name for path in found.wheels] == [f"user-2.0-{PURE}.whl"]


def test_an_answer_belongs_to_its_index_its_constraints_and_its_day(
    tmp_path: Path, index: Path, environ: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    wheel(index, "core")
    assert names(["core"], environ) == ["core-1.0"]
    wheel(tmp_path / "more", "core", "3.0")
    more = {**environ, "PIP_FIND_LINKS": str(tmp_path / "more")}
    assert names(["core"], more) == ["core-3.0"]
    wheel(index, "core", "2.0")
    assert names(["core"], environ) == ["core-2.0"], "the folder has changed"
    (tmp_path / "c.txt").write_text("core<2  # as we build\n")
    bound = {**environ, "PIP_CONSTRAINT": str(tmp_path / "c.txt")}
    assert names(["core"], bound) == ["core-1.0"]
    (tmp_path / "c.txt").write_text("core<3\n")
    assert names(["core"], bound) == ["core-2.0"]
    answers = list((tmp_path / "cache/wheelfix/resolved").iterdir())
    assert len(answers) == 5
    for answer in answers:
        kept = json.loads(answer.read_text())
        answer.write_text(json.dumps({**kept, "time": time.time() - 90_000}))
    monkeypatch.setattr("wheelfix.host.required_wheels.run", _asked_again)
    assert [one.unknown for one in fetch(["core"], dependent(), environ).unknown] == ["asked again"]


def _asked_again(*_: object, **_named: object) -> None:
    raise ToolError("asked again")


def test_a_wheel_of_the_cache_is_taken_by_its_hash(
    index: Path, environ: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    wheel(index, "core")
    (kept,) = fetch(["core"], dependent(), environ).wheels
    good = kept.read_bytes()
    with monkeypatch.context() as patched:
        patched.setattr("wheelfix.host.required_wheels.run", _asked_again)
        assert fetch(["core"], dependent(), environ).wheels == (kept,), "pip is not started"
    kept.write_bytes(wheel(index.parent, "core", text="bad").read_bytes())
    assert fetch(["core"], dependent(), environ).wheels == (kept,)
    assert kept.read_bytes() == good


def _late(answer: Path) -> None:
    text = json.dumps({**json.loads(answer.read_text()), "time": 10**400})
    answer.write_text(text)


def _fifo(answer: Path) -> None:
    answer.unlink()
    os.mkfifo(answer)


def _link(answer: Path) -> None:
    answer.unlink()
    answer.symlink_to(answer.parents[3] / "far")


ANSWERS: dict[str, Callable[[Path], object]] = {
    "deep": lambda answer: answer.write_text("[" * 200_000),
    "late": _late,
    "fifo": _fifo,
    "link": _link,
}
"""How an answer in the cache is changed."""


@pytest.mark.each_run("deep", "link")
@pytest.mark.parametrize("how", ANSWERS)
def test_an_answer_that_was_changed_is_asked_for_again(
    how: str, tmp_path: Path, index: Path, environ: dict[str, str]
) -> None:
    wheel(index, "core")
    (tmp_path / "far").write_text("of another")
    kept = fetch(["core"], dependent(), environ)
    (answer,) = (tmp_path / "cache/wheelfix/resolved").iterdir()
    ANSWERS[how](answer)
    assert fetch(["core"], dependent(), environ) == kept
    assert json.loads(answer.read_text())["wheels"]
    assert (tmp_path / "far").read_text() == "of another"


def test_nothing_is_made_in_a_cache_in_which_others_may_write(
    tmp_path: Path, environ: dict[str, str]
) -> None:
    for name in ("far", "cache"):
        (tmp_path / name).mkdir()
    (tmp_path / "far").chmod(0o777)
    (tmp_path / "cache/wheelfix").symlink_to(tmp_path / "far")
    with pytest.raises(OutputError, match="can be changed by other users"):
        fetch(["core"], dependent(), environ)
    assert not list((tmp_path / "far").iterdir())


def test_a_folder_of_find_links_may_have_odd_files(
    tmp_path: Path, index: Path, environ: dict[str, str]
) -> None:
    wheel(index, "core")
    (index / "gone-1.0-py3-none-any.whl").symlink_to("nowhere")
    (index / "loop-1.0-py3-none-any.whl").symlink_to("loop-1.0-py3-none-any.whl")
    environ["PIP_FIND_LINKS"] += f" {tmp_path}/{'long' * 99}"
    assert names(["core"], environ) == ["core-1.0"]
    found = fetch(["gone", "loop", "core"], dependent(), environ)
    assert [one.name for one in found.unknown] == ["gone", "loop"]
    assert [path.name for path in found.wheels] == [f"core-1.0-{PURE}.whl"]
    Path(os.fsdecode(os.fsencode(index) + b"/\xff-1.0-py3-none-any.whl")).touch()
    # pip fails at such a name where its stdout is strict, which depends on the locale.
    found = fetch(["core"], dependent(), environ)
    assert found.wheels or found.unknown[0].unknown.startswith("UnicodeEncodeError")


@pytest.mark.parametrize("links", ["file:{}/index", "file://{}/index", "~/index", "index"])
def test_find_links_are_read_as_pip_does(
    tmp_path: Path,
    index: Path,
    environ: dict[str, str],
    monkeypatch: pytest.MonkeyPatch,
    links: str,
) -> None:
    wheel(index, "core")
    monkeypatch.chdir(tmp_path)
    (tmp_path / "own.conf").write_text(f"[global]\nfind-links = {links.format(tmp_path)}\n")
    del environ["PIP_FIND_LINKS"]
    environ |= {"PIP_CONFIG_FILE": "own.conf", "HOME": str(tmp_path)}
    assert names(["core"], environ) == ["core-1.0"]
    wheel(index, "core", "2.0")
    assert names(["core"], environ) == ["core-2.0"], "the folder is not as it was"


def test_what_pip_would_wait_for_is_refused(index: Path, environ: dict[str, str]) -> None:
    wheel(index, "core")
    os.mkfifo(index / "core-2.0-py3-none-any.whl")
    with pytest.raises(SettingsError, match=r"core-2\.0-py3-none-any\.whl` of pip's find-links"):
        fetch(["core"], dependent(), environ)


def test_temporary_files_of_pip_lie_in_our_folder(
    tmp_path: Path, index: Path, environ: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    wheel(index, "core")
    seen: list[str] = []

    def record(*_: object, env: Mapping[str, str], **_named: object) -> None:
        seen.append(env["TMPDIR"])
        raise ToolError("it failed")

    monkeypatch.setattr("wheelfix.host.required_wheels.run", record)
    assert fetch(["core"], dependent(), environ).unknown
    (folder,) = map(Path, seen)
    assert folder.parent == tmp_path / "cache/wheelfix"
    assert not folder.exists()


@pytest.mark.parametrize("command", ["doctor", "check --deps", "show --deps"])
@pytest.mark.each_run("check --deps")
def test_an_index_that_does_not_answer_takes_no_longer_than_the_limit(
    command: str, tmp_path: Path
) -> None:
    """And what pip has begun is gone."""
    path = make_wheel(tmp_path / "dist", tag=HERE, metadata="Requires-Dist: slow\n", files={})
    for name in ("tmp", "cache"):
        (tmp_path / name).mkdir()
    with socket.create_server(("127.0.0.1", 0)) as server:
        index = f"http://127.0.0.1:{server.getsockname()[1]}/simple"
        done = subprocess.run(
            [sys.executable, "-m", "wheelfix", *command.split(), "--timeout", "4", str(path)],
            env={
                "PATH": os.environ["PATH"],
                "HOME": str(tmp_path),
                "XDG_CACHE_HOME": str(tmp_path / "cache"),
                "TMPDIR": str(tmp_path / "tmp"),
                "PIP_CONFIG_FILE": os.devnull,
                "PIP_INDEX_URL": index,
                "PIP_TIMEOUT": "500",
            },
            capture_output=True,
            text=True,
            timeout=HANGS,
            check=False,
        )
    assert done.returncode == 2
    assert "it took longer than 4" in done.stderr
    assert not list((tmp_path / "tmp").iterdir())
    assert not list((tmp_path / "cache").glob("wheelfix/fetch-*"))
