"""What the documents and the action promise is so."""

import json
import os
import re
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from itertools import dropwhile, takewhile
from pathlib import Path
from typing import Any, cast

import pytest
import yaml
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from tests.support.build import make_wheel, shared_object
from tests.support.documents import DOCUMENTS, ROOT, blocks, fences
from tests.support.environment import ENVIRON
from tests.support.example_wheels import example_wheels
from tests.support.fork_server import warm_path, warm_program
from tests.support.installers import pip
from wheelfix.cli.config.configuration import read_configuration
from wheelfix.cli.config.settings_text import toml
from wheelfix.environments.run_environment_rules import ENVIRONMENT_RULES
from wheelfix.rules.registry import RULES, SET_RULES
from wheelfix.rules.rule import AnyRule
from wheelfix.settings import Settings

EVERY_RULE: tuple[AnyRule, ...] = (*RULES, *SET_RULES, *ENVIRONMENT_RULES)
README = (ROOT / "README.md").read_text(encoding="utf-8")


def tables() -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield the `tool` table of each TOML block that has one: document, table."""
    for document, text in blocks("toml"):
        read = tomllib.loads(text)
        if "tool" in read:
            yield document, read["tool"]


def test_the_documents_configure_wheelfix(tmp_path: Path) -> None:
    """Each table is accepted, and sets something for a wheel to which overrides apply."""
    wheel = "demo-1.0-cp312-cp312-musllinux_1_2_x86_64.whl"
    found = [(document, tool["wheelfix"]) for document, tool in tables() if "wheelfix" in tool]
    assert len(found) > 10
    for number, (document, table) in enumerate(found):
        file = tmp_path / str(number) / "wheelfix.toml"
        file.parent.mkdir()
        lines = "\n".join(f"{key} = {toml(value)}" for key, value in table.items())
        file.write_text(lines, "utf-8")
        configuration = read_configuration(file.parent, file).check()
        assert configuration.settings_for(wheel) != Settings(), document


def steps_of_workflows(value: object) -> Iterator[dict[str, Any]]:
    """Yield the steps of GitHub Actions in a document's YAML that use this project's action."""
    if isinstance(value, list):
        for inner in cast("list[object]", value):
            yield from steps_of_workflows(inner)
    elif isinstance(value, dict):
        table = cast("dict[str, object]", value)
        if "/wheelfix@" in str(table.get("uses")):
            yield table
        yield from steps_of_workflows(list(table.values()))


def test_the_documents_use_the_action() -> None:
    action = yaml.safe_load((ROOT / "action.yml").read_text(encoding="utf-8"))
    used = 0
    for document, text in blocks("yaml"):
        names = {step.get("id") for step in steps_of_workflows(yaml.safe_load(text))} - {None}
        for step in steps_of_workflows(yaml.safe_load(text)):
            used += 1
            assert set(step["with"]) <= set(action["inputs"]), document
            assert step["with"].get("command", "check") in {"check", "repair"}, document
        for name, output in re.findall(r"steps\.(\w+)\.outputs\.(\w+)", text):
            assert name in names, document
            assert output in action["outputs"], document
    assert used > 2


def test_the_documents_use_the_hooks() -> None:
    offered = yaml.safe_load((ROOT / ".pre-commit-hooks.yaml").read_text(encoding="utf-8"))
    used = [
        hook["id"]
        for _, text in blocks("yaml")
        if text.startswith("repos:")
        for repository in yaml.safe_load(text)["repos"]
        for hook in repository["hooks"]
    ]
    assert used
    assert set(used) <= {hook["id"] for hook in offered}


def test_the_times_of_the_readme_are_those_of_the_benchmark() -> None:
    """For auditwheel and wheelfix: of scipy and torch, as the first table of the page has them."""
    [row] = re.findall(r"^\| time of a repair: scipy, torch .*$", README, re.MULTILINE)
    stated: list[str] = re.findall(r"(\d+(?:\.\d+)?) s\b", row)
    page = (ROOT / "docs" / "explanation" / "benchmarks.md").read_text(encoding="utf-8")
    lines = dropwhile(lambda line: "auditwheel s" not in line, page.splitlines())
    table = [
        [cell.strip() for cell in line.strip("|").split("|")]
        for line in takewhile(lambda line: line.startswith("|"), lines)
    ]
    measured = [
        cells[table[0].index(f"{program} s")]
        for program in ("auditwheel", "wheelfix")
        for wheel in ("scipy", "torch")
        for cells in table
        if cells[0].startswith(wheel)
    ]
    assert len(stated) == len(measured) == 4
    for figure, exact in zip(stated, measured, strict=True):
        assert float(figure) == round(float(exact), len(figure.partition(".")[2]))


def test_the_jobs_of_gitlab_call_wheelfix(tmp_path: Path) -> None:
    """Run each script line that calls wheelfix, and look for the reports that the job names."""
    example_wheels(tmp_path)
    jobs = [text for _, text in blocks("yaml") if "codequality" in text]
    assert jobs
    for text in jobs:
        for job in yaml.safe_load(text).values():
            lines = [line for line in job["script"] if line.startswith("wheelfix ")]
            environ = {**ENVIRON, "PATH": warm_path(ENVIRON["PATH"])}
            for line in lines:
                done = subprocess.run(line.split(), cwd=tmp_path, env=environ, check=False)
                assert done.returncode == 1
            for report in job["artifacts"]["reports"].values():
                assert (tmp_path / report).stat().st_size > 0


@pytest.mark.large
@pytest.mark.slow
def test_the_plug_in_of_the_documents_runs(tmp_path: Path) -> None:
    for fence in fences("docs/how-to/own-rules.md"):
        if fence.title:
            file = tmp_path / fence.title
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(fence.content, encoding="utf-8")
    site = tmp_path / "site"
    options: list[str | Path] = ["-q", "--no-deps", "--no-build-isolation", "--target", site]
    assert pip("install", *options, tmp_path / "acme").returncode == 0
    wheel = make_wheel(tmp_path, tag="py3-none-any", files={"one.py": b""})
    done = subprocess.run(
        [sys.executable, "-m", "wheelfix", "check", str(wheel)],
        env={**ENVIRON, "PYTHONPATH": str(site)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert "warning[ACME101] acme-license-file: has no license file" in done.stdout


def test_the_placeholder_of_the_recipes_is_explained_once_and_briefly() -> None:
    """Outside of fences; CONTRIBUTING.md says what to do about it before the first release."""
    parts = {
        (document, part)
        for document in DOCUMENTS
        if document != "CONTRIBUTING.md"
        for part in re.sub(r"```.*?```", "", (ROOT / document).read_text(), flags=re.DOTALL).split(
            "\n\n"
        )
        if "OWNER" in part
    }
    ((document, part),) = parts
    assert document == "docs/how-to/ci.md"
    assert part.count("\n") < 5


def test_the_readme_is_one_page() -> None:
    assert len(README.splitlines()) < 200
    for block in re.findall(r"^```(?:toml|yaml).*\n((?:.*\n)*?)```$", README, re.MULTILINE):
        assert len(block.splitlines()) <= 8 or "ignore" in block, block


# `scripts/docs` checks the links of the pages below docs.
@pytest.mark.parametrize(
    "document", ["README.md", "CHANGELOG.md", "CONTRIBUTING.md", "ARCHITECTURE.md"]
)
def test_links_lead_to_files_that_exist(document: str) -> None:
    """Those of the pages below `docs` are checked where the site is built."""
    text = (ROOT / document).read_text(encoding="utf-8")
    for target in re.findall(r"\]\((?!https?://)([^)#]+)", text):
        assert (ROOT / target).exists(), target


@pytest.mark.parametrize("script", ["scripts/demo", "scripts/test"])
def test_the_readmes_two_commands_exist(script: str) -> None:
    assert f"$ {script} " in README
    assert os.access(ROOT / script, os.X_OK)


def test_the_example_rule_of_contributing_works() -> None:
    """Run it as it stands, and its tests."""
    text = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
    code = re.findall(r"^```python\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)
    names: dict[str, object] = {}
    exec(EXAMPLE_NAMES + "\n".join(code), names)  # noqa: S102 - our own document
    for name, value in names.items():
        if name.startswith("test_"):
            assert callable(value)
            value()


EXAMPLE_NAMES = """
from collections.abc import Iterator
from wheelfix.wheel.edits import DropEntry
from wheelfix.elf.model import Elf, ElfType
from wheelfix.rules.fix_plan import apply_fixes_until_stable
from wheelfix.rules.run_rules import run_rules
from wheelfix.rules.findings import Fix, Hit, Severity
from wheelfix.rules.context import Context, Stage
from wheelfix.rules.rule import rule
from wheelfix.settings import Settings
from wheelfix.wheel.model import DistInfo, Member, Wheel, WheelName

