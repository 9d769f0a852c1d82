"""An installed wheel as the loader sees it."""

from wheelfix.elf.model import Libc
from wheelfix.loader.install_schemes import Layout
from wheelfix.loader.model import Environment, SearchOutcome
from wheelfix.wheel.model import Wheel


def environment(wheel: Wheel, layout: Layout) -> Environment:
    """Return the environment with `wheel` installed in `layout`, and nothing else."""
    musl = any(elf.libc is Libc.MUSL for elf in wheel.elfs.values())
    paths = layout.paths.items()
    return Environment(
        libc=Libc.MUSL if musl else Libc.GLIBC,
        files={path: wheel.elfs[member] for member, path in paths if member in wheel.elfs},
        broken={path: SearchOutcome.NOT_ELF for member, path in paths if member not in wheel.elfs},
        directories=layout.directories,
    )
