"""The TVM report in small: a second libtvm.so, predicted by `explain` and seen by `trace`.

The package searches TVM_LIBRARY_PATH, LD_LIBRARY_PATH and PATH before its own folder, as TVM did;
`scripts/tvm.py` does the same with the published wheels.
"""

import json
import os
import subprocess
import sys
import venv
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from tests.support.build import make_wheel, shared_object

SEARCHES = """
import ctypes, os

def split_env_var(name):
    return [each for each in os.environ.get(name, "").split(":") if each]

def find_lib_path():
    folders = []
    if os.environ.get("TVM_LIBRARY_PATH"):
        folders.append(os.environ["TVM_LIBRARY_PATH"])
    folders.extend(split_env_var("LD_LIBRARY_PATH"))
    folders.extend(split_env_var("PATH"))
    folders.append(os.path.join(os.path.dirname(os.path.realpath(__file__)), "lib"))
    found = [os.path.join(folder, "libtvm.so") for folder in folders]
    return [path for path in found if os.path.isfile(path)]

LIBRARY = ctypes.CDLL(find_lib_path()[0])
"""
SYSTEM = """
set -e
mount -t tmpfs none /usr/local/lib
cp "$PLANTED"/*.so /usr/local/lib/
PATH=$PATH:/usr/sbin:/sbin ldconfig -C "$PLANTED/cache"
mount --bind "$PLANTED/cache" /etc/ld.so.cache
exec "$@"
"""
NAMESPACE = ("unshare", "--mount", "--propagation", "private")
OWN, PLANTED = "own", "planted"


class Package:
    """The package in a virtual environment, and second copies of its libraries."""

    def __init__(self, root: Path, form: str) -> None:
        venv.create(root / "venv", symlinks=True)
        (self.site,) = (root / "venv/lib").glob("python*/site-packages")
        runtime = shared_object(self.lib / "libtvm_runtime.so", soname="libtvm_runtime.so")
        search_path = {form: "$ORIGIN"}
        shared_object(
            self.lib / "libtvm.so",
            "int g;",
            soname="libtvm.so",
            needed=[runtime],
            **search_path,  # type: ignore[arg-type]  # `rpath` or `runpath`
        )
        (self.lib.parent / "__init__.py").write_text(SEARCHES)
        self.root, self.python = root, root / "venv/bin/python"

    @property
    def lib(self) -> Path:
        return self.site / "smalltvm" / "lib"

    def plant(self, name: str) -> Path:
        """Put a second copy into a folder of its own, which is returned."""
        return shared_object(self.root / "planted" / name, soname=name).parent

    def whose(self, path: str) -> str:
        return OWN if path.startswith(f"{self.lib}/") else PLANTED

    def predicted(self, name: str, within: Sequence[str], **variables: str) -> str:
        env = [word for key, value in variables.items() for word in ("--env", f"{key}={value}")]
        site = self.root / "venv"
        said = self.run(
            within, "explain", "--output-format=json", "--site", site, "libtvm.so", *env
        )
        found: dict[str, Any] = json.loads(said.stdout)["explanations"][0]
        if name == "libtvm.so":
            chosen = [choice["path"] for choice in found["opened_by_python"]]
            return self.whose(chosen[0])
        return self.whose(next(r["path"] for r in found["requests"] if r["name"] == name))

    def seen(self, name: str, within: Sequence[str], **variables: str) -> str:
        report = self.root / "report"
        command = (
            "trace",
            "--output-format=json",
            "-o",
            report,
            "--",
            self.python,
            "-c",
            "import smalltvm",
        )
        self.run(within, *command, **variables)
        processes = json.loads(report.read_text())["processes"]
        loaded = [library for process in processes for library in process["loaded"]]
        (found,) = (e for e in loaded if e["path"].rpartition("/")[2] == name)
        return self.whose(found["file"]["path"])

    def run(
        self, within: Sequence[str], *arguments: str | Path, **variables: str
    ) -> subprocess.CompletedProcess[str]:
        path = os.pathsep.join(filter(None, sys.path))
        clean = {"PATH": os.environ["PATH"], "PYTHONPATH": path, "PLANTED": f"{self.root}/planted"}
        command = [*within, sys.executable, "-m", "wheelfix", *arguments]
        return subprocess.run(
            command, env={**clean, **variables}, capture_output=True, text=True, check=False
        )