def an_elf(**fields):
    header = {"bits": 64, "little_endian": True, "machine": 62, "osabi": 0, "flags": 0}
    return Elf(**header, type=ElfType.DYN, **fields)

def a_wheel(elfs):
    return Wheel(
        name=WheelName.parse("pkg-1.0-cp311-cp311-linux_x86_64.whl"),
        members=tuple(Member(name=name, size=1, compressed_size=1) for name in elfs),
        dist_info=DistInfo("pkg-1.0.dist-info"),
        tags=("cp311-cp311-linux_x86_64",),
        root_is_purelib=False,
        elfs=elfs,
    )
"""


# --- The action -----------------------------------------------------------------------------------


def steps() -> list[str]:
    """Return the shell scripts of the action's steps."""
    lines = (ROOT / "action.yml").read_text(encoding="utf-8").splitlines()
    scripts: list[str] = []
    for number, line in enumerate(lines):
        if line.strip() == "run: |":
            indent = " " * (len(line) - len(line.lstrip()) + 2)
            script: list[str] = []
            for each in lines[number + 1 :]:
                if each and not each.startswith(indent):
                    break
                script.append(each.removeprefix(indent))
            scripts.append("\n".join(script))
    return scripts


def test_the_action_passes_inputs_by_environment_and_pins_actions() -> None:
    assert not any("${{" in script for script in steps())
    text = (ROOT / "action.yml").read_text(encoding="utf-8")
    for used in re.findall(r"uses: (.*)", text):
        assert re.fullmatch(r"[\w/-]+@[0-9a-f]{40} # v[\d.]+", used)


