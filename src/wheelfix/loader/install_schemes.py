"""Install schemes: the directories into which installers put the files of a wheel.

The folder of a file in the wheel decides its *scheme path* (PEP 427, "Spread"), and the scheme the
directory of that path. A relative search path must be right in every scheme that the wheel's tags
allow.

The schemes are those of CPython's `sysconfig`, with the variants of Debian, Fedora, PyPy, pip and
uv. Paths are virtual: an environment is at `/env`, and files outside of it are not the wheel's.
"""

import posixpath
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from functools import lru_cache
from itertools import product

from packaging.utils import canonicalize_name

from wheelfix.elf.model import Libc
from wheelfix.elf.object_file_names import is_object_name
from wheelfix.grouping import flatten, grouped, values_by_key
from wheelfix.named_tuple import NamedTuple
from wheelfix.system.lazy_patterns import lazy_pattern
from wheelfix.wheel.model import LIBRARY_KEYS, Key, UnverifiedWheel, Wheel, WheelName
from wheelfix.wheel.platform_tags import parse_platform_tag
from wheelfix.wheel.requirements import allows_python

NEWEST_MINOR = 15
"""The newest Python 3 minor version of open-ended tags (`py3`, `abi3`)."""
OLDEST_MINOR = 8
"""The oldest minor version of `py3`; tags of older versions are respected."""
OLDEST_FREE_THREADED = 13
"""The first minor version with a free-threaded build (PEP 703)."""
PYPY_MINORS = range(9, 12)
"""The PyPy versions of `py3`."""
STABLE_ABIS = frozenset({"abi3", "abi3t"})
"""The ABI tags of later versions of CPython, too (PEP 384, PEP 803)."""

ENV = "/env"
"""The directory of the environment in the paths of schemes."""
_SITE_PACKAGES, _DIST_PACKAGES = "site-packages", "dist-packages"
SITE_FOLDERS = (_SITE_PACKAGES, _DIST_PACKAGES)
"""The names of the folders that hold distributions; `dist-packages` is Debian's."""
SITE_GLOBS = (
    _SITE_PACKAGES,
    *(map("/".join, product(("lib", "lib64", "local/lib"), ("python3*", "pypy3*"), SITE_FOLDERS))),
)
"""Where these folders are below a prefix, in any scheme of any Python 3."""
_PYTHON = lazy_pattern(r"/lib(?:64)?/(python3[\d.]*t?|pypy3[\d.]*)/")
_BEFORE_SITE = lazy_pattern(rf"^.*?/({'|'.join(SITE_FOLDERS)})/")
_TAG = lazy_pattern(r"(cp|pp|py|graalpy)(\d)(\d*)$")
_THREADED_ABI = lazy_pattern(r"abi3t|cp\d+[a-z]*t[a-z]*")


class Scheme(NamedTuple):
    """One install scheme of one Python: of an installer's option, or of a distribution."""

    name: str
    python: str
    """The interpreter's directory name: `python3.11`, `python3.13t`, `pypy3.9`."""
    root: str
    """The environment's directory; files outside of it are not the wheel's."""
    purelib: str
    platlib: str
    data: str
    scripts: str
    headers: str
    """The distribution's own folder included. pip and uv may spell its name differently."""
    moves_items: bool = False
    """`pip --target`: installs into a temporary directory, then moves new top-level items."""

    def base(self, key: Key) -> str:
        """Return the directory of `key`, absolute."""
        path: str = getattr(self, key)
        return path


class Layout(NamedTuple):
    """One arrangement of the installed files of a wheel, the same for several schemes."""

    schemes: tuple[Scheme, ...]
    """All schemes with this arrangement; the paths below are those of the first."""
    paths: Mapping[str, str]
    """Member to installed path, of what the loader may open: the ELF objects, and other files
    with `.so` in their names. Those that the installer drops are absent."""
    members: Mapping[str, str]
    """The inverse of `paths`."""
    directories: frozenset[str]
    """Every directory that exists once all members are installed, `/` and the root included."""

    @property
    def scheme(self) -> Scheme:
        """The first scheme, as an example of all."""
        return self.schemes[0]


