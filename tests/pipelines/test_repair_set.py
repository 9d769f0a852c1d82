"""Wheels of one product: a shared library is grafted once, and the others are pointed at it."""

# ruff: noqa: PLR0913 -- keyword arguments are the point of a builder

import os
import shutil
import subprocess
import sys
import sysconfig
import venv
import zipfile
from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest

import wheelfix
from tests.support.build import executable, extension, make_wheel, shared_object
from tests.support.environment import ENVIRON
from wheelfix.cli.app import run
from wheelfix.errors import ProviderNotRepairedError
from wheelfix.pipelines.check import check_each
from wheelfix.pipelines.repair import repair
from wheelfix.pipelines.repair_result import Outcome, Status
from wheelfix.pipelines.repair_set import repair_each
from wheelfix.rules.findings import Severity
from wheelfix.settings import DataLibraries, Provider, Requirement, Settings, Share

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
    """Build a core and a plug-in that links the same library."""
    counter = library(tmp_path / "sdk")
    core = built(tmp_path, "core", counter)
    return core, built(tmp_path, "plug", counter, requires=["core==1.0"])


def test_alone_the_library_is_installed_twice_and_together_once(
    tmp_path: Path, pair: tuple[Path, Path]
) -> None:
    """The loader takes one of two copies: their SONAMEs have one hash. Their size counts twice."""
    core, plug = pair
    alone = outputs([*repaired([core], tmp_path / "alone"), *repaired([plug], tmp_path / "alone")])
    site = unpacked(tmp_path / "twice", *alone)
    assert run_python(sys.executable, BOTH, PYTHONPATH=str(site)) == "1 2 1"
    assert len(list(site.glob("*.libs/*"))) == 2
    together = outputs(repaired(pair, tmp_path / "together"))
    site = unpacked(tmp_path / "once", *together)
    assert run_python(sys.executable, BOTH, PYTHONPATH=str(site)) == "1 2 1"
    assert len(list(site.glob("*.libs/*"))) == 1
    assert [len(grafted(path)) for path in (*alone, *together)] == [1, 1, 1, 0]
    sizes = [sum(e.file_size for e in zipfile.ZipFile(path).infolist()) for path in alone]
    assert sum(e.file_size for e in zipfile.ZipFile(together[1]).infolist()) < sizes[1] - LARGE


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


def test_what_is_installed_apart_is_not_found_unless_the_owner_is_loaded_first(
    tmp_path: Path, pair: tuple[Path, Path]
) -> None:
    core, plug = repaired(pair, tmp_path / "out")
    sites = [unpacked(tmp_path / name, *outputs([o])) for name, o in (("a", core), ("b", plug))]
    path = ":".join(map(str, sites))
    assert "cannot open shared object file" in run_python(sys.executable, PLUG, PYTHONPATH=path)
    assert run_python(sys.executable, BOTH, PYTHONPATH=path) == "1 2 1"
    (said,) = (finding for finding in plug.remaining if finding.code == "WF107")
    assert "user install" in said.notes[0]


def test_an_unpinned_requirement_of_an_owner_is_reported_with_the_line_to_write(
    tmp_path: Path, pair: tuple[Path, Path]
) -> None:
    core, pinned = pair
    _, outcome = repaired([core, pinned], tmp_path / "pinned")
    assert not [finding for finding in outcome.remaining if finding.severity > Severity.INFO]
    counter = tmp_path / "sdk" / "libcount.so.1"
    loose = built(tmp_path / "loose", "plug", counter, requires=["core"])
    _, outcome = repaired([core, loose], tmp_path / "out")
    (said,) = (finding for finding in outcome.remaining if finding.severity > Severity.INFO)
    assert (said.code, said.hint) == ("WF822", "such as `core==1.0`")
    assert not grafted(outputs([outcome])[0])


