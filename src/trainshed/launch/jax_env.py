"""The variables with which ``jax.distributed.initialize`` finds its coordinator.

JAX 0.10 reads the address by itself.  It does not read the two numbers: the program passes them,
``initialize(num_processes=int(os.environ["JAX_NUM_PROCESSES"]), process_id=...)``.
"""

from trainshed.launch import variables as names_of
from trainshed.launch.context import Context, Variables
from trainshed.launch.ranks import world_rank_of
from trainshed.model.roles import Role


def variables(context: Context, role: Role, index: int) -> Variables:
    """Return the coordinator's address and the replica's rank; empty for other roles."""
    position = world_rank_of(context, role, index)
    if position is None:
        return {}
    primary = position.rendezvous
    return {
        names_of.JAX_COORDINATOR_ADDRESS: f"{primary.host}:{primary.rendezvous_port}",
        names_of.JAX_NUM_PROCESSES: str(position.size),
        names_of.JAX_PROCESS_ID: str(position.rank),
    }