def interpreters(name: WheelName) -> tuple[str, ...]:
    """Return the directory names of the Pythons that `name`'s tags allow, oldest first.

    By the rules of `packaging.tags`: `cp38-abi3` is 3.8 and later, `py3-none` every Python 3,
    including free-threaded ones and PyPy. Unknown tags count as `py3`.
    """
    pythons = set(flatten(interpreters_of(*pair) for pair in product(name.pythons, name.abis)))
    return tuple(sorted(pythons or set(_any_python(OLDEST_MINOR)), key=_age))


def native_interpreters(name: WheelName) -> frozenset[str]:
    """Return those of `interpreters` that the tags of `name` allow by their own ABI."""
    abis = [abi for abi in name.abis if abi != "none"]
    tags = [tag for tag in name.pythons if not tag.startswith("py")]
    return frozenset(flatten(interpreters_of(*pair) for pair in product(tags, abis)))


def has_installable_tags(name: WheelName) -> bool:
    """Return whether some interpreter may have one of the tags; unknown interpreters may.

    CPython has `cp3<minor>` with its own ABI, `abi3`, `abi3t` or `none` (`packaging.tags`): in
    `cp315t-abi3t` and `cp311-cp312`, the two contradict each other.
    """
    return any(_may_exist(*pair) for pair in product(name.pythons, name.abis))


def _may_exist(tag: str, abi: str) -> bool:
    if not re.match(r"cp\d", tag):
        return True
    is_own = re.fullmatch(rf"{tag}[a-z]*", abi) is not None
    return tag[2:].isdigit() and (is_own or not re.match(r"cp\d", abi))


def interpreters_of(tag: str, abi: str) -> Iterator[str]:
    """Yield the Pythons that the Python tag and the ABI tag allow, as `interpreters` does."""
    match = _TAG.match(tag)
    if match is None:
        return
    implementation, major, minor_text = match.groups()
    minor = int(minor_text) if minor_text else None
    if major == "2":
        if implementation == "cp" and minor is not None:
            yield f"python2.{minor}"
    elif implementation == "py" or minor is None:
        yield from _any_python(OLDEST_MINOR if minor is None else minor)
    elif implementation == "pp":
        yield f"pypy3.{minor}"
    elif implementation == "graalpy":
        yield f"python3.{minor}"
    else:
        yield from _cpython(minor, abi)


def _cpython(minor: int, abi: str) -> Iterator[str]:
    """Yield the CPythons of `cp3<minor>-<abi>`."""
    last = max(minor, NEWEST_MINOR) if abi in STABLE_ABIS else minor
    is_threaded = _THREADED_ABI.fullmatch(abi) is not None
    for number in range(minor, last + 1):
        if number >= OLDEST_FREE_THREADED and (is_threaded or abi == "none"):
            yield f"python3.{number}t"
        if not is_threaded:
            yield f"python3.{number}"


def _any_python(oldest: int) -> Iterator[str]:
    for minor in range(oldest, max(oldest, NEWEST_MINOR) + 1):
        yield f"python3.{minor}"
        if minor >= OLDEST_FREE_THREADED:
            yield f"python3.{minor}t"
        if minor in PYPY_MINORS:
            yield f"pypy3.{minor}"


def _age(python: str) -> tuple[bool, int, int, bool]:
    major, minor = python_version(python).split(".")
    return python.startswith("pypy"), int(major), int(minor), is_free_threaded(python)


def python_version(python: str) -> str:
    """Return the version in an interpreter's name: `python3.13t` -> `3.13`."""
    return python.removeprefix("pypy").removeprefix("python").removesuffix("t")


def allows_any(requires_python: str, pythons: Iterable[str]) -> bool:
    """Return whether a specifier allows one of `pythons` (`python3.13t`), or cannot be parsed."""
    minors = set(map(python_version, pythons))
    # The first patch release, and one later than any.
    patches = (f"{minor}.{patch}" for minor, patch in product(minors, (0, 99)))
    return allows_python(requires_python, patches)


def minor_version(python: str) -> int:
    """Return the minor version in an interpreter's name: `python3.13t` -> 13."""
    return int(python_version(python).partition(".")[2])


def is_free_threaded(python: str) -> bool:
    """Return whether an interpreter's name is that of a free-threaded build."""
    return python.endswith("t")


