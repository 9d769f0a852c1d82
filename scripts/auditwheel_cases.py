"""auditwheel's own tests of `auditwheel repair`, with `wheelfix repair` in its place.

    python scripts/auditwheel_cases.py                        # clones auditwheel's repository
    python scripts/auditwheel_cases.py --source ../auditwheel -k cross_repair

The tests that need a container run on this machine, which stands for the image with its version of
glibc; the distribution's packages that they install must be there. `auditwheel show` in the tests
is the real one. A test that fails is run again with auditwheel: what fails there, too, says nothing
about wheelfix. Exits with 1 if a test fails that is not among the intended differences, or if one
of these does not fail.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Mapping, Sequence
from fnmatch import fnmatchcase
from importlib.metadata import version
from pathlib import Path

REPOSITORY = "https://github.com/pypa/auditwheel"
IMAGE = "manylinux_2_35"
"""The image that this machine stands for: the newest policy of auditwheel's tests."""
FILES = (
    "tests/integration/test_manylinux.py",
    "tests/integration/test_bundled_wheels.py",
    "tests/integration/test_nonplatform_wheel.py",
    "tests/integration/test_android.py",
    "tests/unit/test_main.py",
)
CASES = (
    *("TestManylinux", "source_date_epoch", "libpython", "symbol_blacklist", "libcxx"),
    *("non_platform_wheel and not show", "repair_wheel_mismatch"),
    "unexisting_wheel and repair",
)
BACKENDS = ("pip", "setuptools", "wheel", "cython", "scikit-build-core", "ninja")
INTENDED: Mapping[str, str] = {
    "*::test_libpython": "the tag manylinux2014_aarch64 goes, which the wheel's objects do not "
    "satisfy (WF801), and the report says with other words that an entry for libpython goes",
    "*::test_non_platform_wheel_unknown_arch*armv5l-repair?": "an object of ARM is known as such; "
    "its ELF header does not state the version that auditwheel does not know",
    "*::test_with_binary_executable*": "the test wants a Python script in the place of a program; "
    "the program stays where installers put it, and its RPATH leads to what it needs",
    "*::test_numpy_sbom*": "the list of grafted libraries has the name and the form of wheelfix",
}
"""Pattern for tests -> why wheelfix does something else."""

_SHIM = """\
#!/bin/sh
# `auditwheel [-v] repair` is the program to try; all else is auditwheel.
for word; do
    case $word in
        -v) ;;
        repair) exec {program} "$@" ;;
        *) break ;;
    esac
done
exec {auditwheel} "$@"
"""


def main(argv: Sequence[str]) -> int:
    """Run the tests, and print how each ended."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--source", default=REPOSITORY, help="repository or folder to clone")
    parser.add_argument("--ref", default=version("auditwheel"), help="tag or commit to check out")
    parser.add_argument("-k", default=" or ".join(f"({case})" for case in CASES), metavar="TESTS")
    asked = parser.parse_args(argv)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        clone(asked.source, asked.ref, folder / "auditwheel")
        builder = folder / "builder"
        subprocess.run([sys.executable, "-m", "venv", str(builder)], check=True)
        install = [str(builder / "bin/pip"), "install", "-q", "--upgrade", *BACKENDS]
        subprocess.run(install, check=True)
        outcomes = run(folder, "wheelfix", ["-k", asked.k])
        failed = [test for test, how in outcomes.items() if how == "failed"]
        there = run(folder, "auditwheel", failed) if failed else {}
    return report(outcomes, there)


def clone(source: str, ref: str, place: Path) -> None:
    """Clone auditwheel, and let its tests know the image that this machine stands for."""
    clone = subprocess.run(["git", "clone", "-q", source, str(place)], check=False)
    if clone.returncode:
        raise SystemExit(f"{source} cannot be cloned: name a copy of auditwheel's with --source")
    checkout = subprocess.run(["git", "-C", str(place), "checkout", "-q", ref], check=False)
    if checkout.returncode:
        raise SystemExit(f"{source} has no commit or tag `{ref}`: name one with --ref, as HEAD")
    tests = place / FILES[0]
    text = tests.read_text(encoding="utf-8")
    listed = '        "manylinux_2_34": MANYLINUX_2_34_IMAGE_ID,\n'
    assert listed in text, "the images of auditwheel's tests have changed"
    added = listed.replace("2_34", IMAGE.removeprefix("manylinux_"))
    tests.write_text(text.replace(listed, listed + added, 1), encoding="utf-8")


def run(folder: Path, program: str, selection: Sequence[str]) -> dict[str, str]:
    """Return how each test ended, with `program` as `auditwheel`."""
    scripts = Path(sys.executable).parent
    tools = folder / f"tools-{program}"
    tools.mkdir()
    shim = tools / "auditwheel"
    shim.write_text(
        _SHIM.format(program=scripts / program, auditwheel=scripts / "auditwheel"), encoding="ascii"
    )
    shim.chmod(0o755)
    results = folder / f"{program}.jsonl"
    environ = {
        **os.environ,
        "PATH": f"{tools}:{scripts}:{os.environ['PATH']}",
        "PYTHONPATH": str(Path(__file__).parent),
        "PIP_NO_BUILD_ISOLATION": "0",  # which means: no isolation
        "PIP_DISABLE_PIP_VERSION_CHECK": "1",
        "CASES_TOOLS": str(tools),
        "CASES_BUILDER": str(folder / "builder"),
        "CASES_IMAGE": IMAGE,
        "CASES_PROGRAM": program,
        "CASES_RESULTS": str(results),
    }
    files = () if "::" in selection[0] else FILES
    words = [sys.executable, "-m", "pytest", "-p", "auditwheel_suite.plugin", "-q", "--tb=short"]
    words += ["-p", "no:cacheprovider", "-W", "ignore", *files, *selection]
    subprocess.run(words, cwd=folder / "auditwheel", env=environ, check=False)
    lines = results.read_text(encoding="utf-8").splitlines()
    return dict(json.loads(line) for line in lines)


def report(outcomes: Mapping[str, str], there: Mapping[str, str]) -> int:
    """Print the tests that failed, and the totals; return the exit code."""
    intended = {
        test: reason
        for test in outcomes
        for pattern, reason in INTENDED.items()
        if fnmatchcase(test, pattern)
    }
    counts: Counter[str] = Counter()
    for test, how in outcomes.items():
        if how == "failed" and there[test] == "failed":
            word = "fails with auditwheel, too"
        elif how == "failed" and test in intended:
            word = "differs on purpose"
        elif how == "passed" and test in intended:
            word = "PASSED, but is listed as a difference"
        else:
            word = {"failed": "FAILED"}.get(how, how)
        counts[word] += 1
        if word not in {"passed", "skipped"}:
            print(f"{word}: {test}{': ' + intended[test] if test in intended else ''}")
    print(", ".join(f"{number} {word}" for word, number in counts.items()))
    return 1 if counts["FAILED"] or counts["PASSED, but is listed as a difference"] else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
