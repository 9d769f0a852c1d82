"""Terminal text of repairs: findings, summaries, plans and differences."""

import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from wheelfix.analysis.policy_verdict import Verdict
from wheelfix.elf.model import Elf, ElfType, Machine, VersionNeed
from wheelfix.errors import BadWheelError, ToolError
from wheelfix.host.os_packages import Package
from wheelfix.pipelines.graft import GraftedLibrary, HostLibrary
from wheelfix.pipelines.repair_result import Absence, Absent, ObjectLoads, Outcome, Status
from wheelfix.reports import repair_text as text
from wheelfix.reports.check_content import finding_text
from wheelfix.reports.printable import Style, error_text, printable
from wheelfix.rules.findings import Finding, Fix, PlannedEdit, Severity
from wheelfix.rules.fix_plan import plan_edit
from wheelfix.wheel.edits import (
    AddEntry,
    AddLicenseFile,
    AddMember,
    AddRequirement,
    DropEntry,
    MoveMember,
    NewFile,
    RenameNeeded,
    WriteSource,
    predict,
)
from wheelfix.wheel.model import DistInfo, Member, Wheel, WheelName
from wheelfix.wheel.prediction import Draft

ELF = Elf(bits=64, little_endian=True, machine=Machine.X86_64, osabi=0, flags=0, type=ElfType.DYN)
NAME = "pkg-1.0-cp311-cp311-linux_x86_64.whl"
FINDING = Finding(
    code="WF111",
    name="absolute-entry",
    severity=Severity.ERROR,
    message="`pkg/_ext.so` searches `/home/ci/lib`",
    member="pkg/_ext.so",
    entry="/home/ci/lib",
    notes=("DT_RUNPATH is `/home/ci/lib`",),
    hint="run `wheelfix repair`",
    fix=Fix(title="drop it", edits=(DropEntry(member="pkg/_ext.so", entry="/home/ci/lib"),)),
)

HOST = HostLibrary(
    source=Path("/usr/lib/libx.so.1.2"),
    path=Path("copy"),
    mode=0o100644,
    size=2000,
    sha256="0" * 64,
    elf=ELF,
)
GRAFTED = GraftedLibrary(
    member="pkg.libs/libx-1234.so.1",
    host=HOST,
    original="libx.so.1",
    dependents=("pkg/_ext.so",),
    package=Package("deb", "libx1", "1.2-3"),
)


def a_wheel() -> Wheel:
    extension = ELF._replace(
        needed=("libx.so.1", "libc.so.6"),
        runpath="/home/ci/lib:$ORIGIN",
        verneed=(VersionNeed(file="libx.so.1", versions=("X_1",)),),
    )
    members = ("pkg/_ext.so", "pkg-1.0.data/data/lib/liby.so", "pkg/same.py")
    return Wheel(
        name=WheelName.parse(NAME),
        members=tuple(Member(name=name, size=1000, compressed_size=9) for name in members),
        dist_info=DistInfo("pkg-1.0.dist-info"),
        tags=("cp311-cp311-linux_x86_64",),
        root_is_purelib=False,
        elfs={"pkg/_ext.so": extension, "pkg-1.0.data/data/lib/liby.so": ELF},
    )


def edits(wheel: Wheel) -> tuple[PlannedEdit, ...]:
    drop = DropEntry(member="pkg/_ext.so", entry="/home/ci/lib")
    add = AddEntry(member="pkg/_ext.so", entry="$ORIGIN/../pkg.libs")
    rename = RenameNeeded(member="pkg/_ext.so", old="libx.so.1", new="libx-1234.so.1")
    grafted = AddMember(
        member="pkg.libs/libx-1234.so.1", source=NewFile(content=b""), size=2000, elf=ELF
    )
    move = MoveMember(member="pkg-1.0.data/data/lib/liby.so", new="pkg/liby.so")
    draft = Draft(wheel)
    return (
        plan_edit(draft, drop, "WF111", "absolute-entry", "drop it"),
        plan_edit(draft, add, "WF101", "unreachable-library", "add it"),
        plan_edit(draft, rename, "graft", "graft", "as auditwheel says"),
        plan_edit(draft, grafted, "graft", "graft", "as auditwheel says"),
        plan_edit(draft, move, "WF103", "no-common-path", "move it"),
    )


