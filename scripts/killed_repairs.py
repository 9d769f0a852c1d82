"""Kill repairs at random moments: there is a whole wheel or none, and the next run sweeps up.

Each run repairs a wheel into which a library is grafted, and whose object patchelf must edit, into
one folder and with one TMPDIR for all. It gets SIGKILL after a random part of the time that a run
takes; half of the time another run works at the same time.

    python scripts/killed_repairs.py             # 300 kills, some minutes
    python scripts/killed_repairs.py -n 30

Exits with 1 when a wheel is not whole, or anything is left after the last run, which is not killed.
"""

import argparse
import os
import random
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent.parent))
from tests.support.build import make_wheel, shared_object
from tests.support.waiting import processes_in, wait_until

# ruff: noqa: S311 -- dice need no secrecy


def a_wheel(folder: Path) -> tuple[Path, Path]:
    """Build a wheel, and the folder with the library that is grafted into it."""
    outside = folder / "outside"
    library = shared_object(
        outside / "libouter.so.1", "int outer(void) { return 1; }", soname="libouter.so.1"
    )
    user = shared_object(
        folder / "core.so",
        "int outer(void); int core(void) { return outer(); }",
        needed=[library],
    )
    noise = random.Random(1).randbytes(5_000_000)
    files: dict[str, bytes | str | Path] = {
        "demo/__init__.py": "",
        "demo/core.so": user,
        "demo/noise": noise,
    }
    tag = f"py3-none-linux_{os.uname().machine}"
    return make_wheel(folder, tag=tag, files=files), outside


def started(wheel: Path, out: Path, environ: Mapping[str, str]) -> subprocess.Popen[bytes]:
    """Start a repair."""
    command = [sys.executable, "-m", "wheelfix", "repair", "-q", "-w", str(out), str(wheel)]
    return subprocess.Popen(command, env=environ, stdout=subprocess.DEVNULL)


def finished(process: subprocess.Popen[bytes]) -> None:
    """Wait for a run that is not killed."""
    if process.wait():
        raise AssertionError(f"a run that was not killed ended with {process.returncode}")


def whole(out: Path, good: bytes) -> bool:
    """Return whether the wheel is there; raise `AssertionError` if it is not whole."""
    found = [path for path in out.iterdir() if path.suffix == ".whl"]
    if any(path.read_bytes() != good for path in found):
        raise AssertionError("a wheel was published that is not whole")
    return bool(found)


def kill_all(cases: int, seed: int, folder: Path) -> str:
    """Kill `cases` runs, and say how many of them had published; `AssertionError` on litter."""
    dice = random.Random(seed)
    wheel, outside = a_wheel(folder)
    out, temporary = folder / "out", folder / "tmp"
    temporary.mkdir()
    environ = {**os.environ, "LD_LIBRARY_PATH": str(outside), "TMPDIR": str(temporary)}
    began = time.monotonic()
    finished(started(wheel, out, environ))
    takes = time.monotonic() - began
    (made,) = out.iterdir()
    good = made.read_bytes()
    published = swept = 0
    for _ in range(cases):
        if dice.random() < 0.7:  # else the wheel is there, and is replaced
            made.unlink(missing_ok=True)
        parallel = started(wheel, out, environ) if dice.random() < 0.1 else None
        process = started(wheel, out, environ)
        time.sleep(dice.uniform(0, takes * (2 if parallel else 1.1)))
        process.kill()
        process.wait()
        if parallel:
            finished(parallel)
        published += whole(out, good)
        left = len(list(temporary.iterdir()))
        swept += left
        if left > 3:  # the last one's, and those whose programs had not yet ended
            raise AssertionError(f"{left} folders are left: the next run does not sweep")
    wait_until(lambda: not processes_in(temporary))
    finished(started(wheel, out, environ))
    litter = [*temporary.iterdir(), *(path for path in out.iterdir() if path != made)]
    if litter or not whole(out, good):
        raise AssertionError(f"left behind: {', '.join(map(str, litter))}")
    return (
        f"{cases} kills within {takes:.1f} s each: {published} times a whole wheel was there, else "
        f"none; {swept} times a folder was left, and swept up"
    )


def main(argv: Sequence[str]) -> int:
    """Kill, and say what came of it."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("-n", type=int, default=300, help="how many runs are killed")
    parser.add_argument("--seed", type=int, default=0)
    asked = parser.parse_args(argv)
    with tempfile.TemporaryDirectory() as folder:
        try:
            print(kill_all(asked.n, asked.seed, Path(folder)))
        except AssertionError as error:
            print(error)
            return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
