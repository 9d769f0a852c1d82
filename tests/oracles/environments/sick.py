"""Environments with one fault of a known mechanism: doctor names it, and the loader shows it.

    python -m tests.oracles.environments.sick -n 10 [--first SEED] [MECHANISM...]

Of each mechanism as many are made from a few lines of C, with random names, numbers and chains of
libraries. Doctor must find it, alone, with the pair, the order and the symbols that were made; and
the imports, in that order, under LD_DEBUG=bindings must show the error or the binding. Exits with 1
if anything differs.
"""

import argparse
import os
import sys
import sysconfig
import tempfile
import venv
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from random import Random
from typing import NamedTuple

from tests.support.build import (
    extension,
    record_text,
    shared_object,
    stub_library_with_versions,
)
from wheelfix.environments.import_runs import python_of, run_imports
from wheelfix.environments.read_environment import read_modules
from wheelfix.environments.run_environment_rules import find_in_environment
from wheelfix.rules.findings import Severity
from wheelfix.rules.predictions import Outcome, compare
from wheelfix.settings import Settings

_SUFFIX = sysconfig.get_config_var("EXT_SUFFIX")
_NO_LIBRARY_IS_LACKING = ["-Wl,--allow-shlib-undefined", "-Wl,--unresolved-symbols=ignore-all"]
_OPENS_FOR_ALL = """
import ctypes, pathlib
ctypes.CDLL(str(pathlib.Path(__file__).parent / "{library}"), mode=ctypes.RTLD_GLOBAL)
"""
_OPENS = """
import ctypes, os
_library = ctypes.CDLL(os.path.join(os.path.dirname(__file__), "{library}"))
"""
_SETS_FLAGS = """
import os, sys
_before = sys.getdlopenflags()
sys.setdlopenflags(_before | os.RTLD_GLOBAL)
from . import _core
sys.setdlopenflags(_before)
"""


class Expected(NamedTuple):
    """What doctor is to say of an environment."""

    code: str
    imports: tuple[str, ...]
    words: tuple[str, ...]
    """In the message or in the notes: symbols, files."""
    library_path: tuple[str, ...] = ()


class Site:
    """A virtual environment that is made for one case, with random names."""

    def __init__(self, folder: Path, dice: Random) -> None:
        venv.create(folder / "venv", symlinks=True)
        self.root, self.dice, self.sources = folder / "venv", dice, folder / "sources"
        self.sources.mkdir()
        (self.site,) = self.root.glob("lib/python*/site-packages")
        self.names = dice.sample(["ada", "bell", "curie", "dirac", "euler", "fermi"], 3)
        self.symbol = f"{dice.choice(['make', 'read', 'state'])}_{dice.randrange(1000)}"
        self.soname = f"lib{dice.choice(['geo', 'codec', 'blas'])}{dice.randrange(100)}.so.1"

    def library(self, source: str, name: str = "", flags: Sequence[str] = ()) -> Path:
        """Link a library of a new folder."""
        name = name or self.soname
        folder = Path(tempfile.mkdtemp(dir=self.sources))
        return shared_object(folder / name, source, soname=name, flags=flags)

    def install(
        self, name: str, library: Path | None, calls: Sequence[str] = (), imports: str = ""
    ) -> None:
        """Install a package whose `_core` needs the library, perhaps by another one."""
        folder, needed = self.site / name, [library] if library else []
        folder.mkdir()
        flags = _NO_LIBRARY_IS_LACKING
        if library:
            (folder / library.name).write_bytes(library.read_bytes())
        if library and self.dice.random() < 0.5:
            source = "".join(f"int {call}(void); " for call in calls)
            source += f"int {name}_middle(void) {{ return {' + '.join(f'{c}()' for c in calls)}; }}"
            middle = folder / f"lib{name}_middle.so"
            shared_object(
                middle, source, soname=middle.name, needed=needed, runpath="$ORIGIN", flags=flags
            )
            needed, calls = [middle], [f"{name}_middle"]
        path = folder / f"_core{_SUFFIX}"
        extension(path, "_core", needed=needed, calls=calls, runpath="$ORIGIN", flags=flags)
        (folder / "__init__.py").write_text(f"{imports}\nfrom . import _core\n")
        rows = {f"{name}/{file.name}": file.read_bytes() for file in folder.iterdir()}
        info = self.site / f"{name}-1.0.dist-info"
        info.mkdir()
        (info / "RECORD").write_text(record_text(rows, f"{info.name}/RECORD"))


