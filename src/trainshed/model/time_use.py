"""What the time of GPUs and machines is used for: every second has exactly one of these uses."""

from typing import Final

#: The time in which a job holds them.  ``idle``: a GPU ran no kernel between starting and stopping.
#: ``unknown``: the job reports no steps.
HELD_USES: Final = (
    "productive",
    "starting",
    "lost",
    "stalled",
    "saving",
    "idle",
    "stopping",
    "unknown",
)
#: The states of a GPU at other times; ``unobserved``: no server looked at it.
UNHELD_STATES: Final = ("free", "drained", "foreign", "faulty", "unobserved")
HELD: Final = "held"
