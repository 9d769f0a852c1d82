"""Rules of other distributions: the example under `fixtures`, installed as pip installs it."""

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

import wheelfix
from tests.support.build import make_wheel
from tests.support.fork_server import warm_python
from tests.support.values import elf, wheel
from wheelfix import WheelView, rule
from wheelfix.errors import RuleError
from wheelfix.rules.context import Context, Stage
from wheelfix.rules.findings import Hit, Severity
from wheelfix.rules.registry import RULES
from wheelfix.rules.rule import Rule
from wheelfix.rules.rule_plugins import with_plugins
from wheelfix.rules.run_rules import find
from wheelfix.settings import Settings

EXAMPLE = Path(__file__).parents[2] / "fixtures" / "plugin"


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    target = tmp_path_factory.mktemp("plugin")
    source = tmp_path_factory.mktemp("source") / "plugin"
    shutil.copytree(EXAMPLE, source)  # the build writes beside the source
    command = [sys.executable, "-m", "uv", "pip", "install", "--quiet", "--no-deps"]
    subprocess.run([*command, "--target", target, source], check=True)
    return target


PROGRAM = """
import sys
sys.path[:0] = sys.argv.pop(1).split(":")
from wheelfix.__main__ import main
from wheelfix.rules.rule_plugins import load_rules
load_rules.cache_clear()
main()
"""


def started(installed: Path, *arguments: str | Path) -> subprocess.CompletedProcess[str]:
    environ = {**os.environ, "PYTHONPATH": str(installed)}
    command = [sys.executable, "-m", "wheelfix", *arguments]
    return subprocess.run(
        command, env=environ, cwd=EXAMPLE, capture_output=True, text=True, check=False
    )


def run(installed: Path, *arguments: str | Path) -> subprocess.CompletedProcess[str]:
    """Run what `started` starts, where wheelfix is imported already."""
    command = [*warm_python(PROGRAM), str(installed), *arguments]
    return subprocess.run(command, cwd=EXAMPLE, capture_output=True, text=True, check=False)


def test_an_installed_plugin_takes_part(installed: Path, tmp_path: Path) -> None:
    built = make_wheel(tmp_path, tag="py3-none-any", files={"demo.py": b""})
    done = started(installed, "check", built)
    assert "warning[ACME101] acme-license-file: has no license file" in done.stdout
    assert done.returncode == 0
    assert run(installed, "check", "--fail-on", "warning", built).returncode == 1
    assert (
        run(installed, "check", "--fail-on", "warning", "--ignore", "ACME", built).returncode == 0
    )
    assert "acme" not in run(installed, "check", "--select", "WF", built).stdout
    assert run(installed, "rule", "ACME101").stdout.startswith("# acme-license-file (ACME101, ")
    assert "ACME102" in run(installed, "rule", "--all").stdout


def test_a_plugin_that_cannot_be_loaded_is_named(installed: Path, tmp_path: Path) -> None:
    built = make_wheel(tmp_path, tag="py3-none-any", files={"demo.py": b""})
    (tmp_path / "acme_wheel_rules.py").write_text("raise ValueError('no')", encoding="utf-8")
    done = run(Path(f"{tmp_path}:{installed}"), "check", built)
    assert done.returncode == 2
    assert "the rules of `acme-wheel-rules` cannot be loaded" in done.stderr
    assert "Traceback" not in done.stderr


def crash(_context: Context) -> Iterator[Hit]:
    raise ZeroDivisionError("oh")


def brought(code: str = "ACME101", name: str = "acme-rule") -> Rule:
    made = Rule(code=code, name=name, severity=Severity.ERROR, stage=Stage.AFTER, check=crash)
    return replace(made, plugin="acme")


@pytest.mark.parametrize(
    ("rule", "message"),
    [
        (brought(RULES[0].code), "taken"),
        (brought(name=RULES[0].name), "taken"),
        (brought("WF999"), "reserved for wheelfix"),
        (brought("acme1"), "a code must look like"),
        (brought(name="Acme rule"), "a name like"),
    ],
)
def test_codes_and_names_must_be_new(rule: Rule, message: str) -> None:
    with pytest.raises(RuleError, match=message):
        with_plugins(RULES, [rule])


def lone_libraries(view: WheelView) -> Iterator[Hit]:
    """An object does not find its libraries in the wheel."""
    for member in view.wheel.elfs:
        for request in view.world.load(member).missing:
            yield Hit(message=f"lacks `{request.name}`", member=member, entry=view.settings.plat)


def test_a_plugin_asks_what_an_object_loads() -> None:
    subject = wheel({"p/a.so": elf("libb.so", runpath="$ORIGIN"), "p/libb.so": elf("libz.so")})
    asked = rule("ACME103", "acme-lone-library", Severity.ERROR)(lone_libraries)
    found = find(Context(wheel=subject, settings=Settings()), [asked])
    lacking = {(finding.member, finding.message) for finding in found}
    assert ("p/libb.so", "lacks `libz.so`") in lacking
    assert ("p/a.so", "lacks `libb.so`") not in lacking


def test_plugins_get_a_view_and_not_the_analyses_of_wheelfix_s_own_rules() -> None:
    assert "Context" not in wheelfix.__all__
    public = {name for name in vars(WheelView) if not name.startswith("_")}
    assert public == {"wheel", "settings", "world"}


def test_a_rule_that_crashes_is_blamed_on_its_distribution() -> None:
    context = Context(wheel=wheel({}), settings=Settings())
    with pytest.raises(RuleError, match=r"the rule ACME101 .* of `acme` crashed") as caught:
        list(find(context, [brought()]))
    assert "--ignore ACME101" in (caught.value.hint or "")


@pytest.mark.parametrize("variables", [{}, {"PYTHONPATH": ":"}], ids=["-m", "PYTHONPATH"])
def test_a_distribution_of_the_current_directory_brings_no_rules(
    variables: dict[str, str], tmp_path: Path
) -> None:
    """`python -m` and an empty entry of PYTHONPATH look for modules there."""
    (tmp_path / "acme.py").write_text(f"open({str(tmp_path / 'ran')!r}, 'w')\nrules = []\n")
    folder = tmp_path / "acme-1.0.dist-info"
    folder.mkdir()
    (folder / "METADATA").write_text("Metadata-Version: 2.1\nName: acme\nVersion: 1.0\n")
    (folder / "entry_points.txt").write_text("[wheelfix.rules]\nacme = acme:rules\n")
    wheel = make_wheel(tmp_path / "dist", files={"demo.py": ""})
    start = ["-m", "wheelfix"]
    if variables:
        start = ["-c", "import sys; sys.argv[0] = 'x'; from wheelfix.__main__ import main; main()"]
    done = subprocess.run(
        [sys.executable, *start, "check", str(wheel)],
        cwd=tmp_path,
        env={**os.environ, **variables},
        capture_output=True,
        check=False,
    )
    assert done.returncode < 2, done.stderr
    assert not (tmp_path / "ran").exists()
