"""Help texts: options and commands in groups, and examples."""

from collections.abc import Iterable, Iterator
from typing import cast

from typer._click.core import Command, Context, Parameter
from typer._click.formatting import HelpFormatter
from typer.core import TyperArgument, TyperCommand, TyperGroup, TyperOption

from wheelfix.cli.examples import examples_of, most_used_options
from wheelfix.grouping import grouped
from wheelfix.settings import SETTING_FIELDS, Group

_Row = tuple[str, str]
_ALONE = {f"--{field.key}": field for field in SETTING_FIELDS if field.setting.alone}
"""The flags that may stand alone, without one of their values."""


class _WithExamples(Command):
    """A command whose help ends with examples."""

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
        """Write a section for each group of options."""
        _write_options(self.get_params(ctx), ctx, formatter)


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
        for panel, some in panels.items():
            rows = [(f"{command.name:{widest}}", command.help or "") for command in some]
            _write_section(str(panel), rows, formatter)
        _write_options(self.get_params(ctx), ctx, formatter)


def _write_options(params: Iterable[Parameter], ctx: Context, formatter: HelpFormatter) -> None:
    for title, rows in option_sections(params, ctx):
        _write_section(title, rows, formatter)


def option_sections(params: Iterable[Parameter], ctx: Context) -> Iterator[tuple[str, list[_Row]]]:
    """Yield the arguments, the options that most users need, and the others by `Group`."""
    shown = [(param, row) for param in params if (row := param.get_help_record(ctx)) is not None]
    yield "Arguments", [row for param, row in shown if isinstance(param, TyperArgument)]
    options = [(param, row) for param, row in shown if not isinstance(param, TyperArgument)]
    flags = most_used_options(ctx.info_name or "")
    yield (
        "Most used",
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
    found = list(rows)
    if found:
        with formatter.section(title):
            formatter.write_dl(found)


def _write_examples(name: str, formatter: HelpFormatter) -> None:
    if examples := examples_of(name):
        with formatter.section("Examples"):
            for line in _lines(examples, formatter.width - formatter.current_indent):
                formatter.write(f"{'':{formatter.current_indent}}{line}\n")


def _lines(examples: Iterable[_Row], width: int) -> Iterator[str]:
    """Yield the command lines, each with its purpose as a comment: before it if one is too long."""
    found = list(examples)
    widest = max(len(command) for command, _ in found)
    is_beside = all(widest + len(purpose) + 4 <= width for _, purpose in found)
    for command, purpose in found:
        if is_beside:
            yield f"{command:{widest}}  # {purpose}"
        else:
            yield from (f"# {purpose}", command)
