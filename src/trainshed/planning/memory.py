"""Estimates the memory that a training needs on a cluster, and refuses clusters that lack it.

The measured peak of one process is its state (parameters, gradients, optimizer) and the rest, which
grows with the micro batch.  On CPUs the rest includes the programs' libraries, so it never shrinks.
"""

from dataclasses import dataclass
from typing import Final

from trainshed.planning.scaling.calibration import Calibration, Run
from trainshed.planning.scaling.cluster import Cluster
from trainshed.planning.scaling.fitting import timed
from trainshed.planning.scaling.prediction import NoPrediction
from trainshed.planning.scaling.training import StepBatch, Strategy, Training

_GIB: Final = 2.0**30
#: A share of the memory from which a training may lack it at times.
_TIGHT: Final = 0.9
#: Bytes of one parameter and its gradient: mixed precision keeps both in 32 bits as well.
_FULL_BYTES, _HALF_BYTES = 8.0, 4.0
#: The precisions that keep no copy in 32 bits.
_HALVES: Final = frozenset({"fp16", "bf16", "fp8"})
_ACCEPTED_FSDP: Final = (
    "more accelerators, machines with more memory, or a calibration with smaller micro batches"
)
_ACCEPTED: Final = (
    "machines with more memory, a calibration with smaller micro batches, or --strategy fsdp if "
    "the program divides the parameters among the accelerators"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class MemoryUse:
    """The memory of one accelerator, or of one host whose processors train."""

    needed: float
    """In bytes."""
    available: float
    """In bytes; 0 if unknown."""
    is_least: bool
    """Whether only the state of the training is known, and not what a batch needs."""

    @property
    def words(self) -> str:
        """The memory as a cell of a table, such as ``5.2 of 16 GiB``."""
        needed = f"{'over ' if self.is_least else ''}{_gib(self.needed)}"
        return f"{needed} of {_gib(self.available)} GiB" if self.available else f"{needed} GiB"

    @property
    def is_tight(self) -> bool:
        """Whether nearly all of the memory is needed."""
        return _TIGHT * self.available < self.needed <= self.available

    def refuse(self, strategy: Strategy) -> NoPrediction | None:
        """Return the reason why a training does not fit; None if it may fit."""
        if not self.available or self.needed <= self.available:
            return None
        return NoPrediction(
            field="memory",
            message=f"needs {self.words} and does not fit",
            accepted=_ACCEPTED_FSDP if strategy is Strategy.FSDP else _ACCEPTED,
        )


def memory_use(
    calibration: Calibration, cluster: Cluster, batch: StepBatch, available: float
) -> MemoryUse | None:
    """Estimate the memory of a cluster with ``available`` bytes; None if too little is known.

    ``available`` is the memory of one accelerator, or of one host whose processors train.
    """
    training = calibration.training
    on_cpus = cluster.host.trains_on_cpus
    peak = max(timed(calibration.runs), key=lambda run: run.memory_bytes, default=None)
    is_least = peak is None or not peak.memory_bytes
    needed = _state(training, cluster.accelerators)
    if peak is not None and peak.memory_bytes:
        needed += _rest(training, peak, batch, may_shrink=not on_cpus)
        needed += _buckets(training, peak, cluster)
    if not needed or (is_least and not available):
        return None
    processes = cluster.per_host if on_cpus else 1.0
    return MemoryUse(needed=needed * processes, available=available, is_least=is_least)


def _state(training: Training, accelerators: int) -> float:
    """Return the bytes of the state on one of so many accelerators."""
    size = _HALF_BYTES if training.precision in _HALVES else _FULL_BYTES
    state = training.state_bytes or training.parameters * size
    return state / accelerators if training.strategy is Strategy.FSDP else state


def _rest(training: Training, peak: Run, batch: StepBatch, *, may_shrink: bool) -> float:
    """Return what a process needs besides its state, with another batch."""
    measured = peak.samples_of(training) / peak.micro_batches
    samples = batch.samples or training.batch_per_accelerator
    ratio = samples / (batch.micro_batches or training.micro_batches) / measured
    rest = max(0.0, peak.memory_bytes - _state(training, peak.accelerators))
    return rest * (ratio if may_shrink else max(1.0, ratio))


def _buckets(training: Training, peak: Run, cluster: Cluster) -> float:
    """Return the buffers of an all-reduce, which a run of one accelerator does not have."""
    if peak.accelerators > 1 or cluster.accelerators == 1:
        return 0.0
    return training.gradient_bytes if training.strategy is Strategy.ALLREDUCE else 0.0


def _gib(value: float) -> str:
    gib = value / _GIB
    if gib < 1:
        return f"{gib:.2g}"
    return f"{gib:.0f}" if gib >= 10 else f"{gib:.1f}"  # noqa: PLR2004 - two digits
