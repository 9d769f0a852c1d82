"""RECORD: every disagreement is a problem with a name, and untouched rows stand as they stood."""

import hashlib
import zipfile
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

import wheelfix
from tests.support.build import make_wheel, record_hash, shared_object
from wheelfix.rules.findings import Severity
from wheelfix.wheel.model import Member, RecordRow
from wheelfix.wheel.record import (
    format_record,
    hash_field,
    in_base64,
    parse_record,
    update_record,
    verify_record,
)

RECORD = "demo-1.0.dist-info/RECORD"
HASH = record_hash(b"abc")
OWN = RecordRow(name=RECORD, hash="", size=None)


def row(name: str, digest: str = HASH, size: int | None = 3) -> RecordRow:
    return RecordRow(name=name, hash=digest, size=size)


def member(name: str, size: int = 3) -> Member:
    return Member(name=name, size=size, compressed_size=size)


def problems(rows: list[RecordRow], *members: Member) -> list[tuple[str, str]]:
    hashes = {m.name: HASH for m in members}
    found = verify_record(rows, (*members, member(RECORD)), hashes, RECORD)
    return [(problem.member, problem.message) for problem in found]


def test_hash_is_spelled_as_pip_spells_it() -> None:
    assert hash_field("sha256", hashlib.sha256(b"abc").digest()) == record_hash(b"abc")


def test_names_that_csv_must_quote_survive() -> None:
    rows = (row("a,b.py"), row('a"b.py'), row("ä ö.py"), row("a\rb"), row("a\nb"), OWN)
    assert parse_record(format_record(rows), RECORD) == (rows, ())


names = st.text(st.characters(exclude_categories=["Cs", "Cc"]), min_size=1)


@given(st.lists(st.builds(row, names, st.just(HASH), st.none() | st.integers(min_value=0))))
def test_what_is_written_is_read_again(rows: list[RecordRow]) -> None:
    assert parse_record(format_record(rows), RECORD) == (tuple(rows), ())


@given(st.binary())
def test_garbage_is_a_problem_never_a_crash(data: bytes) -> None:
    rows, found = parse_record(data, RECORD)
    assert rows or found or not data.strip(b"\r\n")


@pytest.mark.parametrize("end", ["\n", "\r\n"])
def test_both_line_ends_are_read(end: str) -> None:
    text = f"a.py,{HASH},3{end}{RECORD},,{end}"
    assert parse_record(text.encode(), RECORD) == ((row("a.py"), OWN), ())


@pytest.mark.parametrize(
    ("line", "name", "message"),
    [
        ("a.py", "a.py", "row 1 of RECORD is not `name,hash,size`"),
        (",sha256=x,3", RECORD, "row 1 of RECORD is not `name,hash,size`"),
        ("a.py,sha256=x,3,4", "a.py", "row 1 of RECORD is not `name,hash,size`"),
        ("a.py,sha256=x,three", "a.py", "a size that is not a number: `three`"),
        ("a.py,sha256=x,٣", "a.py", "a size that is not a number"),
        ("a.py,sha256=x,-3", "a.py", "a size that is not a number"),
    ],
)
def test_unreadable_rows_are_problems(line: str, name: str, message: str) -> None:
    _, (problem,) = parse_record(line.encode(), RECORD)
    assert problem.member == name
    assert message in problem.message


def test_a_true_record_has_no_problem() -> None:
    assert (
        problems([row("a.py"), row("b.py", size=None), OWN], member("a.py"), member("b.py")) == []
    )


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        ([row("a.py", "sha256=AAAA")], "has another hash than RECORD says"),
        ([row("a.py", HASH + "=")], "has another hash than RECORD says"),
        ([row("a.py", size=4)], "has 3 bytes, RECORD says 4"),
        ([row("a.py", "")], "is listed in RECORD without a hash"),
        ([row("a.py", "md5=AAAA")], "does not permit or that is unknown: `md5`"),
        ([row("a.py", "sha1=AAAA")], "does not permit or that is unknown: `sha1`"),
        ([row("a.py", "crc9=AAAA")], "does not permit or that is unknown: `crc9`"),
        ([row("a.py"), row("a.py")], "is listed more than once"),
        ([], "is not listed in RECORD"),
    ],
)
def test_each_disagreement_is_named(rows: list[RecordRow], message: str) -> None:
    ((name, found),) = problems([*rows, OWN], member("a.py"))
    assert name == "a.py"
    assert message in found


