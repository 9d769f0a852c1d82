"""What `wheelfix diff` calls a break, judged by the real loader, and what else it reports.

The judge is a program linked with the old library: it starts with the new one, or it does not.
"""

import os
import subprocess
from collections.abc import Mapping
from pathlib import Path

import pytest

from tests.support.build import executable, extension, make_wheel, shared_object
from tests.support.repairing import repair
from tests.support.tools import tool
from tests.support.values import elf, wheel
from wheelfix.diff.changes import ChangeKind, ReleaseChange, Side, compare, counterpart
from wheelfix.diff.wheels_of_releases import compare_wheels, pairs
from wheelfix.elf.model import VersionNeed
from wheelfix.errors import SettingsError
from wheelfix.loader.install_schemes import NEWEST_MINOR
from wheelfix.rules.findings import Severity
from wheelfix.settings import Settings
from wheelfix.wheel.model import Member, Metadata, WheelName

TAG = "py3-none-manylinux_2_35_x86_64"
OLD = "int f(void){return 1;} int data = 3; __thread int local = 4; int g(void){return f();}"
USER = (
    "extern int f(void), g(void), data; extern __thread int local;"
    "int main(void){return f() + g() + data + local - 9;}"
)
V1 = "V1 { global: f; g; data; local; };"


def script(folder: Path, text: str) -> list[str]:
    """Return the flags for a version script."""
    path = folder / f"{abs(hash(text))}.map"
    path.write_text(text)
    return [f"-Wl,--version-script={path}"] if text else []


# New source, version script of the old and of the new library, and whether the program starts.
CASES: Mapping[str, tuple[str, str, str, bool]] = {
    "the same": (OLD, "", "", True),
    "more": (OLD + "int h(void){return 2;}", "", "", True),
    "a function less": (OLD.replace("int g(void){return f();}", ""), "", "", False),
    "data less": (OLD.replace("int data = 3;", ""), "", "", False),
    "hidden": (OLD.replace("int g", '__attribute__((visibility("hidden"))) int g'), "", "", False),
    "weak": (OLD.replace("int g", "__attribute__((weak)) int g"), "", "", True),
    "versioned alike": (OLD, V1, V1, True),
    "versioned now": (OLD, "", V1, True),
    "other version": (OLD, V1, V1.replace("V1", "V2"), False),
    "no versions now": (OLD, V1, "", True),
    "local now": (OLD, V1, "V1 { global: f; data; local; local: *; };", False),
}


@pytest.mark.parametrize("case", CASES)
def test_what_was_linked_with_the_old_library_starts_or_the_diff_has_an_error(
    case: str, tmp_path: Path
) -> None:
    source, before, after, starts = CASES[case]
    libraries: list[Path] = []
    for folder, text, versions in (("old", OLD, before), ("new", source, after)):
        (tmp_path / folder).mkdir()
        library = tmp_path / folder / "libdemo.so.1"
        flags = script(tmp_path, versions)
        libraries.append(shared_object(library, text, soname="libdemo.so.1", flags=flags))
    program = executable(tmp_path / "user", USER, needed=libraries[:1])
    runs = [
        subprocess.run(
            [program],
            env={**os.environ, "LD_LIBRARY_PATH": str(library.parent), "LD_BIND_NOW": "1"},
            check=False,
            capture_output=True,
        ).returncode
        for library in libraries
    ]
    assert runs[0] == 0
    assert (runs[1] == 0) == starts
    found = compared(libraries[0], libraries[1])
    assert any(change.severity is Severity.ERROR for change in found) != starts
    assert {c.kind for c in found if c.severity is Severity.ERROR} <= {ChangeKind.REMOVED_EXPORT}


def compared(old: Path, new: Path, folder: str = "demo") -> tuple[ReleaseChange, ...]:
    """Compare wheels with one library each."""
    return compare_wheels(
        make_wheel(old.parent, tag=TAG, files={f"{folder}/{old.name}": old}),
        make_wheel(new.parent, version="2.0", tag=TAG, files={f"{folder}/{new.name}": new}),
        Settings(),
    ).changes


