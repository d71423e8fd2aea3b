"""The rule for the network of an attempt: the engine writes it, and the supervisor applies it.

Addresses are the same in every job: each job has namespaces of its own, so they never conflict.
"""
# the supervisor of an attempt imports this, and must stay small

from typing import Final, NamedTuple

#: The range of RFC 2544: no network that a job may need to reach uses it.
CIDR: Final = "198.18.0.0/22"
PREFIX: Final = 22
#: The address of the name server, which uses the resolver of the machine.
RESOLVER: Final = "198.18.0.3"
#: The address of the bridge to replicas that have namespaces of their own.
BRIDGE: Final = "198.18.1.1"
#: The networks of the replicas; the way out uses the rest of the range.
REPLICA_NETWORKS: Final = (("198.18.1.0", 24), ("198.18.2.0", 23))
_NETWORK: Final = "198.18"
_BYTE: Final = 256
_FIRST_REPLICA: Final = _BYTE + 16
#: The number of replicas with an address; the last address of the range is for broadcasts.
REPLICAS_MAX: Final = 4 * _BYTE - 1 - _FIRST_REPLICA


class NetworkRule(NamedTuple):
    """Network namespaces of an attempt."""

    addresses: tuple[str, ...]
    """One address for each replica, in the order of the plan."""
    shared: bool = True
    """Whether all replicas share one namespace; if not, each has its own."""
    listeners: tuple[tuple[str, int], ...] = ()
    """The (address, port) pairs at which the gateway answers in each namespace."""


def replica_address(index: int) -> str:
    """Return the address of a replica by its index in the plan.  Raises ValueError."""
    if not 0 <= index < REPLICAS_MAX:
        raise ValueError(f"a replica's index must be from 0 to {REPLICAS_MAX - 1}, got {index}")
    high, low = divmod(_FIRST_REPLICA + index, _BYTE)
    return f"{_NETWORK}.{high}.{low}"
