"""The view of a wheel: a small wheel that `auditwheel show` judges in place of the real one.

auditwheel judges a wheel as it is zipped, wheelfix as it is installed. In the view, auditwheel
finds the libraries that the loader finds once the wheel is installed, and nothing of this machine:

- A library that the wheel ships stands in the folder `own…` under each name that an object needs.
- Every other object stands in a folder of its own, without `*.data` and `purelib`. Extensions are
  all called `m`, with a hook of that name; objects with the same content are shown once.
- auditwheel puts together the libraries and symbol versions that objects need. So one more object
  for each C library, the anchor, needs those of all, and finds what is shipped. The others need
  only libraries with private symbols: those are judged by object.
- The C library has the name that auditwheel knows: an object for musl may need `libc.so`, or only
  name its loader.
"""

import posixpath
import re
from collections.abc import Container, Iterable, Iterator, Mapping, Sequence

from wheelfix.analysis.lddtree_search import C_LIBRARIES, excluded_names, members_by_name
from wheelfix.analysis.policies import (
    Policy,
    blacklisted_libraries,
    hook_prefix,
    symbol_filter,
)
from wheelfix.analysis.policy_analysis import auditwheel_opens
from wheelfix.elf.model import LIBC_SONAMES, Elf, Libc, VersionNeed, shared_object
from wheelfix.elf.stub_for_auditwheel import build_stub
from wheelfix.grouping import flatten, grouped
from wheelfix.loader.machine_names import musl_soname
from wheelfix.loader.musl_search import is_musl_itself
from wheelfix.named_tuple import NamedTuple
from wheelfix.wheel.model import RecordRow, Wheel
from wheelfix.wheel.platform_tags import Family
from wheelfix.wheel.record import format_record


class _Group(NamedTuple):
    """The objects of one class, byte order and machine: those that can load each other."""

    folder: str
    """The folder of the shipped libraries in the view."""
    elfs: Mapping[str, Elf]
    shipped: Mapping[str, str]
    """Name in DT_NEEDED -> the member that has it as file name or SONAME."""


def build_view(
    wheel: Wheel, exclude: Iterable[str], policies: Sequence[Policy]
) -> tuple[str, dict[str, bytes]]:
    """Return the file name of the view of `wheel`, and its members.

    DT_NEEDED entries that a pattern of `exclude` matches are left out. Of symbols, only those are
    shown that auditwheel inspects under `policies`.
    """
    excluded = excluded_names(wheel.elfs.values(), exclude)
    objects: dict[str, bytes] = {}
    for group in _groups(wheel.elfs, excluded):
        objects |= _stubs(group, excluded, policies)
        objects |= _anchors(group, excluded, blacklisted_libraries(policies))
    record = format_record(RecordRow(place, "", None) for place in objects)
    # Where no object says for which C library it is, auditwheel would take that of this machine.
    says = any(elf.libc for elf in wheel.elfs.values())
    tags = [tag for tag in wheel.name.platforms if says or not tag.startswith(Family.MUSLLINUX)]
    platforms = ".".join(map(_plain, tags or wheel.name.platforms))
    return f"view-1-py3-none-{platforms}.whl", {**objects, wheel.dist_info.record: record}


def _plain(platform: str) -> str:
    """Return a platform tag without what `packaging` refuses; auditwheel reads nothing else."""
    return re.sub(r"\W", "_", platform, flags=re.ASCII)


def _groups(elfs: Mapping[str, Elf], excluded: Container[str]) -> Iterator[_Group]:
    opened = [(member, elf) for member, elf in elfs.items() if auditwheel_opens(member)]
    for number, same_abi in enumerate(grouped(opened, lambda item: item[1].abi).values()):
        # auditwheel fails if an extension without a known C library comes before all others.
        ordered = dict(sorted(same_abi, key=lambda item: item[1].libc is None))
        providers = members_by_name(ordered)
        shipped = {
            name: providers[name]
            for name in dict.fromkeys(flatten(elf.needed for elf in ordered.values()))
            if name in providers
            and name not in excluded
            and not name.startswith(C_LIBRARIES)
            and "/" not in name
        }
        yield _Group(f"own{number}", ordered, shipped)


def _stubs(
    group: _Group, excluded: Container[str], policies: Sequence[Policy]
) -> Iterator[tuple[str, bytes]]:
    """Yield the objects of `group` by their places in the view, shipped libraries first."""
    inspects, listed = symbol_filter(policies), blacklisted_libraries(policies)

    def stub(member: str, hook: str | None) -> bytes:
        elf = group.elfs[member]
        private = (name for name in elf.needed if name in listed and name not in excluded)
        symbols = tuple(symbol for symbol in elf.undefined if inspects(symbol.name))
        shown = elf._replace(undefined=symbols, interpreter=None, verneed=())
        return build_stub(
            shown,
            needed=[*_libc_name(elf), *private],
            search_path=_search_path(group),
            hook=hook,
        )

    for name, member in group.shipped.items():
        yield f"{group.folder}/{name}", stub(member, None)
    places: dict[tuple[str, bytes], str] = {}
    for member, elf in group.elfs.items():
        base = posixpath.basename(member)
        hook = hook_prefix(base, elf)
        if hook is None and group.shipped.get(base) == member:
            continue
        _, dot, suffix = base.partition(".")
        # auditwheel looks at a library's own name to see whether it is needed by name.
        name = base if hook is None and base in group.shipped else f"m{dot}{suffix}"
        shown = name, stub(member, hook and f"{hook}m")
        place = places.setdefault(shown, f"e{group.folder}-{len(places):05}/{name}")
        yield place, shown[1]


def _anchors(
    group: _Group, excluded: Container[str], listed: Container[str]
) -> Iterator[tuple[str, bytes]]:
    """Yield the objects that need all that the objects for one C library need."""
    for libc, elfs in grouped(group.elfs.values(), lambda elf: elf.libc).items():
        names = dict.fromkeys(name for name in flatten(elf.needed for elf in elfs) if name)
        needed = [
            name.replace("/", "_")[:99]  # it would be opened, or be no file name
            for name in names
            if name not in excluded
            and name not in listed
            and not (libc is Libc.MUSL and is_musl_itself(name))
        ]
        needs = flatten(elf.verneed for elf in elfs)
        verneed = tuple(
            VersionNeed(file, tuple(dict.fromkeys(flatten(need.versions for need in same))))
            for file, same in sorted(grouped(needs, lambda need: need.file).items())
        )
        blank = shared_object(elfs[0].abi, osabi=elfs[0].osabi, flags=elfs[0].flags)
        stub = build_stub(
            blank._replace(verneed=verneed),
            needed=[*dict.fromkeys((*_libc_name(elfs[0]), *needed))],
            search_path=_search_path(group),
        )
        yield f"anchor-{group.folder}-{libc}/anchor", stub


def _libc_name(elf: Elf) -> tuple[str, ...]:
    """Return the C library of `elf` as auditwheel knows it, where Alpine's name is musl's."""
    if elf.libc is None:
        return ()
    return (musl_soname(elf.abi) if elf.libc is Libc.MUSL else LIBC_SONAMES[elf.libc],)


def _search_path(group: _Group) -> str | None:
    return f"$ORIGIN/../{group.folder}" if group.shipped else None
