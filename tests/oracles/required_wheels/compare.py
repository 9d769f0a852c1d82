"""Compare what `check` says of wheels that require each other with real imports.

    python -m tests.oracles.required_wheels.compare --n 1000 --installer uv

In each set, each wheel is judged beside those that it requires, and its package is imported where
all are installed. A wheel without an error or a warning about loading must be imported, one with
such a finding must not. Every difference is printed. One call of the installer takes several sets.
"""

import argparse
import subprocess
import sys
import sysconfig
import tempfile
import time
import zipfile
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from tests.oracles.required_wheels.sets import Distribution, Use, random_set
from tests.support.build import GCC, extension_source, make_wheel, shared_object
from tests.support.compiled import compile_c
from tests.support.providers import SUFFIX, TAG
from wheelfix import Settings, check
from wheelfix.host.find_installers import find_uv, own_pip
from wheelfix.rules.findings import Severity

_ABOUT_LOADING = ("WF10", "WF301", "WF304", "WF805", "WF821", "WF823", "WF824", "WF828")
_AT_ONCE = 20
_MANYLINUX = TAG.replace("linux_", "manylinux_2_17_")


def main() -> int:
    """Compare the sets of the command line; return 1 if there is a difference."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--n", type=int, default=100, help="how many sets")
    parser.add_argument("--first", type=int, default=0, help="the first seed")
    parser.add_argument("--installer", choices=("pip", "uv", "none"), default="none")
    options = parser.parse_args()
    began, counts = time.monotonic(), Counter[str]()
    seeds = range(options.first, options.first + options.n)
    for start in range(0, len(seeds), _AT_ONCE):
        with tempfile.TemporaryDirectory() as folder:
            some = seeds[start : start + _AT_ONCE]
            for line in differences(some, Path(folder), options.installer, counts):
                counts["differences"] += 1
                print(line, flush=True)
    seconds = time.monotonic() - began
    print(f"{options.n:,} sets, {dict(counts)}, {seconds:.0f} s")
    return 1 if counts["differences"] else 0


def differences(
    seeds: Iterable[int], folder: Path, installer: str, counts: Counter[str]
) -> Iterator[str]:
    """Yield the wheels of the sets that are imported against the prediction, or not."""
    sets = [random_set(seed) for seed in seeds]
    wheels = [[_wheel(folder / parts[0].name, part, parts) for part in parts] for parts in sets]
    site = _installed(folder / "site", [wheel for some in wheels for wheel in some], installer)
    for parts, some in zip(sets, wheels, strict=True):
        yield from _differences(parts, some, site, counts)


def _differences(
    parts: Sequence[Distribution], wheels: Sequence[Path], site: Path, counts: Counter[str]
) -> Iterator[str]:
    failures = [_import(site, part.name) for part in parts]
    for part, wheel, failure in zip(parts, wheels, failures, strict=True):
        if any(failures[u.other] for u in part.uses if u.is_imported or u.is_global):
            counts["imports one that fails"] += 1
            continue
        others = tuple(str(wheels[n]) for n in sorted(_required(part, parts)))
        report = check(wheel, Settings(neighbors=others))
        said = [
            f"{finding.code} {finding.message}"
            for finding in report.findings
            if finding.code == "WF828"
            or (finding.severity > Severity.NOTE and finding.code.startswith(_ABOUT_LOADING))
        ]
        counts["imported" if failure is None else "not imported"] += 1
        if (failure is None) is bool(said) or report.error is not None:
            yield f"{part.name}: {failure or 'imported'}; said {said or report.error}"


def _required(part: Distribution, parts: Sequence[Distribution]) -> set[int]:
    direct = {use.other for use in _uses(part)}
    return direct.union(*(_required(parts[other], parts) for other in direct))


def _uses(part: Distribution) -> tuple[Use, ...]:
    return (*part.uses, *([part.library_needs] if part.library_needs else []))


def _wheel(folder: Path, part: Distribution, parts: Sequence[Distribution]) -> Path:
    n, own = part.number, folder / part.name
    calls = sorted({f"f{n}", *(use.function for use in part.uses)})
    library = _library(folder, part, parts, part.functions)
    linked = [parts[use.other] for use in part.uses if not use.is_global]
    whole = [_library(folder / "whole", other, parts, _all(other.number)) for other in linked]
    entries = ["$ORIGIN/lib", *(use.entry for use in part.uses if use.entry)]
    path = ":".join(entries)
    inherited = any(use.is_inherited for use in part.uses)
    compiled = own / "_core.o"  # one for all: Python.h costs more than all else
    options = ["-c", "-fPIC", "-I", sysconfig.get_path("include")]
    compile_c(GCC, compiled, extension_source("_core", ["calls"]), options)
    module = shared_object(
        own / f"_core{SUFFIX}",
        f"int g{n}(void) {{ return 1; }}\n"
        + "".join(f"int {name}(void);\n" for name in calls)
        + f"int calls(void) {{ return {' + '.join(f'{name}()' for name in calls)}; }}\n",
        needed=[library, *whole],
        rpath=path if inherited else None,
        runpath=None if inherited else path,
        flags=["-xnone", str(compiled)],
    )
    files: dict[str, str | Path] = {
        f"{part.name}/__init__.py": "".join(_source(part, parts)),
        f"{part.name}/_core{SUFFIX}": module,
    }
    if part.has_library:
        files[f"{part.name}/lib/{library.name}"] = library
    required = (parts[use.other].name for use in _uses(part))
    metadata = "".join(f"Requires-Dist: {name}\n" for name in required)
    return make_wheel(folder / "dist", part.name, "1.0", _MANYLINUX, files, metadata=metadata)


def _all(number: int) -> tuple[str, ...]:
    return (f"f{number}", f"new{number}")


def _library(
    folder: Path, part: Distribution, parts: Sequence[Distribution], functions: Sequence[str]
) -> Path:
    """Link the library; one with all functions serves to link others with."""
    path = folder / part.name / "lib" / f"lib{part.number}.so.1"
    path.parent.mkdir(parents=True, exist_ok=True)
    use = part.library_needs if part.functions is functions else None
    source = "".join(f"int {name}(void) {{ return 1; }}\n" for name in functions)
    script = path.parent / "versions.map"
    script.write_text("".join(f"V{n} {{ {name}; }};\n" for n, name in enumerate(functions)))
    flags = [f"-Wl,--version-script,{script}"] if part.is_versioned else []
    needed: list[Path] = []
    entry = None
    if use is not None:
        entry = use.entry
        source += f"int {use.function}(void);\nint use(void) {{ return {use.function}(); }}\n"
        needed = [_library(folder / "stub", parts[use.other], parts, (use.function,))]
    return shared_object(path, source, soname=path.name, needed=needed, runpath=entry, flags=flags)


def _source(part: Distribution, parts: Sequence[Distribution]) -> Iterator[str]:
    yield "import ctypes\n"
    for use in part.uses:
        if use.is_global:
            yield f"from {parts[use.other].name} import _core as _other\n"
            yield "ctypes.CDLL(_other.__file__, mode=ctypes.RTLD_GLOBAL)\n"
        elif use.is_imported:
            yield f"import {parts[use.other].name}\n"
    yield f"from {part.name} import _core\n"


def _installed(site: Path, wheels: Sequence[Path], installer: str) -> Path:
    paths = list(map(str, wheels))
    if installer == "none":
        for wheel in wheels:
            with zipfile.ZipFile(wheel) as archive:
                archive.extractall(site)
        return site
    command = [find_uv() or "uv", "pip"] if installer == "uv" else own_pip()
    options = ["-q", "--no-deps", "--no-index", "--target", str(site)]
    subprocess.run([*command, "install", *options, *paths], check=True)
    return site


def _import(site: Path, name: str) -> str | None:
    """Return why the package cannot be imported; None if it can."""
    code = f"import sys; sys.path.insert(0, {str(site)!r}); import {name}"
    environment = {"LD_BIND_NOW": "1"}
    command = [sys.executable, "-I", "-c", code]
    done = subprocess.run(command, capture_output=True, text=True, check=False, env=environment)
    return None if done.returncode == 0 else done.stderr.strip().splitlines()[-1]


if __name__ == "__main__":
    sys.exit(main())
