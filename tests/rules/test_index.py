"""What PyPI refuses: for each of its checks a wheel that passes, and one that does not."""

import io
import os
import struct
import subprocess
import sys
import zipfile
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.oracles.index_predicates import Draft, good, written
from tests.support.build import make_wheel, shared_object
from tests.support.index_reading import is_mailed, refusal
from tests.support.installers import uv_install
from wheelfix.cli.app import run
from wheelfix.errors import BadWheelError
from wheelfix.rules.auditwheel_verdict import local_platform_tag
from wheelfix.rules.context import Context
from wheelfix.rules.findings import Finding, Severity
from wheelfix.rules.pypi_checks import IndexAnswer, takes_platform
from wheelfix.rules.registry import ARCHIVE_RULES
from wheelfix.rules.run_rules import run_rules
from wheelfix.settings import Index, Settings, Size
from wheelfix.wheel.model import WheelName
from wheelfix.wheel.reader import open_wheel

BIG = 65 * 2**20
INFO = "demo-1.0.dist-info"


def judge(path: Path, index: Index = Index.PYPI, **settings: object) -> tuple[Finding, ...]:
    """What the rules about archives say of a wheel."""
    with open_wheel(path) as archive:
        known = Settings(index=index, **settings)  # type: ignore[arg-type]
        return run_rules(Context(wheel=archive.wheel, settings=known), ARCHIVE_RULES)


def made(folder: Path, draft: Draft) -> Path:
    path = folder / draft.name
    path.write_bytes(written(draft))
    return path


def odd(what: str) -> Callable[[Draft], None]:
    return lambda draft: draft.flags.setdefault("demo/data.txt", set()).update(what.split(","))


def line(*lines: str) -> Callable[[Draft], None]:
    return lambda draft: draft.metadata.extend(lines)


def named(name: str, *, renamed: bool = True) -> Callable[[Draft], None]:
    def change(draft: Draft) -> None:
        draft.name = name
        distribution, version, _ = name.split("-", 2)
        draft.info = f"{distribution}-{version}.dist-info" if renamed else draft.info

    return change


def number(version: str) -> Callable[[Draft], None]:
    def change(draft: Draft) -> None:
        named(f"demo-{version}-py3-none-any.whl")(draft)
        draft.metadata[2] = f"Version: {version}"

    return change


def holding(member: str, data: bytes) -> Callable[[Draft], None]:
    return lambda draft: draft.files.__setitem__(member, data)


def without(name: str) -> Callable[[Draft], None]:
    return lambda draft: draft.flags.setdefault(name, set()).add("missing")


def twice_a_folder(draft: Draft) -> None:
    draft.folders = ["demo/", "demo/"]


def first_line(text: str) -> Callable[[Draft], None]:
    return lambda draft: draft.metadata.__setitem__(0, text)


