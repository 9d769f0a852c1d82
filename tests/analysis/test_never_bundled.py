"""Libraries that must come from the user's machine."""

from wheelfix.analysis.never_bundled import reason_not_to_bundle


def test_other_libraries_may_be_bundled() -> None:
    for name in (
        "libcudart.so.12",
        "libcublas.so.12",
        "libGLU.so.1",
        "libdrm.so.2",
        "libX11alike.so",
        "libxcb.so.1",
    ):
        assert reason_not_to_bundle(name) is None