def run_action(folder: Path, start: str = "", **inputs: str) -> tuple[int, str, str, str]:
    """Run the action's last step with what is installed here: code, log, summary, output.

    `start` is how the shell starts wheelfix.
    """
    runner = folder / "runner"
    program = runner / "wheelfix" / "bin" / "wheelfix"
    program.parent.mkdir(parents=True, exist_ok=True)
    program.write_text(f'#!/bin/sh\nexec {start or warm_program()} "$@"\n', encoding="utf-8")
    program.chmod(0o755)
    python = program.with_name("python")
    python.unlink(missing_ok=True)
    python.symlink_to(sys.executable)
    return run_steps(folder, steps()[-1:], **inputs)


def run_steps(folder: Path, scripts: list[str], **inputs: str) -> tuple[int, str, str, str]:
    """Run steps as the runner does; exit code of the last, log, summary, output."""
    runner = folder / "runner"
    runner.mkdir(exist_ok=True)
    summary, output = runner / "summary", runner / "output"
    summary.touch()
    output.touch()
    environment = {
        **os.environ,
        "COMMAND": "check",
        "WHEELS": "dist/*.whl",
        "ARGUMENTS": "",
        **inputs,
        "RUNNER_TEMP": str(runner),
        "GITHUB_WORKSPACE": str(folder),
        "GITHUB_STEP_SUMMARY": str(summary),
        "GITHUB_OUTPUT": str(output),
    }
    script = runner / "script.sh"
    code, log = 0, ""
    for text in scripts:
        script.write_text(text, encoding="utf-8")
        done = subprocess.run(
            ["bash", "--noprofile", "--norc", "-eo", "pipefail", str(script)],
            cwd=folder,
            env=environment,
            capture_output=True,
            text=True,
            check=False,
        )
        code, log = done.returncode, log + done.stdout + done.stderr
        if code:
            break
    return code, log, summary.read_text(), output.read_text()


