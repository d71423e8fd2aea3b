"""What ``torch.distributed`` needs to find its peers with ``env://`` (R15).

WORLD_SIZE counts replicas, and the primary has rank 0 (contracts/vertex-sdk.md 10).  A trainer that
starts several processes on its machine multiplies for itself, as it does at Google.
"""

from trainshed.launch import variables as names_of
from trainshed.launch.context import Context, Variables
from trainshed.launch.ranks import seat_of
from trainshed.model.roles import Role


def variables(context: Context, role: Role, index: int) -> Variables:
    """Give MASTER_ADDR, MASTER_PORT, RANK and WORLD_SIZE to the primary and the workers."""
    seat = seat_of(context, role, index)
    if seat is None:
        return {}
    return {
        names_of.MASTER_ADDR: seat.meeting_point.host,
        names_of.MASTER_PORT: str(seat.meeting_point.rendezvous_port),
        names_of.RANK: str(seat.rank),
        names_of.WORLD_SIZE: str(seat.size),
    }