def test_a_wheel_of_another_product_shares_only_with_share_required(tmp_path: Path) -> None:
    counter = library(tmp_path / "sdk")
    core = built(tmp_path, "core", counter, version="3.1")
    plug = built(tmp_path, "plug", counter, requires=["core>=3"])
    before = outputs(repaired([plug], tmp_path / "alone"))[0].read_bytes()
    _, outcome = repaired([core, plug], tmp_path / "each")
    assert outputs([outcome])[0].read_bytes() == before
    (said,) = (message for message in outcome.messages if "core" in message)
    assert "core contains the same `libcount.so.1`, 2.1" in said
    assert "let plug require `core==3.1`, or use `--share required`" in said
    shared = outputs(repaired([core, plug], tmp_path / "once", share=Share.REQUIRED))
    assert [len(grafted(path)) for path in shared] == [1, 0]
    apart = repaired([core, plug], tmp_path / "off", share=Share.OFF)
    assert outputs(apart)[1].read_bytes() == before
    assert not apart[1].messages


def test_plugins_without_an_owner_keep_their_own_and_the_cost_is_reported(tmp_path: Path) -> None:
    counter = library(tmp_path / "sdk")
    one, two = built(tmp_path, "one", counter), built(tmp_path, "two", counter)
    found = repaired([one, two], tmp_path / "out")
    assert [len(grafted(path)) for path in outputs(found)] == [1, 1]
    advice = "a wheel that both require could provide it once"
    assert any(advice in message for message in found[1].messages)
    assert not [message for message in found[0].messages if "libcount" in message]


def test_two_files_of_one_name_are_shared_only_under_a_kept_name(tmp_path: Path) -> None:
    core = built(tmp_path, "core", library(tmp_path / "old"))
    other = library(tmp_path / "new", COUNTER.replace("++count", "count += 10, count"))
    plug = built(tmp_path, "plug", other, requires=["core==1.0"])
    found = repaired([core, plug], tmp_path / "out")
    (said,) = (message for message in found[1].messages if "two different files" in message)
    assert "`--keep-name 'libcount.so.*'`" in said
    site = unpacked(tmp_path / "site", *outputs(found))
    assert run_python(sys.executable, BOTH, PYTHONPATH=str(site)) == "1 10 2"
    kept = repaired([core, plug], tmp_path / "kept", keep_names=("libcount.so.*",))
    site = unpacked(tmp_path / "one", *outputs(kept))
    assert run_python(sys.executable, BOTH, PYTHONPATH=str(site)) == "1 2 1"


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
    assert not [e for e in found[0].remaining if e.severity > Severity.INFO], found[0].remaining
    site = unpacked(tmp_path / "site", *written)
    assert run_python(sys.executable, BOTH, PYTHONPATH=str(site)) == "1 2 1"


def test_a_library_that_is_found_for_the_owner_alone_is_taken_from_there(tmp_path: Path) -> None:
    """The plug-in's build left no search path behind: by itself it cannot be repaired."""
    counter = library(tmp_path / "sdk")
    core = built(tmp_path, "core", counter)
    plug = built(tmp_path, "plug", counter, requires=["core==1.0"], searched=False)
    (alone,) = repaired([plug], tmp_path / "alone")
    assert "libcount.so.1" in str(alone.error)
    written = outputs(repaired([plug, core], tmp_path / "out"))
    assert [len(grafted(path)) for path in written] == [0, 1]
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


def test_what_a_plugin_grafts_itself_takes_the_rest_from_the_owner(tmp_path: Path) -> None:
    counter = library(tmp_path / "sdk")
    outer = shared_object(
        tmp_path / "sdk" / "libouter.so.2",
        "int bump(void); int outer(void) { return bump() + 100; }",
        soname="libouter.so.2",
        needed=[counter],
        runpath=str(counter.parent),
    )
    core = built(tmp_path, "core", counter)
    plug = built(tmp_path, "plug", outer, calls=["outer"], requires=["core==1.0"])
    written = outputs(repaired([core, plug], tmp_path / "out"))
    (only,) = grafted(written[1])
    assert "libouter" in only
    site = unpacked(tmp_path / "site", *written)
    assert run_python(sys.executable, BOTH, PYTHONPATH=str(site)) == "1 102 1"


