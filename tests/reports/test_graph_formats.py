"""`wheelfix explain`: graphs, formats, the page in a browser, the command."""

import json
import re
import subprocess
from pathlib import Path
from typing import Any

import pytest

from tests.support.browser import browsed, needs_chromium
from tests.support.build import make_wheel, shared_object
from tests.support.tools import needs
from tests.support.values import elf, wheel, world_on
from wheelfix.analysis.graph import Graph, graph_of_wheel
from wheelfix.analysis.world import Provenance
from wheelfix.cli.app import run
from wheelfix.reports.graph_formats import (
    dot,
    graph_value,
    mermaid,
)
from wheelfix.reports.graph_page import page
from wheelfix.wheel.model import Wheel

HOSTILE = 'lib"\\]-->x|</script><script>alert(1)</script>\x1b[2J\n%%{init}&amp;.so'


def graph(subject: Wheel, target: str = "glibc:2.28") -> Graph:
    return graph_of_wheel(subject, world_on(subject, target))


def before() -> Wheel:
    return wheel({"p/a.so": elf("libx.so.1", module_hooks=("PyInit_a",)), "p/b.so": elf()})


def after() -> Wheel:
    vendored = "libx-0a1b2c3d.so.1"
    return wheel(
        {
            "p/a.so": elf(vendored, module_hooks=("PyInit_a",), rpath="$ORIGIN/../demo.libs"),
            "p/b.so": elf(),
            f"demo.libs/{vendored}": elf("libz.so.1", soname=vendored),
        },
        name="demo-1.0-cp311-cp311-manylinux_2_28_x86_64.whl",
    )


def hostile() -> Graph:
    return graph(wheel({"p/a.so": elf(HOSTILE), f"p/{HOSTILE}": elf(soname="x", rpath=HOSTILE)}))


# --- The graph ------------------------------------------------------------------------------------


def test_the_graph_has_dependents_and_providers() -> None:
    found = graph(after())
    assert {node.id: (node.provenance, node.role, node.is_root) for node in found.nodes} == {
        "p/a.so": (Provenance.WHEEL, "module", True),
        "p/b.so": (Provenance.WHEEL, "library", True),
        "demo.libs/libx-0a1b2c3d.so.1": (Provenance.WHEEL, "library", False),
        "libc.so.6": (Provenance.PLATFORM, "library", False),
        "libz.so.1": (Provenance.PLATFORM, "library", False),
    }
    edges = {(e.source, e.name): (e.target, e.how) for e in found.edges}
    assert edges["p/a.so", "libx-0a1b2c3d.so.1"] == (
        "demo.libs/libx-0a1b2c3d.so.1",
        "rpath $ORIGIN/../demo.libs",
    )
    assert edges["demo.libs/libx-0a1b2c3d.so.1", "libz.so.1"] == (
        "libz.so.1",
        "platform glibc:2.28",
    )
    assert [node.id for node in found.vendored] == ["demo.libs/libx-0a1b2c3d.so.1"]
    assert not found.missing
    assert [node.id for node in graph(before()).missing] == ["libx.so.1"]


def test_a_library_that_is_not_loaded_is_not_what_is_needed_by_its_name() -> None:
    other = {"libx.so": elf(soname="libx.so"), "libz.so.1": elf(soname="libz.so.1")}
    found = graph(wheel({**other, "p/a.so": elf("libx.so", "libz.so.1")}))
    assert [(node.id, node.name) for node in found.missing] == [("missing/libx.so", "libx.so")]
    targets = {edge.name: (edge.given_by, edge.target) for edge in found.edges}
    assert targets["libx.so"] == (Provenance.MISSING, "missing/libx.so")
    assert targets["libz.so.1"] == (Provenance.PLATFORM, "platform/libz.so.1")
    assert not {*other} & {edge.target for edge in found.edges}


def test_the_graph_has_objects_that_only_need_each_other() -> None:
    found = graph(
        wheel(
            {
                "p/libx.so": elf("liby.so", soname="libx.so", rpath="$ORIGIN"),
                "p/liby.so": elf("libx.so", soname="liby.so", rpath="$ORIGIN"),
            }
        )
    )
    assert {(e.source, e.target) for e in found.edges} >= {
        ("p/libx.so", "p/liby.so"),
        ("p/liby.so", "p/libx.so"),
    }


def test_an_edge_lists_the_changes_in_other_install_schemes() -> None:
    plug = elf("libr.so", rpath="$ORIGIN/../lib/python3.11/site-packages/p")
    objects = {"demo-1.0.data/data/share/libplug.so": plug, "p/libr.so": elf(soname="libr.so")}
    found = graph(wheel(objects))
    (edge,) = [edge for edge in found.edges if edge.name == "libr.so"]
    assert any("not found if installed by" in text and "target-pip" in text for text in edge.varies)


# --- Formats --------------------------------------------------------------------------------------


