"""Symbols that the libraries of a platform lack, told without a library of that platform."""

import ctypes
import os
import re
import shlex
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from tests.support.build import extension, make_wheel, shared_object
from tests.support.naming import PYTHON, SUFFIX
from wheelfix import check, repair
from wheelfix.cli.app import run
from wheelfix.loader.platform_libraries import first_versions
from wheelfix.rules.findings import Finding
from wheelfix.settings import Settings

TAG = f"{PYTHON}-{PYTHON}-manylinux_2_28_x86_64"
NEW = "_ZNSt7__cxx1119basic_ostringstreamIcSt11char_traitsIcESaIcEEC1Ev"
OLD = "_ZNSt8ios_base4InitC1Ev"

pytestmark = pytest.mark.skipif(os.uname().machine != "x86_64", reason="the tag is for x86-64")


def wheel(
    tmp_path: Path,
    name: str,
    library: Path,
    tag: str = TAG,
    *,
    other: Path | None = None,
) -> Path:
    needed = [library] if other is None else [library, other]
    module = extension(tmp_path / "m.so", "_m", needed=needed, calls=[name])
    files: dict[str, bytes | str | Path] = {
        "q/__init__.py": "from . import _m\n",
        f"q/_m{SUFFIX}": module,
    }
    metadata = "Requires-Dist: assimp\nRequires-Dist: nvidia-cublas-cu12\n" if other else ""
    return make_wheel(tmp_path / "dist", name="q", tag=tag, files=files, metadata=metadata)


def stub(tmp_path: Path, soname: str, name: str, version: str | None = None) -> Path:
    flags: list[str] = []
    if version is not None:
        script = tmp_path / "versions"
        script.write_text(f"{version} {{ *; }};\n")
        flags = [f"-Wl,--version-script={script}"]
    source = f"int {name}(void) {{ return 1; }}"
    return shared_object(tmp_path / "x" / soname, source, soname=soname, flags=flags, libc=False)


def errors(path: Path, *targets: str) -> list[Finding]:
    report = check(path, Settings(target=targets))
    return [f for f in report.findings if f.code in {"WF301", "WF812"}]


def test_a_newer_symbol_of_libstdcxx_is_found_without_a_version(tmp_path: Path) -> None:
    path = wheel(tmp_path, NEW, stub(tmp_path, "libstdc++.so.6", NEW))
    found = errors(path, "rhel:8", "debian:12")
    assert [(f.code, f.targets) for f in found] == [("WF301", ()), ("WF812", ("rhel:8",))]
    assert "3.4.26" in found[0].message
    assert NEW in (found[0].entry or "")


@pytest.mark.parametrize(
    ("soname", "codes"),
    [
        ("libassimp.so.5", []),
        ("libtorch_cpu.so", []),
        ("libcufile.so.0", []),
        ("libmkl_rt.so.3", []),
        ("libcublas.so.12", ["WF301"]),
        ("libtvm_ffi.so", ["WF301"]),
    ],
)
def test_a_library_of_a_requirement_may_define_a_newer_symbol(
    tmp_path: Path, soname: str, codes: list[str]
) -> None:
    """It may have the newer part of libstdc++, as torch's have; not one that is known not to."""
    other = shared_object(tmp_path / "x" / soname, soname=soname)
    cxx = stub(tmp_path, "libstdc++.so.6", NEW)
    path = wheel(tmp_path, NEW, cxx, other=other)
    assert [f.code for f in errors(path)] == codes


