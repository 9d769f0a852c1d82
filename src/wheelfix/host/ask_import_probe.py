"""Questions to the import probe, which loads, imports and runs in the Python under test."""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from wheelfix.errors import ToolError
from wheelfix.host.verify_values import VerifyAnswer
from wheelfix.system.subprocesses import Run

PROBE = Path(__file__).with_name("import_probe.py")


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
    try:
        answers = [json.loads(line) for line in done.stdout.splitlines()]
    except ValueError as error:
        raise ToolError(
            f"the answers of `{python}` cannot be read: {error}",
            hint="an imported module may have written to the descriptors that it inherited",
        ) from error
    if len(answers) != len(jobs):
        raise ToolError(
            f"`{python}` ended before all attempts were made: {done.stderr.strip()[-2000:]}",
            hint="does this Python run at all?",
        )
    return answers