def test_what_only_a_shared_library_needs_is_left_out_with_it(tmp_path: Path) -> None:
    inner = shared_object(
        tmp_path / "sdk" / "libinner.so.1", "int inner(void) { return 0; }", soname="libinner.so.1"
    )
    outer = shared_object(
        tmp_path / "sdk" / "libcount.so.1",
        "int inner(void); static int n; int bump(void) { return ++n + inner(); }",
        soname="libcount.so.1",
        needed=[inner],
        runpath=str(inner.parent),
    )
    core = built(tmp_path, "core", outer)
    plug = built(tmp_path, "plug", outer, requires=["core==1.0"])
    written = outputs(repaired([core, plug], tmp_path / "out"))
    assert [len(grafted(path)) for path in written] == [2, 0]
    site = unpacked(tmp_path / "site", *written)
    assert run_python(sys.executable, BOTH, PYTHONPATH=str(site)) == "1 2 1"


def test_a_library_for_a_program_stays_unless_each_scheme_gets_its_entry(tmp_path: Path) -> None:
    counter = library(tmp_path / "sdk")
    source = "int bump(void); int main(void) { return bump() - 1; }"
    program = executable(
        tmp_path / "build" / "tool", source, needed=[counter], runpath=str(counter.parent)
    )
    core = built(tmp_path, "core", counter)
    plug = built(
        tmp_path,
        "plug",
        counter,
        requires=["core==1.0"],
        files={"plug-1.0.data/scripts/tool": program},
    )
    found = repaired([core, plug], tmp_path / "out")
    reason = "an object outside site-packages needs it"
    assert any(reason in message for message in found[1].messages)
    assert grafted(outputs(found)[1])
    search = DataLibraries.SEARCH
    written = outputs(repaired([core, plug], tmp_path / "search", data_libraries=search))
    assert not grafted(written[1])
    venv.create(tmp_path / "env", with_pip=False)
    python = str(tmp_path / "env" / "bin" / "python")
    pip = [sys.executable, "-m", "pip", "--python", python, "install", "-q", "--no-index"]
    subprocess.run([*pip, *map(str, written)], check=True, env=dict(ENVIRON))
    subprocess.run([tmp_path / "env" / "bin" / "tool"], check=True)
    assert run_python(python, BOTH) == "1 2 1"


def test_a_chain_has_the_library_once_and_asks_for_a_pin_of_its_owner(tmp_path: Path) -> None:
    counter = library(tmp_path / "sdk")
    core = built(tmp_path, "core", counter)
    mid = built(tmp_path, "mid", requires=["core==1.0"], calls=[])
    plug = built(tmp_path, "plug", counter, requires=["mid==1.0"])
    found = repaired([plug, mid, core], tmp_path / "out")
    written = outputs(found)
    assert [len(grafted(path)) for path in written] == [0, 0, 1]
    (said,) = (finding for finding in found[0].remaining if finding.severity > Severity.INFO)
    assert said.code == "WF822"
    assert "only through mid" in said.message
    assert 'add "core==1.0"' in (said.hint or "")
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
    """Each Python's core has another build of the library."""
    paths: list[Path] = []
    for minor in (11, 12):
        counter = library(tmp_path / f"sdk{minor}", COUNTER + f"int v{minor};")
        tag = f"cp3{minor}-cp3{minor}-linux_{MACHINE}"
        paths.append(built(tmp_path, "plug", counter, requires=["core==1.0"], tag=tag))
        paths.append(built(tmp_path, "core", counter, tag=tag))
    found = repaired(paths, tmp_path / "out", jobs=2)
    assert [outcome.source for outcome in found] == paths
    assert [len(grafted(path)) for path in outputs(found)] == [0, 1, 0, 1]
    for plug, core in (found[:2], found[2:]):
        assert plug.after is not None
        (module,) = plug.after.elfs.values()
        assert core.output is not None
        assert grafted(core.output)[0].rpartition("/")[2] in module.needed


MUSL = shutil.which("musl-gcc")


