"""Fresh environments with a wheel in them."""

import os
import sys
from pathlib import Path

from tests.support.build import make_wheel
from wheelfix.host.containers import Image
from wheelfix.host.find_installers import pip_for
from wheelfix.host.fresh_environments import (
    INSTALLER_SCHEMES,
    lacking_installer,
    make_unpacked,
    unpack,
)
from wheelfix.host.installed_files import recorded_files
from wheelfix.host.pythons import interpreter
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
