"""What a replica tells of its steps is seen at the end of its attempt, and can end a local run."""

import json
from pathlib import Path

import pytest

from engines.attempts import KEY, ended, engine_at, marked
from engines.support import Recorder, cluster, plan_of
from trainshed.engines.local import foreground
from trainshed.engines.supervise.record.folder import AttemptFolder
from trainshed.engines.supervise.record.observe import steps_of
from trainshed.model.trainer_contract import STEPS_FILE

DOCUMENT = {"version": 1, "steps": 30, "first": [[0.1, 0.0]] * 30, "recent": [[0.1, 0.0]] * 30}
TELL = f"""
import json, os
with open(os.environ[{STEPS_FILE!r}], "w") as file:
    json.dump({DOCUMENT!r}, file)
"""


def test_steps_are_seen_at_the_end(root, mark):
    engine = engine_at(root)
    engine.launch(KEY, marked(mark, TELL), ())
    assert ended(engine).steps.steps == 30
    assert engine_at(root).observe([KEY])[0].steps.steps == 30


def test_a_replica_that_tells_none_has_none(root, mark):
    engine = engine_at(root)
    engine.launch(KEY, marked(mark, "pass"), ())
    assert ended(engine).steps is None


@pytest.mark.parametrize("text", ["", "{", "[" * 50_000, json.dumps({**DOCUMENT, "steps": -1})])
def test_what_is_no_report_is_none(tmp_path, text):
    folder = AttemptFolder(tmp_path / "1" / "1")
    Path(folder.shared).mkdir(parents=True)
    Path(folder.steps("master-replica-0")).write_text(text)
    assert steps_of(folder, "master-replica-0") is None


def test_a_local_run_ends_when_somebody_has_seen_enough():
    def enough(steps):
        return "that is enough" if "master-replica-0" in steps else ""

    waits = f"{TELL}\nimport time\ntime.sleep(600)"
    ran = foreground.run(
        plan_of(cluster(waits, "import time; time.sleep(600)")), Recorder(), enough=enough
    )
    assert ran.steps["master-replica-0"].steps == 30
    assert ran.outcome.message == "that is enough"
    assert ran.outcome.interrupted
