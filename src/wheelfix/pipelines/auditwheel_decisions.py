"""auditwheel's decisions about a wheel: libraries to graft, platform tags, the verdict.

auditwheel analyses a view of the wheel (see `auditwheel_view`). The decisions follow from that
analysis as in auditwheel's main_repair.py and main_show.py.
"""

import os
import re
import tempfile
import zipfile
from collections.abc import Container, Iterator, Mapping, Sequence
from dataclasses import replace
from importlib import metadata
from pathlib import Path

from wheelfix.analysis.policies import Policy, judged_libraries, judged_symbols, platform_libraries
from wheelfix.analysis.policy_reasons import (
    Judgement,
    Obstacle,
    Shortfall,
    not_allowed,
    not_located,
)
from wheelfix.analysis.policy_verdict import Verdict, verdict_from
from wheelfix.budget import Budget
from wheelfix.errors import BadWheelError, NonPlatformWheelError, SettingsError, ToolError
from wheelfix.grouping import grouped
from wheelfix.host.policy_tables import INSTALL_HINT, read_policies
from wheelfix.pipelines.auditwheel_analysis import Analysis, Auditwheel, Question, Refusal
from wheelfix.pipelines.auditwheel_view import Inspected, View, build_view
from wheelfix.pipelines.graft import (
    Externals,
    Graft,
    copy_libraries,
    grafted_libraries,
    renames,
    retagged,
    tags_of,
)
from wheelfix.settings import Settings
from wheelfix.system.own_metadata import is_supported, required
from wheelfix.text import join_some
from wheelfix.wheel.model import Wheel
from wheelfix.wheel.platform_tags import ARCHITECTURES


def graft(auditwheel: Auditwheel, wheel: Wheel, settings: Settings, workdir: Path) -> Graft:
    """Ask auditwheel what to graft into `wheel`; all files are written to `workdir`.

    LD_LIBRARY_PATH and AUDITWHEEL_LD_LIBRARY_PATH of the user's environment are used, relative to
    its PWD.

    Raises `BadWheelError` if no requested policy allows the wheel, `SettingsError` for a platform
    that is not possible, `ToolError` if auditwheel or a library is missing.
    """
    if not wheel.elfs:
        return Graft(tags=tags_of(wheel))
    policies = _policies()
    view = _view(wheel, settings, policies)
    question = _question(view, settings, auditwheel.environ, workdir)
    analysis = _analyze(auditwheel, question, wheel)
    requested, platforms = _platforms(analysis, wheel, settings, policies)
    external = _external(analysis, platforms[0], view)
    dropped = _dropped(external, analysis.libpython, wheel)
    externals = _located(external, analysis.libpython, wheel, _searched(question))
    hosts = copy_libraries(externals, question.wheel.parent)
    folder = settings.graft_folder(wheel.name.distribution)
    replaced = analysis.policies[0].name
    return Graft(
        tags=retagged(wheel, platforms, replaced) if settings.update_tags else tags_of(wheel),
        libraries=grafted_libraries(externals, hosts, wheel, folder),
        renames=renames(externals, hosts, wheel),
        dropped=dropped,
        excluded=view.excluded | analysis.excluded,
        messages=(
            *_warnings(analysis, view),
            *_about_libpython(dropped),
            *_about_a_better_tag(requested, platforms),
        ),
    )


def verdict(
    auditwheel: Auditwheel,
    wheel: Wheel,
    settings: Settings,
    workdir: Path,
    budget: Budget,
) -> Verdict:
    """Ask auditwheel which platform tag the objects of `wheel` allow; files go to `workdir`.

    Exclude patterns are used. Unless one of them is for paths, the answer does not depend on the
    libraries of this machine. Raises as `graft` does.
    """
    policies = _policies()
    view = _view(wheel, settings, policies)
    question = replace(_question(view, settings, auditwheel.environ, workdir), platform=None)
    if not any(pattern.startswith(("/", "*", "?", "[")) for pattern in settings.exclude):
        # What this machine has for an external library makes no difference to the tag.
        nowhere = {**question.environ, "AUDITWHEEL_LD_LIBRARY_PATH": ""}
        question = replace(question, ldpaths="", environ=nowhere)
    judgement = _judgement(_analyze(auditwheel, question, wheel))
    return verdict_from(wheel, judgement, settings, policies, budget)


# --- The question ---------------------------------------------------------------------------------


