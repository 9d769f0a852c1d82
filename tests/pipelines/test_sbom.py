"""The list of what was grafted: complete, true of the final wheel, the same each time."""

import hashlib
import json
import os
import subprocess
import sysconfig
import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from cyclonedx.schema import SchemaVersion
from cyclonedx.validation.json import JsonStrictValidator

from tests.support import build
from tests.support.fork_server import warm_program
from tests.support.repairing import repair
from tests.support.tools import needs
from tests.support.values import elf as make_elf
from tests.support.values import wheel as make_wheel
from wheelfix.host.os_packages import Package
from wheelfix.pipelines.graft import GraftedLibrary, HostLibrary
from wheelfix.pipelines.repair_result import Status
from wheelfix.pipelines.sbom import (
    Bundled,
    listed_packages,
    read_sbom,
    write_sbom,
)
from wheelfix.providers.model import Folder, Provided
from wheelfix.settings import ProviderSetting, Settings
from wheelfix.wheel.model import Key, Metadata
from wheelfix.wheel.reader import open_wheel

MEMBER = "demo-1.0.dist-info/sboms/wheelfix.cdx.json"


def _package(name: str, **fields: Any) -> Package:
    values: dict[str, Any] = {
        "type": "deb", "name": name, "version": "1:2.0+x~1-1", "arch": "amd64",
        "distro": "debian", "distro_version": "12",
    }  # fmt: skip
    return Package(**{**values, **fields})


def _grafted(member: str, file: str, digit: str = "0", package: Package | None = None) -> Any:
    host = HostLibrary(
        source=Path("/usr/lib", file), path=Path(file), mode=0o644, size=1, sha256=digit * 64,
        elf=make_elf(),
    )  # fmt: skip
    return GraftedLibrary(member=member, host=host, original=file, package=package)


def _written(libraries: Mapping[str, tuple[str, ...]], **packages: Package) -> dict[str, Any]:
    """Write the SBOM of `libraries`, each with what it needs of the others."""
    objects = {
        f"demo.libs/lib{name}.so": make_elf(
            *(f"lib{other}.so" for other in needed), soname=f"lib{name}.so"
        )
        for name, needed in libraries.items()
    }
    listed = [
        _grafted(f"demo.libs/lib{name}.so", f"lib{name}.so.1", package=packages.get(name))
        for name in libraries
    ]
    final = make_wheel(objects, name="My_demo-1.0+cpu-cp311-cp311-manylinux_2_28_x86_64.whl")
    content = write_sbom(final, Bundled(libraries=listed), {"wheelfix": "1", "auditwheel": "6.8.2"})
    again = Bundled(libraries=listed[::-1])
    assert write_sbom(final, again, {"auditwheel": "6.8.2", "wheelfix": "1"}) == content
    document: dict[str, Any] = json.loads(content)
    return document


def test_the_wheel_depends_on_all() -> None:
    document = _written({"b": (), "a": ("b", "m")})
    a, b = "demo.libs/liba.so", "demo.libs/libb.so"
    file_name = "My_demo-1.0%2Bcpu-cp311-cp311-manylinux_2_28_x86_64.whl"
    purl = f"pkg:pypi/my-demo@1.0%2Bcpu?file_name={file_name}"
    assert document["metadata"]["component"]["purl"] == purl
    assert document["dependencies"] == [{"ref": purl, "dependsOn": [a, b]}]


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
    ("text", "said"),
    [
        ("mit", {"license": {"id": "MIT", "acknowledgement": "declared"}}),
        ("MIT OR Zlib", {"expression": "MIT OR Zlib", "acknowledgement": "declared"}),
        ("GPLv2+", {"license": {"name": "GPLv2+", "acknowledgement": "declared"}}),
    ],
)
def test_a_license_is_an_id_an_expression_or_a_name(text: str, said: Mapping[str, Any]) -> None:
    (component,) = _written({"a": ()}, a=_package("a", license=text))["components"]
    assert component["licenses"] == [said]


def _validate(document: Mapping[str, Any], *, valid: bool = True) -> None:
    """Let the reference implementation judge."""
    check = JsonStrictValidator(SchemaVersion.V1_6)
    problem = check.validate_str(json.dumps(document))
    assert (problem is None) is valid, problem


def _provided(requirement: str, library: str, **fields: Any) -> Provided:
    folders = (Folder(Key.PLATLIB, "lib", (library,)),)
    return Provided(requirement=requirement, folders=folders, **fields)


