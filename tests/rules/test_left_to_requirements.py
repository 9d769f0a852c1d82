"""What a wheel leaves to its requirements: one note, and no error about it."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.support.build import extension, make_wheel, shared_object
from tests.support.environment import ENVIRON
from tests.support.providers import SUFFIX, TAG, asked, dependent_wheel, provider_wheel
from tests.support.repairing import repair
from tests.support.values import apply_fixes, context_of, elf, findings, wheel
from wheelfix import Settings, check
from wheelfix.providers.model import Provided
from wheelfix.reports.check_content import advice, target_statuses
from wheelfix.rules.findings import Finding, Severity
from wheelfix.rules.left_to_requirements import left_to_requirements
from wheelfix.rules.registry import RULES
from wheelfix.rules.run_rules import run_rules
from wheelfix.rules.search_paths import dead_entry

MANYLINUX = TAG.replace("linux_", "manylinux_2_17_")
CORE = "demo/_core.so"
PREFIXED = "cmeel.prefix/lib/python3.11/site-packages/demo/_core.so"


def about_the_unknown(path: Path, **settings: object) -> list[Finding]:
    """Return the findings but for those about hardening, size and the like."""
    found = check(path, Settings(**settings)).findings  # type: ignore[arg-type]
    shown = [finding for finding in found if finding.code < "WF5" or finding.code > "WF8"]
    assert not [finding for finding in shown if finding.severity is Severity.ERROR] or settings
    return shown


def demo(folder: Path, tag: str, module: Path, metadata: str, source: str = "") -> Path:
    files: dict[str, str | Path] = {"demo/__init__.py": source, f"demo/_core{SUFFIX}": module}
    return make_wheel(folder, tag=tag, files=files, metadata=metadata)


@pytest.mark.parametrize(
    ("library", "runpath", "requires", "likely"),
    [
        ("libQt6Core.so.6", "$ORIGIN/Qt6/lib", ["PyQt6-sip", "PyQt6-Qt6"], "PyQt6-Qt6"),
        ("libpyvex.so", "$ORIGIN/../pyvex/lib", ["archinfo", "pyvex"], "pyvex"),
        ("libz3.so.5.3", "$ORIGIN/../z3/lib", ["pyvex", "z3-solver"], "z3-solver"),
        ("libany.so", "$ORIGIN/../far/lib", ["one"], "one"),
        ("libonnxruntime.so", "$ORIGIN", ["demo-core==1.0"], "demo-core"),
        ("libonedal.so.2", "$ORIGIN/../../..", ["dem==1.0"], "dem"),
        ("libQt6Gui.so.6", "$ORIGIN/Qt6/lib", ["PyQt6-sip", "PyQt6"], "PyQt6"),
        ("libonedal.so.2", "$ORIGIN/../../..", ["numpy", "daal==2"], "daal"),
        ("libpyvex.so", None, ["pyvex"], "pyvex"),
        ("libpyvex-1e72bdae.so", "$ORIGIN/../pyvex.libs", ["pyvex"], "pyvex"),
        ("libtorch.so", None, ["numpy", "torch>=2"], "torch"),
        ("libeigenpy.so", "$ORIGIN/../../..", ["cmeel", "libpinocchio==1.0"], "cmeel"),
        ("libeigboost.so", "$ORIGIN/../../..", ["cmeel", "cmeel-eigboost"], "cmeel-eigboost"),
        ("libeig.so", "$ORIGIN/../../..", ["cmeel", "libeig"], "libeig"),
    ],
)
def test_a_requirement_that_may_bring_the_library(
    library: str, runpath: str | None, requires: list[str], likely: str
) -> None:
    members = {"libQt6": "PyQt6/QtCore.abi3.so", "libeig": PREFIXED}
    member = members.get(library[:6], CORE)
    subject = wheel({member: elf(library, runpath=runpath)}, metadata=asked(*requires))
    (found,) = findings(left_to_requirements, subject)
    assert found.severity is Severity.NOTE
    assert f"`{likely}`" in found.message
    assert f"`{library}`" in found.message
    (found,) = findings(left_to_requirements, subject, fail_on_unknown=True)
    assert found.severity is Severity.ERROR


@pytest.mark.parametrize(
    ("runpath", "sources", "severity"),
    [
        (None, {"__init__": "from demo import _core"}, Severity.ERROR),
        (None, {"__init__": "from demo import cublas_of_nvidia as x"}, Severity.ERROR),
        ("$ORIGIN/../lost", {"__init__": "x"}, Severity.ERROR),
        ("$ORIGIN/../nvidia/cublas/lib", {"__init__": "x"}, Severity.NOTE),
        (None, {"__init__": "import nvidia.cublas"}, Severity.NOTE),
        (None, {"__init__": "from ._load import f", "_load": "import nvidia"}, Severity.NOTE),
        (None, {"__init__": "from cuda.p import load; load('cuBLAS')"}, Severity.NOTE),
        (None, {}, Severity.NOTE),
    ],
)
def test_a_known_library_that_nothing_leads_to_is_an_error(
    runpath: str | None, sources: dict[str, str], severity: Severity, tmp_path: Path
) -> None:
    """Who imports the requirement in any source, not in `__init__.py` alone, has it loaded."""
    library = shared_object(tmp_path / "libcublas.so.12", soname="libcublas.so.12")
    core = extension(tmp_path / "core.so", "_core", needed=[library], runpath=runpath)
    files: dict[str, str | Path] = {f"demo/{name}.py": text for name, text in sources.items()}
    files[f"demo/_core{SUFFIX}"] = core
    required, is_wrong = "Requires-Dist: nvidia-cublas-cu12\n", severity is Severity.ERROR
    made = make_wheel(tmp_path, tag=MANYLINUX, files=files, metadata=required)
    (found,) = check(made, Settings(select=("WF827",))).findings
    assert found.severity is severity
    excluded = check(made, Settings(select=("WF827",), exclude=("libcublas*",))).findings
    assert [f.severity for f in excluded] == [Severity.WARNING] * is_wrong
    for other in ("other", "torch"):  # that may load it before, and torch does
        metadata = f"{required}Requires-Dist: {other}\n"
        beside = make_wheel(tmp_path / other, tag=MANYLINUX, files=files, metadata=metadata)
        (unsure,) = check(beside, Settings(select=("WF827",))).findings
        assert unsure.severity is (Severity.WARNING if is_wrong else severity)
    option = "wheelfix repair --provider nvidia-cublas-cu12`"
    assert (option in (found.hint or "")) is is_wrong
    has = "`nvidia-cublas-cu12` has `libcublas.so.12`"
    known = f"{has}, and no search path leads there"
    expected = known if is_wrong else f"whether {has} is not known"
    assert found.message == expected


def test_what_the_loaded_library_of_a_requirement_brings_is_not_known() -> None:
    """As `librmm`, whose requirement has the logger that `rmm` needs, too."""
    loads = "try:\n    import libdemo\nexcept ImportError:\n    pass\nelse:\n    {}\n"
    for call, number in (("libdemo.load_library()", 1), ("libdemo.version()", 0)):
        subject = replace(
            wheel({CORE: elf("liblogger.so")}, metadata=asked("libdemo-cu12")),
            sources={"demo/__init__.py": loads.format(call).encode()},
        )
        assert len(findings(left_to_requirements, subject)) == number


@pytest.mark.parametrize(
    ("library", "runpath", "requires"),
    [
        ("libany.so", "$ORIGIN/../far/lib", []),
        ("libany.so", "$ORIGIN/../far/lib", ["demo"]),
        ("libany.so", "$ORIGIN/../far/lib", ['one; sys_platform == "win32"']),
        ("libany.so", "$ORIGIN", ["one"]),
        ("libany.so", "$ORIGIN", ["demo-core==2.0"]),
        ("libany.so", "$ORIGIN", ["other-core==1.0"]),
        ("libany.so", "/opt/lib", ["one"]),
        ("libm.so.6", "$ORIGIN/../far/lib", ["one"]),
        ("libcuda.so.1", "$ORIGIN/../far/lib", ["one"]),
        ("libany-1e72bdae.so.1", "$ORIGIN/../demo.libs", ["one"]),
        ("libany-1e72bdae.so.1", "$ORIGIN/../demo.libs", ["demo-core==1.0"]),
        ("libany-1e72bdae.so.1", "$ORIGIN/../far/lib", ["any"]),
        ("libany-1e72bdae.so.1", None, ["any"]),
    ],
)
def test_nothing_is_left_to_requirements_that_cannot_bring_it(
    library: str, runpath: str | None, requires: list[str]
) -> None:
    subject = wheel({CORE: elf(library, runpath=runpath)}, metadata=asked(*requires))
    assert not findings(left_to_requirements, subject)


@pytest.mark.parametrize(
    ("others", "is_shared"),
    [
        (["pre.fix/include/demo.h"], True),
        (["pre.fix/share/doc"], True),
        (["pre.fix/lib/cmake/demo.cmake"], True),
        ([], True),
        (["pre.fix/demo.py"], False),
        (["pre.fix/include/demo.h", "pre.fix/__init__.py"], False),
        (["demo-1.0.data/data/include/demo.h", "pre.fix/py.typed"], False),
    ],
)
def test_other_wheels_fill_the_lib_of_a_prefix_too(others: list[str], *, is_shared: bool) -> None:
    """hpp_fcl has a library in `cmeel.prefix/lib`, and liboctomath is there, of cmeel-octomap."""
    library = "pre.fix/lib/libdemo.so"
    made = {library: elf("libany.so", runpath="$ORIGIN")}
    sources = {name: b"" for name in others if name.endswith(".py")}
    subject = wheel(made, *others, metadata=asked("one"), sources=sources)
    assert len(findings(left_to_requirements, subject)) == is_shared


def test_all_libraries_are_one_note() -> None:
    objects = {
        f"demo/_{n}.so": elf(*(f"lib{n}{m}.so" for m in range(9)), runpath="$ORIGIN/../pro/lib")
        for n in range(4)
    }
    (found,) = findings(left_to_requirements, wheel(objects, metadata=asked("pro")))
    assert "and 34 more" in found.message


def test_the_entry_stays_that_leads_to_the_requirement() -> None:
    path = "$ORIGIN/Qt6/lib"
    objects = {"demo/_core.so": elf("libqt.so", runpath=path), "demo/_new.so": elf(runpath=path)}
    required, alone = wheel(objects, metadata=asked("demo-qt6")), wheel(objects)
    assert not findings(dead_entry, required)
    assert len(findings(dead_entry, alone)) == 2
    after, _ = apply_fixes(required, RULES, Settings())
    assert [found.runpath for found in after.elfs.values()] == [path, path]


def test_a_wheel_with_its_library_in_a_requirement_has_no_error(tmp_path: Path) -> None:
    library = provider_wheel(tmp_path, "int pro(void) { return 7; }").parents[1] / "2.0"
    module = extension(
        tmp_path / f"_core{SUFFIX}",
        "_core",
        needed=[library / "libpro.so.3"],
        calls=["pro"],
        runpath="$ORIGIN/../pro/lib",
    )
    path = demo(tmp_path, MANYLINUX, module, "Requires-Dist: pro>=2\n")
    (found,) = about_the_unknown(path)
    assert found.code == "WF827"
    assert advice(found, "x/a.whl") == "`wheelfix check --deps x/a.whl` decides it"
    (found,) = about_the_unknown(path, fail_on_unknown=True)
    assert found.severity is Severity.ERROR
    url = "Requires-Dist: pro @ https://example.org/pro-2.0-py3-none-any.whl\n"
    (found,) = about_the_unknown(demo(tmp_path / "url", MANYLINUX, module, url))
    assert found.hint is None, "`--deps` follows no URL"


def test_no_requirement_is_named_beside_one_that_was_looked_into() -> None:
    """PyQt6-sip is not asked for a library of Qt, to which the search path of PyQt6-Qt6 leads."""
    asking = elf("libQt6StateMachine.so.6", runpath="$ORIGIN/Qt6/lib")
    subject = wheel({"PyQt6/Qt.abi3.so": asking}, metadata=asked("PyQt6-sip", "PyQt6-Qt6"))
    shown = Provided(requirement="PyQt6-Qt6", version="6.9")
    context = replace(context_of(subject, Settings()), providers=(shown,))
    (found,) = run_rules(context, [left_to_requirements])
    assert found.message == "whether a requirement has `libQt6StateMachine.so.6` is not known"


GLOBAL = """import ctypes
from numkong import _numkong
ctypes.CDLL(_numkong.__file__, mode=ctypes.RTLD_GLOBAL)
from demo._core import value
"""


@pytest.mark.parametrize(
    ("source", "requires", "code"),
    [
        (GLOBAL, "numkong", "WF827"),
        (GLOBAL, "numpy", "WF301"),
        (GLOBAL.replace("RTLD_GLOBAL", "RTLD_LOCAL"), "numkong", "WF301"),
        ("import numkong", "numkong", "WF301"),
    ],
)
def test_symbols_of_a_module_that_is_opened_for_all(
    tmp_path: Path, source: str, requires: str, code: str
) -> None:
    module = extension(tmp_path / f"_core{SUFFIX}", "_core", calls=["nk_capabilities"])
    path = demo(tmp_path, MANYLINUX, module, f"Requires-Dist: {requires}\n", source)
    (found,) = (f for f in check(path, Settings()).findings if f.code in {"WF301", "WF827"})
    assert found.code == code
    assert "nk_capabilities" in found.message


def test_a_repair_does_not_graft_what_a_requirement_brings(tmp_path: Path) -> None:
    provider_wheel(tmp_path, "int pro(void) { return 7; }")
    library = tmp_path / "2.0" / "libpro.so.3"
    path = dependent_wheel(tmp_path, library, requires="pro")
    environ = {**ENVIRON, "LD_LIBRARY_PATH": str(library.parent)}
    outcome = repair(path, Settings(wheel_dir=tmp_path / "a"), environ, folder=tmp_path)
    assert outcome.grafted, "no search path leads to it"
    module = extension(
        tmp_path / f"_core{SUFFIX}",
        "_core",
        needed=[library],
        calls=["pro"],
        runpath="$ORIGIN/../pro/lib",
    )
    path = demo(tmp_path / "b", TAG, module, "Requires-Dist: pro\n")
    outcome = repair(path, Settings(wheel_dir=tmp_path / "c"), environ, folder=tmp_path)
    assert not outcome.grafted
    assert [(one.library, one.provider) for one in outcome.absent] == [("libpro.so.3", "pro")]
    assert outcome.after is not None
    assert outcome.after.elfs[f"demo/_core{SUFFIX}"].entries == ("$ORIGIN/../pro/lib",)


@pytest.mark.parametrize("requires", ["pro", ""])
def test_a_target_does_not_tell_whether_what_others_bring_is_found(
    tmp_path: Path, requires: str
) -> None:
    neighbor = provider_wheel(tmp_path, "int pro(void) { return 7; }")
    folder = tmp_path / "built"
    path = dependent_wheel(folder, tmp_path / "2.0" / "libpro.so.3", requires=requires)
    path = path.rename(path.with_name(path.name.replace(TAG, MANYLINUX)))

    def loads(at: Path = path, **settings: Any) -> str:
        target = "glibc:2.28"
        return target_statuses(check(at, Settings(target=(target,), **settings)))[target]

    assert loads() == ("not known" if requires else "no")
    assert loads(exclude=("libpro.so.3",)) == "not known"
    beside = (str(neighbor),)
    assert loads(neighbors=beside) == "no"
    chosen = Settings(wheel_dir=tmp_path / "out", neighbors=beside, add_requires=True)
    led = repair(path, chosen, ENVIRON, folder=tmp_path).output
    assert led is not None
    assert loads(led, neighbors=beside) == "ok"
