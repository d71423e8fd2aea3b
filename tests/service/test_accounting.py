"""What jobs used of their machines is written once, whole, and agrees with the jobs themselves."""

from dataclasses import dataclass
from functools import partial

import pytest
from sqlalchemy import event as sql_event
from sqlalchemy.engine import Engine as SqlEngine

from databases import new_database
from store.builders import DEMAND, HandClock, add, go, place
from trainshed.engines.several import Engines
from trainshed.model import event_kinds as kinds
from trainshed.model.attempt import AttemptKey
from trainshed.model.gpus import NodeGpu
from trainshed.model.job import Accelerator, ReplicaGroup
from trainshed.model.refusals import Refusal
from trainshed.model.resources import Demand, FleetPolicy, GroupDemand, JobDemand, Node
from trainshed.model.roles import Role
from trainshed.model.status import JobState
from trainshed.model.step_times import StepTimes
from trainshed.model.usage import GpuUsage, Spread, UsageLine, encode_lines, parse_lines
from trainshed.planning.attempt_steps import steps_made
from trainshed.planning.goodput import gpu_seconds, job_goodput
from trainshed.planning.prices import OwnPrices
from trainshed.service.costs import usage_report
from trainshed.service.costs.accounting import REFRESH_S, Accounting
from trainshed.service.costs.gpu_measurements import GpuMeasurements
from trainshed.service.costs.gpu_watch import GpuWatch
from trainshed.service.costs.job_accounts import JobAccounts
from trainshed.service.costs.job_use import sum_cost
from trainshed.service.costs.prices import PriceSource
from trainshed.service.costs.usage_report import ReportQuery, UsageReports
from trainshed.service.goodput.facts import goodput_facts
from trainshed.service.learning.turns import CpuBudget
from trainshed.store.opening import Store, open_store
from trainshed.store.records.steps import NewEvent, ReplicaRow
from trainshed.store.records.usage import ChangedSeats
from trainshed.testing.fake_engine import FakeEngine

T4 = "NVIDIA_TESLA_T4"
OWN = OwnPrices(source="own.toml", currency="USD", date="2026-11-01",
                per_hour={"n1-standard-8": 3.6, "n1-standard-4": 1.8})  # fmt: skip
GPUS = ReplicaGroup(role=Role.PRIMARY, machine_type="n1-standard-8",
                    accelerator=Accelerator(type=T4, count=2))  # fmt: skip
CPUS = ReplicaGroup(role=Role.WORKER, count=2, machine_type="n1-standard-4")
GPU_TYPE = f"n1-standard-8 with 2 {T4}"


@dataclass
class World:
    store: Store
    clock: HandClock
    engine: FakeEngine
    accounting: Accounting
    own: OwnPrices | None = OWN
    is_leader: bool = True
    now_s: float = 0.0

    def account(self):
        self.accounting.account()

    def job(self, groups=(GPUS, CPUS), **changes):
        record = add(self.store, groups=groups, **changes)
        place(self.store, record.uid)
        return record.uid

    def run(self, uid, seconds=60.0):
        """Let it start for a minute and run."""
        self.clock.forward(60)
        self.go(uid, JobState.RUNNING, kinds.RUNNING)
        self.clock.forward(seconds)

    def go(self, uid, state, kind):
        go(self.store, uid, state, events=(NewEvent(kind=kind, message="..."),))

    def report(self, **query):
        return UsageReports(self.store).report(ReportQuery(**query))

    def line(self, uid, use, seconds=60.0, energy_j=None, gpus=2):
        spread = None if use is None else Spread(0, use / 2, use)
        at = self.store.now().timestamp()
        figures = {f"GPU-{i}": GpuUsage(use=spread, energy_j=energy_j) for i in range(gpus)}
        self.engine.usage[AttemptKey(uid, 1)].append(UsageLine(at, seconds, {}, figures))


@pytest.fixture
def world(tmp_path):
    clock = HandClock()
    store, engine = open_store(new_database(tmp_path), clock), FakeEngine([])
    accounting = Accounting(
        store=store,
        accounts=JobAccounts(
            store=store,
            engines=Engines.from_engine(engine),
            prices=PriceSource(lambda: made.own),
            measurements=GpuMeasurements(lambda: made.now_s),
        ),
        leads=lambda: made.is_leader,
        turns=CpuBudget(share=1, work_clock=lambda: 0.0),
        monotonic=lambda: made.now_s,
    )
    made = World(store, clock, engine, accounting)
    yield made
    store.close()


