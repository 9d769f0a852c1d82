"""Libraries that a machine has with its drivers: their lack is a warning, not an error."""

from pathlib import Path

import pytest

from tests.support.build import extension, make_wheel, shared_object
from tests.support.naming import PYTHON, SUFFIX
from wheelfix import check
from wheelfix.analysis.never_bundled import reason_not_to_bundle, reason_to_leave_out
from wheelfix.cli.app import run
from wheelfix.rules.findings import Finding, Severity

TAG = f"{PYTHON}-{PYTHON}-manylinux_2_28_x86_64"


def missing(folder: Path, files: dict[str, str | Path], metadata: str = "") -> list[Finding]:
    """Return what `check` says of libraries that nothing promises."""
    path = make_wheel(folder / "dist", "q", tag=TAG, files=files, metadata=metadata)
    return [f for f in check(path).findings if f.code in {"WF805", "WF827"}]


def lib(folder: Path, name: str, *needed: Path, source: str = "") -> Path:
    text = source or f"int {name.partition('.')[0]}(void) {{ return 1; }}"
    return shared_object(folder / name, text, soname=name, needed=needed)


@pytest.mark.parametrize(
    ("soname", "severity"),
    [
        ("libOpenCL.so.1", Severity.WARNING),
        ("libvulkan.so.1", Severity.WARNING),
        ("libze_loader.so.1", Severity.WARNING),
        ("libva.so.2", Severity.WARNING),
        ("libjack.so.0", Severity.WARNING),
        ("libmpi.so.12", Severity.WARNING),
        ("libOpenCLike.so.1", Severity.ERROR),
        ("libasound.so.2", Severity.ERROR),
        ("libmpi_wrapper.so.1", Severity.ERROR),
        ("libOpenCL-1a2b3c4d.so.1.0.0", Severity.ERROR),  # a graft that is not there
    ],
)
def test_the_lack_of_what_comes_with_a_driver_is_a_warning(
    soname: str, severity: Severity, tmp_path: Path
) -> None:
    library = lib(tmp_path / "x", soname, source="int f(void) { return 1; }")
    module = extension(tmp_path / "m.so", "_m", needed=[library])
    source = "from . import _m\n"
    [found] = missing(tmp_path, {"q/__init__.py": source, f"q/_m{SUFFIX}": module})
    assert found.severity is severity
    assert reason_not_to_bundle(soname) is None  # so that a repair grafts it, as auditwheel does
    assert (reason_to_leave_out(soname) is not None) is (severity is Severity.WARNING)


def test_check_repair_and_explain_know_that_a_loader_of_drivers_comes_with_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """And the command that leaves it to the machine works as it is printed."""
    monkeypatch.chdir(tmp_path)
    loader = lib(tmp_path / "x", "libOpenCL.so.1")
    module = extension(tmp_path / "m.so", "_m", needed=[loader], calls=["libOpenCL"])
    files: dict[str, str | Path] = {"q/__init__.py": "from . import _m\n", f"q/_m{SUFFIX}": module}
    path = make_wheel(Path(), "q", tag=TAG.replace("manylinux_2_28", "linux"), files=files)
    said: list[str] = []
    for words, code in (
        ("check", 1),
        ("repair", 2),
        ("explain", 0),
        ("explain --target=rhel:9", 0),
    ):
        assert run([*words.split(), str(path)]) == code
        said.append("".join(capsys.readouterr()))
    command = f"wheelfix repair --exclude libOpenCL.so.1 {path}"
    for text in said:
        assert f"if another wheel or the user's machine has it: `{command}`" in text
        assert "(it finds the OpenCL drivers of the machine, and is installed with them" in text
    assert "not known: whether the machine has `libOpenCL.so.1`" in said[-1]
    assert run(command.split()[1:]) == 0


@pytest.mark.parametrize(
    ("named", "severity"),
    [(["plug_a"], Severity.ERROR), (["plug_a", "plug_b"], Severity.WARNING)],
)
def test_a_plug_in_of_a_list_is_not_seen_to_be_loaded(
    named: list[str], severity: Severity, tmp_path: Path
) -> None:
    """A library that opens one name needs it; of several it opens the one that is asked for."""
    far = lib(tmp_path / "x", "libfar.so.3")
    texts = ", ".join(f'"lib{name}.so"' for name in named)
    table = f"const char *names[] = {{ {texts} }};"
    host = lib(tmp_path, "libhost.so", source=table)
    files: dict[str, str | Path] = {
        "q/__init__.py": "from . import _m\n",
        f"q/_m{SUFFIX}": extension(tmp_path / "m.so", "_m", needed=[host], runpath="$ORIGIN"),
        "q/libhost.so": host,
    }
    for name in named:
        files[f"q/lib{name}.so"] = lib(tmp_path, f"lib{name}.so", far)
    [found] = missing(tmp_path, files)
    assert (found.entry, found.severity) == ("libfar.so.3", severity)


def test_a_requirement_of_an_extra_may_bring_a_library(tmp_path: Path) -> None:
    frame = lib(tmp_path / "x", "libtensorflow_framework.so.2")
    files: dict[str, str | Path] = {
        "q/__init__.py": "import tensorflow\n",
        f"q/_m{SUFFIX}": extension(tmp_path / "m.so", "_m", needed=[frame]),
    }
    metadata = (
        "Provides-Extra: tensorflow\nProvides-Extra: test\n"
        "Requires-Dist: tensorflow<3; extra == 'tensorflow'\n"
        "Requires-Dist: pytest; extra == 'test'\n"
    )
    [found] = missing(tmp_path, files, metadata)
    assert (found.code, found.severity) == ("WF827", Severity.NOTE)
    assert "`tensorflow`" in found.message
    assert "`wheelfix check --with tensorflow`" in (found.hint or "")


def test_an_extra_with_another_name_brings_nothing(tmp_path: Path) -> None:
    far = lib(tmp_path / "x", "libfar.so.3")
    files: dict[str, str | Path] = {
        "q/__init__.py": "from . import _m\n",
        f"q/_m{SUFFIX}": extension(tmp_path / "m.so", "_m", needed=[far], runpath="$ORIGIN/../far"),
    }
    metadata = "Provides-Extra: test\nRequires-Dist: pytest; extra == 'test'\n"
    [found] = missing(tmp_path, files, metadata)
    assert (found.code, found.severity) == ("WF805", Severity.ERROR)


def test_a_requirement_that_was_not_looked_into_may_have_it(tmp_path: Path) -> None:
    tbb = lib(tmp_path / "x", "libtbb.so.12")
    files: dict[str, str | Path] = {
        "q/__init__.py": "from . import _m\n",
        f"q/_m{SUFFIX}": extension(tmp_path / "m.so", "_m", needed=[tbb]),
    }
    [found] = missing(tmp_path, files, "Requires-Dist: openvino\n")
    assert (found.hint or "").startswith("`wheelfix check --deps` says whether it is in `openvino`")
