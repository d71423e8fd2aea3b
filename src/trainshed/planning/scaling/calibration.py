"""The measurements of one training on one kind of host: short runs, and fitted values.

``planning.scaling.calibration_file`` reads and writes the file of a calibration
(docs/sources/planner.md 9).
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Final

from trainshed.model.texts import count_noun
from trainshed.planning.scaling.cluster import Cluster, HostKind
from trainshed.planning.scaling.training import StepBatch, Training

#: The factor of a step of a job of which published jobs show only the size.
STEP_FACTOR: Final = 4.0
#: Steps are unsteady if their 90th percentile is over so many times the 10th.
UNSTEADY: Final = 5.0


class RunKind(StrEnum):
    """The short runs of docs/sources/planner.md 5."""

    COMPUTE = "A"
    INPUT = "B"
    HOST = "C"
    NO_EXCHANGE = "D"
    LINK = "E"
    TWO_HOSTS = "F"
    PUBLISHED = "published"
    """No run: a step that published jobs like this one suggest."""
    JOB = "job"
    """A whole job that ran later, whose steps are measurements as well."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """One short run.

    Raises ValueError if a host has no accelerator, or shared its machine with another.
    """

    kind: RunKind
    accelerators: int = 1
    hosts: int = 1
    machines: int = 0
    """Machines that the hosts ran on; 0 if that was not recorded."""
    batch_per_accelerator: float = 0.0
    """Samples of one accelerator in a step; 0: the batch of the training."""
    micro_batches: int = 1
    """Parts of that batch, as ``Training.micro_batches``."""
    steps: int = 0
    step_s: float = 0.0
    """Median seconds of a step; 0 for runs that time no step (B, E)."""
    step_s_p10: float = 0.0
    step_s_p90: float = 0.0
    samples_per_s: float = 0.0
    """Run B: samples/s of one host's input pipeline."""
    link_bytes: float = 0.0
    """Run E: goodput one way, bytes/s."""
    latency_s: float = 0.0
    """Run E: latency in seconds."""
    wait_share: float = 0.0
    """Share of a step spent waiting for input; of runs A, C, F and jobs."""
    memory_bytes: float = 0.0
    """The most memory of one accelerator in use, or of one process that trains on CPUs; 0 if
    unknown."""
    date: str = ""
    load: float = 0.0
    """Other load on the machine while it ran, in processors."""
    noisy: bool = False

    def cluster(self, host: HostKind) -> Cluster:
        """Return the cluster of the run, of hosts of a kind."""
        return Cluster(host=host, accelerators=self.accelerators, hosts=self.hosts)

    def samples_of(self, training: Training) -> float:
        """Return the samples of one accelerator in a step of a training."""
        return self.batch_per_accelerator or training.batch_per_accelerator

    def rate_of(self, training: Training) -> float:
        """Return the samples/s of all accelerators."""
        return self.accelerators * self.samples_of(training) / self.step_s

    @property
    def batch(self) -> StepBatch:
        """The batch of a step."""
        if not self.batch_per_accelerator:
            return StepBatch()
        return StepBatch(samples=self.batch_per_accelerator, micro_batches=self.micro_batches)

    def __post_init__(self) -> None:
        if self.micro_batches < 1:
            raise ValueError(f"micro_batches must be 1 or more, got {self.micro_batches}")
        if not 1 <= self.hosts <= self.accelerators:
            raise ValueError(
                f"each host must have an accelerator, got {self.accelerators} on {self.hosts} hosts"
            )
        if 0 < self.machines < self.hosts:
            raise ValueError(
                f"each host must run on a machine of its own, got {self.hosts} hosts on "
                f"{count_noun(self.machines, 'machine')}: their exchange used no network"
            )

    @property
    def is_unsteady(self) -> bool:
        """Whether its steps differ so much that their median says little about the next step."""
        is_timed = self.kind is not RunKind.PUBLISHED
        return is_timed and self.step_s_p90 > UNSTEADY * self.step_s_p10 > 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Fitted:
    """Fitted values of this training on these hosts; absent names have their defaults.

    Names: ``compute_s``, ``mu``, ``gamma``, ``sigma``, ``delta``, ``inside``, ``network``,
    ``sync`` (the last three are multipliers, 1 on the average), ``input_per_s``, ``alpha_s``.
    """

    values: Mapping[str, float] = field(default_factory=dict)
    residual: float = 0.0
    """The standard deviation of the logarithm of a step's time, over the runs."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Calibration:
    """One training on one kind of host.  Without runs it has the values of data sheets."""

    training: Training
    host: HostKind
    runs: tuple[Run, ...] = ()
    fitted: Fitted = field(default_factory=Fitted)
    trainer_digest: str = ""
    """SHA-256 of the trainer's files; the calibration is not used for another trainer."""
    date: str = ""

    @property
    def doubt(self) -> int:
        """How little its runs say: 0, 1 if one is noisy, 2 if the steps of one are unsteady."""
        if any(run.is_unsteady for run in self.runs):
            return 2
        return int(any(run.noisy for run in self.runs))

    @property
    def is_published(self) -> bool:
        """Whether no step of the training itself was timed."""
        return any(run.kind is RunKind.PUBLISHED for run in self.runs)

    @property
    def rate_factor(self) -> float:
        """How many times faster or slower the training may be: 1 if it was timed.

        Infinite if published jobs show only how it scales.
        """
        runs = self.of(RunKind.PUBLISHED)
        factor = max((run.step_s_p90 / run.step_s for run in runs), default=1.0)
        return factor if factor < STEP_FACTOR else math.inf

    def of(self, kind: RunKind) -> tuple[Run, ...]:
        """Return the runs of a kind."""
        return tuple(run for run in self.runs if run.kind is kind)
