"""Install schemes: what wheelfix believes, against what pip and uv really do."""

import os
import subprocess
import sysconfig
import zipfile
from pathlib import Path

import pytest
from packaging.tags import cpython_tags, parse_tag

from tests.support.build import make_wheel
from tests.support.tools import needs_pip
from tests.support.trees import DEBIAN_PYTHON, has_debian_python, install
from wheelfix.elf.model import Elf, ElfType
from wheelfix.loader.install_schemes import (
    Layout,
    Scheme,
    describe,
    entries_between,
    has_installable_tags,
    installed_path,
    interpreters,
    layouts,
    relative_entry,
    schemes,
    split,
)
from wheelfix.wheel.model import DistInfo, Key, Member, Wheel, WheelName

HERE = f"python{sysconfig.get_python_version()}"
LIBRARY = Elf(bits=64, little_endian=True, machine=62, osabi=0, flags=0, type=ElfType.DYN)
CONTENT = (
    "marker/root.so",
    "marker.libs/grafted.so",
    "taken/root.so",
    "include.so",
    "{data}/platlib/marker/platlib.so",
    "{data}/purelib/marker/purelib.so",
    "{data}/data/own/data.so",
    "{data}/data/own/deep/data.so",
    "{data}/data/top.so",
    "{data}/data/marker/data.so",
    "{data}/data/taken/data.so",
    "{data}/data/lib/data.so",
    "{data}/data/li/data.so",
    "{data}/data/bin/data.so",
    "{data}/headers/header.so",
    "{data}/headers/sub/header.so",
    "{data}/scripts/script.so",
)


def wheel_of(
    *members: str,
    tag: str = "cp311-cp311-linux_x86_64",
    name: str = "x",
    root_is_purelib: bool = False,
) -> Wheel:
    """Return a wheel value with these files; what ends in `.so` is an ELF object."""
    return Wheel(
        name=WheelName.parse(f"{name}-1.0-{tag}.whl"),
        members=tuple(Member(name=each, size=1, compressed_size=1) for each in members),
        dist_info=DistInfo(f"{name}-1.0.dist-info"),
        tags=(tag,),
        root_is_purelib=root_is_purelib,
        elfs={each: LIBRARY for each in members if each.endswith(".so")},
    )


def marker(folder: Path, name: str = "marker", *members: str) -> tuple[Path, Wheel]:
    """Build a wheel with a file for every key of a scheme; return it on disk and as a value."""
    files = [each.format(data=f"{name}-1.0.data") for each in members or CONTENT]
    path = make_wheel(folder, name, tag="py3-none-linux_x86_64", files=dict.fromkeys(files, b"x"))
    with zipfile.ZipFile(path) as archive:
        names = archive.namelist()
    return path, wheel_of(*names, tag="py3-none-linux_x86_64", name=name)


def chosen(wheel: Wheel, name: str, python: str = HERE) -> Scheme:
    (scheme,) = (s for s in schemes(wheel.name) if (s.name, s.python) == (name, python))
    return scheme


def layout_of(wheel: Wheel, scheme: Scheme) -> Layout:
    (layout,) = (layout for layout in layouts(wheel) if scheme in layout.schemes)
    return layout


def predicted(wheel: Wheel, scheme: Scheme) -> set[str]:
    """Return where the scheme puts the marker files, relative to the environment."""
    kept = layout_of(wheel, scheme).paths
    paths = {installed_path(member, wheel, scheme) for member in kept}
    return {path.removeprefix("/env/") for path in paths if path}


def found(root: Path) -> set[str]:
    return {
        os.path.relpath(Path(folder, name), root)
        for folder, _, names in os.walk(root)
        for name in names
        if name.endswith(".so")
    }