def an_outcome(status: Status = Status.REPAIRED) -> Outcome:
    before = a_wheel()
    steps = edits(before)
    published = status is Status.REPAIRED
    return Outcome(
        source=Path("dist") / NAME,
        status=status,
        output=Path("wheelhouse/pkg-1.0-cp311-cp311-manylinux_2_17_x86_64.whl")
        if published
        else None,
        before=before,
        after=predict(before, [step.edit for step in steps]),
        found=(FINDING,) * 5,
        edits=steps,
        grafted=(GRAFTED,),
        loads=(
            ObjectLoads(member="pkg/a.so", libraries=(), works=("venv",), fails=()),
            ObjectLoads(
                member="pkg/b.so",
                libraries=(("libx.so.1", "pkg.libs/libx-1234.so.1"),),
                works=("venv",),
                fails=("pip --target",),
            ),
        ),
        verdict=Verdict(overall="manylinux_2_17_x86_64", external=(), reasons=("GLIBC_2.17",)),
        messages=("RECORD.jws was dropped",),
        bytes_before=12345,
        bytes_after=23456,
    )


# --- Hostile names --------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "shown"),
    [
        ("plain é \N{GREEK SMALL LETTER ALPHA}", "plain é \N{GREEK SMALL LETTER ALPHA}"),
        ("a\nb\r\x1b[2J", r"a\nb\r\x1b[2J"),
        ("\N{RIGHT-TO-LEFT OVERRIDE}gnp.exe", r"\u202egnp.exe"),
        ("\N{LINE SEPARATOR}x", r"\u2028x"),
        ("\udcff", r"\udcff"),
        ("::error::x", r"\x3a:error::x"),
        ("  ::set-output name=a::b", r"  \x3a:set-output name=a::b"),
        ("a::b", "a::b"),
        ("x##[add-mask]y", r"x#\x23[add-mask]y"),
    ],
)
def test_names_are_escaped_for_the_terminal_and_the_runner(name: str, shown: str) -> None:
    assert printable(name) == shown


@pytest.mark.parametrize("verbose", [False, True])
def test_every_report_escapes_hostile_names(verbose: bool) -> None:  # noqa: FBT001 - a parameter of the test
    evil = "x\n::error::owned\x1b[31m##[x]"
    finding = Finding(
        code="WF1",
        name="n",
        severity=Severity.ERROR,
        message=evil,
        member=evil,
        notes=(evil,),
        hint=evil,
    )
    wheel = a_wheel()
    added = AddMember(member=evil, source=NewFile(content=b""), size=1, elf=ELF)
    step = plan_edit(Draft(wheel), added, "WF1", "n", evil)
    outcome = Outcome(
        source=Path(evil),
        status=Status.REJECTED,
        before=wheel,
        after=predict(wheel, [added]),
        found=(finding,),
        remaining=(finding,),
        edits=(step,),
        loads=(ObjectLoads(member=evil, libraries=((evil, evil),), works=(evil,), fails=(evil,)),),
        verdict=Verdict(overall=evil, external=(), reasons=(evil,)),
        messages=(evil,),
    )
    shown = [
        text.summary(outcome, Style(verbose=verbose)),
        text.plan(outcome),
        error_text(BadWheelError(evil, hint=evil), color=False),
    ]
    for line in "\n".join(shown).split("\n"):
        assert line.isprintable()
        assert "##[" not in line
        assert not line.lstrip().startswith("::")


# --- Findings -------------------------------------------------------------------------------------


def test_a_finding_has_message_place_notes_and_hint() -> None:
    text = finding_text(FINDING, wheel="dist/it is.whl", places=["pkg/_ext.so"])
    assert text.splitlines() == [
        "error[WF111] absolute-entry [*]: `pkg/_ext.so` searches `/home/ci/lib`",
        "  --> pkg/_ext.so",
        "  = note: DT_RUNPATH is `/home/ci/lib`",
        "hint: run `wheelfix repair 'dist/it is.whl'`",
    ]
    colored = finding_text(FINDING, style=Style(color=True))
    assert "\x1b[1;31merror[WF111] absolute-entry [*]\x1b[0m: " in colored


