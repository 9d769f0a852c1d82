"""Whether a wheel keeps what its tag promises, and loads on the machines that a project names."""

import ctypes
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.support import build
from tests.support.values import elf, wheel
from wheelfix import check
from wheelfix.analysis.left_to_requirements import left_to_requirements
from wheelfix.analysis.policy_verdict import policy_verdict
from wheelfix.elf.model import Elf, Machine, Segment, Undefined, VersionNeed
from wheelfix.errors import NonPlatformWheelError, SettingsError
from wheelfix.host.policy_tables import read_policies
from wheelfix.pipelines.repair_refusals import refuse_pure
from wheelfix.providers.well_known import well_known_providers_of
from wheelfix.reports.check_content import advice
from wheelfix.rules.auditwheel_verdict import WITHOUT_OBJECT
from wheelfix.rules.context import Context
from wheelfix.rules.findings import Finding, Severity
from wheelfix.rules.registry import RULES
from wheelfix.rules.run_rules import run_rules
from wheelfix.rules.target_machines import lacking_targets
from wheelfix.settings import Settings
from wheelfix.wheel.model import Wheel
from wheelfix.wheel.reader import open_wheel

POLICIES = read_policies()
PLATFORM = [rule for rule in RULES if rule.code.startswith("WF8")]
MANYLINUX = "demo-1.0-cp311-cp311-manylinux_2_17_x86_64.whl"
EXTENSION = elf(module_hooks=("PyInit_m",))
STACK = Segment(
    type=0x6474E551, flags=6, offset=0, vaddr=0, paddr=0, filesz=0, memsz=0, align=16
)  # PT_GNU_STACK, read and write


def judged(
    subject: Wheel, *, requirements: tuple[str, ...] = (), **options: Any
) -> dict[str, list[Finding]]:
    """What the platform rules say of a wheel, by code."""
    settings = Settings(**options)
    subject = replace(subject, metadata=subject.metadata._replace(requires_dist=requirements))
    left = left_to_requirements(subject, settings, (), None)
    context = Context(
        wheel=subject,
        settings=settings,
        verdict=policy_verdict(subject, settings, POLICIES, tuple(left.libraries)),
    )
    found: dict[str, list[Finding]] = {}
    for finding in run_rules(context, PLATFORM):
        if finding.code != "WF803":
            found.setdefault(finding.code, []).append(finding)
    return found


def using(symbol: str, version: str, file: str = "libc.so.6", **fields: Any) -> Elf:
    """An extension that takes one symbol."""
    return EXTENSION._replace(
        needed=tuple(dict.fromkeys((file, *EXTENSION.needed))),
        verneed=(VersionNeed(file=file, versions=(version,)),),
        undefined=(Undefined(name=symbol, version=version, file=file, type=2, weak=False),),
        **fields,
    )


def forged(folder: Path, version: str) -> Path:
    """Link an object that wants `newest` in `version` of libc, as if built on a newer system."""
    libc = build.stub_library_with_versions(
        folder / "libc.so.6", "libc.so.6", {version: ["newest"]}
    )
    return build.shared_object(
        folder / "m.so",
        "int newest(void); int g(void) { return newest(); }",
        needed=[libc],
        libc=False,
    )


# --- The tag ------------------------------------------------------------------------------------


def test_a_wheel_that_keeps_its_promise_is_quiet() -> None:
    assert not judged(wheel({"p/m.so": EXTENSION}, name=MANYLINUX))


def test_the_symbol_and_its_object_are_named_shortest_first() -> None:
    late = using("pthread_create", "GLIBC_2.34")
    many = using("a_rather_long_name_of_a_function", "GLIBC_2.32")._replace(
        module_hooks=("PyInit_other",)
    )
    (finding,) = judged(wheel({"p/other.so": many, "p/m.so": late}, name=MANYLINUX))["WF801"]
    assert finding.severity is Severity.ERROR
    assert "satisfies only manylinux_2_34_x86_64" in finding.message
    assert [("pthread_create" in note, "`p/m.so`" in note) for note in finding.notes] == [
        (True, True),
        (False, False),
    ]


