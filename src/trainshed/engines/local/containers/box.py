"""What one replica's container is to be, in no runtime's words."""

import csv
import io
from collections.abc import Mapping
from typing import Final, NamedTuple

from trainshed.model.launch_plan import ContainerPlan

_MIB: Final = 1 << 20
SHM_BYTES_MIN: Final = 64 * _MIB
#: Of the memory that a replica has: what Linux gives every machine's own /dev/shm.
_SHM_SHARE: Final = 2


class Bind(NamedTuple):
    """A folder or file of the machine at a place in the container."""

    here: str
    there: str
    is_read_only: bool = False


class Box(NamedTuple):
    """All that a runtime is given for one container."""

    name: str
    mark: str
    """UID/ATTEMPT: what leftovers are found by."""
    plan: ContainerPlan
    env: Mapping[str, str]
    shm_bytes: int
    home: str
    """A folder of the replica's user, also inside."""
    hosts: tuple[tuple[str, str], ...] = ()
    """(address, name)."""
    binds: tuple[Bind, ...] = ()
    devices: tuple[str, ...] = ()
    """UUIDs of its GPUs."""
    memory_bytes: int | None = None
    cpus: float | None = None
    pids: int | None = None


def shm_bytes(memory_bytes: int | None, machine_bytes: int, replicas: int) -> int:
    """How large /dev/shm is: half of the memory that is the replica's.

    Runtimes give 64 MiB, on which data loaders with several workers die of SIGBUS.  It is a bound
    and not a reservation, so replicas without a limit share the machine's memory evenly.
    """
    share = machine_bytes // max(replicas, 1)
    return max(SHM_BYTES_MIN, min(memory_bytes or share, share) // _SHM_SHARE)


def mount(bind: Bind) -> str:
    """The value of ``--mount``, which all runtimes read as a line of CSV."""
    fields = ["type=bind", f"source={bind.here}", f"target={bind.there}"]
    text = io.StringIO()
    csv.writer(text, lineterminator="").writerow([*fields, *["readonly"] * bind.is_read_only])
    return text.getvalue()
