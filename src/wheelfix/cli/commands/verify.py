"""`wheelfix verify`: wheels installed into fresh environments, and everything in them loaded."""

import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import product, starmap
from pathlib import Path

import typer
from packaging.utils import canonicalize_name

from wheelfix.cli import options
from wheelfix.cli.config.configuration import Configuration
from wheelfix.cli.console import Terminal
from wheelfix.cli.installation_options import read_wheel
from wheelfix.cli.options import Call, TextOrJson
from wheelfix.cli.wheel_paths import Wheels, expand
from wheelfix.cli.wheel_time_limit import time_limit
from wheelfix.errors import ExitCode, SettingsError, ToolError, WheelfixError
from wheelfix.frozen import frozen
from wheelfix.grouping import values_by_key
from wheelfix.host import verify as verifying
from wheelfix.host.containers import find_image
from wheelfix.host.fresh_environments import INSTALLER_SCHEMES, fits_machine
from wheelfix.host.machine_files import refuse_tmpdir_of_others
from wheelfix.host.neighbors import providers_of
from wheelfix.host.pythons import Interpreter
from wheelfix.host.pythons import all_pythons as every_python
from wheelfix.host.verify_values import CheckStatus, Options, Verified, VerifyResult
from wheelfix.loader.install_schemes import interpreters, scheme_names
from wheelfix.pipelines.repair_refusals import refuse_other_system
from wheelfix.providers.provider_uses import wheels_of
from wheelfix.providers.requirements_between_wheels import Part, applicable_requirements
from wheelfix.reports import verify as reports
from wheelfix.reports.printable import error_value, json_text, printable
from wheelfix.reports.run_totals import WheelResult, run_totals
from wheelfix.settings import Group, Option
from wheelfix.text import FEW, join_some
from wheelfix.wheel.model import Wheel
from wheelfix.wheel.platform_tags import may_coexist
from wheelfix.wheel.requirements import allowed_versions, is_for_extra, name_of, parsed

_DEFAULTS = Options()


@frozen
class _Options:
    """The options that are not settings."""

    python: list[str] = Option(
        "Verify for this Python, a path or the version of an installed one, by default the one "
        "that runs wheelfix; repeatable.",
        group=Group.MACHINES,
        metavar="PYTHON",
    ).default([])
    all_pythons: bool = Option(
        "Verify for every installed Python that the tags allow.", group=Group.MACHINES
    ).default(False)
    image: str | None = Option(
        "Verify in this image of a container, by podman or docker: a machine that has nothing else "
        "than the image.",
        group=Group.MACHINES,
        metavar="IMAGE",
    ).default(None)
    scheme: str = Option(
        f"Install schemes, comma-separated: {', '.join(scheme_names())}; or all. The "
        f"suffix -pip or -uv chooses the installer of {', '.join(INSTALLER_SCHEMES)}.",
        group=Group.MACHINES,
        metavar="NAMES",
    ).default(",".join(_DEFAULTS.schemes))
    timeout: float = Option(
        "Maximum seconds of each attempt.",
        group=Group.RUN,
        metavar="SECONDS",
        least=0.1,
        most=1e7,
    ).default(_DEFAULTS.timeout)
    jobs: int = Option(
        "Number of parallel attempts.", group=Group.RUN, short="-j", least=1
    ).default(_DEFAULTS.jobs)
    strict: bool = Option("Also fail on exceptions and exit codes.", group=Group.FAILURE).default(
        False
    )
    allow_untried: bool = Option(
        "Do not fail where a requirement is not installed, or no module was imported: each "
        "raised, or lacks a library of the machine.",
        group=Group.FAILURE,
    ).default(False)
    output_format: TextOrJson = options.OUTPUT_FORMAT.default(TextOrJson.TEXT)


