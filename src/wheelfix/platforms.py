"""What the platform tags promise to be on every machine.

The names are the union of the library lists of PEP 513, 571, 599, 600 and 656 as auditwheel 6.8
carries them (policy/manylinux-policy.json, policy/musllinux-policy.json). They serve to tell a
library that the wheel must provide from one that may come from the system; which tag a wheel
deserves is auditwheel's to say.
"""

_MANYLINUX = frozenset({
    "libGL.so.1", "libICE.so.6", "libSM.so.6", "libX11.so.6", "libXext.so.6", "libXrender.so.1",
    "libanl.so.1", "libatomic.so.1", "libc.so.6", "libdl.so.2", "libexpat.so.1", "libgcc_s.so.1",
    "libglib-2.0.so.0", "libgobject-2.0.so.0", "libgthread-2.0.so.0", "libm.so.6", "libmvec.so.1",
    "libnsl.so.1", "libpthread.so.0", "libresolv.so.2", "librt.so.1", "libstdc++.so.6",
    "libutil.so.1", "libz.so.1",
})  # fmt: skip


def may_come_from_platform(name: str) -> bool:
    """Return whether some platform tag promises the library `name`, a DT_NEEDED entry."""
    return name in _MANYLINUX or name.startswith(("ld-linux", "ld64.so", "ld-musl-", "libc.musl-"))
