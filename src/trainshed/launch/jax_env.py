"""The variables with which ``jax.distributed.initialize`` finds its coordinator.

JAX 0.10 reads the address by itself.  It does not read the two numbers: the program passes them,
``initialize(num_processes=int(os.environ["JAX_NUM_PROCESSES"]), process_id=...)``.
"""

from trainshed.launch import variables as names_of
from trainshed.launch.context import Context, Variables
from trainshed.launch.ranks import world_rank_of
from trainshed.model.roles import Role


def variables(context: Context, role: Role, index: int) -> Variables:
    """Give the coordinator's address and the replica's number to the primary and the workers."""
    place = world_rank_of(context, role, index)
    if place is None:
        return {}
    point = place.rendezvous
    return {
        names_of.JAX_COORDINATOR_ADDRESS: f"{point.host}:{point.rendezvous_port}",
        names_of.JAX_NUM_PROCESSES: str(place.size),
        names_of.JAX_PROCESS_ID: str(place.rank),
    }