@pytest.mark.skipif(MUSL is None, reason="needs musl-gcc")
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
        return make_wheel(tmp_path / "dist", name, files=files, tag=TAG, metadata=requires)

    counter = object_of(tmp_path / "sdk" / "libcount.so.1", COUNTER, soname="libcount.so.1")
    paths = [packed("plug", "Requires-Dist: core==1.0\n"), packed("core")]
    settings = Settings(wheel_dir=tmp_path / "out", ldpaths=str(counter.parent))
    written = outputs(wheelfix.repair_all(paths, settings, environ=ENVIRON))
    assert [len(grafted(path)) for path in written] == [0, 1]
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
    command = [str(MUSL), "-xc", "-", "-o", str(program)]
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


def test_a_job_for_the_plugin_alone_takes_the_owners_wheel_as_provider(
    tmp_path: Path, pair: tuple[Path, Path]
) -> None:
    core, plug = outputs(repaired(pair, tmp_path / "out"))
    given = (Provider(source=str(core)),)
    by_itself = repaired([pair[1]], tmp_path / "job", provider=given, share=Share.REQUIRED)
    assert outputs(by_itself)[0].read_bytes() == plug.read_bytes()
    kept = repaired([pair[1]], tmp_path / "kept", provider=given)
    assert grafted(outputs(kept)[0])


@pytest.mark.parametrize("jobs", [1, 2])
def test_a_plugin_of_an_owner_that_fails_is_not_written_and_says_why(
    tmp_path: Path, pair: tuple[Path, Path], jobs: int
) -> None:
    core, plug = pair
    core.write_bytes(core.read_bytes()[:-100])
    other = built(tmp_path, "other", calls=[])
    found = repaired([plug, core, other], tmp_path / "out", jobs=jobs)
    assert [e.status for e in found] == [Status.FAILED, Status.FAILED, Status.REPAIRED]
    assert isinstance(found[0].error, ProviderNotRepairedError)
    assert "requires `core-1.0-" in found[0].error.message
    assert [path.name for path in (tmp_path / "out").iterdir()] == [outputs(found[2:])[0].name]


def test_an_owner_of_another_product_that_fails_stops_no_other_wheel(tmp_path: Path) -> None:
    own = library(tmp_path / "tree")
    files = {"core/lib/libcount.so.1": own}
    core = built(tmp_path, "core", own, version="3.1", files=files)
    plug = built(tmp_path, "plug", own, requires=["core>=3"])
    demanding = Requirement(library="libmissing.so")
    settings = {core.name: Settings(wheel_dir=tmp_path / "out", require=(demanding,))}

    def settings_for(name: str) -> Settings:
        return settings.get(name, Settings(wheel_dir=tmp_path / "out"))

    def attempt(path: Path, chosen: Settings, /, *, publish: bool) -> Outcome:
        return repair(path, chosen, ENVIRON, publish=publish)

    found = list(repair_each([core, plug], settings_for, attempt))
    assert [outcome.status for outcome in found] == [Status.REJECTED, Status.REPAIRED]
    assert not grafted(outputs(found[1:])[0])


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
    assert run(["check", "-q", written[0]]) == 1
    assert run(["check", "-q", written[0], "--provider", written[1]]) == 0
    assert run(["verify", "-q", written[0], "--with", written[1]]) == 0
    assert run(["repair", *paths, "-w", str(tmp_path / "v"), "--verify"]) == 0
    (tmp_path / "dist" / pair[0].name).write_bytes(b"")
    assert run(["repair", *paths, "-w", str(out)]) == 2
    said = capfd.readouterr().err
    assert "which was not repaired" in said
    assert [report.error is not None for report in check_each(pair, lambda _: Settings())] == [
        True,
        False,
    ]


def test_a_set_is_planned_on_the_command_line(
    tmp_path: Path, pair: tuple[Path, Path], capfd: pytest.CaptureFixture[str]
) -> None:
    command = ["repair", *map(str, pair), "-w", str(tmp_path / "out")]
    assert run([*command, "--dry-run"]) == 0
    plan = capfd.readouterr().out
    assert "$ORIGIN/../core.libs" in plan
    assert plan.count("absent -> grafted") == 1
    assert run([*command, "--dry-run", "-j", "2"]) == 0
    assert not (tmp_path / "out").exists()