@lru_cache(maxsize=16)
def schemes(name: WheelName) -> tuple[Scheme, ...]:
    """Return every install scheme that the tags of `name` allow, for every Python they allow.

    Those of Debian, conda and lib64 are for glibc, the last for 64-bit machines alone; an app for
    Android is packed with what `pip --target` installs.
    """
    tags = [parse_platform_tag(tag) for tag in name.platforms]
    libcs = {tag.libc for tag in tags}
    wanted = _SCHEMES_OF.get(libcs.pop()) if len(libcs) == 1 else None
    narrow = all(tag.is_32_bit for tag in tags)
    distribution = canonicalize_name(name.distribution)
    return tuple(
        scheme
        for python in interpreters(name)
        for scheme in _schemes_of(python, distribution)
        if (scheme.name in wanted if wanted else not (narrow and scheme.name == "lib64"))
    )


_UPSTREAM = ("venv", "prefix", "user", "target-uv", "target-pip")
_SCHEMES_OF: Mapping[Libc | None, tuple[str, ...]] = {
    Libc.MUSL: _UPSTREAM,
    Libc.BIONIC: ("target-pip",),
}
"""Where not all schemes are possible."""


def _schemes_of(python: str, name: str) -> Iterator[Scheme]:
    """Yield the schemes of upstream Pythons, then those of Linux distributions and conda."""
    site = _site(python)
    headers = f"include/{_include(python)}/{name}"
    # venvs, and uv wherever it installs: the include directory is shared with the base Python.
    shared = f"include/site/python{python_version(python)}/{name}"
    yield _scheme("venv", python, site, headers=shared)
    yield _scheme("prefix", python, site, headers=headers)
    yield _scheme("user", python, site, headers=headers)
    yield _scheme("target-uv", python, "", headers=f"include/{name}")
    yield _scheme("target-pip", python, "", headers=f"include/python/{name}", moves_items=True)
    pypy = python.startswith("pypy")
    dist = f"local/lib/{python}/{_DIST_PACKAGES}"
    if not pypy:
        yield _scheme("conda", python, site, headers=headers)
    # `posix_local`: `/usr/local`, but the headers go to `/usr/include`.
    yield _scheme("debian-system", python, dist, headers=headers, base="local", root="/env/usr")
    if not pypy:
        yield _scheme("debian-prefix-pip", python, dist, headers=headers, base="local")
        platlib = site.replace("lib/", "lib64/", 1)
        yield _scheme("lib64", python, platlib, headers=headers, purelib=site)


def scheme_names() -> tuple[str, ...]:
    """Return the names of all schemes, those that installers make first."""
    python = f"python3.{NEWEST_MINOR}"
    return tuple(scheme.name for scheme in _schemes_of(python, ""))


def _scheme(  # noqa: PLR0913 - one argument for each path of a scheme
    name: str,
    python: str,
    platlib: str,
    *,
    headers: str,
    purelib: str | None = None,
    base: str = "",
    root: str = ENV,
    moves_items: bool = False,
) -> Scheme:
    """Build a scheme from paths relative to `root`; scripts are in `bin` of the data path."""

    def under(path: str) -> str:
        return f"{root}/{path}" if path else root

    return Scheme(
        name=name,
        python=python,
        root=root,
        purelib=under(platlib if purelib is None else purelib),
        platlib=under(platlib),
        data=under(base),
        scripts=f"{under(base)}/bin",
        headers=under(headers),
        moves_items=moves_items,
    )


def _site(python: str) -> str:
    """Return site-packages, relative to the prefix; PyPy moved it to `lib` with 3.8."""
    old_pypy = python.startswith("pypy") and _age(python) < _age("pypy3.8")
    return _SITE_PACKAGES if old_pypy else f"lib/{python}/{_SITE_PACKAGES}"


def _include(python: str) -> str:
    """Return the name of the include directory; before 3.8 it carried the `m` of pymalloc."""
    old_cpython = _age("python3.0") < _age(python) < _age("python3.8")
    return f"{python}m" if old_cpython else python


def split(member: str, wheel: Wheel | UnverifiedWheel) -> tuple[Key, str] | None:
    """Return the scheme path of `member` (a file or a folder), and its path below that.

    None for members that are not installed: those in `*.data` outside of the five keys.
    """
    top, _, rest = member.partition("/")
    if not top.endswith(".data") or top != wheel.dist_info.data_dir:  # the quick test first
        return (Key.PURELIB if wheel.root_is_purelib else Key.PLATLIB), member
    key, _, rest = rest.partition("/")
    try:
        return Key(key), rest
    except ValueError:
        return None


