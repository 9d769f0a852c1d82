"""What a wheel weighs, held against what `size` and `strip` say, and its siblings of a release."""

import os
import subprocess
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest

from tests.support.build import make_wheel, shared_object
from tests.support.effort import cpu_time, spends_at_most
from tests.support.values import elf, findings, wheel
from wheelfix.cli.config.values import settings_from
from wheelfix.elf.model import Elf
from wheelfix.elf.reader import read_elf
from wheelfix.errors import SettingsError
from wheelfix.rules import release_set, size
from wheelfix.rules.context import Context, SetContext
from wheelfix.rules.findings import Finding, Severity
from wheelfix.rules.registry import RELEASE_RULES
from wheelfix.rules.rule import SetRule
from wheelfix.rules.run_rules import find_in_set, run_rules
from wheelfix.settings import Settings, Size
from wheelfix.text import in_units
from wheelfix.wheel.model import Member, RecordRow, Wheel
from wheelfix.wheel.reader import open_wheel

# --- One wheel ------------------------------------------------------------------------------------


def sections(path: Path) -> dict[str, int]:
    """Sizes of an object's sections, as readelf tells them."""
    command = ["readelf", "-SW", str(path)]
    text = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    rows = [line.partition("]")[2].split() for line in text.splitlines() if "] ." in line]
    return {row[0]: int(row[4], 16) for row in rows}


def test_sizes_are_those_of_readelf_and_gone_after_strip(tmp_path: Path) -> None:
    library = shared_object(tmp_path / "libx.so", flags=["-g"])
    said = sections(library)
    read = read_elf(library.read_bytes(), "libx.so")
    assert read.debug_size == sum(n for name, n in said.items() if name.startswith(".debug"))
    assert read.symtab_size == said[".symtab"] + said[".strtab"]
    assert read.debug_size > 0
    subprocess.run(["strip", "-s", library], check=True)
    read = read_elf(library.read_bytes(), "libx.so")
    assert (read.debug_size, read.symtab_size) == (0, 0)


def weighing(member: str, packed: int, **fields: int) -> Wheel:
    subject = wheel({member: elf(**fields)})
    return replace(
        subject, members=(Member(name=member, size=10 * packed, compressed_size=packed),)
    )


def test_debug_sections_are_told_where_they_weigh() -> None:
    heavy = weighing("pkg/a.so", 1_000_000, debug_size=5_000_000)
    [finding] = findings(size.debug_sections, heavy)
    assert finding.severity is Severity.NOTE, "the wheel works, and its maker may want them"
    assert "in 1 object: 5 MB, about 500 kB of the zip" in finding.message
    assert not findings(size.debug_sections, weighing("pkg/a.so", 1000, debug_size=5000))
    assert not findings(size.debug_sections, weighing("pkg/a.so", 1000))


def test_symbol_tables_are_told_where_they_weigh() -> None:
    heavy = weighing("pkg/a.so", 1_000_000, symtab_size=5_000_000)
    assert [f.severity for f in findings(size.symbol_tables, heavy)] == [Severity.NOTE]
    assert not findings(size.symbol_tables, weighing("pkg/a.so", 1000, symtab_size=5000))


def test_duplicates_are_found_by_their_bytes(tmp_path: Path) -> None:
    data = os.urandom(200_000)  # nothing that a zip could make smaller
    files = {"a/x.bin": data, "b/y.bin": data, "c/z.bin": data[:-1] + bytes([data[-1] ^ 1])}
    with open_wheel(make_wheel(tmp_path, files=files)) as archive:
        context = Context(wheel=archive.wheel, settings=Settings())
        [finding] = run_rules(context, [size.duplicate_files])
    assert (finding.member, finding.severity) == ("a/x.bin", Severity.NOTE)
    assert "`b/y.bin`" in finding.notes[0]
    assert "z.bin" not in finding.notes[0]


def test_budgets(tmp_path: Path) -> None:
    path = make_wheel(tmp_path, files={"a.bin": bytes(5000)})
    with open_wheel(path) as archive:
        subject = archive.wheel
    weight = path.stat().st_size
    assert subject.zip_size == weight
    assert findings(size.wheel_over_budget, subject, max_size=Size(weight - 1))
    assert not findings(size.wheel_over_budget, subject, max_size=Size(weight))
    assert not findings(size.wheel_over_budget, subject)
    [finding] = findings(size.file_over_budget, subject, max_file_size=Size(4999))
    assert (finding.member, finding.severity) == ("a.bin", Severity.ERROR)
    assert not findings(size.file_over_budget, subject, max_file_size=Size(5000))


@pytest.mark.parametrize(
    ("text", "size_in_bytes"),
    [("50MB", 50_000_000), ("48 MiB", 48 * 2**20), ("1.5kB", 1500), (7, 7), ("12", 12)],
)
def test_sizes_are_settings(text: object, size_in_bytes: int) -> None:
    assert settings_from({"max-size": text}, Settings(), "x").max_size == size_in_bytes


@pytest.mark.parametrize("text", ["", "much", "-1", "5 parsecs", True, 1.5, "1e9"])
def test_other_texts_are_no_sizes(text: object) -> None:
    with pytest.raises(SettingsError, match="must be a size"):
        settings_from({"max-size": text}, Settings(), "x")


def sized(packed: int, member: str = "a.bin", **fields: str) -> Wheel:
    subject = wheel({}, **fields)
    return replace(
        subject, members=(Member(name=member, size=packed, compressed_size=packed),), size=packed
    )


def test_a_large_wheel_says_what_it_consists_of() -> None:
    assert findings(size.largest_files, sized(20_000_000))[0].notes == (
        "`a.bin`: 20 MB, 100% of the zip",
    )
    assert not findings(size.largest_files, sized(9_000_000))


