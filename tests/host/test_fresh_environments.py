"""Fresh environments with a wheel in them."""

import base64
import os
import shutil
import sys
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread

import pytest

from tests.support.build import make_wheel
from wheelfix.errors import ToolError
from wheelfix.host.containers import Image
from wheelfix.host.find_installers import pip_for
from wheelfix.host.fresh_environments import (
    INSTALLER_SCHEMES,
    lacking_installer,
    make,
    make_unpacked,
    unpack,
)
from wheelfix.host.installed_files import recorded_files
from wheelfix.host.pythons import interpreter
from wheelfix.host.required_wheels import WITHOUT_INDEX
from wheelfix.host.verify import verify
from wheelfix.host.verify_values import CheckStatus, Options
from wheelfix.loader.install_schemes import scheme_names, schemes
from wheelfix.wheel.model import WheelName


def test_the_schemes_of_installers_are_schemes() -> None:
    assert set(INSTALLER_SCHEMES) <= {name.partition("-")[0] for name in scheme_names()}


def test_what_can_be_made_in_an_image_depends_on_its_pip() -> None:
    here = interpreter(f"{sys.prefix}/bin/python3", os.environ)._replace(has_pip=False)
    assert not lacking_installer("user", here)
    assert pip_for(here) == [sys.executable, "-I", "-m", "pip"]
    image = Image("debian:12", "docker", ())
    with_pip, without = (here._replace(has_pip=has, image=image) for has in (True, False))
    assert not lacking_installer("user", with_pip)
    assert lacking_installer("target-uv", with_pip) == "uv"
    assert pip_for(with_pip) == [here.path, "-I", "-m", "pip"]
    assert lacking_installer("user", without) == "pip"
    assert pip_for(without) is None


@pytest.mark.parametrize("scheme", ["venv-pip", "venv-uv"])
def test_folders_of_wheels_may_be_named_from_here(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, scheme: str
) -> None:
    """The installers are run in another folder."""
    links = tmp_path / "some links" if scheme == "venv-uv" else tmp_path / "links"
    make_wheel(links, "helper", files={"helper.py": ""}, tag="py3-none-any")
    files: dict[str, bytes | str | Path] = {"demo.py": "import helper"}
    lines = "Requires-Dist: helper\n"
    wheel = make_wheel(tmp_path, files=files, tag="py3-none-any", metadata=lines)
    monkeypatch.chdir(tmp_path)
    variables = {"FIND_LINKS": links.name, "NO_INDEX": "1", "CACHE_DIR": str(tmp_path / "cache")}
    kind = "PIP" if scheme == "venv-pip" else "UV"
    given = {f"{kind}_{name}": value for name, value in variables.items()}
    environ = {"PATH": os.environ["PATH"], "HOME": str(tmp_path), "PIP_CONFIG_FILE": os.devnull}
    options = Options(schemes=(scheme,), dependencies=True)
    (result,) = verify(wheel, options, {**environ, **given})
    assert {check.status for check in result.checks} == {CheckStatus.OK}


@pytest.mark.parametrize(
    ("section", "how"),
    [("global", "find-links"), ("global", "index-url"), ("install", "index-url")],
)
def test_where_settings_of_pip_name_the_index_pip_installs(
    tmp_path: Path, section: str, how: str
) -> None:
    """uv does not read them, and would ask another index."""
    links = tmp_path / "links"
    other = make_wheel(links, "helper", files={"helper.py": ""}, tag="py3-none-any")
    simple = tmp_path / "simple/helper"
    simple.mkdir(parents=True)
    (simple / "index.html").write_text(f'<a href="{other.as_uri()}">{other.name}</a>')
    value = {"find-links": f"{links}\nno-index = true", "index-url": simple.parent.as_uri()}[how]
    (tmp_path / "pip.conf").write_text(f"[{section}]\n{how} = {value}\n")
    files: dict[str, bytes | str | Path] = {"demo.py": "import helper"}
    lines = "Requires-Dist: helper\n"
    wheel = make_wheel(tmp_path, files=files, tag="py3-none-any", metadata=lines)
    environ = {"PATH": os.environ["PATH"], "HOME": str(tmp_path), "UV_OFFLINE": "1"}
    environ["PIP_CONFIG_FILE"] = str(tmp_path / "pip.conf")
    (result,) = verify(wheel, Options(dependencies=True), environ)
    assert {check.status for check in result.checks} == {CheckStatus.OK}


