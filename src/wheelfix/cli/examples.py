"""Examples for each command, which its help ends with.

They hold in a project with an unrepaired wheel in `dist`, the repaired one in `wheelhouse`, and
that installed in `.venv`.
"""

from collections.abc import Mapping
from typing import NamedTuple


class Example(NamedTuple):
    """A command line, and what it is for."""

    command: str
    purpose: str


EXAMPLES: Mapping[str, tuple[Example, ...]] = {
    "wheelfix": (
        Example("wheelfix check dist", "what is wrong with the wheels in dist?"),
        Example("wheelfix repair dist/*.whl", "write repaired wheels to wheelhouse"),
        Example("wheelfix verify wheelhouse/*.whl", "install and import them"),
    ),
    "repair": (
        Example("wheelfix repair dist/*.whl", "write repaired wheels to wheelhouse"),
        Example("wheelfix repair --dry-run dist/*.whl", "print the plan, and write nothing"),
        Example("wheelfix repair --exclude libfoo.so.1 -w out dist/*.whl", "do not graft libfoo"),
    ),
    "check": (
        Example("wheelfix check dist", "all wheels in a directory"),
        Example("wheelfix check --target debian:12,rhel:9 wheelhouse", "do they load there?"),
        Example("wheelfix check --output-format sarif -o report.sarif dist", "for a code host"),
    ),
    "diff": (
        Example("wheelfix diff wheelhouse/*.whl wheelhouse", "a wheel, or all of a folder"),
        Example("wheelfix diff --accept removed-export dist wheelhouse", "a break is intended"),
        Example("wheelfix diff --output-format markdown dist wheelhouse", "for a pull request"),
    ),
    "show": (
        Example("wheelfix show wheelhouse/*.whl", "tag, Pythons, bundled libraries"),
        Example("wheelfix show --target debian:12 dist/*.whl", "what Debian 12 provides of it"),
        Example("wheelfix show --output-format json dist/*.whl", "for programs"),
    ),
    "why": (
        Example("wheelfix why dist/*.whl libfoo.so.1", "would it be grafted, and why?"),
        Example("wheelfix why wheelhouse/*.whl libfoo", "the grafted copy, by its old name"),
        Example("wheelfix why --output-format json dist/*.whl libfoo.so.1", "for programs"),
    ),
    "explain": (
        Example("wheelfix explain wheelhouse/*.whl", "all extension modules and programs"),
        Example("wheelfix explain wheelhouse/*.whl demo._core", "one module, with all candidates"),
        Example("wheelfix explain --site .venv demo._core", "an ImportError in an environment"),
    ),
    "tree": (
        Example("wheelfix tree wheelhouse/*.whl", "as text"),
        Example("wheelfix tree -o tree.html wheelhouse/*.whl", "as a page for a browser"),
        Example("wheelfix tree dist/*.whl --after wheelhouse/*.whl", "before and after a repair"),
    ),
    "rule": (
        Example("wheelfix rule WF101", "one rule, by its code"),
        Example("wheelfix rule unused-needed", "or by its name"),
        Example("wheelfix rule --all", "a line for each rule"),
    ),
    "init": (
        Example("wheelfix init", "append the table to pyproject.toml"),
        Example("wheelfix init --stdout", "only print it"),
        Example("wheelfix init --stdout | grep -B2 prune-needed", "look up one setting"),
    ),
    "settings": (
        Example("wheelfix settings", "of a run in this directory"),
        Example("wheelfix settings dist/*.whl", "with the overrides for one wheel"),
        Example("wheelfix settings --schema >wheelfix.schema.json", "for an editor"),
    ),
    "trace": (
        Example("wheelfix trace .venv/bin/python -c 'import demo'", "every file that is loaded"),
        Example("wheelfix trace --symbol 'foo*' .venv/bin/python -c 'import demo'", "bindings"),
        Example("wheelfix trace --wheel wheelhouse/*.whl .venv/bin/python -m demo", "as expected?"),
    ),
    "verify": (
        Example("wheelfix verify wheelhouse/*.whl", "load and import all of it"),
        Example("wheelfix verify --deps --scheme venv,user wheelhouse/*.whl", "in two schemes"),
        Example("wheelfix verify --all-pythons wheelhouse/*.whl", "for each installed Python"),
    ),
}
"""The examples of each command by its name; those of the program come first."""
