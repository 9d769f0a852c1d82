"""The setting `provider`."""

from pathlib import Path

import pytest

from tests.support.providers import BLAS
from wheelfix.cli.config.values import settings_from
from wheelfix.errors import SettingsError
from wheelfix.host.setting_paths import below
from wheelfix.settings import ProviderSetting, Settings


def test_a_table_is_complete_and_a_text_is_looked_up() -> None:
    table = {
        "requirement": "nvidia-cublas-cu12>=12.4",
        "libraries": ["libcublas*.so.*"],
        "directory": "nvidia/cublas/lib",
    }
    lower = settings_from({"provider": [table]}, Settings(), "file")
    assert lower.provider == (BLAS,)
    above = settings_from({"provider": ["x.whl"]}, lower, "flags")
    assert above.provider == (BLAS, ProviderSetting(source="x.whl"))


def test_a_folder_that_is_called_like_a_distribution_is_named_as_a_path(tmp_path: Path) -> None:
    for name in ("torch", "libs"):
        (tmp_path / name).mkdir()
    for text, located in [
        ("torch", "torch"),
        ("torch>=2", "torch>=2"),
        ("./torch", f"{tmp_path}/./torch"),
        ("libs", f"{tmp_path}/libs"),
        ("absent", "absent"),
        ("auto", "auto"),
    ]:
        settings = Settings(provider=(ProviderSetting(source=text),))
        assert below(tmp_path, settings).provider[0].source == located, text


REFUSED: list[tuple[object, str]] = [
    ("x", "list of tables"),
    ([{}], "requirement"),
    ([{"requirement": ">=1"}], "is not a requirement"),
    ([{"requirement": "x", "library": ["a"]}], "no key"),
    ([{"requirement": "x", "libraries": ["a"]}], "both"),
    ([{"requirement": "x", "libraries": ["a"], "directory": "/x"}], "relative"),
    ([{"requirement": "x", "libraries": ["a"], "directory": "a/../b"}], "relative"),
    ([{"requirement": "x", "libraries": ["a"], "directory": "a", "scheme": "lib"}], "scheme"),
]


@pytest.mark.parametrize(("given", "word"), REFUSED)
def test_an_invalid_table_is_refused(given: object, word: str) -> None:
    with pytest.raises(SettingsError, match=word):
        settings_from({"provider": given}, Settings(), "file")
