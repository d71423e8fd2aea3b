"""Sentences about demands, quotas, nodes and times."""

from collections.abc import Sequence

from trainshed.model.resources import Demand, NodeState
from trainshed.model.roles import Role
from trainshed.placement.quota import ExceededQuota, QuotaClaim

WOULD_START = "would start now"
COULD_RUN = "could run"

#: How many blockers are named one by one; the rest is counted.
NAMED_MAX = 10

_CLOSED = {NodeState.DRAINED: "is drained", NodeState.MAINTENANCE: "is in maintenance"}

PLURAL = {
    Role.PRIMARY: "primaries",
    Role.WORKER: "workers",
    Role.PARAMETER_SERVER: "parameter servers",
    Role.REDUCER: "reducers",
    Role.EVALUATOR: "evaluators",
}


def at_most_ten(names: Sequence[str]) -> tuple[str, ...]:
    """Return the first ten names, then ``and N more`` if there are others."""
    more = len(names) - NAMED_MAX
    return (*names[:NAMED_MAX], *([f"and {more} more"] if more > 0 else []))


def of_each(replica: Demand) -> str:
    """Format a replica's demand: ``4 NVIDIA_TESLA_T4, 16 vCPUs and 60 GB of memory``."""
    parts = []
    if replica.gpu_count:
        parts.append(gpus(replica))
    if replica.vcpus:
        parts.append(f"{replica.vcpus} vCPUs")
    if replica.memory_gb:
        parts.append(f"{replica.memory_gb:g} GB of memory")
    if not parts:
        return "a free slot"
    *first, last = parts
    return f"{', '.join(first)} and {last}" if first else last


def gpus(replica: Demand) -> str:
    """Format a replica's GPUs: ``4 NVIDIA_TESLA_T4``."""
    return f"{replica.gpu_count} {replica.gpu_type or 'GPUs'}"


def exceeded(quota: ExceededQuota) -> str:
    """Say by how much a job exceeds a quota that other jobs use."""
    claim, bucket = quota.claim, quota.claim.bucket
    return (
        f"needs {claim.amount} {bucket.accelerator}; {quota.in_use} of {claim.limit} of project "
        f"{bucket.project}'s quota{within(bucket.region)} are in use"
    )


def too_large(claim: QuotaClaim) -> str:
    """Say which quota the job exceeds by itself."""
    return (
        f"needs {claim.amount} {claim.bucket.accelerator}; project {claim.bucket.project}'s quota"
        f"{within(claim.bucket.region)} is {claim.limit}"
    )


def within(region: str | None) -> str:
    """Return `` in us-central1``, or an empty text without a region."""
    return f" in {region}" if region else ""


def drained(nodes: Sequence[tuple[str, NodeState]]) -> str:
    """Say that only nodes that take no new replicas could hold a job, and name them."""
    names = [f"{name} {_CLOSED[state]}" for name, state in nodes]
    return f"only nodes that take no new replicas could hold it: {', '.join(at_most_ten(names))}"
