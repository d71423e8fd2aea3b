"""What can be proven of an attempt on this machine: facts to a decision."""

from itertools import product

import pytest

from trainshed.engines.local.attempts.proof import (
    BEGIN_S_MAX,
    SUSPENDED_S_MAX,
    LocalDecision,
    LocalFacts,
    what_is_proven,
)
from trainshed.engines.supervise.record.folder import Order

ORDER = Order(grace_s=5.0, reason="cancel")
FENCED = Order(grace_s=0.0, reason="end", lost=True)
LATE = BEGIN_S_MAX


@pytest.mark.parametrize(
    ("facts", "decision"),
    [
        # it is launched, runs and ends
        ({"has_plan": True, "waited_s": LATE - 1}, LocalDecision.RECORDED),
        ({"lives": True}, LocalDecision.RECORDED),
        ({"has_ended": True}, LocalDecision.RECORDED),
        # it was never launched, as far as this machine can tell
        ({}, LocalDecision.UNKNOWN),
        ({"was_ours": True}, LocalDecision.UNKNOWN),
        # its supervisor never began
        ({"has_plan": True, "waited_s": LATE}, LocalDecision.GIVE_UP),
        ({"has_plan": True, "was_ours": True}, LocalDecision.GIVE_UP),
        ({"has_plan": True, "order": FENCED}, LocalDecision.NEVER_BEGAN),
        ({"has_plan": True, "order": ORDER}, LocalDecision.STOPPED_EARLY),
        ({"order": ORDER}, LocalDecision.STOPPED_EARLY),
        # its supervisor is suspended
        ({"lives": True, "suspended_s": 600.0}, LocalDecision.RECORDED),
        ({"lives": True, "order": ORDER}, LocalDecision.RECORDED),
        (
            {"lives": True, "order": ORDER, "suspended_s": SUSPENDED_S_MAX + 4.9},
            LocalDecision.RECORDED,
        ),
        ({"lives": True, "order": ORDER, "suspended_s": SUSPENDED_S_MAX + 5.0}, LocalDecision.KILL),
        # its supervisor was killed
        ({"was_begun": True}, LocalDecision.SWEEP),
        ({"was_begun": True, "has_decided": True}, LocalDecision.SWEEP),
        ({"was_begun": True, "order": ORDER}, LocalDecision.SWEEP),
        ({"was_begun": True, "is_clean": False}, LocalDecision.UNKNOWN),
        ({"was_begun": True, "is_clean": False, "has_decided": True}, LocalDecision.UNKNOWN),
        ({"was_begun": True, "is_clean": True}, LocalDecision.LOST),
        ({"was_begun": True, "is_clean": True, "order": ORDER}, LocalDecision.LOST),
        (
            {"was_begun": True, "is_clean": True, "has_decided": True},
            LocalDecision.ENDED_AS_DECIDED,
        ),
    ],
)
def test_the_decision_follows_from_the_facts(facts, decision):
    assert what_is_proven(LocalFacts(**facts)) is decision


OVER = {
    LocalDecision.ENDED_AS_DECIDED,
    LocalDecision.LOST,
    LocalDecision.NEVER_BEGAN,
    LocalDecision.STOPPED_EARLY,
}


def test_nothing_is_over_while_its_supervisor_or_what_that_left_may_live():
    choices = {
        "order": (None, ORDER, FENCED),
        "has_decided": (False, True),
        "has_plan": (False, True),
        "was_ours": (False, True),
        "waited_s": (0.0, LATE),
    }
    for values in product(*choices.values()):
        more = dict(zip(choices, values, strict=True))
        assert what_is_proven(LocalFacts(lives=True, **more)) not in OVER
        for is_clean in (None, False):
            assert what_is_proven(LocalFacts(was_begun=True, is_clean=is_clean, **more)) not in OVER
