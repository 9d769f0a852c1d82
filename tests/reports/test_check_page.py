"""The HTML page of `wheelfix check` in a browser: its sections, filter and colors."""

from pathlib import Path

import pytest

from tests.reports.test_graph_page import CONTRASTS
from tests.support.browser import evaluated, needs_chromium
from tests.support.many_objects import MISSING, wheel_of
from tests.support.values import wheel
from wheelfix.pipelines.check import verdict_of
from wheelfix.pipelines.check_result import Report, SetReport
from wheelfix.reports.check_content import RenderOptions
from wheelfix.reports.check_page import render
from wheelfix.rules.context import Context
from wheelfix.rules.findings import Finding, Fix, Severity
from wheelfix.rules.registry import RULES
from wheelfix.rules.run_rules import run_rules, worst_first
from wheelfix.settings import Settings

pytestmark = [pytest.mark.slow, needs_chromium]


def unused(member: str) -> Finding:
    """A note, or for the first module a warning."""
    return Finding(
        code="WF201",
        name="unused-needed",
        severity=Severity.WARNING if "_core0." in member else Severity.NOTE,
        message="has an unused DT_NEEDED entry `libm.so.6`",
        member=member,
        fix=Fix(title="drop it", edits=()),
    )


def page_of(*sizes: int) -> str:
    """The page of wheels with so many objects, and of a sound one."""
    reports = [Report(source=Path("sound.whl"), wheel=wheel({}))]
    for objects in sizes:
        subject = wheel_of(objects)
        verdict = verdict_of(Context(wheel=subject, settings=Settings()))
        context = Context(wheel=subject, settings=Settings(), verdict=verdict)
        found = worst_first([*run_rules(context, RULES), *map(unused, subject.elfs)])
        source = Path(f"demo{objects}.whl")
        reports.append(Report(source=source, findings=found, wheel=subject, verdict=verdict))
    options = RenderOptions(version="1", rules=tuple(RULES))
    return render(SetReport(reports=tuple(reports)), options)


SHAPE = """({
  wide: document.documentElement.scrollWidth > innerWidth,
  first: document.querySelector("article").textContent,
  kind: document.querySelector("article").className,
  articles: document.querySelectorAll("article").length,
  links: [...document.querySelectorAll("td a")].map(a => document.querySelector(a.hash) !== null),
})"""


@pytest.mark.each_run("30-500")
@pytest.mark.parametrize("width", [500, 1600])
@pytest.mark.parametrize("objects", [3, 30, 150, 400])
def test_the_missing_library_comes_first(objects: int, width: int, tmp_path: Path) -> None:
    found = evaluated(page_of(objects), SHAPE, tmp_path, width=width)
    assert not found["wide"]
    assert found["kind"] == "error"
    assert MISSING in found["first"]
    assert found["articles"] < 15
    assert found["links"] == [True, True]


@pytest.mark.each_run("dark")
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_text_has_the_contrast_of_wcag_aa(scheme: str, tmp_path: Path) -> None:
    everything = CONTRASTS.replace('"header *, aside *, #alarm, #alarm *"', '"body *:not(script)"')
    assert everything != CONTRASTS
    found = evaluated(page_of(30, 150), everything, tmp_path, dark=scheme == "dark")
    assert not {what: pair for what, pair in found.items() if pair[1] < pair[0]}
    assert len(found) > 10


def test_the_filter_hides_causes_and_opens_their_files(tmp_path: Path) -> None:
    expression = f"""["", "{MISSING}", "none of this"].map(words => {{
      search.value = words;
      form.dispatchEvent(new Event("input"));
      const shown = selector => [...document.querySelectorAll(selector)].filter(e => !e.hidden);
      return [shown("article").length, shown(".cause").every(c => c.textContent.includes(words)),
        shown(".cause details").every(files => files.open === (words !== "")),
        form.querySelector("output").textContent.split(" ")[0]];
    }})"""
    everything, one, none = evaluated(page_of(150), expression, tmp_path)
    assert everything[0] > one[0] == 1
    assert one[1:3] == [True, True]
    assert everything[2]
    assert none == [0, True, True, "0"]


FOLDED = """(() => {
  const wheels = [...document.querySelectorAll(".wheel")];
  const open = () => wheels.filter(wheel => wheel.open).map(wheel => wheels.indexOf(wheel));
  const found = {height: document.documentElement.scrollHeight, open: [open()]};
  found.first = wheels.slice(0, 4).map(wheel => wheel.querySelector(".error") !== null);
  location.hash = "#wheel-2";
  openWheel();
  found.open.push(open());
  search.value = "sound.whl";
  form.dispatchEvent(new Event("input"));
  found.open.push(open());
  search.value = wheels[0].querySelector("h2").textContent.split(" ")[0];
  form.dispatchEvent(new Event("input"));
  found.open.push(open());
  return found;
})()"""


def test_many_wheels_are_folded_and_those_with_errors_come_first(tmp_path: Path) -> None:
    found = evaluated(page_of(*[3] * 27, 4), FOLDED, tmp_path)
    assert found["first"][:3] == [True] * 3
    assert found["height"] < 4000
    assert found["open"] == [[], [2], [2], list(range(27))], "all 27 have the name"
