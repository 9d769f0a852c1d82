"""Which provider serves an entry of DT_NEEDED."""

import pytest

from tests.support.values import elf, wheel
from wheelfix.providers.model import Folder, Provided
from wheelfix.providers.provider_uses import provider_uses
from wheelfix.wheel.model import Key


@pytest.mark.parametrize(
    ("member", "entry"),
    [
        ("demo/_core.so", "$ORIGIN/../two/lib"),
        ("demo/_core.so", "${ORIGIN}/../two/lib"),
        ("_core.so", "${ORIGIN}/two/lib"),
        ("demo/_core.so", "/usr/lib/python3/dist-packages/two/lib"),
    ],
)
def test_of_two_providers_it_is_the_one_that_the_search_path_leads_to(
    member: str, entry: str
) -> None:
    one, two = (
        Provided(requirement=name, folders=(Folder(Key.PLATLIB, f"{name}/lib", ("libx.so.1",)),))
        for name in ("one", "two")
    )
    subject = wheel({member: elf("libx.so.1", rpath=entry)})
    (use,) = provider_uses(subject, (one, two))
    assert use.provider is two
