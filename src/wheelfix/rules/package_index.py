"""Whether the package index takes the wheel: its zip, its file name, its METADATA."""

import posixpath
from collections.abc import Iterator

from packaging.utils import InvalidWheelFilename, parse_wheel_filename

from wheelfix.rules.auditwheel_verdict import is_left_to_repair
from wheelfix.rules.context import Context
from wheelfix.rules.findings import Fix, Hit, Severity
from wheelfix.rules.index_metadata import (
    refused_fields,
    unjudged_fields,
    unrendered_description,
)
from wheelfix.rules.metadata import invalid_fields
from wheelfix.rules.pypi_checks import RATIO, IndexAnswer, takes_platform
from wheelfix.rules.rule import rule
from wheelfix.settings import Index, Settings
from wheelfix.text import count, in_units
from wheelfix.wheel.edits import WriteZip
from wheelfix.wheel.model import ZipFeature
from wheelfix.wheel.requirements import name_in_file_names

_RATIO_FROM = 64 * 2**20


@rule("WF520", "zip-refused", Severity.WARNING)
def zip_refused(context: Context) -> Iterator[Hit]:
    """PyPI or uv refuses the zip file.

    ## What it does
    Reports features of the zip format that PyPI refuses since August 2025, though pip reads them:
    data descriptors, comments of members, a folder that is listed twice, malformed extra fields. It
    is an error with `index = "pypi"`, and where uv does not install the wheel: Zip64 sizes that are
    wrong, or beside plain ones, members that are compressed as BZIP2 or LZMA. What readers would
    see differently is refused in any case.

    ## Why is this bad?
    The upload fails: `400 Invalid distribution file. ZIP archive not accepted`, often after other
    files of the release are published. Or users of uv cannot install the wheel.

    ## Example
    A wheel that was zipped into a pipe: the sizes of its members stand behind their data.

    ## Common causes
    - A zip was written to a stream, which cannot go back to write sizes: Go's and Java's libraries,
      `zip -`, Bazel. **Solution**: `wheelfix repair`, or `wheel unpack` and `wheel pack`.
    - A tool that marks members with comments. **Solution**: as above.

    ## Fix safety
    Safe: the zip is written anew; the members keep their compressed bytes. BZIP2 and LZMA become
    deflate.
    """
    wheel = context.wheel
    for oddity in wheel.zip_oddities:
        severity, notes = _answers(oddity.feature, context.settings)
        more = f", and {count(oddity.entries - 1, 'other')}" if oddity.entries > 1 else ""
        yield Hit(
            message=f"`{oddity.entry}`{more}: the zip has {oddity.feature}",
            member=oddity.entry,
            entry=oddity.feature.name,
            severity=severity,
            notes=notes,
            hint="`wheelfix repair` writes the zip anew",
            fix=Fix(title="write the zip anew", edits=(WriteZip(),)),
        )


def _answers(feature: ZipFeature, settings: Settings) -> tuple[Severity, tuple[str, ...]]:
    """Return what the index and uv do with a wheel that has `feature`."""
    index = IndexAnswer.__members__.get(feature.name)
    notes = () if index is None else (index.note(),)
    if index is None or feature in _REFUSED_BY_UV:
        return Severity.ERROR, ("uv does not install it", *notes)
    return index.severity(settings), notes


_REFUSED_BY_UV = frozenset({ZipFeature.EXTRA_SIZE, ZipFeature.SPARE_ZIP64})
"""As of uv 0.13.9: "zip64 extended information field was too long"."""


@rule("WF521", "compression-refused", Severity.ERROR)
def compression_refused(context: Context) -> Iterator[Hit]:
    """PyPI takes the wheel for a decompression bomb.

    ## What it does
    With `index = "pypi"`, reports wheels that inflate to more than 64 MiB and to more than 50 times
    the size of the file.

    ## Why is this bad?
    The upload fails: `400 Invalid distribution file. File exceeds compression ratio of 50`.

    ## Example
    2 MB that inflate to 130 MB.

    ## Common causes
    - Large files of the same text: generated JSON, interface descriptions, zeros. **Solution**:
      generate them on demand, or ship them compressed.

    ## Fix safety
    Not fixed: the contents decide.
    """
    wheel = context.wheel
    total = sum(member.size for member in wheel.members)
    if context.settings.index is not Index.PYPI or total <= _RATIO_FROM:
        return
    if wheel.zip_size and total / wheel.zip_size > RATIO:
        largest = max(wheel.members, key=lambda member: member.size)
        factor = count(round(total / wheel.zip_size), "time")
        yield Hit(
            message=f"{in_units(wheel.zip_size)} inflate to {in_units(total)}, {factor} as much",
            notes=(IndexAnswer.RATIO.note(), f"`{largest.name}`: {in_units(largest.size)}"),
            hint="leave out, or ship compressed, what compresses that well",
        )