def functions(*names: str) -> str:
    """Return C code that defines functions."""
    return "".join(f"int {name}(void) {{ return 1; }}\n" for name in names)


def library_nowhere(site: Site) -> Expected:
    """WF952: a library that is not found."""
    name = site.names[0]
    library = site.library(functions(site.symbol))
    site.install(name, library, [site.symbol])
    (site.site / name / library.name).unlink()
    return Expected("WF952", (f"{name}._core",), (site.soname,))


def symbol_nowhere(site: Site) -> Expected:
    """WF952: a symbol that nothing defines."""
    name, gone = site.names[0], f"{site.symbol}_gone"
    site.install(name, site.library(functions(site.symbol)), [site.symbol, gone])
    return Expected("WF952", (f"{name}._core",), (gone,))


def version_nowhere(site: Site) -> Expected:
    """WF952: a version that the library of today does not define."""
    name, library = site.names[0], site.sources / "a" / site.soname
    stub_library_with_versions(library, site.soname, {"OLD_1": [site.symbol], "NEW_2": ["added"]})
    site.install(name, library, [site.symbol, "added"])
    there = site.site / name / site.soname
    stub_library_with_versions(there, site.soname, {"OLD_1": [site.symbol]})
    return Expected("WF952", (f"{name}._core",), ("NEW_2", site.soname))


def first_soname(site: Site) -> Expected:
    """WF953: the first library of a SONAME lacks a symbol."""
    first, second, _ = site.names
    new = f"{site.symbol}_new"
    site.install(first, site.library(functions(site.symbol)), [site.symbol])
    site.install(second, site.library(functions(site.symbol, new)), [site.symbol, new])
    return Expected("WF953", (f"{first}._core", f"{second}._core"), (new, site.soname))


def first_version(site: Site) -> Expected:
    """WF953: the first library of a SONAME lacks a version."""
    first, second, _ = site.names
    for name, versions in (
        (first, {"V_1": [site.symbol]}),
        (second, {"V_1": [site.symbol], "V_2": ["added"]}),
    ):
        library = site.sources / name / site.soname
        stub_library_with_versions(library, site.soname, versions)
        site.install(name, library, [call for some in versions.values() for call in some])
    return Expected("WF953", (f"{first}._core", f"{second}._core"), ("V_2", site.soname))


def unique_sizes(site: Site) -> Expected:
    """WF954: unique data of two sizes."""
    first, second = sorted(site.names[:2])
    sizes = site.dice.sample(range(8, 200, 8), 2)
    for name, size in zip((first, second), sizes, strict=True):
        source = f"""
        __asm__(".data\\n.globl {site.symbol}\\n.type {site.symbol}, @gnu_unique_object\\n"
            ".size {site.symbol}, {size}\\n{site.symbol}: .zero {size}\\n.text\\n");
        extern char {site.symbol}[];
        int {name}_data(void) {{ return {site.symbol}[0]; }}
        """
        flags = ["-Wl,-Bsymbolic"] if site.dice.random() < 0.3 else []
        site.install(name, site.library(source, f"lib{name}.so", flags), [f"{name}_data"])
    words = (site.symbol, f"{sizes[0]} and {sizes[1]} bytes")
    return Expected("WF954", (f"{first}._core", f"{second}._core"), words)


def preempted(site: Site) -> Expected:
    """WF955: data or code of a library that is opened for all."""
    first, second, _ = site.names
    is_data, sizes = site.dice.random() < 0.5, site.dice.sample(range(8, 200, 8), 2)
    symbol = site.symbol if is_data else f"_ZN3geo{len(site.symbol)}{site.symbol}Ev"
    by_flags = site.dice.random() < 0.5
    for name, size in zip((first, second), sizes, strict=True):
        body = " ".join(f"x += {n} * x;" for n in range(size))
        definition = (
            f"char {symbol}[{size}];"
            if is_data
            else f"static volatile int x; int {symbol}(void) {{ {body} return x; }}"
        )
        use = f"{symbol}[0]" if is_data else f"{symbol}()"
        source = f"{definition} int {name}_uses(void) {{ return {use}; }}"
        opens = _SETS_FLAGS if by_flags else _OPENS_FOR_ALL.format(library=f"lib{name}.so")
        library = site.library(source, f"lib{name}.so", ["-O1"])
        site.install(name, library, [f"{name}_uses"], opens if name == first else "")
    words = (f"{first}/__init__.py", f"`{second}/lib{second}.so` of {second} 1.0 then binds to")
    return Expected("WF955", (first, f"{second}._core"), words)


