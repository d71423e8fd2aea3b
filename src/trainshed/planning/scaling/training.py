"""A training: the part of a job that decides how it scales, independent of machines."""

import math
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

#: Bytes on the wire by precision; others have 16 bits.  Stacks with amp send 2 or 4 bytes.
_WIDTHS: Final = {"": 4.0, "fp32": 4.0, "tf32": 4.0, "amp": 3.9}
_HALF: Final = 2.0


class Strategy(StrEnum):
    """The way in which gradients or variables are exchanged (docs/sources/planner.md 3)."""

    ALLREDUCE = "allreduce"
    """Rings or trees among the accelerators; NCCL, Horovod, DDP, Mirrored, MultiWorkerMirrored."""
    ALLREDUCE_CPU = "allreduce-cpu"
    """All-reduce that sums in host memory."""
    FSDP = "fsdp"
    """All-reduce with sharded parameters; ZeRO 3."""
    PS_CPU = "ps-cpu"
    """One host; variables in its memory."""
    PS_GPU = "ps-gpu"
    """One host; variables on one of its accelerators."""
    PS_DISTRIBUTED = "ps-distributed"
    """Parameter servers with one local copy a host."""
    PS_NAIVE = "ps-naive"
    """Parameter servers; every accelerator pulls every variable."""
    REDUCERS = "reducers"
    """All-reduce between hosts through reducers."""
    PODS = "dp-over-pods"
    """Data parallel over a slow network between pods."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StepBatch:
    """The batch of one accelerator in one step; 0 stands for the value of the training."""

    samples: float = 0.0
    """Accumulation included."""
    micro_batches: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Training:
    """A model, its batch and its software stack.  Raises ValueError for impossible values."""

    model: str = ""
    parameters: float = 0.0
    """Count of trained parameters; 0 if unknown."""
    largest: float = 0.0
    """Count of parameters of the largest variable; 0 if unknown."""
    gradient_bytes: float = 0.0
    """Bytes that a step exchanges for each replica (M); 0 if replicas exchange nothing."""
    batch_per_accelerator: float = 1.0
    """Samples of one accelerator in one step, accumulation included (m)."""
    micro_batches: int = 1
    """Parts of an accelerator's batch (gradient accumulation): it computes one after the other, and
    gradients are exchanged once a step."""
    state_bytes: float = 0.0
    """Bytes of parameters, gradients and the optimizer's state of one replica; 0 if unknown."""
    precision: str = "fp32"
    strategy: Strategy = Strategy.ALLREDUCE
    stack: str = ""
    """Framework and version, such as ``torch 2.13.0``; empty where unknown."""
    data: str = "real"
    """``real`` if an input pipeline delivers the data, else ``synthetic``."""
    asynchronous: bool = False
    """Whether workers do not wait for each other (parameter servers only)."""

    def __post_init__(self) -> None:
        if self.batch_per_accelerator <= 0:
            raise ValueError(
                f"a step must have more than 0 samples, got {self.batch_per_accelerator}"
            )
        if self.micro_batches < 1:
            raise ValueError(f"a step must have a micro batch, got {self.micro_batches}")
        if self.asynchronous and self.strategy not in {Strategy.PS_DISTRIBUTED, Strategy.PS_NAIVE}:
            raise ValueError(f"workers of strategy {self.strategy} wait for each other")
        if min(self.parameters, self.largest, self.gradient_bytes, self.state_bytes) < 0:
            raise ValueError(f"sizes of a model must be 0 or more, got {self}")


def gradient_width(precision: str, strategy: Strategy) -> float:
    """Return the bytes of one parameter's gradient on the wire."""
    return _HALF if strategy is Strategy.FSDP else _WIDTHS.get(precision, _HALF)


def divide_batch(training: Training, samples: float, most: float = math.inf) -> StepBatch:
    """Return a batch of about so many samples, in micro batches not larger than the training's.

    ``most`` is another limit of a micro batch, by memory.
    Fewer samples need fewer micro batches, and only then smaller ones.  A micro batch has a whole
    number of samples, at least 1, if the training's has.
    """
    measured = training.batch_per_accelerator / training.micro_batches
    count = max(1, math.ceil(samples / min(measured, most) - 1e-9))
    micro = samples / count
    if measured % 1 == 0:
        micro = max(1.0, math.floor(micro + 0.5))
    return StepBatch(samples=micro * count, micro_batches=count)
