"""What objects inherit of the search paths of those that need them."""

from collections.abc import Mapping

import pytest

from tests.support.effort import takes_at_most
from tests.support.values import elf
from wheelfix.analysis.lddtree_search import search_entries
from wheelfix.elf.model import Elf


def entries(objects: Mapping[str, Elf]) -> Mapping[str, tuple[str, ...]]:
    return search_entries(objects, {name: name for name in objects})


def test_an_object_has_its_own_entries_first_and_those_of_all_that_need_it() -> None:
    found = entries(
        {
            "a": elf("b", "c", rpath="/a:$ORIGIN:/common"),
            "b": elf("c", rpath="/b:/common"),
            "c": elf("b", rpath="/c"),  # a circle
            "alone": elf(rpath="$ORIGIN"),
        }
    )
    assert found["a"] == ("/a", "/common")
    assert found["b"][:2] == ("/b", "/common")
    assert found["c"][0] == "/c"
    assert set(found["b"]) == set(found["c"]) == {"/a", "/b", "/c", "/common"}
    assert found["alone"] == ()


@pytest.mark.parametrize("shape", ["chain", "circle"])
def test_the_time_for_many_objects_grows_with_the_size_of_the_result(shape: str) -> None:
    def work(size: int) -> object:
        names = [f"l{n}" for n in range(size)]
        needed = names if shape == "circle" else []
        objects = {
            name: elf(*(needed or names[n + 1 : n + 2]), rpath=f"/{n}")
            for n, name in enumerate(names)
        }
        return entries(objects)

    assert takes_at_most(8, lambda: work(400), lambda: work(200))
