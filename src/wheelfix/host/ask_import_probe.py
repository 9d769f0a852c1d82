"""Questions to the import probe, which loads, imports and runs in the Python under test."""

import json
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, cast

from wheelfix.errors import ToolError
from wheelfix.host.import_probe import OF_PROBE, is_answer
from wheelfix.host.verify_values import VerifyAnswer
from wheelfix.system.subprocesses import Run

PROBE = Path(__file__).with_name("import_probe.py")
_OF_LOADER = 127
"""The exit code of `_dl_fatal_printf` and `__assert_fail` of glibc's ld.so."""


def no_answer(answer: VerifyAnswer) -> str:
    """Return why it is not known how a load or an import went; empty if it is known.

    Each module that was imported from an object has that object mapped. Where ld.so ends the
    process, its message is the last line.
    """
    if not answer.get("answered"):
        ended = f"no answer came: it ended with exit code {answer['code']}"
        last = str(answer["tail"]).splitlines()[-1:] if answer["code"] == _OF_LOADER else ()
        return ": ".join((ended, *last))
    mapped = {path for _, _, path in answer["maps"]}
    for origin in answer.get("origins", ()):
        if origin.endswith(".so") and origin not in mapped:
            return f"no answer came: `{origin}` was imported and is not loaded"
    return ""


def _whole(value: object) -> VerifyAnswer:
    """Return an answer of the probe. Raises `ValueError` for any other value."""
    answer: VerifyAnswer = cast("VerifyAnswer", value if isinstance(value, dict) else None) or {}
    how = answer.get("code", 0 if answer.get("hang") else None)
    maps: list[Any] = answer["maps"] if isinstance(answer.get("maps"), list) else []
    if (
        not (isinstance(answer.get("pid"), int) and isinstance(how, int))
        or not isinstance(answer.get("tail"), str)
        or not is_answer({key: answer[key] for key in answer.keys() - OF_PROBE})
        or (answer.get("answered") and "maps" not in answer)
        or not all(type(row) is list and len(row) == 3 for row in maps)
        or maps != answer.get("maps", [])
    ):
        raise ValueError("not an answer of the probe")
    return answer


def ask_probe(  # noqa: PLR0913 - the parts of one call
    run: Run,
    python: str,
    jobs: Sequence[Mapping[str, Any]],
    *,
    environ: Mapping[str, str],
    home: Path,
    seconds: float,
) -> list[VerifyAnswer]:
    """Run the jobs in one process of `python`, which forks for each; return the answers in order.

    Each job takes at most `seconds`. Raises `ToolError` if the Python fails to run the probe.
    """
    done = run(
        [python, "-B", "-u", str(PROBE)],
        env=environ,
        cwd=home,
        stdin="".join(f"{json.dumps({**job, 'timeout': seconds})}\n" for job in jobs),
        timeout=(seconds + 10) * max(1, len(jobs)),
        accepted=range(-64, 256),
    )
    answers: list[VerifyAnswer] = []
    for line in done.stdout.splitlines():
        with suppress(ValueError, RecursionError):  # others may print, too, such as a .pth file
            answers.append(_whole(json.loads(line)))
    if len(answers) != len(jobs):
        raise ToolError(
            f"`{python}` ended before all attempts were made: {done.ending}",
            *done.stderr[-2000:].splitlines(),
            hint="does this Python run at all?"
            if done.code >= 0
            else "an imported module may have killed its parent process",
        )
    return answers