def test_notes_that_are_left_out_are_counted_as_notes() -> None:
    """The last of them may count files itself: `and 414 more`."""
    many = replace(FINDING, notes=(*(f"`f{n}` is wrong" for n in range(10)), "and 414 more"))
    assert "  = note: and 8 more notes, which -v shows" in finding_text(many).splitlines()
    assert "and 414 more" in finding_text(many, style=Style(verbose=True))


def test_the_code_of_a_colored_finding_is_a_link() -> None:
    """As terminals read it: OSC 8, parameters; address, ST."""
    site = "https://example.org/"
    linked = finding_text(FINDING, style=Style(color=True, documentation=site))
    link = "\x1b]8;;https://example.org/rules/absolute-entry/\x1b\\WF111\x1b]8;;\x1b\\"
    assert f"\x1b[1;31merror[{link}] absolute-entry [*]\x1b[0m: " in linked
    assert "\x1b]8" not in finding_text(FINDING, style=Style(documentation=site))
    foreign = replace(FINDING, code="ACME111")
    assert "\x1b]8" not in finding_text(foreign, style=Style(color=True, documentation=site))


def test_a_finding_fits_the_terminal() -> None:
    style = Style(width=40)
    text = finding_text(
        FINDING, places=["a/" * 30, "b"], why="words " * 20, wheel="dist/x.whl", style=style
    )
    lines = text.splitlines()
    whole = ("a/a/", "`pkg/_ext.so`", "`/home/ci/lib`", "`wheelfix repair dist/x.whl`")
    assert all(len(line) <= 40 for line in lines if not any(word in line for word in whole))
    assert lines[:3] == [
        "error[WF111] absolute-entry [*]: `pkg/_ext.so`",
        "  searches `/home/ci/lib`",
        f"  --> {'a/' * 30}",
    ]
    after = lines[next(n for n, line in enumerate(lines) if line.startswith("  = why: ")) + 1]
    assert after.startswith(" " * 9 + "words")
    plain = finding_text(FINDING, style=Style(width=40, color=True))
    for code in ("\x1b[1;31m", "\x1b[1;34m", "\x1b[0m"):
        plain = plain.replace(code, "")
    assert plain == finding_text(FINDING, style=style), "color does not change the lines"


# --- Summary, plan, difference --------------------------------------------------------------------


def test_the_first_line_of_a_summary_says_how_many_errors_are_left() -> None:
    """Such as WF304: the wheel is written, and its modules do not load."""
    outcome = replace(an_outcome(), remaining=(FINDING,))
    assert text.summary(outcome).startswith(f"{NAME}: repaired, 1 error left, linux_x86_64, ")


def test_the_summary_of_a_repaired_wheel() -> None:
    assert text.summary(an_outcome()).splitlines() == [
        f"{NAME}: repaired, linux_x86_64, 12.3 kB -> 23.5 kB",
        "  grafted  libx.so.1 from /usr/lib/libx.so.1.2 (libx1 1.2-3), 2 kB, needed by `_ext.so`",
        "  fixed    WF111 absolute-entry: 1 edit of `pkg/_ext.so`",
        "           WF101 unreachable-library: 1 edit of `pkg/_ext.so`",
        "           WF103 no-common-path: 1 edit of `pkg-1.0.data/data/lib/liby.so`",
        "  fails    `pkg/b.so`: 1 library from `pkg.libs`",
        "             not with pip --target",
        "             works with venv",
        "  proved   auditwheel: manylinux_2_17_x86_64",
        "  tag      GLIBC_2.17",
        "  note     RECORD.jws was dropped",
    ]


def test_the_requirements_that_are_added_are_named() -> None:
    texts = ["nvidia-cublas-cu12>=12.4.5.8,<13", "nvidia-cuda-runtime-cu12>=12.4.127,<13"]
    added = (
        plan_edit(
            Draft(a_wheel()),
            AddRequirement(requirement=text),
            "WF821",
            "provider-not-required",
            "add",
        )
        for text in texts
    )
    assert (
        "  fixed    WF821 provider-not-required: 2 edits of `pkg-1.0.dist-info/METADATA`: "
        f"`{texts[0]}`, `{texts[1]}`"
    ) in text.summary(replace(an_outcome(), edits=tuple(added))).splitlines()