@pytest.mark.parametrize("links", ["", ",", "{}/empty,", "{0}/empty,,{0}/empty"])
def test_no_place_of_wheels_is_not_the_current_directory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, links: str
) -> None:
    make_wheel(tmp_path, "helper", files={"helper.py": ""}, tag="py3-none-any")
    (tmp_path / "empty").mkdir()
    lines = "Requires-Dist: helper\n"
    wheel = make_wheel(tmp_path / "dist", files={}, tag="py3-none-any", metadata=lines)
    monkeypatch.chdir(tmp_path)
    environ = {"PATH": os.environ["PATH"], "HOME": str(tmp_path), "PIP_CONFIG_FILE": os.devnull}
    variables = {"UV_FIND_LINKS": links.format(tmp_path), "UV_NO_INDEX": "1"}
    with pytest.raises(ToolError, match="helper was not found"):
        list(verify(wheel, Options(dependencies=True), {**environ, **variables}))


LINKS = {"PIP_FIND_LINKS": "links", "PIP_NO_INDEX": "1"}


@pytest.mark.parametrize(
    ("variables", "settings"),
    [
        ({"PIP_FIND_LINKS": "~/links", "PIP_NO_INDEX": "1"}, ""),
        ({"PIP_FIND_LINKS": "file:{}/links", "PIP_NO_INDEX": "1"}, ""),
        ({"PIP_CONFIG_FILE": "own.conf"}, "[global]\nno-index = true\nfind-links = {}/links"),
        ({**LINKS, "PIP_CONSTRAINT": "pins.txt", "PIP_BUILD_CONSTRAINT": "pins.txt"}, ""),
        ({**LINKS, "PIP_REQUIREMENT": "pins.txt empty.txt", "PIP_LOG": "log.txt"}, ""),
        ({"UV_FIND_LINKS": "links", "UV_NO_INDEX": "1", "UV_CONSTRAINT": "pins.txt"}, ""),
        ({"UV_FIND_LINKS": "links", "UV_NO_INDEX": "1", "UV_BUILD_CONSTRAINT": "pins.txt"}, ""),
        ({"UV_FIND_LINKS": "links", "UV_NO_INDEX": "1", "UV_EXCLUDE": "empty.txt"}, ""),
        ({"UV_DEFAULT_INDEX": "some simple"}, ""),
        ({"UV_DEFAULT_INDEX": "own=some simple"}, ""),
        ({"UV_INDEX_URL": "./some simple"}, ""),
        ({"UV_INDEX": "own=no ./simple", "UV_DEFAULT_INDEX": "./no"}, ""),
        ({"UV_INDEX": "own=file://{}/simple", "UV_DEFAULT_INDEX": "no"}, ""),
        ({"UV_EXTRA_INDEX_URL": "no simple", "UV_DEFAULT_INDEX": "no"}, ""),
        ({"UV_CONFIG_FILE": "own.conf"}, "no-index = true\nfind-links = ['{}/links']"),
        ({"UV_FIND_LINKS": "links", "UV_NO_INDEX": "1", "PIP_CONFIG_FILE": "own.conf"}, "[broken"),
        (
            {"UV_FIND_LINKS": "links", "UV_NO_INDEX": "1", "PIP_CONFIG_FILE": "own.conf"},
            "[global]\nindex-url = http://127.0.0.1:1/simple",
        ),
    ],
)
def test_settings_of_the_installers_mean_what_they_do_here(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, variables: dict[str, str], settings: str
) -> None:
    other = make_wheel(tmp_path / "links", "helper", files={"helper.py": ""}, tag="py3-none-any")
    lines = "Requires-Dist: helper\n"
    files: dict[str, bytes | str | Path] = {"demo.py": "import helper"}
    wheel = make_wheel(tmp_path / "dist", files=files, tag="py3-none-any", metadata=lines)
    for folder in ("simple/helper", "some simple/helper", "no"):
        shutil.copytree(tmp_path / "links", tmp_path / folder)
        (tmp_path / folder / "index.html").write_text(f'<a href="{other.name}">{other.name}</a>')
    (tmp_path / "empty.txt").write_text("")
    (tmp_path / "own.conf").write_text(settings.format(tmp_path))
    (tmp_path / "pins.txt").write_text("helper==1.0\n")
    monkeypatch.chdir(tmp_path)
    environ = {"PATH": os.environ["PATH"], "HOME": str(tmp_path), "UV_OFFLINE": "1"}
    given = {name: value.format(tmp_path) for name, value in variables.items()}
    (result,) = verify(wheel, Options(dependencies=True), {**environ, **given})
    assert {check.status for check in result.checks} == {CheckStatus.OK}


