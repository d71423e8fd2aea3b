"""What is seen of an attempt, and what it means: every state with every phase."""

from dataclasses import replace

import pytest

from trainshed.lifecycle import decide
from trainshed.lifecycle.decide import commands_of
from trainshed.lifecycle.events import (
    Admitted,
    AllReady,
    CancelRequested,
    Command,
    Drained,
    GaveUp,
    Held,
    Placed,
    PrimarySucceeded,
    RestartGranted,
    RestartOrdered,
)
from trainshed.lifecycle.outcome import (
    DEADLINE_EXCEEDED,
    FAILED_PRECONDITION,
    INVALID_ARGUMENT,
    UNAVAILABLE,
    AttemptFacts,
    judge,
    last_stop,
    matters,
    needs_facts,
    pause_ordered,
    paused,
    restart_ordered,
)
from trainshed.model.attempt import AttemptKey, Loss, Observation, Outcome, Phase
from trainshed.model.explanation import Explanation, Reason
from trainshed.model.job import Scheduling
from trainshed.model.restarts import Budgets, Cause
from trainshed.model.status import JobError, JobState
from trainshed.model.stopping import StopOrder, StopReason

FACTS = AttemptFacts(attempt=2, budgets=Budgets(maintenance=1, infra=1, user=1))
SPENT = replace(FACTS, budgets=Budgets(maintenance=0, infra=0, user=0))
#: It must not run twice, also if a person wishes it.
PAUSED = replace(FACTS, paused="Trial 3 is paused.")
ONCE = replace(FACTS, scheduling=Scheduling(disable_retries=True))
ORDER = StopOrder(grace_s=1.0, reason=StopReason.MAINTENANCE, message="The node goes away.")


def observation_of(phase, code=None, *, names=("a",), **fields):
    interrupted = fields.pop("interrupted", False)
    outcome = code if code is None else Outcome(code, "it ended", interrupted=interrupted)
    return Observation(AttemptKey(7, 2), phase, outcome, task_names=names, **fields)


STARTING = observation_of(Phase.STARTING)
READY = observation_of(Phase.READY)
OVER = observation_of(Phase.ENDED, 0)
FAILED = observation_of(Phase.ENDED, 3)
KILLED = observation_of(Phase.ENDED, 137)
ORDERED = observation_of(Phase.ENDED, 143, interrupted=True)
NEVER_RAN = observation_of(Phase.ENDED, 1, names=(), fault="no such program")
LOST = observation_of(Phase.LOST, fault="no power")
EVICTED = observation_of(Phase.LOST, fault="no power", loss=Loss.MAINTENANCE)
STOPPED = observation_of(Phase.LOST, fault="ada cancelled it", loss=Loss.OPERATOR)
TOO_LONG = observation_of(Phase.LOST, fault="its queue allows an hour", loss=Loss.LIMIT)

