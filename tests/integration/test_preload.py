"""Preload shims in repaired wheels: which library they open, and how they fail."""

import os
import shutil
import subprocess
import sys
import sysconfig
import zipfile
from pathlib import Path
from typing import Any

import pytest

from tests.support.build import extension, make_wheel, shared_object
from tests.support.environment import ENVIRON
from tests.support.shims import shims
from wheelfix.cli.app import run
from wheelfix.pipelines.repair import repair
from wheelfix.pipelines.repair_result import Outcome, Status
from wheelfix.rules.findings import Severity
from wheelfix.settings import Provider, ProviderBy, Settings
from wheelfix.wheel.model import PRELOAD
from wheelfix.wheel.reader import open_wheel

SUFFIX = sysconfig.get_config_var("EXT_SUFFIX")
MINOR = sys.version_info.minor
TAG = f"cp3{MINOR}-cp3{MINOR}-linux_{os.uname().machine}"


def provider_wheel(folder: Path, name: str, library: Path, where: str = "{name}/lib/") -> Path:
    files: dict[str, Path | str] = {
        f"{name}/__init__.py": "raise SystemExit('the provider was imported')",
        where.format(name=name) + library.name: library,
    }
    tag = f"py3-none-linux_{os.uname().machine}"
    return make_wheel(folder / "providers", name, "2.0", tag, files)


@pytest.fixture
def pro(tmp_path: Path) -> Path:
    """Build the library that the provider has."""
    return shared_object(
        tmp_path / "sdk" / "libpro.so.3", "int pro(void) { return 7; }", soname="libpro.so.3"
    )


def user_wheel(folder: Path, pro: Path, requires: str = "pro>=2", init: str = "") -> Path:
    """Build a wheel with a module that needs the library, and one that does not."""
    core = extension(
        folder / f"_core{SUFFIX}", "_core", needed=[pro], calls=["pro"], runpath=str(pro.parent)
    )
    plain = extension(folder / f"_plain{SUFFIX}", "_plain")
    files: dict[str, Path | str] = {
        "demo/__init__.py": init,
        f"demo/sub/_core{SUFFIX}": core,
        f"demo/_plain{SUFFIX}": plain,
    }
    metadata = f"Requires-Dist: {requires}\n" if requires else ""
    return make_wheel(folder / "dist", tag=TAG, files=files, metadata=metadata)


def repaired(path: Path, to: Path, by: str, *providers: Path, **settings: Any) -> Outcome:
    given = tuple(Provider(source=str(each)) for each in providers)
    chosen = Settings(wheel_dir=to, provider=given, provider_by=ProviderBy(by), **settings)
    return repair(path, chosen, {**ENVIRON, "PWD": str(path.parent)})


def unpacked(site: Path, *wheels: Path | None) -> Path:
    for each in wheels:
        assert each is not None
        with zipfile.ZipFile(each) as archive:
            archive.extractall(site)
    return site


def said(code: str, *sites: Path, **variables: str) -> str:
    """Return the last line that `code` prints, or dies with, where `sites` come first."""
    head = f"import sys; sys.path[:0] = {[str(each) for each in sites]!r}\n"
    mapped = (
        "def mapped():\n"
        "    with open('/proc/self/maps') as maps:\n"
        "        return sorted({l.split()[-1] for l in maps if 'libpro' in l or 'libdep' in l})\n"
    )
    done = subprocess.run(
        [sys.executable, "-I", "-W", "error", "-c", head + mapped + code],
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, **variables},
    )
    return (done.stdout or done.stderr).strip().splitlines()[-1]


IMPORT = "import demo.sub._core as m; print(m.value(), *mapped())"
MISSING = (
    "ImportError: demo.sub._core needs libpro.so.3 of pro>=2, which is not installed: "
    "pip install 'pro>=2'"
)


