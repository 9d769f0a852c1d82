"""Repairs of published wheels, a part of `scripts/corpus.py`, and the comparison that it uses."""

import shutil
import stat
import sys
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from real_wheels.archives import removed_members, zip_problems
from real_wheels.installed import elf_files, load_problems, load_results
from real_wheels.listed import read_corpus
from real_wheels.programs import fetch, run
from real_wheels.published import check_published
from tests.support.fork_server import warm_program

CHOSEN = [item for item in read_corpus().published if item.ci]


@pytest.mark.network
@pytest.mark.large
@pytest.mark.parametrize("item", CHOSEN, ids=[item.requirement for item in CHOSEN])
def test_a_repair_keeps_a_published_wheel_working(item: Any, tmp_path: Path) -> None:
    tools = Path(sys.executable)  # has pip and installer
    fetch(item.requirement, tools, tmp_path)
    outcome = check_published(item, [warm_program()], tools, tmp_path)
    assert outcome.problems == ()
    assert outcome.cells["ELF"] != "0"


def write(path: Path, members: list[tuple[str, bytes]], mode: int = 0o644) -> Path:
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in members:
            info = zipfile.ZipInfo(name)
            info.external_attr = (stat.S_IFREG | mode) << 16
            archive.writestr(info, content, zipfile.ZIP_DEFLATED)
    return path


MEMBERS = [("p/a.so", b"a" * 99), ("p/b.py", b"b"), ("p-1.dist-info/RECORD", b"")]


def rewritten(change: Callable[[Path], Path], tmp_path: Path, plan: str = "") -> list[str]:
    original = write(tmp_path / "original.whl", MEMBERS)
    problems: list[str] = zip_problems(original, change(tmp_path / "new.whl"), plan)[0]
    return problems


def test_a_copy_has_no_problems(tmp_path: Path) -> None:
    assert rewritten(lambda new: write(new, MEMBERS), tmp_path) == []


@pytest.mark.parametrize(
    ("members", "problem"),
    [
        ([("p/a.so", b"c" * 99), *MEMBERS[1:]], "p/a.so changed, and the plan does not name it"),
        (MEMBERS[1:], "p/a.so changed, and the plan does not name it"),
        ([*MEMBERS, ("p/c", b"")], "p/c changed, and the plan does not name it"),
        ([MEMBERS[1], MEMBERS[0], MEMBERS[2]], "the order of the members changed"),
        ([*MEMBERS[:2], ("p-1.dist-info/RECORD", b"1")], "RECORD changed, and nothing else"),
    ],
)
def test_an_unplanned_change_is_found(
    members: list[tuple[str, bytes]], problem: str, tmp_path: Path
) -> None:
    assert rewritten(lambda new: write(new, members), tmp_path) == [problem]


def test_another_mode_is_found(tmp_path: Path) -> None:
    problems = rewritten(lambda new: write(new, MEMBERS, 0o755), tmp_path, plan="p/a.so\np/b.py")
    assert "p/a.so has another mode" in problems


def test_recompression_is_found_though_the_content_is_the_same(tmp_path: Path) -> None:
    def stored(new: Path) -> Path:
        with zipfile.ZipFile(new, "w", zipfile.ZIP_STORED) as archive:
            for name, content in MEMBERS:
                info = zipfile.ZipInfo(name)
                info.external_attr = (stat.S_IFREG | 0o644) << 16
                archive.writestr(info, content, zipfile.ZIP_STORED)
        return new

    assert "p/a.so changed, and the plan does not name it" in rewritten(stored, tmp_path)


def test_a_named_change_is_allowed_and_record_with_it(tmp_path: Path) -> None:
    changed = [("p/a.so", b"c"), MEMBERS[1], ("p-1.dist-info/RECORD", b"1")]
    assert rewritten(lambda new: write(new, changed), tmp_path, plan="  p/a.so\n    edit") == []


def test_a_library_that_no_longer_loads_is_found() -> None:
    before = {"a.so": "", "b.so": "", "c.so": "libx: not found"}
    after = {"a.so": "", "b.so": "liby: not found", "c.so": "libx: not found"}
    assert load_problems(before, after, ()) == ["b.so loaded before: liby: not found"]
    assert load_problems(before, {"a.so": ""}, ()) == ["b.so loaded before: it is gone"]


def test_a_file_may_be_missing_only_if_the_plan_removes_it() -> None:
    plan = "plan for x.whl\n  x.libs/b.so\n    present -> removed  [WF401 orphaned-library]\n"
    removed = removed_members(plan)
    assert removed == {"x.libs/b.so"}
    assert not load_problems({"lib/x.libs/b.so": ""}, {}, removed)
    assert load_problems({"lib/x.libs/b.so": ""}, {"lib/x.libs/b.so": "liby"}, removed)


def test_every_file_is_loaded(tmp_path: Path) -> None:
    """The probe itself, on a library that loads, one that does not, and an executable."""
    compiler = shutil.which("cc")
    if compiler is None:
        pytest.skip("no C compiler")
    root = tmp_path / "env"
    run(sys.executable, "-m", "venv", "--without-pip", root)
    source = tmp_path / "source.c"
    source.write_text("int missing(void); int good(void) { return 1; }\n")
    run(compiler, "-shared", "-fPIC", "-o", root / "good.so", source)
    source.write_text("int missing(void); int bad(void) { return missing(); }\n")
    run(compiler, "-shared", "-fPIC", "-o", root / "bad.so", source)
    source.write_text("int main(void) { return 0; }\n")
    run(compiler, "-o", root / "program", source)
    results = load_results(root, elf_files(root))
    assert results["good.so"] == results["program"] == ""
    assert "undefined symbol: missing" in results["bad.so"]


def test_a_warning_about_a_file_does_not_allow_a_change(tmp_path: Path) -> None:
    changed = [("p/a.so", b"c"), *MEMBERS[1:]]
    problems = rewritten(lambda new: write(new, changed), tmp_path, plan="`p/a.so`: is odd")
    assert problems == ["p/a.so changed, and the plan does not name it"]
