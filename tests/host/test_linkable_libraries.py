"""An undefined symbol that a library of this machine defines: that one is named."""

from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from tests.support.build import extension, make_wheel, shared_object
from tests.support.naming import SUFFIX, TAG
from wheelfix.cli.app import run
from wheelfix.host import library_search

BUILD = "link the library, or compile the source, that defines it"


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """The one folder in which linkers and loaders search."""
    (system := tmp_path / "system").mkdir()
    monkeypatch.setattr(library_search, "configured_directories", lambda *_: {str(system): ""})
    monkeypatch.setattr(library_search, "_TRUSTED", ())
    library_search._linkable.cache_clear()
    library_search._defining.cache_clear()
    yield system
    library_search._linkable.cache_clear()
    library_search._defining.cache_clear()


def install(
    folder: Path, stem: str, function: str, *links: str, flags: Sequence[str] = (), text: str = ""
) -> None:
    """Install a library with a SONAME, and the links of its development package."""
    file, text = f"lib{stem}.so.16.39", f"{text}\nint {function}(void) {{ return 1; }}"
    shared_object(folder / file, text, soname=file[:-3], flags=flags)
    for link in links:
        (folder / f"lib{link}.so").symlink_to(file)


def said(wheel: Path, capsys: pytest.CaptureFixture[str], *commands: str) -> Iterator[str]:
    for command in commands or ("check", "explain", "verify"):
        assert run([command, str(wheel)]) == 1
        yield " ".join(capsys.readouterr().out.split())


def lacking(tmp_path: Path, *functions: str) -> Path:
    module = extension(tmp_path / "core.so", "_core", calls=functions)
    files: dict[str, bytes | str | Path] = {"p/__init__.py": "from . import _core\n"}
    files[f"p/_core{SUFFIX}"] = module
    return make_wheel(tmp_path, "p", tag=TAG, files=files)


def test_a_library_that_defines_an_undefined_symbol_is_named(
    tmp_path: Path, folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    install(folder, "pict16", "pict_read", "pict16", "pict")
    (folder / "libscript.so").write_text("INPUT(-lpict_read)")
    for out in said(lacking(tmp_path, "pict_read"), capsys):
        assert f"{BUILD}: `libpict16.so.16` (`-lpict16`) of this machine does" in out


def test_each_of_several_is_named(
    tmp_path: Path, folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for stem in ("curses_a", "curses_b"):
        install(folder, stem, "init_screen", stem)
    for out in said(lacking(tmp_path, "init_screen"), capsys):
        assert "(`-lcurses_b`), `libcurses_a.so.16` (`-lcurses_a`) of this machine do" in out


def test_only_one_that_defines_all_is_named(
    tmp_path: Path, folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    install(folder, "pict16", "pict_read", "pict16")
    install(folder, "zip", "zip_read", "zip")
    for out in said(lacking(tmp_path, "pict_read", "zip_read"), capsys):
        assert ("pict_read" in out, "of this machine do" in out) == (True, False)
    install(folder, "both", "zip_read", "both", text="int pict_read(void) { return 2; }")
    library_search._linkable.cache_clear()
    library_search._defining.cache_clear()
    for out in said(lacking(tmp_path, "pict_read", "zip_read"), capsys):
        assert "defines it: `libboth.so.16` (`-lboth`) of this machine does" in out


def test_one_that_defines_it_for_older_programs_alone_is_not_named(
    tmp_path: Path, folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (script := tmp_path / "script").write_text("ONE { global: pict_read; local: *; };")
    older = '__asm__(".symver older, pict_read@ONE");\nint older(void) { return 1; }'
    flags = [f"-Wl,--version-script={script}"]
    install(folder, "pict16", "other", "pict16", flags=flags, text=older)
    for out in said(lacking(tmp_path, "pict_read"), capsys):
        assert (BUILD in out, "of this machine do" in out) == (True, False)


def test_a_link_that_leads_to_itself_is_no_library(
    tmp_path: Path, folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (folder / "libloop.so").symlink_to("libloop.so")
    install(folder, "pict16", "pict_read", "pict16")
    for out in said(lacking(tmp_path, "pict_read"), capsys):
        assert f"{BUILD}: `libpict16.so.16` (`-lpict16`) of this machine does" in out


def test_an_older_build_of_one_that_is_linked_with_is_not_linked_again(
    tmp_path: Path, folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The wheel bundles one that lacks the symbol."""
    install(folder, "pict16", "pict_read", "pict16")
    name = "libpict16.so.16"
    (tmp_path / "old").mkdir()
    old = shared_object(tmp_path / "old" / name, "int pict(void) { return 0; }", soname=name)
    new = folder / f"{name}.39"
    core = tmp_path / "core.so"
    module = extension(core, "_core", needed=[new], calls=["pict_read"], runpath="$ORIGIN")
    files: dict[str, bytes | str | Path] = {"p/__init__.py": "from . import _core\n"}
    files |= {f"p/_core{SUFFIX}": module, f"p/{name}": old}
    for out in said(make_wheel(tmp_path, "p", tag=TAG, files=files), capsys, "explain", "verify"):
        assert ("ship the build that" in out, "of this machine do" in out) == (True, False)


@pytest.mark.parametrize("link", ["pict16", ""])
def test_one_that_cannot_be_linked_with_or_does_not_define_it_is_not_named(
    tmp_path: Path, folder: Path, capsys: pytest.CaptureFixture[str], link: str
) -> None:
    install(folder, "pict16", "pict_read_more" if link else "pict_read", *filter(None, [link]))
    for out in said(lacking(tmp_path, "pict_read"), capsys):
        assert (BUILD in out, "of this machine do" in out) == (True, False)
