"""Studies of any size in a store, as if their trials had run: for pages and their figures.

    python generated_studies.py DATA_DIR PROJECT NAME TRIALS

writes one into the database of a server that does not run.
"""

import math
import sys
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from random import Random

from sqlalchemy import insert

from trainshed.model.attempt import Report
from trainshed.model.job import JobSpec
from trainshed.model.resources import Demand, GroupDemand, JobDemand
from trainshed.model.roles import Dialect, Role
from trainshed.model.status import JobState
from trainshed.model.study import (
    AshaRule,
    Condition,
    Goal,
    MedianRule,
    Metric,
    ParameterKind,
    ParameterPrior,
    ParameterSpec,
    Safety,
    Scale,
    StudySpec,
)
from trainshed.model.trials import TRIAL_STOPPED_EARLY, Measurement, TrialRecord, TrialState
from trainshed.store import study_rows
from trainshed.store.opening import open_store
from trainshed.store.records.jobs import JobKind, NewJob
from trainshed.store.records.steps import NewEvent
from trainshed.store.records.studies import StudyStep, TrialReports
from trainshed.store.tables import REPORTS, TRIALS

STEPS = 20
#: The share of trials that a rule has stopped, that have failed, and whose metric became NaN.
EARLY, FAILED, NAN = 0.15, 0.03, 0.02
STUDY = StudySpec(
    metrics=(Metric(metric_id="accuracy"),),
    parameters=(
        ParameterSpec(
            parameter_id="learning_rate",
            kind=ParameterKind.DOUBLE,
            bounds=(1e-5, 1e-1),
            scale=Scale.LOG,
        ),
        ParameterSpec(
            parameter_id="hidden_units",
            kind=ParameterKind.INTEGER,
            bounds=(8.0, 128.0),
            scale=Scale.LOG,
        ),
        ParameterSpec(
            parameter_id="batch_size", kind=ParameterKind.DISCRETE, values=(32.0, 64.0, 128.0)
        ),
        ParameterSpec(parameter_id="dropout", kind=ParameterKind.DOUBLE, bounds=(0.0, 0.9)),
        ParameterSpec(
            parameter_id="optimizer",
            kind=ParameterKind.CATEGORICAL,
            values=("sgd", "adam"),
            conditions=(
                Condition(
                    parent_values=("sgd",),
                    parameter=ParameterSpec(
                        parameter_id="momentum", kind=ParameterKind.DOUBLE, bounds=(0.0, 0.99)
                    ),
                ),
            ),
        ),
    ),
    stopping=MedianRule(),
)
LIMIT = Metric(
    metric_id="size", goal=Goal.MINIMIZE, safety=Safety(threshold=60.0, fraction_min=0.75)
)
#: Two objectives and a limit; a limit; three objectives; rungs with a prior.
FRONT = replace(
    STUDY, metrics=(*STUDY.metrics, Metric(metric_id="seconds", goal=Goal.MINIMIZE), LIMIT)
)
LIMITED = replace(STUDY, metrics=(*STUDY.metrics, LIMIT))
THREE = replace(FRONT, metrics=(*FRONT.metrics[:2], replace(LIMIT, safety=None)))
RUNGS = replace(
    STUDY,
    stopping=AshaRule(first_rung=3),
    priors=(ParameterPrior(parameter_id="dropout", value="25e-2"),),
)
DEMAND = JobDemand(
    region="us-central1",
    groups=(GroupDemand(role=Role.PRIMARY, count=1, each=Demand(vcpus=4, memory_gb=15.0)),),
)


def add_study(store, project, name, count, study=STUDY):
    """Store a tuning job of AI Platform that has ended with ``count`` trials; return its uid."""
    chance = Random(1)  # noqa: S311 - a test draws
    uid = _add_job(store, project, name, count, study)
    events = [_finish(store, uid, study, number, chance) for number in range(1, count + 1)]
    _write(store, [row for _, row, _ in events], [row for *_, row in events])
    step = StudyStep(
        uid=uid,
        version=store.job_by_uid(uid).version,
        state=JobState.SUCCEEDED,
        server=None,
        start_time=store.now(),
        events=tuple(event for event, *_ in events if event),
    )
    assert store.apply_study(step)
    return uid


