"""The supported versions and the documentation site are those of pyproject.toml."""

import tomllib
from email.message import Message
from importlib.metadata import PackageNotFoundError
from pathlib import Path

import pytest

from wheelfix.system.wheelfix_metadata import documentation_site, is_supported


@pytest.mark.parametrize(
    ("version", "supported"),
    [("6.7.1", False), ("6.8.2", True), ("6.9.0rc1", True), ("7.0", False), ("nonsense", False)],
)
def test_a_release_of_auditwheel_is_supported(version: str, *, supported: bool) -> None:
    assert is_supported("auditwheel", version) is supported


def test_patchelf_has_no_upper_limit() -> None:
    assert not is_supported("patchelf", "0.18.0")
    assert is_supported("patchelf", "1.0")


def test_the_site_is_the_projects_own() -> None:
    text = (Path(__file__).parents[2] / "pyproject.toml").read_text(encoding="utf-8")
    urls = tomllib.loads(text)["project"].get("urls", {})
    assert documentation_site().rstrip("/") == urls.get("Documentation", "").rstrip("/")


@pytest.mark.parametrize(
    ("url", "site"),
    [
        ("Documentation, https://example.org/docs", "https://example.org/docs/"),
        ("Documentation, https://example.org/", "https://example.org/"),
        ("Source, https://example.org/", ""),
    ],
)
def test_the_site_ends_with_a_slash(monkeypatch: pytest.MonkeyPatch, url: str, site: str) -> None:
    described = Message()
    described["Project-URL"] = url
    monkeypatch.setattr("importlib.metadata.metadata", {"wheelfix": described}.__getitem__)
    assert documentation_site() == site


def test_a_wheelfix_that_is_not_installed_has_no_site(monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(name: str) -> Message:
        raise PackageNotFoundError(name)

    monkeypatch.setattr("importlib.metadata.metadata", missing)
    assert documentation_site() == ""
