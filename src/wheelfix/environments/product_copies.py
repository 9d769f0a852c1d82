"""Well-known libraries that are in an environment more than once."""

import re
from collections.abc import Iterator, Mapping

from wheelfix.elf.exports import among
from wheelfix.environments.modules import InstalledModules
from wheelfix.environments.products import Product, known_products, markers
from wheelfix.grouping import flatten
from wheelfix.named_tuple import NamedTuple


class Copies(NamedTuple):
    """A product, and the files of several distributions that are one."""

    product: Product
    files: Mapping[str, str]
    """Path -> version, empty if it is not known."""


def copies(modules: InstalledModules) -> Iterator[Copies]:
    """Yield the products that modules of different distributions load from different files.

    A file of no distribution, such as that of the platform, counts as one more.
    """
    by_marker: dict[str, set[str]] = {}
    for path in modules.loaded:
        if path in modules.symbols.libraries:
            for marker in among(modules.symbols.libraries[path].exports.definitions, markers()):
                by_marker.setdefault(marker, set()).add(path)
    for product in known_products():
        paths = sorted(set(flatten(by_marker.get(marker, ()) for marker in product.markers)))
        different = {modules.content(path): path for path in reversed(paths)}.values()
        if len({modules.distribution(path) for path in different}) > 1:
            versions = {path: _version(modules, product, path) for path in sorted(different)}
            yield Copies(product, versions)


def _version(modules: InstalledModules, product: Product, path: str) -> str:
    if not product.version:
        return ""
    return modules.symbols.contents.version(path, re.compile(product.version.encode()))