def test_libraries_that_must_come_from_elsewhere_are_named() -> None:
    outcome = replace(
        an_outcome(),
        loads=(ObjectLoads("pkg/_ext.so", (("liby.so", "pkg.libs/liby.so"),), ("venv",), ()),),
        absent=(
            Absent("libcuda.so.1", Absence.MACHINE, "it is part of the driver", ("pkg/b.so",)),
            Absent("libgone.so", Absence.MISSING, "", ("b.so",)),
            Absent("libfoo.so.1", Absence.EXCLUDED, "", ("pkg/c.so",)),
        ),
    )
    lines = text.summary(outcome).splitlines()
    start = lines.index("  excluded libfoo.so.1 must come from elsewhere (needed by `pkg/c.so`)")
    from_elsewhere = "must come from the user's machine, as it is part of the driver"
    not_promised = "must be on the user's machine, and the tag does not promise it"
    assert lines[start + 1 : start + 4] == [
        f"  machine  libcuda.so.1 {from_elsewhere} (needed by `pkg/b.so`)",
        f"  missing  libgone.so {not_promised} (needed by `b.so`)",
        "  proved   all bundled libraries are found in every install scheme that the tags allow",
    ]
    none_bundled = replace(outcome, loads=(ObjectLoads("pkg/_ext.so", (), ("venv",), ()),))
    assert "every install scheme" not in text.summary(none_bundled)
    complete = text.summary(replace(none_bundled, absent=()))
    assert (
        "  proved   all libraries are found in every install scheme that the tags allow" in complete
    )


def test_many_libraries_of_one_provider_share_a_line() -> None:
    names = [f"libQt{number}.so.5" for number in range(9)]
    absent = tuple(
        Absent(name, Absence.PROVIDED, "PyQt5-Qt5", (f"pkg/{name}.so",)) for name in names
    )
    outcome = replace(an_outcome(), absent=absent)
    short = text.summary(outcome).splitlines()
    (line,) = [line for line in short if "must come" in line]
    assert line == (
        "  provided libQt0.so.5, libQt1.so.5, libQt2.so.5 and 6 more must come from "
        "PyQt5-Qt5 (needed by `pkg/libQt0.so.5.so`, `pkg/libQt1.so.5.so` and 7 more)"
    )
    assert text.summary(outcome, Style(verbose=True)).count("must come") == len(names)


def test_the_totals_of_a_run_name_the_cause_and_not_its_details() -> None:
    error = ToolError("`libone.so` is nowhere", "`libone.so` is needed by `a.so`")
    assert text.run_result(replace(an_outcome(), error=error)).cause == "`libone.so` is nowhere"


def test_many_grafted_libraries_take_a_few_lines() -> None:
    names = [f"lib{number}.so.1" for number in range(20)]
    libraries = tuple(
        GRAFTED._replace(
            member=f"pkg.libs/{name}",
            original=name,
            host=HOST._replace(size=size),
            dependents=(),
        )
        for size, name in enumerate(names)
    )
    outcome = replace(an_outcome(), grafted=libraries)
    lines = text.summary(outcome).splitlines()
    assert lines[1].startswith("  grafted  lib19.so.1 from")
    assert lines[6].endswith("`lib7.so.1` and 7 more")
    assert len(lines) < 20
    full = text.summary(outcome, Style(verbose=True))
    assert all(f"{name} from" in full for name in names)


