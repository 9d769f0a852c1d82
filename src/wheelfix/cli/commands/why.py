"""`wheelfix why`: what needs a library, and why it is or would be grafted."""

import shlex
from pathlib import Path
from typing import Annotated

import typer

from wheelfix.cli import installation_options, options
from wheelfix.cli.config.values import suggestion
from wheelfix.cli.library_uses import Answer, LibraryUses
from wheelfix.cli.options import Call, TextOrJson
from wheelfix.cli.wheel_paths import Wheels, expand
from wheelfix.cli.wheel_time_limit import ask_each
from wheelfix.errors import ExitCode, SettingsError
from wheelfix.frozen import frozen
from wheelfix.grouping import flatten, grouped
from wheelfix.reports import why as reports
from wheelfix.reports.printable import json_text, printable
from wheelfix.system.paths import is_folder
from wheelfix.text import FEW, count, join_some, operand
from wheelfix.wheel.reader import open_wheel
from wheelfix.wheel.required_file import require_file


@frozen
class _Options:
    """The options that are not settings."""

    target: str | None = installation_options.TARGET.default(None)
    output_format: TextOrJson = options.OUTPUT_FORMAT.default(TextOrJson.TEXT)


@options.with_options
def why(
    call: Call,
    paths: Wheels,
    library: Annotated[
        str,
        typer.Argument(
            metavar="LIBRARY",
            help="A SONAME, a file name or a member; without hash and version, too: `liblzma`.",
        ),
    ],
    request: _Options,
) -> None:
    """Say what needs a library, and why it is or would be grafted.

    For a wheel with a `linux` tag, the repair is planned with the libraries of this machine, and
    nothing is written.
    """
    if library.endswith(".whl"):
        given = dict.fromkeys([*map(str, paths), library])
        named = [path for path in given if path.endswith(".whl") or is_folder(Path(path))]
        name = next((path for path in given if path not in named), "libfoo")
        hint = shlex.join(["wheelfix", "why", *map(operand, [*named, name])])
        raise SettingsError("name the library after the wheels", hint=hint)
    configuration, terminal = call.read_configuration(), call.terminal
    words = options.words_for_repair(call, configuration)
    wheels = expand(paths, terminal)

    def ask(path: Path) -> Answer:
        settings = configuration.settings_for(path.name)
        require_file(path)
        with open_wheel(path) as archive:
            uses = LibraryUses(archive, path, request.target, settings, words=words)
            return uses.of(library)

    answers, errors = ask_each(wheels, ask, terminal, configuration.settings.timeout)
    installation_options.say_unknown(flatten(a.providers for a in answers), terminal)
    for note, same in grouped(answers, lambda answer: answer.note).items():
        whose = f"{join_some((a.path.name for a in same), FEW)}: " if len(wheels) > 1 else ""
        terminal.say(f"note: {printable(whose + note)}" if note else "")
    of = {a.path: f"{a.path.name}: " * (len(wheels) > 1) for a in answers}
    opened = [f"{of[answer.path]}{opener}" for answer in answers for opener in answer.openers]
    if opened and not any(answer.uses for answer in answers):
        heads = (f"{library}: no object needs it, and it is not in the wheel", *opened)
        terminal.report("\n  opened by  ".join(map(printable, heads)))
    elif answers and not any(answer.uses for answer in answers):
        names = set(flatten(answer.names for answer in answers))
        asked = f"`{wheels[0].name}`" if len(wheels) == 1 else f"all {count(len(answers), 'wheel')}"
        raise SettingsError(
            f"{asked}: no object needs or is `{library}`", hint=suggestion(library, names)
        )
    uses = [(a.path, a.uses) for a in answers]
    if request.output_format is TextOrJson.JSON:
        terminal.result(json_text({**reports.as_json(uses, words), "errors": errors}))
    else:
        terminal.report(reports.text(uses, words))
    if without := [a.path.name for a in answers if not (a.uses or a.openers)]:
        where = f"in {count(len(without), 'other wheel')}"
        lacking = f"{where}, no object needs or is `{library}`: {join_some(without, FEW)}"
        terminal.say(f"note: {printable(lacking)}")
    raise typer.Exit(ExitCode.ERROR if errors else ExitCode.OK)
