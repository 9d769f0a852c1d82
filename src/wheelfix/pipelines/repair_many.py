"""Repair of several wheels in one run, required ones first.

The command line and the Python API use it.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import AbstractContextManager, nullcontext
from dataclasses import replace
from functools import cache
from pathlib import Path

from wheelfix.errors import SettingsError
from wheelfix.grouping import flatten
from wheelfix.host.library_search import library_paths
from wheelfix.host.provider_lookup import libraries_of_required_wheels, parts_in
from wheelfix.named_tuple import NamedTuple
from wheelfix.pipelines.ask_auditwheel import Auditwheel
from wheelfix.pipelines.check_many import SettingsFor
from wheelfix.pipelines.hinted_command import name_command, with_wheel, with_words
from wheelfix.pipelines.output_claims import Outputs
from wheelfix.pipelines.repair import RepairTask, repair
from wheelfix.pipelines.repair_plan import Progress, silent
from wheelfix.pipelines.repair_result import Outcome, Status
from wheelfix.providers.requirements_between_wheels import RequiredWheel, required_wheels
from wheelfix.system.tempfiles import scratch
from wheelfix.wheel.required_file import require_file


def repair_many(  # noqa: PLR0913 - the options of the command, not settings of a wheel
    wheels: Sequence[Path],
    settings_for: SettingsFor,
    environ: Mapping[str, str],
    folder: Path,
    *,
    words: Sequence[str] = (),
    jobs: int = 1,
    publish: bool = True,
    progress: Callable[[Path], Progress] = lambda _: silent,
    limit: Callable[[Path], AbstractContextManager[None]] = lambda _: nullcontext(),
) -> Iterator[Outcome]:
    """Return the outcome of each wheel, in their order; `jobs` of them are repaired at a time.

    Wheels that others require are repaired first. Relative paths of `wheels`, and of library paths
    in `environ`, start at `folder`. `words` are the flags of the run, which the commands in hints
    repeat. Without `publish` nothing is written but required wheels, to a temporary folder, so that
    the plans of the others are true. `progress` makes, for a wheel, the function that gets the
    steps of its repair; `limit` limits the time of each.

    What goes wrong with a wheel is in its outcome. Raises `SettingsError` for wheels that do not
    exist or have one name, before any is repaired.
    """
    _refuse(wheels, folder)
    workers = min(jobs, len(wheels))

    def outcomes() -> Iterator[Outcome]:
        located = {**environ, **library_paths(environ, folder)}
        with (
            nullcontext() if publish else scratch() as temporary,
            Auditwheel(located) as auditwheel,
        ):
            run = _Run(
                wheels=wheels,
                settings_for=settings_for,
                required=required_wheels(parts_in([folder / wheel for wheel in wheels])),
                folder=folder,
                words=words,
                auditwheel=auditwheel,
                outputs=Outputs(wheels, folder),
                progress=progress,
                limit=limit,
                scratch=temporary,
            )
            repaired = run.side_by_side(workers) if workers > 1 else run.in_turn()
            yield from run.without_matched_excludes(each.outcome for each in repaired)

    return outcomes()


def _refuse(wheels: Sequence[Path], folder: Path) -> None:
    """Raise `SettingsError` for wheels that do not exist, or would be written to one name."""
    for wheel in wheels:
        require_file(wheel, folder)
    for name, times in Counter(wheel.name for wheel in wheels).most_common(1):
        if times > 1:
            raise SettingsError(
                f"{times} of the wheels are called `{name}`; they would be written to one file",
                hint="repair them in several runs, each with its own -w",
            )


class _Repaired(NamedTuple):
    """The outcome of one wheel."""

    outcome: Outcome
    file: Path
    """The wheel for those that require it: as written, or as read if it was not repaired."""


class _Run(NamedTuple):
    wheels: Sequence[Path]
    settings_for: SettingsFor
    required: Sequence[Sequence[RequiredWheel]]
    folder: Path
    words: Sequence[str]
    auditwheel: Auditwheel
    outputs: Outputs
    progress: Callable[[Path], Progress]
    limit: Callable[[Path], AbstractContextManager[None]]
    scratch: Path | None
    """Where required wheels are written in a dry run."""

    def in_turn(self) -> Iterator[_Repaired]:
        @cache
        def repaired(place: int) -> _Repaired:
            return self._repair(place, repaired)

        for place, required in enumerate(self.required):
            for due in self._order_by_requirements(other for other, _ in required):
                repaired(due)
            yield repaired(place)

    def side_by_side(self, jobs: int) -> Iterator[_Repaired]:
        # Required wheels are submitted first: no thread waits for one that has no thread.
        futures: dict[int, Future[_Repaired]] = {}
        with ThreadPoolExecutor(jobs) as pool:
            try:
                for place in self._order_by_requirements(range(len(self.wheels))):
                    futures[place] = pool.submit(
                        self._repair, place, lambda other: futures[other].result()
                    )
                yield from (futures[place].result() for place in range(len(self.wheels)))
            except BaseException:  # Ctrl-C, or a caller that stops early
                pool.shutdown(wait=False, cancel_futures=True)
                raise

    def without_matched_excludes(self, outcomes: Iterable[Outcome]) -> Iterator[Outcome]:
        """Leave WF802, unless a name is near, to the last wheel, if the pattern matches in none."""
        having = Counter(flatten(self.settings_for(wheel.name).exclude for wheel in self.wheels))
        for outcome in outcomes:
            if outcome.error is not None:  # nothing was excluded
                having.subtract(self.settings_for(outcome.source.name).exclude)
            idle = [each for each in outcome.remaining if each.code == "WF802"]
            having.subtract(each.entry or "" for each in idle)
            early = [each for each in idle if having[each.entry or ""] and not each.notes]
            left = tuple(each for each in outcome.remaining if each not in early)
            yield replace(outcome, remaining=left)

    def _order_by_requirements(self, places: Iterable[int]) -> list[int]:
        return sorted(places, key=lambda place: len(self.required[place]))

    def _repair(self, place: int, repaired: Callable[[int], _Repaired]) -> _Repaired:
        wheel = self.wheels[place]
        task = RepairTask(
            wheel=wheel,
            settings=self.settings_for(wheel.name),
            folder=self.folder,
            beside=libraries_of_required_wheels(
                self.required[place], lambda other: repaired(other).file
            ),
        )
        is_required = any(place == other for other, _ in flatten(self.required))
        if self.scratch is not None and is_required:
            aside = replace(task.settings, wheel_dir=self.scratch / str(place), verify=False)
            task = task._replace(settings=aside)
        with self.limit(wheel):
            outcome = repair(
                task,
                self.auditwheel,
                self.outputs,
                self.progress(wheel),
                publish=self.scratch is None or is_required,
            )
        outcome = name_commands(outcome, self.words)
        return _Repaired(
            outcome=outcome if self.scratch is None else _as_dry_run(outcome),
            file=self.folder / (outcome.output or outcome.source),
        )


def name_commands(outcome: Outcome, words: Sequence[str]) -> Outcome:
    """Return the outcome of a repair with hints whose `wheelfix repair` has `words`, too.

    What an error offers has the wheel, as that of a finding has where it is printed.
    """
    error = outcome.error
    hint = with_words(error.hint, words) if error and error.hint else ""
    wheel = "" if str(outcome.source) in hint else str(outcome.source)
    return replace(
        outcome,
        error=error and error.with_hint(with_wheel(hint, wheel) or None),
        remaining=tuple(name_command(finding, words) for finding in outcome.remaining),
    )


def _as_dry_run(outcome: Outcome) -> Outcome:
    """Return the outcome in a dry run, also of a wheel that was written to a temporary folder."""
    status = Status.PLANNED if outcome.status is Status.REPAIRED else outcome.status
    return replace(outcome, status=status, output=None, bytes_after=0, ways={})
