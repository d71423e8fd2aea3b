"""The request for a plan, as a user types it: each field is one flag of ``trainshed plan``.

The command makes its flags from these fields (``flags.add_fields``), and the planner reads the
request itself, so a new flag is one field here.  ``--help`` imports this module: it imports
nothing of the planner.
"""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from typing import Any, Final

from trainshed.model.durations import FORM, seconds_of
from trainshed.model.typed_numbers import above_zero, parameter_count, whole_number

#: The value of ``--network-gbps`` for Google's own machines.
CATALOG: Final = "catalog"
#: What ``--what-if`` varies.
COUNTS: Final = ("gpus", "hosts", "gpus-per-host", "model-parallel")
#: The precisions that the planner's tables distinguish.
PRECISIONS: Final = ("fp32", "tf32", "amp", "amp_fp16", "amp_bf16", "fp16", "bf16", "fp8")
TARGETS: Final = ("samples", "epochs", "steps")


class BatchRule(StrEnum):
    """The batch that stays the same when the number of accelerators changes."""

    KEEP_LOCAL = "keep-local"
    KEEP_GLOBAL = "keep-global"


def flag(words: str, text: str, default: Any = None, **settings: Any) -> Any:
    """Return a field that is the flag ``words``, such as ``--budget AMOUNT``, with its help.

    ``read`` converts the text, ``section`` begins a group of flags, and the other settings are
    those of argparse.  Words without dashes are a positional argument.
    """
    return field(default=default, metadata={"words": words, "text": text, **settings})


def _counts(text: str) -> tuple[str, tuple[int, ...]]:
    name, _, numbers = text.partition("=")
    if name not in COUNTS or not numbers:
        raise ValueError(f"must be like gpus=1,2,4, hosts=1,2,4 or gpus-per-host=4,8, got {text!r}")
    return name, tuple(whole_number(1)(number) for number in numbers.split(","))


def _names(text: str) -> tuple[str, ...]:
    names = tuple(dict.fromkeys(filter(None, (name.strip() for name in text.split(",")))))
    if not names:
        raise ValueError(f"must be machine types, separated by commas, got {text!r}")
    return names


def _reducers(text: str) -> int | None:
    return None if text == "auto" else whole_number(0)(text)


def _network(text: str) -> float | str:
    return CATALOG if text == CATALOG else above_zero(text)


def _target(text: str) -> tuple[str, float]:
    name, _, value = text.partition("=")
    if name not in TARGETS or not value:
        raise ValueError(f"must be samples=N, epochs=N or steps=N, got {text!r}")
    return name, above_zero(value)


def _finished(text: str) -> tuple[float, float]:
    batch, _, samples = text.partition("=")
    if not batch or not samples:
        raise ValueError(f"must be BATCH=SAMPLES, such as 1024=5e7, got {text!r}")
    return above_zero(batch), above_zero(samples)


