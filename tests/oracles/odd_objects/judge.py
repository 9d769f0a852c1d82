"""The real loader, asked about many objects at once."""

import json
import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

_PROGRAM = """
import ctypes, json, os, sys
said = []
for path in json.load(sys.stdin):
    reader, writer = os.pipe()
    child = os.fork()
    if not child:
        try:
            if path.endswith(".program"):
                os.execv(path, [path])
            os.write(writer, str(ctypes.CDLL(path).value()).encode())
        except (OSError, AttributeError) as error:
            os.write(writer, str(error).encode())
        os._exit(0)
    os.close(writer)
    text = b"".join(iter(lambda: os.read(reader, 4096), b"")).decode("utf-8", "replace")
    os.close(reader)
    status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    said.append(str(status) if status else text)
json.dump(said, sys.stdout)
"""


def loaded(paths: Sequence[Path], folder: Path) -> Mapping[Path, str]:
    """Return what `value()` of each object returns, or why it does not load.

    Each is opened in a process of its own, which finds libraries in `folder`. A program is started,
    and exits with the value.
    """
    done = subprocess.run(
        [sys.executable, "-c", _PROGRAM],
        input=json.dumps([str(path) for path in paths]),
        env={**os.environ, "LD_LIBRARY_PATH": str(folder), "LD_BIND_NOW": "1"},
        capture_output=True,
        text=True,
        check=True,
    )
    return dict(zip(paths, json.loads(done.stdout), strict=True))
