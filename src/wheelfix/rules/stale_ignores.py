"""Whether what the project ignores is still there."""

from collections.abc import Iterator

from wheelfix.rules.context import SetContext
from wheelfix.rules.findings import Hit, Severity
from wheelfix.rules.rule import set_rule


@set_rule("WF901", "stale-ignore", Severity.INFO)
def stale_ignore(context: SetContext) -> Iterator[Hit]:
    """An ignore keeps nothing from counting.

    ## What it does
    Reports entries of `ignore` and `per-file-ignores` that fit no finding in any of the wheels
    given.

    ## Why is this bad?
    What was ignored has been mended, or never was. Should it come back, nobody is told.

    ## Example
    `ignore = { absolute-entry = "mended in 2.1" }` in a project at 2.3.

    ## Common causes
    - The cause is gone. **Solution**: drop the entry.
    - Only some wheels have it, and others were checked. **Solution**: check all wheels of a release
      in one run, or move the entry to `[[tool.wheelfix.overrides]]`.
    - A misspelt glob. **Solution**: globs are for whole member names: `pkg/*`, not `pkg/`.

    ## Fix safety
    Not fixed: wheelfix does not edit the project's files.
    """
    for selector, glob in sorted(context.stale):
        where = f"`per-file-ignores` for `{glob}`" if glob else "`ignore`"
        yield Hit(
            message=f"{where} has `{selector}`, of which nothing is found",
            entry=selector,
            hint="drop it, or let `[[tool.wheelfix.overrides]]` name the wheels that need it",
        )


SET_RULES = (stale_ignore,)
