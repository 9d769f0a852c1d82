"""Licenses of grafted libraries: texts, License-File, License-Expression, SBOM and the rule."""

import json
import subprocess
import sys
import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any, cast
from urllib.parse import unquote

import pytest
from cyclonedx.model.bom import Bom
from cyclonedx.output.json import JsonV1Dot6
from cyclonedx.schema import SchemaVersion
from cyclonedx.validation.json import JsonStrictValidator
from packaging.metadata import Metadata

from tests.support import build
from tests.support.installers import install
from tests.support.repairing import repair
from wheelfix import check
from wheelfix.host.os_packages import LicenseText, Package
from wheelfix.pipelines.bundled_licenses import join_expressions, license_texts
from wheelfix.pipelines.repair_result import Outcome, Status
from wheelfix.reports.repair_text import plan, summary
from wheelfix.settings import Component, Licenses, PruneNeeded, Settings
from wheelfix.wheel.reader import open_wheel

INFO = "demo-1.0.dist-info"
BUNDLED = f"{INFO}/licenses/bundled"
SBOM = f"{INFO}/sboms/wheelfix.cdx.json"


@pytest.fixture
def library(tmp_path: Path) -> Path:
    """Build a library of no package."""
    return build.shared_object(tmp_path / "lib" / "libowed.so.1", soname="libowed.so.1")


def _wheel(
    folder: Path, *needed: Path, metadata: str = "", files: Mapping[str, bytes] | None = None
) -> Path:
    x = build.extension(folder / "x.so", "x", needed=needed)
    return build.make_wheel(
        folder, files={"demo/__init__.py": b"", "demo/x.so": x, **(files or {})}, metadata=metadata
    )


def _repair(wheel: Path, *folders: Path, **settings: Any) -> Outcome:
    options = Settings(
        wheel_dir=wheel.parent / "out",
        library_path=tuple(map(str, folders)),
        prune_needed=PruneNeeded.OFF,
        **settings,
    )
    outcome = repair(wheel, options, {"PATH": "/usr/bin:/bin"})
    assert outcome.error is None, outcome.error
    return outcome


def _read(outcome: Outcome) -> dict[str, bytes]:
    assert outcome.output is not None
    with zipfile.ZipFile(outcome.output) as archive:
        return {name: archive.read(name) for name in archive.namelist()}


def _metadata(files: Mapping[str, bytes]) -> Metadata:
    """Read METADATA as PyPI does; it is valid."""
    return Metadata.from_email(files[f"{INFO}/METADATA"])


def _components(files: Mapping[str, bytes]) -> list[dict[str, Any]]:
    text = files[SBOM].decode()
    assert JsonStrictValidator(SchemaVersion.V1_6).validate_str(text) is None
    return list(json.loads(text)["components"])


def _lacking(path: Path | None) -> set[str]:
    assert path is not None
    found = check(path, Settings(select=("no-license-text",))).findings
    return {finding.member or "" for finding in found}


def _of_debian() -> Path:
    """Return a library that no policy allows, whose package has a copyright file."""
    for path in Path("/usr/lib").glob("*-linux-gnu/libgfortran.so.5"):
        if Path("/usr/share/doc/libgfortran5/copyright").is_file():
            return path
    pytest.skip("no libgfortran5 of Debian")


def test_the_copyright_files_of_debian_are_brought_along(tmp_path: Path) -> None:
    outcome = _repair(_wheel(tmp_path, _of_debian()), licenses=Licenses.METADATA)
    files = _read(outcome)
    original = Path("/usr/share/doc/libgfortran5/copyright")
    inner = f"bundled/{original.resolve().parent.name}/copyright"
    assert files[f"{INFO}/licenses/{inner}"] == original.read_bytes()
    gpl = Path("/usr/share/common-licenses/GPL-3").read_bytes()
    assert files[f"{BUNDLED}/common-licenses/GPL-3"] == gpl, "the copyright file refers to it"
    metadata = _metadata(files)
    assert metadata.metadata_version == "2.4"
    assert inner in (metadata.license_files or [])
    assert {f"{INFO}/licenses/{path}" for path in metadata.license_files or []} == {
        name for name in files if name.startswith(f"{INFO}/licenses/")
    }
    named = [c for c in _components(files) if c["name"] == "libgfortran5"]
    urls = [reference["url"] for reference in named[0]["externalReferences"]]
    assert f"../licenses/{inner}" in urls
    assert _lacking(outcome.output) == set()