def two(folder: Path, before: str, after: str, source: str = OLD) -> tuple[Path, Path]:
    """Link an old and a new library, with these SONAMEs."""
    for name in ("old", "new"):
        (folder / name).mkdir()
    return (
        shared_object(folder / "old" / before, OLD, soname=before),
        shared_object(folder / "new" / after, source, soname=after),
    )


def test_another_soname_and_no_library_are_errors(tmp_path: Path) -> None:
    libraries = two(tmp_path, "libdemo.so.1", "libdemo.so.2", "int h(void){return 2;}")
    found = {change.kind: change for change in compared(*libraries)}
    assert found[ChangeKind.CHANGED_SONAME].severity is Severity.ERROR
    removed = found[ChangeKind.REMOVED_EXPORT]
    assert (removed.severity, len(removed.items)) == (Severity.NOTE, 4)
    (tmp_path / "x").mkdir()
    other = two(tmp_path / "x", "libdemo.so.1", "libother.so.1")
    assert ChangeKind.REMOVED_LIBRARY in {change.kind for change in compared(*other)}


def test_a_moved_library_is_a_warning(tmp_path: Path) -> None:
    old, new = two(tmp_path, "libdemo.so.1", "libdemo.so.1")
    wheels = (
        make_wheel(old.parent, tag=TAG, files={"demo/libdemo.so.1": old}),
        make_wheel(new.parent, version="2.0", tag=TAG, files={"demo/lib/libdemo.so.1": new}),
    )
    found = compare_wheels(*wheels, Settings()).changes
    assert (ChangeKind.MOVED_LIBRARY, Severity.WARNING) in {(c.kind, c.severity) for c in found}


SAME = "libdemo.so.1"
PLACES: Mapping[str, tuple[list[str], list[str], set[ChangeKind]]] = {
    "vendored now": (["demo"], ["demo.libs"], {ChangeKind.MOVED_LIBRARY}),
    "a vendored copy beside it": (["demo"], ["demo", "demo.libs"], set()),
    "another copy beside it": (["demo"], ["demo", "demo/lib"], set()),
    "a copy less, the last": (["demo", "demo/lib"], ["demo"], {ChangeKind.MOVED_LIBRARY}),
    "a copy less, the first": (["demo", "demo/lib"], ["demo/lib"], {ChangeKind.MOVED_LIBRARY}),
    "public, and moved": (["demo"], ["demo.libs", "demo/lib"], {ChangeKind.MOVED_LIBRARY}),
}


@pytest.mark.parametrize("case", PLACES)
def test_an_unchanged_library_lacks_no_exports_wherever_it_is(case: str, tmp_path: Path) -> None:
    before, after, expected = PLACES[case]
    library = shared_object(tmp_path / SAME, OLD, soname=SAME)
    wheels = [
        make_wheel(
            tmp_path / version,
            version=version,
            tag=TAG,
            files={f"{folder}/{SAME}": library for folder in folders},
        )
        for version, folders in (("1.0", before), ("2.0", after))
    ]
    found = compare_wheels(wheels[0], wheels[1], Settings()).changes
    assert {change.kind for change in found if change.severity > Severity.NOTE} == expected
    moves = [change.members for change in found if change.kind is ChangeKind.MOVED_LIBRARY]
    new = "demo.libs" if case == "vendored now" else after[-1]
    assert moves == ([(f"{new}/{SAME}",)] if expected else [])


def test_exports_of_a_grafted_library_do_not_count(tmp_path: Path) -> None:
    name = "libdemo-1a2b3c4d.so.1"
    libraries = two(tmp_path, name, name, "int h(void){return 2;}")
    assert not [c for c in compared(*libraries, folder="demo.libs") if c.severity > Severity.NOTE]


