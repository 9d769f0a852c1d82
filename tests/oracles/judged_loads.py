"""One judgement of a load: random libraries as a wheel, installed, and in the real loader.

    python -m tests.oracles.judged_loads -n 200 [--first SEED]

Each wheel has a few libraries that need each other, whose symbols and versions are random, and a
package for each that opens it. Compared are what `explain` asks of the wheel and of the
environment, what `check` (WF301, WF304) and `doctor` (WF952) report, and what dlopen does in a
process of its own.
"""

import argparse
import os
import random
import subprocess
import sys
import tempfile
import venv
import zipfile
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from posixpath import basename
from typing import NamedTuple

from tests.oracles.binding import GLIBC_HERE
from tests.oracles.installations.dice import random_code
from tests.oracles.installations.objects import LIBRARY, shared_object
from tests.support.build import make_wheel
from wheelfix.analysis.load_failures import Failure, Lack, LoadJudge
from wheelfix.analysis.world import Installed, World
from wheelfix.environments.read_environment import libraries_of, read_modules, read_site
from wheelfix.host.library_search import GivenLibraries
from wheelfix.host.machine_files import has_string
from wheelfix.loader.as_needed import Library
from wheelfix.loader.targets import find
from wheelfix.rules.context import Context
from wheelfix.rules.undefined_symbols import missing_version, undefined_symbol
from wheelfix.settings import Settings
from wheelfix.wheel.reader import open_wheel

TAG = f"cp3{sys.version_info.minor}-cp3{sys.version_info.minor}-linux_x86_64"
NAMES = ("libwa.so", "libwb.so", "libwc.so", "libwd.so")
OPENS = (
    "import ctypes, os\nctypes.CDLL(os.path.join(os.path.dirname(__file__), '..', 'p', '{name}'))\n"
)


class Judged(NamedTuple):
    """What was said of each library, by name."""

    real: Mapping[str, str]
    """The message of dlopen; empty if it loads."""
    wheel: Mapping[str, tuple[Lack, ...]]
    site: Mapping[str, tuple[Lack, ...]]
    reported: frozenset[str]
    """The libraries whose opening fails by `doctor`."""
    refused: frozenset[str]
    """Those that need versions which another bundled library lacks, by `check`."""
    undefined: frozenset[str]
    """Those that refer to symbols which nothing loaded for them defines, by `check`."""

    def differences(self) -> Iterator[str]:
        """Yield what is not the same everywhere."""
        for name, message in self.real.items():
            for place, lacks in (("wheel", self.wheel[name]), ("site", self.site[name])):
                if bool(lacks) != bool(message):
                    yield f"{name}: the {place} lacks {lacks}, the loader says {message!r}"
            is_excused = any(one.definers for one in self.site[name])
            if (name in self.reported) != bool(message) and not is_excused:
                yield f"{name}: doctor says {name in self.reported}, the loader {message!r}"
            own = {one for one in self.wheel[name] if one.requester.endswith(f"/{name}")}
            versions = {one for one in own if one.failure in _OF_VERSIONS}
            if (name in self.refused) != bool(versions):
                yield f"{name}: check says {name in self.refused}, explain {versions}"
            symbols = {one for one in own if one.failure is Failure.SYMBOL}
            if (name in self.undefined) != bool(symbols):
                yield f"{name}: check says {name in self.undefined}, explain {symbols}"


_OF_VERSIONS = {Failure.VERSION, Failure.UNVERSIONED}


def judged(seed: int, folder: Path, home: Path) -> Judged:
    """Make the wheel of `seed` in `folder`, install it into `home`, and judge it."""
    dice = random.Random(seed)  # noqa: S311 - no secret
    names = NAMES[: dice.randint(2, len(NAMES))]
    files: dict[str, bytes | str | Path] = {}
    for number, name in enumerate(names):
        needed = dice.sample(names[number + 1 :], dice.randint(0, len(names) - number - 1))
        elf = LIBRARY._replace(soname=name, needed=tuple(needed), runpath="$ORIGIN")
        files[f"p/{name}"] = shared_object(elf, random_code(dice, name, needed))
        files[f"q{number}/__init__.py"] = OPENS.format(name=name)
    path = make_wheel(folder, tag=TAG, files=files)
    (site,) = home.glob("lib/python*/site-packages")
    with zipfile.ZipFile(path) as archive:
        archive.extractall(site)
    installed = read_site(home)
    with open_wheel(path) as archive:
        here = Installed(wheel=archive.wheel).on(find(f"glibc:{GLIBC_HERE}", archive.wheel))
        definitions = GivenLibraries(archive=archive, library_path=())
        wheel = dict(_lacks(here, definitions.of_world(here), names))
        context = Context(wheel=archive.wheel, settings=Settings(), definitions=definitions)
        refused = {str(hit.member) for hit in missing_version.check(context)}
        undefined = {str(hit.member) for hit in undefined_symbol.check(context)}
    failures = read_modules(home).failures
    return Judged(
        real={name: _opened(home, site / "p" / name) for name in names},
        wheel=wheel,
        site=dict(_lacks(installed, libraries_of(installed), names)),
        reported=frozenset(basename(path) for path, _ in failures),
        refused=frozenset(map(basename, refused)),
        undefined=frozenset(map(basename, undefined)),
    )


def _lacks(
    world: World, libraries: Mapping[str, Library], names: Iterable[str]
) -> Iterator[tuple[str, tuple[Lack, ...]]]:
    for name in names:
        load = world.load(f"p/{name}")
        judge = LoadJudge.of(world, libraries, [load], has_string)
        yield name, tuple(one for one in judge.lacks(load) if one.is_known)


def _opened(home: Path, path: Path) -> str:
    """Open a library in a process of the environment's Python; return what the loader says."""
    done = subprocess.run(
        [home / "bin/python", "-SIc", f"import ctypes; ctypes.CDLL({str(path)!r})"],
        capture_output=True,
        text=True,
        check=False,
        env={key: value for key, value in os.environ.items() if not key.startswith("LD_")},
    )
    last = (done.stderr.strip().splitlines() or [""])[-1]
    return last or f"exit code {done.returncode}" if done.returncode else ""


def campaign(seeds: Iterable[int]) -> Iterator[str]:
    """Yield what differs for some of `seeds`."""
    with tempfile.TemporaryDirectory(prefix="judged-") as folder:
        for seed in seeds:
            home = Path(folder, str(seed), "env")
            venv.create(home, symlinks=True)
            yield from (
                f"seed {seed}: {text}"
                for text in judged(seed, Path(folder, str(seed)), home).differences()
            )


def main() -> int:
    """Judge as many wheels as asked for."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("-n", type=int, default=200, help="number of wheels")
    parser.add_argument("--first", type=int, default=0, help="the first seed")
    options = parser.parse_args()
    found = list(campaign(range(options.first, options.first + options.n)))
    print("\n".join([*found, f"{options.n} wheels, {len(found)} differences"]))
    return 1 if found else 0


if __name__ == "__main__":
    raise SystemExit(main())
