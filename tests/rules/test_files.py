"""What may stand in a wheel, and what its metadata must say: rules beside what pip makes of it."""

import email
import os
import subprocess
import sys
from pathlib import Path
from zipfile import ZipFile

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support.build import executable, make_wheel, record_text, shared_object, wheel_text
from tests.support.values import elf, findings, wheel
from wheelfix.elf.model import Machine
from wheelfix.pipelines.repair import repair
from wheelfix.pipelines.repair_result import Status
from wheelfix.rules import files as contents
from wheelfix.rules import leftovers, metadata
from wheelfix.rules.context import Context
from wheelfix.rules.engine import run_rules
from wheelfix.rules.findings import Finding, Safety, Severity
from wheelfix.rules.registry import RULES, SET_RULES, rules_in
from wheelfix.rules.rule import AnyRule, Rule
from wheelfix.settings import Settings
from wheelfix.wheel.dist_info import read_core_metadata
from wheelfix.wheel.edits import RemoveMember, Retag, SetRootIsPurelib
from wheelfix.wheel.model import Metadata, RecordRow
from wheelfix.wheel.reader import open_wheel

PURE = "py3-none-any"

UV = [sys.executable, "-m", "uv"]


def found(path: Path) -> dict[str, Finding]:
    """What the archive and metadata rules say of a built wheel, one finding a rule."""
    with open_wheel(path) as archive:
        context = Context(wheel=archive.wheel, settings=Settings())
        rules = rules_in(Rule, metadata, contents, leftovers)
        return {finding.code: finding for finding in run_rules(context, rules)}


def pip(*arguments: str | Path) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "pip", "--disable-pip-version-check", *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, check=False)


def install(path: Path, target: Path) -> subprocess.CompletedProcess[str]:
    return pip("install", "--no-deps", "--no-index", "--target", target, path)


def uv_install(path: Path, target: Path) -> subprocess.CompletedProcess[str]:
    command = [*UV, "pip", "install", "--no-index", "--no-deps", "--python", sys.executable]
    command += ["--target", str(target), str(path)]
    return subprocess.run(command, capture_output=True, text=True, check=False)


def test_a_plain_wheel_has_nothing_to_report(tmp_path: Path) -> None:
    path = make_wheel(tmp_path, tag=PURE, files={"demo/__init__.py": b""}, root_is_purelib=True)
    assert found(path) == {}


# --- METADATA -------------------------------------------------------------------------------------

HEADER = st.text(st.sampled_from("ab-: \t\n;>=1.é"), max_size=80)


@given(HEADER)
def test_the_header_of_metadata_is_what_email_makes_of_it(text: str) -> None:
    said = email.message_from_string("X: y\n" + text)
    theirs = [(key.lower(), " ".join(str(value).split())) for key, value in said.items() if key]
    ours = [(k, " ".join(v.split())) for k, v in read_core_metadata("X: y\n" + text).fields]
    assert ours == theirs[: len(ours)]
    if "\n:" not in "\n" + text:  # a field without a name, after which email goes on and we do not
        assert len(ours) == len(theirs)


def test_metadata_is_read_with_its_folded_fields(tmp_path: Path) -> None:
    extra = "Requires-Python: >=3.9\nRequires-Dist: a>=1\nRequires-Dist: b\n (>=2)\n\nName: body\n"
    with open_wheel(make_wheel(tmp_path, tag=PURE, metadata=extra)) as archive:
        said = archive.wheel.metadata
    assert (said.name, said.version, said.requires_python) == ("demo", "1.0", ">=3.9")
    assert said.requires_dist == ("a>=1", "b (>=2)")


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


def test_a_licence_that_is_not_there_and_a_url_are_warnings(tmp_path: Path) -> None:
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
    open_tag = make_wheel(tmp_path, tag=PURE, metadata=f"Requires-Python: {next_one}\n")
    assert "WF507" not in found(open_tag)


# --- Tags -----------------------------------------------------------------------------------------