def test_the_loader_says_the_same_of_a_symbol_that_is_too_new(tmp_path: Path) -> None:
    path = build.make_wheel(
        tmp_path,
        files={"p/m.so": forged(tmp_path, "GLIBC_9.99")},
        tag="cp311-cp311-manylinux_2_17_x86_64",
    )
    report = check(path, Settings(select=("WF801",)))
    assert [finding.code for finding in report.findings] == ["WF801"]
    assert "`newest`" in report.findings[0].notes[0]
    with pytest.raises(OSError, match=r"version `GLIBC_9\.99' not found"):
        ctypes.CDLL(str(tmp_path / "m.so"))


def test_the_index_does_not_take_a_local_tag() -> None:
    subject = wheel({"p/m.so": EXTENSION})
    (finding,) = judged(subject)["WF804"]
    assert finding.entry == "linux_x86_64"
    assert "manylinux_2_5_x86_64" in finding.notes[0]
    assert finding.fix is not None, "a repair writes the tag"
    assert advice(finding, "dist/it is.whl") == (
        "`wheelfix repair 'dist/it is.whl'` fixes it: write manylinux_2_5_x86_64"
    )


def test_two_local_tags_are_one_finding() -> None:
    name = "demo-1.0-cp311-cp311-linux_x86_64.linux_aarch64.whl"
    (finding,) = judged(wheel({"p/m.so": EXTENSION}, name=name))["WF804"]
    assert "the local platform tags `linux_x86_64`, `linux_aarch64`, which" in finding.message


def test_the_index_takes_no_local_tag_of_a_wheel_whose_objects_are_broken() -> None:
    """A repair refuses it."""
    broken = replace(wheel({}), broken_elfs={"p/m.so": "`p/m.so` is truncated"})
    [finding] = run_rules(Context(wheel=broken, settings=Settings()), PLATFORM)
    assert finding.message.startswith("has no readable ELF object, but the platform tag `linux_x86")
    assert finding.hint == "build the wheel again"


def test_a_repair_grafts_the_libraries_that_keep_a_wheel_from_a_tag() -> None:
    subject = wheel({"p/m.so": EXTENSION._replace(needed=("libfoo.so.1", *EXTENSION.needed))})
    (finding,) = judged(subject)["WF804"]
    assert finding.fix is not None
    assert finding.fix.title == "graft `libfoo.so.1` where installed, and write the tag"


def test_a_local_tag_that_was_asked_for_is_no_finding() -> None:
    subject = wheel({"p/m.so": EXTENSION})
    assert not judged(subject, update_tags=False)
    arm = EXTENSION._replace(machine=Machine.ARM, bits=32, flags=0x05000400)
    raspberry = wheel({"p/m.so": arm}, name="demo-1.0-cp311-cp311-linux_armv7l.whl")
    assert not judged(raspberry)


# --- Libraries without a provider ---------------------------------------------------------------


def test_a_library_without_a_provider_is_one_error() -> None:
    subject = wheel(
        {
            "p/m.so": EXTENSION._replace(needed=("libfoo.so.1", *EXTENSION.needed)),
            "p/n.so": elf("libfoo.so.1"),
        },
        name=MANYLINUX,
    )
    found = judged(subject)
    assert found.keys() == {"WF805"}
    (finding,) = found["WF805"]
    assert finding.severity is Severity.ERROR
    assert finding.entry == "libfoo.so.1"
    assert finding.notes == ("needed by `p/m.so`, `p/n.so`",)
    assert 'exclude = ["libfoo.so.1"]' in (finding.hint or "")


