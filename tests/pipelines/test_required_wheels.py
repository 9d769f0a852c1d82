"""Wheels of one run: those that others require are repaired first, and are their providers."""

# ruff: noqa: PLR0913 -- keyword arguments are the point of a builder

import os
import re
import shlex
import subprocess
import sys
import sysconfig
import venv
import zipfile
from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest

import wheelfix
from tests.support.build import extension, make_wheel, shared_object
from tests.support.environment import ENVIRON
from tests.support.tools import needs
from wheelfix.cli.app import run
from wheelfix.pipelines.repair_result import Outcome, Status
from wheelfix.rules.findings import Severity
from wheelfix.settings import Settings

MACHINE = os.uname().machine
MINOR = sys.version_info.minor
TAG = f"cp3{MINOR}-cp3{MINOR}-linux_{MACHINE}"
SUFFIX = sysconfig.get_config_var("EXT_SUFFIX")
LARGE = 2 << 20
COUNTER = f"""
const char large[{LARGE}] = {{1}};
static int count;
int bump(void) {{ return ++count + large[1]; }}
"""


# --- Built wheels ---------------------------------------------------------------------------------


def library(folder: Path, source: str = COUNTER, name: str = "libcount.so.1") -> Path:
    return shared_object(folder / name, source, soname=name)


def built(
    folder: Path,
    name: str,
    *needed: Path,
    requires: Sequence[str] = (),
    calls: Sequence[str] = ("bump",),
    files: Mapping[str, Path] | None = None,
    tag: str = TAG,
    version: str = "1.0",
    searched: bool = True,
) -> Path:
    """Build a wheel with one extension module `<name>._m` that links `needed`."""
    suffix = SUFFIX if tag == TAG else ".so"
    module = extension(
        folder / "build" / f"{name}-{tag}" / f"_m{suffix}",
        "_m",
        needed=needed,
        calls=calls,
        runpath=":".join(dict.fromkeys(str(path.parent) for path in needed)) if searched else None,
    )
    return make_wheel(
        folder / "dist",
        name,
        version,
        tag,
        {f"{name}/__init__.py": b"", f"{name}/_m{suffix}": module, **(files or {})},
        metadata="".join(f"Requires-Dist: {requirement}\n" for requirement in requires),
    )


def core_with(folder: Path, counter: Path, tag: str = TAG) -> Path:
    """Build a wheel that ships `counter` in its package, and links it."""
    return built(folder, "core", counter, files={f"core/lib/{counter.name}": counter}, tag=tag)


def repaired(
    paths: Sequence[Path], to: Path, *, dry_run: bool = False, **fields: object
) -> list[Outcome]:
    settings = Settings(wheel_dir=to, **fields)  # type: ignore[arg-type]
    return wheelfix.repair_all(paths, settings, environ=ENVIRON, dry_run=dry_run)


def outputs(found: Sequence[Outcome]) -> list[Path]:
    assert all(o.output for o in found), [(o.status, o.error, o.remaining) for o in found]
    return [outcome.output for outcome in found if outcome.output]


def grafted(path: Path) -> list[str]:
    with zipfile.ZipFile(path) as archive:
        return [name for name in archive.namelist() if ".libs/" in name]


def run_python(python: str | Path, code: str, **environ: str) -> str:
    """Return the last line that Python prints, or complains with."""
    done = subprocess.run(
        [str(python), "-c", code],
        env={**ENVIRON, "PYTHONNOUSERSITE": "1", **environ},
        capture_output=True,
        text=True,
        check=False,
    )
    return (done.stdout or done.stderr).strip().splitlines()[-1]


BOTH = """
import core._m, plug._m
print(core._m.value(), plug._m.value(), len({l.split()[-1] for l in open('/proc/self/maps')
      if 'libcount' in l}))
"""
PLUG = "import plug._m; print(plug._m.value())"


def unpacked(site: Path, *wheels: Path) -> Path:
    for path in wheels:
        with zipfile.ZipFile(path) as archive:
            archive.extractall(site)
    return site


@pytest.fixture
def pair(tmp_path: Path) -> tuple[Path, Path]:
    """Build a core that ships a library, and a plug-in that links it."""
    counter = library(tmp_path / "sdk")
    return core_with(tmp_path, counter), built(tmp_path, "plug", counter, requires=["core==1.0"])


