"""The fields of METADATA that PyPI refuses, beside those that any installer refuses."""

import re
from collections.abc import Iterable, Iterator, Mapping
from functools import lru_cache
from importlib import import_module
from io import StringIO
from types import ModuleType

from packaging.version import Version

from wheelfix.grouping import values_by_key
from wheelfix.rules.pypi_checks import IndexAnswer
from wheelfix.system import deferred
from wheelfix.system.lazy_patterns import lazy_pattern
from wheelfix.text import count
from wheelfix.wheel.dist_info import has_license_files
from wheelfix.wheel.model import Metadata
from wheelfix.wheel.requirements import read_requirement

FieldRefusal = tuple[str, str, IndexAnswer, tuple[str, ...]]
"""The field, a message, the answer of the index, and the values in its words."""

_VERSIONS = frozenset({"1.0", "1.1", "1.2", "2.1", "2.2", "2.3", "2.4", "2.5"})
_SUMMARY, _LABEL = 512, 32
_DYNAMIC = frozenset({
    "platform", "supported-platform", "summary", "description", "description-content-type",
    "keywords", "home-page", "download-url", "author", "author-email", "maintainer",
    "maintainer-email", "license", "license-expression", "license-file", "classifier",
    "requires-dist", "requires-python", "requires-external", "project-url", "provides-extra",
    "provides-dist", "obsoletes-dist", "requires", "provides", "obsoletes", "import-name",
    "import-namespace",
})  # fmt: skip
_URI = lazy_pattern(
    r"https?:(?://[^/?#]*)?[^?#\[\]]*(?:\?[^#\[\]]*)?(?:#.*)?", re.IGNORECASE | re.DOTALL
)
"""A URI with the schemes that the index takes; it escapes all characters but brackets itself."""
_ADDRESS = lazy_pattern(r"[^@\s.]+(?:\.[^@\s.]+)*@[^@\s.]+(?:\.[^@\s.]+)+")
"""Looser than RFC 5322: what it does not match is not an address."""
_SPECIAL_USE = (".arpa", ".invalid", ".local", ".localhost", ".onion", ".test")  # RFC 6761, 7686
_LICENSES = frozenset({"license-expression", "license-file"})
_MANY = 20
_LONGEST = 10_000
"""Characters of a field with addresses that are read."""
_LONGEST_DESCRIPTION = 50_000


_CLASSIFIERS, _RENDERER = "trove_classifiers", "readme_renderer.rst"
"""Modules of the extra `index`."""


def _module(name: str) -> ModuleType | None:
    try:
        return import_module(name)
    except ImportError:
        return None


def unjudged_fields(metadata: Metadata) -> Iterator[tuple[str, str, str]]:
    """Yield the fields that are not judged, each with the reason and what to do."""
    without = "the extra `index` is not installed", "`pip install 'wheelfix[index]'`"
    if any(name == "classifier" for name, _ in metadata.fields) and not _module(_CLASSIFIERS):
        yield "Classifier", *without
    if _is_rst(metadata) and not _module(_RENDERER):
        yield "Description", *without
    elif _is_rst(metadata) and not _is_quickly_rendered(metadata):
        yield "Description", "to render it may take minutes", "`twine check` renders it"


def refused_fields(metadata: Metadata) -> Iterator[FieldRefusal]:
    """Yield the fields that PyPI refuses, of METADATA that installers take."""
    sent = _uploaded_fields(metadata)
    fields = values_by_key(sent)
    yield from _refusals_of_packaging(sent)
    yield from _of_version(metadata)
    for summary in fields.get("summary", ()):
        if len(summary) > _SUMMARY:
            message = f"`Summary` has {count(len(summary), 'character')}, more than {_SUMMARY}"
            yield "Summary", message, IndexAnswer.SUMMARY, ()
    if all(any(fields.get(name, ())) for name in ("license", "license-expression")):
        message = "METADATA has `License` and `License-Expression`"
        yield "License", message, IndexAnswer.TWO_LICENSES, ()
    yield from _addresses(fields)
    yield from _pages(fields)
    yield from _of_classifiers(fields.get("classifier", ()))
    yield from _distributions(fields)
    yield from unrendered_description(metadata)
    for name in fields.get("dynamic", ()):
        if name.lower() not in _DYNAMIC:
            message = f"`Dynamic: {name}` names no field that may be dynamic"
            yield "Dynamic", message, IndexAnswer.DYNAMIC, (f"{name.lower()!r}",)