@pytest.mark.parametrize("by", ["preload", "both"])
def test_the_library_is_opened_where_the_provider_is_installed_or_the_error_names_it(
    tmp_path: Path, pro: Path, by: str
) -> None:
    provider = provider_wheel(tmp_path, "pro", pro)
    outcome = repaired(user_wheel(tmp_path, pro), tmp_path / "out", by, provider)
    assert outcome.status is Status.REPAIRED, outcome
    assert outcome.output
    pro.unlink()
    ours, theirs = unpacked(tmp_path / "a", outcome.output), unpacked(tmp_path / "b", provider)
    assert said(IMPORT, ours, theirs) == f"7 {theirs}/pro/lib/libpro.so.3"
    assert said(IMPORT, ours) == MISSING
    optional = "import demo._plain; print('fine', *mapped())"
    assert said(optional, ours) == "fine"
    assert said(optional, ours, theirs) == "fine"
    together = unpacked(tmp_path / "c", outcome.output, provider)
    assert said(IMPORT, together) == f"7 {together}/pro/lib/libpro.so.3"
    for again in ("entry", by):
        after = repaired(outcome.output, tmp_path / "again", again, provider)
        assert after.status is Status.UNCHANGED, after


def test_an_entry_alone_fails_for_separate_folders_and_the_error_names_the_library_only(
    tmp_path: Path, pro: Path
) -> None:
    provider = provider_wheel(tmp_path, "pro", pro)
    output = repaired(user_wheel(tmp_path, pro), tmp_path / "out", "entry", provider).output
    pro.unlink()
    ours, theirs = unpacked(tmp_path / "a", output), unpacked(tmp_path / "b", provider)
    assert "ImportError: libpro.so.3: cannot open shared object" in said(IMPORT, ours, theirs)


@pytest.fixture
def apart(tmp_path: Path, pro: Path) -> tuple[Path, Path]:
    """Repair a wheel by preload; give where it and its provider are unpacked."""
    provider = provider_wheel(tmp_path, "pro", pro)
    output = repaired(user_wheel(tmp_path, pro), tmp_path / "out", "preload", provider).output
    pro.unlink()
    return unpacked(tmp_path / "a", output), unpacked(tmp_path / "b", provider)


def test_a_copy_that_is_already_loaded_is_used_and_no_second_one_opened(
    tmp_path: Path, apart: tuple[Path, Path]
) -> None:
    copy = tmp_path / "first" / "libpro.so.3"
    copy.parent.mkdir()
    shutil.copy(apart[1] / "pro/lib/libpro.so.3", copy)
    code = f"import ctypes; ctypes.CDLL({str(copy)!r}); {IMPORT}"
    assert said(code, *apart) == f"7 {copy}"


def test_an_editable_provider_is_found_by_its_finder_without_an_import(
    apart: tuple[Path, Path],
) -> None:
    code = (
        "import importlib.util\n"
        "class Editable:\n"
        "    @staticmethod\n"
        "    def find_spec(name, path=None, target=None):\n"
        "        if name == 'pro':\n"
        f"            where = {str(apart[1] / 'pro/__init__.py')!r}\n"
        "            return importlib.util.spec_from_file_location(name, where)\n"
        f"sys.meta_path.append(Editable); {IMPORT}"
    )
    assert said(code, apart[0]) == f"7 {apart[1]}/pro/lib/libpro.so.3"


def test_a_provider_that_is_installed_without_the_library_is_named_with_its_version(
    apart: tuple[Path, Path],
) -> None:
    library = apart[1] / "pro/lib/libpro.so.3"
    library.write_bytes(b"no library")
    error = "ImportError: demo.sub._core needs libpro.so.3 of pro>=2; pro 2.0 is installed, and "
    assert said(IMPORT, *apart).startswith(f"{error}{library}: ")
    library.unlink()
    assert said(IMPORT, *apart) == f"{error}does not have it"


def test_a_module_that_fails_for_another_reason_keeps_its_error(apart: tuple[Path, Path]) -> None:
    shared_object(apart[1] / "pro/lib/libpro.so.3", "int other;", soname="libpro.so.3")
    assert said(IMPORT, *apart).endswith("undefined symbol: pro")