@pytest.mark.each_run("venv")
@pytest.mark.parametrize("installer", ["venv", "target"])
def test_pip_installs_the_set_and_the_plugin_loads_by_itself(
    tmp_path: Path, pair: tuple[Path, Path], installer: str
) -> None:
    written = outputs(repaired(pair, tmp_path / "out"))
    pip = ["-m", "pip", "install", "-q", "--no-index", "--find-links", str(tmp_path / "out")]
    python, environ, where = Path(sys.executable), dict[str, str](), list[str]()
    if installer == "venv":
        venv.create(tmp_path / "env", with_pip=False)
        python = tmp_path / "env" / "bin" / "python"
        pip = ["-m", "pip", "--python", str(python), *pip[2:]]
    else:
        where = ["--target", str(tmp_path / "target")]
        environ = {"PYTHONPATH": str(tmp_path / "target")}
    subprocess.run([sys.executable, *pip, *where, str(written[1])], check=True, env=dict(ENVIRON))
    assert run_python(python, PLUG, **environ) == "1"
    assert run_python(python, BOTH, **environ) == "1 2 1"


def test_a_library_in_the_owners_package_is_used_where_it_is(tmp_path: Path) -> None:
    """The build tree has it, too: nothing of that comes along, nor what only it needs."""
    counter = library(tmp_path / "sdk")
    own = shared_object(
        tmp_path / "tree" / "libown.so",
        "int bump(void); int own(void) { return bump(); }",
        soname="libown.so",
        needed=[counter],
        runpath=str(counter.parent),
    )
    files = {"core/lib/libown.so": own}
    core = built(tmp_path, "core", own, calls=["own"], files=files, version="3.1")
    plug = built(tmp_path, "plug", own, calls=["own"], requires=["core>=3"])
    found = repaired([plug, core], tmp_path / "out")
    written = outputs(found)
    assert [len(grafted(path)) for path in written] == [0, 1]
    assert not [e for e in found[0].remaining if e.severity > Severity.NOTE], found[0].remaining
    site = unpacked(tmp_path / "site", *written)
    assert run_python(sys.executable, BOTH, PYTHONPATH=str(site)) == "1 2 1"


def test_a_plugin_that_was_linked_with_the_repaired_owner_is_tied_to_it(tmp_path: Path) -> None:
    counter = library(tmp_path / "sdk")
    (core,) = outputs(repaired([built(tmp_path, "core", counter)], tmp_path / "core"))
    (theirs,) = unpacked(tmp_path / "build" / "site", core).glob("core.libs/*")
    plug = built(tmp_path, "plug", theirs, requires=["core>=1"])
    found = repaired([core, plug], tmp_path / "out")
    assert "WF822" in {finding.code for finding in found[1].remaining}
    site = unpacked(tmp_path / "site", *outputs(found))
    assert run_python(sys.executable, BOTH, PYTHONPATH=str(site)) == "1 2 1"


