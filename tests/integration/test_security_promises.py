"""Each sentence of security.md, and what other pages say of the same, has a test that holds it."""

import re
from pathlib import Path
from zipfile import ZipFile

import pytest

from tests.oracles.fuzzing.bombs import with_verneed
from tests.oracles.fuzzing.forge import NAME, Files, library, wheel
from tests.support.build import make_wheel
from wheelfix import check

ROOT = Path(__file__).parents[2]
SECURITY = "docs/explanation/security.md"
COMMANDS = "src/wheelfix/cli/commands"
AIR_GAPPED = "docs/how-to/air-gapped.md"
ADVICE = "nothing that the program does"
"""In the place of a test: advice, or what the sentences around it begin with."""

RUNS = "integration/test_nothing_runs.py::test_a_command_starts_no_program"
FETCHES = "integration/test_nothing_runs.py::test_what_is_required_is_fetched_and_not_executed"
VERIFIES = "integration/test_nothing_runs.py::test_verify_starts_pythons_and_installers_alone"
PULLS = "host/test_containers.py::test_only_an_image_that_is_not_here_is_pulled"
ANSWER = "host/test_verify.py::test_an_answer_is_believed_only_if_it_shows_the_object"
BOMBS = "integration/test_bombs.py::test_a_small_wheel_is_checked_within_seconds_and_512_mb"
TRUST = "host/test_machine_files.py::test_an_entry_of_another_user_is_refused"
ZIPS = "wheel/test_reader.py::test_zips_that_readers_would_read_differently_are_refused"

