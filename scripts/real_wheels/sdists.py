"""Wheels built from source, repaired by each tool, and compared."""

import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from real_wheels.archives import grafted, megabytes, platform_tag, record_problems, unhashed
from real_wheels.installed import Use, use_installed
from real_wheels.listed import Outcome, Sdist
from real_wheels.programs import Programs, build, repair


@dataclass(frozen=True, slots=True, kw_only=True)
class Repaired:
    """One program's result on a wheel built from source, and how it did when it was used."""

    wheel: Path
    seconds: float
    libraries: frozenset[str]
    use: Use

    @property
    def mapped(self) -> frozenset[str]:
        """Its grafted libraries that were in use, without their hashes."""
        return self.libraries & {unhashed(name) for name in self.use.grafted}

    @property
    def details(self) -> dict[str, object]:
        """The figures, for the file of results."""
        return {
            "file": self.wheel.name,
            "bytes": self.wheel.stat().st_size,
            "seconds": round(self.seconds, 3),
            "libraries": sorted(self.libraries),
            "mapped": sorted(self.mapped),
            "error": self.use.error,
        }

    def problems(self, allowed: Sequence[str]) -> list[str]:
        """Tell what is wrong with it by itself; `allowed` names files that others bring along."""
        failed = [f"use failed: {self.use.error}"] if self.use.error else []
        return failed + [
            f"{path} was loaded from outside"
            for path in sorted(self.use.leaked)
            if Path(path).name not in allowed
        ]


def check_sdist(sdist: Sdist, programs: Programs, tools: Path, cache: Path) -> Outcome:
    """Build a wheel, repair it with each program in one run, install, use and compare."""
    wheel = build(sdist, tools, cache)
    problems: list[str] = []
    results: dict[str, Repaired] = {}
    cells = {"wheel": sdist.requirement, "MB": megabytes(wheel)}
    with tempfile.TemporaryDirectory(prefix="corpus-") as folder:
        for tool, program in programs.items():
            done = repair(program, wheel, Path(folder, tool))
            if done.wheel is None:
                problems.append(f"{tool}: exit code {done.code}: {done.last_words}")
                continue
            use = use_installed(done.wheel, sdist.needs, sdist.use, tools)
            result = results[tool] = Repaired(
                wheel=done.wheel, seconds=done.seconds, libraries=grafted(done.wheel), use=use
            )
            problems += [f"{tool}: {each}" for each in result.problems(sdist.outside)]
            problems += [f"{tool}: {each}" for each in record_problems(done.wheel, tools)]
            cells |= sdist_cells(tool, result)
        problems += disagreements(results)
        details = {tool: result.details for tool, result in results.items()}
    return Outcome(name=sdist.requirement, cells=cells, problems=tuple(problems), details=details)


def sdist_cells(tool: str, result: Repaired) -> dict[str, str]:
    """Lay out one program's part of the row."""
    return {
        f"{tool}: tag": platform_tag(result.wheel),
        f"{tool}: libraries (mapped)": f"{len(result.libraries)} ({len(result.mapped)})",
        f"{tool}: MB": megabytes(result.wheel),
        f"{tool}: s": f"{result.seconds:.2f}",
    }


def disagreements(results: Mapping[str, Repaired]) -> list[str]:
    """Compare wheelfix with auditwheel: the same file name, the same libraries or fewer."""
    if not results.keys() >= {"auditwheel", "wheelfix"}:
        return []
    theirs, ours = results["auditwheel"], results["wheelfix"]
    problems = [
        f"wheelfix alone grafts {name}" for name in sorted(ours.libraries - theirs.libraries)
    ]
    if ours.wheel.name != theirs.wheel.name:
        problems.append(f"{ours.wheel.name}, where auditwheel writes {theirs.wheel.name}")
    return problems
