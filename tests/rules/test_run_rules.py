"""Plans are complete, refuse contradictions, and predict what they make."""

from collections.abc import Iterator

import pytest

from tests.support.naming import differing
from tests.support.values import apply_fixes, elf, wheel
from wheelfix.elf.model import PathTag, Undefined, VersionNeed
from wheelfix.errors import PlanConflictError
from wheelfix.rules.context import Context
from wheelfix.rules.findings import Finding, Fix, Hit, Safety, Severity
from wheelfix.rules.fix_plan import plan, plan_edit, plan_in_order, without_cancelled
from wheelfix.rules.registry import CHECKPOINT_RULES
from wheelfix.rules.rule import Rule, rule
from wheelfix.rules.run_rules import attribute_to_stage, broken, run_rules
from wheelfix.settings import Settings
from wheelfix.wheel.edits import (
    AddEntry,
    AddMember,
    CopyOf,
    DropEntry,
    DropRepeats,
    Edit,
    MoveMember,
    NewFile,
    PrependEntry,
    RemoveMember,
    RenameNeeded,
    ReplaceEntry,
    Retag,
    SetMode,
    SetPathTag,
    SetRootIsPurelib,
    SetSoname,
    predict,
)
from wheelfix.wheel.model import Wheel
from wheelfix.wheel.prediction import Draft

A = "demo/a.so"


def test_edits_of_different_kinds_are_never_equal() -> None:
    same: list[object] = [kind(member=A, entry="x") for kind in (DropEntry, DropRepeats, AddEntry)]
    assert len(set(same)) == 3


def asking(*edits: Edit, safety: Safety = Safety.SAFE, name: str = "some-rule") -> Finding:
    fix = Fix(title="fix", edits=edits, safety=safety)
    return Finding(code="WF999", name=name, severity=Severity.ERROR, message="", fix=fix)


def test_rules_that_agree_are_planned_once() -> None:
    edit = DropEntry(member=A, entry="/x")
    subject = wheel({A: elf(rpath="/x")})
    (step,) = plan(subject, [asking(edit), asking(edit, name="other")], Settings())
    assert (step.edit, step.name) == (edit, "some-rule")
    assert (step.old, step.new) == ("DT_RPATH entry `/x`", "dropped")


def test_of_rules_that_contradict_the_first_decides_and_the_other_waits() -> None:
    """The next round has another wheel: what the other asks for may have gone."""
    subject = wheel({A: elf(rpath="/x")})
    one, other = SetSoname(member=A, soname="x"), SetSoname(member=A, soname="y")
    both = asking(other, DropEntry(member=A, entry="/x"), name="other-rule")
    steps = plan(subject, [asking(one), both], Settings())
    assert [step.edit for step in steps] == [one], "a fix is applied whole, or not at all"


@pytest.mark.parametrize(
    "edit", [SetMode(member=A, old=0o644, new=0o755), DropEntry(member=A, entry="/x")]
)
def test_a_file_is_removed_after_its_other_edits(edit: Edit) -> None:
    subject, removal = wheel({A: elf(rpath="/x")}), RemoveMember(member=A)
    steps = plan(subject, [asking(removal), asking(edit, name="other-rule")], Settings())
    edits = [step.edit for step in steps]
    assert edits == [edit, removal]
    assert A not in predict(subject, edits).member_names


def test_edits_that_cancel_each_other_are_none() -> None:
    before = wheel({A: elf(rpath="$ORIGIN"), "demo/b.so": elf(rpath="$ORIGIN")})
    edits: list[Edit] = [
        PrependEntry(member=A, entry="$ORIGIN/x"),
        DropEntry(member="demo/b.so", entry="$ORIGIN"),
        DropEntry(member=A, entry="$ORIGIN/x"),
    ]
    after, steps = plan_in_order(before, edits, "graft", "")
    assert [step.edit for step in without_cancelled(steps, before, after)] == [edits[1]]


def test_a_fix_that_changes_nothing_is_none() -> None:
    subject = wheel({A: elf(rpath="$ORIGIN")})
    assert plan(subject, [asking(AddEntry(member=A, entry="$ORIGIN"))], Settings()) == ()


