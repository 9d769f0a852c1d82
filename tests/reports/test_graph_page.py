"""The HTML page of `wheelfix explain` in a browser: its layout, folds, marks and colors."""

import json
import random
import re
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple
from xml.etree import ElementTree as ET

import pytest

from tests.support.browser import browsed, evaluated, needs_chromium
from tests.support.many_objects import MISSING, wheel_of
from tests.support.values import elf, wheel, world_on
from wheelfix.analysis.graph import Graph, graph_of_wheel
from wheelfix.reports.graph_page import page
from wheelfix.wheel.model import Wheel

pytestmark = [pytest.mark.slow, needs_chromium]

FOLD_ABOVE = 60


def graph(subject: Wheel) -> Graph:
    return graph_of_wheel(subject, world_on(subject))


def repaired() -> list[Graph]:
    """A wheel whose library is missing, and its repair, which grafts it."""
    module = {"rpath": "$ORIGIN/../demo.libs", "module_hooks": ("PyInit_a",)}
    before = {"p/a.so": elf("libx.so.1", module_hooks=("PyInit_a",)), "p/b.so": elf()}
    grafted = "libx-0a1b2c3d.so.1"
    after = {
        "p/a.so": elf(grafted, **module),
        "p/b.so": elf(),
        f"demo.libs/{grafted}": elf(soname=grafted),
    }
    return [graph(wheel(before)), graph(wheel(after))]


# --- Geometry -------------------------------------------------------------------------------------


class Box(NamedTuple):
    x: float
    y: float
    width: float
    height: float

    def meets(self, other: "Box") -> bool:
        """Whether the insides of two boxes have a point in common."""
        return (
            self.x < other.x + other.width - 0.01
            and other.x < self.x + self.width - 0.01
            and self.y < other.y + other.height - 0.01
            and other.y < self.y + self.height - 0.01
        )


def pairs(values: Sequence[float]) -> Iterator[tuple[float, float]]:
    return zip(values[::2], values[1::2], strict=True)


def pieces(path: str) -> Iterator[Box]:
    """Yield for each piece of an edge a box that has all of it: of a curve that of its hull."""
    at = (0.0, 0.0)
    for command, numbers in re.findall(r"([MHC])([-\d. e]+)", path):
        values = [float(number) for number in numbers.split()]
        points = [(values[0], at[1])] if command == "H" else list(pairs(values))
        if command != "M":
            xs, ys = zip(at, *points, strict=True)
            yield Box(min(xs), min(ys) - 0.5, max(xs) - min(xs), max(ys) - min(ys) + 1)
        at = points[-1]


def overlaps(boxes: Sequence[Box], paths: Sequence[str]) -> list[object]:
    """Return the boxes that overlap, and the edges that run behind one."""
    lying = [(a, b) for number, a in enumerate(boxes) for b in boxes[:number] if a.meets(b)]
    hidden = [(p, b) for p in paths for piece in pieces(p) for b in boxes if piece.meets(b)]
    return [*lying, *hidden]


def test_the_geometry_sees_an_edge_behind_a_box() -> None:
    box = Box(10, 10, 20, 10)
    assert overlaps([box], ["M0 15 H40"])
    assert overlaps([box], ["M0 0 C20 0 20 30 40 30"])
    assert overlaps([box, Box(29, 19, 5, 5)], [])
    assert not overlaps([box, Box(10, 20, 5, 5)], ["M0 9 H40", "M30 15 H40 C50 15 50 0 60 0"])


def random_case(chance: random.Random) -> dict[str, Any]:
    """A graph with boxes of several sizes; it may have cycles."""
    number = chance.randint(1, 40)
    boxes = [
        {
            "id": f"n{n}",
            "width": chance.choice((160, 200, 620)),
            "height": chance.choice((30, 30, 42, 400)),
            "last": n > number * 0.85,
            "top": chance.choice((0, 0, 0, 1)),
        }
        for n in range(number)
    ]
    inner = [box["id"] for box in boxes if not box["last"]]
    arcs = {
        (source, target)
        for _ in range(chance.randint(0, 4 * number))
        if (source := chance.choice(inner)) != (target := chance.choice(boxes)["id"])
    }
    room = {"width": chance.choice((380, 1200)), "height": chance.choice((300, 800))}
    return {
        "boxes": boxes,
        "arcs": [{"source": source, "target": target} for source, target in sorted(arcs)],
        "room": room,
    }


