"""Why replicas do not start: the image, the manifest, a volume, or no node for them.

The JobSet and its Jobs say nothing about most of these troubles.  The pods' container states and
conditions do, and events name objects that were refused or could not be mounted.
"""

import re
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from typing import Final, NamedTuple

from trainshed.engines.kubernetes.state import reasons
from trainshed.engines.kubernetes.state.facts import (
    OWN_CONTROLLER,
    START_ERRORS,
    ContainerFacts,
    EventFacts,
    KubernetesFacts,
    PodFacts,
)
from trainshed.engines.kubernetes.state.refusals import judge_refusal
from trainshed.model.explanation import Explanation, Reason


class Obstacle(NamedTuple):
    """One reason why replicas do not start."""

    explanation: Explanation
    heals: bool = True
    """False: the attempt can never start, so it fails at once."""
    is_bad_request: bool = False
    """Whether another attempt would meet the same obstacle, unless an object is created for it."""


def find_obstacle(facts: KubernetesFacts) -> Obstacle | None:
    """Return why replicas do not start; None: no reason is known, or all have started.

    An obstacle that cannot heal is returned before others.
    """
    if facts.is_ready or facts.jobset is None:
        return None
    obstacles = [obstacle for find in _FINDERS if (obstacle := find(facts)) is not None]
    final = (obstacle for obstacle in obstacles if not obstacle.heals)
    return next(final, next(iter(obstacles), None))


def have_all_started(facts: KubernetesFacts) -> bool:
    """Return whether every replica has a pod whose containers have started."""
    return bool(facts.jobset) and not count_missing(facts)


def count_missing(facts: KubernetesFacts) -> dict[str, tuple[int, int]]:
    """Return the number of replicas that have not started, and of all replicas, by role."""
    replicas = facts.jobset.replicas if facts.jobset else {}
    started = Counter(pod.role for pod in facts.pods if pod.has_started)
    return {
        role: (total - started[role], total)
        for role, total in replicas.items()
        if started[role] < total
    }


def describe_late(facts: KubernetesFacts, obstacle: Obstacle | None) -> str:
    """Describe the replicas that have not started in time, and why."""
    why = obstacle.explanation.message if obstacle else _describe_waiting(facts)
    who = reasons.count_replicas(count_missing(facts))
    return f"{who} did not start within {facts.start_timeout_s:g} s: {why}"


def _describe_waiting(facts: KubernetesFacts) -> str:
    """Describe what pods without a known trouble wait for."""
    waiting = [pod for pod in facts.pods if not pod.has_started]
    if not waiting:
        return "the cluster has not created their pods"
    pod = waiting[0]
    last = next((e for e in reversed(facts.events) if e.name == pod.name), None)
    where = f"on the node {pod.node}" if pod.node else "without a node"
    state = f"the pod {pod.name} waits {where}"
    return f"{state} (last event: {last.reason}: {reasons.quote(last.message)})" if last else state


def _find_other_controller(facts: KubernetesFacts) -> Obstacle | None:
    """Refuse a JobSet that another cluster runs: its pods cannot reach the shared claim."""
    owner = facts.jobset.managed_by if facts.jobset else ""
    if owner in {"", OWN_CONTROLLER}:
        return None
    text = (
        f"the JobSet {facts.name} is for the controller {owner}, and Trainshed runs attempts only "
        f"in the cluster of its own claim; choose a queue without MultiKueue"
    )
    return _make(Reason.NO_SUCH_NODE, text, heals=False)


def _find_refusal(facts: KubernetesFacts) -> Obstacle | None:
    """Return the last refusal of an object that is still missing."""
    roles = _list_roles_without_pods(facts)
    event = next((e for e in reversed(facts.events) if _refuses(e, facts, roles)), None)
    if event is None:
        return None
    refusal = judge_refusal(event.message)
    counts = {role: count for role, count in roles.items() if _is_of_role(event, facts, role)}
    text = f"the cluster creates no pods for {reasons.count_replicas(counts)}: {refusal.text}"
    return _make(Reason.NOT_STARTING, text, heals=refusal.heals)


_REFUSALS: Final = frozenset({"FailedCreate", "JobCreationFailed"})


def _refuses(event: EventFacts, facts: KubernetesFacts, roles: Iterable[str]) -> bool:
    is_refusal = event.reason in _REFUSALS
    return is_refusal and any(_is_of_role(event, facts, role) for role in roles)