def test_inline_functions_of_cpp_do_not_count(tmp_path: Path) -> None:
    """Each object that uses one has a copy, and of its static variables (STB_GNU_UNIQUE)."""
    text = "inline int next() { static int n; return ++n; } int one() { return %s; }"
    libraries = two(tmp_path, "libdemo.so.1", "libdemo.so.1")
    for library, body in zip(libraries, ("next()", "1"), strict=True):
        source = library.with_suffix(".cc")
        source.write_text(text % body)
        command = [tool("g++"), "-shared", "-fPIC", "-Wl,-soname,libdemo.so.1"]
        command += ["-o", str(library), str(source)]
        subprocess.run(command, check=True)
    assert not [change for change in compared(*libraries) if change.severity > Severity.NOTE]


# --- The floor, tags and Pythons ------------------------------------------------------------------


def needing(version: str, name: str, **fields: object) -> Side:
    """A wheel whose object needs a version of glibc."""
    need = VersionNeed(file="libc.so.6", versions=(f"GLIBC_{version}",))
    objects = {"demo/a.abi3.so": elf(verneed=(need,))}
    return Side(wheel({}, name=name, **{"elfs": objects, **fields}), {}, {})


def kinds(old: Side, new: Side, **settings: object) -> dict[ChangeKind, ReleaseChange]:
    found = compare(old, new, Settings(**settings))  # type: ignore[arg-type]
    return {change.kind: change for change in found}


@pytest.mark.parametrize(
    ("old", "new", "tags", "is_error"),
    [
        ("2.17", "2.29", ("manylinux_2_17_x86_64", "manylinux_2_17_x86_64"), True),
        ("2.17", "2.29", ("linux_x86_64", "linux_x86_64"), True),
        ("2.17", "2.28", ("manylinux_2_28_x86_64", "manylinux_2_28_x86_64"), False),
        ("2.17", "2.28", ("manylinux_2_17_x86_64", "manylinux_2_28_x86_64"), False),
        ("2.17", "2.29", ("manylinux_2_17_x86_64", "manylinux_2_28_x86_64"), True),
        ("2.29", "2.17", ("manylinux_2_17_x86_64", "manylinux_2_17_x86_64"), False),
        ("2.9", "2.10", ("manylinux1_x86_64", "manylinux1_x86_64"), True),
    ],
)
def test_a_floor_above_the_tag_is_an_error(
    old: str, new: str, tags: tuple[str, str], is_error: object
) -> None:
    names = [f"demo-{n}-cp311-abi3-{tag}.whl" for n, tag in enumerate(tags)]
    found = kinds(needing(old, names[0]), needing(new, names[1]))
    assert (ChangeKind.RAISED_FLOOR in found) == is_error
    assert (ChangeKind.RAISED_TAG in found) == (tags[0] != tags[1])


def test_tags_pythons_and_extras_that_are_lost() -> None:
    old = needing(
        "2.17",
        "demo-1-cp38-abi3-manylinux_2_17_x86_64.musllinux_1_2_x86_64.whl",
        metadata=Metadata(fields=(("provides-extra", "gui"), ("requires-dist", "a"))),
    )
    new = needing(
        "2.17",
        "demo-2-cp311-abi3-manylinux_2_17_x86_64.whl",
        metadata=Metadata(fields=(("requires-dist", "a>=2"),)),
    )
    found = kinds(old, new)
    assert "musllinux x86_64" in found[ChangeKind.LOST_TAG].message
    assert "`python3.8`, `python3.9`, `python3.10`" in found[ChangeKind.LOST_PYTHON].message
    assert "`gui`" in found[ChangeKind.LOST_EXTRA].message
    assert found[ChangeKind.REQUIREMENT].items == ("-a", "+a>=2")
    assert max(change.severity for change in found.values()) is Severity.WARNING


