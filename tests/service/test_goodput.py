"""The goodput of a job as the API answers it, from the events that the store has."""

import re
from dataclasses import replace
from types import SimpleNamespace
from unittest.mock import Mock

import pytest
from hypothesis import given
from hypothesis import strategies as st

from service.submitting import PROJECT
from store.builders import SERVER, add, add_study, advance, go, new_trials, trial_job
from trainshed.engines.several import Engines
from trainshed.model import event_kinds as kinds
from trainshed.model.attempt import AttemptKey
from trainshed.model.event_kinds import GOODPUT
from trainshed.model.job import Accelerator, JobSpec, ReplicaGroup
from trainshed.model.refusals import Refusal
from trainshed.model.resources import Seat
from trainshed.model.roles import Dialect, Role
from trainshed.model.status import JobState
from trainshed.model.step_times import StepTimes
from trainshed.model.usage import GpuUsage, ReplicaUsage, Spread, UsageLine
from trainshed.planning.attempt_steps import STEPS_MADE, steps_made
from trainshed.planning.goodput import JobTimes, job_goodput
from trainshed.planning.prices import OwnPrices
from trainshed.service.costs.accounting import Accounting
from trainshed.service.costs.gpu_measurements import GpuMeasurements
from trainshed.service.costs.job_accounts import JobAccounts
from trainshed.service.costs.prices import PriceSource
from trainshed.service.goodput.facts import list_attempt_times
from trainshed.service.goodput.live_steps import steps_reader
from trainshed.service.goodput.reader import GoodputReader
from trainshed.service.jobs.story import Stories
from trainshed.service.learning.turns import CpuBudget
from trainshed.service.upkeep.paced_reads import PacedReads
from trainshed.store.base import StoreFault
from trainshed.store.records.steps import NewEvent, StoredEvent
from trainshed.testing.fake_engine import FakeEngine

GPU = Accelerator(type="NVIDIA_TESLA_T4", count=2)


def spec(machine_type="n1-standard-8"):
    group = ReplicaGroup(role=Role.PRIMARY, machine_type=machine_type, accelerator=GPU)
    return JobSpec(dialect=Dialect.AIPLATFORM_V1, region="us-central1", groups=(group,))


@pytest.fixture
def engine():
    return FakeEngine([], monotonic=lambda: 0.0)


@pytest.fixture
def accounts(store, engine):
    return JobAccounts(
        store=store,
        engines=Engines.from_engine(engine),
        prices=PriceSource(),
        measurements=GpuMeasurements(lambda: 0.0),  # remembers nothing
        usage_steps=PacedReads(1, monotonic=lambda: 0.0),
    )


@pytest.fixture
def reader(store, accounts):
    return GoodputReader(stories=Stories(store), accounts=accounts)


def ended(store, machine_type="n1-standard-8", *, steps_last=None):
    """A job that held its machine; its last event has steps that took half of the time."""
    job_spec = spec(machine_type)
    record = add(store, project=PROJECT, spec=job_spec, expanded=job_spec)
    run(store, record.uid, steps_last=steps_last)
    return record


def run(store, uid, *, steps_last=None):
    """Give a job its machine, and end it."""
    seats = (Seat(role=Role.PRIMARY, index=0, node="n1"),)
    placed = NewEvent(kind="PLACED", message="Placed.")
    go(store, uid, JobState.PREPARING, seats=seats, owner=SERVER, events=(placed,))
    go(store, uid, JobState.RUNNING, events=(NewEvent(kind="RUNNING", message="Runs."),))
    data = {} if steps_last is None else steps_made(steps_last(store.events(uid))).data
    event = NewEvent(kind="SUCCEEDED", message="Done.", data=data)
    go(store, uid, JobState.SUCCEEDED, events=(event,))


def from_begin(events):
    """Steps from the moment of the placement on."""
    begin_s = next(event.stamp_ns for event in events if event.kind == "PLACED") / 1e9
    return StepTimes(
        steps=9, first_at=begin_s, last_at=begin_s + 1e6, first_step=3, last_step=12, numbered=9
    )