@pytest.mark.each_run("*-uv-*", "target-pip-*")
@pytest.mark.parametrize(
    ("way", "name"),
    [
        ("venv-pip", "venv"),
        ("venv-uv", "venv"),
        ("prefix-pip", "prefix"),
        ("prefix-uv", "venv"),
        ("user-pip", "user"),
        ("target-pip", "target-pip"),
        ("target-uv", "target-uv"),
    ],
)
def test_every_file_lands_where_the_scheme_says(way: str, name: str, tmp_path: Path) -> None:
    path, wheel = marker(tmp_path)
    install(path, way, tmp_path / "env")
    assert found(tmp_path / "env") == predicted(wheel, chosen(wheel, name))


@pytest.mark.each_run("--root-*")
@pytest.mark.skipif(not has_debian_python(), reason="needs Debian's python3")
@pytest.mark.parametrize(
    ("option", "name"), [("--prefix", "debian-prefix-pip"), ("--root", "debian-system")]
)
def test_debian_has_schemes_of_its_own(option: str, name: str, tmp_path: Path) -> None:
    needs_pip(DEBIAN_PYTHON)
    path, wheel = marker(tmp_path)
    asked = "import sysconfig; print('python' + sysconfig.get_python_version())"
    python = subprocess.check_output([DEBIAN_PYTHON, "-c", asked], text=True).strip()
    command = [str(DEBIAN_PYTHON), "-m", "pip", "install", "-q", "--no-deps", "--no-index"]
    command += ["--break-system-packages", "--ignore-installed", "--no-warn-script-location"]
    command += ["--root-user-action=ignore", option, str(tmp_path / "env"), str(path)]
    subprocess.run(command, check=True, capture_output=True)
    assert found(tmp_path / "env") == predicted(wheel, chosen(wheel, name, python))


def test_pip_target_loses_scripts_and_headers_where_the_wheel_has_such_packages(
    tmp_path: Path,
) -> None:
    path, wheel = marker(
        tmp_path,
        "marker",
        "bin/root.so",
        "include/root.so",
        "{data}/scripts/script.so",
        "{data}/headers/header.so",
        "{data}/data/bin/data.so",
        "{data}/data/share/data.so",
    )
    install(path, "target-pip", tmp_path / "env")
    expected = {"bin/root.so", "include/root.so", "share/data.so"}
    assert found(tmp_path / "env") == expected
    assert predicted(wheel, chosen(wheel, "target-pip")) == expected


@pytest.mark.parametrize("scheme", ["lib64", "free-threaded"])
def test_variants_of_cpython_are_sysconfigs(scheme: str) -> None:
    version = "3.13t" if scheme == "free-threaded" else "3.13"
    wheel = wheel_of("x/a.so", tag="cp313-none-linux_x86_64")
    ours = chosen(wheel, "prefix" if scheme == "free-threaded" else scheme, f"python{version}")
    variables = {
        "base": "/env",
        "platbase": "/env",
        "installed_base": "/env",
        "py_version_short": version,
        "platlibdir": "lib64" if scheme == "lib64" else "lib",
        "abiflags": "",
        "abi_thread": "",
    }
    theirs = sysconfig.get_paths("posix_prefix", vars=variables)
    for key in ("purelib", "platlib", "data", "scripts"):
        assert ours.base(Key(key)) == theirs[key]
    assert ours.headers == f"{theirs['include']}/x"


# --- Which interpreters and schemes ---------------------------------------------------------------