def test_installers_and_twine_accept_the_licenses_and_a_second_repair_changes_nothing(
    tmp_path: Path,
) -> None:
    outcome = _repair(
        _wheel(tmp_path, _of_debian(), metadata="Description-Content-Type: text/plain\n"),
        licenses=Licenses.METADATA,
    )
    assert outcome.output is not None
    again = _repair(outcome.output)
    assert again.status is Status.UNCHANGED
    install(outcome.output, tmp_path / "pip").check_returncode()
    for command in (
        ["uv", "pip", "install", "--offline", "--no-deps", "--target", str(tmp_path / "uv")],
        ["twine", "check"],
    ):
        done = subprocess.run(
            [sys.executable, "-m", *command, str(outcome.output)],
            capture_output=True, text=True, check=False,
        )  # fmt: skip
        assert done.returncode == 0, done.stdout + done.stderr
    for installer in ("pip", "uv"):
        assert list((tmp_path / installer / BUNDLED).rglob("copyright")), installer


def test_a_component_states_what_no_database_knows(tmp_path: Path, library: Path) -> None:
    text = tmp_path / "COPYING owed"
    text.write_text("Do what you owe.\n")
    wheel = _wheel(tmp_path, library)
    unknown = _repair(wheel, library.parent)
    assert {Path(name).name.partition("-")[0] for name in _lacking(unknown.output)} == {"libowed"}
    component = Component(
        name="owed",
        version="1.2",
        license="LGPL-2.1-or-later",
        license_files=(str(text),),
        libraries=("libowed.so*",),
    )
    outcome = _repair(wheel, library.parent, component=(component,), licenses=Licenses.METADATA)
    files = _read(outcome)
    assert files[f"{BUNDLED}/owed/COPYING owed"] == text.read_bytes()
    assert _metadata(files).license_files == ["bundled/owed/COPYING owed"]
    assert [c["purl"] for c in _components(files)] == ["pkg:generic/owed@1.2"]
    assert _components(files)[0]["licenses"][0]["license"]["id"] == "LGPL-2.1-or-later"
    assert _lacking(outcome.output) == set()
    assert outcome.output is not None
    again = _repair(outcome.output, component=(component,))
    assert again.status is Status.UNCHANGED


def test_static_code_is_listed_without_a_graft_once(tmp_path: Path) -> None:
    text = tmp_path / "LICENSE"
    text.write_text("As is.\n")
    part = Component(name="musl", version="1.2.5", license="MIT", license_files=(str(text),))
    outcome = _repair(_wheel(tmp_path), component=(part,))
    files = _read(outcome)
    assert files[f"{BUNDLED}/musl/LICENSE"] == b"As is.\n"
    assert [c["name"] for c in _components(files)] == ["musl"]
    assert outcome.output is not None
    assert _repair(outcome.output, component=(part,)).status is Status.UNCHANGED


def test_licenses_off_adds_nothing(tmp_path: Path) -> None:
    files = _read(_repair(_wheel(tmp_path, _of_debian()), licenses=Licenses.OFF))
    assert not [name for name in files if "licenses/" in name]
    assert _metadata(files).metadata_version == "2.1"
    assert "externalReferences" not in _components(files)[0]


