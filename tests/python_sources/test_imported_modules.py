"""What sources import, and whether they go on without it."""

import pytest

from wheelfix.python_sources.imported_modules import failing_imports, module_name


@pytest.mark.parametrize(
    ("source", "found"),
    [
        ("try:\n import a.b\nexcept ImportError:\n pass", {"b": True, "": True}),
        ("try:\n import a\nexcept ValueError:\n pass", {"a": False, "": False}),
        ("try:\n import a\nexcept ImportError as e:\n raise X from e", {"a": False, "": False}),
        ("try:\n import a\nexcept:\n if x: raise\n else: sys.exit(1)", {"a": False, "": False}),
        ("try:\n import a\nexcept:\n with x:\n  raise", {"a": False, "": False}),
        ("try:\n import a\nexcept:\n with suppress(X):\n  raise", {"a": True, "": True}),
        ("try:\n import a\nexcept:\n if x: raise", {"a": True, "": True}),
        ("def f():\n try:\n  import a\n except:\n  if x: return\n  raise", {"a": True, "": True}),
        ("with suppress(ImportError):\n import a", {"a": True, "": True}),
        ("try:\n import a\nexcept:\n import b", {"a": True, "b": False, "": False}),
        ("try:\n import a\nexcept OSError:\n pass\nimport a", {"a": False, "": False}),
        (
            "try:\n if f:\n  def g():\n   from . import a\nexcept ImportError: pass",
            {"a": True, "": True},
        ),
        ("try:\n import a\nexcept* ImportError: pass", {"a": True, "": True}),
        ("try:\n import a\nexcept builtins.ImportError: pass", {"a": True, "": True}),
        ("try:\n import a\nexcept ERRORS: pass", {"a": True, "": True}),
        ("if typing.TYPE_CHECKING:\n import a\nelse: import b", {"b": False, "": False}),
        ("match x:\n case 1:\n  import a", {"a": False, "": False}),
        ("f(lambda: 1)", {}),
        ("print 1", None),
    ],
)
def test_an_import_in_a_try_may_fail(source: str, found: dict[str, bool] | None) -> None:
    assert failing_imports(source.encode()) == found


def test_blocks_may_be_nested_as_deeply_as_python_allows() -> None:
    blocks = "".join(f"{' ' * depth}if x:\n" for depth in range(95))
    assert failing_imports(f"{blocks}{' ' * 95}import a".encode()) == {"a": False, "": False}
    chain = "if x: pass\n" + "elif x: pass\n" * 900 + "else: import a"
    assert (failing_imports(chain.encode()) or {}).get("a", False) is False


def test_a_module_is_named_from_the_site_packages_that_it_is_in() -> None:
    below = "cmeel.prefix/lib/python3.11/site-packages/pinocchio/_p.abi3.so"
    assert module_name(below) == "pinocchio._p"
    assert module_name("pkg/site_packages/x.py") == "pkg.site_packages.x"
