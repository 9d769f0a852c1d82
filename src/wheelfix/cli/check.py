"""`wheelfix check`: its options; `checks` has what they ask for."""

from typing import Annotated

import typer

from wheelfix.cli import options
from wheelfix.cli.checks import Asked, check_wheels
from wheelfix.cli.verbosity import Verbose
from wheelfix.errors import SettingsError
from wheelfix.reports.formats import Format
from wheelfix.rules.plugins import all_rules
from wheelfix.settings import FailOn


def check(
    context: typer.Context,
    wheels: options.WheelsOrList = None,
    from_file: options.FromFile = None,
    strict: Annotated[
        bool,
        typer.Option(
            "--strict", help="Fail on warnings too: --fail-on warning.", envvar="WHEELFIX_STRICT"
        ),
    ] = False,
    exit_zero: Annotated[
        bool,
        typer.Option(
            "--exit-zero",
            help="Report, and exit with 0: --fail-on never.",
            envvar="WHEELFIX_EXIT_ZERO",
        ),
    ] = False,
    fail_on: options.FailOnChoice = None,
    select: options.Select = None,
    extend_select: options.ExtendSelect = None,
    ignore: options.Ignore = None,
    per_file_ignores: options.PerFileIgnores = None,
    severity: options.SeverityOf = None,
    baseline: options.BaselineFile = None,
    write_baseline: Annotated[
        bool,
        typer.Option(
            "--write-baseline",
            help="Write what is found to the baseline file: from then on it does not count.",
        ),
    ] = False,
    exclude: options.Exclude = None,
    keep_entries: options.KeepEntries = None,
    keep_names: options.KeepNames = None,
    provider: options.ProviderOf = None,
    require: options.Require = None,
    prune_needed: options.PruneNeededChoice = None,
    keep_needed: options.KeepNeeded = None,
    drop_needed: options.DropNeeded = None,
    library_path: options.LibraryPath = None,
    max_size: options.MaxSize = None,
    max_file_size: options.MaxFileSize = None,
    max_growth: options.MaxGrowth = None,
    against: options.Against = None,
    target: options.Targets = None,
    jobs: options.Jobs = None,
    timeout: options.Timeout = None,
    output_format: options.OutputFormat = Format.FULL,
    output_file: options.OutputFile = None,
    more_reports: options.MoreReports = None,
    resume: Annotated[
        bool,
        typer.Option(
            "--resume",
            help="With jsonl, continue --output-file: records that still hold are kept.",
        ),
    ] = False,
    dask: Annotated[
        str | None,
        typer.Option(
            "--dask",
            metavar="ADDRESS",
            envvar="WHEELFIX_DASK",
            help="Work on the Dask cluster whose scheduler is there, in place of --jobs.",
            show_default=False,
        ),
    ] = None,
    config: options.Config = None,
    verbose: Verbose = 0,
    quiet: options.Quiet = False,
) -> None:
    """Say what is wrong with wheels as they stand, and change nothing.

    Needs nothing but the wheel: no compiler, no patchelf, no auditwheel, whatever its platform.
    """
    given = locals()
    if strict or exit_zero:
        given["fail_on"] = _fail_on(fail_on, strict=strict, exit_zero=exit_zero)
    asked = Asked(
        wheels=wheels or (),
        from_file=from_file,
        write_baseline=write_baseline,
        output_format=output_format,
        output_file=output_file,
        more_reports=more_reports or (),
        resume=resume,
        dask=dask,
        verbosity=verbose + int(context.obj or 0),
        quiet=quiet,
    )
    configuration = options.configuration_of(context, given, config, all_rules())
    raise typer.Exit(check_wheels(asked, configuration))


def _fail_on(given: FailOn | None, *, strict: bool, exit_zero: bool) -> FailOn:
    asked = [given] if given is not None else []
    asked += [FailOn.WARNING] if strict else []
    asked += [FailOn.NEVER] if exit_zero else []
    if len(set(asked)) > 1:
        raise SettingsError(
            "--strict, --exit-zero and --fail-on contradict each other", hint="give one of them"
        )
    return asked[0]