def test_unsafe_fixes_wait_to_be_asked_for() -> None:
    subject = wheel({A: elf(rpath="/x")})
    found = [asking(DropEntry(member=A, entry="/x"), safety=Safety.UNSAFE)]
    assert not plan(subject, found, Settings())
    assert plan(subject, found, Settings(unsafe_fixes=True))


def test_rules_that_never_rest_are_a_named_error() -> None:
    @rule("WF999", "restless", Severity.ERROR)
    def restless(context: Context) -> Iterator[Hit]:
        """Swap the entries for ever."""
        old = context.wheel.elfs[A].entries[0]
        edit = ReplaceEntry(
            member=A, old=old, new="$ORIGIN/y" if old == "$ORIGIN/x" else "$ORIGIN/x"
        )
        yield Hit(message="", fix=Fix(title="", edits=(edit,)))

    with pytest.raises(PlanConflictError, match="restless"):
        apply_fixes(wheel({A: elf(rpath="$ORIGIN/x")}), [restless], Settings())


@pytest.mark.parametrize(
    ("edits", "path"),
    [
        ([DropEntry(member=A, entry="x")], "$ORIGIN"),
        ([DropEntry(member=A, entry="x"), DropEntry(member=A, entry="$ORIGIN")], None),
        ([ReplaceEntry(member=A, old="x", new="y")], "$ORIGIN:y:$ORIGIN"),
        ([AddEntry(member=A, entry="z")], "$ORIGIN:x:$ORIGIN:z"),
        ([AddEntry(member=A, entry="x")], "$ORIGIN:x:$ORIGIN"),
        ([PrependEntry(member=A, entry="x")], "x:$ORIGIN:$ORIGIN"),
        ([DropRepeats(member=A, entry="$ORIGIN")], "$ORIGIN:x"),
    ],
)
def test_each_edit_of_a_search_path_does_what_it_says(edits: list[Edit], path: str | None) -> None:
    subject = wheel({A: elf(runpath="$ORIGIN:x:$ORIGIN")})
    if path == "$ORIGIN":
        edits = [*edits, DropRepeats(member=A, entry="$ORIGIN")]
    after = predict(subject, edits).elfs[A]
    assert (after.runpath, after.rpath) == (path, None)


def test_one_tag_is_left_after_a_change_of_tag() -> None:
    subject = wheel({A: elf(rpath="/ignored", runpath="$ORIGIN")})
    after = predict(subject, [SetPathTag(member=A, tag=PathTag.RPATH)]).elfs[A]
    assert (after.rpath, after.runpath) == ("$ORIGIN", None)


def test_a_renamed_library_is_renamed_in_verneed_too() -> None:
    subject = wheel(
        {
            A: elf(
                "libx.so",
                verneed=(VersionNeed(file="libx.so", versions=("V1",)),),
                undefined=(Undefined(name="f", version="V1", file="libx.so", type=2, weak=False),),
            )
        }
    )
    after = predict(subject, [RenameNeeded(member=A, old="libx.so", new="libx-1.so")]).elfs[A]
    assert after.needed[0] == after.verneed[0].file == after.undefined[0].file == "libx-1.so"


def test_new_files_stand_before_the_metadata() -> None:
    subject = wheel({A: elf()})
    copy = AddMember(member="demo.libs/a.so", source=CopyOf(member=A), size=1, elf=elf())
    after = predict(subject, [copy])
    names = [member.name for member in after.members]
    assert names.index("demo.libs/a.so") == names.index("demo-1.0.dist-info/WHEEL") - 1
    assert after.elfs["demo.libs/a.so"] == elf()


def test_files_move_and_go() -> None:
    subject = wheel({A: elf()}, "demo/b.txt")
    after = predict(
        subject, [MoveMember(member=A, new="demo/c.so"), RemoveMember(member="demo/b.txt")]
    )
    assert next(m.name for m in after.members) == "demo/c.so"
    assert list(after.elfs) == ["demo/c.so"]
    assert "demo/b.txt" not in [m.name for m in after.members]


