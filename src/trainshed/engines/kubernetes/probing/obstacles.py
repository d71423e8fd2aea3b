"""Finds why the pods of a probe do not answer, in the words that jobs get."""

from collections.abc import Iterator, Mapping
from typing import Any, Final

from trainshed.engines.kubernetes import paths
from trainshed.engines.kubernetes.api.client import Client
from trainshed.engines.kubernetes.api.errors import ApiRefused
from trainshed.engines.kubernetes.probing.pods import PROBE
from trainshed.engines.kubernetes.state import kueue, objects, obstacles, reasons
from trainshed.engines.kubernetes.state.facts import KubernetesFacts
from trainshed.engines.kubernetes.state.obstacles import Obstacle
from trainshed.model.attempt import AttemptKey
from trainshed.model.explanation import Explanation, Reason

_KEY: Final = AttemptKey(0, 1)
#: Limits of one list of objects.
_PAGE: Final = 500
_PAGES_MAX: Final = 20


def find_probe_obstacle(facts: KubernetesFacts, waited_s: float) -> Obstacle | None:
    """Return why the pods do not answer; None: no reason is known.  ``waited_s``: until now."""
    if facts.jobset is None:
        return None
    obstacle = None if facts.jobset.is_suspended else obstacles.find_obstacle(facts)
    if facts.jobset.terminal is not None and (obstacle is None or obstacle.heals):
        text = f"{reasons.describe_state(facts)}; check that pods can write files in the claim"
        explanation = Explanation(reason=Reason.NOT_STARTING, message=text)
        return Obstacle(explanation, heals=False)
    if facts.jobset.is_suspended:
        return kueue.explain_suspended(facts, waited_s)
    return obstacle


def read_facts(client: Client, namespace: str, name: str, kueue_version: str) -> KubernetesFacts:
    """Read the objects of a probe.  ``kueue_version`` is empty without Kueue.

    Raises ApiAway or ApiRefused.
    """
    jobset = client.get(paths.jobset(namespace, name))
    uid = str(jobset["metadata"]["uid"])
    pods = list_objects(client, paths.pods(namespace), {"labelSelector": f"{PROBE}={name}"})
    workloads, reads_workloads = _list_workloads(client, namespace, kueue_version)
    return KubernetesFacts(
        key=_KEY,
        name=name,
        uid=uid,
        jobset=objects.read_jobset(jobset),
        pods=objects.read_pods(list(pods), uid, ""),
        events=objects.read_events(list_objects(client, paths.events(namespace), {}), name),
        workload=objects.find_workload(workloads, uid),
        has_kueue=bool(kueue_version),
        reads_workloads=reads_workloads,
    )


def list_objects(
    client: Client, path: str, query: Mapping[str, str]
) -> Iterator[Mapping[str, Any]]:
    """Yield the objects of a list, page by page.  Raises ApiAway or ApiRefused."""
    words = {**query, "limit": str(_PAGE)}
    for _ in range(_PAGES_MAX):
        page = client.get(path, words)
        yield from page.get("items") or ()
        if not (more := (page.get("metadata") or {}).get("continue")):
            return
        words["continue"] = more


def _list_workloads(
    client: Client, namespace: str, version: str
) -> tuple[list[Mapping[str, Any]], bool]:
    """Return Kueue's Workloads, and whether the account may read them."""
    if not version:
        return [], True
    try:
        return list(list_objects(client, paths.workloads(namespace, version), {})), True
    except ApiRefused:
        return [], False
