"""RECORD, WHEEL and METADATA: what each rule reports, and what pip and uv do."""

import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.build import extension, make_wheel, record_text, wheel_text
from tests.support.installers import PURE, UV, found, install, uv_install
from tests.support.values import elf, findings, wheel
from wheelfix.elf.model import Elf
from wheelfix.rules import metadata
from wheelfix.rules.findings import Severity
from wheelfix.wheel.edits import Retag, SetRootIsPurelib
from wheelfix.wheel.model import Metadata, RecordProblem


@pytest.mark.parametrize(
    ("metadata_name", "version", "complaint"),
    [
        ("other", "1.0", "name `other` does not match"),
        ("demo", "1.1", "(1.1 != 1.0), which indicates a malformed wheel"),
    ],
)
def test_a_name_that_uv_refuses_is_an_error(
    tmp_path: Path, metadata_name: str, version: str, complaint: str
) -> None:
    text = f"Metadata-Version: 2.1\nName: {metadata_name}\nVersion: {version}\n".encode()
    path = rewritten(tmp_path, {"demo-1.0.dist-info/METADATA": text})
    finding = found(path)["WF505"]
    assert finding.severity is Severity.ERROR
    done = uv_install(path, tmp_path / "target")
    assert done.returncode != 0
    assert complaint in " ".join(done.stderr.split())


def test_other_spellings_of_a_name_and_version_are_the_same() -> None:
    subject = wheel(
        {}, name="My_Demo-1.0-py3-none-any.whl", metadata=Metadata(name="my.demo", version="1.0.0")
    )
    assert not findings(metadata.name_differs, subject)


def test_a_version_of_thousands_of_digits_is_another_one() -> None:
    said = Metadata(name="demo", version="1." + "9" * 5000)
    subject = wheel({}, name="demo-1.0-py3-none-any.whl", metadata=said)
    (finding,) = findings(metadata.name_differs, subject)
    assert finding.entry == "Version"


@pytest.mark.parametrize(
    ("line", "entry"),
    [
        ("Requires-Dist: numpy>=1.2.x.*", "numpy>=1.2.x.*"),
        ("Requires-Python: three", "Requires-Python"),
        ("Name: demo", "Name"),
    ],
)
def test_fields_that_cannot_be_read_are_errors(tmp_path: Path, line: str, entry: str) -> None:
    finding = found(make_wheel(tmp_path, tag=PURE, metadata=f"{line}\n"))["WF506"]
    assert (finding.entry, finding.severity) == (entry, Severity.ERROR)


def test_uv_refuses_a_requirement_that_cannot_be_read(tmp_path: Path) -> None:
    path = make_wheel(tmp_path, tag=PURE, metadata="Requires-Dist: numpy>=1.2.x.*\n")
    assert "WF506" in found(path)
    done = uv_install(path, tmp_path / "target")
    assert done.returncode != 0
    assert "numpy>=1.2.x.*" in done.stderr


def test_a_license_that_is_not_there_and_a_url_are_warnings(tmp_path: Path) -> None:
    text = b"Metadata-Version: 2.4\nName: demo\nVersion: 1.0\nLicense-File: LICENSE\n"
    finding = found(rewritten(tmp_path, {"demo-1.0.dist-info/METADATA": text}))["WF506"]
    assert (finding.entry, finding.severity) == ("LICENSE", Severity.WARNING)


def test_a_wheel_that_its_own_python_may_not_install(tmp_path: Path) -> None:
    minor = sys.version_info.minor
    here, next_one = f"cp3{minor}-none-any", f">=3.{minor + 1}"
    path = make_wheel(tmp_path, tag=here, metadata=f"Requires-Python: {next_one}\n")
    assert found(path)["WF507"].severity is Severity.ERROR
    assert "requires a different Python" in install(path, tmp_path / "target").stderr
    assert "WF507" not in found(make_wheel(tmp_path, tag=here, metadata="Requires-Python: >=3.8\n"))
    for tag, is_refused in (("cp315t-abi3t-any", True), ("cp315-abi3t-any", False)):
        assert ("WF507" in found(make_wheel(tmp_path, tag=tag))) == is_refused
    newest = 15  # of the Pythons that are known
    open_tag = make_wheel(
        tmp_path, tag=PURE, metadata=f"Requires-Python: >=3.{min(minor + 1, newest)}\n"
    )
    assert "WF507" not in found(open_tag)


def test_tags_that_differ_from_the_file_name(tmp_path: Path) -> None:
    path = rewritten(
        tmp_path, {"demo-1.0.dist-info/WHEEL": wheel_text("cp27-cp27m-win32").encode()}
    )
    finding = found(path)["WF504"]
    assert finding.severity is Severity.WARNING
    assert "`pip check` refuses it where `py3-none-any` is meant" in finding.message
    assert finding.fix is not None
    assert finding.fix.edits == (Retag(platforms=("any",), tags=("py3-none-any",)),)
    venv = tmp_path / "v"
    subprocess.run([*UV, "venv", "-q", "--python", sys.executable, venv], check=True)
    install_both: list[str | Path] = [
        *UV,
        "pip",
        "install",
        "-q",
        "--python",
        str(venv),
        "pip>=24.1",
        path,
    ]
    subprocess.run(install_both, check=True)
    check = [str(venv / "bin" / "python"), "-m", "pip", "check"]
    said = subprocess.run(check, capture_output=True, text=True, check=False).stdout
    assert "demo 1.0 is not supported on this platform" in said


