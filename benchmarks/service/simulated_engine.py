"""An engine whose attempts have samples of their usage, as a supervisor writes them.

The argument ``measured=MINUTES`` of a job's container says of how many minutes until its start.
"""

import math
import time
from collections.abc import Iterator
from typing import Final

from trainshed.model.attempt import AttemptKey
from trainshed.model.launch_plan import LaunchPlan
from trainshed.model.resources import SeatsOrClaim
from trainshed.model.usage import GpuUsage, ReplicaUsage, Spread, UsageLine
from trainshed.testing.fake_engine import FakeEngine

STEPS_A_LINE: Final = 20
STEPS_TOTAL: Final = 5000
LINE_S: Final = 60.0
#: Lines that are not there: nothing was measured for ten minutes.
GAP: Final = range(20, 30)
#: Values that a replica reports besides its loss and accuracy, if its samples are of a day.
VALUES: Final = 19
_DAY_MINUTES: Final = 1440
_GPU: Final = "GPU-0a1b2c3d"


class SimulatedEngine(FakeEngine):
    """A fake engine that has samples of the attempts whose job asks for them."""

    def launch(self, key: AttemptKey, plan: LaunchPlan, place: SeatsOrClaim) -> None:
        """Start an attempt.  Raises ConnectionError."""
        super().launch(key, plan, place)
        words = plan.primary.argv if plan.replicas else ()
        if minutes := next((word[9:] for word in words if word.startswith("measured=")), ""):
            tasks = [replica.task_name for replica in plan.replicas]
            self.usage[key] = list(_measured_lines(tasks, int(minutes), time.time()))


def _measured_lines(tasks: list[str], minutes: int, end_s: float) -> Iterator[UsageLine]:
    """Yield the lines of the minutes before ``end_s``: values, CPU, memory, steps, and a GPU."""
    count = VALUES if minutes >= _DAY_MINUTES else 0
    for number in range(minutes):
        if number not in GAP:
            yield UsageLine(
                at=end_s - (minutes - 1 - number) * LINE_S,
                s=LINE_S,
                replicas={task: _replica(task, number, count) for task in tasks},
                gpus={_GPU: _gpu(number)},
            )


def _replica(task: str, number: int, count: int) -> ReplicaUsage:
    loss = 2.5 * math.exp(-number / 20) + 0.3
    values = {"loss": _around(loss), "accuracy": _around(1 - loss / 3)}
    more = {f"{task}/value-{n:02}": _around(n + math.sin(number / 9)) for n in range(count)}
    return ReplicaUsage(
        cpu=_around(3.0),
        memory=_around(2e9 + 4e7 * number),
        written=_around(2e7 if number % 10 == 0 else 0.0),
        processes=_around(9.0),
        step=(STEPS_A_LINE * number, STEPS_A_LINE * (number + 1)),
        total=STEPS_TOTAL,
        values=values | more,
    )


def _gpu(number: int) -> GpuUsage:
    return GpuUsage(use=_around(0.9), memory=_around(12e9), power=_around(280.0 + number % 7))


def _around(mean: float) -> Spread:
    return Spread(0.95 * mean, mean, 1.05 * mean)