def test_an_ended_job_has_a_row_for_each_machine_type(world):
    uid = world.job()
    world.run(uid, 600)
    world.go(uid, JobState.SUCCEEDED, kinds.SUCCEEDED)
    world.account()
    cpu, gpu = sorted(world.store.usage_rows(uid), key=lambda row: row.gpus)
    assert (gpu.machine_type, gpu.gpus, gpu.hour_price) == (GPU_TYPE, 2, 3.6)
    assert (cpu.machine_type, cpu.gpus, cpu.vcpus) == ("n1-standard-4", 0, 8.0)
    assert gpu.seconds == cpu.seconds == {"starting": 60.0, "unknown": 600.0}
    [row] = world.report().rows
    assert (row.key, row.jobs) == ("census", 1)
    assert row.gpu_seconds == {"starting": 120.0, "unknown": 1200.0}
    assert row.vcpu_seconds == {"starting": 480.0, "unknown": 4800.0}
    assert row.energy_j is None
    assert row.cost["amount"] == pytest.approx((3.6 + 2 * 1.8) * 660 / 3600)
    assert (row.cost["currency"], row.cost["source"]) == ("USD", "own.toml")
    assert row.cost["parts"].keys() == {"starting", "unknown"}


@pytest.mark.parametrize("names", [("",), ("GPU-\0", "GPU-\ufffd")])
def test_names_of_gpus_that_a_program_wrote_stop_no_accounting(world, names):
    uid = world.job(groups=(GPUS,))
    world.run(uid)
    usage = GpuUsage(use=Spread(0, 0, 0))
    line = UsageLine(world.store.now().timestamp(), 60.0, {}, dict.fromkeys(names, usage))
    world.engine.usage[AttemptKey(uid, 1)] += parse_lines(encode_lines(line))
    world.go(uid, JobState.SUCCEEDED, kinds.SUCCEEDED)
    world.account()
    [row] = world.store.usage_rows(uid)
    assert sum(row.seconds.values()) == 120.0


@pytest.mark.parametrize("by", ["project", "user", "type", "day", "job", "gpu", "node"])
def test_sums_of_usage_are_sums_of_jobs(world, by):
    uids = [world.job(job_id=f"j{number}", creator=f"u{number % 2}") for number in range(3)]
    for uid in uids:
        world.run(uid, 40_000)
        world.go(uid, JobState.FAILED, kinds.FAILED)
    world.account()
    report = world.report(by=by, since="2026-11-01", until="2026-12-01")
    records = [world.store.job_by_uid(uid) for uid in uids]
    times = [goodput_facts(world.store, record) for record in records]
    now_s = world.store.now().timestamp()
    held_s = sum(gpu_seconds(job, now_s).held_s for job in times)
    assert sum(sum(row.gpu_seconds.values()) for row in report.rows) == pytest.approx(held_s)
    assert sum(report.total.gpu_seconds.values()) == pytest.approx(held_s)
    assert report.total.jobs == 3
    hours = sum(job_goodput(job, now_s).held_s for job in times) / 3600
    assert report.total.cost["amount"] == pytest.approx(7.2 * hours)
    assert sum(row.cost["amount"] for row in report.rows) == pytest.approx(7.2 * hours)
    keys = {"project": ["census"], "user": ["u0", "u1"], "type": [GPU_TYPE, "n1-standard-4"],
            "day": ["2026-11-21", "2026-11-22"],
            "job": ["census/j2", "census/j1", "census/j0"], "gpu": ["n1", "n2"],
            "node": ["n1", "n2"]}  # fmt: skip
    assert [row.key for row in report.rows] == keys[by]
    users = {row.key: row.user for row in report.rows if row.user}
    owners = {"census/j0": "u0", "census/j1": "u1", "census/j2": "u0"}
    assert users == (owners if by == "job" else {})


