"""Whether RECORD, WHEEL, METADATA and the file name are consistent."""

from collections.abc import Iterable, Iterator
from itertools import islice, product

from packaging.utils import canonicalize_name, canonicalize_version
from packaging.version import Version

from wheelfix.grouping import flatten
from wheelfix.loader.install_schemes import (
    allows_any,
    has_installable_tags,
    interpreters,
    interpreters_of,
)
from wheelfix.rules.context import Context, Stage
from wheelfix.rules.findings import Fix, Hit, Safety, Severity
from wheelfix.rules.pypi_checks import IndexAnswer
from wheelfix.rules.rule import rule
from wheelfix.settings import Index
from wheelfix.system import deferred
from wheelfix.system.lazy_patterns import lazy_pattern
from wheelfix.text import count, first_of, join_some
from wheelfix.wheel.dist_info import has_license_files
from wheelfix.wheel.edits import RemoveMember, Retag, SetRootIsPurelib
from wheelfix.wheel.model import Metadata, Wheel
from wheelfix.wheel.platform_tags import parse_platform_tag, satisfies
from wheelfix.wheel.record import in_base64, signatures
from wheelfix.wheel.requirements import (
    DISTRIBUTION_NAME,
    limit_length,
    name_in_file_names,
    read_requirement,
)
from wheelfix.wheel.variant import variant_problem


@rule("WF501", "record-mismatch", Severity.ERROR)
def record_mismatch(context: Context) -> Iterator[Hit]:
    """RECORD does not match the files of the wheel.

    ## What it does
    Compares every row of RECORD with the file (hash, size, existence), and looks for files without
    a row. RECORD itself and its signatures have no hash (PEP 427). With `index = "pypi"`, it is a
    warning if RECORD does not list itself, or lists its signatures.

    ## Why is this bad?
    PyPI refuses a wheel without RECORD, and warns the owners by mail if the file names in RECORD
    and in the zip differ. Neither PyPI nor pip and uv compare the hashes; installers that do, such
    as `python -m installer --validate-record all`, refuse the wheel. A wrong hash means that the
    file was changed after the wheel was built, by accident or by an attacker: a tool that writes a
    new RECORD would hide the change.

    ## Example
    A release script runs `patchelf` or `strip` on an unpacked wheel, and zips it again.

    ## Common causes
    - The wheel was edited by hand. **Solution**: build it again; or, if you trust the change,
      `unzip` and `wheel pack`, which writes RECORD. (`wheel unpack` stops at the first wrong row.)
    - A tool added a file without a row. **Solution**: as above.

    ## Fix safety
    Never fixed: `repair` stops with exit code 2. With `trust-files`, it corrects RECORD.
    """
    wheel = context.wheel
    record = wheel.dist_info.record
    note = IndexAnswer.NO_RECORD.note(f"'{wheel.name}'", record)
    problems = wheel.record_problems
    if problems:
        lines = [f"`{problem.member}`: {problem.message}" for problem in problems]
        is_one = len(problems) == 1
        by_repair = "" if wheel.is_pure else ", as does `wheelfix repair --trust-files`"
        yield Hit(
            message=f"RECORD disagrees with the file: {problems[0].message}"
            if is_one
            else f"RECORD disagrees with {count(len(problems), 'file')}",
            member=problems[0].member if is_one else record,
            notes=(*(() if is_one else first_of(lines, 10)), *(() if wheel.record else (note,))),
            hint="build the wheel again; if you trust the files, `unzip` it, and `wheel pack` "
            f"writes RECORD{by_repair}",
        )
    if hexadecimal := [row.name for row in wheel.record if in_base64(row.hash) != row.hash]:
        yield Hit(
            message=f"RECORD has the hash of {count(len(hexadecimal), 'file')} in hexadecimal, not "
            "in urlsafe base64 (PEP 427)",
            member=record,
            severity=Severity.WARNING,
            notes=("pip and uv do not compare hashes; installers that do refuse the wheel",),
            hint="upgrade the build backend; a repair that changes the wheel writes them in base64",
        )
    if context.settings.index is Index.PYPI and not context.wheel.record_problems:
        yield from _unlike_the_zip(context)