WRONG: dict[IndexAnswer, Callable[[Draft], None]] = {
    IndexAnswer.DESCRIPTOR: odd("descriptor"),
    IndexAnswer.GAP: odd("gap"),
    IndexAnswer.COMMENT: odd("comment"),
    IndexAnswer.FOLDER_TWICE: twice_a_folder,
    IndexAnswer.EXTRA: odd("pad"),
    IndexAnswer.EXTRA_TWICE: odd("twice"),
    IndexAnswer.EXTRA_SIZE: odd("zip64-16 wrong"),
    IndexAnswer.RATIO: holding("demo/big", bytes(BIG)),
    IndexAnswer.FILE_NAME: named("demo-1.0-py3-none-any-cu13.whl"),
    IndexAnswer.PLATFORM: named("demo-1.0-cp311-cp311-manylinux_2_38_loongarch64.whl"),
    IndexAnswer.PROJECT_NAME: named("Demo-1.0-py3-none-any.whl"),
    IndexAnswer.OTHER_NAME: named("other-1.0-py3-none-any.whl"),
    IndexAnswer.OTHER_VERSION: named("demo-1.1-py3-none-any.whl"),
    IndexAnswer.DIST_INFO: named("demo-1.0.0-py3-none-any.whl", renamed=False),
    IndexAnswer.NO_RECORD: without("RECORD"),
    IndexAnswer.NO_METADATA: without("METADATA"),
    IndexAnswer.LICENSE_FILE: line("License-File: LICENSE"),
    IndexAnswer.URL: line("Requires-Dist: a @ https://example.org/a.whl"),
    IndexAnswer.ENTRY_POINTS: holding(f"{INFO}/entry_points.txt", b"[x]\na = b\n[x]\n"),
    IndexAnswer.FIELD: line("License-Expression: MIT AND"),
    IndexAnswer.METADATA_VERSION: first_line("Metadata-Version: 2.9"),
    IndexAnswer.LOCAL_VERSION: number("1.0+cu121"),
    IndexAnswer.SUMMARY: lambda draft: draft.metadata.__setitem__(3, "Summary: " + "x" * 513),
    IndexAnswer.EMAIL: line("Author-email: nothing"),
    IndexAnswer.CLASSIFIER: line("Classifier: Programming Language :: Python :: 3.99"),
    IndexAnswer.OLD_CLASSIFIER: line("Classifier: Natural Language :: Ukranian"),
    IndexAnswer.PAGE: line("Home-page: www.example.org"),
    IndexAnswer.LABEL: line("Project-URL: , https://example.org"),
    IndexAnswer.LONG_LABEL: line(f"Project-URL: {'D' * 33}, https://example.org"),
    IndexAnswer.NO_URL: line("Project-URL: Docs"),
    IndexAnswer.BAD_URL: line("Project-URL: Docs, www.example.org"),
    IndexAnswer.DIST: line("Provides-Dist: b (1"),
    IndexAnswer.DIST_URL: line("Obsoletes-Dist: b @ file:///x"),
    IndexAnswer.DESCRIPTION: line("", "Title", "==", "", "`unclosed"),
    IndexAnswer.DYNAMIC: line("Dynamic: Frobnicate"),
    IndexAnswer.TWO_LICENSES: line("License: MIT", "License-Expression: MIT"),
}
RIGHT: tuple[Callable[[Draft], None], ...] = (
    odd("time,stored,zip64-16"),
    holding("demo/small", bytes(2**20)),
    named("demo-1.0-3-py3-none-any.whl"),
    named("demo-1.0-cp311-cp311-manylinux_2_39_riscv64.whl"),
    number("1.0.post1"),
    line("License-File: LICENSE"),
    line("Requires-Dist: a>=1", "Provides-Dist: b", "Dynamic: Summary"),
    line("Author-email: A <a@example.org>", "Classifier: Programming Language :: Python :: 3"),
    line("Home-page: https://example.org/a b", "Project-URL: Docs, https://example.org"),
    line("License-Expression: MIT AND BSD-3-Clause"),
    line("", "Title", "=====", "", "Text."),
    line("Description-Content-Type: text/markdown", "", "`unclosed"),
    line("Description-Content-Type: text/plain", "", "`unclosed"),
    line("", ""),
    lambda draft: draft.metadata.__setitem__(
        slice(0, 1), ["Metadata-Version: 2.1", "License-File: COPYING", "License-Expression: x"]
    ),
    holding(f"{INFO}/entry_points.txt", b"[console_scripts]\na-b = demo:main\n"),
)
ELSEWHERE = {IndexAnswer.SIZE, IndexAnswer.LINUX, IndexAnswer.RECORD_NAMES}
UNREAD = {
    *(IndexAnswer.CLASSIFIER, IndexAnswer.OLD_CLASSIFIER),
    *(IndexAnswer.METADATA_VERSION, IndexAnswer.DESCRIPTION),
}
"""What the second reading does not judge, or by its version of `packaging`."""


def test_each_answer_has_a_wheel() -> None:
    assert WRONG.keys() | ELSEWHERE == {*IndexAnswer}


@pytest.mark.parametrize("answer", list(WRONG), ids=lambda answer: answer.name)
def test_a_wheel_that_the_index_refuses_is_an_error(tmp_path: Path, answer: IndexAnswer) -> None:
    draft = good()
    WRONG[answer](draft)
    path = made(tmp_path, draft)
    assert answer in UNREAD or refusal(path) is not None
    hits = [f for f in judge(path) if f.code == answer.value.code]
    words = max(answer.value.words.split("{}"), key=len)
    assert any(words in note for hit in hits for note in hit.notes)
    assert {hit.severity for hit in hits} == {Severity.ERROR}


