"""The GPUs of nodes: those in the store, with readings of the answering server's machine.

Readings are not stored: those of other servers' nodes are absent.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from trainshed.engines.capabilities import GpuNow
from trainshed.model.gpus import GpuSample, GpuState, NodeGpu
from trainshed.model.resources import FleetPolicy
from trainshed.store.records.jobs import Holding
from trainshed.store.records.nodes import NodeRow
from trainshed.wire.native_v1 import Answer, answer_of
from trainshed.wire.times import rfc3339

#: Reads the GPUs of an engine's own machine.
GpusNow = Callable[[], Sequence[GpuNow]]
_DIGITS: Final = 4


@dataclass(frozen=True, slots=True, kw_only=True)
class GpuReading(Answer):
    """The values that a GPU reported at one time; values that it does not measure are absent."""

    at: str | None
    used_bytes: int | None = None
    use: float | None = None
    """The share of the last sampling period in which at least one kernel ran, 0 to 1."""
    use_minute: float | None = None
    """The mean of ``use`` over the last minute."""
    power_w: float | None = None
    energy_joules: float | None = None
    """The energy that it has used since the driver was loaded."""
    is_energy_summed: bool | None = None
    """True if the driver has no counter of energy: then it is the sum of the power since the start
    of the server."""
    temperature_c: int | None = None
    ecc_errors: int | None = None
    """Uncorrectable errors of its memory since the driver was loaded."""
    throttled: Sequence[str] | None = None
    """The reasons for which its clocks are lowered; empty if they are not."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GpuSummary(Answer):
    """A GPU of a node, or an instance of one that is divided (MIG)."""

    index: int
    uuid: str
    name: str
    type: str
    memory_bytes: int | None = None
    pci_bus_id: str | None = None
    state: GpuState
    """HELD: a job uses it; reported only for the machine of the answering server."""
    who: str | None = None
    """The process that uses a FOREIGN GPU, which the server did not start."""
    job: str | None = None
    """The job that uses it; absent if the caller may not see the job."""
    job_name: str | None = None
    """The display name of that job."""
    user: str | None = None
    """The creator of that job; absent for calls without a token."""
    problem: str | None = None
    """Why the server places no replica on a FAULTY GPU, and what to do."""
    idle_s: float | None = None
    """For how many seconds the job that uses it has run nothing on it, without a break; an outage
    of the server of more than 30 s is one.  Absent if no job uses it, or its use is not
    measured."""
    recent_use: Sequence[float | None] | None = None
    """The mean of ``use`` over each ten seconds of the last ten minutes, the oldest first."""
    reading: GpuReading | None = None
    """The present values; only for GPUs of the machine of the answering server."""


def shown(
    gpus: Iterable[NodeGpu], now: Mapping[str, GpuNow], holding: Iterable[Holding]
) -> list[GpuSummary]:
    """Return GPUs for the API; ``holding`` are the attempts that the caller may see."""
    jobs = {int(held.uid): held for held in holding}
    return [_summarize(gpu, now.get(gpu.uuid), jobs) for gpu in gpus]


def by_uuid(gpus_now: GpusNow | None) -> dict[str, GpuNow]:
    """Return the readings of the server's machine by UUID; empty if the engine reads no GPUs."""
    return {} if gpus_now is None else {status.gpu.uuid: status for status in gpus_now()}


def count_held(holding: Iterable[Holding]) -> Mapping[tuple[str, str], int]:
    """Return the number of GPUs that jobs hold, by engine ("": the only one) and node."""
    counts: Counter[tuple[str, str]] = Counter()
    for held in holding:
        gpus_by_role = {group.role: group.each.gpu_count for group in held.demand.groups}
        for seat in held.seats:
            counts[seat.engine, seat.node] += gpus_by_role.get(seat.role, 0)
    return counts


def count_free(row: NodeRow, held: Mapping[tuple[str, str], int]) -> int:
    """Return how many GPUs of a node neither jobs nor other programs hold."""
    node = row.node
    emulates = node.policy is FleetPolicy.EMULATE
    jobs_hold = (
        0 if emulates else held.get((row.engine, node.name), 0) + held.get(("", node.name), 0)
    )
    return max(0, sum(node.gpus.values()) - sum(node.gpus_held.values()) - jobs_hold)


def _summarize(gpu: NodeGpu, now: GpuNow | None, jobs: Mapping[int, Holding]) -> GpuSummary:
    gpu = now.gpu if now else gpu
    attempt = now.attempt if now else None
    held = jobs.get(attempt.uid) if attempt else None
    return answer_of(
        GpuSummary,
        gpu,
        pci_bus_id=gpu.pci_bus_id or None,
        who=gpu.who or None,
        job=held.name if held else None,
        job_name=held.display_name or None if held else None,
        user=held.creator or None if held else None,
        problem=gpu.problem or None,
        idle_s=None if now is None else _round(now.idle_s),
        recent_use=[_round(figures.use) for _, figures in now.recent]
        if now and now.recent
        else None,
        reading=_read(now.reading) if now and now.reading else None,
    )


def _read(sample: GpuSample) -> GpuReading:
    return answer_of(
        GpuReading,
        sample,
        at=rfc3339(sample.at.replace(microsecond=sample.at.microsecond // 1000 * 1000)),
        use=_round(sample.use),
        use_minute=_round(sample.use_minute),
        power_w=_round(sample.power_w),
        energy_joules=_round(sample.energy_j),
        is_energy_summed=sample.is_energy_summed or None,
    )


def _round(value: float | None) -> float | None:
    return None if value is None else round(value, _DIGITS)
