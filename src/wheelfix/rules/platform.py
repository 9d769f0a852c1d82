"""Whether the wheel keeps what its platform tag promises, by auditwheel's verdict."""

from collections.abc import Iterator

from wheelfix.findings import Hit, Severity
from wheelfix.policy import satisfies
from wheelfix.rules.base import Context, rule
from wheelfix.verdict import Verdict
from wheelfix.wheel import Wheel


def keeps_promise(wheel: Wheel, verdict: Verdict) -> bool:
    """Return whether the objects may carry all platform tags of the wheel.

    auditwheel judges for one C library. Objects that need none, such as static executables, may
    stand under the tags of both.
    """
    bound = any(elf.libc is not None for elf in wheel.elfs.values())
    musl = verdict.overall.startswith("musllinux")
    return satisfies(
        verdict,
        [tag for tag in wheel.name.platforms if bound or tag.startswith("musllinux") == musl],
    )


@rule("WF801", "tag-not-met", Severity.ERROR)
def tag_not_met(context: Context) -> Iterator[Hit]:
    """The objects need more than the platform tag promises.

    ## What it does
    Asks auditwheel for the best tag that the objects allow, given the libraries that the wheel
    ships and those excluded, and compares it with the tags in the file name.

    ## Why is this bad?
    pip installs the wheel on every machine that the tag names, and the import fails on those
    that lack the library or the symbol version.

    ## Example
    A wheel tagged `manylinux_2_17` with a reference to `GLIBC_2.34`.

    ## Common causes
    - Built on a system newer than the tag. **Solution**: build in the tag's container, or ask
      for a later tag: `--plat manylinux_2_34_x86_64`.
    - A library that another wheel provides. **Solution**: `--exclude 'libx.so*'`.

    ## Fix safety
    Not fixed: the wheel is not published.
    """
    verdict = context.verdict
    if verdict is None or keeps_promise(context.wheel, verdict):
        return
    tags = ".".join(context.wheel.name.platforms)
    yield Hit(
        message=f"tagged {tags}, but allows no better than {verdict.overall}",
        notes=verdict.reasons,
        hint="build in the container of that tag, ask for another with --plat, or --exclude what "
        "another wheel provides",
    )


@rule("WF802", "unmatched-exclude", Severity.WARNING)
def unmatched_exclude(context: Context) -> Iterator[Hit]:
    """An `--exclude` pattern matches no library.

    ## What it does
    Reports patterns of `exclude` that neither a DT_NEEDED entry of the wheel or of a grafted
    library nor the path of one matches.

    ## Why is this bad?
    A typing error, or an asterisk forgotten, lets the library in: `librocblas.so` does not match
    `librocblas.so.5`, and 890 MB were grafted once for it (ROCm/aiter 5318).

    ## Example
    `--exclude libcuda.so` where the object needs `libcuda.so.1`.

    ## Common causes
    - No asterisk for the version. **Solution**: `--exclude 'libcuda.so*'`.
    - The library is no longer needed. **Solution**: remove the pattern.

    ## Fix safety
    Not fixed.
    """
    for pattern in context.unmatched_excludes:
        yield Hit(
            message=f"the pattern `{pattern}` of `exclude` matches no library",
            entry=pattern,
            hint=f"did you mean `{pattern.rstrip('*')}*`? otherwise remove it",
        )


RULES = (tag_not_met, unmatched_exclude)
