"""A world with studies: trials whose programs report what a function of their values says."""

from dataclasses import replace
from unittest.mock import patch

from controller.world import World, compose
from trainshed.model.attempt import Report
from trainshed.model.job import JobSpec, ReplicaGroup, Scheduling
from trainshed.model.resources import Demand, GroupDemand, JobDemand
from trainshed.model.roles import Dialect, Role
from trainshed.model.status import FINAL, JobState
from trainshed.model.study import Metric, ParameterKind, ParameterSpec, StudySpec
from trainshed.service.jobs.studies import TrialJobs, trial_views
from trainshed.store.records.jobs import JobKind, NewJob
from trainshed.testing.fake_engine import Script

LR = ParameterSpec(parameter_id="lr", kind=ParameterKind.DOUBLE, bounds=(0.0, 1.0))
STEPS = 4


def study(**more) -> StudySpec:
    default = StudySpec(
        metrics=(Metric(metric_id="acc"),),
        parameters=(LR,),
        trial_count_max=6,
        trial_count_parallel=2,
    )
    return replace(default, **more)


def score(values: dict[str, str]) -> float:
    """What a trial reaches in the end; the best is at 0.3."""
    return 1.0 - (float(values["lr"]) - 0.3) ** 2


def learns(values, step):
    """A learning curve: it begins at half and gets nearer."""
    return score(values) * (1.0 - 0.5 / step)


def script(_key, plan, curve=learns, **more) -> Script:
    """A program that reports a step a second."""
    values = dict(zip(plan.replicas[0].argv[1::2], plan.replicas[0].argv[2::2], strict=True))
    reports = tuple(
        (float(step), Report(tag="acc", value=curve(values, step), step=step, elapsed_s=step))
        for step in range(1, STEPS + 1)
    )
    return Script(**{"runs_s": STEPS + 1.0, "reports": reports, **more})


def with_arguments(record, attempt, seats):
    """The plan of a trial names its values, as its program would get them."""
    plan = compose(record, attempt, seats)
    trial = record.job.spec.trial
    words = [word for pair in trial.parameters for word in pair] if trial else []
    first = replace(plan.replicas[0], argv=("python", *words))
    return replace(plan, replicas=(first, *plan.replicas[1:]))


class TuningWorld(World):
    """Everything that outlives a controller; controllers of it make trials."""

    def controller(self, server="server-a", **more):
        return super().controller(
            server, compose=with_arguments, make_trial_job=TrialJobs(self.store), **more
        )

    def tune(  # noqa: PLR0913 - what studies of tests differ in
        self,
        spec: StudySpec,
        *,
        dialect=Dialect.AIPLATFORM_V1,
        job_id="",
        uid=None,
        folder=None,
        scheduling=None,
        **limits,
    ) -> int:
        """A study's uid: its random values follow from it, and must be the same in every run."""
        self.submitted += 1
        group = ReplicaGroup(role=Role.PRIMARY, count=1, machine_type="n1-standard-4")
        job_spec = JobSpec(
            dialect=dialect,
            job_id=job_id,
            display_name=f"study {self.submitted}",
            groups=(group,),
            scheduling=scheduling or Scheduling(),
            base_output_dir=folder,
            study=spec,
        )
        size = Demand(vcpus=4, memory_gb=15.0)
        demand = JobDemand(
            region="us-central1",
            groups=(GroupDemand(role=Role.PRIMARY, count=1, each=size),),
        )
        new = NewJob(
            kind=JobKind.ML_JOB if dialect is Dialect.ML_V1 else JobKind.TUNING_JOB,
            project="demo",
            location="us-central1",
            job_id=job_id,
            spec=job_spec,
            expanded=job_spec,
            demand=demand,
            creator="tester",
            **limits,
        )
        with patch.object(self.store._db, "new_uid", lambda: uid or self.submitted):
            return self.store.add_job(new)[0].uid

    def trials(self, uid):
        """The trials as clients see them."""
        return trial_views(self.store, self.job(uid))

    def values(self, uid):
        return [view.trial.values for view in self.trials(uid)]

    def is_over(self, uid) -> bool:
        return self.state(uid) in FINAL


def step_all(controller):
    """One of every step, in the order of a busy moment."""
    controller.lease_once()
    controller.deadlines_once()
    controller.studies_once()
    controller.schedule_once()
    controller.perform_once()
    controller.observe_once()


def run_to_end(world, controller, *uids, seconds=600.0, tick=1.0):
    """Let time go by until these studies are over."""
    until = world.clock.s + seconds
    while not all(world.is_over(uid) for uid in uids):
        assert world.clock.s < until, [world.messages(uid) for uid in uids]
        step_all(controller)
        world.clock.s += tick
    assert {world.state(uid) for uid in uids} <= FINAL
    return [world.state(uid) for uid in uids]


SUCCEEDED, FAILED, CANCELLED = JobState.SUCCEEDED, JobState.FAILED, JobState.CANCELLED