def test_a_summary_has_at_most_twenty_lines_whatever_there_is_much_of() -> None:
    many = range(40)
    first = edits(a_wheel())[0]
    steps = tuple(first._replace(code=f"WF{n}", name=f"r{n}") for n in many)
    errors = tuple(replace(FINDING, code=f"WF{n}", notes=("a", "b", "c", "d", "e")) for n in many)
    warnings = tuple(
        replace(FINDING, name=f"w{n}", severity=Severity.WARNING, message=f"w{n}") for n in many
    )
    load = ObjectLoads(member="pkg/a.so", libraries=(), works=("venv",), fails=("user",))
    reasons = tuple(f"reason {n}" for n in many)
    kinds: dict[str, Any] = {
        "grafted": tuple(GRAFTED._replace(original=f"lib{n}.so") for n in many),
        "edits": steps,
        "absent": tuple(
            Absent(f"lib{n}.so", list(Absence)[n % len(Absence)], "", ("a",)) for n in many
        ),
        "loads": tuple(load._replace(member=f"pkg/{n}.so") for n in many),
        "messages": tuple(f"message {n}" for n in many),
        "remaining": errors + warnings,
        "verdict": Verdict(overall="linux_x86_64", external=(), reasons=reasons),
    }
    quiet = replace(
        an_outcome(), grafted=(), edits=(), absent=(), loads=(), messages=(), remaining=()
    )
    lone = [{kind: value} for kind, value in kinds.items()]
    all_but_errors = {**kinds, "remaining": warnings}
    outcomes = [replace(quiet, **given) for given in (*lone, kinds, all_but_errors)]
    outcomes.append(replace(quiet, error=BadWheelError(*map(str, many))))
    for outcome in outcomes:
        lines = text.summary(outcome).splitlines()
        assert len(lines) <= 20, "\n".join(lines)
        assert len(text.summary(outcome, Style(verbose=True)).splitlines()) >= 40
    full = text.summary(outcomes[-3])
    for label in ("grafted", "fixed", *Absence, "proved", "note", "left"):
        assert f"\n  {label:8} " in full
    assert full.endswith("more lines: -v")


def test_each_list_of_a_short_summary_begins_with_its_first_line() -> None:
    steps = tuple(edits(a_wheel())[0]._replace(code=f"WF{n}", name=f"r{n}") for n in range(40))
    errors = tuple(replace(FINDING, code=f"WF{n}") for n in range(40))
    for messages in (2, 9, 12, 40):
        outcome = replace(
            an_outcome(),
            edits=steps,
            messages=tuple(f"message {n}" for n in range(messages)),
            remaining=errors,
            absent=tuple(Absent(f"lib{n}.so", a, "", ("a",)) for a in Absence for n in range(9)),
        )
        lines = text.summary(outcome).splitlines()
        firsts = [line for line in lines if re.match(r"  [a-z]", line)]
        assert len(firsts) > 6
        assert not [line for line in firsts if line[11:].startswith("and ")]
        assert [line for line in firsts if line.endswith(" more: -v")]


def test_a_grafted_library_names_its_dependents_as_they_were_before_the_graft() -> None:
    other = GRAFTED._replace(
        member="pkg.libs/liby-5678.so.1", original="liby.so.1", dependents=(GRAFTED.member,)
    )
    outcome = replace(an_outcome(), grafted=(GRAFTED, other))
    shown = text.summary(outcome)
    assert "needed by `libx.so.1`" in shown


def test_warnings_are_left_with_their_messages_and_notes_as_a_number() -> None:
    mild = replace(FINDING, severity=Severity.WARNING, fix=None)
    note = replace(FINDING, severity=Severity.NOTE)
    outcome = replace(an_outcome(), remaining=(mild, mild, note))
    lines = text.summary(outcome).splitlines()
    assert lines[-2:] == [
        "  left     WF111 absolute-entry: `pkg/_ext.so` searches `/home/ci/lib`, and 1 more",
        "           1 note: -v",
    ]


def test_the_verbose_summary_is_complete() -> None:
    shown = text.summary(an_outcome(), Style(verbose=True))
    assert shown.count("searches `/home/ci/lib`") == 5
    assert "which -v shows" not in shown
    assert "`pkg/b.so`: libx.so.1 from `pkg.libs`" in shown
    assert "`pkg/a.so`: nothing from the wheel" in shown


def test_remaining_findings_are_shown_in_full() -> None:
    outcome = Outcome(
        source=Path(NAME), status=Status.REJECTED, found=(FINDING,), remaining=(FINDING,)
    )
    shown = text.summary(outcome)
    assert finding_text(FINDING, wheel=NAME, places=["pkg/_ext.so"]) in shown


def test_a_failed_wheel_shows_its_error_and_no_more() -> None:
    outcome = Outcome(
        source=Path(NAME),
        status=Status.FAILED,
        error=BadWheelError("it is cut", "in two", hint="h"),
    )
    assert text.summary(outcome).splitlines() == [
        f"{NAME}: failed",
        "error: it is cut",
        "  in two",
        "hint: h",
    ]