@pytest.mark.parametrize(
    ("number", "text"),
    [(0, "0 B"), (999, "999 B"), (999.9, "1 kB"), (1234, "1.23 kB"), (5e7, "50 MB"), (2e9, "2 GB")],
)
def test_sizes_for_people(number: float, text: str) -> None:
    assert in_units(number) == text


# --- Side by side ---------------------------------------------------------------------------------


def release(objects: Sequence[dict[str, Elf]], **fields: object) -> list[Wheel]:
    """One wheel for each Python from 3.10 on, each with its objects."""
    return [
        wheel(each, name=f"demo-1.0-cp3{n}-cp3{n}-manylinux_2_28_x86_64.whl", **fields)
        for n, each in enumerate(objects, 10)
    ]


def nothing(times: int) -> list[dict[str, Elf]]:
    return [{} for _ in range(times)]


def stands_out(rule: SetRule, wheels: Sequence[Wheel]) -> tuple[Finding, ...]:
    return tuple(find_in_set(SetContext(wheels=tuple(wheels), settings=Settings()), [rule]))


def module(python: int) -> str:
    return f"pkg/a.cpython-3{python}-x86_64-linux-gnu.so"


def test_a_library_of_another_version_in_one_wheel() -> None:
    names = ["libssl-11111111.so.1.1", *["libssl-22222222.so.3"] * 3]
    wheels = release([{f"demo.libs/{name}": elf(soname=name)} for name in names])
    [finding] = stands_out(release_set.built_differently, wheels)
    assert finding.wheel == str(wheels[0].name)
    assert finding.message == (
        "has the SONAME `libssl.so.1.1`; in 3 other wheels of the release: `libssl.so.3`"
    )
    assert not stands_out(release_set.built_differently, wheels[1:])


def test_a_module_that_lacks_a_library_in_one_wheel() -> None:
    objects = [{module(n): elf(*["libjpeg-11111111.so.8"] * (n != 11))} for n in range(10, 14)]
    [finding] = stands_out(release_set.built_differently, release(objects))
    assert finding.member == module(11)
    assert finding.message.startswith("needs nothing")


def test_grafted_libraries_with_other_bytes() -> None:
    name = "demo.libs/libx-11111111.so.1"
    wheels = [
        replace(each, record=(RecordRow(name=name, hash=f"sha256={digest}", size=1),))
        for each, digest in zip(release([{name: elf()}] * 4), "aaba", strict=True)
    ]
    assert [f.wheel for f in stands_out(release_set.built_differently, wheels)] == [
        str(wheels[2].name)
    ]


def test_a_wheel_that_is_given_twice_is_one_wheel() -> None:
    one, other = (release([{name: elf()}])[0] for name in ("demo/a.so", "demo/b.so"))
    assert not stands_out(release_set.built_differently, [one, other])


def test_without_a_majority_nothing_stands_out() -> None:
    objects = [{"demo.libs/libx-11111111.so": elf(soname=name)} for name in "abc"]
    assert not stands_out(release_set.built_differently, release(objects))


def test_the_files_that_one_python_lacks_have_an_order() -> None:
    names = [f"demo/lib{letter}.so" for letter in "hgfedcba"]
    objects = [{name: elf() for name in names} for _ in range(3)]
    [finding] = stands_out(release_set.missing_file, release([*objects, {}]))
    assert finding.entry == min(names)
    assert finding.notes[0].startswith("and `demo/libb.so`, `demo/libc.so`, `demo/libd.so`, ")


def test_a_file_that_one_python_lacks() -> None:
    objects = [{module(n): elf()} if n != 10 else {} for n in range(10, 14)]
    [finding] = stands_out(release_set.missing_file, release(objects))
    assert (finding.wheel, finding.entry) == (
        "demo-1.0-cp310-cp310-manylinux_2_28_x86_64.whl",
        "pkg/a.so",
    )
    assert not stands_out(release_set.missing_file, release(objects[1:]))


def test_other_platforms_and_versions_are_not_compared() -> None:
    wheels = release([{module(n): elf()} for n in (10, 11)])
    for other in (
        "demo-1.0-cp312-cp312-musllinux_1_2_x86_64.whl",
        "demo-2.0-cp312-cp312-manylinux_2_28_x86_64.whl",
    ):
        assert not stands_out(release_set.missing_file, [*wheels, wheel({}, name=other)])


def test_a_tag_that_stands_out() -> None:
    wheels = release(nothing(3))
    odd = wheel({}, name="demo-1.0-cp313-cp313-manylinux_2_34_x86_64.whl")
    [finding] = stands_out(release_set.odd_tag, [*wheels, odd])
    assert finding.wheel == str(odd.name)
    assert not stands_out(release_set.odd_tag, wheels)


def test_a_size_that_stands_out() -> None:
    sizes = [2_000_000, 2_100_000, 48_000_000, 1_900_000]
    wheels = [replace(w, size=n) for w, n in zip(release(nothing(4)), sizes, strict=True)]
    assert [f.wheel for f in stands_out(release_set.odd_size, wheels)] == [str(wheels[2].name)]
    small = [replace(w, size=w.size // 1000) for w in wheels]
    assert not stands_out(release_set.odd_size, small)


def test_many_wheels_are_compared_in_no_time() -> None:
    objects = {f"demo.libs/lib{n}-11111111.so": elf(soname=f"lib{n}.so") for n in range(200)}
    wheels = release([objects] * 80)

    def compare() -> None:
        for rule in RELEASE_RULES:
            assert not stands_out(rule, wheels)

    assert spends_at_most(5, partial(cpu_time, compare))
