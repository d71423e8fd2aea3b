"""A refusal has a reason from the closed set, and says all of it at once."""

import pytest

from trainshed.model.faults import Fault, Violation


def test_a_reason_that_is_not_listed_is_our_mistake():
    with pytest.raises(AssertionError, match="because is not listed"):
        Violation(field="a", rule="because", message="no")


def test_a_fault_carries_every_violation_in_order():
    violations = [Violation(field=name, rule="labels", message=name) for name in "cab"]
    assert Fault(violations).violations == tuple(violations)
    assert str(Fault(violations)) == "c; a; b"
