"""Whether the licences of bundled libraries are in the wheel."""

import json
import posixpath
import re
from collections.abc import Iterator
from typing import Any
from urllib.parse import unquote

from wheelfix.rules.context import Context
from wheelfix.rules.findings import Hit, Severity
from wheelfix.rules.rule import rule
from wheelfix.wheel.model import Wheel, is_licence


@rule("WF525", "no-licence-text", Severity.INFO)
def no_licence_text(context: Context) -> Iterator[Hit]:
    """A bundled library without a licence text.

    ## What it does
    Looks for the licence of each library in a folder of grafted libraries: the SBOM names a text
    that is in the wheel, or a licence text in `*.dist-info` names the library, as numpy's does with
    `Files: numpy.libs/libgfortran*.so`.

    ## Why is this bad?
    Who publishes the wheel distributes the library. Nearly all licences, MIT, BSD, LGPL and GPL,
    require that their text accompanies a copy.

    ## Example
    `pkg.libs/libgfortran-1a2b3c4d.so.5`, in a wheel with the project's own `LICENSE` only.

    ## Common causes
    - The library was grafted by a tool that copies no licences. **Solution**: repair the built
      wheel with `wheelfix repair`, which adds the texts that the package of the library installs.
    - The library belongs to no package, or its package has no text (on Alpine, it is in the package
      `-doc`). **Solution**: `[[tool.wheelfix.component]]` with `name`, `libraries` and
      `license-files`.

    ## Fix safety
    Not fixed: a repair adds the texts of the libraries that it grafts itself.
    """
    wheel, settings = context.wheel, context.settings
    vendored = [member for member in wheel.elfs if settings.is_vendored(member, wheel)]
    if not vendored:
        return
    stated = set(_members_with_text(wheel))
    texts = [
        text.lower() for name, text in wheel.texts.items() if is_licence(name, wheel.dist_info)
    ]
    for member in vendored:
        name = _name(posixpath.basename(member))
        if member not in stated and not any(map(name.search, texts)):
            yield Hit(
                message="no licence text in the wheel is known to be that of this library",
                member=member,
                hint="let `wheelfix repair` graft it, with [[tool.wheelfix.component]] where its "
                "package has no text",
            )


def _name(file: str) -> re.Pattern[str]:
    """Return what a licence text may call a library: `libscipy_openblas*`, or `Xau` for libXau.

    A library of a build dependency may have been grafted twice, with a hash of each time.
    """
    stem = re.sub(r"(?:-[0-9a-f]{8})+\Z", "", file.partition(".so")[0])
    stem = re.sub(r"[-_.0-9]+\Z", "", stem) or stem
    bare = stem.removeprefix("lib")
    words = [stem, *([bare] if len(bare) > 2 else [])]
    found = "|".join(map(re.escape, words))
    return re.compile(rf"(?<![a-z0-9])(?:{found})", re.IGNORECASE)


def _members_with_text(wheel: Wheel) -> Iterator[str]:
    """Yield the members whose licence text, according to an SBOM, is in the wheel."""
    present = {member.name for member in wheel.members}
    folder = f"{wheel.dist_info}/sboms"
    for name, text in wheel.texts.items():
        if not name.startswith(f"{folder}/"):
            continue
        try:
            document: Any = json.loads(text)
            for component in document["components"]:
                urls = [
                    unquote(reference["url"])
                    for reference in component.get("externalReferences", ())
                    if reference["type"] == "license"
                ]
                if any(posixpath.normpath(f"{folder}/{url}") in present for url in urls):
                    places = component.get("evidence", {}).get("occurrences", ())
                    yield from [str(place["location"]) for place in places]
        except (ValueError, TypeError, KeyError, AttributeError, RecursionError):
            continue