def test_mermaid_escapes_names() -> None:
    text = mermaid([hostile(), hostile()])
    assert text.startswith("flowchart LR\n")
    for line in text.splitlines():
        assert re.fullmatch(
            r'flowchart LR|end|subgraph g\d\["[^"<>&\\|%{}]*"\]'
            r'|  g\d+n\d+\["[^"&\\|%{}]*"\]:::\w+'
            r'|  g\d+n\d+ (-->|-\.->)\|"[^"<>&\\|%{}]*"\| g\d+n\d+'
            r"|classDef \w+ fill:#\w+,stroke:#\w+,color:#\w+",
            line,
        ), line
        assert "<" not in line.replace("<br>", "")


def test_dot_escapes_names() -> None:
    text = dot([hostile()])
    for line in text.splitlines():
        quoted = re.sub(r'"(?:[^"\\]|\\.)*"', "Q", line)
        assert '"' not in quoted, line
        assert not re.search(r"script|alert|init", quoted), line


@needs("dot")
def test_graphviz_draws_every_node_and_edge_of_hostile_names() -> None:
    shown = hostile()
    done = subprocess.run(
        ["dot", "-Tsvg"], input=dot([shown]), text=True, check=True, capture_output=True
    )
    assert done.stdout.count('class="node"') == len(shown.nodes)
    assert done.stdout.count('class="edge"') == len(shown.edges)
    assert "<script" not in done.stdout


def test_json_has_the_whole_graph() -> None:
    value = graph_value(graph(after()))
    assert json.loads(json.dumps(value)) == value
    assert {"wheel", "target", "installed", "nodes", "edges"} == set(value)


def test_the_page_is_one_file_whose_names_cannot_become_markup() -> None:
    text = page([hostile()])
    assert text.count("</script>") == 2
    assert "alert(1)</script>" not in text
    assert "http" not in text.replace("http://www.w3.org/2000/svg", "").replace("http-equiv", "")
    assert "default-src 'none'; style-src 'sha256-" in text
    assert "unsafe-inline" not in text
    assert not re.search(r"innerHTML|outerHTML|insertAdjacent|document\.write|eval\(", text)
    data = re.search(r'id="data">(.*?)</script>', text)
    assert data
    (value,) = json.loads(data[1])["graphs"]
    assert set(value.pop("labels")) == {node.id for node in hostile().nodes}
    assert value == graph_value(hostile())
    assert "@@" not in text


def test_the_page_shows_names_without_hash_and_release() -> None:
    data = re.search(r'id="data">(.*?)</script>', page([graph(after())]))
    assert data
    assert json.loads(data[1])["graphs"][0]["labels"] == {
        "p/a.so": "p/a",
        "p/b.so": "b.so",
        "demo.libs/libx-0a1b2c3d.so.1": "libx.so.1",
        "libc.so.6": "libc.so.6",
        "libz.so.1": "libz.so.1",
    }


@pytest.mark.slow
@needs_chromium
def test_the_page_works_in_a_browser(tmp_path: Path) -> None:
    shown = graph(after())
    dom, console = browsed(page([shown, graph(before())]), tmp_path, "#p%2Fa.so")
    assert not console
    assert dom.count('class="node') == len(shown.nodes)
    assert re.search(r'class="node root chosen"[^>]*data-id="p/a.so"', dom)
    assert "[rpath $ORIGIN/../demo.libs]" in dom
    assert f"<h3>needs ({sum(edge.source == 'p/a.so' for edge in shown.edges)})</h3>" in dom


@pytest.mark.slow
@needs_chromium
def test_hostile_names_are_text_in_a_browser(tmp_path: Path) -> None:
    dom, console = browsed(page([hostile()]), tmp_path)
    assert not console
    assert dom.count("<script") == 2
    assert "&lt;/script&gt;&lt;script&gt;alert(1)" in dom


# --- The commands ---------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def wheels(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """A wheel whose library is missing, and one that has it."""
    folder = tmp_path_factory.mktemp("wheels")
    library = shared_object(folder / "libx.so.1", soname="libx.so.1", libc=False)
    source = "int f(void){return 1;}"
    user = shared_object(folder / "a.so", source, needed=[library], runpath="$ORIGIN", libc=False)
    bad = make_wheel(folder / "bad", files={"p/__init__.py": b"", "p/a.so": user})
    files: dict[str, Any] = {"p/__init__.py": b"", "p/a.so": user, "p/libx.so.1": library}
    return bad, make_wheel(folder / "good", files=files)


def ran(capsys: pytest.CaptureFixture[str], *arguments: str | Path) -> tuple[int, str, str]:
    code = run([str(argument) for argument in arguments])
    said = capsys.readouterr()
    return code, said.out, said.err