@options.with_options
def verify(call: Call, paths: Wheels, request: _Options) -> None:
    """Install wheels into fresh environments, and load them.

    Every shared object is loaded, every extension module imported, every function of a console
    script looked up, every program run, each in a process of its own. Wheels of providers are
    installed too, if their files are known. This executes the content of the wheels. verify itself
    writes nothing but temporary environments, and the wheels that it fetches to the cache.
    """
    refuse_tmpdir_of_others()
    terminal, strict = call.terminal, request.strict
    if request.image is not None and request.all_pythons:
        raise SettingsError(
            "--all-pythons is about this machine, --image about another one",
            hint="name each Python of the image with --python, by default python3",
        )
    chosen = [p.path for p in every_python(os.environ)] if request.all_pythons else request.python
    wanted = Options(
        pythons=tuple(chosen),
        schemes=tuple(name.strip() for name in request.scheme.split(",")),
        timeout=request.timeout,
        jobs=request.jobs,
    )
    configuration = call.read_configuration()
    wheels = expand(paths, terminal)
    if request.image is not None:
        has_network = configuration.settings.deps
        wanted = replace(wanted, image=find_image(request.image, wheels, has_network=has_network))
    run = _Run(call, request, wheels, wanted, configuration)
    for wheel in wheels:
        terminal.show_progress(f"verifying {printable(wheel.name)}")
        try:
            run.add(wheel)
        except WheelfixError as error:
            if len(wheels) == 1:
                raise
            if isinstance(error, verifying.OtherPythonError):
                terminal.say(f"passed over: {error.message}")
                continue
            terminal.fail(error)
            run.ended.append(WheelResult(wheel.name, VerifyResult.FAILED, error.message))
            run.errors.append(error_value(error) | {"wheel": wheel.name})
    statuses = {check.status for result in run.results for check in result.checks}
    if CheckStatus.MISSING in statuses and os.environ.get("LD_LIBRARY_PATH") and not wanted.image:
        terminal.say("LD_LIBRARY_PATH is not used: a wheel has to find its libraries without it")
    if request.output_format is TextOrJson.JSON:
        report = {**reports.as_json(run.results, strict=strict), "errors": run.errors}
        terminal.result(json_text(report, indent=1))
    terminal.say(run_totals(run.ended, list(VerifyResult)))
    raise typer.Exit(run.exit_code)


@dataclass(slots=True)
class _Run:
    """The verification of all wheels. Mutable."""

    call: Call
    request: _Options
    wheels: Sequence[Path]
    wanted: Options
    configuration: Configuration
    results: list[Verified] = field(default_factory=list[Verified])
    ended: list[WheelResult] = field(default_factory=list[WheelResult])
    errors: list[dict[str, object]] = field(default_factory=list[dict[str, object]])

    @property
    def exit_code(self) -> ExitCode:
        """It is an error if no wheel was verified."""
        if self.errors or not self.ended:
            return ExitCode.ERROR
        return ExitCode.FINDINGS if any(map(self._is_bad, self.results)) else ExitCode.OK

    def add(self, wheel: Path) -> None:
        """Verify a wheel, and report it. Raises `WheelfixError`."""
        request, terminal = self.request, self.call.terminal
        strict, allow_untried = request.strict, request.allow_untried
        before, told = len(self.results), tuple[object, ...]()
        for result in _verify(wheel, self.wheels, self.wanted, self.configuration, terminal):
            self.results.append(result)
            is_shown = self._is_bad(result) or not self.call.quiet
            if request.output_format is TextOrJson.TEXT and is_shown:
                style = terminal.result_style
                shown = replace(result, not_met=()) if result.not_met == told else result
                text = reports.text(shown, strict=strict, allow_untried=allow_untried, style=style)
                told = result.not_met
                terminal.report(text)
        if of_wheel := self.results[before:]:
            self.ended.append(reports.run_result(of_wheel, strict=strict))

    def _is_bad(self, result: Verified) -> bool:
        outcome = result.result(strict=self.request.strict)
        is_mild = outcome is not VerifyResult.FAILED and self.request.allow_untried
        return outcome is not VerifyResult.OK and not is_mild


