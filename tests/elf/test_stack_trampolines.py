"""Trampolines, as compilers write them; and code that does not."""

import platform
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.compiled import require_linking
from tests.support.tools import tool
from wheelfix.elf.compare import differences
from wheelfix.elf.editor import edit
from wheelfix.elf.model import Elf
from wheelfix.elf.reader import read_elf
from wheelfix.elf.revision import Revision

NESTED = """
int call(int (*function)(int), int x) { return function(x); }
int one(int k) { int g(int x) { return x + k; } return call(g, 41); }
int two(int k) {
    int g(int x) { return x + k; }
    int h(int x) { return x - k; }
    return call(g, 1) + call(h, 2);
}
int loop(int n) {
    int sum = 0;
    for (int i = 0; i < n; i++) { int g(int x) { return sum += x + i; } call(g, i); }
    return sum;
}
"""
PLAIN = "static int g(int x) { return x + 1; } int one(int k) { return g(41) + k - k; }"
FORTRAN = """
subroutine outer(k, n) bind(c)
  integer, value :: k
  integer :: n
  interface
    subroutine call(f)
      interface
        integer function f(x)
          integer :: x
        end function
      end interface
    end subroutine
  end interface
  call call(inner)
contains
  integer function inner(x)
    integer :: x
    inner = x + k
    n = inner
  end function
end subroutine
"""
COMPILERS = {
    "gcc": True,
    "aarch64-linux-gnu-gcc": True,
    "arm-linux-gnueabihf-gcc": True,
    "s390x-linux-gnu-gcc": True,
    "i686-linux-gnu-gcc": None,
    "powerpc64le-linux-gnu-gcc": None,
    "riscv64-linux-gnu-gcc": None,
}
"""Whether trampolines are found in the objects of a compiler; None where they are not known."""
LEVELS = ("-O0", "-O1", "-O2", "-O3", "-Os")


def compiled(path: Path, source: str, *command: str) -> Elf:
    words = [*command, "-w", "-shared", "-fPIC", "-nostdlib", "-Wl,-z,execstack", "-"]
    subprocess.run([*words, "-o", str(path)], input=source, text=True, check=True)
    return read_elf(path.read_bytes(), path.name)


@pytest.mark.each_run("*-O0", "*-O2")
@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("compiler", COMPILERS)
def test_nested_functions_of_gcc(tmp_path: Path, compiler: str, level: str) -> None:
    require_linking(compiler, "-shared", "-nostdlib")
    is_native = compiler == "gcc" and platform.machine() == "x86_64"
    flags: list[list[str]] = [[]]
    if is_native:
        flags = [[], ["-fcf-protection=full"], ["-march=x86-64-v3"]]
    if compiler.startswith("aarch64"):
        flags = [[], ["-mbranch-protection=standard"]]
    if compiler.startswith("arm"):
        flags = [[], ["-marm"]]
    for some in flags:
        command = [compiler, "-xc", level, *some]
        assert compiled(tmp_path / "a.so", NESTED, *command).trampolines is COMPILERS[compiler]
        found = compiled(tmp_path / "b.so", PLAIN, *command).trampolines
        assert found is (None if COMPILERS[compiler] is None else False)


@pytest.mark.parametrize("level", LEVELS)
def test_contained_procedures_of_fortran(tmp_path: Path, level: str) -> None:
    assert compiled(tmp_path / "a.so", FORTRAN, tool("gfortran"), "-xf95", level).trampolines


def test_trampolines_are_only_looked_for_where_they_matter(tmp_path: Path) -> None:
    compiled(tmp_path / "a.so", NESTED, "gcc", "-xc")
    subprocess.run(["patchelf", "--clear-execstack", str(tmp_path / "a.so")], check=True)
    assert read_elf((tmp_path / "a.so").read_bytes(), "a.so").trampolines is False


@pytest.mark.parametrize(("source", "code"), [(NESTED, -11), (PLAIN, 0)], ids=["nested", "plain"])
def test_a_cleared_flag_is_all_that_changes(tmp_path: Path, source: str, code: int) -> None:
    """Code that has trampolines crashes without the flag: that is why they are looked for."""
    before = compiled(tmp_path / "a.so", source, "gcc", "-xc", "-O2")
    revision = Revision.of(before).clear_execstack()
    after, data = revision.after, (tmp_path / "a.so").read_bytes()
    content = edit(data, revision, "a.so").content(data)
    assert read_elf(content, "a.so") == after
    assert differences(data, content, after, "a.so") == ()
    assert any("PT_GNU_STACK" in text for text in differences(data, content, before, "a.so"))
    assert [a ^ b for a, b in zip(data, content, strict=True) if a != b] == [1]
    (tmp_path / "b.so").write_bytes(content)
    call = "import ctypes, sys; assert ctypes.CDLL(sys.argv[1]).one(1) == 42"
    done = subprocess.run([sys.executable, "-c", call, str(tmp_path / "b.so")], check=False)
    assert done.returncode == code


def test_the_flag_is_cleared_where_the_object_grows(tmp_path: Path) -> None:
    before = compiled(tmp_path / "a.so", PLAIN, "gcc", "-xc")
    revision = Revision.of(before).clear_execstack().set_paths("/far/away/" * 30, None)
    revision = revision.set_soname("liba-with-a-longer-name.so.1")
    data = (tmp_path / "a.so").read_bytes()
    content = edit(data, revision, "a.so").content(data)
    assert len(content) > len(data)
    assert differences(data, content, revision.after, "a.so") == ()
