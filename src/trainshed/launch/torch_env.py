"""The variables with which ``torch.distributed`` finds its peers (``env://``).

WORLD_SIZE counts replicas, and the primary has rank 0 (docs/sources/vertex.md 10).  A trainer that
starts several processes on its machine computes its own world size, as at Google.
"""

from trainshed.launch import variables as names_of
from trainshed.launch.context import Context, Variables
from trainshed.launch.ranks import world_rank_of
from trainshed.model.roles import Role


def variables(context: Context, role: Role, index: int) -> Variables:
    """Return MASTER_ADDR, MASTER_PORT, RANK and WORLD_SIZE; empty for roles without a rank."""
    position = world_rank_of(context, role, index)
    if position is None:
        return {}
    return {
        names_of.MASTER_ADDR: position.rendezvous.host,
        names_of.MASTER_PORT: str(position.rendezvous.rendezvous_port),
        names_of.RANK: str(position.rank),
        names_of.WORLD_SIZE: str(position.size),
    }
