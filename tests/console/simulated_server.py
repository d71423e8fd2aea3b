"""``trainshed serve`` whose nodes are simulated: a program for tests, started by its path.

    python simulated_server.py serve --data-dir ...

Every node has eight T4.  A container's arguments say what its attempts do: ``runs=SECONDS`` and
``exit=CODE``; without ``runs`` an attempt runs until it is stopped.  The trials of a study report
eight steps of a curve within two seconds.  Attempts print nothing: tests write their log files.
"""

import functools
import sys

from console.learning import curve_of
from trainshed.app import application as app
from trainshed.cli.main import main
from trainshed.launch.names import task_name
from trainshed.model.attempt import Report
from trainshed.model.launch_plan import Environment, LaunchPlan, ReplicaPlan
from trainshed.model.resources import FleetPolicy, Node
from trainshed.model.roles import Dialect
from trainshed.store.records.jobs import JobKind
from trainshed.testing.fake_engine import FakeEngine, Script

NODES = 4
GPUS = 8
T4 = "NVIDIA_TESLA_T4"
SLOTS = 16
#: How long a replica uses its notice.
NOTICE_S = 0.5
STEP_S = 0.25


def nodes():
    return [
        Node(
            name=f"node-{number}",
            vcpus=96,
            memory_gb=768.0,
            gpus={T4: GPUS},
            slots=SLOTS,
            policy=FleetPolicy.BEST_EFFORT,
        )
        for number in range(1, NODES + 1)
    ]


def compose(record, attempt, seats):
    """A plan whose replicas have the arguments of their container, or the values of their trial."""
    dialect = Dialect.ML_V1 if record.kind is JobKind.ML_JOB else Dialect.AIPLATFORM_V1
    groups = {group.role: group for group in record.job.spec.groups}
    trial = record.job.spec.trial
    values = [word for pair in trial.parameters for word in pair] if trial else None
    return LaunchPlan(
        job_id=record.job.job_id,
        attempt=attempt,
        replicas=tuple(
            ReplicaPlan(
                role=seat.role,
                index=seat.index,
                task_name=task_name(dialect, seat.role, seat.index),
                argv=("python", *(values or words_of(groups.get(seat.role)))),
            )
            for seat in seats
        ),
        environment=Environment(python="python"),
    )


def words_of(group):
    return group.program.args if group is not None and group.program is not None else ()


def script(_key, plan):
    words = plan.replicas[0].argv[1:]
    if not any("=" in word for word in words) and len(words) % 2 == 0 and words:
        return learning_script(dict(zip(words[::2], words[1::2], strict=True)))
    options = dict(word.split("=", 1) for word in words if "=" in word)
    runs_s = float(options["runs"]) if "runs" in options else None
    return Script(runs_s=runs_s, exit_code=int(options.get("exit", 0)), notice_s=NOTICE_S)


def learning_script(values):
    reports = tuple(
        (STEP_S * step, Report(tag="accuracy", value=value, step=step, elapsed_s=STEP_S * step))
        for step, value in curve_of(values)
    )
    return Script(runs_s=STEP_S * (len(reports) + 1), reports=reports, notice_s=NOTICE_S)


if __name__ == "__main__":
    import trainshed.cli.admin.server  # noqa: F401 - to be replaced

    simulated = functools.partial(
        app.build, engine=FakeEngine(nodes(), script=script), compose=compose
    )
    app.build = sys.modules["trainshed.cli.admin.server"].build = simulated
    sys.exit(main())