PROMISES = {
    "wheelfix reads every wheel": (RUNS,),
    "`check`, `diff`, `show`, `why` and `explain` execute nothing": (RUNS,),
    "`verify`, `repair --verify`, `trace` and `doctor --prove` do": (
        VERIFIES,
        "integration/test_nothing_runs.py::test_trace_starts_the_command_alone",
    ),
    "Only `--deps`, `--with NAME`": (RUNS, FETCHES, PULLS),
    "Of the index, all but `verify` take wheels alone": (
        FETCHES,
        "host/test_required_wheels.py::test_a_neighbor_of_a_configuration_is_not_built",
        "integration/test_nothing_runs.py::test_a_neighbor_of_a_configuration_is_not_followed",
    ),
    "What has no wheel is not known": (
        "host/test_required_wheels.py::test_what_has_no_wheel_is_said_and_all_the_rest_is_judged",
        "host/test_required_wheels.py::test_what_is_not_known_can_be_built_and_put_beside_the_wheel",
    ),
    "Of pip's settings": ("host/test_required_wheels.py::test_settings_of_pip_build_nothing",),
    "`verify --deps` installs as": (ADVICE,),
    "`tests/integration/test_nothing_runs.py` follows": (RUNS,),
    "Fetched wheels are kept": (
        "host/test_required_wheels.py::test_an_answer_belongs_to_its_index_its_constraints_and_its_day",
        "host/test_required_wheels.py::test_a_wheel_of_the_cache_is_taken_by_its_hash",
    ),
    "A file that another user could have": (
        "host/test_neighbors.py::test_a_cache_that_another_user_can_change_is_not_used",
        "host/test_required_wheels.py::test_an_answer_that_was_changed_is_asked_for_again",
    ),
    "Temporary files of pip": (
        "host/test_required_wheels.py::test_temporary_files_of_pip_lie_in_our_folder",
    ),
    "What an import answers": (
        ANSWER,
        "host/test_ask_import_probe.py::test_an_answer_of_other_types_is_not_believed",
        "host/test_ask_import_probe.py::test_an_answer_without_maps_is_not_believed",
    ),
    "Without such an answer": (ANSWER,),
    "An import has none of wheelfix's descriptors": (ANSWER,),
    "A zip that two programs could read": (
        ZIPS,
        "wheel/test_reader.py::test_names_that_leave_the_tree_are_refused",
        "wheel/test_reader.py::test_names_that_clash_are_refused",
        "wheel/test_reader.py::test_links_and_special_files_are_refused",
    ),
    "What pip or uv refuses": (
        "integration/test_installers_agree.py::test_check_passes_no_wheel_that_pip_or_uv_refuse",
        "integration/test_installers_agree.py::test_names_without_glyphs_are_refused_as_uv_does",
        "rules/test_entry_points_txt.py::test_an_entry_point_that_pip_or_uv_refuses_is_an_error",
    ),
    "Zips in the wheel": (
        "integration/test_security_promises.py::test_a_zip_in_a_wheel_is_not_opened",
    ),
    "Each wheel has one budget": (BOMBS,),
    "It grows with the size": (
        BOMBS,
        "analysis/test_explain.py::test_the_budget_grows_with_the_wheels",
    ),
    "A wheel that exceeds it": (
        "integration/test_bombs.py::test_a_refusal_names_the_wheel_and_what_was_too_much_where",
    ),
    "`tests/oracles/fuzzing/bombs.py` makes": (
        BOMBS,
        "integration/test_bombs.py::test_a_small_wheel_is_repaired_within_seconds_and_512_mb",
    ),
    "What the Python sources, `.pth` files": (
        "environments/test_proportion.py::test_what_a_small_wheel_installs_takes_seconds_and_512_mb",
        "host/test_machine_files.py::test_what_links_lead_to_is_read_up_to_a_limit",
    ),
    "`tests/environments/test_proportion.py` makes": (
        "environments/test_proportion.py::test_an_environment_takes_time_in_proportion",
    ),
    "What its objects lead to": (
        "environments/test_proportion.py::test_an_environment_of_1_mb_takes_seconds_and_512_mb",
        "test_budget.py::test_a_large_environment_may_cause_more",
    ),
    "Each command also has one limit": (
        "cli/test_wheel_time_limit.py::test_a_wheel_that_takes_too_long_ends_the_command",
        "host/test_required_wheels.py::test_an_index_that_does_not_answer_takes_no_longer_than_the_limit",
    ),
    "`check` goes on with the other": (
        "cli/test_wheel_time_limit.py::test_a_command_ends_although_its_interpreter_is_stuck",
    ),
    "A zip bomb is refused": (
        "wheel/test_reader.py::test_a_wheel_that_is_a_bomb_is_refused_before_it_is_inflated",
    ),
    "Some contents are limited": (
        "python_sources/test_opens.py::test_a_source_of_too_many_tokens_is_not_parsed",
        "integration/test_security_promises.py::test_contents_have_limits",
    ),
    "`repair` grafts what the loader": (ADVICE,),
    "A wheel that needs a library of this machine": (ADVICE,),
    "Do not publish a wheel": (ADVICE,),
    "Of this machine, `repair` uses only": (
        TRUST,
        "host/test_machine_files.py::test_a_repair_copies_no_file_that_another_user_chose",
        "host/test_machine_files.py::test_a_record_that_another_user_planted_names_no_owner",
    ),
    "They and all folders above them": (
        TRUST,
        "host/test_machine_files.py::test_the_owner_of_the_current_directory_is_trusted",
        "host/test_machine_files.py::test_what_all_users_may_write_is_refused",
        "host/test_machine_files.py::test_what_a_group_with_other_users_may_write_is_refused",
    ),
    "A library of another user": (
        "host/test_machine_files.py::test_a_library_of_another_user_is_not_grafted",
        "pipelines/test_auditwheel_worker.py::test_a_library_of_another_user_is_passed_over",
    ),
    "Only the environment that holds": (
        "host/test_machine_files.py::test_a_distribution_that_another_user_planted_names_no_owner",
        "host/test_machine_files.py::test_names_of_license_texts_stay_in_their_folder",
    ),
    "Nothing but regular files": (
        "host/test_machine_files.py::test_only_regular_files_are_opened",
    ),
    "The summary lists each file": (
        "pipelines/test_bundled_licenses.py::test_the_summary_and_the_plan_name_the_files_that_were_copied",
    ),
    "The `license-files` of a": ("cli/test_config.py::test_an_error_names_the_line",),
    "A folder of temporary files": (
        "host/test_machine_files.py::test_a_temporary_folder_of_others_is_refused_with_its_owner",
    ),
    "`--debug-symbols` never": (
        "pipelines/test_debug_files.py::test_the_debug_file_of_another_object_stays",
    ),
    "One with the same build-id": (
        "pipelines/test_debug_files.py::test_other_debug_information_for_one_build_id_is_refused",
    ),
    "The debug files of a wheel": (
        "pipelines/test_debug_files.py::test_all_debug_files_are_written_or_none",
    ),
    "Names from the wheel are escaped": (
        "integration/test_output_escaping.py::test_check",
        "integration/test_output_escaping.py::test_repair",
        "integration/test_output_escaping.py::test_a_hostile_file_name",
        "integration/test_output_escaping.py::test_a_name_that_ends_a_line_does_not_end_that_of_an_error",
        "integration/test_documents.py::test_names_are_no_commands_of_the_runner",
    ),
    "No shell is involved": ("integration/test_security_promises.py::test_no_shell_is_started",),
    "A file that an option names": (
        "cli/test_output_files.py::test_no_wheel_is_replaced",
        "cli/test_output_files.py::test_a_file_of_another_kind_is_not_replaced",
        "cli/test_output_files.py::test_a_device_that_acts_on_what_it_gets_is_refused",
    ),
    "A new wheel appears completely": (
        "wheel/test_reader.py::test_nothing_is_there_before_and_one_file_after",
        "integration/test_faults.py::test_kills_at_random_moments",
    ),
    "Ctrl-C, SIGTERM, SIGHUP and SIGQUIT": (
        "integration/test_faults.py::test_an_interrupt_ends_every_command",
        "cli/test_wheel_time_limit.py::test_a_signal_reaches_the_process_that_works",
    ),
    "After a SIGKILL": (
        "integration/test_faults.py::test_a_killed_run_leaves_a_folder_that_the_next_one_removes",
    ),
    "`wheelfix.toml` and `pyproject.toml`": (
        "cli/test_config.py::test_the_nearest_file_up_to_the_root_of_the_project",
        "cli/test_config.py::test_the_search_ends_with_the_home_directory",
    ),
    "Files of other users than root": (
        "cli/test_config.py::test_a_file_of_another_user_is_not_read",
        "cli/test_config.py::test_the_file_in_use_is_said",
    ),
    "`tests/oracles/fuzzing` and": (ADVICE,),
}
ELSEWHERE = {
    ("README.md", "Wheels are untrusted input"): (RUNS, VERIFIES, FETCHES),
    (AIR_GAPPED, "wheelfix itself uses no network."): (RUNS,),
    (AIR_GAPPED, "Only `--deps`, `--with NAME` and `doctor WHEEL` ask"): (RUNS, FETCHES, PULLS),
    (AIR_GAPPED, "`check`, `diff`, `show`, `why`, `explain`, `repair` and `doctor` execute"): (
        RUNS,
    ),
    (AIR_GAPPED, "`verify`, `repair --verify`, `trace` and `doctor --prove` do"): (VERIFIES,),
    (AIR_GAPPED, "`--provider NAME` works for well-known providers without their wheels"): (
        "host/test_provider_lookup.py::test_a_well_known_name_needs_no_installed_distribution",
    ),
    (f"{COMMANDS}/explain.py", "Nothing is executed."): (RUNS,),
    (f"{COMMANDS}/why.py", "nothing is written."): (
        "oracles/test_fuzzing.py::test_hostile_input_goes_through_every_command_without_a_trace",
    ),
    (f"{COMMANDS}/doctor.py", "Only `--prove` executes code of the environment."): (RUNS,),
    (f"{COMMANDS}/verify.py", "verify itself writes nothing but temporary environments"): (
        "host/test_verify.py::test_nothing_outside_the_environment_is_touched",
    ),
    (f"{COMMANDS}/repair.py", "Print the plan, and write nothing."): (
        "pipelines/test_repair.py::test_a_dry_run_leaves_nothing_anywhere",
    ),
    ("SECURITY.md", "`verify`, `repair --verify`, `trace` and `doctor --prove` run code"): (
        VERIFIES,
    ),
}