def test_uv_does_not_look_in_the_home_for_a_tilde(tmp_path: Path) -> None:
    make_wheel(tmp_path / "links", "helper", files={"helper.py": ""}, tag="py3-none-any")
    lines = "Requires-Dist: helper\n"
    wheel = make_wheel(tmp_path / "dist", files={}, tag="py3-none-any", metadata=lines)
    environ = {"PATH": os.environ["PATH"], "HOME": str(tmp_path), "PIP_CONFIG_FILE": os.devnull}
    variables = {"UV_FIND_LINKS": "~/links", "UV_NO_INDEX": "1"}
    with pytest.raises(ToolError, match=r"/~/links"):
        list(verify(wheel, Options(dependencies=True), {**environ, **variables}))


class _Guarded(SimpleHTTPRequestHandler):
    """An index that asks for a password."""

    def do_GET(self) -> None:
        if self.headers["Authorization"] == f"Basic {base64.b64encode(b'ann:secret').decode()}":
            super().do_GET()
        else:
            self.send_response(401)
            self.send_header("WWW-Authenticate", 'Basic realm="index"')
            self.end_headers()

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - its name
        pass


@pytest.mark.parametrize("named", ["", "own", "~/own"])
@pytest.mark.parametrize("variable", ["PIP_INDEX_URL", "UV_DEFAULT_INDEX"])
def test_the_installers_get_the_password_of_the_index_from_the_netrc_of_the_user(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, variable: str, named: str
) -> None:
    """An index that refuses does not say that it lacks a distribution."""
    folder = tmp_path / "helper"
    other = make_wheel(folder, "helper", files={"helper.py": ""}, tag="py3-none-any")
    (folder / "index.html").write_text(f'<a href="{other.name}">{other.name}</a>')
    lines = "Requires-Dist: helper\n"
    files: dict[str, bytes | str | Path] = {"demo.py": "import helper"}
    wheel = make_wheel(tmp_path / "dist", files=files, tag="py3-none-any", metadata=lines)
    netrc = tmp_path / (named.removeprefix("~/") or ".netrc")
    netrc.write_text("machine 127.0.0.1 login ann password secret\n")
    netrc.chmod(0o600)
    monkeypatch.chdir(tmp_path)
    handler = partial(_Guarded, directory=str(tmp_path))
    environ = {"PATH": os.environ["PATH"], "HOME": str(tmp_path), "PIP_CONFIG_FILE": os.devnull}
    environ |= {"NETRC": named} if named else {}
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        Thread(target=server.serve_forever, daemon=True).start()
        environ[variable] = f"http://127.0.0.1:{server.server_port}"
        (result,) = verify(wheel, Options(dependencies=True), environ)
        netrc.write_text("")
        with pytest.raises(ToolError) as refused:
            list(verify(wheel, Options(dependencies=True), environ))
        shutil.rmtree(folder)
        netrc.write_text("machine 127.0.0.1 login ann password secret\n")
        with pytest.raises(ToolError) as not_there:
            list(verify(wheel, Options(dependencies=True), environ))
        server.shutdown()
    assert {check.status for check in result.checks} == {CheckStatus.OK}
    assert (refused.value.hint, not_there.value.hint) == (None, WITHOUT_INDEX), "that is the cause"
    assert "Traceback" not in refused.value.message


