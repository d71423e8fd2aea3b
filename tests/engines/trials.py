"""What the tests of trials share: programs that report, in three ways, and their plans."""

from engines.attempts import KEY, engine_at, folder, marked
from trainshed.model.attempt import MetricsPlan

#: Google's own package, as it is installed; ``tune(value, step)`` reports.
HYPERTUNE = """
import hypertune, os, time
reporter = hypertune.HyperTune()
def tune(value, step, tag="loss"):
    reporter.report_hyperparameter_tuning_metric(tag, value, step)
"""

#: What pytorch-ignite's VertexAILogger does at each report, without torch.
IGNITE = """
import json, os, time
from collections import deque
path, lines = os.environ["CLOUD_ML_HP_METRIC_FILE"], deque(maxlen=100)
os.makedirs(os.path.dirname(path), exist_ok=True)
def tune(value, step, tag="loss"):
    lines.append({"timestamp": time.time(), "trial": "1", tag: str(float(value)),
                  "global_step": str(int(step)), "checkpoint_path": ""})
    with open(path, "w") as file:
        for line in lines:
            file.write(json.dumps(line, sort_keys=True) + "\\n")
"""

#: Our own library, which replaces the file as a whole.
TRAINER = """
import time
from trainshed_trainer import report_metric
def tune(value, step, tag="loss"):
    report_metric(tag, value, step)
"""
WRITERS = {"hypertune": HYPERTUNE, "ignite": IGNITE, "trainer": TRAINER}


def metric_file(root, key=KEY):
    return folder(root, key) / "hypertune" / "output.metrics"


def trial(  # noqa: PLR0913 - a plan with metrics, and what differs between tests
    root, mark, *codes, tags=("loss",), summaries=(), key=KEY, files=None
):
    """A plan whose programs report as those of a trial do."""
    here = [str(metric_file(root, key)), *(f"{metric_file(root, key)}.{i}" for i in range(9))]
    files = here[: len(codes)] if files is None else files
    plan = MetricsPlan(files=tuple(files), tags=tags, summaries=tuple(map(str, summaries)))
    programs = [
        f"import os\nos.environ['CLOUD_ML_HP_METRIC_FILE'] = {file!r}\n{code}"
        for file, code in zip(here, codes, strict=False)
    ]
    return marked(mark, *programs, metrics=plan)


def steps(measured):
    return [report.step for report in measured.reports]


def whole(root, key=KEY):
    """Everything, as a server that has just been started finds it."""
    return engine_at(root).measured(key, 0)