#: (state, what is seen, what is known): the event, the code of the error, whose budget pays.
TABLE = [
    (JobState.PREPARING, READY, FACTS, AllReady, None, None),
    (JobState.PREPARING, OVER, FACTS, AllReady, None, None),
    (JobState.PREPARING, FAILED, FACTS, AllReady, None, None),
    (JobState.PREPARING, NEVER_RAN, FACTS, GaveUp, FAILED_PRECONDITION, None),
    (JobState.PREPARING, LOST, FACTS, RestartGranted, None, Cause.INFRA),
    (JobState.RUNNING, OVER, FACTS, PrimarySucceeded, None, None),
    (JobState.RUNNING, FAILED, FACTS, GaveUp, INVALID_ARGUMENT, None),
    (JobState.RUNNING, KILLED, FACTS, RestartGranted, None, Cause.USER),
    (JobState.RUNNING, KILLED, SPENT, GaveUp, INVALID_ARGUMENT, None),
    (JobState.RUNNING, ORDERED, FACTS, RestartGranted, None, Cause.INFRA),
    (JobState.RUNNING, ORDERED, SPENT, GaveUp, UNAVAILABLE, None),
    (JobState.RUNNING, LOST, FACTS, RestartGranted, None, Cause.INFRA),
    (JobState.RUNNING, LOST, SPENT, GaveUp, UNAVAILABLE, None),
    (JobState.RUNNING, EVICTED, FACTS, RestartGranted, None, Cause.MAINTENANCE),
    (JobState.RUNNING, TOO_LONG, FACTS, GaveUp, DEADLINE_EXCEEDED, None),
    (JobState.RUNNING, STOPPED, FACTS, Held, None, None),
    (JobState.RUNNING, STOPPED, SPENT, Held, None, None),
    (JobState.RUNNING, STOPPED, ONCE, GaveUp, UNAVAILABLE, None),
    (JobState.ENQUEUED, STARTING, FACTS, Admitted, None, None),
    (JobState.ENQUEUED, READY, FACTS, Admitted, None, None),
    (JobState.ENQUEUED, OVER, FACTS, Admitted, None, None),
    (JobState.ENQUEUED, FAILED, FACTS, Admitted, None, None),
    (JobState.ENQUEUED, NEVER_RAN, FACTS, GaveUp, FAILED_PRECONDITION, None),
    (JobState.ENQUEUED, LOST, FACTS, RestartGranted, None, Cause.INFRA),
    (JobState.ENQUEUED, EVICTED, FACTS, RestartGranted, None, Cause.MAINTENANCE),
    (JobState.ENQUEUED, TOO_LONG, FACTS, GaveUp, DEADLINE_EXCEEDED, None),
    (JobState.ENQUEUED, STOPPED, FACTS, Held, None, None),
    (JobState.RESTARTING, OVER, FACTS, PrimarySucceeded, None, None),
    (JobState.RESTARTING, FAILED, FACTS, GaveUp, INVALID_ARGUMENT, None),
    (JobState.RESTARTING, KILLED, FACTS, Drained, None, None),
    (JobState.RESTARTING, ORDERED, FACTS, Drained, None, None),
    (JobState.RESTARTING, LOST, FACTS, Drained, None, None),
    (JobState.RESTARTING, STOPPED, FACTS, Drained, None, None),
    (JobState.CANCELLING, OVER, FACTS, Drained, None, None),
    (JobState.CANCELLING, LOST, FACTS, Drained, None, None),
    (JobState.CANCELLING, STOPPED, FACTS, Drained, None, None),
]


@pytest.mark.parametrize("row", TABLE)
def test_what_is_seen_means_one_thing(row):
    state, observation, facts, event, code, charged = row
    assert matters(state, observation)
    judgement = judge(state, observation, facts)
    assert (type(judgement.event), judgement.error and judgement.error.code) == (event, code)
    assert judgement.charged is charged
    assert decide(state, judgement.event).state is not state
    if not needs_facts(state, observation):
        assert judge(state, observation, AttemptFacts()) == judgement


@pytest.mark.parametrize("state", JobState)
@pytest.mark.parametrize("phase", Phase)
def test_only_what_the_table_names_means_anything(state, phase):
    named = {(row[0], row[1].phase) for row in TABLE}
    assert matters(state, observation_of(phase, 0)) is ((state, phase) in named)


def test_an_engine_that_cannot_say_is_never_a_reason():
    assert not any(matters(state, observation_of(Phase.UNKNOWN)) for state in JobState)


@pytest.mark.parametrize("observation", [ORDERED, LOST])
def test_a_job_with_a_pending_error_fails_of_it_when_its_attempt_is_gone(observation):
    pending = JobError(code=UNAVAILABLE, message="The node goes away, and there is no restart.")
    facts = replace(FACTS, pending_error=pending)
    assert judge(JobState.RESTARTING, observation, facts).error == pending


