"""Wheels of less than 1 MB that would take minutes, or all memory, if nothing counted.

    python -m tests.oracles.fuzzing.bombs [NAME...] [--command repair --command diff | --all]

prints the seconds of the processor and the peak memory that wheelfix takes for each. Exits with 1
if one takes more than SECONDS or MEMORY, or ends in another way than a wheel should.
"""

import argparse
import os
import resource
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Callable, Sequence
from pathlib import Path, PurePosixPath
from struct import pack
from typing import NamedTuple

from tests.oracles.fuzzing.forge import (
    GNU_HASH,
    HASH,
    INFO,
    METADATA,
    NAME,
    NEEDED,
    NOTE,
    RELA,
    RELASZ,
    RUNPATH,
    SONAME,
    SYMTAB,
    VERDEF,
    VERNEED,
    VERSYM,
    WHEEL,
    Files,
    Strings,
    elf,
    library,
    symbols,
    sysv_hash,
    wheel,
    with_strings,
)

SECONDS = 5
"""Of the processor, all processes together."""
MEMORY = 512 << 20
_LONG = "a" * (1 << 20)
_ITSELF: tuple[tuple[int, int | str], ...] = ((SYMTAB, "symbols"), (HASH, "hash"))

BOMBS: dict[str, Callable[[], Files]] = {}


def bomb(make: Callable[[], Files]) -> Callable[[], Files]:
    """Add a function to BOMBS."""
    BOMBS[make.__name__.lstrip("_")] = make
    return make


# --- Strings --------------------------------------------------------------------------------------


def _with_symbols(strings: Strings, names: Sequence[int], section: int = 0) -> bytes:
    tables = {"symbols": symbols(names, section=section), "hash": sysv_hash(len(names) + 1)}
    return with_strings(_ITSELF, tables, strings)


@bomb
def strings_undefined() -> Files:
    """Make 20,000 undefined symbols that share one long name."""
    strings = Strings()
    return {"a.so": _with_symbols(strings, [strings.add(_LONG)] * 20_000)}


@bomb
def strings_defined() -> Files:
    """Make 20,000 definitions that share one long name, and an object that refers to another."""
    strings, other = Strings(), Strings()
    module = with_strings(
        [*_ITSELF, (NEEDED, other.add("a.so"))],
        {"symbols": symbols([other.add("x")]), "hash": sysv_hash(2)},
        other,
    )
    return {"a.so": _with_symbols(strings, [strings.add(_LONG)] * 20_000, 1), "b.so": module}


@bomb
def strings_needed() -> Files:
    """Make 999 DT_NEEDED with one long name."""
    strings = Strings()
    return {"a.so": with_strings([(NEEDED, strings.add(_LONG))] * 999, {}, strings)}


@bomb
def strings_verneed() -> Files:
    """Make 2,000 Verneed records of one long name."""
    strings = Strings()
    at, count = strings.add(_LONG), 2000
    records = b"".join(
        pack("<2H3L", 1, 1, at, 16, 32 if n + 1 < count else 0) + pack("<L2H2L", n, 0, 2, at, 0)
        for n in range(count)
    )
    return {"a.so": with_strings([(VERNEED, "needs")], {"needs": records}, strings)}


def with_verneed(count: int) -> bytes:
    """Make an object with so many Verneed records, each of a library of its own."""
    strings = Strings()
    records = b"".join(
        pack("<2H3L", 1, 1, strings.add(f"l{n}.so"), 16, 32 if n + 1 < count else 0)
        + pack("<L2H2L", n, 0, 2 + n, strings.add(f"V{n}"), 0)
        for n in range(count)
    )
    return with_strings([(VERNEED, "needs")], {"needs": records}, strings)


@bomb
def verneed_of_many_files() -> Files:
    """Make 20,000 Verneed records of libraries that are not in DT_NEEDED."""
    return {"a.so": with_verneed(20_000)}


@bomb
def strings_verdef() -> Files:
    """Make 2,000 Verdef records of one long name."""
    strings = Strings()
    at, count = strings.add(_LONG), 2000
    records = b"".join(
        pack("<4H3L", 1, 0, 2, 1, n, 20, 28 if n + 1 < count else 0) + pack("<2L", at, 0)
        for n in range(count)
    )
    return {"a.so": with_strings([(VERDEF, "definitions")], {"definitions": records}, strings)}


@bomb
def strings_suffixes() -> Files:
    """Make 300,000 undefined symbols, each named by the rest of one string of 300,000 letters."""
    strings = Strings()
    at = strings.add("a" * 300_000)
    return {"a.so": _with_symbols(strings, range(at, at + 300_000, 16))}


# --- Tables ---------------------------------------------------------------------------------------


