"""The file name of a library or of another shared object: `libfoo.so.1.2`."""

from wheelfix.system.lazy_patterns import lazy_pattern

_VERSIONED = lazy_pattern(r"\.so(?:\.\d+)*$")
_ANY = lazy_pattern(r"\.so(?:\.[^/]*)?$")
OF_MODULES = r"\.(?:cpython|pypy\d*|abi3t?)\b"
"""How the part before `.so` begins that only extension modules have (PEP 3149, PEP 384, PEP 803).

`loader.python_api.MODULE_SUFFIX` parses the whole suffix.
"""
_TO_LINK = lazy_pattern(rf"lib(?![^/]*{OF_MODULES})[^/]*\.so(?:\.[^/]*)?")
_GLOB = lazy_pattern(r"[\w.+*-]+\.so(?:\.[\w.*]+)?")


def is_library_name(name: str) -> bool:
    """Return whether `name` ends as a linker ends the name of a shared object: `.so`, `.so.1.2`."""
    return _VERSIONED.search(name) is not None


def is_object_name(name: str) -> bool:
    """Return whether `name` may be that of a shared object: a library, a module, a copy of one."""
    return _ANY.search(name) is not None


def is_name_to_link(name: str) -> bool:
    """Return whether the file `name` is what others link: a library, and no extension module."""
    return _TO_LINK.fullmatch(name) is not None


def is_library_glob(text: str) -> bool:
    """Return whether `text` is the file name of a shared object, or a glob of such names."""
    return _GLOB.fullmatch(text) is not None


def stem_of(name: str) -> str:
    """Return the name of a library without its version: `libfoo` for `libfoo.so.1`."""
    return name.partition(".so")[0]