def test_an_attempt_whose_time_in_the_cluster_is_over_was_not_lost():
    judgement = judge(JobState.RUNNING, TOO_LONG, replace(FACTS, attempt=2))
    assert (
        judgement.error.message == "Attempt 2 ended at its time limit (its queue allows an hour)."
    )


def test_a_held_job_says_why_and_how_it_is_resumed():
    judgement = judge(JobState.RUNNING, STOPPED, replace(FACTS, job="census_1"))
    assert judgement.held.reason is Reason.HELD
    assert judgement.held.message == (
        "ada cancelled it: the job is held; `trainshed jobs resume census_1` takes it up again"
    )


def test_an_order_is_counted_once_and_the_last_one_leaves_an_error():
    judgement = restart_ordered(ORDER, Cause.MAINTENANCE, FACTS)
    assert (type(judgement.event), judgement.charged, judgement.stop, judgement.error) == (
        RestartOrdered, Cause.MAINTENANCE, ORDER, None,
    )  # fmt: skip
    facts = replace(FACTS, scheduling=Scheduling(disable_retries=True))
    assert restart_ordered(ORDER, Cause.MAINTENANCE, facts) is None
    last = last_stop(ORDER, Cause.MAINTENANCE, facts)
    assert (last.charged, last.error.code) == (None, UNAVAILABLE)
    assert last.error.message == "The node goes away, and disableRetries forbids another."


@pytest.mark.parametrize(
    ("before", "event", "commands"),
    [
        (JobState.QUEUED, Placed(), (Command.LAUNCH,)),
        (JobState.RUNNING, RestartGranted(), (Command.STOP,)),
        (JobState.PREPARING, AllReady(), ()),
    ],
)
def test_a_decision_s_commands(before, event, commands):
    assert commands_of(before, decide(before, event)) == commands


def test_the_engine_of_its_last_attempt_hears_that_a_waiting_job_is_cancelled():
    """It may have kept places for the next."""
    decision = decide(JobState.QUEUED, CancelRequested())
    assert commands_of(JobState.QUEUED, decision) == (Command.STOP,)


@pytest.mark.parametrize(
    ("state", "what", "facts", "reason"),
    [
        (JobState.RUNNING, KILLED, FACTS, StopReason.AGAIN),
        (JobState.RUNNING, KILLED, SPENT, None),
        (JobState.RUNNING, LOST, FACTS, None),
        (JobState.RESTARTING, ORDERED, FACTS, StopReason.AGAIN),
        (JobState.RESTARTING, LOST, FACTS, None),
        (JobState.RESTARTING, ORDERED, PAUSED, None),
        (JobState.CANCELLING, ORDERED, FACTS, None),
    ],
)
def test_an_engine_is_told_that_another_attempt_follows_one_that_has_ended(
    state, what, facts, reason
):
    stop = judge(state, what, facts).stop
    assert (stop and stop.reason) is reason


@pytest.mark.parametrize("what", [ORDERED, LOST])
def test_a_paused_trial_is_held_until_its_study_resumes_it(what):
    order = StopOrder(grace_s=1.0, reason=StopReason.PAUSE, message=PAUSED.paused)
    ordered = pause_ordered(order)
    assert (type(ordered.event), ordered.charged, ordered.stop) == (RestartOrdered, None, order)
    ended = judge(JobState.RESTARTING, what, PAUSED)
    assert (type(ended.event), ended.charged) == (Drained, None)
    assert ended.held == Explanation(reason=Reason.PAUSED, message="Trial 3 is paused")
    waiting = paused(PAUSED.paused)
    assert (type(waiting.event), waiting.held) == (Held, ended.held)
    assert decide(JobState.QUEUED, waiting.event).state is JobState.QUEUED


def test_a_pause_neither_hides_a_success_nor_an_error():
    assert type(judge(JobState.RESTARTING, OVER, PAUSED).event) is PrimarySucceeded
    pending = replace(PAUSED, pending_error=JobError(code=14, message="the node goes away"))
    assert type(judge(JobState.RESTARTING, ORDERED, pending).event) is GaveUp