def test_an_extra_is_the_same_in_any_spelling() -> None:
    """PEP 685: installers normalize the names of extras."""
    names = ("a_b", "C.D", "e-f")

    def side(*extras: str) -> Side:
        fields = tuple(("provides-extra", extra) for extra in extras)
        return Side(wheel({}, metadata=Metadata(fields=fields)), {}, {})

    found = kinds(side(*names), side("A-B", "c-d"))
    assert found[ChangeKind.LOST_EXTRA].message.startswith("extra `e-f` is gone")


@pytest.mark.parametrize(
    ("old", "new", "lost"),
    [
        ("linux_x86_64", "manylinux_2_17_x86_64", ""),
        ("linux_x86_64", "musllinux_1_2_x86_64", ""),
        ("manylinux_2_17_x86_64", "linux_x86_64", ""),
        ("manylinux_2_17_x86_64", "any", ""),
        ("win_amd64", "any", ""),
        ("linux_x86_64", "manylinux_2_17_aarch64", "linux x86_64"),
        ("any", "manylinux_2_17_x86_64", "any"),
        ("any", "linux_x86_64", "any"),
        ("manylinux_2_17_x86_64", "musllinux_1_2_x86_64", "manylinux x86_64"),
        ("manylinux_2_17_x86_64.manylinux2014_x86_64", "win_amd64", "manylinux x86_64"),
    ],
)
def test_a_tag_is_lost_if_no_new_one_is_accepted_where_it_was(
    old: str, new: str, lost: str
) -> None:
    one, other = (Side(wheel({}, name=f"demo-1-py3-none-{t}.whl"), {}, {}) for t in (old, new))
    found = [c.message for c in compare(one, other, Settings()) if c.kind is ChangeKind.LOST_TAG]
    assert found == ([f"`{old}` -> `{new}`: nothing for `{lost}` any more"] if lost else [])


def test_a_built_wheel_loses_nothing_by_its_own_repair(tmp_path: Path) -> None:
    module = extension(tmp_path / "x.so", "x")
    built = make_wheel(tmp_path, files={"demo/x.so": module})
    options = Settings(wheel_dir=tmp_path / "out")
    repaired = repair(built, options, {"PATH": os.environ["PATH"]}).output
    assert repaired is not None
    found = compare_wheels(built, repaired, Settings()).changes
    assert not [change for change in found if change.severity > Severity.NOTE]


def test_growth_is_a_warning_above_its_limit() -> None:
    def sized(packed: int, name: str) -> Side:
        members = (Member(name=name, size=packed, compressed_size=packed),)
        return Side(wheel({}, members=members, size=packed), {}, {})

    old, new = sized(1_000_000, "a.bin"), sized(1_300_000, "new.bin")
    change = kinds(old, new)[ChangeKind.GROWN]
    assert change.severity is Severity.WARNING
    assert "(+30%)" in change.message
    assert change.items == ("+1.3 MB new.bin (new)",)
    assert ChangeKind.GROWN not in kinds(old, new, max_growth=30)
    a_little = kinds(old, sized(999_900, "a.bin"))[ChangeKind.SIZE]
    assert a_little.message.startswith("1 MB -> 1 MB, installed ")


def test_files_modules_and_bundled_libraries() -> None:
    module = "demo/a.cpython-311-x86_64-linux-gnu.so"
    ssl, lzma = "demo.libs/libssl-11111111.so.3", "demo.libs/liblzma-22222222.so.5"

    def side(*libraries: str, package: str = "", gone: bool = False) -> Side:
        objects = {name: elf(soname=name.rpartition("/")[2]) for name in libraries}
        if not gone:
            objects[module] = elf("libssl-11111111.so.3", module_hooks=("PyInit_a",))
        return Side(wheel(objects), {}, {ssl: package} if package else {})

    found = kinds(side(ssl, package="openssl 3.0.1"), side(ssl, lzma, package="openssl 3.0.2"))
    assert found[ChangeKind.BUNDLED].message == "2 differences"
    assert found[ChangeKind.BUNDLED].items == (
        "+liblzma.so.5",
        "libssl.so.3 (openssl 3.0.1) -> libssl.so.3 (openssl 3.0.2)",
    )
    found = kinds(side(ssl), side(ssl, gone=True))
    assert found[ChangeKind.LOST_MODULE].members == (module,)