def _unlike_the_zip(context: Context) -> Iterator[Hit]:
    """Compare the names in RECORD with those of the zip, as PyPI does."""
    wheel = context.wheel
    record = wheel.dist_info.record
    listed = frozenset(row.name.replace("\\", "/") for row in wheel.record)
    present = wheel.member_names.difference(signatures(record))
    if wheel.record and listed != present:
        yield Hit(
            message=f"RECORD has other names than the zip: {join_some(sorted(listed ^ present))}",
            member=record,
            severity=IndexAnswer.RECORD_NAMES.severity(context.settings),
            notes=(IndexAnswer.RECORD_NAMES.note(),),
            hint="upgrade the build backend: RECORD lists itself, without a hash, and no signature",
        )


@rule("WF502", "stale-signature", Severity.NOTE, Stage.BEFORE)
def stale_signature(context: Context) -> Iterator[Hit]:
    """Signature of RECORD becomes invalid by a repair.

    ## What it does
    Reports `RECORD.jws` and `RECORD.p7s`, the signatures of PEP 427.

    ## Why is this bad?
    They sign the bytes of RECORD. A repair changes RECORD, which invalidates the signature; no
    installer checks it.

    ## Example
    `pkg-1.0.dist-info/RECORD.jws`, written by `wheel` before 0.32 with `--sign`.

    ## Common causes
    - An old build tool. **Solution**: sign the file or use attestations (PEP 740) instead.

    ## Fix safety
    Safe: the file is dropped.
    """
    for member in signatures(context.wheel.dist_info.record):
        if member in context.wheel.member_names:
            yield Hit(
                message="signs RECORD, which the repair rewrites",
                member=member,
                hint="sign the repaired wheel, or publish with attestations",
                fix=Fix(title="drop the signature", edits=(RemoveMember(member=member),)),
            )


@rule("WF503", "purelib-with-elf", Severity.WARNING, Stage.BEFORE)
def purelib_with_elf(context: Context) -> Iterator[Hit]:
    """ELF objects in the root of a wheel with `Root-Is-Purelib: true`.

    ## What it does
    Reports wheels with ELF objects in their root and `Root-Is-Purelib: true` in WHEEL. It is a
    warning if the wheel has extension modules or a `*.data/platlib`, otherwise for information.

    ## Why is this bad?
    Where platlib and purelib differ (Fedora's `lib64`), the files go to the directory for pure
    Python, shared by architectures, away from parts of the package in platlib.

    ## Example
    A library listed as package data, in a wheel tagged `py3-none-manylinux_2_17_x86_64`.

    ## Common causes
    - setuptools without an extension module. **Solution**: override `has_ext_modules` of the
      distribution, or `wheelfix repair`.

    ## Fix safety
    Safe: the field is set to `false`, as PEP 427 requires for a wheel with a platform tag.
    """
    wheel = context.wheel
    in_root = [member for member in wheel.elfs if not member.startswith(f"{wheel.data_dir}/")]
    if wheel.root_is_purelib and in_root:
        yield Hit(
            message="`Root-Is-Purelib: true`, but the root holds ELF objects",
            member=wheel.dist_info.wheel_file,
            notes=(f"such as `{in_root[0]}`",),
            hint="`wheelfix repair` sets it to `false`",
            severity=None if _belongs_to_platlib(wheel) else Severity.NOTE,
            fix=Fix(title="set Root-Is-Purelib to false", edits=(SetRootIsPurelib(value=False),)),
        )


def _belongs_to_platlib(wheel: Wheel) -> bool:
    """Return whether some part of the wheel is for platlib: libraries alone may be in either."""
    platlib = f"{wheel.data_dir}/platlib/"
    return any(elf.module_hooks for elf in wheel.elfs.values()) or any(
        member.name.startswith(platlib) for member in wheel.members
    )


