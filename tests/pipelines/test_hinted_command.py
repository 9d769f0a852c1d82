"""Commands in hints: which words they get."""

from pathlib import Path

import pytest

from wheelfix.errors import WheelfixError
from wheelfix.pipelines.hinted_command import wheels_beside, with_wheel
from wheelfix.pipelines.repair_many import name_commands
from wheelfix.pipelines.repair_result import Outcome, Status
from wheelfix.providers.model import Provided


def test_a_command_with_an_ellipsis_in_its_options_takes_the_wheel() -> None:
    hint = "`wheelfix repair --wheel-dir 'out…'` drops it; `wheelfix rule WF101` explains"
    command = "`wheelfix repair --wheel-dir 'out…' a.whl`"
    assert with_wheel(hint, "a.whl") == f"{command} drops it; `wheelfix rule WF101` explains"


@pytest.mark.parametrize(
    ("tags", "is_read"),
    [
        ("linux_x86_64", False),
        ("linux_x86_64.manylinux_2_17_x86_64", False),
        ("manylinux_2_17_x86_64.linux_x86_64", False),
        ("manylinux_2_17_x86_64", True),
    ],
)
def test_a_wheel_with_a_local_tag_is_repaired_too(tags: str, *, is_read: bool) -> None:
    wheel = f"/dist/other-1.0-py3-none-{tags}.whl"
    beside = [Provided(requirement="other", wheel=wheel)]
    words = list(wheels_beside(beside, Path("/dist")))
    assert words == ["--with"] * is_read + [Path(wheel).name]


def test_a_hint_that_says_the_tag_says_it_once() -> None:
    hint = "give the tag up: `wheelfix repair --only-plat --plat manylinux_2_34_x86_64`"
    words = ["--plat", "manylinux_2_28_x86_64", "--prune-needed", "off", "--only-plat"]
    error = WheelfixError("no", hint=hint)
    outcome = Outcome(source=Path("a.whl"), status=Status.FAILED, error=error)
    named = name_commands(outcome, words).error
    assert named
    said = hint.replace("repair", "repair --prune-needed off")
    assert named.hint == said.replace("64`", "64 a.whl`")


def test_each_command_says_an_option_once() -> None:
    way = "`--add-requires --provider` with that of the wheel's build; or, "
    hint = way + "`wheelfix repair --provider x --add-requires`; or, `wheelfix repair --exclude y`"
    error = WheelfixError("no", hint=hint)
    outcome = Outcome(source=Path("a.whl"), status=Status.FAILED, error=error)
    named = name_commands(outcome, ["--add-requires", "--provider", "z"]).error
    assert named
    assert (named.hint or "").removeprefix(way).split("; or, ") == [
        "`wheelfix repair --provider z --provider x --add-requires a.whl`",
        "`wheelfix repair --add-requires --provider z --exclude y a.whl`",
    ]
