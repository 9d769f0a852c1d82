"""Repair Linux wheels so that they work once installed, and report what is wrong with them.

The public names are those of `wheelfix.api`: a change of them is in the changelog. Everything else
may change with any release.
"""

from importlib import import_module
from typing import TYPE_CHECKING

__version__ = "0.1.0"

if TYPE_CHECKING:
    from wheelfix.api import *  # noqa: F403 - its `__all__`
    from wheelfix.api import __all__ as __all__
else:  # type checkers would take any name for one that it returns

    def __getattr__(name: str) -> object:
        """Import `wheelfix.api` when one of its names is first used (PEP 562).

        Every submodule imports this package first: to import the rules and pipelines here would
        add a quarter of a second to `--help` and `--version`.
        """
        api = import_module("wheelfix.api")
        if name != "__all__" and name not in api.__all__:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        return getattr(api, name)
