"""Nothing of a wheel, its METADATA, a configuration, an environment or the checkout runs.

Every command is followed by strace: only the programs that wheelfix names are started, and no host
is asked, whatever a stranger has put in its way.
"""

import os
import re
import shutil
import subprocess
import sys
import tarfile
from pathlib import Path

import pytest

from tests.support.build import extension, make_wheel
from tests.support.tools import needs
from wheelfix.host.find_installers import find_uv

pytestmark = needs("strace")
SCRIPT = Path(sys.executable).with_name("wheelfix")
PROGRAMS = (
    "uv pip git python3 patchelf lief-patchelf rpm podman docker cc rustc lsb_release".split()
)
MODULES = "sitecustomize usercustomize conftest json typing setup pip packaging".split()
HERE = f"cp3{sys.version_info.minor}-cp3{sys.version_info.minor}-linux_{os.uname().machine}"


_STRACE = ["strace", "-f", "-qq", "-e", "trace=execve,connect", "-o"]


class Trap:
    """A folder whose every part leaves a file if it is executed."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.ran = folder / "RAN"
        self.python = f"open({str(self.ran)!r}, 'a').write(__file__ + '\\n')\n"
        self.checkout = folder / "checkout"
        self.index = folder / "index"
        self.environment = folder / "environment"
        for one in (self.checkout, self.index, self.environment, folder / "tmp"):
            one.mkdir()
        self.sdist()
        self.fill(self.checkout)
        self.fill(folder / "tmp")
        self.make_environment()
        self.variables = self.set_variables()
        make_wheel(self.index, "fine", "1.0", "py3-none-any", self.sources("fine"))

    def fill(self, folder: Path) -> None:
        """Put programs and modules where a current directory, PATH or TMPDIR leads."""
        for name in PROGRAMS:
            program = folder / name
            program.write_text(f"#!/bin/sh\necho {program} >>{self.ran}\n")
            program.chmod(0o755)
        for name in MODULES:
            if not (folder / name).exists():
                (folder / f"{name}.py").write_text(self.python)
        (folder / "evil.pth").write_text(f"import os; {self.python}")
        info = folder / "evil_rules-1.0.dist-info"
        info.mkdir()
        (info / "METADATA").write_text("Metadata-Version: 2.1\nName: evil-rules\nVersion: 1.0\n")
        (info / "entry_points.txt").write_text("[wheelfix.rules]\nevil = conftest:rules\n")
        for name in ("uv.toml", "pip.conf"):
            (folder / name).write_text("index-url = 'https://stranger.invalid/simple'\n")

    def set_variables(self) -> dict[str, str]:
        """Return variables by which shells, git and Python execute files, in this checkout."""
        program, startup = self.checkout / "git", self.checkout / "conftest.py"
        settings = self.checkout / "gitconfig"
        settings.write_text(f"[core]\nfsmonitor = {program}\nsshCommand = {program}\n")
        programs = (
            "BASH_ENV", "ENV", "EDITOR", "VISUAL", "PAGER", "BROWSER", "SHELL", "LESSOPEN",
            "GIT_SSH", "GIT_SSH_COMMAND", "GIT_ASKPASS", "SSH_ASKPASS", "GIT_EDITOR",
            "GIT_EXTERNAL_DIFF", "GIT_PAGER", "CC", "PYTHON", "AUDITWHEEL",
        )  # fmt: skip
        return {
            **dict.fromkeys(programs, str(program)),
            "GIT_CONFIG_GLOBAL": str(settings),
            "GIT_EXEC_PATH": str(self.checkout),
            "PYTHONSTARTUP": str(startup),
            "PYTHONBREAKPOINT": "conftest.run",
            "PYTHONINSPECT": "",
            "PYTHONUSERBASE": str(self.checkout),
        }

    def sdist(self) -> None:
        source = self.folder / "evil-1.0"
        source.mkdir()
        setup = "from setuptools import setup\nsetup(name='evil')"
        (source / "setup.py").write_text(self.python + setup)
        (source / "PKG-INFO").write_text("Metadata-Version: 2.1\nName: evil\nVersion: 1.0\n")
        with tarfile.open(self.index / "evil-1.0.tar.gz", "w:gz") as archive:
            archive.add(source, source.name)

    def sources(self, name: str) -> dict[str, str | Path]:
        """Return the files of a package that execute once somebody imports or starts them."""
        text = self.ran
        code = (
            "#include <stdio.h>\n__attribute__((constructor)) static void f(void)"
            f'{{ FILE *f = fopen("{text}", "a"); if (f) {{ fputs("{name}", f); fclose(f); }} }}'
        )
        (self.folder / f"{name}.c").write_text(code)
        module = extension(
            self.folder / name / "_core.so", "_core", flags=[str(self.folder / f"{name}.c")]
        )
        roots = (*MODULES[:3], "setup")
        return {
            f"{name}/__init__.py": self.python,
            f"{name}/_core.so": module,
            f"{name}.pth": f"import os; {self.python}",
            **{f"{one}.py": self.python for one in roots},
        }

    def make_environment(self) -> None:
        """Make what looks like a virtual environment, which was never anybody's."""
        site = self.environment / "lib" / f"python3.{sys.version_info.minor}" / "site-packages"
        site.mkdir(parents=True)
        (self.environment / "bin").mkdir()
        (self.environment / "pyvenv.cfg").write_text(f"home = {self.environment / 'bin'}\n")
        self.fill(self.environment / "bin")
        (self.environment / "etc" / "conda" / "activate.d").mkdir(parents=True)
        (self.environment / "conda-meta").mkdir()
        preload = f"{site}/inside/_core.so"
        lines = f"export LD_PRELOAD={preload} LD_AUDIT={preload}\necho x >>{self.ran}\n"
        (self.environment / "etc" / "conda" / "activate.d" / "x.sh").write_text(lines)
        state = f'{{"env_vars": {{"LD_PRELOAD": "{preload}", "PYTHONSTARTUP": "{site}/x.py"}}}}'
        (self.environment / "conda-meta" / "state").write_text(state)
        (self.environment / "conda-meta" / "history").touch()
        self.fill(site)
        for name, value in self.sources("inside").items():
            file = site / name
            file.parent.mkdir(exist_ok=True)
            if isinstance(value, Path):
                shutil.copy(value, file)
            else:
                file.write_text(value)

    def wheel(self, name: str, *requires: str) -> Path:
        metadata = "".join(f"Requires-Dist: {one}\n" for one in requires)
        return make_wheel(
            self.folder / "dist" / name, tag=HERE, files=self.sources("demo"), metadata=metadata
        )

    def follow(self, *words: str) -> tuple[set[str], str, int]:
        """Run a command under strace: the programs it started, the rest of the log, the code."""
        log = self.folder / "strace"
        done = subprocess.run(
            [*_STRACE, str(log), sys.executable, str(SCRIPT), *words],
            cwd=self.checkout,
            env={
                **{k: v for k, v in os.environ.items() if not k.startswith(("PIP_", "UV_"))},
                **self.variables,
                "PATH": f":.:{os.environ['PATH']}",
                "PYTHONPATH": "",
                "TMPDIR": str(self.folder / "tmp"),
                "HOME": str(self.folder),
                "XDG_CACHE_HOME": str(self.folder / "cache"),
                "PIP_CONFIG_FILE": os.devnull,
                "PIP_NO_INDEX": "1",
                "PIP_FIND_LINKS": str(self.index),
            },
            capture_output=True,
            text=True,
            check=False,
        )
        text = log.read_text(errors="replace")
        started = set(re.findall(r'execve\("([^"]+)".*\) = 0', text))
        assert "Traceback" not in done.stderr, done.stderr
        return started, text, done.returncode


