"""Regular expressions that are compiled when they are first used: few are used by a command."""

import re
from typing import AnyStr, cast


class _UncompiledPattern:
    """Has what a `re.Pattern` has, which it is asked for once each."""

    def __init__(self, text: str | bytes, flags: int) -> None:
        self._text = text
        self._flags = flags

    def __getattr__(self, name: str) -> object:
        attribute = getattr(re.compile(self._text, self._flags), name)
        setattr(self, name, attribute)
        return attribute


def lazy_pattern(text: AnyStr, flags: int = 0) -> re.Pattern[AnyStr]:
    """Return a pattern that is compiled when it is first used."""
    return cast("re.Pattern[AnyStr]", _UncompiledPattern(text, flags))