def test_tags_that_differ_from_the_file_name(tmp_path: Path) -> None:
    path = rewritten(
        tmp_path, {"demo-1.0.dist-info/WHEEL": wheel_text("cp27-cp27m-win32").encode()}
    )
    finding = found(path)["WF504"]
    assert finding.severity is Severity.ERROR
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


def test_compressed_tags_are_compared_as_sets() -> None:
    name = "demo-1.0-py2.py3-none-any.whl"
    assert not findings(metadata.tags_differ, wheel({}, name=name, tags=("py3.py2-none-any",)))
    assert findings(metadata.tags_differ, wheel({}, name=name, tags=("py3-none-any",)))


# --- ELF objects and the platform -----------------------------------------------------------------

AARCH64 = "demo-1.0-cp311-cp311-manylinux_2_28_aarch64.whl"
MODULE = {"module_hooks": ("PyInit_a",)}


def test_a_module_for_another_machine_is_an_error() -> None:
    [finding] = findings(
        contents.wrong_machine, wheel({"pkg/a.cpython-311.so": elf(**MODULE)}, name=AARCH64)
    )
    assert finding.severity is Severity.ERROR
    assert finding.message == "is for x86_64, but the tag is for aarch64"


def test_a_helper_for_another_machine_beside_the_right_one_is_told() -> None:
    objects = {
        "pkg/a.cpython-311.so": elf(machine=Machine.AARCH64, **MODULE),
        "pkg/helper_amd64.so": elf(),
        "pkg/gpu.so": elf(machine=190),
    }
    [finding] = findings(contents.wrong_machine, wheel(objects, name=AARCH64))
    assert (finding.severity, finding.member) == (Severity.INFO, "pkg/helper_amd64.so")


def test_a_needed_library_for_another_machine_is_an_error() -> None:
    objects = {
        "pkg/a.cpython-311.so": elf("libx.so", machine=Machine.AARCH64, **MODULE),
        "pkg/libx.so": elf(),
    }
    [finding] = findings(contents.wrong_machine, wheel(objects, name=AARCH64))
    assert (finding.severity, finding.member) == (Severity.ERROR, "pkg/libx.so")


def test_the_right_machine_is_fine() -> None:
    assert not findings(contents.wrong_machine, wheel({"pkg/a.cpython-311.so": elf(**MODULE)}))


@pytest.mark.parametrize(
    ("platform", "needed", "wrong"),
    [
        ("manylinux_2_28_x86_64", "libc.musl-x86_64.so.1", True),
        ("musllinux_1_2_x86_64", "libc.so.6", True),
        ("musllinux_1_2_x86_64", "libc.musl-x86_64.so.1", False),
        ("linux_x86_64", "libc.musl-x86_64.so.1", False),
    ],
)
def test_the_c_library_is_that_of_the_tag(platform: str, needed: str, wrong: bool) -> None:  # noqa: FBT001
    objects = {"pkg/a.cpython-311.so": elf(**{**MODULE, "needed": (needed,)})}
    subject = wheel(objects, name=f"demo-1.0-cp311-cp311-{platform}.whl")
    assert [f.severity for f in findings(contents.wrong_libc, subject)] == [Severity.ERROR] * wrong


def test_elf_in_a_wheel_for_any_platform() -> None:
    library = wheel({"pkg/libx.so": elf()}, name="demo-1.0-py3-none-any.whl")
    module = wheel({"pkg/a.so": elf(**MODULE)}, name="demo-1.0-py3-none-any.whl")
    said = [findings(contents.elf_for_any_platform, each)[0].severity for each in (library, module)]
    assert said == [Severity.WARNING, Severity.ERROR]
    assert not findings(contents.elf_for_any_platform, wheel({"pkg/libx.so": elf()}))


def test_elf_in_purelib() -> None:
    member = "demo-1.0.data/purelib/pkg/a.so"
    [finding] = findings(contents.elf_in_purelib, wheel({member: elf()}))
    assert finding.member == member
    assert not findings(contents.elf_in_purelib, wheel({"demo-1.0.data/platlib/a.so": elf()}))


# --- What the files are ---------------------------------------------------------------------------


