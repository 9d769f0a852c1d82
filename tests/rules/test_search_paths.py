"""Rules about the entries of search paths."""

import pytest

from tests.support.values import apply_fixes, elf, findings, wheel
from wheelfix.elf.model import PathTag
from wheelfix.rules.context import Stage
from wheelfix.rules.findings import Severity
from wheelfix.rules.registry import RULES
from wheelfix.rules.rule import Rule
from wheelfix.rules.search_paths import (
    SACRIFICE,
    absolute_entry,
    dead_entry,
    empty_entry,
    escaping_entry,
    malformed_entry,
    relative_entry,
    repeated_entry,
    sacrificial_entry,
    search_path_tag,
    two_path_tags,
    unquote_entry,
)
from wheelfix.settings import SacrificialEntry, SearchPathTag, Settings

CORE = "demo/_core.so"


def repaired(path: str, settings: Settings | None = None) -> str | None:
    subject = wheel({CORE: elf(rpath=path), "demo/lib/libx.so": elf()})
    after, _ = apply_fixes(subject, RULES, settings or Settings())
    again, more = apply_fixes(after, RULES, settings or Settings())
    assert again == after
    assert not more
    return after.elfs[CORE].search_path


@pytest.mark.parametrize(
    ("rule", "entry", "left"),
    [
        (absolute_entry, "/usr/local/lib64", None),
        (absolute_entry, "/opt/_internal/lib", None),
        (empty_entry, "", None),
        (relative_entry, "demo.libs", None),
        (relative_entry, ".", None),
        (malformed_entry, "'$ORIGIN/lib", "$ORIGIN/lib"),
        (malformed_entry, "$ORIGIN/lib'", "$ORIGIN/lib"),
        (malformed_entry, r"\$ORIGIN/lib", "$ORIGIN/lib"),
        (malformed_entry, "$$ORIGIN/lib", "$ORIGIN/lib"),
        (malformed_entry, "@loader_path/lib", "$ORIGIN/lib"),
        (malformed_entry, "'/build/lib'", None),
        (malformed_entry, "$ORIGIN/$FOO", None),
        (malformed_entry, "$ORIGINAL/lib", None),
        (escaping_entry, "$ORIGIN/../../../../../../x.libs", None),
        (escaping_entry, "${ORIGIN}/../../../../../../LIBS", None),
        (dead_entry, "$ORIGIN/nowhere", None),
        (dead_entry, "$ORIGIN/PLATFORM_LIBS", None),
    ],
)
def test_a_bad_entry_is_named_and_mended_or_dropped(
    rule: Rule, entry: str, left: str | None
) -> None:
    subject = wheel({CORE: elf(rpath=f"$ORIGIN/lib:{entry}")}, "demo/lib/libx.so")
    (found,) = findings(rule, subject)
    assert (found.member, found.entry) == (CORE, entry)
    assert repaired(f"{entry}:$ORIGIN") == (f"{left}:$ORIGIN" if left else "$ORIGIN")


@pytest.mark.parametrize(
    "folder", ["/usr/local/cuda/lib64", "/usr/local/cuda-12.4/lib64", "/opt/rocm/lib"]
)
def test_a_folder_of_a_toolkit_is_for_information(folder: str) -> None:
    subject = wheel({CORE: elf(rpath=f"$ORIGIN/lib:{folder}")}, "demo/lib/libx.so")
    (found,) = findings(absolute_entry, subject)
    assert found.severity is Severity.NOTE
    assert "build machine" not in found.message


@pytest.mark.parametrize(
    "entry",
    [
        "$ORIGIN",
        "${ORIGIN}/lib",
        "$ORIGIN/$LIB",
        "$ORIGIN/../../nvidia/cublas/lib",  # another wheel's, beside ours
        "$ORIGIN/../../../..",  # the environment's own lib, where MKL puts its libraries
    ],
)
def test_a_good_entry_stays(entry: str) -> None:
    assert repaired(entry) == entry


def test_an_entry_is_kept_if_the_project_says_so() -> None:
    keep = Settings(keep_entries=("/opt/rocm/*",))
    assert repaired("/opt/rocm/lib:/opt/other", keep) == "/opt/rocm/lib"


def test_musl_knows_origin_alone() -> None:
    core = elf(needed=("libc.musl-x86_64.so.1",), rpath="$ORIGIN/$LIB")
    assert findings(malformed_entry, wheel({CORE: core}))
    assert not findings(malformed_entry, wheel({CORE: elf(rpath="$ORIGIN/$LIB")}))


def test_the_entry_of_the_zip_leads_out_of_the_environment_from_the_data_scheme() -> None:
    data = "demo-1.0.data/data/demo/libdata.so"
    (found,) = findings(escaping_entry, wheel({data: elf(rpath="$ORIGIN/../../../demo.libs")}))
    assert found.entry == "$ORIGIN/../../../demo.libs"