def test_the_dependencies_of_a_providers_library_are_opened_before_it(tmp_path: Path) -> None:
    dep = shared_object(
        tmp_path / "sdk" / "libdep.so.1", "int dep(void) { return 7; }", soname="libdep.so.1"
    )
    pro = shared_object(
        tmp_path / "sdk" / "libpro.so.3",
        "int dep(void); int pro(void) { return dep(); }",
        soname="libpro.so.3",
        needed=[dep],
    )
    providers = [provider_wheel(tmp_path, "pro", pro), provider_wheel(tmp_path, "dep", dep)]
    path = user_wheel(tmp_path, pro)
    outcome = repaired(path, tmp_path / "out", "preload", *providers)
    assert outcome.output, outcome
    assert outcome.after is not None
    ((_, modules),) = shims(outcome.after).items()
    assert modules == {".sub._core": ("libdep.so.1", "libpro.so.3")}
    pro.unlink()
    dep.unlink()
    sites = [unpacked(tmp_path / each.name, each) for each in (outcome.output, *providers)]
    assert said(IMPORT, *sites) == (
        f"7 {sites[2]}/dep/lib/libdep.so.1 {sites[1]}/pro/lib/libpro.so.3"
    )
    assert "libdep.so.1 of dep" in said(IMPORT, *sites[:2])


@pytest.mark.parametrize(
    ("tag", "variable", "expected"),
    [("runpath", "", "7"), ("rpath", "", "7"), ("runpath", "set", "-1"), ("rpath", "set", "7")],
)
def test_what_the_provider_opens_itself_is_found_by_its_own_search_path(
    tmp_path: Path, tag: str, variable: str, expected: str
) -> None:
    """Like cuDNN's engines: DT_RUNPATH up to 9.20, DT_RPATH since 9.22."""
    source = """
    #include <dlfcn.h>
    int pro(void) {
        void *engine = dlopen("libengine.so.3", RTLD_NOW);
        int (*run)(void) = engine ? (int (*)(void))dlsym(engine, "run") : 0;
        return run ? run() : -2;
    }
    """
    entries: dict[str, Any] = {tag: "$ORIGIN"}
    sdk = tmp_path / "sdk"
    pro = shared_object(sdk / "libpro.so.3", source, soname="libpro.so.3", **entries)
    engine = shared_object(sdk / "libengine.so.3", "int run(void) { return 7; }")
    shared_object(tmp_path / "other/libengine.so.3", "int run(void) { return -1; }")
    files: dict[str, Path | str] = {f"pro/lib/{each.name}": each for each in (pro, engine)}
    linux = f"py3-none-linux_{os.uname().machine}"
    provider = make_wheel(tmp_path / "providers", "pro", "2.0", linux, files)
    output = repaired(user_wheel(tmp_path, pro), tmp_path / "out", "preload", provider).output
    shutil.rmtree(sdk)
    ours, theirs = unpacked(tmp_path / "a", output), unpacked(tmp_path / "b", provider)
    variables = {"LD_LIBRARY_PATH": str(tmp_path / "other")} if variable else {}
    code = "import demo.sub._core as m; print(m.value())"
    assert said(code, ours, theirs, **variables) == expected


def test_a_library_that_does_not_load_alone_gets_an_entry(tmp_path: Path) -> None:
    """Like MKL's parts, which need each other, while the dependent needs all of them."""
    dep = shared_object(
        tmp_path / "sdk" / "libdep.so.1", "int dep(void) { return 7; }", soname="libdep.so.1"
    )
    pro = shared_object(
        tmp_path / "sdk" / "libpro.so.3",
        "int dep(void); int pro(void) { return dep(); }",
        soname="libpro.so.3",
    )
    core = extension(
        tmp_path / f"_core{SUFFIX}",
        "_core",
        needed=[pro, dep],
        calls=["pro", "dep"],
        runpath=str(pro.parent),
    )
    files: dict[str, Path | str] = {"demo/__init__.py": "", f"demo/sub/_core{SUFFIX}": core}
    asked = "Requires-Dist: pro>=2\nRequires-Dist: dep>=2\n"
    path = make_wheel(tmp_path / "dist", tag=TAG, files=files, metadata=asked)
    providers = [provider_wheel(tmp_path, "pro", pro), provider_wheel(tmp_path, "dep", dep)]
    outcome = repaired(path, tmp_path / "out", "preload", *providers)
    assert outcome.output, outcome
    assert outcome.after is not None
    assert not shims(outcome.after)
    (found,) = (finding for finding in outcome.remaining if finding.code == "WF108")
    assert (
        "`libpro.so.3`, which does not load alone: it lacks `dep` of `libdep.so.1`" in found.message
    )
    alone = said(f"import ctypes; ctypes.CDLL({str(pro)!r})")
    assert alone.endswith("undefined symbol: dep")
    pro.unlink()
    dep.unlink()
    site = unpacked(tmp_path / "site", outcome.output, *providers)
    assert said(IMPORT, site).startswith("14 ")


