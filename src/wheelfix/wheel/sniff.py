"""What a file is that stands where a shared object should, or a source that may open one."""

import re

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
_OPENERS = (b"cdll", b"pydll", b"loadlibrary", b"dlopen", b"find_library", b"load_library")
# Two thirds of what `in` takes for a text that begins so often.
_DLL = re.compile(b"dll").search
_DLOPEN = re.compile(b"dlopen").search
_LIBRARY = re.compile(r"\.so(\.\d+)*$")
_LINKER_SCRIPT = re.compile(rb"^\s*(GROUP|INPUT|OUTPUT_FORMAT)\s*\(", re.MULTILINE)
_LINK = re.compile(rb"[\w./+-]*\.so(\.\d+)*\s*")
_MARKUP = re.compile(rb"\s*<(!doctype|html|\?xml)", re.IGNORECASE)
_LOOKED_AT = 4096


def may_open(source: bytes) -> bool:
    """Return whether Python source has a word, in whatever case, without which no library opens."""
    lower = source.lower()  # five times as fast as one regular expression
    # What is in all of the words: three searches for most sources, not six.
    could = _DLL(lower) or b"library" in lower or _DLOPEN(lower)
    return bool(could) and any(word in lower for word in _OPENERS)


def is_library_name(name: str) -> bool:
    """Return whether `name` ends as a shared object's: `.so`, `.so.1.2`."""
    return _LIBRARY.search(name) is not None


def likeness(first: bytes) -> str:
    """Say what a file that begins with `first` looks like; empty bytes are an empty file."""
    if not first:
        return "an empty file"
    head = first[:_LOOKED_AT]
    named = next((what for magic, what in _MAGIC if head.startswith(magic)), None)
    return named or _text(head) or "no format that is known"


def _text(head: bytes) -> str | None:
    if _LINKER_SCRIPT.search(head):
        return "a linker script"
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
        return len(head) == _LOOKED_AT and error.start > _LOOKED_AT - 4  # a character cut in two
    return True
