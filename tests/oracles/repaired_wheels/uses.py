"""Random wheels that use libraries in ways that no reference shows.

Each wheel has up to three objects. Each of them needs a library, of the machine or of the wheel,
directly or through others, and uses it by dlsym, by a handle of ctypes, by its constructors or
destructors, by a weak reference, for plug-ins, or by an ordinary one; Python opens it by a name
that stands in a source, or that is put together when it runs. `pkg.useN.show()` prints what comes
of it.
"""

# ruff: noqa: S311 -- dice need no secrecy
import os
import random
import sysconfig
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

from tests.oracles.link_graphs.linking import run
from tests.support.build import Files, extension_source, make_wheel
from tests.support.naming import SUFFIX, TAG

_DATA = "demo-1.0.data/data"
_FOLDERS = {
    "pkg": "HERE",
    "pkg/.libs": "HERE + '/.libs'",
    "pkg/lib": "HERE + '/lib'",
    "pkg.libs": "os.path.dirname(HERE) + '/pkg.libs'",
    "demo-1.0.data/platlib/pkg/extra": "HERE + '/extra'",
    f"{_DATA}/lib": "os.environ['DEMO_DATA'] + '/lib'",
}
"""Folder of the wheel -> where Python finds it."""
_PROGRAMS = {
    "demo-1.0.data/scripts": "os.environ['DEMO_BIN']",
    f"{_DATA}/bin": "os.environ['DEMO_DATA'] + '/bin'",
    f"{_DATA}/libexec": "os.environ['DEMO_DATA'] + '/libexec'",
    "pkg/bin": "HERE + '/bin'",
}
_SITE = "lib/python3.11/site-packages"
_HEAD = "#define _GNU_SOURCE\n#include <dlfcn.h>\n#include <stdio.h>\n#include <unistd.h>\n"


class Way(StrEnum):
    """How an object uses the library."""

    CALL = "calls it"
    HANDLE = "is the handle by which Python asks it"
    OWN_HANDLE = "asks it by a handle of its own"
    NEXT = "asks by RTLD_NEXT"
    DEFAULT = "asks by RTLD_DEFAULT"
    WEAK = "has a weak reference"
    WEAK_DATA = "has a weak reference to data"
    CONSTRUCTOR = "relies on a constructor"
    DESTRUCTOR = "relies on a destructor"
    INIT = "relies on DT_INIT"
    PLUGIN = "brings it for a plug-in"


_BODIES = {
    Way.CALL: "int e{n}(void); int show{n}(void) {{ return e{n}(); }}",
    Way.OWN_HANDLE: "int show{n}(void) {{ Dl_info i; dladdr((void *)show{n}, &i);"
    ' void *own = dlopen(i.dli_fname, RTLD_NOW); int (*f)(void) = own ? dlsym(own, "e{n}") : 0;'
    " return f ? f() : -1; }}",
    Way.NEXT: 'int e{n}(void) {{ int (*f)(void) = dlsym(RTLD_NEXT, "e{n}");'
    " return f ? 100 + f() : -1; }} int show{n}(void) {{ return e{n}(); }}",
    Way.DEFAULT: 'int show{n}(void) {{ int (*f)(void) = dlsym(RTLD_DEFAULT, "e{n}");'
    " return f ? f() : -1; }}",
    Way.WEAK: "__attribute__((weak)) int e{n}(void);"
    " int show{n}(void) {{ return e{n} ? e{n}() : -1; }}",
    Way.WEAK_DATA: "extern __attribute__((weak)) int data{n};"
    " int show{n}(void) {{ return &data{n} ? data{n} : -1; }}",
}
_NOTHING = "int show{n}(void) {{ return 1; }}"
_EFFECTS = {
    Way.CONSTRUCTOR: '__attribute__((constructor)) void say(void) { write(1, "c\\n", 2); }',
    Way.DESTRUCTOR: '__attribute__((destructor)) void say(void) { write(1, "d\\n", 2); }',
    Way.INIT: 'void say(void) { write(1, "i\\n", 2); }',
}


@dataclass(frozen=True, kw_only=True)
class Built:
    """A wheel, and what the machine has that it is to work without."""

    wheel: Path
    shown: Sequence[str]
    """The modules of which `show()` prints what comes of a use."""
    machine: Sequence[Path]
    """The folders of the machine."""
    ways: Sequence[str]
    installer: str | None = None
    """The program that installs the wheel; None to lay it out as those do, in less time."""
    verified: bool = False
    """Whether what `verify` says is compared, as built and repaired: it takes two seconds."""


