"""Paths may be spelled in any way that leads to the file."""

import os
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from random import Random

import pytest

from tests.support.build import ONE_FUNCTION, make_wheel, shared_object
from tests.support.loads import load
from tests.support.odd_paths import spelled
from tests.support.providers import provider_wheel
from wheelfix.analysis.explain import explain
from wheelfix.analysis.load_failures import LoadJudge
from wheelfix.analysis.world import find_subject
from wheelfix.environments.read_environment import read_site
from wheelfix.host.library_search import GivenLibraries, HostLibraries
from wheelfix.host.provider_lookup import find_providers
from wheelfix.host.reachable_files import read_planted, read_process
from wheelfix.settings import ProviderSetting
from wheelfix.wheel.reader import open_wheel

SPELLINGS = 60


def alike(path: Path, scratch: Path, read: Callable[[str], object]) -> None:
    """Hold what is read by many spellings to what is read by the plain path."""
    plain = read(str(path))
    for seed in range(SPELLINGS):
        text = spelled(path, scratch, seed)
        assert os.path.realpath(text) == os.path.realpath(path), text
        assert read(text) == plain, text


@pytest.mark.parametrize("kind", ["wheel", "directory", "directory of wheels"])
def test_a_provider(tmp_path: Path, kind: str) -> None:
    wheel = provider_wheel(tmp_path / "providers", ONE_FUNCTION)
    library = tmp_path / "providers/2.0/libpro.so.3"
    path = {"wheel": wheel, "directory": library.parent}.get(kind, wheel.parent)

    with open_wheel(wheel) as archive:
        subject = archive.wheel

    def read(text: str) -> object:
        found = find_providers((ProviderSetting(source=text),), subject)
        return tuple(replace(provider, setting=None) for provider in found)

    alike(path, tmp_path, read)


@pytest.mark.parametrize("kind", ["library_path", "wheel", "LD_LIBRARY_PATH", "rpath"])
def test_a_library_path(tmp_path: Path, kind: str) -> None:
    library = shared_object(tmp_path / "some/libs/libone.so")
    dependent = shared_object(tmp_path / "dependent.so", "int g(void);", needed=[library])
    wheel = make_wheel(tmp_path, tag="py3-none-any", files={"demo/a.so": dependent})
    other = make_wheel(tmp_path, "other", files={"other/libone.so": library})
    with open_wheel(wheel) as archive:
        elf = archive.wheel.elfs["demo/a.so"]

        def read(text: str) -> object:
            if "$" in text and kind in {"LD_LIBRARY_PATH", "rpath"}:
                return str(library)  # `$ORIGIN` has a meaning there
            environ, library_path, dependent = dict[str, str](), "", elf
            match kind:
                case "LD_LIBRARY_PATH":
                    environ = {"LD_LIBRARY_PATH": str(Path.cwd() / text)}
                case "rpath":
                    dependent = elf._replace(rpath=str(Path.cwd() / text) + "//", runpath=None)
                case _:
                    library_path = text
            given = GivenLibraries(
                archive=archive, library_path=tuple(filter(None, [library_path]))
            )
            host = HostLibraries(archive=archive, library_path=(), environ=environ)
            known = host if kind not in {"library_path", "wheel"} else given
            found = known.host("libone.so", dependent)
            return found and found.path

        alike(other if kind == "wheel" else library.parent, tmp_path, read)


def test_a_site_and_its_planted_directories(tmp_path: Path) -> None:
    site = tmp_path / "lib/python3.11/site-packages"
    library = shared_object(site / "demo.libs/libone.so", runpath="$ORIGIN/../demo.libs")
    shared_object(
        site / "demo/a.so", "int g(void);", needed=[library], runpath="$ORIGIN/../demo.libs"
    )
    alike(
        library.parent,
        tmp_path,
        lambda text: read_planted(
            [f"{Path.cwd()}/{text}" if not text.startswith("/") else text]
        ).files.keys(),
    )

    def read(text: str) -> object:
        world = read_site(Path(text))
        found = explain(LoadJudge(world=world), find_subject(world, "a.so")[0])
        return world.where, world.members, [step.request.result for step in found.steps]

    alike(site, tmp_path, read)


