"""A DT_NEEDED entry with `$ORIGIN` leads into the wheel: nothing is grafted for it, or missing."""

import ctypes
import zipfile
from pathlib import Path

import pytest

from tests.support.build import Files, make_wheel, shared_object
from tests.support.environment import ENVIRON
from tests.support.repairing import repair
from wheelfix import check
from wheelfix.settings import Settings


@pytest.mark.parametrize("soname", [None, "libx.so.1"])
@pytest.mark.parametrize("tag", ["py3-none-linux_x86_64", "py3-none-manylinux_2_28_x86_64"])
@pytest.mark.parametrize("entry", ["$ORIGIN/libs/libx.so.1", "${ORIGIN}/../demo/libs/libx.so.1"])
def test_an_object_that_needs_a_graft_keeps_its_way_into_the_wheel(
    soname: str | None, tag: str, entry: str, tmp_path: Path
) -> None:
    linked = shared_object(tmp_path / "linked.so", "int x(void) { return 3; }", soname=entry)
    own = shared_object(tmp_path / "libx.so.1", "int x(void) { return 3; }", soname=soname)
    other = shared_object(tmp_path / "libe.so.1", "int e(void) { return 5; }", soname="libe.so.1")
    user = shared_object(
        tmp_path / "a.so",
        "int x(void), e(void); int a(void) { return x() + e(); }",
        needed=[linked, other],
        rpath=str(tmp_path),
    )
    files: Files = {"demo/__init__.py": "", "demo/a.so": user, "demo/libs/libx.so.1": own}
    wheel = make_wheel(tmp_path / "dist", tag=tag, files=files)
    found = check(wheel, Settings()).findings
    said = [note for finding in found for note in (finding.message, *finding.notes)]
    assert not any("is neither in the wheel" in text and "libx" in text for text in said)
    outcome = repair(wheel, Settings(wheel_dir=tmp_path / "out"), ENVIRON)
    assert outcome.output is not None, (outcome.error, outcome.remaining)
    assert [library.original for library in outcome.grafted] == ["libe.so.1"]
    with zipfile.ZipFile(outcome.output) as archive:
        archive.extractall(tmp_path / "site")
    other.unlink()
    assert ctypes.CDLL(str(tmp_path / "site/demo/a.so")).a() == 8


def test_an_entry_that_leads_nowhere_is_still_missing(tmp_path: Path) -> None:
    linked = shared_object(tmp_path / "linked.so", soname="$ORIGIN/gone/libx.so.1")
    user = shared_object(
        tmp_path / "a.so", "int f(void); int a(void){return f();}", needed=[linked]
    )
    files: Files = {"demo/__init__.py": "", "demo/a.so": user}
    wheel = make_wheel(tmp_path / "dist", tag="py3-none-linux_x86_64", files=files)
    outcome = repair(wheel, Settings(wheel_dir=tmp_path / "out"), ENVIRON)
    assert outcome.error is not None
    assert "$ORIGIN/gone/libx.so.1" in outcome.error.message
