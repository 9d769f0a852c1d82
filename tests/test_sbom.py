"""The list of what was grafted: complete, true of the final wheel, the same each time."""

import hashlib
import json
import os
import shutil
import subprocess
import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

import build
from values import elf as make_elf
from values import wheel as make_wheel
from wheelfix.outcome import Status
from wheelfix.repairing import repair
from wheelfix.sbom import Library, Package, write_sbom
from wheelfix.settings import Settings

MEMBER = "demo-1.0.dist-info/sboms/wheelfix.cdx.json"


def _package(name: str, **fields: Any) -> Package:
    values: dict[str, Any] = {
        "type": "deb", "name": name, "version": "1:2.0+x~1-1", "arch": "amd64",
        "distro": "debian", "distro_version": "12",
    }  # fmt: skip
    return Package(**{**values, **fields})


def _written(libraries: Mapping[str, tuple[str, ...]], **packages: Package) -> dict[str, Any]:
    """Write the SBOM of `libraries`, each with what it needs of the others."""
    objects = {
        f"demo.libs/lib{name}.so": make_elf(
            *(f"lib{other}.so" for other in needed), soname=f"lib{name}.so"
        )
        for name, needed in libraries.items()
    }
    listed = [
        Library(
            file=f"lib{name}.so.1", sha256="0" * 64, package=packages.get(name),
            members=(f"demo.libs/lib{name}.so",),
        )
        for name in libraries
    ]  # fmt: skip
    final = make_wheel(objects, name="My_demo-1.0+cpu-cp311-cp311-manylinux_2_28_x86_64.whl")
    content = write_sbom(final, listed, {"wheelfix": "1", "auditwheel": "6.8.2"})
    assert write_sbom(final, listed[::-1], {"auditwheel": "6.8.2", "wheelfix": "1"}) == content
    document: dict[str, Any] = json.loads(content)
    return document


def test_the_wheel_depends_on_all_and_each_on_what_it_needs() -> None:
    document = _written({"b": (), "a": ("b", "m")})
    a, b = "demo.libs/liba.so", "demo.libs/libb.so"
    file_name = "My_demo-1.0%2Bcpu-cp311-cp311-manylinux_2_28_x86_64.whl"
    purl = f"pkg:pypi/my-demo@1.0%2Bcpu?file_name={file_name}"
    assert document["metadata"]["component"]["purl"] == purl
    assert document["dependencies"] == [
        {"ref": purl, "dependsOn": [a, b]},
        {"ref": a, "dependsOn": [b]},
        {"ref": b, "dependsOn": []},
    ]


def test_a_library_is_called_by_its_package_or_by_its_file() -> None:
    owned, unowned = _written({"a": (), "b": ()}, a=_package("libA1"))["components"]
    assert (owned["name"], owned["version"]) == ("libA1", "1:2.0+x~1-1")
    assert owned["purl"] == "pkg:deb/debian/liba1@1:2.0%2Bx~1-1?arch=amd64&distro=debian-12"
    assert unowned["name"] == "libb.so.1"
    assert not {"version", "purl", "licenses"} & unowned.keys()


@pytest.mark.parametrize(
    ("package", "purl"),
    [
        (
            _package("libX", type="rpm", epoch="1", distro="almalinux", distro_version="8.10"),
            "pkg:rpm/almalinux/libX@1:2.0%2Bx~1-1?arch=amd64&distro=almalinux-8.10&epoch=1",
        ),
        (
            _package("libstdc++", type="apk", distro="alpine", version="13-r1"),
            "pkg:apk/alpine/libstdc%2B%2B@13-r1?arch=amd64&distro=alpine-12",
        ),
        (
            _package("a", version="1", distro_version=""),
            "pkg:deb/debian/a@1?arch=amd64&distro=debian",
        ),
    ],
    ids=["rpm", "apk", "rolling"],
)  # fmt: skip
def test_package_urls_are_written_as_their_types_say(package: Package, purl: str) -> None:
    assert package.purl == purl


@pytest.mark.parametrize(
    ("licence", "said"),
    [
        ("mit", {"license": {"id": "MIT", "acknowledgement": "declared"}}),
        ("MIT OR Zlib", {"expression": "MIT OR Zlib", "acknowledgement": "declared"}),
        ("GPLv2+", {"license": {"name": "GPLv2+", "acknowledgement": "declared"}}),
    ],
)
def test_a_licence_is_an_id_an_expression_or_a_name(licence: str, said: Mapping[str, Any]) -> None:
    (component,) = _written({"a": ()}, a=_package("a", licence=licence))["components"]
    assert component["licenses"] == [said]


def test_the_list_is_valid_cyclonedx() -> None:
    validation = pytest.importorskip(
        "cyclonedx.validation.json", reason="needs cyclonedx-python-lib[json-validation]"
    )
    schema = pytest.importorskip("cyclonedx.schema")
    licences = (None, "MIT", "MIT OR Zlib", "GPLv2+ and so on")
    packages = {f"p{n}": _package("p", licence=text) for n, text in enumerate(licences)}
    document = _written({"unowned": (), "p0": ("p1",), "p1": (), "p2": (), "p3": ()}, **packages)
    check = validation.JsonStrictValidator(schema.SchemaVersion.V1_6)
    assert check.validate_str(json.dumps(document)) is None
    document["components"][0]["type"] = "nonsense"
    assert check.validate_str(json.dumps(document)) is not None


