"""`explain`, `verify` and `trace` know the libraries of other wheels."""

import json
import os
import subprocess
import sys
import sysconfig
import zipfile
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

import pytest

from tests.support.build import ONE_FUNCTION, extension, make_wheel, shared_object
from tests.support.schemas import errors
from tests.support.values import elf, wheel, world_on
from wheelfix.analysis.explain import explain
from wheelfix.analysis.graph import graph_of_wheel
from wheelfix.analysis.load_failures import LoadJudge
from wheelfix.analysis.world import Provenance, World
from wheelfix.cli.app import run
from wheelfix.host.provider_lookup import find_providers
from wheelfix.host.provider_objects import neighbors_of
from wheelfix.loader.targets import default_name
from wheelfix.providers.model import Folder, Provided
from wheelfix.providers.well_known import well_known_providers_of
from wheelfix.settings import ProviderSetting
from wheelfix.trace.run import trace
from wheelfix.wheel.model import Key, Wheel
from wheelfix.wheel.reader import Archive, open_wheel

MACHINE = os.uname().machine
SUFFIX = sysconfig.get_config_var("EXT_SUFFIX")
TAG = f"cp3{sys.version_info.minor}-cp3{sys.version_info.minor}-linux_{MACHINE}"
USER = "demo/_core.so"


@pytest.fixture
def pro(tmp_path: Path) -> Path:
    """Build the wheel that has the library."""
    library = shared_object(
        tmp_path / "sdk" / "libpro.so.3", "int pro(void) { return 7; }", soname="libpro.so.3"
    )
    files: dict[str, Path | str] = {"pro/__init__.py": "", "pro/lib/libpro.so.3": library}
    return make_wheel(tmp_path, "pro", "2.0", f"py3-none-linux_{MACHINE}", files)


@pytest.fixture
def user(tmp_path: Path, pro: Path) -> Path:
    """Build a wheel that takes it, as a repair would leave it."""
    module = extension(
        tmp_path / "_core.so",
        "_core",
        needed=[pro.parent / "sdk" / "libpro.so.3"],
        calls=["pro"],
        runpath="$ORIGIN/../pro/lib",
    )
    files: dict[str, Path | str] = {"demo/__init__.py": "", f"demo/_core{SUFFIX}": module}
    return make_wheel(tmp_path, tag=TAG, files=files, metadata="Requires-Dist: pro>=2\n")


