"""Whether the wheel bundles drivers, which must come from the user's machine."""

import posixpath
from collections.abc import Iterator

from wheelfix.analysis.never_bundled import reason_not_to_bundle
from wheelfix.loader.python_api import is_libpython
from wheelfix.providers.provider_uses import provider_of
from wheelfix.rules.context import Context
from wheelfix.rules.findings import Hit, Severity
from wheelfix.rules.rule import rule


@rule("WF825", "bundled-driver", Severity.WARNING)
def bundled_driver(context: Context) -> Iterator[Hit]:
    """Wheel bundles a library that belongs to a driver or the display of the machine.

    ## What it does
    Reports bundled libraries that must come from the user's machine: those of the NVIDIA driver,
    OpenGL dispatchers and drivers, GBM, libX11, and those that load RDMA drivers (libibverbs).
    `repair` never grafts them.

    ## Why is this bad?
    The copy does not match the kernel module, finds no driver, or has a second set of state in the
    process: `CUDA_ERROR_SYSTEM_DRIVER_MISMATCH`, a black window, a crash.

    ## Example
    `pkg.libs/libcuda-1a2b3c4d.so.1`, from a build container with a driver.

    ## Common causes
    - auditwheel grafts libraries that the platform tag does not allow. **Solution**: `wheelfix
      repair` of the wheel as it was built.
    - The build copies the library into the package. **Solution**: leave it out there.

    ## Fix safety
    Not fixed: the objects that need the library were already changed to need this copy. With
    `graft-drivers`, such libraries are grafted like any other.
    """
    for member, elf in context.wheel.elfs.items():
        name = posixpath.basename(member)
        reason = reason_not_to_bundle(name) or reason_not_to_bundle(elf.soname or "")
        if reason is not None and not elf.is_executable:
            yield Hit(
                message=f"bundles `{name}`: {reason}",
                member=member,
                hint="repair the wheel as it was built: a repair leaves drivers out"
                if context.settings.is_vendored(member, context.wheel)
                else "leave it out where the wheel is built: a repair grafts no drivers",
            )


def libraries_provided_elsewhere(context: Context) -> tuple[str, ...]:
    """Return the DT_NEEDED entries that others satisfy.

    These are a provider, the user's machine, its interpreter, and what METADATA requires, as far as
    is known; and the wheel itself, where an entry is a path.
    """
    return tuple(
        name
        for name in context.dependents
        if provider_of(name, context.providers) is not None
        or name in context.left.libraries
        or is_libpython(name)
        or name in context.found_by_path
        or (not context.settings.graft_drivers and reason_not_to_bundle(name) is not None)
    )