def test_no_edge_runs_behind_a_box_in_random_graphs(tmp_path: Path) -> None:
    chance = random.Random(14)  # noqa: S311 - repeatable cases, no secrets
    cases = [random_case(chance) for _ in range(40)]
    expression = (
        f"{json.dumps(cases)}.map(c => {{ const {{places, paths, ...size}} = "
        "layout(c.boxes, c.arcs, c.room); return {...size, places: [...places], paths}; })"
    )
    for case, found in zip(cases, evaluated(page(repaired()), expression, tmp_path), strict=True):
        boxes = {name: Box(**place) for name, place in found["places"]}
        paths = [path["d"] for path in found["paths"]]
        assert set(boxes) == {box["id"] for box in case["boxes"]}
        assert not overlaps(list(boxes.values()), paths)
        for box in boxes.values():
            assert box.x >= 0
            assert box.y > -0.01
            assert box.x + box.width < found["width"] + 0.01
            assert box.y + box.height < found["height"] + 0.01
        for arc, path in zip(case["arcs"], paths, strict=True):
            numbers = [float(number) for number in re.findall(r"[-\d.e]+", path)]
            ends = {tuple(numbers[:2]), tuple(numbers[-2:])}
            for name in arc.values():
                box = boxes[name]
                touched = [
                    (x, y)
                    for x, y in ends
                    if min(abs(x - box.x), abs(x - box.x - box.width)) < 0.01
                    and box.y < y < box.y + box.height
                ]
                assert touched, (arc, path, box)


DRAWN = """({
  boxes: [...document.querySelectorAll("g.node")].filter(g => !g.matches(".inside")).map(g => {
    const {e, f} = g.transform.baseVal.consolidate().matrix, box = g.querySelector(".box");
    return [e, f, box.width.baseVal.value, box.height.baseVal.value];
  }),
  paths: [...document.querySelectorAll(".edge")].map(path => path.getAttribute("d")),
  names: [...document.querySelectorAll("g.node")].map(g => g.getAttribute("aria-label")),
  folds: document.querySelectorAll("g.fold").length,
  wide: document.documentElement.scrollWidth > innerWidth,
})"""


@pytest.mark.each_run("size1-500")
@pytest.mark.parametrize("width", [500, 1600])
@pytest.mark.parametrize("size", [(3, 12), (30, 12), (150, 12), (400, 12), (400, 200)])
def test_no_edge_is_drawn_behind_a_node(size: tuple[int, int], width: int, tmp_path: Path) -> None:
    objects, kinds = size
    shown = graph(wheel_of(objects, kinds=kinds))
    found = evaluated(page([shown]), DRAWN, tmp_path, width=width)
    assert not overlaps([Box(*box) for box in found["boxes"]], found["paths"])
    assert found["paths"]
    assert len(found["boxes"]) <= FOLD_ABOVE
    assert bool(found["folds"]) == (len(shown.nodes) > FOLD_ABOVE)
    assert not found["wide"]


# --- Folds ----------------------------------------------------------------------------------------


def alike(modules: int) -> Graph:
    """A graph of `modules` modules with the same needs, one with others, and their platform."""
    same = {
        f"p/m{n}.so": elf("libx.so", rpath="$ORIGIN", module_hooks=(f"PyInit_m{n}",))
        for n in range(modules)
    }
    other = elf(MISSING, module_hooks=("PyInit_other",))
    return graph(wheel({**same, "p/libx.so": elf(soname="libx.so"), "p/other.so": other}))


def test_more_than_sixty_objects_fold_by_their_needs(tmp_path: Path) -> None:
    at_limit, above = alike(FOLD_ABOVE - 4), alike(FOLD_ABOVE - 3)
    assert len(at_limit.nodes) == FOLD_ABOVE
    assert evaluated(page([at_limit]), DRAWN, tmp_path)["folds"] == 0
    found = evaluated(page([above]), DRAWN, tmp_path)
    assert found["folds"] == 1
    names = [name.partition(",")[0] for name in found["names"]]
    assert sorted(names) == ["57 modules", "libc.so.6", MISSING, "p/libx.so", "p/other.so"]


