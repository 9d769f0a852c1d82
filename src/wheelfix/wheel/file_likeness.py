"""What a file looks like by its first bytes."""

import re

from wheelfix.system.lazy_patterns import lazy_pattern

_MAGIC = (
    (b"version https://git-lfs", "a pointer of Git LFS"),
    (b"!<arch>\n", "an archive of objects (`.a`)"),
    (b"!<thin>\n", "an archive of objects (`.a`)"),
    (b"BC\xc0\xde", "LLVM bitcode"),
    (b"\0asm", "WebAssembly"),
    (b"MZ", "a program or library for Windows (PE)"),
    (b"\xfe\xed\xfa\xce", "an object for macOS (Mach-O)"),
    (b"\xfe\xed\xfa\xcf", "an object for macOS (Mach-O)"),
    (b"\xce\xfa\xed\xfe", "an object for macOS (Mach-O)"),
    (b"\xcf\xfa\xed\xfe", "an object for macOS (Mach-O)"),
    (b"\xca\xfe\xba\xbe", "an object for macOS (Mach-O)"),
    (b"#!", "a script"),
    (b"PK\x03\x04", "a zip archive"),
    (b"\x1f\x8b", "a gzip file"),
)
_HEAD = 4096
"""Bytes that decide what a file looks like."""
LINKER_SCRIPT = "a linker script"
_LINKER_SCRIPT = lazy_pattern(rb"^[ \t]*(GROUP|INPUT|OUTPUT_FORMAT)\s*\(", re.MULTILINE)
_LINK = lazy_pattern(rb"[\w./+-]*\.so(\.\d+)*\s*")
_MARKUP = lazy_pattern(rb"\s*<(!doctype|html|\?xml)", re.IGNORECASE)


def likeness(first: bytes) -> str:
    """Describe what a file that begins with `first` looks like; empty bytes are an empty file."""
    if not first:
        return "an empty file"
    head = first[:_HEAD]
    named = next((what for magic, what in _MAGIC if head.startswith(magic)), None)
    return named or _text(head) or "no format that is known"


def _text(head: bytes) -> str | None:
    if _LINKER_SCRIPT.search(head):
        return LINKER_SCRIPT
    if _LINK.fullmatch(head):
        target = head.strip().decode("ascii", "replace")
        return f"a text file that says `{target}`, as of a symbolic link that was not followed"
    if _MARKUP.match(head):
        return "a web page or XML"
    return "a text file" if b"\0" not in head and _is_text(head) else None


def _is_text(head: bytes) -> bool:
    try:
        head.decode("utf-8")
    except UnicodeDecodeError as error:
        return len(head) == _HEAD and error.start > _HEAD - 4  # a character cut in two
    return True