def test_a_listed_file_that_is_missing_is_named() -> None:
    assert problems([row("gone.py"), OWN]) == [
        ("gone.py", "is listed in RECORD but is not in the wheel")
    ]


@pytest.mark.parametrize(("digest", "size"), [("", None), (record_hash(b""), 0)])  # as dukpy
@pytest.mark.parametrize("name", ["demo/", "demo", "demo/lib/"])
def test_a_row_of_a_folder_is_passed_over_as_installers_do(
    name: str, digest: str, size: int | None
) -> None:
    listed = RecordRow(name, digest, size)
    assert problems([row("demo/lib/a.py"), listed, OWN], member("demo/lib/a.py")) == []
    assert problems([listed, OWN]) == [(name, "is listed in RECORD but is not in the wheel")]


def test_record_and_its_signatures_need_no_row() -> None:
    assert problems([], member(RECORD + ".jws"), member(RECORD + ".p7s")) == []


def test_an_update_changes_only_what_it_names() -> None:
    before = [
        row("b.py"),
        OWN,
        row("a.py"),
        row("old.so"),
        row("gone.py"),
        row("demo-1.0.dist-info/WHEEL"),
    ]
    new = row("a.py", "sha256=new", 9)
    lib = row("demo.libs/x.so", "sha256=lib", 7)
    note = row("demo-1.0.dist-info/note", "sha256=note", 5)
    after = update_record(
        before,
        record_name=RECORD,
        removed={"gone.py", "old.so"},
        copied={"old.so": ["new.so"]},
        written={r.name: r for r in (note, lib, new)},
        order=["b.py", "a.py", "new.so", "demo.libs/x.so", "demo-1.0.dist-info/note"],
    )
    assert after == (
        row("b.py"), new, row("new.so"), lib, row("demo-1.0.dist-info/WHEEL"), note, OWN,
    )  # fmt: skip


def test_a_false_row_is_not_made_true_in_passing() -> None:
    false = row("a.py", "sha256=false", 1)
    missing = row("never.py")
    after = update_record(
        [false, missing, OWN], record_name=RECORD, removed=set(), copied={},
        written={"b.py": row("b.py")}, order=["a.py", "b.py"],
    )  # fmt: skip
    assert after == (false, missing, row("b.py"), OWN)


@pytest.mark.parametrize("algorithm", ["sha256", "sha512", "blake2b"])
def test_a_hash_in_hexadecimal_is_the_hash_that_it_states(algorithm: str) -> None:
    digest = hashlib.new(algorithm, b"abc")
    true = hash_field(algorithm, digest.digest())
    stated = RecordRow("a.py", f"{algorithm}={digest.hexdigest()}", 3)
    wrong = stated._replace(hash=stated.hash[:-1] + ("0" if stated.hash[-1] != "0" else "1"))
    rows = {"a.py": true}
    members = (member("a.py"), member(RECORD))
    assert in_base64(stated.hash) == true
    assert verify_record([stated, OWN], members, rows, RECORD) == ()
    (problem,) = verify_record([wrong, OWN], members, rows, RECORD)
    assert problem.message == "has another hash than RECORD says"
    assert in_base64(true) == true


def test_a_wheel_with_hexadecimal_hashes_is_repaired(tmp_path: Path) -> None:
    library = shared_object(tmp_path / "libone.so")
    path = make_wheel(tmp_path, files={"pkg/__init__.py": "", "pkg/libone.so": library})
    with zipfile.ZipFile(path) as archive:
        members = {name: archive.read(name) for name in archive.namelist()}
    record = next(name for name in members if name.endswith("/RECORD"))
    rows = "".join(
        f"{name},sha256={hashlib.sha256(data).hexdigest()},{len(data)}\n"
        for name, data in members.items()
        if name != record
    )
    with zipfile.ZipFile(path, "w") as archive:
        for name, data in members.items():
            archive.writestr(name, data if name != record else f"{rows}{record},,\n".encode())
    found = [finding for finding in wheelfix.check(path).findings if finding.code == "WF501"]
    assert [(each.severity, "in hexadecimal" in each.message) for each in found] == [
        (Severity.WARNING, True)
    ]
    outcome = wheelfix.repair(path, wheelfix.Settings(wheel_dir=tmp_path / "out"))
    assert outcome.output is not None
    assert not any(finding.code == "WF501" for finding in wheelfix.check(outcome.output).findings)