def _is_of_role(event: EventFacts, facts: KubernetesFacts, role: str) -> bool:
    """Return whether an event is about the Job of a role; an event of a JobSet names the Job."""
    job = f"{facts.name}-{role}-0"
    return event.name == job or (event.kind == "JobSet" and f'"{job}"' in event.message)


def _list_roles_without_pods(facts: KubernetesFacts) -> dict[str, tuple[int, int]]:
    replicas = facts.jobset.replicas if facts.jobset else {}
    pods = Counter(pod.role for pod in facts.pods)
    return {
        role: (total - pods[role], total) for role, total in replicas.items() if pods[role] < total
    }


def _find_start_error(facts: KubernetesFacts) -> Obstacle | None:
    pods = _pods_with(facts, lambda container: container.ended in START_ERRORS)
    if not pods:
        return None
    pod, container = pods[0]
    names, why = _name(pods, facts), reasons.describe_start(container.message)
    text = f"{names} cannot start on the node {pod.node}: {why}"
    return _make(Reason.NOT_STARTING, text, heals=False)


def _find_bad_image_name(facts: KubernetesFacts) -> Obstacle | None:
    pods = _pods_with(facts, lambda container: container.waiting == _BAD_IMAGE_NAME)
    if not pods:
        return None
    image, message = pods[0][1].image, pods[0][1].message
    why = reasons.quote(message) or "the node gives no reason"
    text = (
        f"{_name(pods, facts)} cannot start: {image} is no name of an image; correct the image "
        f"of the job ({why})"
    )
    return _make(Reason.IMAGE, text, heals=False)


def find_image_trouble(facts: KubernetesFacts) -> Obstacle | None:
    """Return the image that a node cannot pull, as long as the node tries again."""
    pods = _pods_with(facts, lambda container: container.waiting in _IMAGE_TROUBLE)
    if not pods:
        return None
    pod, container = pods[0]
    advice = _describe_pull_secrets(facts) or (
        "check the name of the image, the registry, and the pull secret of the [[engine]] table"
    )
    text = (
        f"the node {pod.node} cannot pull the image {container.image} of {_name(pods, facts)}: "
        f"{reasons.describe_pull(container.message)}; {advice}"
    )
    return _make(Reason.IMAGE, text)


def _describe_pull_secrets(facts: KubernetesFacts) -> str:
    """Name the pull secrets that a kubelet did not get; empty: no event says so."""
    events = (e for e in reversed(facts.events) if e.reason == _PULLS_WITHOUT)
    names = (_SECRET_NAMES.search(event.message) for event in events)
    match = next((match for match in names if match), None)
    if match is None:
        return ""
    return (
        f"the namespace of the jobs has no image pull secret {match[1]}: create it, or correct "
        "`image_pull_secrets` in the [[engine]] table"
    )


def _find_config_trouble(facts: KubernetesFacts) -> Obstacle | None:
    """Return the object that the kubelet needs for a container, and that it does not get."""
    pods = _pods_with(facts, lambda container: container.waiting in _CONFIG_TROUBLE)
    if not pods:
        return None
    why = reasons.quote(pods[0][1].message) or pods[0][1].waiting
    if _SUB_PATH in why:
        text = (
            f"{_name(pods, facts)} cannot start: {why}; let the kubelets, which are root on their "
            "nodes, enter the folders of the shared claim (mode 0711 or wider)"
        )
        return _make(Reason.VOLUME, text, is_bad_request=True)
    text = (
        f"{_name(pods, facts)} cannot start: {why}; create it in the namespace of the jobs, or "
        "correct the [[engine]] table"
    )
    return _make(Reason.NOT_STARTING, text, is_bad_request=True)


def _find_volume_trouble(facts: KubernetesFacts) -> Obstacle | None:
    pod, event = _last_event(facts, _VOLUME_EVENTS)
    if pod is None or event is None:
        return None
    text = (
        f"the node {pod.node} cannot mount a volume of {facts.task_name(pod)}: "
        f"{reasons.quote(event.message)}"
    )
    return _make(Reason.VOLUME, text)