@bomb
def verdef_overlapping() -> Files:
    """Make 60,000 Verdef records with 60,000 names each, all the same bytes."""
    strings = Strings()
    at, count = strings.add("V"), 60_000
    records = b"".join(
        pack("<4H3L", 1, 0, 2, count, 0, 20 * (count - n), 20 if n + 1 < count else 0)
        for n in range(count)
    )
    names = pack("<2L", at, 8) * (count - 1) + pack("<2L", at, 0)
    tables = {"definitions": records + names}
    return {f"{n}.so": with_strings([(VERDEF, "definitions")], tables, strings) for n in range(8)}


@bomb
def verneed_overlapping() -> Files:
    """Make Verneed records that have all Vernaux records in common, in 20 objects."""
    strings = Strings()
    at, count = strings.add("V"), 30_000
    records = b"".join(
        pack("<2H3L", 1, 1, at, 16 * (count - n), 16 if n + 1 < count else 0) for n in range(count)
    )
    names = pack("<L2H2L", 0, 0, 2, at, 16) * (count - 1) + pack("<L2H2L", 0, 0, 2, at, 0)
    tables = {"needs": records + names}
    return {f"{n}.so": with_strings([(VERNEED, "needs")], tables, strings) for n in range(20)}


@bomb
def gnuhash_chain() -> Files:
    """Make 4,096 names of hooks, looked up along a chain of 65,536 words."""
    strings = Strings()
    names = [strings.add(f"PyInit_{n}") for n in range(4096)]
    chain = bytes(4 * 65_535) + pack("<L", 1)
    table = pack("<4L", 4096, 1, 1, 0) + bytes(8) + pack("<L", 1) * 4096 + chain
    tables = {"symbols": symbols(names * 16, section=1), "table": table}
    return {"a.so": with_strings([(SYMTAB, "symbols"), (GNU_HASH, "table")], tables, strings)}


@bomb
def million_undefined() -> Files:
    """Make three objects with a million undefined symbols each."""
    strings = Strings()
    names = [strings.add("f")] * ((1 << 20) - 2)
    made = _with_symbols(strings, names)
    return {f"{n}.so": made for n in range(3)}


@bomb
def million_defined() -> Files:
    """Make five objects with a million definitions each, and one that refers to something."""
    strings, other = Strings(), Strings()
    made = _with_symbols(strings, [strings.add("f")] * ((1 << 20) - 2), section=1)
    needed = [(NEEDED, other.add(f"{n}.so")) for n in range(5)]
    tables = {"symbols": symbols([other.add("x")]), "hash": sysv_hash(2)}
    return {
        **{f"{n}.so": made for n in range(5)},
        "x.so": with_strings([*_ITSELF, *needed], tables, other),
    }


@bomb
def sections_many() -> Files:
    """Make 3 million section headers."""
    return {"a.so": elf([], {}, sections=3_000_000)}


@bomb
def segments_many() -> Files:
    """Make 2 million program headers, as PN_XNUM permits."""
    empty = [(0x6FFFFFFF, "none")] * 2_000_000
    return {"a.so": elf([], {"none": b""}, segments=empty, sections=1)}


