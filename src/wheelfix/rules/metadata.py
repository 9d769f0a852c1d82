"""Whether RECORD and WHEEL tell the truth about the files."""

from collections.abc import Iterator

from wheelfix.edits import RemoveMember, SetRootIsPurelib
from wheelfix.findings import Fix, Hit, Severity
from wheelfix.rules.base import Context, Stage, rule

SIGNATURES = ("RECORD.jws", "RECORD.p7s")
"""Signatures of RECORD (PEP 427, "Signed wheel files"); void once RECORD changes."""


@rule("WF501", "record-mismatch", Severity.ERROR)
def record_mismatch(context: Context) -> Iterator[Hit]:
    """RECORD disagrees with the files of the wheel.

    ## What it does
    Compares every row of RECORD with the file: hash, size, existence; and looks for files
    without a row. RECORD itself and its signatures have no hash (PEP 427).

    ## Why is this bad?
    The index refuses such wheels, and installers that verify do too. If a hash is wrong the file
    was changed after the wheel was made, and nobody knows by whom: a tool that writes a new
    RECORD would make the change look right.

    ## Example
    A release script runs `patchelf` or `strip` on an unpacked wheel, and zips it again.

    ## Common causes
    - The wheel was edited by hand. **Solution**: build it again; or, if you know the change,
      `wheel unpack` and `wheel pack`, which write RECORD anew.
    - A tool added a file without a row. **Solution**: as above.

    ## Fix safety
    Never fixed: `repair` stops with exit code 2, unless the rule is ignored.
    """
    for problem in context.wheel.record_problems:
        yield Hit(
            message=f"RECORD disagrees with the file: {problem.message}",
            member=problem.member,
            hint="build the wheel again, or `wheel unpack` and `wheel pack` it if you trust it",
        )


@rule("WF502", "stale-signature", Severity.INFO, Stage.BEFORE)
def stale_signature(context: Context) -> Iterator[Hit]:
    """RECORD has a signature that a repaired wheel cannot keep.

    ## What it does
    Reports `RECORD.jws` and `RECORD.p7s`, the signatures that PEP 427 once foresaw.

    ## Why is this bad?
    They sign the bytes of RECORD. A repair changes RECORD, and the signature becomes false; no
    installer checks it.

    ## Example
    `pkg-1.0.dist-info/RECORD.jws`, written by `wheel` before 0.32 with `--sign`.

    ## Common causes
    - An old build tool. **Solution**: sign the file or use attestations (PEP 740) instead.

    ## Fix safety
    Safe: the file is dropped.
    """
    for name in SIGNATURES:
        member = f"{context.wheel.dist_info}/{name}"
        if any(each.name == member for each in context.wheel.members):
            yield Hit(
                message="signs a RECORD that the repair rewrites",
                member=member,
                hint="sign the repaired wheel, or publish with attestations",
                fix=Fix(title="drop the signature", edits=(RemoveMember(member=member),)),
            )


@rule("WF503", "purelib-with-elf", Severity.WARNING, Stage.BEFORE)
def purelib_with_elf(context: Context) -> Iterator[Hit]:
    """WHEEL says `Root-Is-Purelib: true`, but the root holds ELF objects.

    ## What it does
    Reports wheels with ELF objects in their root whose WHEEL file says that the root is pure.

    ## Why is this bad?
    Where platlib and purelib differ (Fedora's `lib64`), the files go to the folder for pure
    Python, shared between architectures, and away from parts of the package in platlib.

    ## Example
    A wheel tagged `py3-none-manylinux_2_17_x86_64` from a build backend that was not told of
    the library it ships.

    ## Common causes
    - setuptools without an extension module. **Solution**: override `has_ext_modules` of the
      distribution, or `wheelfix repair`.

    ## Fix safety
    Safe: the field is set to `false`, as PEP 427 wants it for a wheel with a platform tag.
    """
    wheel = context.wheel
    in_root = [member for member in wheel.elfs if not member.startswith(f"{wheel.data_dir}/")]
    if wheel.root_is_purelib and in_root:
        yield Hit(
            message="`Root-Is-Purelib: true`, but the root holds ELF objects",
            member=f"{wheel.dist_info}/WHEEL",
            notes=(f"such as `{in_root[0]}`",),
            hint="`wheelfix repair` sets it to `false`",
            fix=Fix(title="call the root what it is", edits=(SetRootIsPurelib(value=False),)),
        )


RULES = (record_mismatch, stale_signature, purelib_with_elf)