def test_the_list_is_valid_cyclonedx(tmp_path: Path) -> None:
    licenses = (None, "MIT", "MIT OR Zlib", "GPLv2+ and so on")
    packages = {f"p{n}": _package("p", license=text) for n, text in enumerate(licenses)}
    document = _written({"unowned": (), "p0": ("p1",), "p1": (), "p2": (), "p3": ()}, **packages)
    _validate(document)
    metadata = Metadata(requires_dist=("p>=1", "p; extra == 'x'", "q; extra == 'x'"))
    subject = make_wheel({"p/x.so": make_elf("libp.so", "libq.so")}, metadata=metadata)
    file = tmp_path / "p-1-py3-none-any.whl"
    file.write_bytes(b"")
    stated = Metadata(fields=(("license", "X"),))
    known = _provided("p>=1", "libp.so", version="1", wheel=str(file), metadata=stated)
    providers = (known, _provided("q", "libq.so"))
    listed = json.loads(write_sbom(subject, Bundled(), {"wheelfix": "1"}, providers=providers))
    _validate(listed)
    names = {entry["name"] for part in listed["components"] for entry in part["properties"]}
    assert names == {"wheelfix:external", "wheelfix:requirement", "wheelfix:library"}
    first = listed["components"][0]
    assert first.keys() >= {"licenses", "hashes"}
    document["components"][0]["type"] = "nonsense"
    _validate(document, valid=False)


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


@pytest.mark.parametrize("occurrences", ["null", "0", '"x"', "{}", "[null]", '[{"location": 1}]'])
def test_a_broken_list_names_no_packages(tmp_path: Path, occurrences: str) -> None:
    component = (
        '{"bom-ref": "r", "name": "n", "version": "1", "purl": "pkg:x/n@1", '
        f'"evidence": {{"occurrences": {occurrences}}}}}'
    )
    text = f'{{"components": [{component}], "metadata": {{}}}}'
    wheel = build.make_wheel(tmp_path, files={MEMBER: text})
    with open_wheel(wheel) as archive:
        assert set(listed_packages(archive.wheel).values()) <= {"n 1"}


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


# --- What is expected beside ----------------------------------------------------------------------


def _provider(folder: Path, version: str, library: Path, metadata: str) -> Path:
    files: dict[str, Path | str] = {"pro/__init__.py": "", "pro/lib/libpro.so.3": library}
    return build.make_wheel(folder, "pro", version, "py3-none-any", files, metadata=metadata)


def _user(folder: Path, pro: Path, requires: str) -> Path:
    """Build a wheel that needs the provider's library by way of one that is grafted."""
    ours = build.shared_object(
        folder / "built/libours.so.1", "int pro(void); int ours(void) { return pro(); }",
        soname="libours.so.1", needed=[pro], runpath=str(pro.parent),
    )  # fmt: skip
    x = build.extension(
        folder / "x.so", "x", needed=[ours], calls=["ours"], rpath=f"{ours.parent}:{pro.parent}"
    )
    return build.make_wheel(folder, files={"p/x.so": x}, metadata=f"Requires-Dist: {requires}\n")


@pytest.mark.each_run("License-Expression*", "-None")
@pytest.mark.parametrize(
    ("metadata", "licenses"),
    [
        ("License-Expression: MIT\n", [{"license": {"id": "MIT", "acknowledgement": "declared"}}]),
        (
            "License: NVIDIA Proprietary\nClassifier: License :: Other\n",
            [{"license": {"name": "NVIDIA Proprietary", "acknowledgement": "declared"}}],
        ),
        (
            f"License: {'word ' * 99}\nClassifier: License :: OSI Approved :: Apache License\n",
            [{"license": {"name": "Apache License", "acknowledgement": "declared"}}],
        ),
        ("", None),
    ],
)
def test_a_provider_is_listed_with_what_is_asked_of_it_and_what_is_at_hand(
    tmp_path: Path, metadata: str, licenses: list[Any] | None
) -> None:
    library = build.shared_object(
        tmp_path / "sdk/libpro.so.3", "int pro(void) { return 1; }", soname="libpro.so.3"
    )
    provider = _provider(tmp_path, "2.0", library, metadata)
    wheel = _user(tmp_path, library, "pro<3,>=2")
    output = _repaired(wheel, tmp_path / "out", provider=(ProviderSetting(source=str(provider)),))
    document = _read(output)
    grafted, expected = document["components"]
    purl = f"pkg:pypi/pro@2.0?file_name={provider.name}"
    assert (expected["purl"], expected["bom-ref"]) == (purl, purl)
    assert (expected["version"], expected["scope"]) == ("2.0", "required")
    digest = hashlib.sha256(provider.read_bytes()).hexdigest()
    assert expected["hashes"] == [{"alg": "SHA-256", "content": digest}]
    assert expected.get("licenses") == licenses
    assert [(entry["name"], entry["value"]) for entry in expected["properties"]] == [
        ("wheelfix:external", "true"),
        ("wheelfix:requirement", "pro<3,>=2"),
        ("wheelfix:library", "libpro.so.3"),
    ]
    (depends,) = document["dependencies"]
    assert depends["ref"] == document["metadata"]["component"]["bom-ref"]
    assert depends["dependsOn"] == [grafted["bom-ref"], purl]
    again = _repaired(wheel, tmp_path / "again", provider=(ProviderSetting(source=str(provider)),))
    assert again.read_bytes() == output.read_bytes()
    third = repair(
        output,
        Settings(wheel_dir=tmp_path / "3", provider=(ProviderSetting(source=str(provider)),)),
        {},
    )
    assert third.status is Status.UNCHANGED


