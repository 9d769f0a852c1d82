"""The versions that wheelfix asks for while it runs are those of its own requirements."""

from importlib.metadata import requires

from packaging.requirements import Requirement
from packaging.version import Version

from wheelfix.host import policy_tables


def minimum(distribution: str) -> Version:
    requirements = map(Requirement, requires("wheelfix") or ())
    wanted = next(requirement for requirement in requirements if requirement.name == distribution)
    return next(Version(bound.version) for bound in wanted.specifier if bound.operator == ">=")


def test_the_hint_names_the_auditwheel_of_the_requirements() -> None:
    assert f"'auditwheel>={minimum('auditwheel')}'" in policy_tables.INSTALL_HINT
