"""The transition table has no holes, no overlaps, and finished jobs stay finished."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from trainshed.lifecycle import IllegalTransition, decide
from trainshed.lifecycle.decide import LATE, ON_ENTER, TRANSITIONS, commands_of
from trainshed.lifecycle.events import (
    EVENTS,
    Admitted,
    AllReady,
    CancelRequested,
    Command,
    Drained,
    GaveUp,
    HandedOver,
    HandOverRefused,
    Held,
    Placed,
    PrimarySucceeded,
    RestartGranted,
    RestartOrdered,
)
from trainshed.model.status import FINAL, JobState

SAMPLES = (
    Placed(),
    HandedOver(),
    HandOverRefused(),
    Admitted(),
    AllReady(),
    PrimarySucceeded(),
    RestartGranted(),
    Held(),
    RestartOrdered(),
    GaveUp(message="no"),
    CancelRequested(),
    Drained(),
)


def test_late_news_and_steps_do_not_overlap():
    assert not LATE & TRANSITIONS.keys()


def test_every_state_says_what_entering_it_asks_for():
    assert ON_ENTER.keys() == set(JobState)


def test_the_samples_cover_every_event():
    assert {type(event) for event in SAMPLES} == set(EVENTS)


def test_a_final_state_is_reachable_from_every_state():
    reached = set(FINAL)
    while True:
        more = {before for (before, _), after in TRANSITIONS.items() if after in reached}
        if more <= reached:
            break
        reached |= more
    assert reached == set(JobState)


def test_the_bugs_are_exactly_these():
    """The review of the table: pairs that are neither a step nor late must never happen."""
    bugs = {
        (state.name, event.__name__)
        for state in JobState
        for event in EVENTS
        if (state, event) not in LATE and (state, event) not in TRANSITIONS
    }
    assert bugs == {
        ("QUEUED", "RestartGranted"),
        ("ENQUEUED", "Placed"),
        ("ENQUEUED", "HandedOver"),
        ("ENQUEUED", "Drained"),
        ("PREPARING", "Placed"),
        ("PREPARING", "HandedOver"),
        ("PREPARING", "HandOverRefused"),
        ("PREPARING", "Drained"),
        ("RUNNING", "Placed"),
        ("RUNNING", "HandedOver"),
        ("RUNNING", "HandOverRefused"),
        ("RUNNING", "Drained"),
        ("RESTARTING", "Placed"),
        ("RESTARTING", "HandedOver"),
        ("CANCELLING", "Placed"),
        ("CANCELLING", "HandedOver"),
    }


def test_a_bug_raises_and_names_the_pair():
    with pytest.raises(IllegalTransition, match="RUNNING does not allow Placed"):
        decide(JobState.RUNNING, Placed())


@given(st.lists(st.sampled_from(SAMPLES), max_size=30))
def test_a_finished_job_stays_finished_and_asks_for_nothing(events):
    state, finished = JobState.QUEUED, False
    for event in events:
        try:
            decision = decide(state, event)
        except IllegalTransition:
            continue
        if finished:
            assert decision.state is state
            assert not decision.commands
        state, finished = decision.state, decision.state.is_final


@given(st.lists(st.sampled_from(SAMPLES), max_size=30))
def test_nothing_is_launched_twice_without_a_stop_between(events):
    state, running = JobState.QUEUED, False
    for event in events:
        try:
            decision = decide(state, event)
        except IllegalTransition:
            continue
        for command in commands_of(state, decision):
            assert not (command is Command.LAUNCH and running)
            running = command is Command.LAUNCH
        state = decision.state


@given(st.lists(st.sampled_from(SAMPLES), max_size=30))
def test_an_attempt_that_is_being_ended_never_runs_again(events):
    """Whoever has ordered a restart need not look again: only another attempt can be RUNNING."""
    state, ordered = JobState.QUEUED, False
    for event in events:
        try:
            state = decide(state, event).state
        except IllegalTransition:
            continue
        ordered = state is JobState.RESTARTING or (ordered and state is not JobState.QUEUED)
        assert not (ordered and state in {JobState.PREPARING, JobState.RUNNING})


@given(st.lists(st.sampled_from(SAMPLES), max_size=30))
def test_what_lies_in_the_queue_of_an_engine_was_launched_once_and_is_not_launched_by_leaving_it(
    events,
):
    state, launched = JobState.QUEUED, 0
    for event in events:
        try:
            decision = decide(state, event)
        except IllegalTransition:
            continue
        commands = commands_of(state, decision)
        if state is JobState.ENQUEUED:
            assert Command.LAUNCH not in commands
        if state is not JobState.QUEUED and decision.state is JobState.QUEUED:
            assert commands == (Command.STOP,)
            launched = 0
        launched += commands.count(Command.LAUNCH)
        assert launched <= 1
        state = decision.state
        assert (state is not JobState.ENQUEUED) or launched == 1