# --- In a repaired wheel ------------------------------------------------------------------------


def _repaired(wheel: Path, output: Path, **options: Any) -> Path:
    outcome = repair(wheel, Settings(wheel_dir=output, **options), os.environ)
    assert outcome.status is Status.REPAIRED, (outcome.error, outcome.remaining)
    assert outcome.output is not None
    return outcome.output


def _read(wheel: Path) -> dict[str, Any]:
    with zipfile.ZipFile(wheel) as archive:
        document: dict[str, Any] = json.loads(archive.read(MEMBER))
    return document


def _library(directory: Path, name: str) -> Path:
    return build.shared_object(
        directory / f"lib{name}.so.1", f"int {name}(void) {{ return 1; }}", soname=f"lib{name}.so.1"
    )


def test_a_repaired_wheel_lists_what_was_grafted_under_its_final_name(tmp_path: Path) -> None:
    library = _library(tmp_path / "built", "a")
    x = build.extension(
        tmp_path / "x.so", "x", needed=[library], calls=["a"], rpath=str(library.parent)
    )
    sbom = "demo-1.0.dist-info/sboms/auditwheel.cdx.json"
    wheel = build.make_wheel(tmp_path, files={"p/x.so": x, sbom: b"{}"})
    output = _repaired(wheel, tmp_path / "out")
    document = _read(output)
    (component,) = document["components"]
    assert component["name"] == "liba.so.1"
    digest = hashlib.sha256(library.read_bytes()).hexdigest()
    assert component["hashes"] == [{"alg": "SHA-256", "content": digest}]
    (place,) = component["evidence"]["occurrences"]
    with zipfile.ZipFile(output) as archive:
        assert place["location"] in archive.namelist()
        assert archive.read(sbom) == b"{}"
    assert document["metadata"]["component"]["purl"].endswith(f"?file_name={output.name}")
    again = _repaired(wheel, tmp_path / "again")
    assert again.read_bytes() == output.read_bytes()


def test_copies_for_other_install_schemes_are_listed_too(tmp_path: Path) -> None:
    library = _library(tmp_path / "built", "a")
    x = build.extension(
        tmp_path / "x.so", "x", needed=[library], calls=["a"], rpath=str(library.parent)
    )
    y = build.shared_object(
        tmp_path / "liby.so", "int a(void); int y(void) { return a(); }",
        needed=[library], rpath=str(library.parent),
    )  # fmt: skip
    wheel = build.make_wheel(tmp_path, files={"p/x.so": x, "demo-1.0.data/data/lib/liby.so": y})
    output = _repaired(wheel, tmp_path / "out")
    (component,) = _read(output)["components"]
    with zipfile.ZipFile(output) as archive:
        held = {name for name in archive.namelist() if Path(name).name.startswith("liba")}
    listed = [place["location"] for place in component["evidence"]["occurrences"]]
    assert len(listed) == 2
    assert set(listed) == held


def test_a_wheel_without_grafts_has_no_list(tmp_path: Path) -> None:
    wheel = build.make_wheel(tmp_path, files={"p/x.so": build.extension(tmp_path / "x.so", "x")})
    with zipfile.ZipFile(_repaired(wheel, tmp_path / "out")) as archive:
        assert not [name for name in archive.namelist() if "sboms" in name]


def test_the_list_of_an_earlier_repair_gives_way_to_a_new_one_only(tmp_path: Path) -> None:
    library = _library(tmp_path / "built", "a")
    x = build.extension(
        tmp_path / "x.so", "x", needed=[library], calls=["a"], rpath=str(library.parent)
    )
    plain = build.extension(tmp_path / "plain.so", "plain")
    old = build.make_wheel(tmp_path / "old", files={"p/plain.so": plain, MEMBER: b"{}"})
    new = build.make_wheel(tmp_path / "new", files={"p/x.so": x, MEMBER: b"{}"})
    assert _read(_repaired(old, tmp_path / "out/old")) == {}
    assert _read(_repaired(new, tmp_path / "out/new"))["components"]


@pytest.mark.skipif(shutil.which("dpkg") is None, reason="no dpkg here")
def test_a_library_of_this_machine_is_listed_with_its_package(tmp_path: Path) -> None:
    library, function = _owned_library()
    x = build.extension(tmp_path / "x.so", "x", needed=[library], calls=[function])
    output = _repaired(build.make_wheel(tmp_path, files={"p/x.so": x}), tmp_path / "out")
    component = next(c for c in _read(output)["components"] if c["name"].startswith("lib"))
    name, version = component["name"], component["version"]
    said = subprocess.run(
        ["dpkg-query", "-W", "-f=${Version} ${Architecture}\n", name],
        capture_output=True, text=True, check=True,
    ).stdout.split()  # fmt: skip
    assert version == said[0]
    assert f"arch={said[1]}" in component["purl"]


def _owned_library() -> tuple[Path, str]:
    """Return a library that no policy allows, and a function of it."""
    functions = {
        "libffi.so.8": "ffi_call",
        "libgmp.so.10": "__gmpz_init",
        "libsqlite3.so.0": "sqlite3_step",
        "libzstd.so.1": "ZSTD_versionNumber",
    }
    for name, function in functions.items():
        for path in Path("/usr/lib").glob(f"*-linux-gnu/{name}"):
            return path, function
    pytest.skip("no library of a package")
