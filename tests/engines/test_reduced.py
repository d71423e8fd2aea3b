"""The report of a job's exchanges: asked for where there are reducers, read when it is over."""

import json
import os
from pathlib import Path

import pytest

from engines.attempts import KEY, ended, engine_at, folder, marked, texts
from engines.support import Recorder, cluster, plan_of, python_replica
from planning.test_achieved import DOCUMENT, REPORT
from trainshed.engines.local import foreground
from trainshed.engines.supervise.record.observe import report_at
from trainshed.files.beneath import PathBeneath
from trainshed.launch.variables import UNSET
from trainshed.model.roles import Role
from trainshed.model.trainer_contract import REDUCTION_REPORT

TELL = f"import os; print(os.environ.get({REDUCTION_REPORT!r}, 'none'), flush=True)\n"
WRITE = f"""
import json, os
with open(os.environ[{REDUCTION_REPORT!r}], "w") as file:
    json.dump({DOCUMENT!r}, file)
"""


def with_reducer(primary, worker="pass"):
    return [*cluster(primary, worker), python_replica(Role.REDUCER, 0, TELL)]


def test_an_attempt_with_reducers_is_asked_for_a_report_which_is_seen_at_its_end(root, mark):
    engine = engine_at(root)
    engine.launch(KEY, plan_of(with_reducer(TELL + WRITE, TELL), mark), ())
    assert ended(engine).reduction == REPORT
    path = str(folder(root) / "progress" / "reduction.json")
    assert texts(root) == texts(root, "worker-replica-0") == [path]
    assert path not in texts(root, "reducer-replica-0")
    assert engine_at(root).observe([KEY])[0].reduction == REPORT


@pytest.mark.parametrize("text", [None, "", "{", "null", "[" * 50_000, json.dumps({"version": 2})])
def test_what_is_no_report_is_none(root, mark, text):
    wrong = f"import os\nopen(os.environ[{REDUCTION_REPORT!r}], 'w').write({text!r})"
    engine = engine_at(root)
    engine.launch(KEY, plan_of(with_reducer("pass" if text is None else wrong), mark), ())
    observation = ended(engine)
    assert observation.outcome.exit_code == 0
    assert observation.reduction is None


def test_an_attempt_without_reducers_is_not_asked(root, mark):
    engine = engine_at(root)
    engine.launch(KEY, marked(mark, TELL), ())
    assert ended(engine).reduction is None
    assert texts(root) == ["none"]


@pytest.mark.parametrize("kind", ["fifo", "folder", "missing"])
def test_what_lies_in_a_report_s_place_makes_nobody_wait(tmp_path, kind):
    path = tmp_path / "reduction.json"
    if kind == "fifo":
        os.mkfifo(path)
    elif kind == "folder":
        path.mkdir()
    assert report_at(PathBeneath.of_file(str(path))) is None


def test_a_local_run_asks_its_workers_and_leaves_nothing_behind():
    recorder = Recorder()
    ran = foreground.run(plan_of(with_reducer(TELL + WRITE, TELL)), recorder)
    assert ran.reduction == REPORT
    (path,) = {text for name, text, _ in recorder.lines if name != "reducer-replica-0"}
    assert not Path(path).parent.parent.exists()


def test_a_local_run_without_reducers_is_not_asked():
    recorder = Recorder()
    assert foreground.run(plan_of(cluster(TELL)), recorder).reduction is None
    assert recorder.texts("master-replica-0") == ["none"]


def test_a_launcher_s_own_report_is_nobody_else_s():
    assert REDUCTION_REPORT in UNSET