def random_uses(seed: int, folder: Path) -> Built:
    """Throw the dice for a wheel, and build it; the same seed gives the same wheel."""
    dice = random.Random(seed)
    files: dict[str, bytes | str | Path] = {"pkg/__init__.py": ""}
    uses = [_Use(dice, number, folder) for number in range(dice.randint(1, 3))]
    for use in uses:
        files |= use.files()
    return Built(
        wheel=make_wheel(folder / "dist", tag=TAG, files=files),
        shown=[f"pkg.use{use.number}" for use in uses],
        machine=[folder / "machine"],
        ways=[str(use) for use in uses],
        installer=random.Random(f"installer {seed}").choice([None] * 8 + ["pip", "uv"]),
        verified=random.Random(f"verified {seed}").random() < 1 / 10,
    )


class _Use:
    """One object of a wheel, and the library that it uses. Mutable: it is built step by step."""

    def __init__(self, dice: random.Random, number: int, folder: Path) -> None:
        self.number = number
        self._dice = dice
        self._machine = folder / "machine" / str(number)
        self._objects = folder / "objects" / str(number)
        self._way = dice.choice(list(Way))
        kinds = ["library", "module", "module", "program"]
        self._kind = dice.choice(kinds)
        if self._kind == "program" and self._way in {Way.HANDLE, Way.PLUGIN}:
            self._kind = "library"
        self._folder = dice.choice(list(_PROGRAMS if self._kind == "program" else _FOLDERS))
        if self._kind == "module":
            self._folder = "pkg"
        self._depth = dice.choice((0, 0, 1, 2))
        self._own = dice.choice([None, None, None, *_FOLDERS])
        """The folder of the wheel that has the library; None if the machine has it."""
        self._path = dice.choice(("absolute", "runpath", "inherited", "missing too"))
        if self._kind != "library" and self._path == "inherited":
            self._path = "absolute"
        self._opened = dice.choice(("named", "built", "glob", "listdir"))

    def __str__(self) -> str:
        where = f"in {self._own}" if self._own else "of the machine"
        return (
            f"{self._kind} in {self._folder} {self._way}, {where}, {self._depth} between, "
            f"{self._path}, {self._opened}"
        )

    def files(self) -> Files:
        """Link the objects, and return the members of the wheel."""
        number = self.number
        libraries = self._libraries()
        files: dict[str, bytes | str | Path] = {}
        if self._own:
            files |= {f"{self._own}/{path.name}": path for path in libraries}
        name = {
            "library": f"libh{number}.so",
            "module": f"_h{number}{SUFFIX}",
            "program": f"h{number}",
        }[self._kind]
        holder = self._holder(name, libraries[0])
        files[f"{self._folder}/{name}"] = holder
        if self._path == "inherited":
            front = self._objects / f"libf{number}.so"
            entries = ["-Wl,--disable-new-dtags", f"-Wl,-rpath,$ORIGIN:{self._machine}"]
            _link(front, f"int front{number}(void) {{ return 1; }}", [holder], entries)
            files[f"{self._folder}/{front.name}"] = front
        if self._way is Way.PLUGIN:
            plug = self._objects / f"plug{number}.so"
            _link(plug, f"int e{number}(void); int plug(void) {{ return e{number}(); }}", [], [])
            files[f"pkg/{plug.name}"] = plug
        files[f"pkg/use{number}.py"] = self._python(name)
        return files

    def _libraries(self) -> list[Path]:
        """Link the library that is used, and those between; the first is needed by the object."""
        number, way = self.number, self._way
        last = self._machine / f"libe{number}.so.1"
        code = f"int e{number}(void) {{ return {5 + number}; }} int data{number} = {5 + number};"
        code = _HEAD + code + _EFFECTS.get(way, "")
        init = ["-Wl,-init,say"] if way is Way.INIT else []
        found = [_link(last, code, [], [*init, f"-Wl,-soname,{last.name}"])]
        for place in range(self._depth):
            path = self._machine / f"libb{number}{place}.so.1"
            code = f"int e{number}(void); int b{number}{place}(void) {{ return e{number}(); }}"
            entry = self._dice.choice(("$ORIGIN", str(self._machine)))
            flags = [f"-Wl,-soname,{path.name}", f"-Wl,-rpath,{entry}"]
            found.insert(0, _link(path, code, [found[0]], flags))
        return found

    def _holder(self, name: str, library: Path) -> Path:
        number, flags = self.number, self._search_path()
        code = _HEAD + _BODIES.get(self._way, _NOTHING).format(n=number)
        needed = [library]
        if self._way in {Way.CALL, Way.WEAK, Way.WEAK_DATA} and self._depth:
            needed.append(self._machine / f"libe{number}.so.1")
        if self._kind == "program":
            code += f'int main(void) {{ printf("%d\\n", show{number}()); return 0; }}'
            return _link(self._objects / name, code, needed, [*flags, "-pie", "-rdynamic"])
        if self._kind == "module":
            code = extension_source(f"_h{number}") + code
            flags = [*flags, f"-I{sysconfig.get_path('include')}"]
        return _link(self._objects / name, code, needed, [*flags, f"-Wl,-soname,{name}"])

    def _search_path(self) -> list[str]:
        if self._path == "inherited":
            return []
        entries = [str(self._machine)]
        if self._path == "missing too":
            entries.insert(0, "/nonexistent/lib")
        if self._own and self._dice.random() < 0.5:
            way = os.path.relpath(_installed(self._own), _installed(self._folder))
            entries = [f"$ORIGIN/{way}"]
        kind = "enable" if self._path == "runpath" else "disable"
        return [f"-Wl,--{kind}-new-dtags", f"-Wl,-rpath,{':'.join(entries)}"]

    def _python(self, name: str) -> str:
        number = self.number
        lines = ["import ctypes, glob, os, subprocess, sys", "HERE = os.path.dirname(__file__)"]
        folder = {**_PROGRAMS, **_FOLDERS}[self._folder]
        if self._kind == "program":
            ask = "subprocess.run([path], capture_output=True, text=True)"
            lines += ["def show():", f"    path = {folder} + '/{name}'"]
            return "\n".join([*lines, f"    done = {ask}", "    print(done.stdout, done.stderr)"])
        if self._path == "inherited":
            name = f"libf{number}.so"
        start, end = name[:3], name[3:]
        path = {
            "named": f"os.path.join(folder, '{name}')",
            "built": f"os.path.join(folder, '{start}' + '{end}')",
            "glob": f"glob.glob(folder + '/*{name[3:5]}.*')[0]",
            "listdir": f"[folder + '/' + f for f in os.listdir(folder) if '{name[3:5]}.' in f][0]",
        }[self._opened]
        if self._kind == "module" and self._opened in {"named", "built"}:
            path = f"_h{number}.__file__"
        imported = self._kind == "module" and path.startswith("_h")
        mode = ", ctypes.RTLD_GLOBAL" if self._way is Way.PLUGIN else ""
        lines += ["def show():", f"    folder = {folder}"]
        lines += [f"    from pkg import _h{number}"] if imported else []
        lines += [f"    library = ctypes.CDLL({path}{mode})"]
        if self._way is Way.PLUGIN:
            lines += [f"    plug = ctypes.CDLL(os.path.join(HERE, 'plug{number}' + '.so'))"]
        call = {Way.HANDLE: f"library.e{number}", Way.PLUGIN: "plug.plug"}
        return "\n".join([*lines, f"    print({call.get(self._way, f'library.show{number}')}())\n"])


def _installed(folder: str) -> str:
    """Return where a virtual environment has a folder of the wheel."""
    for part, place in ((f"{_DATA}/", ""), ("demo-1.0.data/platlib/", f"{_SITE}/")):
        if folder.startswith(part):
            return place + folder.removeprefix(part)
    return "bin" if folder.endswith("/scripts") else f"{_SITE}/{folder}"


def _link(path: Path, code: str, needed: Sequence[Path], flags: Sequence[str]) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    kind = [] if "-pie" in flags else ["-shared"]
    words = ["gcc", *kind, "-w", "-fPIC", "-xc", "-", "-xnone", "-o", str(path)]
    words += ["-Wl,--no-as-needed,--allow-shlib-undefined", *flags, *map(str, needed)]
    run(words, path.parent, code)
    return path
