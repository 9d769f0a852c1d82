"""RECORD: the list of a wheel's files with their hashes and sizes (PEP 376, PEP 427).

Everything here is a function of values; `read_contents` and `writer` compute the hashes.
"""

import csv
import hashlib
from base64 import urlsafe_b64encode
from bisect import bisect_left
from collections.abc import Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from contextlib import suppress
from dataclasses import replace
from io import BytesIO, StringIO, TextIOWrapper

from wheelfix.text import count
from wheelfix.wheel.model import Member, RecordProblem, RecordRow, Wheel

STRONG = frozenset({
    "sha256", "sha384", "sha512", "sha3_256", "sha3_384", "sha3_512", "blake2b", "blake2s",
})  # fmt: skip
"""The algorithms of hashlib that are "sha256 or better" (PEP 427, "Signed wheel files")."""


def signatures(record_name: str) -> tuple[str, str]:
    """Return the names of the signatures of RECORD, which RECORD does not list (PEP 427)."""
    return f"{record_name}.jws", f"{record_name}.p7s"


def hash_field(algorithm: str, digest: bytes) -> str:
    """Encode `digest` as RECORD does: `sha256=` and urlsafe base64 without padding (PEP 427)."""
    return f"{algorithm}={urlsafe_b64encode(digest).rstrip(b'=').decode()}"


def in_base64(stated: str) -> str:
    """Return a hash that RECORD states in hexadecimal as `hash_field` does, others as they are.

    No digest has as many digits in base64 as one of the strong algorithms has in hexadecimal.
    """
    if len(stated) < _SHORTEST:  # almost all, and each state of a repair asks for all
        return stated
    algorithm, _, digits = stated.partition("=")
    if algorithm in STRONG and len(digits) == 2 * hashlib.new(algorithm).digest_size:
        with suppress(ValueError):
            return hash_field(algorithm, bytes.fromhex(digits))
    return stated


_SHORTEST = 64
"""Digits of the shortest of the strong digests in hexadecimal."""


def algorithm_of(row: RecordRow) -> str | None:
    """Return the algorithm of the row's hash; None for a missing or a weak hash."""
    algorithm = row.hash.partition("=")[0]
    return algorithm if algorithm in STRONG else None


def parse_record(
    data: bytes, record_name: str
) -> tuple[tuple[RecordRow, ...], tuple[RecordProblem, ...]]:
    """Split RECORD into rows; rows that cannot be read are problems, not errors."""
    try:
        data.decode("utf-8")
    except UnicodeDecodeError as error:
        problem = RecordProblem(member=record_name, message=f"RECORD is not UTF-8: {error}")
        return (), (problem,)
    rows: list[RecordRow] = []
    problems: list[RecordProblem] = []
    try:
        # A line at a time: a StringIO has four bytes for each letter.
        lines = TextIOWrapper(BytesIO(data), encoding="utf-8", newline="")
        for number, fields in enumerate(csv.reader(lines), 1):
            _read_row(fields, number, record_name, rows, problems)
    except csv.Error as error:
        message = f"RECORD is not readable past row {len(rows) + len(problems)}: {error}"
        problems.append(RecordProblem(member=record_name, message=message))
    return tuple(rows), tuple(problems)


def _read_row(
    fields: Sequence[str],
    number: int,
    record_name: str,
    rows: list[RecordRow],
    problems: list[RecordProblem],
) -> None:
    if not fields:
        message = f"row {number} of RECORD is empty: pip fails with IndexError"
        problems.append(RecordProblem(member=record_name, message=message))
        return
    if len(fields) != 3 or not fields[0]:
        message = f"row {number} of RECORD is not `name,hash,size`: `{','.join(fields)}`"
        problems.append(RecordProblem(member=fields[0] or record_name, message=message))
        return
    name, digest, size = fields
    if size and not _is_size(size):
        message = f"row {number} of RECORD has a size that is not a number: `{size}`"
        problems.append(RecordProblem(member=name, message=message))
        size = ""
    rows.append(RecordRow(name=name, hash=digest, size=int(size) if size else None))


def _is_size(text: str) -> bool:
    # isdecimal() alone takes other scripts' digits, and int() underscores and blanks; nor does it
    # take thousands of digits.
    return text.isdecimal() and text.isascii() and len(text) < 100


def format_record(rows: Iterable[RecordRow]) -> bytes:
    """Write RECORD: UTF-8, one row a line, quoted only where CSV needs it."""
    text = StringIO()
    plain = csv.writer(text, lineterminator="\n")
    # The writer quotes a carriage return only where lines end by one; its reader ends a row there.
    quoting = csv.writer(text, lineterminator="\n", quoting=csv.QUOTE_ALL)
    for row in rows:
        writer = quoting if "\r" in row.name or "\r" in row.hash else plain
        writer.writerow((row.name, row.hash, "" if row.size is None else row.size))
    return text.getvalue().encode()