def test_a_repair_that_stops_for_a_newer_symbol_has_not_broken_it(tmp_path: Path) -> None:
    """The stages of a repair are compared where some symbol is undefined."""
    lacking = shared_object(tmp_path / "libp.so", "int p(void); int q(void) { return p(); }")
    cxx = stub(tmp_path, "libstdc++.so.6", NEW)
    module = extension(tmp_path / "m.so", "_m", needed=[cxx], calls=[NEW])
    files: dict[str, bytes | str | Path] = {f"q/_m{SUFFIX}": module, "q/libp.so": lacking}
    tag = f"{PYTHON}-{PYTHON}-linux_x86_64"
    path = make_wheel(tmp_path / "dist", name="q", tag=tag, files=files)
    outcome = repair(path, Settings(wheel_dir=tmp_path / "out"))
    (found,) = (f for f in outcome.remaining if f.code == "WF301" and f.entry == NEW)
    assert not any("broken by" in note for note in found.notes)


@pytest.mark.parametrize(("tag", "number"), [("manylinux_2_28", 1), ("manylinux_2_39", 0)])
def test_a_repair_says_once_that_a_symbol_is_too_new_also_where_this_machine_lacks_it(
    tmp_path: Path, tag: str, number: int
) -> None:
    """A tag that promises it is right, whatever this machine has."""
    cxx = stub(tmp_path, "libc.so.6", "__strlcpy_chk")
    path = wheel(tmp_path, "__strlcpy_chk", cxx, f"{PYTHON}-{PYTHON}-{tag}_x86_64")
    outcome = repair(path, Settings(wheel_dir=tmp_path / "out"))
    assert [f.code for f in outcome.remaining].count("WF301") == number
    assert (outcome.output is None) == (number > 0)


@pytest.mark.parametrize(("name", "number"), [("__expf128_finite", 1), ("__explicit_bzero_chk", 0)])
def test_a_tag_between_two_policies_promises_its_own_glibc(
    tmp_path: Path, name: str, number: int
) -> None:
    """auditwheel has no policy for it: the first name came with 2.26, the other with 2.25."""
    tag = f"{PYTHON}-{PYTHON}-manylinux_2_25_x86_64"
    path = wheel(tmp_path, name, stub(tmp_path, "libc.so.6", name), tag)
    assert [f.code for f in errors(path)] == ["WF301"] * number


@pytest.mark.parametrize(
    ("tag", "soname", "said"),
    [
        ("linux", "libm.so.6", ["no loaded library defines `_ZGVbN2v_sin`"]),
        ("manylinux_2_28", "libm.so.6", ["no loaded library defines `_ZGVbN2v_sin`"]),
        ("manylinux_2_17", "libmvec.so.1", ["has since GLIBC_2.22"]),
        ("manylinux_2_28", "libmvec.so.1", []),
    ],
)
def test_a_part_of_glibc_that_python_does_not_load_has_to_be_linked_with(
    tmp_path: Path, tag: str, soname: str, said: list[str]
) -> None:
    """No newer glibc has functions of libmvec in another library."""
    name = "_ZGVbN2v_sin"
    library = stub(tmp_path, soname, name if soname == "libmvec.so.1" else "sin")
    path = wheel(tmp_path, name, library, f"{PYTHON}-{PYTHON}-{tag}_x86_64")
    outcome = repair(path, Settings(wheel_dir=tmp_path / "out"))
    found = [f for f in outcome.remaining if f.code == "WF301"]
    assert all(words in f.message for f, words in zip(found, said, strict=True))
    assert all((" has since " in f.message) == ("the tag up" in f"{f.hint}") for f in found)


@pytest.mark.parametrize("tag", ["manylinux_2_31_x86_64", "manylinux_2_34_x86_64"])
def test_a_tag_that_promises_it_allows_it(tmp_path: Path, tag: str) -> None:
    path = wheel(tmp_path, NEW, stub(tmp_path, "libstdc++.so.6", NEW), f"{PYTHON}-{PYTHON}-{tag}")
    assert errors(path) == []