def test_explain_exits_with_1_if_something_is_missing(
    wheels: tuple[Path, Path], capsys: pytest.CaptureFixture[str]
) -> None:
    bad, good = wheels
    code, out, _ = ran(capsys, "explain", bad, "p/a.so")
    assert (code, "libx.so.1  [not found]" in out) == (1, True)
    code, out, _ = ran(capsys, "explain", good, "p.a")
    assert (code, "libx.so.1 => p/libx.so.1  [runpath $ORIGIN]" in out) == (0, True)
    assert ran(capsys, "explain", bad)[0] == 1
    code, out, _ = ran(capsys, "explain", good)
    assert (code, "p/a.so: 1 from the wheel  ok" in out) == (0, True)
    code, out, _ = ran(capsys, "explain", bad, "libx.so.1")
    assert (code, "for `p/a.so`" in out) == (1, True)


def test_explain_predicts_the_effect_of_ld_library_path_and_of_libraries_loaded_before(
    wheels: tuple[Path, Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    bad, good = wheels
    fake = shared_object(tmp_path / "libx.so.1", soname="libx.so.1", libc=False)
    code, out, _ = ran(capsys, "explain", good, "p.a", "--env", f"LD_LIBRARY_PATH={tmp_path}")
    assert (code, f"=> {fake}  [LD_LIBRARY_PATH {tmp_path}]" in out) == (0, True)
    other = make_wheel(
        tmp_path, name="other", files={"q/__init__.py": b"", "q/libx.so.1": fake.read_bytes()}
    )
    code, out, _ = ran(capsys, "explain", bad, "p.a", "--after", other)
    assert (code, f"=> {other.name}!q/libx.so.1  [already loaded before]" in out) == (0, True)
    assert ran(capsys, "explain", bad, "p.a", "--with", other)[0] == 1
    code, out, _ = ran(
        capsys, "explain", bad, "p.a", "--after", f"{other}!q/libx.so.1", "--output-format=json"
    )
    value = json.loads(out)
    assert value["version"] == 1
    (one,) = value["explanations"]
    assert one["ok"]
    assert one["requests"][1]["given_by"] == "other wheel"


def test_why_not_answers_in_words_and_json(
    wheels: tuple[Path, Path], capsys: pytest.CaptureFixture[str]
) -> None:
    _, good = wheels
    code, out, _ = ran(capsys, "explain", good, "p.a", "--why-not", "p/libx.so.1")
    assert (code, out.startswith("it is loaded: p/libx.so.1")) == (0, True)
    out = ran(
        capsys, "explain", good, "p/libx.so.1", "--why-not", "p/a.so", "--output-format=json"
    )[1]
    assert json.loads(out)["why_not"][0]["loaded"] is False


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["GOOD", "nothing"], "no object is or needs `nothing`"),
        (["GOOD", "p.aa"], "did you mean `p.a`?"),
        (["p.a"], "name the wheels first, or with --site the environment"),
        (["GOOD", "p.a", "more"], "name the wheels first"),
        (["GOOD", "p.a", "--target", "beos"], "unknown target `beos`"),
        (["GOOD", "p.a", "--scheme", "none"], "never installed with the scheme `none`"),
        (["GOOD", "p.a", "--env", "LD_PRELOAD=x"], "only LD_LIBRARY_PATH"),
        (["GOOD", "p.a", "--env", "PATH"], "is not an assignment"),
        (["GOOD", "p.a", "--after", "none"], "`--after none`"),
        (["GOOD", "p.a", "--why-not", "none"], "is named `none`"),
        (["GOOD", "--why-not", "p.a"], "--why-not needs"),
        (["none.whl"], "No such file"),
        (["--site", "none", "x"], "is not a directory"),
        (["--site", ".", "--scheme", "venv"], "is for wheels"),
    ],
)
def test_contradictory_arguments_are_refused(
    arguments: list[str],
    message: str,
    wheels: tuple[Path, Path],
    capsys: pytest.CaptureFixture[str],
) -> None:
    given = [str(wheels[1]) if argument == "GOOD" else argument for argument in arguments]
    code, out, err = ran(capsys, "explain", *given)
    assert (code, out) == (2, "")
    assert message in err
    assert "internal error" not in err


def test_explain_writes_every_format(
    wheels: tuple[Path, Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    bad, good = wheels
    assert ran(capsys, "explain", bad, "--output-format", "dot")[0] == 1
    starts = {"mmd": "flowchart LR", "dot": "digraph", "html": "<!DOCTYPE html>", "json": "{"}
    for suffix, start in starts.items():
        output = tmp_path / f"graph.{suffix}"
        assert ran(capsys, "explain", good, "-o", output) == (0, "", "")
        assert output.read_text().startswith(start)
    code, _, err = ran(capsys, "explain", good, "-o", tmp_path / "graph.svg")
    assert (code, "there is no format for `.svg`" in err) == (2, True)
    code, _, err = ran(capsys, "explain", good, "-o", tmp_path / "none/x.html")
    assert (code, "cannot write" in err) == (2, True)
