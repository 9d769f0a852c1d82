"""Platform libraries: the names of the C library and of all that platform tags promise.

The names are the union of the library lists of PEP 513, 571, 599, 600 and 656 as auditwheel 6.8 has
them (policy/manylinux-policy.json, policy/musllinux-policy.json). They tell a library that the
wheel must provide from one that may come from the system; the tag of a wheel is auditwheel's
decision.
"""

from collections.abc import Collection, Mapping, Sequence
from collections.abc import Set as AbstractSet
from functools import cache, lru_cache

from wheelfix.elf.model import LIBC_SONAMES, Libc, libc_of
from wheelfix.grouping import flatten, values_by_key
from wheelfix.system.lazy_patterns import lazy_pattern
from wheelfix.system.packaged_text import read_lines, read_text

LIBSTDCXX = "libstdc++.so.6"
NEWEST_LISTED_GLIBC = (2, 43)
"""The newest release whose symbols are in `platform-symbols.txt`."""
RELR_VERSION = "GLIBC_ABI_DT_RELR"
"""The version of libc.so.6 that says that its loader knows DT_RELR."""
RELR_SINCE: Mapping[Libc, str] = {Libc.GLIBC: "2.36", Libc.MUSL: "1.2.4"}
"""The first releases of the C libraries whose loaders know DT_RELR."""
FIRST_RELR: Mapping[Libc, tuple[int, int]] = {Libc.GLIBC: (2, 36), Libc.MUSL: (1, 3)}
"""The first platform tags whose C libraries are all of these releases, or newer."""
PYTHON_LIBRARIES = ("libc.so.6", "libm.so.6", "libdl.so.2", "libpthread.so.0", "libutil.so.1")
"""The libraries that every CPython for glibc is linked with: in its global scope."""
LIBMVEC = "libmvec.so.1"
GLIBC_PARTS = (
    *PYTHON_LIBRARIES, "librt.so.1", "libanl.so.1", "libresolv.so.2",
)  # fmt: skip
"""The libraries of glibc that are installed wherever its libc.so.6 is, on any release."""
MANYLINUX_LIBRARIES = frozenset({
    "libGL.so.1", "libICE.so.6", "libSM.so.6", "libX11.so.6", "libXext.so.6", "libXrender.so.1",
    "libanl.so.1", "libatomic.so.1", "libc.so.6", "libdl.so.2", "libexpat.so.1", "libgcc_s.so.1",
    "libglib-2.0.so.0", "libgobject-2.0.so.0", "libgthread-2.0.so.0", "libm.so.6", "libmvec.so.1",
    "libnsl.so.1", "libpthread.so.0", "libresolv.so.2", "librt.so.1", "libstdc++.so.6",
    "libutil.so.1", "libz.so.1",
})  # fmt: skip

ANDROID_LIBRARIES = frozenset({
    "libEGL.so", "libGLESv1_CM.so", "libGLESv2.so", "libOpenMAXAL.so", "libOpenSLES.so",
    "libaaudio.so", "libandroid.so", "libc.so", "libcamera2ndk.so", "libcrypto_python.so",
    "libdl.so", "libjnigraphics.so", "liblog.so", "libm.so", "libmediandk.so",
    "libneuralnetworks.so", "libsqlite3_python.so", "libssl_python.so", "libsync.so",
    "libvulkan.so", "libz.so",
})  # fmt: skip
"""Those of any API level, and of Python there (auditwheel's policy/android-policy.json)."""


def is_glibc_loader(name: str) -> bool:
    """Return whether `name` is that of glibc's dynamic loader."""
    return is_dynamic_loader(name) and libc_of(name) is Libc.GLIBC


def is_dynamic_loader(name: str) -> bool:
    """Return whether `name` is that of a dynamic loader; musl's is its C library as well."""
    return libc_of(name) is not None and name not in LIBC_SONAMES.values()


@lru_cache(1 << 12)  # they are asked of each entry of each load
def may_come_from_platform(name: str, libc: Libc = Libc.GLIBC) -> bool:
    """Return whether some platform tag promises the library `name`, a DT_NEEDED entry.

    The names of Android are those of development files elsewhere.
    """
    if libc is Libc.BIONIC:
        return name in ANDROID_LIBRARIES
    return name in MANYLINUX_LIBRARIES or is_dynamic_loader(name)


def platform_parts(libc: Libc) -> Collection[str]:
    """Return the libraries that are installed wherever the C library of a platform is."""
    return ANDROID_LIBRARIES if libc is Libc.BIONIC else GLIBC_PARTS