OPENED = f"""(() => {{
  const fold = document.querySelector("g.fold"), closed = {DRAWN};
  fold.dispatchEvent(new KeyboardEvent("keydown", {{key: "Enter", bubbles: true}}));
  const open = {DRAWN}, expanded = document.querySelector("g.fold").getAttribute("aria-expanded");
  const focus = document.activeElement === document.querySelector("g.fold");
  document.querySelector("g.fold").dispatchEvent(new MouseEvent("click", {{bubbles: true}}));
  return {{closed, open, expanded, focus, again: {DRAWN}}};
}})()"""


@pytest.mark.each_run("80")
@pytest.mark.parametrize(
    "made", [lambda: alike(80), lambda: graph(wheel_of(400, kinds=200))], ids=["80", "400"]
)
def test_a_fold_opens_and_closes(made: Callable[[], Graph], tmp_path: Path) -> None:
    found = evaluated(page([made()]), OPENED, tmp_path)
    assert (found["expanded"], found["focus"]) == ("true", True)
    assert len(found["open"]["boxes"]) == len(found["closed"]["boxes"])
    members = len(found["open"]["names"]) - len(found["closed"]["names"])
    assert f"{members} " in " ".join(found["open"]["names"])
    assert not overlaps([Box(*box) for box in found["open"]["boxes"]], found["open"]["paths"])
    assert found["again"] == found["closed"]


def test_the_node_of_the_address_is_shown_though_it_is_in_a_fold(tmp_path: Path) -> None:
    dom, console = browsed(page([alike(80)]), tmp_path, "#p%2Fm7.so")
    assert not console
    assert re.search(r'class="node root inside chosen"[^>]*data-id="p/m7.so"', dom)
    assert re.search(r"<h3>needs \(2\)</h3>", dom)


# --- Marks ----------------------------------------------------------------------------------------

CONTRASTS = """(() => {
  const linear = v => v <= .04045 ? v / 12.92 : ((v + .055) / 1.055) ** 2.4;
  const luminance = color => {
    const [r, g, b] = color.match(/[\\d.]+/g).map(v => linear(v / 255));
    return .2126 * r + .7152 * g + .0722 * b;
  };
  const ratio = (a, b) => {
    const [low, high] = [luminance(a), luminance(b)].sort((m, n) => m - n);
    return (high + .05) / (low + .05);
  };
  const found = {}, clear = "rgba(0, 0, 0, 0)";
  const page = getComputedStyle(document.body).backgroundColor;
  for (const text of document.querySelectorAll("g.node text")) {
    const g = text.closest("g"), behind = getComputedStyle(g.querySelector(".box")).fill;
    const name = `${g.getAttribute("class")} ${text.getAttribute("class")}`;
    found[name] = [4.5, ratio(getComputedStyle(text).fill, behind)];
  }
  for (const path of document.querySelectorAll(".edge:not(.implied)"))
    found[path.getAttribute("class")] = [3, ratio(getComputedStyle(path).stroke, page)];
  for (const element of document.querySelectorAll("header *, aside *, #alarm, #alarm *")) {
    const isText = child => child.nodeType === Node.TEXT_NODE && child.data.trim();
    if (![...element.childNodes].some(isText)) continue;
    let behind = element;
    while (getComputedStyle(behind).backgroundColor === clear) behind = behind.parentElement;
    const colors = [getComputedStyle(element).color, getComputedStyle(behind).backgroundColor];
    const name = `${element.tagName} ${element.id} ${element.className} in ${behind.className}`;
    found[name] = [4.5, ratio(...colors)];
  }
  return found;
})()"""


@pytest.mark.parametrize(
    ("made", "scheme"), [(repaired, "dark"), (lambda: [graph(wheel_of(150))], "light")]
)
def test_text_and_edges_have_the_contrast_of_wcag_aa(
    made: Callable[[], list[Graph]], scheme: str, tmp_path: Path
) -> None:
    found = evaluated(page(made()), CONTRASTS, tmp_path, dark=scheme == "dark")
    assert not {what: pair for what, pair in found.items() if pair[1] < pair[0]}
    assert len(found) > 15


