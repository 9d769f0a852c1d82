"""Described machines: the presets, description files, and what they bring."""

import os
import re
import subprocess
from pathlib import Path

import pytest

from tests.support.loads import load
from tests.support.values import elf, wheel
from wheelfix.analysis.installation import LoadOptions, choose_scheme, installation_of
from wheelfix.elf.model import Libc, Machine
from wheelfix.errors import SettingsError
from wheelfix.loader.machines import MACHINES
from wheelfix.loader.target_machines import (
    abi_of,
    default_name,
    described,
    find,
    names,
    populate,
)

ON_DEBIAN_12 = Path("/etc/debian_version").exists() and Path(
    "/etc/debian_version"
).read_text().startswith("12")


@pytest.mark.parametrize("name", names())
def test_every_preset_is_a_machine_whose_python_starts(name: str) -> None:
    subject = wheel({"p/a.so": elf()})
    target = find(name, subject)
    world = installation_of(subject, LoadOptions(target=target))
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
    world = installation_of(subject, LoadOptions(target=find("alpine:3.20", subject)))
    program = world.environment.files[world.environment.main or ""]
    assert program.needed[-1] == f"libc.musl-{alpine}.so.1"


def test_an_untagged_wheel_for_musl_gets_musl() -> None:
    assert default_name(wheel({"p/a.so": elf(needed=("libc.musl-x86_64.so.1",))})) == "musl"


@pytest.mark.parametrize("name", ["debian:10", "debian:", "beos", "conda+conda", ""])
def test_an_unknown_target_names_the_known_ones(name: str) -> None:
    with pytest.raises(SettingsError, match="is no target") as caught:
        find(name)
    assert "debian" in (caught.value.hint or "")


@pytest.mark.parametrize(
    ("name", "meant"),
    [("debain:12", "debian:12"), ("rhel:9+cond", "conda"), ("Alpin:3.20", "alpine:3.20")],
)
def test_a_misspelled_target_is_named_as_it_was_meant(name: str, meant: str) -> None:
    with pytest.raises(SettingsError, match="is no target") as caught:
        find(name)
    assert caught.value.hint == f"did you mean `{meant}`?"


def test_a_platform_goes_with_another_python() -> None:
    target = find("ubuntu:24.04+conda")
    assert target.name == "ubuntu:24.04+conda"
    assert (target.scheme, target.versions["GLIBC"]) == ("conda", "2.39")
    assert target.has("libselinux.so.1")
    assert find("debian").program.name == "debian"


def test_the_generic_platform_gives_what_a_tag_promises_and_no_more() -> None:
    target = find("glibc:2.17")
    assert target.has("libX11.so.6")
    assert target.has("ld-linux-aarch64.so.1")
    assert not target.has("libcuda.so.1")
    assert not find("debian:12").has("libX11.so.6")
    assert find("debian:12").packages["libX11.so.6"] == "libx11-6"


def test_only_glibc_2_33_searches_for_processor_levels() -> None:
    for preset, levels in (("rhel:8", 0), ("rhel:9", 1)):
        target = described({"extends": preset, "cpu": 3}, "mine")
        world = installation_of(wheel({"p/a.so": elf()}), LoadOptions(target=target))
        assert world.environment.subdirectories.count("glibc-hwcaps/x86-64-v3") == levels, preset


def test_a_description_file_extends_a_preset() -> None:
    target = described(
        {
            "extends": "debian:12",
            "gives": ["libcuda.so.1"],
            "versions": {"GLIBC": "2.99"},
            "library_path": ["/opt/lib"],
            "files": {"/opt/lib/libq.so": {"soname": "libq.so.2", "needed": ["libm.so.6"]}},
            "program": {"path": "/opt/app", "needed": ["libq.so"], "rpath": "/opt/lib"},
        },
        "mine",
    )
    subject = wheel({"p/a.so": elf("libcuda.so.1")})
    scheme = choose_scheme(subject, LoadOptions(target=target))
    environment = populate(
        installation_of(subject, LoadOptions(target=target)).environment,
        target,
        scheme,
        abi_of(subject),
    )
    assert environment.main == "/opt/app"
    assert environment.library_path == ("/opt/lib",)
    assert load("/opt/app", environment).objects[1] == "/opt/lib/libq.so"
    assert "/lib/x86_64-linux-gnu/libcuda.so.1" in environment.files
    assert target.has("libz.so.1")


@pytest.mark.parametrize(
    ("table", "message"),
    [
        ({"give": []}, "has no key `give`"),
        ({"gives": "libc.so.6"}, "must be a list"),
        ({"packages": []}, "must be a table"),
        ({"libc": "uclibc"}, "must be glibc or musl"),
        ({"files": {"/a": 1}}, "must be a table"),
        ({"files": {"/a": {"x": 1}}}, "has no key `x`"),
        ({"program": []}, "must be a table"),
        ({"extends": 3}, "must be a name"),
    ],
)
def test_a_bad_description_says_which_key(table: dict[str, object], message: str) -> None:
    with pytest.raises(SettingsError, match=message):
        described(table, "mine")


def test_a_description_without_a_preset_is_bare() -> None:
    target = described({"libc": "musl", "directories": ["/x"]}, "bare")
    assert (target.libc, target.directories, target.gives) == (Libc.MUSL, ("/x",), frozenset())


@pytest.mark.skipif(not ON_DEBIAN_12, reason="compares the preset with Debian 12 itself")
def test_debians_preset_is_debian() -> None:
    target = find("debian:12")
    triplet = MACHINES[Machine.X86_64].triplet if os.uname().machine == "x86_64" else ""
    cache = subprocess.run(
        ["/sbin/ldconfig", "-p"], capture_output=True, text=True, check=True
    ).stdout
    there = set(re.findall(r"^\t(\S+) \(", cache, re.MULTILINE))
    assert target.gives <= there
    libc = Path("/lib", triplet, "libc.so.6").read_bytes()
    assert f"GLIBC_{target.versions['GLIBC']}\0".encode() in libc
    newer = int(target.versions["GLIBC"].partition(".")[2]) + 1
    assert f"GLIBC_2.{newer}\0".encode() not in libc
    for library, package in target.packages.items():
        owner = subprocess.run(
            ["dpkg-query", "-S", f"*/{triplet}/{library}"],
            capture_output=True,
            text=True,
            check=False,
        ).stdout
        assert not owner or owner.partition(":")[0] == package