def site_path(member: str, wheel: Wheel) -> str | None:
    """Return the path of `member` below site-packages, None if it is not installed there."""
    key, path = split(member, wheel) or (None, None)
    return path if key in LIBRARY_KEYS else None


def installed_path(member: str, wheel: Wheel, scheme: Scheme) -> str | None:
    """Return the path of `member` (a file or a folder) in `scheme`, None if not installed.

    Files that `pip --target` drops are included here, unlike in `Layout.paths`.
    """
    place = split(member, wheel)
    return None if place is None else _join(scheme.base(place[0]), place[1])


def layouts(wheel: Wheel) -> tuple[Layout, ...]:
    """Return the different arrangements of the ELF objects of `wheel`.

    Schemes have one layout if the scheme paths with ELF objects have the same relative paths to
    each other, and the installer drops the same files.
    """
    places = _places(wheel)
    pairs = zip(schemes(wheel.name), _relative_bases(wheel.name, places.keys), strict=True)
    groups = values_by_key(((bases, *_lost(scheme, places)), scheme) for scheme, bases in pairs)
    return tuple(_layout(tuple(group), places) for group in groups.values())


def layout_of(wheel: Wheel, scheme: Scheme) -> Layout:
    """Return the layout of `wheel` in `scheme` alone."""
    return _layout((scheme,), _places(wheel))


class _Places(NamedTuple):
    """Where a wheel puts its files, as scheme paths and paths below them."""

    opened: Mapping[str, tuple[Key, str]]
    """Member -> its place, for the files that the loader may open."""
    top_items: frozenset[str]
    """The files and folders at the top of site-packages."""
    folders: AbstractSet[tuple[Key, str]]
    keys: tuple[Key, ...]
    """The scheme paths of `opened`."""


def _places(wheel: Wheel) -> _Places:
    names = [member.name for member in wheel.members]
    parted = [name.rpartition("/") for name in names]
    # Split by folders: some wheels have a hundred times as many files.
    splits = ((f, split(f"{f}/", wheel)) for f in dict.fromkeys(folder for folder, _, _ in parted))
    folders = {folder: (at[0], at[1].rstrip("/")) for folder, at in splits if at is not None}
    library_folders = {f: below for f, (key, below) in folders.items() if key in LIBRARY_KEYS}
    top_items = {below.partition("/")[0] for below in library_folders.values() if below}
    tops = {folder for folder, below in library_folders.items() if not below}
    top_items |= {file for folder, _, file in parted if folder in tops}
    objects = (n for n in names if n in wheel.elfs or (".so" in n and is_object_name(n)))
    opened = {name: at for name in objects if (at := split(name, wheel)) is not None}
    used = {key for key, _ in opened.values()}
    keys = tuple(key for key in Key if key in used)
    return _Places(opened, frozenset(top_items), frozenset(folders.values()), keys)


def _layout(group: tuple[Scheme, ...], places: _Places) -> Layout:
    scheme, taken = group[0], places.top_items
    # Installers start with the root; later files overwrite those with the same path.
    ordered = sorted(places.opened.items(), key=lambda item: item[1][0] not in LIBRARY_KEYS)
    members = {
        _join(scheme.base(key), rest): member
        for member, (key, rest) in ordered
        if not _is_lost(scheme, key, rest, taken)
    }
    directories = {"/", ENV, scheme.root}
    for key, folder in places.folders:
        directory = _join(scheme.base(key), folder)
        # A folder exists only if some file of it is installed.
        while directory not in directories and not _is_lost(scheme, key, folder, taken):
            directories.add(directory)
            directory = directory.rpartition("/")[0]
    return Layout(
        schemes=group,
        paths={member: path for path, member in members.items()},
        members=members,
        directories=frozenset(directories),
    )


@lru_cache(maxsize=16)
def _relative_bases(name: WheelName, keys: tuple[Key, ...]) -> tuple[tuple[str, ...], ...]:
    """Return the scheme paths `keys` of each of the `schemes`, below their common top."""
    return tuple(_below_top([scheme.base(key) for key in keys]) for scheme in schemes(name))


def _below_top(bases: Sequence[str]) -> tuple[str, ...]:
    top = posixpath.commonpath(bases) if bases else ""
    return tuple(base.removeprefix(top) for base in bases)


def _lost(scheme: Scheme, places: _Places) -> Iterator[str]:
    """Yield the files of `places` that the installer drops."""
    for name, at in places.opened.items() if scheme.moves_items else ():
        if _is_lost(scheme, *at, places.top_items):
            yield name


