"""Installed environments, compared with the real loader."""

import json
import os
import re
import shutil
import subprocess
import sys
import venv
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

from tests.support.build import executable, extension, shared_object
from tests.support.tools import needs
from wheelfix.analysis.explain import Explanation, explain
from wheelfix.analysis.graph import graph_of
from wheelfix.analysis.load_failures import LoadJudge
from wheelfix.analysis.load_tree import describe_search
from wheelfix.analysis.world import Provenance, World, find_subject
from wheelfix.cli.app import run
from wheelfix.environments.import_orders import imported_as
from wheelfix.environments.read_environment import read_modules, read_site, sizes_of
from wheelfix.errors import SettingsError
from wheelfix.host.reachable_files import read_planted, read_process
from wheelfix.loader.load_values import How
from wheelfix.loader.targets import find

_HOW = {
    "RPATH": How.RPATH,
    "RUNPATH": How.RUNPATH,
    "LD_LIBRARY_PATH": How.LIBRARY_PATH,
}


@pytest.fixture
def site(tmp_path: Path) -> Path:
    """The site-packages of an empty virtual environment."""
    venv.create(tmp_path / "venv", symlinks=True)
    (found,) = (tmp_path / "venv/lib").glob("python*/site-packages")
    return found


def observed(
    command: list[str | Path], folder: Path, environment: Mapping[str, str]
) -> dict[str, tuple[str, How, str]]:
    """Parse LD_DEBUG: name -> the last file tried, the rule, the owner of the search path."""
    log = folder / "ld"
    subprocess.run(
        command,
        env={
            "LD_DEBUG": "libs",
            "LD_DEBUG_OUTPUT": str(log),
            "PATH": "/usr/bin:/bin",
            **environment,
        },
        check=False,
        capture_output=True,
    )
    found: dict[str, tuple[str, How, str]] = {}
    for file in folder.glob("ld.*"):
        for block in file.read_text().split("find library=")[1:]:
            found.update(_block(block))
    return found


def _block(block: str) -> Iterator[tuple[str, tuple[str, How, str]]]:
    how, owner, tried = How.DEFAULT, "", ""
    for line in block.splitlines()[1:]:
        heading = re.search(r"search path=.*\t\t\((\w+)(?: from file (.*))?\)$", line)
        if heading:
            how, owner = _HOW[heading[1]], heading[2] or ""
        elif "(system search path)" in line:
            how, owner = How.DEFAULT, ""
        elif "search cache=" in line:
            how, owner = How.CACHE, ""
        attempt = re.search(r"  trying file=(.*)$", line)
        if attempt:
            tried = attempt[1]
        elif "calling init" in line:
            break
    yield block.partition(" [0]")[0], (tried, how, owner)


def predicted(explanation: Explanation) -> dict[str, tuple[str, How, str]]:
    """Return the same of the explanation; LD_DEBUG calls an inherited search path RPATH."""
    found: dict[str, tuple[str, How, str]] = {}
    for step in explanation.steps[1:]:
        tried = step.request.candidates
        if step.request.result is None or not tried:
            continue
        how = How.RPATH if tried[-1].how is How.INHERITED else tried[-1].how
        owned = how in {How.RPATH, How.RUNPATH}
        found[step.request.name] = (tried[-1].path, how, (tried[-1].owner or "") if owned else "")
    return found


def agrees(site: Path, module: str, **environment: str) -> tuple[World, Explanation]:
    """Explain `module`, and compare each file and its rule with the real loader."""
    path = tuple(environment.get("LD_LIBRARY_PATH", "").split(":")) if environment else ()
    world = read_site(site, library_path=":".join(path))
    (root,) = find_subject(world, module)
    found = explain(LoadJudge(world=world), root)
    python = site.parents[2] / "bin/python"
    code = "import ctypes, sys; ctypes.CDLL(sys.argv[1])"
    log = site / "log"
    log.mkdir()
    seen = observed([python, "-I", "-c", code, root], log, environment)
    said = predicted(found)
    assert said
    assert said == {name: seen[name] for name in said}
    return world, found


def vendored(site: Path, rpath: str) -> None:
    """Build an extension, and two libraries in a `.libs` folder; one needs the other."""
    libs = site / "demo.libs"
    inner = shared_object(
        libs / "libinner.so.1", "int inner(void){return 1;}", soname="libinner.so.1"
    )
    outer = shared_object(
        libs / "libouter.so.1",
        "int inner(void); int outer(void){return inner();}",
        soname="libouter.so.1",
        needed=[inner],
        flags=["-Wl,--allow-shlib-undefined"],
    )
    extension(site / "demo/_core.so", "_core", needed=[outer], calls=["outer"], rpath=rpath)


