"""Checks whether a host's input pipeline can feed its accelerators.

A pipeline delivers a number of samples/s (R_in) for any number of accelerators: only more hosts
raise it.
"""

from dataclasses import dataclass
from typing import Final

from trainshed.planning.scaling.calibration import Run
from trainshed.planning.scaling.training import Training

#: Input that takes this share of a step is the bottleneck.
FULL: Final = 0.9
#: The share by which steps are slower if input costs a tenth of the throughput.
SLOWER: Final = 1 / FULL - 1
#: From this share of a step spent waiting, the loader is the bottleneck.
WAITS: Final = 0.1


@dataclass(frozen=True, slots=True, kw_only=True)
class InputBound:
    """A job that waits for its input, and the evidence."""

    evidence: str
    help: str = "more loader workers, data cached on the host, or more hosts"


def find_input_bound(
    step_s: float, *, cached_step_s: float = 0.0, input_s: float = 0.0, wait_share: float = 0.0
) -> InputBound | None:
    """Detect whether steps with real data wait for input; pass 0 for a value without measurement.

    ``cached_step_s`` is the time of a step with a batch in memory; ``input_s`` is the time that the
    input pipeline alone needs for the samples of a step; ``wait_share`` is the share of a step that
    the trainer waits for its loader.
    """
    if cached_step_s and step_s > cached_step_s * (1 + SLOWER):
        slower = 100 * (step_s / cached_step_s - 1)
        return InputBound(evidence=f"steps with real data take {slower:.0f} % longer than without")
    if wait_share >= WAITS:
        return InputBound(
            evidence=f"steps wait for their input in {100 * wait_share:.0f} % of time"
        )
    if input_s >= FULL * step_s:
        share = 100 * input_s / step_s
        return InputBound(evidence=f"the input pipeline alone takes {share:.0f} % of a step's time")
    return None


def of_run(run: Run, input_per_s: float, training: Training) -> InputBound | None:
    """Detect whether a calibration's run waited for input; ``input_per_s`` is 0 if unknown."""
    per_host = run.samples_of(training) * run.accelerators / run.hosts
    input_s = per_host / input_per_s if input_per_s else 0.0
    return find_input_bound(run.step_s, input_s=input_s, wait_share=run.wait_share)