def _uploaded_fields(metadata: Metadata) -> tuple[tuple[str, str], ...]:
    """Return the fields that an upload sends.

    The index judges the fields of the request, not those of the file. twine and uv leave out
    license fields that older versions of METADATA do not have: setuptools wrote them all the same.
    """
    left_out = frozenset[str]() if has_license_files(metadata) else _LICENSES
    return tuple((name, value) for name, value in metadata.fields if name not in left_out)


def _of_version(metadata: Metadata) -> Iterator[FieldRefusal]:
    if metadata.metadata_version not in _VERSIONS:
        value = metadata.metadata_version
        message = f"PyPI does not take `Metadata-Version: {value}`"
        yield "Metadata-Version", message, IndexAnswer.METADATA_VERSION, (f"{value!r}",)
    if Version(metadata.version).local:
        message = f"`Version: {metadata.version}` is a local version, which PyPI does not take"
        yield "Version", message, IndexAnswer.LOCAL_VERSION, (f"'{metadata.version}'",)


def _refusals_of_packaging(fields: Iterable[tuple[str, str]]) -> Iterator[FieldRefusal]:
    """Yield what `packaging` refuses, by which the index validates.

    An older `packaging` may not know the version of METADATA; the index may.
    """
    parse_email = deferred.core_metadata.parse_email
    raw, unparsed = parse_email("".join(f"{name}: {value}\n" for name, value in fields))
    for name in unparsed:
        if parse_email(f"{name}: x")[0]:  # a field that it knows, and that occurs twice
            title = _title(name)
            reason = f"{name!r} has invalid data"
            yield title, f"METADATA has `{title}` more than once", IndexAnswer.FIELD, (reason,)
    errors: list[Exception] = []
    try:
        deferred.core_metadata.Metadata.from_raw(raw)
    except ExceptionGroup as group:
        errors += group.exceptions
    except (ValueError, RecursionError, MemoryError) as error:
        errors.append(error)
    for fault in errors[:_MANY]:
        name = (
            fault.field
            if isinstance(fault, deferred.core_metadata.InvalidMetadata)
            else "license-expression"
        )
        if name not in {"metadata-version", "dynamic"}:
            reason = str(fault).partition("\n")[0]
            yield (
                _title(name),
                f"`{_title(name)}` is invalid: {reason}",
                IndexAnswer.FIELD,
                (reason,),
            )


_SPELLED = {"url": "URL", "page": "page", "email": "email"}
"""The words of field names that do not just begin with a capital letter: `Home-page`."""


def _title(name: str) -> str:
    return "-".join(_SPELLED.get(word, word.capitalize()) for word in name.split("-"))


def _addresses(fields: Mapping[str, list[str]]) -> Iterator[FieldRefusal]:
    for name in ("author-email", "maintainer-email"):
        for value in fields.get(name, ()):
            address = deferred.email_utils.parseaddr(value[:_LONGEST])[1]
            domain = address.rpartition("@")[2].lower()
            if address and not (_ADDRESS.fullmatch(address) and not domain.endswith(_SPECIAL_USE)):
                message = f"`{_title(name)}: {value}` has no valid address"
                yield _title(name), message, IndexAnswer.EMAIL, (f"{address!r}",)


