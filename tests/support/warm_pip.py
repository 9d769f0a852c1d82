"""A program of `fork_server`: pip, where it is imported already, as `python -I -m pip` runs it."""

import sys
from contextlib import suppress
from functools import cache
from importlib import import_module
from typing import Any

_MODULES = (
    "commands.configuration",
    "commands.download",
    "commands.install",
    "metadata.importlib",
    "operations.install.wheel",
    "resolution.resolvelib.resolver",
)


@cache
def warm_pip() -> Any:
    """Return pip's `main`, of which each fork has what takes two thirds of an installation.

    That are its modules, the certificates, and what it tells an index about this machine, for which
    it starts `lsb_release` and `rustc`. Another pip may do without one of them: then it is slower.
    """
    with suppress(ImportError, AttributeError):
        for name in _MODULES:
            import_module(f"pip._internal.{name}")
        command: Any = import_module("pip._internal.cli.index_command")
        command._create_truststore_ssl_context()
        session: Any = import_module("pip._internal.network.session")
        session.user_agent = cache(session.user_agent)
        session.user_agent()
    return import_module("pip._internal.cli.main").main


def main() -> int:
    """Run the arguments as pip does in this environment: the folder of its cache is of that."""
    with suppress(ImportError, AttributeError):
        options: Any = import_module("pip._internal.cli.cmdoptions")
        folders: Any = import_module("pip._internal.utils.appdirs")
        options.cache_dir.keywords["default"] = folders.user_cache_dir("pip")
    code: int = warm_pip()(sys.argv[1:])
    return code


if __name__ == "__main__":
    sys.exit(main())
