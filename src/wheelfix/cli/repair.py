"""`wheelfix repair`."""

import os
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from wheelfix.cli import options
from wheelfix.cli.ahead import STANDBY
from wheelfix.cli.verbosity import Verbose
from wheelfix.errors import ExitCode, SettingsError, WheelfixError, internal_error
from wheelfix.heap import spare

if TYPE_CHECKING:
    from wheelfix.cli.terminal import Terminal
    from wheelfix.config import Configuration
    from wheelfix.outcome import Outcome
    from wheelfix.settings import Settings
    from wheelfix.tools.standby import Standby

PATCHER = "patchelf"


def repair(
    context: typer.Context,
    wheels: options.Wheels,
    wheel_dir: options.WheelDir = None,
    plat: options.Plat = None,
    lib_sdir: options.LibSdir = None,
    exclude: options.Exclude = None,
    only_plat: options.OnlyPlat = None,
    update_tags: options.UpdateTags = None,
    strip: options.Strip = None,
    zip_level: options.ZipLevel = None,
    zip_codec: options.ZipCodecChoice = None,
    ldpaths: options.Ldpaths = None,
    isa_ext_check: options.IsaExtCheck = None,
    allow_pure_python_wheel: options.AllowPure = None,
    patcher: Annotated[
        str, typer.Option(help="For auditwheel's users; wheelfix patches with patchelf.")
    ] = PATCHER,
    jobs: options.Jobs = None,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Print the plan, and write nothing.")
    ] = False,
    diff: Annotated[
        bool,
        typer.Option("--diff", help="Print what would differ in the wheel, and write nothing."),
    ] = False,
    select: options.Select = None,
    extend_select: options.ExtendSelect = None,
    ignore: options.Ignore = None,
    per_file_ignores: options.PerFileIgnores = None,
    severity: options.SeverityOf = None,
    unsafe_fixes: options.UnsafeFixes = None,
    data_libraries: options.DataLibrariesChoice = None,
    search_path_tag: options.SearchPathTagChoice = None,
    sacrificial_entry: options.SacrificialEntryChoice = None,
    keep_entries: options.KeepEntries = None,
    keep_names: options.KeepNames = None,
    provider: options.ProviderOf = None,
    share: options.ShareChoice = None,
    provider_by: options.ProviderByChoice = None,
    add_requires: options.AddRequires = None,
    require: options.Require = None,
    prune_needed: options.PruneNeededChoice = None,
    keep_needed: options.KeepNeeded = None,
    drop_needed: options.DropNeeded = None,
    library_path: options.LibraryPath = None,
    verify: options.Verify = None,
    verdict: options.Verdict = None,
    config: options.Config = None,
    verbose: Verbose = 0,
    quiet: options.Quiet = False,
) -> None:
    """Write wheels that work once installed.

    auditwheel grafts the external libraries and chooses the tag, with its own options; rules
    mend the rest. The paths of the wheels written go to stdout.
    """
    given = locals()
    from wheelfix.tools.standby import Standby

    with context.meta[STANDBY] or Standby(os.environ) as standby:
        standby.prepare()
        raise typer.Exit(_repair(context, given, standby))


# --- Work -----------------------------------------------------------------------------------------


def _repair(context: typer.Context, given: dict[str, Any], standby: "Standby") -> ExitCode:
    """Repair what the options `given` say, and return the exit code."""
    from wheelfix.cli.terminal import Terminal
    from wheelfix.plugins import all_rules

    wheels: Sequence[Path] = given["wheels"]
    dry_run, diff = given["dry_run"], given["diff"]
    _refuse_patcher(given["patcher"])
    _refuse_wheels(wheels)
    spare(wheels)
    configuration = options.configuration_of(context, given, given["config"], all_rules())
    loud = given["verbose"] + int(context.obj or 0)
    terminal = Terminal(verbosity=-1 if given["quiet"] else loud)
    if os.environ.get("AUDITWHEEL_PATCHER", PATCHER) != PATCHER:
        terminal.say("note: AUDITWHEEL_PATCHER is not used: wheelfix patches with patchelf")
    show = partial(_show, terminal=terminal, as_plan=dry_run, as_diff=diff)
    outcomes = _repaired(wheels, configuration, terminal, standby, publish=not (dry_run or diff))
    return _shown(outcomes, show)