@pytest.mark.parametrize(
    ("named", "said", "severity"),
    [
        ("cp311-cp311-manylinux_2_17_x86_64", "cp311-cp311-linux_x86_64", Severity.NOTE),
        ("cp311-cp311-manylinux_2_28_x86_64", "cp311-cp311-manylinux_2_17_x86_64", Severity.NOTE),
        (
            "cp311-cp311-manylinux_2_17_x86_64",
            "cp311-cp311-manylinux_2_28_x86_64",
            Severity.WARNING,
        ),
        ("cp311-cp311-manylinux_2_17_x86_64", "cp311-cp311-linux_aarch64", Severity.WARNING),
        ("cp311-cp311-linux_x86_64", "cp310-cp310-linux_x86_64", Severity.WARNING),
        ("cp311-cp311-linux_x86_64", "cp38-abi3-linux_x86_64", Severity.NOTE),
        ("cp38-abi3-linux_x86_64", "cp311-cp311-linux_x86_64", Severity.WARNING),
        ("py3-none-linux_x86_64", "py3-none-any", Severity.NOTE),
    ],
)
def test_tags_of_the_same_machines_may_differ(named: str, said: str, severity: Severity) -> None:
    """As ray's wheels: pip supports `linux_x86_64` on each machine with a manylinux tag for it."""
    (finding,) = findings(
        metadata.tags_differ, wheel({}, name=f"demo-1.0-{named}.whl", tags=(said,))
    )
    assert finding.severity is severity


def test_compressed_tags_are_compared_as_sets() -> None:
    name = "demo-1.0-py2.py3-none-any.whl"
    assert not findings(metadata.tags_differ, wheel({}, name=name, tags=("py3.py2-none-any",)))
    assert findings(metadata.tags_differ, wheel({}, name=name, tags=("py3-none-any",)))


def rewritten(folder: Path, files: dict[str, bytes]) -> Path:
    """A wheel with other metadata than the builder writes, and a true RECORD."""
    import zipfile

    path = make_wheel(folder / "made", tag=PURE, files={"demo.py": b""})
    with zipfile.ZipFile(path) as archive:
        content = {name: archive.read(name) for name in archive.namelist()}
    record = "demo-1.0.dist-info/RECORD"
    content = {**{k: v for k, v in content.items() if k != record}, **files}
    content[record] = record_text(content, record).encode()
    out = folder / path.name
    with zipfile.ZipFile(out, "w") as archive:
        for name, data in content.items():
            archive.writestr(name, data)
    return out


def test_root_is_purelib_is_for_wheels_without_objects() -> None:
    objects = {"demo/m.so": elf()}
    [hit] = findings(metadata.purelib_with_elf, wheel(objects, root_is_purelib=True))
    assert (hit.code, hit.severity) == ("WF503", Severity.NOTE)
    assert hit.fix is not None
    assert hit.fix.edits == (SetRootIsPurelib(value=False),)
    assert not findings(metadata.purelib_with_elf, wheel(objects))
    assert not findings(metadata.purelib_with_elf, wheel({}, "demo.py", root_is_purelib=True))


@pytest.mark.parametrize(
    "objects",
    [
        {"demo/m.so": elf(module_hooks=("PyInit_m",))},
        {"demo/lib.so": elf(), "demo-1.0.data/platlib/demo/m.so": elf()},
    ],
)
def test_modules_and_packages_in_two_places_belong_into_platlib(objects: dict[str, Elf]) -> None:
    [hit] = findings(metadata.purelib_with_elf, wheel(objects, root_is_purelib=True))
    assert hit.severity is Severity.WARNING


def test_a_tag_that_no_python_has_is_not_held_against_modules(tmp_path: Path) -> None:
    module = extension(tmp_path / "_m.abi3t.so", "_m")
    files: dict[str, Path | str | bytes] = {"demo/_m.abi3t.so": module}
    report = found(make_wheel(tmp_path, tag="cp315t-abi3t-linux_x86_64", files=files))
    assert "WF507" in report
    assert "WF312" not in report


def test_what_record_says_of_several_files_is_one_finding() -> None:
    problems = tuple(RecordProblem(f"demo/{n}.py", "is not listed in RECORD") for n in "ab")
    for several in (problems, problems[:1]):
        subject = wheel({}, record_problems=several)
        [finding] = findings(metadata.record_mismatch, subject)
        lines = [f"`demo/{n}.py`: is not listed in RECORD" for n in "ab"]
        assert [note for note in finding.notes if note in lines] == lines * (several == problems)
        assert ("2 files" in finding.message) == (several == problems)
