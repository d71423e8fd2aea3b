"""Finds a launcher that could not begin its attempt, because it cannot write in the shared claim.

The wardens of the other containers go on dialing it, so the JobSet shows no failure for a long
time.  A launcher creates the claim of the attempt before anything else: if the server can create
it, the launcher has begun nothing, however late the records of the launcher may be.
"""

import re
from typing import Final

from trainshed.engines.cluster_end import EndByCluster
from trainshed.engines.kubernetes.state import reasons
from trainshed.engines.kubernetes.state.facts import (
    START_ERRORS,
    ContainerFacts,
    KubernetesFacts,
    PodFacts,
)
from trainshed.model.attempt import Loss

_LAUNCHER: Final = "launcher"
#: Errors that every later attempt meets until an administrator acts.
_LASTING: Final = re.compile(
    "Permission denied|Read-only file system|Operation not permitted|No such file or directory"
)


def find_failed_launcher(facts: KubernetesFacts) -> EndByCluster | None:
    """Return the end of an attempt whose launcher ended before it began; None: it may begin.

    A launcher of a pod that the cluster or a user ends has another cause of its end.
    The end holds only if the server can take the claim of the attempt.
    """
    if facts.has_begun or facts.claim is False or facts.order is not None:
        return None
    pods = (pod for pod in facts.pods if not pod.is_deleting and pod.disruption is None)
    ends = ((pod, c) for pod in pods for c in pod.containers if _has_failed(c))
    match = next(ends, None)
    return None if match is None else _describe_end(*match, facts)


def _has_failed(container: ContainerFacts) -> bool:
    is_launcher = container.name == _LAUNCHER and bool(container.ended)
    return is_launcher and container.ended not in START_ERRORS and bool(container.exit_code)


def _describe_end(pod: PodFacts, container: ContainerFacts, facts: KubernetesFacts) -> EndByCluster:
    lines = [line for line in container.message.splitlines() if line.strip()]
    why = reasons.quote(lines[-1]) if lines else container.ended
    fault = (
        f"the launcher of {facts.task_name(pod)} on the node {pod.node} could not begin the "
        f"attempt: {why} (exit code {container.exit_code}); check that pods can write files in the "
        "claim as the user of the server (`trainshed doctor --engine NAME`)"
    )
    if _LASTING.search(why):
        return EndByCluster(fault, never=True)
    return EndByCluster(fault, Loss.INFRA)