@lru_cache(1 << 12)
def symbols_of(library: str, libc: Libc = Libc.GLIBC) -> AbstractSet[str] | None:
    """Return the symbols that `library`, a DT_NEEDED entry, may define on some platform.

    None for a library that is not listed in `platform-symbols.txt`, such as those of Android.
    Those of libstdc++ are in a file of their own.
    """
    if libc is Libc.BIONIC:
        return None
    if library == LIBSTDCXX:
        return _names_of_libstdcxx()
    family = library
    if library.startswith(_GLIBC) or is_glibc_loader(library):
        family = "glibc"
    elif libc_of(library) is Libc.MUSL:
        family = "musl"
    return _names(family)


OFTEN_FORGOTTEN = (LIBMVEC, LIBSTDCXX, "libgcc_s.so.1", "librt.so.1", "libz.so.1")
"""Libraries allowed by all manylinux tags, often forgotten when linking."""


def to_be_linked(symbol: str, needed: Collection[str] = ()) -> str | None:
    """Return the library of the platform that an object should have been linked with.

    A function of a later glibc is not missing for want of a library, nor is what one of `needed`
    would have.
    """
    if first_versions().get(symbol, "").startswith("GLIBC_"):
        return None
    defining = (name for name in OFTEN_FORGOTTEN if symbol in (symbols_of(name) or ()))
    library = next(defining, None)
    return None if library in needed else library


def definers_of(symbol: str) -> Collection[str]:
    """Return the libraries that may define a symbol of `first_versions`.

    Other parts of glibc have taken over symbols of each other, but none of libmvec.
    """
    prefix = first_versions().get(symbol, "").partition("_")[0]
    return (LIBMVEC,) if _is_vector(symbol, prefix) else DEFINERS.get(prefix, ())


def defines(library: str, symbol: str, version: str | None, libc: Libc = Libc.GLIBC) -> bool | None:
    """Return whether `library` may define a symbol on some platform; None if it is not known.

    GLIBC_PRIVATE is not listed. Whether libstdc++ has a version says auditwheel.
    """
    names = symbols_of(library, libc)
    if names is None or (version or "").endswith("_PRIVATE"):
        return None
    return symbol in names or (version is not None and library == LIBSTDCXX)


_GLIBC = (*GLIBC_PARTS, "libnsl.so.1")
_CXX_LIBRARY = lazy_pattern(
    r"_Z(T[VISTC]|GV|N|K|O|L)*(S[tabsiod]|9__gnu_cxx|10__cxxabiv1)"  # std:: and its ABI namespaces
    r"|_Z(nw|na|dl|da)"  # operator new and delete
)
"""Names of the C++ standard library (Itanium C++ ABI): versions of it stay compatible."""
_OF_OTHER_TYPE = lazy_pattern(r"(?:I|_ZT[IS][PKRO]*)(?:(?!\d+_)\d|N(?!9__gnu_cxx|10__cxxabiv1)\d)")
"""A template argument, or what has type information, that is a type of no standard library: what
its own build has to define, as `std::hash<Foo>`. No symbol of libstdc++ has one."""


def is_of_cxx_library(symbol: str) -> bool:
    """Return whether the C++ standard library, of whatever version, defines a symbol."""
    return _CXX_LIBRARY.match(symbol) is not None and not _OF_OTHER_TYPE.search(symbol)


DEFINERS: Mapping[str, Sequence[str]] = {
    "GLIBC": GLIBC_PARTS,
    "GLIBCXX": (LIBSTDCXX,),
    "GCC": ("libgcc_s.so.1",),
}
"""The libraries whose versions have each prefix."""


@cache
def first_versions() -> Mapping[str, str]:
    """Return the names that came to `DEFINERS` after manylinux2014, with the first version of each.

    A reference with a version names it itself; one without a version does not.
    """
    lines = (line.split() for line in read_lines("wheelfix.loader", "first-versions.txt"))
    return {words[0]: words[1] for words in lines}


@cache
def _names_of_libstdcxx() -> frozenset[str]:
    newer = (name for name, version in first_versions().items() if version.startswith("GLIBCXX_"))
    return frozenset((*read_lines("wheelfix.loader", "libstdcxx-symbols.txt"), *newer))


def _is_vector(name: str, family: str) -> bool:
    return family in {"glibc", "GLIBC"} and name.startswith("_ZGV")


@cache
def _texts() -> Mapping[str, Sequence[str]]:
    sections = read_text("wheelfix.loader", "platform-symbols.txt").split("\n[")[1:]
    parts = (section.partition("]") for section in sections)
    return values_by_key((name, text) for heading, _, text in parts for name in heading.split())


@cache
def _names(family: str) -> frozenset[str] | None:
    section = "glibc" if family == LIBMVEC else family
    if section not in _texts():
        return None
    names = flatten(map(str.split, _texts()[section]))
    return frozenset(n for n in names if _is_vector(n, section) is (family == LIBMVEC))
