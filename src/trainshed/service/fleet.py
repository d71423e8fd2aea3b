"""What a judged job asks of the fleet, and whether the fleet can ever give it."""

import math
import threading
import time
from collections.abc import Callable, Iterable, Sequence

from trainshed.admission import ClusterRow
from trainshed.launch.devices import GPU_PREFIX
from trainshed.model.explanation import Reason
from trainshed.model.refusals import Code, Refusal
from trainshed.model.resources import Demand, GroupDemand, JobDemand, Node
from trainshed.placement.feasibility import Feasibility
from trainshed.placement.jobs import QuotaRule
from trainshed.store.opening import Store
from trainshed.wire.status import waiting

#: How old the picture of the fleet may be, in seconds.
SEEN_S_MAX = 1.0


def demand_of(cluster: Iterable[ClusterRow], region: str | None) -> JobDemand:
    """What must be free at once."""
    return JobDemand(region=region, groups=tuple(_group(row) for row in cluster))


def _group(row: ClusterRow) -> GroupDemand:
    kind = row.accelerator_type or ""
    is_gpu = kind.startswith(GPU_PREFIX)  # a TPU is a machine that only Google has
    each = Demand(
        vcpus=row.vcpus or 0,
        memory_gb=row.memory_gb or 0.0,
        gpu_type=kind if is_gpu else None,
        gpu_count=row.accelerator_count if is_gpu else 0,
    )
    return GroupDemand(role=row.role, count=row.count, each=each)


class SeenFleet:
    """What the fleet could hold if it were empty, as it was seen a moment ago.

    Thread-safe.  A submit does not read a thousand rows, and the planner remembers its answers.
    """

    def __init__(
        self, store: Store, quotas: Sequence[QuotaRule], clock: Callable[[], float] = time.monotonic
    ) -> None:
        """``clock`` counts seconds."""
        self._store = store
        self._quotas = quotas
        self._clock = clock
        self._lock = threading.Lock()
        self._nodes: Sequence[Node] = ()
        self._feasibility = Feasibility(())
        self._read_at = -math.inf

    def check(self, project: str, demand: JobDemand) -> None:
        """Refuse a job that could never run here.  A fleet that nobody saw yet refuses nothing.

        Raises Refusal: RESOURCE_EXHAUSTED for a quota, FAILED_PRECONDITION for the nodes.
        """
        with self._lock:
            self._look()
            found = self._feasibility.judge(project, demand) if self._nodes else None
        if found:
            is_quota = found.reason is Reason.QUOTA
            code = Code.RESOURCE_EXHAUSTED if is_quota else Code.FAILED_PRECONDITION
            raise Refusal(code, waiting(found).rstrip("."))

    def _look(self) -> None:
        if self._nodes and self._clock() - self._read_at < SEEN_S_MAX:
            return
        nodes = self._store.fleet()
        self._read_at = self._clock()
        if nodes != self._nodes:
            self._nodes, self._feasibility = nodes, Feasibility(nodes, self._quotas)