def verify_record(
    rows: Sequence[RecordRow],
    members: Sequence[Member],
    hashes: Mapping[str, str],
    record_name: str,
) -> tuple[RecordProblem, ...]:
    """Compare RECORD with the files, one problem for each disagreement.

    `hashes` has the true hash of each listed file in the form of `hash_field`, by the algorithm
    of its row; files without a strong hash in RECORD may be left out.
    """
    sizes = {member.name: member.size for member in members}
    ordered = sorted(sizes)
    problems: list[RecordProblem] = []
    listed: set[str] = set()
    for row in rows:
        size, true_hash = sizes.get(row.name), hashes.get(row.name)
        if row.name in listed:
            message = "is listed more than once in RECORD"
        elif row.hash == true_hash and row.size == size and row.name != record_name:
            message = None
        elif not row.size and _is_folder(row.name, ordered):
            message = None  # some build tools list folders, and installers pass such rows over
        else:
            message = _disagreement(row, size, true_hash, record_name)
        listed.add(row.name)
        if message:
            problems.append(RecordProblem(member=row.name, message=message))
    exempt = {record_name, *signatures(record_name)}
    problems += (
        RecordProblem(member=member.name, message="is not listed in RECORD")
        for member in members
        if member.name not in listed and member.name not in exempt
    )
    return tuple(problems)


def _is_folder(name: str, ordered: Sequence[str]) -> bool:
    """Return whether files, in the order of their names, are in a folder."""
    folder = f"{name.rstrip('/')}/"
    at = bisect_left(ordered, folder)
    return at < len(ordered) and ordered[at].startswith(folder)


def _disagreement(
    row: RecordRow, size: int | None, true_hash: str | None, record_name: str
) -> str | None:
    if size is None:
        return "is listed in RECORD but is not in the wheel"
    if row.name == record_name:
        return "lists a hash of itself, which cannot be true" if row.hash else None
    if row.size not in (None, size):
        return f"has {count(size, 'byte')}, RECORD says {row.size:,}"
    return _wrong_hash(row, true_hash)


def _wrong_hash(row: RecordRow, true_hash: str | None) -> str | None:
    if not row.hash:
        return "is listed in RECORD without a hash"
    if algorithm_of(row) is None:
        weak = row.hash.partition("=")[0]
        return f"is listed with a hash that PEP 427 does not permit or that is unknown: `{weak}`"
    if in_base64(row.hash) != true_hash:
        return "has another hash than RECORD says"
    return None


def with_record(wheel: Wheel) -> Wheel:
    """Return `wheel` with a member RECORD; where it lacks one, that is to be written."""
    name = wheel.dist_info.record
    if name in wheel.member_names:
        return wheel
    new = Member(name, size=0, compressed_size=0)
    return replace(wheel, members=(*wheel.members, new))


def with_true_record(wheel: Wheel) -> Wheel:
    """Return `wheel` without what its RECORD has wrong, as `update_record` leaves none of it.

    The new hashes are not known before the files are written.
    """
    wrong = {problem.member for problem in wheel.record_problems}
    right = [
        row if (spelled := in_base64(row.hash)) is row.hash else row._replace(hash=spelled)
        for row in wheel.record
        if row.name not in wrong
    ]
    new = [RecordRow(name, "", None) for name in sorted(wrong & wheel.member_names)]
    return replace(wheel, record=(*right, *new), record_problems=())


def update_record(  # noqa: PLR0913 - one argument for each kind of change
    rows: Sequence[RecordRow],
    *,
    record_name: str,
    removed: AbstractSet[str],
    copied: Mapping[str, Sequence[str]],
    written: Mapping[str, RecordRow],
    order: Sequence[str],
) -> tuple[RecordRow, ...]:
    """Return the rows of the new wheel; rows of unchanged files state what they stated.

    `removed` are files that are gone, `copied` maps a file to the new names of its bytes,
    `written` are the rows of files with new bytes, `order` is the order of the new rows. New rows
    go before the rows of the dist-info folder. RECORD's own row is the last.
    """
    kept: list[RecordRow] = []
    used: set[str] = set()
    for row in rows:
        if row.name == record_name:
            continue
        here = () if row.name in removed else (row.name,)
        for name in (*here, *copied.get(row.name, ())):
            used.add(name)
            same = row._replace(name=name, hash=in_base64(row.hash))
            kept.append(written.get(name, same))
    folder = record_name.rpartition("/")[0] + "/"
    new = [written[name] for name in order if name in written and name not in used]
    first = next((i for i, row in enumerate(kept) if row.name.startswith(folder)), len(kept))
    kept[first:first] = [row for row in new if not row.name.startswith(folder)]
    kept += [row for row in new if row.name.startswith(folder)]
    return (*kept, RecordRow(name=record_name, hash="", size=None))
