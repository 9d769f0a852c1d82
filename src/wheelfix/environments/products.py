"""Well-known libraries under whatever name, told by what they export: `products.toml`."""

from functools import cache

from wheelfix.named_tuple import NamedTuple
from wheelfix.system import deferred
from wheelfix.system.packaged_text import read_text


class Product(NamedTuple):
    """A library under whatever name."""

    name: str
    markers: frozenset[str]
    """Symbols that it defines, and no other library."""
    version: str = ""
    """A regular expression for a string of the file; empty if none says the version."""
    source: str = ""


@cache
def known_products() -> tuple[Product, ...]:
    """Return the products in the list."""
    tables = deferred.tomllib.loads(read_text("wheelfix.environments", "products.toml"))["product"]
    return tuple(
        Product(
            name=table["name"],
            markers=frozenset(table["markers"]),
            version=table.get("version", ""),
            source=table.get("source", ""),
        )
        for table in tables
    )


@cache
def markers() -> frozenset[str]:
    """Return what tells all products."""
    return frozenset[str]().union(*(product.markers for product in known_products()))
