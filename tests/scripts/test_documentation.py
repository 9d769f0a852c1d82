"""The documentation site: what is generated, what is linked, and that it builds."""

import re
import subprocess
import sys
from collections.abc import Mapping
from functools import cache
from pathlib import Path

import pytest
import yaml

import wheelfix
from documentation.links import dead_links
from documentation.markup import attributes, with_linked_rules
from documentation.pages import shown_on_code_host, site_pages, with_committed_parts
from documentation.parts import COMMITTED, EVERY_RULE, ROOT
from documentation.search import with_page_names
from tests.support.documents import DOCUMENTS
from wheelfix.cli.app import COMMANDS, run
from wheelfix.cli.help_content import examples_of
from wheelfix.errors import ExitCode
from wheelfix.loader.targets import names
from wheelfix.reports.check_formats import Format
from wheelfix.reports.rule_excerpts import rule_address
from wheelfix.settings import SETTING_FIELDS, Group


@cache
def pages() -> Mapping[str, str]:
    return site_pages()


def chapters(page: str, level: str = "##") -> list[str]:
    return re.findall(rf"^{level} (.*)$", pages()[page], re.MULTILINE)


def test_each_rule_has_a_page_where_reports_link_to() -> None:
    site = "https://example.org/"
    for rule in EVERY_RULE:
        path = rule_address(rule.code, rule.name, site).removeprefix(site)
        page = pages()[f"{path.removesuffix('/')}.md"]
        assert page.startswith(f"# {rule.name} ({rule.code})\n")
        assert f"[{rule.name}](../rules/{rule.name}.md)" in pages()["rules/index.md"]
        family = [one for one in EVERY_RULE if one.code[:3] == rule.code[:3] and one is not rule]
        assert all(f'[{one.code}]({one.name}.md "{one.name}")' in page for one in family)


def test_the_program_is_described_completely() -> None:
    topics = [field.setting.group for field in SETTING_FIELDS]
    assert chapters("reference/settings.md") == [group for group in Group if group in topics]
    keys = sorted(field.key for field in SETTING_FIELDS)
    assert sorted(chapters("reference/settings.md", "###")) == keys
    assert chapters("reference/python-api.md") == wheelfix.__all__
    for page, words in {
        "reference/formats.md": [form.value for form in Format],
        "reference/targets.md": names(),
    }.items():
        for word in words:
            assert f"| `{word}` |" in pages()[page], word
    assert f"| {ExitCode.FINDINGS.value} | Errors remain" in pages()["reference/exit-codes.md"]


def test_the_pages_on_the_action_have_its_inputs_and_outputs() -> None:
    action = yaml.safe_load((ROOT / "action.yml").read_text(encoding="utf-8"))
    for name in action["inputs"]:
        assert f"| `{name}` |" in pages()["how-to/ci.md"]
        assert f"| `{name}` |" in pages()["reference/action.md"]
    for name in action["outputs"]:
        assert f"| `{name}` |" in pages()["reference/action.md"]
    assert "../reference/action.md#outputs" in pages()["how-to/ci.md"]


@pytest.mark.parametrize("command", COMMANDS)
def test_a_command_has_each_of_its_options(
    command: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "200")
    assert run([command, "--help-all"]) == 0
    help_text = capsys.readouterr().out
    options = set(re.findall(r"^  (?:-\w, )?(--[\w-]+)", help_text, re.MULTILINE))
    assert len(options) > 1
    page = pages()[f"reference/commands/{command}.md"]
    documented = set(re.findall(r"^`(?:-\w, )?(--[\w-]+)", page, re.MULTILINE))
    assert documented == options


def test_every_page_is_in_the_navigation_once() -> None:
    nav = (ROOT / "mkdocs.yml").read_text(encoding="utf-8").partition("\nnav:\n")[2]
    listed = re.findall(r"^ +- .*?([\w/-]+\.md)\b", nav, re.MULTILINE)
    assert len(listed) == len(set(listed))
    known = {path for path in pages() if path.endswith(".md")}
    assert known - set(listed) == {f"rules/{rule.name}.md" for rule in EVERY_RULE}
    assert set(listed) - known == set()


def test_no_mark_is_left() -> None:
    assert [path for path, text in pages().items() if "<!-- generated" in text] == []


@pytest.mark.parametrize("document", DOCUMENTS)
def test_a_page_on_the_code_host_is_complete(document: str) -> None:
    """Where the site has a generated part, it has that, too, or says where to look."""
    page = (ROOT / document).read_text(encoding="utf-8")
    marks = dict(shown_on_code_host(page))
    assert len(marks) == page.count("<!-- generated: ") == page.count("<!-- end -->")
    assert with_committed_parts(page) == page, "`python -m documentation.pages` writes it anew"
    for name, text in marks.items():
        assert name in COMMITTED or re.search(r"`(wheelfix|python) |\]\(", text), name


