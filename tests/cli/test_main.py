import re
import subprocess
import sys

import pytest

from trainshed.cli import failures
from trainshed.cli.main import main
from trainshed.cli.verbs import ADVICE, ALIASES, GROUPS, VERBS, find_verb, replace_alias
from trainshed.model.faults import EngineFault, Fault, UsageFault, Violation


def test_help_lists_every_verb_with_a_line(trainshed):
    run = trainshed("--help")
    assert run.code == 0
    for verb in VERBS:
        assert verb.hidden or f"  {verb.text} " in run.out


@pytest.mark.parametrize("verb", VERBS, ids=lambda verb: verb.text)
def test_every_verb_explains_itself_with_an_example_and_prints_json(trainshed, verb):
    run = trainshed(*verb.words, "--help")
    assert run.code == 0
    assert "\nexample:\n  trainshed " in run.out
    prints_nothing_of_its_own = verb.text == "run"
    assert prints_nothing_of_its_own or re.search(r"--format \{\w+,json", run.out)


def test_help_has_four_groups_most_used_first(trainshed):
    lines = trainshed("--help").out.splitlines()
    headings = [line.removesuffix(":") for line in lines if re.fullmatch(r"[A-Z][\w ]+:", line)]
    assert headings == ["Submit and watch", "Tune", "Plan", "Administer"] == list(GROUPS)
    assert lines.index("Administer:") < lines.index(next(x for x in lines if "  serve " in x))


@pytest.mark.parametrize(("word", "meant"), ALIASES.items())
def test_a_word_that_people_try_is_the_command_that_they_mean(trainshed, word, meant):
    assert find_verb(meant.split()) or meant == "--version"
    if meant != "--version":
        assert trainshed(*word.split(), "--help").out.startswith(f"usage: trainshed {meant} ")


def test_version_is_a_command_too(trainshed):
    assert trainshed("version").out == trainshed("--version").out


@pytest.mark.parametrize("word", ADVICE)
def test_a_word_that_may_mean_several_commands_names_them(trainshed, word):
    run = trainshed(*word.split(), "x")
    assert (run.code, run.out) == (2, "")
    commands = re.findall(r"trainshed ([a-z][a-z -]+)", run.err)
    assert commands
    assert all(find_verb(text.split()) for text in commands)


#: Runs each command that it is given in a fork of a Python that has imported nothing of ours.
RUN_EACH = """
import os, sys
for words in sys.argv[1:]:
    if os.fork() == 0:
        from trainshed.cli.main import main
        code = main(words.split())
        print(*sys.modules, file=sys.stderr, flush=True)
        sys.exit(code)
    assert os.wait()[1] == 0
"""


def modules_of(*commands):
    """Return the modules that each command has imported when it has answered."""
    process = subprocess.run(
        [sys.executable, "-c", RUN_EACH, *commands], capture_output=True, text=True, check=True
    )
    return [set(line.split()) for line in process.stderr.splitlines()]


HEAVY = {"yaml", "google.protobuf", "torch", "tomllib", "trainshed.catalog", "trainshed.wire"}


def test_help_imports_next_to_nothing():
    (modules,) = modules_of("--help")
    assert not modules & (HEAVY | {"argparse", "dataclasses"})


def test_the_help_of_a_verb_imports_only_its_command_line():
    verbs = {verb.module: verb for verb in VERBS}.values()
    texts = [f"{verb.text} --help" for verb in verbs]
    for verb, modules in zip(verbs, modules_of(*texts), strict=True):
        assert verb.module in modules
        heavy = modules & (HEAVY | {"trainshed.engines", "trainshed.launch", "subprocess"})
        assert not heavy, verb.text


def test_a_job_without_a_file_is_started_without_the_catalog(tmp_path):
    (tmp_path / "task.py").write_text("")
    words = f"ai-platform local train --module-name task --package-path {tmp_path}"
    *_, modules = modules_of(words)
    assert not modules & (HEAVY - {"tomllib"})


def test_a_half_named_verb_lists_what_it_may_become(trainshed):
    run = trainshed("ai-platform")
    assert run.code == 2
    assert "ai-platform local train" in run.out
    assert "validate " not in run.out.splitlines()[2]
    assert trainshed("ai-platform", "--help").code == 0


def test_an_unknown_verb_suggests_the_nearest(trainshed):
    run = trainshed("validat", "x.yaml")
    assert run.code == 2
    assert run.err.startswith("error: there is no command 'validat x.yaml'; did you mean")


