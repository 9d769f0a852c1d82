"""Completion of option values in the shell: rules, targets, install schemes, providers.

The modules that know the values are imported only where a value is completed: the commands import
this one.
"""

import os
from collections.abc import Callable, Iterable, Mapping

from typer._click.shell_completion import CompletionItem, add_completion_class, split_arg_string
from typer._completion_classes import BashComplete

from wheelfix.grouping import flatten

Completer = Callable[[str], list[tuple[str, str]]]
"""Returns the values that may be meant by an incomplete one, each with a description."""


def rules(incomplete: str) -> list[tuple[str, str]]:
    """Return the codes and names of rules, after those that precede the last comma."""
    from wheelfix.rules.stated_rules import stated_rules  # noqa: PLC0415 - reads all rules

    named = [(word, rule.summary) for rule in stated_rules() for word in (rule.code, rule.name)]
    return _complete_list(incomplete, named)


def targets(incomplete: str) -> list[tuple[str, str]]:
    """Return the names of target platforms, after those that precede the last comma."""
    from wheelfix.loader import targets  # noqa: PLC0415 - as above

    return _complete_list(incomplete, [(name, "") for name in targets.names()])


def schemes(incomplete: str) -> list[tuple[str, str]]:
    """Return the names of install schemes, after those that precede the last comma."""
    from wheelfix.loader.install_schemes import scheme_names  # noqa: PLC0415 - as above

    return _complete_list(incomplete, [(name, "") for name in scheme_names()])


def providers(incomplete: str) -> list[tuple[str, str]]:
    """Return the names of the well-known providers, with libraries that they have."""
    from wheelfix.providers.well_known import well_known_folders  # noqa: PLC0415 - as above

    libraries = {
        name: list(flatten(folder.libraries for folder in folders))
        for name, folders in well_known_folders().items()
    }
    return _complete_list(
        incomplete, [(name, ", ".join(names[:3])) for name, names in libraries.items()]
    )


OF_OPTIONS: Mapping[str, Completer] = {
    "select": rules,
    "extend_select": rules,
    "ignore": rules,
    "target": targets,
    "scheme": schemes,
    "provider": providers,
}
"""The completion of options by their field."""


def _complete_list(incomplete: str, named: Iterable[tuple[str, str]]) -> list[tuple[str, str]]:
    """Return `named` with the complete elements of a comma-separated list before each."""
    before = incomplete[: incomplete.rfind(",") + 1]
    return [(before + word, words) for word, words in named]


class BashWords(BashComplete):
    """Completion for bash, which divides the words at `:` and `=` (COMP_WORDBREAKS).

    `debian:1` arrives as three words, and only the last one is replaced by what is completed.
    """

    def get_completion_args(self) -> tuple[list[str], str]:
        """Return the words before the incomplete one, and that, with divided ones joined."""
        words = split_arg_string(os.environ["COMP_WORDS"])[: int(os.environ["COMP_CWORD"]) + 1]
        words += [""] * (int(os.environ["COMP_CWORD"]) + 1 - len(words))
        joined: list[str] = []
        for word, previous in zip(words, ["", *words], strict=False):
            if joined and ((word and word in _BREAKS) or (previous and previous in _BREAKS)):
                joined[-1] += word
            else:
                joined.append(word)
        return joined[1:-1], joined[-1]

    def format_completion(self, item: CompletionItem) -> str:
        """Return what replaces the last of the words that bash has."""
        incomplete = self.get_completion_args()[1].rpartition("=")[2]
        kept = incomplete.rfind(":") + 1
        return str(item.value)[kept:]


_BREAKS = frozenset({":", "=", "::"})


def use_bash_words() -> None:
    """Use `BashWords` in place of the class that typer registers when it makes the program."""
    add_completion_class(BashWords, "bash")
