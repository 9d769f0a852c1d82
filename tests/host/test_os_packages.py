"""Owners of files, as the package managers report them."""

import json
import os
import shutil
import subprocess
from pathlib import Path

import pytest

from tests.support.build import make_wheel
from tests.support.installers import install
from tests.support.tools import needs, tool
from wheelfix.errors import ToolError
from wheelfix.host.os_packages import LicenseText, Package, owners, system_package

DEBIAN = 'NAME="Debian GNU/Linux"\nID=debian\nVERSION_ID="12"\n'


def _write(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)


@pytest.fixture
def debian(tmp_path: Path) -> Path:
    """Build a root with three packages; liblzma was built for /lib, libz for two architectures."""
    root = tmp_path / "root"
    _write(root / "etc/os-release", DEBIAN)
    info = root / "var/lib/dpkg/info"
    _write(info / "liblzma5:amd64.list", "/.\n/lib\n/lib/t/liblzma.so.5\n")
    _write(info / "zlib1g:amd64.list", "/.\n/usr/lib/t/libz.so.1\n")
    _write(info / "zlib1g:i386.list", "/.\n/usr/lib/i/libz.so.1\n")
    _write(info / "plain.list", "/.\n/usr/share/plain.so\n")
    stanzas = [
        "Package: liblzma5\nArchitecture: amd64\nVersion: 5.4.1-1\nDescription: xz\n Package: no",
        "Package: zlib1g\nArchitecture: amd64\nVersion: 1:1.2.13-1",
        "Package: zlib1g\nArchitecture: i386\nVersion: 1:1.2.12-9",
        "Package: other\nArchitecture: amd64\nVersion: 9",
        "Package: plain\nStatus: install ok installed\nVersion: 7\nArchitecture: all",
    ]
    _write(root / "var/lib/dpkg/status", "\n\n".join(stanzas) + "\n")
    return root


def _license(debian: Path, text: str) -> str | None:
    _write(debian / "usr/share/doc/plain/copyright", text)
    path = Path("/usr/share/plain.so")
    return owners([path], {}, debian)[path].license


@pytest.mark.parametrize(
    ("release", "package"),
    [
        (DEBIAN, "libjack-jackd2-0"),
        ('ID=linuxmint\nID_LIKE="ubuntu debian"\n', "libjack-jackd2-0"),
        ("ID=fedora\n", ""),
        ("ID=plan9\n", ""),
        ("", ""),
    ],
)
def test_the_package_of_a_library_that_is_not_there_is_known_of_some_systems(
    tmp_path: Path, release: str, package: str
) -> None:
    _write(tmp_path / "etc/os-release", release)
    assert system_package("libjack.so.0", tmp_path) == package
    assert not system_package("libgone.so.1", tmp_path)


@pytest.mark.parametrize(
    ("release", "package"),
    [
        ("ID=debian\nVERSION_ID=12\n", "libasound2"),
        ("ID=debian\nVERSION_ID=13\n", "libasound2t64"),
        ('ID=ubuntu\nID_LIKE=debian\nVERSION_ID="22.04"\n', "libasound2"),
        ('ID=ubuntu\nID_LIKE=debian\nVERSION_ID="24.04"\n', "libasound2t64"),
        ("ID=debian\n", ""),
        ('ID=linuxmint\nID_LIKE="ubuntu debian"\nVERSION_ID="21.3"\n', ""),
        ("ID=raspbian\nID_LIKE=debian\nVERSION_ID=12\n", "libasound2"),
        ("ID=fedora\nVERSION_ID=43\n", "alsa-lib"),
    ],
)
def test_a_package_has_the_name_of_the_release(tmp_path: Path, release: str, package: str) -> None:
    """Where two packages provide the old name, apt installs neither by it."""
    _write(tmp_path / "etc/os-release", release)
    assert system_package("libasound.so.2", tmp_path) == package


def test_dpkg_names_package_version_architecture_and_distribution(debian: Path) -> None:
    amd64, i386 = Path("/usr/lib/t/libz.so.1"), Path("/usr/lib/i/libz.so.1")
    unowned = Path("/opt/libmine.so")
    found = owners([amd64, i386, unowned], {}, debian)
    assert found == {
        amd64: Package(
            type="deb", name="zlib1g", version="1:1.2.13-1", arch="amd64",
            distro="debian", distro_version="12",
        ),
        i386: Package(
            type="deb", name="zlib1g", version="1:1.2.12-9", arch="i386",
            distro="debian", distro_version="12",
        ),
    }  # fmt: skip


