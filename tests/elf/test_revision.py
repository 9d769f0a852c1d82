"""What became of each library that an object names follows from the edits, not from the names."""

from wheelfix.elf.model import Elf, Filtee, PathTag, Undefined, VersionNeed
from wheelfix.elf.revision import Revision

ELF = Elf(
    bits=64,
    little_endian=True,
    machine=62,
    osabi=0,
    flags=0,
    type=3,
    needed=("a", "b", "c"),
    verneed=(VersionNeed("a", ("A_1",)), VersionNeed("z", ("Z_1",))),
    undefined=(
        Undefined("f", "A_1", "a", type=0, weak=True),
        Undefined("g", "Z_1", "z", type=0, weak=False),
    ),
    filtees=(Filtee("filter", required=True, position=1),),
    runpath="/x:/y",
)
PLAIN = Revision.of(ELF)


def test_a_renamed_library_takes_its_versions_along() -> None:
    revision = PLAIN.rename_needed("a", "n")
    assert revision.renamed == {"a": "n"}
    assert revision.after.needed == ("n", "b", "c")
    assert [need.file for need in revision.after.verneed] == ["n", "z"]
    assert [symbol.file for symbol in revision.after.undefined] == ["n", "z"]


def test_edits_apply_to_what_the_ones_before_them_made() -> None:
    assert PLAIN.rename_needed("a", "n").rename_needed("n", "m").renamed == {"a": "m"}
    assert PLAIN.rename_needed("a", "n").rename_needed("n", "a").renamed == {}
    assert PLAIN.rename_needed("a", "b").rename_needed("b", "n").renamed == {"a": "n", "b": "n"}
    dropped = PLAIN.rename_needed("a", "b").drop_needed("b")
    assert dropped.dropped == {"a", "b"}
    assert dropped.after.needed == ("c",)
    added = PLAIN.add_needed("n").rename_needed("n", "m")
    assert (added.added, added.renamed, added.after.needed[0]) == (("m",), {}, "m")
    assert PLAIN.add_needed("n").drop_needed("n").added == ()


def test_names_are_swapped() -> None:
    swapped = PLAIN.rename_needed("a", "t").rename_needed("b", "a").rename_needed("t", "b")
    assert swapped.renamed == {"a": "b", "b": "a"}
    assert swapped.after.needed == ("b", "a", "c")


def test_a_dropped_library_is_added_again() -> None:
    revision = PLAIN.drop_needed("a").add_needed("a")
    assert revision.dropped == {"a"}
    assert revision.added == ("a",)
    assert revision.after.needed == ("a", "b", "c")
    assert [need.file for need in revision.after.verneed] == ["z"]
    assert revision.after.undefined[0].version is None
    assert revision.after.filtees[0].position == 1


def test_what_is_there_is_not_added() -> None:
    assert PLAIN.add_needed("b") == PLAIN
    first = PLAIN.add_needed("y").add_needed("x")
    assert first.added == ("x", "y")
    assert first.after.needed == ("x", "y", "a", "b", "c")
    assert first.after.filtees[0].position == 3


def test_versions_without_an_entry_follow_too() -> None:
    assert PLAIN.rename_needed("z", "n").renamed == {"z": "n"}
    assert PLAIN.drop_needed("z").dropped == {"z"}


def test_a_search_path_is_in_one_tag() -> None:
    assert PLAIN.set_entries(["/z"]).after.runpath == "/z"
    moved = PLAIN.set_entries(["/z"], PathTag.RPATH).after
    assert (moved.rpath, moved.runpath) == ("/z", None)
    assert PLAIN.set_entries([]).after.search_path is None


def test_strip_is_apart_from_the_other_edits() -> None:
    revision = PLAIN.set_soname("s").strip(keeps_symtab=False)
    assert revision.unstripped == PLAIN.set_soname("s")