def _policies() -> tuple[Policy, ...]:
    """Return the policies of a supported auditwheel. Raises `ToolError` if there is none."""
    try:
        version = metadata.version("auditwheel")
    except metadata.PackageNotFoundError:
        raise ToolError("auditwheel is not installed", hint=INSTALL_HINT) from None
    if not is_supported("auditwheel", version):
        releases = required("auditwheel")
        raise ToolError(
            f"auditwheel {version} is installed, and wheelfix needs auditwheel{releases}",
            hint=f"pip install 'auditwheel{releases}'",
        )
    return read_policies()


def _view(wheel: Wheel, settings: Settings, policies: Sequence[Policy]) -> View:
    symbols, libraries = judged_symbols(policies), judged_libraries(policies)
    inspected = Inspected(symbols, libraries, platform_libraries(policies))
    return build_view(wheel, settings, inspected)


def _question(
    view: View, settings: Settings, environ: Mapping[str, str], workdir: Path
) -> Question:
    """Write the view as a wheel, into a folder of its own in `workdir`, and ask about it."""
    workdir.mkdir(parents=True, exist_ok=True)
    folder = Path(tempfile.mkdtemp(prefix="auditwheel-", dir=workdir)).resolve()
    with zipfile.ZipFile(folder / view.filename, "w", zipfile.ZIP_STORED) as archive:
        for name, content in view.members.items():
            entry = zipfile.ZipInfo(name)
            entry.external_attr = 0o100644 << 16
            archive.writestr(entry, content)
    return Question(
        wheel=folder / view.filename,
        exclude=frozenset(settings.exclude),
        platform=settings.plat,
        ldpaths=settings.ldpaths,
        isa_ext_check=settings.isa_ext_check,
        environ=_environment(folder, environ),
    )


def _environment(folder: Path, environ: Mapping[str, str]) -> dict[str, str]:
    """Return `environ` without auditwheel's own defaults, with absolute library paths."""
    env = {key: value for key, value in environ.items() if not key.startswith("AUDITWHEEL_")}
    for key in ("AUDITWHEEL_LD_LIBRARY_PATH", "LD_LIBRARY_PATH"):
        if environ.get(key):
            env[key] = _absolute(key, environ[key], environ.get("PWD", ""))
    return env | {"TMPDIR": str(folder)}


def _absolute(key: str, paths: str, cwd: str) -> str:
    """Make relative entries absolute; an empty one is the current directory (ld.so(8))."""
    entries = [entry for entry in paths.split(":") if "$ORIGIN" not in entry]
    if key.startswith("AUDITWHEEL") and len(entries) != paths.count(":") + 1:
        raise SettingsError(
            f"`{key}={paths}` has an entry with `$ORIGIN`, which stands for no object here",
            hint="write absolute paths, or paths relative to the current directory",
        )
    absolute = (os.path.join(cwd, entry).rstrip("/") for entry in entries)  # noqa: PTH118 - text
    return ":".join(entry for entry in absolute if entry.startswith("/"))


def _searched(question: Question) -> tuple[str, ...]:
    """Return the directories in which auditwheel was asked to look for external libraries."""
    variables = ("AUDITWHEEL_LD_LIBRARY_PATH", "LD_LIBRARY_PATH")
    paths = (question.ldpaths or "", *(question.environ.get(name, "") for name in variables))
    return tuple(dict.fromkeys(entry for path in paths for entry in path.split(":") if entry))


def _analyze(auditwheel: Auditwheel, question: Question, wheel: Wheel) -> Analysis:
    """Return the analysis of a view of `wheel`. Raises `BadWheelError`, or `ToolError`."""
    match auditwheel.analyze(question):
        case Analysis() as analysis:
            return analysis
        case Refusal.LIBC_UNKNOWN:
            raise BadWheelError(
                "no object of the wheel says for which C library it was built",
                hint="name the platform, such as --plat manylinux_2_28_x86_64",
            )
        case Refusal.NO_OBJECT:
            raise NonPlatformWheelError(
                "Invalid binary wheel: no ELF executable or shared library file (including "
                "compiled Python C extension) for the platform "
                f"{'.'.join(wheel.name.platforms)} found; {_architectures(wheel)}",
                hint=f"were they built for {join_some(wheel.name.platforms)}?",
            )


def _architectures(wheel: Wheel) -> str:
    """Return the objects of the wheel, grouped by their architectures."""
    names = {abi: name for name, abi in ARCHITECTURES.items()}
    by_arch = grouped(wheel.elfs, lambda member: names.get(wheel.elfs[member].abi, "unknown"))
    return "; ".join(
        f"{join_some(members)} {'is' if len(members) == 1 else 'are'} of {arch} architecture"
        for arch, members in by_arch.items()
    )


# --- The answer -----------------------------------------------------------------------------------


