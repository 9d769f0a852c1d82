"""The wheels of corpus.toml, as values."""

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

CORPUS = Path(__file__).with_name("corpus.toml")


@dataclass(frozen=True, slots=True, kw_only=True)
class Sdist:
    """A wheel to build from source."""

    requirement: str
    use: str
    apt: tuple[str, ...] = ()
    needs: tuple[str, ...] = ()
    outside: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Published:
    """A wheel to fetch."""

    requirement: str
    use: str = ""
    needs: tuple[str, ...] = ()
    options: tuple[str, ...] = ()
    ci: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Popular:
    """A wheel to fetch and to check."""

    requirement: str
    judged: Mapping[str, str] = field(default_factory=dict[str, str])
    """Rule code -> why its errors and warnings are right."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Corpus:
    """What corpus.toml says."""

    installer: str
    sdists: tuple[Sdist, ...]
    published: tuple[Published, ...]
    loaded: tuple[str, ...] = ()
    """Requirements of wheels that only `fidelity.py` looks at."""
    popular: tuple[Popular, ...] = ()


Item = TypeVar("Item", Sdist, Published, Popular)


def read_corpus(path: Path = CORPUS) -> Corpus:
    """Read the list of wheels."""
    data = tomllib.loads(path.read_text("utf-8"))
    return Corpus(
        installer=data["installer"],
        sdists=tuple(Sdist(**frozen(each)) for each in data["sdist"]),
        published=tuple(Published(**frozen(each)) for each in data["published"]),
        loaded=tuple(data.get("loaded", ())),
        popular=tuple(
            Popular(
                requirement=requirement,
                judged=data["judged"].get(requirement.partition("==")[0], {}),
            )
            for requirement in data.get("popular", ())
        ),
    )


def frozen(table: Mapping[str, Any]) -> dict[str, Any]:
    """Turn the arrays of a TOML table into tuples."""
    return {
        key: tuple(value) if isinstance(value, list) else value  # pyright: ignore[reportUnknownArgumentType, reportUnknownVariableType] - TOML's arrays
        for key, value in table.items()
    }


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """What was found about one wheel; no problems means that it passed."""

    name: str
    cells: Mapping[str, str]
    """The row of the table."""
    problems: tuple[str, ...] = ()
    details: Mapping[str, object] = field(default_factory=dict[str, object])