@pytest.mark.parametrize("installer", ["pip", "uv"])
def test_where_no_index_is_asked_the_hint_says_how_to_give_a_wheel(
    tmp_path: Path, installer: str
) -> None:
    files: dict[str, bytes | str | Path] = {"demo.py": "import helper"}
    lines = "Requires-Dist: helper>=2\n"
    wheel = make_wheel(tmp_path / "dist", files=files, tag="py3-none-any", metadata=lines)
    older = make_wheel(tmp_path / "links", "helper", files={"helper.py": ""}, tag="py3-none-any")
    environ = {"PATH": os.environ["PATH"], "HOME": str(tmp_path), "PIP_CONFIG_FILE": os.devnull}
    options = Options(dependencies=True, schemes=(f"venv-{installer}",))
    nowhere = {f"{installer.upper()}_NO_INDEX": "1"}
    for given in ({}, {f"{installer.upper()}_FIND_LINKS": str(older.parent)}):
        with pytest.raises(ToolError) as refused:
            list(verify(wheel, options, environ | nowhere | given))
        assert refused.value.hint == WITHOUT_INDEX


def test_an_error_of_the_system_is_not_said_to_be_one_of_the_index(tmp_path: Path) -> None:
    """Such as a full disk: another folder with wheels does not help."""
    lines = "Requires-Dist: helper\n"
    wheel = make_wheel(tmp_path, files={"demo.py": ""}, tag="py3-none-any", metadata=lines)
    environ = {"PATH": os.environ["PATH"], "HOME": str(tmp_path), "UV_CACHE_DIR": "/sys/kernel/uv"}
    options = Options(dependencies=True, schemes=("venv-uv",))
    with pytest.raises(ToolError, match=r"os error \d") as refused:
        list(verify(wheel, options, environ))
    assert refused.value.hint is None


def test_an_image_does_not_get_the_passwords_of_the_user(tmp_path: Path) -> None:
    """Code of the wheel runs there, too."""
    home = tmp_path / "home"
    (home / ".pip").mkdir(parents=True)
    for name in (".netrc", ".pip/pip.conf"):
        (home / name).write_text("")
    image = Image("debian:12", "docker", ())
    python = interpreter(sys.executable, os.environ)._replace(image=image)
    (tmp_path / "root").mkdir()
    place = make("target-pip", python, tmp_path / "root", {"HOME": str(home)})
    assert isinstance(place.run, partial)
    (mounts,) = place.run.args
    assert ("pip.conf" in str(mounts), ".netrc" in str(mounts)) == (True, False)


def test_record_of_an_unpacked_wheel_quotes_file_names_as_csv_does(tmp_path: Path) -> None:
    tag = f"cp3{sys.version_info.minor}"
    names = ["demo/a,b.so", 'demo/"quoted".so', "demo/plain.so"]
    wheel = make_wheel(
        tmp_path / "dist", tag=f"{tag}-{tag}-linux_x86_64", files=dict.fromkeys(names, "")
    )
    python = interpreter(sys.executable, os.environ)
    allowed = schemes(WheelName.parse(wheel.name))
    (scheme,) = (s for s in allowed if s.name == "lib64" and s.python == python.name)
    place = make_unpacked(scheme, python, tmp_path, os.environ)
    unpack(wheel, None, place, scheme)
    (dist_info,) = tmp_path.rglob("*.dist-info")
    listed = {os.path.relpath(path, dist_info.parent) for path in recorded_files(dist_info)}
    assert listed >= set(names)