def _platforms(
    analysis: Analysis, wheel: Wheel, settings: Settings, policies: Sequence[Policy]
) -> tuple[str, tuple[str, ...]]:
    """Return the tag that was requested, and all tags that the wheel gets, the best one first.

    Raises `BadWheelError` if the objects do not allow the one that was requested.
    """
    names = [policy.name for policy in analysis.policies]
    best = names.index(analysis.overall)
    if settings.plat == "auto":
        requested = max(best, 1)  # not `linux_<arch>`: its obstacle is raised below
    else:
        requested = _requested(analysis, wheel, settings.plat)
    obstacles = {
        Obstacle.SYMBOLS: analysis.symbols,
        Obstacle.UCS2: analysis.ucs2,
        Obstacle.BLACKLIST: analysis.blacklist,
        Obstacle.MACHINE: analysis.machine,
    }
    for obstacle, limit in obstacles.items():
        if requested > names.index(limit):
            raise not_allowed(names[requested], obstacle, wheel, policies)
    chosen = [requested] if settings.only_plat or best <= requested else [best, requested]
    return names[requested], tuple(
        tag
        for policy in (analysis.policies[index] for index in chosen)
        for tag in (policy.name, *policy.aliases)
    )


def _requested(analysis: Analysis, wheel: Wheel, platform: str) -> int:
    known = [(policy.name, *policy.aliases) for policy in analysis.policies]
    found = next((index for index, names in enumerate(known) if platform in names), 0)
    if not found:
        choices = ", ".join(name for names in known[1:] for name in names)
        raise SettingsError(
            f"`--plat {platform}` is not possible for `{wheel.name}`",
            hint=f"choose one of auto, {choices}",
        )
    return found


def _external(analysis: Analysis, policy: str, view: View) -> dict[str, dict[str, Path | None]]:
    """Return for each member the libraries that `policy` does not provide."""
    return {
        member: dict(sorted(analysis.external[place][policy].items()))
        for place, members in view.represented.items()
        if place in analysis.external
        for member in members
    }


def _located(
    external: Mapping[str, Mapping[str, Path | None]],
    libpython: Container[str],
    wheel: Wheel,
    searched: Sequence[str],
) -> Externals:
    """Return the libraries to graft. Raises `ToolError` if this machine lacks some of them."""
    lacking = {
        name
        for libraries in external.values()
        for name, source in libraries.items()
        if source is None and name not in libpython
    }
    if lacking:
        raise not_located(sorted(lacking), wheel, searched)
    return {
        member: {
            name: source
            for name, source in libraries.items()
            if source is not None and name not in libpython
        }
        for member, libraries in external.items()
    }


def _dropped(
    external: Mapping[str, Container[str]], libpython: Container[str], wheel: Wheel
) -> dict[str, tuple[str, ...]]:
    """Return by member the DT_NEEDED entries for libpython, which no policy allows."""
    found = {
        member: tuple(n for n in wheel.elfs[member].needed if n in libraries and n in libpython)
        for member, libraries in external.items()
    }
    return {member: names for member, names in found.items() if names}


def _judgement(analysis: Analysis) -> Judgement:
    linux = analysis.policies[0].name
    best = [policy.name for policy in analysis.policies].index(analysis.overall)
    return Judgement(
        overall=analysis.overall,
        symbols=analysis.symbols,
        fpectl=analysis.pyfpe == linux,
        narrow_unicode=analysis.ucs2 == linux,
        unsupported_isa=analysis.machine == linux,
        upgrades={
            policy.name: Shortfall(tuple(sorted(policy.external)), policy.blacklisted)
            for policy in analysis.policies[best + 1 :]
        },
    )


# --- Messages -------------------------------------------------------------------------------------


def _warnings(analysis: Analysis, view: View) -> Iterator[str]:
    """Yield auditwheel's warnings, with members for places in the view."""
    for text in dict.fromkeys(analysis.warnings):
        if text.startswith("ignoring: ") or " not found in " in text:
            continue  # these have no folder, and name nothing that exists
        yield _PLACE.sub(lambda match: ", ".join(view.names.get(match[0], (match[0],))), text)


_PLACE = re.compile(r"(?:own\d+|e\d{5})/[^\s,'\"]*[^\s,'\".]")


def _about_libpython(dropped: Mapping[str, Sequence[str]]) -> Iterator[str]:
    for member, names in dropped.items():
        for name in names:
            yield (
                f"Removing {name} dependency from {member}: linking with libpython is forbidden "
                "for manylinux and musllinux wheels"
            )


def _about_a_better_tag(requested: str, platforms: Sequence[str]) -> Iterator[str]:
    if platforms[0] != requested:
        yield (
            f"the wheel is eligible for the higher priority tag `{platforms[0]}`: it gets that, "
            f"and `{requested}` as requested"
        )
