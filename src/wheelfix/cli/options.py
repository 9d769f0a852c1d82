"""Every option of the command line, once; help, default and environment come from `Settings`.

An option that was not given is None, so that the file's value holds.
"""

import ast
import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import MISSING, fields
from pathlib import Path
from typing import Annotated, Any, cast

import typer

from wheelfix import settings as settings_module
from wheelfix.cli.config.files import Configuration, Layer, configured
from wheelfix.reports.formats import Format
from wheelfix.rules.rule import AnyRule
from wheelfix.settings import (
    DataLibraries,
    FailOn,
    ProviderBy,
    PruneNeeded,
    SacrificialEntry,
    SearchPathTag,
    Settings,
    Share,
    ZipCodec,
)


def _docs() -> dict[str, str]:
    """Return the docstrings under the fields of `Settings`; none where the source is not there."""
    try:
        source = Path(settings_module.__file__).read_text(encoding="utf-8")
    except OSError:
        return {}
    found: dict[str, str] = {}
    for node in ast.parse(source).body:
        if isinstance(node, ast.ClassDef) and node.name == Settings.__name__:
            for field, doc in zip(node.body, node.body[1:], strict=False):
                match field, doc:
                    case (
                        ast.AnnAssign(target=ast.Name(id=name)),
                        ast.Expr(value=ast.Constant(value=str() as text)),
                    ):
                        found[name] = text
                    case _:
                        pass
    return found


DOCS = _docs()
_DEFAULTS: dict[str, object] = {
    f.name: f.default for f in fields(Settings) if f.default is not MISSING
}


def _option(
    field: str,
    *flags: str,
    metavar: str | None = None,
    also: str | None = None,
    least: int | None = None,
) -> Any:  # noqa: ANN401 - as typer.Option
    """Declare the option for `field`; `also` is auditwheel's environment variable for it."""
    default = _DEFAULTS.get(field)
    is_shown = isinstance(default, str | Path) or field == "jobs"
    return typer.Option(
        *flags,
        help=DOCS.get(field),
        metavar=metavar,
        envvar=[f"WHEELFIX_{field.upper()}", *([also] if also else [])],
        show_default=str(default) if is_shown else False,
        min=least,
        max=9 if field == "zip_level" else None,
    )


WheelDir = Annotated[Path | None, _option("wheel_dir", "-w", "--wheel-dir", metavar="DIR")]
Plat = Annotated[str | None, _option("plat", "--plat", also="AUDITWHEEL_PLAT", metavar="TAG")]
LibSdir = Annotated[str | None, _option("lib_sdir", "-L", "--lib-sdir", metavar="SUFFIX")]
Exclude = Annotated[list[str] | None, _option("exclude", "--exclude", metavar="GLOB")]
OnlyPlat = Annotated[bool | None, _option("only_plat", "--only-plat/--no-only-plat")]
UpdateTags = Annotated[bool | None, _option("update_tags", "--update-tags/--no-update-tags")]
Strip = Annotated[bool | None, _option("strip", "--strip/--no-strip")]
ZipLevel = Annotated[
    int | None,
    _option(
        "zip_level",
        "-z",
        "--zip-compression-level",
        also="AUDITWHEEL_ZIP_COMPRESSION_LEVEL",
        least=-1,
    ),
]
ZipCodecChoice = Annotated[ZipCodec | None, _option("zip_codec", "--zip-codec")]
Ldpaths = Annotated[str | None, _option("ldpaths", "--ldpaths", metavar="DIRS")]
IsaExtCheck = Annotated[
    bool | None, _option("isa_ext_check", "--isa-ext-check/--disable-isa-ext-check")
]
AllowPure = Annotated[
    bool | None,
    _option("allow_pure_python_wheel", "--allow-pure-python-wheel/--no-allow-pure-python-wheel"),
]
Select = Annotated[list[str] | None, _option("select", "--select", metavar="RULES")]
ExtendSelect = Annotated[
    list[str] | None, _option("extend_select", "--extend-select", metavar="RULES")
]
Ignore = Annotated[list[str] | None, _option("ignore", "--ignore", metavar="RULES")]
PerFileIgnores = Annotated[
    list[str] | None,
    _option("per_file_ignores", "--per-file-ignores", metavar="GLOB:RULES"),
]
SeverityOf = Annotated[
    list[str] | None, _option("severity", "--severity", metavar="RULES=SEVERITY")
]
FailOnChoice = Annotated[FailOn | None, _option("fail_on", "--fail-on")]
BaselineFile = Annotated[str | None, _option("baseline", "--baseline", metavar="FILE")]
UnsafeFixes = Annotated[bool | None, _option("unsafe_fixes", "--unsafe-fixes/--no-unsafe-fixes")]
DataLibrariesChoice = Annotated[DataLibraries | None, _option("data_libraries", "--data-libraries")]
SearchPathTagChoice = Annotated[
    SearchPathTag | None, _option("search_path_tag", "--search-path-tag")
]
SacrificialEntryChoice = Annotated[
    SacrificialEntry | None, _option("sacrificial_entry", "--sacrificial-entry")
]
KeepEntries = Annotated[list[str] | None, _option("keep_entries", "--keep-entry", metavar="GLOB")]
ProviderOf = Annotated[
    list[str] | None, _option("provider", "--provider", metavar="WHEEL|NAME|DIR")
]
ShareChoice = Annotated[Share | None, _option("share", "--share")]
ProviderByChoice = Annotated[ProviderBy | None, _option("provider_by", "--provider-by")]
AddRequires = Annotated[bool | None, _option("add_requires", "--add-requires/--no-add-requires")]
Require = Annotated[
    list[str] | None, _option("require", "--require", metavar="LIBRARY[=SYMBOL,...]")
]
KeepNames = Annotated[list[str] | None, _option("keep_names", "--keep-name", metavar="GLOB")]
PruneNeededChoice = Annotated[PruneNeeded | None, _option("prune_needed", "--prune-needed")]
KeepNeeded = Annotated[list[str] | None, _option("keep_needed", "--keep-needed", metavar="GLOB")]
DropNeeded = Annotated[list[str] | None, _option("drop_needed", "--drop-needed", metavar="GLOB")]
LibraryPath = Annotated[list[str] | None, _option("library_path", "--library-path", metavar="PATH")]
MaxSize = Annotated[str | None, _option("max_size", "--max-size", metavar="SIZE")]
MaxFileSize = Annotated[str | None, _option("max_file_size", "--max-file-size", metavar="SIZE")]
MaxGrowth = Annotated[int | None, _option("max_growth", "--max-growth", metavar="PERCENT", least=0)]
Against = Annotated[list[str] | None, _option("against", "--against", metavar="WHEEL")]
Targets = Annotated[list[str] | None, _option("target", "--target", metavar="MACHINES")]
Verify = Annotated[bool | None, _option("verify", "--verify/--no-verify")]
Verdict = Annotated[bool | None, _option("verdict", "--verdict/--no-verdict")]
Jobs = Annotated[int | None, _option("jobs", "-j", "--jobs", least=1)]
Timeout = Annotated[int | None, _option("timeout", "--timeout", metavar="SECONDS", least=0)]