STANDING_OUT = """(() => {
  const area = element => element.getBoundingClientRect();
  const fill = selector => getComputedStyle(document.querySelector(selector)).fill;
  const g = document.querySelector("g.node.missing"), here = area(g), main = area(byId("main"));
  const column = [...document.querySelectorAll("g.node")].map(area)
    .filter(there => Math.abs(there.left - here.left) < 40);
  return {
    text: g.textContent,
    label: g.getAttribute("aria-label"),
    alarm: byId("alarm").textContent,
    isInView: here.left >= main.left && here.right <= main.right
      && here.top >= main.top && here.bottom <= main.bottom,
    isFirst: Math.min(...column.map(there => there.top)) === here.top,
    fill: fill("g.missing .box"),
    other: fill("g.wheel .box"),
    edges: document.querySelectorAll(".edge.missing").length,
  };
})()"""


@pytest.mark.each_run("3-1600")
@pytest.mark.parametrize("width", [500, 1600])
@pytest.mark.parametrize("objects", [3, 30, 150, 400])
def test_a_missing_library_stands_out(objects: int, width: int, tmp_path: Path) -> None:
    shown = page([graph(wheel_of(objects))])
    found = evaluated(shown, STANDING_OUT, tmp_path, width=width)
    assert found["isInView"], (objects, width)
    assert found["isFirst"]
    assert "✕" in found["text"]
    assert "not found" in found["label"]
    assert found["alarm"].startswith(f"✕ 1 library not found: {MISSING} needed by _core0.")
    assert found["fill"] != found["other"]
    assert found["edges"] == 1


def test_a_whole_wheel_has_no_alarm(tmp_path: Path) -> None:
    expression = 'document.getElementById("alarm").hidden && !document.querySelector(".missing")'
    assert evaluated(page([graph(wheel_of(30, is_whole=True))]), expression, tmp_path)


def test_a_picture_without_nodes_is_empty(tmp_path: Path) -> None:
    found = evaluated(page([graph(wheel({}))]), DRAWN, tmp_path)
    assert (found["boxes"], found["paths"], found["wide"]) == ([], [], False)
    hidden = 'document.querySelectorAll("#filters input").forEach(box => box.click())'
    found = evaluated(page(repaired()), f"({hidden}, {DRAWN})", tmp_path)
    assert (found["boxes"], found["paths"]) == ([], [])


def test_only_the_selected_and_what_is_connected_with_it(tmp_path: Path) -> None:
    expression = """(() => {
      goTo("p/other.so");
      byId("only").click();
      return [...document.querySelectorAll("g.node")].map(g => g.dataset.id).sort();
    })()"""
    found = evaluated(page([alike(80)]), expression, tmp_path)
    assert found == sorted(["p/other.so", MISSING, "libc.so.6"])


# --- Keyboard, and the picture as a file ----------------------------------------------------------


def test_arrow_keys_move_between_nodes(tmp_path: Path) -> None:
    expression = """["ArrowRight", "ArrowRight", "ArrowLeft"].map(key => {
      const stops = () => document.querySelectorAll("g.node[tabindex='0']");
      stops()[0].dispatchEvent(new KeyboardEvent("keydown", {key, bubbles: true}));
      return [document.activeElement.dataset.id, stops().length];
    })"""
    found = evaluated(page([repaired()[1]]), expression, tmp_path)
    grafted = "demo.libs/libx-0a1b2c3d.so.1"
    assert found == [[grafted, 1], ["libc.so.6", 1], [grafted, 1]]


def test_the_saved_picture_is_whole(tmp_path: Path) -> None:
    picture = evaluated(page(repaired()), "picture()", tmp_path)
    root = ET.fromstring(picture)  # noqa: S314 - the page's own output
    assert root.tag == "{http://www.w3.org/2000/svg}svg"
    assert "@media (prefers-color-scheme: dark)" in picture
    assert not re.search(r"var\(|light-dark|script|href|url\(", picture)
    assert picture.count('class="node') == len(repaired()[0].nodes)


def test_hostile_names_leave_the_saved_picture_whole(tmp_path: Path) -> None:
    name = 'lib"</svg><script>\x1b[2J\x01&.so'
    picture = evaluated(page([graph(wheel({"p/a.so": elf(name)}))]), "picture()", tmp_path)
    root = ET.fromstring(picture)  # noqa: S314 - the page's own output
    assert not list(root.iter("{http://www.w3.org/2000/svg}script"))
