"""Paths may be spelled in any way that leads to the file."""

import os
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from tests.support.build import ONE_FUNCTION, make_wheel, shared_object
from tests.support.odd_paths import spelled
from tests.support.providers import provider_wheel
from wheelfix.analysis.explain import explain
from wheelfix.analysis.installation import find_subject
from wheelfix.host.library_definitions import GivenLibraries, HostLibraries
from wheelfix.host.provider_lookup import with_providers
from wheelfix.host.site import read_planted, read_site
from wheelfix.settings import Provider, Settings
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

    def read(text: str) -> object:
        given = Settings(provider=(Provider(source=text),))
        found = with_providers(given, Path())
        return replace(found, provider=tuple(replace(p, source="") for p in found.provider))

    alike(path, tmp_path, read)


@pytest.mark.parametrize("kind", ["library_path", "wheel", "ldpaths", "LD_LIBRARY_PATH", "rpath"])
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
            environ, settings, dependent = dict[str, str](), Settings(), elf
            match kind:
                case "ldpaths":
                    settings = Settings(ldpaths=text)
                case "LD_LIBRARY_PATH":
                    environ = {"LD_LIBRARY_PATH": text}
                case "rpath":
                    dependent = replace(elf, rpath=str(Path.cwd() / text) + "//", runpath=None)
                case _:
                    settings = Settings(library_path=(text,))
            host = HostLibraries if kind not in {"library_path", "wheel"} else GivenLibraries
            known = host(archive=archive, settings=settings, environ=environ)
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
        found = explain(world, find_subject(world, "a.so")[0])
        return world.where, world.members, [step.request.result for step in found.steps]

    alike(site, tmp_path, read)
