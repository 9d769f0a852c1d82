"""Ignores that no longer suppress anything."""

from collections.abc import Collection, Iterable, Iterator
from fnmatch import fnmatchcase

from wheelfix.rules.context import SetContext
from wheelfix.rules.findings import Finding, Hit, Severity
from wheelfix.rules.rule import set_rule
from wheelfix.rules.stated_rules import names_rule
from wheelfix.settings import Settings


def unused_ignores(
    settings: Iterable[Settings], suppressed: Collection[Finding]
) -> frozenset[tuple[str, str]]:
    """Return the ignores of all `settings` that match none of the `suppressed` findings.

    Each is a selector, and the glob of `per-file-ignores` or "".
    """
    asked: set[tuple[str, str]] = set()
    for own in settings:
        asked |= {(selector, "") for selector in own.ignore}
        asked |= {(s, glob) for glob, listed in own.per_file_ignores.items() for s in listed}
    return frozenset(
        (selector, glob)
        for selector, glob in asked
        if not any(
            names_rule(selector, finding.code, finding.name)
            and fnmatchcase(finding.member or "", glob or "*")
            for finding in suppressed
        )
    )


@set_rule("WF901", "stale-ignore", Severity.NOTE)
def stale_ignore(context: SetContext) -> Iterator[Hit]:
    """Unused ignore: an entry of `ignore` or `per-file-ignores` matches no finding.

    ## What it does
    Reports entries of `ignore` and `per-file-ignores` that match no finding in any of the wheels
    given.

    ## Why is this bad?
    The ignored problem was fixed, or never existed. If it comes back, it will not be reported.

    ## Example
    `ignore = { absolute-entry = "to be fixed in 2.1" }` in a project at 2.3.

    ## Common causes
    - The cause is gone. **Solution**: remove the entry.
    - Only some wheels have the problem, and others were checked. **Solution**: check all wheels of
      a release in one run, or move the entry to `[[tool.wheelfix.overrides]]`.
    - A misspelt glob. **Solution**: globs match whole member names: `pkg/*`, not `pkg/`.

    ## Fix safety
    Not fixed: wheelfix does not edit the project's files.
    """
    for selector, glob in sorted(context.unused_ignores):
        where = f"in `per-file-ignores` for `{glob}`" if glob else "in `ignore`"
        yield Hit(
            message=f"unused ignore: `{selector}` {where} matches no finding",
            entry=selector,
            hint="remove it, or put it into `[[tool.wheelfix.overrides]]` (in wheelfix.toml, "
            "`[[overrides]]`) for the wheels that need it",
        )
