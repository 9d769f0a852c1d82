"""`wheelfix doctor`: what goes wrong where installed distributions meet."""

import os
from collections.abc import Generator, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace
from itertools import chain, product
from pathlib import Path
from typing import Annotated

import typer

from wheelfix.analysis.explain_remedies import lasting
from wheelfix.cli import options
from wheelfix.cli.installation_options import (
    LIBRARY_PATH,
    TARGET,
    for_wheels,
    in_shell,
    library_path_of,
    parse_variables,
    target_of,
)
from wheelfix.cli.options import Call, TextOrJson
from wheelfix.cli.wheel_time_limit import time_limit
from wheelfix.environments.cached_facts import CachedFacts
from wheelfix.environments.comparison import Compared, LoadDifference, first_difference
from wheelfix.environments.import_orders import Order, imported_as, in_order, judge, meeting_pairs
from wheelfix.environments.import_runs import python_of, run_imports
from wheelfix.environments.modules import InstalledModules
from wheelfix.environments.of_a_wheel import Made, distributions_of, environment_with
from wheelfix.environments.read_environment import read_modules
from wheelfix.environments.run_environment_rules import find_in_environment
from wheelfix.errors import ExitCode, SettingsError
from wheelfix.frozen import frozen
from wheelfix.grouping import flatten
from wheelfix.host.installed_files import added_folders, dist_info_folders
from wheelfix.host.loader_config import configured_directories
from wheelfix.host.machine_files import refuse_tmpdir_of_others
from wheelfix.host.wheel_cache import cache_folder
from wheelfix.named_tuple import NamedTuple
from wheelfix.reports import doctor as reports
from wheelfix.reports.check_content import lowest_failing
from wheelfix.reports.printable import Style, json_text, printable
from wheelfix.rules.findings import Severity
from wheelfix.rules.predictions import Outcome, Prediction, Proof, compare
from wheelfix.settings import Group, Option, Settings
from wheelfix.system.subprocesses import find_program
from wheelfix.wheel.platform_tags import architectures_of
from wheelfix.wheel.requirements import name_of

_SECONDS = 300
"""The time for the imports of one order: torch takes ten seconds under the loader's log."""
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


@frozen
class _Options:
    """The options that are not settings."""

    order: str | None = Option(
        "What is imported, in turn: which copy of a library serves whom, and what fails. A failure "
        "in this order is an error.",
        group=Group.MACHINES,
        metavar="NAME,NAME...",
    ).default(None)
    every_order: bool = Option(
        "Judge all orders of imports: WF953 is an error.",
        group=Group.MACHINES,
    ).default(False)
    against: Path | None = Option(
        "Another environment: why the same imports load other libraries there. --env and --order "
        "are for the first one; of the other, no variable is set.",
        group=Group.MACHINES,
        metavar="ENVIRONMENT",
    ).default(None)
    prove: bool = Option(
        "Import in the orders in question, and say of each prediction whether it was seen. This "
        "executes code of the environment, in processes of its Python.",
        group=Group.MACHINES,
    ).default(False)
    env: list[str] = Option(
        "LD_LIBRARY_PATH of the process, by default that of the shell; its directories are read. "
        "With --against also a variable that Python code searches for libraries.",
        group=Group.MACHINES,
        metavar="NAME=DIRS",
    ).default([])
    target: str | None = TARGET.default(None)
    output_format: TextOrJson = options.OUTPUT_FORMAT.default(TextOrJson.TEXT)


