"""Judges whether a job can ever run on the cluster, by the settings and the GPUs of the nodes.

A lack of nodes is no reason: the nodes may be in use, and many clusters add nodes by themselves.
"""

from collections.abc import Collection, Mapping
from typing import Final

from trainshed.engines.base import JobNeeds
from trainshed.engines.kubernetes.gpus import GpuRow, choose_row
from trainshed.engines.kubernetes.options import KubernetesOptions, choose_scheduling
from trainshed.engines.kubernetes.start_check import explain_queues
from trainshed.model.explanation import Change, Explanation, Reason
from trainshed.model.faults import EngineFault, UsageFault
from trainshed.model.resources import GroupDemand
from trainshed.model.roles import Role

_REDUCERS: Final = (
    "the engine cannot run reducers: workers and reducers exchange a secret in a folder, and pods "
    "share no folder; remove the worker pool of the reducers, or choose another engine with the "
    "label trainshed-engine"
)


def explain_refusal(
    needs: JobNeeds,
    rows: Mapping[str, GpuRow],
    options: KubernetesOptions,
    *,
    namespace: str,
    missing_queues: Collection[str] = (),
) -> Explanation | None:
    """Explain why the cluster can never run a job; None: the cluster can, or may be able to.

    ``rows`` are the rows of GPUs of the settings and of the cluster's nodes; ``missing_queues`` are
    the LocalQueues of the settings that the namespace does not have.
    """
    try:
        queue = choose_scheduling(needs.wants, needs.project, options).queue
    except UsageFault as fault:
        return Explanation(reason=Reason.NO_SUCH_NODE, message=str(fault))
    if any(group.role is Role.REDUCER for group in needs.demand.groups):
        return Explanation(reason=Reason.NO_SUCH_NODE, message=_REDUCERS)
    if queue in missing_queues:
        text = explain_queues([queue], namespace)
        return Explanation(reason=Reason.NO_SUCH_NODE, message=text)
    explanations = (_explain_group(group, rows) for group in needs.demand.groups)
    return next((explanation for explanation in explanations if explanation), None)


def _explain_group(group: GroupDemand, rows: Mapping[str, GpuRow]) -> Explanation | None:
    """Explain why no pod can have the GPUs of a group."""
    demand, role = group.each, group.role.value
    if not demand.gpu_count:
        return None
    try:
        choose_row(demand.gpu_type, rows)
    except EngineFault as fault:
        accepted = ", ".join(sorted(rows))
        change = Change(
            field="accelerator_type",
            role=role,
            asked=str(demand.gpu_type),
            accepted=accepted,
            text=f"would be accepted with {accepted} instead of {demand.gpu_type}",
        )
        return Explanation(reason=Reason.NO_SUCH_NODE, message=f"{role}: {fault}", change=change)
    return None
