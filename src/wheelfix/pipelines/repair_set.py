"""Several wheels in one run: each by itself, but those of one product in turn, owners first.

What an owner has once it is repaired, the wheels that require it take from there. Which those are
is `product`'s to say; how one wheel is repaired is the caller's.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Protocol

from packaging.utils import canonicalize_name

from wheelfix.analysis.wheel_sets import Owner, Part, Place, meet, places
from wheelfix.errors import OwnerError
from wheelfix.host.provider_lookup import in_wheel_beside, parts_in
from wheelfix.pipelines.repair_result import Outcome, Status
from wheelfix.rules.files import in_units
from wheelfix.rules.size import NOTABLE
from wheelfix.settings import Provider, Settings, Share
from wheelfix.system.scratch import scratch
from wheelfix.wheel.edits import RenameNeeded
from wheelfix.wheel.grafted_name import unhashed
from wheelfix.wheel.model import Wheel


class Attempt(Protocol):
    """Repair one wheel; what goes wrong is in the outcome."""

    def __call__(self, path: Path, settings: Settings, /, *, publish: bool) -> Outcome:
        """Without `publish`, only plan it."""
        ...


def repair_each(
    paths: Sequence[Path],
    settings_for: Callable[[str], Settings],
    attempt: Attempt,
    *,
    publish: bool = True,
    jobs: int = 1,
) -> Iterator[Outcome]:
    """Yield what becomes of each wheel, in their order; `jobs` of them side by side.

    A wheel fails if its owner of the same product was not repaired. Without `publish`, owners are
    written to a temporary folder, so that the others are planned as they would be repaired.
    """
    with scratch() as folder:
        parts = parts_in(paths)
        run = _Run(
            paths=paths,
            parts=parts,
            places=places(parts),
            settings_for=settings_for,
            attempt=attempt,
            scratch=None if publish else folder,
        )
        outcomes = run.side_by_side(jobs) if min(jobs, len(paths)) > 1 else run.in_turn()
        grafted: list[Mapping[str, int]] = []
        for index, outcome in enumerate(outcomes):
            grafted.append(_grafted(outcome.after) if run.shares(index) else {})
            said = _repeated(run, index, grafted)
            yield replace(outcome, messages=(*outcome.messages, *said))


@dataclass(frozen=True, slots=True, kw_only=True)
class _Finished:
    """What becomes of one wheel."""

    outcome: Outcome
    written: Path | None = None
    """The file to take libraries from; None where there is none."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Run:
    paths: Sequence[Path]
    parts: Sequence[Part]
    places: Sequence[Place]
    settings_for: Callable[[str], Settings]
    attempt: Attempt
    scratch: Path | None
    """Where owners are written in a dry run."""
    owning: frozenset[int] = field(init=False)

    def __post_init__(self) -> None:
        owning = frozenset(o.index for place in self.places for o in place.owners)
        object.__setattr__(self, "owning", owning)

    def shares(self, index: int) -> bool:
        """Whether the wheel may have anything to do with the others."""
        return self.settings_for(self.paths[index].name).share is not Share.OFF

    # --- Order

    def in_turn(self) -> Iterator[Outcome]:
        done: dict[int, _Finished] = {}
        for index in range(len(self.paths)):
            before = [owner.index for owner in self.places[index].owners]
            for each in sorted((*before, index), key=self._depth):
                if each not in done:
                    done[each] = self._repair(each, done.__getitem__)
            yield done[index].outcome if index in self.owning else done.pop(index).outcome

    def side_by_side(self, jobs: int) -> Iterator[Outcome]:
        # Owners are begun before those that wait for them, so that nobody waits in vain.
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
            except BaseException:  # Ctrl-C, or a caller that has seen enough
                pool.shutdown(wait=False, cancel_futures=True)
                raise

    def _repair(self, index: int, done: Callable[[int], _Finished]) -> _Finished:
        path, place = self.paths[index], self.places[index]
        settings = self.settings_for(path.name)
        owners = () if settings.share is Share.OFF else place.owners
        before = [(owner, done(owner.index)) for owner in owners]
        for owner, finished in before:
            if finished.written is None and _shares(owner, settings):
                return _Finished(outcome=_held_up(path, finished.outcome))
        given = (each for pair in before for each in self._provided(*pair, settings))
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
        self, owner: Owner, finished: _Finished, settings: Settings
    ) -> Iterator[Provider]:
        """Yield what an owner has; what is in its own package is the same before its repair."""
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


# --- What becomes of it ---------------------------------------------------------------------------


def _shares(owner: Owner, settings: Settings) -> bool:
    """Whether what the owner grafts is for the wheel, too."""
    return owner.same_product or settings.share is Share.REQUIRED


def _names(owner: Outcome, provider: Provider) -> tuple[tuple[str, str], ...]:
    """Return what the repair of an owner has renamed, as far as the provider has it."""
    edits = (step.edit for step in owner.edits)
    names: dict[str, set[str]] = {}
    for edit in edits:
        if isinstance(edit, RenameNeeded) and unhashed(edit.new) and provider.has(edit.new):
            names.setdefault(edit.old, set()).add(edit.new)
    return tuple((old, new) for old, found in names.items() if len(found) == 1 for new in found)


def _held_up(path: Path, owner: Outcome) -> Outcome:
    error = OwnerError(
        f"`{path.name}` requires `{owner.source.name}`, which was not repaired",
        hint="see what is said of that one; `--share off` repairs each by itself",
    )
    return Outcome(source=path, status=Status.FAILED, error=error)


def _as_planned(outcome: Outcome) -> Outcome:
    """Return what a dry run says of a wheel that was written to a temporary folder."""
    status = Status.PLANNED if outcome.status is Status.REPAIRED else outcome.status
    return replace(outcome, status=status, output=None, bytes_after=0, ways={})


# --- What is there more than once -----------------------------------------------------------------


def _grafted(wheel: Wheel | None) -> Mapping[str, int]:
    """Return the names of the grafted libraries, and their sizes in bytes."""
    if wheel is None:
        return {}
    bases = ((member.name.rpartition("/")[2], member) for member in wheel.members)
    return {
        base: member.size for base, member in bases if member.name in wheel.elfs and unhashed(base)
    }


def _repeated(run: _Run, index: int, grafted: Sequence[Mapping[str, int]]) -> Iterator[str]:
    """Say which libraries of a wheel are in one of another distribution, too."""
    own = run.parts[index].name
    told = {canonicalize_name(own.distribution)}
    for other, theirs in enumerate(grafted[:index]):
        name = run.parts[other].name
        both = grafted[index].keys() & theirs.keys()
        size = sum(grafted[index][base] for base in both)
        distribution = canonicalize_name(name.distribution)
        if size < NOTABLE or distribution in told or not meet(name, own):
            continue
        told.add(distribution)
        listed = ", ".join(f"`{unhashed(base)}`" for base in sorted(both))
        advice = _advice(run, index, other)
        yield f"{distribution} brings the same {listed}, {in_units(size)}: {advice}"


def _advice(run: _Run, one: int, other: int) -> str:
    for user, owner in ((one, other), (other, one)):
        if any(each.index == owner for each in run.places[user].owners):
            asking, asked = run.parts[user].name, run.parts[owner].name
            return (
                f"`{asked.distribution}=={asked.version}` among the requirements of "
                f"{asking.distribution} leaves it there; so does `--share required`"
            )
    return "one that both require would have it once"