@options.with_options
def doctor(call: Call, request: _Options, environment: _Environment = None) -> None:
    """Say what goes wrong where installed distributions meet.

    Two distributions with the same file, modules that cannot be loaded, and imports that fail after
    others. Only `--prove` executes code of the environment. Exit code 1 for errors, if it has
    objects and none was judged, and with `--against` for a difference; 2 for an empty folder.
    """
    # Of another environment the variable is not known, so that it is compared without.
    given = parse_variables(request.env)
    process = given if request.against else in_shell(given, os.environ, request.target)
    library_path = process.get(LIBRARY_PATH, "") if request.against else library_path_of(process)
    settings = call.read_configuration().settings
    subject = environment or _active(os.environ)
    if request.target is not None and (
        request.prove or request.against or subject.suffix == ".whl"
    ):
        raise SettingsError(
            "--target describes the machine of one environment",
            hint="leave out --target, or --prove and --against, and name an environment",
        )
    if request.order is not None and request.every_order:
        raise SettingsError("--order is one of the orders of --every-order", hint="leave one out")
    if request.prove or subject.suffix == ".whl":
        refuse_tmpdir_of_others()
    others = settings.neighbors if subject.suffix == ".whl" else ()
    if call.is_flag("neighbors") and not others:
        raise for_wheels("--with", f"`{subject}` is an environment")
    terminal = call.terminal
    terminal.show_progress(printable(subject.name))
    names = [name.strip() for name in (request.order or "").split(",") if name.strip()]
    asked = _Asked(subject, others, library_path, names)
    style = Style(color=terminal.colors_results, verbose=terminal.verbosity > 0)
    if request.against is None:
        diagnosis = _diagnose(asked, request, settings)
        value, text = reports.value(diagnosis), reports.text(diagnosis, style)
        fails = _fails(diagnosis, settings)
    else:
        compared, difference = _compare(asked, request.against, request, settings)
        searched = flatten(search.stops for search in compared.here.world.searches.found)
        for name in sorted(given.keys() - {LIBRARY_PATH, *(stop.variable for stop in searched)}):
            terminal.say(f"`--env {name}`: no Python source is seen to search it for libraries")
        value = reports.difference_value(compared, difference)
        text = reports.difference_text(compared, difference, style)
        fails = difference is not None or not compared.is_known
    if request.output_format is TextOrJson.JSON:
        terminal.result(json_text(value))
    elif fails or not call.quiet:
        terminal.report(text)
    raise typer.Exit(ExitCode.FINDINGS if fails else ExitCode.OK)


class _Asked(NamedTuple):
    """What is asked about."""

    subject: Path
    """An environment, or a wheel."""
    others: Sequence[str]
    """What is installed beside the wheel."""
    library_path: str
    """LD_LIBRARY_PATH of the process."""
    names: Sequence[str]
    """What is imported in turn; none for any order."""

    @property
    def is_wheel(self) -> bool:
        return self.subject.suffix == ".whl"


def _diagnose(asked: _Asked, request: _Options, settings: Settings) -> reports.Diagnosis:
    """Return what goes wrong, and what was seen of it."""
    names = asked.names
    with time_limit(settings.timeout, str(asked.subject)), _installed(asked) as made:
        folder = made.folder
        cache = CachedFacts(
            None if asked.is_wheel else _cache(os.environ), os.path.realpath(folder)
        )
        target = None if request.target is None else target_of(request.target, None)
        modules = read_modules(folder, asked.library_path, cache, target)
        modules = replace(modules, unknown=made.unknown)
        if asked.is_wheel:  # what is packed well may be large
            modules.world.budget.fit(made.size)
        _refuse_another_machine(modules, asked.subject)
        judged = settings
        if names or request.every_order:  # what fails in an order that is asked for is an error
            judged = replace(settings, severity={_BY_ORDER: "error", **settings.severity})
        orders = list(_orders(asked, modules)) if request.every_order else []
        orders += [judge(in_order(modules, names), names)] if names else []
        subject = in_order(modules, names) if names else modules
        findings = find_in_environment(subject, judged)
        modules.symbols.contents.save()
        if asked.is_wheel:
            findings = tuple(
                replace(f, hint=lasting(f.hint or "", str(folder)) or None) for f in findings
            )
        predictions = [finding.prediction for finding in findings if finding.prediction]
        predictions += list(flatten(order.predictions for order in orders))
        elements = modules.world.environment.library_path
        proofs = _prove(predictions, folder, elements) if request.prove else {}
        fails = [p for p, proof in proofs.items() if proof.outcome is Outcome.SEEN and proof.text]
        alone = {p: Prediction(p.imports[-1:]) for p in fails}
        works = _prove(list(alone.values()), folder, elements) if alone else {}
        wrong = {p for p in alone if works[alone[p]].outcome is Outcome.SEEN}
        findings = tuple(
            replace(f, severity=Severity.ERROR) if f.prediction in wrong else f for f in findings
        )
        # What has no wheel is told of each finding that it may change.
        named = distributions_of(asked.subject, asked.others) if asked.is_wheel else ()
        unmet = modules.not_met
        not_met = [each for each in unmet if not asked.is_wheel or name_of(each.name) in named]
    beside = [*asked.others, *([f"{LIBRARY_PATH}={path}"] if (path := asked.library_path) else [])]
    return reports.Diagnosis(
        environment=" with ".join(filter(None, (str(asked.subject), ", ".join(beside)))),
        distributions=len(modules.distributions) * modules.is_environment,
        objects=sum(path in modules.symbols.libraries for path in modules.world.members),
        modules=sum(
            path.endswith(".so") and modules.fits(path)
            for path in modules.modules.keys() - modules.opened.keys() - modules.interpreter.keys()
        ),
        not_judged=len(modules.not_judged),
        opens_unknown=modules.symbols.contents.opens_unknown,
        not_read=(not_read := list(added_folders(asked.subject, os.environ))),
        not_met=() if not_read else not_met,
        findings=findings,
        orders=[reports.order(modules, order, proofs) for order in orders],
        proofs=proofs,
    )


