"""The setting `provider`."""

import pytest

from tests.support.providers import BLAS
from wheelfix.cli.config.values import settings_from
from wheelfix.errors import SettingsError
from wheelfix.settings import ProviderSetting, Settings


def test_a_table_is_complete_and_a_text_is_looked_up() -> None:
    table = {
        "requirement": "nvidia-cublas-cu12>=12.4",
        "libraries": ["libcublas*.so.*"],
        "directory": "nvidia/cublas/lib",
    }
    below = settings_from({"provider": [table]}, Settings(), "file")
    assert below.provider == (BLAS,)
    above = settings_from({"provider": ["x.whl"]}, below, "flags")
    assert above.provider == (BLAS, ProviderSetting(source="x.whl"))


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
