"""The variables with which ``torch.distributed`` finds its peers (``env://``).

WORLD_SIZE counts replicas, and the primary has rank 0 (docs/sources/vertex.md 10).  A trainer that
starts several processes on its machine computes its own world size, as at Google.
"""

from trainshed.launch import variables as names_of
from trainshed.launch.context import Context, Variables
from trainshed.launch.ranks import world_rank_of
from trainshed.model.roles import Role


def variables(context: Context, role: Role, index: int) -> Variables:
    """Give MASTER_ADDR, MASTER_PORT, RANK and WORLD_SIZE to the primary and the workers."""
    place = world_rank_of(context, role, index)
    if place is None:
        return {}
    return {
        names_of.MASTER_ADDR: place.rendezvous.host,
        names_of.MASTER_PORT: str(place.rendezvous.rendezvous_port),
        names_of.RANK: str(place.rank),
        names_of.WORLD_SIZE: str(place.size),
    }