@pytest.mark.parametrize("form", ["runpath", "rpath"])
@pytest.mark.parametrize("name", ["libtvm.so", "libtvm_runtime.so"])
@pytest.mark.parametrize("variable", ["PATH", "LD_LIBRARY_PATH", "TVM_LIBRARY_PATH"])
def test_explain_predicts_which_copy_trace_sees(
    tmp_path: Path, variable: str, name: str, form: str
) -> None:
    package = Package(tmp_path, form)
    folder = str(package.plant(name))
    given = {variable: f"{folder}:{os.environ['PATH']}" if variable == "PATH" else folder}
    predicted, seen = package.predicted(name, (), **given), package.seen(name, (), **given)
    # The library that Python code opens by its path is any variable's; the one that it needs is
    # the loader's: LD_LIBRARY_PATH comes after DT_RPATH and before DT_RUNPATH.
    if name == "libtvm.so":
        expected = PLANTED
    else:
        expected = PLANTED if (variable, form) == ("LD_LIBRARY_PATH", "runpath") else OWN
    assert (predicted, seen) == (expected, expected)


def may_mount() -> bool:
    command = [*NAMESPACE, "mount", "-t", "tmpfs", "none", "/usr/local/lib"]
    try:
        return subprocess.run(command, capture_output=True, check=False).returncode == 0
    except OSError:
        return False


@pytest.mark.parametrize("form", ["runpath", "rpath", None])
def test_a_copy_in_a_system_directory_is_predicted_too(tmp_path: Path, form: str | None) -> None:
    if not may_mount():
        pytest.skip("needs a mount namespace of its own")
    package = Package(tmp_path, form or "runpath")
    if form is None:  # nothing leads to its own folder
        shared_object(package.lib / "libtvm.so", needed=[package.lib / "libtvm_runtime.so"])
    package.plant("libtvm_runtime.so")
    within = (*NAMESPACE, "sh", "-c", SYSTEM, "sh")
    expected = OWN if form else PLANTED
    assert package.predicted("libtvm_runtime.so", within) == expected
    assert package.seen("libtvm_runtime.so", within) == expected


def test_the_text_says_which_copy_by_which_rule_and_what_would_change_it(tmp_path: Path) -> None:
    package = Package(tmp_path, "rpath")
    wheel = make_wheel(
        tmp_path,
        name="smalltvm",
        tag="py3-none-linux_x86_64",
        files={
            "smalltvm/__init__.py": SEARCHES,
            "smalltvm/lib/libtvm.so": package.lib / "libtvm.so",
            "smalltvm/lib/libtvm_runtime.so": package.lib / "libtvm_runtime.so",
        },
    )
    planted = package.plant("libtvm.so")
    for subject in (("--site", tmp_path / "venv", "libtvm.so"), (wheel, "libtvm.so")):
        said = package.run((), "explain", *subject, "--env", f"PATH={planted}").stdout
        assert "smalltvm/__init__.py looks for it in TVM_LIBRARY_PATH (line 10)" in said
        assert f"`libtvm.so` => {planted}/libtvm.so  [PATH {planted}]" in said
        assert f"remove {planted} from PATH, or set TVM_LIBRARY_PATH to the folder" in said
        why = ("--env", f"PATH={planted}", "--why-not", "smalltvm/lib/libtvm.so")
        answer = package.run((), "explain", *subject, *why).stdout
        assert f"looks in PATH {planted} first, and opens `{planted}/libtvm.so`" in answer
        without = package.run((), "explain", *subject).stdout
        assert "`libtvm.so` => smalltvm/lib/libtvm.so  [its own folders]" in without
        assert "if a directory of TVM_LIBRARY_PATH or LD_LIBRARY_PATH or PATH holds" in without
