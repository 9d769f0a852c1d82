"""Described machines: the presets, description files, and what they bring."""

import os
import re
import subprocess
from pathlib import Path

import pytest

from tests.support.loads import load
from tests.support.values import elf, wheel, world_on
from wheelfix.errors import SettingsError
from wheelfix.loader.machine_names import MACHINES
from wheelfix.loader.targets import (
    default_name,
    find,
    names,
)
from wheelfix.wheel.platform_tags import ARCHITECTURES

ON_DEBIAN_12 = Path("/etc/debian_version").exists() and Path(
    "/etc/debian_version"
).read_text().startswith("12")


@pytest.mark.parametrize("name", names())
def test_every_preset_is_a_machine_whose_python_starts(name: str) -> None:
    subject = wheel({"p/a.so": elf()})
    target = find(name, subject)
    world = world_on(subject, target)
    environment = world.environment
    assert environment.main is not None
    assert environment.main in environment.files
    assert not re.search(r"[{}]", "".join((*environment.files, environment.lib)))
    started = load(environment.main, environment)
    assert not started.missing
    assert all("{" not in name for file in environment.files.values() for name in file.needed)


@pytest.mark.parametrize(
    ("platform", "name"),
    [
        ("manylinux_2_28_x86_64", "glibc:2.28"),
        ("manylinux_2_28_x86_64.manylinux_2_9_x86_64", "glibc:2.9"),
        ("manylinux2014_aarch64.manylinux_2_17_aarch64", "glibc:2.17"),
        ("manylinux1_i686", "glibc:2.5"),
        ("musllinux_1_2_x86_64", "musl"),
        ("linux_x86_64", "glibc"),
    ],
)
def test_the_platform_tag_says_what_is_promised(platform: str, name: str) -> None:
    subject = wheel({"p/a.so": elf()}, name=f"demo-1.0-cp311-cp311-{platform}.whl")
    assert default_name(subject) == name
    assert find("conda", subject).name == f"{name}+conda"


@pytest.mark.parametrize(
    ("arch", "alpine"),
    [
        ("x86_64", "x86_64"),
        ("i686", "x86"),
        ("aarch64", "aarch64"),
        ("armv7l", "armv7"),
        ("ppc64le", "ppc64le"),
        ("s390x", "s390x"),
        ("riscv64", "riscv64"),
        ("loongarch64", "loongarch64"),
    ],
)
def test_the_soname_of_musl_has_alpines_name_of_the_architecture(arch: str, alpine: str) -> None:
    subject = wheel({"p/a.so": elf()}, name=f"demo-1.0-cp311-cp311-musllinux_1_2_{arch}.whl")
    world = world_on(subject, "alpine:3.20")
    program = world.environment.files[world.environment.main or ""]
    assert program.needed[-1] == f"libc.musl-{alpine}.so.1"


def test_an_untagged_wheel_for_musl_gets_musl() -> None:
    assert default_name(wheel({"p/a.so": elf(needed=("libc.musl-x86_64.so.1",))})) == "musl"


@pytest.mark.parametrize(
    "name", ["debian:10", "debian:", "beos", "win:11", "conda+conda", "", "glibc:" + "9" * 5000]
)
def test_an_unknown_target_names_the_known_ones(name: str) -> None:
    with pytest.raises(SettingsError, match="unknown target `") as caught:
        find(name)
    assert "debian" in (caught.value.hint or "")


@pytest.mark.parametrize(
    ("name", "meant"),
    [("debain:12", "debian:12"), ("rhel:9+cond", "conda"), ("Alpin:3.20", "alpine:3.20")],
)
def test_a_misspelled_target_is_named_as_it_was_meant(name: str, meant: str) -> None:
    with pytest.raises(SettingsError, match="unknown target `") as caught:
        find(name)
    assert caught.value.hint == f"did you mean `{meant}`?"


def test_a_platform_goes_with_another_python() -> None:
    target = find("ubuntu:24.04+conda")
    assert target.name == "ubuntu:24.04+conda"
    assert (target.program.scheme, target.versions["GLIBC"]) == ("conda", "2.39")
    assert target.has("libselinux.so.1")
    assert find("debian").program.name == "debian"


def test_the_generic_platform_gives_what_a_tag_promises_and_no_more() -> None:
    target = find("glibc:2.17")
    assert target.has("libX11.so.6")
    assert target.has("ld-linux-aarch64.so.1")
    assert not target.has("libcuda.so.1")
    assert not find("debian:12").has("libX11.so.6")
    assert find("debian:12").packages["libX11.so.6"] == "libx11-6"


def test_a_slim_image_has_what_its_packages_bring_and_no_python_of_the_system() -> None:
    slim = find("debian:12-slim")
    assert slim.has("libffi.so.8")
    assert slim.has("libstdc++.so.6")
    assert not slim.has("libexpat.so.1"), "that of Debian's python3"
    assert not slim.has("libGL.so.1")
    assert slim.packages["libGL.so.1"] == "libgl1"
    assert slim.versions == find("debian:12").versions
    assert slim.packages["libasound.so.2"] == "libasound2"
    assert find("debian:13-slim").packages["libasound.so.2"] == "libasound2t64"
    assert find("debian:13-slim").has("libssl.so.3")
    assert not slim.has("libssl.so.3")
    assert find("debian:12-slim+conda").program.name == "conda"


@pytest.mark.large
@pytest.mark.skipif(not ON_DEBIAN_12, reason="compares the preset with Debian 12 itself")
def test_debians_preset_is_debian() -> None:
    target = find("debian:12")
    triplet = MACHINES[ARCHITECTURES["x86_64"]].triplet if os.uname().machine == "x86_64" else ""
    cache = subprocess.run(
        ["/sbin/ldconfig", "-p"], capture_output=True, text=True, check=True
    ).stdout
    there = set(re.findall(r"^\t(\S+) \(", cache, re.MULTILINE))
    assert target.gives <= there
    assert find("debian:12-slim").gives <= there
    libc = Path("/lib", triplet, "libc.so.6").read_bytes()
    assert f"GLIBC_{target.versions['GLIBC']}\0".encode() in libc
    newer = int(target.versions["GLIBC"].partition(".")[2]) + 1
    assert f"GLIBC_2.{newer}\0".encode() not in libc
    patterns = [f"*/{triplet}/{library}" for library in target.packages]
    said = subprocess.run(
        ["dpkg-query", "-S", *patterns], capture_output=True, text=True, check=False
    ).stdout
    owners = {
        path.rpartition("/")[2]: owner.partition(":")[0]
        for owner, _, path in (line.rpartition(": ") for line in said.splitlines())
    }
    assert owners.keys() <= target.packages.keys()
    assert owners
    assert owners.items() <= target.packages.items()