def test_the_table_of_machines_calls_ok_what_loads_there(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The newer symbol is on one of two machines, a symbol of nothing on none."""
    for name, newer in ((NEW, "ok"), ("nowhere", "no")):
        folder = tmp_path / name
        path = wheel(folder, name, stub(folder, "libstdc++.so.6", name))
        assert run(["check", "--target", "rhel:8,debian:12", str(path)]) == 1
        assert capsys.readouterr().out.split("debian:12\n")[1].split()[1:3] == ["no", newer]


@pytest.mark.parametrize("tag", ["linux", "manylinux_2_28"])
@pytest.mark.parametrize("command", ["repair", "check"])
def test_a_newer_symbol_has_a_tag_with_which_it_is_there(
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    tag: str,
    command: str,
) -> None:
    monkeypatch.chdir(tmp_path)
    cxx = stub(tmp_path, "libstdc++.so.6", NEW)
    path = str(wheel(tmp_path, NEW, cxx, f"{PYTHON}-{PYTHON}-{tag}_x86_64"))
    assert run([command, path]) == 1
    said = " ".join("".join(capsys.readouterr()).split())
    if command == "check" and tag != "linux":
        return  # nothing is repaired
    (offered,) = re.findall("`(wheelfix repair [^`]*--only-plat[^`]*)`", said)
    assert run([*shlex.split(offered)[1:], path]) == 0
    (written,) = Path("wheelhouse").iterdir()
    assert written.name.endswith("-manylinux_2_31_x86_64.whl")


def test_an_old_symbol_of_libstdcxx_is_everywhere(tmp_path: Path) -> None:
    assert OLD not in first_versions()
    assert errors(wheel(tmp_path, OLD, stub(tmp_path, "libstdc++.so.6", OLD)), "rhel:8") == []


@pytest.mark.parametrize(
    ("name", "version", "is_there"),
    [
        ("nosuchfn", "GLIBC_2.2.5", False),
        ("getpid", "GLIBC_2.2.5", True),
        ("not_yet_known", "GLIBC_2.99", True),  # of a glibc that is newer than the list
    ],
)
def test_a_version_does_not_make_a_symbol_of_glibc(
    tmp_path: Path, name: str, version: str, *, is_there: bool
) -> None:
    path = wheel(tmp_path, name, stub(tmp_path, "libc.so.6", name, version))
    assert [f.entry for f in errors(path) if f.code == "WF301"] == ([] if is_there else [name])


@pytest.mark.parametrize(
    ("names", "oldest", "first"),
    [
        (("libc.so.6", "__strlcpy_chk"), ("manylinux_2_34", "debian:12"), "GLIBC_2.38"),
        (("libm.so.6", "__expf128_finite"), ("manylinux_2_24",), "GLIBC_2.26"),
        (("libgcc_s.so.1", "__truncxfbf2"), ("manylinux_2_34", "debian:12"), "GCC_13.0.0"),
    ],
)
def test_a_newer_symbol_of_glibc_and_libgcc_is_found_without_a_version(
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    names: tuple[str, str],
    oldest: tuple[str, ...],
    first: str,
) -> None:
    (soname, name), (tag, *targets) = names, oldest
    path = wheel(tmp_path, name, stub(tmp_path, soname, name), f"{PYTHON}-{PYTHON}-{tag}_x86_64")
    found = errors(path, *targets, "debian:13")
    assert [(f.code, f.targets) for f in found] == [
        ("WF301", ()),
        *(("WF812", (t,)) for t in targets),
    ]
    assert f" has since {first}; the tags promise only " in found[0].message
    assert f"`{name}`" in found[0].message
    assert found[0].hint == "build it in the image for the oldest tag"
    # A tag names the release of glibc alone.
    older = [[f"--target={t}"] for t in targets] + [[]] * first.startswith("GLIBC")
    for where in (*older, ["--target=debian:13"]):
        code = int(where in older)
        assert run(["explain", str(path), *where]) == code, where
        out = " ".join(capsys.readouterr().out.split())
        assert (f"must {found[0].hint}: `{name}` came with {first}" in out) is bool(code)
    assert errors(wheel(tmp_path / "2", name, stub(tmp_path / "2", "libother.so", name))) == []


def test_the_loader_finds_no_newer_symbol_in_an_older_glibc(tmp_path: Path) -> None:
    if hasattr(ctypes.CDLL("libc.so.6"), "__strlcpy_chk"):
        pytest.skip("this glibc has strlcpy, which came with 2.38")
    module = extension(
        tmp_path / "m.so",
        "_m",
        needed=[stub(tmp_path, "libc.so.6", "__strlcpy_chk")],
        calls=["__strlcpy_chk"],
    )
    with pytest.raises(OSError, match="undefined symbol: __strlcpy_chk"):
        ctypes.CDLL(str(module), mode=os.RTLD_NOW)


def test_another_object_of_the_wheel_may_define_a_newer_symbol_of_glibc(tmp_path: Path) -> None:
    """One that is opened before for all, or the module that loads the library."""
    name, libc = "__strlcpy_chk", stub(tmp_path, "libc.so.6", "__strlcpy_chk")
    own = shared_object(tmp_path / "libown.so", f"int {name}(void) {{ return 1; }}")
    user = shared_object(
        tmp_path / "libuser.so",
        f"int {name}(void); int u(void) {{ return {name}(); }}",
        needed=[libc],
    )
    loads = extension(tmp_path / "both.so", "_both", needed=[user, own], calls=["u", name])
    module = extension(tmp_path / "m.so", "_m", needed=[libc], calls=[name])
    opening = "import ctypes\nctypes.CDLL(__path__[0] + '/libown.so', ctypes.RTLD_GLOBAL)\n"
    files: dict[str, bytes | str | Path] = {
        "q/__init__.py": f"{opening}from . import _m, _both\n",
        f"q/_m{SUFFIX}": module,
        f"q/_both{SUFFIX}": loads,
        "q/libown.so": own,
        "q/libuser.so": user,
    }
    tag = f"{PYTHON}-{PYTHON}-manylinux_2_34_x86_64"
    path = make_wheel(tmp_path / "dist", name="q", tag=tag, files=files)
    assert errors(path) == []
    zipfile.ZipFile(path).extractall(tmp_path / "site")
    libraries = {"LD_LIBRARY_PATH": str(tmp_path / "site" / "q")}
    command = [sys.executable, "-c", "import q"]
    subprocess.run(command, cwd=tmp_path / "site", env={**os.environ, **libraries}, check=True)


def test_the_list_has_what_the_libstdcxx_of_this_machine_has() -> None:
    command = ["gcc", "-print-file-name=libstdc++.so.6"]
    library = subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()
    if not Path(library).exists():
        pytest.skip("this machine has no libstdc++")
    shown = subprocess.run(
        ["nm", "-D", "--defined-only", library], capture_output=True, text=True, check=True
    ).stdout
    here = dict(
        line.split()[-1].replace("@@", "@").split("@") for line in shown.splitlines() if "@" in line
    )
    newer = {
        name
        for name, version in here.items()
        if version.startswith("GLIBCXX_3.4.2") and version >= "GLIBCXX_3.4.20"
    }
    assert len(newer) > 1000
    assert newer - {*first_versions()} == set()


@pytest.mark.parametrize("library", ["libz.so.1", "libstdc++.so.6"])
def test_a_library_of_the_platform_is_used_by_a_reference_without_a_version(
    tmp_path: Path, library: str
) -> None:
    """`check` reads none of the libraries of the platform: their lists say what they define."""
    name = {"libz.so.1": "crc32"}.get(library, OLD)
    needed = [stub(tmp_path, library, name)]
    for calls in ([], [name]):
        module = extension(tmp_path / "m.so", "_m", needed=needed, calls=calls)
        files: dict[str, bytes | str | Path] = {f"q/_m{SUFFIX}": module, "q/__init__.py": ""}
        made = make_wheel(tmp_path / "dist", name="q", tag=TAG, files=files)
        codes = {finding.code for finding in check(made, Settings()).findings}
        assert ("WF201" in codes) is (not calls)
