#!/usr/bin/env python3
"""Draw docs/pictures/repair.svg: the libraries of the demo's wheel before and after its repair.

    scripts/pictures.py

Builds and repairs fixtures/cyfes as scripts/demo does, opens the page of `wheelfix tree --after` in
Chromium, and takes from it what its button "save as SVG" saves.
"""

import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from tests.support.browser import evaluated  # noqa: E402 - the tests' helpers are not installed

PICTURE = ROOT / "docs/pictures/repair.svg"


def main() -> None:
    """Draw the picture."""
    with tempfile.TemporaryDirectory() as name:
        work = Path(name)
        source = shutil.copytree(ROOT / "fixtures/cyfes", work / "source")
        build = ["pip", "wheel", "-q", "--no-deps", "--no-build-isolation"]
        run(*build, "-w", str(work / "built"), str(source))
        (built,) = (work / "built").glob("*.whl")
        run("wheelfix", "repair", "-q", "-w", str(work), str(built))
        (repaired,) = work.glob("*.whl")
        page = work / "tree.html"
        run("wheelfix", "tree", str(built), "--after", str(repaired), "-o", str(page))
        picture = evaluated(page.read_text(), "picture()", work, width=1400)
    PICTURE.parent.mkdir(exist_ok=True)
    PICTURE.write_text(f"{picture}\n")
    print(f"{PICTURE.relative_to(ROOT)}: {PICTURE.stat().st_size:,} bytes")


def run(module: str, *arguments: str) -> None:
    """Run a module of this Python."""
    subprocess.run([sys.executable, "-m", module, *arguments], check=True)


if __name__ == "__main__":
    main()