def test_an_inherited_rpath_is_what_the_loader_uses(site: Path) -> None:
    vendored(site, "$ORIGIN/nowhere:$ORIGIN/../demo.libs")
    world, found = agrees(site, "demo._core")
    text = {step.request.name: describe_search(world, step) for step in found.steps}
    assert text["libouter.so.1"] == "rpath $ORIGIN/../demo.libs"
    assert text["libinner.so.1"] == "inherited from demo/_core.so: $ORIGIN/../demo.libs"
    assert found.ok
    assert found.steps[-1].origin is not None


def test_a_runpath_loses_to_ld_library_path_and_an_rpath_wins(site: Path, tmp_path: Path) -> None:
    for tag in ("runpath", "rpath"):
        runtime = shared_object(site / tag / "libtvm_runtime.so", soname="libtvm_runtime.so")
        shared_object(
            site / tag / f"libtvm_{tag}.so",
            "int g(void){return 2;}",
            needed=[runtime],
            **{tag: "$ORIGIN"},  # type: ignore[arg-type]  # the two search path arguments
        )
    fake = shared_object(tmp_path / "fake/libtvm_runtime.so", soname="libtvm_runtime.so")
    world, found = agrees(site, "libtvm_runpath.so", LD_LIBRARY_PATH=str(fake.parent))
    assert found.steps[1].origin == (Provenance.VARIABLE, str(fake))
    assert any(
        alternative.when == "without this LD_LIBRARY_PATH" for alternative in found.alternatives
    )
    shutil.rmtree(site / "log")
    world, found = agrees(site, "libtvm_rpath.so", LD_LIBRARY_PATH=str(fake.parent))
    assert found.steps[1].origin == (Provenance.WHEEL, "rpath/libtvm_runtime.so")
    assert world.name == "this machine"


def test_the_cache_and_the_interpreters_own_libraries_are_seen(site: Path) -> None:
    extension(site / "demo/_core.so", "_core", flags=["-Wl,--no-as-needed", "-lresolv", "-lm"])
    world, found = agrees(site, "demo._core")
    by_name = {step.request.name: step for step in found.steps}
    assert describe_search(world, by_name["libc.so.6"]).startswith("already loaded by ")
    assert by_name["libresolv.so.2"].origin is not None
    assert by_name["libresolv.so.2"].origin.provenance is Provenance.PLATFORM
    assert not found.problems


def test_links_and_hard_links_are_followed(site: Path) -> None:
    real = shared_object(site / "real/libz_x.so.1.2", soname="libz_x.so.1")
    (site / "links").mkdir()
    (site / "links/libz_x.so.1").symlink_to("../real/libz_x.so.1.2")
    shared_object(
        site / "p/liba.so", "int a(void){return 1;}", needed=[real], rpath="$ORIGIN/../links"
    )
    _, found = agrees(site, "liba.so")
    assert found.steps[1].request.result == str(real)


def test_libraries_that_are_links_out_of_the_site_are_in_it(site: Path, tmp_path: Path) -> None:
    """So `uv pip install --link-mode symlink` installs a wheel."""
    vendored(site, "$ORIGIN/../demo.libs")
    for number, path in enumerate(sorted(site.glob("demo*/*"))):
        stored = tmp_path / "cache" / str(number) / path.name
        stored.parent.mkdir(parents=True)
        path.rename(stored)
        path.symlink_to(stored)
    world, found = agrees(site, "demo._core")
    assert found.ok
    assert set(world.members.values()) >= {"demo/_core.so", "demo.libs/libinner.so.1"}
    assert found.steps[1].origin == (Provenance.WHEEL, "demo.libs/libouter.so.1")


@pytest.mark.parametrize("token", ["given", "$LIB", "${PLATFORM}"])
def test_tokens_of_ld_library_path_are_those_of_the_interpreter(
    site: Path, tmp_path: Path, token: str
) -> None:
    here = read_process(os.path.realpath(sys.executable), [])
    assert here.platform is not None
    folder = tmp_path / token.replace("$LIB", here.lib).replace("${PLATFORM}", here.platform)
    given = shared_object(folder / "libgiven.so", soname="libgiven.so")
    extension(site / "demo/_core.so", "_core", needed=[given])
    program = os.path.realpath(site.parents[2] / "bin/python")
    base = os.path.relpath(tmp_path, Path(program).parent)
    _, found = agrees(site, "demo._core", LD_LIBRARY_PATH=f"$ORIGIN/{base}/{token}")
    step = next(step for step in found.steps if step.request.name == "libgiven.so")
    assert step.request.result == str(given)
    assert step.origin is not None
    assert step.origin.provenance is Provenance.VARIABLE


