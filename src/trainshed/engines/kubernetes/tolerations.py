"""Tolerations, by which pods may run on nodes with taints."""

from typing import Final, NamedTuple

EFFECTS: Final = ("NoSchedule", "PreferNoSchedule", "NoExecute")


class Toleration(NamedTuple):
    """The taints that pods accept on their nodes."""

    key: str = ""
    """The key of the taints; empty: all taints."""
    value: str | None = None
    """The value of the taints; None: any value."""
    effect: str = ""
    """One of ``EFFECTS``; empty: all effects."""
    seconds: int | None = None
    """Seconds until pods leave a node with the taint; None: never."""