def _find_unscheduled(facts: KubernetesFacts) -> Obstacle | None:
    pods = [pod for pod in facts.pods if pod.unscheduled is not None and not pod.is_over]
    gated = [pod for pod in pods if _reason_of(pod) == _GATED]
    if gated:
        names = reasons.describe_pods(gated, facts)
        text = f"another controller holds the pods of {names} by a scheduling gate"
        return _make(Reason.HELD, text)
    if not pods or facts.jobset is None:
        return None
    numbers, replicas = Counter(pod.role for pod in pods), facts.jobset.replicas
    counts = {role: (n, max(n, replicas.get(role, 0))) for role, n in numbers.items()}
    messages = [pod.unscheduled.message for pod in pods if pod.unscheduled]
    return Obstacle(reasons.explain_unscheduled(counts, messages))


def _reason_of(pod: PodFacts) -> str:
    return pod.unscheduled.reason if pod.unscheduled else ""


def _find_other_waiting(facts: KubernetesFacts) -> Obstacle | None:
    """Return any other reason that a kubelet gives for a container that waits."""
    pods = _pods_with(facts, lambda c: bool(c.waiting) and c.waiting not in _NO_TROUBLE)
    if pods:
        container = pods[0][1]
        why = f"{container.waiting}: {reasons.describe_start(container.message)}"
        return _make(Reason.NOT_STARTING, f"{_name(pods, facts)} cannot start: {why}")
    pod, event = _last_event(facts, _SANDBOX_EVENTS)
    if pod is None or event is None:
        return None
    text = f"{facts.task_name(pod)} cannot start on the node {pod.node}: "
    return _make(Reason.NOT_STARTING, text + reasons.quote(event.message))


_PULLS_WITHOUT: Final = "FailedToRetrieveImagePullSecret"
_SECRET_NAMES: Final = re.compile(r"pull secrets \(([^)]+)\)")
_BAD_IMAGE_NAME: Final = "InvalidImageName"
_IMAGE_TROUBLE: Final = frozenset(
    {
        "ErrImagePull",
        "ImagePullBackOff",
        "ErrImageNeverPull",
        "ImageInspectError",
        "RegistryUnavailable",
        "SignatureValidationFailed",
    }
)
_SUB_PATH: Final = "subPath"
_CONFIG_TROUBLE: Final = frozenset({"CreateContainerConfigError"})
#: What a container that starts as usual waits for.
_NO_TROUBLE: Final = frozenset({"ContainerCreating", "PodInitializing"})
_GATED: Final = "SchedulingGated"
_VOLUME_EVENTS: Final = frozenset({"FailedMount", "FailedAttachVolume", "FailedMapVolume"})
_SANDBOX_EVENTS: Final = frozenset({"FailedCreatePodSandBox", "NetworkNotReady"})

#: In the order in which obstacles are reported.
_FINDERS: Final[tuple[Callable[[KubernetesFacts], Obstacle | None], ...]] = (
    _find_other_controller,
    _find_start_error,
    _find_bad_image_name,
    _find_refusal,
    find_image_trouble,
    _find_config_trouble,
    _find_volume_trouble,
    _find_unscheduled,
    _find_other_waiting,
)


def _pods_with(
    facts: KubernetesFacts, is_affected: Callable[[ContainerFacts], bool]
) -> list[tuple[PodFacts, ContainerFacts]]:
    """Return the pods with an affected container, each with its first one."""
    pods = ((pod, next(filter(is_affected, pod.containers), None)) for pod in facts.pods)
    return [(pod, container) for pod, container in pods if container and not pod.is_deleting]


def _name(pods: Iterable[tuple[PodFacts, ContainerFacts]], facts: KubernetesFacts) -> str:
    return reasons.describe_pods((pod for pod, _ in pods), facts)


def _last_event(
    facts: KubernetesFacts, wanted: frozenset[str]
) -> tuple[PodFacts | None, EventFacts | None]:
    """Return the last event of some kinds about a pod that waits on its node."""
    waiting: Mapping[str, PodFacts] = {
        pod.name: pod for pod in facts.pods if pod.node and not pod.has_started and not pod.is_over
    }
    events = (e for e in reversed(facts.events) if e.reason in wanted and e.name in waiting)
    event = next(events, None)
    return (waiting[event.name], event) if event else (None, None)


def _make(
    reason: Reason, text: str, *, heals: bool = True, is_bad_request: bool = False
) -> Obstacle:
    return Obstacle(Explanation(reason=reason, message=text), heals, is_bad_request)
