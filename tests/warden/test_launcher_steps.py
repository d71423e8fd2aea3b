"""What a launcher does next, from what it knows of its attempt and of its wardens."""

import itertools

import pytest

from trainshed.engines.warden.launcher_steps import (
    COMMAND_LEAVE_S,
    Consequence,
    Event,
    GangFacts,
    LauncherStep,
    Pressure,
    WardenState,
    decide_step,
    judge_event,
    list_pressure,
)

LISTENS = {"is_listening": True}
CONNECTED = {**LISTENS, "are_connected": True}
PREPARED = {**CONNECTED, "are_prepared": True}
SENT = {**PREPARED, "is_start_sent": True}
STARTED = {**SENT, "have_started": True}
STEPS = [
    ({}, LauncherStep.RUN_COMMANDS),
    (LISTENS, LauncherStep.WAIT_FOR_WARDENS),
    ({**LISTENS, "is_late": True}, LauncherStep.GIVE_UP),
    (CONNECTED, LauncherStep.WAIT_FOR_PREPARATION),
    ({**CONNECTED, "is_late": True}, LauncherStep.WAIT_FOR_PREPARATION),
    (PREPARED, LauncherStep.START_REPLICAS),
    (SENT, LauncherStep.WAIT_FOR_STARTS),
    (STARTED, LauncherStep.FORWARD),
    ({**STARTED, "is_late": True}, LauncherStep.FORWARD),
    ({**STARTED, "are_over": True}, LauncherStep.FORWARD),
    # a fault ends every wait, and nothing is started after it
    ({"has_fault": True}, LauncherStep.WAIT_FOR_TEARDOWN),
    ({**LISTENS, "has_fault": True, "is_late": True}, LauncherStep.WAIT_FOR_TEARDOWN),
    ({**PREPARED, "has_fault": True}, LauncherStep.WAIT_FOR_TEARDOWN),
    ({**SENT, "has_fault": True}, LauncherStep.WAIT_FOR_TEARDOWN),
    # an order comes before everything else
    ({"is_ending": True}, LauncherStep.WAIT_FOR_ENDS),
    ({**LISTENS, "is_ending": True, "is_late": True}, LauncherStep.WAIT_FOR_ENDS),
    ({**PREPARED, "is_ending": True, "has_fault": True}, LauncherStep.WAIT_FOR_ENDS),
    ({**STARTED, "is_ending": True}, LauncherStep.WAIT_FOR_ENDS),
    ({**STARTED, "is_ending": True, "are_over": True}, LauncherStep.DISMISS),
    ({"is_ending": True, "has_fault": True, "are_over": True}, LauncherStep.DISMISS),
]


@pytest.mark.parametrize(("facts", "step"), STEPS)
def test_the_next_step_of_a_launcher(facts, step):
    assert decide_step(GangFacts(**facts)) is step


def test_replicas_are_started_only_once_and_only_if_every_warden_is_prepared():
    for cells in itertools.product([False, True], repeat=len(GangFacts._fields)):
        facts = GangFacts(*cells)
        if decide_step(facts) is LauncherStep.START_REPLICAS:
            assert facts.are_connected
            assert facts.are_prepared
            assert not facts.has_fault
            assert not facts.is_ending
            assert not facts.is_start_sent


def test_no_warden_is_dismissed_while_one_may_have_a_process():
    for cells in itertools.product([False, True], repeat=len(GangFacts._fields)):
        facts = GangFacts(*cells)
        if decide_step(facts) is LauncherStep.DISMISS:
            assert facts.is_ending
            assert facts.are_over


CONNECTION = {"has_connected": True}
OVER = {**CONNECTION, "is_over": True}
ENDING = {"is_ending": True}
CONSEQUENCES = [
    (Event.CLOSED, CONNECTION, Consequence.LOST),
    (Event.CLOSED, {**CONNECTION, **ENDING}, Consequence.LOST),
    (Event.CLOSED, {**CONNECTION, "has_exit": True}, Consequence.GONE),
    (Event.CLOSED, OVER, Consequence.GONE),
    (Event.SILENT, CONNECTION, Consequence.HANG_UP),
    (Event.SILENT, {**CONNECTION, "has_exit": True}, Consequence.HANG_UP),
    (Event.SILENT, OVER, Consequence.NONE),
    (Event.COMMAND_ENDED, {}, Consequence.NEVER_CONNECTED),
    (Event.COMMAND_ENDED, ENDING, Consequence.GONE),
    (Event.COMMAND_ENDED, CONNECTION, Consequence.NONE),
    (Event.COMMAND_LONG_ENDED, {}, Consequence.NONE),
    (Event.COMMAND_LONG_ENDED, CONNECTION, Consequence.HANG_UP),
    (Event.COMMAND_LONG_ENDED, {**CONNECTION, **ENDING}, Consequence.HANG_UP),
    (Event.COMMAND_LONG_ENDED, OVER, Consequence.NONE),
    (Event.COMMAND_LONG_ENDED, {"is_over": True}, Consequence.NONE),
]


@pytest.mark.parametrize(("event", "state", "consequence"), CONSEQUENCES)
def test_what_an_event_means_for_a_warden(event, state, consequence):
    assert judge_event(event, WardenState(**state)) is consequence


@pytest.mark.parametrize(
    ("late_s", "pressure"),
    [
        (5.0, [Pressure.KILL_REPLICAS]),
        (COMMAND_LEAVE_S, [Pressure.KILL_REPLICAS]),
        (COMMAND_LEAVE_S + 1, [Pressure.KILL_REPLICAS, Pressure.TERMINATE_COMMANDS]),
        (2 * COMMAND_LEAVE_S + 1, list(Pressure)),
    ],
)
def test_wardens_that_are_late_get_more_pressure(late_s, pressure):
    assert list(list_pressure(late_s)) == pressure
