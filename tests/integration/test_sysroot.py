"""`--sysroot`: the libraries, loader and packages of a system below a folder."""

import json
import os
import subprocess
from pathlib import Path

import pytest

from tests.support.build import make_wheel, shared_object, stub_library_with_versions
from wheelfix.cli.app import run
from wheelfix.host.sysroot import Sysroot
from wheelfix.wheel.reader import open_wheel

MODULE = "demo/_m.cpython-311-x86_64-linux-gnu.so"
TAG = "cp311-cp311-linux_x86_64"
PACKAGE = """Package: libinner1
Status: install ok installed
Architecture: amd64
Version: 1.2-3
"""


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A system with a C library, and a library behind absolute links that needs another."""
    root = tmp_path / "root"
    places = (
        root / "opt/far",
        root / "usr/lib",
        root / "etc/ld.so.conf.d",
        root / "etc/alternatives",
    )
    for place in (*places, root / "var/lib/dpkg/info"):
        place.mkdir(parents=True)
    far, usr, conf, alternatives = places
    inner = shared_object(
        usr / "libinner.so.1", "int inner(void){return 1;}", soname="libinner.so.1"
    )
    shared_object(
        far / "libouter.so.1",
        "int inner(void); int outer(void){return inner();}",
        soname="libouter.so.1",
        needed=[inner],
    )
    shared_object(usr / "libc.so.6", "int puts(void){return 1;}", soname="libc.so.6")
    (usr / "libouter.so.1").symlink_to("/etc/alternatives/libouter")
    (alternatives / "libouter").symlink_to("/opt/far/libouter.so.1")
    (root / "etc/ld.so.conf").write_text("include /etc/ld.so.conf.d/*.conf\n")
    (conf / "usr.conf").write_text("/usr/lib\n")
    (root / "var/lib/dpkg/status").write_text(PACKAGE)
    (root / "var/lib/dpkg/info/libinner1.list").write_text("/usr/lib/libinner.so.1\n")
    (root / "opt/release").write_text("ID=debian\nVERSION_ID=12\n")
    (root / "etc/os-release").symlink_to("/opt/release")
    (root / "var/lib/dpkg").rename(root / "opt/dpkg")
    (root / "var/lib/dpkg").symlink_to("/opt/dpkg")
    return root


@pytest.fixture
def wheel(root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    module = shared_object(
        tmp_path / "m.so",
        "int outer(void); int PyInit__m(void){return outer();}",
        needed=[root / "opt/far/libouter.so.1"],
        flags=["-Wl,--allow-shlib-undefined"],
    )
    monkeypatch.chdir(tmp_path)
    return make_wheel(tmp_path, tag=TAG, files={MODULE: module})


def test_a_repair_grafts_what_the_system_has(
    wheel: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A link of the system is followed in it; its packages are named in the SBOM."""
    assert run(["repair", "-w", "out", str(wheel)]) == 2
    assert "among this machine's libraries" in capsys.readouterr().err
    assert run(["check", "--sysroot", "root", str(wheel)]) == 1
    planned = capsys.readouterr().out
    assert run(["repair", "--sysroot", "root", "-w", "out", str(wheel)]) == 0
    (made,) = Path("out").iterdir()
    with open_wheel(made) as archive:
        names = {name.partition("-")[0] for name in archive.entries if ".libs/" in name}
        (sbom,) = (archive.read(name) for name in archive.entries if name.endswith(".cdx.json"))
    assert names == {"demo.libs/libouter", "demo.libs/libinner"}
    assert "pkg:deb/debian/libinner1@1.2-3?arch=amd64&distro=debian-12" in sbom.decode()
    assert "repair --sysroot root" in planned
    capsys.readouterr()
    assert run(["explain", "--sysroot", "root", str(made)]) == 0


