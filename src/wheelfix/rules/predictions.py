"""What a process is predicted to show that imports some names in turn, and what one has shown."""

from collections.abc import Sequence
from enum import StrEnum

from wheelfix.loader.process_bindings import Binding
from wheelfix.named_tuple import NamedTuple


class Prediction(NamedTuple):
    """What a process shows that imports some names: an error, bindings, or that it works."""

    imports: tuple[str, ...]
    """In turn, in a new process."""
    error: tuple[str, ...] = ()
    """The ImportError contains one of these words; empty if all imports succeed."""
    bindings: tuple[Binding, ...] = ()
    """Without versions."""


class Outcome(StrEnum):
    """Whether a process has shown what was predicted. The values appear in JSON output."""

    SEEN = "seen"
    NOT_SEEN = "not seen"
    NOT_TRIED = "not tried"
    """The process did not come to it."""


class Proof(NamedTuple):
    """What a process has shown of a prediction."""

    outcome: Outcome
    text: str
    """What was seen instead, or too, or why it was not tried; empty if just that was seen."""


class ImportRun(NamedTuple):
    """What a process did that imported some names in turn."""

    problem: str = ""
    """Why it ended early: the error of an import, a signal, the time limit; empty if it did not."""
    is_broken: bool = False
    """Whether the problem is an ImportError of a file that is there, or a crash."""
    errors: str = ""
    """The text of the error, and of those that have caused it."""
    bindings: Sequence[Binding] = ()
    """Where symbols in question were bound, by canonical paths, without versions."""


def compare(prediction: Prediction, run: ImportRun) -> Proof:
    """Return what a run of its imports shows of a prediction."""
    if prediction.error:
        return _compare_error(prediction, run)
    if prediction.bindings:
        return _compare_bindings(prediction, run)
    if not run.problem:
        return Proof(Outcome.SEEN, "")
    return Proof(Outcome.NOT_SEEN if run.is_broken else Outcome.NOT_TRIED, run.problem)


def _compare_error(prediction: Prediction, run: ImportRun) -> Proof:
    if any(word in run.errors for word in prediction.error):
        return Proof(Outcome.SEEN, "")
    if run.problem:
        return Proof(Outcome.NOT_TRIED, run.problem)
    return Proof(Outcome.NOT_SEEN, "all imports succeeded")


def _compare_bindings(prediction: Prediction, run: ImportRun) -> Proof:
    wanted = {(binding.symbol, binding.user): binding for binding in prediction.bindings}
    bound = [binding for binding in run.bindings if (binding.symbol, binding.user) in wanted]
    for binding in bound:
        if binding != wanted[binding.symbol, binding.user]:
            return Proof(Outcome.NOT_SEEN, f"`{binding.symbol}` was bound to `{binding.provider}`")
    if bound:
        return Proof(Outcome.SEEN, run.problem)
    return Proof(Outcome.NOT_TRIED, run.problem or "the imports do not load the object")
