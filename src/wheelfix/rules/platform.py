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


@rule("WF803", "tag-missed-by-little", Severity.INFO)
def tag_missed_by_little(context: Context) -> Iterator[Hit]:
    """A few symbols keep the wheel from a platform tag that more machines satisfy.

    ## What it does
    For each older, and so better, platform tag than the one that auditwheel's verdict allows,
    names the symbols that are too new for it, with the objects that use them, as long as they
    are few.

    ## Why is this bad?
    It is not. But one call of one function may cost all users of an older distribution, and
    auditwheel names neither the symbol nor the object (pypa/auditwheel 36).

    ## Example
    `manylinux_2_31_x86_64` is missed by `pthread_create@GLIBC_2.34` in `pkg/_core.so`.

    ## Common causes
    - Built on a system newer than needed. **Solution**: build in the container of the tag.
    - A function that an older version could replace. **Solution**: `.symver`, or another call.

    ## Fix safety
    Not fixed: only a build on an older system gives the older symbol.
    """
    for message in context.verdict.near if context.verdict is not None else ():
        yield Hit(message=message, hint="build on a system as old as the tag")


RULES = (tag_not_met, unmatched_exclude, tag_missed_by_little)