@pytest.mark.parametrize(
    ("mode", "expression"),
    [
        (Licenses.TEXTS, "MIT OR Apache-2.0"),
        (Licenses.METADATA, "MIT OR Apache-2.0"),
        (Licenses.EXPRESSION, "(MIT OR Apache-2.0) AND Zlib"),
    ],
)
def test_the_expression_is_joined_only_if_asked_for(
    tmp_path: Path, library: Path, mode: Licenses, expression: str
) -> None:
    wheel = _wheel(tmp_path, library, metadata="License-Expression: MIT OR Apache-2.0\n")
    component = Component(name="owed", license="Zlib", libraries=("libowed.so*",))
    outcome = _repair(wheel, library.parent, component=(component,), licenses=mode)
    lines = _read(outcome)[f"{INFO}/METADATA"].decode().splitlines()
    assert f"License-Expression: {expression}" in lines


def test_an_expression_that_cannot_be_complete_stays_as_it_is(
    tmp_path: Path, library: Path
) -> None:
    other = build.shared_object(tmp_path / "lib" / "libfree.so.1", soname="libfree.so.1")
    wheel = _wheel(tmp_path, library, other, metadata="License-Expression: MIT\n")
    component = Component(name="owed", license="Zlib", libraries=("libowed.so*",))
    options = {"component": (component,), "licenses": Licenses.EXPRESSION}
    outcome = _repair(wheel, library.parent, **options)
    assert b"\nLicense-Expression: MIT\n" in _read(outcome)[f"{INFO}/METADATA"]
    [message] = [text for text in outcome.messages if "License-Expression" in text]
    assert "the license of `libfree.so.1` is not known" in message


def test_metadata_stays_as_it_is_and_each_text_is_there_once(tmp_path: Path, library: Path) -> None:
    own, same, other = (tmp_path / name for name in ("OWN", "COPYING", "LICENSE"))
    own.write_text("mine")
    same.write_text("As is.\n")
    other.write_text("As is.\n")
    files = {f"{INFO}/LICENSE": b"mine", f"{INFO}/licenses/LICENSE.txt": b"mine"}
    wheel = _wheel(tmp_path, library, metadata="License-File: LICENSE\n", files=files)
    before = zipfile.ZipFile(wheel).read(f"{INFO}/METADATA")
    parts = (
        Component(name="owed", libraries=("libowed.so*",), license_files=(str(same),)),
        Component(name="other", license_files=(str(other), str(own))),
    )
    outcome = _repair(wheel, library.parent, component=parts)
    after = _read(outcome)
    assert after[f"{INFO}/METADATA"] == before
    assert {name for name in after if name.startswith(f"{INFO}/licenses/")} == {
        f"{INFO}/licenses/LICENSE.txt",
        f"{BUNDLED}/other/LICENSE",
    }
    for component in _components(after):
        urls = [reference["url"] for reference in component["externalReferences"]]
        assert "../licenses/bundled/other/LICENSE" in urls
    assert _lacking(outcome.output) == set()


def test_license_files_of_an_older_metadata_version_are_moved_to_their_place(
    tmp_path: Path,
) -> None:
    """From Metadata-Version 2.4 on, PyPI looks for them in `licenses`."""
    wheel = _wheel(
        tmp_path,
        _of_debian(),
        metadata="License-File: LICENSE\n",
        files={f"{INFO}/LICENSE": b"own"},
    )
    files = _read(_repair(wheel, licenses=Licenses.METADATA))
    assert (files[f"{INFO}/licenses/LICENSE"], f"{INFO}/LICENSE" in files) == (b"own", False)
    assert (_metadata(files).license_files or [])[0] == "LICENSE"