OPENER = """
import ctypes
from pathlib import Path
LIBRARY = ctypes.CDLL(str(Path(__file__).parent / "lib" / "libours.so"))
"""


@pytest.mark.parametrize("opener", ["__init__", "base"])
def test_a_source_that_opens_a_library_of_the_wheel_on_import_gets_a_shim(
    tmp_path: Path, pro: Path, opener: str
) -> None:
    source = "int pro(void); int ours(void) { return pro(); }"
    sdk = str(pro.parent)
    ours = shared_object(tmp_path / "libours.so", source, needed=[pro], runpath=sdk)
    lazy = shared_object(tmp_path / "liblazy.so", source, needed=[pro], runpath=sdk)
    files: dict[str, Path | str] = {
        "demo/__init__.py": "",
        f"demo/{opener}.py": OPENER,
        "demo/lib/libours.so": ours,
        "demo/lib/liblazy.so": lazy,
    }
    asked = "Requires-Dist: pro>=2\n"
    path = make_wheel(
        tmp_path / "dist", tag=f"py3-none-linux_{os.uname().machine}", files=files, metadata=asked
    )
    provider = provider_wheel(tmp_path, "pro", pro)
    outcome = repaired(path, tmp_path / "out", "preload", provider)
    assert outcome.output, outcome
    assert outcome.after is not None
    name = "" if opener == "__init__" else f".{opener}"
    assert shims(outcome.after) == {f"demo/{PRELOAD}.py": {name: ("libpro.so.3",)}}
    assert outcome.after.elfs["demo/lib/libours.so"].entries == ()
    assert outcome.after.elfs["demo/lib/liblazy.so"].entries == ("$ORIGIN/../../pro/lib",)
    pro.unlink()
    sites = unpacked(tmp_path / "a", outcome.output), unpacked(tmp_path / "b", provider)
    code = f"import demo{name} as m; print(m.LIBRARY.ours(), *mapped())"
    assert said(code, *sites) == f"7 {sites[1]}/pro/lib/libpro.so.3"
    missing = said(code, sites[0])
    assert missing.startswith("OSError: ")
    assert (MISSING.partition(" ")[2].replace("sub._core", "base") in missing) is bool(name)
    again = repaired(outcome.output, tmp_path / "again", "preload", provider)
    assert again.status is Status.UNCHANGED