@pytest.mark.large
def test_the_action_installs_itself_and_checks(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("PYTHONPATH", raising=False)
    make_wheel(tmp_path / "dist", tag="py3-none-any", files={"one.py": b""})
    code, log, _, output = run_steps(tmp_path, steps(), PYTHON=sys.executable, SOURCE=str(ROOT))
    assert code == 0, log
    assert (tmp_path / "runner" / "wheelfix" / "bin" / "wheelfix").exists()
    assert outputs(output)["result"] == "passed"


def outputs(text: str) -> dict[str, str]:
    """Read `name=value` lines, and `name<<end` blocks, as the runner does."""
    read: dict[str, str] = {}
    lines = iter(text.splitlines())
    for line in lines:
        if "<<" in line.partition("=")[0]:
            name, _, end = line.partition("<<")
            read[name] = "\n".join(iter(lambda: next(lines), end))
        else:
            name, _, read[name] = line.partition("=")
    return read


def test_the_action_installs_what_its_own_version_pins() -> None:
    """Every requirement of wheelfix, and of its build, at one version with hashes."""
    text = (ROOT / "action-requirements.txt").read_text(encoding="utf-8")
    assert "://" not in text
    pins: dict[str, str] = {}
    for block in re.split(r"\n(?=[a-z])", re.sub(r"^#.*\n", "", text, flags=re.MULTILINE)):
        assert "--hash=sha256:" in block, block
        requirement = Requirement(block.partition("\\")[0])
        (pin,) = requirement.specifier
        assert pin.operator == "=="
        pins[canonicalize_name(requirement.name)] = pin.version
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    for needed in (*project["project"]["dependencies"], *project["build-system"]["requires"]):
        requirement = Requirement(needed)
        assert requirement.specifier.contains(pins[canonicalize_name(requirement.name)]), needed


def test_the_action_imports_nothing_of_the_checkout(tmp_path: Path) -> None:
    make_wheel(tmp_path / "dist", tag="py3-none-any", files={"demo.py": b""})
    for name in ("json", "sys", "venv", "pip", "uuid", "typing", "wheelfix"):
        (tmp_path / f"{name}.py").write_text(f"open({str(tmp_path / 'executed')!r}, 'w')\n")
    python = [line for script in steps() for line in script.splitlines() if 'ython" -' in line]
    assert python
    assert all(" -I " in line for line in python)
    code, log, _, output = run_action(tmp_path, f"{sys.executable} -P -m wheelfix")
    assert code == 0, log
    assert "errors=0" in output
    assert not (tmp_path / "executed").exists()


def test_the_action_checks_and_fills_the_summary(tmp_path: Path) -> None:
    for name in ("one", "two"):
        make_wheel(tmp_path / "dist", name, tag="py3-none-any", files={f"{name}.py": b""})
    code, log, summary, output = run_action(tmp_path)
    assert code == 0, log
    assert "All checks passed for 2 wheels." in log
    assert summary.startswith("## wheelfix check\n\n| wheel |")
    given = outputs(output)
    assert (given["result"], given["errors"], given["unreadable"]) == ("passed", "0", "0")


def test_the_action_annotates_and_gives_reports(tmp_path: Path) -> None:
    bad = shared_object(tmp_path / "bad.so", runpath=":/tmp/build")
    wheel = make_wheel(tmp_path / "dist", files={"demo/bad.so": bad})
    code, log, summary, output = run_action(tmp_path, ARGUMENTS="--select\nWF1")
    assert code == 1, log
    [error] = [x for x in log.splitlines() if x.startswith("::error ") and "WF112" in x]
    assert error.startswith(f"::error file=dist/{wheel.name},title=wheelfix%3A WF112 empty-entry")
    assert re.fullmatch(r"::error file=[^:,=]+,title=[^:,=]+::[^\r\n]+", error)
    assert "| error | WF112 empty-entry | `demo/bad.so` |" in summary
    assert "```mermaid" in summary
    given = outputs(output)
    [sarif] = json.loads(Path(given["sarif"]).read_text(encoding="utf-8"))["runs"]
    [place] = sarif["results"][0]["locations"]
    assert place["physicalLocation"]["artifactLocation"]["uri"] == f"dist/{wheel.name}"
    report = json.loads(Path(given["json"]).read_text(encoding="utf-8"))
    assert (given["result"], given["errors"]) == ("findings", str(report["summary"]["errors"]))
    declared = re.findall(r"steps\.run\.outputs\.(\w+)", (ROOT / "action.yml").read_text())
    assert set(given) | {"wheels"} == set(declared)


def test_the_action_fails_with_the_command(tmp_path: Path) -> None:
    code, log, _, output = run_action(tmp_path)
    assert code == 2
    assert "dist/*.whl" in log
    assert outputs(output)["result"] == "failed"
    for command in ("check", "repair"):
        inputs = {"COMMAND": command, "ARGUMENTS": "--nope", "FORCE_COLOR": "1"}
        code, log, _, output = run_action(tmp_path, **inputs)
        assert code == 2
        assert outputs(output)["result"] == "failed"
        [said] = [line for line in log.splitlines() if line.startswith("::error")]
        assert said.startswith(f"::error title=wheelfix {command}::error: no such option: --nope")
    code, log, _, output = run_action(tmp_path, COMMAND="rm")
    assert code == 2
    assert "::error title=wheelfix::the input command must be check or repair" in log
    assert outputs(output)["result"] == "failed"
    make_wheel(tmp_path / "dist", tag="py3-none-any", files={"demo.py": b""})
    for command in re.findall("check|repair", log.partition("must be")[2]):
        assert run_action(tmp_path, COMMAND=command)[0] == 0


def test_the_action_repairs_and_gives_the_paths(tmp_path: Path) -> None:
    wheel = make_wheel(tmp_path / "my dist", "one", tag="py3-none-any", files={"one.py": b""})
    code, log, summary, output = run_action(
        tmp_path,
        COMMAND="repair",
        WHEELS="my dist/*.whl\n",
        ARGUMENTS="-w\nmy out\n--allow-pure-python-wheel",
    )
    assert code == 0, log
    assert outputs(output) == {"wheels": f"my out/{wheel.name}", "result": "passed"}
    assert "::error" not in log
    assert f"## wheelfix repair\n\n~~~~~~~~text\n{wheel.name}: unchanged" in summary


def test_the_action_says_why_a_repair_failed(tmp_path: Path) -> None:
    make_wheel(tmp_path / "dist", "one", tag="py3-none-any", files={"one.py": b""})
    (tmp_path / "dist" / "two%-1.0-py3-none-any.whl").write_bytes(b"PK")
    code, log, summary, output = run_action(tmp_path, COMMAND="repair")
    assert code == 2
    given = outputs(output)
    assert (given["result"], Path(given["wheels"]).name) == ("failed", "one-1.0-py3-none-any.whl")
    [damaged] = [line for line in log.splitlines() if line.startswith("::error")]
    assert damaged.startswith("::error title=wheelfix repair::error: `two%25-1.0-py3-none-any.whl`")
    [hint] = [line for line in log.splitlines() if line.startswith("hint:")]
    assert damaged.endswith(f"%0A  --> two%25-1.0-py3-none-any.whl%0A{hint}")
    assert "error: `two%-1.0-py3-none-any.whl`" in summary


def test_an_annotation_of_a_repair_says_which_file_of_which_wheel_and_what_to_do(
    tmp_path: Path,
) -> None:
    """The notes between the error and its hint are of the annotation, too."""
    for name in ("a", "b"):
        module = shared_object(tmp_path / f"_{name}.so", "void *PyInit_x(void) { return 0; }")
        files: dict[str, str | bytes | Path] = {f"{name}/_{name}.abi3.so": module}
        make_wheel(
            tmp_path / "dist", name, tag=f"cp311-abi3-linux_{os.uname().machine}", files=files
        )
    code, log, _, _ = run_action(tmp_path, COMMAND="repair")
    assert code == 1, log
    said = [line.split("%0A") for line in log.splitlines() if line.startswith("::error")]
    for name, lines in zip("ab", said, strict=True):
        assert lines[0].startswith("::error title=wheelfix repair::error[WF311]")
        assert lines[1].startswith(f"  --> {name}-1.0-cp311-abi3-linux")
        assert lines[2] == f"  --> {name}/_{name}.abi3.so"
        assert lines[-1].startswith("hint: ")


def test_the_action_itself_says_two_things() -> None:
    """Tests here follow both."""
    said = re.findall(r"::(?:error|notice) title=[\w ]+::([\w ,]+)", "\n".join(steps()))
    assert said == [
        "the input command must be check or repair",
        "left alone, not for Linux",
    ]


def test_an_option_in_an_annotation_is_an_argument_as_it_stands(tmp_path: Path) -> None:
    """Nobody writes `--exclude libone.so.1` in two lines."""
    one = shared_object(tmp_path / "my lib" / "libone.so.1", soname="libone.so.1", libc=False)
    uses = "int f(void); int g(void) { return f(); }"
    user = shared_object(tmp_path / "user.so", uses, needed=[one], libc=False)
    make_wheel(
        tmp_path / "dist", tag=f"py3-none-linux_{os.uname().machine}", files={"demo/user.so": user}
    )
    _, log, _, _ = run_action(tmp_path)
    [advice] = [line for line in log.splitlines() if line.startswith("::error") and "WF804" in line]
    assert "--library-path FOLDER" in advice
    [exclude] = re.findall(r"`wheelfix repair [^`]*(--exclude \S+) [^`]*`", advice)
    for argument in ("--library-path my lib", exclude, f"--dry-run {exclude}"):
        code, log, _, _ = run_action(tmp_path, COMMAND="repair", ARGUMENTS=argument)
        assert code == 0, log


def test_the_action_leaves_wheels_of_other_systems_alone(tmp_path: Path) -> None:
    """The wheels of a release lie in one folder, whatever built them."""
    for tag in ("py3-none-any", "py3-none-macosx_11_0_arm64", "py3-none-win_amd64"):
        make_wheel(tmp_path / "dist", "one", tag=tag, files={"one.py": b""})
    code, log, _, output = run_action(tmp_path, COMMAND="repair")
    assert code == 0, log
    assert outputs(output)["wheels"] == "wheelhouse/one-1.0-py3-none-any.whl"
    assert log.count("::notice title=wheelfix repair::left alone, not for Linux: dist/one-1.0") == 2
    (tmp_path / "dist" / "one-1.0-py3-none-any.whl").unlink()
    code, log, _, _ = run_action(tmp_path, COMMAND="repair")
    assert (code, "wheelfix is for Linux" in log) == (2, True)


HOSTILE = (
    "a\n::error::b",
    "c##[error]d",
    "e%0A::error::f",
    "g\"'$(id)`id`h",
    "-i",
    "j\r::k",
    "l\x1b[31m",
)


@pytest.mark.parametrize("command", ["check", "repair"])
def test_names_are_no_commands_of_the_runner(command: str, tmp_path: Path) -> None:
    folder = tmp_path / "dist"
    folder.mkdir()
    for name in HOSTILE:
        for tag in ("macosx_11_0_arm64", "any", "linux_x86_64"):
            (folder / f"{name}-1.0-py3-none-{tag}.whl").write_bytes(b"PK")
    code, log, summary, output = run_action(tmp_path, COMMAND=command)
    assert code == 2
    for text in (log, summary, output):
        assert "##[" not in text
        assert "\x1b" not in text
        assert not re.search(r"(?m)^[^\S\n]*::(?!(error|notice) (title=wheelfix|file=dist/))", text)
    assert not re.search(r"(?m)^uid=", log)
    assert "result=failed" in output
    if command == "repair":
        left = [line for line in log.splitlines() if line.startswith("::notice")]
        assert len(left) == len(HOSTILE)
        assert any(r"dist/a\n::error::b-1.0" in line for line in left)
        assert any("dist/e%250A::error::f" in line for line in left)


def test_inputs_of_the_action_are_not_executed(tmp_path: Path) -> None:
    make_wheel(tmp_path / "dist", tag="py3-none-any", files={"one.py": b""})
    evil = "$(touch owned)\n`touch owned`\n; touch owned\n--output=x"
    code, _, _, _ = run_action(tmp_path, WHEELS=evil, ARGUMENTS="")
    assert code == 2
    code, _, _, _ = run_action(tmp_path, ARGUMENTS="$(touch owned)")
    assert code == 2
    assert not (tmp_path / "owned").exists()


def test_the_architecture_lists_exactly_the_packages_and_only_existing_files() -> None:
    text = (ROOT / "ARCHITECTURE.md").read_text(encoding="utf-8")
    package = ROOT / "src" / "wheelfix"
    folders = {path.parent.name for path in package.glob("*/__init__.py")}
    assert set(re.findall(r"^\| `(\w+)/` \|", text, re.MULTILINE)) == folders
    files = re.findall(r"`((?:\w+/)+\w+\.py)`", text)
    assert len(files) > 5
    assert [
        file for file in files if not ((package / file).exists() or (ROOT / file).exists())
    ] == []


# --- The project's own workflow, and the hook -----------------------------------------------------


WORKFLOWS = sorted((ROOT / ".github" / "workflows").glob("*.yml"))


@pytest.mark.parametrize("file", WORKFLOWS, ids=lambda file: file.stem)
def test_the_workflows_pin_actions_and_have_minimal_permissions(file: Path) -> None:
    text = file.read_text(encoding="utf-8")
    foreign = [used for used in re.findall(r"uses: (\S.*)", text) if not used.startswith("./")]
    assert len(foreign) > 3
    for used in foreign:
        assert re.fullmatch(r"[\w/-]+@[0-9a-f]{40} # v[\d.]+", used)
    assert "\npermissions: {}\n" in text
    assert text.count("persist-credentials: false") == text.count("uses: actions/checkout@")
    assert text.count("timeout-minutes:") == text.count("runs-on:")


def release_jobs() -> Iterator[dict[str, Any]]:
    """Yield the jobs of wheelfix's own release, and of the workflow that a document shows."""
    own = (ROOT / ".github" / "workflows" / "release.yml").read_text(encoding="utf-8")
    shown = [text for _, text in blocks("yaml") if "gh-action-pypi-publish" in text]
    assert shown
    for text in (own, *shown):
        yield yaml.safe_load(text)["jobs"]


def test_a_release_is_published_only_after_its_check() -> None:
    for jobs in release_jobs():
        needed = jobs["publish"]["needs"]
        checks = [needed] if isinstance(needed, str) else needed
        used = [str(step.get("uses")) for job in checks for step in jobs[job]["steps"]]
        assert any(name == "./" or "/wheelfix@" in name for name in used)
        assert jobs["publish"]["permissions"] == {"id-token": "write"}
        assert "password" not in str(jobs["publish"])
        names = {name for name, job in jobs.items() if "id-token" in str(job.get("permissions"))}
        assert names == {"publish"}


def test_workflow_documents_and_action_pin_the_same_versions() -> None:
    workflows = (str(file.relative_to(ROOT)) for file in WORKFLOWS)
    documents = (*workflows, *DOCUMENTS, "action.yml")
    pins: dict[str, set[str]] = {}
    for document in documents:
        text = (ROOT / document).read_text(encoding="utf-8")
        for name, pin in re.findall(r"uses: ([\w/-]+)@([0-9a-f]{40} # v[\d.]+)", text):
            pins.setdefault(name, set()).add(pin)
    assert {name: len(found) for name, found in pins.items()} == dict.fromkeys(pins, 1)