def test_zip64_sizes_beside_plain_ones_are_an_error_for_any_index(tmp_path: Path) -> None:
    """In the central directory: in a local header, only wrong ones are refused."""
    data = bytearray(written(good()))
    at, end = data.index(b"PK\1\2"), data.index(b"PK\5\6")
    sizes = struct.unpack_from("<2L", data, at + 20)
    extra = struct.pack("<2H2Q", 1, 16, *sizes[::-1])
    struct.pack_into("<L", data, end + 12, struct.unpack_from("<L", data, end + 12)[0] + len(extra))
    name_size = struct.unpack_from("<H", data, at + 28)[0]
    struct.pack_into("<H", data, at + 30, len(extra))
    data[at + 46 + name_size : at + 46 + name_size] = extra
    path = tmp_path / good().name
    path.write_bytes(data)
    assert "zip64" in uv_install(path, tmp_path / "target").stderr
    [hit] = judge(path, Index.NONE)
    assert (hit.code, hit.severity) == ("WF520", Severity.ERROR)
    draft = good()
    odd("zip64-16 wrong")(draft)
    [hit] = judge(made(tmp_path, draft), Index.NONE)
    assert (hit.code, hit.severity) == ("WF520", Severity.ERROR)


@pytest.mark.parametrize("change", RIGHT)
def test_a_wheel_that_the_index_takes_has_no_finding(
    tmp_path: Path, change: Callable[[Draft], None]
) -> None:
    draft = good()
    change(draft)
    draft.files[f"{draft.info}/licenses/LICENSE"] = b"text"
    path = made(tmp_path, draft)
    assert refusal(path) is None
    assert not [finding for finding in judge(path) if finding.severity > Severity.NOTE]


@pytest.mark.parametrize("module", ["trove_classifiers", "readme_renderer.rst"])
def test_what_is_not_judged_without_the_extra_is_said(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, module: str
) -> None:
    draft = good()
    line("Classifier: Programming Language :: Python :: 3.99", "", "Text `unclosed")(draft)
    path = made(tmp_path, draft)
    assert [f.severity for f in judge(path)] == [Severity.ERROR] * 2
    monkeypatch.setitem(sys.modules, module, None)
    refused, unjudged = judge(path)
    assert (refused.severity, unjudged.severity) == (Severity.ERROR, Severity.NOTE)
    assert {refused.entry, unjudged.entry} == {"Classifier", "Description"}
    assert unjudged.hint == "`pip install 'wheelfix[index]'`"
    rendered = [finding.entry for finding in judge(path, Index.NONE)]
    assert rendered == ["Description"] * (module == "trove_classifiers")


def test_the_line_of_a_description_that_does_not_render_is_named(tmp_path: Path) -> None:
    """twine's check says the same of it."""
    draft = good()
    line("", "Title", "=====", "", "Text `unclosed")(draft)
    path = made(tmp_path, draft)
    [hit] = judge(path)
    assert "reStructuredText: line 4: Inline interpreted text" in hit.message
    twine = subprocess.run(
        [sys.executable, "-m", "twine", "check", path], check=False, capture_output=True, text=True
    )
    assert twine.returncode == 1
    assert "line 4: Warning: Inline interpreted text" in twine.stdout


def test_docutils_reads_no_settings_of_the_current_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("docutils.conf").write_text("[general]\nhalt_level: 5\nfile_insertion_enabled: yes\n")
    draft = good()
    line("", ".. include:: docutils.conf")(draft)
    [hit] = judge(made(tmp_path, draft))
    assert '"include" directive disabled' in hit.message


