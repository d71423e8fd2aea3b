"""Measures a large study to its end: a thousand trials, fifty at once.

    python -m benchmarks studies [--trials 1000] [--parallel 50]

The benchmark includes the database, the queue, the loop of the study and the default algorithm.
Only the engine is simulated, and runs no program.  No other project has a comparable benchmark.
"""

import argparse
import math
import sys
import tempfile
import time
from pathlib import Path

from benchmarks import harness
from benchmarks.harness import Benchmark, Json, at_most
from benchmarks.service.documents import LOCATION, PROJECT, pool
from benchmarks.service.simulated_nodes import compose, nodes
from trainshed.app.application import Application, build
from trainshed.config import Settings
from trainshed.model.attempt import AttemptKey, Report
from trainshed.model.launch_plan import LaunchPlan
from trainshed.model.resource_names import ProjectId
from trainshed.service.jobs.job_service import JobService
from trainshed.service.jobs.studies import trial_views
from trainshed.service.jobs.submission import SubmitRules
from trainshed.service.starts.images import Images
from trainshed.store.records.jobs import JobKind
from trainshed.testing.fake_engine import FakeEngine, Script

SECONDS_MAX = 60.0
LINEAR, LOG = "UNIT_LINEAR_SCALE", "UNIT_LOG_SCALE"


def study(trials: int, parallel: int) -> Json:
    """Return a study with four usual parameters of a small network."""
    return {
        "displayName": "thousand",
        "maxTrialCount": trials,
        "parallelTrialCount": parallel,
        "studySpec": {
            "metrics": [{"metricId": "accuracy", "goal": "MAXIMIZE"}],
            "parameters": [
                {
                    "parameterId": "lr",
                    "scaleType": LOG,
                    "doubleValueSpec": {"minValue": 1e-5, "maxValue": 1.0},
                },
                {
                    "parameterId": "dropout",
                    "scaleType": LINEAR,
                    "doubleValueSpec": {"minValue": 0.0, "maxValue": 0.9},
                },
                {
                    "parameterId": "units",
                    "scaleType": LOG,
                    "integerValueSpec": {"minValue": "8", "maxValue": "1024"},
                },
                {"parameterId": "optimizer", "categoricalValueSpec": {"values": ["adam", "sgd"]}},
            ],
        },
        "trialJobSpec": {"workerPoolSpecs": [pool(1, gpus=0)]},
    }


def score(values: dict[str, str]) -> float:
    """Return the accuracy of a trial; the best is adam with lr 0.01, 128 units and no dropout."""
    lr, units = float(values["lr"]), int(values["units"])
    worse = (math.log10(lr) + 2) ** 2 / 9 + (math.log2(units) - 7) ** 2 / 16
    return 1.0 - worse - float(values["dropout"]) / 4 - 0.1 * (values["optimizer"] == "sgd")


def reports_once(_key: AttemptKey, plan: LaunchPlan) -> Script:
    """Return a script with which a trial reports its score and ends at once."""
    values = dict(word[2:].split("=", 1) for word in plan.primary.argv[1:])
    value = score(values)
    return Script(reports=((0.0, Report(tag="accuracy", value=value, step=1)),))


def run_study(trials: int, parallel: int) -> Json:
    """Run one study to its end; return its figures."""
    with tempfile.TemporaryDirectory() as folder:
        engine = FakeEngine(nodes(parallel, 0), script=reports_once)
        app = build(Settings(data_dir=Path(folder)), engine=engine, compose=compose)
        app.start()
        try:
            return _run(app, trials, parallel)
        finally:
            app.stop()


def _run(app: Application, trials: int, parallel: int) -> Json:
    rules = SubmitRules(images=Images((), (), sys.executable))
    jobs = JobService(app.store, rules, app.controller.wake)
    began = time.monotonic()
    document = study(trials, parallel)
    record = jobs.create(
        JobKind.TUNING_JOB, ProjectId(PROJECT), LOCATION, document, creator="benchmark"
    )
    while not record.job.status.state.is_final:
        time.sleep(0.25)
        record = app.store.job_by_uid(record.uid) or record
        _progress(len(app.store.trial_jobs(record.uid)), trials)
    took = time.monotonic() - began
    views = trial_views(app.store, record)
    finals = [view.trial.final.value("accuracy") for view in views if view.trial.final]
    return {
        "state": record.job.status.state.value,
        "seconds": took,
        "trials": len(views),
        "different": len({view.trial.values for view in views}),
        "best": max(value for value in finals if value is not None),
    }


def _progress(done: int, trials: int) -> None:
    if sys.stderr.isatty():
        sys.stderr.write(f"\r{done} of {trials} trials")


def measure(args: argparse.Namespace) -> harness.Report:
    """Measure one study of many trials."""
    outcome = run_study(args.trials, args.parallel)
    name = f"a study of {args.trials} trials, to its end"
    twice = outcome["trials"] - outcome["different"]
    return harness.Report(
        goals=[
            at_most(name, outcome["seconds"], SECONDS_MAX, "s"),
            at_most("points that were tried twice", twice, 0, ""),
        ],
        lines=[f"{outcome['trials']} trials, best {outcome['best']:.4f}, {outcome['state']}"],
        data=outcome,
    )


BENCHMARK = Benchmark(
    description=__doc__, measure=measure, sizes={"trials": (1000, 6), "parallel": (50, 3)}
)