# --- Options that are no settings of the run ------------------------------------------------------

Wheels = Annotated[
    list[Path], typer.Argument(metavar="WHEEL...", help="The wheels.", show_default=False)
]
WheelsOrList = Annotated[
    list[Path] | None,
    typer.Argument(
        metavar="WHEEL|DIR...",
        help="The wheels; of a directory, all in it and below.",
        show_default=False,
    ),
]
FromFile = Annotated[
    Path | None,
    typer.Option(
        "--from-file",
        metavar="LIST",
        help="Also the wheels and directories that this file names, or stdin if it is `-`: "
        "one a line, or with NUL after each.",
        show_default=False,
    ),
]
Config = Annotated[
    Path | None,
    typer.Option(
        "--config",
        metavar="FILE",
        envvar="WHEELFIX_CONFIG",
        help="Read this file, in place of the nearest wheelfix.toml or pyproject.toml.",
        show_default=False,
    ),
]
Quiet = Annotated[bool, typer.Option("-q", "--quiet", help="Say nothing but errors.")]
OutputFormat = Annotated[
    Format,
    typer.Option(
        "--output-format",
        envvar="WHEELFIX_OUTPUT_FORMAT",
        help="What the report is: for people, for machines, for code hosts.",
    ),
]
OutputFile = Annotated[
    Path | None,
    typer.Option(
        "-o",
        "--output-file",
        metavar="FILE",
        envvar="WHEELFIX_OUTPUT_FILE",
        help="Write the report here, in place of stdout.",
        show_default=False,
    ),
]
MoreReports = Annotated[
    list[str] | None,
    typer.Option(
        "--report",
        metavar="FORMAT=FILE",
        help="Write the same in another format, too; as often as wanted.",
        show_default=False,
    ),
]

_LISTS = ("select", "extend_select", "ignore", "target")
"""The options whose every value may be several, with commas between."""


def configuration_of(
    context: typer.Context,
    given: Mapping[str, object],
    config: Path | None,
    rules: Iterable[AnyRule],
) -> Configuration:
    """Lay what was `given` as environment variable or flag over the configuration file.

    `given` may hold other names too: a command passes its `locals()`. Raises `SettingsError`.
    """
    return configured(Path.cwd(), config).over(layers(context, given)).check(rules)


def layers(context: typer.Context, given: Mapping[str, object]) -> list[Layer]:
    """Return what was `given` as environment variable, and over it what as flag."""
    environment: dict[str, object] = {}
    flags: dict[str, object] = {}
    for field in fields(Settings):
        value = given.get(field.name)
        if value is None or value in ([], ()):
            continue
        source = context.get_parameter_source(field.name)
        by_environment = source is not None and source.name == "ENVIRONMENT"
        table = environment if by_environment else flags
        table[field.name.replace("_", "-")] = _table_value(field.name, value)
    return [
        Layer(source=source, table=table)
        for source, table in (("the environment", environment), ("the command line", flags))
        if table
    ]


def _table_value(name: str, value: object) -> object:
    """Return `value` as it would stand in the file."""
    if isinstance(value, Path):
        return os.fspath(value)
    if name in _LISTS and isinstance(value, list | tuple):
        texts = cast("Sequence[str]", value)
        return [part.strip() for text in texts for part in text.split(",")]
    return value
