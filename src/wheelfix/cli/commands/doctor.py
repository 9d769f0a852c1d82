"""`wheelfix doctor`: what goes wrong where installed distributions meet."""

import os
import shutil
from collections.abc import Generator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated

import typer

from wheelfix.analysis.import_orders import in_order, judge, meeting_pairs
from wheelfix.cli import options
from wheelfix.cli.console import Terminal, Verbose
from wheelfix.cli.installation_options import parse_library_path
from wheelfix.cli.options import TextOrJson
from wheelfix.cli.time_limit import time_limit
from wheelfix.errors import ExitCode, SettingsError
from wheelfix.host.installed_environment import read_modules, site_of
from wheelfix.host.installed_files import dist_info_folders
from wheelfix.host.wheel_environment import environment_with
from wheelfix.reports import doctor as reports
from wheelfix.reports.check_content import lowest_failing
from wheelfix.reports.printable import Style, json_text, printable
from wheelfix.rules.run_rules import find_in_environment
from wheelfix.settings import Group, Option, Settings

_BY_ORDER = "WF953"
"""The rule about imports that fail in some orders."""
_Environment = Annotated[
    Path | None,
    typer.Argument(
        metavar="[ENVIRONMENT|WHEEL]",
        help="A virtual environment, a prefix, or a site-packages folder; by default the active "
        "environment, or that of python3 on PATH. A wheel is installed into a new environment, "
        "with what it requires.",
    ),
]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Options:
    """The options that are not settings."""

    order: str | None = Option(
        "What is imported, in turn: which copy of a library serves whom, and what fails. A failure "
        "in this order is an error.",
        group=Group.MACHINES,
        metavar="NAME,NAME...",
    ).default(None)
    every_order: bool = Option(
        "Judge all orders of imports: a failure in any of them is an error.",
        group=Group.MACHINES,
    ).default(False)
    env: list[str] = Option(
        "LD_LIBRARY_PATH of the process; its directories are read on this machine.",
        group=Group.MACHINES,
        metavar="LD_LIBRARY_PATH=DIRS",
    ).default([])
    output_format: TextOrJson = options.OUTPUT_FORMAT.default(TextOrJson.TEXT)


@options.with_options
def doctor(
    context: typer.Context,
    request: _Options,
    environment: _Environment = None,
    config: options.Config = None,
    verbose: Verbose = 0,
    **given: object,
) -> None:
    """Say what goes wrong where installed distributions meet.

    Two distributions with the same file, modules that cannot be loaded, and imports that fail after
    other imports. The files of the environment are read; nothing of it is executed.

    A wheel is judged in a new environment, with what it requires and what `--with` names.

    Exit code 1 for errors.
    """
    library_path = parse_library_path(request.env)
    settings = options.configuration_of(context, given, config).settings
    subject = environment or _active(os.environ)
    if request.order is not None and request.every_order:
        raise SettingsError("--order is one of the orders of --every-order", hint="leave one out")
    others = settings.neighbors if subject.suffix == ".whl" else ()
    if given["neighbors"] and not others and not options.by_environment(context, "neighbors"):
        raise SettingsError(
            f"--with is for wheels: `{subject}` is an environment",
            hint="name a wheel, or leave it out",
        )
    terminal = Terminal(verbosity=verbose)
    terminal.show_progress(printable(subject.name))
    with _installed(subject, others) as folder, time_limit(settings.timeout, str(subject)):
        modules = read_modules(site_of(folder), library_path)
        names = [name.strip() for name in (request.order or "").split(",") if name.strip()]
        ordered = in_order(modules, names) if names else modules
        is_asked = bool(names) or request.every_order
        findings = find_in_environment(ordered, _failing_orders(settings) if is_asked else settings)
        asked = meeting_pairs(modules) if request.every_order else [names] if names else ()
        orders = [judge(in_order(modules, some), some) for some in asked]
    diagnosis = reports.Diagnosis(
        environment=f"{subject} with {', '.join(others)}" if others else str(subject),
        distributions=len({o.distribution for some in modules.owners.values() for o in some}),
        objects=sum(path in modules.libraries for path in modules.world.members),
        modules=len(modules.modules),
        findings=findings,
        orders=[reports.order(modules, some) for some in orders],
    )
    if request.output_format is TextOrJson.JSON:
        terminal.result(json_text(reports.value(diagnosis)))
    else:
        style = Style(color=terminal.colors_results, verbose=verbose > 0)
        terminal.report(reports.text(diagnosis, style))
    limit = lowest_failing(settings.fail_on)
    fails = limit is not None and any(finding.severity >= limit for finding in findings)
    raise typer.Exit(ExitCode.FINDINGS if fails else ExitCode.OK)


def _failing_orders(settings: Settings) -> Settings:
    """Return the settings for orders that are asked for: what fails in one is an error."""
    return replace(settings, severity={_BY_ORDER: "error", **settings.severity})


@contextmanager
def _installed(subject: Path, others: Sequence[str]) -> Generator[Path]:
    """Yield the folder of the environment: `subject`, or a new one if it is a wheel."""
    if subject.suffix != ".whl":
        yield subject
        return
    with environment_with(subject, others, Path.cwd(), os.environ) as folder:
        yield folder


def _active(environ: Mapping[str, str]) -> Path:
    """Return the folder of the active environment, or that of python3.

    Raises `SettingsError` if python3 is not in one: a shim of pyenv or asdf is not.
    """
    for name in ("VIRTUAL_ENV", "CONDA_PREFIX"):
        if environ.get(name):
            return Path(environ[name])
    python = shutil.which("python3")
    prefix = Path(python).parent.parent if python else None
    if prefix is None or not any(dist_info_folders(prefix)):
        raise SettingsError(
            "no environment is active, and PATH does not have the python3 of one",
            hint="name one: `wheelfix doctor .venv`",
        )
    return prefix
