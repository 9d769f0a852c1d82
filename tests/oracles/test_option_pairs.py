"""Every pair of option values is tried; under any of them, a second repair changes nothing."""

from itertools import combinations, product
from pathlib import Path

import pytest

from tests.oracles.option_pairs import build_wheels, judge_each, options, rows
from wheelfix.settings import SETTING_FIELDS


def test_every_pair_of_values_is_in_a_row() -> None:
    factors, table = options(), rows(options())
    choices = {f.name for f in SETTING_FIELDS if f.type is bool and "repair" in f.setting.commands}
    assert choices - {"locked", "verify"} <= factors.keys()
    for one, other in combinations(factors, 2):
        for pair in product(factors[one], factors[other]):
            assert any((row[one], row[other]) == pair for row in table), (one, other, pair)


@pytest.mark.large
def test_a_second_repair_changes_nothing_and_what_loaded_loads(tmp_path: Path) -> None:
    """One row for each wheel; the whole table is tried by the module."""
    wheels, table = build_wheels(tmp_path), rows(options())
    cases = [(wheel, table[n * 5 % len(table)]) for n, wheel in enumerate(wheels)]
    for wheel, row, result in judge_each(cases, tmp_path):
        assert not result.problems, (wheel.parent.name, row, result)