def test_the_chain_of_what_needs_the_library_is_shown(tmp_path: Path) -> None:
    gone = build.shared_object(tmp_path / "libgone.so.1", soname="libgone.so.1")
    inner = build.shared_object(tmp_path / "libinner.so.1", soname="libinner.so.1", needed=[gone])
    outer = build.shared_object(tmp_path / "libouter.so.1", soname="libouter.so.1", needed=[inner])
    module = build.extension(tmp_path / "_core.abi3.so", "_core", needed=[outer], runpath="$ORIGIN")
    files: dict[str, Path | str] = {f"p/{path.name}": path for path in (inner, outer, module)}
    files["p/__init__.py"] = "from p import _core"
    path = build.make_wheel(tmp_path / "dist", tag="cp311-cp311-manylinux_2_17_x86_64", files=files)
    (finding,) = (found for found in check(path, Settings()).findings if found.code == "WF805")
    assert finding.notes == (
        "needed by `p/_core.abi3.so` -> `p/libouter.so.1` -> `p/libinner.so.1`",
    )


def test_libpython_in_the_wheel_is_not_said_to_be_missing() -> None:
    """auditwheel counts it as external in any place; pymeshlab finds its own."""
    name = "libpython3.11.so.1.0"
    module = EXTENSION._replace(needed=(name, *EXTENSION.needed), runpath="$ORIGIN/lib")
    both = {"p/m.so": module, f"p/lib/{name}": elf()._replace(soname=name)}
    assert "WF805" in judged(wheel({"p/m.so": module}, name=MANYLINUX))
    assert "WF805" not in judged(wheel(both, name=MANYLINUX))


def test_an_excluded_library_is_no_finding() -> None:
    subject = wheel(
        {"p/m.so": EXTENSION._replace(needed=("libcuda.so.1", *EXTENSION.needed))}, name=MANYLINUX
    )
    (finding,) = judged(subject)["WF805"]
    assert any("driver" in note for note in finding.notes)
    assert not judged(subject, exclude=("libcuda.so*",))


def test_a_library_that_a_required_package_brings_is_no_error() -> None:
    subject = wheel(
        {"p/m.so": EXTENSION._replace(needed=("libtorch_cpu.so", *EXTENSION.needed))},
        name=MANYLINUX,
    )
    (without,) = judged(subject)["WF805"]
    required = judged(subject, requirements=("numpy", "Torch >=2.9"))
    (vision,) = judged(subject, requirements=("torchvision",))["WF805"]
    assert without.severity is Severity.ERROR
    assert "WF805" not in required
    assert "--provider torch --add-requires`" in (without.hint or "")
    assert vision.severity is Severity.ERROR
    looked = "not looked into: {}, which METADATA requires"
    assert looked.format("`torchvision`") in vision.notes
    assert not any(looked[:15] in note for note in without.notes)


def test_the_packages_of_each_cuda_are_known() -> None:
    assert well_known_providers_of("libcudart.so.12") == ("nvidia-cuda-runtime-cu12",)
    assert well_known_providers_of("libcudart.so.13") == ("nvidia-cuda-runtime",)
    assert well_known_providers_of("libmine.so") == ()


