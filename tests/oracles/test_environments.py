"""Bindings in random environments: what doctor predicts is what the loader binds."""

import os
import sysconfig
import venv
from collections import Counter
from pathlib import Path

import pytest

from tests.oracles.environments import published, sick
from tests.oracles.environments.fidelity import LOADER, a_program, differences
from tests.support.build import extension, record_text


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    if os.uname().machine != "x86_64" or not LOADER.exists():
        pytest.skip("the objects are written for x86-64 and glibc")
    return a_program(tmp_path_factory.mktemp("programs"))


def test_bindings_of_random_environments(program: Path, tmp_path: Path) -> None:
    counts = Counter[str]()
    for seed in range(10, 15):
        assert list(differences(seed, tmp_path / str(seed), program, counts)) == []
    assert counts["to other distributions"] > 8
    assert counts["failures"] > 1


@pytest.mark.parametrize("mechanism", ["first_soname", "preempted"])
def test_a_made_fault_is_named_and_shown(mechanism: str, tmp_path: Path) -> None:
    assert list(sick.differences(mechanism, 0, tmp_path)) == []


def test_an_object_that_is_opened_for_all_after_others_were_bound(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """So usearch opens numkong: what is imported in between has no use of its symbols.

    Nor has what refers to a symbol for the linker alone (`_ZSt21ios_base_library_initv` of pyarrow
    beside kuzu).
    """
    alone = "for_the_linker"
    venv.create(tmp_path / "venv", symlinks=True)
    (site,) = tmp_path.glob("venv/lib/python*/site-packages")
    opens = "import ctypes, a._core\nctypes.CDLL(a._core.__file__, ctypes.RTLD_GLOBAL)\n"
    for name, code, imports in (
        ("a", f"int shared(void) {{ return 1; }} void {alone}(void) {{}}", ""),
        ("b", "extern int shared(void) __attribute__((weak));", ""),
        ("c", "extern int shared(void) __attribute__((weak));", opens),
    ):
        uses = (
            f'__asm__(".globl {alone}"); {code} int (*{name}_uses(void))(void) {{ return shared; }}'
        )
        suffix = sysconfig.get_config_var("EXT_SUFFIX")
        (tmp_path / f"{name}.h").write_text(uses)
        flags = ["-include", str(tmp_path / f"{name}.h")]
        extension(site / name / f"_core{suffix}", "_core", flags=flags)
        (site / name / "__init__.py").write_text(f"{imports}from . import _core\n")
        info = site / f"{name}-1.0.dist-info"
        info.mkdir()
        rows = {f"{name}/_core{suffix}": (site / name / f"_core{suffix}").read_bytes()}
        (info / "RECORD").write_text(record_text(rows, f"{info.name}/RECORD"))
    assert list(published.differences(tmp_path / "venv")) == []
    first, second = capsys.readouterr().out.splitlines()
    assert first == "venv: 3 imports, 1 bindings between distributions"  # of c, not of b
    assert second == "venv: 3 imports, 2 bindings between distributions"