def test_second_metadata_shows_up_as_a_distribution(tmp_path: Path) -> None:
    info, data = "other-3.dist-info", "demo-1.0.data"
    files = {
        f"{data}/purelib/{info}/METADATA": "Metadata-Version: 2.1\nName: other\nVersion: 3\n",
        "demo/_vendor/x-1.dist-info/METADATA": "Metadata-Version: 2.1\nName: x\nVersion: 1\n",
    }
    path = make_wheel(tmp_path, tag=PURE, files=files)
    assert found(path)["WF512"].entry == info
    assert install(path, tmp_path / "target").returncode == 0
    listed = pip("list", "--path", tmp_path / "target").stdout.split()
    assert "other" in listed
    assert "x" not in listed


def test_a_script_of_a_pure_wheel_gets_its_run_bit(tmp_path: Path) -> None:
    member = "demo-1.0.data/scripts/run"
    files = {"demo/__init__.py": "", member: "#!/bin/sh\n"}
    path = make_wheel(tmp_path, tag=PURE, files=files, modes={member: 0o644})
    outcome = repair(path, Settings(wheel_dir=tmp_path / "out"), os.environ)
    assert outcome.output is not None
    assert outcome.status is Status.REPAIRED
    with ZipFile(outcome.output) as fixed, ZipFile(path) as built:
        assert fixed.getinfo(member).external_attr >> 16 == 0o100755
        assert fixed.read("demo-1.0.dist-info/RECORD") == built.read("demo-1.0.dist-info/RECORD")
    assert repair(outcome.output, Settings(wheel_dir=tmp_path / "2"), os.environ).status is (
        Status.UNCHANGED
    )


def runs_after_repair(wheel: Path, place: Path, tmp_path: Path) -> None:
    fixed = repair(wheel, Settings(wheel_dir=tmp_path / "out"), os.environ).output
    assert fixed is not None
    place.unlink()
    assert install(fixed, tmp_path / "after").returncode == 0
    there = tmp_path / "after" / place.relative_to(tmp_path / "target420")
    assert subprocess.run([there], check=False).returncode == 0
    assert "WF513" not in found(fixed)


@pytest.mark.parametrize("severity", [Severity.WARNING, Severity.ERROR])
def test_a_program_without_run_bit_cannot_be_started(tmp_path: Path, severity: Severity) -> None:
    program = executable(tmp_path / "program")
    member = "demo/bin/run" if severity is Severity.WARNING else "demo-1.0.data/scripts/run"
    for mode in (0o644, 0o755):
        path = make_wheel(
            tmp_path, tag="py3-none-linux_x86_64", files={member: program}, modes={member: mode}
        )
        target = tmp_path / f"target{mode}"
        assert install(path, target).returncode == 0
        place = target / member.replace("demo-1.0.data/scripts", "bin")
        if mode == 0o644:
            assert (found(path)["WF513"].member, found(path)["WF513"].severity) == (
                member,
                severity,
            )
            with pytest.raises(PermissionError):
                subprocess.run([place], check=False)
            runs_after_repair(path, place, tmp_path)
        else:
            assert "WF513" not in found(path)
            assert subprocess.run([place], check=False).returncode == 0


@pytest.mark.parametrize(
    ("line", "severity"),
    [
        ("#!python", None),
        ("#!/bin/sh", None),
        ("#!/usr/bin/env python3", Severity.WARNING),
        ("#!/nowhere/cp311/bin/python", Severity.ERROR),
    ],
)
def test_scripts_name_no_python(tmp_path: Path, line: str, severity: Severity | None) -> None:
    files = {"demo-1.0.data/scripts/run": f"{line}\n"}
    modes = dict.fromkeys(files, 0o755)
    path = make_wheel(tmp_path, tag=PURE, files=files, root_is_purelib=True, modes=modes)
    said = found(path)
    assert {code: each.severity for code, each in said.items()} == (
        {"WF514": severity} if severity is not None else {}
    )
    assert install(path, tmp_path / "target").returncode == 0
    script = tmp_path / "target" / "bin" / "run"
    if severity is Severity.ERROR:
        with pytest.raises(FileNotFoundError):
            subprocess.run([script], check=False)
    else:
        assert subprocess.run([script], check=False).returncode == 0


