"""Trampolines: code that compilers let a function write to its stack.

GCC makes one where the address of a nested function is taken: in GNU C, and in Fortran and Ada for
contained procedures that are passed on (GCC internals, "Support for Nested Functions"). Such an
object needs an executable stack. What writes a trampoline is recognized by its machine code.
"""

import re
from collections.abc import Mapping

from wheelfix.elf.constants import PF_W, PF_X, Pt
from wheelfix.elf.image import Image
from wheelfix.elf.model import Machine, Segment
from wheelfix.named_tuple import NamedTuple
from wheelfix.system.lazy_patterns import lazy_pattern


class _Writing(NamedTuple):
    """Machine code that writes a trampoline, or a template of one."""

    core: re.Pattern[bytes]
    """A part that is found quickly."""
    whole: re.Pattern[bytes]
    """What must be around it."""


_AROUND = 12
"""Bytes around the core of a pattern that belong to the whole."""
_WRITINGS: Mapping[int, _Writing] = {
    # gcc/config/i386/i386.cc, ix86_trampoline_init: the instructions movabs $x,%r10 and jmp *%r11
    # as constants. LLVM (X86ISelLowering.cpp, LowerINIT_TRAMPOLINE) stores the first one, too.
    Machine.X86_64: _Writing(
        lazy_pattern(rb"\x49(?:\xff\xe3\x90|\xba)"),
        lazy_pattern(
            rb"\x49\xff\xe3\x90"
            rb"|[\xb8-\xbf]\x49\xba(?:\xff\xff|\x00\x00)"
            rb"|\x66[\x40-\x4f]?\xc7[\x00-\xff]{1,6}?\x49\xba"
        ),
    ),
    # Others copy a template.
    # aarch64.cc, aarch64_asm_trampoline_template: ldr x17; ldr x18; br x17
    Machine.AARCH64: _Writing(
        lazy_pattern(rb"\x20\x02\x1f\xd6"),
        lazy_pattern(
            rb"[\x11\x31\x51\x71\x91\xb1\xd1\xf1]\x00\x00\x58"
            rb"[\x12\x32\x52\x72\x92\xb2\xd2\xf2]\x00\x00\x58\x20\x02\x1f\xd6"
        ),
    ),
    # arm.cc, arm_asm_trampoline_template: ldr ip, [pc, #x]; ldr pc, [pc, #x], in Thumb-2 or ARM
    Machine.ARM: _Writing(
        lazy_pattern(rb"\xdf\xf8|\xf0\x9f\xe5"),
        lazy_pattern(
            rb"\xdf\xf8[\x00-\xff]\xc0\xdf\xf8[\x00-\xff]\xf0"
            rb"|\xc0\x9f\xe5[\x00-\xff]\xf0\x9f\xe5"
        ),
    ),
    # s390.cc, s390_asm_trampoline_template: basr %r1; lmg %r0,%r1,14(%r1); br %r1
    Machine.S390: _Writing(*2 * [lazy_pattern(rb"\x0d\x10\xeb\x01\x10\x0e\x00\x04\x07\xf1")]),
}
"""By machine. On others, constants are spread over instructions, or a function is called."""


def has_trampolines(image: Image) -> bool | None:
    """Return whether the code of an object writes trampolines; None for a machine not known here.

    Code that does the same may be taken for it. Code that a program generates by itself, or that
    was written by hand, is not recognized.
    """
    writing = _WRITINGS.get(image.header.machine)
    if writing is None or (image.header.machine == Machine.X86_64 and image.structs.bits == 32):
        return None
    return any(
        _is_found(writing, image, segment)
        for segment in image.segments
        if segment.type == Pt.LOAD and (segment.flags & PF_X or not segment.flags & PF_W)
    )


def _is_found(writing: _Writing, image: Image, segment: Segment) -> bool:
    code = image.view[segment.offset : segment.offset + segment.filesz]
    image.spend(1 + (len(code) >> 12), "the code")
    for core in writing.core.finditer(code):
        image.spend(1, "the code")
        if writing.whole.search(code, max(core.start() - _AROUND, 0), core.end() + _AROUND):
            return True
    return False