def _pages(fields: Mapping[str, list[str]]) -> Iterator[FieldRefusal]:
    for name in ("home-page", "download-url"):
        for value in fields.get(name, ()):
            if value and not _URI.fullmatch(value):
                message = f"`{_title(name)}: {value}` is not a URL that begins with `https:`"
                yield _title(name), message, IndexAnswer.PAGE, (f"{value!r}",)
    for text in fields.get("project-url", ()):
        label, _, url = (part.strip() for part in text.partition(","))
        line = f"`Project-URL: {text}`"
        if not label:
            yield "Project-URL", f"{line} has no label", IndexAnswer.LABEL, ()
        elif len(label) > _LABEL:
            message = f"{line} has a label of more than {count(_LABEL, 'character')}"
            yield "Project-URL", message, IndexAnswer.LONG_LABEL, (f"{label!r}",)
        elif not url:
            yield "Project-URL", f"{line} has no URL", IndexAnswer.NO_URL, ()
        elif not _URI.fullmatch(url):
            message = f"{line} has no URL that begins with `https:`"
            yield "Project-URL", message, IndexAnswer.BAD_URL, (f"{url!r}",)


def _of_classifiers(stated: Iterable[str]) -> Iterator[FieldRefusal]:
    classifiers = _module(_CLASSIFIERS)
    if classifiers is None:
        return
    for classifier in sorted(set(stated)):
        values = (f"{classifier!r}",)
        if classifier in classifiers.deprecated_classifiers:
            instead = classifiers.deprecated_classifiers[classifier]
            advice = f"; use `{instead[0]}`" if instead else ""
            message = f"`Classifier: {classifier}` is deprecated{advice}"
            yield "Classifier", message, IndexAnswer.OLD_CLASSIFIER, values
        elif classifier not in classifiers.all_classifiers:
            message = f"`Classifier: {classifier}` does not exist"
            yield "Classifier", message, IndexAnswer.CLASSIFIER, values


def _is_rst(metadata: Metadata) -> bool:
    """Return whether the index reads the description as reStructuredText, its default."""
    types = (value for name, value in metadata.fields if name == "description-content-type")
    kind = next(types, "").partition(";")[0].strip().lower()
    return kind in {"", "text/x-rst"} and bool(metadata.description.strip())


_REPORT = lazy_pattern(r"<string>:(\d+): \(\w+/\d\) (.*)")


_MULTIPLIES = lazy_pattern(
    r"(replace|unicode) ?::|contents ?::.*contents ?::", re.IGNORECASE | re.DOTALL
)
"""Directives that repeat text of others, as docutils spells them."""


def _is_quickly_rendered(metadata: Metadata) -> bool:
    """Return whether the description takes no more than seconds."""
    text = metadata.description
    return len(text) <= _LONGEST_DESCRIPTION and not _MULTIPLIES.search(text)


def unrendered_description(metadata: Metadata) -> Iterator[FieldRefusal]:
    """Yield the description if it does not render: Markdown and plain text always do."""
    is_judged = _is_rst(metadata) and _is_quickly_rendered(metadata)
    renderer = _module(_RENDERER) if is_judged else None
    if problem := renderer and _rendering_problem(renderer, metadata.description):
        message = f"the description does not render as reStructuredText: {problem}"
        yield "Description", message, IndexAnswer.DESCRIPTION, ()


@lru_cache(1)
def _rendering_problem(renderer: ModuleType, description: str) -> str:
    """Return why a description does not render; each state of a repair asks it of the same."""
    # Without this, docutils reads its settings from the current and the home directory.
    renderer.SETTINGS["_disable_config"] = True
    said = StringIO()
    try:
        rendered = renderer.render(description, stream=said)
    except Exception as error:  # noqa: BLE001 - whatever docutils raises, the index refuses
        rendered, said = None, StringIO(repr(error))
    if rendered is not None:
        return ""
    words = said.getvalue().partition("\n")[0]
    report = _REPORT.match(words)
    return f"line {report[1]}: {report[2]}" if report else words or "docutils gives no reason"


def _distributions(fields: Mapping[str, list[str]]) -> Iterator[FieldRefusal]:
    for name in ("provides-dist", "obsoletes-dist"):
        for text in fields.get(name, ()):
            line, value = f"`{_title(name)}: {text}`", (f"{text!r}",)
            try:
                requirement = read_requirement(text)
            except ValueError:
                yield _title(name), f"{line} cannot be read", IndexAnswer.DIST, value
            else:
                if requirement.url:
                    yield _title(name), f"{line} is a URL", IndexAnswer.DIST_URL, value