def test_links_that_became_copies_are_loaded_twice(tmp_path: Path) -> None:
    library = shared_object(
        tmp_path / "libx.so.1", "int n; int *f(void){return &n;}", soname="libx.so.1"
    )
    files = {f"demo/{name}": library for name in ("libx.so", "libx.so.1", "libx.so.1.2")}
    path = make_wheel(tmp_path, files=files)
    finding = found(path)["WF515"]
    assert finding.member == "demo/libx.so.1"
    assert finding.fix is not None
    assert finding.fix.safety is Safety.UNSAFE
    assert finding.fix.edits == tuple(
        RemoveMember(member=f"demo/{name}") for name in ("libx.so", "libx.so.1.2")
    )
    (tmp_path / "libx.so").write_bytes(library.read_bytes())
    code = "import ctypes,sys; a,b=map(ctypes.CDLL,sys.argv[1:]); print(a._handle==b._handle)"
    names = [tmp_path / "libx.so.1", tmp_path / "libx.so"]
    done = subprocess.run([sys.executable, "-c", code, *names], capture_output=True, check=True)
    assert done.stdout == b"False\n"


def test_libraries_under_other_names_are_no_links() -> None:
    objects = {"pkg/libx.so": elf(), "pkg/liby.so": elf(), "sub/libx.so.1": elf()}
    record = tuple(RecordRow(name=name, hash="sha256=x", size=1) for name in objects)
    assert not findings(contents.flattened_links, wheel(objects, record=record))


@pytest.mark.parametrize(
    ("member", "severity"),
    [
        ("pkg/__pycache__/a.cpython-311.pyc", Severity.WARNING),
        ("pkg/.git/config", Severity.WARNING),
        ("pkg/libx.so.debug", Severity.WARNING),
        ("pkg/CMakeFiles/x", Severity.WARNING),
        ("pkg/a.py~", Severity.WARNING),
        (".pypirc", Severity.WARNING),
        ("pkg/a.o", Severity.INFO),
        ("pkg/libx.a", Severity.INFO),
        ("pkg/legacy.pyc", None),
        ("pkg/digital", None),
        ("pkg/.gitignore", None),
    ],
)
def test_what_the_build_left_behind(member: str, severity: Severity | None) -> None:
    said = findings(leftovers.build_leftovers, wheel({}, member))
    assert [f.severity for f in said] == ([] if severity is None else [severity])
    if severity is Severity.WARNING:
        assert said[0].fix is not None
        assert said[0].fix.edits == (RemoveMember(member=member),)


def test_pip_believes_a_direct_url_that_came_with_the_wheel(tmp_path: Path) -> None:
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


def test_a_distribution_may_have_its_own_name() -> None:
    assert not findings(
        leftovers.common_top_level, wheel({}, "tools/a.py", name="tools-1-py3-none-any.whl")
    )


@pytest.mark.parametrize("rule", [*RULES, *SET_RULES])
def test_every_rule_is_explained(rule: AnyRule) -> None:
    text = rule.explanation
    heads = ["What it does", "Why is this bad?", "Example", "Common causes", "Fix safety"]
    places = [text.find(f"## {head}") for head in heads]
    assert places == sorted(places)
    assert places[0] > 0


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


# --- WF503 ----------------------------------------------------------------------------------------


def test_root_is_purelib_is_for_wheels_without_objects() -> None:
    objects = {"demo/m.so": elf()}
    [hit] = findings(metadata.purelib_with_elf, wheel(objects, root_is_purelib=True))
    assert (hit.code, hit.severity) == ("WF503", Severity.WARNING)
    assert hit.fix is not None
    assert hit.fix.edits == (SetRootIsPurelib(value=False),)
    assert not findings(metadata.purelib_with_elf, wheel(objects))
    assert not findings(metadata.purelib_with_elf, wheel({}, "demo.py", root_is_purelib=True))
