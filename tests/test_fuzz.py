"""Some thousands of the cases of `scripts/fuzz.py`: broken input meets only our own errors."""

import sys
from pathlib import Path

import pytest

sys.path.append(str(Path(__file__).parent.parent / "scripts"))
import fuzz

CASES = {"zip": 1500, "edit": 500}


@pytest.mark.parametrize("target", fuzz.TARGETS)
def test_broken_input_is_refused_in_our_own_words(target: str) -> None:
    fuzz.run(target, first=10_000_000, cases=CASES.get(target, 2_000))


def test_a_crash_would_be_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    def crash(text: str) -> str:
        return text[10_000]

    monkeypatch.setattr(fuzz, "read_metadata", crash)
    with pytest.raises(fuzz.CaseError, match="IndexError"):
        fuzz.run("metadata", first=0, cases=1)