@rule("WF504", "tags-differ", Severity.WARNING)
def tags_differ(context: Context) -> Iterator[Hit]:
    """Tags in WHEEL differ from those of the file name.

    ## What it does
    Expands the compressed tags of the file name (PEP 425) and of WHEEL, and compares the sets. It
    is for information if WHEEL has a tag for each Python and machine that the file name promises.

    ## Why is this bad?
    Installers use the file name, but after installation `pip check` uses WHEEL (24.1 and later): it
    calls the distribution "not supported on this platform" where none of its tags is supported. It
    accepts `linux_x86_64` on every Linux of that machine.

    ## Example
    `demo-1.0-cp311-cp311-linux_x86_64.whl` with `Tag: cp310-cp310-linux_x86_64`.

    ## Common causes
    - The file was renamed. **Solution**: `wheel tags`, which edits WHEEL as well.
    - Builds for several Pythons in the same build directory. **Solution**: use a fresh one for
      each.

    ## Fix safety
    Unsafe: WHEEL gets the tags of the file name, which may be wrong.
    """
    wheel = context.wheel
    name = wheel.name
    named = ["-".join(tag) for tag in product(name.pythons, name.abis, name.platforms)]
    said = set(islice(flatten(map(_expand, wheel.tags)), _MOST_TAGS))
    if set(named) == said:
        return
    surplus, missing = sorted(said - set(named)), sorted(set(named) - said)
    fix = Retag(platforms=name.platforms, tags=tuple(named))
    refused = [tag for tag in named if _is_refused(tag, said)]
    where = f"; `pip check` refuses it where {join_some(refused, 1)} is meant" if refused else ""
    yield Hit(
        message=f"WHEEL has different tags than the file name{where}",
        severity=None if refused else Severity.NOTE,
        member=wheel.dist_info.wheel_file,
        notes=(
            *([f"only in WHEEL: {join_some(surplus)}"] if surplus else []),
            *([f"only in the file name: {join_some(missing)}"] if missing else []),
        ),
        hint="build it again; if the file name is right, `wheelfix repair --unsafe-fixes`",
        fix=Fix(title="use the tags of the file name", edits=(fix,), safety=Safety.UNSAFE),
    )


def _is_refused(named: str, said: Iterable[str]) -> bool:
    """Return whether pip supports none of the tags `said` on some machine of the tag `named`."""
    python, abi, platform = named.split("-")
    accepting = (
        parts[:2]
        for parts in (tag.split("-") for tag in said)
        if len(parts) == 3 and _is_wider(parts[2], platform)
    )
    accepted = set(flatten(interpreters_of(*parts) for parts in accepting))
    return not accepted.issuperset(interpreters_of(python, abi))


def _is_wider(said: str, named: str) -> bool:
    """Return whether pip supports the platform tag `said` wherever it supports `named`."""
    tag, other = parse_platform_tag(said), parse_platform_tag(named)
    is_local = tag.is_local and other.has_objects and tag.arch == other.arch
    return said in {"any", named} or is_local or satisfies(said, named)


_MOST_TAGS, _LONGEST_TAG = 20_000, 1000
"""Limits for tags and characters per tag: file names (255 bytes) expand to fewer."""


def _expand(tag: str) -> Iterator[str]:
    """Yield the tags of a compressed tag set (PEP 425, "Compressed Tag Sets")."""
    if tag.count("-") != 2 or len(tag) > _LONGEST_TAG:  # none at all
        yield tag[:_LONGEST_TAG]
        return
    for parts in product(*(part.split(".") for part in tag.split("-"))):
        yield "-".join(parts)