@pytest.mark.parametrize("relative", [True, False], ids=["$ORIGIN", "absolute"])
def test_paths_in_dt_needed_lead_out_of_the_site(
    site: Path, tmp_path: Path, *, relative: bool
) -> None:
    far = tmp_path / "far/libfar.so"
    steps = os.path.relpath(far, site / "demo")
    shared_object(far, soname=f"$ORIGIN/{steps}" if relative else str(far))
    module = extension(site / "demo/_core.so", "_core", needed=[far])
    world = read_site(site)
    found = explain(LoadJudge(world=world), find_subject(world, "demo._core")[0])
    assert found.ok
    assert str(far) in {step.request.result for step in found.steps}
    load = "import ctypes, sys; ctypes.CDLL(sys.argv[1])"
    subprocess.run([site.parents[2] / "bin/python", "-I", "-c", load, module], check=True)


@pytest.mark.parametrize("release", ["2.17", "2.99"])
def test_a_glibc_that_is_installed_is_not_the_one_of_the_machine(site: Path, release: str) -> None:
    """As conda's sysroot_linux-64 brings one."""
    extension(site / "demo/_core.so", "_core")
    of_machine = read_site(site).versions
    libc = site / "demo/sysroot/libc.so.6"
    libc.parent.mkdir()
    script = libc.with_suffix(".map")
    script.write_text(f"GLIBC_{release} {{ global: *; }};\n")
    flags = [f"-Wl,--version-script={script}"]
    shared_object(
        libc, "int gnu_get(void) { return 1; }", soname="libc.so.6", libc=False, flags=flags
    )
    assert of_machine.keys() == {"GLIBC"}
    assert read_site(site).versions == of_machine


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can become another user")
def test_directories_that_cannot_be_listed_are_searched(site: Path, tmp_path: Path) -> None:
    """As another user, to whom the loader finds the library as well."""
    vendored(site, "$ORIGIN/../demo.libs:$ORIGIN/../hidden")
    hidden = site / "hidden"
    hidden.mkdir()
    (site / "demo.libs/libinner.so.1").rename(hidden / "libinner.so.1")
    for folder in (tmp_path, *tmp_path.parents):
        if not folder.stat().st_mode & 0o001:
            folder.chmod(0o755)
    hidden.chmod(0o711)
    load = "import ctypes, sys; ctypes.CDLL(sys.argv[1])"
    module = site / "demo/_core.so"
    subprocess.run(["/usr/bin/python3", "-I", "-c", load, module], check=True, user=65534)
    os.seteuid(65534)
    try:
        world = read_site(site)
    finally:
        os.seteuid(0)
    assert explain(LoadJudge(world=world), find_subject(world, "demo._core")[0]).ok


def test_all_folders_of_distributions_are_read_of_a_prefix_and_nothing_else(
    tmp_path: Path,
) -> None:
    built = extension(tmp_path / "ext.so", "ext")
    for folder in ("lib/python3/dist-packages/one", "local/lib/python3.11/dist-packages/two"):
        package = tmp_path / "usr" / folder
        package.mkdir(parents=True)
        shutil.copy(built, package / "ext.so")
        (package / "__init__.py").write_text("import ctypes\n")
        info = package.parent / f"{package.name}-1.0.dist-info"
        info.mkdir()
        (info / "RECORD").write_text(f"{package.name}/ext.so,,\n{package.name}/__init__.py,,\n")
    (tmp_path / "usr" / "lib" / "other").mkdir()
    shutil.copy(built, tmp_path / "usr" / "lib" / "other" / "ext.so")
    modules = read_modules(tmp_path / "usr")
    assert set(modules.world.members.values()) == {"one/ext.so", "two/ext.so"}
    assert imported_as(modules, "one") == ("one",)
    assert imported_as(modules, "two") == ("two",)


def test_names_of_a_target_folder_are_those_of_its_modules(tmp_path: Path) -> None:
    extension(tmp_path / "one" / "ext.so", "ext")
    (tmp_path / "one-1.0.dist-info").mkdir()
    (tmp_path / "one-1.0.dist-info" / "RECORD").write_text("one/ext.so,,\n")
    assert imported_as(read_modules(tmp_path), "one") == ("one",)


