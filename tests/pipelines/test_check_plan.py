"""`check` says that a repair fixes a finding only if that repair does; else it says why not."""

import os
import re
import shlex
import tomllib
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

import wheelfix
from tests.support.build import (
    extension,
    make_wheel,
    shared_object,
    stub_library_with_versions,
)
from wheelfix.cli.app import run
from wheelfix.pipelines import check_plan
from wheelfix.pipelines import repair as repair_pipeline
from wheelfix.pipelines.check_result import Report
from wheelfix.pipelines.graft import GraftedLibrary
from wheelfix.pipelines.repair_plan import Plan, Planner, decide
from wheelfix.rules.findings import Finding
from wheelfix.settings import Settings

TAG = f"py3-none-linux_{os.uname().machine}"
DEEP = "int deep(void) { return 1; }"


@pytest.fixture(autouse=True)
def _nowhere_else(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("LD_LIBRARY_PATH", raising=False)
    monkeypatch.delenv("AUDITWHEEL_LD_LIBRARY_PATH", raising=False)


@pytest.fixture
def vendor(tmp_path: Path) -> Path:
    """A library, in a folder that no loader searches by default."""
    return shared_object(tmp_path / "vendor" / "libdeep.so.1", DEEP, soname="libdeep.so.1")


def user(folder: Path, library: Path, name: str = "_core", **options: Any) -> Path:
    return extension(folder / f"{name}.so", name, needed=[library], calls=["deep"], **options)


def written(folder: Path, **modules: Path) -> Path:
    files: dict[str, Path | str] = {f"demo/{name}.so": path for name, path in modules.items()}
    return make_wheel(folder / "dist", tag=TAG, files={"demo/__init__.py": "", **files})


def found(report: Report, code: str) -> Finding:
    assert report.error is None
    return next(finding for finding in report.findings if finding.code == code)


def test_a_graft_is_promised_with_the_folder_that_has_the_library(
    tmp_path: Path, vendor: Path
) -> None:
    wheel = written(tmp_path, _core=user(tmp_path, vendor, runpath=str(vendor.parent)))
    tag = found(wheelfix.check(wheel), "WF804")
    assert tag.fix is not None
    assert f"`libdeep.so.1` from {vendor.parent}" in tag.fix.title
    outcome = wheelfix.repair(wheel, Settings(wheel_dir=tmp_path / "out"))
    assert [library.original for library in outcome.grafted] == ["libdeep.so.1"]
    assert not outcome.error
    assert "WF804" not in {finding.code for finding in outcome.remaining}


@pytest.mark.parametrize("asked", ["", "manylinux_2_35_"])
def test_a_tag_that_the_objects_of_a_wheel_do_not_satisfy_goes(tmp_path: Path, asked: str) -> None:
    """auditwheel leaves it beside the true one, and pip installs the wheel where it fails."""
    arch = os.uname().machine
    libc = stub_library_with_versions(tmp_path / "libc.so.6", "libc.so.6", {"GLIBC_2.33": ["h"]})
    code = "int h(void); int g(void) { return h(); }"
    one = shared_object(tmp_path / "libone.so", code, needed=[libc], libc=False)
    tag = f"py3-none-manylinux_2_17_{arch}.manylinux_2_39_{arch}.macosx_11_0_x86_64"
    wheel = make_wheel(tmp_path / "dist", tag=tag, files={"demo/libone.so": one})
    untrue = found(wheelfix.check(wheel), "WF801")
    assert untrue.fix is not None
    assert untrue.fix.title.startswith("write macosx_11_0_x86_64.manylinux_2_34_")
    settings = Settings(wheel_dir=tmp_path / "out", plat=f"{asked}{arch}" if asked else "auto")
    outcome = wheelfix.repair(wheel, settings)
    best = "manylinux_2_34_" + (f"{arch}.{asked}" if asked else "")
    written = f"macosx_11_0_x86_64.{best}{arch}.manylinux_2_39_{arch}.whl"
    assert [path.name for path in (tmp_path / "out").iterdir()] == [f"demo-1.0-py3-none-{written}"]
    (message,) = (message for message in outcome.messages if "goes" in message)
    assert f"`manylinux_2_17_{arch}`" in message
    assert "`GLIBC_2.33`" in message


@pytest.mark.parametrize("tag", ["manylinux_2_17_{}", "Manylinux_2_17_{}"])
@pytest.mark.parametrize("other", ["manylinux_2_31_riscv64", "linux_riscv64"])
@pytest.mark.parametrize("has_objects", [False, True])
def test_a_tag_of_another_machine_goes_only_where_no_object_is_for_that(
    tmp_path: Path, tag: str, other: str, *, has_objects: bool
) -> None:
    """A policy judges the objects of one machine: what those of another satisfy is not known."""
    arch = os.uname().machine
    libc = stub_library_with_versions(tmp_path / "libc.so.6", "libc.so.6", {"GLIBC_2.33": ["h"]})
    code = "int h(void); int g(void) { return h(); }"
    one = shared_object(tmp_path / "libone.so", code, needed=[libc], libc=False)
    files: dict[str, Path | str] = {"demo/libone.so": one}
    if has_objects:
        content = one.read_bytes()
        files["demo/other.so"] = tmp_path / "other.so"
        (tmp_path / "other.so").write_bytes(content[:18] + b"\xf3\0" + content[20:])
    platforms = f"{tag.format(arch)}.{other}"
    wheel = make_wheel(tmp_path / "dist", tag=f"py3-none-{platforms}", files=files)
    untrue = found(wheelfix.check(wheel), "WF801")
    outcome = wheelfix.repair(wheel, Settings(wheel_dir=tmp_path / "out"))
    names = [path.name for path in (tmp_path / "out").iterdir()]
    if has_objects:
        assert untrue.fix is None
        assert names == []
        assert all(finding.fix is None for finding in outcome.remaining)
    else:
        assert names == [f"demo-1.0-py3-none-manylinux_2_34_{arch}.whl"]
        assert outcome.after is not None
        assert outcome.after.tags == (f"py3-none-manylinux_2_34_{arch}",)
        reasons = [message for message in outcome.messages if "goes" in message]
        assert ["`GLIBC_2.33`" in reason for reason in reasons] == [True, False]
        assert "no object is for it" in reasons[1]


def test_a_repair_does_not_say_that_a_tag_with_a_policy_has_none(tmp_path: Path) -> None:
    """What it reads is not compared with the policies, what it writes is."""
    one = shared_object(tmp_path / "libone.so", "int g(void) { return 1; }", libc=False)
    tag = f"py3-none-manylinux_2_17_{os.uname().machine}"
    wheel = make_wheel(tmp_path / "dist", tag=tag, files={"demo/libone.so": one})
    outcome = wheelfix.repair(wheel, Settings(wheel_dir=tmp_path / "out"))
    assert outcome.verdict is not None
    assert "WF801" not in {finding.code for finding in outcome.found}


def test_a_tag_that_is_not_to_be_changed_and_is_not_satisfied_is_refused(tmp_path: Path) -> None:
    libc = stub_library_with_versions(tmp_path / "libc.so.6", "libc.so.6", {"GLIBC_2.33": ["h"]})
    code = "int h(void); int g(void) { return h(); }"
    one = shared_object(tmp_path / "libone.so", code, needed=[libc], libc=False)
    tag = f"py3-none-manylinux_2_17_{os.uname().machine}"
    wheel = make_wheel(tmp_path / "dist", tag=tag, files={"demo/libone.so": one})
    settings = Settings(wheel_dir=tmp_path / "out", update_tags=False)
    assert found(wheelfix.check(wheel, settings), "WF801").fix is None
    remaining = wheelfix.repair(wheel, settings).remaining
    (left,) = (finding for finding in remaining if finding.code == "WF801")
    kept = tag.removeprefix("py3-none-")
    assert (
        left.hint == f"to keep {kept}, build in an image as old as that"
    )  # no other tag: none is written
    assert not [*(tmp_path / "out").iterdir()]


def test_a_tag_that_only_the_graft_of_this_machine_does_not_meet_says_so(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The objects of the wheel satisfy its tag; in the container of the tag, a repair can graft."""
    versions = {"GLIBC_2.34": ["dlclose"]}
    libc = stub_library_with_versions(tmp_path / "libc.so.6", "libc.so.6", versions)
    code = "int dlclose(void *); int deep(void) { return dlclose(0); }"
    new = shared_object(
        tmp_path / "new" / "libdeep.so.1", code, soname="libdeep.so.1", needed=[libc], libc=False
    )
    tag = f"manylinux_2_17_{os.uname().machine}"
    core = user(tmp_path, new)
    files: dict[str, bytes | str | Path] = {"demo/__init__.py": "", "demo/_core.so": core}
    wheel = make_wheel(tmp_path / "dist", tag=f"py3-none-{tag}", files=files)
    there = ["--library-path", str(new.parent)]
    cause = "satisfies only manylinux_2_34_x86_64 with what is grafted from here"
    cause = cause.replace("x86_64", os.uname().machine)
    way = f"to keep {tag}, repair the wheel in an image as old as that"
    for command, *library in (["check"], ["repair"], ["why", "libdeep"]):
        assert run([command, str(wheel), *library, "-v", *there]) == (0 if library else 1)
        said = " ".join("".join(capsys.readouterr()).split())
        assert cause in said
        assert way in said
        assert "once it can be planned" not in said
    old = shared_object(tmp_path / "old" / "libdeep.so.1", DEEP, soname="libdeep.so.1")
    in_container = ["--library-path", str(old.parent), "-w", str(tmp_path / "out")]
    assert run(["repair", str(wheel), *in_container]) == 0


def test_what_stops_a_repair_behind_the_first_obstacle_is_said(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """No object says its C library; and once a tag is named, Python 3.8 lacks a function."""
    code = "void *PyType_GetModuleByDef(void); void *PyInit__core(void) { return %s(); }"
    core = shared_object(tmp_path / "_core.so", code % "PyType_GetModuleByDef", libc=False)
    files: dict[str, bytes | str | Path] = {"demo/__init__.py": "", "demo/_core.abi3.so": core}
    tag = f"cp38-abi3-linux_{os.uname().machine}"
    wheel = make_wheel(tmp_path / "dist", tag=tag, files=files)
    *_, then = (found(wheelfix.check(wheel), "WF804").hint or "").splitlines()
    assert then == "then WF303 keeps it from being written"
    plat = f"manylinux_2_28_{os.uname().machine}"
    assert run(["repair", str(wheel), "--plat", plat, "-w", str(tmp_path / "out")]) == 1
    assert "WF303" in capsys.readouterr().err


def test_a_path_in_dt_needed_is_gone_once_its_library_is_grafted(tmp_path: Path) -> None:
    nameless = shared_object(tmp_path / "vendor" / "libdeep.so", DEEP)
    module = extension(tmp_path / "_core.so", "_core", calls=["deep"], flags=[f"-Wl,{nameless}"])
    wheel = written(tmp_path, _core=module)
    path = found(wheelfix.check(wheel), "WF206")
    assert (path.entry, path.fix is not None) == (str(nameless), True)
    outcome = wheelfix.repair(wheel, Settings(wheel_dir=tmp_path / "out"))
    assert not outcome.error
    assert "WF206" not in {finding.code for finding in outcome.remaining}


def test_what_a_well_known_wheel_has_can_be_left_to_it(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    name = "libcudart.so.13"
    cuda = shared_object(tmp_path / "vendor" / name, DEEP, soname=name)
    idle = extension(tmp_path / "_idle.so", "_idle", needed=[cuda], flags=["-Wl,--no-as-needed"])
    init = "from . import _core\n"
    files: dict[str, bytes | str | Path] = {"demo/__init__.py": init, "demo/_idle.so": idle}
    files["demo/_core.so"] = user(tmp_path, cuda)
    wheel = make_wheel(tmp_path / "dist", tag=TAG, files=files)
    there = ["--library-path", str(cuda.parent)]
    options = "--provider nvidia-cuda-runtime --add-requires"
    assert run(["check", "-v", *there, str(wheel)]) == 1
    tag, unused = capsys.readouterr().out.split("WF201")
    tag = " ".join(tag.split())
    repair = shlex.join(["wheelfix", "repair", *there])
    assert f"to leave `{name}` to the other wheel that has it: `{repair} {options} {wheel}`" in tag
    assert f"fixes it: drop `{name}`, which is unused\n\n" in unused
    assert run(["why", *there, str(wheel), name]) == 0
    (way,) = re.findall("leave to   `wheelfix (.*)`", capsys.readouterr().out)
    assert way.endswith(options)
    assert run(["repair", *there, "--dry-run", str(wheel)]) == 0
    instead = f"  to leave `{name}` to the other wheel that has it: `{options}`\n"
    assert instead in capsys.readouterr().err
    assert run([*shlex.split(way), "-w", str(tmp_path / "out")]) == 0
    assert run(["check", *map(str, (tmp_path / "out").iterdir())]) == 0
    assert "grafted" not in capsys.readouterr().err


def test_the_options_that_leave_a_library_lead_to_those_of_requirements_too(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """With its own options alone, the repair is refused, as no search path leads to the other."""
    cuda = shared_object(tmp_path / "vendor" / "libcudart.so.12", DEEP, soname="libcudart.so.12")
    blas = shared_object(tmp_path / "libcublas.so.12", soname="libcublas.so.12")
    module = extension(tmp_path / "_core.so", "_core", needed=[cuda, blas], calls=["deep", "f"])
    files: dict[str, bytes | str | Path] = {"demo/__init__.py": "", "demo/_core.so": module}
    requires = "Requires-Dist: nvidia-cublas-cu12\n"
    wheel = make_wheel(tmp_path / "dist", tag=TAG, files=files, metadata=requires)
    there = ["--library-path", str(cuda.parent)]
    assert run(["repair", *there, "--dry-run", str(wheel)]) == 1
    said = capsys.readouterr().err
    (options,) = re.findall(
        "to leave `libcudart.so.12` to the other wheel that has it: `(.*)`", said
    )
    assert run(["repair", *there, *options.split(), "-w", str(tmp_path / "out"), str(wheel)]) == 0
    capsys.readouterr()
    assert run(["repair", "-w", str(tmp_path / "two"), str(wheel)]) == 2
    _, command = re.findall("`wheelfix (.*)`", capsys.readouterr().err)
    assert run(shlex.split(command)) == 0


def test_a_library_of_one_of_several_well_known_wheels_is_grafted(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    nccl = shared_object(tmp_path / "vendor" / "libnccl.so.2", DEEP, soname="libnccl.so.2")
    files: dict[str, bytes | str | Path] = {"demo/_core.so": user(tmp_path, nccl)}
    tag = TAG.replace("-linux_", "-manylinux_2_39_")
    wheel = make_wheel(tmp_path / "dist", tag=tag, files=files)
    there = ["--library-path", str(nccl.parent), str(wheel)]
    assert run(["check", *there]) == 1
    said = capsys.readouterr().out
    assert "WF805] unprovided-library [*]" in said
    assert said.count("to leave it there, `--add-requires --provider` with that of the") == 1
    assert run(["repair", *there, "-w", str(tmp_path / "out")]) == 0


def test_no_options_leave_a_library_that_only_some_modules_need(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """METADATA must require its wheel by an extra, which no repair adds (WF821)."""
    cuda = shared_object(tmp_path / "vendor" / "libcudart.so.13", DEEP, soname="libcudart.so.13")
    rand = shared_object(cuda.with_name("libcurand.so.10"), DEEP, soname="libcurand.so.10")
    pairs = (("_cuda", cuda), ("_rand", rand))
    cores = {name: user(tmp_path / name, library, name) for name, library in pairs}
    wheel = written(tmp_path, **cores)
    there = ["--library-path", str(cuda.parent)]
    assert run(["check", *there, str(wheel)]) == 1
    assert run(["repair", "--dry-run", *there, str(wheel)]) == 0
    assert "to leave" not in "".join(capsys.readouterr())


@pytest.mark.parametrize("name", ["libcudart.so.13", "libnccl.so.2"])
def test_what_the_settings_include_is_not_offered_to_be_left(
    tmp_path: Path, name: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """With the options of its wheel, it is grafted all the same: that is planned once."""
    monkeypatch.chdir(tmp_path)
    plans = tmp_path / "plans"

    def counted(planner: Planner, included: Sequence[GraftedLibrary]) -> Plan:
        with plans.open("a") as file:  # a command may be another process
            file.write("I")
        return decide(planner, included)

    for module in (check_plan, repair_pipeline):
        monkeypatch.setattr(module, "decide", counted)
    cuda = shared_object(tmp_path / "vendor" / name, DEEP, soname=name)
    init = f'import ctypes\nctypes.CDLL("{name}")\nfrom . import _core\n'
    core = extension(tmp_path / "_core.so", "_core")
    files: dict[str, bytes | str | Path] = {"demo/__init__.py": init, "demo/_core.so": core}
    wheel = make_wheel(tmp_path / "dist", tag=TAG, files=files)
    settings = f'include = ["{name}"]\nlibrary-path = ["{cuda.parent.name}"]\n'
    Path("wheelfix.toml").write_text(settings)
    for words, code in ((["check", wheel], 1), (["repair", wheel], 0), (["why", wheel, name], 0)):
        plans.unlink(missing_ok=True)
        assert run([*map(str, words)]) == code
        said = "".join(capsys.readouterr())
        assert "graft" in said
        assert not re.search("to leave|leave to|--exclude", said)
        assert plans.read_text() in {"I", "II"}


def test_no_options_leave_a_library_where_a_search_path_to_it_is_not_added(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """No one entry leads from a data file to another wheel in each install scheme (WF106)."""
    name = "libcublas.so.12"
    blas = shared_object(tmp_path / "vendor" / name, DEEP, soname=name)
    own = shared_object(
        tmp_path / "libown.so", "int deep(void); int f(void) { return deep(); }", needed=[blas]
    )
    data = "demo-1.0.data/data/lib/libown.so"
    files: dict[str, bytes | str | Path] = {"demo/__init__.py": "from . import _core\n", data: own}
    files["demo/_core.so"] = user(tmp_path, blas)
    wheel = make_wheel(tmp_path / "dist", tag=TAG, files=files)
    there = ["--library-path", str(blas.parent), str(wheel)]
    for words, code in ((["check"], 1), (["repair", "--dry-run"], 0), (["why", name], 0)):
        assert run([words[0], *there, *words[1:]]) == code
        said = "".join(capsys.readouterr())
        assert not re.search("to leave|leave to", said)
    options = ["--provider", "nvidia-cublas-cu12", "--add-requires", "-w", str(tmp_path / "out")]
    assert run(["repair", *there, *options]) == 0
    assert "left     WF106" in capsys.readouterr().err


def test_no_options_leave_a_library_to_the_wheel_itself(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A wheel that is built from source has its libraries on the machine, and no other has them."""
    arrow = shared_object(tmp_path / "vendor" / "libarrow.so.2400", DEEP, soname="libarrow.so.2400")
    files: dict[str, bytes | str | Path] = {"pyarrow/lib.so": user(tmp_path, arrow, "lib")}
    extra = 'Requires-Dist: pyarrow[all]; extra == "dev"\n'
    wheel = make_wheel(tmp_path / "dist", "pyarrow", "24.0", TAG, files, metadata=extra)
    there = ["--library-path", str(arrow.parent), str(wheel)]
    assert run(["check", *there]) == 1
    assert run(["why", *there, "libarrow"]) == 0
    assert run(["repair", *there, "--dry-run"]) == 0
    assert run(["repair", str(wheel), "-w", str(tmp_path / "out")]) == 2
    said = capsys.readouterr()
    assert "--provider" not in said.out + said.err
    given = ["--provider", "pyarrow", "--add-requires"]
    assert run(["repair", *there, *given, "-w", str(tmp_path / "out")]) == 0
    assert "grafted  libarrow.so.2400 from" in capsys.readouterr().err


def test_a_library_in_the_search_path_of_another_module_has_its_option(
    tmp_path: Path, vendor: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """What lacks the library does not name the folder, as after relinking; its sibling does."""
    other = shared_object(vendor.parent / "libother.so.1", soname="libother.so.1")
    wheel = written(
        tmp_path,
        _core=user(tmp_path, vendor),
        _other=extension(
            tmp_path / "_other.so", "_other", needed=[other], runpath=str(vendor.parent)
        ),
    )
    tag = found(wheelfix.check(wheel), "WF804")
    assert tag.fix is None
    option = f"--library-path {vendor.parent}"
    assert tag.hint is not None
    assert "`libdeep.so.1`" in tag.hint
    assert "`demo/_other.so`" in tag.hint
    assert tag.hint.endswith(f": `wheelfix repair {option}`")
    refused = ["repair", str(wheel), "-w", str(tmp_path / "out")]
    assert run(refused) == 2
    assert option in capsys.readouterr().err
    assert run([*refused, *shlex.split(option)]) == 0
    again = wheelfix.check(wheel, Settings(library_path=(str(vendor.parent),)))
    assert found(again, "WF804").fix is not None


def test_a_library_that_is_nowhere_fixes_nothing(
    tmp_path: Path, vendor: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    wheel = written(tmp_path, _core=user(tmp_path, vendor, runpath="/nowhere/lib"))
    vendor.unlink()
    report = wheelfix.check(wheel)
    assert not [finding for finding in report.findings if finding.fix]
    absolute = found(report, "WF111")
    assert absolute.hint is not None
    assert "cannot write this wheel here:\n`libdeep.so.1`" in absolute.hint
    assert run(["check", str(wheel)]) == 1
    out = capsys.readouterr().out
    assert (out.count("cannot write this wheel here:"), out.count("hint: as above\n")) == (1, 1)


def test_an_obstacle_is_told_once_and_what_else_ends_each_finding(
    tmp_path: Path, vendor: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    gone = shared_object(tmp_path / "libgone.so.2", soname="libgone.so.2")
    plugin = shared_object(tmp_path / "libplugin.so", needed=[gone])
    files: dict[str, Path | str] = {
        "demo/__init__.py": "from . import _core",
        "demo/_core.so": user(tmp_path, vendor),
        "demo/libplugin.so": plugin,
    }
    tag = f"py3-none-manylinux_2_39_{os.uname().machine}"
    wheel = make_wheel(tmp_path / "dist", tag=tag, files=files)
    vendor.unlink()
    gone.unlink()
    assert run(["check", str(wheel)]) == 1
    out = capsys.readouterr().out
    assert out.count("cannot write this wheel here:") == 1
    assert 'hint: as above\n      if another package provides it, set `exclude = ["libgone' in out


def test_what_to_do_about_an_obstacle_stands_at_its_own_finding_alone(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    wheel = written(tmp_path, _core=extension(tmp_path / "_core.so", "_core", calls=["nowhere"]))
    assert run(["check", str(wheel)]) == 1
    out = " ".join(capsys.readouterr().out.split())
    assert "here: WF301 no loaded library defines `nowhere`" in out
    assert out.count("link the library, or compile the source, that defines it") == 1
    baseline = tmp_path / "baseline.json"
    known = ["--select=WF301", "--write-baseline", "--baseline", str(baseline)]
    assert run(["check", *known, str(wheel)]) == 0
    capsys.readouterr()
    assert run(["check", "--baseline", str(baseline), str(wheel)]) == 1
    out = " ".join(capsys.readouterr().out.split())
    assert "link the library, or compile the source, that defines it" in out


def test_a_library_that_was_excluded_is_told_how_check_knows_it(
    tmp_path: Path, vendor: Path
) -> None:
    wheel = written(tmp_path, _core=user(tmp_path, vendor))
    wheel = wheel.rename(wheel.with_name(wheel.name.replace("linux", "manylinux_2_17")))
    vendor.unlink()
    hint = found(wheelfix.check(wheel), "WF805").hint or ""
    assert "--exclude libdeep.so.1" in hint
    assert 'set `exclude = ["libdeep.so.1"]` in [tool.wheelfix], which `check` and' in hint
    excluded = Settings(exclude=("libdeep.so.1",), select=("WF805",))
    assert not wheelfix.check(wheel, excluded).findings


def test_what_is_selected_does_not_change_what_a_repair_does(tmp_path: Path) -> None:
    """The repair drops the entry, which nothing uses, whether WF201 is reported or not."""
    gone = shared_object(tmp_path / "libgone.so.1", "int gone(void);", soname="libgone.so.1")
    module = extension(tmp_path / "_core.so", "_core", needed=[gone])
    tag = f"py3-none-manylinux_2_39_{os.uname().machine}"
    wheel = make_wheel(tmp_path / "dist", tag=tag, files={"demo/_core.so": module})
    gone.unlink()
    for settings in (Settings(), Settings(select=("WF805",))):
        fix = found(wheelfix.check(wheel, settings), "WF805").fix
        assert fix is not None
        assert fix.title == "drop `libgone.so.1`, which is unused"
    assert run(["repair", str(wheel), "-w", str(tmp_path / "out")]) == 0


def test_many_libraries_that_are_nowhere_are_one_finding(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """It names the first three, each with its dependents, and how to find or to leave them."""
    names = [f"libgone{letter}.so.1" for letter in "abcde"]
    calls = [name.partition(".")[0] for name in names]
    gone = [
        shared_object(tmp_path / "lib" / name, f"int {call}(void) {{ return 1; }}", soname=name)
        for name, call in zip(names, calls, strict=True)
    ]
    module = extension(tmp_path / "_core.so", "_core", needed=gone, calls=calls)
    tag = f"py3-none-manylinux_2_39_{os.uname().machine}"
    files: dict[str, Path | str] = {"demo/__init__.py": "", "demo/_core.so": module}
    wheel = make_wheel(tmp_path / "dist", tag=tag, files=files)
    for library in gone:
        library.unlink()
    assert [f.entry for f in wheelfix.check(wheel).findings if f.code == "WF805"] == names
    assert run(["check", "--select", "WF805", str(wheel)]) == 1
    said = capsys.readouterr().out
    head = f"{wheel}: its objects allow only linux_{os.uname().machine}, 1 object"
    assert said.startswith(head)
    assert said.count("error[WF805]") == 1
    assert "`libgonea.so.1`, `libgoneb.so.1`, `libgonec.so.1` and 2 more are neither" in said
    assert said.count("note: needed by `demo/_core.so`\n") == 1
    assert f" --exclude 'libgone*' {wheel}`" in said
    assert run(["repair", "--exclude", "libgone*", str(wheel), "-w", str(tmp_path / "out")]) == 0
    assert "Found 5 errors with 1 cause in 1 wheel." in said
    globs = ["--exclude", "libgone*.so.1"]
    assert run(["repair", str(wheel), "-w", str(tmp_path / "out"), *globs]) == 0


def test_the_libraries_of_two_providers_have_one_command(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    names = ["libcublas.so.12", "libcublasLt.so.12", "libcufft.so.11"]
    there = [
        shared_object(tmp_path / "lib" / n, f"int f{i}(void);", soname=n)
        for i, n in enumerate(names)
    ]
    module = extension(tmp_path / "_core.so", "_core", needed=there)
    tag = f"cp311-cp311-manylinux_2_39_{os.uname().machine}"
    files: dict[str, Path | str] = {"demo/__init__.py": "", "demo/_core.so": module}
    make_wheel(tmp_path / "dist", tag=tag, files=files)
    monkeypatch.chdir(tmp_path)
    (name,) = Path("dist").iterdir()
    assert run(["check", "--select", "WF805", str(name)]) == 1
    said = capsys.readouterr().out
    assert said.count("error[WF805]") == 1
    (command,) = (span for span in said.split("`") if span.startswith("wheelfix repair "))
    assert run(shlex.split(command)[1:]) == 0
    (repaired,) = Path("wheelhouse").iterdir()
    capsys.readouterr()
    assert run(["check", "--select", "WF805", str(repaired)]) == 0, capsys.readouterr().out


def test_notes_of_a_library_among_others_are_told_apart(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    names = ["libcublas.so.12", "libcufft.so.11"]
    gone = [shared_object(tmp_path / "lib" / name, soname=name) for name in names]
    module = extension(tmp_path / "_core.so", "_core", needed=gone)
    tag = f"py3-none-manylinux_2_39_{os.uname().machine}"
    files: dict[str, Path | str] = {"demo/__init__.py": "", "demo/_core.so": module}
    wheel = make_wheel(tmp_path / "dist", tag=tag, files=files)
    for library in gone:
        library.unlink()
    run(["check", "--select", "WF805", str(wheel)])
    said = capsys.readouterr().out
    assert said.count("note: needed by `demo/_core.so`\n") == 1
    assert (
        "note: `libcublas.so.12`: in nvidia-cublas-cu12, which METADATA does not require\n" in said
    )


def test_a_wheel_that_the_repair_would_reject_is_not_fixed(tmp_path: Path) -> None:
    lost = shared_object(
        tmp_path / "liblost.so",
        "int nowhere(void); int f(void) { return nowhere(); }",
        runpath="/nowhere/lib",
    )
    files: dict[str, Path | str] = {"demo/__init__.py": "", "demo/liblost.so": lost}
    wheel = make_wheel(tmp_path / "dist", tag=TAG, files=files)
    settings = Settings(severity={"WF301": "error"})
    report = wheelfix.check(wheel, settings)
    outcome = wheelfix.repair(
        wheel, Settings(wheel_dir=tmp_path / "out", severity={"WF301": "error"})
    )
    assert (outcome.output is None) == (found(report, "WF111").fix is None)
    assert outcome.output is None
    assert "WF301" in (found(report, "WF111").hint or "")


def test_the_command_of_a_hint_has_the_flags_and_neighbors_of_the_check(
    tmp_path: Path,
    vendor: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    wheel = written(tmp_path, _core=user(tmp_path, vendor, rpath="/nowhere"))
    monkeypatch.chdir(tmp_path)
    name = wheel.relative_to(tmp_path)
    flags = ["--exclude", "libno*.so", "--library-path", "vendor"]
    run(["check", str(name), *flags, "--show", "notes"])
    said = capsys.readouterr().out
    command = f"wheelfix repair {shlex.join(flags)}"
    assert f"`{command} {name}`" in said
    assert run([*shlex.split(command)[1:], str(name)]) == 0


def test_nothing_is_planned_without_a_fix(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    wheel = make_wheel(tmp_path, tag="py3-none-any", files={"demo.py": "x = 1\n"})
    monkeypatch.setattr("wheelfix.pipelines.check_plan.decide", pytest.fail)
    assert wheelfix.check(wheel).error is None


def test_what_is_found_does_not_depend_on_the_machine(tmp_path: Path, vendor: Path) -> None:
    """A search path of the wheel leads to the library on one machine, and nowhere on another."""
    wheel = written(tmp_path, _core=user(tmp_path, vendor, runpath=str(vendor.parent)))
    here = [finding.code for finding in wheelfix.check(wheel).findings]
    vendor.unlink()
    assert [finding.code for finding in wheelfix.check(wheel).findings] == here


def commands_in(said: str) -> list[list[str]]:
    """Return the calls of `wheelfix repair` that are said, as arguments."""
    calls = re.findall(r"(wheelfix repair [^`\n\"]+)", " ".join(said.split()))
    return [shlex.split(call.replace("\\n", " "))[1:] for call in calls]


def with_a_module(folder: Path, metadata: str = "") -> Path:
    """Make a wheel with a module that needs nothing to be grafted, in `dist`."""
    core = extension(folder / "_core.so", "_core")
    files: dict[str, Path | str] = {"demo/__init__.py": "", "demo/_core.so": core}
    return make_wheel(folder / "dist", tag=TAG, files=files, metadata=metadata)


def test_what_only_an_index_refuses_keeps_no_repair_from_its_work(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """`repair` has no `--index`; with the setting, it refuses the wheel as well."""
    monkeypatch.chdir(tmp_path)
    with_a_module(tmp_path, "Requires-Dist: x @ https://example.com/x.whl\n")
    run(["check", "--index", "pypi", "dist"])
    said = capsys.readouterr().out
    assert "`wheelfix repair` fixes 1 [*]." in said
    [call] = commands_in(said)
    assert run(call) == 0
    Path("wheelfix.toml").write_text('index = "pypi"\n')
    run(["check", "dist"])
    assert "cannot write this wheel here: WF506" in " ".join(capsys.readouterr().out.split())
    assert run([*call, "-w", "other"]) == 1


def test_a_repair_that_no_target_could_use_is_not_promised(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """`repair` has no `--target`; with the setting, it refuses the wheel."""
    monkeypatch.chdir(tmp_path)
    with_a_module(tmp_path)
    target = "glibc:2.3"  # before manylinux1
    run(["check", "--target", target, "dist"])
    said = " ".join(capsys.readouterr().out.split())
    assert f"leads to WF811 `{target}` has glibc 2.3" in said
    assert "[*]" not in said
    assert run(["repair", "dist"]) == 0
    assert run(["check", "--target", target, "wheelhouse"]) == 1
    assert "WF811" in capsys.readouterr().out
    Path("wheelfix.toml").write_text(f'target = ["{target}"]\n')
    run(["check", "dist"])
    assert "cannot write this wheel here: WF811" in " ".join(capsys.readouterr().out.split())
    assert run(["repair", "-w", "other", "dist"]) == 1


def test_a_repair_that_the_lock_refuses_is_not_promised(
    tmp_path: Path,
    vendor: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(tmp_path)
    written(tmp_path, _core=user(tmp_path, vendor, runpath=str(vendor.parent)))
    Path("wheelfix.toml").write_text("locked = true\n")
    run(["check", "dist"])
    said = capsys.readouterr().out
    assert "[*]" not in said
    locking = re.search(r"wheelfix (repair --write-lock \S+)", " ".join(said.split()))
    assert run(commands_in(said)[0]) != 0
    capsys.readouterr()
    assert locking
    assert run(shlex.split(locking[1])) == 0
    capsys.readouterr()
    run(["check", "dist"])
    said = capsys.readouterr().out
    assert "[*]" in said
    assert run([*commands_in(said)[0], "-w", "other"]) == 0


def test_no_repair_is_offered_for_a_wheel_of_another_system(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    files = {"demo/__init__.py": ""}
    linux = make_wheel(tmp_path, tag=TAG, files=files)
    windows = linux.rename(tmp_path / "demo-1.0-py3-none-win_amd64.whl")
    run(["check", str(windows)])
    said = capsys.readouterr().out
    assert "WF504" in said
    assert "wheelfix repair" not in said


def test_a_library_that_is_included_already_is_promised(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    shared_object(tmp_path / "lib" / "libextra.so")
    opens = "import ctypes, os\nctypes.CDLL(os.path.join(os.path.dirname(__file__), 'libextra.so'))"
    core = extension(tmp_path / "_core.so", "_core")
    files: dict[str, Path | str] = {"demo/__init__.py": opens, "demo/_core.so": core}
    make_wheel(tmp_path / "dist", tag=TAG, files=files)
    Path("wheelfix.toml").write_text('include = ["libextra.so"]\n')
    run(["check", "dist"])
    assert "--library-path FOLDER" in " ".join(capsys.readouterr().out.split())
    run(["check", "dist", "--library-path", "lib"])
    said = capsys.readouterr().out
    assert "`wheelfix repair` fixes all of them [*]." in said
    assert run(commands_in(said)[0]) == 0


@pytest.mark.parametrize("form", ["json", "jsonl", "sarif"])
def test_the_commands_of_records_take_the_wheel(
    form: str,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(tmp_path)
    core = extension(tmp_path / "_core.so", "_core", rpath="/nowhere")
    written(tmp_path, _core=core)
    run(["check", "--select", "WF111,WF116", "--output-format", form, "dist"])
    said = capsys.readouterr().out
    found = re.findall(r'"hint": ?"(`wheelfix repair[^`]*`)', said)
    assert found
    for call in commands_in(" ".join(found)):
        assert run([*call, "--dry-run"]) == 0


def for_libc(folder: Path, name: str) -> Path:
    """A library that needs the C library `name`."""
    libc = shared_object(folder / "c" / name, soname=name, libc=False)
    return shared_object(folder / "libone.so", needed=[libc], libc=False)


@pytest.mark.parametrize(
    ("tag", "libc", "plat", "advice"),
    [
        ("linux", "libc.so.6", "musllinux_1_2", "leave out --plat"),
        ("manylinux_2_17", "libc.so.6", "musllinux_1_2", "leave out --plat"),
        ("manylinux_2_17", "libc.so", "musllinux_1_2", "the tag that it was built for"),
        ("manylinux_2_17", "libc.so", "", "the tag that it was built for"),
        ("musllinux_1_2", "libc.so.6", "", "the tag that it was built for"),
    ],
)
def test_what_no_object_is_for_is_named_with_a_way_out(
    tag: str, libc: str, plat: str, advice: str, tmp_path: Path
) -> None:
    arch = os.uname().machine
    files: dict[str, Path | str] = {"demo/libone.so": for_libc(tmp_path, libc)}
    wheel = make_wheel(tmp_path / "dist", tag=f"py3-none-{tag}_{arch}", files=files)
    settings = Settings(wheel_dir=tmp_path / "out", plat=f"{plat}_{arch}" if plat else "auto")
    error = wheelfix.repair(wheel, settings).error
    assert error is not None
    assert advice in (error.hint or "")
    other = make_wheel(tmp_path / "dist", tag=TAG, files=files)
    assert wheelfix.repair(other, Settings(wheel_dir=tmp_path / "out")).error is None


def test_a_truncated_object_is_what_a_repair_says_of_it(tmp_path: Path) -> None:
    cut = shared_object(tmp_path / "libone.so").read_bytes()[:3000]
    wheel = make_wheel(tmp_path / "dist", tag=TAG, files={"demo/libone.so": cut})
    outcome = wheelfix.repair(wheel, Settings(wheel_dir=tmp_path / "out"))
    assert outcome.error is not None
    assert "is truncated" in outcome.error.message
    assert outcome.error.hint == "build the wheel again"


@pytest.mark.parametrize("words", [(), ("-v",), ("--output-format", "github")], ids=" ".join)
@pytest.mark.parametrize("last", ["libheree.so.1", "libheree'\"[1]*.so"])
def test_libraries_of_several_folders_are_one_repair_and_one_setting(
    last: str,
    words: tuple[str, ...],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """Each line of the hint names all libraries of which it says the same; a setting has all."""
    names = [*(f"libhere{letter}.so.1" for letter in "abcd"), last]
    monkeypatch.chdir(tmp_path)
    folders = [Path("two" if name == last else "one") for name in names]
    calls = [name[:8] for name in names]
    here = [
        shared_object(folder / name, f"int {call}(void) {{ return 1; }}", soname=name)
        for folder, name, call in zip(folders, names, calls, strict=True)
    ]
    module = extension(tmp_path / "_core.so", "_core", needed=here, calls=calls)
    tag = f"py3-none-manylinux_2_39_{os.uname().machine}"
    files: dict[str, Path | str] = {"demo/__init__.py": "", "demo/_core.so": module}
    wheel = make_wheel(Path("dist"), tag=tag, files=files)
    Path("wheelfix.toml").write_text('library-path = ["one", "two"]\n', encoding="utf-8")
    assert run(["check", "--select", "WF805", *words, str(wheel)]) == 1
    said = " ".join(capsys.readouterr().out.replace("%0A", "\n").split())
    assert said.count(f"`wheelfix repair --select WF805 {wheel}` fixes it") == 1
    assert said.count(" fixes it") == said.count("set `exclude = ") == 1
    assert words != ("-v",) or f"; graft `{last}` from {tmp_path}/two, and write " in said
    exclude = f"exclude = {said.partition('set `exclude = ')[2].partition('` in [tool')[0]}\n"
    assert len(tomllib.loads(exclude)["exclude"]) == len(names)
    Path("wheelfix.toml").write_text(exclude, encoding="utf-8")
    assert run(["check", "--select", "WF805", str(wheel)]) == 0


@pytest.mark.parametrize("users", [(), ("used",)])
def test_a_library_of_a_target_that_no_object_uses_is_dropped(
    tmp_path: Path, users: tuple[str, ...]
) -> None:
    """`--target` must not ask for a package that the repaired wheel does not need."""
    display = shared_object(tmp_path / "libX11.so.6", DEEP, soname="libX11.so.6")
    modules = {name: user(tmp_path, display, name) for name in users}
    modules["unused"] = extension(tmp_path / "unused.so", "unused", needed=[display])
    wheel = written(tmp_path, **modules)
    machine = Settings(target=("debian:12-slim",), wheel_dir=tmp_path / "out")
    finding = found(wheelfix.check(wheel, machine), "WF813")
    assert (finding.fix is not None) is (not users)
    assert ("which package" in (finding.hint or "")) is bool(users)
    outcome = wheelfix.repair(wheel, machine)
    assert outcome.output is not None
    codes = {one.code for one in wheelfix.check(outcome.output, machine).findings}
    assert ("WF813" in codes) is bool(users)
