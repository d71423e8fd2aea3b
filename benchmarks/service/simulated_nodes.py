"""Simulated nodes, and what attempts on them do: no process is started.

The arguments of a job's container say it: ``runs=SECONDS`` and ``exit=CODE``.  Without ``runs`` an
attempt runs until it is stopped.  A trial reports the eight steps of a learning curve and ends.
"""

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from benchmarks.service.documents import T4
from trainshed.launch.names import task_name
from trainshed.model.attempt import AttemptKey, Report
from trainshed.model.launch_plan import Environment, LaunchPlan, ReplicaPlan
from trainshed.model.resources import Claim, FleetPolicy, Node, Seat, SeatsOrClaim
from trainshed.model.roles import Dialect
from trainshed.store.records.jobs import JobKind, JobRecord
from trainshed.testing.fake_engine import Script

SLOTS: Final = 16
STEPS: Final = 8
#: Seconds between two reports of a trial, and the seconds of its notice that a replica uses.
STEP_S: Final = 0.2
NOTICE_S: Final = 0.5
METRIC: Final = "accuracy"


def nodes(count: int, gpus: int) -> list[Node]:
    """Return a fleet of machines, each with ``gpus`` GPUs."""
    return [
        Node(
            name=f"node-{number:04}",
            vcpus=96,
            memory_gb=768.0,
            gpus={T4: gpus},
            slots=SLOTS,
            policy=FleetPolicy.BEST_EFFORT,
        )
        for number in range(count)
    ]


def compose(record: JobRecord, attempt: int, place: SeatsOrClaim) -> LaunchPlan:
    """Return a plan that names the replicas, with their arguments or the values of their trial."""
    dialect = Dialect.ML_V1 if record.kind is JobKind.ML_JOB else Dialect.AIPLATFORM_V1
    return LaunchPlan(
        job_id=record.job.job_id,
        attempt=attempt,
        replicas=tuple(
            ReplicaPlan(
                role=seat.role,
                index=seat.index,
                task_name=task_name(dialect, seat.role, seat.index),
                argv=("python", *_arguments(record, seat)),
            )
            for seat in ([] if isinstance(place, Claim) else place)
        ),
        environment=Environment(python="python"),
    )


def _arguments(record: JobRecord, seat: Seat) -> Sequence[str]:
    spec = record.job.spec
    if spec.trial is not None:
        return [f"--{name}={value}" for name, value in spec.trial.parameters]
    programs = (group.program for group in spec.groups if group.role is seat.role)
    return next((program.args for program in programs if program is not None), ())


def script(_key: AttemptKey, plan: LaunchPlan) -> Script:
    """Return the script of an attempt, as the arguments of its first replica say."""
    words = plan.primary.argv[1:] if plan.replicas else ()
    values = dict(word.split("=", 1) for word in words if "=" in word)
    if "--lr" in values:
        reports = tuple(_reports(values))
        return Script(runs_s=STEP_S * (STEPS + 1), reports=reports, notice_s=NOTICE_S)
    runs_s = float(values["runs"]) if "runs" in values else None
    return Script(runs_s=runs_s, exit_code=int(values.get("exit", 0)), notice_s=NOTICE_S)


def _reports(values: Mapping[str, str]) -> Iterator[tuple[float, Report]]:
    """Yield a curve; the best learning rate is 0.01."""
    best = 0.95 - 0.2 * min(abs(math.log10(float(values["--lr"])) + 2.0), 3.0)
    for step in range(1, STEPS + 1):
        seconds = STEP_S * step
        value = best * (1.0 - 0.6 / step)
        yield seconds, Report(tag=METRIC, value=value, step=step, elapsed_s=seconds)
