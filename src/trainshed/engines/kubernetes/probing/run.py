"""Checks a cluster for ``doctor --engine``: the API's answers, then two pods as jobs have them.

The pods answer with files in the shared claim.  So their answers also show whether server and pods
see the same claim, and with which delay.  Afterwards the probe removes its objects and files.
"""

import secrets
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Final

from trainshed.engines.base import EngineFinding
from trainshed.engines.kubernetes import paths
from trainshed.engines.kubernetes.api.client import Client
from trainshed.engines.kubernetes.api.errors import NOT_FOUND, ApiAway, ApiRefused
from trainshed.engines.kubernetes.probing import answers, cluster, pods
from trainshed.engines.kubernetes.probing.exchange import ProbeExchange
from trainshed.engines.kubernetes.probing.obstacles import find_probe_obstacle, read_facts
from trainshed.engines.kubernetes.probing.pods import CONTAINERS, ProbeTarget
from trainshed.engines.kubernetes.start_check import (
    ClusterFacts,
    choose_kueue_version,
    explain_trouble,
)
from trainshed.engines.kubernetes.start_check import read_facts as read_cluster
from trainshed.engines.kubernetes.state.obstacles import Obstacle
from trainshed.engines.kubernetes.state.refusals import judge_refusal
from trainshed.engines.spool import Spool
from trainshed.model.explanation import Reason

#: Seconds to wait for the answers: the cluster may have no free node for a while.
ANSWER_S_MAX: Final = 300.0
#: Seconds for which a trouble other than a lack of nodes may last before the probe gives up.
_PATIENCE_S: Final = 30.0
#: Seconds to wait until the objects of the probe are gone.
_REMOVAL_S: Final = 60.0
_LOOK_S: Final = 0.02
_EXPLAIN_S: Final = 1.0
_STRICT: Final = {"fieldValidation": "Strict"}
_DELETION: Final = {
    "apiVersion": "v1",
    "kind": "DeleteOptions",
    "propagationPolicy": "Foreground",
}
#: Reasons that pass when other jobs end.
_PASSING: Final = frozenset({Reason.CAPACITY, Reason.QUOTA, Reason.ENGINE_QUEUE, Reason.DRAINED})
_PODS: Final = "the claim in pods, the interpreter, owners, clocks, names of pods, the first line"


def probe(
    client: Client, target: ProbeTarget, spool: Spool, *, answer_s_max: float = ANSWER_S_MAX
) -> Iterator[EngineFinding]:
    """Yield the findings of the API, then those of pods.  Raises OSError if the API is away."""
    facts = read_cluster(client, target.options, target.namespace)
    yield from cluster.judge_cluster(client, facts, target)
    if explain_trouble(facts) or facts.missing_queues:
        yield _explain_unchecked("jobs cannot start", "correct the findings above")
    elif not target.options.probe_image:
        yield _explain_unchecked(
            "no image is set for the pods of the probe",
            "set `probe_image` in the [[engine]] table to an image that the nodes can pull; an "
            "image needs no content",
        )
    else:
        yield from _Probe(client, target, spool, facts, answer_s_max).run()


def _explain_unchecked(why: str, advice: str) -> EngineFinding:
    return EngineFinding(
        "answer", is_well=False, found=f"not checked, because {why}: {_PODS}", advice=advice
    )


class _Probe:
    """One run of the two pods."""

    def __init__(
        self,
        client: Client,
        target: ProbeTarget,
        spool: Spool,
        facts: ClusterFacts,
        answer_s_max: float,
    ) -> None:
        self._client = client
        self._target = target
        self._kueue = choose_kueue_version(facts.kueue_versions) if facts.kueue_versions else ""
        self._answer_s_max = answer_s_max
        self._name = f"ts-probe-{secrets.token_hex(4)}"
        self._exchange = ProbeExchange(Path(spool.server_path, self._name))
        self._posted_s = 0.0

    def run(self) -> Iterator[EngineFinding]:
        """Start the pods, wait for their answers, remove all objects and files."""
        self._exchange.open()
        try:
            findings = list(self._examine_pods())
        finally:
            is_removed = self._remove()
            self._exchange.close()
        yield from findings
        if not is_removed:
            yield EngineFinding(
                "removal",
                is_well=False,
                found=f"the JobSet {self._name} is still there after {_REMOVAL_S:g} s",
                advice=f"kubectl -n {self._target.namespace} delete jobset {self._name}",
            )

    def _examine_pods(self) -> Iterator[EngineFinding]:
        jobset = pods.compose_probe(self._target, self._name)
        self._posted_s = time.time()
        try:
            self._client.post(paths.jobsets(self._target.namespace), jobset, _STRICT)
        except ApiRefused as refusal:
            text = judge_refusal(refusal.message).text
            yield _explain_task(f"the cluster refuses the JobSet of the probe: {text}")
            return
        obstacle = self._await_answers()
        if not self._exchange.is_complete:
            yield _explain_task(self._describe_missing(obstacle))
            return
        yield from answers.judge_answers(
            self._exchange.answers,
            posted_s=self._posted_s,
            server_user=self._target.runtime.user,
        )

    def _await_answers(self) -> Obstacle | None:
        """Wait for all answers; return the obstacle that was last observed."""
        began_s = explained_s = time.monotonic()
        obstacle, since_s = None, began_s
        while time.monotonic() - began_s < self._answer_s_max:
            self._exchange.look()
            if self._exchange.is_complete:
                return None
            now_s = time.monotonic()
            if now_s - explained_s >= _EXPLAIN_S:
                explained_s = now_s
                before, obstacle = obstacle, self._find_obstacle(now_s - began_s)
                is_same = before is not None and obstacle is not None
                since_s = since_s if is_same else now_s
                if obstacle is not None and _is_final(obstacle, now_s - since_s):
                    return obstacle
            time.sleep(_LOOK_S)
        return obstacle

    def _find_obstacle(self, waited_s: float) -> Obstacle | None:
        try:
            facts = read_facts(self._client, self._target.namespace, self._name, self._kueue)
        except ApiRefused:
            return None
        return find_probe_obstacle(facts, waited_s)

    def _describe_missing(self, obstacle: Obstacle | None) -> str:
        missing = [name for name in CONTAINERS if name not in self._exchange.answers]
        why = obstacle.explanation.message if obstacle else "the cluster gives no reason"
        return f"no answer of the container {', '.join(missing)}: {why}"

    def _remove(self) -> bool:
        """Delete the JobSet and wait until it is gone; return whether it is."""
        path = paths.jobset(self._target.namespace, self._name)
        until_s = time.monotonic() + _REMOVAL_S
        with suppress(ApiAway, ApiRefused):
            self._client.delete(path, _DELETION)
        while time.monotonic() < until_s:
            try:
                self._client.get(path)
            except ApiRefused as refusal:
                return refusal.reason == NOT_FOUND
            except ApiAway:
                pass
            time.sleep(_LOOK_S)
        return False


def _is_final(obstacle: Obstacle, lasted_s: float) -> bool:
    """Return whether waiting longer is of no use."""
    is_passing = obstacle.explanation.reason in _PASSING
    return not obstacle.heals or (not is_passing and lasted_s >= _PATIENCE_S)


def _explain_task(text: str) -> EngineFinding:
    return EngineFinding(
        "pods of the probe",
        is_well=False,
        found=text,
        advice="correct this; jobs on the cluster meet the same obstacle",
    )