@pytest.fixture(scope="module")
def trap(tmp_path_factory: pytest.TempPathFactory) -> Trap:
    return Trap(tmp_path_factory.mktemp("trap"))


ALONE = {
    "check": ["check", "WHEEL"],
    "show": ["show", "WHEEL"],
    "why": ["why", "WHEEL", "libc.so.6"],
    "explain": ["explain", "WHEEL"],
    "graph": ["explain", "--output-format", "mermaid", "WHEEL"],
    "diff": ["diff", "WHEEL", "WHEEL"],
    "dry run": ["repair", "--dry-run", "WHEEL"],
    "repair": ["repair", "-w", "out", "WHEEL"],
    "doctor": ["doctor", "ENVIRONMENT"],
    "every order": ["doctor", "--every-order", "ENVIRONMENT"],
    "explain of an environment": ["explain", "--site", "ENVIRONMENT"],
    "check beside an environment": ["check", "--site", "ENVIRONMENT", "WHEEL"],
    "settings": ["settings"],
    "rule": ["rule", "WF101"],
}
"""Commands that start no program."""
EVIL = (
    "evil @ file://{index}/evil-1.0.tar.gz",
    "evil @ https://127.0.0.1:1/e.tar.gz",
    "evil",
    "evil @ git+https://127.0.0.1:1/evil",
    "evil-1.0.tar.gz",
    "evil===/../../../../../../{source}",
)
"""Requirements that pip builds, or asks another host for."""