@pytest.mark.parametrize(
    ("typed", "meant"),
    [
        ("nods", "nodes"),
        ("valdate config.yaml", "validate"),
        ("ai custom-job list", "ai custom-jobs list"),
        ("jobs wach census_1", "jobs watch"),
        ("stream-logs census_1", "ai custom-jobs stream-logs"),
    ],
)
def test_a_mistyped_verb_is_told_the_nearest_whatever_follows(trainshed, typed, meant):
    assert f"did you mean: trainshed {meant}? " in trainshed(*typed.split()).err


@pytest.mark.parametrize(
    "typed",
    ["jobs shwo x", "jobs sotp x", "cancle x", "nodes drian n", "delet x", "jobs foo x", "strt"],
)
def test_no_command_that_ends_something_and_no_word_that_is_none_is_proposed(trainshed, typed):
    run = trainshed(*typed.split())
    assert run.code == 2
    if proposed := re.search(r"did you mean: trainshed ([^?]+)\?", run.err):
        words = replace_alias(proposed[1].split())
        assert find_verb(words)
        assert not {"cancel", "stop", "kill", "delete", "drain"} & {*words, *proposed[1].split()}


def test_words_of_other_tools_for_buckets_lead_to_what_does_it(trainshed):
    assert "buckets delete gs://NAME" in trainshed("buckets", "rm", "x").err
    assert "list takes none" in trainshed("buckets", "ls", "x").err


def test_a_word_like_no_verb_is_told_none(trainshed):
    assert trainshed("qqqq").err == "error: there is no command 'qqqq'; see trainshed --help\n"


def test_an_older_name_alone_lists_its_verbs(trainshed):
    assert "  ml-engine local train " in trainshed("ml-engine").out


def test_the_older_and_the_trial_names_of_verbs_work(trainshed):
    for words in (["ml-engine", "local", "train"], ["beta", "ai-platform", "local", "train"]):
        assert "Runs an AI Platform training job" in trainshed(*words, "--help").out


def test_the_version_is_told(trainshed):
    assert trainshed("--version").out.startswith("trainshed 0")


@pytest.mark.parametrize(
    ("error", "code", "text"),
    [
        (UsageFault("no such flag"), 2, "error: no such flag\n"),
        (EngineFault("port 1 is taken"), 1, "error: port 1 is taken\n"),
        (PermissionError(13, "Permission denied", "/x"), 1, "error: /x: Permission denied"),
        (ZeroDivisionError("division\nby zero"), 1, "unexpected ZeroDivisionError: division by z"),
        (ValueError(), 1, "unexpected ValueError: no message"),
    ],
)
def test_every_failure_is_one_message_and_an_exit_code(capsys, monkeypatch, error, code, text):
    monkeypatch.delenv("TRAINSHED_DEBUG", raising=False)
    assert failures.report(error) == code
    stderr = capsys.readouterr().err
    assert text in stderr
    assert stderr.count("\n") == 1
    assert "Traceback" not in stderr


def test_a_refusal_lists_every_violation(capsys):
    violations = [
        Violation(field="a.b", rule="quota", message="is wrong", accepted="1 or 2"),
        Violation(field="--c", rule="quota", message="is missing"),
    ]
    assert failures.report(Fault(violations)) == 2
    assert capsys.readouterr().err == (
        "error: the job is refused; nothing was started\n"
        "  a.b: is wrong (accepted: 1 or 2)\n"
        "  --c: is missing\n"
    )


def test_the_trace_is_shown_to_those_who_ask(capsys, monkeypatch):
    monkeypatch.setenv("TRAINSHED_DEBUG", "1")
    failures.report(ZeroDivisionError("x"))
    assert "ZeroDivisionError: x" in capsys.readouterr().err


def test_ctrl_c_is_exit_code_130(monkeypatch, capsys):
    def interrupted(_):
        raise KeyboardInterrupt

    monkeypatch.setattr("trainshed.cli.main.run", interrupted)
    assert main(["validate", "x"]) == 130
    assert capsys.readouterr().err == "interrupted\n"


def test_a_reader_that_goes_away_ends_the_command_without_noise():
    words = [sys.executable, "-m", "trainshed.cli.main", "catalog", "machine-types", "list"]
    with subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        process.stdout.close()
        _, err = process.communicate(timeout=60)
    assert err == b""
    assert process.returncode in (0, 141)


def test_help_answers_as_a_process():
    process = subprocess.run(
        [sys.executable, "-m", "trainshed.cli.main", "validate", "--help"],
        capture_output=True,
        text=True,
        check=False,
    )
    assert process.returncode == 0
    assert process.stdout.startswith("usage: trainshed validate FILE... [flags]")