@rule("WF505", "name-differs", Severity.ERROR)
def name_differs(context: Context) -> Iterator[Hit]:
    """Name or Version in METADATA differs from the file name.

    ## What it does
    Compares Name and Version of METADATA with the file name: names normalized by PEP 503, versions
    by PEP 440.

    ## Why is this bad?
    Installers refuse the wheel: pip with "inconsistent name", uv because the metadata "does not
    match the given name". PyPI refuses it, too.

    ## Example
    `demo-1.1-py3-none-any.whl` with `Version: 1.0`.

    ## Common causes
    - The file was renamed by hand for a release. **Solution**: set the version and build again.
    - A version read from git in a shallow clone. **Solution**: fetch the tags before the build.

    ## Fix safety
    Not fixed: other files, such as `pkg/_version.py`, may contain the version as well.
    """
    wheel = context.wheel
    name, version = wheel.metadata.name, wheel.metadata.version
    normalized = name_in_file_names(name)
    start = IndexAnswer.OTHER_NAME.note(f"'{name}'", f"'{normalized}'")
    numbered = IndexAnswer.OTHER_VERSION.note(f"'{version}'", f"'{wheel.name.version}'")
    pairs = (
        ("Name", name, wheel.name.distribution, canonicalize_name, start),
        # In file names, `_` replaces `-` (PEP 427).
        ("Version", version, wheel.name.version.replace("_", "-"), _canonical_version, numbered),
    )
    for field, said, named, key, note in pairs:
        if said not in {"", named} and key(said) != key(named):
            yield Hit(
                message=f"METADATA has `{field}: {said}`, but the file name has `{named}`",
                member=wheel.dist_info.metadata,
                entry=field,
                notes=(note,),
                hint="build the wheel again, with the correct name and version",
            )


@rule("WF506", "invalid-metadata", Severity.ERROR)
def invalid_metadata(context: Context) -> Iterator[Hit]:
    """METADATA is missing or invalid.

    ## What it does
    Checks the header of METADATA by the core metadata specification: Metadata-Version, Name and
    Version must each occur once and be valid, and every Requires-Dist and Requires-Python must
    parse (PEP 508, PEP 440). It is a warning if a License-File is not in `*.dist-info/licenses`
    (PEP 639), or if a requirement is a URL, which PyPI refuses. The label of a variant wheel must
    be in its `variant.json` (PEP 825).

    ## Why is this bad?
    pip and uv refuse the wheel with "has invalid metadata" or "invalid requirement".

    ## Example
    `Requires-Dist: numpy>=1.2.*`

    ## Common causes
    - An old build backend that does not validate its input. **Solution**: upgrade it; `python -m
      build` then reports the mistake.
    - `license-files` in `pyproject.toml` has files that the build does not copy. **Solution**:
      upgrade the build backend, or remove the entry.

    ## Fix safety
    Not fixed: only the project knows the intended value.
    """
    wheel = context.wheel
    member = wheel.dist_info.metadata
    is_present = member in wheel.member_names
    if wheel.metadata.problem is not None:
        note = IndexAnswer.NO_METADATA.note(f"'{wheel.name}'", member)
        notes, hint = ((), _REBUILD) if is_present else ((note,), "build the wheel again")
        yield Hit(message=wheel.metadata.problem, member=member, notes=notes, hint=hint)
        return
    if not is_present:
        return
    is_variant = wheel.name.variant is not None
    for entry, message in invalid_fields(wheel.metadata, is_variant=is_variant):
        yield Hit(message=message, member=member, entry=entry, hint=_REBUILD)
    if problem := variant_problem(wheel):
        yield Hit(message=problem, member=wheel.dist_info.variant, entry="variant", hint=_REBUILD)
    for entry, message, answer, values in _index_refusals(wheel):
        yield Hit(
            message=message,
            member=member,
            entry=entry,
            hint="fix it before the upload",
            severity=answer.severity(context.settings),
            notes=(answer.note(*values),),
        )


_REBUILD = "fix it in `pyproject.toml`, and build the wheel again"
_SINGLE = ("metadata-version", "name", "version", "requires-python")
_VARIANT_MARKER = lazy_pattern(r"\bvariant_(?:namespaces|features|properties|label)\b(?=[^;]*$)")


