"""auditwheel's policy tables (`*-policy.json`), read as data, without importing auditwheel."""

import json
from functools import cache
from importlib.machinery import PathFinder
from pathlib import Path

from wheelfix.analysis.policies import Policy
from wheelfix.errors import ToolError
from wheelfix.host.machine_files import MAX_DATABASE, read_regular

INSTALL_HINT = "pip install --upgrade 'auditwheel>=6.8.2'"


def not_installed_error() -> ToolError:
    """Return the error for an auditwheel that is not installed with wheelfix."""
    return ToolError("auditwheel is not installed", hint=INSTALL_HINT)


def read_policies() -> tuple[Policy, ...]:
    """Return the policies of the auditwheel that is installed with wheelfix; read once.

    Raises `ToolError` if there is none, or if its tables have an unknown format.
    """
    spec = PathFinder.find_spec("auditwheel")
    places = spec.submodule_search_locations if spec is not None else None
    if not places:
        raise not_installed_error()
    return _read(Path(places[0], "policy"))


@cache
def _read(folder: Path) -> tuple[Policy, ...]:
    try:
        tables = tuple(
            Policy(
                name=entry["name"],
                aliases=tuple(entry["aliases"]),
                symbol_versions=entry["symbol_versions"],
                blacklist=entry["blacklist"],
                whitelist=frozenset(entry["lib_whitelist"]),
                priority=entry["priority"],
            )
            for file in sorted(folder.glob("*-policy.json"))
            for entry in json.loads(read_regular(file, MAX_DATABASE))
        )
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise _unreadable(str(error)) from error
    if not tables:
        raise _unreadable("there are none")
    return tables


def _unreadable(why: str) -> ToolError:
    return ToolError(f"auditwheel's policy tables cannot be read: {why}", hint=INSTALL_HINT)
