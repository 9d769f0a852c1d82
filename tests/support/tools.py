"""Programs that some tests need beside Python and a C compiler, and Debian's packages with them."""

import re
import shutil
import subprocess
from pathlib import Path

import pytest

PACKAGES = {
    "aarch64-linux-gnu-gcc": "gcc-aarch64-linux-gnu",
    "arm-linux-gnueabihf-gcc": "gcc-arm-linux-gnueabihf",
    "c++filt": "binutils",
    "chromium": "chromium",
    "dot": "graphviz",
    "dpkg": "dpkg",
    "eu-elflint": "elfutils",
    "eu-unstrip": "elfutils",
    "g++": "g++",
    "gcc -m32": "gcc-multilib",
    "gdb": "gdb",
    "gfortran": "gfortran",
    "i686-linux-gnu-gcc": "gcc-i686-linux-gnu",
    "ld.bfd": "binutils",
    "ld.gold": "binutils-gold",
    "ld.lld": "lld",
    "ld.mold": "mold",
    "musl-gcc": "musl-tools",
    "pip of /usr/bin/python3": "python3-pip",
    "powerpc64le-linux-gnu-gcc": "gcc-powerpc64le-linux-gnu",
    "qemu-aarch64-static": "qemu-user-static",
    "qemu-x86_64-static": "qemu-user-static",
    "riscv64-linux-gnu-gcc": "gcc-riscv64-linux-gnu",
    "rpm": "rpm",
    "rpmbuild": "rpm",
    "s390x-linux-gnu-gcc": "gcc-s390x-linux-gnu",
    "strace": "strace",
}
_REASON = re.compile(r"needs .+: apt-get install ([a-z0-9+-]+)")


def needs(tool: str) -> pytest.MarkDecorator:
    """Skip the test where `tool` is not installed."""
    return pytest.mark.skipif(shutil.which(tool) is None, reason=_reason(tool))


def tool(name: str) -> str:
    """Return the path of `name`, or skip the test that asks."""
    return shutil.which(name) or pytest.skip(_reason(name))


def needs_pip(python: Path) -> None:
    """Skip the test if this Python of the machine has no pip; Debian's has one if asked for."""
    command = [str(python), "-I", "-m", "pip", "--version"]
    if subprocess.run(command, capture_output=True, check=False).returncode:
        pytest.skip(_reason("pip of /usr/bin/python3"))


def linking(compiler: str, *arguments: str) -> str:
    """Return the reason to skip a test whose compiler cannot link with these arguments."""
    linkers = [word.replace("-fuse-ld=", "ld.") for word in arguments if "-fuse-ld=" in word]
    tools = [*linkers, *(f"{compiler} {word}" for word in arguments), compiler]
    known = next((each for each in tools if each in PACKAGES), None)
    words = " ".join((compiler, *arguments))
    return _reason(known) if known else f"`{words}` cannot link here"


def summary(reasons: list[str]) -> str | None:
    """Return the line that counts the tests skipped for want of a tool; None if none was."""
    packages = [match[1] for reason in reasons if (match := _REASON.search(reason))]
    if not packages:
        return None
    return (
        f"{len(packages)} tests were skipped for want of a tool; they run after: "
        f"apt-get install {' '.join(sorted(set(packages)))}"
    )


def _reason(tool: str) -> str:
    return f"needs {tool}: apt-get install {PACKAGES[tool]}"
