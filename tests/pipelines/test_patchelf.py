"""Every edit in one call of patchelf, read back as predicted, and the object still loads."""

import ctypes
import itertools
import struct
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.build import extension, shared_object, stub_library_with_versions
from wheelfix.elf.compare import differences
from wheelfix.elf.model import Elf
from wheelfix.elf.reader import read_elf
from wheelfix.elf.revision import Revision
from wheelfix.errors import PlanConflictError, ToolError
from wheelfix.pipelines.patchelf import Patchelf, calls, find_patchelf, split
from wheelfix.system.subprocesses import run

PATHS: list[tuple[str | None, str | None]] = [
    (None, None),
    ("$ORIGIN", None),
    (None, "$ORIGIN"),
    ("$ORIGIN/../very/long/folder.libs:$ORIGIN", None),
    (None, "$ORIGIN/../very/long/folder.libs:$ORIGIN"),
]


@pytest.fixture(scope="module")
def patchelf() -> Patchelf:
    return find_patchelf()


def give_both_tags(path: Path) -> None:
    """Turn GNU ld's first spare DT_NULL into a DT_RPATH with the text of DT_RUNPATH."""
    content = bytearray(path.read_bytes())
    section = subprocess.run(["readelf", "-lW", path], capture_output=True, text=True, check=True)
    row = next(line for line in section.stdout.splitlines() if " DYNAMIC " in line)
    at = int(row.split()[1], 16)
    text = None
    while (entry := struct.unpack_from("<QQ", content, at))[0]:
        text = entry[1] if entry[0] == 29 else text
        at += 16
    struct.pack_into("<QQ", content, at, 15, text)
    path.write_bytes(content)


def patched(patchelf: Patchelf, path: Path, revision: Revision) -> Elf:
    """Patch and hold the result against the prediction and against the object as it was."""
    before = path.read_bytes()
    patchelf.patch(path, revision)
    assert differences(before, path.read_bytes(), revision.after, path.name) == ()
    return read_elf(path.read_bytes(), path.name)


def revised(path: Path) -> Revision:
    return Revision.of(read_elf(path.read_bytes(), path.name))


@pytest.mark.parametrize(("old", "new"), list(itertools.product(PATHS, PATHS)))
def test_any_search_path_becomes_any_other_in_one_call(
    tmp_path: Path,
    patchelf: Patchelf,
    old: tuple[str | None, str | None],
    new: tuple[str | None, str | None],
) -> None:
    path = shared_object(tmp_path / "lib.so", rpath=old[0], runpath=old[1], libc=False)
    revision = revised(path).set_paths(*new)
    assert len(list(calls(revision))) == (old != new)
    elf = patched(patchelf, path, revision)
    assert (elf.rpath, elf.runpath) == new
    ctypes.CDLL(str(path))


@pytest.mark.parametrize("new", PATHS)
def test_an_object_with_both_tags_keeps_the_wanted_one(
    tmp_path: Path, patchelf: Patchelf, new: tuple[str | None, str | None]
) -> None:
    path = shared_object(tmp_path / "lib.so", runpath="/build/tree")
    give_both_tags(path)
    before = read_elf(path.read_bytes(), "lib.so")
    assert (before.rpath, before.runpath) == ("/build/tree", "/build/tree")
    elf = patched(patchelf, path, revised(path).set_paths(*new))
    assert (elf.rpath, elf.runpath) == new


@pytest.mark.parametrize("stripped", [False, True])
@pytest.mark.parametrize("soname", [None, "libb-0a1b2c3d.so.1"])
@pytest.mark.parametrize("new_name", [None, "liba-9f8e7d6c.so.1", "a.so.1"])
@pytest.mark.parametrize("path", [None, "$ORIGIN", "$ORIGIN/" + "d" * 300])
def test_edits_go_together(  # noqa: PLR0913, PLR0917 -- one for each edit
    tmp_path: Path,
    patchelf: Patchelf,
    path: str | None,
    new_name: str | None,
    soname: str | None,
    stripped: bool,  # noqa: FBT001 - a parameter of the test
) -> None:
    a = stub_library_with_versions(tmp_path / "liba.so.1", "liba.so.1", {"A_1": ["a"]})
    b = shared_object(
        tmp_path / "libb.so",
        "int a(void); int b(void) { return a() + 1; } int (*pointer)(void) = b;",
        soname="libb.so",
        needed=[a],
        runpath="$ORIGIN",
        libc=False,
    )
    if stripped:
        original, before = b.read_bytes(), revised(b).strip(keeps_symtab=False)
        run(["strip", "-s", str(b)])
        assert differences(original, b.read_bytes(), before.after, "libb.so") == ()
    revision = revised(b)
    if new_name is not None:
        a.rename(tmp_path / new_name)
        revision = revision.rename_needed("liba.so.1", new_name)
    if soname is not None:
        revision = revision.set_soname(soname)
    if path is not None:
        (tmp_path / "d").mkdir(exist_ok=True)
        revision = revision.set_paths(path + ":$ORIGIN", None)
    assert len(list(calls(revision))) == (revision.before != revision.after)
    assert patched(patchelf, b, revision).needed == revision.after.needed
    load = "import ctypes, sys; assert ctypes.CDLL(sys.argv[1]).b() == 2"
    run([sys.executable, "-c", load, str(b)])


