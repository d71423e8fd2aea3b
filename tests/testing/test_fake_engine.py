"""What the fake engine's trials report, as its clock goes on."""

from types import SimpleNamespace

import pytest

from trainshed.model.attempt import AttemptKey, Phase, Report
from trainshed.model.launch_plan import Environment, LaunchPlan, ReplicaPlan
from trainshed.model.resources import FleetPolicy, Node, Seat
from trainshed.model.roles import Role
from trainshed.model.stopping import StopOrder, StopReason
from trainshed.testing.fake_engine import FakeEngine, Script

KEY = AttemptKey(7, 1)
REPORTS = tuple((float(second), Report(tag="loss", value=1.0, step=second)) for second in range(10))
PLAN = LaunchPlan(
    job_id="job",
    attempt=1,
    replicas=(ReplicaPlan(role=Role.PRIMARY, index=0, task_name="master", argv=("true",)),),
    environment=Environment(python="python"),
)
SEATS = (Seat(role=Role.PRIMARY, index=0, node="n"),)


@pytest.fixture
def clock():
    return SimpleNamespace(now=100.0)


def engine(clock, **script):
    nodes = (Node(name="n", slots=1, policy=FleetPolicy.EMULATE),)
    answer = Script(reports=REPORTS, **script)
    return FakeEngine(nodes, script=lambda *_: answer, monotonic=lambda: clock.now)


def steps(measured):
    return [report.step for report in measured.reports]


def test_reports_come_in_their_time_and_once(clock):
    fake = engine(clock, ready_s=5.0, runs_s=None, search_note="/x was never written")
    assert fake.measured(KEY, 3).mark == 3
    fake.launch(KEY, PLAN, SEATS)
    assert fake.measured(KEY, 0).reports == ()
    clock.now += 7.0
    first = fake.measured(KEY, 0)
    assert (first.mark, steps(first), first.found) == (3, [0, 1, 2], "/x was never written")
    clock.now += 1.5
    assert steps(fake.measured(KEY, first.mark)) == [3]
    assert steps(fake.measured(KEY, 0)) == [0, 1, 2, 3]


def test_nothing_is_reported_after_the_end(clock):
    fake = engine(clock, runs_s=4.0)
    fake.launch(KEY, PLAN, SEATS)
    clock.now += 100.0
    assert steps(fake.measured(KEY, 0)) == [0, 1, 2, 3, 4]
    assert fake.observe([KEY])[0].phase is Phase.ENDED
    assert steps(fake.measured(KEY, 4)) == [4]


def test_one_that_is_stopped_reports_until_it_has_ended(clock):
    fake = engine(clock, runs_s=None, notice_s=2.0)
    fake.launch(KEY, PLAN, SEATS)
    clock.now += 3.0
    fake.stop(KEY, StopOrder(grace_s=10.0, reason=StopReason.CANCEL))
    clock.now += 50.0
    assert steps(fake.measured(KEY, 0)) == [0, 1, 2, 3, 4, 5]


@pytest.mark.parametrize("how", ["end", "lose"])
def test_one_whose_end_a_test_makes_reports_no_more(clock, how):
    fake = engine(clock, runs_s=None)
    fake.launch(KEY, PLAN, SEATS)
    clock.now += 1.0
    getattr(fake, how)(KEY)
    clock.now += 50.0
    assert steps(fake.measured(KEY, 0)) == [0, 1]


def test_an_engine_that_does_not_answer_knows_of_no_reports(clock):
    fake = engine(clock)
    fake.unreachable = True
    with pytest.raises(OSError, match="does not answer"):
        fake.measured(KEY, 0)
