"""The view of a wheel that auditwheel analyses."""

from tests.support.many_objects import wheel_of
from wheelfix.pipelines.auditwheel_view import build_view


def test_a_text_of_auditwheel_about_the_view_becomes_one_about_members() -> None:
    view = build_view(wheel_of(40), (), ())
    for place, members in view.names.items():
        if members:
            assert view.name_members(f"ELF file {place!r} requires") == (
                f"ELF file '{', '.join(members)}' requires"
            )
    assert view.name_members("in e3/libother.so, own7/libother.so") == (
        "in e3/libother.so, own7/libother.so"
    )
