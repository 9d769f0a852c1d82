"""Which objects need an executable stack, and which C libraries refuse them."""

from wheelfix.elf.constants import PF_X, Pt
from wheelfix.elf.image import last_of
from wheelfix.elf.model import Elf, Machine

REFUSING_GLIBC = "2.41"
"""The first version of glibc whose dlopen does not make the stack executable any more (NEWS)."""
_STACK_BY_DEFAULT: set[int] = {Machine.X86_64, Machine.I386, Machine.ARM, Machine.S390}
"""Machines on which an object without PT_GNU_STACK requires an executable stack.

DEFAULT_STACK_PERMS in glibc's sysdeps/*/stackinfo.h; AArch64, 64-bit POWER, RISC-V and LoongArch do
not.
"""


def requires_executable_stack(elf: Elf) -> bool:
    """Return whether glibc makes the stack executable for it, by PT_GNU_STACK or its absence."""
    stack = stack_flags(elf)
    return elf.machine in _STACK_BY_DEFAULT if stack is None else bool(stack & PF_X)


def stack_flags(elf: Elf) -> int | None:
    """Return the flags of PT_GNU_STACK, None without one; of several, the loader takes the last."""
    stack = last_of(elf.segments, Pt.GNU_STACK)
    return stack and stack.flags