def _time(text: str) -> float:
    try:
        seconds = seconds_of(text)
    except ValueError:
        seconds = 0.0
    if seconds <= 0:
        raise ValueError(f"must be {FORM}, above 0, got {text!r}")
    return seconds


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanRequest:
    """The arguments of a plan; times are in seconds."""

    file: str | None = flag("FILE", "Job file, either dialect")
    calibrations: Sequence[Path] = flag(
        "--calibration FILE",
        "File that trainshed plan calibrate wrote; repeatable, one for each machine type",
        (),
        read=Path,
        action="append",
    )
    trainer: Path | None = flag(
        "--trainer PATH",
        "The trainer's script or package; calibrations of another trainer are refused",
        read=Path,
    )
    measured: Path | None = flag(
        "--measured TABLE",
        "Your own measurements: a TOML file with [[series]] of points with accelerators, "
        "hosts and samples/s",
        read=Path,
    )
    series: str | None = flag("--series ID", "Id of the series in TABLE, if it has several")

    parameters: float = flag(
        "--params N",
        "Parameters of the model, such as 25.6M or 1.3B, to plan from published jobs like it",
        0.0,
        section="a training that was not measured",
        read=parameter_count,
    )
    model: str | None = flag(
        "--model NAME", "Model of a known family, such as resnet50, bert-large or gpt-1.3b"
    )
    precision: str = flag(
        "--precision",
        "Precision of its training; default: fp32",
        "fp32",
        choices=PRECISIONS,
    )
    strategy: str = flag(
        "--strategy",
        "How it exchanges gradients; default: allreduce",
        "allreduce",
        choices=("allreduce", "allreduce-cpu", "fsdp", "ps-distributed", "ps-naive"),
    )

    what_if: Sequence[tuple[str, tuple[int, ...]]] = flag(
        "--what-if gpus=N,... | hosts=N,... | gpus-per-host=N,...",
        "Numbers to plan for; gpus fills a host first; default: 1, 2, 4 ... up to twice the job's",
        (),
        section="other clusters",
        read=_counts,
        action="append",
    )
    machine_types: Sequence[str] = flag(
        "--machine-types TYPE,TYPE,...", "Other machine types to plan for", (), read=_names
    )
    reducers: int | None = flag(
        "--reducers auto|N",
        "Number of reducers; default: auto, the numbers that change the throughput",
        read=_reducers,
    )
    servers: int | None = flag(
        "--parameter-servers N",
        "Number of parameter servers; default: as in the file",
        read=whole_number(0),
    )
    network_gbps: float | str = flag(
        "--network-gbps GBPS|catalog",
        "Nominal rate of the network of one host, in Gbit/s; catalog: the machines are Google's, "
        "with the network of their machine type; default: as the calibration has it",
        0.0,
        read=_network,
    )
    stream_gbps: float = flag(
        "--stream-gbps GBPS",
        "Rate of one TCP stream between two hosts, in Gbit/s, as iperf3 -c HOST prints it; "
        "default: as the calibration has it",
        0.0,
        read=above_zero,
    )
    batch: BatchRule = flag(
        "--batch",
        "Keep the batch of each accelerator (default), or the batch of the whole job",
        BatchRule.KEEP_LOCAL,
        choices=tuple(BatchRule),
    )
    largest_batch: float = flag(
        "--largest-batch N",
        "Most samples of a step that fit into the memory of an accelerator",
        math.inf,
        read=above_zero,
    )
    model_parallel: int = flag(
        "--model-parallel N",
        "Accelerators that share one copy of the model, as measured; default: 1",
        1,
        read=whole_number(1),
    )

    target: tuple[str, float] | None = flag(
        "--target samples=N | epochs=N | steps=N",
        "Length of the training; default: the time of 1,000 steps is printed",
        section="how long the job trains",
        read=_target,
    )
    epoch_samples: float = flag(
        "--epoch-samples N", "Samples in an epoch, for --target epochs=N", 0.0, read=above_zero
    )
    critical_batch: float = flag(
        "--critical-batch B",
        "Batch of the whole job at which the same quality needs twice the samples",
        0.0,
        read=above_zero,
    )
    finished: Sequence[tuple[float, float]] = flag(
        "--finished BATCH=SAMPLES",
        "Batch and samples of a finished run of the whole job; two or more runs to the same "
        "quality determine the critical batch",
        (),
        read=_finished,
        action="append",
    )
    deadline: float = flag(
        "--deadline TIME",
        "Longest time that the job may take, such as 6h or 1h30m",
        math.inf,
        read=_time,
    )

    budget: float = flag(
        "--budget AMOUNT", "Highest cost of the job", math.inf, section="cost", read=above_zero
    )
    region: str | None = flag("--region REGION", "Region for prices")
    prices: Path | None = flag(
        "--prices FILE",
        "Your own prices: a TOML file with currency, date, and a [[machine]] with name and "
        "per_hour, or with watts, per_kwh, bought_for, years and use",
        read=Path,
    )
    spot: float | None = flag(
        "--spot RATE",
        "Use spot prices; RATE: interruptions of a machine per hour, such as 0.05",
        read=above_zero,
    )
    checkpoint_every: float = flag(
        "--checkpoint-every TIME",
        "Time between checkpoints, for --spot: an interruption loses half of it",
        0.0,
        read=_time,
    )
    restart: float = flag(
        "--restart TIME",
        "Time from an interruption to the next step; default: 5m",
        300.0,
        read=_time,
    )
    worth: float = flag(
        "--worth SHARE",
        "Gain in throughput that doubling the price must bring; default: 0.5",
        0.5,
        read=above_zero,
    )

    def counts(self, name: str) -> tuple[int, ...]:
        """Return the numbers that ``--what-if`` gives for one of ``COUNTS``."""
        return tuple(number for key, numbers in self.what_if if key == name for number in numbers)

    @property
    def is_unmeasured(self) -> bool:
        """Whether the plan is from published jobs."""
        return bool(self.parameters or self.model)

    @property
    def has_limits(self) -> bool:
        """Whether there is a deadline or a budget."""
        return min(self.deadline, self.budget) < math.inf

    def faults(self) -> Iterator[str]:
        """Yield a sentence for each flag that needs or contradicts another."""
        rates = f"{self.network_gbps}, got {self.stream_gbps:g}"
        for is_fault, sentence in (
            (
                not (self.file or self.calibrations or self.measured or self.is_unmeasured),
                "there is nothing to plan: give a FILE, --calibration FILE or --measured TABLE",
            ),
            (
                isinstance(self.network_gbps, float) and 0 < self.network_gbps < self.stream_gbps,
                f"--stream-gbps must be at most --network-gbps, {rates}",
            ),
            (self.series and not self.measured, "--series needs --measured TABLE"),
            (
                self.is_unmeasured and (self.calibrations or self.measured),
                "--params and --model are for plans without --calibration and --measured",
            ),
            (
                self.is_unmeasured and not (self.file or self.machine_types),
                "--params and --model need machines: give FILE, or --machine-types a2-highgpu-8g",
            ),
            (
                self.parameters and self.model,
                "--params does not go with --model; give one of them",
            ),
            (
                self.target and self.target[0] == "epochs" and not self.epoch_samples,
                "--target epochs=N needs --epoch-samples N, the samples of one epoch",
            ),
            (
                self.finished and self.critical_batch,
                "--critical-batch does not go with --finished; give one of them",
            ),
            (
                len(self.finished) == 1,
                "--finished must be given for two or more runs, got one",
            ),
            (
                self.spot and not self.checkpoint_every,
                "--spot needs --checkpoint-every TIME, the time between the job's checkpoints",
            ),
            (self.checkpoint_every and not self.spot, "--checkpoint-every needs --spot RATE"),
        ):
            if is_fault:
                yield sentence
