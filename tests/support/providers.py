"""Wheels that need libraries of providers, and the wheels of these."""

import os
import subprocess
import sys
import sysconfig
import zipfile
from pathlib import Path
from typing import Any

from tests.support.build import extension, make_wheel, shared_object
from tests.support.environment import ENVIRON
from tests.support.repairing import repair
from wheelfix.pipelines.repair_result import Outcome
from wheelfix.rules import provider_gaps, provider_requirements, provider_search_paths
from wheelfix.rules import unused_providers as rules
from wheelfix.rules.registry import rules_in
from wheelfix.rules.rule import Rule
from wheelfix.settings import ProviderSetting, Settings
from wheelfix.wheel.model import Metadata

MACHINE = os.uname().machine
SUFFIX = sysconfig.get_config_var("EXT_SUFFIX")
MINOR = sys.version_info.minor
TAG = f"cp3{MINOR}-cp3{MINOR}-linux_{MACHINE}"
BLAS = ProviderSetting(
    requirement="nvidia-cublas-cu12>=12.4",
    libraries=("libcublas*.so.*",),
    directory="nvidia/cublas/lib",
)
DEPENDENT = "demo/_core.so"
PROVIDER_RULES = rules_in(Rule, provider_search_paths, provider_requirements, provider_gaps, rules)


def asked(*requirements: str) -> Metadata:
    return Metadata(name="demo", version="1.0", requires_dist=requirements)


def provider_wheel(
    folder: Path, source: str, version: str = "2.0", *, library: Path | None = None
) -> Path:
    made = library or shared_object(folder / version / "libpro.so.3", source, soname="libpro.so.3")
    files: dict[str, Path | str] = {"pro/__init__.py": "", f"pro/lib/{made.name}": made}
    tag = f"py3-none-linux_{MACHINE}"
    return make_wheel(folder / f"wheels-{version}", "pro", version, tag, files)


def dependent_wheel(folder: Path, *libraries: Path, requires: str = "pro>=2") -> Path:
    module = extension(
        folder / f"_core{SUFFIX}", "_core", needed=libraries, calls=["pro"], runpath=str(folder)
    )
    files: dict[str, Path | str] = {"demo/__init__.py": "", f"demo/_core{SUFFIX}": module}
    metadata = f"Requires-Dist: {requires}\n" if requires else ""
    return make_wheel(folder / "dist", tag=TAG, files=files, metadata=metadata)


def imported(site: Path) -> str:
    """Return what `import demo._core` says where nothing but `site` is."""
    code = "import demo._core as m; print(m.value())"
    command = [sys.executable, "-I", "-c", f"import sys; sys.path.insert(0, {str(site)!r}); {code}"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    return (done.stdout or done.stderr).strip().splitlines()[-1]


def unpacked(site: Path, *wheels: Path) -> Path:
    for wheel_path in wheels:
        with zipfile.ZipFile(wheel_path) as archive:
            archive.extractall(site)
    return site


def repaired(path: Path, to: Path, *providers: str, **settings: Any) -> Outcome:
    given = tuple(ProviderSetting(source=source) for source in providers)
    chosen = Settings(wheel_dir=to, provider=given, **settings)
    return repair(path, chosen, ENVIRON, folder=path.parent)


def pro_library(tmp_path: Path) -> Path:
    """Build the library that the provider has."""
    return shared_object(
        tmp_path / "sdk" / "libpro.so.3", "int pro(void) { return 7; }", soname="libpro.so.3"
    )