def test_a_library_that_is_needed_and_left_out_is_a_warning() -> None:
    """`repair --exclude` of what the last release had in it."""

    def side(needed: str, *libraries: str) -> Side:
        objects = {f"demo.libs/{name}": elf(soname=name) for name in libraries}
        return Side(wheel(objects | {"demo/a.so": elf(needed)}), {}, {})

    bundling = side("libssl-11111111.so.3", "libssl-11111111.so.3")
    found = kinds(bundling, side("libssl.so.3"))
    assert found[ChangeKind.LEFT_OUT].severity is Severity.WARNING
    assert "`libssl.so.3` is needed, and no longer" in found[ChangeKind.LEFT_OUT].message
    assert ChangeKind.LEFT_OUT not in kinds(bundling, side("libc.so.6"))
    assert ChangeKind.LEFT_OUT not in kinds(bundling, side("libssl.so.3", "libssl.so.3"))


def test_other_hashes_and_versions_are_no_difference() -> None:
    def side(mark: str, version: str) -> Side:
        objects = {
            f"demo.libs/libssl-{mark}.so.3": elf(soname=f"libssl-{mark}.so.3"),
            "demo/a.so": elf(f"libssl-{mark}.so.3", module_hooks=("PyInit_a",)),
        }
        return Side(wheel(objects, name=f"demo-{version}-cp311-cp311-linux_x86_64.whl"), {}, {})

    assert compare(side("11111111", "1"), side("22222222", "2"), Settings()) == ()


# --- Pairs ----------------------------------------------------------------------------------------


def test_wheels_are_paired_by_python_and_platform() -> None:
    olds = [
        Path(f"old/demo-1-cp3{n}-cp3{n}{t}-manylinux_2_17_x86_64.whl")
        for n, t in ((9, ""), (13, ""), (13, "t"))
    ]
    news = [
        Path(f"new/demo-2-cp3{n}-cp3{n}{t}-manylinux_2_28_x86_64.whl")
        for n, t in ((13, ""), (13, "t"), (14, ""))
    ]
    assert pairs(olds, news) == (
        (olds[1], news[0]),
        (olds[2], news[1]),
        (None, news[2]),
        (olds[0], None),
    )
    assert pairs(olds[:1], news[:1]) == ((olds[0], news[0]),), "the only one"
    with pytest.raises(SettingsError, match="different distributions: demo, and other"):
        pairs(olds, [Path("other-1-py3-none-any.whl")])
    name = WheelName.parse(olds[0].name)
    assert counterpart(name, [WheelName.parse("other-1-py3-none-any.whl")]) is None


def names_of(*tags: str) -> list[Path]:
    return [Path(f"demo-1-{tag}.whl") for tag in tags]