@pytest.mark.parametrize(
    ("text", "is_told"),
    [
        ("`unclosed", True),
        ("`unclosed" + " x" * 30_000, False),
        (".. |a| replace:: |b| |b|\n.. |b| replace:: x\n\n`unclosed |a|", False),
        (".. |a| Replace ::" + " *b*" * 100 + "\n\n`unclosed" + " |a|" * 100, False),
        (".. |a| unicode::" + " a" * 100 + "\n\n`unclosed" + " |a|" * 100, False),
        (".. contents::\n\n`unclosed", True),
        (".. contents::\n\n.. CONTENTS ::\n\n`unclosed", False),
        ("*fine*", False),
    ],
)
def test_a_description_that_does_not_render_is_a_warning_without_an_index(
    tmp_path: Path, text: str, *, is_told: bool
) -> None:
    """Whatever takes longer is not rendered, which the check for the index says."""
    draft = good()
    line("Description-Content-Type: text/x-rst", "", text)(draft)
    path = made(tmp_path, draft)
    found = [f for f in judge(path, Index.NONE) if f.code == "WF523"]
    assert [f.severity for f in found] == [Severity.WARNING] * is_told
    assert all("`readme`" in str(f.hint) for f in found)
    [*judged] = judge(path)
    expected = [Severity.ERROR] if is_told else [Severity.NOTE] * (text != "*fine*")
    assert [f.severity for f in judged] == expected
    assert is_told or all(f.hint == "`twine check` renders it" for f in judged)


def test_a_small_wheel_may_inflate_to_any_multiple(tmp_path: Path) -> None:
    """WF521 begins at 64 MiB, as the index does."""
    draft = good()
    holding("demo/big", bytes(60 * 2**20))(draft)
    path = made(tmp_path, draft)
    assert refusal(path) is None
    assert "WF521" not in {finding.code for finding in judge(path)}


def test_a_record_that_does_not_list_itself_is_a_warning(tmp_path: Path) -> None:
    draft = good()
    draft.rows = lambda rows: "".join(rows.splitlines(keepends=True)[:-1])
    path = made(tmp_path, draft)
    assert is_mailed(path)
    [finding] = judge(path)
    assert (finding.code, finding.severity) == ("WF501", Severity.WARNING)
    assert finding.notes == (IndexAnswer.RECORD_NAMES.note(),)
    assert "an email" in finding.notes[0]
    assert not judge(path, Index.NONE)


@pytest.mark.large
def test_the_limit_of_the_index_is_one_hundred_mebibytes(tmp_path: Path) -> None:
    draft = good()
    for n in range(4):
        draft.files[f"demo/{n}"] = os.urandom(26 * 2**20)
    path = made(tmp_path, draft)
    assert path.stat().st_size > 100 * 2**20
    [finding] = [f for f in judge(path) if f.code == "WF705"]
    assert "File too large. Limit for project 'demo' is 100 MB." in finding.notes[0]
    assert finding.severity is Severity.WARNING, "the index may have raised it for the project"
    assert "WF705" not in {f.code for f in judge(path, max_size=Size(200_000_000))}
    assert "WF705" not in {f.code for f in judge(path, Index.NONE)}
    assert "WF705" not in {f.code for f in judge(made(tmp_path, good()))}


def test_without_an_index_only_what_repair_corrects_is_a_warning(tmp_path: Path) -> None:
    draft = good()
    odd("descriptor")(draft)
    line("Home-page: www.example.org")(draft)
    found = judge(made(tmp_path, draft), Index.NONE)
    assert [(f.code, f.severity) for f in found] == [("WF520", Severity.WARNING)]


@pytest.mark.parametrize(
    "text",
    ["Home-page: www.example.org", "Download-URL: ftp:x", "Author-email: a", "Maintainer-email: b"],
)
def test_a_field_is_spelled_as_the_specification_spells_it(tmp_path: Path, text: str) -> None:
    """The spelling of the core metadata specification, which METADATA has."""
    draft = good()
    line(text)(draft)
    [finding] = judge(made(tmp_path, draft))
    assert finding.entry == text.partition(":")[0]
    assert f"`{text}`" in finding.message