@pytest.mark.parametrize(
    ("tag", "expected"),
    [
        ("cp311-cp311-linux_x86_64", "python3.11"),
        ("cp313-cp313t-linux_x86_64", "python3.13t"),
        ("cp313-cp313td-linux_x86_64", "python3.13t"),
        ("cp37-cp37m-linux_x86_64", "python3.7"),
        ("cp27-cp27mu-linux_x86_64", "python2.7"),
        ("cp313-abi3-linux_x86_64", "python3.13 python3.14 python3.15"),
        ("cp314-none-linux_x86_64", "python3.14 python3.14t"),
        ("cp315-abi3.abi3t-linux_x86_64", "python3.15 python3.15t"),
        ("cp311.cp312-cp311.cp312-linux_x86_64", "python3.11 python3.12"),
        ("pp39-pypy39_pp73-linux_x86_64", "pypy3.9"),
        (
            "py2.py3-none-linux_x86_64",
            " ".join(
                [
                    *(f"python3.{minor}" for minor in range(8, 13)),
                    *("python3.13", "python3.13t", "python3.14", "python3.14t"),
                    *("python3.15", "python3.15t", "pypy3.9", "pypy3.10", "pypy3.11"),
                ]
            ),
        ),
        ("py314-none-any", "python3.14 python3.14t python3.15 python3.15t"),
    ],
)
def test_tags_name_interpreters(tag: str, expected: str) -> None:
    assert " ".join(interpreters(WheelName.parse(f"x-1.0-{tag}.whl"))) == expected


@pytest.mark.parametrize(
    "tag",
    [
        *("cp315t-abi3t", "cp315-abi3t", "cp315-abi3.abi3t", "cp38-abi3", "cp314-none"),
        *("cp311-cp312", "cp311.cp312-cp312", "cp313-cp313t", "cp313t-cp313t", "cp313-cp313td"),
        *("cp37-cp37m", "cp310-cp31"),
    ],
)
def test_tags_are_possible_that_some_cpython_has(tag: str) -> None:
    known = {
        one
        for minor in range(7, 16)
        for flags in ("", "t", "td", "m")
        for one in cpython_tags((3, minor), [f"cp3{minor}{flags}"], ["any"])
    }
    possible = not known.isdisjoint(parse_tag(f"{tag}-any"))
    assert has_installable_tags(WheelName.parse(f"x-1.0-{tag}-any.whl")) == possible


@pytest.mark.parametrize(
    "tag", ["cp27-cp27mu", "py2.py3-none", "pp311-pypy311_pp73", "graalpy312-x"]
)
def test_tags_of_other_pythons_are_possible(tag: str) -> None:
    assert has_installable_tags(WheelName.parse(f"x-1.0-{tag}-any.whl"))


def test_musl_knows_no_debian_and_32_bits_no_lib64() -> None:
    def names(platform: str) -> set[str]:
        name = WheelName.parse(f"x-1.0-cp311-cp311-{platform}.whl")
        return {scheme.name for scheme in schemes(name)}

    everywhere = {"venv", "prefix", "user", "target-uv", "target-pip"}
    debian = {"debian-system", "debian-prefix-pip", "conda"}
    assert names("musllinux_1_2_x86_64") == everywhere
    assert names("manylinux_2_17_i686") == everywhere | debian
    assert names("manylinux_2_17_x86_64") == everywhere | debian | {"lib64"}


def test_scripts_stand_beside_the_data_in_every_scheme() -> None:
    for scheme in schemes(WheelName.parse("x-1.0-py3-none-linux_x86_64.whl")):
        assert scheme.scripts == f"{scheme.data}/bin"


# --- Members and layouts --------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("member", "expected"),
    [
        ("x/a.so", (Key.PLATLIB, "x/a.so")),
        ("x-1.0.data/purelib/x/a.so", (Key.PURELIB, "x/a.so")),
        ("x-1.0.data/data/lib/a.so", (Key.DATA, "lib/a.so")),
        ("x-1.0.data/data", (Key.DATA, "")),
        ("x-1.0.data/nonsense/a.so", None),
        ("x-1.0.data/a.so", None),
        ("y-1.0.data/data/a.so", (Key.PLATLIB, "y-1.0.data/data/a.so")),
    ],
)
def test_split(member: str, expected: tuple[Key, str] | None) -> None:
    assert split(member, wheel_of(member)) == expected


def test_the_root_is_purelib_if_wheel_says_so() -> None:
    assert split("x/a.so", wheel_of(root_is_purelib=True)) == (Key.PURELIB, "x/a.so")


