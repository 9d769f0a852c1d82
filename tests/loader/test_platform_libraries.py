"""The libraries that platform tags promise."""

from wheelfix.host.policy_tables import read_policies
from wheelfix.loader.platform_libraries import MANYLINUX_LIBRARIES


def test_the_promised_libraries_are_those_of_auditwheels_policies() -> None:
    lists = [p.whitelist for p in read_policies() if p.name.startswith("manylinux")]
    assert frozenset[str]().union(*lists) == MANYLINUX_LIBRARIES
