"""wheelfix's verdict from values is auditwheel's own verdict on the same wheel."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.support import build
from tests.support.fork_server import warm_program
from tests.support.values import elf, wheel
from wheelfix.analysis.policies import Policy
from wheelfix.analysis.policy_analysis import analyze
from wheelfix.analysis.policy_reasons import Judgement
from wheelfix.analysis.policy_verdict import policy_verdict, verdict_from
from wheelfix.elf.model import Elf, Machine, Undefined, VersionNeed
from wheelfix.errors import ToolError
from wheelfix.host.policy_tables import read_policies
from wheelfix.pipelines.ask_auditwheel import Auditwheel, ask, judgement_of
from wheelfix.settings import Settings
from wheelfix.wheel.model import Wheel
from wheelfix.wheel.reader import open_wheel

POLICIES = read_policies()


def show(path: Path) -> dict[str, Any]:
    """What `auditwheel show` says, with no library of this machine."""
    said = subprocess.run(
        [warm_program("auditwheel"), "show", "--json", "--ldpaths", "", str(path)],
        env={**os.environ, "AUDITWHEEL_LD_LIBRARY_PATH": ""},
        capture_output=True,
        text=True,
        check=True,
    )
    found: dict[str, Any] = json.loads(said.stdout)
    return found


def agrees(path: Path) -> Judgement:
    """Hold what is found from values against what auditwheel says, and return it."""
    with open_wheel(path) as archive:
        analysis = analyze(archive.wheel, Settings(), POLICIES, ())
    assert analysis is not None
    ours = analysis.judgement
    theirs = show(path)
    assert ours == judgement_of(theirs)
    assert external(ours) == set(theirs["external_libs"])
    return ours


def external(found: Judgement) -> set[str]:
    return {name for shortfall in found.upgrades.values() for name in shortfall.libraries}


def overall(subject: Wheel, **settings: Any) -> str | None:
    found = policy_verdict(subject, Settings(**settings), POLICIES)
    return found.overall if found else None


# --- Asked of auditwheel itself -----------------------------------------------------------------


def test_an_external_library_makes_it_linux(tmp_path: Path) -> None:
    library = build.shared_object(tmp_path / "libmine.so.1", soname="libmine.so.1")
    extension = build.extension(tmp_path / "m.so", "m", needed=[library], calls=["f"])
    path = build.make_wheel(tmp_path, files={"p/m.so": extension})
    found = agrees(path)
    assert found.overall.startswith("linux_")
    assert external(found) == {"libmine.so.1"}


def test_a_library_of_the_wheel_is_followed_to_what_it_needs(tmp_path: Path) -> None:
    outer = build.shared_object(
        tmp_path / "libouter.so", "int o(void) { return 1; }", soname="libouter.so"
    )
    inner = build.shared_object(
        tmp_path / "libinner.so",
        "int o(void); int f(void) { return o(); }",
        soname="libinner.so",
        needed=[outer],
    )
    extension = build.extension(
        tmp_path / "m.so", "m", needed=[inner], calls=["f"], rpath="$ORIGIN"
    )
    path = build.make_wheel(tmp_path, files={"p/m.so": extension, "p/libinner.so": inner})
    assert external(agrees(path)) == {"libouter.so"}


@pytest.mark.parametrize(
    ("member", "path"),
    [
        ("demo/_m.so", "/usr/lib"),
        ("demo-1.0.data/platlib/demo/_m.so", "$ORIGIN/../demo.libs"),
        ("demo-1.0.data/scripts/tool", "$ORIGIN/../demo.libs"),
    ],
)
def test_a_library_of_the_wheel_counts_wherever_the_zip_has_it(
    member: str, path: str, tmp_path: Path
) -> None:
    """`auditwheel show` says `linux_x86_64`: in the layout of the zip it does not find it."""
    library = build.shared_object(tmp_path / "libfoo.so", soname="libfoo.so")
    subject = build.shared_object(tmp_path / "_m.so", needed=[library], rpath=path)
    files: dict[str, Path | str] = {member: subject, "demo.libs/libfoo.so": library}
    made = build.make_wheel(tmp_path, files=files)
    assert show(made)["overall_tag"] == "linux_x86_64"
    with open_wheel(made) as archive:
        assert overall(archive.wheel) == "manylinux_2_5_x86_64"


def test_a_symbol_version_that_no_policy_has(tmp_path: Path) -> None:
    forged = build.stub_library_with_versions(
        tmp_path / "libc.so.6", "libc.so.6", {"GLIBC_9.99": ["f"]}
    )
    extension = build.shared_object(
        tmp_path / "m.so", "int f(void); int g(void) { return f(); }", needed=[forged], libc=False
    )
    assert agrees(build.make_wheel(tmp_path, files={"p/m.so": extension})).overall == (
        "linux_x86_64"
    )


def test_a_newer_symbol_version_calls_for_a_newer_tag(tmp_path: Path) -> None:
    forged = build.stub_library_with_versions(
        tmp_path / "libc.so.6", "libc.so.6", {"GLIBC_2.30": ["f"]}
    )
    extension = build.shared_object(
        tmp_path / "m.so", "int f(void); int g(void) { return f(); }", needed=[forged], libc=False
    )
    assert agrees(build.make_wheel(tmp_path, files={"p/m.so": extension})).overall == (
        "manylinux_2_31_x86_64"
    )


def test_a_private_symbol_of_an_allowed_library(tmp_path: Path) -> None:
    zlib = build.shared_object(
        tmp_path / "libz.so.1", "int _tr_init(void) { return 1; }", soname="libz.so.1"
    )
    extension = build.extension(tmp_path / "m.so", "m", needed=[zlib], calls=["_tr_init"])
    found = agrees(build.make_wheel(tmp_path, files={"p/m.so": extension}))
    assert found.upgrades["manylinux_2_5_x86_64"].symbols == {"libz.so.1": ["_tr_init"]}


def test_an_object_that_needs_a_newer_processor(tmp_path: Path) -> None:
    extension = build.extension(
        tmp_path / "m.so", "m", flags=["-march=x86-64-v3", "-mneeded", "-Wl,-z,x86-64-v3"]
    )
    found = agrees(build.make_wheel(tmp_path, files={"p/m.so": extension}))
    assert found.unsupported_isa


def test_libpython_is_never_allowed(tmp_path: Path) -> None:
    python = build.shared_object(tmp_path / "libpython3.11.so.1.0", soname="libpython3.11.so.1.0")
    extension = build.extension(tmp_path / "m.so", "m", needed=[python], calls=["f"])
    found = agrees(build.make_wheel(tmp_path, files={"p/m.so": extension}))
    assert external(found) == {"libpython3.11.so.1.0"}


def test_the_verdict_of_a_repair_is_the_same(tmp_path: Path) -> None:
    library = build.shared_object(tmp_path / "libmine.so.1", soname="libmine.so.1")
    extension = build.extension(tmp_path / "m.so", "m", needed=[library], calls=["f"])
    path = build.make_wheel(tmp_path, files={"p/m.so": extension})
    with open_wheel(path) as archive:
        subject = archive.wheel
    for settings in (Settings(), Settings(exclude=("libmine.so*",))):
        with (
            Auditwheel(os.environ) as worker,
            ask(worker, subject, settings, settings.exclude, tmp_path) as answer,
        ):
            asked = answer()
        found = policy_verdict(subject, settings, POLICIES)
        assert found == verdict_from(subject, asked, settings, POLICIES)


# --- On values ----------------------------------------------------------------------------------

EXTENSION = elf(module_hooks=("PyInit_m",))


def of(machine: int, bits: int = 64, *, little: bool = True, **fields: Any) -> Elf:
    return EXTENSION._replace(machine=machine, bits=bits, little_endian=little, **fields)


@pytest.mark.parametrize(
    ("arch", "subject", "best"),
    [
        ("x86_64", of(Machine.X86_64), "manylinux_2_5"),
        ("i686", of(Machine.I386, 32), "manylinux_2_5"),
        ("aarch64", of(Machine.AARCH64), "manylinux_2_17"),
        ("ppc64le", of(Machine.PPC64), "manylinux_2_17"),
        ("s390x", of(Machine.S390, little=False), "manylinux_2_17"),
        ("armv7l", of(Machine.ARM, 32, flags=0x05000400), "manylinux_2_17"),
        ("riscv64", of(Machine.RISCV), "manylinux_2_31"),
        ("loongarch64", of(Machine.LOONGARCH), "manylinux_2_36"),
    ],
)
def test_every_architecture_has_its_policies(arch: str, subject: Elf, best: str) -> None:
    for platform in (f"linux_{arch}", f"manylinux_2_39_{arch}"):
        name = f"demo-1.0-cp311-cp311-{platform}.whl"
        assert overall(wheel({"p/m.so": subject}, name=name)) == f"{best}_{arch}"


def test_an_architecture_is_what_a_tag_ends_with() -> None:
    """auditwheel reads it so, of a tag that nothing else knows: the object is for another one."""
    name = "demo-1.0-cp311-cp311-linux_aarch64_x86_64.whl"
    assert overall(wheel({"p/m.so": of(Machine.AARCH64)}, name=name)) is None
    assert overall(wheel({"p/m.so": of(Machine.X86_64)}, name=name)) == "manylinux_2_5_x86_64"


def test_arm_without_hard_float_is_for_no_platform() -> None:
    subject = wheel(
        {"p/m.so": of(Machine.ARM, 32, flags=0x05000200)},
        name="demo-1.0-cp311-cp311-linux_armv7l.whl",
    )
    assert overall(subject) is None


@pytest.mark.parametrize(
    ("arch", "machine", "libc"),
    [("x86_64", Machine.X86_64, "x86_64"), ("aarch64", Machine.AARCH64, "aarch64")],
)
def test_musl_has_one_policy(arch: str, machine: int, libc: str) -> None:
    name = f"demo-1.0-cp311-cp311-musllinux_1_1_{arch}.whl"
    musl = of(machine, needed=("libz.so.1", f"libc.musl-{libc}.so.1"))
    assert overall(wheel({"p/m.so": musl}, name=name)) == f"musllinux_1_2_{arch}"
    more = musl._replace(needed=("libstdc++.so.6", *musl.needed))
    assert overall(wheel({"p/m.so": more}, name=name)) == f"linux_{arch}"


def test_what_musl_answers_itself_needs_no_file(tmp_path: Path) -> None:
    """cargo links for musl against `libc.so`; the loader knows better than to look for it."""
    name = "demo-1.0-cp311-cp311-musllinux_1_2_x86_64.whl"
    subject = wheel({"p/m.so": of(62, needed=("libc.so", "libm.so"))}, name=name)
    assert overall(subject) == "musllinux_1_2_x86_64"
    loader = Path("/lib/ld-musl-x86_64.so.1")
    if not loader.exists():
        pytest.skip("there is no musl here")
    library = build.stub_library_with_versions(tmp_path / "libc.so", "libc.so", {"V1": ["f"]})
    user = build.shared_object(tmp_path / "user.so", needed=[library], libc=False)
    library.unlink()
    listed = subprocess.run([loader, "--list", user], capture_output=True, text=True, check=True)
    assert "Error" not in listed.stderr


def test_an_object_for_another_machine_or_libc_does_not_count() -> None:
    late = VersionNeed(file="libc.so.6", versions=("GLIBC_9.99",))
    subject = wheel(
        {
            "p/m.so": EXTENSION,
            "p/arm.so": of(Machine.AARCH64, verneed=(late,)),
            "p/musl.so": EXTENSION._replace(needed=("libc.musl-x86_64.so.1", "libx.so")),
        },
        name="demo-1.0-cp311-cp311-manylinux_2_17_x86_64.whl",
    )
    assert overall(subject) == "manylinux_2_5_x86_64"


def test_what_is_excluded_is_allowed_by_name() -> None:
    subject = wheel({"p/m.so": elf("libcuda.so.1", module_hooks=("PyInit_m",))})
    assert overall(subject) == "linux_x86_64"
    assert overall(subject, exclude=("libcuda.so*",)) == "manylinux_2_5_x86_64"


def test_instruction_sets_are_not_judged_where_the_user_says_so() -> None:
    v3 = b"\x02\x80\x00\xc0\x04\x00\x00\x00\x04\x00\x00\x00\x00\x00\x00\x00"
    subject = wheel({"p/m.so": EXTENSION._replace(gnu_properties=v3)})
    assert overall(subject) == "linux_x86_64"
    assert overall(subject, isa_ext_check=False) == "manylinux_2_5_x86_64"


def test_fpectl_and_narrow_unicode_are_for_no_tag() -> None:
    def using(name: str, hook: str) -> Wheel:
        symbol = Undefined(name=name, version=None, file=None, type=2, weak=False)
        return wheel({"p/m.so": EXTENSION._replace(undefined=(symbol,), module_hooks=(hook,))})

    assert overall(using("PyFPE_jbuf", "PyInit_m")) == "linux_x86_64"
    assert overall(using("PyUnicodeUCS2_Format", "initm")) == "linux_x86_64"
    assert overall(using("PyUnicodeUCS2_Format", "PyInit_m")) == "manylinux_2_5_x86_64"


def test_only_extensions_that_auditwheel_refuses_are_named() -> None:
    def using(name: str) -> Elf:
        symbol = Undefined(name=name, version=None, file=None, type=2, weak=False)
        return EXTENSION._replace(undefined=(symbol,), module_hooks=("PyInit_m",))

    subject = wheel(
        {
            "p/m.so": using("PyFPE_jbuf"),
            "q/m.so": using("PyFPE_other"),
            "p/b.so": using("PyFPE_jbuf"),
        }
    )
    verdict = policy_verdict(subject, Settings(), POLICIES)
    assert verdict is not None
    reason = "`PyFPE_*` symbols need a Python built with fpectl: used by `p/m.so`"
    assert reason in verdict.reasons


def test_a_wheel_without_objects_gets_no_verdict() -> None:
    assert policy_verdict(wheel({}, "p/__init__.py"), Settings(), POLICIES) is None


def test_the_tables_say_what_each_platform_gives() -> None:
    by_name: dict[str, Policy] = {policy.name: policy for policy in POLICIES}
    assert "libstdc++.so.6" in by_name["manylinux_2_17"].whitelist
    assert "libexpat.so.1" not in by_name["manylinux_2_5"].whitelist
    assert by_name["manylinux_2_5"].priority > by_name["manylinux_2_28"].priority


def test_without_auditwheel_it_says_what_to_install(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(sys, "path", [str(tmp_path)])
    with pytest.raises(ToolError, match="auditwheel is not installed"):
        read_policies()