def test_a_data_descriptor_alone_makes_repair_write_the_wheel_anew(tmp_path: Path) -> None:
    """Its objects are right already: nothing else would change."""
    library = shared_object(tmp_path / "libx.so", libc=False)
    tag = "py3-none-manylinux_2_17_x86_64"
    good_one = make_wheel(tmp_path / "good", tag=tag, files={"demo/libx.so": library})
    bad = tmp_path / good_one.name
    with (
        zipfile.ZipFile(good_one) as old,
        zipfile.ZipFile(pipe := _Pipe(), "w") as new,
    ):
        for name in old.namelist():
            new.writestr(name, old.read(name))
    bad.write_bytes(pipe.getvalue())
    assert refusal(bad) == "local header"
    out = tmp_path / "out"
    assert run(["repair", "-w", str(out), str(bad)]) == 0
    assert refusal(out / bad.name) is None
    with zipfile.ZipFile(out / bad.name) as new, zipfile.ZipFile(bad) as old:
        assert {n: new.read(n) for n in new.namelist()} == {n: old.read(n) for n in old.namelist()}
    assert run(["repair", "-w", str(tmp_path / "same"), str(good_one)]) == 0
    assert (tmp_path / "same" / bad.name).read_bytes() == good_one.read_bytes()


class _Pipe(io.BytesIO):
    """A file that cannot be sought, such as a pipe."""

    def seekable(self) -> bool:
        return False

    def tell(self) -> int:
        raise OSError(29, "Illegal seek")


@pytest.mark.parametrize("arch", ["armv5l", "armv8l", "loongarch64"])
def test_only_two_linux_tags_are_taken(arch: str) -> None:
    name = WheelName.parse(f"demo-1.0-py3-none-linux_{arch}.whl")
    assert IndexAnswer.LINUX.value.code == local_platform_tag.code
    assert not takes_platform(name.platforms[0])
    assert takes_platform("linux_armv6l")


@pytest.mark.parametrize(
    ("name", "build", "platform", "variant"),
    [
        ("x-1-cp311-cp311-manylinux_2_28_x86_64-cu13.whl", None, "manylinux_2_28_x86_64", "cu13"),
        ("x-1-3-cp311-cp311-linux_x86_64-x86_64_v3.whl", "3", "linux_x86_64", "x86_64_v3"),
        ("x-1-3b-cp311-cp311-linux_x86_64.whl", "3b", "linux_x86_64", None),
        ("x-1-py3-none-any-null.whl", None, "any", "null"),
    ],
)
def test_the_label_of_a_variant_wheel_is_no_other_field(
    name: str, build: str | None, platform: str, variant: str | None
) -> None:
    parsed = WheelName.parse(name)
    assert (parsed.build, parsed.platforms, parsed.variant) == (build, (platform,), variant)
    assert str(parsed) == name


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("x-1-build-cp311-cp311-linux_x86_64.whl", "invalid build tag `build`"),
        ("x-1-3-cp311-cp311-linux_x86_64-CU13.whl", "invalid variant label `CU13`"),
        ("x-1-a-b-c-d-e-f.whl", "is not the name of a wheel"),
        ("x-1-3+b-cp311-cp311-linux_x86_64.whl", "`3\\+b` has other characters than ASCII letters"),
        ("x-1-cp311-cp311-linux_x86_64#any.whl", "`linux_x86_64#any` has other characters"),
    ],
)
def test_fields_of_a_file_name_are_refused_as_by_installers(name: str, message: str) -> None:
    with pytest.raises(BadWheelError, match=message):
        WheelName.parse(name)


def test_the_label_of_a_variant_wheel_survives_a_repair(tmp_path: Path) -> None:
    library = shared_object(tmp_path / "libx.so", runpath="$ORIGIN/none")
    described = '{"variants": {"cu13": {"nvidia": {"cuda": ["13"]}}}}'
    files: dict[str, str | Path] = {
        "demo/libx.so": library,
        "demo-1.0.dist-info/variant.json": described,
    }
    plain = make_wheel(tmp_path, tag="py3-none-linux_x86_64", files=files)
    variant = plain.rename(tmp_path / plain.name.replace(".whl", "-cu13.whl"))
    assert run(["repair", "-w", str(tmp_path / "out"), str(variant)]) == 0
    [path] = (tmp_path / "out").iterdir()
    assert path.name.endswith("-cu13.whl")
    assert "linux_x86_64" not in path.name.replace("manylinux", "")