@bomb
def notes_many() -> Files:
    """Make 2,000 PT_NOTE segments over one range of 64 kB."""
    note = pack("<3L", 4, 4, 1) + b"FDO\0" + bytes(4)
    tables = {"notes": note * (65_536 // len(note))}
    return {"a.so": elf([], tables, segments=[(NOTE, "notes")] * 2000)}


@bomb
def dlopen_json_many() -> Files:
    """Make 500 notes of 4,000 names each, all the same."""
    text = ('[{"soname":[' + ",".join(f'"l{n}.so"' for n in range(4000)) + "]}]").encode()
    text += bytes(-len(text) % 4)
    note = pack("<3L", 4, len(text), 0x407C0C0A) + b"FDO\0" + text
    return {"a.so": elf([], {"note": note}, segments=[(NOTE, "note")] * 500)}


@bomb
def relocations_many() -> Files:
    """Make two programs with 200,000 relocations of copied data."""
    strings = Strings()
    name = strings.add("x" * 4000)
    tables = {
        "symbols": symbols([name] * 20_000, section=1),
        "hash": sysv_hash(20_001),
        "copies": b"".join(pack("<2Qq", 0, n % 20_000 << 32 | 5, 0) for n in range(200_000)),
    }
    tags = [*_ITSELF, (RELA, "copies"), (RELASZ, len(tables["copies"]))]
    return {f"{n}": with_strings(tags, tables, strings, kind=2) for n in range(2)}


@bomb
def versions_many() -> Files:
    """Make symbols of 30,000 versions of one library."""
    strings = Strings()
    file, count = strings.add("libc.so.6"), 30_000
    names = [strings.add(f"GLIBC_2.{n}") for n in range(count)]
    needs = pack("<2H3L", 1, 1, file, 16, 0) + b"".join(
        pack("<L2H2L", n, 0, 2 + n, name, 16 if n + 1 < count else 0)
        for n, name in enumerate(names)
    )
    tables = {
        "symbols": symbols(names),
        "hash": sysv_hash(count + 1),
        "needs": needs,
        "indices": b"".join(pack("<H", n + 1) for n in range(count + 1)),
    }
    tags = [*_ITSELF, (VERNEED, "needs"), (VERSYM, "indices"), (NEEDED, file)]
    return {"a.so": with_strings(tags, tables, strings)}


# --- Walks of the loader --------------------------------------------------------------------------


@bomb
def needed_x_rpath() -> Files:
    """Make 1,000 DT_NEEDED, searched for in 1,000 directories each."""
    path = ":".join(f"$ORIGIN/{n}" for n in range(1000))
    return {"a.so": library([f"l{n}" for n in range(999)], runpath=path)}


@bomb
def needed_x_long_rpath() -> Files:
    """Make 1,000 DT_NEEDED, searched for in 600 directories of 4,000 characters."""
    path = ":".join(["$ORIGIN/" * 500] * 600)
    return {"a.so": library([f"l{n}.so" for n in range(1000)], runpath=path)}


@bomb
def needed_x_rpath_many() -> Files:
    """Make 30 objects with 300 DT_NEEDED and 300 directories."""
    path = ":".join(f"$ORIGIN/{n}" for n in range(300))
    made = library([f"l{n}" for n in range(300)], runpath=path)
    return {f"{n}.so": made for n in range(30)}


@bomb
def needed_x_zip_path() -> Files:
    """Make 100 objects with 900 DT_NEEDED and 900 directories, which are in the zip."""
    path = ":".join(f"$ORIGIN/{n}" for n in range(900))
    made = library([f"l{n}" for n in range(900)], runpath=path)
    return {f"{n}.so": made for n in range(100)} | {f"{n}/x.txt": "" for n in range(900)}


def _chain(count: int) -> Files:
    return {
        f"p/l{n}.so": library([f"l{n + 1}.so"], soname=f"l{n}.so", rpath="$ORIGIN")
        for n in range(count)
    }


@bomb
def chain_deep() -> Files:
    """Make a chain of 400 libraries with DT_RPATH, each loading all that follow."""
    return _chain(400)


@bomb
def chain_deeper() -> Files:
    """Make a chain of 1,500 libraries."""
    return _chain(1500)


@bomb
def chain_inherited() -> Files:
    """Make a chain of 60 libraries, each with 200 directories for all that follow."""
    return {
        f"p/l{n}.so": library(
            [f"l{m}.so" for m in range(60)],
            soname=f"l{n}.so",
            rpath=":".join(["/x" + f"{n}/{d}" for d in range(200)] + ["$ORIGIN"]),
        )
        for n in range(60)
    }


@bomb
def circle() -> Files:
    """Make 300 libraries that need each other in a circle: each loads all."""
    return {
        f"p/l{n}.so": library([f"l{(n + 1) % 300}.so"], soname=f"l{n}.so", runpath="$ORIGIN")
        for n in range(300)
    }


@bomb
def libraries_of_one_soname() -> Files:
    """Make 500 copies of two libraries, one of which needs the other."""
    files: dict[str, bytes | str] = {}
    for n in range(500):
        files[f"p{n}/liba.so"] = library(["libb.so"], soname="liba.so")
        files[f"p{n}/x/libb.so"] = library(soname="libb.so")
    return files


@bomb
def copies_of_one_soname() -> Files:
    """Make 3,000 libraries of one SONAME in folders of their own."""
    return {f"p{n}/liba.so": library(soname="liba.so") for n in range(3000)}


@bomb
def needed_of_one_soname() -> Files:
    """Make 1,000 objects that need what 500 folders have."""
    files: dict[str, bytes | str] = {f"p{n}/libb.so": library(soname="libb.so") for n in range(500)}
    return {**files, **{f"q/{n}.so": library(["libb.so"]) for n in range(1000)}}


@bomb
def rpath_long_needed() -> Files:
    """Make 1,000 DT_NEEDED, and a DT_RPATH of 100 entries that repeat `$ORIGIN/`."""
    path = ":".join(f"{'$ORIGIN/' * 500}{n}" for n in range(100))
    return {"p/a.so": library([f"l{n}.so" for n in range(999)], rpath=path)}


@bomb
def rpath_long() -> Files:
    """Make 20 objects of 15 DT_NEEDED each, with such a DT_RPATH."""
    path = ":".join(f"{'$ORIGIN/' * 500}{n}" for n in range(100))
    return {
        f"p/{m}.so": library([f"l{m}_{n}.so" for n in range(15)], rpath=path) for m in range(20)
    }


@bomb
def rpath_origin_many() -> Files:
    """Make objects with search paths of 1,000 entries, for libraries that do not exist."""
    path = ":".join(f"$ORIGIN/../{n}" for n in range(990))
    return {
        f"p/{n}.so": library([f"lib{n}_{m}.so" for m in range(40)], rpath=path) for n in range(20)
    }


@bomb
def all_need_all() -> Files:
    """Make 250 libraries that all need each other."""
    names = [f"lib{n}.so" for n in range(250)]
    return {f"p/{name}": library(names, soname=name, runpath="$ORIGIN") for name in names}


# --- Python sources -------------------------------------------------------------------------------

_OPEN = "import ctypes\n"


@bomb
def source_nested() -> Files:
    """Make 98 functions in each other, over 900,000 empty lines."""
    head = "".join(f"{' ' * n}def f{n}():\n" for n in range(98))
    return {"a.py": _OPEN + head + "\n" * 900_000 + " " * 98 + "ctypes.CDLL('x')\n"}


@bomb
def source_nested_many() -> Files:
    """Make eight sources of 98 functions in each other."""
    head = "".join(f"{' ' * n}def f{n}():\n" for n in range(98))
    text = _OPEN + head + "\n" * 200_000 + " " * 98 + "ctypes.CDLL('x')\n"
    return {f"{n}.py": text for n in range(8)}


@bomb
def source_colliding_keys() -> Files:
    """Make a dict of 30,000 numbers with the same hash."""
    keys = ",".join(f"{n * ((1 << 61) - 1)}:0" for n in range(30_000))
    return {"a.py": f"{_OPEN}x = {{{keys}}}\nctypes.CDLL('x')\n"}


@bomb
def source_of_comments() -> Files:
    """Make 900 MB of `#`."""
    return {"a.py": b"#" * 900_000_000}


@bomb
def sources_of_tokens() -> Files:
    """Make 60 sources of 99,000 tokens each."""
    text = _OPEN + "x = [" + "1," * 49_000 + "]\nctypes.CDLL('x')\n"
    return {f"p{n}/a.py": text for n in range(60)}


@bomb
def sources_many() -> Files:
    """Make 3,000 sources that open what they know."""
    return {f"p/m{n}.py": f"{_OPEN}ctypes.CDLL('lib{n}.so')\n" for n in range(3000)}


@bomb
def source_openings() -> Files:
    """Make one source that opens 20,000 libraries."""
    return {"a.py": _OPEN + "".join(f"ctypes.CDLL('lib{n}.so')\n" for n in range(9000))}


@bomb
def source_words() -> Files:
    """Make a source that is one word of 200 MB."""
    return {"a.py": b"import ctypes\n" + b"x.so" * 25_000_000}


# --- The metadata ---------------------------------------------------------------------------------


@bomb
def record_duplicates() -> Files:
    """Make 90,000 equal rows of RECORD."""
    return {f"{INFO}/RECORD": "a,,\n" * 90_000}


@bomb
def record_of_missing() -> Files:
    """Make 90,000 rows of RECORD for files that do not exist."""
    return {f"{INFO}/RECORD": "".join(f"{n},,\n" for n in range(90_000))}


@bomb
def record_broken_rows() -> Files:
    """Make 500,000 rows of RECORD that are none."""
    return {f"{INFO}/RECORD": "a\n" * 500_000}


@bomb
def record_of_empty_rows() -> Files:
    """Make 1,000,000 empty rows of RECORD."""
    return {f"{INFO}/RECORD": "\n" * 1_000_000}


@bomb
def record_wide_row() -> Files:
    """Make a row of RECORD with 250,000 fields, and the same again."""
    return {f"{INFO}/RECORD": ("," * 120_000 + "\n") * 8}


@bomb
def tags_many() -> Files:
    """Make 30,000 `Tag:` lines."""
    lines = "".join(f"Tag: cp311-cp311-linux_{n}\n" for n in range(30_000))
    return {f"{INFO}/WHEEL": WHEEL + lines, "a.so": library(["libc.so.6"])}


@bomb
def tags_wide() -> Files:
    """Make tags that expand to billions."""
    tag = f"{'a.' * 3000}b-{'c.' * 3000}d-{'e.' * 3000}f"
    return {f"{INFO}/WHEEL": WHEEL + f"Tag: {tag}\n", "a.so": library(["libc.so.6"])}


@bomb
def licenses_and_libraries() -> Files:
    """Make 500 libraries, and 15 MB of licenses that name none of them."""
    text = "no such thing " * 74_000
    files: dict[str, bytes | str] = {f"demo.libs/lib{n}x.so": library() for n in range(500)}
    return {**files, **{f"{INFO}/licenses/LICENSE.{n}": text for n in range(15)}}


@bomb
def licenses_of_parts() -> Files:
    """Make libraries with names of 60 parts, and licenses of the same parts."""
    names = (f"{'q-' * 60}{n}a" for n in range(200))
    files: dict[str, bytes | str] = {f"demo.libs/lib-{name}.so": library() for name in names}
    lines = (f"{'q-' * 500}{n}b\n" for n in range(900))
    return {**files, f"{INFO}/licenses/LICENSE": "".join(lines)}


@bomb
def requirements_many() -> Files:
    """Make 19,000 requirements with markers and versions."""
    lines = "".join(
        f"Requires-Dist: a{n}>=1.{n},!=2.{n}; python_version>'3.{n}' and extra=='x'\n"
        for n in range(19_000)
    )
    return {f"{INFO}/METADATA": METADATA + lines, "a.so": library(["libc.so.6"])}


@bomb
def licenses_many() -> Files:
    """Make 19,000 license files that do not exist."""
    lines = "".join(f"License-File: {n}\n" for n in range(19_000))
    return {f"{INFO}/METADATA": METADATA + lines}


@bomb
def entry_points_many() -> Files:
    """Make 40,000 entry points."""
    lines = "".join(f"c{n} = m{n}.x:f\n" for n in range(40_000))
    return {f"{INFO}/entry_points.txt": "[console_scripts]\n" + lines}


@bomb
def sboms_many() -> Files:
    """Make 16 bills of material, 1 MB each."""
    rows = ",".join('{"name":"a","version":"1","purl":"pkg:x/y"}' for _ in range(20_000))
    text = f'{{"bomFormat":"CycloneDX","components":[{rows}]}}'
    return {f"{INFO}/sboms/{n}.cdx.json": text for n in range(16)}


@bomb
def property_note() -> Files:
    """Make a GNU property of 500 MB."""
    head = pack("<3L", 4, 500_000_000, 5) + b"GNU\0"
    tables = {"note": head + bytes(500_000_000)}
    return {"a.so": elf([], tables, segments=[(NOTE, "note")])}


@bomb
def string_table_of_zeros() -> Files:
    """Make a string table of 700 MB."""
    strings = Strings()
    strings.content += bytes(700_000_000)
    return {"a.so": with_strings([], {}, strings)}


@bomb
def gnuhash_buckets() -> Files:
    """Make a DT_GNU_HASH of 150 million buckets."""
    strings = Strings()
    count = 150_000_000
    table = pack("<4L", count, 1, 1, 0) + bytes(8) + bytes(4 * count)
    tables = {"symbols": symbols([1]), "table": table}
    return {"a.so": with_strings([(SYMTAB, "symbols"), (GNU_HASH, "table")], tables, strings)}


@bomb
def symbols_shared() -> Files:
    """Make 45 libraries that define and use the same 3,000 symbols, each needing the next."""
    files: dict[str, bytes | str] = {}
    for n in range(45):
        strings = Strings()
        names = [strings.add(f"f{m}") for m in range(3000)]
        tables = {
            "symbols": symbols(names, section=1) + symbols(names)[24:],
            "hash": sysv_hash(2 * len(names) + 1),
        }
        tags = [
            *_ITSELF,
            (NEEDED, strings.add(f"l{min(n + 1, 44)}.so")),
            (RUNPATH, strings.add("$ORIGIN")),
        ]
        files[f"p/l{n}.so"] = with_strings(tags, tables, strings)
    return files


def _with(
    needed: Sequence[str], soname: str, *, uses: Sequence[str] = (), defines: Sequence[str] = ()
) -> bytes:
    """Write a library that refers to some symbols, and defines others."""
    strings = Strings()
    tags: list[tuple[int, int | str]] = [(NEEDED, strings.add(name)) for name in needed]
    tags += [(SONAME, strings.add(soname)), (RUNPATH, strings.add("$ORIGIN")), *_ITSELF]
    made = symbols([strings.add(name) for name in uses])
    made += symbols([strings.add(name) for name in defines], section=1)[24:]
    count = 1 + len(uses) + len(defines)
    return with_strings(tags, {"symbols": made, "hash": sysv_hash(count)}, strings)


@bomb
def drops_rebinding() -> Files:
    """Make 200 modules whose 30 unused libraries decide what 3,000 symbols are bound to."""
    names = [f"f{n}" for n in range(3000)]
    unused = [f"a{n}.so" for n in range(30)]
    files: dict[str, bytes | str] = {
        "p/b.so": _with([], "b.so", defines=[*names, "i"]),
        "p/c.so": _with([], "c.so", defines=names),
        "p/d.so": _with(["c.so"], "d.so", uses=names, defines=["h"]),
        "p/e.so": _with(["d.so"], "e.so", uses=["h"], defines=["g"]),
    }
    files |= {f"p/{name}": _with(["b.so"], name, uses=["i"]) for name in unused}
    modules = [f"m{n}.so" for n in range(200)]
    return files | {f"p/{name}": _with([*unused, "e.so"], name, uses=["g"]) for name in modules}


@bomb
def symbols_missing() -> Files:
    """Make 100 objects that need one library and refer to 2,000 symbols that it lacks."""
    files: dict[str, bytes | str] = {"p/l.so": library(soname="l.so")}
    for n in range(100):
        strings = Strings()
        names = [strings.add(f"f{m}") for m in range(2000)]
        tables = {"symbols": symbols(names), "hash": sysv_hash(len(names) + 1)}
        tags = [*_ITSELF, (NEEDED, strings.add("l.so")), (RUNPATH, strings.add("$ORIGIN"))]
        files[f"p/{n}.so"] = with_strings(tags, tables, strings)
    return files


@bomb
def symbols_alike() -> Files:
    """Make 30,000 definitions, and 100 objects that refer to 50 symbols spelled nearly so."""
    strings = Strings()
    made = _with_symbols(strings, [strings.add(f"symbol_{n:06}") for n in range(30_000)], 1)
    files: dict[str, bytes | str] = {"p/l.so": made}
    for n in range(100):
        other = Strings()
        names = [other.add(f"symbol_{n:03}{m:03}x") for m in range(50)]
        tables = {"symbols": symbols(names), "hash": sysv_hash(len(names) + 1)}
        tags = [*_ITSELF, (NEEDED, other.add("l.so")), (RUNPATH, other.add("$ORIGIN"))]
        files[f"p/{n}.so"] = with_strings(tags, tables, other)
    return files


@bomb
def symbols_mangled() -> Files:
    """Make undefined symbols whose names are mangled types within types."""
    strings = Strings()
    names = [strings.add("_Z1f" + "PK" * 50_000 + f"{n}x") for n in range(20)]
    names += [strings.add("_ZTI" + "N1aI" * 2000 + f"{n}") for n in range(20)]
    names += [strings.add("_Z1fI" + "S_" * 30_000 + f"E{n}") for n in range(20)]
    return {"a.so": _with_symbols(strings, names), "b.so": library(["a.so"])}


@bomb
def exports_mangled() -> Files:
    """Make 20,000 exports with mangled names of 800 letters."""
    strings = Strings()
    names = [strings.add(f"_ZN{'1a' * 390}6n{n:05}Ev") for n in range(20_000)]
    return {"p/liba.so": _with_symbols(strings, names, 1)}


@bomb
def symbols_of_one_name() -> Files:
    """Make 300,000 definitions of one symbol, and an object that refers to it."""
    strings, other = Strings(), Strings()
    tables = {"symbols": symbols([other.add("f")]), "hash": sysv_hash(2)}
    tags = [*_ITSELF, (NEEDED, other.add("a.so")), (RUNPATH, other.add("$ORIGIN"))]
    made = _with_symbols(strings, [strings.add("f")] * 300_000, 1)
    return {"p/a.so": made, "p/b.so": with_strings(tags, tables, other)}


@bomb
def needed_long_names() -> Files:
    """Make 300 objects with 900 DT_NEEDED of 4,000 letters each."""
    strings = Strings()
    at = strings.add("lib" + "a" * 4000 + ".so.1")
    made = with_strings([(NEEDED, at)] * 900, {}, strings)
    return {f"{n}.so": made for n in range(300)}


@bomb
def dlopen_json_of_members() -> Files:
    """Make notes of 100 names each, in 300 objects."""
    files: dict[str, bytes | str] = {}
    for n in range(300):
        rows = ",".join(f'{{"soname":["l{m}.so"]}}' for m in range(100))
        text = f"[{rows}]".encode()
        text += bytes(-len(text) % 4)
        note = pack("<3L", 4, len(text), 0x407C0C0A) + b"FDO\0" + text
        files[f"p{n}/l{n % 100}.so"] = elf([], {"note": note}, segments=[(NOTE, "note")])
    return files


@bomb
def search_paths_long() -> Files:
    """Make 100 objects with 900 entries of 300 folders."""
    path = ":".join(f"$ORIGIN/{n}" + "/../a" * 300 for n in range(900))
    return {f"p/{n}.so": library(["libx.so"], runpath=path) for n in range(100)}


@bomb
def tags_and_lines() -> Files:
    """Make a WHEEL file of 2,000 tags and 200,000 other lines."""
    lines = "".join(f"Tag: cp311-cp311-linux_{n}\n" for n in range(2000)) + "x:\n" * 200_000
    return {f"{INFO}/WHEEL": WHEEL + lines, "a.so": library(["libc.so.6"])}


@bomb
def requirement_of_specifiers() -> Files:
    """Make a requirement of 300,000 versions."""
    versions = ",".join(f">={n}" for n in range(300_000))
    return {f"{INFO}/METADATA": METADATA + f"Requires-Dist: a{versions}\n"}


@bomb
def requires_python_of_specifiers() -> Files:
    """Make a Requires-Python of 300,000 versions."""
    versions = ",".join(f">={n}" for n in range(300_000))
    return {f"{INFO}/METADATA": METADATA + f"Requires-Python: {versions}\n"}


@bomb
def packages_with_shims() -> Files:
    """Make 3,000 packages of one object and one source each."""
    files: dict[str, bytes | str] = {}
    made = library(["libc.so.6"])
    for n in range(1500):
        files[f"p{n}/__init__.py"] = "import os\nfrom . import x\n"
        files[f"p{n}/x.abi3.so"] = made
    return files


@bomb
def source_of_calls() -> Files:
    """Make functions that call each other nine times each, six deep."""
    text = _OPEN + "".join(
        f"def f{n}(a): return {' + '.join(f'f{m}(a)' for m in range(9))}\n" for n in range(9)
    )
    return {f"p{n}/a.py": text + "ctypes.CDLL(f0('x'))\n" for n in range(200)}


@bomb
def source_of_branches() -> Files:
    """Make a source of 20,000 branches over 5,000 names."""
    text = "".join(f"a{n} = 'x'\n" for n in range(5000))
    text += "".join(f"if x{n}: a{n} = 'y'\n" for n in range(8000))
    return {"a.py": f"{_OPEN}{text}ctypes.CDLL(a1)\n"}


@bomb
def source_of_texts() -> Files:
    """Make texts that double."""
    text = "a = 'x' * 4000\n" + "a = [a + 'b', a + 'c', a]\n" * 5000
    return {f"{n}.py": f"{_OPEN}{text}ctypes.CDLL(a)\n" for n in range(20)}


def _module(defines: str) -> bytes:
    strings = Strings()
    tags = [*_ITSELF, (NEEDED, strings.add("libinside.so")), (NEEDED, strings.add("libc.so.6"))]
    made = symbols([strings.add("PyErr_Clear")]) + symbols([strings.add(defines)], section=1)[24:]
    tables = {"symbols": made, "hash": sysv_hash(3)}
    return with_strings(tags, tables, strings)


@bomb
def modules_tried() -> Files:
    """Make 120 modules that load nothing, and 120 sources that try to import all of them."""
    suffix = ".cpython-311-x86_64-linux-gnu.so"
    tries = "".join(f"try: from . import m{n}\nexcept ImportError: pass\n" for n in range(120))
    files: dict[str, bytes | str] = {f"p/s{n}.py": tries for n in range(120)}
    files |= {f"p/m{n}{suffix}": _module(f"PyInit_m{n}") for n in range(120)}
    return files | {"q/libinside.so": library(soname="libinside.so")}


@bomb
def modules_named() -> Files:
    """Make 1,000 modules without their function, and sources of 20 MB that may name them."""
    suffix = ".cpython-311-x86_64-linux-gnu.so"
    files: dict[str, bytes | str] = {f"p/s{n}.py": "a = 1\n" * 150_000 for n in range(20)}
    return files | {f"p/_m{n}{suffix}": _module("f") for n in range(1000)}


# --- The zip --------------------------------------------------------------------------------------


@bomb
def members_many() -> Files:
    """Make 5,000 empty files in folders of their own."""
    return {f"{n:x}/a": "" for n in range(5000)}


@bomb
def members_like_libraries() -> Files:
    """Make 5,000 empty files with the name of a library."""
    return {f"{n:x}/a.so": "" for n in range(5000)}


@bomb
def modules_many() -> Files:
    """Make 3,000 empty modules and 500 objects."""
    modules = {f"p/m{n}.py": "" for n in range(2000)}
    return {
        **modules,
        **{f"p/x{n}.cpython-311-x86_64-linux-gnu.so": library(["libc.so.6"]) for n in range(500)},
    }


@bomb
def zeros_many() -> Files:
    """Make 40 members of 20 MB of zeros."""
    return {f"a{n}": bytes(20_000_000) for n in range(40)}


@bomb
def object_of_zeros() -> Files:
    """Make an object with 800 MB of zeros behind it."""
    return {"a.so": library(["libc.so.6"]) + bytes(800_000_000)}


@bomb
def modules_tiny() -> Files:
    """Make 8,000 modules of Python without a name."""
    return {f"p/m{n}.py": "" for n in range(8000)}


@bomb
def objects_tiny() -> Files:
    """Make 4,000 modules with one import each."""
    made = library(["libc.so.6"])
    return {f"p/x{n}.cpython-311-x86_64-linux-gnu.so": made for n in range(4000)}


@bomb
def scripts_many() -> Files:
    """Make 2,000 scripts."""
    return {f"demo-1.0.data/scripts/s{n}": "#!python\n" + " " * 200_000 for n in range(1000)}


# --- Measurement ----------------------------------------------------------------------------------


class Cost(NamedTuple):
    """What one run took."""

    code: int
    seconds: float
    """Of the processor, its children included."""
    memory: int
    """Peak bytes of the largest process."""
    output: str


_LAUNCH = """
import os, resource, sys
pid = os.posix_spawn(sys.executable, sys.argv[1:], os.environ)
status, usage = os.wait4(pid, 0)[1:]
code = os.waitstatus_to_exitcode(status)
with open(3, "w") as out:
    print(code, usage.ru_utime + usage.ru_stime, usage.ru_maxrss * 1024, file=out)
"""
"""A process begins with its parent's peak memory (exec_mmap in fs/exec.c): a small one measures."""


COMMANDS = {
    "check": "check WHEEL",
    "repair": "repair -w OUT WHEEL",
    "dry-run": "repair --dry-run WHEEL",
    "why": "why WHEEL libc.so.6",
    "show": "show WHEEL",
    "explain": "explain WHEEL",
    "diff": "diff WHEEL WHEEL",
    "diff-lost": "diff WHEEL PLAIN",
    "diff-added": "diff PLAIN WHEEL",
}
"""What is run for a wheel: OUT is a folder, PLAIN the wheel with libraries that define nothing."""


def _without_symbols(path: Path) -> bytes:
    with zipfile.ZipFile(path) as archive:
        names = [PurePosixPath(name) for name in archive.namelist()]
    return wheel({str(name): library(soname=name.name) for name in names if name.suffix == ".so"})


def cost(path: Path, command: str, most: float = 60) -> Cost:
    """Run one of COMMANDS; it is ended after `most` seconds of the processor, or by 4 GB."""
    with tempfile.TemporaryDirectory() as folder:
        plain = Path(folder) / NAME
        plain.write_bytes(_without_symbols(path))
        words = {"WHEEL": str(path), "PLAIN": str(plain), "OUT": f"{folder}/out"}
        return cost_of([words.get(word, word) for word in COMMANDS[command].split()], most)


def cost_of(arguments: Sequence[str], most: float = 60) -> Cost:
    """Run a command line, which is ended likewise."""

    def limit() -> None:
        resource.setrlimit(resource.RLIMIT_CPU, (round(most), round(most) + 1))
        resource.setrlimit(resource.RLIMIT_DATA, (4 << 30, 4 << 30))

    with tempfile.NamedTemporaryFile() as figures:
        run = [sys.executable, "-m", "wheelfix", *arguments]
        shell = ["sh", "-c", 'exec "$0" "$@" 3>"$FIGURES"', sys.executable, "-ISc", _LAUNCH]
        done = subprocess.run(
            [*shell, *run],
            env={**os.environ, "FIGURES": figures.name},
            capture_output=True,
            text=True,
            check=False,
            preexec_fn=limit,
        )
        code, seconds, memory = Path(figures.name).read_text().split()
    return Cost(int(code), float(seconds), int(memory), done.stdout + done.stderr)


def written(name: str, folder: Path) -> Path:
    """Write one of BOMBS into `folder`."""
    path = folder / NAME
    path.write_bytes(wheel(BOMBS[name]()))
    return path


def main() -> None:
    """Measure what is asked for."""
    parser = argparse.ArgumentParser()
    parser.add_argument("names", nargs="*", metavar="NAME")
    parser.add_argument("--command", action="append", choices=COMMANDS)
    parser.add_argument("--all", action="store_true", help="all commands")
    options = parser.parse_args()
    commands = COMMANDS if options.all else options.command or ["check"]
    bad = 0
    for name in options.names or BOMBS:
        with tempfile.TemporaryDirectory() as folder:
            path = written(name, Path(folder))
            bad += sum(not _measure(name, path, command) for command in commands)
    sys.exit(bool(bad))


def _measure(name: str, path: Path, command: str) -> bool:
    """Print what a command takes for a wheel; return whether that is within the bounds."""
    spent = cost(path, command, 20)
    is_bad = spent.seconds > SECONDS or spent.memory > MEMORY or spent.code not in {0, 1, 2}
    is_bad |= "internal error" in spent.output
    lines = spent.output.strip().splitlines() or [""]
    said = "" if spent.code in {0, 1} else lines[-1][:110]
    print(
        f"{'!' if is_bad else ' '} {name:24} {command:10} {path.stat().st_size / 1000:7.1f} kB"
        f" {spent.seconds:6.1f} s {spent.memory / 1e6:7.0f} MB  exit {spent.code}  {said}",
        flush=True,
    )
    return not is_bad


if __name__ == "__main__":
    main()