@pytest.mark.parametrize("path", ["/lib/t/liblzma.so.5", "/usr/lib/t/liblzma.so.5"])
def test_a_package_may_spell_a_folder_without_usr(path: str, debian: Path) -> None:
    assert owners([Path(path)], {}, debian)[Path(path)].name == "liblzma5"


@pytest.mark.parametrize("path", ["/usr/lib/t/libz.so.1", "/lib/t/libz.so.1"])
def test_a_package_may_spell_a_folder_with_usr(path: str, debian: Path) -> None:
    assert owners([Path(path)], {}, debian)[Path(path)].name == "zlib1g"


def test_the_owner_is_that_of_the_file_and_not_of_a_link_to_it(
    debian: Path, tmp_path: Path
) -> None:
    library, link = tmp_path / "libx.so.1.2", tmp_path / "libx.so"
    library.touch()
    link.symlink_to(library)
    info = debian / "var/lib/dpkg/info"
    _write(info / "liblzma5:amd64.list", f"{link}\n")
    _write(info / "plain.list", f"{library}\n")
    found = owners([link, library], {}, debian)
    assert [found[path].name for path in (link, library)] == ["plain", "plain"]


@pytest.mark.parametrize(
    ("declared", "expected"),
    [
        ("Zlib", "Zlib"),
        ("Expat", "MIT"),
        ("GPL-2+", "GPL-2.0-or-later"),
        ("LGPL-2.1", "LGPL-2.1-only"),
        ("BSD-3-clause or GPL-2\n long text", "BSD-3-Clause OR GPL-2.0-only"),
        ("PD", "PD"),
        ("GPL-2+ with OpenSSL exception", "GPL-2+ with OpenSSL exception"),
    ],
)
def test_a_debian_license_is_that_of_all_files_in_the_terms_of_spdx(
    declared: str, expected: str, debian: Path
) -> None:
    head = "Format: https://www.debian.org/doc/packaging-manuals/copyright-format/1.0/\n"
    text = f"{head}\nFiles: debian/*\nLicense: GPL-3+\n\nFiles: *\nLicense: {declared}\n"
    assert _license(debian, text) == expected


@pytest.mark.parametrize(
    "text",
    ["This package is GPL.\nFiles: *\nLicense: MIT\n", "Format: x\n\nFiles: src/*\nLicense: MIT\n"],
    ids=["prose", "no license for all"],
)
def test_a_copyright_file_without_a_license_gives_none(text: str, debian: Path) -> None:
    assert _license(debian, text) is None


def test_apk_names_package_version_architecture_and_license(tmp_path: Path) -> None:
    _write(tmp_path / "etc/os-release", "ID=alpine\nVERSION_ID=3.20.3\n")
    _write(
        tmp_path / "lib/apk/db/installed",
        "C:Q1x\nP:musl\nV:1.2.5-r0\nA:x86_64\nL:MIT\nF:lib\nR:libc.musl-x86_64.so.1\n\n"
        "P:zlib\nV:1.3.1-r1\nA:x86_64\nL:Zlib\nF:lib\nR:other\nF:usr/lib\nR:libz.so.1\na:0:0:777\n",
    )
    path = Path("/usr/lib/libz.so.1")
    assert owners([path, Path("/usr/lib/other")], {}, tmp_path)[path] == Package(
        type="apk", name="zlib", version="1.3.1-r1", arch="x86_64",
        distro="alpine", distro_version="3.20.3", license="Zlib",
    )  # fmt: skip


def _fake_rpm(folder: Path, body: str) -> dict[str, str]:
    program = folder / "bin" / "rpm"
    evaluated = "case $1 in --eval) echo /var/lib/rpm; exit;; esac"
    _write(program, f"#!/bin/sh\n{evaluated}\necho x >>{folder}/calls\n{body}\n")
    program.chmod(0o755)
    (folder / "var/lib/rpm").mkdir(parents=True)
    return {"PATH": f"{program.parent}:{os.defpath}"}


