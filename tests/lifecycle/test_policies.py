"""Whether a job starts again, and when its time is over."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from trainshed.lifecycle.deadlines import (
    FLEX_START_WAITING_S,
    RUNNING_S_DEFAULT,
    limits_of,
    overdue,
)
from trainshed.lifecycle.events import GaveUp, RestartGranted
from trainshed.lifecycle.restart import (
    ExitClass,
    classify_exit,
    decide_after_failure,
    decide_after_loss,
    may_restart,
)
from trainshed.model.job import Scheduling
from trainshed.model.restarts import Budgets, Cause, Restarts
from trainshed.model.roles import Dialect

COUNTS = st.integers(0, 5)
USED = st.builds(Restarts, maintenance=COUNTS, infra=COUNTS, user=COUNTS)
BUDGET = st.none() | COUNTS
BUDGETS = st.builds(Budgets, maintenance=BUDGET, infra=BUDGET, user=BUDGET)
CAUSES = st.sampled_from(Cause)


@given(CAUSES, USED, BUDGETS)
def test_each_cause_has_a_budget_of_its_own(cause, used, budgets):
    """Maintenance must not use up what is kept for faults."""
    allowed = may_restart(cause, used, Scheduling(), budgets)
    for other in set(Cause) - {cause}:
        assert may_restart(cause, used.plus(other), Scheduling(), budgets) is allowed
    budget = budgets.of(cause)
    assert allowed is (budget is None or used.of(cause) < budget)


@given(CAUSES, USED, BUDGETS)
def test_a_job_that_wants_no_retries_gets_none(cause, used, budgets):
    assert not may_restart(cause, used, Scheduling(disable_retries=True), budgets)


@given(st.booleans(), CAUSES, USED, BUDGETS)
def test_the_wish_for_restarts_of_the_whole_job_changes_nothing(wish, cause, used, budgets):
    scheduling = Scheduling(restart_job_on_worker_restart=wish)
    assert may_restart(cause, used, scheduling, budgets) is may_restart(
        cause, used, Scheduling(), budgets
    )


def test_by_default_a_job_survives_three_losses_and_any_number_of_maintenances():
    used = Restarts()
    for attempt in (1, 2, 3):
        assert (
            decide_after_loss(attempt, "no power", used, Scheduling(), Budgets())
            == RestartGranted()
        )
        used = used.plus(Cause.INFRA).plus(Cause.MAINTENANCE)
    loss_event = decide_after_loss(7, "no power", used, Scheduling(), Budgets())
    assert loss_event == GaveUp(
        message="Attempt 7 was lost (no power), and all 3 restarts are used up."
    )
    many = replace(used, maintenance=1000)
    assert may_restart(Cause.MAINTENANCE, many, Scheduling(), Budgets())


@pytest.mark.parametrize(
    ("scheduling", "budgets", "reason"),
    [
        (Scheduling(disable_retries=True), Budgets(), "disableRetries forbids another"),
        (Scheduling(), Budgets(infra=0), "the job may not be restarted"),
    ],
)
def test_a_job_that_is_given_up_is_told_why(scheduling, budgets, reason):
    loss_event = decide_after_loss(1, "", Restarts(), scheduling, budgets)
    assert loss_event == GaveUp(message=f"Attempt 1 was lost, and {reason}.")


@given(st.integers(0, 255))
def test_only_what_a_signal_ended_may_succeed_another_time(status):
    exit_class = classify_exit(status)
    assert (exit_class is ExitClass.SUCCESS) == (status == 0)
    assert (exit_class is ExitClass.RECOVERABLE) == (status > 128)
    granted = decide_after_failure(status, Restarts(), Scheduling(), Budgets(user=1))
    assert granted == (RestartGranted() if status > 128 else None)
    assert decide_after_failure(status, Restarts(), Scheduling(), Budgets()) is None
    assert decide_after_failure(status, Restarts(user=1), Scheduling(), Budgets(user=1)) is None


@pytest.mark.parametrize(
    ("scheduling", "default", "running", "waiting"),
    [
        (Scheduling(), RUNNING_S_DEFAULT, RUNNING_S_DEFAULT, None),
        (Scheduling(), None, None, None),
        (Scheduling(), 0.0, None, None),
        (Scheduling(running_s_max=60.0, waiting_s_max=5.0), 10.0, 60.0, 5.0),
        (Scheduling(running_s_max=0.0, waiting_s_max=0.0), 10.0, 10.0, None),
        (Scheduling(strategy="FLEX_START"), None, None, FLEX_START_WAITING_S),
        (Scheduling(strategy="FLEX_START", waiting_s_max=0.0), None, None, None),
        (Scheduling(strategy="SPOT"), None, None, None),
    ],
)
def test_limits_are_the_jobs_own_or_the_defaults(scheduling, default, running, waiting):
    limits = limits_of(scheduling, default)
    assert (limits.running_s_max, limits.waiting_s_max) == (running, waiting)


@pytest.mark.parametrize(
    ("dialect", "has_run", "scheduling", "words"),
    [
        (
            Dialect.ML_V1,
            True,
            Scheduling(running_s_max=1_209_600.0),
            "the 1209600 s of trainingInput.scheduling.maxRunningTime",
        ),
        (
            Dialect.ML_V1,
            False,
            Scheduling(waiting_s_max=1800.0),
            "trainingInput.scheduling.maxWaitTime",
        ),
        (Dialect.AIPLATFORM_V1, True, Scheduling(), "scheduling.timeout"),
        (
            Dialect.AIPLATFORM_V1,
            False,
            Scheduling(strategy="FLEX_START"),
            "the 86400 s of scheduling.maxWaitDuration",
        ),
    ],
)
def test_a_job_whose_time_is_over_is_told_in_its_own_words(dialect, has_run, scheduling, words):
    message = overdue(dialect, scheduling, has_run=has_run, ran_s=604_801.2)
    assert words in message
    assert ("604801 s" in message) == (has_run and not scheduling.running_s_max)