_ENTRIES = [
    "$ORIGIN",
    "$ORIGIN/.",
    "$ORIGIN/../d0",
    "${ORIGIN}/..//d1",
    "$ORIGIN/../d2/../d1",
    "$ORIGIN/../d2/../d2/",
    "$ORIGIN/self",
    "$ORIGIN/self/self/../d0",
    "$ORIGIN/up/d1",
    "$ORIGIN/../linked",
    "$ORIGIN/../linked/../d1",
    "$ORIGIN/../loop/d0",
    "$ORIGIN/../nowhere/../d0",
    "$ORIGIN/../a b",
    "$ORIGIN/../../../../../../../../../..$ORIGIN/../d2",
]
_NEEDED = {"liba.so": ["libb.so", "libc_.so"], "libb.so": ["libd.so"], "libc_.so": ["libd.so"]}
_OPENED = """
import ctypes, os, sys
for path in sys.argv[2:]:
    if os.fork():
        os.wait()
        continue
    files = set()
    try:
        ctypes.CDLL(path)
        with open("/proc/self/maps") as maps:
            files = {line.split(maxsplit=5)[-1].strip() for line in maps}
    except OSError:
        pass
    print("|".join(sorted(file for file in files if file.startswith(sys.argv[1]))), flush=True)
    os._exit(0)
"""


@pytest.fixture(scope="module")
def templates(tmp_path_factory: pytest.TempPathFactory) -> dict[str, bytes]:
    """Libraries that need each other, with room for a long RUNPATH."""
    folder = tmp_path_factory.mktemp("templates")
    made: dict[str, Path] = {}
    for name in ("libd.so", "libc_.so", "libb.so", "liba.so"):
        needed = [made[other] for other in _NEEDED.get(name, [])]
        source = f"int {name[:4]}(void) {{ return 1; }}"
        made[name] = shared_object(
            folder / name, source, soname=name, needed=needed, runpath="R" * 200, libc=False
        )
    return {name: path.read_bytes() for name, path in made.items()}


@pytest.mark.each_run("0")
@pytest.mark.parametrize("first", range(0, 64, 16))
def test_search_paths_that_lead_anywhere(
    first: int, tmp_path: Path, templates: dict[str, bytes]
) -> None:
    """Random folders, links and entries: the loader opens what is predicted for it."""
    roots: list[Path] = []
    for seed in range(first, first + 16):
        dice = Random(seed)  # noqa: S311 - no secrecy
        root = tmp_path / f"case{seed}"
        folders = [root / name for name in ("d0", "d1", "d2", "a b")]
        for folder in folders:
            folder.mkdir(parents=True)
            (folder / "self").symlink_to(".")
            (folder / "up").symlink_to("..")
        (root / "linked").symlink_to(dice.choice(["d1", "d2/../d0", str(root / "d2")]))
        (root / "loop").symlink_to(".")
        for name, data in templates.items():
            places = dice.sample(folders, dice.randint(1, 3))
            for folder in places if name != "liba.so" else folders[:1]:
                entries = ":".join(dice.sample(_ENTRIES, dice.randint(1, 4))).encode()
                (folder / name).write_bytes(data.replace(b"R" * 200, entries.ljust(200, b"\0")))
        roots.append(root / "d0/liba.so")
    command = [sys.executable, "-c", _OPENED, f"{tmp_path}/", *map(str, roots)]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    answers = [line.split("|") if line else [] for line in done.stdout.splitlines()]
    for path, opened in zip(roots, answers, strict=True):
        environment = read_process(os.path.realpath(sys.executable), [str(path)])
        predicted = load(str(path), environment)
        objects = sorted(file for file in predicted.objects if file.startswith(f"{tmp_path}/"))
        assert (objects if not predicted.missing else []) == opened, path
    assert 0 < sum(map(bool, answers)) < 16