def test_explain_finds_what_the_loader_finds_in_the_system(
    wheel: Path, root: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Without a library there, it says which; with all, it exits with 0."""
    words = ["explain", "--sysroot", "root", "--output-format", "json", str(wheel)]
    assert run(words) == 0
    assert json.loads(capsys.readouterr().out)["explanations"][0]["ok"]
    (root / "usr/lib/libinner.so.1").unlink()
    assert run(words) == 1
    assert run(["explain", "--sysroot", "root", str(wheel)]) == 1
    assert "not found: `libinner.so.1`" in capsys.readouterr().out


@pytest.mark.parametrize(("release", "code"), [("2.40", 0), ("2.41", 1)])
def test_the_glibc_of_the_system_says_what_its_loader_refuses(
    release: str, code: int, wheel: Path, root: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """An executable stack, from glibc 2.41 on."""
    libc = root / "usr/lib/libc.so.6"
    versions = {"GLIBC_2.2.5": ["puts"], "GLIBC_2.9": ["older"], f"GLIBC_{release}": ["newest"]}
    stub_library_with_versions(libc, "libc.so.6", versions)
    module = shared_object(
        wheel.parent / "m.so",
        "int puts(void); int PyInit__m(void){return puts();}",
        needed=[libc],
        flags=["-fno-builtin", "-w", "-Wl,-z,execstack"],
        libc=False,
    )
    wheel = make_wheel(wheel.parent, tag=TAG, files={MODULE: module})
    assert run(["explain", "--sysroot", "root", str(wheel)]) == code
    assert ("needs an executable stack" in capsys.readouterr().out) == bool(code)


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["explain", "--sysroot", "none"], "`{here}/none` is not a directory"),
        (["check", "--sysroot", "none"], "`{here}/none` is not a directory"),
        (["repair", "-w", "out", "--sysroot", "none"], "`{here}/none` is not a directory"),
        (["explain", "--sysroot", "root", "--target", "debian:12"], "both name a machine"),
    ],
)
def test_what_is_not_a_system_is_an_error(
    wheel: Path, words: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run([*words, str(wheel)]) == 2
    assert message.format(here=wheel.parent) in capsys.readouterr().err


def test_a_library_that_the_system_lacks_is_not_taken_from_this_machine(
    wheel: Path, root: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    beside = wheel.parent / "beside"
    beside.mkdir()
    (root / "usr/lib/libinner.so.1").rename(beside / "libinner.so.1")
    monkeypatch.setenv("LD_LIBRARY_PATH", str(beside))
    assert run(["repair", "--sysroot", "root", "-w", "out", str(wheel)]) == 2
    text = "`libinner.so.1` (needed by `libouter.so.1`) is neither in the wheel nor among the "
    text += f"libraries of `{root}`"
    assert text in capsys.readouterr().err


def test_a_search_path_that_a_member_hands_down_leads_into_the_system(
    wheel: Path, root: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Of `/opt/far`, only the DT_RPATH of the member says so, also for what it needs there."""
    (root / "usr/lib/libinner.so.1").rename(root / "opt/far/libinner.so.1")
    (root / "usr/lib/libouter.so.1").unlink()
    module = shared_object(
        wheel.parent / "m.so",
        "int outer(void); int PyInit__m(void){return outer();}",
        needed=[root / "opt/far/libouter.so.1"],
        rpath="/opt/far",
        flags=["-Wl,--allow-shlib-undefined"],
    )
    wheel = make_wheel(wheel.parent, tag=TAG, files={MODULE: module})
    assert run(["why", "--sysroot", "root", str(wheel), "libinner"]) == 0
    assert f"from       {root}/opt/far/libinner.so.1" in capsys.readouterr().out
    assert run(["repair", "--sysroot", "root", "-w", "out", str(wheel)]) == 0


def test_links_are_those_of_the_system(tmp_path: Path) -> None:
    """As chroot(2) and the kernel follow them; a circle is followed to no end."""
    (tmp_path / "usr/lib").mkdir(parents=True)
    (tmp_path / "lib").symlink_to("usr/lib")
    (tmp_path / "usr/lib/up").symlink_to("../../../../../lib")
    (tmp_path / "usr/lib/round").symlink_to("/lib/round")
    (tmp_path / "usr/lib/a").write_text("")
    (tmp_path / "usr/lib/b").symlink_to("a")
    system = Sysroot(str(tmp_path))
    assert system.place("/lib/up/a") == f"{tmp_path}/usr/lib/a"
    assert system.place("/lib/round").startswith(f"{tmp_path}/")
    assert system.follow(f"{tmp_path}/lib/b") == f"{tmp_path}/usr/lib/b"
    assert system.follow("/elsewhere/b") == "/elsewhere/b"


@pytest.mark.skipif(os.geteuid() != 0, reason="chroot(2) is for root")
def test_the_kernel_agrees_on_links(tmp_path: Path) -> None:
    (tmp_path / "a/b").mkdir(parents=True)
    (tmp_path / "a/b/file").write_text("")
    (tmp_path / "x").symlink_to("/a/../a/b")
    (tmp_path / "a/y").symlink_to("../../../x/file")
    code = "import os, sys; os.chroot(sys.argv[1]); print(os.path.realpath('/a/y'))"
    command = ["python3", "-c", code, str(tmp_path)]
    real = subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip()
    assert Sysroot(str(tmp_path)).place("/a/y") == f"{tmp_path}{real}"