def sentences(text: str) -> list[str]:
    """Return the sentences of a page, without headings."""
    paragraphs = (part for part in text.split("\n\n") if not part.startswith("#"))
    return [
        one
        for part in paragraphs
        for one in re.split(r"(?<=\.)\s+(?=[A-Z`])", " ".join(part.split()))
    ]


def test_each_sentence_of_the_security_model_has_its_test() -> None:
    found = sentences((ROOT / SECURITY).read_text("utf-8"))
    assert not [one for one in found if not any(map(one.startswith, PROMISES))]
    assert not [start for start in PROMISES if sum(one.startswith(start) for one in found) != 1]


@pytest.mark.parametrize(("page", "start"), ELSEWHERE)
def test_other_pages_say_what_is_held(page: str, start: str) -> None:
    assert start in " ".join((ROOT / page).read_text("utf-8").split())


def test_the_tests_of_the_promises_are_there() -> None:
    named = {one for some in (*PROMISES.values(), *ELSEWHERE.values()) for one in some} - {ADVICE}
    missing = set[str]()
    for one in named:
        file, _, name = one.partition("::")
        if not re.search(
            rf"^def {name}\(", (ROOT / "tests" / file).read_text("utf-8"), re.MULTILINE
        ):
            missing.add(one)
    assert not missing