def _repaired(
    wheels: Sequence[Path],
    configuration: "Configuration",
    terminal: "Terminal",
    standby: "Standby",
    *,
    publish: bool,
) -> "Iterator[Outcome]":
    """Yield what becomes of each wheel, in their order."""
    from wheelfix.together import repair_each

    def attempt(path: Path, settings: "Settings", /, *, publish: bool) -> "Outcome":
        return _attempt(standby, path, settings, terminal.progress(path), publish=publish)

    jobs = configuration.settings.jobs
    return repair_each(wheels, configuration.settings_for, attempt, publish=publish, jobs=jobs)


def _attempt(
    standby: "Standby",
    wheel: Path,
    settings: "Settings",
    progress: Callable[[str], None],
    *,
    publish: bool,
) -> "Outcome":
    """Repair one wheel; a bug that shows on it must not stop the others."""
    from wheelfix.outcome import Outcome, Status
    from wheelfix.repairing import repair_with

    try:
        return repair_with(standby, wheel, settings, progress=progress, publish=publish)
    except WheelfixError as error:
        return Outcome(source=wheel, status=Status.FAILED, error=error)
    except Exception as error:  # noqa: BLE001 - see above; it is reported, and the exit code is 2
        return Outcome(source=wheel, status=Status.FAILED, error=internal_error(error))


# --- Words ----------------------------------------------------------------------------------------


def _shown(outcomes: "Iterator[Outcome]", show: "Callable[[Outcome], None]") -> ExitCode:
    """Show each outcome as it comes, and return the worst exit code of all."""
    worst = ExitCode.OK
    written: set[Path] = set()
    for outcome in outcomes:
        show(outcome)
        worst = max(worst, _exit_code(outcome))
        if outcome.output is not None and outcome.output in written:
            raise SettingsError(
                f"two of the wheels were both written to `{outcome.output}`",
                hint="repair them in two runs, each with a -w of its own",
            )
        written.update([outcome.output] if outcome.output else [])
    return worst


def _exit_code(outcome: "Outcome") -> ExitCode:
    from wheelfix.outcome import Status

    match outcome.status:
        case Status.REPAIRED | Status.UNCHANGED | Status.PLANNED:
            return ExitCode.OK
        case Status.REJECTED:
            return ExitCode.FINDINGS
        case Status.FAILED:
            return ExitCode.ERROR


def _show(outcome: "Outcome", *, terminal: "Terminal", as_plan: bool, as_diff: bool) -> None:
    from wheelfix.outcome import Status
    from wheelfix.reports import diff, text

    terminal.show(outcome)
    if outcome.status is Status.FAILED:
        return
    if as_plan:
        terminal.result(text.plan(outcome, colour=terminal.colours_results))
    if as_diff:
        terminal.result(diff.diff(outcome, colour=terminal.colours_results))
    if outcome.output is not None:
        terminal.result(text.printable(str(outcome.output)))


# --- Refusals -------------------------------------------------------------------------------------


def _refuse_patcher(patcher: str) -> None:
    if patcher != PATCHER:
        raise SettingsError(
            f"--patcher {patcher}: wheelfix patches with patchelf alone", hint="leave --patcher out"
        )


def _refuse_wheels(wheels: Sequence[Path]) -> None:
    """Raise `SettingsError` for wheels that are not there, or would be written to one name."""
    for wheel in wheels:
        if wheel.is_file():
            continue
        if set("*?[").intersection(str(wheel)) and not wheel.exists():
            raise SettingsError(
                f"no file matches `{wheel}`",
                hint="the shell found nothing to put in its place; build the wheel first",
            )
        problem = "is a directory" if wheel.is_dir() else "does not exist"
        hint = f"name the wheels in it: {wheel}/*.whl" if wheel.is_dir() else None
        raise SettingsError(f"`{wheel}` {problem}", hint=hint)
    names = Counter(wheel.name for wheel in wheels)
    name, times = names.most_common(1)[0]
    if times > 1:
        raise SettingsError(
            f"{times} of the wheels are called `{name}`; they would be written to one file",
            hint="repair them in several runs, each with a -w of its own",
        )