def _without_metadata_version(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        contents = {entry: archive.read(entry) for entry in archive.infolist()}
    names = {entry.filename: content for entry, content in contents.items()}
    names[f"{INFO}/METADATA"] = names[f"{INFO}/METADATA"].partition(b"\n")[2]
    del names[f"{INFO}/RECORD"]
    names[f"{INFO}/RECORD"] = build.record_text(names, f"{INFO}/RECORD").encode()
    with zipfile.ZipFile(wheel, "w") as archive:
        for entry in contents:
            archive.writestr(entry, names[entry.filename])


def test_without_a_metadata_version_the_texts_are_added_without_lines(
    tmp_path: Path, library: Path
) -> None:
    """No reader knows what `License-File` means there, and the file predicted is the one made."""
    text = tmp_path / "COPYING"
    text.write_text("Do what you owe.\n")
    wheel = _wheel(
        tmp_path,
        library,
        metadata="License-File: LICENSE\n",
        files={f"{INFO}/LICENSE": b"MIT"},
    )
    _without_metadata_version(wheel)
    component = Component(name="owed", libraries=("libowed.so.1",), license_files=(str(text),))
    options = {"component": (component,), "ignore": ("WF506",), "licenses": Licenses.METADATA}
    files = _read(_repair(wheel, library.parent, **options))
    assert files[f"{BUNDLED}/owed/COPYING"] == text.read_bytes()
    assert files[f"{INFO}/LICENSE"] == b"MIT"
    assert files[f"{INFO}/METADATA"] == b"Name: demo\nVersion: 1.0\nLicense-File: LICENSE\n"


def test_own_licenses_without_a_line_are_stated_with_those_of_the_libraries(
    tmp_path: Path,
) -> None:
    """As scipy's: with `License-File` lines for others only, its own would not be found."""
    own = {f"{INFO}/LICENSE.txt": b"own", f"{INFO}/AUTHORS": b"we"}
    outcome = _repair(_wheel(tmp_path, _of_debian(), files=own), licenses=Licenses.METADATA)
    files = _read(outcome)
    assert (_metadata(files).license_files or [])[:2] == ["AUTHORS", "LICENSE.txt"]
    assert files[f"{INFO}/licenses/LICENSE.txt"] == b"own"
    assert not own.keys() & files.keys()
    assert outcome.output is not None
    assert _repair(outcome.output).status is Status.UNCHANGED
    kept = _read(_repair(_wheel(tmp_path / "kept", files=own), licenses=Licenses.METADATA))
    assert own.keys() <= kept.keys(), "without texts of libraries, nothing is raised"


def test_a_license_file_that_is_missing_keeps_the_metadata_version(tmp_path: Path) -> None:
    wheel = _wheel(tmp_path, _of_debian(), metadata="License-File: LICENSE\n")
    files = _read(_repair(wheel, licenses=Licenses.METADATA))
    assert b"Metadata-Version: 2.1\n" in files[f"{INFO}/METADATA"], "PyPI would refuse 2.4"
    assert f"{BUNDLED}/common-licenses/GPL-3" in files


@pytest.mark.parametrize(
    ("file", "text", "lacking"),
    [
        ("libgfortran-040039e1-0352e75f.so.5", "Files: numpy.libs/libgfortran*.so", False),
        ("libscipy_openblas64_-1a2b3c4d.so", "Files: numpy.libs/libscipy_openblas*.so", False),
        ("libXau-154567c4.so.6.0.0", "===== XAU =====", False),
        ("libXau-154567c4.so.6.0.0", "taxation", True),
        ("libz-1a2b3c4d.so.1", "any prize", True),
        ("libz-1a2b3c4d.so.1", "libz.so", False),
        ("libz-1a2b3c4d.so.1", "zlib 1.3", False),
        ("libbrotlidec-7e5462ba.so.1.2.0", "BROTLI", False),
        ("libsharpyuv-0066295b.so.0.1.2", "LIBWEBP", False),
        ("libwebpmux-8fb1c9f6.so.3.1.2", "webpack", True),
        ("libhdf5_hl-69da89c9.so.320.0.0", "HDF5 (Hierarchical Data Format 5)", False),
        ("libswscale-fe215b0b.so.9.5.101", "FFmpeg is redistributed", False),
        ("libopenblasp-r0-59ffcd50.3.15.so", "OpenBLAS is redistributed", False),
        ("libgio-2-1a2b3c4d.so.0", "links with glibc", True),
        ("libevent-1a2b3c4d.so.7", "in no event shall the authors", True),
        ("libproj-4d6f3841.so.25", "this project", True),
        ("libssl-8bd944e8.so.3", "permission to link this program with the OpenSSL library", True),
        ("libssl-8bd944e8.so.1.1", "Copyright (c) The OpenSSL Project.", False),
    ],
)
def test_a_license_that_names_the_library_is_its_text(
    tmp_path: Path, file: str, text: str, *, lacking: bool
) -> None:
    """As numpy, scipy and Pillow keep them by hand."""
    member = f"demo.libs/{file}"
    library = build.shared_object(tmp_path / file, soname=file)
    files: dict[str, bytes | str | Path] = {
        member: library,
        f"{INFO}/licenses/LICENSE.txt": text.encode(),
    }
    assert _lacking(build.make_wheel(tmp_path, files=files)) == ({member} if lacking else set())


@pytest.mark.parametrize(
    ("file", "lacking"), [("LICENSE.zeromq.txt", False), ("LICENSE.tornado.txt", True)]
)
def test_a_license_may_name_its_library_in_its_own_name_only(
    tmp_path: Path, file: str, *, lacking: bool
) -> None:
    """As in pyzmq."""
    member = "demo.libs/libzmq-2f02442c.so.5.2.5"
    library = build.shared_object(tmp_path / "libzmq.so", soname="libzmq-2f02442c.so.5.2.5")
    files: dict[str, bytes | str | Path] = {
        member: library,
        f"{INFO}/licenses/licenses/{file}": b"Mozilla Public License\n",
    }
    assert _lacking(build.make_wheel(tmp_path, files=files)) == ({member} if lacking else set())


def test_sboms_of_others_are_copied(tmp_path: Path, library: Path) -> None:
    sbom = tmp_path / "rust.cdx.json"
    sbom.write_text('{"bomFormat": "CycloneDX", "specVersion": "1.5", "components": []}')
    outcome = _repair(_wheel(tmp_path, library), library.parent, sbom_include=(str(sbom),))
    assert _read(outcome)[f"{INFO}/sboms/rust.cdx.json"] == sbom.read_bytes()
    assert outcome.output is not None
    assert _repair(outcome.output, sbom_include=(str(sbom),)).status is Status.UNCHANGED


def test_the_summary_and_the_plan_name_the_files_that_were_copied(
    tmp_path: Path, library: Path
) -> None:
    text, sbom = tmp_path / "COPYING", tmp_path / "rust.cdx.json"
    text.write_text("mine")
    sbom.write_text('{"bomFormat": "CycloneDX"}')
    part = Component(name="owed", libraries=("libowed.so.1",), license_files=(str(text),))
    wheel = _wheel(tmp_path, library)
    outcome = _repair(wheel, library.parent, component=(part,), sbom_include=(str(sbom),))
    said = summary(outcome)
    assert f"  licenses 1 text from `{tmp_path}` in `{INFO}/licenses/bundled/owed`\n" in said
    assert f"  sbom     `{INFO}/sboms/rust.cdx.json` from {sbom}\n" in said
    assert f"copied from `{text}`, 4 bytes" in plan(outcome)


LIST = '{"bomFormat": "CycloneDX", "specVersion": "1.5", "components": [%s]}'


def _included(folder: Path, **contents: str) -> tuple[str, ...]:
    """Write SBOMs of one name into several folders."""
    for name, content in contents.items():
        (folder / name).mkdir()
        (folder / name / "s.json").write_text(content)
    return tuple(str(folder / name / "s.json") for name in contents)


def test_two_sboms_of_one_name_are_refused_if_they_differ(tmp_path: Path) -> None:
    files = _included(tmp_path, a=LIST % "", b=LIST % '{"type": "library", "name": "x"}')
    options = Settings(wheel_dir=tmp_path / "out", sbom_include=files)
    outcome = repair(_wheel(tmp_path), options, {"PATH": "/usr/bin:/bin"})
    assert outcome.status is Status.FAILED
    assert "two different files of `sbom-include` are called `s.json`" in str(outcome.error)


def test_an_sbom_that_is_included_twice_is_copied_once(tmp_path: Path) -> None:
    files = _included(tmp_path, a=LIST % "", b=LIST % "")
    assert f"{INFO}/sboms/s.json" in _read(_repair(_wheel(tmp_path), sbom_include=files))


@pytest.mark.parametrize("name", ["wheelfix.cdx.json", "auditwheel.cdx.json"])
def test_an_sbom_with_the_name_of_the_list_of_grafts_is_refused(tmp_path: Path, name: str) -> None:
    """A repair replaces that list, and would drop what the file says."""
    (tmp_path / name).write_text(LIST % "")
    options = Settings(wheel_dir=tmp_path / "out", sbom_include=(str(tmp_path / name),))
    outcome = repair(_wheel(tmp_path), options, {"PATH": "/usr/bin:/bin"})
    assert outcome.status is Status.FAILED
    assert f"`{name}` is the name of the list of grafted libraries" in str(outcome.error)


def test_a_pure_wheel_gets_sboms_and_components_too(tmp_path: Path) -> None:
    """JavaScript or data of other projects, for example."""
    text = tmp_path / "LICENSE"
    text.write_text("As is.\n")
    part = Component(name="jquery", version="3.7.1", license="MIT", license_files=(str(text),))
    sbom = tmp_path / "js.cdx.json"
    sbom.write_text(LIST % "")
    wheel = build.make_wheel(tmp_path, tag="py3-none-any", files={"demo.py": b""})
    pure = {"allow_pure_python_wheel": True}
    outcome = _repair(wheel, component=(part,), sbom_include=(str(sbom),), **pure)
    files = _read(outcome)
    assert files[f"{INFO}/sboms/js.cdx.json"] == sbom.read_bytes()
    assert files[f"{BUNDLED}/jquery/LICENSE"] == b"As is.\n"
    assert [c["name"] for c in _components(files)] == ["jquery"]
    assert outcome.output is not None
    again = _repair(outcome.output, component=(part,), sbom_include=(str(sbom),), **pure)
    assert again.status is Status.UNCHANGED
    text.unlink()
    options = Settings(wheel_dir=tmp_path / "out", component=(part,), allow_pure_python_wheel=True)
    assert repair(wheel, options, {"PATH": "/usr/bin:/bin"}).status is Status.FAILED


def test_a_reader_of_sboms_finds_all_components_in_an_installed_wheel(
    tmp_path: Path, library: Path
) -> None:
    """The model of CycloneDX's own library, which other programs build on."""
    text, sbom = tmp_path / "COPYING", tmp_path / "rust.cdx.json"
    text.write_text("As is.\n")
    purl = "pkg:cargo/serde@1.0.200"
    serde = {"type": "library", "bom-ref": purl, "name": "serde", "version": "1.0.200"}
    included = {"bomFormat": "CycloneDX", "specVersion": "1.5", "version": 1}
    sbom.write_text(json.dumps({**included, "components": [{**serde, "purl": purl}]}))
    files = (str(text),)
    parts = (
        Component(name="owed", version="1+2", license_files=files, libraries=("libowed.so*",)),
        Component(name="odd name", license="Zlib OR MIT", license_files=files),
    )
    wheel = _wheel(tmp_path, library, _of_debian())
    folders = (library.parent, _of_debian().parent)
    outcome = _repair(wheel, *folders, component=parts, sbom_include=(str(sbom),))
    site = tmp_path / "site"
    assert outcome.output is not None
    install(outcome.output, site).check_returncode()
    folder = site / INFO / "sboms"
    model: Any = Bom
    found: list[str] = []
    for file in sorted(folder.glob("*.json")):
        document = json.loads(file.read_text())
        bom = model.from_json(document)
        assert bom.validate(), "all dependencies are components"
        read = json.loads(JsonV1Dot6(bom).output_as_string())
        assert _without_order(read["components"]) == _without_order(document["components"])
        found += [str(component.purl) for component in bom.components]
        for reference in (r for c in bom.components for r in c.external_references):
            assert (folder / unquote(str(reference.url))).is_file()
    assert len(found) == len(set(found))
    packages = {name.partition("@")[0].rpartition("/")[2] for name in found}
    assert {"owed", "odd%20name", "serde", "libgfortran5"} <= packages
    assert "pkg:generic/owed@1%2B2" in found


def _without_order(value: object) -> object:
    if isinstance(value, dict):
        fields = cast("dict[str, object]", value)
        return {key: _without_order(found) for key, found in fields.items()}
    if isinstance(value, list):
        items = cast("list[object]", value)
        return sorted(map(_without_order, items), key=json.dumps)
    return value


@pytest.mark.parametrize("content", [None, "no JSON", "[]", '{"name": "x"}'])
def test_what_is_no_sbom_is_refused(tmp_path: Path, content: str | None) -> None:
    sbom = tmp_path / "rust.cdx.json"
    if content is not None:
        sbom.write_text(content)
    options = Settings(wheel_dir=tmp_path / "out", sbom_include=(str(sbom),))
    outcome = repair(_wheel(tmp_path), options, {"PATH": "/usr/bin:/bin"})
    assert outcome.status is Status.FAILED
    assert "rust.cdx.json" in str(outcome.error)


def test_libraries_of_one_package_are_one_component(tmp_path: Path) -> None:
    folder = tmp_path / "lib"
    one, two = (
        build.shared_object(folder / f"lib{n}.so", f"int {n}(void) {{ return 1; }}") for n in "ab"
    )
    part = Component(name="both", version="1", libraries=("liba.so", "libb.so"))
    files = _read(_repair(_wheel(tmp_path, one, two), folder, component=(part,)))
    (component,) = _components(files)
    places = component["evidence"]["occurrences"]
    assert [Path(place["location"]).name.partition("-")[0] for place in places] == ["liba", "libb"]
    assert all("SHA-256 " in place["additionalContext"] for place in places)
    (row,) = json.loads(files[SBOM])["dependencies"]
    assert row["dependsOn"] == [component["bom-ref"]]


def test_different_texts_of_one_name_are_both_kept(tmp_path: Path) -> None:
    paths = [tmp_path / n / "COPYING" for n in ("a", "b")]
    for path in paths:
        path.parent.mkdir()
        path.write_text(str(path.parent.name))
    packages = [
        Package("generic", "x", "1", license_files=(LicenseText("x/COPYING", path),))
        for path in paths
    ]
    with open_wheel(build.make_wheel(tmp_path, files={"a.py": b""})) as archive:
        texts = license_texts(packages, archive.wheel, archive.read)
    first, second = (texts[package.license_files[0]] for package in packages)
    assert (first.path, first.content) == ("bundled/x/COPYING", b"a")
    assert second.content == b"b"
    assert second.path.endswith("-COPYING")


@pytest.mark.parametrize(
    ("own", "others", "joined"),
    [
        ("MIT", ["MIT", None, "Zlib"], "MIT"),
        ("MIT", ["Zlib", "GPLv2+"], "MIT"),
        ("MIT AND Zlib", ["Zlib", "BSD-3-Clause"], "MIT AND Zlib AND BSD-3-Clause"),
        ("MIT", ["Zlib OR MIT", "Zlib OR MIT"], "MIT AND (Zlib OR MIT)"),
        ("MIT AND (Zlib OR MIT)", ["Zlib OR MIT"], "MIT AND (Zlib OR MIT)"),
        ("MIT OR Apache-2.0 AND Zlib", ["Zlib"], "(MIT OR Apache-2.0 AND Zlib) AND Zlib"),
        ("(MIT AND Zlib) OR X11", ["Zlib"], "((MIT AND Zlib) OR X11) AND Zlib"),
        ("mit or Zlib", ["X11"], "(MIT OR Zlib) AND X11"),
        ("mit", ["MIT"], "mit"),
        ("MIT AND(Zlib OR X11)", ["Zlib OR X11"], "MIT AND(Zlib OR X11)"),
        ("((MIT AND Zlib))", ["Zlib", "X11"], "MIT AND Zlib AND X11"),
        ("MIT", ["MIT AND Zlib"], "MIT AND Zlib"),
        ("not a license", ["MIT"], "not a license"),
    ],
)
def test_expressions_are_joined_once(own: str, others: list[str | None], joined: str) -> None:
    assert join_expressions(own, others) == joined
