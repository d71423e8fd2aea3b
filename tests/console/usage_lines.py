"""Samples of an attempt, as its supervisor writes them."""

import math

from trainshed.model.usage import GpuUsage, ReplicaUsage, Spread, UsageLine

STEPS, STEPS_TOTAL = 1200, 5000
LINES, LINE_S = 60, 60.0
#: Lines that are not there: nothing was measured for ten minutes.
GAP = range(20, 30)


def measured_lines(task, end_s):
    """Return the lines of an hour that ends at ``end_s``: a loss, CPU, memory and a GPU."""
    return [
        UsageLine(
            at=end_s - (LINES - 1 - number) * LINE_S,
            s=LINE_S,
            replicas={task: _replica(number)},
            gpus={"GPU-0a1b2c3d": _gpu(number)},
        )
        for number in range(LINES)
        if number not in GAP
    ]


def _replica(number):
    loss = 2.5 * math.exp(-number / 20) + 0.3
    return ReplicaUsage(
        cpu=_around(3.0),
        memory=_around(2e9 + 4e7 * number),
        written=_around(2e7 if number % 10 == 0 else 0.0),
        processes=_around(9.0),
        step=(STEPS * number // LINES, STEPS * (number + 1) // LINES),
        total=STEPS_TOTAL,
        values={"loss": _around(loss), "accuracy": _around(1 - loss / 3)},
    )


def _gpu(number):
    return GpuUsage(use=_around(0.9), memory=_around(12e9), power=_around(280.0 + number % 7))


def _around(mean):
    return Spread(0.95 * mean, mean, 1.05 * mean)