def _refuse_another_machine(modules: InstalledModules, subject: Path) -> None:
    """Raise `SettingsError` if this machine has no C library for the objects."""
    world = modules.world
    files = world.environment.files.items()
    archs = architectures_of(world.abi)
    if archs and not any(elf.abi == world.abi for path, elf in files if path not in world.members):
        raise SettingsError(
            f"`{subject}` is for {' or '.join(archs)}: this machine has no C library for that",
            hint="describe the machine that it is for: --target debian:12",
        )


def _prove(
    predictions: Sequence[Prediction], folder: Path, library_path: Sequence[str]
) -> dict[Prediction, Proof]:
    """Execute the imports of predictions; return what was seen of each."""
    python = python_of(options.current_folder() / folder)
    runs = run_imports(python, predictions, os.environ, library_path, _SECONDS)
    return {prediction: compare(prediction, runs[prediction.imports]) for prediction in predictions}


def _fails(diagnosis: reports.Diagnosis, settings: Settings) -> bool:
    """Return whether there is a finding that fails, or an order that fails, or was seen to.

    Or no object was judged.
    """
    limit = lowest_failing(settings.fail_on)
    fails = limit is not None and any(finding.severity >= limit for finding in diagnosis.findings)
    is_judged = not diagnosis.objects or diagnosis.not_judged < diagnosis.objects
    return (
        fails
        or not is_judged
        or any(
            order.failing or (order.proof and order.proof.outcome is not Outcome.SEEN)
            for order in diagnosis.orders
        )
    )


def _orders(asked: _Asked, modules: InstalledModules) -> Iterator[Order]:
    """Yield the orders of two imports that are in question.

    Those are the pairs that meet, and of a wheel, its imports and each of those of the others.
    """
    pairs = dict.fromkeys(meeting_pairs(modules))
    if asked.is_wheel:
        tops = [
            imported_as(modules, distribution)
            for distribution in distributions_of(asked.subject, asked.others)
        ]
        for first, other in product(tops[0], chain(*tops[1:])):
            pairs |= dict.fromkeys(((first, other), (other, first)))
    for pair in pairs:
        yield judge(in_order(modules, pair), pair)


def _compare(
    asked: _Asked, against: Path, request: _Options, settings: Settings
) -> tuple[Compared, LoadDifference | None]:
    """Return why the environment `against` loads other libraries, None if it loads the same."""
    if request.every_order or request.prove or asked.is_wheel:
        raise SettingsError(
            "--against compares what is installed in two environments",
            hint="leave out --every-order, --prove and wheels",
        )
    with time_limit(settings.timeout, str(asked.subject)):
        variables = parse_variables(request.env)
        both = (
            read_modules(asked.subject, asked.library_path, variables=variables),
            read_modules(against),
        )
        here, there = (in_order(m, asked.names) if asked.names else m for m in both)
        names = str(asked.subject), str(against)
        left = (
            tuple(added_folders(asked.subject, os.environ)),
            tuple(added_folders(against, os.environ)),
        )
        compared = Compared(here, there, names, configured_directories(), left)
        return compared, first_difference(compared)


@contextmanager
def _installed(asked: _Asked) -> Generator[Made]:
    """Yield the environment, a new one for a wheel."""
    if not asked.is_wheel:
        yield Made(asked.subject)
        return
    folder = options.current_folder()
    with environment_with(asked.subject, asked.others, folder, os.environ) as made:
        yield made


def _cache(environ: Mapping[str, str]) -> Path | None:
    """Return the folder in which is kept what was read, None without a place for it."""
    with suppress(SettingsError):
        return cache_folder(environ) / "objects"
    return None


def _active(environ: Mapping[str, str]) -> Path:
    """Return the folder of the active environment, or that of python3.

    Raises `SettingsError` if python3 is not in one: a shim of pyenv or asdf is not.
    """
    for name in ("VIRTUAL_ENV", "CONDA_PREFIX"):
        if environ.get(name):
            return Path(environ[name])
    python = find_program("python3")
    prefix = Path(python).parent.parent if python else None
    if prefix is None or not any(dist_info_folders(prefix)):
        raise SettingsError(
            "no environment is active, and PATH does not have the python3 of one",
            hint="name one: `wheelfix doctor .venv`",
        )
    return prefix