def test_the_import_fails_without_a_provider_of_the_library(tmp_path: Path) -> None:
    library = build.shared_object(tmp_path / "gone" / "libgone.so.1", soname="libgone.so.1")
    extension = build.extension(tmp_path / "m.so", "m", needed=[library], calls=["f"])
    path = build.make_wheel(
        tmp_path, files={"m.so": extension}, tag="cp311-cp311-manylinux_2_17_x86_64"
    )
    report = check(path, Settings(select=("WF8",), ignore={"WF803": ""}))
    assert [finding.code for finding in report.findings] == ["WF805"]
    tried = subprocess.run(
        [sys.executable, "-c", "import m"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    assert "libgone.so.1: cannot open shared object file" in tried.stderr


# --- Machines that the project names ------------------------------------------------------------


def test_without_targets_nothing_is_tried() -> None:
    late = wheel({"p/m.so": using("f", "GLIBC_2.17")}, name=MANYLINUX)
    assert not judged(late)


@pytest.mark.parametrize(
    ("target", "version", "loads"),
    [
        ("debian:11", "GLIBC_2.31", True),
        ("debian:11", "GLIBC_2.32", False),
        ("rhel:8", "GLIBC_2.28", True),
        ("rhel:8", "GLIBC_2.29", False),
        ("ubuntu:24.04", "GLIBC_2.38", True),
        ("glibc:2.41", "GLIBC_2.41", True),
        ("glibc:2.40", "GLIBC_2.41", False),
        ("debian:11", "GLIBC_ABI_DT_RELR", False),
        ("debian:12", "GLIBC_ABI_DT_RELR", True),
        ("debian:12", "GLIBC_PRIVATE", True),
        ("alpine:3.20", "GLIBC_2.41", True),  # another wheel is for it
    ],
)
def test_a_target_has_or_lacks_a_version(target: str, version: str, *, loads: bool) -> None:
    subject = wheel({"p/m.so": using("f", version, segments=(STACK,))}, name=MANYLINUX)
    found = judged(subject, target=(target,)).get("WF812", [])
    assert [finding.entry for finding in found] == ([] if loads else [target])


@pytest.mark.parametrize(
    ("version", "lacking"),
    [
        ("GLIBCXX_3.4.25", []),
        ("GLIBCXX_3.4.28", ["rhel:8"]),
        ("GLIBCXX_3.4.30", ["debian:11", "rhel:8"]),
        ("CXXABI_1.3.13", ["debian:11", "rhel:8"]),
        ("CXXABI_FLOAT128", []),
    ],
)
def test_libstdcxx_is_as_old_as_the_target(version: str, lacking: list[str]) -> None:
    subject = wheel({"p/m.so": using("_Znwm", version, "libstdc++.so.6")}, name=MANYLINUX)
    targets = ("debian:11", "rhel:8", "debian:12")
    found = judged(subject, target=targets).get("WF812", [])
    assert [finding.entry for finding in found] == lacking


def test_a_library_of_the_wheel_is_as_new_as_it_is() -> None:
    own = elf(soname="libstdc++.so.6", verdef=("GLIBCXX_3.4.33",))
    user = using("_Znwm", "GLIBCXX_3.4.33", "libstdc++.so.6", rpath="$ORIGIN")
    subject = wheel({"p/m.so": user, "p/libstdc++.so.6": own}, name=MANYLINUX)
    assert "WF812" not in judged(subject, target=("rhel:8",))


def test_this_machine_is_as_described(tmp_path: Path) -> None:
    """The loader here is the judge of its own distribution's entry."""
    release = Path("/etc/debian_version")
    if not release.exists() or not release.read_text().startswith("12"):
        pytest.skip("is about Debian 12")
    for version, loads in (("GLIBC_2.36", True), ("GLIBC_2.37", False)):
        folder = tmp_path / version
        folder.mkdir()
        libc = build.stub_library_with_versions(
            folder / "libc.so.6", "libc.so.6", {version: ["newest"]}
        )
        path = build.shared_object(
            folder / "m.so",
            "__attribute__((weak)) int newest(void); void *g(void) { return newest; }",
            needed=[libc],
            libc=False,
        )
        made = build.make_wheel(folder, files={"p/m.so": path}, tag="cp311-cp311-linux_x86_64")
        with open_wheel(made) as archive:
            found = judged(archive.wheel, target=("debian:12",))
        assert ("WF812" not in found) == loads
        tried = subprocess.run(
            [sys.executable, "-c", f"import ctypes; ctypes.CDLL({str(path)!r})"],
            capture_output=True,
            text=True,
            check=False,
        )
        assert (f"version `{version}' not found" not in tried.stderr) == loads, tried.stderr


def test_a_tag_that_begins_above_the_target_is_passed_over() -> None:
    subject = wheel({"p/m.so": EXTENSION}, name=MANYLINUX.replace("2_17", "2_34"))
    found = judged(subject, target=("debian:11", "debian:12", "rhel:9"))
    assert [finding.entry for finding in found["WF811"]] == ["debian:11"]


def test_a_library_that_the_bare_image_lacks_comes_with_its_package() -> None:
    subject = wheel(
        {"p/m.so": EXTENSION._replace(needed=("libGL.so.1", *EXTENSION.needed))}, name=MANYLINUX
    )
    (finding,) = judged(subject, target=("debian:12", "rhel:9", "glibc:2.28"))["WF813"]
    assert finding.severity is Severity.WARNING
    assert "`libgl1` of `debian:12`" in finding.message
    assert "glibc:2.28" not in finding.message  # PEP 600 promises it


@pytest.mark.parametrize("library", ["libcuda.so.1", "libnvidia-ml.so.1", "libGL.so.1"])
def test_no_target_has_a_driver_and_no_wheel_may_bring_one(library: str) -> None:
    """Whether the user's machine has it is not known: no error, and no advice to ship it."""
    subject = wheel({"p/m.so": EXTENSION._replace(needed=(library, *EXTENSION.needed))})
    targets = ("debian:12", "glibc:2.28")
    found = judged(subject, target=targets).get("WF813", [])
    assert [finding.severity for finding in found] == [Severity.WARNING] * (library == "libGL.so.1")
    assert all(finding.hint == "document which package to install" for finding in found)
    context = Context(wheel=subject, settings=Settings(target=targets))
    lacking = targets[: 1 + (library != "libGL.so.1")]  # PEP 600 promises that
    assert lacking_targets(context) == {name: [library] for name in lacking}


def test_a_library_that_no_target_has_is_reported_once() -> None:
    subject = wheel({"p/m.so": EXTENSION._replace(needed=("libfoo.so.1", *EXTENSION.needed))})
    targets = ("debian:11", "rhel:8", "glibc:2.28")
    (finding,) = judged(subject, target=targets)["WF813"]
    assert finding.severity is Severity.ERROR
    assert finding.message == "`debian:11`, `rhel:8`, `glibc:2.28` have no `libfoo.so.1`"
    tagged = replace(subject, name=wheel({}, name=MANYLINUX).name)
    assert judged(tagged, target=targets).keys() == {"WF805"}
    assert "WF813" not in judged(subject, target=targets, exclude=("libfoo*",))


def test_musl_wheels_are_tried_on_alpine_alone() -> None:
    musl = EXTENSION._replace(needed=("libstdc++.so.6", "libc.musl-x86_64.so.1"))
    subject = wheel({"p/m.so": musl}, name=MANYLINUX.replace("manylinux_2_17", "musllinux_1_2"))
    found = judged(subject, target=("debian:11", "alpine:3.20"), exclude=("libnothing",))
    assert found.keys() == {"WF805"}


@pytest.mark.parametrize(
    ("machine", "align", "target", "loads"),
    [
        (Machine.AARCH64, 0x10000, "page:64k", True),
        (Machine.AARCH64, 0x4000, "page:64k", False),
        (Machine.AARCH64, 0x4000, "page:16k", True),
        (Machine.AARCH64, 0x1000, "page:16384", False),
        (Machine.PPC64, 0x1000, "page:64K", False),
        (Machine.X86_64, 0x1000, "page:64k", True),
    ],
)
def test_pages_larger_than_the_alignment(
    machine: int, align: int, target: str, *, loads: bool
) -> None:
    segment = Segment(type=1, flags=5, offset=0, vaddr=0, paddr=0, filesz=1, memsz=1, align=align)
    subject = wheel(
        {"p/m.so": EXTENSION._replace(machine=machine, segments=(segment, STACK))},
        name="demo-1.0-cp311-cp311-linux_any.whl",
    )
    assert ("WF814" not in judged(subject, target=(target,))) == loads


@pytest.mark.parametrize(
    "target", ["page:", "page:64", "page:3k", "page:big", "beos:5", "debian:4"]
)
def test_a_target_that_is_none_is_an_error_of_the_settings(target: str) -> None:
    with pytest.raises(SettingsError, match=r"(unknown target|invalid page size) `"):
        judged(wheel({"p/m.so": EXTENSION}), target=(target,))


def test_the_newer_loader_refuses_an_executable_stack(tmp_path: Path) -> None:
    for flag, refused in (("-Wl,-z,execstack", True), ("-Wl,-z,noexecstack", False)):
        extension = build.extension(tmp_path / "m.so", "m", flags=[flag])
        made = build.make_wheel(tmp_path, files={"p/m.so": extension})
        with open_wheel(made) as archive:
            subject = archive.wheel
        found = judged(subject, target=("glibc:2.41", "debian:13", "debian:12"))
        assert ("WF815" in found) == refused
        if refused:
            assert "`glibc:2.41`, `debian:13`" in found["WF815"][0].message
        assert "WF815" not in judged(subject, target=("glibc:2.40",))


def test_an_object_without_a_word_on_its_stack_has_the_processors_default() -> None:
    named = "demo-1.0-cp311-cp311-linux_{}.whl"
    intel = wheel({"p/m.so": EXTENSION}, name=named.format("x86_64"))
    arm = wheel(
        {"p/m.so": EXTENSION._replace(machine=Machine.AARCH64)}, name=named.format("aarch64")
    )
    assert "WF815" in judged(intel, target=("glibc:2.41",))
    assert "WF815" not in judged(arm, target=("glibc:2.41",))


@pytest.mark.parametrize(
    ("tag", "version", "is_met"),
    [
        ("manylinux_2_25", "GLIBC_2.25", True),
        ("manylinux_2_24", "GLIBC_2.25", False),
        ("manylinux_2_25", "GLIBC_2.26", False),
        ("manylinux_2_26", "GLIBC_2.25", True),
        ("manylinux_2_29", "GLIBC_2.28", True),
        ("manylinux_2_18", "GLIBC_2.27", False),
        ("manylinux_2_18", "GLIBCXX_3.4.19", True),
        ("manylinux_2_18", "GLIBCXX_3.4.21", False),
        ("manylinux_2_18", "CXXABI_1.3.9", False),
        ("manylinux_2_25", "GLIBCXX_3.4.22", True),
    ],
)
def test_a_tag_without_a_policy_promises_its_glibc(tag: str, version: str, *, is_met: bool) -> None:
    """PEP 600 defines the tags between two policies of auditwheel, too."""
    name = f"demo-1.0-cp311-cp311-{tag}_x86_64.whl"
    subject = wheel({"p/m.so": using("f", version)}, name=name)
    assert ("WF801" not in judged(subject)) == is_met


def test_the_reasons_are_those_of_the_tag_also_between_two_policies() -> None:
    """What its own glibc has is none, though auditwheel lists the symbols of 2.18 by name, too."""
    old = using("pthread_setattr_default_np", "GLIBC_2.18", "libpthread.so.0")
    new = using("f", "GLIBCXX_3.4.21", "libstdc++.so.6")
    members = {"p/m.so": old, "p/n.so": new}
    name = "demo-1.0-cp311-cp311-manylinux_2_18_x86_64.whl"
    (reason,) = judged(wheel(members, name=name))["WF801"][0].notes
    assert "`GLIBCXX_3.4.21`" in reason
    assert "is newer than `manylinux_2_18_x86_64` allows" in reason


@pytest.mark.parametrize("name", ["linux_x86_64", "linux_armv7l", "manylinux_2_17_x86_64", "any"])
def test_a_local_tag_without_an_object_is_told_as_a_repair_tells_it(name: str) -> None:
    pure = wheel({}, name=f"demo-1.0-py3-none-{name}.whl")
    found = run_rules(Context(wheel=pure, settings=Settings()), PLATFORM)
    findings = [finding for finding in found if finding.code == "WF804"]
    assert len(findings) == (name == "linux_x86_64")
    for finding in findings:
        assert finding.hint == WITHOUT_OBJECT
        with pytest.raises(NonPlatformWheelError) as refused:
            refuse_pure(pure, Settings())
        assert refused.value.hint == finding.hint
