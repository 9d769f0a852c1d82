"""Repair of several wheels, required ones first.

A wheel takes libraries from its owners: the repaired wheels of the set that it requires. Which
wheel owns for which is decided by `wheelfix.analysis.providers_in_run`.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Protocol

from packaging.utils import canonicalize_name

from wheelfix.analysis.providers_in_run import Part, ProviderWheel, SetMember, meet, set_members
from wheelfix.errors import ProviderNotRepairedError
from wheelfix.host.provider_lookup import in_wheel_beside, parts_in
from wheelfix.pipelines.repair_result import Outcome, Status
from wheelfix.rules.size import NOTABLE
from wheelfix.settings import Provider, Settings, Share
from wheelfix.system.tempfiles import scratch
from wheelfix.text import in_units
from wheelfix.wheel.edits import RenameNeeded
from wheelfix.wheel.grafted_name import unhashed
from wheelfix.wheel.model import Wheel


class RepairWheel(Protocol):
    """Repair one wheel; failures are in the outcome."""

    def __call__(self, path: Path, settings: Settings, /, *, publish: bool) -> Outcome:
        """Without `publish`, only plan it."""
        ...


def repair_each(
    paths: Sequence[Path],
    settings_for: Callable[[str], Settings],
    attempt: RepairWheel,
    *,
    publish: bool = True,
    jobs: int = 1,
) -> Iterator[Outcome]:
    """Yield the outcome of each wheel, in their order; `jobs` of them are repaired at a time.

    A wheel fails if its owner of the same product was not repaired. Without `publish`, owners are
    written to a temporary folder, so that the plans of the others are true.
    """
    with scratch() as folder:
        parts = parts_in(paths)
        found = set_members(parts)
        run = _Run(
            paths=paths,
            parts=parts,
            places=found,
            owning=frozenset(owner.index for place in found for owner in place.providers),
            settings_for=settings_for,
            attempt=attempt,
            scratch=None if publish else folder,
        )
        outcomes = run.side_by_side(jobs) if min(jobs, len(paths)) > 1 else run.in_turn()
        grafted: list[Mapping[str, int]] = []
        for index, outcome in enumerate(outcomes):
            grafted.append(_grafted(outcome.after) if run.shares(index) else {})
            messages = (*outcome.messages, *_repeated(run, index, grafted))
            yield replace(outcome, messages=messages)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Finished:
    """The outcome of one wheel."""

    outcome: Outcome
    written: Path | None = None
    """The file to take libraries from; None if none was written."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Run:
    paths: Sequence[Path]
    parts: Sequence[Part]
    places: Sequence[SetMember]
    settings_for: Callable[[str], Settings]
    attempt: RepairWheel
    scratch: Path | None
    """Where owners are written in a dry run."""
    owning: frozenset[int]
    """The wheels from which others take libraries."""

    def shares(self, index: int) -> bool:
        """Return whether the wheel may take libraries from the others, or give them."""
        return self.settings_for(self.paths[index].name).share is not Share.OFF

    # --- Order

    def in_turn(self) -> Iterator[Outcome]:
        done: dict[int, _Finished] = {}
        for index in range(len(self.paths)):
            before = [owner.index for owner in self.places[index].providers]
            for due in sorted((*before, index), key=self._depth):
                if due not in done:
                    done[due] = self._repair(due, done.__getitem__)
            yield done[index].outcome if index in self.owning else done.pop(index).outcome

    def side_by_side(self, jobs: int) -> Iterator[Outcome]:
        # Owners are submitted before their dependents: no thread waits for one that has no thread.
        order = sorted(range(len(self.paths)), key=self._depth)
        futures: dict[int, Future[_Finished]] = {}
        with ThreadPoolExecutor(min(jobs, len(self.paths))) as pool:
            try:
                for index in order:
                    futures[index] = pool.submit(
                        self._repair, index, lambda owner: futures[owner].result()
                    )
                for index in range(len(self.paths)):
                    future = futures[index] if index in self.owning else futures.pop(index)
                    yield future.result().outcome
            except BaseException:  # Ctrl-C, or a caller that stops early
                pool.shutdown(wait=False, cancel_futures=True)
                raise

    def _repair(self, index: int, done: Callable[[int], _Finished]) -> _Finished:
        path, place = self.paths[index], self.places[index]
        settings = self.settings_for(path.name)
        owners = () if settings.share is Share.OFF else place.providers
        before = [(owner, done(owner.index)) for owner in owners]
        for owner, finished in before:
            if finished.written is None and _shares(owner, settings):
                return _Finished(outcome=_held_up(path, finished.outcome))
        given = (provider for pair in before for provider in self._provided(*pair, settings))
        settings = replace(settings, provider=(*settings.provider, *given))
        if index in self.owning and self.scratch is not None:
            aside = replace(settings, wheel_dir=self.scratch / str(index), verify=False)
            written = self.attempt(path, aside, publish=True)
            outcome, output = _as_planned(written), written.output
        else:
            outcome = self.attempt(path, settings, publish=self.scratch is None)
            output = outcome.output
        if settings.share is not Share.OFF:
            outcome = replace(outcome, messages=(*place.messages, *outcome.messages))
        return _Finished(outcome=outcome, written=output.absolute() if output else None)

    def _provided(
        self, owner: ProviderWheel, finished: _Finished, settings: Settings
    ) -> Iterator[Provider]:
        """Yield the libraries of an owner; those in its package are the same before its repair."""
        file = finished.written or self.paths[owner.index].absolute()
        for provider in in_wheel_beside(file):
            yield replace(
                provider,
                owner=True,
                shared=_shares(owner, settings),
                grafted=_names(finished.outcome, provider),
                through=owner.through,
            )

    def _depth(self, index: int) -> int:
        return self.places[index].depth


