"""Help texts: options and commands in groups, and examples.

`--help` of a command with many options describes those that nine of ten users need, and names the
others; `--help-all` describes all.
"""

from collections.abc import Iterable, Iterator
from textwrap import wrap
from typing import Annotated, cast

import typer
from typer._click.core import Command, Context, Parameter
from typer._click.formatting import HelpFormatter
from typer.core import TyperArgument, TyperCommand, TyperGroup, TyperOption

from wheelfix.cli.help_content import examples_of, most_used_options, question_of
from wheelfix.grouping import grouped
from wheelfix.settings import SETTING_FIELDS, Group

_Row = tuple[str, str]
ARGUMENTS, MOST_USED = "Arguments", "Most used"
_ALONE = {f"--{field.key}": field for field in SETTING_FIELDS if field.setting.alone}
"""The flags that may stand alone, without one of their values."""
_SHOWS_ALL = f"{__name__}.shows_all"
"""The key in the meta data of a context whose help describes every option."""


def _show_all(context: typer.Context, wanted: bool) -> None:
    if wanted and not context.resilient_parsing:
        context.meta[_SHOWS_ALL] = True
        typer.echo(context.get_help())
        raise typer.Exit


HelpAll = Annotated[
    bool,
    typer.Option(
        "--help-all",
        callback=_show_all,
        is_eager=True,
        expose_value=False,
        help="Show every option with its default, and exit.",
    ),
]


class _WithExamples(Command):
    """A command whose help begins with the question that it answers, and ends with examples."""

    def format_help_text(self, ctx: Context, formatter: HelpFormatter) -> None:
        """Write the question, and the text of the command."""
        if question := question_of(ctx.info_name or ""):
            formatter.write_paragraph()
            with formatter.indentation():
                formatter.write_text(question)
        super().format_help_text(ctx, formatter)

    def format_epilog(self, ctx: Context, formatter: HelpFormatter) -> None:
        """Write the examples, and what the epilog says."""
        _write_examples(ctx.info_name or "", formatter)
        super().format_epilog(ctx, formatter)


class GroupedCommand(_WithExamples, TyperCommand):
    """A command whose help lists its options in groups, and ends with examples.

    The groups are sections of plain text: the panels of rich leave 18 of 80 columns to the texts.
    """

    def parse_args(self, ctx: Context, args: list[str]) -> list[str]:
        """Parse `args`, in which a flag that stands alone gets its value for that.

        click would take any next word for its value: a wheel, in `repair --strip dist/*.whl`.
        """
        end = args.index("--") if "--" in args else len(args)
        given = [
            f"{arg}={_ALONE[arg].setting.alone}"
            if arg in _ALONE and after not in set(_ALONE[arg].type)
            else arg
            for arg, after in zip(args[:end], [*args[1:end], ""], strict=False)
        ]
        return super().parse_args(ctx, [*given, *args[end:]])

    def format_options(self, ctx: Context, formatter: HelpFormatter) -> None:
        """Write a section for each group of options, or the names of those that few need."""
        sections = dict(option_sections(self.get_params(ctx), ctx))
        if ctx.meta.get(_SHOWS_ALL) or not sections[MOST_USED]:
            _write_sections(sections.items(), formatter)
            return
        described = [(title, sections.pop(title)) for title in (ARGUMENTS, MOST_USED)]
        _write_sections(described, formatter)
        with formatter.section("Further options, which --help-all describes"):
            for title, rows in sections.items():
                if rows:
                    _write_names(title, map(_long_flag, (flags for flags, _ in rows)), formatter)


class GroupedProgram(_WithExamples, TyperGroup):
    """A program whose help lists its commands in groups, and ends with examples."""

    def format_options(self, ctx: Context, formatter: HelpFormatter) -> None:
        """Write a section for each group of commands, and one for the options."""
        commands = [
            command
            for name in self.list_commands(ctx)
            if (command := self.get_command(ctx, name)) is not None
        ]
        widest = max(len(command.name or "") for command in commands)
        panels = grouped(commands, lambda command: cast("TyperCommand", command).rich_help_panel)
        for panel, listed in panels.items():
            rows = [(f"{command.name:{widest}}", command.help or "") for command in listed]
            _write_section(str(panel), rows, formatter)
        _write_sections(option_sections(self.get_params(ctx), ctx), formatter)


def _long_flag(flags: str) -> str:
    """Return the flag of an option by its long name, without its value and the flag for false."""
    return next(word for word in flags.replace(",", " ").split() if word.startswith("--"))


def _write_names(title: str, names: Iterable[str], formatter: HelpFormatter) -> None:
    """Write one paragraph; click's own would break the names at their hyphens."""
    indent = " " * formatter.current_indent
    text = f"{title}: {', '.join(names)}"
    lines = wrap(
        text,
        formatter.width,
        initial_indent=indent,
        subsequent_indent=f"{indent}  ",
        break_on_hyphens=False,
    )
    formatter.write("".join(f"{line}\n" for line in lines))


def _write_sections(
    sections: Iterable[tuple[str, Iterable[_Row]]], formatter: HelpFormatter
) -> None:
    for title, rows in sections:
        _write_section(title, rows, formatter)


def option_sections(params: Iterable[Parameter], ctx: Context) -> Iterator[tuple[str, list[_Row]]]:
    """Yield the arguments, the options that most users need, and the others by `Group`."""
    shown = [(param, row) for param in params if (row := param.get_help_record(ctx)) is not None]
    yield ARGUMENTS, [row for param, row in shown if isinstance(param, TyperArgument)]
    options = [(param, row) for param, row in shown if not isinstance(param, TyperArgument)]
    flags = most_used_options(ctx.info_name or "")
    yield (
        MOST_USED,
        [row for flag in flags for param, row in options if flag in param.opts],
    )
    others = [(param, row) for param, row in options if not set(flags) & set(param.opts)]
    for group in Group:
        yield group, [row for param, row in others if _group_of(param) == group]


def _group_of(param: Parameter) -> str:
    """Return the group of an option; click's own, such as `--help`, have none."""
    panel = param.rich_help_panel if isinstance(param, TyperOption) else None
    return panel or Group.GENERAL


def _write_section(title: str, rows: Iterable[_Row], formatter: HelpFormatter) -> None:
    listed = list(rows)
    if listed:
        with formatter.section(title):
            formatter.write_dl(listed)


def _write_examples(name: str, formatter: HelpFormatter) -> None:
    if examples := examples_of(name):
        with formatter.section("Examples"):
            for line in _lines(examples, formatter.width - formatter.current_indent):
                formatter.write(f"{'':{formatter.current_indent}}{line}\n")


def _lines(examples: Iterable[_Row], width: int) -> Iterator[str]:
    """Yield the command lines, each with its purpose as a comment: before it if one is too long."""
    listed = list(examples)
    widest = max(len(command) for command, _ in listed)
    is_beside = all(widest + len(purpose) + 4 <= width for _, purpose in listed)
    for command, purpose in listed:
        if is_beside:
            yield f"{command:{widest}}  # {purpose}"
        else:
            yield from (f"# {purpose}", command)
