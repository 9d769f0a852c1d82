"""Wheels beside their providers: what is found, and what is not."""

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
from tests.support.compiled import require_linking
from tests.support.environment import ENVIRON
from tests.support.repairing import repair
from wheelfix.pipelines.repair_result import Outcome, Status
from wheelfix.rules.findings import Severity
from wheelfix.settings import ProviderSetting, Settings
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


def repaired(path: Path, to: Path, *providers: Path, **settings: Any) -> Outcome:
    given = tuple(ProviderSetting(source=str(each)) for each in providers)
    chosen = Settings(wheel_dir=to, provider=given, **settings)
    return repair(path, chosen, ENVIRON, folder=path.parent)


def unpacked(site: Path, *wheels: Path | None) -> Path:
    for each in wheels:
        assert each is not None
        with zipfile.ZipFile(each) as archive:
            archive.extractall(site)
    return site


def said(code: str, *sites: Path, **variables: str) -> str:
    """Return the last line that `code` prints, or dies with, where `sites` come first."""
    head = f"import sys; sys.path[:0] = {[str(each) for each in sites]!r}\n"
    done = subprocess.run(
        [sys.executable, "-I", "-W", "error", "-c", head + code],
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, **variables},
    )
    return (done.stdout or done.stderr).strip().splitlines()[-1]


IMPORT = "import demo.sub._core as m; print(m.value())"


def test_an_entry_alone_fails_for_separate_folders_and_the_error_names_the_library_only(
    tmp_path: Path, pro: Path
) -> None:
    provider = provider_wheel(tmp_path, "pro", pro)
    output = repaired(user_wheel(tmp_path, pro), tmp_path / "out", provider).output
    pro.unlink()
    ours, theirs = unpacked(tmp_path / "a", output), unpacked(tmp_path / "b", provider)
    assert "ImportError: libpro.so.3: cannot open shared object" in said(IMPORT, ours, theirs)


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
    output = repaired(user_wheel(tmp_path, pro), tmp_path / "out", provider).output
    shutil.rmtree(sdk)
    site = unpacked(tmp_path / "site", output, provider)
    variables = {"LD_LIBRARY_PATH": str(tmp_path / "other")} if variable else {}
    code = "import demo.sub._core as m; print(m.value())"
    assert said(code, site, **variables) == expected


OPENER = """
import ctypes
from pathlib import Path
LIBRARY = ctypes.CDLL(str(Path(__file__).parent / "lib" / "libours.so"))
"""


def test_a_missing_requirement_is_added_with_the_available_version(
    tmp_path: Path, pro: Path
) -> None:
    provider = provider_wheel(tmp_path, "pro", pro)
    path = user_wheel(tmp_path, pro, "", "from .sub import _core")
    refused = repaired(path, tmp_path / "no", provider)
    assert [f.code for f in refused.remaining if f.severity is Severity.ERROR] == ["WF821"]
    outcome = repaired(path, tmp_path / "out", provider, add_requires=True)
    assert outcome.status is Status.REPAIRED, outcome
    assert outcome.output
    with open_wheel(outcome.output) as archive:
        assert archive.wheel.metadata.requires_dist == ("pro>=2.0",)
        assert not archive.wheel.record_problems
        before = zipfile.ZipFile(path).read("demo-1.0.dist-info/METADATA").decode()
        after = archive.read("demo-1.0.dist-info/METADATA").decode()
    assert after == f"{before}Requires-Dist: pro>=2.0\n"
    again = repaired(outcome.output, tmp_path / "again", provider, add_requires=True)
    assert again.status is Status.UNCHANGED
    optional = user_wheel(tmp_path / "optional", pro, "")
    kept = repaired(optional, tmp_path / "no", provider, add_requires=True)
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
    require_linking(compiler)
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
