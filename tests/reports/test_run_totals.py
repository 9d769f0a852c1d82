"""The last lines of a run over several wheels."""

from dataclasses import replace

from wheelfix.host.verify_values import AttemptKind, Check, CheckStatus, Verified, VerifyResult
from wheelfix.reports.run_totals import WheelResult, run_totals
from wheelfix.reports.verify import run_result

STATUSES = ["repaired", "rejected", "failed"]


def test_what_failed_comes_first() -> None:
    results = [
        WheelResult("a.whl", "rejected", "error[WF301]"),
        WheelResult("b.whl", "repaired", ""),
        WheelResult("c.whl", "failed", "no\nspace"),
        WheelResult("d.whl", "repaired", ""),
    ]
    assert run_totals(results, STATUSES).splitlines() == [
        "4 wheels: 2 repaired, 1 rejected, 1 failed",
        "  failed   c.whl: no space",
        "  rejected a.whl: error[WF301]",
    ]


def test_one_cause_is_one_line() -> None:
    results = [WheelResult(f"{name}.whl", "failed", "no such provider") for name in "abcde"]
    assert run_totals(results, STATUSES).splitlines() == [
        "5 wheels: 5 failed",
        "  failed a.whl, b.whl, c.whl and 2 more: no such provider",
    ]


def test_one_wheel_needs_no_count() -> None:
    assert run_totals([WheelResult("a.whl", "failed", "why")], STATUSES) == ""


def verified(*statuses: CheckStatus) -> Verified:
    checks = tuple(
        Check(kind=AttemptKind.IMPORT, member=f"m{number}.so", what="m", status=status)
        for number, status in enumerate(statuses)
    )
    return Verified(
        wheel="a.whl", scheme="venv", python="python3.12", interpreter="/p", checks=checks
    )


def test_a_verified_wheel_ends_as_in_the_worst_of_its_environments() -> None:
    good = verified(CheckStatus.OK)
    bad = verified(CheckStatus.OK, CheckStatus.CRASHED)
    assert run_result([good], strict=False) == WheelResult("a.whl", VerifyResult.OK, "")
    worst = run_result([good, bad, good], strict=False)
    assert (worst.status, worst.cause.partition(":")[0]) == ("failed", "import `m1.so`")


def test_what_is_not_tried_is_told_before_what_loads_with_others_alone() -> None:
    result = verified(CheckStatus.DEPENDENT, CheckStatus.NEEDS)
    untried = replace(result.checks[1], message="numpy", is_required=True)
    ended = run_result([replace(result, checks=(result.checks[0], untried))], strict=False)
    assert (ended.status, ended.cause) == ("not tried", "import `m1.so`: not tried, needs numpy")
