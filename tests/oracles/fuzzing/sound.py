"""Sound objects, wheels and texts to begin with."""

import io
import subprocess
import tempfile
import zipfile
from collections.abc import Mapping
from functools import cache
from pathlib import Path

_CODE = 'extern int puts(const char *); int f(void) { return puts("f"); } int g = 1;'


_DENSE = ("-Wl,-z,max-page-size=64,-z,noseparate-code,-z,norelro,--build-id=none", "-nostdlib")
"""Objects of 2 kB: most of what is damaged then says something."""


@cache
def objects() -> tuple[bytes, ...]:
    """Build a few small objects: with and without versions, hash tables, section headers."""
    kinds = (
        ["-shared"],
        ["-shared", *_DENSE, "-Wl,--hash-style=both,-rpath,$ORIGIN/lib,-soname,libx.so.1"],
        ["-shared", "-Wl,--enable-new-dtags,-rpath,$ORIGIN", "-Wl,--no-as-needed", "-lm"],
        ["-shared", *_DENSE, "-Wl,--no-as-needed", "-lm", "-lc"],
        ["-shared", *_DENSE, "-Wl,--version-script=/dev/stdin"],
        ["-pie", "-fPIE", *_DENSE, "-Wl,-e,f", "-lc"],
    )
    with tempfile.TemporaryDirectory() as folder:
        source, target = Path(folder) / "x.c", Path(folder) / "x.so"
        source.write_text(_CODE, encoding="utf-8")
        made: list[bytes] = []
        for flags in kinds:
            command = ["gcc", "-fPIC", "-fno-asynchronous-unwind-tables", "-s", "-o", str(target)]
            command += [str(source), "-Wl,--allow-shlib-undefined", *flags]
            subprocess.run(command, input=b"V1 { f; }; V2 { g; } V1;", check=True)
            made.append(target.read_bytes())
    return tuple(made)


WHEEL = """Wheel-Version: 1.0
Generator: fuzz
Root-Is-Purelib: false
Tag: cp311-cp311-linux_x86_64
"""


METADATA = """Metadata-Version: 2.4
Name: demo
Version: 1.0
Requires-Python: >=3.8
Requires-Dist: numpy (>=1.2) ; extra == "x"
License-File: LICENSE
Description: first
        | second

The body.
"""


RECORD = """demo/__init__.py,sha256=Zm9v,300
"demo/x,y.so",sha256=YmFy,14000
demo-1.0.dist-info/RECORD,,
"""


SOURCE = """
import ctypes, os, sys
from pathlib import Path
here = Path(__file__).parent
for name in ["liba.so", f"libb{1}.so"]:
    try:
        ctypes.CDLL(str(here / "lib" / name), mode=ctypes.RTLD_GLOBAL)
    except OSError:
        pass
lib = ctypes.cdll.LoadLibrary(os.path.join(os.path.dirname(__file__), "libc" + ".so" * 2))
x = lambda n: ctypes.util.find_library(n) or "%s-%d" % ("a", 1)
for folder in os.environ.get("X_LIBRARY_PATH", "").split(":"):
    ctypes.CDLL(os.path.join(folder, "libx.so"))
"""


TOML = """
plat = "manylinux_2_28_x86_64"
exclude = ["libcuda*"]
zip-level = 5
jobs = 2
fail-on = "warning"
ignore = {WF113 = "why"}
per-file-ignores = {"a/*" = ["WF1"]}
severity = {WF1 = "error"}
[[symbols]]
objects = ["libx.so*"]
exports = ["x_*"]
"""


@cache
def members() -> Mapping[str, bytes]:
    """Return the content of a small wheel, RECORD left out."""
    return {
        "demo/__init__.py": SOURCE.encode(),
        "demo/x.so": objects()[1],
        "demo/core.cpython-311-x86_64-linux-gnu.so": objects()[3],
        "demo-1.0.data/data/lib/libx.so.1": objects()[4],
        "demo-1.0.data/scripts/run": b"#!python\nimport demo\n",
        "demo-1.0.dist-info/METADATA": METADATA.encode(),
        "demo-1.0.dist-info/WHEEL": WHEEL.encode(),
        "demo-1.0.dist-info/entry_points.txt": b"[console_scripts]\ndemo = demo:main\n",
        "demo-1.0.dist-info/sboms/auditwheel.cdx.json": b'{"bomFormat": "CycloneDX"}',
    }


@cache
def wheels() -> tuple[bytes, ...]:
    """Build small wheels: stored and deflated, with data descriptors, links and Zip64 fields."""
    files = {
        "demo/__init__.py": SOURCE.encode(),
        "demo/x.so": objects()[1],
        "demo-1.0.data/data/y.txt": b"text" * 100,
        "demo-1.0.dist-info/METADATA": b"Metadata-Version: 2.1\nName: demo\nVersion: 1.0\n",
        "demo-1.0.dist-info/WHEEL": WHEEL.encode(),
        "demo-1.0.dist-info/RECORD": RECORD.encode(),
    }
    made: list[bytes] = []
    for method in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
        for stream in (io.BytesIO(), _Unseekable()):
            with zipfile.ZipFile(stream, "w", method) as archive:
                for name, content in files.items():
                    with archive.open(name, "w", force_zip64=name.endswith(".txt")) as member:
                        member.write(content)
            made.append(stream.getvalue())
    return tuple(made)


class _Unseekable(io.BytesIO):
    """A stream that makes `zipfile` write data descriptors."""

    def seekable(self) -> bool:
        """Say no."""
        return False

    def seek(self, *_: int) -> int:
        """Refuse."""
        raise io.UnsupportedOperation