@pytest.mark.parametrize("document", DOCUMENTS)
def test_the_links_of_a_page_lead_to_files_of_the_repository(document: str) -> None:
    page = re.sub("```.*?```", "", (ROOT / document).read_text(encoding="utf-8"), flags=re.DOTALL)
    links = re.findall(r"\]\(([^)\s#]+)", page)
    files = [link for link in links if "://" not in link]
    assert [link for link in files if not (ROOT / document).parent.joinpath(link).exists()] == []


def test_codes_of_rules_become_links_in_prose_only() -> None:
    addresses = {"WF101": "a.md", "WF102": "b.md"}
    page = (
        "# WF101\n\nWF101, (WF102) and `WF101`, [WF101](c.md), WF1 and ACMEWF101.\n\n"
        "```text\nWF101\n```\n\n    WF101\n\n| WF102 |\n"
    )
    assert with_linked_rules(page, addresses) == (
        "# WF101\n\n[WF101](a.md), ([WF102](b.md)) and `WF101`, [WF101](c.md), WF1 and "
        "ACMEWF101.\n\n```text\nWF101\n```\n\n    WF101\n\n| [WF102](b.md) |\n"
    )
    with pytest.raises(KeyError, match="WF999"):
        with_linked_rules("WF999\n", addresses)


def test_docstrings_belong_to_the_attribute_above() -> None:
    found = attributes(ExitCode)
    assert list(found) == [code.name for code in ExitCode]
    assert found["OK"].text == "No errors, or all repaired."


@pytest.mark.parametrize("command", COMMANDS)
def test_the_page_of_a_command_shows_what_its_help_shows(
    command: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "200")
    assert run([command, "--help-all"]) == 0
    titles = re.findall(r"^(\S[^:\n]*):$", capsys.readouterr().out, re.MULTILINE)
    shown = chapters(f"reference/commands/{command}.md")
    assert sorted({*shown} - {"Settings"}) == sorted(titles)
    page = pages()[f"reference/commands/{command}.md"]
    for example in examples_of(command):
        assert f"\n{example.command}  # {example.purpose}\n" in page
    assert not re.search(r"\\[<>|$]", page), "Markdown shows these backslashes"


def test_search_results_have_the_name_of_their_page() -> None:
    items = [
        {"location": "rules/x/", "title": "x (WF1)"},
        {"location": "rules/x/#why", "title": "Why?"},
        {"location": "rules/x/#x", "title": "x (WF1)"},
    ]
    assert [item["title"] for item in with_page_names(items)] == [
        "x (WF1)", "x (WF1): Why?", "x (WF1)"
    ]  # fmt: skip


def test_dead_links_are_found(tmp_path: Path) -> None:
    (tmp_path / "rules" / "one").mkdir(parents=True)
    (tmp_path / "picture.svg").touch()
    (tmp_path / "rules" / "one" / "index.html").write_text('<h1 id="top"><a href="../..">up</a>')
    good = ("rules/one/", "rules/one/#top", "#here", ".", "picture.svg", "https://example.org/x")
    bad = ("rules/two/", "rules/one/#no", "#nowhere", "rules/", "none.svg", "/rules/one/", "one.md")
    links = "".join(f'<a href="{link}">' for link in (*good, *bad))
    (tmp_path / "index.html").write_text(f'<p id="here">{links}<img src="no.png">')
    found = [line.removeprefix("index.html: ") for line in dead_links(tmp_path)]
    assert found == [*bad, "no.png"]


@pytest.mark.large
def test_the_site_builds_without_dead_links() -> None:
    done = subprocess.run([ROOT / "scripts" / "docs"], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    site = ROOT / "build" / "site"
    assert (site / "rules" / "unused-needed" / "index.html").is_file()
    assert "Unused DT_NEEDED entry" in (site / "search.json").read_text(encoding="utf-8")
    pattern = re.compile(r"<(?:script|img|link)\b[^>]*(?:src|href)=.?https?:")
    loading = [page for page in site.rglob("*.html") if pattern.search(page.read_text("utf-8"))]
    assert loading == [], "they load something from other hosts"


@pytest.mark.parametrize("link", ["[x](none.md)", "[x](rules/index.md#none)"])
def test_a_dead_link_fails_the_build(tmp_path: Path, link: str) -> None:
    settings = (ROOT / "mkdocs.yml").read_text(encoding="utf-8").partition("\nnav:\n")[0]
    (tmp_path / "mkdocs.yml").write_text(settings, encoding="utf-8")
    sources = {"index.md": f"# Home\n\n{link}\n", "rules/index.md": "# Rules\n", "site.css": ""}
    for path, text in sources.items():
        file = tmp_path / "build" / "docs" / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text, encoding="utf-8")
    program = Path(sys.executable).with_name("zensical")
    done = subprocess.run(
        [program, "build", "--strict"], cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert done.returncode != 0
    assert "does not exist" in done.stdout + done.stderr