def test_an_extension_module_still_imports(tmp_path: Path, patchelf: Patchelf) -> None:
    library = shared_object(tmp_path / "libs" / "libf.so.1", soname="libf.so.1")
    module = extension(tmp_path / "thing.so", "thing", needed=[library], calls=["f"])
    library.rename(tmp_path / "libs" / "libf-01234567.so.1")
    revision = revised(module).rename_needed("libf.so.1", "libf-01234567.so.1")
    revision = revision.set_paths("$ORIGIN/libs", None)
    assert patched(patchelf, module, revision) == revision.after._replace(
        segments=read_elf(module.read_bytes(), "thing.so").segments
    )
    done = run([sys.executable, "-c", "import thing; print(thing.value())"], cwd=tmp_path)
    assert done.stdout == "1\n"


def test_patchelf_does_not_run_without_changes(tmp_path: Path) -> None:
    path = shared_object(tmp_path / "lib.so", libc=False)
    content = path.read_bytes()
    Patchelf("/nonexistent").patch(path, revised(path))
    assert path.read_bytes() == content


PLAIN = Elf(bits=64, little_endian=True, machine=62, osabi=0, flags=0, type=3)


def test_the_arguments_of_each_change() -> None:
    before = Revision.of(PLAIN._replace(needed=("a", "b", "c"), soname="s", runpath="/x"))
    swapped = before.rename_needed("a", "t").rename_needed("b", "a").rename_needed("t", "b")
    for revision, words in [
        (before.set_soname("t"), "--set-soname t"),
        (before.set_paths(None, None), "--remove-rpath"),
        (before.set_paths("/x", None), "--force-rpath --set-rpath /x"),
        (before.set_paths(None, "/y"), "--set-rpath /y"),
        (before.rename_needed("b", "n"), "--replace-needed b n"),
        (swapped, "--replace-needed a b --replace-needed b a"),
        (before.add_needed("0"), "--add-needed 0"),
        (before.rename_needed("a", "n").add_needed("0"), "--replace-needed a n --add-needed 0"),
    ]:
        assert list(calls(revision)) == [words.split()]
    assert list(calls(before)) == []


def test_swapped_names_are_swapped_in_one_call(tmp_path: Path, patchelf: Patchelf) -> None:
    one, two = (
        shared_object(tmp_path / f"lib{n}.so", f"int {n};", soname=f"lib{n}.so", libc=False)
        for n in "xy"
    )
    path = shared_object(tmp_path / "lib.so", needed=[one, two], libc=False)
    swapped = revised(path).rename_needed("libx.so", "t").rename_needed("liby.so", "libx.so")
    swapped = swapped.rename_needed("t", "liby.so")
    assert patched(patchelf, path, swapped).needed == ("liby.so", "libx.so")


def test_what_patchelf_cannot_do_is_refused() -> None:
    plain = Revision.of(PLAIN._replace(needed=("a", "b", "a"), soname="s"))
    for revision, message in [
        (plain.set_soname(None), "cannot drop DT_SONAME"),
        (plain.drop_needed("a"), "cannot drop `a`"),
        (plain.add_needed("y").add_needed("z"), "in the order z, y"),
        (plain.set_paths("@loader_path", None), "cannot write `@loader_path`"),
        (plain.set_paths("/a", "/b"), "cannot set both"),
    ]:
        with pytest.raises(PlanConflictError, match=message):
            list(calls(revision))


def test_what_patchelf_cannot_do_is_split_off() -> None:
    plain = Revision.of(PLAIN._replace(needed=("a", "b", "c"), soname="s"))
    revision = plain.drop_needed("a").rename_needed("b", "n").set_soname(None).add_needed("0")
    first, rest = split(revision)
    assert first.dropped == {"a"}
    assert (first.after.needed, first.after.soname) == (("b", "c"), None)
    assert (rest.before, rest.after) == (first.after, revision.after)
    assert list(calls(rest)) == [["--replace-needed", "b", "n", "--add-needed", "0"]]


def test_missing_section_headers_are_refused(tmp_path: Path, patchelf: Patchelf) -> None:
    path = shared_object(tmp_path / "lib.so", libc=False)
    revision = revised(path).set_soname("new.so")
    content = bytearray(path.read_bytes())
    content[0x28:0x30] = bytes(8)  # e_shoff
    content[0x3C:0x40] = bytes(4)  # e_shnum, e_shstrndx
    path.write_bytes(content)
    with pytest.raises(ToolError, match="no section headers") as caught:
        patchelf.patch(path, revision)
    assert caught.value.hint is not None


def test_programs_that_fail_hang_or_are_missing_are_named() -> None:
    with pytest.raises(ToolError, match="`no-such-tool` is not installed") as missing:
        run(["no-such-tool"], install_hint="pip install it")
    assert missing.value.hint == "pip install it"
    with pytest.raises(ToolError, match=r"(?s)exit code 3.*stderr:\noops.*stdout:\nhello"):
        run(["sh", "-c", "echo hello; echo oops >&2; exit 3"])
    with pytest.raises(ToolError, match="killed by signal 9"):
        run(["sh", "-c", "kill -9 $$"])
    with pytest.raises(ToolError, match=r"did not end within 0\.2 seconds"):
        run(["sh", "-c", "sleep 999 & sleep 999"], timeout=0.2)  # both end, or this would hang
    both = "import sys; sys.stderr.write('e' * 300000); sys.stdout.write('o' * 300000)"
    done = run([sys.executable, "-c", both])
    assert (len(done.stdout), len(done.stderr)) == (300000, 300000)
