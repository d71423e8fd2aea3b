"""Programs that collect logs read those of jobs, with the names of the job of each line.

Vector and Fluent Bit themselves are not started; their script runs in Lua, as it does in both.
"""

import fnmatch
import json
from pathlib import Path

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from trainshed.engines.supervise.record.folder import AttemptFolder
from trainshed.engines.supervise.record.job_file import write_job_file
from trainshed.model.attempt import AttemptKey
from trainshed.model.launch_plan import Environment, LaunchPlan, Owner
from trainshed.model.log_line import LogLine, encode, segment_name

FOLDER = Path(__file__).parents[2] / "deploy/observability/logs"
KEY = AttemptKey(1234567890, 2)
DATA = "/var/lib/trainshed"


def read_yaml(name):
    return yaml.safe_load((FOLDER / name).read_text())


def list_patterns():
    tail = read_yaml("fluent-bit.yaml")["pipeline"]["inputs"][0]
    return tail["path"].split(","), read_yaml("vector.yaml")["sources"]["jobs"]["include"]


@pytest.mark.parametrize("patterns", list_patterns(), ids=["fluent-bit", "vector"])
def test_the_patterns_match_the_files_of_an_attempt_and_no_secret(patterns):
    attempt = AttemptFolder(f"{DATA}/jobs/{KEY}")
    segment = f"{attempt.log}/{segment_name(1)}"
    matches = {
        path: any(fnmatch.fnmatch(path, pattern) for pattern in patterns)
        for path in (segment, attempt.words, attempt.plan, attempt.key, attempt.records)
    }
    assert matches == {
        segment: True,
        attempt.words: True,
        attempt.plan: False,
        attempt.key: False,
        attempt.records: False,
    }


def test_the_configurations_name_functions_of_the_script():
    script = (FOLDER / "trainshed.lua").read_text()
    filters = read_yaml("fluent-bit.yaml")["pipeline"]["filters"]
    transform = read_yaml("vector.yaml")["transforms"]["job_fields"]
    for function in (filters[0]["call"], transform["hooks"]["process"]):
        assert f"function {function}(" in script
    assert filters[0]["script"] == "trainshed.lua"


@pytest.fixture(scope="module")
def lua():
    reason = "lupa, which runs Lua in Python, is not installed; install it with pip install lupa"
    runtime = pytest.importorskip("lupa", reason=reason).LuaRuntime(encoding="utf-8")
    runtime.execute((FOLDER / "trainshed.lua").read_text())
    return runtime


@pytest.fixture(scope="module")
def segment(tmp_path_factory):
    folder = AttemptFolder(tmp_path_factory.mktemp("data") / "jobs" / str(KEY.uid) / "2")
    folder.make()
    plan = LaunchPlan(
        job_id="census",
        attempt=2,
        replicas=(),
        environment=Environment(python="python3"),
        creator='the "Grüße" token',
        owner=Owner("demo", 1),
    )
    write_job_file(folder, KEY, plan)
    return f"{folder.log}/{segment_name(1)}"


def test_a_line_has_the_names_of_its_job(lua, segment):
    line = LogLine(1764512345123456789, "workerpool0-0", "step\t1 \x1b", "ERROR", "stderr", "3")
    record = {"log": encode(line).decode().rstrip("\n"), "file": segment}
    code, time, fields = lua.globals().read_record("tag", 0, lua.table_from(record))
    assert (code, dict(time)) == (1, {"sec": 1764512345, "nsec": 123456789})
    assert dict(fields) == {
        "project": "demo",
        "job": "census",
        "creator": 'the "Grüße" token',
        "uid": "1234567890",
        "attempt": 2,
        "task": "workerpool0-0",
        "severity": "ERROR",
        "stream": "stderr",
        "message": "step\t1 \x1b",
        "trial": "3",
    }


def test_a_line_of_a_supervisor_that_failed_is_an_error(lua, segment):
    path = segment.partition("/log/")[0] + "/runner.txt"
    events = []
    event = lua.table_from({"log": lua.table_from({"message": "MemoryError", "file": path})})
    lua.globals().read_event(event, events.append)
    fields = dict(events[0]["log"])
    assert (fields["message"], fields["severity"]) == ("MemoryError", "ERROR")
    assert (fields["job"], fields["uid"]) == ("census", "1234567890")


def test_a_file_without_names_has_the_numbers_of_its_path(lua):
    fields = lua.globals().read_fields("[1, ", f"{DATA}/jobs/7/1/log/1.jsonl")
    assert (fields["message"], fields["uid"], fields["project"]) == ("[1, ", "7", None)


def test_little_of_a_file_that_a_job_has_replaced_is_read(lua, tmp_path):
    folder = tmp_path / "jobs/8/1"
    folder.mkdir(parents=True)
    (folder / "job.json").write_text(" " * (1 << 16) + '{"project": "demo"}')
    fields = lua.globals().read_fields("text", f"{folder}/log/1.jsonl")
    assert (fields["uid"], fields["project"]) == ("8", None)


TEXTS = st.text(st.characters(exclude_categories=["Cs"]))


@given(task=TEXTS, text=TEXTS, trial=TEXTS)
def test_the_script_reads_each_text_as_json_does(lua, task, text, trial):
    line = encode(LogLine(1, task, text, trial=trial)).decode().rstrip("\n")
    fields = lua.globals().read_fields(line, "")
    assert (fields["task"], fields["message"], fields["trial"]) == (task, text, trial or None)
    assert [json.loads(line)[i] for i in (1, 4, 5)] == [task, text, trial]
