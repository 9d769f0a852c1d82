"""Count the ELF objects of wheels that load on this machine, once installed.

    python scripts/loadable.py [--python PYTHON] WHEEL...

Each wheel is installed without its dependencies by pip into a folder of its own; then a process of
its own opens each object with everything bound at once, as an import would. So a wheel that needs
CUDA can be held against its repaired self on a machine without. `-v` says what fails, and why.
CuPy's wheel was repaired so, on a machine without CUDA:

    wheelfix repair --exclude 'libcu*' --exclude 'libnv*' --exclude 'libnccl*'
        --drop-needed 'libcu*' --drop-needed 'libnv*' --drop-needed 'libnccl*'
        --drop-needed 'libgomp*' cupy_cuda12x-12.3.0-cp311-cp311-manylinux2014_x86_64.whl
"""

import argparse
import os
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

_OPEN = "import ctypes, os, sys; ctypes.CDLL(sys.argv[1], mode=os.RTLD_NOW)"


def failures(python: str, root: Path) -> Iterator[tuple[Path, str]]:
    """Yield each object below `root` with the loader's last words, `""` where it loads."""
    for path in sorted(root.rglob("*")):
        if path.is_symlink() or not path.is_file():
            continue
        with path.open("rb") as file:
            if file.read(4) != b"\x7fELF":
                continue
        done = subprocess.run(
            [python, "-I", "-S", "-c", _OPEN, path],
            env={**os.environ, "LD_BIND_NOW": "1"},
            capture_output=True,
            text=True,
            check=False,
        )
        said = done.stderr.strip().splitlines() or [f"exit code {done.returncode}"]
        yield path.relative_to(root), said[-1] if done.returncode else ""


def install(wheel: Path, root: Path) -> None:
    """Install a wheel for any interpreter below `root`."""
    subprocess.run(
        [
            sys.executable, "-m", "pip", "install", "-q", "--no-deps", "--no-compile",
            "--disable-pip-version-check", "--no-index", "--target", str(root), str(wheel),
        ],
        check=True,
    )  # fmt: skip


def main() -> int:
    """Print for each wheel how many of its objects load."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("wheels", nargs="+", type=Path, metavar="WHEEL")
    parser.add_argument("--python", default=sys.executable, help="the interpreter that loads")
    parser.add_argument("-v", "--verbose", action="store_true", help="say what fails, and why")
    options = parser.parse_args()
    for wheel in options.wheels:
        with tempfile.TemporaryDirectory(prefix="loadable-") as folder:
            install(wheel, Path(folder))
            found = dict(failures(options.python, Path(folder)))
        why = Counter(said for said in found.values() if said)
        print(f"{wheel}: {len(found) - why.total()} of {len(found)} load", flush=True)
        if options.verbose:
            for said, count in why.most_common():
                print(f"  {count}: {said}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