@pytest.fixture
def nowhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Go to a folder of its own, which no configuration is for."""
    folder = tmp_path / "cwd"
    (folder / ".git").mkdir(parents=True)
    monkeypatch.chdir(folder)
    return folder


def ran(capsys: pytest.CaptureFixture[str], *arguments: str | Path) -> tuple[int, str]:
    code = run([str(argument) for argument in arguments])
    return code, capsys.readouterr().out


def installed(tmp_path: Path, *wheels: Path) -> Path:
    site = tmp_path / "venv" / "lib" / "python3" / "site-packages"
    for path in wheels:
        with zipfile.ZipFile(path) as archive:
            archive.extractall(site)
    return site


def world(subject: Wheel, *providers: Provided, scheme: str | None = None) -> World:
    return world_on(subject, scheme=scheme, neighbors=neighbors_of(subject, providers))


def named(requirement: str, folder: Folder) -> Provided:
    return Provided(requirement=requirement, folders=(folder,))


def test_the_wheels_beside_one_are_read_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """torch requires more than 20, of gigabytes, and several questions of a run are about all."""
    read: list[Path] = []

    def reading(path: Path) -> Archive:
        read.append(path)
        return open_wheel(path)

    monkeypatch.setattr("wheelfix.host.provider_objects.open_wheel", reading)
    names = [f"lib{index}.so.1" for index in range(25)]
    for name in names:
        library = shared_object(tmp_path / name, soname=name)
        files: dict[str, Path | str] = {f"pro/{name}": library}
        make_wheel(tmp_path / "all", f"pro{name[3:-5]}", tag=TAG, files=files)
    module = extension(tmp_path / "_c.so", "_c", needed=[tmp_path / name for name in names])
    path = make_wheel(tmp_path, tag=TAG, files={f"demo/_c{SUFFIX}": module})
    with open_wheel(path) as archive:
        subject = archive.wheel
    settings = tuple(ProviderSetting(source=str(p)) for p in sorted((tmp_path / "all").iterdir()))
    providers = find_providers(settings, subject)
    for _ in range(3):
        assert len(neighbors_of(subject, providers)) == len(names)
    assert len(read) == len(names)


# --- explain, tree --------------------------------------------------------------------------------


@pytest.mark.usefixtures("nowhere")
def test_explain_finds_a_library_in_the_wheel_of_its_provider(
    user: Path, pro: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    code, out = ran(capsys, "explain", user, "demo._core")
    assert (code, "libpro.so.3  [not found]" in out, "not known: whether" in out) == (0, True, True)
    code, out = ran(capsys, "explain", user, "demo._core", "--provider", pro)
    expected = f"libpro.so.3 => {pro.name}!pro/lib/libpro.so.3  [runpath $ORIGIN/../pro/lib]"
    assert (code, expected in out) == (0, True)
    code, out = ran(capsys, "explain", user, "--provider", pro)
    assert (code, "1 from other wheels" in out) == (0, True)
    code, out = ran(capsys, "explain", user, "--provider", pro, "--output-format", "dot")
    assert (code, f"{pro.name}!pro/lib/libpro.so.3" in out) == (0, True)
    assert ran(capsys, "explain", user, "--output-format", "dot")[0] == 0
    assert ran(capsys, "explain", "--site", ".", "--provider", pro)[0] == 2


def test_the_graph_of_a_check_has_the_libraries_of_neighbors(
    user: Path, pro: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """It is the graph that `explain` draws."""
    options = "--provider", pro, "--output-format"
    _, out = ran(capsys, "check", user, *options, "markdown")
    graph = out.partition("```mermaid\n")[2].partition("```")[0]
    assert f"{pro.name}!pro/lib/libpro.so.3" in graph
    assert graph == ran(capsys, "explain", user, *options, "mermaid")[1]


def test_explain_knows_the_providers_of_the_file_by_name_alone(
    user: Path, nowhere: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    table = 'requirement = "pro>=2"\nlibraries = ["libpro.so.*"]\ndirectory = '
    (nowhere / "wheelfix.toml").write_text(f'[[provider]]\n{table}"pro/lib"\n', encoding="utf-8")
    code, out = ran(capsys, "explain", user, "demo._core", "--output-format=json")
    report = json.loads(out)
    assert (code, errors("explain", report)) == (0, [])
    (asked,) = (r for r in report["explanations"][0]["requests"] if r["name"] == "libpro.so.3")
    assert (asked["given_by"], asked["file"]) == ("other wheel", "pro!pro/lib/libpro.so.3")
    code, out = ran(capsys, "explain", user, "--output-format", "mermaid")
    assert (code, "pro!pro/lib/libpro.so.3" in out) == (0, True)
    (nowhere / "other.toml").write_text(f'[[provider]]\n{table}"pro/no"\n', encoding="utf-8")
    assert ran(capsys, "explain", user, "--config", nowhere / "other.toml")[0] == 1


@pytest.mark.usefixtures("nowhere")
def test_the_well_known_wheel_that_has_a_missing_library_is_named(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    cufft = shared_object(
        tmp_path / "libcufft.so.11", "int f(void) { return 0; }", soname="libcufft.so.11"
    )
    module = extension(tmp_path / "_core.so", "_core", needed=[cufft], calls=["f"])
    files: dict[str, Path | str] = {"demo/__init__.py": "", f"demo/_core{SUFFIX}": module}
    path = make_wheel(tmp_path, tag=TAG, files=files)
    words = "(in nvidia-cufft-cu12)"
    for asked in ("demo._core", "libcufft.so.11"):
        code, out = ran(capsys, "explain", path, asked)
        assert (code, f"[not found]  {words}" in out) == (1, True)
    code, out = ran(capsys, "explain", path, "demo._core", "--output-format=json")
    report = json.loads(out)
    assert errors("explain", report) == []
    wheels = {r["name"]: r["wheels"] for r in report["explanations"][0]["requests"]}
    assert wheels["libcufft.so.11"] == ["nvidia-cufft-cu12"]
    assert wheels["libc.so.6"] == []
    code, out = ran(capsys, "verify", path)
    assert code == 1
    way = "its wheel needs `wheelfix repair --provider nvidia-cufft-cu12 --add-requires`; METADATA "
    way += "must require it by an extra if other modules load without it\n"
    assert "`libcufft.so.11`: it is in nvidia-cufft-cu12" in out
    assert way in out


@pytest.mark.usefixtures("nowhere")
def test_a_required_wheel_that_no_search_path_leads_to_is_a_provider(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    cufft = shared_object(tmp_path / "libcufft.so.11", ONE_FUNCTION, soname="libcufft.so.11")
    module = extension(tmp_path / "_core.so", "_core", needed=[cufft], calls=["f"])
    files: dict[str, Path | str] = {"demo/__init__.py": "", f"demo/_core{SUFFIX}": module}
    required = "Requires-Dist: nvidia-cufft-cu12==11.4\n"
    path = make_wheel(tmp_path, tag=TAG, files=files, metadata=required)
    there = {"nvidia/cufft/lib/libcufft.so.11": cufft}
    beside = make_wheel(tmp_path / "with", "nvidia_cufft_cu12", "11.4", TAG, there)
    code, out = ran(capsys, "verify", path, f"--with={beside}")
    assert code == 1
    assert "`libcufft.so.11`: it is installed as `nvidia/cufft/lib/libcufft.so.11`" in out
    assert "its wheel needs `wheelfix repair --provider nvidia-cufft-cu12`\n" in out
    out_dir = tmp_path / "out"
    call: list[str | Path] = ["--provider=nvidia-cufft-cu12", "--no-verdict", "-w", out_dir]
    assert ran(capsys, "repair", path, *call)[0] == 0
    (repaired,) = out_dir.iterdir()
    assert ran(capsys, "verify", repaired, f"--with={beside}")[0] == 0


def test_a_library_of_no_well_known_wheel_gets_no_advice() -> None:
    assert not well_known_providers_of("libours.so.1")


def test_a_provider_s_own_needs_come_from_its_wheel_and_from_other_providers(
    tmp_path: Path,
) -> None:
    deep = shared_object(tmp_path / "libdeep.so.1", soname="libdeep.so.1")
    near = shared_object(
        tmp_path / "libnear.so.1", soname="libnear.so.1", needed=[deep], runpath="$ORIGIN/../deep"
    )
    first = make_wheel(tmp_path, "near", "1", "py3-none-any", {"near/libnear.so.1": near})
    second = make_wheel(tmp_path, "deep", "1", "py3-none-any", {"deep/libdeep.so.1": deep})
    folder = Folder(Key.PLATLIB, "u", ("libu.so",), "/no.whl/u")
    unused = Provided(requirement="u", wheel="/no.whl", folders=(folder,))
    subject = wheel({USER: elf("libnear.so.1", runpath="$ORIGIN/../near")})
    given = (ProviderSetting(source=str(first)), ProviderSetting(source=str(second)))
    providers = find_providers(given, subject)
    found = explain(
        LoadJudge(world=world(subject, *providers, unused)), installed_at(subject, USER)
    )
    names = [step.origin.name for step in found.steps if step.origin]
    assert f"{first.name}!near/libnear.so.1" in names
    assert f"{second.name}!deep/libdeep.so.1" in names
    assert found.ok


def installed_at(subject: Wheel, member: str) -> str:
    (path,) = (p for p, name in world(subject).members.items() if name == member)
    return path


def test_a_provider_stands_where_its_scheme_puts_it() -> None:
    mkl = named("mkl", Folder(Key.DATA, "lib", ("libmkl_rt.so.3",)))
    subject = wheel({USER: elf("libmkl_rt.so.3", runpath="$ORIGIN/../../..")})
    graph = graph_of_wheel(subject, world(subject, mkl))
    (node,) = graph.nodes_from(Provenance.OTHER)
    assert node.id == "mkl!lib/libmkl_rt.so.3"
    pure = named("p", Folder(Key.PURELIB, "p", ("libp.so",)))
    subject = wheel({USER: elf("libp.so", runpath="$ORIGIN/../p")})
    found = explain(LoadJudge(world=world(subject, pure)), installed_at(subject, USER))
    assert found.ok
    apart = world(subject, pure, scheme="lib64")
    (path,) = (p for p, name in apart.members.items() if name == USER)
    assert [step.request.name for step in explain(LoadJudge(world=apart), path).missing] == [
        "libp.so"
    ]


def test_the_oldest_machine_is_one_that_the_provider_can_be_installed_on() -> None:
    ours = wheel(
        {USER: elf()}, name="d-1-cp311-cp311-manylinux_2_17_x86_64.manylinux2014_x86_64.whl"
    )
    assert default_name(ours) == "glibc:2.17"
    assert default_name(ours, [("manylinux_2_28_x86_64", "manylinux_2_27_x86_64"), ("any",)]) == (
        "glibc:2.27"
    )
    assert default_name(ours, [("manylinux1_x86_64",)]) == "glibc:2.17"


def test_an_installed_provider_is_read_where_it_is(
    tmp_path: Path, pro: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    site = installed(tmp_path, pro)
    monkeypatch.setattr(sys, "path", [str(site), *sys.path])
    subject = wheel({USER: elf("libpro.so.3", runpath="$ORIGIN/../pro/lib")})
    providers = find_providers((ProviderSetting(source="pro"),), subject)
    found = explain(LoadJudge(world=world(subject, *providers)), installed_at(subject, USER))
    (step,) = (s for s in found.steps if s.request.name == "libpro.so.3")
    assert step.origin == (Provenance.OTHER, "pro 2.0!pro/lib/libpro.so.3")
    assert [s.request.name for s in found.steps if s.request.requester == step.request.result] == [
        "libc.so.6"
    ]


def test_of_two_versions_the_highest_stands_beside(tmp_path: Path, pro: Path) -> None:
    newer = shared_object(tmp_path / "n.so", soname="libpro.so.4")
    other = make_wheel(tmp_path, "pro", "3.0", "py3-none-any", {"pro/lib/libpro.so.4": newer})
    subject = wheel({USER: elf("libpro.so.3", "libpro.so.4", runpath="$ORIGIN/../pro/lib")})
    given = tuple(ProviderSetting(source=str(path)) for path in (pro, other))
    providers = find_providers(given, subject)
    found = explain(LoadJudge(world=world(subject, *providers)), installed_at(subject, USER))
    assert [step.request.name for step in found.missing] == ["libpro.so.3"]


# --- verify, trace --------------------------------------------------------------------------------


@pytest.mark.large
def test_verify_installs_the_wheels_of_providers_beside(
    user: Path, pro: Path, nowhere: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert ran(capsys, "verify", "-q", user)[0] == 1
    assert ran(capsys, "verify", "-q", user, "--provider", pro)[0] == 0
    assert ran(capsys, "verify", "-q", user, "--provider", pro, "--with", pro)[0] == 0
    (nowhere / "links").mkdir()
    (nowhere / "links" / pro.name).symlink_to(pro)
    (nowhere / "wheelfix.toml").write_text('provider = ["links"]\n', encoding="utf-8")
    assert ran(capsys, "verify", "-q", user)[0] == 0


def traced(site: Path, code: str) -> Any:
    environ = {"PATH": os.environ["PATH"], "PYTHONPATH": str(site)}
    return trace([sys.executable, "-S", "-c", code], environ)


def test_trace_says_which_distribution_a_file_is_of(tmp_path: Path, user: Path, pro: Path) -> None:
    seen = traced(installed(tmp_path, user, pro), "import demo._core")
    owners = {
        library.path.rpartition("/")[2]: library.distribution
        for p in seen.processes
        for library in p.loaded
    }
    assert owners["libpro.so.3"] == "pro 2.0"
    assert owners[f"_core{SUFFIX}"] == "demo 1.0"
    assert owners["libc.so.6"] is None


def test_trace_names_the_wheel_that_has_what_is_missing(tmp_path: Path) -> None:
    lost = shared_object(
        tmp_path / "libcufft.so.11", "int f(void) { return 0; }", soname="libcufft.so.11"
    )
    top = shared_object(tmp_path / "top.so", needed=[lost])
    lost.unlink()
    code = f"import ctypes\ntry: ctypes.CDLL({str(top)!r})\nexcept OSError as e: print(e)"
    command = [sys.executable, "-m", "wheelfix", "trace", "--", sys.executable, "-c", code]
    path = os.pathsep.join(entry for entry in sys.path if entry)
    environ = {"PATH": os.environ["PATH"], "PYTHONPATH": path}
    done = subprocess.run(command, env=environ, capture_output=True, text=True, check=True)
    assert "libcufft.so.11: cannot open shared object file" in done.stdout
    assert "it is in nvidia-cufft-cu12" in done.stderr


def test_a_neighbor_is_read_once_for_all_questions_until_its_file_changes(
    user: Path, pro: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    opened: list[Path] = []

    def counted(path: Path) -> AbstractContextManager[Archive]:
        opened.append(path)
        return open_wheel(path)

    monkeypatch.setattr("wheelfix.host.provider_objects.open_wheel", counted)
    for times in (1, 2):
        run(["explain", str(user), "--with", str(pro)])
        run(["why", str(user), "libpro", "--with", str(pro)])
        assert opened == [pro] * times
        os.utime(pro, (times, times))