def test_the_first_of_repeated_entries_stays() -> None:
    assert findings(repeated_entry, wheel({CORE: elf(rpath="$ORIGIN:$ORIGIN/lib:$ORIGIN")}))
    assert repaired("$ORIGIN:$ORIGIN/lib:$ORIGIN") == "$ORIGIN:$ORIGIN/lib"


def test_objects_that_need_nothing_are_mended_too() -> None:
    subject = wheel({CORE: elf(needed=(), runpath="/build/lib")})
    after, _ = apply_fixes(subject, RULES, Settings())
    assert after.elfs[CORE].search_path is None


def test_of_two_tags_the_one_without_effect_goes() -> None:
    subject = wheel({CORE: elf(rpath="/x", runpath="$ORIGIN")})
    assert findings(two_path_tags, subject)
    after, _ = apply_fixes(subject, RULES, Settings())
    assert (after.elfs[CORE].rpath, after.elfs[CORE].runpath) == (None, "$ORIGIN")


def test_without_the_setting_the_tag_stays() -> None:
    subject = wheel({CORE: elf(runpath="$ORIGIN:/build")})
    assert not findings(search_path_tag, subject)
    after, _ = apply_fixes(subject, RULES, Settings())
    assert after.elfs[CORE].runpath == "$ORIGIN"


@pytest.mark.parametrize(
    ("asked", "tag"),
    [(SearchPathTag.RPATH, PathTag.RPATH), (SearchPathTag.RUNPATH, PathTag.RUNPATH)],
)
def test_one_tag_for_all_on_request(asked: SearchPathTag, tag: PathTag) -> None:
    objects = {"a.so": elf(runpath="$ORIGIN"), "b.so": elf(rpath="$ORIGIN")}
    subject = wheel({**objects, "c.so": elf(rpath="/x", runpath="$ORIGIN")})
    after, _ = apply_fixes(subject, RULES, Settings(search_path_tag=asked))
    assert {elf.entries for elf in after.elfs.values()} == {("$ORIGIN",)}
    assert {elf.path_tag for elf in after.elfs.values()} == {tag}


@pytest.mark.parametrize("wish", [SacrificialEntry.KEEP, SacrificialEntry.REMOVE])
def test_the_sacrificial_entry_stands_first_through_the_graft(wish: SacrificialEntry) -> None:
    settings = Settings(sacrificial_entry=wish)
    subject = wheel({CORE: elf(rpath="$ORIGIN:$ORIGIN/lib")}, "demo/lib/libx.so")
    before, _ = apply_fixes(subject, [sacrificial_entry], settings, Stage.BEFORE)
    assert before.elfs[CORE].entries == (SACRIFICE, "$ORIGIN", "$ORIGIN/lib")
    after, _ = apply_fixes(before, RULES, settings)
    kept = (SACRIFICE,) if wish is SacrificialEntry.KEEP else ()
    assert after.elfs[CORE].entries == (*kept, "$ORIGIN", "$ORIGIN/lib")


def test_without_the_policy_there_is_no_sacrificial_entry() -> None:
    assert not findings(sacrificial_entry, wheel({CORE: elf(rpath="$ORIGIN")}), Stage.BEFORE)


def test_mending_leaves_what_is_right() -> None:
    assert unquote_entry("$ORIGIN/../demo.libs") == "$ORIGIN/../demo.libs"
    assert unquote_entry("$(ORIGIN)/x") == "${ORIGIN}/x"


@pytest.mark.parametrize(
    ("entry", "severity"),
    [
        ("'$ORIGIN/lib", Severity.ERROR),
        (r"\$ORIGIN/lib", Severity.ERROR),
        ("$$ORIGIN/lib", Severity.ERROR),
        ("@loader_path/lib", Severity.ERROR),
        ("$ORIGIN/lib'", Severity.WARNING),
        ("/opt/db/lib   ", Severity.WARNING),
    ],
)
def test_a_malformed_entry_is_an_error_where_it_is_relative(entry: str, severity: Severity) -> None:
    """The loader resolves any other against the current directory."""
    assert [hit.severity for hit in findings(malformed_entry, wheel({CORE: elf(rpath=entry)}))] == [
        severity
    ]


@pytest.mark.parametrize("entry", ["/usr/lib64", "/lib/", "/usr/lib/x86_64-linux-gnu"])
def test_a_folder_of_the_system_is_none_of_the_build_machine(entry: str) -> None:
    """Most machines have it."""
    (found,) = findings(absolute_entry, wheel({CORE: elf(rpath=entry)}))
    assert found.message == f"searches `{entry}`, an absolute path of the system"
