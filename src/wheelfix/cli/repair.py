"""`wheelfix repair`."""

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any

import typer

from wheelfix.cli import options
from wheelfix.cli.repairs import PATCHER, refuse_wheels, repair_wheels
from wheelfix.cli.verbosity import Verbose
from wheelfix.errors import ExitCode, SettingsError
from wheelfix.pipelines.auditwheel_worker import Auditwheel
from wheelfix.rules.plugins import all_rules


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
    with Auditwheel(os.environ) as auditwheel:
        raise typer.Exit(_repair(context, given, auditwheel))


def _repair(context: typer.Context, given: dict[str, Any], auditwheel: Auditwheel) -> ExitCode:
    """Repair what the options `given` say, and return the exit code."""
    wheels: Sequence[Path] = given["wheels"]
    _refuse_patcher(given["patcher"])
    refuse_wheels(wheels)
    configuration = options.configuration_of(context, given, given["config"], all_rules())
    loud = given["verbose"] + int(context.obj or 0)
    return repair_wheels(
        wheels,
        configuration,
        auditwheel,
        verbosity=-1 if given["quiet"] else loud,
        as_plan=given["dry_run"],
        as_diff=given["diff"],
    )


def _refuse_patcher(patcher: str) -> None:
    if patcher != PATCHER:
        raise SettingsError(
            f"--patcher {patcher}: wheelfix patches with patchelf alone", hint="leave --patcher out"
        )