def call(trap: Trap, words: list[str], wheel: Path) -> list[str]:
    names = {"WHEEL": str(wheel), "ENVIRONMENT": str(trap.environment)}
    return [names.get(word, word) for word in words]


@pytest.mark.parametrize("command", ALONE)
def test_a_command_starts_no_program(command: str, trap: Trap) -> None:
    wheel = trap.wheel("alone", *(one.format(index=trap.index, source="x") for one in EVIL))
    started, log, code = trap.follow(*call(trap, ALONE[command], wheel))
    assert code in {0, 1, 2}
    assert started <= {sys.executable}
    assert "AF_INET" not in log
    assert not trap.ran.exists(), trap.ran.read_text()


FETCHING = {
    "check": ["check", "--deps", "WHEEL"],
    "show": ["show", "--deps", "WHEEL"],
    "explain": ["explain", "--deps", "WHEEL"],
    "repair": ["repair", "--dry-run", "--deps", "WHEEL"],
    "doctor": ["doctor", "WHEEL"],
}
"""Commands that ask an index through pip; `doctor` also makes an environment."""


@pytest.mark.parametrize("number", range(len(EVIL) + 1))
@pytest.mark.parametrize("command", FETCHING)
@pytest.mark.each_run("check-0", "doctor-3", "explain-5", "repair-6")
def test_what_is_required_is_fetched_and_not_executed(
    command: str, number: int, trap: Trap
) -> None:
    text = (*EVIL, "fine")[number].format(index=trap.index, source=trap.folder / "evil-1.0")
    started, log, code = trap.follow(*call(trap, FETCHING[command], trap.wheel(f"n{number}", text)))
    # What has no wheel is not known, and the rest is judged; uv refuses what is not a requirement.
    assert code < 2 or (command == "doctor" and number in {4, 5})
    assert "AF_INET" not in log
    assert not trap.ran.exists(), trap.ran.read_text()
    made = re.compile(r"wheelfix-run-\w+/env/bin/python[\d.]*$")
    strange = {one for one in started if str(trap.folder) in one and not made.search(one)}
    assert not strange, "of PATH, only absolute folders count"
    if "@" in text and command != "doctor":  # for a name, pip starts programs of its own
        known = {sys.executable, os.path.realpath(sys.executable), find_uv()}
        assert {os.path.realpath(one) for one in started} <= {
            os.path.realpath(k) for k in known if k
        }


@pytest.mark.parametrize("text", EVIL[:2])
def test_a_neighbor_of_a_configuration_is_not_followed(text: str, trap: Trap) -> None:
    url = text.format(index=trap.index)
    (trap.checkout / "wheelfix.toml").write_text(f"neighbors = ['{url}']\n")
    started, log, code = trap.follow("check", str(trap.wheel("alone")))
    (trap.checkout / "wheelfix.toml").unlink()
    assert (code, started) == (2, {sys.executable})
    assert "AF_INET" not in log
    assert not trap.ran.exists()


def test_trace_starts_the_command_alone(trap: Trap) -> None:
    command = shutil.which("true") or "/bin/true"
    started, log, code = trap.follow("trace", "--", command)
    assert code == 0
    assert {os.path.realpath(one) for one in started} <= {
        os.path.realpath(one) for one in (sys.executable, command)
    }
    assert "AF_INET" not in log
    assert not trap.ran.exists(), trap.ran.read_text()


@pytest.mark.parametrize("words", [["verify"], ["repair", "--verify", "-w", "verified"]])
def test_verify_starts_pythons_and_installers_alone(words: list[str], trap: Trap) -> None:
    """What the wheel itself runs, it runs in the environment that was made for it."""
    started, log, code = trap.follow(*words, str(trap.wheel("verified", "evil")))
    assert code in {0, 1}
    assert "AF_INET" not in log
    ran = trap.ran.read_text().split("\n") if trap.ran.exists() else []
    trap.ran.unlink(missing_ok=True)
    own = str(trap.folder / "tmp" / "wheelfix-run-")
    # The lines of its `.pth` file are run by `site`.
    assert not [
        one for one in ran if one and not one.startswith((own, "demo")) and "/site.py" not in one
    ]
    strange = {one for one in started if str(trap.folder) in one and not one.startswith(own)}
    assert not strange
    names = {Path(one).name for one in started}
    assert names <= {"uv", "pip"} | {one for one in names if one.startswith("python")}