def test_a_provider_that_is_known_by_name_only_and_an_optional_one_are_listed_as_such() -> None:
    metadata = Metadata(requires_dist=("nvidia-cublas-cu12>=12", "o; extra == 'gpu'"))
    subject = make_wheel({"p/x.so": make_elf("libcublas.so.12", "libo.so")}, metadata=metadata)
    providers = (_provided("nvidia-cublas-cu12", "libcublas.so.12"), _provided("o", "libo.so"))
    document = json.loads(write_sbom(subject, Bundled(), {"wheelfix": "1"}, providers=providers))
    cublas, optional = document["components"]
    assert cublas["purl"] == "pkg:pypi/nvidia-cublas-cu12"
    assert not {"version", "hashes", "licenses"} & cublas.keys()
    assert optional["scope"] == "optional"


# --- What was listed before -----------------------------------------------------------------------


def _earlier(text: str) -> dict[str, dict[str, Any]] | None:
    return read_sbom(text, lambda member: () if "gone" in member else (member,))


def test_of_an_earlier_list_all_stays_that_is_still_in_the_wheel() -> None:
    kept, gone = "demo.libs/liba.so", "demo.libs/libgone.so"
    objects = {kept: make_elf(soname="liba.so"), gone: make_elf("liba.so", soname="libgone.so")}
    listed = Bundled(libraries=[_grafted(member, "x") for member in objects])
    first = write_sbom(make_wheel(objects), listed, {"wheelfix": "1", "auditwheel": "6.1"})
    earlier = _earlier(first.decode())
    assert earlier is not None
    added = "demo.libs/libb.so"
    second = make_wheel({kept: make_elf(), added: make_elf("liba.so", soname="libb.so")})
    new = Bundled(libraries=[_grafted(added, "b", "1")])
    document = json.loads(write_sbom(second, new, {"wheelfix": "2"}, earlier=earlier))
    assert [component["bom-ref"] for component in document["components"]] == [kept, added]
    renewed = Bundled(libraries=[_grafted(kept, "a", "2")])
    document = json.loads(write_sbom(second, renewed, {"wheelfix": "2"}, earlier=earlier))
    assert [component["name"] for component in document["components"]] == ["a"]


def test_an_expected_provider_is_renewed_and_removed_with_its_last_library() -> None:
    def provided(version: str) -> Provided:
        return _provided("p", "libp.so", version=version)

    user = make_wheel({"p/x.so": make_elf("libp.so")})
    earlier = _earlier(write_sbom(user, Bundled(), {}, providers=(provided("1"),)).decode())
    assert earlier is not None
    for again, versions in (((provided("2"),), ["2"]), ((), ["1"])):
        text = write_sbom(user, Bundled(), {}, providers=again, earlier=earlier)
        assert [component["version"] for component in json.loads(text)["components"]] == versions
    other = make_wheel({"p/x.so": make_elf()})
    assert json.loads(write_sbom(other, Bundled(), {}, earlier=earlier))["components"] == []


@pytest.mark.parametrize(
    "text",
    [
        "", "{}", "[]", "nonsense", '"x"', "[" * 100_000,
        '{"bom-ref": 1, "name": ""}', '{"bom-ref": []}', '{"bom-ref": "b", "name": {}}',
        '{"bom-ref": "b", "name": "b", "properties": [7]}',
        '{"bom-ref": "b", "name": "b", "evidence": {"occurrences": [7]}}',
        '{"bom-ref": "b", "name": "b", "evidence": 7}',
    ],
)  # fmt: skip
def test_what_is_no_such_list_is_left_alone(text: str) -> None:
    own = '{"metadata": {"component": {"bom-ref": "a"}}, "components": '
    assert _earlier(f"{own}[{text}]}}" if "bom-ref" in text else text) is None
    assert _earlier(f"{own}[]}}") == {}


ODD: list[Any] = [None, 0, 1.5, True, "x", "\ud800", [], {}, [7], {"a": []}, [[]], [{}], [None]]


