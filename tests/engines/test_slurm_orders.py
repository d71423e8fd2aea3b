"""What an order needs next: facts to a step."""

import pytest

from trainshed.engines.slurm.orders import OrderFacts, OrderStep, next_step
from trainshed.engines.slurm.states import OVER, SlurmState

RUNS = {"state": SlurmState.RUNNING, "has_begun": True}
WAITS = {"state": SlurmState.PENDING}
STARTS = {"state": SlurmState.RUNNING, "is_starting": True}
UNSUBMITTED = {"is_submitted": False, "job": ""}
UNNUMBERED = {"job": ""}


@pytest.mark.parametrize(
    ("facts", "step"),
    [
        # never submitted, or submitted without an answer
        (UNSUBMITTED, OrderStep.DONE),
        (UNNUMBERED, OrderStep.WAIT),
        ({**UNNUMBERED, "is_final": True}, OrderStep.WAIT),
        ({**UNNUMBERED, "is_final": True, "is_settled": True}, OrderStep.DONE),
        # it waits in the queue
        (WAITS, OrderStep.CANCEL),
        ({**WAITS, "is_final": True}, OrderStep.CANCEL),
        # its launcher starts, and neither knows signals nor can record its end
        (STARTS, OrderStep.WAIT),
        ({**STARTS, "is_overdue": True}, OrderStep.CANCEL),
        # it runs
        (RUNS, OrderStep.REMIND),
        ({**RUNS, "is_reminded": True}, OrderStep.WAIT),
        ({**RUNS, "is_reminded": True, "is_overdue": True}, OrderStep.CANCEL),
        ({**RUNS, "is_requeued": True}, OrderStep.CANCEL),
        ({**RUNS, "has_end": True}, OrderStep.CANCEL),
        ({"state": SlurmState.UNKNOWN, "has_begun": True}, OrderStep.REMIND),
        # its end was observed, and its job goes on
        ({**RUNS, "is_final": True}, OrderStep.CANCEL),
        ({**RUNS, "is_final": True, "is_leaving": True}, OrderStep.WAIT),
        ({**RUNS, "is_final": True, "is_kept": True}, OrderStep.SHOW_KEPT),
        # Slurm does not show its job
        ({"has_begun": True}, OrderStep.REMIND),
        ({"has_begun": True, "has_end": True}, OrderStep.CANCEL),
        ({"is_final": True}, OrderStep.WAIT),
        ({"is_final": True, "is_settled": True}, OrderStep.DONE),
        ({"is_final": True, "is_answered": False}, OrderStep.CANCEL),
        ({"is_final": True, "is_kept": True}, OrderStep.DONE),
    ],
)
def test_the_next_step_follows_from_the_facts(facts, step):
    assert next_step(OrderFacts(**facts)) is step


@pytest.mark.parametrize("state", sorted(OVER, key=str))
@pytest.mark.parametrize("is_final", [True, False])
def test_of_a_job_that_slurm_has_ended_nothing_is_left_to_be_done(state, is_final):
    assert next_step(OrderFacts(state=state, has_begun=True, is_final=is_final)) is OrderStep.DONE
