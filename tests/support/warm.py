"""What wheelfix and auditwheel read once in each process, read before tests fork theirs.

A check spends two thirds of its time on tables that come with the program, on the plug-ins that are
installed and on regular expressions. A fork has them already.
"""

import os
from pathlib import Path
from tempfile import TemporaryDirectory

from tests.support.build import make_wheel, shared_object
from tests.support.repairing import repair
from wheelfix.pipelines.check_many import check_many, check_tasks
from wheelfix.settings import Settings


def warm_up() -> None:
    """Check a wheel with one object, and plan its repair, in this process."""
    environ = dict(os.environ)
    with TemporaryDirectory() as name:
        folder = Path(name)
        library = shared_object(folder / "libg.so", "int g(void) { return 1; }", soname="libg.so")
        source = "int g(void); int f(void) { return g(); }"
        user = shared_object(folder / "f.so", source, needed=[library], runpath="/build/lib")
        tag = f"py3-none-linux_{os.uname().machine}"
        wheel = make_wheel(folder, tag=tag, files={"demo/f.so": user})
        list(check_many(check_tasks([wheel], lambda _: Settings(), folder, environ)))
        repair(wheel, Settings(wheel_dir=folder / "out"), environ, publish=False, folder=folder)
