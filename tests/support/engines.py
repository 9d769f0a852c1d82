"""A stand-in for docker and podman, which runs the programs of an image on this machine."""

import json
import sys
from pathlib import Path

import pytest

_ENGINE = """#!{python}
import json, os, sys
arguments = sys.argv[1:]
with open({log!r}, "a") as log:
    print(json.dumps(arguments), file=log)
if arguments[0] == "info":
    {info}
if arguments[0] != "run":
    sys.exit()
given = [a.partition("=")[::2] for a in arguments[1:] if a.startswith("--")]
image = next(place for place, a in enumerate(arguments) if place and not a.startswith("--"))
options = dict(given)
variables = dict(value.partition("=")[::2] for name, value in given if name == "--env")
for name, value in given:
    if name == "--mount" and not os.path.exists(value.split('"source=')[1].split('"')[0]):
        sys.exit("nothing to mount: " + value)
os.chdir(options["--workdir"])
command = [options["--entrypoint"], *arguments[image + 1:]]
os.environ["PATH"] = os.path.dirname({python!r})
try:
    os.execvpe(command[0], command, {{"PATH": os.environ["PATH"], **variables}})
except FileNotFoundError:
    print("executable file not found: " + command[0], file=sys.stderr)
    sys.exit(127)
"""


def stand_in(
    folder: Path, monkeypatch: pytest.MonkeyPatch, *names: str, info: str = "print('rootless')"
) -> Path:
    """Let PATH have only stand-ins of these names, that run `info` for `info`; return their log."""
    log = folder / "log"
    for name in names:
        program = folder / name
        program.write_text(_ENGINE.format(python=sys.executable, log=str(log), info=info))
        program.chmod(0o755)
    monkeypatch.setenv("PATH", str(folder))
    return log


def calls(log: Path) -> list[list[str]]:
    """Return the arguments of each call of the engines."""
    return [json.loads(line) for line in log.read_text().splitlines()]
