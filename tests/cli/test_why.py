"""`wheelfix why`: the chains that lead to a library, and its origin."""

import json
import shlex
import sys
import zipfile
from collections.abc import Callable
from itertools import product
from pathlib import Path
from typing import Any

import pytest

from tests.support.build import extension, make_wheel, shared_object
from wheelfix.cli.app import run
from wheelfix.pipelines.repair import rehearse
from wheelfix.wheel.reader import Archive

TAG = f"cp3{sys.version_info.minor}-cp3{sys.version_info.minor}-linux_x86_64"


@pytest.fixture
def wheel(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A wheel as built: `p/a.so` needs libouter.so.1, which needs libinner.so.2 of this machine."""
    host = tmp_path / "host"
    inner = shared_object(
        host / "libinner.so.2", "int inner(void){return 1;}", soname="libinner.so.2"
    )
    outer = shared_object(
        host / "libouter.so.1",
        "int inner(void); int outer(void){return inner();}",
        soname="libouter.so.1",
        needed=[inner],
    )
    module = extension(tmp_path / "a.so", "a", needed=[outer], calls=["outer"])
    monkeypatch.setenv("LD_LIBRARY_PATH", str(host))
    return make_wheel(tmp_path / "dist", tag=TAG, files={"p/__init__.py": "", "p/a.so": module})


def asked(capsys: pytest.CaptureFixture[str], *words: str | Path) -> str:
    assert run(["why", *map(str, words)]) == 0
    return capsys.readouterr().out


@pytest.mark.parametrize("name", ["libinner.so.2", "libinner", "inner"])
def test_a_library_that_a_repair_would_graft_has_chain_origin_and_option(
    name: str, wheel: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    first, chain, origin, option = asked(capsys, wheel, name).splitlines()
    assert first.startswith("libinner.so.2: a repair grafts it as `demo.libs/libinner-")
    assert chain == "  needed by  `a.so` -> libouter.so.1 -> libinner.so.2"
    assert origin.endswith("host/libinner.so.2")
    assert option == f"  keep out   `wheelfix repair {wheel} --exclude libinner.so.2`"


def test_each_object_that_needs_a_library_has_a_chain(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Without one of them, the library is needed still."""
    leaf = shared_object(
        tmp_path / "libleaf.so", "int leaf(void) { return 1; }", soname="libleaf.so"
    )
    both = [
        shared_object(
            tmp_path / f"lib{name}.so",
            f"int leaf(void); int {name}(void) {{ return leaf(); }}",
            soname=f"lib{name}.so",
            needed=[leaf],
        )
        for name in "pq"
    ]
    module = extension(tmp_path / "a.so", "a", needed=both, calls=["p", "q"])
    monkeypatch.setenv("LD_LIBRARY_PATH", str(tmp_path))
    wheel = make_wheel(tmp_path / "dist", tag=TAG, files={"p/__init__.py": "", "p/a.so": module})
    lines = asked(capsys, wheel, "libleaf").splitlines()
    assert lines[1:3] == [
        "  needed by  `a.so` -> libp.so -> libleaf.so",
        "             `a.so` -> libq.so -> libleaf.so",
    ]


def test_the_chain_is_shown_although_the_repair_would_fail(
    wheel: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.delenv("LD_LIBRARY_PATH")
    assert run(["why", str(wheel), "libouter"]) == 0
    printed = capsys.readouterr()
    assert "needed by  `a.so` -> libouter.so.1" in printed.out
    assert "note: a repair cannot be planned" in printed.err


def test_of_many_wheels_those_without_the_library_take_one_line_and_a_note_names_its_wheel(
    wheel: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("LD_LIBRARY_PATH")
    names = [f"other{number}" for number in range(9)]
    others = [make_wheel(tmp_path / "o", n, tag=TAG, files={f"{n}.py": ""}) for n in names]
    assert run(["why", str(wheel), *map(str, others), "libouter"]) == 0
    first, last = capsys.readouterr().err.splitlines()
    assert first.startswith(f"note: `{wheel.name}`: a repair cannot be planned: ")
    listed = ", ".join(f"`{other.name}`" for other in others[:3])
    assert last == f"note: in 9 other wheels, no object needs or is `libouter`: {listed} and 6 more"


def test_the_option_keeps_the_library_out(
    wheel: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = asked(capsys, wheel, "libinner").split("`")[-2].split()
    assert run([*words[1:], "-w", str(tmp_path / "out"), "--output-format=json"]) == 0
    assert '"original_name": "libouter.so.1"' in (out := capsys.readouterr().out)
    assert '"original_name": "libinner.so.2"' not in out


def test_a_library_that_is_excluded_is_not_called_missing(
    wheel: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "wheelfix.toml").write_text('exclude = ["libother.so", "libinner.so.*"]\n')
    monkeypatch.chdir(tmp_path)
    first, chain = asked(capsys, wheel, "libinner").splitlines()
    assert first == "libinner.so.2: must come from elsewhere: `exclude` has `libinner.so.*`"
    assert chain == "  needed by  `a.so` -> libouter.so.1 -> libinner.so.2"


def test_a_grafted_library_is_known_by_its_original_name(
    wheel: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["repair", "-w", str(tmp_path / "out"), str(wheel)]) == 0
    repaired = capsys.readouterr().out.strip()
    first, chain = asked(capsys, repaired, "libinner.so.2").splitlines()[:2]
    assert first.startswith("libinner.so.2: grafted as `demo.libs/libinner-")
    assert chain == "  needed by  `a.so` -> libouter.so.1 -> libinner.so.2"


def test_a_platform_library_is_never_grafted(
    wheel: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert asked(capsys, wheel, "libc.so.6").startswith(
        "libc.so.6: expected from the platform, never grafted\n"
    )


UNUSED = "no symbol of it is used, so a repair drops the DT_NEEDED entry"


def test_a_library_whose_entry_a_repair_drops_is_known(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("LD_LIBRARY_PATH", str(tmp_path))
    spare = shared_object(
        tmp_path / "libspare.so.1", "int s(void){return 1;}", soname="libspare.so.1"
    )
    module = extension(tmp_path / "a.so", "a", needed=[spare])
    path = make_wheel(tmp_path / "dist", tag=TAG, files={"p/__init__.py": "", "p/a.so": module})
    assert asked(capsys, path, "libspare").splitlines() == [
        f"libspare.so.1: {UNUSED}",
        "  needed by  `a.so` -> libspare.so.1",
    ]


@pytest.mark.parametrize("platform", ["linux", "manylinux_2_34"])
def test_who_needs_an_unused_or_unreachable_library_of_the_wheel_is_said(
    platform: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """No search path leads to either; a repair drops the entry for `libmid`."""
    low = shared_object(tmp_path / "liblow.so.1", "int l(void){return 1;}", soname="liblow.so.1")
    source = "int m(void){return 1;}"
    mid = shared_object(tmp_path / "libmid.so.1", source, soname="libmid.so.1", needed=[low])
    module = extension(tmp_path / "a.so", "a", needed=[mid])
    files: dict[str, bytes | str | Path] = {f"p/{path.name}": path for path in (low, mid, module)}
    files["p/__init__.py"] = ""
    wheel = make_wheel(tmp_path / "dist", tag=TAG.replace("linux", platform), files=files)
    assert asked(capsys, wheel, "libmid").splitlines() == [
        f"libmid.so.1: in the wheel, `p/libmid.so.1`; {UNUSED}",
        "  needed by  `a.so` -> libmid.so.1",
    ]
    assert "\n  needed by  `libmid.so.1` -> liblow.so.1\n" in asked(capsys, wheel, "liblow")


@pytest.mark.parametrize("name", ["libcufft.so.12", "libgone.so.1"])
def test_what_only_a_neighbor_needs_is_said_and_no_repair_offered(
    name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    low = shared_object(tmp_path / name, "int l(void){return 1;}", soname=name)
    core = shared_object(
        tmp_path / "libcore.so.1", "int c(void){return 1;}", soname="libcore.so.1", needed=[low]
    )
    beside = make_wheel(tmp_path / "r", "core", tag=TAG, files={"core/libcore.so.1": core})
    module = extension(
        tmp_path / "a.so", "a", needed=[core], calls=["c"], runpath="$ORIGIN/../core"
    )
    wheel = make_wheel(
        tmp_path / "dist",
        tag=TAG.replace("linux", "manylinux_2_34"),
        files={"p/a.so": module, "p/__init__.py": ""},
        metadata="Requires-Dist: core\n",
    )
    assert run(["why", "--with", str(beside), str(wheel), name]) == 0
    said = capsys.readouterr().out
    assert f"  needed by  `a.so` -> libcore.so.1 -> {name}\n" in said
    assert "wheelfix repair" not in said
    command = said.partition("more by `")[2].partition("`")[0]
    assert run(shlex.split(command)[1:]) == 1
    said = capsys.readouterr().out
    assert "[not found]" in said
    assert "!core/libcore.so.1`" in said


def test_a_library_whose_name_a_dt_needed_entry_has_that_finds_another_is_not_called_unnamed(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    low = shared_object(tmp_path / "liblow.so.1", "int l(void){return 1;}", soname="liblow.so.1")
    module = extension(tmp_path / "a.so", "a", needed=[low], calls=["l"], runpath="$ORIGIN/one")
    files: dict[str, bytes | str | Path] = {"p/a.so": module, "p/__init__.py": ""}
    files |= {f"p/{folder}/liblow.so.1": low for folder in ("one", "two")}
    tag = TAG.replace("linux", "manylinux_2_34")
    text = asked(capsys, make_wheel(tmp_path / "dist", tag=tag, files=files), "p/two/liblow.so.1")
    assert "needed by  nothing: the DT_NEEDED entry of `a.so` does not lead to it" in text


def test_a_path_in_dt_needed_is_not_to_be_kept_out(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    library = tmp_path / "libpath.so"
    shared_object(library, "int t(void){return 1;}", soname=str(library))
    module = extension(tmp_path / "a.so", "a", needed=[library], calls=["t"])
    path = make_wheel(tmp_path / "dist", tag=TAG, files={"p/__init__.py": "", "p/a.so": module})
    said = asked(capsys, path, "libpath")
    assert said.startswith(f"{library}: a repair grafts it")
    assert "keep out" not in said
    assert run(["repair", "--exclude", str(library), "-w", str(tmp_path), str(path)]) == 1


@pytest.mark.parametrize(
    ("member", "option"),
    [
        ("core/lib/libcore.so.1", "--with core"),
        ("core/lib/libzap.so.1", "--with core"),
        ("other/libzap.so.1", "--deps"),
    ],
)
def test_what_a_requirement_may_have_is_decided_by_the_command_of_the_answer(
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    member: str,
    option: str,
) -> None:
    folder, _, name = member.rpartition("/")
    core = shared_object(tmp_path / name, "int t(void){return 1;}", soname=name)
    module = extension(
        tmp_path / "a.so", "a", needed=[core], calls=["t"], runpath=f"$ORIGIN/../{folder}"
    )
    tag, metadata = TAG.replace("linux", "manylinux_2_34"), "Requires-Dist: core\n"
    path = make_wheel(tmp_path / "dist", tag=tag, files={"p/a.so": module}, metadata=metadata)
    other = make_wheel(tmp_path / "index", "core", tag=TAG, files={member: core})
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(other.parent))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    way = asked(capsys, path, name).splitlines()[-1]
    command = f"wheelfix why {path} {name} {option}"
    who = "a requirement of METADATA" if option == "--deps" else "`core`"
    assert way == f"  bring in   nothing to do if {who} brings it; `{command}` decides that"
    assert run(shlex.split(command)[1:]) == 0
    assert capsys.readouterr().out.startswith(f"{name}: from `{other.name}!{member}`")
    assert run(["explain", str(path), "p/a.so"]) == 0
    again = f"wheelfix explain {path} {option}"
    assert f"brings it; `{again}` decides that" in " ".join(capsys.readouterr().out.split())
    assert run(shlex.split(again)[1:]) == 0
    assert "p/a.so: 1 from other wheels, 1 from the platform  ok" in capsys.readouterr().out


def _of_a_requirement(tmp_path: Path, requires: str) -> Path:
    """Return a wheel with a library that `requires` may bring, and a search path to its folder."""
    core = shared_object(tmp_path / "libcore.so.1", soname="libcore.so.1")
    module = extension(
        tmp_path / "a.so", "a", needed=[core], calls=["f"], runpath="$ORIGIN/../core"
    )
    tag = TAG.replace("linux", "manylinux_2_34")
    metadata = f"Requires-Dist: {requires}\n"
    return make_wheel(tmp_path, tag=tag, files={"p/a.so": module}, metadata=metadata)


def test_the_command_that_decides_has_the_machine_of_the_question(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    wheel = _of_a_requirement(tmp_path, "core")
    of_why = ["--target", "glibc:2.36"]
    of_explain = [*of_why, "--scheme", "user", "--env", "LD_LIBRARY_PATH=/opt/my lib"]
    asked = ["why", str(wheel), "libcore.so.1"], ["explain", str(wheel)]
    for words, options in zip(asked, (of_why, of_explain), strict=True):
        run([*words, *options])
        again = shlex.join(["wheelfix", *words, "--with", "core", *options])
        assert f"brings it; `{again}` decides that" in " ".join(capsys.readouterr().out.split())


def test_what_an_import_may_load_before_is_not_just_not_found(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """No search path leads to the library of the neighbor, which a source imports first."""
    core = shared_object(tmp_path / "libcore.so.1", soname="libcore.so.1")
    module = extension(tmp_path / "a.so", "a", needed=[core], calls=["f"])
    files: dict[str, str | Path] = {"p/__init__.py": "import core", "p/a.so": module}
    tag = TAG.replace("linux", "manylinux_2_34")
    wheel = make_wheel(tmp_path, tag=tag, files=files, metadata="Requires-Dist: core\n")
    of_core: dict[str, str | Path] = {"core/__init__.py": "", "core/libcore.so.1": core}
    other = make_wheel(tmp_path, "core", tag=TAG, files=of_core)
    run(["why", str(wheel), "libcore", "--with", str(other)])
    first = capsys.readouterr().out.splitlines()[0]
    place = f"`{other.name}!core/libcore.so.1`"
    before = "not found unless an import loads it before"
    assert first == f"libcore.so.1: {before}: no search path leads to {place}"


def test_no_command_decides_what_a_requirement_by_url_brings(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    wheel = _of_a_requirement(tmp_path, "core @ https://example.org/core-1.0-py3-none-any.whl")
    for words in (["why", str(wheel), "libcore.so.1"], ["explain", str(wheel)]):
        run(words)
        text = " ".join(capsys.readouterr().out.split())
        assert "nothing to do if `core` brings it" in text
        assert "decides" not in text


def test_what_has_no_wheel_is_not_asked_for_again(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(tmp_path))
    wheel = _of_a_requirement(tmp_path, "core==1!2.0+local.1")
    for words in (["why", str(wheel), "libcore.so.1"], ["explain", str(wheel)]):
        run([*words, "--deps"])
        said = capsys.readouterr()
        assert "`core==1!2.0+local.1` is not known" in said.err
        assert "nothing to do if `core` brings it" in said.out
        assert "decides" not in said.out


def test_a_requirement_with_an_extra_of_the_name_is_named_with_the_wheel_that_has_it(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """As torch requires the runtime of CUDA. No repair is judged for it: that takes minutes."""
    monkeypatch.delattr("wheelfix.cli.library_uses.rehearse")
    cuda = shared_object(tmp_path / "libcudart.so.13", soname="libcudart.so.13")
    folder = "$ORIGIN/../nvidia/cu13/lib"
    module = extension(tmp_path / "a.so", "a", needed=[cuda], calls=["f"], rpath=folder)
    requires = "Requires-Dist: filelock\nRequires-Dist: cuda-toolkit[cublas,cudart]==13.0.3\n"
    tag = TAG.replace("linux", "manylinux_2_34")
    wheel = make_wheel(tmp_path, tag=tag, files={"p/a.so": module}, metadata=requires)
    first, _, way = asked(capsys, wheel, "libcudart").splitlines()
    where = "not in the wheel, but in nvidia-cuda-runtime; whether `cuda-toolkit` brings that"
    assert first == f"libcudart.so.13: {where} is not known"
    option = "--with 'cuda-toolkit[cublas,cudart]==13.0.3'"
    assert f"`wheelfix why {wheel} libcudart.so.13 {option}` decides that" in way


def test_no_repair_is_judged_for_a_driver_of_the_machine(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delattr("wheelfix.cli.library_uses.rehearse")
    driver = shared_object(tmp_path / "libcuda.so.1", soname="libcuda.so.1")
    module = extension(tmp_path / "a.so", "a", needed=[driver], calls=["f"])
    tag = TAG.replace("linux", "manylinux_2_34")
    wheel = make_wheel(tmp_path, tag=tag, files={"p/a.so": module})
    assert "  left out   it is part of the NVIDIA driver" in asked(capsys, wheel, "libcuda")


@pytest.mark.parametrize("platform", ["linux", "manylinux_2_34"])
def test_a_driver_in_the_wheel_that_no_search_path_leads_to_is_not_left_out(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], platform: str
) -> None:
    driver = shared_object(tmp_path / "libcuda.so.1", soname="libcuda.so.1")
    module = extension(tmp_path / "a.so", "a", needed=[driver], calls=["f"])
    files: dict[str, bytes | str | Path] = {"p/a.so": module, "p/lib/libcuda.so.1": driver}
    wheel = make_wheel(tmp_path, tag=TAG.replace("linux", platform), files=files)
    text = asked(capsys, wheel, "libcuda")
    assert "left out" not in text
    assert ("a repair writes one" in text) or f"bring in   `wheelfix repair {wheel}`" in text


def test_an_unknown_name_is_an_error_with_the_likely_one(
    wheel: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["why", str(wheel), "libiner.so.2"]) == 2
    assert "did you mean `libinner.so.2`" in capsys.readouterr().err


def test_a_part_of_a_name_is_an_error_with_the_whole_name(
    wheel: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["why", str(wheel), "inne"]) == 2
    assert "did you mean `libinner.so.2`" in capsys.readouterr().err


def test_a_missing_library_is_answered_with_ways_to_bring_it_in(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    tbb = shared_object(tmp_path / "libtbb.so.12", "int t(void){return 1;}", soname="libtbb.so.12")
    module = extension(tmp_path / "a.so", "a", needed=[tbb], calls=["t"])
    path = make_wheel(tmp_path, tag="cp311-cp311-manylinux_2_34_x86_64", files={"p/a.so": module})
    *_, here, elsewhere = asked(capsys, path, "libtbb.so.12").splitlines()
    command = f"`wheelfix repair --library-path FOLDER {path}`"
    assert here == f"  bring in   {command}, if FOLDER has it; or,"
    options = "--provider tbb --data-libraries=search --add-requires"
    assert f"`wheelfix repair {options} {path}`" in elsewhere
    where = str(tmp_path)
    assert run(["why", str(path), "tbb", "--library-path", where]) == 0
    last = capsys.readouterr().out.splitlines()[-1]
    assert last == f"  bring in   `wheelfix repair --library-path {where} {path}`"


@pytest.mark.parametrize("words", [["explain"], ["why", "libnccl"]])
def test_a_wheel_is_read_and_planned_once_whatever_is_asked_of_it(
    words: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As cupy, which needs nine libraries of CUDA: that read it ten times."""
    names = ["libnccl.so.2", "libcublas.so.12", "libtbb.so.12"]
    gone = [shared_object(tmp_path / name, soname=name) for name in names]
    module = extension(tmp_path / "a.so", "a", needed=gone, calls=["f"])
    wheel = make_wheel(tmp_path, tag=TAG, files={"p/__init__.py": "", "p/a.so": module})
    opened: list[str] = []
    monkeypatch.setattr(Archive, "__init__", _counted(Archive.__init__, opened))
    monkeypatch.setattr("wheelfix.cli.library_uses.rehearse", _counted(rehearse, opened))
    monkeypatch.chdir(tmp_path)
    run([words[0], str(wheel), *words[1:]])
    assert opened == ["__init__", "rehearse"]


def _counted(function: Callable[..., Any], calls: list[str]) -> Callable[..., Any]:
    def counting(*values: object, **named: object) -> object:
        calls.append(function.__name__)
        return function(*values, **named)

    return counting


def test_a_library_that_was_grafted_twice_is_known_by_its_first_name(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    name = "libgfortran-040039e1-0352e75f.so.5.0.0"
    library = shared_object(tmp_path / name, "int g(void){return 1;}", soname=name)
    module = extension(
        tmp_path / "a.so", "a", needed=[library], calls=["g"], rpath="$ORIGIN/../demo.libs"
    )
    path = make_wheel(
        tmp_path,
        tag="cp311-cp311-manylinux_2_34_x86_64",
        files={"p/a.so": module, f"demo.libs/{name}": library},
    )
    assert f"demo.libs/{name}" in asked(capsys, path, "gfortran")


def test_what_python_opens_is_said_also_of_a_library_that_is_not_there(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    library = shared_object(tmp_path / "libzap.so.3", soname="libzap.so.3")
    source = (
        "import ctypes, os\nctypes.CDLL(os.path.join(os.path.dirname(__file__), 'libzap.so.3'))"
    )
    line = '`ctypes.CDLL("libzap.so.3")` in line 2 of `zap/__init__.py`'
    there = make_wheel(
        tmp_path, "zap", tag=TAG, files={"zap/__init__.py": source, "zap/libzap.so.3": library}
    )
    assert line in asked(capsys, there, "libzap")
    assert "nothing" not in asked(capsys, there, "libzap")
    gone = make_wheel(tmp_path / "gone", "zap", tag=TAG, files={"zap/__init__.py": source})
    for name in ("libzap", "libzap.so.3", "zap"):
        said = asked(capsys, gone, name).splitlines()
        assert said[0] == f"{name}: no object needs it, and it is not in the wheel"
        assert said[1] == f"  opened by  {line}"
    other = make_wheel(tmp_path / "other", "other", tag=TAG)
    assert run(["why", str(other), str(gone), "libzap.so.3"]) == 0
    assert f"  opened by  {gone.name}: {line}" in capsys.readouterr().out


def test_a_library_of_the_wheel_that_no_search_path_leads_to_is_one_answer(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    library = shared_object(tmp_path / "libq.so.1", soname="libq.so.1")
    module = extension(tmp_path / "a.so", "a", needed=[library], calls=["f"])
    files: dict[str, bytes | str | Path] = {"p/__init__.py": "", "p/a.so": module}
    files["p/lib/libq.so.1"] = library
    wheel = make_wheel(tmp_path / "dist", tag=TAG.replace("linux", "manylinux_2_17"), files=files)
    first, chain, way = asked(capsys, wheel, "libq").splitlines()
    assert first == "libq.so.1: not found: no search path leads to `p/lib/libq.so.1`"
    assert chain == "  needed by  `a.so` -> libq.so.1"
    assert run([*way.split("`")[1].split()[1:], "-w", str(tmp_path / "out")]) == 0
    (repaired,) = (tmp_path / "out").iterdir()
    assert asked(capsys, repaired, "libq").partition("needed by")[2].startswith("  `a.so`")


@pytest.mark.parametrize("platform", ["linux", "manylinux_2_17"])
def test_that_no_search_path_leads_to_it_is_said_of_what_does_not_find_it(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], platform: str
) -> None:
    library = shared_object(tmp_path / "libq.so.1", soname="libq.so.1")
    files: dict[str, bytes | str | Path] = {"p/__init__.py": "", "p/libq.so.1": library}
    for name, path in (("a", "$ORIGIN"), ("b", None)):
        module = extension(tmp_path / f"{name}.so", name, needed=[library], rpath=path, calls=["f"])
        files[f"p/{name}.so"] = module
    wheel = make_wheel(tmp_path / "dist", tag=TAG.replace("linux", platform), files=files)
    found, *missing = asked(capsys, wheel, "libq").split("\n\n")
    assert found.startswith("libq.so.1: in the wheel, `p/libq.so.1`\n  needed by  `a.so`")
    for text in missing:
        assert text.startswith(
            "libq.so.1: not found: no search path leads to `p/libq.so.1`\n  needed by  `b.so` "
        )
    assert bool(missing) is (platform != "linux")


def test_a_pattern_that_nothing_matches_is_called_that(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["why", "none/*.whl", "libq"]) == 2
    assert "no file matches `none/*.whl`" in capsys.readouterr().err


def test_a_machine_on_which_the_wheel_is_not_installed_is_told(
    wheel: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    told = "`alpine:3.20` has musl, and the wheel is for glibc"
    for command, target in product(("explain", "why"), ("alpine:3.20", "debian:12")):
        is_there = run([command, str(wheel), "p/a.so", "--target", target]) != 2
        assert is_there is (target == "debian:12")
        assert (told in capsys.readouterr().err) is not is_there


def test_explain_takes_the_names_of_packages_and_of_what_is_needed_outside(
    wheel: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The import name, and that of the distribution, as with `--site`."""
    for name in ("p", "Demo"):
        assert run(["explain", str(wheel), name]) == 1
        assert (
            "  p/a.so: 1 from the platform  not found: `libouter.so.1`\n" in capsys.readouterr().out
        )
        assert run(["explain", str(wheel), name, "--output-format=dot"]) == 1
        assert "libouter.so.1" in capsys.readouterr().out
    for name in ("libinner.so.2", "libinner"):
        assert run(["explain", str(wheel), name]) == 2
        said = " ".join(capsys.readouterr().err.split())
        assert f"`{name}` is not in the wheel, and only libraries outside of it need it" in said
        assert f"`wheelfix repair {wheel}` grafts it from {tmp_path}/host/libinner.so.2" in said
    for name in ("q", "libGL.so.1", "libOpenCL.so.1"):  # whatever has it
        assert run(["explain", str(wheel), name]) == 2
        assert f"no object is or needs `{name}`" in capsys.readouterr().err


@pytest.mark.parametrize("other", ["", ".musllinux_1_2_x86_64"])
def test_a_machine_whose_installers_refuse_the_wheel_is_told(
    other: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """As `check --target` does (WF811), whatever loads there."""
    files = {"p/a.so": extension(tmp_path / "a.so", "a", calls=["getpid"])}
    newer = make_wheel(tmp_path, tag=TAG.replace("linux", "manylinux_2_34") + other, files=files)
    told = "`debian:11` has glibc 2.31, but the wheel's tags begin at 2.34: installers there refuse"
    for subject, target in product(([], ["p/a.so"], ["libc.so.6"]), ("debian:11", "debian:12")):
        code = run(["explain", str(newer), *subject, "--target", target])
        assert (told in capsys.readouterr().out) is (target == "debian:11")
        assert code == 1 or target == "debian:12"
        run(["explain", str(newer), *subject, "--target", target, "--output-format", "json"])
        assert (told in capsys.readouterr().out) is (target == "debian:11")


def test_a_library_without_what_its_user_refers_to_is_a_problem(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """As of the module; other imports are not asked about for a library that all modules find."""
    built, given = (
        shared_object(tmp_path / folder / "libv.so.1", f"int {name}(void) {{ return 1; }}")
        for folder, name in (("built", "g"), ("given", "f"))
    )
    module = extension(tmp_path / "a.so", "a", needed=[built], calls=["g"], runpath="$ORIGIN")
    files: dict[str, bytes | str | Path] = {"p/a.so": module, "p/libv.so.1": given}
    files |= {"p/__init__.py": "", "q/libv.so.1": given}
    wheel, site = make_wheel(tmp_path, tag=TAG, files=files), tmp_path / "site"
    zipfile.ZipFile(wheel).extractall(site)
    for place, name in product(([str(wheel)], ["--site", str(site)]), ("libv.so.1", "p.a")):
        assert run(["explain", *place, name]) == 1
        assert "refers to `g`, not defined\n" in capsys.readouterr().out
    monkeypatch.setattr("wheelfix.cli.commands.explain.read_modules", pytest.fail)
    assert run(["explain", "--site", str(site), "libc.so.6"]) == 0


def test_a_file_under_another_name_than_its_soname_is_named_with_both(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A repair writes the file name into what needs it, and says so."""
    library = shared_object(tmp_path / "libq.so.1", soname="libq.so.1")
    module = extension(tmp_path / "a.so", "a", needed=[library], calls=["f"], rpath="$ORIGIN")
    files: dict[str, bytes | str | Path] = {"p/a.so": module, "p/lib.so": library}
    wheel = make_wheel(tmp_path / "dist", tag=TAG, files={"p/__init__.py": "", **files})
    found = asked(capsys, wheel, "libq")
    names = "lib.so: in the wheel, `p/lib.so`, with the SONAME `libq.so.1`"
    assert found.startswith(f"{names}; a repair writes the file name where that is needed\n")
    assert run(["repair", "--dry-run", str(wheel)]) == 0
    said = "".join(capsys.readouterr())
    assert "soname-differs: 1 edit of `p/a.so`: DT_NEEDED `libq.so.1` -> `lib.so`" in said


def test_json_has_the_commands_of_the_text_and_a_wheel_without_the_library_is_named(
    wheel: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    other = make_wheel(tmp_path / "other", "other", tag=TAG, files={"other.py": ""})
    way = asked(capsys, wheel, "libinner").splitlines()[-1].removeprefix("  keep out   ")
    words = ["why", str(wheel), str(other), "libinner"]
    assert run(words) == 0
    without = f"in 1 other wheel, no object needs or is `libinner`: `{other.name}`"
    assert capsys.readouterr().err == f"note: {without}\n"
    assert run([*words, "--output-format=json"]) == 0
    (found,) = json.loads(capsys.readouterr().out)["libraries"]
    assert (found["wheel"], found["ways"]) == (wheel.name, {"keep out": way})


def test_a_library_that_only_a_library_to_be_grafted_needs_is_answered_as_by_the_repair(
    wheel: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "host" / "libinner.so.2").unlink()
    lacking = "`libinner.so.2` (needed by `libouter.so.1`) is neither in the wheel nor among"
    for words in (
        *(["why", str(wheel), name] for name in ("libinner", "libinner.so.2")),
        ["explain", str(wheel), "libinner.so.2"],
        ["repair", "--wheel-dir", str(tmp_path / "out"), str(wheel)],
    ):
        assert run(words) == (0 if words[0] == "why" else 2)
        told = capsys.readouterr()
        chain = "needed by  `a.so` -> libouter.so.1 -> libinner.so.2"
        assert (chain in told.out) is (words[0] == "why")
        assert lacking in (text := " ".join((told.out + told.err).split())), words
        assert "--exclude libinner.so.2" in text
    assert run(["why", str(wheel), "libinne"]) == 2
    assert "no object needs or is `libinne`" in capsys.readouterr().err


def test_what_stops_the_repair_that_would_lead_to_a_library_is_named_in_its_place(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Of two libraries of other wheels METADATA requires one."""
    needed, wheels = list[Path](), tmp_path / "wheels"
    for at, file in (("cublas", "libcublas.so.12"), ("cuda_runtime", "libcudart.so.12")):
        code = f"int {at}(void) {{ return 1; }}"
        needed.append(shared_object(tmp_path / file, code, soname=file))
        files: dict[str, str | Path] = {f"nvidia/{at}/lib/{file}": needed[-1]}
        tag = "py3-none-manylinux_2_17_x86_64"
        make_wheel(wheels, f"nvidia_{at}_cu12", version="12.4", tag=tag, files=files)
    calls = ["cublas", "cuda_runtime"]
    core = extension(tmp_path / "a.so", "a", needed=needed, calls=calls)
    metadata = "Requires-Dist: nvidia-cublas-cu12\n"
    wheel = make_wheel(tmp_path, "gpu", tag=TAG, files={"a.so": core}, metadata=metadata)
    words = ["why", str(wheel), "libcublas", "--provider", str(wheels)]
    assert run(words) == 0
    out, err = capsys.readouterr()
    stops = "the wheel uses `libcudart.so.12` of nvidia-cuda-runtime-cu12, but METADATA does not"
    assert f"a repair writes nothing: {stops}" in err
    assert "; a repair writes one" not in out
    way = f"wheelfix repair --provider {wheels} --add-requires {wheel}"
    assert f"`{way}` writes `Requires-Dist: nvidia-cuda-runtime-cu12" in out
    assert run([*way.split()[1:], "--wheel-dir", str(tmp_path / "out")]) == 0
    (repaired,) = (tmp_path / "out").iterdir()
    words[1] = str(repaired)
    assert run(words) == 0
    assert "no search path leads" not in capsys.readouterr().out