def test_a_job_is_answered_with_its_attempts_and_its_cost(store, reader):
    record = ended(store, steps_last=from_begin)
    answer = reader.goodput(PROJECT, record.job.job_id)
    (attempt,) = answer.attempts
    assert (attempt.first_step, attempt.last_step, attempt.attempt) == (3, 12, 1)
    assert answer.goodput == 1.0
    assert answer.seconds["held"] == pytest.approx(sum(attempt.seconds.values()))
    assert answer.gpu_seconds["held"] == pytest.approx(2 * answer.seconds["held"])
    assert answer.cost["currency"] == "USD"
    assert answer.cost["parts"].keys() == {"productive"}
    assert answer.message.startswith("Goodput 100.0 % of")
    assert "; cost " in answer.message


def test_a_job_without_steps_has_a_bound_and_a_machine_without_a_price_is_named(store, reader):
    record = ended(store, "thor")
    answer = reader.goodput(PROJECT, record.job.job_id)
    assert (answer.goodput, answer.ettr) == (None, None)
    assert 0 < answer.at_most <= 1
    assert "at most" in answer.message
    assert answer.cost["amount"] is None
    assert "thor" in answer.cost["lacking"][0]
    assert "cost" not in answer.message


def measure(store, engine, record, **gpus):
    """Let one sample have the whole time of a job's only attempt."""
    (attempt,) = list_attempt_times(store.events(record.uid))
    held_s = attempt.ended_s - attempt.placed_s
    line = UsageLine(at=attempt.ended_s, s=held_s, gpus=gpus)
    engine.usage = {AttemptKey(record.uid, 1): [line]}


def test_energy_is_the_sum_of_what_was_measured(store, reader, engine):
    assert reader.goodput(PROJECT, ended(store).job.job_id).energy_j is None
    record = ended(store)
    measure(store, engine, record, a=GpuUsage(energy_j=900.0), b=GpuUsage(), c=GpuUsage(energy_j=9))
    assert reader.goodput(PROJECT, record.job.job_id).energy_j == pytest.approx(909, rel=0.01)


def test_energy_that_no_gpu_can_use_is_not_believed(store, reader, engine):
    record = ended(store)
    measure(store, engine, record, a=GpuUsage(energy_j=1e299))
    assert reader.goodput(PROJECT, record.job.job_id).energy_j is None


def test_the_sentence_names_the_time_in_which_the_gpus_ran_nothing(store, reader, engine):
    assert "idle" not in reader.goodput(PROJECT, ended(store).job.job_id).message
    record = ended(store)
    idle, half = GpuUsage(use=Spread(0, 0, 0)), GpuUsage(use=Spread(0, 0.5, 1))
    measure(store, engine, record, a=idle, b=half)
    message = reader.goodput(PROJECT, record.job.job_id).message
    assert re.search(r"; GPUs idle \d+\.\d %; cost", message), message


def test_a_server_without_the_engine_of_a_job_leaves_its_figures_to_others(
    store, accounts, monkeypatch
):
    record = ended(store)
    with monkeypatch.context() as patched:
        refuse = Mock(side_effect=OSError("this server runs without the engine"))
        patched.setattr(Engines, "get_by_attempt", refuse)
        assert not accounts.settle(record.uid)
    assert accounts.settle(record.uid)


def test_a_job_that_waits_has_no_goodput_yet(store, reader):
    record = add(store, project=PROJECT, spec=spec(), expanded=spec())
    answer = reader.goodput(PROJECT, record.job.job_id)
    assert (answer.goodput, answer.at_most, answer.attempts) == (None, None, [])
    assert answer.message.startswith("Goodput is not known")


def test_a_job_that_does_not_exist_is_refused(reader):
    with pytest.raises(Refusal):
        reader.goodput(PROJECT, "none")