def test_a_gpu_has_its_users_and_its_idle_time(world):
    gpus = tuple(NodeGpu(uuid=f"GPU-{index}", index=index, type=T4) for index in range(2))
    world.store.see_nodes("local", [Node(name="n1", gpus={T4: 2}, devices=gpus)])
    for user, use in (("bob", 0.0), ("ada", 0.5)):
        uid = world.job(groups=(GPUS,), job_id=user, creator=user)
        world.run(uid, 60 if user == "ada" else 120)
        world.line(uid, use, energy_j=7.0)
        world.go(uid, JobState.SUCCEEDED, kinds.SUCCEEDED)
        world.account()
    rows = world.report(by="gpu").rows
    assert [(row.key, row.node, row.gpu.index, row.gpu.type) for row in rows] == [
        ("n1/0", "n1", 0, T4), ("n1/1", "n1", 1, T4)]  # fmt: skip
    for row in rows:
        assert row.gpu_seconds == {"starting": 120.0, "idle": 60.0, "unknown": 120.0}
        assert (row.jobs, row.energy_j, row.more_holders) == (2, 14.0, 0)
        assert [(one.project, one.user, one.seconds, one.idle_s) for one in row.holders] == [
            ("census", "bob", 180.0, 60.0), ("census", "ada", 120.0, 0.0)]  # fmt: skip
        assert row.cost["amount"] == pytest.approx(1.8 * 300 / 3600)
        assert row.cost["parts"]["idle"] == pytest.approx(1.8 * 60 / 3600)
    [node] = world.report(by="node").rows
    assert (node.key, node.jobs, node.energy_j, node.gpu) == ("n1", 2, 28.0, None)
    assert node.holders[0].seconds == 360.0
    assert world.report(by="gpu", project="other").rows == []
    assert world.report(by="gpu", since="100d").rows[0].holders is None


def test_only_the_jobs_with_the_most_gpu_time_have_rows(world, monkeypatch):
    monkeypatch.setattr(usage_report, "JOBS_MAX", 2)
    for number, seconds in enumerate((100, 300, 200)):
        uid = world.job(job_id=f"j{number}")
        world.run(uid, seconds)
        world.go(uid, JobState.SUCCEEDED, kinds.SUCCEEDED)
    world.account()
    report = world.report(by="job")
    assert [row.key for row in report.rows] == ["census/j1", "census/j2"]
    assert (report.left_out, report.total.jobs) == (1, 3)


def test_idle_gpus_and_energy_are_those_of_the_samples(world):
    uid = world.job()
    world.run(uid)
    world.line(uid, 0.0, energy_j=50.0)
    for use in (0.5, None):
        world.clock.forward(60)
        world.line(uid, use)
    world.go(uid, JobState.SUCCEEDED, kinds.SUCCEEDED)
    world.account()
    [row] = world.report(by="type").rows[:1]
    assert row.gpu_seconds == {"starting": 120.0, "idle": 120.0, "unknown": 240.0}
    assert row.energy_j == 100.0


def test_a_job_on_nodes_that_emulate_holds_no_gpu(world):
    nodes = [Node(name=name, policy=FleetPolicy.EMULATE) for name in ("n1", "n2")]
    world.store.see_nodes("local", nodes)
    uid = world.job(groups=(GPUS,))
    world.run(uid)
    world.go(uid, JobState.SUCCEEDED, kinds.SUCCEEDED)
    world.account()
    [row] = world.report().rows
    assert not row.gpu_seconds
    assert row.vcpu_seconds == {"starting": 480.0, "unknown": 480.0}


def test_a_running_job_is_written_again_at_intervals(world):
    uid = world.job()
    world.account()
    assert not world.report().rows, "it has held its machines for no time yet"
    world.run(uid, 60)
    world.account()
    assert not world.report().rows
    world.now_s += REFRESH_S
    world.account()
    assert world.report().total.gpu_seconds == {"starting": 120.0, "unknown": 120.0}
    world.clock.forward(100)
    world.now_s += REFRESH_S
    world.account()
    assert world.report().total.gpu_seconds == {"starting": 120.0, "unknown": 320.0}
    assert {row.end_ns for row in world.store.usage_rows(uid)} == {None}


