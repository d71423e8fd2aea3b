"""Why a job was not placed, as the pass found it: facts, to be put into words by ``explain``."""

from dataclasses import dataclass

from trainshed.model.explanation import Reason
from trainshed.placement.quota import Over
from trainshed.placement.request import QueuedJob
from trainshed.placement.reservation import Reservation


@dataclass(frozen=True, slots=True, kw_only=True)
class Wait:
    """One job that waits.

    ``behind`` is the job that goes first where the reason is BEHIND_QUEUE; ``overs`` the quotas
    that are in use where it is QUOTA, or those that ``behind`` waits for; ``reserved`` the job's
    own reservation if it is the one that has it.
    """

    job: QueuedJob
    reason: Reason
    behind: QueuedJob | None = None
    overs: tuple[Over, ...] = ()
    reserved: Reservation | None = None