def event(kind, time_s, attempt=1, **data):
    return StoredEvent(
        seq=1,
        uid=1,
        attempt=attempt,
        stamp_ns=int(time_s * 1e9),
        kind=kind,
        message="",
        data=data,
    )


def test_hangs_begin_before_they_are_told_and_end_with_the_recovery_of_their_replica():
    hung = {"task_name": "a", "seconds": 30.0}
    (attempt,) = list_attempt_times(
        [
            event("ACCEPTED", 0, attempt=0),
            event("PREPARING", 10),
            event("RUNNING", 20),
            event("HUNG", 130, **hung),
            event("RECOVERED", 140, task_name="b"),
            event("RECOVERED", 150, task_name="a"),
            event("HUNG", 190, **{**hung, "seconds": "x"}),
            event("RESTART_ORDERED", 200),
            event("RESTARTING", 210),
            event("CANCELLED", 300),
        ]
    )
    assert attempt.hangs == ((100, 150), (190, float("inf")))
    times = (attempt.placed_s, attempt.running_s, attempt.stop_s, attempt.ended_s)
    assert times == (10, 20, 200, 210)
    assert not attempt.has_failed


KINDS = st.sampled_from(sorted({*kinds.HOLDS, *kinds.STOPS, *kinds.ENDS, kinds.HUNG}))
DATA = st.fixed_dictionaries(
    {},
    optional={
        "seconds": st.none() | st.floats(0, 1e6),
        "notice_s": st.none() | st.floats(0, 1e6),
        "ended_s": st.none() | st.floats(allow_nan=True),
        STEPS_MADE: st.none() | st.fixed_dictionaries({"first_s": st.floats(0, 1e3)}),
    },
)


@given(
    happened=st.lists(st.tuples(KINDS, st.integers(1, 3), DATA), max_size=12),
    is_over=st.booleans(),
)
def test_any_events_divide_the_held_time(happened, is_over):
    events = [event(kind, time_s, n, **data) for time_s, (kind, n, data) in enumerate(happened)]
    attempts = tuple(list_attempt_times(events))
    job = JobTimes(accepted_s=0, ended_s=20 if is_over else None, attempts=attempts)
    goodput = job_goodput(job, 20)
    assert sum(goodput.held_seconds.values()) == pytest.approx(goodput.held_s)
    assert all(seconds >= 0 for seconds in goodput.seconds.values())


def test_a_notice_of_a_cluster_stops_an_attempt_too():
    events = [event("PREPARING", 10), event("RESTARTING", 100, notice_s=30.0)]
    (attempt,) = list_attempt_times(events)
    assert (attempt.stop_s, attempt.has_failed) == (70, False)


@pytest.mark.parametrize(
    ("ended_s", "expected_s"), [(60.0, 60), (5.0, 100), (101.0, 100), (float("nan"), 100)]
)
def test_an_attempt_ends_when_it_ended_and_not_when_a_server_noted_it(ended_s, expected_s):
    """A time before its placement, or in the future, is that of a wrong clock."""
    events = [event("PREPARING", 10), event("RESTARTING", 100, ended_s=ended_s, notice_s=30.0)]
    (attempt,) = list_attempt_times(events)
    assert (attempt.ended_s, attempt.stop_s) == (expected_s, expected_s - 30)


def test_an_attempt_that_was_never_admitted_held_nothing():
    assert list_attempt_times([event("HANDED_OVER", 1), event("CANCELLED", 2)]) == []


@pytest.fixture
def accounting(store, accounts):
    return Accounting(
        store=store,
        accounts=accounts,
        leads=lambda: True,
        turns=CpuBudget(share=1, work_clock=lambda: 0.0),
    )


