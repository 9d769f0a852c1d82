"""Bounds of CPU time hold on a machine under load, and a work that exceeds them does not."""

import pytest

from tests.support import effort
from tests.support.effort import TRIES, spends_at_most, takes_at_most


@pytest.fixture
def slow(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(effort, "slowness", lambda: 3.0)


@pytest.mark.usefixtures("slow")
@pytest.mark.parametrize(
    ("seconds", "holds"),
    [([1.0], True), ([29.0], True), ([31.0, 99.0, 31.0, 29.0], True), ([31.0] * TRIES, False)],
)
def test_a_bound_is_in_seconds_of_a_quiet_machine(seconds: list[float], holds: bool) -> None:  # noqa: FBT001 - a column
    assert spends_at_most(10, iter(seconds).__next__) == holds


@pytest.mark.large
def test_work_is_compared_with_other_work() -> None:
    def work(steps: int) -> None:
        for _ in range(steps):
            pass

    assert takes_at_most(100, lambda: work(2_000_000), lambda: work(500_000))
    assert not takes_at_most(1, lambda: work(4_000_000), lambda: work(500_000))
