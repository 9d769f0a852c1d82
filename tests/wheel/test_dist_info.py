"""The WHEEL and METADATA files: read as installers do; edits keep every other byte."""

import email
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support.build import make_wheel
from tests.support.installers import PURE
from wheelfix.errors import BadWheelError
from wheelfix.wheel.dist_info import (
    edit_core_metadata,
    edit_metadata,
    read_core_metadata,
    read_metadata,
    with_license_expression,
    with_license_file,
    with_requirement,
)
from wheelfix.wheel.model import Metadata
from wheelfix.wheel.reader import open_wheel

WHEEL = (
    "Wheel-Version: 1.0\nGenerator: x: y\nRoot-Is-Purelib: false\n"
    "Tag: cp311-cp311-linux_x86_64\nBuild: 1\n\nbody\nTag: not-a-header\n"
)


def edit(text: str, *tags: str, purelib: bool = False) -> str:
    return edit_metadata(text, tags=tags, root_is_purelib=purelib)


def test_reads_what_an_installer_acts_on() -> None:
    metadata = read_metadata(WHEEL)
    assert metadata.tags == ("cp311-cp311-linux_x86_64",)
    assert not metadata.root_is_purelib
    assert read_metadata("wheel-version:1.9\nROOT-IS-PURELIB: TRUE").root_is_purelib


@pytest.mark.parametrize("text", ["", "Generator: x\n", "\nWheel-Version: 1.0\n", "Wheel-Version:"])
def test_a_file_without_a_version_is_refused(text: str) -> None:
    with pytest.raises(BadWheelError, match="no `Wheel-Version`"):
        read_metadata(text)


@pytest.mark.parametrize("version", ["2.0", "0.1", "10.0", "one"])
def test_another_major_version_is_refused(version: str) -> None:
    with pytest.raises(BadWheelError, match=version):
        read_metadata(f"Wheel-Version: {version}\n")


def test_an_edit_changes_only_its_lines() -> None:
    assert edit(WHEEL, "cp311-cp311-a", "cp311-cp311-b") == WHEEL.replace(
        "Tag: cp311-cp311-linux_x86_64\n", "Tag: cp311-cp311-a\nTag: cp311-cp311-b\n"
    )
    assert edit(WHEEL, "cp311-cp311-linux_x86_64", purelib=True) == WHEEL.replace(
        "Purelib: false", "Purelib: true"
    )


def test_line_ends_and_a_missing_last_one_are_kept() -> None:
    assert edit("Wheel-Version: 1.0\r\nTag: a\r\nX: y", "b") == (
        "Wheel-Version: 1.0\r\nTag: b\r\nX: y"
    )
    assert edit("Wheel-Version: 1.0", "b") == "Wheel-Version: 1.0\nTag: b\n"


def test_setting_the_same_values_changes_nothing() -> None:
    odd = "Wheel-Version:1.0\nTAG:  a\n\x0bfoo\x85"
    assert edit(odd, "a") == odd


TEXT = st.text("Tag: a1-\t\n\r\x0b\x0c\x1c\x85\u2028é\U0001f600\0")
TAG = st.tuples(*[st.text("abz09_", min_size=1)] * 3).map("-".join)


@given(TEXT, st.lists(TAG), st.booleans())
def test_an_edit_writes_the_given_values(rest: str, tags: list[str], purelib: bool) -> None:  # noqa: FBT001 - a parameter of the test
    text = "Wheel-Version: 1.0\nX: y\n" + rest
    after = edit_metadata(text, tags=tags, root_is_purelib=purelib)
    metadata = read_metadata(after)
    assert (metadata.tags, metadata.root_is_purelib) == (tuple(tags), purelib)
    assert edit_metadata(after, tags=tags, root_is_purelib=purelib) == after


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
    ("before", "after"),
    [
        (
            "Metadata-Version: 2.1\nName: a\nVersion: 1\n\nText\n",
            "Metadata-Version: 2.1\nName: a\nVersion: 1\nRequires-Dist: p>=1\n\nText\n",
        ),
        ("Name: a\nrequires-dist: b\nLicense: x\n", "Name: a\nrequires-dist: b\n+License: x\n"),
        ("Requires-Dist: b\n  >=1\nName: a", "Requires-Dist: b\n  >=1\n+Name: a"),
        ("Name: a\r\nVersion: 1\r\n\r\nRequires-Dist: no\r\n", None),
        ("Name: a", "Name: a\n+"),
        ("", "+"),
    ],
)
def test_a_line_is_added_to_metadata_and_other_bytes_are_kept(
    before: str, after: str | None
) -> None:
    made = edit_core_metadata(before, with_requirement(read_core_metadata(before), "p>=1"))
    if after is None:
        assert made == "Name: a\r\nVersion: 1\r\nRequires-Dist: p>=1\r\n\r\nRequires-Dist: no\r\n"
    else:
        assert made == after.replace("+", "Requires-Dist: p>=1\n")
    assert read_core_metadata(made) == with_requirement(read_core_metadata(before), "p>=1")


def test_a_line_takes_the_place_of_others_and_other_bytes_are_kept() -> None:
    before = (
        "Name: a\nRequires-Dist: b>=2\nrequires-dist:  b<3;\n folded\nX: b<3\nRequires-Dist: c\n\nb"
    )
    known = read_core_metadata(before)
    made = edit_core_metadata(before, with_requirement(known, "p>=1", known.requires_dist[:2]))
    assert made == "Name: a\nX: b<3\nRequires-Dist: c\nRequires-Dist: p>=1\n\nb"


@pytest.mark.parametrize(
    ("change", "value"),
    [
        (with_license_file, "bundled/x"),
        (with_license_expression, "MIT AND Zlib"),
        (with_requirement, "p>=1"),
        (partial(with_requirement, without=["b"]), "p>=1"),
    ],
)
@given(
    lines=st.lists(
        st.sampled_from(
            [
                "Metadata-Version: 2.1",
                "Metadata-Version: 2.4",
                "metadata-version:",
                "Name: a",
                "License-File: LICENSE",
                "License-Expression: MIT",
                "Requires-Dist: b",
                "  folded",
            ]
        ),
        max_size=6,
    ),
    end=st.sampled_from(["", "\n", "\n\nbody: 1\n"]),
)
def test_the_file_becomes_what_the_edit_predicts(
    change: Callable[[Metadata, str], Metadata], value: str, lines: list[str], end: str
) -> None:
    before = "\n".join(lines) + end
    wanted = change(read_core_metadata(before), value)
    assert read_core_metadata(edit_core_metadata(before, wanted)) == wanted