def test_a_job_gets_its_goodput_as_an_event_once(store, reader, accounting):
    record = ended(store, steps_last=from_begin)
    for _ in range(2):
        accounting.account()
    (event,) = store.events_of_kind(record.uid, GOODPUT, limit=9)
    answer = reader.goodput(PROJECT, record.job.job_id)
    assert event.message == answer.message
    assert event.data["cost"] == answer.cost
    assert reader.stories.explain(PROJECT, record.job.job_id).goodput == answer.message


def test_the_price_of_an_ended_job_is_that_of_its_end(store, reader, accounting):
    record = ended(store)
    accounting.account()
    dear = OwnPrices(source="own", currency="EUR", per_hour={"n1-standard-8": 1e6})
    later = replace(reader, accounts=replace(reader.accounts, prices=PriceSource(lambda: dear)))
    assert later.goodput(PROJECT, record.job.job_id).cost["currency"] == "USD"


def test_a_job_that_never_ran_gets_no_event(store, accounting):
    record = add(store, project=PROJECT)
    go(store, record.uid, JobState.CANCELLED)
    accounting.account()
    assert not store.events_of_kind(record.uid, GOODPUT, limit=9)


def test_a_study_adds_up_its_trials(store, reader):
    record = add_study(store, project=PROJECT)
    trials = [
        replace(new, job=trial_job(new.trial.number, spec=spec(), expanded=spec()))
        for new in new_trials(1, 2)
    ]
    trials = advance(store, record.uid, new_trials=trials)
    assert reader.goodput(PROJECT, record.job.job_id).goodput is None
    for trial in trials:
        run(store, trial.job_uid, steps_last=from_begin)
    answer = reader.goodput(PROJECT, record.job.job_id)
    assert (answer.goodput, answer.attempts) == (1.0, [])
    assert [(one.trial, one.goodput, one.at_most) for one in answer.trials] == [
        (1, 1.0, None), (2, 1.0, None),
    ]  # fmt: skip
    assert sum(one.held for one in answer.trials) == pytest.approx(answer.seconds["held"])
    costs = [one.cost["amount"] for one in answer.trials]
    assert sum(costs) == pytest.approx(answer.cost["amount"])
    assert answer.message.startswith("Goodput 100.0 % of the time of 2 trials")
    assert answer.gpu_seconds["held"] == pytest.approx(2 * answer.seconds["held"])


def test_an_attempt_without_a_report_of_steps_has_those_of_its_usage(store, reader, engine):
    record = ended(store)
    usage = {"primary-0": ReplicaUsage(step=(7, 9))}
    engine.usage = {AttemptKey(record.uid, 1): [UsageLine(at=1.0, s=10.0, replicas=usage)]}
    (attempt,) = reader.goodput(PROJECT, record.job.job_id).attempts
    assert (attempt.first_step, attempt.last_step) == (7, 9)


def test_usage_without_steps_is_not_read_for_every_answer(store, engine, monkeypatch):
    key, reads, clock = AttemptKey(ended(store).uid, 1), [], SimpleNamespace(now_s=0.0)

    def read_usage(_engine, key):
        reads.append(key)
        clock.now_s += 1
        return []

    monkeypatch.setattr(FakeEngine, "read_usage", read_usage)
    remembered = PacedReads(5, monotonic=lambda: clock.now_s)
    read_steps = steps_reader(Engines.from_engine(engine), lambda _: "primary-0", remembered)
    for _ in range(3):
        assert read_steps(key) is None
    assert reads == [key]
    clock.now_s += 20
    assert read_steps(key) is None
    assert len(reads) == 2


def test_a_job_of_an_engine_that_this_server_does_not_run_has_a_goodput(store, reader, monkeypatch):
    record = ended(store)
    refuse = Mock(side_effect=OSError("this server runs without the engine"))
    monkeypatch.setattr(Engines, "get_by_attempt", refuse)
    assert reader.goodput(PROJECT, record.job.job_id).seconds["held"] > 0
    assert refuse.called


