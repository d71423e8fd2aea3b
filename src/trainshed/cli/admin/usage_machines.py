"""Cells of ``trainshed usage`` on single GPUs and nodes."""

from typing import Any, Final

from trainshed.client.faults import Json

#: The number of users that a cell names.
_HOLDERS_MAX: Final = 3
_HOUR_S: Final = 3600.0


def gpu_number(row: Json) -> object:
    """Return the number of a GPU on its node; empty for other machines."""
    gpu: Any = row.get("gpu")
    return "" if gpu is None or gpu["index"] is None else gpu["index"]


def gpu_uuid(row: Json) -> str:
    """Return the UUID of a GPU; empty for other machines."""
    return str(row["gpu"]["uuid"]) if row.get("gpu") else ""


def gpu_type(row: Json) -> str:
    """Return the type of a GPU, else its UUID; empty for other machines."""
    gpu: Any = row.get("gpu")
    return "" if gpu is None else str(gpu["type"] or gpu["uuid"])


def list_holders(row: Json) -> str:
    """Return ``PROJECT/USER HOURS h`` of the users with the longest time."""
    holders: Any = row.get("holders") or ()
    parts = [
        f"{holder['project']}/{holder['user'] or 'anonymous'} {holder['seconds'] / _HOUR_S:.2f} h"
        for holder in holders[:_HOLDERS_MAX]
    ]
    more = len(holders) - len(parts) + row.get("more_holders", 0)
    return ", ".join(parts) + (f" and {more} more" if more > 0 else "")
