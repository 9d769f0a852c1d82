"""The view of a wheel that auditwheel analyses."""

from tests.support.many_objects import wheel_of
from wheelfix.elf.reader import read_elf
from wheelfix.host.policy_tables import read_policies
from wheelfix.pipelines.auditwheel_view import build_view


def test_objects_that_differ_in_nothing_that_auditwheel_inspects_are_shown_once() -> None:
    subject = wheel_of(40)
    _, members = build_view(subject, (), read_policies())
    shown = [name for name in members if name.startswith("e")]
    assert len(shown) < len(subject.elfs)
    stubs = [
        read_elf(memoryview(content), name)
        for name, content in members.items()
        if not name.endswith("RECORD")
    ]
    needed = {name for stub in stubs for name in stub.needed}
    assert {name for elf in subject.elfs.values() for name in elf.needed} <= needed