def _is_lost(scheme: Scheme, key: Key, rest: str, taken: frozenset[str]) -> bool:
    """Return whether the installer drops the file or folder at `rest` of `key`.

    `pip --target` installs into a temporary home, moves the content of `lib/python`, then each
    other top item of the home whose path does not begin that of `lib/python`, and skips what
    the target has already (pip's `_handle_target_dir`; pypa/pip 8799, 10399).
    """
    if not scheme.moves_items or key in LIBRARY_KEYS:
        return False
    item = {Key.SCRIPTS: "bin", Key.HEADERS: "include"}.get(key) or rest.partition("/")[0]
    return bool(item) and (item in taken or "lib/python".startswith(item))


def lost_members(wheel: Wheel) -> dict[str, list[Scheme]]:
    """Return the members that an installer drops, and the schemes in which it does."""
    data_dir = f"{wheel.data_dir}/"
    spread = [member.name for member in wheel.members if member.name.startswith(data_dir)]
    if not spread:
        return {}
    taken = _places(wheel).top_items
    among = list(schemes(wheel.name))
    lost = {
        name: [scheme for scheme in among if _is_lost(scheme, *place, taken)]
        for name in spread
        if (place := split(name, wheel)) and place[0] not in LIBRARY_KEYS
    }
    return {member: losing for member, losing in lost.items() if losing}


def python_of(paths: Iterable[str]) -> str:
    """Return the name of the Python that the first of `paths` in a folder of one is for."""
    versions = (match[1] for path in paths if (match := _PYTHON.search(path)))
    return next(versions, "python3")


def name_in_site(path: str) -> str:
    """Return what follows the first folder of distributions in the path of an installed file."""
    return _BEFORE_SITE.sub("", path)


def _join(base: str, rest: str) -> str:
    return f"{base}/{rest}" if rest else base


def relative_entry(from_dir: str, to_dir: str) -> str:
    """Return the search path entry from `from_dir` to `to_dir`, such as `$ORIGIN/../x.libs`."""
    relative = posixpath.relpath(to_dir, from_dir)
    return "$ORIGIN" if relative == "." else f"$ORIGIN/{relative}"


def entries_between(
    dependent: str, there: tuple[Key, str] | None, wheel: Wheel, among: Iterable[Scheme]
) -> tuple[str, ...]:
    """Return the search path entries from the member `dependent` to the folder `there`.

    `there` is the folder as `split` returns it; it may belong to another distribution. There is one
    entry for each different relative path in the schemes `among`, in their order: a single one is
    right in every scheme. Without any, the member or the folder is not installed.
    """
    here = split(dependent, wheel)
    if here is None or there is None:
        return ()
    pairs = dict.fromkeys(
        (scheme.base(here[0]), scheme.base(there[0]))
        for scheme in (list(among)[:1] if here[0] is there[0] else among)
    )
    folder = here[1].rpartition("/")[0]
    return tuple(
        dict.fromkeys(
            relative_entry(_join(own_base, folder), _join(library_base, there[1]))
            for own_base, library_base in pairs
        )
    )


def describe(among: Iterable[Scheme]) -> str:
    """Return a short text: `venv, prefix, user (python3.8 to 3.15, pypy3.9)`."""
    by_name = grouped(among, lambda scheme: scheme.name)
    versions = {name: tuple(s.python for s in same) for name, same in by_name.items()}
    return "; ".join(
        f"{', '.join(names)} ({runs_of(pythons)})"
        for pythons, names in grouped(versions, versions.__getitem__).items()
    )


def runs_of(pythons: Iterable[str]) -> str:
    """Return Pythons in words: `python3.8 to 3.15, pypy3.9`."""
    runs: list[list[str]] = []
    for python in sorted(pythons, key=lambda python: (is_free_threaded(python), _age(python))):
        if runs and _follows(runs[-1][-1], python):
            runs[-1].append(python)
        else:
            runs.append([python])
    lasts = (run[-1].removeprefix("python").removeprefix("pypy") for run in runs)
    return ", ".join(
        run[0] if len(run) == 1 else f"{run[0]} to {last}"
        for run, last in zip(runs, lasts, strict=True)
    )


def _follows(earlier: str, later: str) -> bool:
    pypy, major, minor, threaded = _age(earlier)
    return _age(later) == (pypy, major, minor + 1, threaded)
