"""Some hundreds of mutated wheels, judged by wheelfix and by a second reading of PyPI's rules."""

from pathlib import Path

from tests.oracles.index_predicates import cases, compare, judged
from tests.support.index_reading import refusal
from wheelfix.cli.app import run


def test_both_readings_refuse_the_same_wheels() -> None:
    tally, faults = compare(0, 200)
    assert faults == []
    assert tally["taken"] > 20
    assert {"WF505", "WF506", "WF519", "WF520", "WF522", "WF523"} <= tally.keys()


def test_what_repair_writes_is_taken(tmp_path: Path) -> None:
    """Of the wheels whose only fault is their zip."""
    repaired = 0
    for number, _, name, data in cases(0, 60):
        path, out = tmp_path / str(number) / name, tmp_path / "out" / str(number)
        path.parent.mkdir()
        path.write_bytes(data)
        if not name.endswith("none-any.whl") or judged(path)[0] != {"WF520"}:
            continue
        assert refusal(path) is not None
        options = ["--allow-pure-python-wheel", "--trust-files", "-q", "-w", str(out)]
        assert run(["repair", *options, str(path)]) == 0
        assert refusal(out / name) is None
        assert judged(out / name)[0] == set()
        repaired += 1
    assert repaired > 3
