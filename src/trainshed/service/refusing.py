"""Refusals as sentences that stand alone: many clients show the message and nothing else.

A message ends without a full stop, because gcloud goes on behind it (contracts/gcloud.md 8.1).
"""

from collections.abc import Sequence

from trainshed.model.faults import Violation
from trainshed.model.refusals import Code, Refusal

#: How many violations the message itself tells, and how much of each.
TOLD_MAX = 3
TOLD_LENGTH_MAX = 600


def invalid(violations: Sequence[Violation]) -> Refusal:
    """The refusal of a document: the first violations in the message, all of them beside it."""
    told = [sentence(violation) for violation in violations[:TOLD_MAX]]
    rest = len(violations) - len(told)
    message = "; ".join(told) + (f"; and {rest} more" if rest else "")
    return Refusal(Code.INVALID_ARGUMENT, message, violations)


def sentence(violation: Violation) -> str:
    """One violation: where, what, and what would be accepted."""
    accepted = f" (accepted: {violation.accepted})" if violation.accepted else ""
    text = f"{violation.field}: {violation.message.rstrip('.')}{accepted}".removeprefix(": ")
    return text if len(text) <= TOLD_LENGTH_MAX else f"{text[:TOLD_LENGTH_MAX]}..."


def not_found(name: str) -> Refusal:
    """The refusal for a resource that is not there, whether it ever was or not."""
    return Refusal(Code.NOT_FOUND, f"{name} does not exist")
