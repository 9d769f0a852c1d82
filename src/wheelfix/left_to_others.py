"""Who brings a library that a wheel leaves to others, as data in `data/left-to-others.toml`."""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from fnmatch import fnmatchcase
from importlib.resources import files as package_files
from typing import Any

_DISTRIBUTION = re.compile(r"[A-Za-z0-9._-]+")


@dataclass(frozen=True, slots=True, kw_only=True)
class Provider:
    """Who brings some libraries."""

    packages: tuple[str, ...] = ()
    """The beginnings of distribution names; none where no package may bring them."""
    note: str | None = None

    def among(self, requirements: Iterable[str]) -> str | None:
        """Return which of the `requirements` (PEP 508) is for one of its packages."""
        for requirement in requirements:
            match = _DISTRIBUTION.match(requirement)
            name = re.sub(r"[-_.]+", "-", match[0]).lower() if match else ""  # PEP 503
            if any(name == package or name.startswith(f"{package}-") for package in self.packages):
                return requirement
        return None


def providers(libraries: Iterable[str]) -> Mapping[str, Provider]:
    """Return who is known to bring each of `libraries`, DT_NEEDED names."""
    import tomllib  # noqa: PLC0415 - few wheels leave a library to others

    text = (
        package_files("wheelfix.data").joinpath("left-to-others.toml").read_text(encoding="utf-8")
    )
    tables: list[dict[str, Any]] = tomllib.loads(text)["provider"]
    found: dict[str, Provider] = {}
    for library in libraries:
        for table in tables:
            if any(fnmatchcase(library, glob) for glob in table["libraries"]):
                packages = tuple(table.get("packages", ()))
                found[library] = Provider(packages=packages, note=table.get("note"))
                break
    return found