def invalid_fields(metadata: Metadata, *, is_variant: bool) -> Iterator[tuple[str, str]]:
    """Yield the fields that installers refuse, each with a message.

    The requirements of a variant wheel may have the markers of PEP 825, which no other may.
    """
    keys = [key for key, _ in metadata.fields]
    for key in _SINGLE:
        title = "-".join(word.capitalize() for word in key.split("-"))
        if key not in keys and key != "requires-python":
            yield title, f"METADATA has no `{title}`"
        elif keys.count(key) > 1:
            yield title, f"METADATA has `{title}` {count(keys.count(key), 'time')}"
    if metadata.name and not DISTRIBUTION_NAME.fullmatch(metadata.name):
        yield "Name", f"`Name: {metadata.name}` is not a valid distribution name"
    if metadata.version and not _is_version(metadata.version):
        yield "Version", f"`Version: {metadata.version}` is not a valid version (PEP 440)"
    if metadata.requires_python:
        yield from _invalid_python(metadata.requires_python)
    for text in metadata.requires_dist:
        plain = _VARIANT_MARKER.sub("platform_machine", text) if is_variant else text
        try:
            read_requirement(plain)
        except ValueError as error:
            reason = str(error).partition("\n")[0]
            yield text, f"`Requires-Dist: {text}` cannot be read: {reason}"


def _canonical_version(text: str) -> str:
    """Spell a version as PEP 440 does; text that is not a version stays as it is."""
    return canonicalize_version(text) if _is_version(text) else text


def _is_version(text: str) -> bool:
    try:
        Version(text)
    except ValueError:  # InvalidVersion, or a number with thousands of digits
        return False
    return True


def _invalid_python(text: str) -> Iterator[tuple[str, str]]:
    try:
        deferred.specifiers.SpecifierSet(limit_length(text))
    except ValueError as error:
        yield "Requires-Python", f"`Requires-Python` cannot be read: {error}"


def _index_refusals(wheel: Wheel) -> Iterator[tuple[str, str, IndexAnswer, tuple[str, ...]]]:
    """Yield entry, message, and the answer of the index with the values in it."""
    for text in wheel.metadata.requires_dist:
        if "@" in text.partition(";")[0]:
            message = f"`Requires-Dist: {text}` is a URL, which PyPI refuses"
            yield text, message, IndexAnswer.URL, (text,)
    names = wheel.member_names
    stated = wheel.metadata.license_files if has_license_files(wheel.metadata) else ()
    for path in stated:
        if f"{wheel.dist_info.licenses}/{path}" not in names:
            place = f"{wheel.dist_info.licenses}/{path}"
            message = f"`License-File: {path}` is not in the wheel's `licenses` folder"
            yield path, message, IndexAnswer.LICENSE_FILE, (path, str(wheel.name), place)


@rule("WF507", "python-excluded", Severity.ERROR)
def python_excluded(context: Context) -> Iterator[Hit]:
    """No Python accepts the wheel: tags that no Python has, or Requires-Python excludes them.

    ## What it does
    Compares the Python tags of the file name with its ABI tags, and with Requires-Python of
    METADATA.

    ## Why is this bad?
    The wheel cannot be installed anywhere: for the Python versions of its tags, installers say that
    it "requires a different Python", or that it "is not a supported wheel on this platform".

    ## Example
    A wheel for `cp310` with `Requires-Python: >=3.11`; one for `cp315t-abi3t` in place of
    `cp315-abi3t`.

    ## Common causes
    - A Python version was dropped in `requires-python`, but not in the build matrix. **Solution**:
      drop it there as well, such as by `build = "cp311-*"` for cibuildwheel.
    - The build backend does not know the stable ABI of free-threaded builds. **Solution**: upgrade
      it; the tag for CPython 3.15 and later is `cp315-abi3t`, or `cp315-abi3.abi3t`.

    ## Fix safety
    Not fixed: the wheel should not be published.
    """
    wheel = context.wheel
    if not has_installable_tags(wheel.name):
        tag = wheel.name.python_tag
        yield Hit(
            message=f"tagged `{tag}`, which no Python has",
            entry=tag,
            hint="build it again with a newer build backend, or rename it with `wheel tags`",
        )
    if not wheel.metadata.requires_python:
        return
    pythons = interpreters(wheel.name)
    if pythons and not allows_any(wheel.metadata.requires_python, pythons):
        yield Hit(
            message=f"tagged for {'.'.join(wheel.name.pythons)}, but `Requires-Python: "
            f"{wheel.metadata.requires_python}` excludes that",
            member=wheel.dist_info.metadata,
            entry="Requires-Python",
            hint="correct `requires-python`, or drop this Python from the build matrix",
        )