def test_rpm_is_asked_once_and_its_answers_go_to_their_files(tmp_path: Path) -> None:
    _write(tmp_path / "etc/os-release", 'ID="almalinux"\nVERSION_ID="8.10"\n')
    environ = _fake_rpm(
        tmp_path,
        "echo 'file /opt/mine.so is not owned by any package'\n"
        r"printf 'package\tjbig\t\t2.1-14.el8\tx86_64\tGPLv2+\t\t\t/usr/lib64/libjbig.so.2.1\n'"
        "\n"
        r"printf 'package\topenssl\t1\t1.1.1k-14\tx86_64\tOpenSSL\t\t\t/usr/lib64/libssl.so.1.1\n'"
        "\nexit 1",
    )
    ssl, jbig = Path("/lib64/libssl.so.1.1"), Path("/usr/lib64/libjbig.so.2.1")
    found = owners([ssl, jbig, Path("/opt/mine.so")], environ, tmp_path)
    assert found.keys() == {ssl, jbig}
    assert found[jbig].license == "GPLv2+"
    assert found[jbig].purl == (
        "pkg:rpm/almalinux/jbig@2.1-14.el8?arch=x86_64&distro=almalinux-8.10"
    )
    assert found[ssl].purl == (
        "pkg:rpm/almalinux/openssl@1.1.1k-14?arch=x86_64&distro=almalinux-8.10&epoch=1"
    )
    assert (tmp_path / "calls").read_text() == "x\n"


_SPEC = """\
Name: owed
Version: 1.2
Release: 3.el9
Epoch: 2
Summary: s
License: LGPL-2.1-or-later
%description
%package -n libowed
Summary: s
%description -n libowed
%package -n libmarked
Summary: s
License: MIT
%description -n libmarked
%package -n libolder
Summary: s
%description -n libolder
%install
cp -a {tree}/. %{{buildroot}}
%files -n libowed
/usr/lib64/libowed.so*
%files -n libmarked
/usr/lib64/libmarked.so
%license /usr/share/licenses/marked/COPYING.LIB
%license /usr/share/marked/terms.txt
%doc /usr/share/doc/marked/COPYING
%files -n libolder
/usr/lib64/libolder.so
%doc /usr/share/doc/libolder-1.2/COPYING
%doc /usr/share/doc/libolder-1.2/README
"""


@pytest.fixture
def of_rpm(tmp_path: Path) -> tuple[Path, dict[str, str]]:
    """Return a root with three packages, built by rpmbuild, in a database that rpm wrote."""
    tool("rpmbuild")
    environ = {"PATH": os.defpath, "HOME": "/home/me"}
    root, top = tmp_path / "root", tmp_path / "top"
    for name in (
        "lib64/libowed.so.1", "lib64/libmarked.so", "lib64/libolder.so",
        "share/licenses/marked/COPYING.LIB", "share/marked/terms.txt", "share/doc/marked/COPYING",
        "share/doc/libolder-1.2/COPYING", "share/doc/libolder-1.2/README",
    ):  # fmt: skip
        _write(root / "usr" / name, name)
    (root / "usr/lib64/libowed.so").symlink_to("libowed.so.1")
    spec = tmp_path / "owed.spec"
    _write(spec, _SPEC.format(tree=root))
    command = ["rpmbuild", "-bb", "--target", "x86_64", "--define", f"_topdir {top}"]
    no_debug = ["--define", "debug_package %{nil}", "--define", "__os_install_post %{nil}"]
    subprocess.run([*command, *no_debug, str(spec)], check=True, capture_output=True)
    _write(root / "etc/os-release", "ID=rhel\nVERSION_ID=9\n")
    said = subprocess.run(
        ["rpm", "--eval", "%{_dbpath}"], env=environ, check=True, capture_output=True, text=True
    )
    database = root / said.stdout.strip().lstrip("/")
    files = [str(path) for path in top.rglob("*.rpm")]
    install = ["rpm", "--dbpath", str(database), "-i", "--justdb", "--nodeps", "--ignorearch"]
    subprocess.run([*install, *files], env=environ, check=True, capture_output=True)
    return root, environ


def test_a_real_rpm_names_the_package_and_its_texts(
    of_rpm: tuple[Path, dict[str, str]],
) -> None:
    root, environ = of_rpm
    marked, older = Path("/usr/lib64/libmarked.so"), Path("/lib64/libolder.so")
    found = owners([marked, older, Path("/opt/mine.so")], environ, root)
    assert found == {
        marked: Package(
            "rpm", "libmarked", "1.2-3.el9", "x86_64", "rhel", "9", "2", "MIT",
            (
                LicenseText("marked/COPYING.LIB", root / "usr/share/licenses/marked/COPYING.LIB"),
                LicenseText("libmarked/terms.txt", root / "usr/share/marked/terms.txt"),
            ),
        ),
        older: Package(
            "rpm", "libolder", "1.2-3.el9", "x86_64", "rhel", "9", "2", "LGPL-2.1-or-later",
            (LicenseText("libolder/COPYING", root / "usr/share/doc/libolder-1.2/COPYING"),),
        ),
    }  # fmt: skip