def test_a_zip_in_a_wheel_is_not_opened(tmp_path: Path) -> None:
    """Its names may lead anywhere, and it may be a bomb: it is data."""
    inner = tmp_path / "inner.zip"
    with ZipFile(inner, "w") as archive:
        archive.writestr("../../../../etc/passwd", "")
        archive.writestr("libx.so", b"\x7fELF")
    files: dict[str, bytes | str | Path] = {"demo/data.zip": inner, "demo/data.whl": inner}
    report = check(make_wheel(tmp_path, "demo", tag="py3-none-any", files=files))
    assert report.error is None
    assert not report.findings


LIMITED: dict[str, tuple[Files, Files]] = {
    "DT_NEEDED": (
        {"a.so": library([f"l{n}.so" for n in range(999)])},
        {"a.so": library([f"l{n}.so" for n in range(1001)])},
    ),
    "libraries with versions": ({"a.so": with_verneed(1000)}, {"a.so": with_verneed(1001)}),
    "names of libraries": ({"a.so": library(["l" * 4096])}, {"a.so": library(["l" * 4097])}),
    "folders": ({f"{'a/' * 98}x": b""}, {f"{'a/' * 100}x": b""}),
    "paths": ({f"{('a' * 99 + '/') * 39}x": b""}, {f"{('a' * 99 + '/') * 40}x": b""}),
}
"""What is accepted, and what is not."""


@pytest.mark.parametrize("kind", LIMITED)
def test_contents_have_limits(kind: str, tmp_path: Path) -> None:
    def is_sound(files: Files) -> bool:
        path = tmp_path / NAME
        path.write_bytes(wheel(files))
        report = check(path)
        return report.error is None and "WF601" not in {one.code for one in report.findings}

    assert [is_sound(files) for files in LIMITED[kind]] == [True, False]


def test_no_shell_is_started() -> None:
    """Of all calls that start a program, none has `shell=True`, and none is os.system's kind."""
    calls = re.compile(r"shell=(?!False)|os\.(system|popen)\(|getoutput\(|create_subprocess_shell")
    sources = (ROOT / "src" / "wheelfix").rglob("*.py")
    assert not [path for path in sources if calls.search(path.read_text("utf-8"))]