def test_the_plan_names_file_values_and_rule() -> None:
    assert text.plan(an_outcome(Status.PLANNED)).splitlines() == [
        f"plan for {NAME}",
        "  pkg/_ext.so",
        "    DT_RUNPATH entry `/home/ci/lib` -> dropped  [WF111 absolute-entry]",
        ("    absent -> DT_RUNPATH entry `$ORIGIN/../pkg.libs`  [WF101 unreachable-library]"),
        "    DT_NEEDED `libx.so.1` -> `libx-1234.so.1`  [graft]",
        "  pkg.libs/libx-1234.so.1",
        "    absent -> written, 2,000 bytes  [graft]",
        "  pkg-1.0.data/data/lib/liby.so",
        "    in place -> moved to `pkg/liby.so`  [WF103 no-common-path]",
    ]


def test_the_plan_of_a_sound_wheel_is_empty() -> None:
    outcome = Outcome(source=Path(NAME), status=Status.UNCHANGED)
    assert text.plan(outcome).splitlines() == [
        f"plan for {NAME}",
        "  nothing to change",
    ]


def test_color_does_not_change_the_text() -> None:
    outcome = an_outcome()
    for plain, colored in [
        (text.plan(outcome), text.plan(outcome, Style(color=True))),
        (
            text.summary(outcome, Style(verbose=True)),
            text.summary(outcome, Style(verbose=True, color=True)),
        ),
    ]:
        assert colored != plain
        assert re.sub(r"\x1b\[[\d;]*m", "", colored) == plain


def test_nothing_is_proved_of_a_rejected_wheel() -> None:
    outcome = replace(an_outcome(Status.REJECTED), remaining=(FINDING,))
    assert "proved" not in text.summary(outcome, Style(verbose=True))
    planned = text.summary(an_outcome(Status.PLANNED))
    assert "  expected auditwheel: manylinux_2_17_x86_64" in planned


def test_what_is_added_to_sources_and_metadata_is_named() -> None:
    before = a_wheel()
    draft = Draft(before)
    folder = "pkg-1.0.dist-info"
    added = [
        WriteSource(member="pkg/_pre.py", content=b"", what="opens `libx.so.1`"),
        AddMember(
            member=f"{folder}/licenses/bundled/x/copyright",
            source=NewFile(content=b"", origin="/usr/share/doc/libx1/copyright"),
            size=0,
        ),
        AddLicenseFile(path="bundled/x/copyright"),
        AddMember(
            member=f"{folder}/sboms/wheelfix.cdx.json", source=NewFile(content=b"{}"), size=2
        ),
    ]
    steps = tuple(plan_edit(draft, edit, "graft", "graft", "") for edit in added)
    verdict = Verdict(
        overall="manylinux_2_34_x86_64", external=(), reasons=(), newest="`dlopen@GLIBC_2.34`"
    )
    outcome = replace(an_outcome(), edits=steps, verdict=verdict, loads=())
    lines = text.summary(outcome).splitlines()
    assert lines[2:] == [
        "  python   added `pkg/_pre.py`, which opens `libx.so.1`",
        f"  licenses 1 text from `/usr/share/doc/libx1` in `{folder}/licenses/bundled/x`",
        "           METADATA gets `License-File: bundled/x/copyright`",
        f"  sbom     `{folder}/sboms/wheelfix.cdx.json` lists 1 grafted library",
        "  proved   auditwheel: manylinux_2_34_x86_64",
        "  tag      not older: `dlopen@GLIBC_2.34`",
        "  note     RECORD.jws was dropped",
    ]


def test_a_dependent_is_named_by_its_path_if_its_file_name_does_not_tell() -> None:
    library = GRAFTED._replace(dependents=("pkg/a/_m.so", "pkg/b/_m.so"))
    wheel = replace(a_wheel(), elfs={"pkg/a/_m.so": ELF, "pkg/b/_m.so": ELF})
    outcome = replace(an_outcome(), grafted=(library,), after=wheel)
    assert "needed by `pkg/a/_m.so`, `pkg/b/_m.so`" in text.summary(outcome)
