"""`check`, `explain`, `why` and `repair` give the same answer about every library."""

import json
import os
from collections.abc import Iterable, Mapping
from itertools import product
from pathlib import Path
from typing import Any

import pytest

from tests.support.build import extension, make_wheel, shared_object
from tests.support.repairing import repair
from wheelfix.cli.app import run
from wheelfix.settings import ProviderSetting, Settings

TAG = f"cp311-cp311-manylinux_2_28_{os.uname().machine}"
PROVIDED = "libpro.so.3"
NOT_FOUND = {"WF101", "WF106", "WF805", "WF813", "WF827"}
MODULE = "demo/_core.abi3.so"

pytestmark = pytest.mark.usefixtures("nowhere")


@pytest.fixture
def nowhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Go to a folder of its own, which no configuration is for."""
    folder = tmp_path / "cwd"
    (folder / ".git").mkdir(parents=True)
    monkeypatch.chdir(folder)


@pytest.fixture
def provider(tmp_path: Path) -> Path:
    """Build the wheel with `PROVIDED`, which finds a library of its own only beside it."""
    deep = library(tmp_path / "libdeep.so.1")
    pro = library(tmp_path / PROVIDED, needed=[deep], runpath="$ORIGIN")
    files: dict[str, Path | str] = {"pro/lib/libdeep.so.1": deep, f"pro/lib/{PROVIDED}": pro}
    return make_wheel(tmp_path, "pro", "2.0", TAG, files)


def library(path: Path, **options: Any) -> Path:
    return shared_object(path, f"int {path.name.partition('.')[0]}(void) {{ return 1; }}",
                         soname=path.name, **options)  # fmt: skip


def built(tmp_path: Path, case: str) -> Path:
    """Build the wheel of one case: a module, a library of its own, and what is not in it."""
    pro, gone = library(tmp_path / "sdk" / PROVIDED), library(tmp_path / "sdk" / "libgone.so.1")
    gl = library(tmp_path / "sdk" / "libGL.so.1")
    way = {"runpath": "$ORIGIN/../pro/lib"}
    own = library(tmp_path / "libown.so", needed=[pro], **way)
    files: dict[str, Path | str] = {}
    match case:
        case "direct":
            options: Mapping[str, Any] = {"needed": [pro], **way}
        case "through its own library":
            options = {"needed": [own], "runpath": "$ORIGIN/../demo.libs"}
            files["demo.libs/libown.so"] = own
        case "own library not found":
            options = {"needed": [own], "runpath": "$ORIGIN/elsewhere"}
            files["demo.libs/libown.so"] = own
        case "astray":
            options = {"needed": [pro], "runpath": "$ORIGIN/../pro"}
        case "inherited":
            lower = library(tmp_path / "liblower.so", needed=[pro])
            options = {"needed": [lower], "rpath": "$ORIGIN/../demo.libs:$ORIGIN/../pro/lib"}
            files["demo.libs/liblower.so"] = lower
        case _:
            options = {"needed": [gone, gl]}
    files[MODULE] = extension(tmp_path / "_core.so", "_core", **options)
    return make_wheel(tmp_path, tag=TAG, files=files, metadata="Requires-Dist: pro>=2\n")


CASES = (
    "direct", "through its own library", "own library not found", "astray", "inherited", "gone"
)  # fmt: skip


@pytest.mark.each_run("*-way0", "*-way3")
@pytest.mark.parametrize("way", list(product([True, False], ["debian:12", "conda"])))
@pytest.mark.parametrize("case", CASES)
def test_every_command_misses_the_same_libraries(
    tmp_path: Path,
    provider: Path,
    case: str,
    way: tuple[bool, str],
    capsys: pytest.CaptureFixture[str],
) -> None:
    """With and without the wheel of the provider, on a target."""
    given, target = way
    wheel = built(tmp_path, case)
    options = ["--target", target, *(["--provider", str(provider)] if given else [])]

    def ask(command: str, *arguments: str | Path) -> Any:
        words = [command, *map(str, arguments), *options, "--output-format", "json"]
        assert run(words) in {0, 1}
        return json.loads(capsys.readouterr().out)

    def missing(wheel: Path) -> set[str]:
        """Return the libraries that are not found, on which all commands agree."""
        explanations = ask("explain", wheel)["explanations"]
        requests = [request for one in explanations for request in one["requests"]]
        lacking = {request["name"] for request in requests if request["file"] is None}
        own = (r for r in requests if r["depth"] and "!" not in str(r["requester"]))
        names = {request["name"] for request in own} - {"libc.so.6"}
        assert {name for name in names if "missing" in where(ask("why", wheel, name))} == lacking
        assert named(ask("check", wheel)["wheels"][0]["findings"], names) == lacking
        return lacking

    lacking = missing(wheel)
    settings = Settings(
        wheel_dir=tmp_path / "out",
        target=(target,),
        provider=(ProviderSetting(source=str(provider)),) if given else (),
    )
    outcome = repair(wheel, settings, os.environ)
    remaining = [{"code": f.code, "message": f.message} for f in outcome.remaining]
    if outcome.output is None:
        error = [{"code": "WF813", "message": str(outcome.error)}] if outcome.error else remaining
        assert named(error, lacking)
    else:
        assert named(remaining, lacking) == missing(outcome.output)


def where(answer: Mapping[str, Any]) -> set[str]:
    return {library["from"] for library in answer["libraries"]}


def named(findings: Iterable[Mapping[str, Any]], names: Iterable[str]) -> set[str]:
    """Return the libraries that are not found by the words of `findings`."""
    told = [finding["message"] for finding in findings if finding["code"] in NOT_FOUND]
    return {name for name in names for message in told if name in message}