@rule("WF522", "file-name-refused", Severity.ERROR)
def file_name_refused(context: Context) -> Iterator[Hit]:
    """PyPI refuses the name of the wheel file.

    ## What it does
    With `index = "pypi"`, reads the file name as the index does (`packaging`), and reports a name
    that is not the normalized name of the project (PEP 503, with `_` for `-`), platform tags that
    the index does not take, and a `.dist-info` folder that the file name does not spell. Tags that
    `repair` replaces are left to WF804.

    ## Why is this bad?
    The upload fails with `400`. The label of a variant wheel (PEP 825) is refused, too, as long as
    that standard is a draft.

    ## Example
    `Demo.Tools-1.0-py3-none-any.whl` instead of `demo_tools-1.0-py3-none-any.whl`;
    `demo-1.0-cp312-cp312-manylinux_2_38_loongarch64.whl`.

    ## Common causes
    - A build backend from before 2025, which does not normalize names. **Solution**: upgrade it.
    - An architecture that PyPI does not take yet. **Solution**: publish the wheel elsewhere.

    ## Fix safety
    Not fixed: the build backend chooses the name.
    """
    if context.settings.index is not Index.PYPI:
        return
    wheel = context.wheel
    filename, distribution = str(wheel.name), wheel.name.distribution
    try:
        parse_wheel_filename(filename)
    except InvalidWheelFilename as error:
        hint = "publish it where variant wheels are taken" if wheel.name.variant else _REBUILD
        reason = str(error).partition("\n")[0]
        answer = IndexAnswer.FILE_NAME.note(reason)
        yield _refused_name(f"the file name is not valid: {reason}", "", answer, hint)
    for tag in wheel.name.platforms:
        if not takes_platform(tag) and not is_left_to_repair(context, tag):
            answer = IndexAnswer.PLATFORM.note(f"'{filename}'", f"'{tag}'")
            hint = "publish it elsewhere, or build it for another platform"
            yield _refused_name(f"PyPI takes no platform tag `{tag}`", tag, answer, hint)
    normalized = name_in_file_names(wheel.metadata.name or distribution)
    if distribution != normalized == name_in_file_names(distribution):
        message = f"the file name has `{distribution}`, which is not the normalized name"
        answer = IndexAnswer.PROJECT_NAME.note(
            f"'{filename}'", f"'{normalized}'", f"'{distribution}'"
        )
        hint = "upgrade the build backend, and build the wheel again"
        yield _refused_name(f"{message} `{normalized}`", normalized, answer, hint)
    dist_info = f"{distribution}-{wheel.name.version}.dist-info"
    if wheel.dist_info != dist_info:
        message = f"the folder `{wheel.dist_info}` is not spelled as the file name spells it"
        answer = IndexAnswer.DIST_INFO.note(posixpath.join(dist_info, "WHEEL"))
        yield _refused_name(f"{message}, `{dist_info}`", wheel.dist_info, answer, _REBUILD)


def _refused_name(message: str, entry: str, answer: str, hint: str) -> Hit:
    return Hit(message=message, entry=entry, notes=(answer,), hint=hint)


_REBUILD = "give the wheel the name that it was built with, or build it again"


@rule("WF523", "metadata-refused", Severity.ERROR)
def metadata_refused(context: Context) -> Iterator[Hit]:
    """PyPI refuses a field of METADATA.

    ## What it does
    Reports a description in reStructuredText that does not render, if `readme-renderer` is
    installed, as twine does: a warning without `index`, since other indexes take it.

    With `index = "pypi"`, validates METADATA as the index does: by `packaging.metadata`, and by
    rules of its own for local versions, the length of the summary, URLs and their labels, e-mail
    addresses, classifiers, dynamic fields, two licenses, and the rendering of a description in
    reStructuredText. Classifiers and the description are judged with the extra `index`, which
    brings `trove-classifiers` and `readme-renderer`; a note says where it is not installed, or the
    description is too long to render. What any installer refuses is left to WF506.

    ## Why is this bad?
    The upload fails with `400`.

    ## Example
    `Version: 1.0+cu121`; `Classifier: Programming Language :: Python :: 3.99`; `Project-URL:
    Documentation, www.example.org`, which has no `https:`.

    ## Common causes
    - A version from git with a local part, between two tags. **Solution**: publish from the tag.
    - Fields that the build backend copies without validation. **Solution**: correct them in
      `pyproject.toml`.

    ## Fix safety
    Not fixed: only the project knows the intended value.
    """
    wheel = context.wheel
    is_for_pypi = context.settings.index is Index.PYPI
    if not wheel.metadata.fields:
        return
    is_variant = wheel.name.variant is not None
    if wheel.metadata.problem or any(invalid_fields(wheel.metadata, is_variant=is_variant)):
        return
    where = {"Description": "the file that `readme` in `pyproject.toml` names"}
    judge = refused_fields if is_for_pypi else unrendered_description
    for field, message, answer, values in judge(wheel.metadata):
        yield Hit(
            message=message,
            member=wheel.dist_info.metadata,
            entry=field,
            notes=(answer.note(*values),),
            hint=f"correct {where.get(field, 'it in `pyproject.toml`')}, and build the wheel again",
            severity=None if is_for_pypi else Severity.WARNING,
        )
    for field, reason, way in unjudged_fields(wheel.metadata) if is_for_pypi else ():
        yield Hit(
            message=f"`{field}` is not judged: {reason}",
            member=wheel.dist_info.metadata,
            entry=field,
            hint=way,
            severity=Severity.NOTE,
        )
