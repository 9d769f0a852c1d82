"""Verification of a wheel: install it, load every object, import every module, run every program.

Each attempt is a process of its own, with all symbols bound at once, in a temporary environment.
What was loaded is compared with the prediction of the loader model.
"""

import os
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from wheelfix.errors import SettingsError
from wheelfix.host.disk import read_file, read_process
from wheelfix.host.pythons import (
    ALL_SCHEMES,
    UNPACKED_SCHEMES,
    FreshEnvironment,
    Interpreter,
    all_pythons,
    can_make,
    find,
    install,
    interpreter,
    make,
    make_unpacked,
)
from wheelfix.host.verify_attempts import WheelUnderTest, attempts, run_attempts
from wheelfix.host.verify_model import Options, Verified
from wheelfix.host.verify_results import checks
from wheelfix.loader.install_schemes import Scheme, interpreters, schemes
from wheelfix.loader.model import Load
from wheelfix.loader.search import load_all
from wheelfix.system.tempfiles import scratch
from wheelfix.wheel.model import Wheel, WheelName
from wheelfix.wheel.reader import open_wheel


def verify(
    path: Path, options: Options, environ: Mapping[str, str], *, name: WheelName | None = None
) -> Iterator[Verified]:
    """Verify the wheel at `path` in a fresh environment for each chosen Python and scheme.

    `name` is the name of the wheel if the file has another one. Raises `WheelfixError` if the
    wheel cannot be read or installed.
    """
    with open_wheel(path, name=name) as archive:
        wheel = archive.wheel
    for python in _pythons(wheel.name, options.pythons, environ):
        for scheme in _schemes(wheel.name, python, options.schemes):
            layout = _layouts(wheel.name, python).get(scheme)
            with scratch() as folder:
                root = Path(os.path.realpath(folder))
                if layout is not None and scheme in UNPACKED_SCHEMES:
                    place = make_unpacked(layout, python, root, environ)
                else:
                    place = make(scheme, python, root, environ)
                install(
                    path,
                    wheel,
                    place,
                    dependencies=options.dependencies,
                    beside=options.beside,
                )
                subject = _subject(wheel, python, place, layout, options)
                yield _verified(subject, scheme)


def _subject(
    wheel: Wheel,
    python: Interpreter,
    place: FreshEnvironment,
    layout: Scheme | None,
    options: Options,
) -> WheelUnderTest:
    """Return the installed wheel, in an environment whose Python finds it."""
    site, files = find(place.root, wheel, layout)
    if not place.is_virtual:
        search_path = ":".join(dict.fromkeys((str(site), *place.paths)))
        place = replace(place, environ={**place.environ, "PYTHONPATH": search_path})
    return WheelUnderTest(
        wheel=wheel, files=files, site=site, place=place, options=options, python=python
    )


def _verified(subject: WheelUnderTest, scheme: str) -> Verified:
    planned = tuple(attempts(subject))
    answers = run_attempts(subject, planned)
    answered = tuple(zip(planned, answers, strict=True))
    return Verified(
        wheel=str(subject.wheel.name),
        scheme=scheme,
        python=subject.python.name,
        interpreter=subject.python.path,
        checks=checks(subject, answered, _predicted(subject)),
        lost=tuple(member for member in subject.wheel.elfs if member not in subject.files),
    )


def _predicted(subject: WheelUnderTest) -> Mapping[str, Load]:
    """Return the load of each object as the model predicts it, by installed path."""
    roots = [
        subject.files[member].path
        for member, elf in subject.wheel.elfs.items()
        if elf.dynamic and member in subject.files
    ]
    program = os.path.realpath(subject.place.python)
    if not roots or read_file(program) is None:  # a Python may be a script
        return {}
    first = (subject.python.ctypes,) if subject.python.ctypes else ()
    environment = read_process(program, (*first, *roots))
    return {root: load_all((*first, root), environment)[-1] for root in roots}


# --- Pythons and schemes --------------------------------------------------------------------------


def _layouts(name: WheelName, python: Interpreter) -> dict[str, Scheme]:
    """Return the schemes that the tags allow for `python`, by name."""
    return {scheme.name: scheme for scheme in schemes(name) if scheme.python == python.name}


def _schemes(name: WheelName, python: Interpreter, wanted: Sequence[str]) -> tuple[str, ...]:
    """Return the schemes to make; raises `SettingsError` for one that the tags exclude."""
    allowed = _layouts(name, python)
    usable = tuple(scheme for scheme in ALL_SCHEMES if scheme in allowed and can_make(scheme))
    for scheme in wanted:
        if scheme in UNPACKED_SCHEMES and scheme not in allowed:
            raise SettingsError(
                f"`{name}` is not installed by `{scheme}` for {python.name}",
                hint=f"its tags allow {', '.join(usable)}",
            )
    chosen = (usable if scheme == "all" else (scheme,) for scheme in wanted)
    return tuple(dict.fromkeys(scheme for some in chosen for scheme in some))


def _pythons(
    name: WheelName, wanted: Sequence[str], environ: Mapping[str, str]
) -> tuple[Interpreter, ...]:
    """Return the Pythons to use; raises `SettingsError` if the tags of `name` allow none."""
    allowed = interpreters(name)
    found = [interpreter(python, environ) for python in wanted or (sys.executable,)]
    usable = tuple(python for python in found if python.name in allowed)
    if not usable and not wanted:
        others = (interpreter(python, environ) for python in all_pythons(environ))
        usable = tuple(python for python in others if python.name in allowed)[-1:]
    if not usable:
        raise SettingsError(
            f"`{name}` cannot be installed for {', '.join(python.name for python in found)}: "
            f"its tags allow {', '.join(allowed)}",
            hint="install one of these Pythons, and name it with --python",
        )
    return usable
