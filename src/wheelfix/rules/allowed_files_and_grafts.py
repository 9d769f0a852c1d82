"""Whether a wheel has the files, and only the grafted libraries, that the settings allow."""

from collections.abc import Iterator

from wheelfix.rules.context import Context
from wheelfix.rules.findings import Hit, Severity
from wheelfix.rules.rule import rule
from wheelfix.settings import matches_any
from wheelfix.text import FEW, count, join_some
from wheelfix.wheel.grafted_name import original_name, repaired_without


@rule("WF402", "graft-not-allowed", Severity.ERROR)
def graft_not_allowed(context: Context) -> Iterator[Hit]:
    """Grafted library is not one that the settings allow.

    ## What it does
    Compares the names of grafted libraries, as they were before the graft, with the globs of
    `grafts`. Without this setting, any may be grafted.

    ## Why is this bad?
    The image that builds the wheels changes, and the wheel grows by a library that nobody has
    decided to ship: of a desktop, a driver, or with a license that does not fit.

    ## Example
    `grafts = ["libgfortran*", "libquadmath*"]`, and the wheel has `libGLdispatch.so.0`.

    ## Common causes
    - Another library of the build machine has new dependencies. **Solution**: build it without
      them, or add them to `grafts`.
    - The user's machine or another wheel has the library. **Solution**: `exclude`, or `provider`.

    ## Fix safety
    Not fixed.
    """
    settings = context.settings
    for member, elf in context.wheel.elfs.items():
        name = original_name(member.rpartition("/")[2])
        if (
            elf.dynamic
            and settings.is_vendored(member, context.wheel)
            and not matches_any(name, settings.grafts)
        ):
            dependents = context.dependents.get(member.rpartition("/")[2], ())
            yield Hit(
                message=f"`{name}` is grafted, and `grafts` does not list it",
                member=member,
                entry=name,
                notes=(f"needed by {join_some(dependents, FEW)}",) if dependents else (),
                hint=f"add `{name}` to `grafts`; or {repaired_without(name)}",
            )


@rule("WF526", "files-differ", Severity.ERROR)
def files_differ(context: Context) -> Iterator[Hit]:
    """Wheel contains a file that the settings do not allow, or lacks one that they ask for.

    ## What it does
    Compares the names of the members with the globs of `files`: each must match one of `only`, if
    there are any, and each of `must` matches a member. The dist-info folder and the folder of
    grafted libraries are always allowed.

    ## Why is this bad?
    What the project states about its files is not true of this wheel.

    Tests, sources, data of the build and packages of the top level get into wheels unnoticed, and
    so does the loss of a file that users or the law ask for.

    ## Example
    `files = { only = ["demo/*"], must = ["*/licenses/LICENSE.txt"] }`, and the wheel has
    `tests/__init__.py`.

    ## Common causes
    - The build backend finds packages by itself. **Solution**: list them in its settings.

    ## Fix safety
    Not fixed.
    """
    wheel, files = context.wheel, context.settings.files
    names = [member.name for member in wheel.members]
    context.budget.spend(len(names) * (len(files.only) + len(files.must)), "`files`")
    own = (f"{wheel.dist_info}/", f"{context.settings.graft_folder(wheel.name.distribution)}/")
    stated = (n for n in names if files.only and not n.startswith(own))
    if others := [name for name in stated if not matches_any(name, files.only)]:
        yield Hit(
            message=f"contains {count(len(others), 'file')} that `only` of `files` does not list: "
            f"{join_some(others, FEW)}",
            member=others[0],
            hint="leave them out where the wheel is built, or add them to `files`",
        )
    for glob in files.must:
        if not any(matches_any(name, [glob]) for name in names):
            yield Hit(
                message=f"has no file `{glob}`, which `must` of `files` lists",
                entry=glob,
                hint="add it where the wheel is built, or correct `files`",
            )
