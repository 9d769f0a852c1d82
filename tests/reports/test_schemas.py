"""JSON reports against the JSON schemas that are shipped."""

import copy
import json
import os
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, cast

import pytest

from tests.support.build import extension, make_wheel, shared_object
from tests.support.schemas import errors, schema_of
from wheelfix.cli.app import run
from wheelfix.loader.load_values import SearchOutcome
from wheelfix.trace import report as trace_report
from wheelfix.trace.run import trace

TAG = f"cp3{sys.version_info.minor}-cp3{sys.version_info.minor}-linux_x86_64"
REPORTS = ("repair", "show", "why", "explain", "trace", "verify")


@pytest.fixture(scope="module")
def wheels(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """A wheel whose library is missing and whose code searches PATH, and a sound one."""
    folder = tmp_path_factory.mktemp("wheels")
    library = shared_object(folder / "libx.so.1", "int one(void){return 1;}", soname="libx.so.1")
    module = extension(folder / "a.so", "a", needed=[library], calls=["one"], runpath="$ORIGIN")
    code = (
        "import ctypes, os\n"
        "def find():\n"
        "    places = os.environ['PATH'].split(':') + [os.path.dirname(__file__)]\n"
        "    return [ctypes.CDLL(os.path.join(place, 'a.so')) for place in places]\n"
    )
    bad: dict[str, Any] = {"p/__init__.py": code, "p/a.so": module}
    return (
        make_wheel(folder / "bad", tag=TAG, files=bad),
        make_wheel(folder / "good", tag=TAG, files={**bad, "p/libx.so.1": library}),
    )


def said(capsys: pytest.CaptureFixture[str], *arguments: str | Path) -> Any:
    code = run([str(argument) for argument in arguments])
    out = capsys.readouterr().out
    assert code in {0, 1}
    return json.loads(out)


def test_repair(
    wheels: tuple[Path, Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    bad, good = wheels
    command = ("repair", "--output-format=json", "--library-path", str(good.parent.parent))
    for number, options in enumerate(((), ("--dry-run",))):
        report = said(capsys, *command, "-w", tmp_path / str(number), *options, bad)
        assert errors("repair", report) == []
        (repaired,) = report["wheels"]
        assert [library["original_name"] for library in repaired["grafted"]] == ["libx.so.1"]
        assert repaired["grafted"][0]["needed_by"] == ["p/a.so"]
        assert (repaired["output"] is None) == bool(options)
    assert said(capsys, *command, "-w", tmp_path, good)["wheels"][0]["grafted"] == []


def test_show(wheels: tuple[Path, Path], capsys: pytest.CaptureFixture[str]) -> None:
    report = said(capsys, "show", "--output-format=json", *wheels)
    assert errors("show", report) == []
    bad, good = report["wheels"]
    assert [(e["name"], e["needed_by"]) for e in bad["expected"] if e["from"] == "missing"] == [
        ("libx.so.1", ["p/a.so"])
    ]
    assert not [e for e in good["expected"] if e["from"] == "missing"]
    assert {entry["member"]: entry["role"] for entry in good["objects"]} == {
        "p/a.so": "module",
        "p/libx.so.1": "library",
    }


def test_why(wheels: tuple[Path, Path], capsys: pytest.CaptureFixture[str]) -> None:
    report = said(capsys, "why", "--output-format=json", *wheels, "libc.so.6")
    assert errors("why", report) == []
    for wheel, library in zip(wheels, report["libraries"], strict=True):
        assert library["wheel"] == wheel.name
        assert (library["from"], library["would_be_grafted"]) == ("platform", False)


def test_explain(wheels: tuple[Path, Path], capsys: pytest.CaptureFixture[str]) -> None:
    bad, good = wheels
    for arguments in (
        (good, "p.a"),
        (bad, "p.a", "--env", "PATH=/nowhere"),
        (bad,),
        (bad, "libx.so.1"),
        (good, "p.a", "--after", "p/libx.so.1"),
    ):
        report = said(capsys, "explain", "--output-format=json", *arguments)
        assert errors("explain", report) == []
        assert report["explanations"] or report["asked_for"]
    several = said(capsys, "explain", "--output-format=json", good.parent, bad.parent, "p.a")
    assert [found["wheel"] for found in several["explanations"]] == [good.name, bad.name]
    answer = said(
        capsys, "explain", "--output-format=json", good, "p.a", "--why-not", "p/libx.so.1"
    )
    assert errors("explain", answer) == []
    assert answer["why_not"]


def test_every_outcome_of_a_candidate_is_in_the_schema() -> None:
    said = schema_of("explain")["$defs"]["candidate"]["properties"]["outcome"]["enum"]
    assert set(said) == {outcome.value for outcome in SearchOutcome}


def test_trace(tmp_path: Path) -> None:
    inner = shared_object(tmp_path / "libi.so", "int one(void){return 1;}", soname="libi.so")
    outer = shared_object(
        tmp_path / "libo.so",
        "int one(void); int two(void){return one();}",
        needed=[inner],
        runpath="$ORIGIN",
    )
    code = (
        f"import ctypes, os; ctypes.CDLL({str(outer)!r})\n"
        "if not os.fork():\n    ctypes.CDLL('libnone.so')\nos.wait()"
    )
    environ = {"PATH": os.environ["PATH"], "LD_LIBRARY_PATH": str(tmp_path), "LD_BIND_NOW": "1"}
    seen = trace([sys.executable, "-c", code], environ, symbols=["one"])
    report = json.loads(json.dumps(trace_report.as_json(seen)))
    assert errors("trace", report) == []
    assert any(process["bindings"] for process in report["processes"])
    assert any(process["missed"] for process in report["processes"])


def test_verify(wheels: tuple[Path, Path], capsys: pytest.CaptureFixture[str]) -> None:
    report = said(capsys, "verify", "--output-format=json", *wheels)
    assert errors("verify", report) == []
    assert [result["failed"] for result in report["results"]] == [True, False]


@pytest.mark.parametrize("command", [("show",), ("why", "libx.so.1"), ("verify",)])
def test_a_wheel_that_cannot_be_read_is_in_the_report_of_several(
    command: tuple[str, ...], wheels: tuple[Path, Path], capsys: pytest.CaptureFixture[str]
) -> None:
    name, *library = command
    paths = ["gone-1-py3-none-any.whl", str(wheels[1]), *library]
    assert run([name, "--output-format=json", *paths]) == 2
    report = json.loads(capsys.readouterr().out)
    assert errors(name, report) == []
    assert [error["wheel"] for error in report["errors"]] == paths[:1]
    assert run([name, "--output-format=json", *paths[:1], *library]) == 2
    alone = json.loads(capsys.readouterr().out)
    assert alone["error"]["message"] == report["errors"][0]["message"]


def test_the_schemas_refuse_unknown_and_missing_keys(
    wheels: tuple[Path, Path], capsys: pytest.CaptureFixture[str]
) -> None:
    """Add a key to, and remove one from, every object of a real report."""
    report = said(capsys, "explain", "--output-format=json", wheels[1], "p.a")
    places = list(_objects(report))
    assert len(places) > 10
    for place in places:
        more, fewer = copy.deepcopy(report), copy.deepcopy(report)
        _at(more, place)["surplus"] = 1
        _at(fewer, place).popitem()
        assert errors("explain", more) != []
        assert errors("explain", fewer) != [] or place == ()


@pytest.mark.parametrize("name", REPORTS)
def test_every_key_is_defined_where_it_is_used(name: str) -> None:
    schema = schema_of(name)
    used = {table["$ref"].removeprefix("#/$defs/") for table in _dicts(schema) if "$ref" in table}
    assert used == set(schema.get("$defs", {}))
    closed = [table for table in _dicts(schema) if "properties" in table]
    assert all(table["additionalProperties"] is False for table in closed)


def _objects(value: Any, place: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    if isinstance(value, dict):
        yield place
    for key, item in _items(value):
        yield from _objects(item, (*place, key))


def _dicts(value: Any) -> Iterator[dict[str, Any]]:
    if isinstance(value, dict):
        yield cast("dict[str, Any]", value)
    for _, item in _items(value):
        yield from _dicts(item)


def _items(value: Any) -> Iterator[tuple[Any, Any]]:
    if isinstance(value, dict):
        yield from cast("dict[str, Any]", value).items()
    if isinstance(value, list):
        yield from enumerate(cast("Sequence[Any]", value))


def _at(value: Any, place: tuple[Any, ...]) -> Any:
    for key in place:
        value = value[key]
    return value