# --- Outcomes ---------------------------------------------------------------------------


def _shares(owner: ProviderWheel, settings: Settings) -> bool:
    """Return whether the wheel may take what the owner grafts."""
    return owner.same_product or settings.share is Share.REQUIRED


def _names(owner: Outcome, provider: Provider) -> tuple[tuple[str, str], ...]:
    """Return old and new names of the libraries that the repair of an owner has grafted."""
    edits = (step.edit for step in owner.edits)
    names: dict[str, set[str]] = {}
    for edit in edits:
        if isinstance(edit, RenameNeeded) and unhashed(edit.new) and provider.has(edit.new):
            names.setdefault(edit.old, set()).add(edit.new)
    return tuple((old, new) for old, found in names.items() if len(found) == 1 for new in found)


def _held_up(path: Path, owner: Outcome) -> Outcome:
    error = ProviderNotRepairedError(
        f"`{path.name}` requires `{owner.source.name}`, which was not repaired",
        hint="see its own error; `--share off` repairs each wheel by itself",
    )
    return Outcome(source=path, status=Status.FAILED, error=error)


def _as_planned(outcome: Outcome) -> Outcome:
    """Return the outcome in a dry run of a wheel that was written to a temporary folder."""
    status = Status.PLANNED if outcome.status is Status.REPAIRED else outcome.status
    return replace(outcome, status=status, output=None, bytes_after=0, ways={})


# --- Duplicates -----------------------------------------------------------------


def _grafted(wheel: Wheel | None) -> Mapping[str, int]:
    """Return the names of the grafted libraries, and their sizes in bytes."""
    if wheel is None:
        return {}
    bases = ((member.name.rpartition("/")[2], member) for member in wheel.members)
    return {
        base: member.size for base, member in bases if member.name in wheel.elfs and unhashed(base)
    }


def _repeated(run: _Run, index: int, grafted: Sequence[Mapping[str, int]]) -> Iterator[str]:
    """Yield a message for each other distribution that has grafted the same libraries."""
    own = run.parts[index].name
    seen = {canonicalize_name(own.distribution)}
    for other, theirs in enumerate(grafted[:index]):
        name = run.parts[other].name
        both = grafted[index].keys() & theirs.keys()
        size = sum(grafted[index][base] for base in both)
        distribution = canonicalize_name(name.distribution)
        if size < NOTABLE or distribution in seen or not meet(name, own):
            continue
        seen.add(distribution)
        listed = ", ".join(f"`{unhashed(base)}`" for base in sorted(both))
        advice = _advice(run, index, other)
        yield f"{distribution} contains the same {listed}, {in_units(size)}: {advice}"


def _advice(run: _Run, one: int, other: int) -> str:
    for dependent, owner in ((one, other), (other, one)):
        if any(provider.index == owner for provider in run.places[dependent].providers):
            requiring, required = run.parts[dependent].name, run.parts[owner].name
            return (
                f"to share it, let {requiring.distribution} require "
                f"`{required.distribution}=={required.version}`, or use `--share required`"
            )
    return "a wheel that both require could provide it once"