def test_rpm_packages_of_one_source_share_their_license_texts(
    of_rpm: tuple[Path, dict[str, str]],
) -> None:
    """AlmaLinux: libgfortran has none of its own, libgcc has those of GCC."""
    root, environ = of_rpm
    path = Path("/usr/lib64/libowed.so.1")
    texts = owners([path], environ, root)[path].license_files
    assert {text.name for text in texts} == {
        "marked/COPYING.LIB", "libmarked/terms.txt", "libolder/COPYING",
    }  # fmt: skip


def test_an_image_without_documents_keeps_the_licenses_of_rpm(
    of_rpm: tuple[Path, dict[str, str]],
) -> None:
    root, environ = of_rpm
    shutil.rmtree(root / "usr/share/doc")
    marked, older = Path("/usr/lib64/libmarked.so"), Path("/usr/lib64/libolder.so")
    found = owners([marked, older], environ, root)
    assert found[older].license_files == found[marked].license_files
    assert len(found[marked].license_files) == 2


def test_a_program_called_rpm_without_a_database_is_not_asked(tmp_path: Path) -> None:
    """BusyBox has one, which only unpacks."""
    program = tmp_path / "bin/rpm"
    _write(program, f'#!/bin/sh\necho "$1" >>{tmp_path}/calls\necho Usage: >&2\nexit 1\n')
    program.chmod(0o755)
    assert owners([Path("/opt/mine.so")], {"PATH": str(program.parent)}, tmp_path) == {}
    assert (tmp_path / "calls").read_text() == "--eval\n"


@needs("rpm")
def test_rpm_makes_no_database_where_there_is_none(tmp_path: Path) -> None:
    """Debian's keeps it in the user's home."""
    home = tmp_path / "home"
    home.mkdir()
    environ = {"PATH": os.defpath, "HOME": str(home)}
    assert owners([Path("/opt/mine.so")], environ, Path("/")) == {}
    assert list(home.iterdir()) == []


def test_the_copyright_file_of_debian_may_be_that_of_another_package(debian: Path) -> None:
    text = "On Debian systems, see `/usr/share/common-licenses/GPL'.\n"
    _write(debian / "usr/share/doc/base/copyright", text)
    (debian / "usr/share/doc/plain").symlink_to("base")
    _write(debian / "usr/share/common-licenses/GPL-3", "GPL")
    (debian / "usr/share/common-licenses/GPL").symlink_to("GPL-3")
    path = Path("/usr/share/plain.so")
    assert owners([path], {}, debian)[path].license_files == (
        LicenseText("base/copyright", debian / "usr/share/doc/base/copyright"),
        LicenseText("common-licenses/GPL-3", debian / "usr/share/common-licenses/GPL-3"),
    )


_OF_APK = """\
C:Q1bnDL5VPh2+N96fXCSDNscYrW7Mg=
P:libowed
V:1.2-r3
A:x86_64
S:2040
I:30032
T:a library
U:https://example.org
L:LGPL-2.1-or-later
o:owed
f:S
F:lib
R:libother.so.1
a:0:0:755
Z:Q1nnFmp4jZ1WIwwW87z2EUQuDNelQ=
F:usr
F:usr/lib
R:libowed.so.1
a:0:0:777
Z:Q1N2nYIB1maH+3yNJVLTbwDWrqXes=
R:libowed.so.1.2
a:0:0:755
Z:Q1nnFmp4jZ1WIwwW87z2EUQuDNelQ=

C:Q1EViTUruT/DYbgDGYsS1oySvXNXU=
P:owed-doc
V:1.2-r3
A:noarch
S:321
I:5
T:docs
U:
L:LGPL-2.1-or-later
o:owed
f:S
F:usr
F:usr/share
F:usr/share/licenses
F:usr/share/licenses/owed
R:COPYING
Z:Q1gs8i7AUG9uNrfEYo12+TQ6F2xBs=

"""


@pytest.mark.parametrize("library", ["usr/lib/libowed.so.1.2", "lib/libother.so.1"])
def test_the_database_that_apk_3_writes_leads_to_the_texts_of_the_origin(
    tmp_path: Path, library: str
) -> None:
    """Written by `apk add` (apk-tools 3.0.6) of two packages made by `apk mkpkg`."""
    _write(tmp_path / "lib/apk/db/installed", _OF_APK)
    text = tmp_path / "usr/share/licenses/owed/COPYING"
    _write(text, "LGPL")
    path = Path("/", library)
    package = owners([path], {"PATH": ""}, tmp_path)[path]
    assert (package.name, package.version, package.arch) == ("libowed", "1.2-r3", "x86_64")
    assert package.license == "LGPL-2.1-or-later"
    assert package.license_files == (LicenseText("owed/COPYING", text),)