def _verify(
    wheel: Path,
    wheels: Sequence[Path],
    wanted: Options,
    configuration: Configuration,
    terminal: Terminal,
) -> Iterator[Verified]:
    """Yield the results of `wheel` in each environment.

    Its providers are beside it, and those of `wheels` that it requires.
    """
    settings = configuration.settings_for(wheel.name)
    # The installer resolves what is required anew, for each Python; the site is linked as a whole.
    without = replace(settings, deps=False, site=None)
    site = None if settings.site is None else Path(settings.site)
    asked = replace(wanted, site=site, dependencies=settings.deps, exclude=settings.exclude)
    with time_limit(settings.timeout, wheel.name):  # of what is read: attempts have their own
        subject = read_wheel(wheel)
        refuse_other_system(subject)
        providers = providers_of(without, subject, os.environ)
        for provider in providers:
            if provider.unknown:  # what is to be tried is not there
                raise ToolError(provider.unknown_text, hint=provider.build_advice)
        beside = [*map(Path, wheels_of(providers))]
        for provider in providers:
            texts = subject.metadata.requires_dist
            required = [text for text in texts if name_of(text) == provider.name]
            if provider.version and required and not allowed_versions([provider.version], required):
                ask = f"METADATA requires {join_some(required)}"
                terminal.say(f"{provider.release} is not installed with it: {ask}")
            others = [each.version for each in provider.available if each.wheel != provider.wheel]
            is_used = required or any(map(provider.folder_with, subject.needed))
            if others and is_used and Path(provider.wheel) in beside:
                tried = f"tried with {provider.release}, not with {join_some(others)}"
                terminal.say(f"{tried}: that is tried where its wheel alone is given")
        pythons = verifying.usable_pythons(subject, wanted, os.environ)
        of_python = {each.path: [*_required(subject, wheels, asked, each)] for each in pythons}
    for scheme, installer in verifying.schemes_without_installer(subject, wanted, os.environ):
        where = "in an image, pip installs" if wanted.image else f"`pip install {installer}`"
        terminal.say(f"the scheme {scheme} is not tried: {installer} was not found: {where}")
    needed = applicable_requirements(Part(subject.name, subject.metadata.requires_dist))
    if settings.deps and needed:
        names = join_some([each.name for each in needed], FEW)
        terminal.show_progress(f"verifying {printable(wheel.name)}, installed with {names}")
    for path, chosen in of_python.items():
        one = replace(asked, pythons=(path,), beside=tuple(dict.fromkeys(beside + chosen)))
        yield from verifying.verify(options.current_folder() / wheel, one, os.environ)


def _required(
    subject: Wheel, wheels: Sequence[Path], asked: Options, python: Interpreter
) -> Iterator[Path]:
    """Yield the newest of `wheels` that a wheel requires for a Python, also through them.

    Not what an installer gets by its URL: it would refuse another source.
    """
    by_name = values_by_key((canonicalize_name(p.name.partition("-")[0]), p) for p in wheels)
    own, waiting = subject.name.platforms, [subject]
    seen: set[str] = {canonicalize_name(subject.name.distribution)}
    while waiting:
        every = parsed(verifying.part_for(waiting.pop(), python).requires_dist)
        lines = values_by_key((canonicalize_name(line.name), line) for line in every)
        for name, required in lines.items():
            others = dict[str, tuple[Path, Wheel]]()
            is_fetched = asked.dependencies and any(line.url for line in required)
            for path in () if name in seen or is_fetched else by_name.get(name, ()):
                other = read_wheel(path)
                coexist = starmap(may_coexist, product(other.name.platforms, own))
                fits = asked.image or fits_machine(other.name)
                if fits and any(coexist) and python.name in interpreters(other.name):
                    others[other.name.version] = path, other
            sure = [line for line in required if not is_for_extra(line)] or required
            bounds = ",".join(str(line.specifier) for line in sure if line.specifier)
            newest = allowed_versions(others, [name + bounds]) or allowed_versions(others, [name])
            for path, other in map(others.__getitem__, newest[-1:]):
                yield options.current_folder() / path
                waiting.append(other)
            seen.add(name)
