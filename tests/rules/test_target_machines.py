"""What target machines lack."""

import pytest

from tests.support.values import elf, findings, wheel
from wheelfix.elf.model import VersionNeed
from wheelfix.rules.findings import Severity
from wheelfix.rules.platform_tag import tag_not_met
from wheelfix.rules.target_machines import target_lacks_version


@pytest.mark.parametrize(
    ("target", "version", "severity"),
    [
        ("debian:12", "GLIBC_ABI_GNU2_TLS", Severity.ERROR),
        ("glibc:2.39", "GLIBC_ABI_GNU2_TLS", Severity.WARNING),
        ("glibc:2.43", "GLIBC_ABI_GNU2_TLS", None),
        ("rhel:8", "GLIBC_ABI_DT_RELR", Severity.ERROR),
        ("debian:12", "GLIBC_ABI_DT_RELR", None),
        ("debian:12", "GLIBC_ABI_UNHEARD_OF", Severity.WARNING),
        ("debian:12", "GLIBC_PRIVATE", None),
    ],
)
def test_a_version_without_a_number_is_missing_or_depends_on_the_update(
    target: str, version: str, severity: Severity | None
) -> None:
    subject = wheel({"demo/m.so": elf(verneed=(VersionNeed("libc.so.6", (version,)),))})
    found = findings(target_lacks_version, subject, target=(target,))
    assert [finding.severity for finding in found] == ([] if severity is None else [severity])
    if "TLS" in version:
        assert all("-mtls-dialect=gnu" in (finding.hint or "") for finding in found)


@pytest.mark.parametrize(
    ("version", "is_missing"),
    [("CXXABI_FLOAT128", False), ("CXXABI_TM_1", False), ("GLIBCXX_LDBL_3.4.99", True)],
)
def test_versions_of_the_compiler_have_their_numbers(version: str, *, is_missing: bool) -> None:
    subject = wheel({"demo/m.so": elf(verneed=(VersionNeed("libstdc++.so.6", (version,)),))})
    assert bool(findings(target_lacks_version, subject, target=("debian:12",))) == is_missing


def test_descriptors_of_tls_have_their_option_where_the_tag_forbids_them() -> None:
    need = VersionNeed("libc.so.6", ("GLIBC_ABI_GNU2_TLS",))
    name = "demo-1.0-cp311-cp311-manylinux_2_28_x86_64.whl"
    subject = wheel({"demo/m.so": elf(verneed=(need,))}, name=name)
    (finding,) = findings(tag_not_met, subject)
    assert finding.hint == "compile with `-mtls-dialect=gnu`"
