"""What target machines lack."""

import os
from pathlib import Path

import pytest

import wheelfix
from tests.support.build import make_wheel, shared_object, stub_library_with_versions
from tests.support.values import elf, findings, wheel
from wheelfix.elf.model import Machine, Segment, VersionNeed
from wheelfix.rules.findings import Severity
from wheelfix.rules.loader_acceptance import small_alignment
from wheelfix.rules.target_machines import target_lacks_version, target_page_size


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


def test_descriptors_of_tls_have_their_option_where_the_tag_forbids_them(tmp_path: Path) -> None:
    versions = {"GLIBC_2.2.5": ["f"], "GLIBC_ABI_GNU2_TLS": ["h"]}
    libc = stub_library_with_versions(tmp_path / "libc.so.6", "libc.so.6", versions)
    calls = "int h(void); int g(void) { return h(); }"
    one = shared_object(tmp_path / "libone.so", calls, needed=[libc], libc=False)
    tag = f"py3-none-manylinux_2_39_{os.uname().machine}"
    report = wheelfix.check(make_wheel(tmp_path, tag=tag, files={"demo/libone.so": one}))
    hints = [finding.hint for finding in report.findings if finding.code == "WF801"]
    assert hints == ["compile with `-mtls-dialect=gnu`"]


def test_a_segment_that_is_shifted_by_a_small_page_fits_no_large_ones() -> None:
    """glibc 2.35 and newer look at the address and the offset alone, whatever p_align says."""
    code = Segment(
        type=1, flags=5, offset=0x1000, vaddr=0x2000, paddr=0, filesz=1, memsz=1, align=0x10000
    )
    subject = wheel({"demo/m.so": elf(machine=Machine.AARCH64, segments=(code,))})
    assert [found.code for found in findings(small_alignment, subject)] == ["WF605"]
    found = findings(target_page_size, subject, target=("page:64k",))
    assert [one.code for one in found] == ["WF814"]
    assert not findings(target_page_size, subject, target=("page:4k",))
