"""Compare what `check` says of wheels that require each other with real imports.

    python -m tests.oracles.required_wheels.compare --n 1000 --installer uv

In each set, each wheel is judged beside those that it requires, and its package is imported where
all are installed. A wheel without an error or a warning about loading must be imported, one with
such a finding must not. Every difference is printed.
"""

import argparse
import subprocess
import sys
import tempfile
import time
import zipfile
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path

from tests.oracles.required_wheels.sets import Distribution, Use, random_set
from tests.support.build import extension, make_wheel, shared_object
from tests.support.providers import SUFFIX, TAG
from wheelfix import Settings, check
from wheelfix.rules.findings import Severity

_ABOUT_LOADING = ("WF10", "WF301", "WF304", "WF805", "WF821", "WF823", "WF824", "WF828")
_MANYLINUX = TAG.replace("linux_", "manylinux_2_17_")


def main() -> int:
    """Compare the sets of the command line; return 1 if there is a difference."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--n", type=int, default=100, help="how many sets")
    parser.add_argument("--first", type=int, default=0, help="the first seed")
    parser.add_argument("--installer", choices=("pip", "uv", "none"), default="none")
    options = parser.parse_args()
    began, counts = time.monotonic(), Counter[str]()
    for seed in range(options.first, options.first + options.n):
        with tempfile.TemporaryDirectory() as folder:
            for line in differences(seed, Path(folder), options.installer, counts):
                counts["differences"] += 1
                print(line, flush=True)
    seconds = time.monotonic() - began
    print(f"{options.n:,} sets, {dict(counts)}, {seconds:.0f} s")
    return 1 if counts["differences"] else 0


def differences(seed: int, folder: Path, installer: str, counts: Counter[str]) -> Iterator[str]:
    """Yield the wheels of a set that are imported against the prediction, or not."""
    parts = random_set(seed)
    wheels = [_wheel(folder, part, parts) for part in parts]
    site = _installed(folder / "site", wheels, installer)
    failures = [_import(site, part.number) for part in parts]
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
            yield f"seed {seed}, d{part.number}: {failure or 'imported'}; said {said}"


def _required(part: Distribution, parts: Sequence[Distribution]) -> set[int]:
    direct = {use.other for use in _uses(part)}
    return direct.union(*(_required(parts[other], parts) for other in direct))


def _uses(part: Distribution) -> tuple[Use, ...]:
    return (*part.uses, *([part.library_needs] if part.library_needs else []))


def _wheel(folder: Path, part: Distribution, parts: Sequence[Distribution]) -> Path:
    n, own = part.number, folder / f"d{part.number}"
    calls = {use.function for use in part.uses}
    library = _library(folder, part, part.functions)
    linked = [use for use in part.uses if not use.is_global]
    whole = [_library(folder / "whole", parts[u.other], _all(u.other)) for u in linked]
    entries = ["$ORIGIN/lib", *(use.entry for use in linked if use.entry)]
    path = ":".join(entries)
    inherited = any(use.is_inherited for use in part.uses)
    (own / "more.c").write_text(f"int g{n}(void) {{ return 1; }}\n")
    module = extension(
        own / f"_core{SUFFIX}",
        "_core",
        needed=[library, *whole],
        calls=[f"f{n}", *sorted(calls)],
        rpath=path if inherited else None,
        runpath=None if inherited else path,
        flags=[str(own / "more.c")],
    )
    files: dict[str, str | Path] = {
        f"d{n}/__init__.py": "".join(_source(part)),
        f"d{n}/_core{SUFFIX}": module,
    }
    if part.has_library:
        files[f"d{n}/lib/{library.name}"] = library
    metadata = "".join(f"Requires-Dist: d{use.other}\n" for use in _uses(part))
    return make_wheel(folder / "dist", f"d{n}", "1.0", _MANYLINUX, files, metadata=metadata)


def _all(number: int) -> tuple[str, ...]:
    return (f"f{number}", f"new{number}")


def _library(folder: Path, part: Distribution, functions: Sequence[str]) -> Path:
    """Link the library; one that is whole serves to link others with."""
    path = folder / f"d{part.number}" / "lib" / f"lib{part.number}.so.1"
    path.parent.mkdir(parents=True, exist_ok=True)
    use = part.library_needs if part.functions is functions else None
    source = "".join(f"int {name}(void) {{ return 1; }}\n" for name in functions)
    needed: list[Path] = []
    if use is not None:
        source += f"int {use.function}(void);\nint use(void) {{ return {use.function}(); }}\n"
        stub = folder / "stub" / f"d{part.number}" / f"lib{use.other}.so.1"
        stub.parent.mkdir(parents=True, exist_ok=True)
        code = f"int f{use.other}(void) {{ return 1; }}\n"
        needed = [shared_object(stub, code, soname=stub.name)]
    entry = use.entry if use else None
    return shared_object(path, source, soname=path.name, needed=needed, runpath=entry)


def _source(part: Distribution) -> Iterator[str]:
    yield "import ctypes\n"
    for use in part.uses:
        if use.is_global:
            yield f"from d{use.other} import _core as _other\n"
            yield "ctypes.CDLL(_other.__file__, mode=ctypes.RTLD_GLOBAL)\n"
        elif use.is_imported:
            yield f"import d{use.other}\n"
    yield f"from d{part.number} import _core\n"


def _installed(site: Path, wheels: Sequence[Path], installer: str) -> Path:
    paths = list(map(str, wheels))
    if installer == "none":
        for wheel in wheels:
            with zipfile.ZipFile(wheel) as archive:
                archive.extractall(site)
        return site
    command = ["uv", "pip"] if installer == "uv" else [sys.executable, "-m", "pip"]
    options = ["-q", "--no-deps", "--no-index", "--target", str(site)]
    subprocess.run([*command, "install", *options, *paths], check=True)
    return site


def _import(site: Path, number: int) -> str | None:
    """Return why the package cannot be imported; None if it can."""
    code = f"import sys; sys.path.insert(0, {str(site)!r}); import d{number}"
    environment = {"LD_BIND_NOW": "1"}
    command = [sys.executable, "-I", "-c", code]
    done = subprocess.run(command, capture_output=True, text=True, check=False, env=environment)
    return None if done.returncode == 0 else done.stderr.strip().splitlines()[-1]


if __name__ == "__main__":
    sys.exit(main())
