"""Modules that many runs do not need: each is imported when it is first asked for.

    from wheelfix.system import deferred
    deferred.tomllib.loads(text)

Together they are a twentieth of the time of a small wheel: `packaging.metadata` and
`importlib.metadata` bring all of `email`.
"""

from importlib import import_module
from types import ModuleType
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import configparser
    import multiprocessing
    import tempfile
    import tomllib
    from email import utils as email_utils
    from importlib import metadata, resources
    from multiprocessing import connection

    from packaging import licenses, requirements, specifiers
    from packaging import metadata as core_metadata

__all__ = [
    "configparser", "connection", "core_metadata", "email_utils", "licenses", "metadata",
    "multiprocessing", "requirements", "resources", "specifiers", "tempfile", "tomllib",
]  # fmt: skip
_FULL_NAMES = {
    "connection": "multiprocessing.connection",
    "core_metadata": "packaging.metadata",
    "email_utils": "email.utils",
    "licenses": "packaging.licenses",
    "metadata": "importlib.metadata",
    "requirements": "packaging.requirements",
    "resources": "importlib.resources",
    "specifiers": "packaging.specifiers",
}


def __getattr__(name: str) -> ModuleType:
    """Import the module that is called `name` here (PEP 562). Raises `AttributeError`."""
    if name not in __all__:
        raise AttributeError(name)
    globals()[name] = module = import_module(_FULL_NAMES.get(name, name))
    return module
