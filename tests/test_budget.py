"""The work that a wheel may cause grows with what it holds."""

import pytest

from wheelfix.budget import Budget, BudgetError


def test_a_larger_file_may_cause_more() -> None:
    small, large = (Budget.of_file("x.whl", size) for size in (1, 1 << 20))
    assert small.steps < large.steps < 2 * small.steps
    assert small.memory < large.memory


def test_grafted_libraries_count() -> None:
    """130 libraries of Samba are far more than its modules, which are the wheel."""
    budget = Budget.of_file("x.whl", 5 << 20)
    work = 16_000_000
    with pytest.raises(BudgetError, match="exceeds the work limit for its size: the loads"):
        Budget.of_file("x.whl", 5 << 20).spend(work, "the loads")
    budget.add_grafts(130)
    budget.spend(work, "the loads")


def test_a_share_is_spent_from_the_whole() -> None:
    budget = Budget("x.whl", steps=10)
    budget.share(100).spend(8, "a part")
    with pytest.raises(BudgetError):
        budget.spend(3, "the rest")


def test_a_large_environment_may_cause_more() -> None:
    """An environment of 1,906 objects, of deep learning and others, is not refused."""
    work = 40_000_000
    for small in ([], [360] * 1_906):
        with pytest.raises(BudgetError):
            Budget.of_files(small).spend(work, "the loads")
    Budget.of_files([300_000] * 1_906).spend(work, "the loads")