def _add_job(store, project, name, count, study):
    study = replace(study, trial_count_max=max(count, 1), trial_count_parallel=8)
    spec = JobSpec(dialect=Dialect.ML_V1, job_id=name, study=study)
    new = NewJob(
        kind=JobKind.ML_JOB,
        project=project,
        location="us-central1",
        job_id=name,
        spec=spec,
        expanded=spec,
        demand=DEMAND,
        creator="ada",
    )
    record, _ = store.add_job(new)
    return record.uid


def _values(chance):
    optimizer = chance.choice(["sgd", "adam"])
    values = {
        "learning_rate": 10 ** chance.uniform(-5, -1),
        "hidden_units": round(2 ** chance.uniform(3, 7)),
        "batch_size": chance.choice([32.0, 64.0, 128.0]),
        "dropout": chance.uniform(0, 0.9),
        "optimizer": optimizer,
    }
    return values | ({"momentum": chance.uniform(0, 0.99)} if optimizer == "sgd" else {})


def _quality(values, chance):
    """The last accuracy: a learning rate of about 0.003 and little dropout are best."""
    off = (math.log10(values["learning_rate"]) + 2.5) ** 2
    return max(0.05, 0.985 - 0.08 * off - 0.1 * values["dropout"] ** 2 + chance.gauss(0, 0.01))


def _measure(study, values, accuracy, chance):
    """The metrics of a trial: more units take longer, and make the model larger."""
    units = values["hidden_units"]
    costs = {"seconds": 2 + units / 4 + abs(chance.gauss(0, 2)), "size": units * 0.9}
    measured = {"accuracy": accuracy * (0.8 + 0.2 * math.log2(units) / 7), **costs}
    if len(study.metrics) == 1:
        return (("accuracy", accuracy),)
    return tuple((metric.metric_id, measured[metric.metric_id]) for metric in study.metrics)


def _finish(store, uid, study, number, chance):
    """Return the event of an early stop or None, the row of a trial, and that of its reports."""
    values = _values(chance)
    quality, fate = _quality(values, chance), chance.random()
    is_early = fate < EARLY
    steps = chance.randint(4, STEPS // 2) if is_early else STEPS
    curve = [quality * (1 - math.exp(-4 * (step + 1) / STEPS)) for step in range(steps)]
    trial = TrialRecord(
        number=number,
        state=TrialState.SUCCEEDED,
        values=tuple(values.items()),
        final=Measurement(
            step=steps, elapsed_s=steps * 1.5, metrics=_measure(study, values, curve[-1], chance)
        ),
        stopped_early=is_early,
        start_time=store.now(),
        end_time=store.now() + timedelta(seconds=steps * 1.5),
    )
    if EARLY <= fate < EARLY + FAILED + NAN:
        is_nan = fate >= EARLY + FAILED
        reason = "The last accuracy was nan" if is_nan else "The trial's job failed: exit code 1"
        curve[-1] = math.nan if is_nan else curve[-1]
        trial = replace(trial, state=TrialState.INFEASIBLE, final=None, infeasible_reason=reason)
    reports = [
        Report(tag="accuracy", value=value, step=step, elapsed_s=step * 1.5)
        for step, value in enumerate(curve, 1)
    ]
    content = TrialReports(number=number, mark=(1, steps), reports=tuple(reports))
    row = study_rows.trial_row(uid, trial, uid + number, f"{number}")
    return _early_stop(trial, curve) if is_early else None, row, study_rows.report_row(uid, content)


def _early_stop(trial, curve):
    bar = curve[-1] + 0.05
    reason = (
        f"Its best accuracy at step {len(curve)} is {curve[-1]:.6g}, and the median of the "
        f"averages of 9 completed trials up to this point is {bar:.6g}"
    )
    data = {
        "trial": trial.number,
        "rule": "median",
        "metric": "accuracy",
        "value": curve[-1],
        "bar": bar,
        "at": float(len(curve)),
        "by_time": False,
        "reason": reason,
    }
    message = f"Trial {trial.number} is stopped early. {reason}"
    return NewEvent(kind=TRIAL_STOPPED_EARLY, message=message, data=data)


def _write(store, trials, reports):
    """Write rows without jobs for the trials: a job that is gone counts by its trial's state."""

    def write_rows(tx):
        if trials:
            tx.connection.execute(insert(TRIALS), trials)
            tx.connection.execute(insert(REPORTS), reports)

    store._db.write(write_rows)


if __name__ == "__main__":
    data, project, name, count = sys.argv[1:]
    store = open_store(f"sqlite:///{Path(data) / 'trainshed.db'}")
    add_study(store, project, name, int(count))
    store.close()