def static_tls(site: Site) -> Expected:
    """WF956: more static TLS than glibc has."""
    names = site.names[:2]
    sizes = [site.dice.randrange(900, 1500, 16) for _ in names]
    for name, size in zip(names, sizes, strict=True):
        source = f"""
        static __attribute__((tls_model("initial-exec"))) __thread char of_thread[{size}];
        int {name}_uses(void) {{ return of_thread[0]; }}
        """
        site.install(name, site.library(source, f"lib{name}.so"), [f"{name}_uses"])
    largest, other = (n for _, n in sorted(zip(sizes, names, strict=True), key=lambda s: -s[0]))
    words = (f"{sum(sizes):,} bytes",)
    imports = (f"{largest}._core", f"{other}._core")
    return Expected("WF956", imports if sizes[0] != sizes[1] else (), words)


def opened_library(site: Site) -> Expected:
    """WF952: a library that is opened by its path lacks another one."""
    name = site.names[0]
    site.install(name, None, imports=_OPENS.format(library=f"lib{name}.so"))
    other = site.library(functions(site.symbol))
    source = f"int {site.symbol}(void); int {name}_uses(void) {{ return {site.symbol}(); }}"
    path = site.site / name / f"lib{name}.so"
    shared_object(path, source, soname=path.name, needed=[other], runpath="$ORIGIN")
    return Expected("WF952", (name,), (site.soname, f"lib{name}.so"))


def library_path(site: Site) -> Expected:
    """WF959: LD_LIBRARY_PATH has another build."""
    name, other = site.names[0], site.sources / "opt"
    site.install(name, site.library(functions(site.symbol)), [site.symbol])
    code = f"int {site.symbol}(void) {{ return {site.dice.randrange(2, 99)}; }}"
    shared_object(other / site.soname, code, soname=site.soname)
    return Expected("WF959", (f"{name}._core",), (str(other / site.soname),), (str(other),))


MECHANISMS: Mapping[str, Callable[[Site], Expected]] = {
    make.__name__: make
    for make in (
        library_nowhere, symbol_nowhere, version_nowhere, first_soname, first_version,
        unique_sizes, preempted, static_tls, opened_library, library_path,
    )
}  # fmt: skip


def differences(mechanism: str, seed: int, folder: Path) -> Iterator[str]:
    """Yield what doctor does not say of an environment, or the loader does not show."""
    dice = Random(f"{mechanism} {seed}")  # noqa: S311 - random cases, repeatable by their seeds
    site = Site(folder, dice)
    wanted = MECHANISMS[mechanism](site)
    modules = read_modules(site.root, ":".join(wanted.library_path))
    every = find_in_environment(modules, Settings())
    findings = [one for one in every if one.severity > Severity.NOTE]
    named = [one for one in findings if one.code == wanted.code]
    if len(findings) != 1 or not named:
        yield f"found {[(one.code, one.message) for one in findings]}, not {wanted}"
        return
    text, prediction = " ".join([named[0].message, *named[0].notes]), named[0].prediction
    if prediction is None or (wanted.imports and prediction.imports != wanted.imports):
        yield f"{text}: predicted {prediction}, not {wanted}"
        return
    yield from (f"{text}: {word} is not named" for word in wanted.words if word not in text)
    python = python_of(site.root)
    runs = run_imports(python, [prediction], os.environ, wanted.library_path, 60)
    proof = compare(prediction, runs[prediction.imports])
    if proof.outcome is not Outcome.SEEN:
        yield f"{text}: {prediction}: {proof}"


def main() -> int:
    """Make as many environments of each mechanism as asked for."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("names", nargs="*", metavar="MECHANISM", help=", ".join(MECHANISMS))
    parser.add_argument("-n", type=int, default=10, help="number of environments of each")
    parser.add_argument("--first", type=int, default=0, help="the first seed")
    options = parser.parse_args()
    number = 0
    for mechanism in options.names or MECHANISMS:
        for seed in range(options.first, options.first + options.n):
            with tempfile.TemporaryDirectory(prefix="wheelfix-sick-") as folder:
                for line in differences(mechanism, seed, Path(folder)):
                    number += 1
                    print(f"{mechanism} {seed}: {line}", flush=True)
        print(f"{mechanism}: {options.n} environments", flush=True)
    print(f"{number} differences")
    return int(number > 0)


if __name__ == "__main__":
    sys.exit(main())