def test_the_newest_checkpoint_of_a_job_is_remembered_with_a_time_that_is_not_later(world):
    uid, now_s = world.job(), world.store.now().timestamp()
    world.run(uid)
    row = ReplicaRow(role="primary", index=0, task_name="p", node="n1", state="RUNNING")
    go(world.store, uid, JobState.RUNNING, replicas=(row,))

    def report(checkpoint_at):
        steps = StepTimes(steps=1, first_at=now_s, last_at=now_s, checkpoint_at=checkpoint_at)
        world.engine.read_steps = lambda *_: steps
        world.now_s += REFRESH_S
        world.account()
        return world.accounting.accounts.checkpoints.get(uid)

    assert [report(0.0), report(now_s + 5), report(now_s + 1)] == [None, now_s + 5, now_s + 5]
    assert report(1e15) == world.store.now().timestamp()
    world.accounting.accounts.checkpoints.clear()
    made = steps_made(StepTimes(steps=1, first_at=now_s, last_at=now_s, checkpoint_at=now_s + 7))
    world.engine.read_steps = lambda *_: None
    event = NewEvent(kind=kinds.RESTARTING, message="...", data=made.data)
    go(world.store, uid, JobState.QUEUED, events=(event,))
    world.account()
    assert world.accounting.accounts.checkpoints == {uid: now_s + 7}, (
        "a new server reads it from the event"
    )


def test_a_restarted_job_counts_the_time_of_each_attempt(world):
    uid = world.job()
    world.run(uid, 100)
    world.go(uid, JobState.QUEUED, kinds.RESTARTING)
    world.account()
    world.clock.forward(1000)
    place(world.store, uid)
    world.run(uid, 200)
    world.go(uid, JobState.SUCCEEDED, kinds.SUCCEEDED)
    world.account()
    assert {row.attempt for row in world.store.usage_rows(uid)} == {1, 2}
    assert sum(world.report(by="type").rows[0].gpu_seconds.values()) == 2 * (160 + 260)


def test_a_job_that_never_ran_and_one_without_a_price(world):
    world.own = None
    waits = add(world.store, job_id="waits").uid
    go(world.store, waits, JobState.CANCELLED)
    uid = world.job(groups=(ReplicaGroup(role=Role.PRIMARY, machine_type="my-own"),))
    world.run(uid)
    world.go(uid, JobState.SUCCEEDED, kinds.SUCCEEDED)
    world.account()
    assert not world.store.changed_jobs(9)
    [row] = world.report().rows
    assert row.cost["amount"] is None
    assert row.cost["at_least"]
    assert "no price of my-own" in row.cost["lacking"][0]


def test_a_job_that_cannot_be_computed_does_not_stop_the_others(world, caplog):
    first, second = world.job(job_id="odd"), world.job(job_id="even")

    def fail(key):
        if key.uid == first:
            raise ValueError("a time before 1970")
        return ()

    world.engine.read_usage = fail
    for uid in (first, second):
        world.run(uid)
        world.go(uid, JobState.SUCCEEDED, kinds.SUCCEEDED)
    world.account()
    assert not world.store.changed_jobs(9)
    assert (bool(world.store.usage_rows(first)), bool(world.store.usage_rows(second))) == (0, 1)
    assert "cannot compute what projects/census/" in caplog.text


def test_a_job_that_ends_is_written_before_a_long_backlog(world):
    old = [world.job(job_id=f"old-{number}") for number in range(3)]
    for uid in old:
        world.run(uid)
        world.go(uid, JobState.SUCCEEDED, kinds.SUCCEEDED)
    runs = world.job(job_id="runs")
    others = ChangedSeats(0, old[0], is_held=True)
    world.store.changed_jobs = lambda limit: [others] * limit  # jobs before those that end now
    world.run(runs)
    world.account()
    world.go(runs, JobState.SUCCEEDED, kinds.SUCCEEDED)
    world.now_s += REFRESH_S
    world.account()
    rows = world.store.usage_rows(runs)
    assert rows
    assert all(row.end_ns for row in rows)
    assert not world.store.usage_rows(old[0])
    assert runs not in world.accounting._due_s


def test_currencies_are_never_added(world):
    uids = []
    for number, currency in enumerate(("EUR", "USD", "EUR")):
        world.own = OwnPrices(source="own", currency=currency, per_hour=OWN.per_hour)
        uids.append(uid := world.job(job_id=f"j{number}"))
        world.run(uid, 3540)
        world.go(uid, JobState.SUCCEEDED, kinds.SUCCEEDED)
        world.account()
    [row] = world.report().rows
    amounts = {cost["currency"]: cost["amount"] for cost in (row.cost, *row.other_costs)}
    assert amounts == {"EUR": pytest.approx(14.4), "USD": pytest.approx(7.2)}
    cost = sum_cost(row for uid in uids for row in world.store.usage_rows(uid))
    assert (cost.currency, cost.is_at_least) == ("EUR", True)
    assert cost.amount == pytest.approx(14.4)
    assert cost.lacking == ("7.20 USD more is in another currency",)


