"""The file name of a grafted library: `libfoo-1a2b3c4d.so.1`.

auditwheel puts the first eight hexadecimal digits of the file's SHA-256 before the first dot of
the name (auditwheel's repair.py, `copylib`), so that no other wheel's copy has the same SONAME.
"""

from collections.abc import Iterator
from glob import escape

from wheelfix.elf.object_file_names import stem_of
from wheelfix.system.lazy_patterns import lazy_pattern
from wheelfix.text import pasteable, toml_string

_GRAFTED = lazy_pattern(r"([^/.]+)-[0-9a-f]{8}(\.(?:[^/]*\.)?so(?:\.[^/]*)?)")


def add_hash(name: str, sha256: str) -> str:
    """Return the name of a graft of the file `name`, whose hash is `sha256` in hexadecimal."""
    base, dot, extension = name.partition(".")
    mark = f"-{sha256[:8]}"
    return name if base.endswith(mark) else f"{base}{mark}{dot}{extension}"


def remove_hash(name: str) -> str | None:
    """Return the name that a grafted library had before; None for any other name."""
    match = _GRAFTED.fullmatch(name)
    return match[1] + match[2] if match else None


def earlier_names(name: str) -> Iterator[str]:
    """Yield the names that a grafted library had before, the last one first.

    A library of a build dependency is grafted twice: OpenBLAS's of numpy.
    """
    before = remove_hash(name)
    while before is not None:
        yield before
        before = remove_hash(before)


def short_names(name: str) -> set[str]:
    """Return what `name` is called without a hash, and without version: `libfoo` and `foo`."""
    stems = {stem_of(known) for known in (name, original_name(name))}
    return stems.union(earlier_names(name)) | {stem.removeprefix("lib") for stem in stems}


def repaired_without(name: str) -> str:
    """Return what keeps out a graft of any version.

    The pattern matches its path, too: `libblas.so.3` may be a link to the file of that name.
    """
    setting = f"exclude = [{toml_string(pasteable(f'*{escape(stem_of(name))}.so*'))}]"
    return f"repair the wheel as it was built, with `{setting}` in [tool.wheelfix]"


def original_name(name: str) -> str:
    """Return `name` without the hash of a graft, and any other name as it is."""
    return remove_hash(name) or name