def test_package_files_have_one_layout_whatever_the_tags() -> None:
    wheel = wheel_of("x/a.so", "x.libs/b.so", "x-1.0.data/data/t", tag="py3-none-linux_x86_64")
    (layout,) = layouts(wheel)
    assert len(layout.schemes) == len(schemes(wheel.name))
    site = "/env/lib/python3.8/site-packages"
    assert layout.paths == {"x/a.so": f"{site}/x/a.so", "x.libs/b.so": f"{site}/x.libs/b.so"}
    assert layout.members[f"{site}/x/a.so"] == "x/a.so"
    assert {f"{site}/x", f"{site}/x.libs", site, "/env/lib", "/env"} <= layout.directories


def test_a_data_file_has_a_layout_for_each_way_to_site_packages() -> None:
    found = [
        describe(each.schemes) for each in layouts(wheel_of("x/a.so", "x-1.0.data/data/x/b.so"))
    ]
    assert found == [
        "venv, prefix, user, conda (python3.11)",
        "target-uv (python3.11)",
        "target-pip (python3.11)",
        "debian-system, debian-prefix-pip (python3.11)",
        "lib64 (python3.11)",
    ]


def test_lib64_tears_purelib_and_platlib_apart() -> None:
    wheel = wheel_of("x/a.so", "x-1.0.data/platlib/x/b.so", root_is_purelib=True)
    first, second = layouts(wheel)
    assert (
        first.paths["x/a.so"].rpartition("/")[0]
        == first.paths["x-1.0.data/platlib/x/b.so"].rpartition("/")[0]
    )
    assert second.paths == {
        "x/a.so": "/env/lib/python3.11/site-packages/x/a.so",
        "x-1.0.data/platlib/x/b.so": "/env/lib64/python3.11/site-packages/x/b.so",
    }


# --- Relative entries -----------------------------------------------------------------------------


def entries(user: str, directory: str, tag: str = "cp311-cp311-linux_x86_64") -> tuple[str, ...]:
    wheel = wheel_of(user, tag=tag)
    return entries_between(user, split(directory, wheel), wheel, schemes(wheel.name))


def test_one_entry_is_right_everywhere_within_a_scheme_path() -> None:
    anything = "py3-none-linux_x86_64"
    assert entries("x/a.so", "x.libs", anything) == ("$ORIGIN/../x.libs",)
    assert entries("x.libs/a.so", "x.libs", anything) == ("$ORIGIN",)
    assert entries("x-1.0.data/platlib/x/y/a.so", "x.libs", anything) == ("$ORIGIN/../../x.libs",)
    assert entries("x-1.0.data/scripts/a", "x-1.0.data/data/l", anything) == ("$ORIGIN/../l",)


def test_each_way_from_data_to_site_packages_is_an_entry() -> None:
    assert entries("x-1.0.data/data/x/a.so", "x.libs") == (
        "$ORIGIN/../lib/python3.11/site-packages/x.libs",
        "$ORIGIN/../x.libs",
        "$ORIGIN/../lib/python3.11/dist-packages/x.libs",
        "$ORIGIN/../lib64/python3.11/site-packages/x.libs",
    )


def test_what_is_never_installed_is_never_reached() -> None:
    assert entries("x-1.0.data/nonsense/a.so", "x.libs") == ()


def test_relative_entry() -> None:
    assert relative_entry("/env/x", "/env/x") == "$ORIGIN"
    assert relative_entry("/env/x/y", "/env/x.libs") == "$ORIGIN/../../x.libs"


def test_schemes_are_described_in_few_words() -> None:
    name = WheelName.parse("x-1.0-cp38-abi3-musllinux_1_2_x86_64.whl")
    assert describe(schemes(name)) == (
        "venv, prefix, user, target-uv, target-pip (python3.8 to 3.15)"
    )