@pytest.mark.parametrize(
    "field",
    [
        "bom-ref", "name", "version", "purl", "hashes", "hash", "alg", "content", "properties",
        "property", "evidence", "occurrences", "location", "licenses", "dependencies", "row", "ref",
        "dependsOn", "metadata", "component", "tools", "tool", "components", "externalReferences",
    ],
)  # fmt: skip
def test_a_list_with_an_odd_value_is_read_or_left_alone(field: str) -> None:
    """Two components of one package are put together, with the hashes of both."""
    wheel = make_wheel({"p/x.so": make_elf()})
    for odd in ODD:
        value: dict[str, Any] = {field: odd}
        occurrence = {"location": value.get("location", "p/x.so")}
        component = {
            "bom-ref": "r", "name": "n", "version": "1", "purl": "pkg:x/n@1",
            "hashes": [value.get("hash", {"alg": value.get("alg", "SHA-256"),
                                          "content": value.get("content", "00")})],
            "properties": [value.get("property", {"name": "a", "value": "b"})],
            "evidence": {"occurrences": value.get("occurrences", [occurrence])},
            "licenses": [], "externalReferences": [],
        }  # fmt: skip
        component |= {key: odd for key in component if key == field}
        row = value.get("row", {"ref": value.get("ref", "r"), "dependsOn": ["s"]})
        if field == "dependsOn":
            row = {"ref": "r", "dependsOn": odd}
        document = {
            "components": [component, {**component, "bom-ref": "s"}],
            "metadata": {
                "component": value.get("component", {"bom-ref": "own"}),
                "tools": value.get("tools", [value.get("tool", {"name": "t", "version": "1"})]),
            },
            "dependencies": [row],
        }
        document |= {key: odd for key in document if key == field}
        earlier = read_sbom(json.dumps(document), lambda member: (member,))
        if earlier is not None:
            text = write_sbom(wheel, Bundled(), {}, earlier=earlier)
            assert json.loads(text)["bomFormat"] == "CycloneDX"


@pytest.mark.parametrize("text", ["NaN", "-Infinity", "[" * 100_000 + "]" * 100_000])
def test_a_list_that_cannot_be_written_again_is_left_alone(text: str) -> None:
    component = f'{{"bom-ref": "r", "name": "n", "licenses": {text}}}'
    own = '{"metadata": {"component": {"bom-ref": "a"}}, "components": '
    assert _earlier(f"{own}[{component}]}}") is None


def _with_another_object(wheel: Path, folder: Path, member: str, content: Path) -> Path:
    """Put one more object into a repaired wheel, as a project that adds plugins does."""
    with zipfile.ZipFile(wheel) as archive:
        files: dict[str, bytes | Path] = {
            name: archive.read(name)
            for name in archive.namelist()
            if not name.endswith(("/", ".dist-info/RECORD", ".dist-info/WHEEL", "/METADATA"))
        }
    return build.make_wheel(folder, files={**files, member: content})


@needs("dpkg")
@pytest.mark.parametrize("tool", ["auditwheel", "wheelfix"])
def test_the_list_of_a_first_repair_is_in_that_of_the_second(tmp_path: Path, tool: str) -> None:
    owned, function = _owned_library()
    x = build.extension(tmp_path / "x.so", "x", needed=[owned], calls=[function])
    wheel = build.make_wheel(tmp_path, files={"p/x.so": x})
    if tool == "auditwheel":
        command = [warm_program("auditwheel"), "repair", "-w", str(tmp_path / "1")]
        command.append(str(wheel))
        scripts = sysconfig.get_path("scripts")
        path = f"{scripts}:{os.environ['PATH']}"
        subprocess.run(command, env={**os.environ, "PATH": path}, check=True, capture_output=True)
        (first,) = (tmp_path / "1").glob("*.whl")
    else:
        first = _repaired(wheel, tmp_path / "1")
    member = f"demo-1.0.dist-info/sboms/{tool}.cdx.json"
    with zipfile.ZipFile(first) as archive:
        before = json.loads(archive.read(member))
    own = before["metadata"]["component"]["bom-ref"]
    listed = [component for component in before["components"] if component["bom-ref"] != own]
    assert listed
    library = _library(tmp_path / "built", "a")
    y = build.extension(
        tmp_path / "y.so", "y", needed=[library], calls=["a"], rpath=str(library.parent)
    )
    output = _repaired(_with_another_object(first, tmp_path / "2", "p/y.so", y), tmp_path / "out")
    document = _read(output)
    assert [component for component in document["components"] if component in listed] == listed
    names = [component["name"] for component in document["components"]]
    assert names.count("liba.so.1") == 1
    assert len(names) == len(listed) + 1
    refs = [component["bom-ref"] for component in document["components"]]
    assert len(refs) == len(set(refs))
    assert document["dependencies"][0]["dependsOn"] == sorted(refs)
    with zipfile.ZipFile(output) as archive:
        assert "demo-1.0.dist-info/sboms/auditwheel.cdx.json" not in archive.namelist()
    _validate(document)


@needs("dpkg")
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