def test_nothing_is_overwritten() -> None:
    subject = wheel({A: elf()}, "demo/b.txt")
    with pytest.raises(PlanConflictError, match=r"demo/b\.txt"):
        predict(subject, [MoveMember(member=A, new="demo/b.txt")])
    with pytest.raises(PlanConflictError, match=r"demo/b\.txt"):
        predict(subject, [AddMember(member="demo/b.txt", source=NewFile(content=b"x"), size=1)])


def test_the_wheel_file_is_predicted() -> None:
    tags = ("cp311-cp311-manylinux_2_17_x86_64",)
    after = predict(
        wheel({A: elf()}, root_is_purelib=True),
        [Retag(platforms=("manylinux_2_17_x86_64",), tags=tags), SetRootIsPurelib(value=False)],
    )
    assert str(after.name) == "demo-1.0-cp311-cp311-manylinux_2_17_x86_64.whl"
    assert (after.tags, after.root_is_purelib) == (tags, False)


def test_every_edit_says_what_it_changes() -> None:
    subject = wheel({A: elf("libx.so", rpath="/x")})
    edits: list[Edit] = [
        DropEntry(member=A, entry="/x"),
        RenameNeeded(member=A, old="libx.so", new="y"),
        SetSoname(member=A, soname="a"),
        AddMember(member="n", source=NewFile(content=b"xx"), size=2),
        MoveMember(member=A, new="b"),
        RemoveMember(member=A),
        Retag(platforms=("manylinux1_x86_64",), tags=()),
        SetRootIsPurelib(value=True),
    ]
    for edit in edits:
        step = plan_edit(Draft(subject), edit, "WF1", "n", "t")
        assert step.member
        assert step.old != step.new


def test_a_hit_may_be_worse_than_its_rule() -> None:
    @rule("WF998", "mixed", Severity.NOTE)
    def mixed(_context: Context) -> Iterator[Hit]:
        """Yield two."""
        yield Hit(message="mild")
        yield Hit(message="grave", severity=Severity.ERROR)

    found = run_rules(Context(wheel=_demo(), settings=Settings()), [mixed])
    assert [finding.severity for finding in found] == [Severity.NOTE, Severity.ERROR]
    assert {finding.code for finding in found} == {"WF998"}


def _demo() -> Wheel:
    return wheel({A: elf()})


def test_a_rule_is_named_by_code_prefix_or_name() -> None:
    @rule("WF123", "some-name", Severity.NOTE)
    def some(_context: Context) -> Iterator[Hit]:
        """Find nothing."""
        yield from ()

    found: Rule = some
    assert all(found.matches(selector) for selector in ("WF123", "WF1", "wf", "some-name"))
    assert not any(found.matches(selector) for selector in ("WF2", "some", "name"))


def test_a_finding_names_the_stage_of_the_repair_that_caused_it() -> None:
    found = Finding(
        code="WF313", name="x", severity=Severity.ERROR, message="", member="a.so", entry="b"
    )
    assert attribute_to_stage(found, {("WF313", "a.so", "b"): "graft"}).notes == (
        "broken by this repair's stage: graft",
    )
    assert attribute_to_stage(found, {("WF313", "a.so", "c"): "graft"}) == found


def test_the_linking_is_not_blamed_for_an_entry_that_the_repair_dropped() -> None:
    found = Finding(
        code="WF301",
        name="x",
        severity=Severity.ERROR,
        message="",
        member="a.so",
        entry="f",
        hint="link with the library that defines it",
    )
    hint = attribute_to_stage(found, {("WF301", "a.so", "f"): "prune"}).hint
    assert hint == "`wheelfix repair --prune-needed off` keeps every entry"


def test_only_errors_count_as_broken_names() -> None:
    subject = differing()
    assert broken(Context(wheel=subject, settings=Settings()), CHECKPOINT_RULES) == {
        ("WF313", "pkg/libin.so", "libin.so.2"),
    }
    sound = wheel({"pkg/libz.so.1": elf(soname="libz.so.1")})
    assert broken(Context(wheel=sound, settings=Settings()), CHECKPOINT_RULES) == frozenset()
