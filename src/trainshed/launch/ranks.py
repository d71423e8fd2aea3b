"""The replicas that take part in collective communication, and their ranks.

The primary and the workers take part; ranks are unique numbers from 0 to size-1.  Parameter
servers, evaluators and reducers have no rank: the others would wait for them at the rendezvous.
"""

from dataclasses import dataclass

from trainshed.launch.context import Context
from trainshed.model.launch_plan import Address
from trainshed.model.roles import Role


@dataclass(frozen=True, slots=True, kw_only=True)
class WorldRank:
    """A replica's rank and the world size; ``rendezvous`` is the primary's address."""

    rank: int
    size: int
    rendezvous: Address


def world_rank_of(context: Context, role: Role, index: int) -> WorldRank | None:
    """Return a replica's rank; None for a role without a rank, and for a single replica."""
    world = list(context.spec.world)
    if not context.is_distributed or (role, index) not in world:
        return None
    return WorldRank(
        rank=world.index((role, index)),
        size=len(world),
        rendezvous=context.site.addresses[Role.PRIMARY, 0],
    )