def restarted(store):
    """A job whose second attempt, like the first, held its machine; it runs no more."""
    record = add(store, project=PROJECT, spec=spec(), expanded=spec())
    seats = (Seat(role=Role.PRIMARY, index=0, node="n1"),)
    placed = NewEvent(kind="PLACED", message="Placed.")
    go(store, record.uid, JobState.PREPARING, seats=seats, owner=SERVER, events=(placed,))
    lost = NewEvent(kind="RESTARTING", message="Attempt 1 was lost.")
    go(store, record.uid, JobState.QUEUED, events=(lost,))
    return record


def the_event(store, record):
    (event,) = store.events_of_kind(record.uid, GOODPUT, limit=9)
    return event


def test_the_answer_after_the_end_and_the_event_agree_whichever_is_first(store, reader, accounting):
    """The rows of the first attempt are stored when the second one ends, and they are not all."""
    record = restarted(store)
    accounting.account()
    (stored,) = store.usage_rows(record.uid)
    assert (stored.attempt, stored.end_ns is None) == (1, False)
    run(store, record.uid, steps_last=from_begin)
    before = reader.goodput(PROJECT, record.job.job_id)
    accounting.account()
    event = the_event(store, record)
    assert event.message == before.message
    assert event.data["cost"] == before.cost
    assert reader.goodput(PROJECT, record.job.job_id) == before


def test_figures_stay_when_prices_change_and_the_files_of_a_lost_attempt_are_deleted(
    store, reader, accounting, engine
):
    record = restarted(store)
    run(store, record.uid)
    usage = {"primary-0": ReplicaUsage(step=(7, 9))}
    for number in (1, 2):
        line = UsageLine(at=1.0, s=10.0, replicas=usage)
        engine.usage[AttemptKey(record.uid, number)].append(line)
    before = reader.goodput(PROJECT, record.job.job_id)
    assert [attempt.last_step for attempt in before.attempts] == [9, 9]
    engine.usage.clear()
    dear = OwnPrices(source="own", currency="EUR", per_hour={"n1-standard-8": 1e6})
    accounts = replace(reader.accounts, prices=PriceSource(lambda: dear))
    replace(accounting, accounts=accounts).account()
    assert the_event(store, record).message == before.message
    assert replace(reader, accounts=accounts).goodput(PROJECT, record.job.job_id) == before


def test_of_two_servers_that_compute_the_figures_of_a_job_one_stores_them(store, accounts):
    record = ended(store)
    dear = OwnPrices(source="own", currency="EUR", per_hour={"n1-standard-8": 1e6})
    job = store.using_jobs([record.uid])[record.uid]
    late = replace(accounts, prices=PriceSource(lambda: dear)).account(job)
    assert accounts.settle(record.uid)
    rows = store.usage_rows(record.uid)
    store.write_uses([late])
    assert store.usage_rows(record.uid) == rows
    assert the_event(store, record).data["cost"]["currency"] == "USD"
    assert not accounts.settle(record.uid)


def test_an_answer_agrees_with_the_event_that_another_server_adds_meanwhile(
    store, reader, monkeypatch
):
    record = ended(store)
    settle = JobAccounts.settle

    def settle_late(accounts, uid):
        dear = OwnPrices(source="own", currency="EUR", per_hour={"n1-standard-8": 1e6})
        assert settle(replace(accounts, prices=PriceSource(lambda: dear)), uid)
        return settle(accounts, uid)

    monkeypatch.setattr(JobAccounts, "settle", settle_late)
    answer = reader.goodput(PROJECT, record.job.job_id)
    assert answer.message == the_event(store, record).message


def test_an_answer_does_not_wait_for_a_database_that_cannot_write(
    store, reader, caplog, monkeypatch
):
    record = ended(store)
    refuse = Mock(side_effect=StoreFault("the disk is full"))
    monkeypatch.setattr(type(store), "write_uses", refuse)
    assert reader.goodput(PROJECT, record.job.job_id).seconds["held"] > 0
    assert "cannot store the goodput of job" in caplog.text
