"""What is started before anything else is known of the command line than that it repairs."""

from collections.abc import Generator, Mapping, Sequence
from contextlib import contextmanager, suppress

from wheelfix.errors import ToolError
from wheelfix.pipelines.standby import Standby

STANDBY = "wheelfix.standby"
"""Where in a context's `meta` it is."""


@contextmanager
def ahead(arguments: Sequence[str], environ: Mapping[str, str]) -> Generator[Standby | None]:
    """Yield auditwheel, which starts while all else is imported; None if it is not needed.

    If it cannot be started, `repair` says so, when it has read its options.
    """
    if not _repairs(arguments):
        yield None
        return
    with Standby(environ) as standby:
        with suppress(ToolError):
            standby.prepare()
        yield standby


def _repairs(arguments: Sequence[str]) -> bool:
    """Whether the first word is `repair`, and others follow that do not ask for help."""
    words = [each for each in arguments if not each.startswith("-")]
    asks_for_help = not {"-h", "--help"}.isdisjoint(arguments)
    return words[:1] == ["repair"] and len(words) > 1 and not asks_for_help