def test_verify_installs_it_and_all_that_is_imported_loads(
    tmp_path: Path, pro: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    provider = provider_wheel(tmp_path, "pro", pro)
    path = user_wheel(tmp_path, pro)
    outcome = repaired(path, tmp_path / "out", "preload", provider, verify=True)
    assert outcome.status is Status.REPAIRED, outcome.remaining
    pro.unlink()
    monkeypatch.chdir(tmp_path)
    assert run(["check", "-q", str(outcome.output), "--provider", str(provider)]) == 0
    assert run(["verify", "-q", str(outcome.output), "--with", str(provider)]) == 0
    assert run(["verify", "-q", str(outcome.output)]) == 1


@pytest.mark.parametrize("where", ["pro/lib/", "pro-2.0.data/data/share/pro/"])
def test_a_user_install_finds_a_provider_in_the_system_folder(
    tmp_path: Path, pro: Path, where: str
) -> None:
    """A virtual environment stands for the system: pip's user scheme lies over it as well."""
    provider = provider_wheel(tmp_path, "pro", pro, where)
    path = user_wheel(tmp_path, pro)
    outputs = {
        by: repaired(path, tmp_path / by, by, provider, ignore={"WF106": ""}).output
        for by in ("entry", "preload")
    }
    pro.unlink()
    system = tmp_path / "system"
    venv = [sys.executable, "-m", "venv", "--without-pip", "--system-site-packages", str(system)]
    subprocess.run(venv, check=True)
    python = system / "bin/python"
    install = [sys.executable, "-m", "pip", "-q", "--python", str(python), "install", "--no-deps"]
    offline = [*install, "--no-index", "--force-reinstall", "--disable-pip-version-check"]
    environ = {**ENVIRON, "PYTHONUSERBASE": str(tmp_path / "user")}
    subprocess.run([*offline, str(provider)], check=True, env=environ)
    found: dict[str, str] = {}
    for by, output in outputs.items():
        assert output is not None
        subprocess.run([*offline, "--user", str(output)], check=True, env=environ)
        code = "import demo.sub._core as m; print(m.__file__, m.value())"
        done = subprocess.run(
            [python, "-c", code], capture_output=True, text=True, env=environ, check=False
        )
        found[by] = (done.stdout or done.stderr).strip().splitlines()[-1]
    assert "libpro.so.3: cannot open shared object file" in found["entry"]
    assert found["preload"].startswith(f"{tmp_path}/user/")
    assert found["preload"].endswith(" 7")


def test_a_missing_requirement_is_added_with_the_available_version(
    tmp_path: Path, pro: Path
) -> None:
    provider = provider_wheel(tmp_path, "pro", pro)
    path = user_wheel(tmp_path, pro, "", "from .sub import _core")
    refused = repaired(path, tmp_path / "no", "entry", provider)
    assert [f.code for f in refused.remaining if f.severity is Severity.ERROR] == ["WF821"]
    outcome = repaired(path, tmp_path / "out", "both", provider, add_requires=True)
    assert outcome.status is Status.REPAIRED, outcome
    assert outcome.output
    with open_wheel(outcome.output) as archive:
        assert archive.wheel.metadata.requires_dist == ("pro>=2.0",)
        assert not archive.wheel.record_problems
        before = zipfile.ZipFile(path).read("demo-1.0.dist-info/METADATA").decode()
        after = archive.read("demo-1.0.dist-info/METADATA").decode()
    assert after == f"{before}Requires-Dist: pro>=2.0\n"
    again = repaired(outcome.output, tmp_path / "again", "both", provider, add_requires=True)
    assert again.status is Status.UNCHANGED
    optional = user_wheel(tmp_path / "optional", pro, "")
    kept = repaired(optional, tmp_path / "no", "entry", provider, add_requires=True)
    (found,) = (f for f in kept.remaining if f.severity is Severity.ERROR)
    assert "extra == " in (found.hint or "")


# --- musl -----------------------------------------------------------------------------------------

PRELOADING = """\
#include <dlfcn.h>
#include <stdio.h>
int main(int count, char **paths) {
    for (int n = 1; n < count; n++)
        if (!dlopen(paths[n], RTLD_NOW | RTLD_LOCAL)) { puts(dlerror()); return 1; }
    puts("fine");
}
"""


@pytest.mark.parametrize(("compiler", "works"), [("gcc", True), ("musl-gcc", False)])
def test_only_glibc_uses_a_library_opened_by_path_for_dt_needed(
    tmp_path: Path, compiler: str, *, works: bool
) -> None:
    if shutil.which(compiler) is None:
        pytest.skip(f"no {compiler} on this machine")
    pro = shared_object(tmp_path / "a/libpro.so.3", soname="libpro.so.3", libc=False)
    user = shared_object(
        tmp_path / "b/user.so", "int f(void); int u(void) { return f(); }", needed=[pro], libc=False
    )
    program = tmp_path / "program"
    (tmp_path / "program.c").write_text(PRELOADING)
    subprocess.run([compiler, "-o", program, tmp_path / "program.c", "-ldl"], check=True)
    done = subprocess.run([program, pro, user], capture_output=True, text=True, check=False)
    assert (done.stdout.strip() == "fine") is works, done.stdout
    assert works or "libpro.so.3" in done.stdout