def test_a_missing_library_is_a_miss_here_too(site: Path) -> None:
    vendored(site, "$ORIGIN/../demo.libs")
    (site / "demo.libs/libinner.so.1").unlink()
    world = read_site(site)
    found = explain(LoadJudge(world=world), find_subject(world, "demo._core")[0])
    assert [step.request.name for step in found.missing] == ["libinner.so.1"]


def test_an_environment_can_be_moved_to_another_machine(site: Path) -> None:
    vendored(site, "$ORIGIN/../demo.libs")
    world = read_site(site.parents[2], target=find("rhel:9"))
    found = explain(LoadJudge(world=world), find_subject(world, "demo._core")[0])
    assert found.ok
    assert found.target == "rhel:9"
    assert world.environment.main == f"/usr/bin/python3.{sys.version_info.minor}"


def test_a_directory_without_objects_is_refused(tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match="is not a directory"):
        read_site(tmp_path / "none")
    with pytest.raises(SettingsError, match="no ELF object"):
        read_site(tmp_path)


def test_broken_files_and_loops_of_links_do_no_harm(site: Path) -> None:
    vendored(site, "$ORIGIN/../demo.libs:$ORIGIN/loop")
    (site / "demo/loop").symlink_to("loop")
    (site / "demo/text.so").write_text("no ELF")
    (site / "demo/empty.so").touch()
    (site / "demo/cut.so").write_bytes((site / "demo/_core.so").read_bytes()[:200])
    (site / "demo/gone.so").symlink_to("nowhere")
    world = read_site(site)
    assert explain(LoadJudge(world=world), find_subject(world, "demo._core")[0]).ok
    assert find_subject(world, "demo/_core") == find_subject(world, "demo._core")
    assert find_subject(world, "libouter") == ()
    assert f"{site}/demo/cut.so" in world.environment.broken


def test_planted_directories_are_read_and_missing_ones_ignored(tmp_path: Path) -> None:
    path = shared_object(tmp_path / "a/libq.so", soname="libq.so")
    found = read_planted([str(tmp_path / "a"), str(tmp_path / "none"), "relative", ""])
    assert set(found.files) == {str(path)}


MUSL_PYTHON = r"""
#include <dlfcn.h>
#include <stdio.h>
#include <string.h>
#include <link.h>
static int show(struct dl_phdr_info *info, size_t size, void *data) {
    if (strstr(info->dlpi_name, "lib")) puts(info->dlpi_name);
    return 0;
}
int main(int count, char **names) {
    if (!dlopen(names[1], RTLD_NOW)) { puts(dlerror()); return 1; }
    dl_iterate_phdr(show, 0);
    return 0;
}
"""


