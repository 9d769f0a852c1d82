"""What doctor and explain read of this machine's own objects, read once in each process.

Those of the interpreter and of the system are most of what a small environment loads.
"""

import tempfile
from typing import Any

from wheelfix.environments import cached_facts

_FACTS: Any = cached_facts.CachedFacts


def keep_machine_objects() -> None:
    """Keep them from now on, by the identity of files, as the cache of an environment does."""
    known: dict[str, Any] = {}
    of_tests = tempfile.gettempdir()
    start, read = _FACTS.__init__, _FACTS.read

    def start_with_known(self: Any, *arguments: Any) -> None:
        start(self, *arguments)
        self._known = {**known, **self._known}

    def read_and_keep(self: Any, path: str) -> Any:
        elf = read(self, path)
        if path in self._used and not path.startswith(of_tests):
            known[path] = self._used[path]
        return elf

    _FACTS.__init__, _FACTS.read = start_with_known, read_and_keep