def test_only_the_server_that_schedules_writes(world):
    uid = world.job()
    world.run(uid)
    world.go(uid, JobState.SUCCEEDED, kinds.SUCCEEDED)
    world.is_leader = False
    world.account()
    assert not world.report().rows
    world.is_leader = True
    world.account()
    first = world.store.usage_rows(uid)
    world.store.changed_jobs = lambda _: [ChangedSeats(1, uid, is_held=False)]
    world.account()
    assert world.store.usage_rows(uid) == first != [], "repeating it changes nothing"
    assert len(world.store.events_of_kind(uid, kinds.GOODPUT, limit=9)) == 1


def test_a_job_whose_end_a_server_noted_days_later_has_its_event_too(world):
    uid = world.job()
    world.run(uid)
    data = {"ended_s": world.store.now().timestamp()}
    world.clock.forward(3 * 86_400)
    end = NewEvent(kind=kinds.SUCCEEDED, message="...", data=data)
    go(world.store, uid, JobState.SUCCEEDED, events=(end,))
    world.account()
    [event] = world.store.events_of_kind(uid, kinds.GOODPUT, limit=9)
    assert event.data["seconds"]["held"] == pytest.approx(120)


def test_an_engine_that_does_not_answer_leaves_out_idle_time_alone(world):
    uid = world.job()
    world.run(uid)
    world.line(uid, 0.0)
    world.go(uid, JobState.SUCCEEDED, kinds.SUCCEEDED)

    def fail(_):
        raise ConnectionError("away")

    world.engine.read_usage = fail
    world.account()
    assert world.report().total.gpu_seconds == {"starting": 120.0, "unknown": 120.0}


@pytest.mark.parametrize(
    ("query", "message"),
    [
        ({"by": "rack"}, "by must be project, user, type, day, job, gpu or node, got 'rack'"),
        ({"since": "last week"}, "since must be a day such as 2026-11-01"),
        ({"until": "2026-13-01"}, "until must be a day such as"),
        ({"since": "today", "until": "yesterday"}, "until must not be before since"),
    ],
)
def test_wrong_questions_are_refused(world, query, message):
    with pytest.raises(Refusal, match=message):
        world.report(**query)


def test_days_can_be_words(world):
    report = world.report(since="7d", until="yesterday")
    assert (report.since, report.until) == ("2026-11-14", "2026-11-20")
    assert report.total.cost is None
    assert world.report().since == "2026-10-22"


def test_the_states_of_gpus_are_added_up(world):
    watch = GpuWatch(store=world.store, leads=lambda: world.is_leader)
    world.store.see_nodes("local", [Node(name="n1", gpus={T4: 8}, gpus_held={T4: 1})])
    watch.look()
    demand = JobDemand(region=None, groups=(
        GroupDemand(role=Role.PRIMARY, count=1, each=Demand(gpu_type=T4, gpu_count=2)),
        *DEMAND.groups[1:]))  # fmt: skip
    world.job(demand=demand)
    world.clock.forward(60)
    watch.look()
    world.is_leader = False
    watch.look()
    assert world.report().fleet.gpu_seconds == {"held": 120.0, "foreign": 60.0, "free": 300.0}
    world.is_leader = True
    world.clock.forward(1000)
    watch.look()
    states = world.report().fleet.gpu_seconds
    assert states["unobserved"] == 8 * 1000.0, "the node was not reported for too long"
    assert sum(states.values()) == 8 * 1060.0
    assert world.report(project="census").fleet is None


def test_many_jobs_are_written_with_few_statements(world):
    """A burst of short jobs costs the server little more than without accounts."""
    for number in range(40):
        uid = world.job(job_id=f"j{number}")
        world.run(uid)
        world.go(uid, JobState.SUCCEEDED, kinds.SUCCEEDED)
    statements: list[str] = []
    count = partial(_note_statement, statements)
    sql_event.listen(SqlEngine, "before_cursor_execute", count)
    world.account()
    sql_event.remove(SqlEngine, "before_cursor_execute", count)
    assert world.report().total.jobs == 40
    assert not world.store.changed_jobs(9)
    assert len(statements) <= 22, "statements of a turn, not of a job"


def _note_statement(statements, *arguments):
    statements.append(arguments[2])