def test_a_file_of_conda_belongs_to_its_package(tmp_path: Path) -> None:
    """Its path is in a prefix, and the licenses are in the folder of the extracted package."""
    prefix, extracted = tmp_path / "env", tmp_path / "pkgs/zlib-1.3.1-h4ab18f5_1"
    _write(extracted / "info/licenses/license.txt", "zlib license")
    _write(prefix / "lib/libz.so.1.3.1", "")
    (prefix / "lib/libz.so.1").symlink_to("libz.so.1.3.1")
    record = {
        "name": "zlib", "version": "1.3.1", "subdir": "linux-64", "license": "Zlib",
        "files": ["lib/libz.so.1", "lib/libz.so.1.3.1"], "extracted_package_dir": str(extracted),
    }  # fmt: skip
    _write(prefix / "conda-meta/zlib-1.3.1-h4ab18f5_1.json", json.dumps(record))
    _write(prefix / "conda-meta/broken.json", '"lib/libz.so.1.3.1"')
    path = prefix / "lib/libz.so.1"
    package = owners([path], {"PATH": ""}, tmp_path)[path]
    assert package.purl == "pkg:conda/zlib@1.3.1?subdir=linux-64"
    assert package.license == "Zlib"
    text = LicenseText("zlib/license.txt", extracted / "info/licenses/license.txt")
    assert package.license_files == (text,)


@pytest.mark.parametrize(
    ("place", "field"),
    [
        ("licenses/LICENSE.txt", "License-Expression: BSD-3-Clause"),
        ("LICENSE.txt", "License: BSD-3-Clause"),
        ("AUTHORS", "License-Expression: BSD-3-Clause"),
        ("COPYRIGHT", "License-Expression: BSD-3-Clause"),
    ],
)
def test_a_file_of_an_installed_distribution_belongs_to_it(
    tmp_path: Path, place: str, field: str
) -> None:
    """As scipy-openblas64, which numpy is built with."""
    info = "scipy_openblas64-0.3.30.dist-info"
    wheel = make_wheel(
        tmp_path, "scipy_openblas64", "0.3.30", "py3-none-any",
        {"scipy_openblas64/lib/libopenblas.so": b"", f"{info}/{place}": b"BSD"},
        metadata=f"{field}\n",
    )  # fmt: skip
    site = tmp_path / "site-packages"
    install(wheel, site).check_returncode()
    path = site / "scipy_openblas64/lib/libopenblas.so"
    package = owners([path], {"PATH": ""}, tmp_path)[path]
    assert package.purl == "pkg:pypi/scipy-openblas64@0.3.30"
    assert package.license == "BSD-3-Clause"
    assert package.license_files == (
        LicenseText(f"scipy-openblas64/{Path(place).name}", site / info / place),
    )


def test_without_a_database_or_a_distribution_no_file_has_an_owner(tmp_path: Path) -> None:
    assert owners([Path("/usr/lib/libz.so.1")], {"PATH": ""}, tmp_path) == {}


def test_an_rpm_that_was_killed_is_an_error_and_no_answer(tmp_path: Path) -> None:
    with pytest.raises(ToolError, match="signal 9"):
        owners([Path("/usr/lib/libz.so.1")], _fake_rpm(tmp_path, "kill -9 $$"), tmp_path)


@needs("dpkg")
def test_the_answers_for_this_machines_libraries_are_those_of_dpkg() -> None:
    libraries = sorted(Path("/usr/lib").glob("*-linux-gnu/lib[a-m]*.so.*"))[:60]
    assert libraries
    found = owners(libraries, os.environ)
    names = {
        library: {str(library.resolve()), str(library.resolve()).removeprefix("/usr")}
        for library in libraries
    }
    command = ["dpkg", "-S", *set[str]().union(*names.values())]
    said = subprocess.run(command, capture_output=True, text=True, check=False).stdout
    lines = [line.partition(": ") for line in said.splitlines()]
    for library in libraries:
        theirs = {package.partition(":")[0] for package, _, path in lines if path in names[library]}
        ours = {found[library].name} if library in found else set[str]()
        assert ours == theirs, library