LINUX, MANY, MUSL = "linux_x86_64", "manylinux_2_17_x86_64", "musllinux_1_2_x86_64"
RELEASES: Mapping[str, tuple[list[Path], list[Path], list[tuple[int | None, int | None]]]] = {
    "a newer stable ABI": (
        names_of(f"cp38-abi3-{MANY}", f"cp38-abi3-{MUSL}"),
        names_of(f"cp39-abi3-{MUSL}", f"cp39-abi3-{MANY}"),
        [(1, 0), (0, 1)],
    ),
    "the stable ABI now": (
        names_of(f"cp39-cp39-{MANY}", f"cp312-cp312-{MANY}", f"cp313-cp313-{MANY}"),
        names_of(f"cp312-abi3-{MANY}"),
        [(1, 0), (0, None), (2, 0)],
    ),
    "the stable ABI no more": (
        names_of(f"cp312-abi3-{MANY}"),
        names_of(f"cp312-cp312-{MANY}", f"cp313-cp313-{MANY}", f"cp313-cp313t-{MANY}"),
        [(0, 0), (0, 1), (None, 2)],
    ),
    "repaired": (
        names_of(f"cp312-cp312-{LINUX}", f"cp313-cp313-{LINUX}"),
        names_of(f"cp313-cp313-{MANY}", f"cp312-cp312-{MANY}"),
        [(1, 0), (0, 1)],
    ),
    "a wheel for all beside it": (
        names_of("py3-none-any"),
        names_of(f"cp312-cp312-{MANY}", "py3-none-any"),
        [(0, 0), (0, 1)],
    ),
    "pure now": (
        names_of(f"cp312-cp312-{MANY}", f"cp313-cp313-{MANY}"),
        names_of("py3-none-any"),
        [(0, 0), (1, 0)],
    ),
    "two versions of the C library": (
        names_of(f"cp312-cp312-{MANY}", f"cp312-cp312-{MANY.replace('17', '28')}"),
        names_of(f"cp312-cp312-{MANY.replace('17', '28')}", f"cp312-cp312-{MANY}"),
        [(1, 0), (0, 1)],
    ),
    "two builds": (
        names_of(f"1-cp312-cp312-{MANY}", f"2-cp312-cp312-{MANY}"),
        names_of(f"cp312-cp312-{MANY}"),
        [(0, 0), (1, 0)],
    ),
}


@pytest.mark.parametrize("case", RELEASES)
def test_wheels_are_paired_by_the_pythons_and_machines_that_accept_both(case: str) -> None:
    olds, news, expected = RELEASES[case]
    assert pairs(olds, news) == tuple(
        (None if old is None else olds[old], None if new is None else news[new])
        for old, new in expected
    )


def test_what_another_wheel_of_the_release_takes_over_is_not_lost(tmp_path: Path) -> None:
    def release(version: str, *tags: str, requires: str = "") -> list[Path]:
        return [
            make_wheel(tmp_path / version, version=version, tag=tag, metadata=requires, files={})
            for tag in tags
        ]

    def warned(olds: list[Path], news: list[Path]) -> list[tuple[ChangeKind, str]]:
        both = pairs(olds, news)
        return [
            (change.kind, change.message)
            for old, new in both
            if old is not None and new is not None
            for change in compare_wheels(old, new, Settings(), both).changes
            if change.severity > Severity.NOTE
        ]

    stable = release("1.0", f"cp312-abi3-{MANY}.{MUSL}")
    each = [f"cp3{n}-cp3{n}-{tag}" for n in range(12, NEWEST_MINOR + 1) for tag in (MANY, MUSL)]
    assert warned(stable, release("2.0", *each)) == []
    lost = warned(stable, release("3.0", *each[2:]))
    assert {kind for kind, _ in lost} == {ChangeKind.LOST_PYTHON}
    assert {message.partition(" for ")[2] for _, message in lost} == {"`python3.12`"}
    required = release("4.0", *each, requires="Requires-Python: >=3.13\n")
    assert {kind for kind, _ in warned(stable, required)} == {ChangeKind.LOST_PYTHON}
    newer = release("5.0", *(tag.replace("2_17", "2_28") for tag in each))
    assert {kind for kind, _ in warned(stable, newer)} == {ChangeKind.RAISED_TAG}
    assert warned(stable, [*newer, *release("5.0", *each)]) == []
    pure = release("6.0", "py3-none-any")
    assert warned(stable, pure) == []
    assert {kind for kind, _ in warned(pure, stable)} == {
        ChangeKind.LOST_TAG,
        ChangeKind.LOST_PYTHON,
    }
    assert warned(pure, [*stable, *pure]) == []