@needs("musl-gcc")
def test_musl_takes_ld_library_path_first_and_has_no_soname_reuse(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    prefix = tmp_path / "prefix"
    source = tmp_path / "python.c"
    source.write_text(MUSL_PYTHON)
    (prefix / "bin").mkdir(parents=True)
    subprocess.run(["musl-gcc", source, "-o", prefix / "bin/python3"], check=True)
    inner = shared_object(prefix / "p/libin.so", soname="libother.so", libc=False)
    (prefix / "p/libin.so").rename(prefix / "p/libother.so")
    user = shared_object(
        prefix / "p/libuser.so", "int u(void){return 1;}", needed=[inner.with_name("libother.so")],
        runpath="$ORIGIN", libc=False,
    )  # fmt: skip
    fake = tmp_path / "fake"
    fake.mkdir()
    shutil.copy(prefix / "p/libother.so", fake / "libother.so")
    monkeypatch.delenv("LD_LIBRARY_PATH", raising=False)
    beside = str(prefix / "p/libother.so")
    for directories, taken in (((), beside), ((str(fake),), str(fake / "libother.so"))):
        world = read_site(prefix, library_path=":".join(directories))
        found = explain(LoadJudge(world=world), str(user))
        assert found.steps[1].request.result == taken
        env = {"LD_LIBRARY_PATH": ":".join(directories)} if directories else {}
        said = subprocess.run(
            [prefix / "bin/python3", user], env=env, capture_output=True, text=True, check=True
        ).stdout.splitlines()
        loaded = [path for path in said if str(tmp_path) in path and "bin/python" not in path]
        assert [os.path.normpath(path) for path in loaded] == list(found.objects)


def test_a_program_of_the_environment_is_explained_as_a_start(site: Path) -> None:
    library = shared_object(site / "x/libt.so", "int t(void){return 0;}", soname="libt.so")
    tool = executable(
        site.parents[2] / "bin/tool",
        "int t(void); int main(void){return t();}",
        needed=[library],
        runpath=f"$ORIGIN/../{library.parent.relative_to(site.parents[2])}",
    )
    world = read_site(site.parents[2])
    found = explain(LoadJudge(world=world), find_subject(world, "bin/tool")[0])
    log = site / "log"
    log.mkdir()
    seen = observed([tool], log, {})
    said = predicted(found)
    assert {name: seen[name][:2] for name in said} == {name: said[name][:2] for name in said}
    assert found.ok


# --- The graph of an environment ------------------------------------------------------------------


def install_two(site: Path) -> None:
    """Two distributions with a RECORD each; an object of one needs a library of the other."""
    vendored(site, "$ORIGIN/../demo.libs")
    library = site / "demo.libs" / "libinner.so.1"
    extension(site / "other" / "_two.so", "_two", needed=[library], rpath="$ORIGIN/../demo.libs")
    for name, members in (
        ("Demo_Pack", ["demo/_core.so", "demo.libs/libinner.so.1", "demo.libs/libouter.so.1"]),
        ("other", ["other/_two.so"]),
    ):
        folder = site / f"{name}-1.0.dist-info"
        folder.mkdir()
        (folder / "RECORD").write_text("".join(f"{member},,\n" for member in members))


def explained(capsys: pytest.CaptureFixture[str], *arguments: str | Path) -> tuple[int, str]:
    code = run(["explain", *map(str, arguments)])
    said = capsys.readouterr()
    return code, said.out + said.err


def test_the_graph_of_an_environment_has_all_its_objects(site: Path) -> None:
    install_two(site)
    world = read_site(site.parents[2])
    graph = graph_of(world, "env", sizes_of(world.members))
    own = {node.id: node for node in graph.nodes_from(Provenance.WHEEL)}
    assert set(own) == {
        "demo/_core.so", "demo.libs/libinner.so.1", "demo.libs/libouter.so.1", "other/_two.so",
    }  # fmt: skip
    assert own["other/_two.so"].size == (site / "other" / "_two.so").stat().st_size
    assert ("other/_two.so", "demo.libs/libinner.so.1") in {
        (edge.source, edge.target) for edge in graph.edges
    }


def test_a_distribution_is_explained_with_what_others_bring(
    site: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    install_two(site)
    code, out = explained(capsys, "--site", site, "other", "--output-format", "json")
    assert code == 0
    (found,) = json.loads(out)["explanations"]
    given = {request["file"]: request["given_by"] for request in found["requests"]}
    assert given["other/_two.so"] == "wheel"
    assert given["demo.libs/libinner.so.1"] == "other wheel"
    assert "demo/_core.so" not in given
    code, out = explained(capsys, "--site", site, "other", "--output-format", "dot")
    assert (code, "libinner.so.1" in out, "demo/_core.so" in out) == (0, True, False)
    assert explained(capsys, "--site", site, "demo-pack")[0] == 0
    (site / "demo.libs" / "libinner.so.1").unlink()
    assert explained(capsys, "--site", site, "other")[0] == 1
    assert explained(capsys, "--site", site, "none", "--output-format", "dot")[0] == 2


def test_a_package_is_explained_with_what_its_distribution_brings(
    site: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    install_two(site)
    for name in ("demo", "demo-pack"):
        code, out = explained(capsys, "--site", site, name)
        assert (code, "  demo/_core.so: 2 from the wheel" in out) == (0, True)
        assert "other" not in out


@pytest.mark.parametrize(
    "spelled", ["$ORIGIN/../demo.libs", "$ORIGIN/same", "$ORIGIN/.//../demo.libs/"]
)
@pytest.mark.parametrize("tag", ["--disable-new-dtags", "--enable-new-dtags"])
def test_a_search_path_may_lead_back_to_its_own_folder(site: Path, spelled: str, tag: str) -> None:
    libs, flags = site / "demo.libs", [f"-Wl,{tag},-rpath,{spelled}"]
    inner = shared_object(libs / "libin.so", "int in(void){return 1;}", flags=flags)
    (libs / "same").symlink_to(".")
    source = "int in(void); int out(void){return in();}"
    outer = shared_object(libs / "libout.so", source, needed=[inner], flags=flags)
    module = shared_object(site / "demo/liba.so", needed=[outer], rpath="$ORIGIN/../demo.libs")
    subprocess.run(
        [sys.executable, "-c", f"import ctypes; ctypes.CDLL({str(module)!r})"], check=True
    )
    world = read_site(site)
    found = explain(LoadJudge(world=world), find_subject(world, "liba.so")[0])
    assert [step.request.result for step in found.steps[1:3]] == [str(outer), str(inner)]