def test_a_hint_reads_a_published_wheel_beside_and_repairs_it_not(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    counter = library(tmp_path / "sdk")
    (core,) = outputs(repaired([built(tmp_path, "core", counter)], tmp_path / "core"))
    (theirs,) = unpacked(tmp_path / "build" / "site", core).glob("core.libs/*")
    plug = built(tmp_path, "plug", theirs, requires=["core>=1"])
    monkeypatch.chdir(tmp_path)
    run(["check", str(core), str(plug)])
    (call, *_) = re.findall(r"`wheelfix (repair [^`]*plug[^`]*)`", capsys.readouterr().out)
    assert shlex.split(call) == ["repair", "--with", str(core.relative_to(tmp_path)), str(plug)]
    assert run([*shlex.split(call), "-w", "out"]) == 0
    assert [path.name.partition("-")[0] for path in Path("out").iterdir()] == ["plug"]


def test_what_both_link_and_no_package_ships_is_grafted_into_each(tmp_path: Path) -> None:
    """The loader takes one of two copies: their SONAMEs have one hash."""
    counter = library(tmp_path / "sdk")
    paths = [
        built(tmp_path, name, counter, requires=r)
        for name, r in (("core", ()), ("plug", ("core==1.0",)))
    ]
    alone = [outputs(repaired([path], tmp_path / "alone"))[0].read_bytes() for path in paths]
    written = outputs(repaired(paths, tmp_path / "out"))
    assert [path.read_bytes() for path in written] == alone
    site = unpacked(tmp_path / "site", *written)
    assert run_python(sys.executable, BOTH, PYTHONPATH=str(site)) == "1 2 1"
    assert len(list(site.glob("*.libs/*"))) == 2


def test_a_chain_finds_the_library_and_asks_for_a_requirement_of_its_own(tmp_path: Path) -> None:
    counter = library(tmp_path / "sdk")
    core = core_with(tmp_path, counter)
    mid = built(tmp_path, "mid", requires=["core==1.0"], calls=[])
    plug = built(tmp_path, "plug", counter, requires=["mid==1.0"])
    found = repaired([plug, mid, core], tmp_path / "out")
    written = outputs(found)
    assert not any(map(grafted, written))
    site = unpacked(tmp_path / "site", *written)
    assert run_python(sys.executable, BOTH, PYTHONPATH=str(site)) == "1 2 1"


def test_kept_names_tie_the_plugin_to_no_build(tmp_path: Path) -> None:
    counter = library(tmp_path / "sdk")
    core = built(tmp_path, "core", counter)
    plug = built(tmp_path, "plug", counter, requires=["core>=1"])
    found = repaired([core, plug], tmp_path / "out", keep_names=("libcount.so.*",))
    written = outputs(found)
    assert grafted(written[0]) == ["core.libs/libcount.so.1"]
    assert not grafted(written[1])
    assert "WF822" not in {finding.code for finding in found[1].remaining}
    site = unpacked(tmp_path / "site", *written)
    assert run_python(sys.executable, BOTH, PYTHONPATH=str(site)) == "1 2 1"


def test_wheels_for_several_pythons_find_their_own_owner(tmp_path: Path) -> None:
    """Each Python's core has a library of another name, which every plug-in's build finds."""
    paths: list[Path] = []
    for minor in (11, 12):
        counter = library(tmp_path / f"sdk{minor}", name=f"libcount{minor}.so.1")
        tag = f"cp3{minor}-cp3{minor}-linux_{MACHINE}"
        paths.append(built(tmp_path, "plug", counter, requires=["core==1.0"], tag=tag))
        paths.append(core_with(tmp_path, counter, tag))
    found = repaired(paths, tmp_path / "out", jobs=2)
    assert [outcome.source for outcome in found] == paths
    assert not any(map(grafted, outputs(found)))


@needs("musl-gcc")
def test_a_set_for_musl_is_one_too(tmp_path: Path) -> None:
    """Judged by musl's own loader, of a program that opens both modules."""
    name = f"libc.musl-{MACHINE}.so.1"  # Debian's musl has no file of the name that others need
    libc = shared_object(tmp_path / "sdk" / name, "", soname=name, libc=False)

    def object_of(path: Path, source: str, *needed: Path, soname: str | None = None) -> Path:
        return shared_object(path, source, soname=soname, needed=[*needed, libc], libc=False)

    def packed(name: str, requires: str = "") -> Path:
        source = "int bump(void); void *PyInit__m(void) { return 0; }"
        source += f"int {name}_value(void) {{ return bump(); }}"
        module = object_of(tmp_path / name / "_m.so", source, counter)
        files: dict[str, bytes | str | Path] = {f"{name}/__init__.py": b"", f"{name}/_m.so": module}
        if name == "core":
            files["core/lib/libcount.so.1"] = counter
        return make_wheel(tmp_path / "dist", name, files=files, tag=TAG, metadata=requires)

    counter = object_of(tmp_path / "sdk" / "libcount.so.1", COUNTER, soname="libcount.so.1")
    paths = [packed("plug", "Requires-Dist: core==1.0\n"), packed("core")]
    settings = Settings(wheel_dir=tmp_path / "out", library_path=(str(counter.parent),))
    written = outputs(wheelfix.repair_all(paths, settings, environ=ENVIRON))
    assert not any(map(grafted, written))
    assert all("musllinux" in path.name for path in written)
    site = unpacked(tmp_path / "site", *written)
    source = f"""
    #include <dlfcn.h>
    #include <stdio.h>
    static int value(const char *file, const char *name) {{
        void *module = dlopen(file, RTLD_NOW | RTLD_LOCAL);
        if (!module) {{ puts(dlerror()); return -1; }}
        return ((int (*)(void))dlsym(module, name))();
    }}
    int main(void) {{
        int plug = value("{site}/plug/_m.so", "plug_value");
        printf("%d %d\\n", plug, value("{site}/core/_m.so", "core_value"));
        return 0;
    }}
    """
    program = tmp_path / "program"
    command = ["musl-gcc", "-xc", "-", "-o", str(program)]
    subprocess.run(command, input=source.encode(), check=True)
    done = subprocess.run([program], capture_output=True, text=True, check=False)
    assert done.stdout == "1 2\n"


# --- The run --------------------------------------------------------------------------------------


def test_the_order_and_the_number_of_jobs_make_no_difference(
    tmp_path: Path, pair: tuple[Path, Path]
) -> None:
    first = {p.name: p.read_bytes() for p in outputs(repaired(pair, tmp_path / "first"))}
    for name, paths, jobs in (("turned", pair[::-1], 1), ("both", pair[::-1], 2)):
        found = repaired(paths, tmp_path / name, jobs=jobs)
        assert [outcome.source for outcome in found] == list(paths)
        assert {p.name: p.read_bytes() for p in outputs(found)} == first


def test_a_dry_run_plans_what_the_repair_does_and_writes_nothing(
    tmp_path: Path, pair: tuple[Path, Path]
) -> None:
    planned = repaired(pair, tmp_path / "out", dry_run=True)
    assert not (tmp_path / "out").exists()
    done = repaired(pair, tmp_path / "out")
    assert [outcome.status for outcome in planned] == [Status.PLANNED] * 2
    assert [outcome.output for outcome in planned] == [None, None]
    for before, after in zip(planned, done, strict=True):
        kinds = [[type(step.edit) for step in outcome.edits] for outcome in (before, after)]
        assert kinds[0] == kinds[1]
        assert before.messages == after.messages
        assert [e.code for e in before.remaining] == [e.code for e in after.remaining]


def test_a_repaired_set_stays_as_it_is_and_an_owner_may_be_repaired_already(
    tmp_path: Path, pair: tuple[Path, Path]
) -> None:
    core, plug = outputs(repaired(pair, tmp_path / "out"))
    again = repaired([plug, core], tmp_path / "again")
    assert [outcome.status for outcome in again] == [Status.UNCHANGED] * 2
    later = repaired([core, pair[1]], tmp_path / "later")
    assert [outcome.status for outcome in later] == [Status.UNCHANGED, Status.REPAIRED]
    assert outputs(later)[1].read_bytes() == plug.read_bytes()


def test_a_plugin_that_asks_for_a_symbol_which_the_owner_lacks_is_refused(tmp_path: Path) -> None:
    """The owner ships an older library than the plug-in was linked with."""
    old = library(tmp_path / "old")
    new = library(tmp_path / "new", COUNTER + "int reset(void) { return count = 0; }")
    core = built(tmp_path, "core", old, files={"core/libcount.so.1": old})
    plug = built(tmp_path, "plug", new, calls=["bump", "reset"], requires=["core==1.0"])
    for dry_run in (True, False):
        found = repaired([core, plug], tmp_path / "out", dry_run=dry_run)
        assert found[1].status is Status.REJECTED
        assert ("WF824", "reset") in {(f.code, f.entry) for f in found[1].remaining}
    assert len(list((tmp_path / "out").iterdir())) == 1


def test_the_command_repairs_the_set_and_check_is_content_with_it(
    tmp_path: Path, pair: tuple[Path, Path], capfd: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "out"
    paths = [str(path) for path in pair[::-1]]
    assert run(["repair", *paths, "-w", str(out)]) == 0
    written = capfd.readouterr().out.split()
    assert [Path(path).name.partition("-")[0] for path in written] == ["plug", "core"]
    assert run(["check", "-q", *written]) == 0
    assert run(["check", "-q", "--fail-on-unknown", written[0]]) == 1
    assert run(["check", "-q", written[0], "--provider", written[1]]) == 0
    assert run(["verify", "-q", written[0], "--with", written[1]]) == 0
    assert run(["repair", *paths, "-w", str(tmp_path / "v"), "--verify"]) == 0
    (tmp_path / "dist" / pair[0].name).write_bytes(b"")
    assert run(["repair", *paths, "-w", str(tmp_path / "torn")]) == 2
    assert len(list((tmp_path / "torn").iterdir())) == 1
    assert [report.error is not None for report in wheelfix.check_each(pair)] == [
        True,
        False,
    ]


def test_a_set_is_planned_on_the_command_line(
    tmp_path: Path, pair: tuple[Path, Path], capfd: pytest.CaptureFixture[str]
) -> None:
    command = ["repair", *map(str, pair), "-w", str(tmp_path / "out")]
    assert run([*command, "--dry-run"]) == 0
    plan = capfd.readouterr().out
    assert "$ORIGIN/../core/lib" in plan
    assert "absent -> grafted" not in plan
    assert run([*command, "--dry-run", "-j", "2"]) == 0
    assert not (tmp_path / "out").exists()
